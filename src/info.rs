//! What runs here, in words: the routes of a job, and what `transom-info` says of the machine.

use std::fmt::Write;

use crate::error::{ErrorKind, Result};
use crate::job::{JobCore, Route};
pub use crate::plan::Amos;
use crate::plan::{self, Actor};
use crate::settings::Settings;
pub use crate::settings::{VARIABLES, Variable};
use crate::wire::{Lane, Net};

/// What was found to work on a machine, for [`outlook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Processes can map each other's memory.
    pub shm: bool,
    /// Whether a net can be opened; where it can, what atomics it has.
    pub net: Option<Amos>,
}

/// The route and the atomicity actor that a window would get for two ranks of a machine, by the rules that [`crate::init`]
/// follows, under the `TRANSOM_` variables that `get` reads.
///
/// # Errors
/// A variable has no meaning, or the job could not start; why, in words.
pub fn outlook(found: Found, get: impl Fn(&str) -> Option<String>) -> Result<(Route, Actor)> {
    let settings = Settings::read(get)?;
    let unable = |why: String| ErrorKind::Job(why).into();
    if settings.shm && found.shm {
        let actor = plan::actor(settings.atomics, &[0, 0], Amos::None).map_err(unable)?;
        return Ok((Route::Shm, actor));
    }
    let amos = match found.net {
        _ if !settings.ofi => return Err(unable("shared memory can't be used, and ofi is excluded".into())),
        None => return Err(unable("a net is needed, and libfabric can't be used".into())),
        Some(amos) => amos,
    };
    Ok((Route::Net, plan::actor(settings.atomics, &[0, 1], amos).map_err(unable)?))
}

/// What `TRANSOM_INFO=1` prints.
pub(crate) fn of_job(job: &JobCore) -> String {
    let mut text = String::new();
    let near = (0..job.size).filter(|&rank| job.lane(rank) == Some(Lane::Shm)).count();
    let far = job.size - 1 - near;
    // Writing to a String can't fail.
    let _ = writeln!(text, "transom {}: {} ranks", env!("CARGO_PKG_VERSION"), job.size);
    let _ = writeln!(text, "  rank {} itself: own memory", job.rank);
    if near > 0 {
        let _ = writeln!(text, "  {near} ranks of its node: shared memory");
    }
    if let Some(net) = job.wire.net() {
        let passive = if net.passive_target() { "serves idle targets by itself" } else { "needs the progress thread" };
        let _ = writeln!(text, "  {far} other ranks: {}, which {passive}", Net::name(net));
    }
    let _ = writeln!(text, "  atomics of windows over all ranks: {}", job.actor);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(shm: bool, net: Option<Amos>, variables: &[(&str, &str)]) -> Option<(Route, Actor)> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        outlook(Found { shm, net }, value).ok()
    }

    /// Shows T5.
    #[test]
    fn the_outlook_follows_what_is_there_and_what_is_set() {
        let excluded = ("TRANSOM_TRANSPORTS", "^shm");
        assert_eq!(told(true, Some(Amos::Native), &[]), Some((Route::Shm, Actor::Cpu)));
        assert_eq!(told(false, Some(Amos::Native), &[]), Some((Route::Net, Actor::Nic)));
        assert_eq!(told(true, Some(Amos::Native), &[excluded]), Some((Route::Net, Actor::Nic)));
        assert_eq!(told(true, Some(Amos::Software), &[excluded]), Some((Route::Net, Actor::Cpu)));
        assert_eq!(
            told(true, Some(Amos::Native), &[excluded, ("TRANSOM_ATOMICS", "cpu")]),
            Some((Route::Net, Actor::Cpu))
        );
    }

    /// Shows T5.
    #[test]
    fn what_could_not_start_is_an_error() {
        assert_eq!(told(true, None, &[("TRANSOM_TRANSPORTS", "^shm")]), None);
        assert_eq!(told(false, Some(Amos::Native), &[("TRANSOM_TRANSPORTS", "shm")]), None);
        assert_eq!(told(true, Some(Amos::Native), &[("TRANSOM_ATOMICS", "nic")]), None);
        assert_eq!(told(true, Some(Amos::Native), &[("TRANSOM_TRANSPORTS", "infiniband")]), None);
    }
}

//! The routes and the actor that a job would use on this machine, from the transports that
//! `transom-info` finds, the addresses, and the `TRANSOM_` variables.

use std::ffi::OsString;

use crate::environment::{self, Settings};
pub use crate::environment::{VARIABLES, Variable};
use crate::error::{JobError, Result};
use crate::interfaces;
pub use crate::routes::Amos;
pub use crate::routes::NetAtomics;
use crate::routes::{self, Actor};

/// The transports that work on a machine, for [`outlook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whether processes can map each other's memory.
    pub shm: bool,
    /// The atomics of the RDMA device that can be opened; `None` if none can.
    pub verbs: Option<NetAtomics>,
    /// The atomics of libfabric's provider that can be opened; `None` if none can.
    pub ofi: Option<NetAtomics>,
}

/// The transport and actor that a window would use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The way between the window's ranks, in words.
    pub route: &'static str,
    /// The actor that performs the window's atomics.
    pub actor: Actor,
}

/// Checks that the `TRANSOM_` variables of this process have legal values: for a program that joins
/// a job by [`Job::with_bootstrap`](crate::Job::with_bootstrap) and must not leave the other ranks
/// waiting.
///
/// # Errors
/// `InfoValue` for the first variable with an illegal value.
pub fn check_variables() -> Result<()> {
    Settings::read(|name| std::env::var_os(name)).map(drop)
}

/// The route and the atomicity actor of a window of two ranks of a machine, by the rules that
/// [`crate::init`] follows, under the `TRANSOM_` variables that `get` reads.
///
/// # Errors
/// The reason, in words: a variable has an illegal value, or the job could not start.
pub fn outlook(found: Found, get: impl Fn(&str) -> Option<OsString>) -> Result<Outlook> {
    let settings = Settings::read(get)?;
    if settings.shm && found.shm {
        let actor = routes::actor(settings.atomics, true, NetAtomics::NO_NET).map_err(JobError::from)?;
        return Ok(Outlook { route: "shared memory", actor });
    }
    let (route, net) = match (found.verbs.filter(|_| settings.verbs), found.ofi.filter(|_| settings.ofi)) {
        (Some(net), _) => ("verbs", net),
        (None, Some(net)) => ("libfabric", net),
        (None, None) => return Err(JobError::NoNet.into()),
    };
    Ok(Outlook { route, actor: routes::actor(settings.atomics, false, net).map_err(JobError::from)? })
}

/// The addresses of this machine that ranks of other machines may use to reach it, the best first,
/// under the variables that `get` reads. Each has the form `interface=address/prefix`.
///
/// # Errors
/// A variable has an illegal value, or an interface does not exist.
pub fn addresses(get: impl Fn(&str) -> Option<OsString>) -> Result<Vec<String>> {
    let list = Settings::read(get)?.interfaces;
    let own = interfaces::own(list.as_deref());
    let own = own.map_err(|reason| environment::invalid_interfaces(list.as_deref().unwrap_or_default(), reason))?;
    Ok(own.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(shm: bool, nets: [Option<NetAtomics>; 2], variables: &[(&str, &str)]) -> Option<(&'static str, Actor)> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        let [verbs, ofi] = nets;
        outlook(Found { shm, verbs, ofi }, value).map(|Outlook { route, actor }| (route, actor)).ok()
    }

    const fn net(amos: Amos, coherent: bool) -> Option<NetAtomics> {
        Some(NetAtomics { amos, coherent })
    }

    const OFI: [Option<NetAtomics>; 2] = [None, net(Amos::Native, false)];
    const BOTH: [Option<NetAtomics>; 2] = [net(Amos::Words, false), net(Amos::Software, false)];
    const COHERENT: [Option<NetAtomics>; 2] = [net(Amos::Words, true), None];

    /// Shows T5.
    #[test]
    fn the_outlook_follows_transports_and_variables() {
        let excluded = ("TRANSOM_TRANSPORTS", "^shm");
        assert_eq!(expected(true, OFI, &[]), Some(("shared memory", Actor::Cpu)));
        assert_eq!(expected(false, OFI, &[]), Some(("libfabric", Actor::Nic)));
        assert_eq!(expected(true, OFI, &[excluded]), Some(("libfabric", Actor::Nic)));
        assert_eq!(expected(true, BOTH, &[excluded]), Some(("verbs", Actor::Nic)));
        assert_eq!(expected(true, COHERENT, &[excluded]), Some(("verbs", Actor::Both)));
        assert_eq!(expected(true, BOTH, &[("TRANSOM_TRANSPORTS", "ofi")]), Some(("libfabric", Actor::Cpu)));
        assert_eq!(expected(true, OFI, &[excluded, ("TRANSOM_ATOMICS", "cpu")]), Some(("libfabric", Actor::Cpu)));
    }

    /// Shows T5.
    #[test]
    fn a_job_that_could_not_start_is_an_error() {
        assert_eq!(expected(true, [None, None], &[("TRANSOM_TRANSPORTS", "^shm")]), None);
        assert_eq!(expected(true, OFI, &[("TRANSOM_TRANSPORTS", "verbs")]), None);
        assert_eq!(expected(false, BOTH, &[("TRANSOM_TRANSPORTS", "shm")]), None);
        assert_eq!(expected(true, OFI, &[("TRANSOM_ATOMICS", "nic")]), None);
        assert_eq!(expected(true, OFI, &[("TRANSOM_TRANSPORTS", "infiniband")]), None);
    }
}

//! What runs here, in words: the routes of a job, and what `transom-info` says of the machine.

use std::fmt::Write;

use crate::job::JobCore;
pub use crate::settings::{VARIABLES, Variable};
use crate::wire::{Lane, Net};

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

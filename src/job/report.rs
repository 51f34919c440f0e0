//! The routes of a job in words, and the warning of a rank that waits at the end of the job.

use std::fmt::Write;
use std::sync::mpsc::Sender;
use std::time::Duration;

use transom_fabric::diagnostics;

use super::JobCore;
use crate::routes;
use crate::sync::counters;
use crate::transport::{Lane, Net};

/// Time after which a rank that has dropped its job warns that it waits for the other ranks.
const LATE: Duration = Duration::from_secs(20);

/// Prints a line if the returned value is not dropped within [`LATE`]: a rank that has dropped its
/// job, perhaps because of an error that it has not printed yet, waits until the others leave.
pub(super) fn tell_if_late(rank: usize, size: usize) -> Option<Sender<()>> {
    let what = "dropped its job without Job::finalize, and waits until the other ranks leave theirs; if it failed, its \
                error is printed afterwards";
    (size > 1).then(|| diagnostics::warn_after(LATE, "transom::job", format!("rank {rank}: {what}")))
}

/// The text that `TRANSOM_INFO=1` prints.
pub(super) fn in_words(job: &JobCore) -> String {
    let mut text = String::new();
    let on_node = (0..job.size).filter(|&rank| job.lane(rank) == Some(Lane::Shm)).count();
    let remote = job.size - 1 - on_node;
    // Writing to a String can't fail.
    let _ = writeln!(text, "transom {}: {} ranks", env!("CARGO_PKG_VERSION"), job.size);
    let _ = writeln!(text, "  rank {} itself: own memory", job.rank);
    if on_node > 0 {
        let _ = writeln!(text, "  {on_node} ranks of its node: shared memory");
        let _ = match (job.wire.maps_user_memory(), job.may_attach()) {
            (Ok(()), _) => writeln!(text, "  their user memory: mapped by XPMEM"),
            (Err(why), true) => {
                writeln!(text, "  their user memory: by cross-memory attach if the kernel permits it, since {why}")
            }
            (Err(why), false) => writeln!(text, "  their user memory: by messages (TRANSOM_CMA is n), since {why}"),
        };
    }
    if let Some(net) = job.wire.net() {
        let passive = if net.passive_target() { "serves idle targets by itself" } else { "needs the progress thread" };
        let at = if net.uses_ip() { format!(" at {}", job.presence.source) } else { String::new() };
        let _ = writeln!(text, "  {remote} other ranks: {}{at}, which {passive}", Net::name(net));
        if let Some(why) = &job.presence.unused {
            let _ = writeln!(text, "  its devices are not used: {why}");
        }
        if let Some(paths) = net.paths() {
            let _ = writeln!(text, "  its paths: {paths}");
        }
        if let Some(resources) = net.resources() {
            let _ = writeln!(text, "  its resources: {resources}");
        }
        let kib = |bytes: usize| bytes.div_ceil(1 << 10);
        let (words, counters) = (kib(job.block.memory().len()), kib(counters::BYTES));
        let _ = writeln!(
            text,
            "  its control memory: {words} KiB registered at each rank, and {counters} KiB more for a window with counters"
        );
    }
    let one_node = remote == 0;
    let why = routes::reason(job.settings.atomics, one_node, job.atomics);
    let _ = writeln!(text, "  atomics of windows over all ranks: {}, since {why}", job.actor(&job.world));
    text
}

/// The text that `TRANSOM_INFO=1` prints when the job ends; `None` if it prints none.
pub(super) fn at_the_end(job: &JobCore) -> Option<String> {
    let resources = job.wire.net()?.resources()?;
    Some(format!("transom: rank {} ends with {resources}\n", job.rank))
}

//! The warning that a rank prints if it waits over sockets and has no free descriptor. A connection
//! takes a descriptor at both ends. Without one the provider accepts no connection and reports
//! nothing, so both ends may wait for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use transom_fabric::diagnostics;

/// The length of a wait after which the rank looks for a free descriptor.
const QUIET: Duration = Duration::from_secs(2);
/// The longest time between two looks of one wait.
const GAP: Duration = Duration::from_secs(1);

/// The waits of a rank that may need a descriptor.
pub(super) struct Descriptors {
    rank: usize,
    begun: Instant,
    /// The beginning of the wait, in milliseconds since `begun`; 0 after progress.
    since: AtomicU64,
    /// The time of the last look, in milliseconds since `begun`.
    last: AtomicU64,
    warned: AtomicBool,
}

impl Descriptors {
    pub(super) fn new(rank: usize) -> Descriptors {
        Descriptors {
            rank,
            begun: Instant::now(),
            since: AtomicU64::new(0),
            last: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        }
    }

    /// Looks for a free descriptor if this function was called repeatedly for [`QUIET`] without a
    /// call of [`progressed`](Descriptors::progressed), and warns once if there is none.
    pub(super) fn look(&self) {
        // Relaxed for all operations: they only choose the time of a look.
        if self.warned.load(Ordering::Relaxed) || !self.is_time(self.begun.elapsed()) {
            return;
        }
        if is_lacking() && !self.warned.swap(true, Ordering::Relaxed) {
            diagnostics::warn("transom::progress", &message(self.rank));
        }
    }

    /// Whether a wait has lasted for [`QUIET`] at `now`, which is after `begun`.
    fn is_time(&self, now: Duration) -> bool {
        let now = millis(now).max(1);
        // Relaxed for all operations: they only choose the time of a look.
        let last = self.last.swap(now, Ordering::Relaxed);
        let since = self.since.load(Ordering::Relaxed);
        let is_new = since == 0 || now.saturating_sub(last) > millis(GAP);
        let is_time = !is_new && now.saturating_sub(since) >= millis(QUIET);
        if is_new || is_time {
            self.since.store(now, Ordering::Relaxed);
        }
        is_time
    }

    /// Ends the wait: an awaited event has come.
    pub(super) fn progressed(&self) {
        // Relaxed: as in `look`.
        self.since.store(0, Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether no descriptor is free, in the process or in the system.
fn is_lacking() -> bool {
    matches!(eventfd(0, EventfdFlags::CLOEXEC), Err(Errno::MFILE | Errno::NFILE))
}

fn message(rank: usize) -> String {
    let limit = getrlimit(Resource::Nofile);
    let words = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    format!(
        "rank {rank} waits over sockets and has no free descriptor: ranks that have no connection to it can't connect, \
         and may wait for ever; its limit of open files (RLIMIT_NOFILE) is {}, the hard limit {}: raise the limit \
         (ulimit -n), or close files",
        words(limit.current),
        words(limit.maximum)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_wait_without_progress_looks() {
        let descriptors = Descriptors::new(0);
        let looks = |from: u64, to: u64| -> Vec<u64> {
            (from..to).step_by(200).filter(|&at| descriptors.is_time(Duration::from_millis(at))).collect()
        };
        assert_eq!(looks(1000, 7500), [3000, 5000, 7000]);
        descriptors.progressed();
        assert!(looks(8000, 9900).is_empty());
        assert!(looks(12000, 13900).is_empty(), "a new wait");
        assert_eq!(looks(14000, 14100), [14000]);
    }

    #[test]
    fn the_message_names_the_rank_and_the_limit() {
        let words = message(3);
        for part in ["rank 3", "no free descriptor", "RLIMIT_NOFILE", "ulimit -n"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}

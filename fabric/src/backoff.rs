//! Pauses of threads that repeat an attempt until another process has done something. Must not know
//! transports.

use std::time::Duration;

/// Yields before the first sleep, if processes share CPUs: a thread that only yields takes CPU time
/// from the process for which it waits.
const YIELDS_CROWDED: u32 = 16;
/// Yields before the first sleep, if each process has a CPU: about 1 ms.
const YIELDS: u32 = 1024;
/// The first sleep, and how often it doubles.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const DOUBLINGS: u32 = 3;
/// Sleeps of one length before the length doubles. After the first eight, a sleep is at most a
/// quarter of the time already slept, apart from the kernel's timer slack (50 us, prctl(2)).
const BEFORE_DOUBLING: u32 = 8;

/// Pauses after a failed attempt: yields the CPU at first, later sleeps. `failed`: the number of
/// failed attempts since the last progress. `crowded`: processes share CPUs.
pub fn pause(failed: u32, crowded: bool) {
    pause_by(failed, crowded, std::thread::sleep);
}

/// [`pause`] that sleeps by `sleep`, which may return early.
pub fn pause_by(failed: u32, crowded: bool, sleep: impl FnOnce(Duration)) {
    match sleep_of(failed, crowded) {
        None => std::thread::yield_now(),
        Some(time) => sleep(time),
    }
}

/// The number of polls of a wait that have found nothing since the last progress.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Vain(u32);

impl Vain {
    /// Counts a poll. `progressed`: the poll has found progress. Returns the number of polls
    /// without progress since the last one with progress.
    pub fn looked(&mut self, progressed: bool) -> u32 {
        self.0 = if progressed { 0 } else { self.0.wrapping_add(1) };
        self.0
    }
}

/// The time for which [`pause`] sleeps; `None` if it yields.
fn sleep_of(failed: u32, crowded: bool) -> Option<Duration> {
    let sleeps = failed.checked_sub(if crowded { YIELDS_CROWDED } else { YIELDS })?;
    Some(FIRST_SLEEP * (1 << (sleeps / BEFORE_DOUBLING).min(DOUBLINGS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait with steady progress never sleeps, however long it takes.
    #[test]
    fn progress_begins_the_count_again() {
        let mut vain = Vain::default();
        let most = (0..10_000).map(|look| vain.looked(look % 16 == 15)).max();
        assert_eq!(most, Some(15));
        assert!((0..=15).all(|failed| sleep_of(failed, true).is_none()));
        assert_eq!([false, false, true, false].map(|progressed| vain.looked(progressed)), [1, 2, 0, 1]);
    }

    #[test]
    fn long_waits_sleep_longer_up_to_a_limit() {
        let micros = |failed, crowded| sleep_of(failed, crowded).map(|time| time.as_micros());
        assert_eq!((micros(0, true), micros(15, true), micros(1023, false)), (None, None, None));
        assert_eq!((micros(16, true), micros(1024, false)), (Some(20), Some(20)));
        assert_eq!((micros(23, true), micros(24, true)), (Some(20), Some(40)));
        assert_eq!((micros(200, true), micros(u32::MAX, false)), (Some(160), Some(160)));
        // Each sleep is short in comparison with the preceding ones.
        let mut waited = Duration::from_micros(160);
        for failed in 24..1000 {
            let time = sleep_of(failed, true).expect("a sleep");
            assert!(time * 4 <= waited, "{failed}: {time:?} after {waited:?}");
            waited += time;
        }
    }
}

//! The time for which an action has failed repeatedly. Of the time between two attempts at most
//! one second counts, because a suspended process makes no attempts.

use std::time::{Duration, Instant};

/// The longest time between two attempts that counts.
const GAP: Duration = Duration::from_secs(1);

/// Attempts that have all failed.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    last: Instant,
    time: Duration,
}

impl Attempts {
    pub(crate) fn begin(now: Instant) -> Attempts {
        Attempts { last: now, time: Duration::ZERO }
    }

    /// Counts another attempt, which has failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.time += now.saturating_duration_since(self.last).min(GAP);
        self.last = now;
    }

    /// The time from the beginning to the last attempt that has failed.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_an_attempt_counts_little() {
        let begun = Instant::now();
        let mut attempts = Attempts::begin(begun);
        let mut time = |millis| {
            attempts.failed(begun + Duration::from_millis(millis));
            attempts.time()
        };
        assert_eq!([0, 300, 900].map(&mut time), [0, 300, 900].map(Duration::from_millis));
        assert_eq!([100_900, 101_000].map(&mut time), [1900, 2000].map(Duration::from_millis));
        assert_eq!(time(50_000), Duration::from_secs(2), "another thread's time, which is earlier");
    }
}

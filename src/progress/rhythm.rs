//! When the program is likely to make its next calls: a program that computes and then
//! communicates, again and again, does so in a rhythm. Pure; times come from the callers.

use std::time::{Duration, Instant};

/// How much two periods may differ, and how long before and after the expected time the calls may
/// begin.
const MARGIN: Duration = Duration::from_micros(64);
/// Calls that begin sooner after others belong to them.
const APART: Duration = Duration::from_micros(256);
/// Minimum period: in a shorter one, the time around its end would be most of it.
const SHORTEST: Duration = Duration::from_micros(768);
/// Maximum period.
const LONGEST: Duration = Duration::from_millis(200);

/// The beginnings of groups of calls between which the program computes.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    last: Option<Instant>,
    period: Option<Duration>,
    /// Whether the last two periods were alike.
    steady: bool,
}

impl Rhythm {
    /// Calls began at `at`.
    pub(super) fn began(&mut self, at: Instant) {
        let Some(last) = self.last else {
            self.last = Some(at);
            return;
        };
        let period = at.saturating_duration_since(last);
        if period < APART {
            return;
        }
        let are_alike = self.period.is_some_and(|before| before.abs_diff(period) <= MARGIN);
        self.steady = are_alike && (SHORTEST..=LONGEST).contains(&period);
        self.period = Some(period);
        self.last = Some(at);
    }

    /// The time until the next calls are expected; `None` if they are not, or should have come.
    pub(super) fn until_expected(&self, now: Instant) -> Option<Duration> {
        let next = self.next()?;
        (now < next - MARGIN).then(|| next - MARGIN - now)
    }

    /// If the next calls are expected to begin at this time: the rest of this time.
    pub(super) fn rest_of_expected(&self, now: Instant) -> Option<Duration> {
        let next = self.next()?;
        (next - MARGIN <= now && now < next + MARGIN).then(|| next + MARGIN - now)
    }

    fn next(&self) -> Option<Instant> {
        Some(self.last? + self.period.filter(|_| self.steady)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rhythm(start: Instant, beginnings: &[u32]) -> Rhythm {
        let mut rhythm = Rhythm::default();
        beginnings.iter().for_each(|&micros| rhythm.began(start + Duration::from_micros(micros.into())));
        rhythm
    }

    #[test]
    fn calls_are_expected_after_two_like_periods() {
        let start = Instant::now();
        assert_eq!(rhythm(start, &[]).until_expected(start), None);
        assert_eq!(rhythm(start, &[0, 1000]).until_expected(start + MS), None, "one period is no rhythm");
        assert_eq!(rhythm(start, &[0, 1000, 2500]).until_expected(start + 2 * MS), None, "the periods differ");
        // The call at 2020 us belongs to those at 2000 us.
        let steady = rhythm(start, &[0, 1010, 2000, 2020]);
        let next = start + 2 * MS + Duration::from_micros(990);
        assert_eq!(steady.until_expected(next - MS), Some(MS - MARGIN));
        assert_eq!((steady.until_expected(next), steady.rest_of_expected(next)), (None, Some(MARGIN)));
        assert_eq!((steady.until_expected(next + MARGIN), steady.rest_of_expected(next + MARGIN)), (None, None));
    }

    #[test]
    fn rare_and_frequent_calls_have_no_rhythm() {
        let start = Instant::now();
        assert_eq!(rhythm(start, &[0, 300, 600]).until_expected(start), None);
        assert_eq!(rhythm(start, &[0, 300_000, 600_000]).until_expected(start), None);
    }
}

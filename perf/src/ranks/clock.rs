//! Times of single operations, and their percentiles over all ranks.

use std::time::Instant;

use transom::{Job, ops};

use crate::outcome::Outcome;

/// Buckets for each doubling of the time. The times within a bucket differ by at most 3 per cent.
const FINE: u32 = 5;
/// Number of doublings, beginning at one nanosecond.
const DOUBLINGS: usize = 40;

/// The reported percentiles, in tenths of a per cent.
pub(super) const SHARES: [u64; 4] = [500, 900, 990, 999];

/// The clock that records the end of an operation, if it is timed.
pub(super) type Tick<'c> = Option<&'c mut Clock>;

/// A histogram of the times of operations.
pub(super) struct Clock {
    last: Instant,
    buckets: Vec<u64>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock { last: Instant::now(), buckets: vec![0; DOUBLINGS << FINE] }
    }

    /// Records the beginning of the first operation.
    pub(super) fn start(&mut self) {
        self.last = Instant::now();
    }

    /// Records the end of an operation, which is the beginning of the next one.
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        let nanoseconds = u64::try_from((now - self.last).as_nanos()).unwrap_or(u64::MAX);
        let last = self.buckets.len() - 1;
        self.buckets[bucket(nanoseconds).min(last)] += 1;
        self.last = now;
    }

    /// The percentiles over all ranks, in us. Collective.
    pub(super) fn percentiles(mut self, world: &Job) -> Outcome<[f64; 4]> {
        world.all_reduce(&mut self.buckets, ops::Sum)?;
        Ok(SHARES.map(|share| longest(&self.buckets, share)))
    }
}

#[allow(clippy::cast_possible_truncation)] // below 64
fn bucket(nanoseconds: u64) -> usize {
    let value = nanoseconds.max(1);
    let doubling = value.ilog2();
    let within = if doubling >= FINE { value >> (doubling - FINE) } else { value << (FINE - doubling) };
    ((doubling as usize) << FINE) + (within as usize & ((1 << FINE) - 1))
}

/// The upper bound of a bucket, in us.
fn most(bucket: usize) -> f64 {
    let (doubling, within) = (bucket >> FINE, bucket & ((1 << FINE) - 1));
    let steps = f64::from(1 << FINE);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // below 41
    let time = 2f64.powi(doubling as i32) * (1.0 + (within as f64 + 1.0) / steps);
    time / 1000.0
}

/// The time in us that this share of the operations did not exceed; 0 without operations.
fn longest(buckets: &[u64], share: u64) -> f64 {
    let all: u64 = buckets.iter().sum();
    let wanted = (all * share).div_ceil(1000);
    let mut seen = 0;
    let found = buckets.iter().position(|count| {
        seen += count;
        seen >= wanted && wanted > 0
    });
    found.map_or(0.0, most)
}

/// The number of operations in flight: `most`, or 1 if each operation is timed.
pub(super) fn flight(clock: &Tick<'_>, most: usize) -> usize {
    if clock.is_some() { 1 } else { most }
}

/// Records the end of an operation if there is a clock.
#[inline]
pub(super) fn tick(clock: &mut Tick<'_>) {
    if let Some(clock) = clock {
        clock.tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_times_that_are_nearly_equal() {
        let mut last = 0;
        for nanoseconds in 1..100_000u64 {
            let at = bucket(nanoseconds);
            assert!(at >= last, "{nanoseconds}");
            last = at;
            #[allow(clippy::cast_precision_loss)]
            let ratio = most(at) * 1000.0 / nanoseconds as f64;
            assert!((1.0..=1.04).contains(&ratio), "{nanoseconds}: {ratio}");
        }
        assert!(bucket(u64::MAX >> 25) < DOUBLINGS << FINE);
    }

    #[test]
    fn shares_are_of_all_operations() {
        let mut buckets = vec![0; DOUBLINGS << FINE];
        buckets[bucket(100)] = 990;
        buckets[bucket(1000)] = 9;
        buckets[bucket(10_000)] = 1;
        let at = |share| longest(&buckets, share);
        assert!(at(500) < 0.11 && at(990) < 0.11 && at(990) >= 0.1);
        assert!((1.0..1.04).contains(&at(999)) && (10.0..10.4).contains(&at(1000)));
        assert!(longest(&[0; 8], 500).abs() < f64::EPSILON);
    }
}

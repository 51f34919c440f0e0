//! Timing. Rounds of the library and of the floor alternate within one run, so that other processes
//! disturb both equally. If the floor itself would disturb the library, its rounds come after those
//! of the library. The result is the median of the rounds' times. Rounds are short, so that a rare
//! disturbance hits few of them and does not change the median.

use std::time::{Duration, Instant};

use crate::outcome::Outcome;

/// Rounds of each kind, at least.
const ROUNDS: usize = 15;
/// Duration of a round, if there are enough operations: long enough that reading the clock is
/// negligible, and short enough that a rare disturbance affects few rounds.
const ROUND: Duration = Duration::from_micros(100);
/// Time limit of one size.
const BUDGET: Duration = Duration::from_secs(2);

/// Quantiles of the time of one operation over the rounds, in nanoseconds.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Times {
    /// The median round.
    pub(crate) median_ns: f64,
    /// The best round.
    pub(crate) min_ns: f64,
    /// Nine of ten rounds were at most this long.
    pub(crate) p90_ns: f64,
    /// The worst round.
    pub(crate) max_ns: f64,
    /// Operations in all rounds.
    pub(crate) iterations: usize,
}

/// Numbers of operations of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Operations in all rounds.
    pub(crate) iterations: usize,
    /// Operations before the first round.
    pub(crate) skip: usize,
    /// Whether all rounds of the library come before the first operation of the floor.
    pub(crate) apart: bool,
}

/// A batch, which performs its operation a number of times.
pub(crate) type Batch<'b> = dyn FnMut(usize) -> Outcome<()> + 'b;

/// Measures the library's batch, and the floor's batch, if there is one, in between or afterwards.
pub(crate) fn alternate(
    counts: Counts,
    library: &mut Batch<'_>,
    floor: Option<&mut Batch<'_>>,
) -> Outcome<(Times, Option<Times>)> {
    if counts.apart
        && let Some(floor) = floor
    {
        let library = alternate(counts, library, None)?.0;
        return Ok((library, Some(alternate(counts, floor, None)?.0)));
    }
    library(counts.skip.max(1))?;
    let each = per_round(counts, library)?;
    let mut samples = (Vec::new(), Vec::new());
    let mut floor = floor;
    let mut floor_each = 0;
    if let Some(floor) = floor.as_mut() {
        floor(counts.skip.max(1))?;
        floor_each = per_round(counts, floor)?;
    }
    let start = Instant::now();
    let goes_on = |rounds| rounds * each < counts.iterations && start.elapsed() < BUDGET;
    while samples.0.len() < ROUNDS || goes_on(samples.0.len()) {
        samples.0.push(timed(each, library)?);
        if let Some(floor) = floor.as_mut() {
            samples.1.push(timed(floor_each, floor)?);
        }
    }
    let floor = (!samples.1.is_empty()).then(|| Times::of(samples.1, floor_each));
    Ok((Times::of(samples.0, each), floor))
}

/// How many operations a round has.
fn per_round(counts: Counts, batch: &mut Batch<'_>) -> Outcome<usize> {
    let most = counts.iterations.div_ceil(ROUNDS).max(1);
    let nanoseconds = timed(most.min(8), batch)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // a rough count
    let fitting = (ROUND.as_nanos() as f64 / nanoseconds.max(0.1)) as usize;
    Ok(fitting.clamp(1, most))
}

fn timed(count: usize, batch: &mut Batch<'_>) -> Outcome<f64> {
    let start = Instant::now();
    batch(count)?;
    #[allow(clippy::cast_precision_loss)] // nanoseconds of seconds fit
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

impl Times {
    /// The times of rounds of `each` operations.
    pub(crate) fn of_durations(rounds: &[Duration], each: usize) -> Times {
        #[allow(clippy::cast_precision_loss)] // nanoseconds of seconds fit
        let samples = rounds.iter().map(|round| round.as_nanos() as f64 / each as f64).collect();
        Times::of(samples, each)
    }

    /// The times from samples: of one operation in each round of `each` operations, in ns.
    pub(crate) fn of(mut samples: Vec<f64>, each: usize) -> Times {
        samples.sort_by(f64::total_cmp);
        let at = |per_cent: usize| samples[(samples.len() - 1) * per_cent / 100];
        Times { median_ns: at(50), min_ns: at(0), p90_ns: at(90), max_ns: at(100), iterations: each * samples.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate_and_counts_are_kept() {
        let (mut library, mut floor) = (0, 0);
        let counts = Counts { iterations: 150, skip: 7, apart: false };
        let (times, bare) = alternate(
            counts,
            &mut |count| {
                library += count;
                Ok(())
            },
            Some(&mut |count| {
                floor += count;
                Ok(())
            }),
        )
        .expect("nothing fails");
        assert_eq!((times.iterations, bare.map(|times| times.iterations)), (150, Some(150)));
        assert_eq!((library, floor), (7 + 8 + 150, 7 + 8 + 150));
    }

    #[test]
    fn apart_the_floor_begins_when_the_library_has_ended() {
        let order = std::cell::RefCell::new(Vec::new());
        let counts = Counts { iterations: 150, skip: 7, apart: true };
        let mut library = |_| {
            order.borrow_mut().push("library");
            Ok(())
        };
        let mut bare = |_| {
            order.borrow_mut().push("floor");
            Ok(())
        };
        let (_, floor) = alternate(counts, &mut library, Some(&mut bare)).expect("nothing fails");
        assert!(floor.is_some());
        let mut order = order.take();
        assert!(order.len() >= 4 * ROUNDS / 2, "{order:?}");
        order.dedup();
        assert_eq!(order, ["library", "floor"]);
    }

    #[test]
    fn a_failing_batch_ends_the_measurement() {
        assert!(alternate(Counts { iterations: 1, skip: 0, apart: false }, &mut |_| Err("no".into()), None).is_err());
    }
}

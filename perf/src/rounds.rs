//! A fixed number of rounds, for tests in which origin and target must run equally many rounds. If
//! each chose by time, they could choose different numbers. Each round of the library has a
//! neighbour of the floor. The ratio of a test is the median of the ratios of neighbours: a
//! disturbance that lasts longer than a round slows both, and a shorter one concerns few rounds.

use std::time::{Duration, Instant};

use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;

/// The number of rounds after the first one, which warms up.
pub(crate) const ROUNDS: usize = 61;

/// The number of operations in a round.
pub(crate) fn per_round(options: &Options) -> usize {
    options.iterations.unwrap_or(12_000).div_ceil(ROUNDS)
}

/// The durations of the rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    library: Vec<Duration>,
    floor: Vec<Duration>,
    /// The failure of a round of the floor. Such a round fails at both ranks, since each waits for
    /// the other.
    floor_failure: Option<Box<dyn std::error::Error>>,
}

/// Alternates rounds of the library and of the floor. `between` comes before each round of the
/// floor, and is not timed. After a failure of the floor, only the rounds of the library go on.
pub(crate) fn alternate_rounds(
    mut library: impl FnMut() -> transom::Result<()>,
    mut between: impl FnMut() -> transom::Result<()>,
    mut floor: impl FnMut() -> Outcome<()>,
) -> transom::Result<Rounds> {
    let mut rounds = Rounds::default();
    for round in 0..=ROUNDS {
        let start = Instant::now();
        library()?;
        let library = start.elapsed();
        between()?;
        let start = Instant::now();
        if rounds.floor_failure.is_none() {
            rounds.floor_failure = floor().err();
        }
        // The first round warms up.
        if round > 0 {
            rounds.library.push(library);
            rounds.floor.push(start.elapsed());
        }
    }
    Ok(rounds)
}

impl Rounds {
    /// The row of operations of 8 bytes, `each` in a round. `has_floor`: whether the floor's rounds
    /// did anything.
    ///
    /// # Errors
    /// The floor's failure.
    pub(crate) fn row(self, each: usize, has_floor: bool) -> Outcome<Row> {
        if let Some(failure) = self.floor_failure {
            return Err(failure);
        }
        let floor = has_floor.then(|| Times::of_durations(&self.floor, each));
        let ratio = has_floor.then(|| median_ratio(&self.library, &self.floor));
        Ok(Row { ratio, ..Row::new(8, Times::of_durations(&self.library, each), floor) })
    }
}

/// The median of the ratios of neighbours.
fn median_ratio(library: &[Duration], floor: &[Duration]) -> f64 {
    let ratio = |(library, floor): (&Duration, &Duration)| library.as_secs_f64() / floor.as_secs_f64().max(1e-9);
    let mut ratios: Vec<f64> = library.iter().zip(floor).map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_of_neighbours_does_not_change_the_ratio() {
        let times = |of: [u64; 5]| of.map(Duration::from_micros);
        // Two rounds are slower by other programs; the medians of all times have the ratio 5.
        let (library, floor) = (times([200, 20, 800, 20, 800]), times([100, 10, 400, 10, 40]));
        assert!((median_ratio(&library, &floor) - 2.0).abs() < 1e-9);
    }
}

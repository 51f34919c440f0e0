//! A fixed number of rounds, for tests in which origin and target must run equally many rounds. If
//! each chose by time, they could choose different numbers.

use std::time::{Duration, Instant};

use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;

const ROUNDS: usize = 15;

/// The number of operations in a round.
pub(crate) fn per_round(options: &Options) -> usize {
    options.iterations.unwrap_or(3000).div_ceil(ROUNDS)
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
    /// The times of one operation, of `each` in a round: by the library, and as the floor.
    ///
    /// # Errors
    /// The floor's failure.
    pub(crate) fn times(self, each: usize) -> Outcome<(Times, Times)> {
        match self.floor_failure {
            Some(failure) => Err(failure),
            None => Ok((Times::of_durations(&self.library, each), Times::of_durations(&self.floor, each))),
        }
    }
}

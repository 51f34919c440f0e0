//! Tests of all ranks: all ranks perform the same operation at the same time, and the result is the
//! sum over all ranks. Each test has a floor: the same operation as bare stores and atomics on
//! memory that all ranks have mapped.
//!
//! A round begins and ends with a barrier; its time is the longest time of any rank. Rounds with
//! and without the library alternate.

mod atomics;
mod clock;
mod copies;
mod epochs;
mod locks;
mod notified;
mod table;
mod windows;
mod words;

use std::time::{Duration, Instant};

use transom::{Job, ops};

use crate::floor::AllRanks;
use crate::kinds::Test;
use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::output;
use crate::picture;
use clock::{Clock, Tick};
use table::Line;

/// Minimum and maximum number of rounds.
const ROUNDS: (usize, usize) = (5, 15);
/// Target duration of a round, which makes its barriers negligible.
const ROUND: Duration = Duration::from_millis(20);
/// Time limit of the rounds of one size.
const BUDGET: Duration = Duration::from_secs(1);
/// Number of operations that each rank times singly.
const ALONE: usize = 10_000;

/// One rank's part of a test.
trait Work {
    /// Performs the operation `count` times. With a clock each operation is completed and timed
    /// singly.
    fn library(&mut self, count: usize, clock: Tick<'_>) -> Outcome<()>;

    /// The operation without the library.
    fn bare(&mut self, all_ranks: &AllRanks, count: usize);

    /// Compares the data with the result of all operations so far. Collective, after a barrier.
    fn check(&mut self, world: &Job) -> Outcome<()>;

    /// Writes wrong data into this rank's part.
    fn spoil(&mut self) -> Outcome<()>;

    /// Makes additional measurements; returns their results as text. Collective.
    fn note(&mut self) -> Outcome<Option<String>> {
        Ok(None)
    }

    /// Frees the window. Collective.
    fn free(self: Box<Self>) -> Outcome<()>;
}

/// Runs the requested test; returns whether all data was right.
pub(crate) fn run(world: &Job, options: &Options) -> Outcome<bool> {
    let sizes = options.sizes();
    let blocks = if options.test == Test::Alltoall { world.size() } else { 1 };
    let room = sizes.last().copied().unwrap_or(8) * blocks;
    let floor = if options.vs_floor { AllRanks::open(world, room)? } else { None };
    if world.rank() == 0 {
        table::head(&mut output::output(), options, world, floor.is_some())?;
    }
    let (mut lines, mut right) = (Vec::new(), true);
    for size in sizes {
        let (line, fine) = one(world, options, floor.as_ref(), size)?;
        right &= fine;
        if world.rank() == 0 {
            table::line(&mut output::output(), options, &line)?;
            lines.push(line);
        }
    }
    if world.rank() == 0 {
        table::json(options, world, &lines)?;
        picture::over_sizes(options, lines.iter().map(Line::point).collect())?;
    }
    Ok(right)
}

fn open<'j>(world: &'j Job, options: &'j Options, size: usize) -> Outcome<Box<dyn Work + 'j>> {
    Ok(match options.test {
        Test::FopHot | Test::FopSpread | Test::CasHot => atomics::words(world, options)?,
        Test::AccumulateHot => atomics::doubles(world, options)?,
        Test::Gups => atomics::gups(world, options, size)?,
        Test::LockHot | Test::LockSpread => locks::open(world, options)?,
        Test::Fence => epochs::fence(world, options)?,
        Test::PscwRing => epochs::ring(world, options)?,
        Test::NotifyRate | Test::NotifyLatency => notified::open(world, options)?,
        Test::Alltoall => copies::all_to_all(world, options, size)?,
        Test::WindowCreate => windows::creation(world, options, size)?,
        Test::Overlap => windows::overlap(world, options, size)?,
        _ => copies::neighbours(world, options, size)?,
    })
}

/// Measures one size. Returns the line and whether the data was right at all ranks.
fn one(world: &Job, options: &Options, floor: Option<&AllRanks>, size: usize) -> Outcome<(Line, bool)> {
    let mut work = open(world, options, size)?;
    let spoils = options.spoil && world.rank() == 0;
    if spoils {
        work.spoil()?;
    }
    world.barrier()?;
    let (library, floor) = alternate(world, options, &mut *work, floor)?;
    let percentiles = if options.percentiles {
        let mut clock = Clock::new();
        world.barrier()?;
        clock.start();
        work.library(library.iterations.min(ALONE), Some(&mut clock))?;
        world.barrier()?;
        Some(clock.percentiles(world)?)
    } else {
        None
    };
    let note = work.note()?;
    world.barrier()?;
    if spoils {
        work.spoil()?;
    }
    world.barrier()?;
    let right = !options.check || is_right(world, options, &mut *work)?;
    world.barrier()?;
    work.free()?;
    Ok((Line::new(options, world.size(), size, library, floor.as_ref(), percentiles, note), right))
}

/// Whether the data is right at all ranks; a rank with wrong data prints this.
fn is_right(world: &Job, options: &Options, work: &mut dyn Work) -> Outcome<bool> {
    let outcome = work.check(world);
    if let Err(error) = &outcome {
        eprintln!("transom-perf: rank {}: {}: {error:#}", world.rank(), options.test.name());
    }
    let mut wrong = [u64::from(outcome.is_err())];
    world.all_reduce(&mut wrong, ops::Sum)?;
    Ok(wrong[0] == 0)
}

/// Measures rounds of the library and of the floor in turn.
fn alternate(
    world: &Job,
    options: &Options,
    work: &mut dyn Work,
    floor: Option<&AllRanks>,
) -> Outcome<(Times, Option<Times>)> {
    let each = per_round(world, options, &mut |count| work.library(count, None))?;
    let mut bare_each = 0;
    if let Some(floor) = floor {
        bare_each = per_round(world, options, &mut |count| {
            work.bare(floor, count);
            Ok(())
        })?;
    }
    let (mut library, mut bare) = (Vec::new(), Vec::new());
    let mut spent = 0.0;
    while library.len() < ROUNDS.0 || (library.len() < ROUNDS.1 && spent < BUDGET.as_nanos() as f64) {
        library.push(round(world, each, &mut |count| work.library(count, None))?);
        if let Some(floor) = floor {
            bare.push(round(world, bare_each, &mut |count| {
                work.bare(floor, count);
                Ok(())
            })?);
            spent += bare.last().copied().unwrap_or(0.0) * as_f64(bare_each);
        }
        spent += library.last().copied().unwrap_or(0.0) * as_f64(each);
    }
    let bare = (!bare.is_empty()).then(|| Times::of(bare, bare_each));
    Ok((Times::of(library, each), bare))
}

/// The number of operations of each rank in a round, equal at all ranks.
fn per_round(world: &Job, options: &Options, batch: &mut dyn FnMut(usize) -> Outcome<()>) -> Outcome<usize> {
    if let Some(iterations) = options.iterations {
        batch(options.skip.unwrap_or(1).max(1))?;
        return Ok(iterations.div_ceil(ROUNDS.1));
    }
    let mut count = options.skip.unwrap_or(1).max(1);
    loop {
        let time = round(world, count, batch)? * as_f64(count);
        if time * 2.0 > ROUND.as_nanos() as f64 {
            return Ok(count);
        }
        // At most a factor of eight, because first operations take longer.
        let wanted = ROUND.as_nanos() as f64 / time.max(1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 2 to 8
        let factor = wanted.clamp(2.0, 8.0) as usize;
        count *= factor;
    }
}

/// One round. Returns the time of the slowest rank for one operation in ns, equal at all ranks.
fn round(world: &Job, count: usize, batch: &mut dyn FnMut(usize) -> Outcome<()>) -> Outcome<f64> {
    world.barrier()?;
    let start = Instant::now();
    batch(count)?;
    world.barrier()?;
    let mut longest = [u64::try_from(start.elapsed().as_nanos())?];
    world.all_reduce(&mut longest, ops::Max)?;
    #[allow(clippy::cast_precision_loss)] // nanoseconds of seconds fit
    Ok(longest[0] as f64 / as_f64(count))
}

#[allow(clippy::cast_precision_loss)] // counts and sizes are small
fn as_f64(count: usize) -> f64 {
    count as f64
}

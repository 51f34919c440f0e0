//! Creation of windows, and overlap of computation with a put.

use std::hint::black_box;
use std::time::Instant;

use transom::{Job, Window};
use transom_fabric::Memory;

use super::atomics::same;
use super::clock::{Tick, tick};
use super::words::{Neighbours, OnWords, on_words};
use super::{Work, as_f64};
use crate::floor::AllRanks;
use crate::iterations::window;
use crate::options::Options;
use crate::outcome::Outcome;

/// Creates and frees windows.
struct Creation<'j> {
    world: &'j Job,
    options: &'j Options,
    len: usize,
    spoilt: bool,
}

pub(super) fn creation<'j>(world: &'j Job, options: &'j Options, size: usize) -> Outcome<Box<dyn Work + 'j>> {
    Ok(Box::new(Creation { world, options, len: size / 8, spoilt: false }))
}

impl Work for Creation<'_> {
    fn library(&mut self, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        for _ in 0..count {
            window::<u64>(self.world, self.options, self.len)?.free()?;
            tick(&mut clock);
        }
        Ok(())
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for _ in 0..count {
            let memory = black_box(Memory::private(8 * self.len));
            all_ranks.barrier();
            drop(memory);
            all_ranks.barrier();
        }
    }

    /// An additional window, which every rank uses to check the result.
    fn check(&mut self, world: &Job) -> Outcome<()> {
        let (me, ranks) = (world.rank(), world.size());
        let win = window::<u64>(world, self.options, self.len)?;
        let last = self.len - 1;
        win.fence(|epoch| epoch.put_value((me + 1) % ranks, last, me as u64 + 1))?;
        if self.spoilt {
            win.store(last, &[0])?;
        }
        let mut found = [0];
        win.load(last, &mut found)?;
        win.free()?;
        same("the last word of the window", found[0], ((me + ranks - 1) % ranks) as u64 + 1)
    }

    fn spoil(&mut self) -> Outcome<()> {
        self.spoilt = true;
        Ok(())
    }

    fn free(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// Puts to the right neighbour, and computes before the flush.
struct Overlap {
    ring: Neighbours,
    source: Vec<u64>,
    /// Number of computation steps that take about as long as a put.
    steps: usize,
}

pub(super) fn overlap(world: &Job, options: &Options, size: usize) -> Outcome<Box<dyn Work>> {
    const TRIES: usize = 20;
    const STEPS: usize = 100_000;
    let source = vec![world.rank() as u64 + 1; size / 8];
    on_words(world, options, size / 8, |win| {
        let mut work = Overlap { ring: Neighbours::of(world), source, steps: 0 };
        work.library(win, 1, None)?;
        let put = timed(|| work.library(win, TRIES, None))? / as_f64(TRIES);
        let step = timed(|| {
            compute(STEPS);
            Ok(())
        })? / as_f64(STEPS);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rough count
        let steps = (put / step.max(0.01)) as usize;
        work.steps = steps.max(1);
        Ok(work)
    })
}

/// Runs `body`; returns its time in nanoseconds.
fn timed(mut body: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    body()?;
    Ok(start.elapsed().as_secs_f64() * 1e9)
}

fn compute(steps: usize) {
    black_box((0..steps as u64).fold(1u64, |sum, step| black_box(sum.wrapping_mul(31).wrapping_add(step))));
}

impl OnWords for Overlap {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (source, right, steps) = (&self.source[..], self.ring.right, self.steps);
        Ok(win.lock_all(|epoch| {
            for _ in 0..count {
                epoch.put(right, 0, source)?;
                compute(steps);
                epoch.flush(right)?;
                tick(&mut clock);
            }
            Ok(())
        })?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for _ in 0..count {
            all_ranks.copy_to(self.ring.right, 0, &self.source);
            compute(self.steps);
        }
    }

    fn check(&mut self, _: &Job, win: &Window<u64>) -> Outcome<()> {
        let mut found = vec![0; self.source.len()];
        win.load(0, &mut found)?;
        let expected = self.ring.left as u64 + 1;
        let wrong = found.iter().copied().find(|&word| word != expected);
        same("a word put", wrong.unwrap_or(expected), expected)
    }

    fn note(&mut self, win: &Window<u64>) -> Outcome<Option<String>> {
        const TRIES: usize = 50;
        let steps = std::mem::take(&mut self.steps);
        let put = timed(|| self.library(win, TRIES, None))?;
        self.steps = steps;
        let computing = timed(|| {
            (0..TRIES).for_each(|_| compute(steps));
            Ok(())
        })?;
        let both = timed(|| self.library(win, TRIES, None))?;
        let share = ((put + computing - both) / put.min(computing)).clamp(0.0, 1.0) * 100.0;
        let us = |time: f64| time / as_f64(TRIES) / 1000.0;
        Ok(Some(format!(
            "rank 0: put alone {:.1} us, computing alone {:.1} us, {share:.0} % of the shorter hidden",
            us(put),
            us(computing)
        )))
    }
}

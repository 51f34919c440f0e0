//! Atomics on a word of all ranks, on a word of a single origin, and on random words.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use transom::{Job, Window, ops};

use super::Work;
use super::clock::{self, Tick, tick};
use super::words::{OnWords, on_words};
use crate::floor::AllRanks;
use crate::iterations::window;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;

/// Fails if a count differs from the expected one.
pub(super) fn same(what: &str, found: u64, expected: u64) -> Outcome<()> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found}, not {expected}").into()) }
}

/// Sum over all ranks. Collective.
fn sum(world: &Job, count: u64) -> Outcome<u64> {
    let mut sum = [count];
    world.all_reduce(&mut sum, ops::Sum)?;
    Ok(sum[0])
}

/// Fails unless the first words of the parts hold the additions of all ranks; each rank made `done`
/// additions. With `hot` all ranks added to the word of rank 0, otherwise each rank to its
/// neighbour's word. Collective.
pub(super) fn counted(world: &Job, win: &Window<u64>, hot: bool, done: u64) -> Outcome<()> {
    let all = sum(world, done)?;
    let mut found = [0];
    win.load(0, &mut found)?;
    match (hot, world.rank()) {
        // The neighbour that added to this word made equally many additions.
        (false, _) => same("the word", found[0], done),
        (true, 0) => same("the shared word", found[0], all),
        _ => Ok(()),
    }
}

/// Adds 1 to a word of a rank.
struct Words {
    target: usize,
    /// Whether all ranks have the same target.
    hot: bool,
    swaps: bool,
    /// The last fetched value, and the number of successful additions.
    seen: u64,
    done: u64,
}

pub(super) fn words(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    let hot = options.test != Test::FopSpread;
    let target = if hot { 0 } else { (world.rank() + 1) % world.size() };
    let swaps = options.test == Test::CasHot;
    on_words(world, options, 1, |_| Ok(Words { target, hot, swaps, seen: 0, done: 0 }))
}

impl OnWords for Words {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let Words { target, swaps, seen, done, .. } = self;
        let (target, swaps) = (*target, *swaps);
        Ok(win.lock_all(|epoch| {
            for _ in 0..count {
                if swaps {
                    let old = epoch.compare_and_swap(target, 0, *seen, *seen + 1)?;
                    let swapped = old == *seen;
                    *done += u64::from(swapped);
                    *seen = old + u64::from(swapped);
                } else {
                    *seen = epoch.fetch_add(target, 0, 1u64)?;
                    *done += 1;
                }
                tick(&mut clock);
            }
            Ok(())
        })?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        let word = all_ranks.word(self.target);
        let mut seen = word.load(Ordering::Relaxed);
        for _ in 0..count {
            seen = if self.swaps {
                match word.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => seen + 1,
                    Err(found) => found,
                }
            } else {
                black_box(word.fetch_add(1, Ordering::SeqCst))
            };
        }
    }

    fn check(&mut self, world: &Job, win: &Window<u64>) -> Outcome<()> {
        counted(world, win, self.hot, self.done)
    }
}

/// Adds 1 to eight doubles of rank 0.
struct Doubles {
    win: Window<f64>,
    flight: usize,
    done: u64,
}

pub(super) fn doubles(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    Ok(Box::new(Doubles { win: window(world, options, 8)?, flight: options.window, done: 0 }))
}

impl Work for Doubles {
    fn library(&mut self, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (ones, done) = (&[1.0; 8], &mut self.done);
        let flight = clock::flight(&clock, self.flight);
        Ok(self.win.lock_all(|epoch| {
            for posted in 1..=count {
                epoch.accumulate(0, 0, ones, ops::Sum)?;
                *done += 1;
                if posted % flight == 0 {
                    epoch.flush(0)?;
                    tick(&mut clock);
                }
            }
            Ok(())
        })?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        (0..count).for_each(|_| all_ranks.add_doubles(0));
    }

    fn check(&mut self, world: &Job) -> Outcome<()> {
        let all = sum(world, self.done)?;
        if world.rank() > 0 {
            return Ok(());
        }
        let mut found = [0.0; 8];
        self.win.load(0, &mut found)?;
        #[allow(clippy::cast_precision_loss)] // counts are below 2^53
        let expected = all as f64;
        match found.iter().position(|sum| sum.to_bits() != expected.to_bits()) {
            None => Ok(()),
            Some(at) => Err(format!("double {at} is {}, not {expected}", found[at]).into()),
        }
    }

    fn spoil(&mut self) -> Outcome<()> {
        Ok(self.win.store(0, &[7.5])?)
    }

    fn free(self: Box<Self>) -> Outcome<()> {
        Ok(self.win.free()?)
    }
}

/// Adds 1 to random words of random ranks.
struct Gups {
    ranks: u64,
    len: u64,
    random: u64,
    flight: usize,
    done: u64,
}

pub(super) fn gups(world: &Job, options: &Options, size: usize) -> Outcome<Box<dyn Work>> {
    let len = size / 8;
    let random = (world.rank() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (ranks, flight) = (world.size() as u64, options.window);
    on_words(world, options, len, |_| Ok(Gups { ranks, len: len as u64, random, flight, done: 0 }))
}

/// The next random rank and word.
#[allow(clippy::cast_possible_truncation)] // both are below numbers that were usize
fn next(random: &mut u64, ranks: u64, len: u64) -> (usize, usize) {
    // xorshift of Marsaglia (2003).
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (((*random >> 32) % ranks) as usize, ((*random & 0xffff_ffff) % len) as usize)
}

impl OnWords for Gups {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let Gups { ranks, len, random, flight, done } = self;
        let flight = clock::flight(&clock, *flight);
        Ok(win.lock_all(|epoch| {
            for posted in 1..=count {
                let (rank, word) = next(random, *ranks, *len);
                epoch.accumulate(rank, word, &[1], ops::Sum)?;
                *done += 1;
                if posted % flight == 0 {
                    epoch.flush_all()?;
                    tick(&mut clock);
                }
            }
            Ok(())
        })?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for _ in 0..count {
            let (rank, word) = next(&mut self.random, self.ranks, self.len);
            all_ranks.data_word(rank, word).fetch_add(1, Ordering::SeqCst);
        }
    }

    fn check(&mut self, world: &Job, win: &Window<u64>) -> Outcome<()> {
        let mut words = vec![0; usize::try_from(self.len)?];
        win.load(0, &mut words)?;
        let (found, all) = (sum(world, words.iter().sum())?, sum(world, self.done)?);
        same("the sum of all words", found, all)
    }
}

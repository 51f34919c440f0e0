//! Puts and gets between neighbours, and from each rank to all.

use transom::{Job, Window};

use super::Work;
use super::clock::{self, Tick, tick};
use super::words::{Neighbours, OnWords, on_words};
use crate::floor::AllRanks;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;

/// Word `at` of the data of a rank.
fn word(rank: usize, at: usize) -> u64 {
    (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

pub(super) fn words(rank: usize, len: usize) -> Vec<u64> {
    (0..len).map(|at| word(rank, at)).collect()
}

/// Fails if a word differs from the data of the rank.
pub(super) fn verify(what: &str, found: &[u64], rank: usize) -> Outcome<()> {
    match found.iter().enumerate().find(|&(at, &found)| found != word(rank, at)) {
        None => Ok(()),
        Some((at, found)) => {
            Err(format!("{what}: word {at} is {found:#x}, not rank {rank}'s {:#x}", word(rank, at)).into())
        }
    }
}

/// Puts to the right neighbour, or gets from it.
struct PutsOrGets {
    ring: Neighbours,
    gets: bool,
    /// Number of operations before each completion.
    flight: usize,
    source: Vec<u64>,
    /// The consecutive buffers of the gets in flight.
    got: Vec<u64>,
}

pub(super) fn neighbours(world: &Job, options: &Options, size: usize) -> Outcome<Box<dyn Work>> {
    let (ring, len) = (Neighbours::of(world), size / 8);
    let (source, gets) = (words(world.rank(), len), matches!(options.test, Test::GetMr | Test::GetMbw));
    let got = if gets { vec![0; len * options.window] } else { Vec::new() };
    on_words(world, options, len, |win| {
        if gets {
            win.store(0, &source)?;
        }
        Ok(PutsOrGets { ring, gets, flight: options.window, source, got })
    })
}

impl PutsOrGets {
    fn puts(&self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> transom::Result<()> {
        let (source, right) = (&self.source[..], self.ring.right);
        let flight = clock::flight(&clock, self.flight);
        win.lock_all(|epoch| {
            for posted in 1..=count {
                epoch.put(right, 0, source)?;
                if posted % flight == 0 {
                    epoch.flush(right)?;
                    tick(&mut clock);
                }
            }
            Ok(())
        })
    }

    fn gets(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> transom::Result<()> {
        let (got, right, len) = (&mut self.got, self.ring.right, self.source.len());
        let flight = clock::flight(&clock, self.flight);
        win.lock_all(|epoch| {
            let mut left = count;
            while left > 0 {
                let now = left.min(flight);
                epoch
                    .scope(|part| got.chunks_exact_mut(len).take(now).try_for_each(|into| part.get(right, 0, into)))?;
                left -= now;
                tick(&mut clock);
            }
            Ok(())
        })
    }
}

impl OnWords for PutsOrGets {
    fn library(&mut self, win: &Window<u64>, count: usize, clock: Tick<'_>) -> Outcome<()> {
        Ok(if self.gets { self.gets(win, count, clock) } else { self.puts(win, count, clock) }?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        let len = self.source.len();
        for turn in 0..count {
            if self.gets {
                let at = turn % self.flight * len;
                all_ranks.copy_from(self.ring.right, &mut self.got[at..at + len]);
            } else {
                all_ranks.copy_to(self.ring.right, 0, &self.source);
            }
        }
    }

    fn check(&mut self, _: &Job, win: &Window<u64>) -> Outcome<()> {
        let len = self.source.len();
        if self.gets {
            // Repeated, because the floor uses these buffers too.
            self.got.fill(0);
            self.gets(win, 1, None)?;
            return verify("get", &self.got[..len], self.ring.right);
        }
        let mut found = vec![0; len];
        win.load(0, &mut found)?;
        verify("put", &found, self.ring.left)
    }
}

/// Puts a block to every rank, then fences.
struct AllToAll {
    me: usize,
    ranks: usize,
    source: Vec<u64>,
}

pub(super) fn all_to_all(world: &Job, options: &Options, size: usize) -> Outcome<Box<dyn Work>> {
    let (me, ranks, len) = (world.rank(), world.size(), size / 8);
    on_words(world, options, len * ranks, |_| Ok(AllToAll { me, ranks, source: words(me, len) }))
}

impl OnWords for AllToAll {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (me, ranks, source) = (self.me, self.ranks, &self.source[..]);
        let at = me * source.len();
        Ok(win.fence(|epoch| {
            for _ in 0..count {
                (0..ranks).try_for_each(|step| epoch.put((me + step) % ranks, at, source))?;
                epoch.fence()?;
                tick(&mut clock);
            }
            Ok(())
        })?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for _ in 0..count {
            for step in 0..self.ranks {
                all_ranks.copy_to((self.me + step) % self.ranks, self.me * self.source.len(), &self.source);
            }
            all_ranks.barrier();
        }
    }

    fn check(&mut self, _: &Job, win: &Window<u64>) -> Outcome<()> {
        let len = self.source.len();
        let mut found = vec![0; len * self.ranks];
        win.load(0, &mut found)?;
        found.chunks_exact(len).enumerate().try_for_each(|(rank, block)| verify("block", block, rank))
    }
}

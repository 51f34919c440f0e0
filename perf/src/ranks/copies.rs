//! Puts and gets between neighbours, and from each rank to all.

use transom::{Job, Window};

use super::Work;
use super::clock::{Tick, tick};
use crate::floor::AllRanks;
use crate::iterations::window;
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

struct Neighbours {
    win: Window<u64>,
    left: usize,
    right: usize,
    gets: bool,
    /// Number of operations before each completion.
    flight: usize,
    source: Vec<u64>,
    /// The consecutive buffers of the gets in flight.
    got: Vec<u64>,
}

/// Puts to the right neighbour, or gets from it.
pub(super) fn neighbours(world: &Job, options: &Options, size: usize) -> Outcome<Box<dyn Work>> {
    let (me, ranks, len) = (world.rank(), world.size(), size / 8);
    let (win, gets) = (window(world, options, len)?, matches!(options.test, Test::GetMr | Test::GetMbw));
    let source = words(me, len);
    if gets {
        win.store(0, &source)?;
    }
    let got = if gets { vec![0; len * options.window] } else { Vec::new() };
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    Ok(Box::new(Neighbours { win, left, right, gets, flight: options.window, source, got }))
}

impl Neighbours {
    fn puts(&self, count: usize, mut clock: Tick<'_>) -> transom::Result<()> {
        let (source, right) = (&self.source[..], self.right);
        let flight = if clock.is_some() { 1 } else { self.flight };
        self.win.lock_all(|epoch| {
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

    fn gets(&mut self, count: usize, mut clock: Tick<'_>) -> transom::Result<()> {
        let (got, right, len) = (&mut self.got, self.right, self.source.len());
        let flight = if clock.is_some() { 1 } else { self.flight };
        self.win.lock_all(|epoch| {
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

impl Work for Neighbours {
    fn library(&mut self, count: usize, clock: Tick<'_>) -> Outcome<()> {
        Ok(if self.gets { self.gets(count, clock) } else { self.puts(count, clock) }?)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        let len = self.source.len();
        for turn in 0..count {
            if self.gets {
                let at = turn % self.flight * len;
                all_ranks.copy_from(self.right, &mut self.got[at..at + len]);
            } else {
                all_ranks.copy_to(self.right, 0, &self.source);
            }
        }
    }

    fn check(&mut self, _: &Job) -> Outcome<()> {
        let len = self.source.len();
        if self.gets {
            // Repeated, because the floor uses these buffers too.
            self.got.fill(0);
            self.gets(1, None)?;
            return verify("get", &self.got[..len], self.right);
        }
        let mut found = vec![0; len];
        self.win.load(0, &mut found)?;
        verify("put", &found, self.left)
    }

    fn spoil(&mut self) -> Outcome<()> {
        Ok(self.win.store(0, &[7])?)
    }

    fn free(self: Box<Self>) -> Outcome<()> {
        Ok(self.win.free()?)
    }
}

struct AllToAll {
    win: Window<u64>,
    me: usize,
    ranks: usize,
    source: Vec<u64>,
}

/// Each rank puts a block to every rank, then a fence.
pub(super) fn all_to_all(world: &Job, options: &Options, size: usize) -> Outcome<Box<dyn Work>> {
    let (me, ranks, len) = (world.rank(), world.size(), size / 8);
    Ok(Box::new(AllToAll { win: window(world, options, len * ranks)?, me, ranks, source: words(me, len) }))
}

impl Work for AllToAll {
    fn library(&mut self, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (me, ranks, source) = (self.me, self.ranks, &self.source[..]);
        let at = me * source.len();
        Ok(self.win.fence(|epoch| {
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

    fn check(&mut self, _: &Job) -> Outcome<()> {
        let len = self.source.len();
        let mut found = vec![0; len * self.ranks];
        self.win.load(0, &mut found)?;
        found.chunks_exact(len).enumerate().try_for_each(|(rank, block)| verify("block", block, rank))
    }

    fn spoil(&mut self) -> Outcome<()> {
        Ok(self.win.store(0, &[7])?)
    }

    fn free(self: Box<Self>) -> Outcome<()> {
        Ok(self.win.free()?)
    }
}

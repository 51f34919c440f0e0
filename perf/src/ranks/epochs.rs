//! Active-target synchronization: fences of all ranks, and a ring of post, start, complete, wait.

use transom::{Job, Window};

use super::Work;
use super::atomics::same;
use super::clock::{Tick, tick};
use super::words::{Neighbours, OnWords, on_words};
use crate::floor::AllRanks;
use crate::options::Options;
use crate::outcome::Outcome;

/// Puts a growing number to the right neighbour.
struct Epochs {
    ring: Neighbours,
    fences: bool,
    turn: u64,
}

fn open(world: &Job, options: &Options, fences: bool) -> Outcome<Box<dyn Work>> {
    on_words(world, options, 1, |_| Ok(Epochs { ring: Neighbours::of(world), fences, turn: 0 }))
}

pub(super) fn fence(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    open(world, options, true)
}

pub(super) fn ring(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    open(world, options, false)
}

impl OnWords for Epochs {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (Neighbours { left, right }, turn) = (self.ring, &mut self.turn);
        if self.fences {
            return Ok(win.fence(|epoch| {
                for _ in 0..count {
                    *turn += 1;
                    epoch.put_value(right, 0, *turn)?;
                    epoch.fence()?;
                    tick(&mut clock);
                }
                Ok(())
            })?);
        }
        for _ in 0..count {
            *turn += 1;
            win.post(&[left])?;
            win.start(&[right], |epoch| epoch.put_value(right, 0, *turn))?;
            win.wait()?;
            tick(&mut clock);
        }
        Ok(())
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for turn in 0..count {
            if self.fences {
                all_ranks.copy_to(self.ring.right, 0, &[turn as u64]);
                all_ranks.barrier();
            } else {
                all_ranks.ring();
            }
        }
    }

    fn check(&mut self, _: &Job, win: &Window<u64>) -> Outcome<()> {
        let mut found = [0];
        win.load(0, &mut found)?;
        same("the last word put", found[0], self.turn)
    }
}

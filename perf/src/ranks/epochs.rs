//! Active-target synchronization: fences of all ranks, and a ring of post, start, complete, wait.

use transom::{Job, Window};

use super::Work;
use super::atomics::same;
use super::clock::{Tick, tick};
use crate::floor::AllRanks;
use crate::iterations::window;
use crate::options::Options;
use crate::outcome::Outcome;

/// Puts a growing number to the right neighbour.
struct Epochs {
    win: Window<u64>,
    left: usize,
    right: usize,
    fences: bool,
    turn: u64,
}

fn open(world: &Job, options: &Options, fences: bool) -> Outcome<Box<dyn Work>> {
    let (me, ranks) = (world.rank(), world.size());
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    Ok(Box::new(Epochs { win: window(world, options, 1)?, left, right, fences, turn: 0 }))
}

pub(super) fn fence(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    open(world, options, true)
}

pub(super) fn ring(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    open(world, options, false)
}

impl Work for Epochs {
    fn library(&mut self, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let Epochs { win, left, right, fences, turn } = self;
        if *fences {
            return Ok(win.fence(|epoch| {
                for _ in 0..count {
                    *turn += 1;
                    epoch.put_value(*right, 0, *turn)?;
                    epoch.fence()?;
                    tick(&mut clock);
                }
                Ok(())
            })?);
        }
        for _ in 0..count {
            *turn += 1;
            win.post(&[*left])?;
            win.start(&[*right], |epoch| epoch.put_value(*right, 0, *turn))?;
            win.wait()?;
            tick(&mut clock);
        }
        Ok(())
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for turn in 0..count {
            if self.fences {
                all_ranks.copy_to(self.right, 0, &[turn as u64]);
                all_ranks.barrier();
            } else {
                all_ranks.ring();
            }
        }
    }

    fn check(&mut self, _: &Job) -> Outcome<()> {
        let mut found = [0];
        self.win.load(0, &mut found)?;
        same("the last word put", found[0], self.turn)
    }

    fn spoil(&mut self) -> Outcome<()> {
        // A number that no put has.
        Ok(self.win.store(0, &[u64::MAX])?)
    }

    fn free(self: Box<Self>) -> Outcome<()> {
        Ok(self.win.free()?)
    }
}

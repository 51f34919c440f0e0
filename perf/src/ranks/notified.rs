//! Notified puts of all ranks to their right neighbours: many in flight, or each followed by a wait
//! for the notice of the left neighbour.

use std::sync::atomic::Ordering;

use transom::{Job, Notice, Window};

use super::Work;
use super::clock::{Tick, tick};
use super::copies::{verify, words};
use crate::floor::AllRanks;
use crate::iterations::window;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;

struct Notified {
    win: Window<u64>,
    left: usize,
    right: usize,
    /// Whether each operation waits for the notice of the left neighbour.
    waits: bool,
    /// Number of operations before a flush; for operations that wait for no notice.
    flight: usize,
    source: Vec<u64>,
    /// Number of notices so far to the right neighbour, equal to the number from the left one.
    notices: u64,
}

pub(super) fn open(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    let (me, ranks) = (world.rank(), world.size());
    let win = window(world, options, 1)?;
    win.set_num_notify(1)?;
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    let waits = options.test == Test::NotifyLatency;
    Ok(Box::new(Notified { win, left, right, waits, flight: options.window, source: words(me, 1), notices: 0 }))
}

impl Work for Notified {
    fn library(&mut self, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (source, right, counter) = (&self.source[..], self.right, self.win.notices());
        let flight = if clock.is_some() { 1 } else { self.flight };
        let before = self.notices;
        self.win.lock_all(|epoch| {
            for posted in 1..=count {
                epoch.put_notify(right, 0, source, Notice(0))?;
                if self.waits {
                    counter.wait(0, before + posted as u64)?;
                    tick(&mut clock);
                } else if posted % flight == 0 {
                    epoch.flush(right)?;
                    tick(&mut clock);
                }
            }
            Ok(())
        })?;
        self.notices += count as u64;
        Ok(())
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        for _ in 0..count {
            all_ranks.copy_to(self.right, 0, &self.source);
            if self.waits {
                all_ranks.pass();
            } else {
                // Release: a waiting rank would pair it with an Acquire, so the floor pays for it.
                all_ranks.word(self.right).fetch_add(1, Ordering::Release);
            }
        }
    }

    fn check(&mut self, _: &Job) -> Outcome<()> {
        let counted = self.win.notices().value(0)?;
        if counted != self.notices {
            return Err(format!("{counted} notices came instead of {}", self.notices).into());
        }
        let mut found = [0];
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

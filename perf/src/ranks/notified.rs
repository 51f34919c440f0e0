//! Notified puts of all ranks to their right neighbours: many in flight, or each followed by a wait
//! for the notice of the left neighbour.

use std::sync::atomic::Ordering;

use transom::{Job, Notice, Window};

use super::Work;
use super::clock::{self, Tick, tick};
use super::copies::{verify, words};
use super::words::{Neighbours, OnWords, on_words};
use crate::floor::AllRanks;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;

struct Notified {
    ring: Neighbours,
    /// Whether each operation waits for the notice of the left neighbour.
    waits: bool,
    /// Number of operations before a flush; for operations that wait for no notice.
    flight: usize,
    source: Vec<u64>,
    /// Number of notices so far to the right neighbour, equal to the number from the left one.
    notices: u64,
}

pub(super) fn open(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    let (ring, source) = (Neighbours::of(world), words(world.rank(), 1));
    let waits = options.test == Test::NotifyLatency;
    on_words(world, options, 1, |win| {
        win.set_num_notify(1)?;
        Ok(Notified { ring, waits, flight: options.window, source, notices: 0 })
    })
}

impl OnWords for Notified {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        let (source, right, counter) = (&self.source[..], self.ring.right, win.notices());
        let flight = clock::flight(&clock, self.flight);
        let before = self.notices;
        win.lock_all(|epoch| {
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
            all_ranks.copy_to(self.ring.right, 0, &self.source);
            if self.waits {
                all_ranks.pass();
            } else {
                // Release: as a program would need if the target waited for the word (Acquire), so
                // the floor contains its time.
                all_ranks.word(self.ring.right).fetch_add(1, Ordering::Release);
            }
        }
    }

    fn check(&mut self, _: &Job, win: &Window<u64>) -> Outcome<()> {
        let counted = win.notices().value(0)?;
        if counted != self.notices {
            return Err(format!("{counted} notices came instead of {}", self.notices).into());
        }
        let mut found = [0];
        win.load(0, &mut found)?;
        verify("put", &found, self.ring.left)
    }
}

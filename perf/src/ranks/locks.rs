//! Exclusive locks: all ranks lock one target, or each rank a different target.

use std::sync::atomic::Ordering;

use transom::{Job, Lock, Window};

use super::Work;
use super::atomics::counted;
use super::clock::{Tick, tick};
use super::words::{OnWords, on_words};
use crate::floor::AllRanks;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;

/// Adds 1 to a word of a rank by a get and a put, which are atomic only because of the lock.
struct Locks {
    target: usize,
    hot: bool,
    done: u64,
}

pub(super) fn open(world: &Job, options: &Options) -> Outcome<Box<dyn Work>> {
    let hot = options.test == Test::LockHot;
    let target = if hot { 0 } else { (world.rank() + 1) % world.size() };
    on_words(world, options, 1, |_| Ok(Locks { target, hot, done: 0 }))
}

impl OnWords for Locks {
    fn library(&mut self, win: &Window<u64>, count: usize, mut clock: Tick<'_>) -> Outcome<()> {
        for _ in 0..count {
            win.lock(Lock::Exclusive, self.target, |epoch| {
                let mut word = [0];
                epoch.scope(|part| part.get(self.target, 0, &mut word))?;
                epoch.put_value(self.target, 0, word[0] + 1)
            })?;
            self.done += 1;
            tick(&mut clock);
        }
        Ok(())
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        let word = all_ranks.word(self.target);
        // Relaxed: the lock orders the accesses.
        let add = || word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        (0..count).for_each(|_| all_ranks.locked(self.target, add));
    }

    fn check(&mut self, world: &Job, win: &Window<u64>) -> Outcome<()> {
        counted(world, win, self.hot, self.done)
    }
}

//! Marks of the collective calls that this rank has left with an error. They lie in the job block.
//! A rank of the node that waits long for this rank's signal reads them, and leaves the call too.
//! Knows no windows, only the keys of their barriers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use transom_fabric::Memory;

use super::JobCore;
use super::block::{Block, LEFT};
use super::team::hash;
use crate::error::{Error, JobError, Result};

/// The number of marks that are kept. The oldest is overwritten.
const MARKS: usize = 32;
/// The bytes of the marks.
pub(super) const BYTES: usize = MARKS * 8;
/// The bits of a mark that hold the hash of the key.
const KEY: u64 = !0 << 32;
/// Set in every mark, so that no mark is 0.
const USED: u64 = 1 << 63;
/// The number in a mark of a rank that from now on takes part in no barrier of the key.
const NONE: u32 = 0;

/// The place of a barrier in its collective call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The number of the call's first barrier.
    pub(crate) first: u32,
    /// The number of this barrier.
    pub(crate) number: u32,
}

impl Turn {
    /// Whether `mark` shows that its rank has left the call in this barrier or an earlier one, or
    /// takes part in no barrier of `key`.
    fn is_left(self, key: u64, mark: u64) -> bool {
        #[allow(clippy::cast_possible_truncation)] // the number
        let number = mark as u32;
        let within = number.wrapping_sub(self.first) <= self.number.wrapping_sub(self.first);
        mark & KEY == of(key, 0) && (number == NONE || within)
    }
}

/// The mark of a barrier: bits of the key's hash, and the number in one word, so that no reader
/// finds parts of two marks.
fn of(key: u64, number: u32) -> u64 {
    hash(&key) & KEY | USED | u64::from(number)
}

/// The barriers of a team or window at this rank.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    /// The number of barriers so far; it wraps.
    count: AtomicU32,
    /// Whether ranks may have left a collective call in different barriers.
    out_of_step: AtomicBool,
}

impl Barriers {
    /// The number of barriers so far.
    pub(super) fn count(&self) -> u32 {
        // Relaxed, as in `next`.
        self.count.load(Ordering::Relaxed)
    }

    /// The number of the next barrier, from 1; it wraps.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        // Relaxed: barriers of one window are called by one thread at a time (MPI-4.1 §12.5.1).
        self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Fails if the ranks may differ in the number of barriers. `window`: the owner of the
    /// barriers, or `None` for a team.
    #[inline]
    pub(crate) fn check(&self, window: Option<u64>) -> Result<()> {
        // Relaxed, as in `next`.
        match self.out_of_step.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(out_of_step(window)),
        }
    }
}

#[cold]
fn out_of_step(window: Option<u64>) -> Error {
    JobError::OutOfStep { window }.into()
}

impl Block {
    /// Marks that this rank has left barrier `number` of `key` with an error.
    fn leave(&self, key: u64, number: u32) {
        // Relaxed: only distributes the marks.
        let at = self.left.fetch_add(1, Ordering::Relaxed) % MARKS;
        // Release: pairs with the Acquire in `JobCore::has_left`. The reader also finds the signals
        // that this rank has stored before.
        self.memory().word64(LEFT + at * 8).store(of(key, number), Ordering::Release);
    }

    /// Marks that this rank takes part in no barrier of `key`.
    pub(crate) fn leave_all(&self, key: u64) {
        self.leave(key, NONE);
    }
}

impl JobCore {
    /// Marks a barrier that has failed here. If it is not the first one of its call, another rank
    /// may have left the call in an earlier one. The numbers of the next barriers then differ, so
    /// this rank takes part in no further one.
    #[cold]
    pub(crate) fn leave_barrier(&self, key: u64, turn: Turn, barriers: &Barriers) {
        self.block.leave(key, turn.number);
        if turn.first != turn.number {
            // Relaxed, as in `next`.
            barriers.out_of_step.store(true, Ordering::Relaxed);
            self.block.leave_all(key);
        }
    }

    /// Whether another rank of this node has left a barrier, or an earlier one of the same
    /// collective call.
    ///
    /// # Errors
    /// The rank's job block can't be mapped.
    pub(super) fn has_left(&self, rank: usize, key: u64, turn: Turn) -> Result<bool> {
        let link = self.link(rank)?;
        Ok(link.block().is_some_and(|block| marks(block).any(|mark| turn.is_left(key, mark))))
    }
}

/// The marks in a job block.
fn marks(block: &Memory) -> impl Iterator<Item = u64> {
    // Acquire: pairs with the Release in `Block::leave`.
    (0..MARKS).map(|at| block.word64(LEFT + at * 8).load(Ordering::Acquire))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_concerns_the_barriers_of_one_call() {
        let turn = |first, number| Turn { first, number };
        assert!(turn(5, 5).is_left(0, of(0, 5)) && turn(4, 6).is_left(0, of(0, 5)));
        assert!(!turn(6, 6).is_left(0, of(0, 5)), "a later call");
        assert!(!turn(4, 4).is_left(0, of(0, 5)), "an earlier call");
        assert!(!turn(5, 5).is_left(7, of(0, 5)), "another key");
        assert!(turn(u32::MAX, 1).is_left(7, of(7, u32::MAX)), "numbers wrap");
        assert!(turn(9, 9).is_left(7, of(7, NONE)), "no window");
        assert!(!turn(u32::MAX, 1).is_left(0, 0), "no mark");
    }
}

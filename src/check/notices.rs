//! The clocks of notices: for each counter of notified operations, those of its last notices. The
//! clock of a notice includes the clocks of the counter's earlier notices. A rank that reads a
//! value learns the clock of the last notice that the value counts, so it learns nothing of later
//! notices, although they may have come. The clocks lie behind the counters in memory.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};

/// The offsets of a counter's words: the lock, the number of notices so far, and the clocks.
const LOCK: usize = 0;
const COUNT: usize = 8;
const CLOCKS: usize = 16;
/// A counter remembers its last notices: as many as have clocks of `BYTES` in total, but at least
/// `FEWEST` and at most `MOST`.
const FEWEST: usize = 4;
const MOST: usize = 32;
const BYTES: usize = 1 << 10;

/// The clocks of one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoticeClocks<'m> {
    memory: &'m Memory,
    base: usize,
    ranks: usize,
}

/// The held lock of a counter's clocks.
#[derive(Debug)]
pub(crate) struct LockedNotices<'m>(NoticeClocks<'m>);

/// The bytes of the clocks of `counters` counters in a job of `ranks` ranks.
pub(crate) fn bytes(counters: usize, ranks: usize) -> usize {
    counters * counter_bytes(ranks)
}

fn counter_bytes(ranks: usize) -> usize {
    CLOCKS + most(ranks) * slot_bytes(ranks)
}

/// The number of a counter's notices that are remembered.
fn most(ranks: usize) -> usize {
    (BYTES / slot_bytes(ranks)).clamp(FEWEST, MOST)
}

impl<'m> NoticeClocks<'m> {
    /// The clocks of counter `index`. `base`: the offset of the clocks of the first counter.
    pub(crate) fn of(memory: &'m Memory, base: usize, index: usize, ranks: usize) -> NoticeClocks<'m> {
        NoticeClocks { memory, base: base + index * counter_bytes(ranks), ranks }
    }

    /// Takes the lock. `wait` is called between attempts.
    pub(crate) fn lock<E>(self, mut wait: impl FnMut(u32) -> Result<(), E>) -> Result<LockedNotices<'m>, E> {
        let mut turns = 0..u32::MAX;
        // Acquire: pairs with the Release of the last holder.
        while self.word(LOCK).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            wait(turns.next().unwrap_or(u32::MAX))?;
        }
        Ok(LockedNotices(self))
    }

    fn word(&self, at: usize) -> &'m AtomicU64 {
        self.memory.word64(self.base + at)
    }

    /// The clock of a notice that is remembered.
    fn slot(&self, number: u64) -> Slot<'m> {
        let index = usize::try_from(number % most(self.ranks) as u64).unwrap_or(0);
        Slot { memory: self.memory, at: self.base + CLOCKS + index * slot_bytes(self.ranks) }
    }
}

impl<'m> Deref for LockedNotices<'m> {
    type Target = NoticeClocks<'m>;

    fn deref(&self) -> &NoticeClocks<'m> {
        &self.0
    }
}

impl Drop for LockedNotices<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        self.word(LOCK).store(0, Ordering::Release);
    }
}

impl LockedNotices<'_> {
    /// Adds a notice. The caller raises the counter before it gives the lock back.
    pub(crate) fn add(&self, clock: &Clock) {
        // Relaxed, here and below: changes only under the lock.
        let last = self.word(COUNT).load(Ordering::Relaxed);
        let mut all = clock.clone();
        all.learn(self.slot(last));
        all.store(self.slot(last + 1));
        self.word(COUNT).store(last + 1, Ordering::Relaxed);
    }

    /// The clock of notice `number`; 0: the clock of no notice. If the notice is forgotten, the
    /// clock of the first one after it that is remembered.
    pub(crate) fn clock_of(&self, number: u64) -> Clock {
        let last = self.word(COUNT).load(Ordering::Relaxed);
        let mut clock = Clock::new(self.ranks);
        if number.min(last) > 0 {
            let first = (last + 1).saturating_sub(most(self.ranks) as u64);
            clock.learn(self.slot(number.clamp(first, last)));
        }
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_of_the_notices_that_it_counts() {
        let memory = Memory::private(64 + bytes(3, 2));
        let locked = |index| NoticeClocks::of(&memory, 64, index, 2).lock(|_| Err::<(), ()>(())).expect("a free lock");
        let mut clocks = [0, 1].map(|_| Clock::new(2));
        for rank in [0, 1, 0] {
            clocks[rank].advance(rank);
            locked(1).add(&clocks[rank]);
        }
        let known = |index, number| [0, 1].map(|rank| locked(index).clock_of(number).of(rank));
        assert_eq!([0, 1, 2, 3, 9].map(|number| known(1, number)), [[0, 0], [1, 0], [1, 1], [2, 1], [2, 1]]);
        assert_eq!([0, 2].map(|index| known(index, 3)), [[0, 0]; 2], "other counters");
        for _ in 0..MOST {
            clocks[0].advance(0);
            locked(1).add(&clocks[0]);
        }
        assert_eq!(known(1, 1), known(1, 4), "the first notice that is remembered");
        assert_eq!([4, 5].map(|number| known(1, number)[0]), [3, 4]);
    }
}

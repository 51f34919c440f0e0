//! The clocks of ranks at nonblocking collective calls of another library (an MPI). A call is
//! identified by the number of its group of ranks and by its *turn*: its number among the calls of
//! the group, which is equal at all ranks.

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};

/// The number of calls of a rank that are remembered.
const CALLS: usize = 64;
/// The words of a call before its clock: the group, and the turn, which is 0 while the call is
/// written.
const GROUP: usize = 0;
const TURN: usize = 8;
const CLOCK: usize = 16;

/// The clocks of a rank at its last collective calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectiveClocks<'m> {
    pub(super) memory: &'m Memory,
    pub(super) base: usize,
    pub(super) ranks: usize,
}

/// The bytes of the calls of a rank in a job of `ranks` ranks.
pub(super) const fn bytes(ranks: usize) -> usize {
    8 + CALLS * (CLOCK + slot_bytes(ranks))
}

impl CollectiveClocks<'_> {
    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.word64(at)
    }

    fn place(&self, index: usize) -> usize {
        self.base + 8 + index % CALLS * (CLOCK + slot_bytes(self.ranks))
    }

    /// Stores the clock with which this rank enters a call. Turns begin with 1.
    pub(crate) fn enter(&self, group: u64, turn: u64, clock: &Clock) {
        let number = self.word(self.base).fetch_add(1, Ordering::Relaxed);
        let at = self.place(usize::try_from(number % CALLS as u64).unwrap_or(0));
        // SeqCst: a reader that sees a word of the new call sees that the turn has changed.
        self.word(at + TURN).store(0, Ordering::SeqCst);
        self.word(at + GROUP).store(group, Ordering::SeqCst);
        clock.store(Slot { memory: self.memory, at: at + CLOCK });
        // Release: pairs with the Acquire of `clock_at`.
        self.word(at + TURN).store(turn, Ordering::Release);
    }

    /// The clock with which the rank entered a call, if it is remembered.
    pub(crate) fn clock_at(&self, group: u64, turn: u64) -> Option<Vec<u64>> {
        let is_it = |at: usize| {
            self.word(at + TURN).load(Ordering::Acquire) == turn
                && self.word(at + GROUP).load(Ordering::Acquire) == group
        };
        let at = (0..CALLS).map(|index| self.place(index)).find(|&at| is_it(at))?;
        let clock = (0..self.ranks).map(|rank| self.word(at + CLOCK + 8 * rank).load(Ordering::Acquire)).collect();
        is_it(at).then_some(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_name_until_later_ones_take_its_place() {
        let memory = Memory::private(64 + bytes(2));
        let clocks = CollectiveClocks { memory: &memory, base: 64, ranks: 2 };
        let mut clock = Clock::new(2);
        for (group, turn) in [(7, 1), (9, 1), (7, 2)] {
            clock.advance(1);
            clocks.enter(group, turn, &clock);
        }
        let at = |group, turn| clocks.clock_at(group, turn).map(|clock| clock[1]);
        assert_eq!([at(7, 1), at(9, 1), at(7, 2), at(9, 2)], [Some(1), Some(2), Some(3), None]);
        (0..CALLS as u64 - 1).for_each(|turn| clocks.enter(5, turn + 1, &clock));
        assert_eq!([at(7, 1), at(7, 2)], [None, Some(3)]);
    }
}

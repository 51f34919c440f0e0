//! Clocks that go with messages of another library from a rank to others of the node. Messages of
//! one tag to one rank are received in the order in which they are sent, and so are the clocks.

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};

/// The messages of a rank that may be under way.
const LETTERS: usize = 128;
/// The words of a letter before its clock: its number, and for whom it is.
const NUMBER: usize = 0;
const FOR: usize = 8;
const CLOCK: usize = 16;
/// The number of a letter that is being written or read.
const TAKEN: u64 = u64::MAX;

/// The letters of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letters<'m> {
    pub(super) memory: &'m Memory,
    pub(super) base: usize,
    pub(super) ranks: usize,
}

/// The bytes of the letters of a rank in a job of `ranks` ranks.
pub(super) const fn bytes(ranks: usize) -> usize {
    8 + LETTERS * (CLOCK + slot_bytes(ranks))
}

/// For whom a letter is.
fn address(rank: usize, tag: i32) -> u64 {
    (rank as u64) << 32 | u64::from(tag.cast_unsigned())
}

impl Letters<'_> {
    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.word64(at)
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        let (first, step) = (self.base + 8, CLOCK + slot_bytes(self.ranks));
        (0..LETTERS).map(move |index| first + step * index)
    }

    /// Changes a letter's number, if it is `from`.
    fn turn(&self, at: usize, from: u64, to: u64) -> bool {
        // Acquire: pairs with the Release of whoever had the letter before.
        self.word(at + NUMBER).compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Writes a letter. Returns false if there are too many.
    pub(crate) fn send(&self, rank: usize, tag: i32, clock: &Clock) -> bool {
        let number = self.word(self.base).fetch_add(1, Ordering::Relaxed) + 1;
        let Some(at) = self.places().find(|&at| self.turn(at, 0, TAKEN)) else { return false };
        self.word(at + FOR).store(address(rank, tag), Ordering::Relaxed);
        clock.store(Slot { memory: self.memory, at: at + CLOCK });
        // Release: pairs with the Acquire of `take`.
        self.word(at + NUMBER).store(number, Ordering::Release);
        true
    }

    /// Takes the first letter for a rank with a tag.
    pub(crate) fn take(&self, rank: usize, tag: i32) -> Option<Vec<u64>> {
        let read = |at: usize| {
            let number = self.word(at + NUMBER).load(Ordering::Acquire);
            let is_here = number != 0 && number != TAKEN;
            // Relaxed: after the Acquire.
            let is_ours = is_here && self.word(at + FOR).load(Ordering::Relaxed) == address(rank, tag);
            is_ours.then_some((number, at))
        };
        let (number, at) = self.places().filter_map(read).min()?;
        if !self.turn(at, number, TAKEN) {
            return None;
        }
        let clock = (0..self.ranks).map(|rank| self.word(at + CLOCK + 8 * rank).load(Ordering::Acquire)).collect();
        self.word(at + NUMBER).store(0, Ordering::Release);
        Some(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_in_the_order_of_their_tag() {
        let memory = Memory::private(64 + bytes(2));
        let letters = Letters { memory: &memory, base: 64, ranks: 2 };
        let mut clock = Clock::new(2);
        for (rank, tag) in [(1, 5), (1, 7), (1, 5), (0, 5)] {
            clock.advance(0);
            assert!(letters.send(rank, tag, &clock));
        }
        let taken = [(1, 5), (0, 5), (1, 5), (1, 5), (1, 7)].map(|(rank, tag)| letters.take(rank, tag));
        let counts = taken.map(|clock| clock.map_or(0, |clock| clock[0]));
        assert_eq!(counts, [1, 4, 3, 0, 2]);
        assert_eq!((0..=LETTERS).filter(|_| letters.send(1, 0, &clock)).count(), LETTERS);
    }
}

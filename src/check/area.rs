//! The checker's data of one rank that the other ranks of the node read, for all windows: the
//! rank's clocks at barriers of the job, what it knows, the number of its releases, the texts of
//! its places, the clocks of its messages, and at rank 0 the reported conflicts and the waiting
//! ranks. This *area* follows the job block in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Slot, slot_bytes};
use super::collective_clocks::{self, CollectiveClocks};
use super::message_clocks::{self, MessageClocks};
use super::receives::{self, Receives};
use super::shadow::{self, Shadow};
use super::waits::{self, Waits};

/// Maximum number of pairs of places whose conflicts are distinguished.
const REPORTS: usize = 1024;
/// Maximum number of places with a text, and of bytes of all texts.
const PLACES: usize = 4096;
const TEXT: usize = 256 << 10;

/// Number of records of the shadow of memory that several windows share, and the size of a part for
/// which this number gives the most chains.
const SHARED_RECORDS: usize = 1 << 12;
const SHARED_SIZE: u64 = 8 * SHARED_RECORDS as u64;

/// The area of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area<'m> {
    memory: &'m Memory,
    base: usize,
    ranks: usize,
}

/// The bytes of an area in a job of `ranks` ranks.
pub(crate) fn bytes(ranks: usize) -> usize {
    by_address_at(ranks) + shadow::bytes(ranks, SHARED_SIZE, SHARED_RECORDS, 0)
}

const fn by_address_at(ranks: usize) -> usize {
    (receives_at(ranks) + receives::bytes(ranks)).next_multiple_of(64)
}

const fn receives_at(ranks: usize) -> usize {
    (waits_at(ranks) + waits::bytes(ranks)).next_multiple_of(8)
}

const fn waits_at(ranks: usize) -> usize {
    (collective_clocks_at(ranks) + collective_clocks::bytes(ranks)).next_multiple_of(8)
}

const fn collective_clocks_at(ranks: usize) -> usize {
    (message_clocks_at(ranks) + message_clocks::bytes(ranks)).next_multiple_of(8)
}

const fn message_clocks_at(ranks: usize) -> usize {
    (3 * slot_bytes(ranks) + 16 + 8 * (REPORTS + 1) + 8 * PLACES + TEXT).next_multiple_of(8)
}

impl<'m> Area<'m> {
    /// The area that begins at byte `base` of a job block.
    pub(crate) fn at(memory: &'m Memory, base: usize, ranks: usize) -> Area<'m> {
        Area { memory, base, ranks }
    }

    /// The rank's clock at a barrier. Even and odd barriers have separate clocks, because a rank
    /// may pass the next barrier before another rank has read the clocks of this one.
    pub(crate) fn barrier(self, turn: u32) -> Slot<'m> {
        let odd = usize::from(!turn.is_multiple_of(2));
        Slot { memory: self.memory, at: self.base + odd * slot_bytes(self.ranks) }
    }

    /// What the rank knows of the releases of others.
    pub(super) fn known(self) -> Slot<'m> {
        Slot { memory: self.memory, at: self.base + 2 * slot_bytes(self.ranks) }
    }

    /// The number of releases that the rank has made.
    pub(crate) fn releases(self) -> &'m AtomicU64 {
        self.memory.word64(self.base + 3 * slot_bytes(self.ranks))
    }

    /// At rank 0: 1 once some rank has sent a message without a clock, for example for lack of
    /// room; else 0. A receive then can't know whether the clock that it finds is its message's.
    pub(crate) fn mixed(self) -> &'m AtomicU64 {
        self.memory.word64(self.base + 3 * slot_bytes(self.ranks) + 8)
    }

    /// The clocks of messages that the rank has sent.
    pub(crate) fn message_clocks(self) -> MessageClocks<'m> {
        MessageClocks { memory: self.memory, base: self.base + message_clocks_at(self.ranks), ranks: self.ranks }
    }

    /// The clocks of the rank at collective calls.
    pub(crate) fn collective_clocks(self) -> CollectiveClocks<'m> {
        CollectiveClocks { memory: self.memory, base: self.base + collective_clocks_at(self.ranks), ranks: self.ranks }
    }

    /// The clocks with which the rank has begun to receive messages.
    pub(crate) fn receives(self) -> Receives<'m> {
        Receives { memory: self.memory, base: self.base + receives_at(self.ranks), ranks: self.ranks }
    }

    /// The shadow, by address, of the rank's memory that several windows share.
    pub(crate) fn by_address(self) -> Option<Memory> {
        let bytes = shadow::bytes(self.ranks, SHARED_SIZE, SHARED_RECORDS, 0);
        self.memory.slice(self.base + by_address_at(self.ranks), bytes)
    }

    /// Makes an empty shadow in zeroed memory of `rank`.
    pub(super) fn prepare(self, rank: usize) {
        if let Some(memory) = self.by_address() {
            Shadow::prepare(&memory, (rank, self.ranks), SHARED_SIZE, SHARED_RECORDS, 0);
        }
    }

    /// The waiting ranks, at rank 0.
    pub(super) fn waits(self) -> Waits<'m> {
        Waits { memory: self.memory, base: self.base + waits_at(self.ranks), ranks: self.ranks }
    }

    fn reports(self) -> usize {
        self.base + 3 * slot_bytes(self.ranks) + 16
    }

    /// Notes a conflict by its number, which is not 0. Returns the number of conflicts that were
    /// noted before. `None` if this conflict was noted before, or if there is no room.
    pub(super) fn note(self, number: u64) -> Option<u64> {
        let start = usize::try_from(number).unwrap_or(0);
        for step in 0..REPORTS {
            let word = self.memory.word64(self.reports() + 8 * (1 + start.wrapping_add(step) % REPORTS));
            // Relaxed: the word orders no other access.
            match word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.memory.word64(self.reports()).fetch_add(1, Ordering::Relaxed)),
                Err(found) if found == number => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// The number of noted conflicts.
    pub(crate) fn noted(self) -> u64 {
        self.memory.word64(self.reports()).load(Ordering::Relaxed)
    }

    fn places(self) -> usize {
        self.reports() + 8 * (REPORTS + 1)
    }

    /// Stores the text of a place behind `used` bytes of other texts. Returns the number of bytes
    /// in use afterwards, or `None` if there is no room.
    pub(super) fn show(self, place: u32, text: &str, used: usize) -> Option<usize> {
        let index = place as usize;
        let end = used + text.len();
        if index >= PLACES || end > TEXT {
            return None;
        }
        self.memory.write(self.places() + 8 * PLACES + used, text.as_bytes());
        let word = (used as u64) << 32 | text.len() as u64;
        // Release: pairs with the Acquire of `text`.
        self.memory.word64(self.places() + 8 * index).store(word, Ordering::Release);
        Some(end)
    }

    /// The text of a place.
    pub(crate) fn text(self, place: u32) -> Option<String> {
        let index = Some(place as usize).filter(|&index| index < PLACES)?;
        // Acquire: pairs with the Release of `show`.
        let word = self.memory.word64(self.places() + 8 * index).load(Ordering::Acquire);
        let [at, len] = [word >> 32, word & u64::from(u32::MAX)].map(|part| usize::try_from(part).unwrap_or(0));
        if len == 0 || at + len > TEXT {
            return None;
        }
        let mut text = vec![0; len];
        self.memory.read(self.places() + 8 * PLACES + at, &mut text);
        String::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_noted_once_and_texts_are_read_back() {
        let memory = Memory::private(64 + bytes(4));
        let area = Area::at(&memory, 64, 4);
        assert_eq!([5, 5, 6, 5 + REPORTS as u64].map(|number| area.note(number)), [Some(0), None, Some(1), Some(2)]);
        assert_eq!(area.noted(), 3);
        let used = area.show(1, "main at a.c:3", 0).expect("room");
        let used = area.show(2, "other", used).expect("room");
        assert_eq!((area.text(1).as_deref(), area.text(2).as_deref()), (Some("main at a.c:3"), Some("other")));
        assert_eq!((area.text(3), used), (None, 18));
        assert_eq!(area.show(3, &"x".repeat(TEXT), used), None);
        assert_eq!(area.show(u32::try_from(PLACES).unwrap(), "x", used), None);
    }
}

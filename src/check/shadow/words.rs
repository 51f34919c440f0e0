//! The fast path of accumulates within one word of 8 bytes that are complete when their call
//! returns, or at the next flush. An access takes it if the cell of its block belongs to this block
//! (`cells`), no record is in a chain, and the cell's records show without a comparison of rules
//! that there is no conflict. In all other cases the fast path changes nothing, and the access
//! takes the path of [`Records::record`](super::Records::record).

use std::sync::atomic::{AtomicU64, Ordering};

use super::cells::{Cells, FIRST, KIND, ORIGIN, PENDING, RANGE, SECOND, SLOTS, bytes_of, first_part, range_bits};
use super::{At, HALF, IN_USE, LATER, LINE, OF_OWNER, Shadow, WORD, agree, includes, limited, low};
use crate::check::clock::{Knows, Slot};

/// An accumulate within one word, with its words in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordAccess {
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The kind, encoded.
    pub(crate) kind: u32,
    pub(crate) origin: usize,
    pub(crate) place: u32,
    /// The number of releases of the origin.
    pub(crate) released: u64,
    /// Whether the access is complete at the next flush ([`Ends::AtFlush`](super::Ends::AtFlush)).
    pub(crate) is_later: bool,
}

impl<'m> Shadow<'m> {
    /// The first of the clocks through which an accumulate within one word synchronizes, and the
    /// words of all: one clock for each half of the word that the access has. `None` for an access
    /// to several words.
    #[inline]
    pub(crate) fn clocks_in_word(self, start: u64, len: u64) -> Option<(Slot<'m>, &'m [AtomicU64])> {
        let last = start + len - 1;
        if last >> WORD != start >> WORD {
            return None;
        }
        let (slot, halves) = (self.clock(At::Half(start)), if last >> HALF == start >> HALF { 1 } else { 2 });
        Some((slot, self.memory.all_words64(slot.at, halves * self.ranks)))
    }

    /// The words of a clock.
    #[inline]
    pub(crate) fn words_of(self, slot: Slot<'m>) -> &'m [AtomicU64] {
        slot.words(self.ranks)
    }

    /// Prefetches the cache lines that an access at `start` needs, to a word whose clock is `slot`.
    #[inline]
    pub(crate) fn prefetch(self, start: u64, slot: Slot<'_>) {
        Cells::of(self).prefetch(start);
        self.memory.prefetch(slot.at);
    }

    /// Records an access, if the fast path suffices. `known`: what the origin knows.
    #[inline(always)]
    pub(crate) fn record_word(self, new: &WordAccess, known: &impl Knows) -> bool {
        let Some(held) = Cells::of(self).hold_own(new.start) else { return false };
        // SeqCst: pairs with the store in `Records::add`.
        if new.origin >> (u32::BITS - ORIGIN) != 0 || low(self.word(IN_USE).load(Ordering::SeqCst)) != 0 {
            return false;
        }
        let words = held.words();
        let seconds = [SECOND, SECOND + 1].map(|word| words[word].load(Ordering::Relaxed));
        let mut look = Look { words, range: range_bits(new.start, new.len), seconds, free: 0, replaced: 0 };
        // Without a loop: the compiler computes the shifts.
        let suffices =
            look.at(0, new, known) && look.at(1, new, known) && look.at(2, new, known) && look.at(3, new, known);
        suffices && look.write(new)
    }
}

/// A cell whose lock is held, while a new access is compared with its records.
struct Look<'m> {
    words: &'m [AtomicU64; LINE / 8],
    /// The bits of offset and length of the new access.
    range: u64,
    /// The second parts of all records, without those that are of no further use.
    seconds: [u64; SLOTS / 2],
    /// A bit for each free slot, and for each record that is of no further use.
    free: u32,
    replaced: u32,
}

impl Look<'_> {
    /// Compares the access with a record. Returns false if the fast path does not suffice.
    #[inline(always)]
    fn at(&mut self, slot: usize, new: &WordAccess, known: &impl Knows) -> bool {
        let second = low(self.seconds[slot / 2] >> (slot % 2 * 32));
        if second == 0 {
            self.free |= 1 << slot;
            return true;
        }
        // Relaxed, here and below: under the lock of the cell.
        let first = self.words[FIRST + slot].load(Ordering::Relaxed);
        if first & RANGE != self.range {
            return bytes_of(first) & bytes_of(self.range) == 0;
        }
        let (origin, kind, ended) = ((second >> ORIGIN) as usize, second & KIND, first & (PENDING - 1));
        let own = origin == new.origin;
        if first & PENDING != 0 {
            return self.at_pending(slot, new, known, (first, origin, kind));
        }
        if !own && known.of(origin) <= ended {
            return agree(kind, new.kind);
        }
        // Another thread of this rank may have recorded a later access, which the new one must not
        // replace.
        if own && ended > new.released {
            return false;
        }
        // The access is complete, and ordered before the new one.
        if (own && kind == new.kind) || includes(new.kind, kind) || known.common_of(origin) > ended {
            self.replaces(slot);
        }
        true
    }

    /// [`Look::at`] for the record of an access of the same bytes that was in flight when the
    /// record was written.
    #[inline(always)]
    fn at_pending(
        &mut self,
        slot: usize,
        new: &WordAccess,
        known: &impl Knows,
        (first, origin, kind): (u64, usize, u32),
    ) -> bool {
        if first & LATER != LATER {
            return false;
        }
        if origin != new.origin {
            return known.of(origin) <= first & (OF_OWNER - 1) && agree(kind, new.kind);
        }
        // Both are in flight, or the older one is complete, and ordered before the new one.
        let again = new.is_later && kind == new.kind;
        if again {
            self.replaces(slot);
        }
        again
    }

    /// The record is of no further use.
    #[inline(always)]
    fn replaces(&mut self, slot: usize) {
        self.replaced |= 1 << slot;
        self.seconds[slot / 2] &= u64::from(u32::MAX) << ((1 - slot % 2) * 32);
    }

    /// Writes the record of the access. Returns false without room.
    #[inline(always)]
    fn write(self, new: &WordAccess) -> bool {
        let room = if self.replaced == 0 { self.free } else { self.replaced };
        if room == 0 {
            return false;
        }
        let slot = room.trailing_zeros() as usize % SLOTS;
        let ended = limited(new.released) | if new.is_later { LATER } else { 0 };
        self.words[FIRST + slot].store(first_part(new.place, self.range, ended), Ordering::Relaxed);
        let second = u64::from(new.kind | low(new.origin as u64) << ORIGIN) << (slot % 2 * 32);
        for (half, word) in self.seconds.into_iter().enumerate() {
            let word = word | if half == slot / 2 { second } else { 0 };
            self.words[SECOND + half].store(word, Ordering::Relaxed);
        }
        true
    }
}

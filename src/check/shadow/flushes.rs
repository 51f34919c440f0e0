//! The flushes of a part. Each of them completes all operations of one rank on the part, and is a
//! release of this rank. The record of an operation that ends at a flush has the number of releases
//! that the rank had made when the operation began. The operation is complete at the rank's first
//! later flush, so a flush visits no record.
//!
//! The part has the releases of the last flushes of each rank. A rank that knows of the first flush
//! after an operation knows that the operation is complete. If this flush may be forgotten, any
//! later release counts instead. Conflicts are then missed with ranks that know of a release
//! between the operation and its flush, and of none from the flush on.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{LINE, Shadow, flushes_at};

/// The number of flushes of which the part has the releases, for all ranks together, and its limits
/// for one rank.
const ALL: usize = 1 << 14;
const FEWEST: usize = 64;
const MOST: usize = 1 << 11;

/// The number of flushes of one rank, a power of two.
pub(super) fn room(ranks: usize) -> usize {
    (ALL >> ranks.next_power_of_two().trailing_zeros()).clamp(FEWEST, MOST)
}

/// The bytes of one rank: the number of its flushes, and the last releases.
fn stride(ranks: usize) -> usize {
    LINE + 8 * room(ranks)
}

/// The bytes of all ranks.
pub(super) fn bytes(ranks: usize) -> usize {
    ranks * stride(ranks)
}

impl<'m> Shadow<'m> {
    /// The next release of `rank`, number `release`, completes all operations of the rank on the
    /// part that end at a flush. The caller has the clock of the rank, and has not made the release
    /// visible yet.
    pub(crate) fn flushes(self, rank: usize, release: u64) {
        let count = self.flush_count(rank);
        let number = count.load(Ordering::Relaxed);
        // Release: whoever finds this entry in the place of an older one also finds the number of
        // the flush before.
        self.flush(rank, number).store(release, Ordering::Release);
        // Release: pairs with the Acquire of `is_flushed`.
        count.store(number + 1, Ordering::Release);
    }

    /// Whether a flush of `rank` has come after its release `begun`, and is not later than its
    /// release `known`.
    #[cold]
    pub(super) fn is_flushed(self, rank: usize, begun: u64, known: u64) -> bool {
        let (count, room) = (self.flush_count(rank), room(self.ranks) as u64);
        let number = count.load(Ordering::Acquire);
        let Some(last) = number.checked_sub(1) else { return false };
        // Acquire, here and below: pairs with the Release of `flushes`.
        let last = self.flush(rank, last).load(Ordering::Acquire);
        if last <= begun || last <= known {
            return last > begun;
        }
        // The flush whose release is written next may take the place of the oldest one.
        let oldest = |number: u64| (number + 1).saturating_sub(room);
        let (mut low, mut high) = (oldest(number), number);
        while low < high {
            let middle = low.midpoint(high);
            if self.flush(rank, middle).load(Ordering::Acquire) > begun { high = middle } else { low = middle + 1 }
        }
        if low == number {
            return false;
        }
        let release = self.flush(rank, low).load(Ordering::Acquire);
        let first = oldest(count.load(Ordering::Acquire));
        // An earlier flush may be forgotten, or the entry be that of a later flush.
        if first > 0 && low <= first { known > begun } else { known >= release }
    }

    fn flush_count(self, rank: usize) -> &'m AtomicU64 {
        self.word(flushes_at(self.ranks) + stride(self.ranks) * rank)
    }

    fn flush(self, rank: usize, number: u64) -> &'m AtomicU64 {
        let place = usize::try_from(number).unwrap_or(0) % room(self.ranks);
        self.word(flushes_at(self.ranks) + stride(self.ranks) * rank + LINE + 8 * place)
    }
}

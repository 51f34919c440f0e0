//! Vector clocks. A *release* of a rank is a synchronization that passes on what the rank has done,
//! and ranks count their releases. The clock of a rank has, for each rank, the number of releases
//! that it knows of. A rank that knows of n releases of another rank knows all that the other rank
//! did before its n-th release.

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

/// For each rank of the job, the number of its releases that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    known: Box<[u64]>,
    /// For each rank, the number of its releases that every rank of the job knows of, or will know
    /// of before it makes its next access.
    common: Box<[u64]>,
}

/// A clock in memory that the ranks of the node share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'m> {
    pub(super) memory: &'m Memory,
    pub(super) at: usize,
}

impl Clock {
    /// The clock at the start of a job: no release of any rank.
    pub(crate) fn new(ranks: usize) -> Clock {
        Clock { known: vec![0; ranks].into(), common: vec![0; ranks].into() }
    }

    /// The number of releases of `rank` that are known.
    #[inline]
    pub(crate) fn of(&self, rank: usize) -> u64 {
        self.known.get(rank).copied().unwrap_or(0)
    }

    /// The number of releases of `rank` that every rank of the job knows of.
    #[inline]
    pub(crate) fn common_of(&self, rank: usize) -> u64 {
        self.common.get(rank).copied().unwrap_or(0)
    }

    /// Merges `met`, which every rank of the job merges, because all ranks have met.
    pub(crate) fn join_common(&mut self, met: &[u64]) {
        self.join(met);
        self.common.iter_mut().zip(met).for_each(|(common, met)| *common = (*common).max(*met));
    }

    /// Counts a release of `rank`, whose clock this is.
    #[inline]
    pub(crate) fn advance(&mut self, rank: usize) {
        self.known[rank] += 1;
    }

    /// Merges the clock in a slot.
    #[inline]
    pub(crate) fn learn(&mut self, from: Slot<'_>) {
        let words = from.words(self.known.len());
        for (mine, word) in self.known.iter_mut().zip(words) {
            // Acquire: pairs with the Release of the stores.
            *mine = (*mine).max(word.load(Ordering::Acquire));
        }
    }

    /// Merges the counts of another clock.
    pub(crate) fn join(&mut self, other: &[u64]) {
        for (mine, other) in self.known.iter_mut().zip(other) {
            *mine = (*mine).max(*other);
        }
    }

    /// Merges another clock.
    pub(crate) fn merge(&mut self, other: &Clock) {
        self.join(&other.known);
        self.common.iter_mut().zip(&other.common).for_each(|(mine, other)| *mine = (*mine).max(*other));
    }

    /// Learns that `rank` has made `releases` releases.
    pub(crate) fn learn_of(&mut self, rank: usize, releases: u64) {
        self.known[rank] = self.known[rank].max(releases);
    }

    /// Stores this clock in a slot.
    pub(crate) fn store(&self, into: Slot<'_>) {
        for (mine, word) in self.known.iter().zip(into.words(self.known.len())) {
            word.store(*mine, Ordering::Release);
        }
    }

    /// Merges this clock into a slot.
    #[inline]
    pub(crate) fn teach(&self, into: Slot<'_>) {
        for (mine, word) in self.known.iter().zip(into.words(self.known.len())) {
            // Most words do not change; a load costs less than an atomic change.
            if word.load(Ordering::Relaxed) < *mine {
                word.fetch_max(*mine, Ordering::Release);
            }
        }
    }

    /// [`Clock::teach`] by the thread that holds the clock of `rank`.
    #[inline]
    pub(crate) fn teach_by(&self, rank: usize, into: Slot<'_>) {
        for (of, (mine, word)) in self.known.iter().zip(into.words(self.known.len())).enumerate() {
            if of == rank {
                // Release: pairs with the Acquire of `learn`. A store suffices: no thread knows a
                // larger count, and the `fetch_max` of another rank keeps this one.
                word.store(*mine, Ordering::Release);
            } else if word.load(Ordering::Relaxed) < *mine {
                word.fetch_max(*mine, Ordering::Release);
            }
        }
    }

    /// The counts, in the order of the ranks.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.known
    }
}

impl<'m> Slot<'m> {
    /// Whether the count of a rank other than `own` is larger here than in `counts`.
    #[inline]
    pub(crate) fn exceeds(self, counts: &[AtomicU64], own: usize) -> bool {
        // Relaxed: who learns from the slot reads it again.
        let exceeds = |(rank, (word, count)): (usize, (&AtomicU64, &AtomicU64))| {
            rank != own && word.load(Ordering::Relaxed) > count.load(Ordering::Relaxed)
        };
        self.words(counts.len()).iter().zip(counts).enumerate().any(exceeds)
    }

    #[inline]
    fn words(self, ranks: usize) -> &'m [AtomicU64] {
        self.memory.all_words64(self.at, ranks)
    }
}

/// The bytes of a slot in a job of `ranks` ranks.
pub(super) const fn slot_bytes(ranks: usize) -> usize {
    8 * ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_learns_what_a_slot_knows() {
        let memory = Memory::private(64);
        let slot = Slot { memory: &memory, at: 16 };
        let (mut first, mut second) = (Clock::new(3), Clock::new(3));
        first.advance(0);
        first.advance(0);
        second.advance(1);
        first.store(slot);
        second.teach(slot);
        let mut third = Clock::new(3);
        third.learn(slot);
        assert_eq!(third.counts(), [2, 1, 0]);
        second.store(slot);
        third.learn(slot);
        assert_eq!([0, 1, 2].map(|rank| third.of(rank)), [2, 1, 0], "a clock forgets nothing");
        third.advance(1);
        third.teach_by(1, slot);
        let mut fourth = Clock::new(3);
        fourth.learn(slot);
        assert_eq!(fourth.counts(), [2, 2, 0]);
        let counts = [1, 2, 0].map(AtomicU64::new);
        assert!(slot.exceeds(&counts, 1) && !slot.exceeds(&counts, 0), "only the count of rank 0 is larger");
        third.join(&[0, 5, 1]);
        assert_eq!(third.counts(), [2, 5, 1]);
        third.join_common(&[1, 7, 0]);
        assert_eq!(third.counts(), [2, 7, 1]);
        assert_eq!([0, 1, 2].map(|rank| third.common_of(rank)), [1, 7, 0], "not what only some have met with");
    }
}

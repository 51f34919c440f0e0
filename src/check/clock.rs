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

/// What a rank knows of the releases of others.
pub(crate) trait Knows {
    /// The number of releases of `rank` that are known.
    fn of(&self, rank: usize) -> u64;

    /// The number of releases of `rank` that every rank of the job knows of, as far as this is
    /// known.
    fn common_of(&self, rank: usize) -> u64;
}

/// The counts of a rank's clock, which all threads of the rank read without a lock. They may be
/// older than those of the clock.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The own count is the largest number: a rank learns nothing of itself.
    counts: Box<[AtomicU64]>,
    rank: usize,
}

impl Shown {
    /// The counts of `rank` at the start of a job.
    pub(super) fn new(rank: usize, ranks: usize) -> Shown {
        let count = |of| AtomicU64::new(if of == rank { u64::MAX } else { 0 });
        Shown { counts: (0..ranks).map(count).collect(), rank }
    }

    /// Shows the counts of the clock, whose lock the caller holds.
    pub(super) fn show(&self, clock: &Clock) {
        for (of, (shown, count)) in self.counts.iter().zip(clock.counts()).enumerate() {
            if of != self.rank {
                // Relaxed, here and below: the counts order no other access.
                shown.store(*count, Ordering::Relaxed);
            }
        }
    }

    /// Whether a count in the words of one or several slots is larger than its count shown here.
    #[inline]
    pub(super) fn lacks(&self, words: &[AtomicU64]) -> bool {
        let exceeds =
            |(word, count): (&AtomicU64, &AtomicU64)| word.load(Ordering::Relaxed) > count.load(Ordering::Relaxed);
        words.chunks(self.counts.len()).any(|slot| slot.iter().zip(&self.counts).any(exceeds))
    }
}

impl Knows for Shown {
    #[inline]
    fn of(&self, rank: usize) -> u64 {
        self.counts.get(rank).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    #[inline]
    fn common_of(&self, _rank: usize) -> u64 {
        0
    }
}

impl Knows for Clock {
    #[inline]
    fn of(&self, rank: usize) -> u64 {
        Clock::of(self, rank)
    }

    #[inline]
    fn common_of(&self, rank: usize) -> u64 {
        Clock::common_of(self, rank)
    }
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
        self.learn_words(from.words(self.known.len()));
    }

    /// [`Clock::learn`] from the words of one or several slots.
    pub(crate) fn learn_words(&mut self, from: &[AtomicU64]) {
        for slot in from.chunks(self.known.len()) {
            for (mine, word) in self.known.iter_mut().zip(slot) {
                // Acquire: pairs with the Release of the stores.
                *mine = (*mine).max(word.load(Ordering::Acquire));
            }
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

    /// Stores this clock in a slot that no other thread changes meanwhile.
    pub(crate) fn store(&self, into: Slot<'_>) {
        for (mine, word) in self.known.iter().zip(into.words(self.known.len())) {
            // Other ranks read the words often, and most do not change.
            if word.load(Ordering::Relaxed) != *mine {
                word.store(*mine, Ordering::Release);
            }
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
        self.teach_words(rank, into.words(self.known.len()));
    }

    /// [`Clock::teach_by`] for the words of one or several slots.
    #[inline]
    pub(crate) fn teach_words(&self, rank: usize, into: &[AtomicU64]) {
        for slot in into.chunks(self.known.len()) {
            for (of, (mine, word)) in self.known.iter().zip(slot).enumerate() {
                // A load costs less than an atomic change.
                if word.load(Ordering::Relaxed) < *mine {
                    if of == rank {
                        // Release: pairs with the Acquire of `learn`. A store suffices: no thread
                        // knows a larger count, and the `fetch_max` of another rank keeps this one.
                        word.store(*mine, Ordering::Release);
                    } else {
                        word.fetch_max(*mine, Ordering::Release);
                    }
                }
            }
        }
    }

    /// The counts, in the order of the ranks.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.known
    }
}

impl<'m> Slot<'m> {
    #[inline]
    pub(super) fn words(self, ranks: usize) -> &'m [AtomicU64] {
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
        let words = slot.words(3);
        let [first_shown, second_shown] = [0, 1].map(|rank| Shown::new(rank, 3));
        assert!(first_shown.lacks(words) && second_shown.lacks(words), "each lacks the count of the other");
        [&first_shown, &second_shown].into_iter().for_each(|shown| shown.show(&fourth));
        assert!(!first_shown.lacks(words) && !second_shown.lacks(words));
        assert_eq!([0, 1, 2].map(|rank| Knows::of(&first_shown, rank)), [u64::MAX, 2, 0]);
        third.join(&[0, 5, 1]);
        assert_eq!(third.counts(), [2, 5, 1]);
        third.join_common(&[1, 7, 0]);
        assert_eq!(third.counts(), [2, 7, 1]);
        assert_eq!([0, 1, 2].map(|rank| third.common_of(rank)), [1, 7, 0], "not what only some have met with");
    }
}

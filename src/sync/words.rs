//! The control words of a window at one rank: the lock of the rank's part; the master word and the
//! word of groups of the window's locks; the number of detached regions; notices of posts and
//! completions; the locks and gates of accumulates; the slots of fences. Layout only. Zeroed words
//! are the state of a new window.

use std::sync::atomic::{AtomicU32, AtomicU64};

use transom_fabric::{Amo, Memory};

use super::barrier;

/// Control words, in memory that may hold other data before them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'m> {
    memory: &'m Memory,
    base: usize,
}

impl<'m> Words<'m> {
    /// The control words that begin at byte `base`.
    #[inline]
    pub(crate) fn at(memory: &'m Memory, base: usize) -> Words<'m> {
        Words { memory, base }
    }

    /// These words, from byte `at` on.
    #[inline]
    pub(crate) fn from(self, at: usize) -> Words<'m> {
        Words { base: self.base + at, ..self }
    }

    #[inline]
    pub(crate) fn word32(self, at: usize) -> &'m AtomicU32 {
        self.memory.word32(self.base + at)
    }

    #[inline]
    pub(crate) fn word64(self, at: usize) -> &'m AtomicU64 {
        self.memory.word64(self.base + at)
    }

    /// The word at byte `at` of the memory, wherever these words begin.
    #[inline]
    pub(crate) fn of_memory(self, at: usize) -> &'m AtomicU32 {
        self.memory.word32(at)
    }

    /// Changes a word by an atomic of this CPU. Returns the previous value.
    #[inline]
    pub(crate) fn amo(self, at: usize, amo: Amo) -> u64 {
        self.memory.amo(self.base + at, amo)
    }
}

// Words with different purposes, and words with different writers, lie in different cache lines.

/// The lock of this rank's part (`sync::lock`).
pub(crate) const LOCK: usize = 0;
/// At rank 0 of the window: the holders of `lock_all` and of exclusive locks (`sync::lock`).
pub(crate) const MASTER: usize = LINE;
/// After the master word: the groups whose targets have the bias (`sync::lock`).
pub(crate) const GROUPS: usize = MASTER + 8;
/// The number of regions that this rank has detached from a dynamic window.
pub(crate) const VERSION: usize = 2 * LINE;
/// The number of completions of origins since the window was created (`sync::pscw_words`).
pub(crate) const COMPLETED: usize = 3 * LINE;
/// The first slot of the members that have posted to this rank (`sync::pscw_words`).
pub(crate) const POSTED: usize = 4 * LINE;
/// The number of those slots: one cache line.
pub(crate) const POSTED_SLOTS: usize = LINE / 8;
/// The first lock of stripes, one for each of [`STRIPES`].
pub(crate) const STRIPE_LOCKS: usize = 5 * LINE;
/// The number of stripes: consecutive blocks of the window belong to consecutive stripes.
pub(crate) const STRIPES: usize = 8;
/// The first gate of stripes, one for each stripe. Gates are read often and written seldom, so they
/// share a cache line.
pub(crate) const STRIPE_GATES: usize = STRIPE_LOCKS + STRIPES * LINE;
/// The bytes of a gate.
pub(crate) const GATE: usize = 4;
/// The first slot of the fences.
pub(crate) const FENCE: usize = STRIPE_GATES + LINE;
/// The distance in bytes between words of different writers: a cache line.
pub(crate) const LINE: usize = 64;

/// The bytes of a window's words in a job of `ranks` ranks: 896, and two cache lines for each
/// doubling of the ranks.
pub(crate) const fn bytes(ranks: usize) -> usize {
    FENCE + barrier::slots(ranks) * LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_ranks_fit_into_a_page() {
        assert_eq!(bytes(1), FENCE);
        assert_eq!(bytes(512), FENCE + 18 * LINE);
        assert!(bytes(1 << 20) <= 4096, "{} bytes", bytes(1 << 20));
    }

    /// Each purpose has separate cache lines, and so has each stripe's lock and each fence slot.
    #[test]
    fn words_of_different_purpose_share_no_line() {
        let words = [LOCK, MASTER, VERSION, COMPLETED, POSTED, STRIPE_GATES].into_iter();
        let stripes = (0..STRIPES).map(|stripe| STRIPE_LOCKS + stripe * LINE);
        let fences = (0..barrier::slots(512)).map(|slot| FENCE + slot * LINE);
        let mut lines: Vec<usize> = words.chain(stripes).chain(fences).map(|at| at / LINE).collect();
        lines.sort_unstable();
        assert_eq!(lines, (0..bytes(512) / LINE).collect::<Vec<_>>(), "each line once, and no others");
        assert_eq!(POSTED_SLOTS * 8, LINE);
        const { assert!(STRIPES * GATE <= LINE) };
    }
}

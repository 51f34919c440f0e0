//! Assertions of ranks (MPI-4.1 §12.5.5), and the calls that show whether the assertions are true.
//! The owner of a part writes the words of its own fences and posts, and each origin its own words.
//! Two ranks whose calls contradict each other each write a word and then read the word of the
//! other, in sequentially consistent order, so at least one of them sees both calls.

use std::sync::atomic::Ordering;

use super::{LINE, PROMISES, SPECIAL, Shadow, low, promises_at};

/// Two words for each of the last [`KEPT`] fences: first the fence's number plus 1, above 8 bits of
/// assertions, then the fence's place. A rank can be several fences ahead of another rank only if
/// its fences wait for no other rank.
const FENCES: usize = PROMISES;
const KEPT: u64 = 4;
/// The place of the post of the present exposure epoch plus 1, if the post has asserted that no
/// origin changes the part.
const NOPUT: usize = FENCES + 16 * 4;
/// Whether a lock of the part was asserted to need no check.
const NOCHECK: usize = NOPUT + 8;
/// The bytes of these words, in whole cache lines.
pub(super) const BYTES: usize = 2 * LINE;

/// The words of an origin: the lock that it holds, its last start that has the part, and the
/// owner's last post to the origin.
const HELD: usize = 0;
const STARTED: usize = 8;
const POSTED: usize = 16;
const OF_ORIGIN: usize = 24;

/// The bit of [`SPECIAL`] that says that some fence or post has asserted that no origin changes the
/// part.
pub(super) const HAS_NOPUT: u64 = 32;

/// The fields of an origin's word: bits of the call, the number of the call (of post and start),
/// and the place.
const PLACE: u32 = 32;
const COUNT: u32 = 1;
const COUNTS: u64 = (1 << (PLACE - COUNT)) - 1;

/// A lock that an origin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) is_exclusive: bool,
    /// Whether the lock is held by an assertion instead of a check.
    pub(crate) is_unchecked: bool,
    /// Whether it is one of `lock_all`.
    pub(crate) is_of_all: bool,
    /// The place of the call, by its number at the origin.
    pub(crate) place: u32,
}

/// One of the calls of `post` and `start` that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairedCall {
    pub(crate) has_nocheck: bool,
    pub(crate) place: u32,
}

/// The call of a pair that a rank makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paired {
    Post,
    Start,
}

/// The bytes of the origins' words.
pub(super) fn bytes(ranks: usize) -> usize {
    (OF_ORIGIN * ranks).next_multiple_of(LINE)
}

impl HeldLock {
    /// 0 stands for no lock.
    fn encode(self) -> u64 {
        let bits = [true, self.is_exclusive, self.is_unchecked, self.is_of_all];
        let bits = (0..).zip(bits).map(|(at, bit)| u64::from(bit) << at).sum::<u64>();
        bits | u64::from(self.place) << PLACE
    }

    fn decode(word: u64) -> Option<HeldLock> {
        let bit = |at: u32| word >> at & 1 != 0;
        let held =
            HeldLock { is_exclusive: bit(1), is_unchecked: bit(2), is_of_all: bit(3), place: low(word >> PLACE) };
        bit(0).then_some(held)
    }
}

impl<'m> Shadow<'m> {
    /// The part's rank calls its fence number `number` with some assertions. `noput`: one of them
    /// is that no origin changes the part.
    pub(crate) fn fences(self, number: u64, assertions: u8, noput: bool, place: u32) {
        let at = FENCES + usize::try_from(number % KEPT).unwrap_or(0) * 16;
        if noput {
            self.word(SPECIAL).fetch_or(HAS_NOPUT, Ordering::Relaxed);
        }
        // Relaxed: the number below publishes the place. Other ranks operate on the part only after
        // the barrier of this fence.
        self.word(at + 8).store(u64::from(place), Ordering::Relaxed);
        // SeqCst: pairs with the load in `fence`, of a rank that has stored its own before.
        self.word(at).store((number + 1) << u8::BITS | u64::from(assertions), Ordering::SeqCst);
    }

    /// The assertions of the rank's fence number `number`, and its place, if the rank has called it
    /// and few others since.
    pub(crate) fn fence(self, number: u64) -> Option<(u8, u32)> {
        let at = FENCES + usize::try_from(number % KEPT).unwrap_or(0) * 16;
        let word = self.word(at).load(Ordering::SeqCst);
        let [assertions, ..] = word.to_le_bytes();
        let place = low(self.word(at + 8).load(Ordering::Relaxed));
        (word >> u8::BITS == number + 1).then_some((assertions, place))
    }

    /// The part's rank begins an exposure epoch, or ends it. `place`: that of the post, if it has
    /// asserted that no origin changes the part.
    pub(crate) fn forbids_puts(self, place: Option<u32>) {
        if place.is_some() || self.has_noput() {
            self.word(SPECIAL).fetch_or(HAS_NOPUT, Ordering::Relaxed);
            // Relaxed: the post orders it before the accesses of the origins.
            self.word(NOPUT).store(place.map_or(0, |place| u64::from(place) + 1), Ordering::Relaxed);
        }
    }

    /// Whether the part's rank has ever asserted that no origin changes the part.
    #[inline]
    pub(crate) fn has_noput(self) -> bool {
        self.get(SPECIAL) & HAS_NOPUT != 0
    }

    /// The place of the post that forbids changes in the present exposure epoch.
    pub(crate) fn post_without_puts(self) -> Option<u32> {
        self.word(NOPUT).load(Ordering::Relaxed).checked_sub(1).map(low)
    }

    fn of_origin(self, origin: usize, word: usize) -> usize {
        promises_at(self.ranks) + OF_ORIGIN * origin + word
    }

    /// An origin holds a lock of the part from here on. Returns the locks of others that conflict
    /// with it, with their origins. The caller holds its lock, so that two locks that are checked
    /// are never found together.
    pub(crate) fn holds(self, origin: usize, lock: HeldLock) -> Vec<(usize, HeldLock)> {
        let unchecked = self.word(NOCHECK);
        if lock.is_unchecked {
            unchecked.store(1, Ordering::SeqCst);
        }
        // SeqCst: of two origins, each of which stores its word here and then reads the other's, at
        // least one finds the other's lock.
        self.word(self.of_origin(origin, HELD)).store(lock.encode(), Ordering::SeqCst);
        if unchecked.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let held = |other: usize| {
            let found = HeldLock::decode(self.word(self.of_origin(other, HELD)).load(Ordering::SeqCst))?;
            let is_wrong = (found.is_exclusive || lock.is_exclusive) && (found.is_unchecked || lock.is_unchecked);
            is_wrong.then_some((other, found))
        };
        (0..self.ranks).filter(|&other| other != origin).filter_map(held).collect()
    }

    /// An origin is about to release its lock.
    pub(crate) fn held(self, origin: usize) {
        // Release: a rank that gets the lock later sees that this word is clear.
        self.word(self.of_origin(origin, HELD)).store(0, Ordering::Release);
    }

    /// The part's rank posts to an origin, or the origin starts an epoch that has the part. Returns
    /// the other call of the pair, if it was made before and differs in its assertion.
    pub(crate) fn pairs(self, origin: usize, which: Paired, call: PairedCall) -> Option<PairedCall> {
        let (own, other) = if which == Paired::Post { (POSTED, STARTED) } else { (STARTED, POSTED) };
        let [own, other] = [own, other].map(|word| self.word(self.of_origin(origin, word)));
        let count = (own.load(Ordering::Relaxed) >> COUNT & COUNTS) + 1;
        let word = u64::from(call.has_nocheck) | (count & COUNTS) << COUNT | u64::from(call.place) << PLACE;
        // SeqCst: as in `holds`.
        own.store(word, Ordering::SeqCst);
        let found = other.load(Ordering::SeqCst);
        let pair = PairedCall { has_nocheck: found & 1 != 0, place: low(found >> PLACE) };
        let is_pair = found >> COUNT & COUNTS == count & COUNTS;
        (is_pair && pair.has_nocheck != call.has_nocheck).then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Memory;

    use super::super::bytes as shadow_bytes;
    use super::*;

    const RANKS: usize = 3;

    fn memory() -> Memory {
        let memory = Memory::private(shadow_bytes(RANKS, 64, 64, 0));
        Shadow::prepare(&memory, (0, RANKS), 64, 64, 0);
        memory
    }

    /// Shows E5.
    #[test]
    fn conflicting_locks_are_found_if_one_is_unchecked() {
        let memory = memory();
        let shadow = Shadow::of(&memory, RANKS);
        let lock = |is_exclusive, is_unchecked, place| HeldLock { is_exclusive, is_unchecked, is_of_all: false, place };
        let exclusive = lock(true, true, 7);
        assert_eq!(shadow.holds(2, lock(false, false, 5)), []);
        assert_eq!(shadow.holds(1, lock(false, true, 6)), [], "shared locks do not conflict");
        assert_eq!(shadow.holds(0, exclusive), [(1, lock(false, true, 6)), (2, lock(false, false, 5))]);
        shadow.held(1);
        shadow.held(2);
        let all = HeldLock { is_of_all: true, ..lock(false, false, u32::MAX) };
        assert_eq!(shadow.holds(1, all), [(0, exclusive)]);
        shadow.held(0);
        assert_eq!(shadow.holds(2, lock(true, false, 8)), [], "checked locks exclude each other");
        assert_eq!(shadow.holds(0, exclusive), [(1, all), (2, lock(true, false, 8))]);
    }

    /// Shows E5.
    #[test]
    fn posts_and_starts_are_compared_in_pairs() {
        let memory = memory();
        let shadow = Shadow::of(&memory, RANKS);
        let call = |has_nocheck, place| PairedCall { has_nocheck, place };
        assert_eq!(shadow.pairs(1, Paired::Post, call(true, 1)), None, "the start comes later");
        assert_eq!(shadow.pairs(2, Paired::Start, call(false, 2)), None, "of another origin");
        assert_eq!(shadow.pairs(1, Paired::Start, call(true, 3)), None, "both have it");
        assert_eq!(shadow.pairs(1, Paired::Start, call(true, 4)), None, "the second post comes later");
        assert_eq!(shadow.pairs(1, Paired::Post, call(false, 5)), Some(call(true, 4)));
        assert_eq!(shadow.pairs(1, Paired::Post, call(false, 6)), None);
        assert_eq!(shadow.pairs(1, Paired::Start, call(true, 7)), Some(call(false, 6)));
        assert_eq!(shadow.pairs(2, Paired::Post, call(true, 8)), Some(call(false, 2)));
    }

    /// Shows E5.
    #[test]
    fn a_fence_is_known_until_few_others_follow() {
        let memory = memory();
        let shadow = Shadow::of(&memory, RANKS);
        assert_eq!(shadow.fence(0), None);
        shadow.fences(1, 3, true, 9);
        assert_eq!((shadow.fence(1), shadow.fence(0), shadow.has_noput()), (Some((3, 9)), None, true));
        (2..=KEPT).for_each(|number| shadow.fences(number, 0, false, 1));
        assert_eq!(shadow.fence(1), Some((3, 9)));
        shadow.fences(KEPT + 1, 4, false, 2);
        assert_eq!((shadow.fence(1), shadow.fence(KEPT + 1)), (None, Some((4, 2))));
        shadow.forbids_puts(Some(0));
        assert_eq!(shadow.post_without_puts(), Some(0));
        shadow.forbids_puts(None);
        assert_eq!(shadow.post_without_puts(), None);
    }
}

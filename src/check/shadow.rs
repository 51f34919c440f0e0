//! The shadow of one rank's part of a window: records of the accesses to its byte ranges, and the
//! clocks by which ranks synchronize at the part. A shadow lies in memory that all ranks of the
//! node map. Its size is fixed: if no record is free, an old one is dropped, and counted.
//!
//! An access within one aligned block of 16 bytes is recorded in the *cell* of the block, under the
//! cell's own lock (`cells`). Other accesses, and those for which the cell has no room, are
//! recorded in *chains* (`records`), under the lock of the shadow (`lock`).
//!
//! A *release* of a rank is a synchronization that passes on what the rank has done (`clock`).
//! Ranks count their releases. An access is known to be complete to each rank that knows of a later
//! release of the access's origin. `MPI_WIN_COMPLETE` completes operations at the origin only. At
//! the target they are complete when the exposure epoch ends, so the ranks that know it are those
//! that know of a later release of the target.

mod cells;
mod comparison;
mod exposures;
mod flushes;
mod lock;
mod promises;
mod records;
mod words;

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};
use super::rules::{Kind, Rule, agree, includes};
pub(crate) use comparison::Ends;
use comparison::{New, Older};
pub(crate) use lock::Locked;
pub(crate) use promises::{HeldLock, Paired, PairedCall};
pub(crate) use words::WordAccess;

/// The offsets of the header's words. The words of the first cache line rarely change.
const LOCK: usize = 0;
/// The number of cells, of chains, and of records in chains.
const CELLS: usize = 8;
const BUCKETS: usize = 16;
const RECORDS: usize = 24;
/// Bit l: level l has records in chains. Bit 32 + l: level l has had a record that extends beyond
/// its block.
const IN_USE: usize = 32;
/// What is special about the part: the bits [`SHARED`], [`HAS_LOG`], [`HAS_LONG`], [`POLLED`],
/// [`HAS_FLAGS`] and [`promises::HAS_NOPUT`].
const SPECIAL: usize = 40;
/// One less than the number of clocks of single atomics, a power of two.
const WORDS: usize = 48;
/// The offset of the cells.
const CELLS_AT: usize = 56;
/// The first free record in chains, plus 1.
const FREE: usize = 64;
/// The first candidate among the records in chains for the next drop.
const HAND: usize = 72;
/// The number of records that were dropped although a conflict with them was still possible.
const DROPPED: usize = 80;
/// The log: the number of entries that were added, of entries that the part's rank has read, of
/// entries that fit, and of entries that found no room.
const LOGGED: usize = 88;
const READ: usize = 96;
const ROOM: usize = 104;
const LOST: usize = 112;
/// The number of records in chains that have been in use at any time.
const USED: usize = 120;
/// The number of records in chains, for each level.
const LIVE: usize = 128;
/// The number of records in chains that the next search for a complete one may visit.
const SEARCH: usize = 208;
/// The address of the part's first byte, if the part is [`SHARED`].
const BASE: usize = 216;
/// The rank of the part.
const OWNER: usize = 224;
/// The number of entries of the log that the part's rank must not read any more.
const MISSED: usize = 240;
/// The bytes that have had long accumulates: from the complement of the first word to the second.
const LONG_START: usize = 256;
const LONG_END: usize = 264;
/// At the first rank of the window: the meeting of its ranks (`window/checked/meeting.rs`).
const MEETING: usize = 272;
/// The words of `exposures`.
const EXPOSURES: usize = 320;
/// The words of `promises`.
const PROMISES: usize = EXPOSURES + exposures::BYTES;
const CLOCKS: usize = PROMISES + promises::BYTES;

/// Accesses are also recorded by address, because another window has some of the same memory.
const SHARED: u64 = 1;
/// There is a log.
const HAS_LOG: u64 = 2;
/// The clock [`At::Long`] has been used.
const HAS_LONG: u64 = 4;
/// The part's rank has called `MPI_WIN_SYNC`, by which it may poll the part.
const POLLED: u64 = 8;
/// The part's rank may store flags there, for which other ranks poll by operations.
const HAS_FLAGS: u64 = 16;

/// In place of a count of releases: the access is not complete.
const IN_FLIGHT: u64 = u64::MAX;

/// In place of a count of the origin's releases, with the number of an exposure epoch of the part:
/// the access is complete when this epoch ends.
const OF_OWNER: u64 = 1 << 40;

/// In place of a count of the origin's releases, with the number that the origin had made when the
/// access began: the access is complete at the origin's next flush of the part (`flushes`).
const LATER: u64 = OF_OWNER << 1 | OF_OWNER;

/// Binary logarithm of the bytes of a word, and of a half, which has a clock of its own: programs
/// keep flags of 4 bytes side by side.
const WORD: u32 = 3;
const HALF: u32 = 2;

/// Attempts to take the lock by a rank that reads its log, before it drops the entries.
const MAX_ATTEMPTS: u32 = 1 << 16;

/// The bytes of the clocks of single atomics, and limits of their number. Halves of words share
/// clocks, and atomics on halves that share one appear to synchronize with each other.
const ATOMICS: usize = 1 << 19;
const FEWEST_ATOMICS: usize = 512;
const MOST_CLOCKS: usize = 1 << 14;
/// Accumulates on more words synchronize through one clock ([`At::Long`]).
const MOST_ATOMICS: u64 = 8;

/// The number of clocks that are not of single atomics.
const NAMED: usize = 9;

/// The bytes of a cache line.
const LINE: usize = 64;

/// A clock of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// This rank's clock at a barrier of the window's ranks, by the number of the barrier. Even and
    /// odd barriers have separate clocks.
    Barrier(u64),
    /// This rank's clock at its last `post`.
    Post,
    /// The merged clocks of the ranks that completed epochs to the part.
    Complete,
    /// The merged clocks of the ranks that released the part's lock, exclusive or shared.
    Exclusive,
    Shared,
    /// The merged clocks of the ranks that completed operations on the part.
    Settled,
    /// The merged clocks of long accumulates.
    Long,
    /// The merged clocks of ranks that put a word, before the put; if the part's rank polls the
    /// part, also those of ranks that accumulate.
    Flags,
    /// The merged clocks of atomics on a half of a word, by a byte of the half.
    Half(u64),
    /// One of these clocks, by its number.
    Nth(u64),
}

impl At {
    /// The number of the clock. `words`: [`WORDS`].
    #[inline]
    fn number(self, words: usize) -> usize {
        match self {
            At::Barrier(turn) => usize::from(!turn.is_multiple_of(2)),
            At::Post => 2,
            At::Complete => 3,
            At::Exclusive => 4,
            At::Shared => 5,
            At::Settled => 6,
            At::Long => 7,
            At::Flags => 8,
            At::Nth(number) => NAMED + (usize::try_from(number).unwrap_or(0) & words),
            // The clocks of the two halves of a word are neighbors.
            At::Half(at) => NAMED + ((hash(at >> WORD, 0) << 1 | usize::from(at >> HALF & 1 != 0)) & words),
        }
    }
}

/// An access to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: Kind,
    /// The rank of the job that accesses.
    pub(crate) origin: usize,
    /// The place in the program, by its number at the origin.
    pub(crate) place: u32,
}

/// A reference to the record of an access. The record may later be given to another access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    place: In,
    /// The number of the access among all to which the record was given.
    number: u64,
}

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum In {
    Cell { cell: u32, slot: u8 },
    Chain(u32),
}

/// An entry of the log: a complete access of another rank to this rank's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) access: Access,
    /// The number of this rank's releases that the origin knew of when the access began.
    pub(crate) known: u64,
    /// The last release after which the access was complete, in the form of [`Older::ended`].
    pub(crate) done: u64,
}

impl LogEntry {
    /// The rank whose releases tell that the access is complete, and the number of releases that
    /// ranks must exceed that know it. `None`: the exposure epoch of the access lasts.
    pub(super) fn completed_by(&self, shadow: Shadow<'_>) -> Option<(usize, u64)> {
        shadow.completed_by(self.done, self.access.origin)
    }
}

/// An earlier access that a new one conflicts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clash {
    pub(crate) older: Access,
    pub(crate) rule: Rule,
}

/// The shadow of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow<'m> {
    memory: &'m Memory,
    ranks: usize,
    /// The first cache line.
    head: &'m [AtomicU64; LINE / 8],
}

/// The records of a shadow.
#[derive(Debug)]
pub(crate) struct Records<'m>(Shadow<'m>);

/// The number of cells for a part of `size` bytes: one for two words, if that is at most eight
/// times the number of records.
fn cells(size: u64, records: usize) -> usize {
    words(size / 2).min(records.saturating_mul(8)).max(64).next_power_of_two()
}

/// The number of chains for a part of `size` bytes.
fn buckets(size: u64, records: usize) -> usize {
    words(size).min(records).max(64).next_power_of_two()
}

fn words(size: u64) -> usize {
    usize::try_from(size >> WORD).unwrap_or(usize::MAX)
}

/// The bytes of the shadow of a part of `size` bytes in a job of `ranks` ranks, with a log of
/// `room` entries.
pub(crate) fn bytes(ranks: usize, size: u64, records: usize, room: usize) -> usize {
    let (cells, buckets) = (cells(size, records), buckets(size, records));
    cells_at(ranks) + cells::bytes(cells) + 8 * buckets + records::RECORD * records + records::ENTRY * room
}

/// The number of clocks of single atomics, a power of two.
fn atomics(ranks: usize) -> usize {
    (ATOMICS >> slot_bytes(ranks).next_power_of_two().trailing_zeros()).clamp(FEWEST_ATOMICS, MOST_CLOCKS)
}

fn readers_at(ranks: usize) -> usize {
    (CLOCKS + (NAMED + atomics(ranks)) * slot_bytes(ranks)).next_multiple_of(LINE)
}

fn promises_at(ranks: usize) -> usize {
    readers_at(ranks) + LINE * ranks
}

fn flushes_at(ranks: usize) -> usize {
    promises_at(ranks) + promises::bytes(ranks)
}

fn cells_at(ranks: usize) -> usize {
    flushes_at(ranks) + flushes::bytes(ranks)
}

/// A hash of a block's number and level.
fn hash(block: u64, level: usize) -> usize {
    let mixed = (block ^ (level as u64) << 58).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 40).unwrap_or(0)
}

impl<'m> Shadow<'m> {
    /// The shadow in `memory`, which its rank has prepared.
    #[inline]
    pub(crate) fn of(memory: &'m Memory, ranks: usize) -> Shadow<'m> {
        Shadow { memory, ranks, head: memory.words64(0) }
    }

    /// Makes an empty shadow of zeroed memory of [`bytes`] bytes. `owner`: the rank of the part.
    pub(crate) fn prepare(memory: &'m Memory, (owner, ranks): (usize, usize), size: u64, records: usize, room: usize) {
        let shadow = Shadow::of(memory, ranks);
        // Relaxed: other ranks read it after a barrier.
        shadow.word(OWNER).store(owner as u64, Ordering::Relaxed);
        shadow.word(CELLS_AT).store(cells_at(ranks) as u64, Ordering::Relaxed);
        shadow.word(WORDS).store(atomics(ranks) as u64 - 1, Ordering::Relaxed);
        shadow.word(SPECIAL).store(if room > 0 { HAS_LOG } else { 0 }, Ordering::Relaxed);
        shadow.word(CELLS).store(cells(size, records) as u64, Ordering::Relaxed);
        shadow.word(BUCKETS).store(buckets(size, records) as u64, Ordering::Relaxed);
        shadow.word(RECORDS).store(records as u64, Ordering::Relaxed);
        shadow.word(SEARCH).store(records as u64, Ordering::Relaxed);
        shadow.word(ROOM).store(room as u64, Ordering::Relaxed);
    }

    /// One of the clocks.
    #[inline]
    pub(crate) fn clock(self, at: At) -> Slot<'m> {
        Slot { memory: self.memory, at: CLOCKS + at.number(self.count(WORDS)) * slot_bytes(self.ranks) }
    }

    /// The clocks through which a change of a range passes on what its rank has done.
    pub(crate) fn clocks_of(self, start: u64, end: u64) -> impl Iterator<Item = Slot<'m>> {
        let last = end.saturating_sub(1);
        let long = (last >> WORD) - (start >> WORD) >= MOST_ATOMICS;
        if long {
            // Relaxed: the synchronization by which the value of an accumulate arrives also makes
            // these words visible.
            self.word(LONG_START).fetch_max(!start, Ordering::Relaxed);
            self.word(LONG_END).fetch_max(end, Ordering::Relaxed);
            self.word(SPECIAL).fetch_or(HAS_LONG, Ordering::Relaxed);
        }
        let first = start >> HALF;
        let halves = first..if long { first } else { (last >> HALF) + 1 };
        halves.map(move |half| self.clock(At::Half(half << HALF))).chain(long.then(|| self.clock(At::Long)))
    }

    /// The clocks of all single atomics and long accumulates.
    pub(crate) fn all_atomics(self) -> impl Iterator<Item = Slot<'m>> {
        (0..self.get(WORDS) + 1).map(move |nth| self.clock(At::Nth(nth))).chain([self.clock(At::Long)])
    }

    /// The part's rank may poll the part. Returns whether it did before.
    pub(crate) fn polls(self) -> bool {
        // Relaxed, here and below: the poller reads the clocks of earlier accumulates too.
        self.is_polled() || self.word(SPECIAL).fetch_or(POLLED, Ordering::Relaxed) & POLLED != 0
    }

    /// Whether [`Shadow::polls`] was called.
    pub(crate) fn is_polled(self) -> bool {
        self.get(SPECIAL) & POLLED != 0
    }

    /// The part's rank may store flags in its part, outside of exposure epochs and fences.
    pub(crate) fn gets_flags(self) {
        if !self.may_have_flags() {
            // Relaxed: who finds a flag finds this bit too.
            self.word(SPECIAL).fetch_or(HAS_FLAGS, Ordering::Relaxed);
        }
    }

    /// Whether [`Shadow::gets_flags`] or [`Shadow::polls`] was called.
    #[inline]
    pub(crate) fn may_have_flags(self) -> bool {
        self.get(SPECIAL) & (HAS_FLAGS | POLLED) != 0
    }

    /// The clocks from which a rank learns that has read a range.
    pub(crate) fn clocks_for(self, start: u64, end: u64) -> impl Iterator<Item = Slot<'m>> {
        let (first, last) = (start >> HALF, end.saturating_sub(1) >> HALF);
        // A range of that many halves may have all clocks.
        let has_all = last - first > self.get(WORDS);
        let halves = if has_all { 0..self.get(WORDS) + 1 } else { first..last + 1 };
        let clock = move |half| self.clock(if has_all { At::Nth(half) } else { At::Half(half << HALF) });
        halves.map(clock).chain(self.long(start, end))
    }

    /// The clock of long accumulates, if the range may have had one.
    #[inline]
    pub(crate) fn long(self, start: u64, end: u64) -> Option<Slot<'m>> {
        let has = self.get(SPECIAL) & HAS_LONG != 0 && start < self.get(LONG_END) && !self.get(LONG_START) < end;
        has.then(|| self.clock(At::Long))
    }

    /// The number of records that were dropped although a conflict with them was possible.
    pub(crate) fn dropped(self) -> u64 {
        self.word(DROPPED).load(Ordering::Relaxed)
    }

    /// Whether the log has entries that its rank has not read.
    pub(crate) fn has_told(self) -> bool {
        // Relaxed: the synchronization by which a rank learns that an access is complete also makes
        // the entry visible.
        self.word(LOGGED).load(Ordering::Relaxed) != self.word(READ).load(Ordering::Relaxed)
    }

    /// Removes and returns all entries of the log. If another rank holds the lock for too long, the
    /// call returns none, and drops the entries that are in the log now. They can't be reported
    /// later: this rank is about to synchronize, and its accesses after that are ordered behind
    /// them.
    pub(crate) fn drain(self) -> Vec<LogEntry> {
        let wait = |attempt| {
            std::thread::yield_now();
            if attempt < MAX_ATTEMPTS { Ok(()) } else { Err(()) }
        };
        let Ok(locked) = self.lock(wait) else {
            // Another thread of the rank may have set a later number. Relaxed: as in `set`.
            self.word(MISSED).fetch_max(self.get(LOGGED), Ordering::Relaxed);
            return Vec::new();
        };
        locked.drop_missed();
        std::iter::from_fn(|| locked.next_logged()).collect()
    }

    /// Has later accesses to the part also recorded by address. `base`: the address of the part's
    /// first byte.
    pub(crate) fn share(self, base: u64) {
        self.word(BASE).store(base, Ordering::Relaxed);
        // Release: pairs with the Acquire of `shared`.
        self.word(SPECIAL).fetch_or(SHARED, Ordering::Release);
    }

    /// The address of the part's first byte, if [`Shadow::share`] was called.
    pub(crate) fn shared(self) -> Option<u64> {
        let is_shared = self.word(SPECIAL).load(Ordering::Acquire) & SHARED != 0;
        is_shared.then(|| self.word(BASE).load(Ordering::Relaxed))
    }

    /// The word by which the ranks of the window meet, at the first of them.
    pub(crate) fn meeting(self) -> &'m AtomicU64 {
        self.word(MEETING)
    }

    /// The end of accesses in a record: their origin has made `releases` releases.
    #[inline]
    pub(crate) fn ends_with_release(releases: u64) -> u64 {
        limited(releases)
    }

    /// Whether an access is complete to a rank that knows of `known(r)` releases of rank r.
    #[inline]
    fn is_over(self, older: &Older, known: impl Fn(usize) -> u64) -> bool {
        if older.ended >= LATER {
            let knows =
                |begun| known(older.origin) > begun && self.is_flushed(older.origin, begun, known(older.origin));
            return older.ended != IN_FLIGHT && knows(older.ended & (OF_OWNER - 1));
        }
        let by = self.completed_by(older.ended, older.origin);
        by.is_some_and(|(rank, releases)| known(rank) > releases)
    }

    /// Whether there is a log.
    pub(crate) fn has_log(self) -> bool {
        self.get(SPECIAL) & HAS_LOG != 0
    }

    /// Whether accesses are recorded here and nowhere else, neither by address nor in the log, and
    /// the part's rank does not poll.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.get(SPECIAL) & (SHARED | HAS_LOG | POLLED) == 0
    }

    /// The number of entries that the log had no room for.
    pub(crate) fn untold(self) -> u64 {
        self.word(LOST).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn word(self, at: usize) -> &'m AtomicU64 {
        if at < LINE { &self.head[at / 8] } else { self.memory.word64(at) }
    }

    // Relaxed: the words that change are accessed under a lock, or only gain bits.
    #[inline]
    fn get(self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn set(self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn count(self, at: usize) -> usize {
        usize::try_from(self.get(at)).unwrap_or(usize::MAX)
    }

    /// Counts records that were dropped although a conflict with them was possible.
    fn drops(self, records: u64) {
        if records > 0 {
            self.word(DROPPED).fetch_add(records, Ordering::Relaxed);
        }
    }
}

/// A number of releases as records have it. Accesses behind a larger one count as complete earlier.
#[inline]
fn limited(releases: u64) -> u64 {
    releases.min(OF_OWNER - 1)
}

/// The low half of a word.
#[allow(clippy::cast_possible_truncation)]
fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests;

//! The shadow of one rank's part of a window: which accesses its bytes have had, as records by byte
//! range, and the clocks by which ranks synchronize at it. It lies in memory that all ranks of the
//! node map, and has a fixed size: where no record is free, an old one is dropped, and counted.
//!
//! An access within an aligned word of 8 bytes has its record in the cell of the word (`cells`),
//! which has a lock of its own. Other accesses, and those for which the cell has no room, have
//! theirs in chains (`records`) under the lock of the shadow (`lock`).

mod cells;
mod lock;
mod records;

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};
use super::rules::{Kind, Rule, agree, conflict, includes};
use cells::Cells;
pub(crate) use lock::Locked;

/// The header's words. Those of the first cache line rarely change.
const LOCK: usize = 0;
/// The numbers of cells, of chains and of records in chains.
const CELLS: usize = 8;
const BUCKETS: usize = 16;
const RECORDS: usize = 24;
/// Which levels have records in chains, and, above them, of which levels a record extended beyond
/// its block: a bit each.
const IN_USE: usize = 32;
/// Whether accesses are also recorded by address, because another window has some of the memory,
/// and the address of the part's first byte.
const SHARED: usize = 40;
const BASE: usize = 48;
/// Where cells begin.
const CELLS_AT: usize = 56;
/// The first free record among them, plus 1.
const FREE: usize = 64;
/// The next record to drop.
const HAND: usize = 72;
/// The number of records that were dropped although a conflict with them was still possible.
const DROPPED: usize = 80;
/// The entries that the log has had, those that its rank has read, its room, and how many entries
/// found no room.
const LOGGED: usize = 88;
const READ: usize = 96;
const ROOM: usize = 104;
const LOST: usize = 112;
/// The number of records in chains that were used so far.
const USED: usize = 120;
/// The number of records of each level.
const LIVE: usize = 128;
const CLOCKS: usize = 256;

/// The count of releases of an access that is not complete.
const IN_FLIGHT: u64 = u64::MAX;

/// The bit of a word's number that its bytes share.
const WORD: u32 = 3;

/// Attempts at the lock by a rank that reads its log.
const MOST_TURNS: u32 = 1 << 16;

/// The clocks of single atomics: places that share one synchronize more than they do. As many as
/// fit into so many bytes, within limits.
const ATOMICS: usize = 1 << 18;
const FEWEST_ATOMICS: usize = 256;
const MOST_CLOCKS: usize = 1 << 13;
/// Longer accumulates synchronize through the clock of all.
const MOST_ATOMICS: u64 = 8;

/// The number of the other clocks.
const NAMED: usize = 9;

/// The bytes of a cache line.
const LINE: usize = 64;

/// A clock of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// This rank's clock at a barrier of the window's ranks; barriers take turns.
    Barrier(u64),
    /// This rank's clock at its last `post`.
    Post,
    /// This rank's clock at its last `complete`.
    Complete,
    /// The clocks of those that released the part's lock from exclusive and from shared mode.
    Exclusive,
    Shared,
    /// The clocks of those that raised a counter of notified operations of this rank.
    Notices,
    /// The clocks of those whose operations on the part are complete.
    Settled,
    /// The clocks of long accumulates.
    Long,
    /// The clocks of atomics on a word.
    Word(u64),
}

impl At {
    fn number(self, ranks: usize) -> usize {
        match self {
            At::Barrier(turn) => usize::from(!turn.is_multiple_of(2)),
            At::Post => 2,
            At::Complete => 3,
            At::Exclusive => 4,
            At::Shared => 5,
            At::Notices => 6,
            At::Settled => 7,
            At::Long => 8,
            At::Word(at) => NAMED + (hash(at >> WORD, 0) & (atomics(ranks) - 1)),
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
    /// Where in the program, by its number at the origin.
    pub(crate) place: u32,
}

/// A record, which may be another access's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    place: In,
    /// Which of the record's accesses it was.
    number: u64,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    Cell { cell: u32, slot: u8 },
    Chain(u32),
}

/// A complete access of another rank, as the log tells this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) access: Access,
    /// How many releases of this rank the origin knew when it began.
    pub(crate) known: u64,
    /// How many releases the origin had made when it was complete.
    pub(crate) done: u64,
}

/// An earlier access that a new one conflicts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(crate) older: Access,
    pub(crate) rule: Rule,
}

/// The shadow of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow<'m> {
    memory: &'m Memory,
    ranks: usize,
}

/// The records of a shadow, for who has its lock.
#[derive(Debug)]
pub(crate) struct Records<'m>(Shadow<'m>);

/// An access of another call, as a record has it.
#[derive(Clone, Copy, Debug)]
struct Older {
    start: u64,
    end: u64,
    /// Encoded.
    kind: u32,
    origin: usize,
    /// After how many releases of its origin it was complete.
    ended: u64,
}

/// A new access, with what its rank knows.
#[derive(Clone, Copy, Debug)]
struct New<'c> {
    access: Access,
    /// The kind, encoded.
    kind: u32,
    clock: &'c Clock,
    /// Whether it is complete when its rank releases next.
    done: bool,
}

/// What a new access means to the record of an older one that overlaps it.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    rule: Option<Rule>,
    /// Whether the record of the older one is of no more use.
    is_replaced: bool,
}

impl<'c> New<'c> {
    fn of(access: Access, clock: &'c Clock, done: bool) -> New<'c> {
        New { access, kind: access.kind.encode(), clock, done }
    }

    /// After how many releases of its origin it is complete.
    fn ends(&self) -> u64 {
        if self.done { self.clock.of(self.access.origin) } else { IN_FLIGHT }
    }

    fn overlaps(&self, older: &Older) -> bool {
        older.start < self.access.end && self.access.start < older.end
    }

    /// Whether every rank knows the older access to be complete, so that no further access is
    /// concurrent with it.
    #[inline]
    fn is_behind(&self, older: &Older) -> bool {
        older.ended != IN_FLIGHT && self.clock.common_of(older.origin) > older.ended
    }

    /// Whether this rank knows it to be complete.
    #[inline]
    fn knows(&self, older: &Older) -> bool {
        older.ended != IN_FLIGHT && self.clock.of(older.origin) > older.ended
    }

    #[inline]
    fn judge(&self, older: &Older) -> Verdict {
        let New { access: new, kind, done, .. } = *self;
        let own = older.origin == new.origin;
        let ordered = older.ended != IN_FLIGHT && (own || self.knows(older));
        let rule = if ordered || (older.start == new.start && agree(older.kind, kind)) {
            None
        } else {
            conflict((Kind::decode(older.kind), older.start), (new.kind, new.start), own)
        };
        let covered = new.start <= older.start && older.end <= new.end;
        let again = own && older.ended == IN_FLIGHT && !done && older.kind == kind;
        let is_replaced = (covered && (again || (ordered && self.stands_for(older)))) || self.is_behind(older);
        Verdict { rule, is_replaced }
    }

    /// Whether each later access that conflicts with `older`, which is ordered before this one and
    /// within its range, conflicts with this one too.
    #[inline]
    fn stands_for(&self, older: &Older) -> bool {
        let New { access: new, kind, .. } = self;
        matches!(new.kind, Kind::Put | Kind::Store)
            || (*kind == older.kind && new.origin == older.origin)
            || (new.start == older.start && new.end == older.end && includes(*kind, older.kind))
    }
}

/// The number of cells for a part of `size` bytes: one for each word, if that is at most four times
/// the number of records.
fn cells(size: u64, records: usize) -> usize {
    words(size).min(records.saturating_mul(4)).max(64).next_power_of_two()
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

fn cells_at(ranks: usize) -> usize {
    readers_at(ranks) + LINE * ranks
}

/// Spreads numbers of blocks.
fn hash(block: u64, level: usize) -> usize {
    let mixed = (block ^ (level as u64) << 58).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 40).unwrap_or(0)
}

impl<'m> Shadow<'m> {
    /// The shadow in `memory`, which its rank has prepared.
    pub(crate) fn of(memory: &'m Memory, ranks: usize) -> Shadow<'m> {
        Shadow { memory, ranks }
    }

    /// Makes an empty shadow of zeroed memory of [`bytes`] bytes.
    pub(crate) fn prepare(memory: &'m Memory, ranks: usize, size: u64, records: usize, room: usize) {
        let shadow = Shadow { memory, ranks };
        // Relaxed: other ranks read it after a barrier.
        shadow.word(CELLS_AT).store(cells_at(ranks) as u64, Ordering::Relaxed);
        shadow.word(CELLS).store(cells(size, records) as u64, Ordering::Relaxed);
        shadow.word(BUCKETS).store(buckets(size, records) as u64, Ordering::Relaxed);
        shadow.word(RECORDS).store(records as u64, Ordering::Relaxed);
        shadow.word(ROOM).store(room as u64, Ordering::Relaxed);
    }

    /// One of the clocks.
    pub(crate) fn clock(self, at: At) -> Slot<'m> {
        Slot { memory: self.memory, at: CLOCKS + at.number(self.ranks) * slot_bytes(self.ranks) }
    }

    /// Fetches the cache lines that an access to a word at `start` needs.
    #[inline]
    pub(crate) fn prefetch(self, start: u64) {
        Cells::of(self).prefetch(start >> WORD);
        self.memory.prefetch(self.clock(At::Word(start)).at);
    }

    /// The clocks of an accumulate on a range.
    pub(crate) fn clocks_of(self, start: u64, end: u64) -> impl Iterator<Item = Slot<'m>> {
        let words = (end.saturating_sub(1) >> 3) - (start >> 3) + 1;
        let long = words > MOST_ATOMICS;
        let shown = if long { 0 } else { words };
        let of_words = (0..shown).map(move |word| self.clock(At::Word(start + 8 * word)));
        of_words.chain(long.then(|| self.clock(At::Long)))
    }

    /// The number of records that were dropped although a conflict with them was possible.
    pub(crate) fn dropped(self) -> u64 {
        self.word(DROPPED).load(Ordering::Relaxed)
    }

    /// Whether the log has entries that its rank has not read.
    pub(crate) fn has_told(self) -> bool {
        // Relaxed: whoever learns that an access is complete sees its entry too.
        self.word(LOGGED).load(Ordering::Relaxed) != self.word(READ).load(Ordering::Relaxed)
    }

    /// Takes all entries of the log; none while another rank holds the lock for too long.
    pub(crate) fn drain(self) -> Vec<Told> {
        let patience = |turn| {
            std::thread::yield_now();
            if turn < MOST_TURNS { Ok(()) } else { Err(()) }
        };
        self.lock(patience).map_or(Vec::new(), |locked| std::iter::from_fn(|| locked.told()).collect())
    }

    /// From now on accesses to the part, whose first byte has that address, are also recorded by
    /// address.
    pub(crate) fn share(self, base: u64) {
        self.word(BASE).store(base, Ordering::Relaxed);
        // Release: pairs with the Acquire of `shared`.
        self.word(SHARED).store(1, Ordering::Release);
    }

    /// The address of the part's first byte, if accesses are also recorded by address.
    pub(crate) fn shared(self) -> Option<u64> {
        (self.word(SHARED).load(Ordering::Acquire) != 0).then(|| self.word(BASE).load(Ordering::Relaxed))
    }

    /// Whether there is a log.
    pub(crate) fn has_log(self) -> bool {
        self.word(ROOM).load(Ordering::Relaxed) > 0
    }

    /// The number of entries that the log had no room for.
    pub(crate) fn untold(self) -> u64 {
        self.word(LOST).load(Ordering::Relaxed)
    }

    #[inline]
    fn word(self, at: usize) -> &'m AtomicU64 {
        self.memory.word64(at)
    }

    // Relaxed: a lock orders the accesses to what changes.
    #[inline]
    fn get(self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn set(self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

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

/// The low half of a word.
#[allow(clippy::cast_possible_truncation)]
fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests;

//! The shadow of one rank's part of a window: which accesses its bytes have had, as records by byte
//! range, and the clocks by which ranks synchronize at it. It lies in memory that all ranks of the
//! node map, and has a fixed size: where no record is free, an old one is dropped, and counted.
//!
//! Records are in chains by the size of the access and by the block in which it begins. An access
//! of at most 8 bytes is in a chain of a block of 8 bytes, a longer one of at most 64 in a chain of
//! a block of 64, and so on. All accesses that overlap a range are therefore found in the chains of
//! its blocks and, if an access extends beyond its block, of the one before.

mod lock;

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};
use super::rules::{Kind, Rule, conflict};
pub(crate) use lock::Locked;

/// Sizes of blocks: 8 bytes, eight times as many, and so on; the last is the whole window.
const LEVELS: usize = 10;
const SHIFTS: [u32; LEVELS] = [3, 6, 9, 12, 15, 18, 21, 24, 27, 63];

/// The header's words.
const LOCK: usize = 0;
const BUCKETS: usize = 8;
const RECORDS: usize = 16;
/// The number of records that were used so far.
const USED: usize = 24;
/// The first free record among them, plus 1.
const FREE: usize = 32;
/// The next record to drop.
const HAND: usize = 40;
/// The number of records that were dropped although a conflict with them was still possible.
const DROPPED: usize = 48;
/// Which levels have records, and, above them, of which levels a record extended beyond its block:
/// a bit each.
const IN_USE: usize = 56;
const BEYOND: u32 = 32;
/// The number of records of each level.
const LIVE: usize = 64;
/// Whether accesses are also recorded by address, because another window has some of the memory,
/// and the address of the part's first byte.
const SHARED: usize = 200;
const BASE: usize = 208;
/// The entries that the log has had, those that its rank has read, its room, and how many entries
/// found no room.
const LOGGED: usize = 224;
const READ: usize = 232;
const ROOM: usize = 240;
const LOST: usize = 248;
const CLOCKS: usize = 256;

/// The words of a record that remain as long as it is in use: its range, its kind and origin, and
/// the next one of its chain, plus 1.
const START: usize = 0;
const END: usize = 8;
const KIND: usize = 16;
const NEXT: usize = 24;
const RECORD: usize = 32;

/// Its words that each access changes, which are in other cache lines: after how many releases the
/// access was complete, and its place, with the number of the access.
const DONE: usize = 0;
const PLACE: usize = 8;
const STATE: usize = 16;

/// The words of an entry of the log: those of a record, and what the origin knew of this rank.
const TOLD_DONE: usize = 24;
const TOLD_PLACE: usize = 32;
const KNOWN: usize = 40;
const ENTRY: usize = 48;

/// The count of releases of an access that is not complete.
const IN_FLIGHT: u64 = u64::MAX;

/// The most records that one access replaces.
const REPLACED: usize = 32;

/// Attempts at the lock by a rank that reads its log.
const MOST_TURNS: u32 = 1 << 16;

/// How many records are looked at for one that may be dropped.
const PROBES: usize = 64;

/// The clocks of single atomics: places that share one synchronize more than they do.
const ATOMICS: usize = 256;
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
    fn number(self) -> usize {
        match self {
            At::Barrier(turn) => usize::from(!turn.is_multiple_of(2)),
            At::Post => 2,
            At::Complete => 3,
            At::Exclusive => 4,
            At::Shared => 5,
            At::Notices => 6,
            At::Settled => 7,
            At::Long => 8,
            At::Word(at) => NAMED + hash(at >> 3, 0) % ATOMICS,
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
    index: u32,
    /// How many accesses the record has had.
    number: u32,
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

/// The number of buckets for a part of `size` bytes: one for each word, if there are records for so
/// many.
fn buckets(size: u64, records: usize) -> usize {
    usize::try_from(size / 8).unwrap_or(usize::MAX).min(records).max(64).next_power_of_two()
}

/// The bytes of the shadow of a part of `size` bytes in a job of `ranks` ranks, with a log of
/// `room` entries.
pub(crate) fn bytes(ranks: usize, size: u64, records: usize, room: usize) -> usize {
    buckets_at(ranks) + 8 * buckets(size, records) + (RECORD + STATE) * records + ENTRY * room
}

fn readers_at(ranks: usize) -> usize {
    (CLOCKS + (NAMED + ATOMICS) * slot_bytes(ranks)).next_multiple_of(LINE)
}

fn buckets_at(ranks: usize) -> usize {
    readers_at(ranks) + LINE * ranks
}

/// Spreads numbers of blocks.
fn hash(block: u64, level: usize) -> usize {
    let mixed = (block ^ (level as u64) << 58).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 40).unwrap_or(0)
}

/// The level of an access of `len` bytes.
#[inline]
fn level(len: u64) -> usize {
    let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
    ((bits.max(3) as usize - 1) / 3).min(LEVELS - 1)
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
        shadow.word(BUCKETS).store(buckets(size, records) as u64, Ordering::Relaxed);
        shadow.word(RECORDS).store(records as u64, Ordering::Relaxed);
        shadow.word(ROOM).store(room as u64, Ordering::Relaxed);
    }

    /// One of the clocks.
    pub(crate) fn clock(self, at: At) -> Slot<'m> {
        Slot { memory: self.memory, at: CLOCKS + at.number() * slot_bytes(self.ranks) }
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

    /// The number of records.
    pub(crate) fn capacity(self) -> usize {
        usize::try_from(self.word(RECORDS).load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// The number of entries that the log had no room for.
    pub(crate) fn untold(self) -> u64 {
        self.word(LOST).load(Ordering::Relaxed)
    }

    fn word(self, at: usize) -> &'m AtomicU64 {
        self.memory.word64(at)
    }
}

impl Records<'_> {
    // Relaxed throughout: the lock orders the accesses.
    fn get(&self, at: usize) -> u64 {
        self.0.word(at).load(Ordering::Relaxed)
    }

    fn set(&self, at: usize, value: u64) {
        self.0.word(at).store(value, Ordering::Relaxed);
    }

    fn count(&self, at: usize) -> usize {
        usize::try_from(self.get(at)).unwrap_or(usize::MAX)
    }

    /// The offset of a record.
    fn at(&self, index: usize) -> usize {
        buckets_at(self.0.ranks) + 8 * self.count(BUCKETS) + RECORD * index
    }

    /// The offset of the head of a chain.
    fn chain(&self, level: usize, block: u64) -> usize {
        buckets_at(self.0.ranks) + 8 * (hash(block, level) & (self.count(BUCKETS) - 1))
    }

    /// The offset of the words of a record that each access changes.
    fn state(&self, index: usize) -> usize {
        self.at(self.count(RECORDS)) + STATE * index
    }

    fn access(&self, index: usize) -> Access {
        self.access_at(self.at(index), self.get(self.state(index) + PLACE))
    }

    fn access_at(&self, at: usize, place: u64) -> Access {
        let kind = self.get(at + KIND);
        Access {
            start: self.get(at + START),
            end: self.get(at + END),
            kind: Kind::decode(low(kind)),
            origin: origin_of(kind),
            place: low(place),
        }
    }

    /// Calls `each` with the records whose range overlaps `start..end`.
    fn overlapping(&self, start: u64, end: u64, mut each: impl FnMut(usize)) {
        let mut offer = |index: usize, at: usize| {
            if self.get(at + START) < end && start < self.get(at + END) {
                each(index);
            }
        };
        let mut levels = low(self.get(IN_USE));
        while levels > 0 {
            let of_level = levels.trailing_zeros();
            levels &= levels - 1;
            let shift = SHIFTS[of_level as usize];
            let before = self.get(IN_USE) >> (BEYOND + of_level) & 1;
            let blocks = (start >> shift).saturating_sub(before)..=(end - 1) >> shift;
            if blocks.end() - blocks.start() > self.get(USED) {
                for index in 0..self.count(USED) {
                    let at = self.at(index);
                    if level(self.get(at + END) - self.get(at + START)) == of_level as usize {
                        offer(index, at);
                    }
                }
                continue;
            }
            for block in blocks {
                let mut next = self.count(self.chain(of_level as usize, block));
                while next > 0 {
                    let at = self.at(next - 1);
                    let (first, end) = (self.get(at + START), self.get(at + END));
                    // A chain also has records of other blocks.
                    if first >> shift == block && level(end - first) == of_level as usize {
                        offer(next - 1, at);
                    }
                    next = self.count(at + NEXT);
                }
            }
        }
    }

    /// Records an access by a rank that knows `clock`, and returns its record with the conflicts
    /// with earlier accesses. `done`: the access is complete when this rank releases next.
    pub(crate) fn record(&self, new: Access, clock: &Clock, done: bool) -> (Record, Vec<Met>) {
        let mut met = Vec::new();
        let (mut replaced, mut count) = ([0; REPLACED], 0);
        self.overlapping(new.start, new.end, |index| {
            let (older, ended) = (self.access(index), self.get(self.state(index) + DONE));
            let own = older.origin == new.origin;
            let ordered = ended != IN_FLIGHT && (own || clock.of(older.origin) > ended);
            if !ordered && let Some(rule) = conflict((older.kind, older.start), (new.kind, new.start), own) {
                met.push(Met { older, rule });
            }
            let covered = new.start <= older.start && older.end <= new.end;
            let again = own && ended == IN_FLIGHT && !done && older.kind == new.kind;
            let stands = covered && (again || (ordered && new.stands_for(&older)));
            // No further access is concurrent with one that every rank knows to be complete.
            let over = ended != IN_FLIGHT && clock.common_of(older.origin) > ended;
            if count < REPLACED && (stands || over) {
                replaced[count] = index;
                count += 1;
            }
        });
        let ended = if done { clock.of(new.origin) } else { IN_FLIGHT };
        let replaced = &replaced[..count];
        let is_same = |&&index: &&usize| {
            let at = self.at(index);
            self.get(at + START) == new.start && self.get(at + END) == new.end
        };
        let reused = replaced.iter().find(is_same).copied();
        for index in replaced.iter().copied().filter(|&index| Some(index) != reused) {
            self.remove(index);
            self.release(index);
        }
        let record = match reused {
            Some(index) => self.describe(index, new, ended),
            None => self.add(new, ended, clock),
        };
        (record, met)
    }

    /// Marks an access as complete after that many releases of its origin.
    pub(crate) fn complete(&self, record: Record, releases: u64) {
        if self.is(record) {
            self.end(self.state(record.index as usize), releases);
        }
    }

    fn end(&self, state: usize, releases: u64) {
        if self.get(state + DONE) == IN_FLIGHT {
            self.set(state + DONE, releases);
        }
    }

    /// Takes the record of a complete access away.
    pub(crate) fn forget(&self, record: Record) {
        if self.is(record) {
            self.remove(record.index as usize);
            self.release(record.index as usize);
        }
    }

    /// Adds an entry to the log.
    pub(crate) fn tell(&self, Told { access, known, done }: Told) {
        let (logged, room) = (self.get(LOGGED), self.get(ROOM));
        if logged - self.get(READ) >= room {
            self.set(LOST, self.get(LOST) + u64::from(room > 0));
            return;
        }
        let at = self.entry(logged);
        self.set(at + START, access.start);
        self.set(at + END, access.end);
        self.set(at + KIND, access.word());
        self.set(at + TOLD_DONE, done);
        self.set(at + TOLD_PLACE, u64::from(access.place));
        self.set(at + KNOWN, known);
        self.set(LOGGED, logged + 1);
    }

    /// Takes the next entry of the log.
    fn told(&self) -> Option<Told> {
        let read = self.get(READ);
        if read == self.get(LOGGED) {
            return None;
        }
        let at = self.entry(read);
        self.set(READ, read + 1);
        let access = self.access_at(at, self.get(at + TOLD_PLACE));
        Some(Told { access, known: self.get(at + KNOWN), done: self.get(at + TOLD_DONE) })
    }

    /// The offset of an entry of the log, by its number.
    fn entry(&self, number: u64) -> usize {
        let index = usize::try_from(number % self.get(ROOM)).unwrap_or(0);
        self.state(self.count(RECORDS)) + ENTRY * index
    }

    /// Whether the record still has the access for which it was made.
    pub(crate) fn is(&self, record: Record) -> bool {
        let index = record.index as usize;
        self.get(self.at(index) + END) > 0 && number_of(self.get(self.state(index) + PLACE)) == record.number
    }

    fn add(&self, new: Access, ended: u64, clock: &Clock) -> Record {
        let index = self.unused(clock);
        let (at, level) = (self.at(index), level(new.end - new.start));
        let chain = self.chain(level, new.start >> SHIFTS[level]);
        self.set(at + START, new.start);
        self.set(at + END, new.end);
        self.set(at + NEXT, self.get(chain));
        self.set(chain, index as u64 + 1);
        self.set(LIVE + 8 * level, self.get(LIVE + 8 * level) + 1);
        let beyond = (new.end - 1) >> SHIFTS[level] > new.start >> SHIFTS[level];
        let in_use = self.get(IN_USE) | 1 << level | u64::from(beyond) << (BEYOND as usize + level);
        if in_use != self.get(IN_USE) {
            self.set(IN_USE, in_use);
        }
        self.describe(index, new, ended)
    }

    /// Gives the record of a range to an access.
    fn describe(&self, index: usize, new: Access, ended: u64) -> Record {
        let state = self.state(index);
        let number = number_of(self.get(state + PLACE)).wrapping_add(1);
        self.set(self.at(index) + KIND, new.word());
        self.set(state + DONE, ended);
        self.set(state + PLACE, u64::from(new.place) | u64::from(number) << 32);
        Record { index: u32::try_from(index).unwrap_or(u32::MAX), number }
    }

    /// A record for a new access.
    fn unused(&self, clock: &Clock) -> usize {
        let free = self.count(FREE);
        if free > 0 {
            self.set(FREE, self.get(self.at(free - 1) + NEXT));
            return free - 1;
        }
        let used = self.count(USED);
        if used < self.count(RECORDS) {
            self.set(USED, used as u64 + 1);
            return used;
        }
        self.dropped(clock)
    }

    /// Drops a record: one whose access this rank knows to be complete, if there is one near the
    /// last that was dropped.
    fn dropped(&self, clock: &Clock) -> usize {
        let (records, hand) = (self.count(RECORDS), self.count(HAND));
        let known = (0..PROBES.min(records)).map(|step| (hand + step) % records).find(|&index| {
            let ended = self.get(self.state(index) + DONE);
            ended != IN_FLIGHT && clock.of(self.access(index).origin) > ended
        });
        let index = known.unwrap_or_else(|| {
            self.set(DROPPED, self.get(DROPPED) + 1);
            hand % records
        });
        self.set(HAND, (index as u64 + 1) % records as u64);
        self.remove(index);
        index
    }

    /// Takes a record out of its chain.
    fn remove(&self, index: usize) {
        let at = self.at(index);
        let (start, end) = (self.get(at + START), self.get(at + END));
        let level = level(end - start);
        let mut link = self.chain(level, start >> SHIFTS[level]);
        while self.count(link) != index + 1 {
            link = self.at(self.count(link) - 1) + NEXT;
        }
        self.set(link, self.get(at + NEXT));
        self.set(at + START, 0);
        self.set(at + END, 0);
        let live = self.get(LIVE + 8 * level) - 1;
        self.set(LIVE + 8 * level, live);
        if live == 0 {
            self.set(IN_USE, self.get(IN_USE) & !(1 << level));
        }
    }

    /// Gives a removed record back.
    fn release(&self, index: usize) {
        self.set(self.at(index) + NEXT, self.get(FREE));
        self.set(FREE, index as u64 + 1);
    }
}

/// The low half of a word.
#[allow(clippy::cast_possible_truncation)]
fn low(word: u64) -> u32 {
    word as u32
}

/// The number in the word of a record's place.
fn number_of(place: u64) -> u32 {
    low(place >> 32)
}

/// The origin in the word of a record's kind.
fn origin_of(kind: u64) -> usize {
    low(kind >> 32) as usize
}

impl Access {
    /// The word of a record with the kind and the origin.
    fn word(&self) -> u64 {
        u64::from(self.kind.encode()) | (self.origin as u64) << 32
    }

    /// Whether each later access that conflicts with `older`, which is ordered before this one and
    /// within its range, conflicts with this one too. Reads and atomics of several origins stay, so
    /// that each origin finds its own there when it comes again.
    fn stands_for(&self, older: &Access) -> bool {
        matches!(self.kind, Kind::Put | Kind::Store) || (self.kind == older.kind && self.origin == older.origin)
    }
}

#[cfg(test)]
mod tests;

//! Chains: records of accesses by their *level* (length) and block. An access of at most 8 bytes
//! has level 0 and is in the chain of the block of 8 bytes in which it begins; an access of 9 to 64
//! bytes has level 1 and is in the chain of a block of 64 bytes; and so on. The accesses of a level
//! that overlap a range are therefore in the chains of the range's blocks, or in the chain of the
//! block before if some access of the level extends beyond its block.
//!
//! The log, behind the records, tells the rank of the part about complete accesses of other ranks,
//! for ThreadSanitizer (`fibers`).

use std::sync::atomic::Ordering;

use super::cells::{self, Cells};
use super::{
    Access, BUCKETS, CELLS, Clash, Clock, Ends, FREE, HAND, IN_FLIGHT, IN_USE, In, Kind, LIVE, LOGGED, LOST, LogEntry,
    MISSED, New, Older, READ, RECORDS, ROOM, Record, Records, SEARCH, USED, cells_at, hash, low,
};

/// The levels, and the binary logarithms of their block sizes: 8 bytes, 64 bytes and so on. The
/// last block is the whole part.
pub(super) const LEVELS: usize = 10;
const SHIFTS: [u32; LEVELS] = [3, 6, 9, 12, 15, 18, 21, 24, 27, 63];

/// The lowest bit in [`IN_USE`] of the levels that have had a record beyond its block.
const BEYOND: u32 = 32;

/// The offsets of a record's words: the range; the kind and the origin; the next record of the
/// chain, plus 1; the number of releases that the origin had made when the access was complete; the
/// place and the number of the access. A record is one cache line.
const START: usize = 0;
const END: usize = 8;
const KIND: usize = 16;
const NEXT: usize = 24;
const DONE: usize = 32;
const PLACE: usize = 40;
pub(super) const RECORD: usize = 64;

/// The words of an entry of the log: those of a record, and the number of releases of the part's
/// rank that the origin knew of.
const KNOWN: usize = 48;
pub(super) const ENTRY: usize = 56;

/// The largest number of records in chains that one access replaces.
const REPLACED: usize = 32;

/// The average number of records that one search for a record to drop may visit. A search that
/// visits fewer leaves the difference to later searches, which may then visit all records.
const PROBES: usize = 64;

/// The level of an access of `len` bytes.
#[inline]
fn level(len: u64) -> usize {
    let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
    ((bits.max(3) as usize - 1) / 3).min(LEVELS - 1)
}

/// The number in the word of a record's place.
fn number_of(place: u64) -> u32 {
    low(place >> 32)
}

/// The origin in the word of a record's kind.
fn origin_of(kind: u64) -> usize {
    low(kind >> 32) as usize
}

impl Records<'_> {
    fn get(&self, at: usize) -> u64 {
        self.0.get(at)
    }

    fn set(&self, at: usize, value: u64) {
        self.0.set(at, value);
    }

    fn count(&self, at: usize) -> usize {
        self.0.count(at)
    }

    fn records_at(&self) -> usize {
        self.buckets_at() + 8 * self.count(BUCKETS)
    }

    fn buckets_at(&self) -> usize {
        cells_at(self.0.ranks) + cells::bytes(self.count(CELLS))
    }

    /// The offset of a record.
    fn at(&self, index: usize) -> usize {
        self.records_at() + RECORD * index
    }

    /// The offset of the head of a chain.
    fn chain(&self, level: usize, block: u64) -> usize {
        self.buckets_at() + 8 * (hash(block, level) & (self.count(BUCKETS) - 1))
    }

    fn access(&self, index: usize) -> Access {
        self.access_at(self.at(index))
    }

    fn older(&self, index: usize) -> Older {
        let at = self.at(index);
        let [start, end, kind, ended] = [START, END, KIND, DONE].map(|word| self.get(at + word));
        Older { start, end, kind: low(kind), origin: origin_of(kind), ended }
    }

    fn access_at(&self, at: usize) -> Access {
        let [start, end, kind, place] = [START, END, KIND, PLACE].map(|word| self.get(at + word));
        Access { start, end, kind: Kind::decode(low(kind)), origin: origin_of(kind), place: low(place) }
    }

    /// Calls `each` with the records whose range overlaps `start..end`.
    pub(super) fn overlapping(&self, start: u64, end: u64, mut each: impl FnMut(usize)) {
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

    /// Records an access of a rank whose clock is `clock`, and adds the conflicts with earlier
    /// accesses to `clashes`.
    pub(crate) fn record(&self, new: Access, clock: &Clock, ends: Ends, clashes: &mut Vec<Clash>) -> Record {
        let new = New::of(self.0, new, clock, ends);
        self.replace(&new, clashes);
        let cells = Cells::of(self.0);
        cells.record(&new, clashes, || false, |_| true).unwrap_or_else(|| self.add_new(&new, clashes))
    }

    /// [`Records::record`] of an access in flight that is not recorded in a cell, so that
    /// [`Records::forget`] also removes it when the access is complete.
    pub(crate) fn record_in_chain(&self, new: Access, clock: &Clock, clashes: &mut Vec<Clash>) -> Record {
        let new = New::of(self.0, new, clock, Ends::WhenTold);
        self.replace(&new, clashes);
        self.add_new(&new, clashes)
    }

    /// [`Records::record_in_chain`] of an access that may be forgotten before all ranks know of the
    /// older accesses: their records stay.
    pub(crate) fn record_passing(&self, new: Access, clock: &Clock, clashes: &mut Vec<Clash>) -> Record {
        let new = New { is_passing: true, ..New::of(self.0, new, clock, Ends::WhenTold) };
        self.replace(&new, clashes);
        self.add_new(&new, clashes)
    }

    /// Records a new access in a chain, and adds the conflicts with accesses in cells to `clashes`.
    fn add_new(&self, new: &New<'_>, clashes: &mut Vec<Clash>) -> Record {
        let record = self.add(new.access, new.ends(), new.clock);
        Cells::of(self.0).look(new, clashes);
        record
    }

    /// Compares a new access with the records in chains: adds the conflicts to `clashes`, and
    /// removes the records that the access replaces.
    fn replace(&self, new: &New<'_>, clashes: &mut Vec<Clash>) {
        let (mut replaced, mut count) = ([0; REPLACED], 0);
        self.overlapping(new.access.start, new.access.end, |index| {
            let verdict = new.judge(&self.older(index));
            clashes.extend(verdict.rule.map(|rule| Clash { older: self.access(index), rule }));
            if count < REPLACED && verdict.is_replaced {
                replaced[count] = index;
                count += 1;
            }
        });
        for &index in &replaced[..count] {
            self.remove(index);
            self.release(index);
        }
    }

    /// Compares a new access with the records in chains, without a change: adds the conflicts to
    /// `clashes`. Returns whether the access replaces a record.
    pub(super) fn look(&self, new: &New<'_>, clashes: &mut Vec<Clash>) -> bool {
        let mut is_replaced = false;
        self.overlapping(new.access.start, new.access.end, |index| {
            let verdict = new.judge(&self.older(index));
            clashes.extend(verdict.rule.map(|rule| Clash { older: self.access(index), rule }));
            is_replaced |= verdict.is_replaced;
        });
        is_replaced
    }

    /// Whether a new record in a chain has to take the place of one whose access may not be
    /// complete.
    pub(super) fn is_full(&self, clock: &Clock) -> bool {
        self.get(FREE) == 0 && self.get(USED) >= self.get(RECORDS) && self.find_complete(clock).is_none()
    }

    /// Marks an access as complete. `ended`: by [`Shadow::ends_with_release`] or
    /// [`Shadow::ends_with_exposure`].
    pub(crate) fn complete(&self, record: Record, ended: u64) {
        match record.place {
            In::Cell { .. } => Cells::of(self.0).complete(record, ended),
            In::Chain(index) if self.is(record) => {
                let at = self.at(index as usize) + DONE;
                if self.get(at) == IN_FLIGHT {
                    self.set(at, ended);
                }
            }
            In::Chain(_) => {}
        }
    }

    /// Removes the record of an access in flight.
    pub(crate) fn forget(&self, record: Record) {
        match record.place {
            In::Cell { .. } => Cells::of(self.0).forget(record),
            In::Chain(index) if self.is(record) => {
                self.remove(index as usize);
                self.release(index as usize);
            }
            In::Chain(_) => {}
        }
    }

    /// Adds an entry to the log, if it has room.
    pub(crate) fn log(&self, LogEntry { access, known, done }: LogEntry) {
        let (logged, room) = (self.get(LOGGED), self.get(ROOM));
        if logged - self.get(READ) >= room {
            self.set(LOST, self.get(LOST) + u64::from(room > 0));
            return;
        }
        let at = self.entry(logged);
        self.set(at + START, access.start);
        self.set(at + END, access.end);
        self.set(at + KIND, u64::from(access.kind.encode()) | (access.origin as u64) << 32);
        self.set(at + DONE, done);
        self.set(at + PLACE, u64::from(access.place));
        self.set(at + KNOWN, known);
        self.set(LOGGED, logged + 1);
    }

    /// Drops the entries of the log that the part's rank must not read.
    pub(super) fn drop_missed(&self) {
        let (read, missed) = (self.get(READ), self.get(MISSED));
        if read < missed {
            self.set(READ, missed);
            self.set(LOST, self.get(LOST) + missed - read);
        }
    }

    /// Removes and returns the next entry of the log.
    pub(super) fn next_logged(&self) -> Option<LogEntry> {
        let read = self.get(READ);
        if read == self.get(LOGGED) {
            return None;
        }
        let at = self.entry(read);
        self.set(READ, read + 1);
        Some(LogEntry { access: self.access_at(at), known: self.get(at + KNOWN), done: self.get(at + DONE) })
    }

    /// The offset of an entry of the log, by its number.
    fn entry(&self, number: u64) -> usize {
        let index = usize::try_from(number % self.get(ROOM)).unwrap_or(0);
        self.at(self.count(RECORDS)) + ENTRY * index
    }

    /// Whether the record is still that of its access.
    pub(crate) fn is(&self, record: Record) -> bool {
        match record.place {
            In::Cell { .. } => Cells::of(self.0).is(record),
            In::Chain(index) => {
                let at = self.at(index as usize);
                self.get(at + END) > 0 && u64::from(number_of(self.get(at + PLACE))) == record.number
            }
        }
    }

    /// Records again an access in flight, whose record was given to another access.
    pub(crate) fn restore(&self, access: Access, clock: &Clock) -> Record {
        self.add(access, IN_FLIGHT, clock)
    }

    pub(super) fn add(&self, new: Access, ended: u64, clock: &Clock) -> Record {
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
            // SeqCst: pairs with the loads by accesses in cells, which must find this record, or be
            // found in the cell (`cells`).
            self.0.word(IN_USE).store(in_use, Ordering::SeqCst);
        }
        self.describe(index, new, ended)
    }

    /// Writes an access into a record, under a new number.
    fn describe(&self, index: usize, new: Access, ended: u64) -> Record {
        let at = self.at(index);
        let number = number_of(self.get(at + PLACE)).wrapping_add(1);
        self.set(at + KIND, u64::from(new.kind.encode()) | (new.origin as u64) << 32);
        self.set(at + DONE, ended);
        self.set(at + PLACE, u64::from(new.place) | u64::from(number) << 32);
        Record { place: In::Chain(u32::try_from(index).unwrap_or(u32::MAX)), number: u64::from(number) }
    }

    /// The index of a record for a new access: a free one, else a dropped one.
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

    /// Drops a record and returns its index: if possible one whose access this rank knows to be
    /// complete, else the first candidate.
    fn dropped(&self, clock: &Clock) -> usize {
        let index = self.find_complete(clock).unwrap_or_else(|| {
            self.0.drops(1);
            self.count(HAND)
        });
        self.set(HAND, (index as u64 + 1) % self.get(RECORDS));
        self.remove(index);
        index
    }

    /// Searches all records in use for one whose access this rank knows to be complete. The first
    /// candidate is then this record, or the first one that was not visited. Readers may search at
    /// the same time: [`HAND`] and [`SEARCH`] decide only which records are visited.
    fn find_complete(&self, clock: &Clock) -> Option<usize> {
        let (records, hand) = (self.count(RECORDS), self.count(HAND));
        let most = (self.count(SEARCH) + PROBES).min(records);
        let mut visited = (0..most).map(|step| (step, (hand + step) % records));
        let found = visited.find(|&(_, index)| self.0.is_over(&self.older(index), |rank| clock.of(rank)));
        let steps = found.map_or(most, |(step, _)| step);
        self.set(SEARCH, (most - steps) as u64);
        self.set(HAND, ((hand + steps) % records) as u64);
        found.map(|(_, index)| index)
    }

    /// Takes a record out of its chain.
    pub(super) fn remove(&self, index: usize) {
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

    /// Adds a removed record to the free ones.
    fn release(&self, index: usize) {
        self.set(self.at(index) + NEXT, self.get(FREE));
        self.set(FREE, index as u64 + 1);
    }
}

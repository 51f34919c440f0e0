//! Cells: records of accesses that lie within one aligned block of 16 bytes. A cell is one cache
//! line: the number of its block, and four records of 12 bytes each. A block has one possible cell,
//! which several blocks may share. The cell belongs to one of them at a time, as long as the cell's
//! records are needed. The lowest bit of a cell's first word is its lock.
//!
//! A process that ends while it holds the lock of a cell never releases it. The first access that
//! waits in vain marks the cell as *stuck*, and counts the records that are lost. Later accesses
//! find the mark and are recorded in chains. If the holder was only stopped, its release also
//! removes the mark.
//!
//! Of two overlapping accesses at least one finds the other's record, although an access in a cell
//! need not take the lock of the shadow:
//! - Both in one cell: the lock of the cell orders them.
//! - Both in chains: the lock of the shadow orders them.
//! - One in a cell, one in a chain: the first access takes the lock of the cell, marks the cell as
//!   in use, reads the chains, and then writes its record and releases the lock. The second access
//!   adds its record to the chain, and then reads all cells in use, under their locks.
//!
//! The record of an access in flight has the number of the access. When the access is complete, its
//! rank replaces the number by the count of its releases, by a compare-and-swap without the lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    Access, CELLS, CELLS_AT, Clash, Ends, IN_FLIGHT, In, Kind, LATER, LINE, New, OF_OWNER, Older, Record, Shadow,
    agree, includes, low,
};

/// The records of a cell.
pub(super) const SLOTS: usize = 4;

/// A bit for each record.
const ALL: u32 = (1 << SLOTS) - 1;

/// Binary logarithm of the bytes of a block.
const BLOCK: u32 = 4;

/// The words of a cell: the number of its block plus 1, above the bits of the lock and of a lock
/// that is stuck; the number of accesses in flight that the cell has had; the first part of each
/// record, which is one word, and the second part, which is half a word.
const OWNER: usize = 0;
const COUNT: usize = 1;
pub(super) const FIRST: usize = 2;
pub(super) const SECOND: usize = FIRST + SLOTS;
const TAKEN: u64 = 1;
const STUCK: u64 = 2;
const OWNER_SHIFT: u32 = 2;

/// The first part of a record: the number of the access while it is in flight ([`PENDING`]), then
/// the number of releases that the origin had made when it was complete, or, with [`OF_OWNER`], the
/// number of an exposure epoch of the part (`exposures`); or, with [`LATER`], which has both bits,
/// the number of releases before the access; the offset of the access within the block; its length
/// less 1; its place.
pub(super) const PENDING: u64 = 1 << 41;
const OFFSET: u32 = 42;
const LEN: u32 = 46;
const PLACE: u32 = 50;
const PLACES: u32 = 1 << (u64::BITS - PLACE);
/// The bits of offset and length.
pub(super) const RANGE: u64 = (1 << PLACE) - (1 << OFFSET);

/// The second part: the encoded kind of the access, and its origin. A slot without a record has 0.
pub(super) const KIND: u32 = (1 << ORIGIN) - 1;
pub(super) const ORIGIN: u32 = 16;

/// Attempts to take the lock of a cell before [`Cell::take`] and [`Cells::wait`] give up.
const TURNS: u32 = 1 << 8;
const MOST_TURNS: u32 = 1 << 16;

/// The cells of a shadow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'m> {
    shadow: Shadow<'m>,
    /// The offset of the first cell.
    base: usize,
    /// One less than the number of cells, a power of two.
    mask: u64,
}

/// A cell.
#[derive(Clone, Copy, Debug)]
struct Cell<'m> {
    words: &'m [AtomicU64; LINE / 8],
    index: usize,
}

/// A held lock of a cell. `owner`: the number of the cell's block plus 1, or 0.
pub(super) struct Held<'m> {
    cell: Cell<'m>,
    owner: u64,
}

/// What a new access finds in the cell of its block.
struct Found {
    /// The index of the record to write, if there is room.
    slot: Option<usize>,
    /// A bit for each record that is of no further use.
    replaced: u32,
}

/// The bytes of cells, including one bit for each cell that shows whether it is in use.
pub(super) fn bytes(cells: usize) -> usize {
    LINE * cells + cells / 8
}

/// The number of the block that has all bytes of an access, plus 1. `None` if the access is not
/// within one block, or a number does not fit into a record.
#[inline]
fn owner_of(access: &Access) -> Option<u64> {
    let block = access.start >> BLOCK;
    let fits = (access.end - 1) >> BLOCK == block && access.origin >> (u32::BITS - ORIGIN) == 0;
    fits.then_some(block + 1)
}

/// The bits of offset and length of an access in its record.
#[inline]
fn range(access: &Access) -> u64 {
    range_bits(access.start, access.end - access.start)
}

/// [`range`] of `len` bytes.
#[inline]
pub(super) fn range_bits(start: u64, len: u64) -> u64 {
    (start & 15) << OFFSET | (len - 1) << LEN
}

/// A bit for each byte of the block that an access has. `first`: the access's range, or the first
/// part of its record.
#[inline]
pub(super) fn bytes_of(first: u64) -> u32 {
    ((2 << (first >> LEN & 15)) - 1) << (first >> OFFSET & 15)
}

/// The first part of the record of an access. `number`: that of an access in flight.
#[inline]
fn first(new: &New<'_>, number: u64) -> u64 {
    let ends = if new.ends == Ends::WhenTold { number } else { new.ends() };
    first_part(new.access.place, range(&new.access), ends)
}

/// [`first`] of its fields.
#[inline]
pub(super) fn first_part(place: u32, range: u64, ended: u64) -> u64 {
    // Places with larger numbers have no text.
    let place = if place < PLACES { place } else { 0 };
    u64::from(place) << PLACE | range | ended
}

/// The second part of the record of an access.
#[inline]
fn second(new: &New<'_>) -> u32 {
    new.kind | low(new.access.origin as u64) << ORIGIN
}

/// The second part of a record, from the words of all.
#[inline]
fn second_of(seconds: [u64; SLOTS / 2], slot: usize) -> u32 {
    low(seconds[slot / 2] >> (slot % 2 * 32))
}

/// A bit for each slot that has a record.
#[inline]
fn used(seconds: [u64; SLOTS / 2]) -> u32 {
    (0..SLOTS).map(|slot| u32::from(second_of(seconds, slot) != 0) << slot).sum()
}

/// The number of the access in flight from the first part of its record. `None` if the access is
/// complete, or has no number.
#[inline]
fn number_of(first: u64) -> Option<u64> {
    (first & LATER == PENDING).then_some(first & ((1 << OFFSET) - 1))
}

impl<'m> Cells<'m> {
    #[inline]
    pub(super) fn of(shadow: Shadow<'m>) -> Cells<'m> {
        Cells { shadow, base: shadow.count(CELLS_AT), mask: shadow.get(CELLS) - 1 }
    }

    #[inline]
    fn cell(&self, index: u64) -> Cell<'m> {
        let index = usize::try_from(index & self.mask).unwrap_or(0);
        Cell { words: self.shadow.memory.words64(self.base + LINE * index), index }
    }

    /// Prefetches the cache line of the cell of byte `start`.
    #[inline]
    pub(super) fn prefetch(&self, start: u64) {
        let index = usize::try_from(start >> BLOCK & self.mask).unwrap_or(0);
        self.shadow.memory.prefetch(self.base + LINE * index);
    }

    /// The bits that show which of 64 cells are in use. `first`: the first cell, a multiple of 64.
    fn bits(&self, first: usize) -> &'m AtomicU64 {
        let cells = LINE * (usize::try_from(self.mask).unwrap_or(0) + 1);
        self.shadow.word(self.base + cells + first / 8)
    }

    /// Takes the lock of a block's cell, and marks the cell as in use.
    #[inline(always)]
    fn hold(&self, owner: u64) -> Option<Held<'m>> {
        let held = self.cell(owner - 1).take()?;
        if held.owner == 0 {
            // SeqCst: pairs with `look`: either a rank that adds a record to a chain sees this bit,
            // or this access sees the record.
            self.bits(held.cell.index & !63).fetch_or(1 << (held.cell.index & 63), Ordering::SeqCst);
        }
        Some(held)
    }

    /// Takes the lock of the cell of byte `start`, if the cell belongs to the byte's block and its
    /// lock is free.
    #[inline(always)]
    pub(super) fn hold_own(&self, start: u64) -> Option<Held<'m>> {
        // A cell with an owner is marked as in use.
        let block = start >> BLOCK;
        self.cell(block).try_take().filter(|held| held.owner == block + 1)
    }

    /// Records an access, if its cell has room, and adds the conflicts to `clashes`. `others` adds
    /// those with records in chains, and returns false if the cell alone does not suffice.
    /// `is_full`: the chains have no record for the access, neither a free one nor one of a
    /// complete access. `None`: nothing is recorded, and no conflict is added.
    #[inline(always)]
    pub(super) fn record(
        &self,
        new: &New<'_>,
        clashes: &mut Vec<Clash>,
        is_full: impl Fn() -> bool,
        others: impl FnOnce(&mut Vec<Clash>) -> bool,
    ) -> Option<Record> {
        let owner = owner_of(&new.access)?;
        let held = self.hold(owner)?;
        let before = clashes.len();
        let found = held.found(new, owner, clashes);
        let slot = match found.slot {
            _ if !others(clashes) => None,
            None if is_full() => Some(self.drop_for(&held, new, owner)),
            slot => slot,
        };
        let Some(slot) = slot else {
            clashes.truncate(before);
            return None;
        };
        Some(held.write(slot, found.replaced, new, owner))
    }

    /// Makes room in a cell: drops all records of another block, or one record of this block.
    #[cold]
    fn drop_for(&self, held: &Held<'_>, new: &New<'_>, owner: u64) -> usize {
        let cell = held.cell;
        let is_lost = |slot: &usize| cell.older(*slot, held.owner).is_some_and(|(older, _)| !new.knows(&older));
        if held.owner != owner {
            self.shadow.drops((0..SLOTS).filter(is_lost).count() as u64);
            (0..SLOTS).for_each(|slot| cell.clear(slot));
            return 0;
        }
        (0..SLOTS).find(|slot| !is_lost(slot)).unwrap_or_else(|| {
            self.shadow.drops(1);
            usize::try_from(new.access.place).unwrap_or(0) % SLOTS
        })
    }

    /// Compares an access whose record is in a chain with the records in cells: adds the conflicts
    /// to `clashes`, and clears the records that are of no further use.
    pub(super) fn look(&self, new: &New<'_>, clashes: &mut Vec<Clash>) {
        let (first, last) = (new.access.start >> BLOCK, (new.access.end - 1) >> BLOCK);
        let len = (last - first).min(self.mask) + 1;
        let mut at = first & self.mask;
        let mut left = len;
        while left > 0 {
            let step = (64 - (at & 63)).min(left);
            let [index, shift] = [at, at & 63].map(|it| usize::try_from(it).unwrap_or(0));
            // SeqCst: as in `hold`.
            let all = self.bits(index & !63).load(Ordering::SeqCst);
            let mut bits = all >> shift & (u64::MAX >> (64 - step));
            while bits != 0 {
                self.look_at(self.cell(at + u64::from(bits.trailing_zeros())), new, clashes);
                bits &= bits - 1;
            }
            at = (at + step) & self.mask;
            left -= step;
        }
    }

    /// Adds the conflicts of an access that is not recorded.
    pub(super) fn peek(&self, new: &New<'_>, clashes: &mut Vec<Clash>) {
        for block in new.access.start >> BLOCK..=(new.access.end - 1) >> BLOCK {
            let Some(held) = self.wait(self.cell(block)) else { continue };
            let records = (0..SLOTS).filter_map(|slot| held.cell.older(slot, held.owner));
            clashes.extend(records.filter(|(older, _)| new.overlaps(older)).filter_map(|(older, place)| {
                Some(Clash { older: older.access(place), rule: new.judge(&older).rule? })
            }));
        }
    }

    fn look_at(&self, cell: Cell<'m>, new: &New<'_>, clashes: &mut Vec<Clash>) {
        let Some(mut held) = self.wait(cell) else { return };
        for slot in 0..SLOTS {
            let Some((older, place)) = cell.older(slot, held.owner) else { continue };
            if new.overlaps(&older) {
                let verdict = new.judge(&older);
                clashes.extend(verdict.rule.map(|rule| Clash { older: older.access(place), rule }));
                if verdict.is_replaced {
                    cell.clear(slot);
                }
            }
        }
        self.tidy(&mut held);
    }

    /// Takes the lock of a cell, also from a holder that is descheduled. `None` if the lock is
    /// stuck.
    fn wait(&self, cell: Cell<'m>) -> Option<Held<'m>> {
        let word = &cell.words[OWNER];
        for _ in 0..MOST_TURNS {
            if let Some(held) = cell.take() {
                return Some(held);
            }
            if word.load(Ordering::Relaxed) & STUCK != 0 {
                return None;
            }
            std::thread::yield_now();
        }
        let found = word.load(Ordering::Relaxed) | TAKEN;
        // Relaxed: the mark orders no other access.
        if word.compare_exchange(found, found | STUCK, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return cell.take();
        }
        // At least the record of the holder's access is lost.
        self.shadow.drops((0..SLOTS).filter(|&slot| cell.is_used(slot)).count().max(1) as u64);
        None
    }

    /// Marks a cell without records as not in use.
    fn tidy(&self, held: &mut Held<'_>) {
        let cell = held.cell;
        if !(0..SLOTS).any(|slot| cell.is_used(slot)) {
            held.owner = 0;
            // Relaxed: under the lock of the cell.
            self.bits(cell.index & !63).fetch_and(!(1 << (cell.index & 63)), Ordering::Relaxed);
        }
    }

    /// Marks an access of this rank as complete. `ended`: as in a record.
    pub(super) fn complete(&self, record: Record, ended: u64) {
        if let Some((first, found)) = self.pending(record) {
            let ended = (found >> OFFSET) << OFFSET | ended;
            // Relaxed: the count orders no other access. Another rank may drop the record
            // meanwhile.
            let _ = first.compare_exchange(found, ended, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Clears the record of an access in flight.
    pub(super) fn forget(&self, record: Record) {
        if let In::Cell { cell, slot } = record.place
            && let Some(mut held) = self.wait(self.cell(u64::from(cell)))
            && self.is(record)
        {
            held.cell.clear(usize::from(slot));
            self.tidy(&mut held);
        }
    }

    /// Whether the record is still that of its access in flight.
    pub(super) fn is(&self, record: Record) -> bool {
        self.pending(record).is_some()
    }

    /// The first part of a record that is still that of its access in flight, and its value.
    fn pending(&self, record: Record) -> Option<(&'m AtomicU64, u64)> {
        let In::Cell { cell, slot } = record.place else { return None };
        let first = &self.cell(u64::from(cell)).words[FIRST + usize::from(slot)];
        let found = first.load(Ordering::Relaxed);
        (number_of(found) == Some(record.number)).then_some((first, found))
    }
}

impl<'m> Cell<'m> {
    /// Takes the lock. `None` if another rank holds it for long.
    #[inline]
    fn take(self) -> Option<Held<'m>> {
        self.try_take().or_else(|| self.take_later())
    }

    /// Takes the lock, unless it is held or stuck.
    #[inline(always)]
    fn try_take(self) -> Option<Held<'m>> {
        let word = &self.words[OWNER];
        let found = word.load(Ordering::Relaxed);
        // Acquire: pairs with the Release of the previous holder.
        let is_taken = found & (TAKEN | STUCK) == 0
            && word.compare_exchange(found, found | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_taken.then(|| Held { cell: self, owner: found >> OWNER_SHIFT })
    }

    #[cold]
    fn take_later(self) -> Option<Held<'m>> {
        for _ in 1..TURNS {
            if self.words[OWNER].load(Ordering::Relaxed) & STUCK != 0 {
                return None;
            }
            std::hint::spin_loop();
            if let Some(held) = self.try_take() {
                return Some(held);
            }
        }
        None
    }

    /// The second part of a record, or 0.
    #[inline]
    fn second(self, slot: usize) -> u32 {
        low(self.words[SECOND + slot / 2].load(Ordering::Relaxed) >> (slot % 2 * 32))
    }

    /// The words of the second parts of all records.
    #[inline]
    fn seconds(self) -> [u64; SLOTS / 2] {
        [SECOND, SECOND + 1].map(|word| self.words[word].load(Ordering::Relaxed))
    }

    /// Whether a slot has a record.
    #[inline]
    fn is_used(self, slot: usize) -> bool {
        self.second(slot) != 0
    }

    /// The access in a record and the access's place, if the record is in use. `owner`: the number
    /// of the cell's block plus 1.
    #[inline]
    fn older(self, slot: usize, owner: u64) -> Option<(Older, u32)> {
        let (first, second) = (self.words[FIRST + slot].load(Ordering::Relaxed), self.second(slot));
        if second == 0 {
            return None;
        }
        let start = (owner.wrapping_sub(1) << BLOCK) + (first >> OFFSET & 15);
        let older = Older {
            start,
            end: start + (first >> LEN & 15) + 1,
            kind: second & KIND,
            origin: (second >> ORIGIN) as usize,
            ended: if number_of(first).is_none() { first & ((1 << OFFSET) - 1) } else { IN_FLIGHT },
        };
        Some((older, low(first >> PLACE)))
    }

    #[inline]
    fn set(self, slot: usize, first: u64, second: u32) {
        self.words[FIRST + slot].store(first, Ordering::Relaxed);
        let (word, shift) = (&self.words[SECOND + slot / 2], slot % 2 * 32);
        let other = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(other | u64::from(second) << shift, Ordering::Relaxed);
    }

    fn clear(self, slot: usize) {
        self.set(slot, 0, 0);
    }
}

impl<'m> Held<'m> {
    /// The words of the cell.
    #[inline]
    pub(super) fn words(&self) -> &'m [AtomicU64; LINE / 8] {
        self.cell.words
    }

    /// Writes the record of an access into a slot, and clears the records that it replaces.
    #[inline(always)]
    fn write(mut self, slot: usize, replaced: u32, new: &New<'_>, owner: u64) -> Record {
        let cell = self.cell;
        let mut others = replaced & !(1 << slot);
        while others != 0 {
            cell.clear(others.trailing_zeros() as usize);
            others &= others - 1;
        }
        let mut number = 0;
        if new.ends == Ends::WhenTold {
            let before = cell.words[COUNT].load(Ordering::Relaxed);
            cell.words[COUNT].store(before + 1, Ordering::Relaxed);
            number = PENDING | (before & (OF_OWNER - 1));
        }
        cell.set(slot, first(new, number), second(new));
        self.owner = owner;
        let place =
            In::Cell { cell: u32::try_from(cell.index).unwrap_or(u32::MAX), slot: u8::try_from(slot).unwrap_or(0) };
        Record { place, number }
    }

    /// Compares an access to the block `owner` with the records of the cell: adds the conflicts to
    /// `clashes`.
    #[inline(always)]
    fn found(&self, new: &New<'_>, owner: u64, clashes: &mut Vec<Clash>) -> Found {
        let seconds = self.cell.seconds();
        let used = used(seconds);
        if self.owner != owner {
            return self.found_of_other(new, used, clashes);
        }
        let range = range(&new.access);
        let (mut replaced, mut apart, mut left) = (0, 0, used);
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            let bit = left & left.wrapping_neg();
            left ^= bit;
            let first = self.cell.words[FIRST + slot].load(Ordering::Relaxed);
            if are_apart(first, range) {
                apart |= bit;
                continue;
            }
            let known = quick(new, range, first, second_of(seconds, slot));
            if known.unwrap_or_else(|| self.compare(slot, new, clashes)) {
                replaced |= bit;
            }
        }
        if replaced == 0 && used == ALL {
            // Without room, records of other bytes of the block make room too.
            (0..SLOTS).filter(|slot| apart >> slot & 1 != 0).for_each(|slot| {
                replaced |= u32::from(self.compare(slot, new, clashes)) << slot;
            });
        }
        let room = if replaced == 0 { ALL & !used } else { replaced };
        Found { slot: (room != 0).then(|| room.trailing_zeros() as usize), replaced }
    }

    /// [`Held::found`] in a cell that belongs to another block, or to none. `used`: a bit for each
    /// record.
    #[cold]
    fn found_of_other(&self, new: &New<'_>, used: u32, clashes: &mut Vec<Clash>) -> Found {
        let is_used = |slot: &usize| used >> slot & 1 != 0;
        let over = (0..SLOTS).filter(is_used).all(|slot| self.compare(slot, new, clashes));
        Found { slot: over.then_some(0), replaced: used }
    }

    /// Compares an access with a record: adds the conflict to `clashes`, and returns whether the
    /// record is of no further use.
    #[inline(never)]
    fn compare(&self, slot: usize, new: &New<'_>, clashes: &mut Vec<Clash>) -> bool {
        let Some((older, place)) = self.cell.older(slot, self.owner) else { return true };
        if !new.overlaps(&older) {
            return new.is_behind(&older);
        }
        let verdict = new.judge(&older);
        clashes.extend(verdict.rule.map(|rule| Clash { older: older.access(place), rule }));
        verdict.is_replaced
    }
}

/// Whether an access has none of the bytes of a record's access. `range`: that of the access.
/// `first`: the first part of the record.
#[inline]
fn are_apart(first: u64, range: u64) -> bool {
    first & RANGE != range && bytes_of(first) & bytes_of(range) == 0
}

/// [`New::judge`] for the commonest records of a block that overlap an access: those of accesses of
/// the same bytes. Returns whether the record is of no further use; `None` if there may be a
/// conflict. `range`: that of the new access.
#[inline(always)]
fn quick(new: &New<'_>, range: u64, first: u64, second: u32) -> Option<bool> {
    if first & RANGE != range {
        return None;
    }
    let (origin, kind, ended) = ((second >> ORIGIN) as usize, second & KIND, first & (PENDING - 1));
    let own = origin == new.access.origin;
    if first & LATER == LATER {
        // An own access is in flight until the same flush, or complete.
        let again = own && new.ends == Ends::AtFlush && kind == new.kind;
        let is_known = own || new.clock.of(origin) > first & (OF_OWNER - 1);
        return ((again || !is_known) && agree(kind, new.kind)).then_some(again);
    }
    if first & PENDING != 0 {
        return agree(kind, new.kind).then_some(own && new.ends == Ends::WhenTold && kind == new.kind);
    }
    if own || new.clock.of(origin) > ended {
        let stands = (own && kind == new.kind) || includes(new.kind, kind);
        let writes = matches!(new.access.kind, Kind::Put | Kind::Store);
        return Some(stands || writes || new.clock.common_of(origin) > ended);
    }
    agree(kind, new.kind).then(|| new.clock.common_of(origin) > ended)
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        self.cell.words[OWNER].store(self.owner << OWNER_SHIFT, Ordering::Release);
    }
}

#[cfg(test)]
impl Cells<'_> {
    /// Takes the lock of a block's cell and never releases it, as a process that ends.
    pub(super) fn strand(&self, block: u64) {
        std::mem::forget(self.hold(block + 1));
    }
}

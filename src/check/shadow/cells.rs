//! Cells: records of accesses that lie within one aligned word of 8 bytes. A cell is one cache
//! line: the number of its word, and three records of two words each. A word has one possible cell,
//! which several words may share. The cell belongs to one of them at a time, until the cell's
//! records are of no further use. The lowest bit of a cell's first word is its lock.
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

use super::{Access, CELLS, CELLS_AT, Clash, IN_FLIGHT, In, Kind, LINE, New, Older, Record, Shadow, WORD, low};

/// The records of a cell.
pub(super) const SLOTS: usize = 3;

/// The words of a cell: the number of its word plus 1, above the bits of the lock and of a lock that
/// is stuck; the number of accesses in flight that the cell has had; the records.
const OWNER: usize = 0;
const COUNT: usize = 1;
const FIRST: usize = 2;
const TAKEN: u64 = 1;
const STUCK: u64 = 2;
const OWNER_SHIFT: u32 = 2;

/// The first word of a record: length, offset within the word, kind and origin of the access. The
/// second word: the number of the access while it is in flight ([`PENDING`]), then the number of
/// releases that the origin had made when it was complete; in the high bits the access's place.
const OFFSET: u32 = 4;
const KIND: u32 = 8;
const ORIGIN: u32 = 32;
const PLACE: u32 = 48;
const PENDING: u64 = 1 << 47;

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

/// A held lock of a cell. `owner`: the number of the cell's word plus 1, or 0.
struct Held<'m> {
    cell: Cell<'m>,
    owner: u64,
}

/// What a new access finds in the cell of its word.
struct Found {
    clashes: Vec<Clash>,
    /// The index of the record to write, if there is room.
    slot: Option<usize>,
    /// A bit for each record that is of no further use.
    replaced: u32,
}

/// The bytes of cells, including one bit for each cell that shows whether it is in use.
pub(super) fn bytes(cells: usize) -> usize {
    LINE * cells + cells / 8
}

/// The number of the word that has all bytes of an access, plus 1. `None` if the access is not
/// within one word, or a number does not fit into a record.
#[inline]
fn owner_of(access: &Access) -> Option<u64> {
    let word = access.start >> WORD;
    let fits = (access.end - 1) >> WORD == word && access.origin >> (PLACE - ORIGIN) == 0 && word >> 61 == 0;
    fits.then_some(word + 1)
}

/// The first word of the record of an access.
#[inline]
fn what(new: &New<'_>) -> u64 {
    let Access { start, end, origin, .. } = new.access;
    (end - start) | (start & 7) << OFFSET | u64::from(new.kind) << KIND | (origin as u64) << ORIGIN
}

/// The second word of the record of an access. `number`: that of an access in flight.
#[inline]
fn state(new: &New<'_>, number: u64) -> u64 {
    let ended = if new.done { new.ends() & (PENDING - 1) } else { number };
    // Places with larger numbers have no text.
    u64::from(u16::try_from(new.access.place).unwrap_or(0)) << PLACE | ended
}

/// The number of the access in flight from the second word of its record. `None` if the access is
/// complete.
fn number_of(state: u64) -> Option<u64> {
    (state & PENDING != 0).then_some(state & (PENDING | (PENDING - 1)))
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

    /// Prefetches the cache line of a word's cell.
    #[inline]
    pub(super) fn prefetch(&self, word: u64) {
        let index = usize::try_from(word & self.mask).unwrap_or(0);
        self.shadow.memory.prefetch(self.base + LINE * index);
    }

    /// The bits that show which of 64 cells are in use. `first`: the first cell, a multiple of 64.
    fn bits(&self, first: usize) -> &'m AtomicU64 {
        let cells = LINE * (usize::try_from(self.mask).unwrap_or(0) + 1);
        self.shadow.word(self.base + cells + first / 8)
    }

    /// Takes the lock of a word's cell, and marks the cell as in use.
    #[inline]
    fn hold(&self, owner: u64) -> Option<Held<'m>> {
        let held = self.cell(owner - 1).take()?;
        if held.owner == 0 {
            // SeqCst: pairs with `look`: either a rank that adds a record to a chain sees this bit,
            // or this access sees the record.
            self.bits(held.cell.index & !63).fetch_or(1 << (held.cell.index & 63), Ordering::SeqCst);
        }
        Some(held)
    }

    /// Records an access, if its cell has room. `others` adds the conflicts with records in chains,
    /// and returns false if the cell alone does not suffice; then nothing is recorded. `is_full`:
    /// the chains have no record for the access, neither a free one nor one of a complete access.
    #[inline]
    pub(super) fn record(
        &self,
        new: &New<'_>,
        is_full: impl Fn() -> bool,
        others: impl FnOnce(&mut Vec<Clash>) -> bool,
    ) -> Option<(Record, Vec<Clash>)> {
        let owner = owner_of(&new.access)?;
        let held = self.hold(owner)?;
        let mut found = held.found(new, owner);
        if !others(&mut found.clashes) {
            return None;
        }
        let slot = match found.slot {
            Some(slot) => slot,
            None if is_full() => self.drop_for(&held, new, owner),
            None => return None,
        };
        Some((held.write(slot, found.replaced, new, owner), found.clashes))
    }

    /// Makes room in a cell: drops all records of another word, or one record of this word.
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
        let (first, last) = (new.access.start >> WORD, (new.access.end - 1) >> WORD);
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

    fn look_at(&self, cell: Cell<'m>, new: &New<'_>, clashes: &mut Vec<Clash>) {
        let Some(mut held) = self.wait(cell) else { return };
        for slot in 0..SLOTS {
            let Some((older, place)) = cell.older(slot, held.owner) else { continue };
            if new.overlaps(&older) {
                let verdict = new.judge(&older);
                clashes.extend(verdict.rule.map(|rule| Clash { older: access(&older, place), rule }));
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

    /// Marks an access of this rank as complete. `releases`: the number of releases of this rank.
    pub(super) fn complete(&self, record: Record, releases: u64) {
        if let Some((state, found)) = self.pending(record) {
            let ended = (found >> PLACE) << PLACE | (releases & (PENDING - 1));
            // Relaxed: the count orders no other access. Another rank may drop the record
            // meanwhile.
            let _ = state.compare_exchange(found, ended, Ordering::Relaxed, Ordering::Relaxed);
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

    /// The second word of a record that is still that of its access in flight, and its value.
    fn pending(&self, record: Record) -> Option<(&'m AtomicU64, u64)> {
        let In::Cell { cell, slot } = record.place else { return None };
        let state = &self.cell(u64::from(cell)).words[FIRST + 2 * usize::from(slot) + 1];
        let found = state.load(Ordering::Relaxed);
        (number_of(found) == Some(record.number)).then_some((state, found))
    }
}

impl<'m> Cell<'m> {
    /// Takes the lock. `None` if another rank holds it for long.
    #[inline]
    fn take(self) -> Option<Held<'m>> {
        let word = &self.words[OWNER];
        for _ in 0..TURNS {
            let found = word.load(Ordering::Relaxed);
            if found & STUCK != 0 {
                return None;
            }
            let found = found & !TAKEN;
            // Acquire: pairs with the Release of the previous holder.
            if word.compare_exchange(found, found | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Held { cell: self, owner: found >> OWNER_SHIFT });
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether a slot has a record.
    fn is_used(self, slot: usize) -> bool {
        self.words[FIRST + 2 * slot].load(Ordering::Relaxed) != 0
    }

    /// The access in a record and the access's place, if the record is in use. `owner`: the number
    /// of the cell's word plus 1.
    #[inline]
    fn older(self, slot: usize, owner: u64) -> Option<(Older, u32)> {
        let [what, state] = [0, 1].map(|word| self.words[FIRST + 2 * slot + word].load(Ordering::Relaxed));
        if what == 0 {
            return None;
        }
        let start = (owner.wrapping_sub(1) << WORD) + (what >> OFFSET & 7);
        let older = Older {
            start,
            end: start + (what & 15),
            kind: low(what >> KIND) & 0x00ff_ffff,
            origin: low(what >> ORIGIN) as usize & 0xffff,
            ended: number_of(state).map_or(state & (PENDING - 1), |_| IN_FLIGHT),
        };
        Some((older, low(state >> PLACE)))
    }

    #[inline]
    fn set(self, slot: usize, what: u64, state: u64) {
        self.words[FIRST + 2 * slot].store(what, Ordering::Relaxed);
        self.words[FIRST + 2 * slot + 1].store(state, Ordering::Relaxed);
    }

    fn clear(self, slot: usize) {
        self.set(slot, 0, 0);
    }
}

impl Held<'_> {
    /// Writes the record of an access into a slot, and clears the records that it replaces.
    #[inline]
    fn write(mut self, slot: usize, replaced: u32, new: &New<'_>, owner: u64) -> Record {
        let cell = self.cell;
        if replaced & !(1 << slot) != 0 {
            (0..SLOTS).filter(|one| replaced >> one & 1 != 0).for_each(|one| cell.clear(one));
        }
        let mut number = 0;
        if !new.done {
            let before = cell.words[COUNT].load(Ordering::Relaxed);
            cell.words[COUNT].store(before + 1, Ordering::Relaxed);
            number = PENDING | (before & (PENDING - 1));
        }
        cell.set(slot, what(new), state(new, number));
        self.owner = owner;
        let place =
            In::Cell { cell: u32::try_from(cell.index).unwrap_or(u32::MAX), slot: u8::try_from(slot).unwrap_or(0) };
        Record { place, number }
    }

    /// Compares an access to the word `owner` with the records of the cell.
    #[inline]
    fn found(&self, new: &New<'_>, owner: u64) -> Found {
        let mut found = Found { clashes: Vec::new(), slot: None, replaced: 0 };
        let mut in_use = false;
        for slot in (0..SLOTS).rev() {
            let Some((older, place)) = self.cell.older(slot, self.owner) else {
                found.slot = found.slot.or(Some(slot));
                continue;
            };
            let verdict = if new.overlaps(&older) {
                new.judge(&older)
            } else {
                super::Verdict { rule: None, is_replaced: new.is_behind(&older) }
            };
            found.clashes.extend(verdict.rule.map(|rule| Clash { older: access(&older, place), rule }));
            if verdict.is_replaced {
                found.replaced |= 1 << slot;
                found.slot = Some(slot);
            } else {
                in_use = true;
            }
        }
        if self.owner != owner && in_use {
            found.slot = None;
        }
        found
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        self.cell.words[OWNER].store(self.owner << OWNER_SHIFT, Ordering::Release);
    }
}

fn access(older: &Older, place: u32) -> Access {
    let Older { start, end, kind, origin, .. } = *older;
    Access { start, end, kind: Kind::decode(kind), origin, place }
}

#[cfg(test)]
impl Cells<'_> {
    /// Takes the lock of a word's cell and never releases it, as a process that ends.
    pub(super) fn strand(&self, word: u64) {
        std::mem::forget(self.hold(word + 1));
    }
}

//! The lock of a shadow: a big-reader lock. Each rank has a cache line, in which it announces
//! itself as a reader before it checks that no writer holds the lock. A writer takes the lock, and
//! then waits until no reader is announced. A reader writes no cache line that another rank's
//! reader uses.
//!
//! A reader may change cells, and complete its rank's accesses. It changes no chain, and no range
//! of a record in a chain. This suffices for most accesses within a block.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cells::Cells;
use super::{Access, Clash, Clock, Ends, IN_USE, LINE, LOCK, New, Record, Records, Shadow, low, readers_at};

/// The held lock: the right to read and change all records.
#[derive(Debug)]
pub(crate) struct Locked<'m>(Records<'m>);

/// An announced reader: the right to change cells, to read records in chains, and to complete the
/// accesses of one rank.
#[derive(Debug)]
pub(crate) struct Reading<'m> {
    records: Records<'m>,
    announced: &'m AtomicU64,
}

impl<'m> Deref for Locked<'m> {
    type Target = Records<'m>;

    fn deref(&self) -> &Records<'m> {
        &self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release: pairs with the loads of the lock by the next holder and the next reader.
        self.0.0.word(LOCK).store(0, Ordering::Release);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Release: pairs with the load by a writer that waits for readers.
        self.announced.store(0, Ordering::Release);
    }
}

impl<'m> Shadow<'m> {
    /// Takes the lock of the records. `wait` is called between attempts.
    pub(crate) fn lock<E>(self, mut wait: impl FnMut(u32) -> Result<(), E>) -> Result<Locked<'m>, E> {
        let mut turns = 0..u32::MAX;
        let mut wait = || wait(turns.next().unwrap_or(u32::MAX));
        // SeqCst, here and in `read`: if a writer and a reader begin at the same time, at least one
        // of them sees the other.
        while self.word(LOCK).compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            wait()?;
        }
        let locked = Locked(Records(self));
        for rank in 0..self.ranks {
            while self.reader(rank).load(Ordering::SeqCst) != 0 {
                wait()?;
            }
        }
        Ok(locked)
    }

    /// Announces a reader, unless a writer holds the lock. Only one thread of `rank` at a time may
    /// be a reader.
    #[inline]
    pub(crate) fn read(self, rank: usize) -> Option<Reading<'m>> {
        let announced = self.reader(rank);
        // SeqCst: see `lock`.
        announced.store(1, Ordering::SeqCst);
        let reading = Reading { records: Records(self), announced };
        (self.word(LOCK).load(Ordering::SeqCst) == 0).then_some(reading)
    }

    /// [`Records::record`] without the lock, for an access within a block while no record is in a
    /// chain. `None`: nothing was recorded or added, because the cell alone does not suffice.
    #[inline]
    pub(crate) fn record(self, new: Access, clock: &Clock, ends: Ends, clashes: &mut Vec<Clash>) -> Option<Record> {
        // SeqCst: pairs with the store in `Records::add`.
        let is_alone = |_: &mut Vec<Clash>| low(self.word(IN_USE).load(Ordering::SeqCst)) == 0;
        Cells::of(self).record(&New::of(self, new, clock, ends), clashes, || false, is_alone)
    }

    /// The conflicts of an access to few bytes that is not recorded. `wait` is called between
    /// attempts to take the lock.
    pub(crate) fn peek<E>(
        self,
        new: Access,
        clock: &Clock,
        wait: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<Vec<Clash>, E> {
        let (new, mut clashes) = (New::of(self, new, clock, Ends::InCall), Vec::new());
        Cells::of(self).peek(&new, &mut clashes);
        // SeqCst: as in `record`.
        if low(self.word(IN_USE).load(Ordering::SeqCst)) != 0 {
            self.lock(wait)?.look(&new, &mut clashes);
        }
        Ok(clashes)
    }

    fn reader(self, rank: usize) -> &'m AtomicU64 {
        self.word(readers_at(self.ranks) + LINE * rank)
    }
}

impl Reading<'_> {
    /// [`Records::record`] for an access of the reader's rank. `None`: nothing was recorded or
    /// added, because the cell alone does not suffice.
    #[inline]
    pub(crate) fn record(&self, new: Access, clock: &Clock, ends: Ends, clashes: &mut Vec<Clash>) -> Option<Record> {
        let (records, new) = (&self.records, New::of(self.records.0, new, clock, ends));
        let others = |clashes: &mut Vec<Clash>| !records.look(&new, clashes);
        Cells::of(records.0).record(&new, clashes, || records.is_full(clock), others)
    }

    /// [`Records::complete`] for an access of the reader's rank.
    pub(crate) fn complete(&self, record: Record, ended: u64) {
        self.records.complete(record, ended);
    }
}

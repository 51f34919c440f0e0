//! Buffers of operations that are in the origin's own part of the window, where ThreadSanitizer
//! does not watch them. They are recorded in the part's shadow, as loads and stores that last until
//! the operation is complete at the origin, and conflict with operations of other ranks.
//!
//! The checker does not see the loads by which a rank may poll its part, nor the stores by which it
//! may tell other ranks that the part is free again. Buffers are therefore recorded only where no
//! program may poll for the operations of other ranks: in fence epochs, and while the part is
//! exposed by `post`. The records are dropped when such an epoch ends.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::target::Hold;
use super::{Access, At, Checked, Checker, Clash, Clock, Kind, Loan, MANY, Parts, Record, Target};
use crate::check::BufferUse;
use crate::error::Result;
use crate::flavor::Flavor;

/// The buffers in the own part that operations have used in the present epoch.
#[derive(Debug, Default)]
pub(super) struct OwnBuffers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// What this rank may have known when it exposed its part, if the part is exposed.
    posted: Option<Clock>,
    records: Vec<Record>,
    /// The last use, if it does not end alone, and the member of its operation. Its record stands
    /// for repetitions of the use.
    last: Option<(Access, usize)>,
}

impl OwnBuffers {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checked {
    /// Records what this rank may know when `post` exposes its part.
    pub(super) fn exposes_buffers(&self, checker: &Checker) {
        let mut known = checker.clock().clone();
        // This rank may have polled for operations of earlier epochs that were complete.
        known.learn(self.own().clock(At::Settled));
        self.own_buffers.inner().posted = Some(known);
    }

    /// Records that uses of buffers in this rank's part have ended.
    pub(super) fn own_buffers_end(&self, checker: &Checker, records: &[Record]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.own_buffers.inner().last = None;
        let released = super::Shadow::ends_with_release(checker.clock().of(self.shadows.job.rank));
        let locked = self.lock(self.own())?;
        records.iter().for_each(|&record| locked.complete(record, released));
        checker.has_done();
        Ok(())
    }

    /// Drops the records of buffers, because the epoch in which other ranks operate on this rank's
    /// part is over.
    pub(super) fn forget_own_buffers(&self) -> Result<()> {
        let Inner { records, .. } = std::mem::take(&mut *self.own_buffers.inner());
        if records.is_empty() {
            return Ok(());
        }
        let locked = self.lock(self.own())?;
        records.into_iter().for_each(|record| locked.forget(record));
        Ok(())
    }

    /// Makes room for the record of a buffer. If there are many records, drops those that were
    /// replaced.
    fn make_room_for_own(&self, own: &mut Inner) -> Result<()> {
        if own.records.len() == own.records.capacity() && own.records.len() > MANY {
            let locked = self.lock(self.own())?;
            own.records.retain(|&record| locked.is(record));
            self.loans().retain(|loan| loan.own.is_none_or(|record| locked.is(record)));
            own.records.reserve(own.records.len());
        }
        Ok(())
    }
}

impl Parts {
    /// Records a buffer of an operation on `target`, if it is in this rank's own part and other
    /// ranks' operations there can only be concurrent. `buffer`: address, length, and whether the
    /// operation writes it. Returns the loan, and adds the conflicts to `conflicts`.
    pub(in crate::window) fn lends_own(
        &self,
        target: &Target,
        lent: &BufferUse,
        (address, len, written): (usize, usize, bool),
        conflicts: &mut Vec<(Access, Clash)>,
    ) -> Result<Option<Loan>> {
        let Some((checked, checker)) = self.checker() else { return Ok(None) };
        let part = self.own.local();
        let base = part.as_ptr().addr();
        let (start, end) = (address.max(base), address.saturating_add(len).min(base + part.len()));
        if start >= end || matches!(self.flavor, Flavor::Shared | Flavor::Dynamic) {
            return Ok(None);
        }
        let in_fence = target.hold() == Hold::None && self.notifies_at_end(target);
        let mut own = checked.own_buffers.inner();
        if !in_fence && own.posted.is_none() {
            return Ok(None);
        }
        let mut clock = checker.clock().clone();
        own.posted.iter().for_each(|known| clock.merge(known));
        let kind = if written { Kind::Store } else { Kind::Load };
        let [start, end] = [start - base, end - base].map(|it| it as u64);
        let new = Access { start, end, kind, origin: self.job.rank, place: lent.place.number };
        let use_of = (!lent.is_alone).then_some((new, lent.member));
        if use_of.is_some() && own.last == use_of {
            return Ok(None);
        }
        let mut clashes = Vec::new();
        checked.make_room_for_own(&mut own)?;
        let locked = checked.lock(checked.own())?;
        // All ranks meet at the end of a fence epoch, before the records are forgotten.
        let record = match in_fence {
            true => locked.record_in_chain(new, &clock, &mut clashes),
            false => locked.record_passing(new, &clock, &mut clashes),
        };
        drop(locked);
        own.records.push(record);
        own.last = use_of;
        // Conflicts of two buffers are found among all buffers of the rank.
        let is_buffer = |older: &Access| matches!(older.kind, Kind::Load | Kind::Store);
        let is_same = |older: &Access| older.place == new.place && (older.start, older.end) == (start, end);
        clashes.retain(|Clash { older, .. }| older.origin != new.origin || !(is_buffer(older) || is_same(older)));
        conflicts.extend(clashes.into_iter().map(|clash| (new, clash)));
        Ok(Some(Loan::of_own(lent, record)))
    }
}

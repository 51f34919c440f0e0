//! The records of this rank's accesses, in the shadows of their targets.

use transom_fabric::Memory;

use super::super::parts::Parts;
use super::super::target::Target;
use super::completion::forget_replaced;
use super::{Checked, End, MANY, Pending};
use crate::check::{Access, Checker, Clash, Clock, Ends, Kind, Record, Shadow};
use crate::error::Result;

impl End {
    /// The end of an access as its record has it.
    fn of_record(self) -> Ends {
        match self {
            End::InCall => Ends::InCall,
            End::AtFlush => Ends::AtFlush,
            End::Later | End::Alone => Ends::WhenTold,
        }
    }
}

impl Pending {
    /// An access of operation `operation`, with its records in the part and by address.
    pub(super) fn of(
        target: &Target,
        (record, by_address): (Record, Option<Record>),
        access: Access,
        (known, operation, end): (u64, u64, End),
    ) -> Pending {
        let ends_with_result = access.kind.ends_with_result();
        Pending {
            record,
            ends_with_result,
            ends_with_exposure: target.hold().is_of_start() && !ends_with_result,
            operation,
            is_alone: end == End::Alone,
            access,
            known,
            by_address,
        }
    }
}

impl Checked {
    /// Makes room for an access in flight to a member.
    pub(super) fn make_room(&self, list: &mut Vec<Pending>, shadow: Shadow<'_>) -> Result<()> {
        if list.len() == list.capacity() && list.len() > MANY {
            forget_replaced(list, &self.lock(shadow)?);
            list.reserve(list.len());
        }
        Ok(())
    }

    /// Records an access of this rank in the shadow of a part, and adds the conflicts to `clashes`.
    /// Only one thread of the rank at a time may do this: the caller holds the lock of `pending`.
    pub(super) fn record(
        &self,
        shadow: Shadow<'_>,
        new: Access,
        (clock, end): (&Clock, End),
        clashes: &mut Vec<Clash>,
    ) -> Result<Record> {
        let ends = end.of_record();
        if let Some(record) = shadow.record(new, clock, ends, clashes) {
            return Ok(record);
        }
        if let Some(record) = shadow.read(new.origin).and_then(|reading| reading.record(new, clock, ends, clashes)) {
            return Ok(record);
        }
        Ok(self.lock(shadow)?.record(new, clock, ends, clashes))
    }

    /// Records an access to a part, whose first byte has the address `base`, by address, and adds
    /// the conflicts with accesses of other windows to `conflicts`.
    pub(super) fn record_by_address(
        &self,
        memory: &Memory,
        base: u64,
        new: Access,
        (clock, end): (&Clock, End),
        conflicts: &mut Vec<(Access, Clash, bool)>,
    ) -> Result<Record> {
        let new = addressed(base, new);
        let shadow = Shadow::of(memory, self.shadows.job.size);
        // Takes the lock instead of using a reader (`Shadow::read`): this shadow belongs to several
        // windows, whose threads may call this at the same time.
        let mut clashes = Vec::new();
        let record = self.lock(shadow)?.record(new, clock, end.of_record(), &mut clashes);
        conflicts.extend(clashes.into_iter().map(|clash| (new, clash, true)));
        Ok(record)
    }
}

/// An access to a part, whose first byte has the address `base`, by address.
pub(super) fn addressed(base: u64, access: Access) -> Access {
    Access { start: base.wrapping_add(access.start), end: base.wrapping_add(access.end), ..access }
}

impl Parts {
    /// The end of an operation, from the form of the call: [`End::AtFlush`] if the part alone can
    /// tell it. Results of other operations arrive at their own time, or need a list at the origin;
    /// operations in an epoch of `start` end with the exposure epoch; and those that are recorded
    /// elsewhere too are completed there one by one.
    pub(super) fn ends_at_flush(
        &self,
        (checker, target): (&Checker, &Target),
        shadow: Shadow<'_>,
        (kind, end): (Kind, End),
    ) -> End {
        let changes_only = kind == Kind::Put || kind.is_accumulate();
        let at_flush = end == End::Later
            && changes_only
            && shadow.is_plain()
            && !target.hold().is_of_start()
            && !checker.has_seen_atomics();
        if at_flush { End::AtFlush } else { end }
    }
}

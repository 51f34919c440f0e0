//! Reports of conflicts in a checked window.

use super::Parts;
use crate::check::{Access, Checker, Clash, Conflict, Rule, Side};
use crate::error::Result;
use crate::flavor::Flavor;

impl Parts {
    /// Reports conflicts of accesses to a member's part. The flag of a conflict says whether the
    /// conflict was found by address.
    pub(super) fn report_all(
        &self,
        checker: &Checker,
        member: usize,
        conflicts: Vec<(Access, Clash, bool)>,
    ) -> Result<()> {
        let is_dynamic = self.flavor == Flavor::Dynamic;
        conflicts.into_iter().try_for_each(|(new, clash, by_address)| {
            self.conflict_by(checker, member, (new, clash), by_address || is_dynamic)
        })
    }

    /// Reports a conflict of an access to a member's part. Reports on a dynamic window, and on
    /// buffers, name the bytes by address.
    pub(in crate::window) fn conflict(
        &self,
        checker: &Checker,
        member: usize,
        new: Access,
        clash: Clash,
    ) -> Result<()> {
        let by_address = self.flavor == Flavor::Dynamic || clash.rule == Rule::Buffers;
        self.conflict_by(checker, member, (new, clash), by_address)
    }

    /// [`Parts::conflict`]. `by_address`: the report names the bytes by address, else by offset.
    fn conflict_by(
        &self,
        checker: &Checker,
        member: usize,
        (new, clash): (Access, Clash),
        by_address: bool,
    ) -> Result<()> {
        let side = |access: Access| {
            let place = self.job.area(checker, access.origin)?.text(access.place);
            Ok::<_, crate::Error>(Side { access, place })
        };
        let conflict = Conflict {
            window: self.id,
            target: self.team.rank(member),
            dynamic: by_address,
            older: side(clash.older)?,
            newer: side(new)?,
            rule: clash.rule,
        };
        checker.report(self.job.area(checker, 0)?, &conflict);
        Ok(())
    }
}

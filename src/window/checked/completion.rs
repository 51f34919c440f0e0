//! The end of accesses that are recorded in the shadows of their targets.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::{Checked, Parts, Pending, addressed};
use crate::check::{self, Access, At, Checker, Clock, Holder, Loan, Locked, LogEntry, Shadow};
use crate::error::Result;

/// The accesses that an operation or a synchronization completes.
#[derive(Clone, Copy, Debug)]
pub(in crate::window) enum Completed<'n> {
    /// All accesses.
    All,
    /// All accesses that only fetch, because their results have arrived.
    Fetching,
    /// The accesses of one operation.
    Operation(u64),
    /// Of the operations with these numbers, which are in increasing order: those that only fetch.
    Results(&'n [u64]),
    /// The uses of a part by buffers with these numbers, which are in increasing order.
    Uses(&'n [u64]),
}

impl Completed<'_> {
    pub(super) fn has(self, pending: &Pending) -> bool {
        match self {
            Completed::All => true,
            Completed::Fetching => pending.ends_with_result,
            Completed::Operation(number) => pending.operation == number,
            Completed::Results(numbers) => {
                pending.ends_with_result && numbers.binary_search(&pending.operation).is_ok()
            }
            Completed::Uses(numbers) => numbers.binary_search(&pending.operation).is_ok(),
        }
    }

    /// Whether the value that an operation fetches has arrived.
    pub(super) fn brings_value(self, pending: &Pending) -> bool {
        match self {
            Completed::All | Completed::Fetching => true,
            Completed::Operation(number) => pending.operation == number,
            Completed::Results(numbers) => numbers.binary_search(&pending.operation).is_ok(),
            Completed::Uses(_) => false,
        }
    }

    /// Whether all operations are complete at the origin.
    fn has_all_local(self) -> bool {
        matches!(self, Completed::All | Completed::Fetching)
    }

    /// Whether this completion ends the loan of a buffer.
    pub(super) fn returns(self, loan: &Loan) -> bool {
        match self {
            Completed::All => true,
            Completed::Fetching => loan.local,
            Completed::Operation(number) => loan.operation == number,
            Completed::Results(numbers) => loan.local && numbers.binary_search(&loan.operation).is_ok(),
            Completed::Uses(_) => false,
        }
    }
}

/// Drops accesses in flight whose records were overwritten by later ones, but keeps one of them for
/// each range of bytes. When an operation that ends alone completes, [`Checked::restore`] needs
/// this one to restore the overwritten record. The dropped accesses of the range count as complete
/// together with the kept one.
pub(super) fn forget_replaced(list: &mut Vec<Pending>, locked: &Locked<'_>) {
    let alone = joined(list.iter().filter(|one| one.is_alone).map(|one| one.access));
    let is_covered = |access: &Access| {
        let next = alone.partition_point(|range| range.0 <= access.start);
        next > 0 && access.end <= alone[next - 1].1
    };
    let mut ranges = HashSet::new();
    list.retain(|one| {
        let Access { start, end, kind, .. } = one.access;
        let mut is_restored = || is_covered(&one.access) && ranges.insert((start, end, kind.encode()));
        one.is_alone || one.by_address.is_some() || locked.is(one.record) || is_restored()
    });
}

/// The bytes of some accesses, as ranges in increasing order that neither overlap nor touch.
fn joined(accesses: impl Iterator<Item = Access>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<_> = accesses.map(|access| (access.start, access.end)).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let joins = next.0 <= last.1;
        if joins {
            last.1 = last.1.max(next.1);
        }
        joins
    });
    ranges
}

/// Accesses, to find whether one of them covers another access of its kind.
struct Covers(Vec<(u32, u64, u64)>);

impl Covers {
    fn of(accesses: impl Iterator<Item = Access>) -> Covers {
        let mut all: Vec<_> = accesses.map(|it| (it.kind.encode(), it.start, it.end)).collect();
        all.sort_unstable();
        // From here on each end is the largest one of the accesses of the kind that begin no later.
        for index in 1..all.len() {
            if all[index].0 == all[index - 1].0 {
                all[index].2 = all[index].2.max(all[index - 1].2);
            }
        }
        Covers(all)
    }

    fn covers(&self, it: &Access) -> bool {
        let kind = it.kind.encode();
        let next = self.0.partition_point(|by| (by.0, by.1) <= (kind, it.start));
        next.checked_sub(1).map(|last| self.0[last]).is_some_and(|by| by.0 == kind && it.end <= by.2)
    }
}

impl Checked {
    /// Called before the accesses `which` end: a record of one of them may have overwritten the
    /// record of an access that is still in flight. Records such accesses again.
    fn restore(&self, checker: &Checker, member: usize, list: &mut [Pending], which: Completed<'_>) -> Result<()> {
        if matches!(which, Completed::All | Completed::Fetching) {
            return Ok(());
        }
        let ending = Covers::of(list.iter().filter(|one| which.has(one)).map(|one| one.access));
        let is_covered = |one: &Pending| !which.has(one) && ending.covers(&one.access);
        if !list.iter().any(is_covered) {
            return Ok(());
        }
        let (clock, shadow) = (checker.clock().clone(), self.shadow(member)?);
        let locked = self.lock(shadow)?;
        for one in list.iter_mut().filter(|one| is_covered(one) && !locked.is(one.record)) {
            one.record = locked.restore(one.access, &clock);
        }
        drop(locked);
        let (Some(base), Some(memory)) = (shadow.shared(), self.by_address(checker, member)?) else { return Ok(()) };
        let locked = self.lock(Shadow::of(&memory, self.shadows.job.size))?;
        for one in list.iter_mut().filter(|one| is_covered(one)) {
            if let Some(record) = one.by_address.as_mut().filter(|record| !locked.is(**record)) {
                *record = locked.restore(addressed(base, one.access), &clock);
            }
        }
        Ok(())
    }

    /// Completes the operations on a member that end at a flush ([`End::AtFlush`]), and makes the
    /// release of the flush. `None` if there were none.
    fn flush<'c>(&self, checker: &'c Checker, member: usize) -> Result<Option<Holder<'c, Clock>>> {
        let shadow = self.shadow(member)?;
        let is_unflushed = &self.unflushed[member];
        // Relaxed: the lock of the clock orders those that take the mark. An operation that another
        // thread begins meanwhile may be complete at this flush, or at the next one.
        if !is_unflushed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Ok(checker.release_of_flush(shadow, || is_unflushed.swap(false, Ordering::Relaxed)))
    }

    /// Completes accesses to a member. Returns whether there were any.
    pub(super) fn complete(&self, checker: &Checker, member: usize, which: Completed<'_>) -> Result<bool> {
        self.complete_in(&mut self.pending()[member], checker, member, which)
    }

    /// A flush without an access in flight: operations that were complete in their calls come
    /// before the flag that this rank may store next into its own part.
    pub(super) fn flushes(&self, checker: &Checker, which: Completed<'_>) {
        if matches!(which, Completed::All | Completed::Fetching)
            && !checker.has_seen_atomics()
            && self.own().may_have_flags()
        {
            drop(checker.release_by_operation());
        }
    }

    /// Completes uses of a member's part by buffers.
    pub(super) fn complete_uses(&self, checker: &Checker, member: usize, numbers: &[u64]) -> Result<bool> {
        let list = &mut self.pending()[self.shadows.team.size + member];
        self.complete_in(list, checker, member, Completed::Uses(numbers))
    }

    fn complete_in(
        &self,
        list: &mut Vec<Pending>,
        checker: &Checker,
        member: usize,
        which: Completed<'_>,
    ) -> Result<bool> {
        // Most requests complete none: the result of a put shows nothing of its end at the target.
        if !list.iter().any(|one| which.has(one)) {
            return Ok(false);
        }
        let (rank, shadow) = (self.shadows.job.rank, self.shadow(member)?);
        self.restore(checker, member, list, which)?;
        let released = Shadow::ends_with_release(checker.clock().of(rank));
        let ended = |one: &Pending| match which {
            Completed::All if one.ends_with_exposure => shadow.ends_with_exposure(),
            _ => released,
        };
        let before = list.len();
        let is_logged = member != self.shadows.team.me && shadow.has_log();
        let has_twin = |one: &&Pending| which.has(one) && one.by_address.is_some();
        if list.iter().any(|one| has_twin(&one))
            && let Some(memory) = self.by_address(checker, member)?
        {
            let locked = self.lock(Shadow::of(&memory, self.shadows.job.size))?;
            for one in list.iter().filter(has_twin) {
                // A shadow by address has no exposure epochs: conflicts between two windows are
                // missed from the origin's complete to the target's wait.
                one.by_address.into_iter().for_each(|record| locked.complete(record, released));
            }
        }
        match shadow.read(rank).filter(|_| !is_logged) {
            Some(reading) => list.retain(|one| {
                let ends = which.has(one);
                if ends {
                    reading.complete(one.record, ended(one));
                }
                !ends
            }),
            None => {
                let locked = self.lock(shadow)?;
                list.retain(|one| {
                    let ends = which.has(one);
                    if ends {
                        locked.complete(one.record, ended(one));
                    }
                    if ends && is_logged {
                        locked.log(LogEntry { access: one.access, known: one.known, done: ended(one) });
                    }
                    !ends
                });
            }
        }
        checker.has_done();
        Ok(list.len() < before)
    }
}

impl Parts {
    /// Records that operations to a member are complete.
    pub(in crate::window) fn completed(&self, member: usize, which: Completed<'_>) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        if checked.has_pending(member) {
            check::pause();
        }
        self.learn_of_values(checked, checker, member, which)?;
        if which.has_all_local() {
            checker.give_others_back(self.id, Some(member));
        }
        let own = checker.give_back(&mut checked.loans(), |loan| loan.member == member && which.returns(loan));
        checked.own_buffers_end(checker, &own)?;
        let has_ended = checked.complete(checker, member, which)?;
        let flushed = if matches!(which, Completed::All) { checked.flush(checker, member)? } else { None };
        // Where the checker sees the loads by which a program polls, no call learns from the clock.
        let clock = match flushed {
            None if has_ended && !checker.has_seen_atomics() => checker.release_by_operation(),
            None if !has_ended => {
                checked.flushes(checker, which);
                return Ok(());
            }
            None => return Ok(()),
            Some(clock) => clock,
        };
        clock.teach(checked.shadow(member)?.clock(At::Settled));
        Ok(())
    }

    /// [`Parts::completed`] for all members.
    #[cold]
    pub(in crate::window) fn all_completed(&self, which: Completed<'_>) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        if which.has_all_local() {
            checker.give_others_back(self.id, None);
        }
        let own = checker.give_back(&mut checked.loans(), |loan| which.returns(loan));
        checked.own_buffers_end(checker, &own)?;
        let members: Vec<_> = (0..self.team.size).filter(|&member| checked.has_pending(member)).collect();
        if members.is_empty() {
            checked.flushes(checker, which);
        }
        members.into_iter().try_for_each(|member| self.completed(member, which))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Kind;

    #[test]
    fn an_access_is_covered_by_one_access_of_its_kind() {
        let access = |kind, start, end| Access { start, end, kind, origin: 0, place: 0 };
        let put = |start, end| access(Kind::Put, start, end);
        let all = [put(0, 40), put(8, 16), put(56, 64), put(64, 72), access(Kind::Get, 80, 88)];
        let covers = Covers::of(all.into_iter());
        assert!([put(0, 40), put(16, 40), put(24, 32), put(60, 64), all[4]].iter().all(|one| covers.covers(one)));
        assert!(![put(32, 48), put(60, 68), put(80, 88)].iter().any(|one| covers.covers(one)));
        assert!(![access(Kind::Get, 8, 16), access(Kind::Store, 0, 8)].iter().any(|one| covers.covers(one)));
        assert!(!Covers::of(std::iter::empty()).covers(&put(0, 8)));
    }
}

//! Assertions of synchronization calls (MPI-4.1 §12.5.5) in a checked window: the promises of a
//! rank, and the calls of other ranks that break them. A report does not change the outcome of a
//! call.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::super::raw::Assert;
use super::{Checked, Checker, Lock, Parts, Target};
use crate::check::{Caller, HeldLock, Kind, Misuse, Paired, PairedCall, Promise, Shadow, on_bytes};
use crate::error::Result;
use crate::memory::layout::Layout;

thread_local! {
    /// The assertions of the synchronization call that this thread makes.
    static ASSERTED: Cell<Assert> = const { Cell::new(Assert::NONE) };
}

/// A call, and its assertions among `shown`.
fn with(call: &str, assert: Assert, shown: &[(Assert, &str)]) -> String {
    let names: Vec<_> = shown.iter().filter(|(one, _)| assert.has(*one)).map(|(_, name)| *name).collect();
    if names.is_empty() { call.to_owned() } else { format!("{call} with {}", names.join(" and ")) }
}

const NOCHECK: &[(Assert, &str)] = &[(Assert::NOCHECK, "MPI_MODE_NOCHECK")];
const OF_FENCES: &[(Assert, &str)] =
    &[(Assert::NOPRECEDE, "MPI_MODE_NOPRECEDE"), (Assert::NOSUCCEED, "MPI_MODE_NOSUCCEED")];

/// A call of `post` or `start`.
fn paired(call: &str, it: PairedCall) -> String {
    with(call, if it.has_nocheck { Assert::NOCHECK } else { Assert::NONE }, NOCHECK)
}

/// A call that takes a lock.
fn locking(lock: HeldLock) -> String {
    let call = match lock {
        HeldLock { is_of_all: true, .. } => "lock_all",
        HeldLock { is_exclusive: true, .. } => "exclusive lock",
        _ => "shared lock",
    };
    with(call, if lock.is_unchecked { Assert::NOCHECK } else { Assert::NONE }, NOCHECK)
}

impl Parts {
    /// Makes a synchronization call that has assertions.
    #[inline]
    pub(in crate::window) fn asserting<R>(&self, assert: Assert, call: impl FnOnce() -> R) -> R {
        if !self.is_checked() {
            return call();
        }
        ASSERTED.set(assert);
        let made = call();
        ASSERTED.set(Assert::NONE);
        made
    }

    /// Reports a false assertion. Each side: the rank, its call, and the place by its number there.
    fn misused(
        &self,
        checker: &Checker,
        promise: Promise,
        member: usize,
        callers: [(usize, String, u32); 2],
    ) -> Result<()> {
        let [first, second] = callers.map(|(rank, call, place)| {
            let place = self.job.area(checker, rank)?.text(place);
            Ok::<_, crate::Error>(Caller { rank, call, place })
        });
        let misuse = Misuse { window: self.id, target: self.team.rank(member), promise, callers: [first?, second?] };
        checker.report(self.job.area(checker, 0)?, &misuse);
        Ok(())
    }

    /// This rank calls a fence, and is about to meet the others. Compares its assertions with those
    /// of the ranks that have called the same fence before.
    #[inline]
    pub(in crate::window) fn fences(&self) {
        if self.is_checked() {
            // Fails only without the other ranks' memory, which a job with the checker has.
            drop(self.fences_checked());
        }
    }

    #[cold]
    fn fences_checked(&self) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let assert = ASSERTED.get();
        // Relaxed: the fences of a rank come one after the other.
        let number = checked.fences.fetch_add(1, Ordering::Relaxed) + 1;
        let place = checker.place().number;
        // Behind a fence with NOSUCCEED there is no epoch in which another rank could operate.
        let noput = assert.has(Assert::NOPUT) && !assert.has(Assert::NOSUCCEED);
        let kept = [Assert::NOPUT, Assert::NOPRECEDE, Assert::NOSUCCEED];
        let bits = (0..).zip(kept).map(|(at, one)| u8::from(assert.has(one)) << at).sum::<u8>();
        checked.own().fences(number, if noput { bits } else { bits & !1 }, noput, place);
        let asserted = |bits: u8| {
            let all = (0..).zip(kept).filter(|(at, _)| bits >> at & 1 != 0);
            all.fold(Assert::NONE, |sum, (_, one)| sum | one)
        };
        for member in (0..self.team.size).filter(|&member| member != self.team.me) {
            // A fence needs no contact with ranks that are no targets.
            let Some((theirs, there)) = checked.shadow(member)?.fence(number) else { continue };
            if (theirs ^ bits) >> 1 != 0 {
                let rank = self.team.rank(member);
                let other = (rank, with("fence", asserted(theirs), OF_FENCES), there);
                let own = (self.job.rank, with("fence", assert, OF_FENCES), place);
                self.misused(checker, Promise::Collective, member, [other, own])?;
            }
        }
        Ok(())
    }

    /// Reports an operation of this rank that changes bytes of a part whose rank has asserted that
    /// no origin does. `changes`: whether the operation changes the part, as its kind says.
    #[inline]
    pub(super) fn changes(
        &self,
        checked: (&Checked, &Checker),
        (target, shadow): (&Target, Shadow<'_>),
        what: (i64, &Layout<'_>, Kind, u32),
        changes: bool,
    ) -> Result<()> {
        if shadow.has_noput() && changes && !what.2.only_reads() {
            return self.changes_in_spite(checked, (target, shadow), what);
        }
        Ok(())
    }

    #[cold]
    pub(super) fn changes_in_spite(
        &self,
        (checked, checker): (&Checked, &Checker),
        (target, shadow): (&Target, Shadow<'_>),
        (at, layout, kind, place): (i64, &Layout<'_>, Kind, u32),
    ) -> Result<()> {
        // In epochs of locks the assertions of active target synchronization say nothing.
        if !self.notifies_at_end(target) {
            return Ok(());
        }
        let by = if target.hold().is_of_start() {
            shadow.post_without_puts().map(|place| ("post", place))
        } else {
            let fence = shadow.fence(checked.fences.load(Ordering::Relaxed));
            fence.filter(|(bits, _)| bits & 1 != 0).map(|(_, place)| ("fence", place))
        };
        let (Some((call, there)), Some((offset, len))) = (by, layout.pieces().next()) else { return Ok(()) };
        let member = target.rank();
        let call = format!("{call} with MPI_MODE_NOPUT");
        let start = at.wrapping_add(offset).cast_unsigned();
        let operation = on_bytes(kind, start, start.wrapping_add(len as u64));
        let callers = [(self.team.rank(member), call, there), (self.job.rank, operation, place)];
        self.misused(checker, Promise::NoPut, member, callers)
    }

    /// This rank calls `post`, before any origin gets a notice.
    pub(super) fn promises_of_post(&self, checked: &Checked, checker: &Checker, origins: &[usize]) -> Result<()> {
        let (assert, place) = (ASSERTED.get(), checker.place().number);
        checked.own().forbids_puts(assert.has(Assert::NOPUT).then_some(place));
        let call = PairedCall { has_nocheck: assert.has(Assert::NOCHECK), place };
        for &member in origins {
            let origin = self.team.rank(member);
            if let Some(start) = checked.own().pairs(origin, Paired::Post, call) {
                let callers =
                    [(origin, paired("start", start), start.place), (self.job.rank, paired("post", call), place)];
                // A report that can't be made leaves the counts of the other origins right.
                drop(self.misused(checker, Promise::Paired, self.team.me, callers));
            }
        }
        Ok(())
    }

    /// This rank calls `start`.
    #[inline]
    pub(in crate::window) fn starts(&self, targets: &[usize], check: bool) {
        if self.is_checked() {
            // Fails only without the targets' memory, which a job with the checker has.
            drop(self.starts_checked(targets, check));
        }
    }

    #[cold]
    fn starts_checked(&self, targets: &[usize], check: bool) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let call = PairedCall { has_nocheck: !check, place: checker.place().number };
        for &member in targets {
            if let Some(post) = checked.shadow(member)?.pairs(self.job.rank, Paired::Start, call) {
                let post = (self.team.rank(member), paired("post", post), post.place);
                let start = (self.job.rank, paired("start", call), call.place);
                drop(self.misused(checker, Promise::Paired, member, [post, start]));
            }
        }
        Ok(())
    }

    /// This rank holds a lock of a member's part from here on. `check`: without NOCHECK.
    pub(in crate::window) fn holds_lock(&self, member: usize, kind: Lock, check: bool) {
        self.records_lock(Some(member), kind, check);
        // Fails only without the target's memory, which a job with the checker has.
        drop(self.holds(member, kind == Lock::Exclusive, check, false));
    }

    /// Records a lock that was taken, for reports of deadlocks.
    fn records_lock(&self, member: Option<usize>, kind: Lock, check: bool) {
        if let Some((checker, first)) = self.job.waiting().filter(|_| check) {
            checker.holds(first, self.id, self.held(member, kind));
        }
    }

    /// Records that a lock is about to be released.
    fn records_unlock(&self, member: Option<usize>) {
        if let Some((checker, first)) = self.job.waiting() {
            checker.releases_lock(first, self.id, self.held(member, Lock::Shared).target);
        }
    }

    /// [`Parts::holds_lock`] for `lock_all`.
    pub(in crate::window) fn holds_all_locks(&self, check: bool) {
        if self.is_checked() {
            self.records_lock(None, Lock::Shared, check);
            (0..self.team.size).for_each(|member| drop(self.holds(member, false, check, true)));
        }
    }

    fn holds(&self, member: usize, is_exclusive: bool, check: bool, is_of_all: bool) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let lock = HeldLock { is_exclusive, is_unchecked: !check, is_of_all, place: checker.place().number };
        for (rank, other) in checked.shadow(member)?.holds(self.job.rank, lock) {
            let callers = [(rank, locking(other), other.place), (self.job.rank, locking(lock), lock.place)];
            self.misused(checker, Promise::NoLock, member, callers)?;
        }
        Ok(())
    }

    /// This rank is about to release its lock of a member's part.
    pub(in crate::window) fn lock_held(&self, member: usize) -> Result<()> {
        self.records_unlock(Some(member));
        self.held_no_more(member)
    }

    fn held_no_more(&self, member: usize) -> Result<()> {
        let Some((checked, _)) = self.checker() else { return Ok(()) };
        checked.shadow(member)?.held(self.job.rank);
        Ok(())
    }

    /// [`Parts::lock_held`] for `lock_all`.
    pub(in crate::window) fn all_locks_held(&self) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        self.records_unlock(None);
        (0..self.team.size).try_for_each(|member| self.held_no_more(member))
    }
}

//! The synchronization of a checked window: which clocks each call passes on and learns.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use transom_fabric::Memory;

use super::super::target::Reach;
use super::{Checked, Completed, Lock, POLLED, Parts, Pending, last_operation};
use crate::check::{At, Awaited, Checker, Clock, Held, Kind, NoticeClocks, Shadow, Wait};
use crate::error::{JobError, Result};
use crate::flavor::Flavor;
use crate::sync::counters;

impl Parts {
    /// Makes a call that waits for `member`, or for all members. A report of a deadlock names the
    /// call and the member.
    #[inline]
    pub(in crate::window) fn waits<R>(&self, call: &'static str, member: Option<usize>, wait: impl FnOnce() -> R) -> R {
        if !self.is_checked() {
            return wait();
        }
        self.waits_for(call, member.map_or(Awaited::Unknown, |member| Awaited::Rank(self.team.rank(member))), wait)
    }

    /// [`Parts::waits`] for a lock of a member's part, or of all.
    #[inline]
    pub(in crate::window) fn waits_for_lock<R>(
        &self,
        call: &'static str,
        (member, kind): (Option<usize>, Lock),
        wait: impl FnOnce() -> R,
    ) -> R {
        if !self.is_checked() {
            return wait();
        }
        self.waits_for(call, Awaited::Lock(self.held(member, kind)), wait)
    }

    fn waits_for<R>(&self, call: &str, awaited: Awaited, wait: impl FnOnce() -> R) -> R {
        self.job.waits(&Wait { call, window: Some(self.id), awaited }, wait)
    }

    /// A lock for reports of deadlocks.
    pub(super) fn held(&self, member: Option<usize>, kind: Lock) -> Held {
        Held { target: member.map(|member| self.team.rank(member)), is_exclusive: kind == Lock::Exclusive }
    }

    /// Makes a barrier of the window's ranks. Each rank then knows what all ranks have done before.
    pub(in crate::window) fn meet<R>(&self, call: &'static str, barrier: impl FnOnce() -> Result<R>) -> Result<R> {
        let Some((checked, checker)) = self.checker() else { return barrier() };
        // Relaxed: barriers of a window come one after the other.
        let at = At::Barrier(checked.barriers.fetch_add(1, Ordering::Relaxed));
        checker.release().store(checked.own().clock(at));
        let wait = Wait { call, window: Some(self.id), awaited: Awaited::Meeting(self.team.size) };
        let passed = self.job.waits(&wait, barrier)?;
        let mut met = Clock::new(self.job.size);
        for member in (0..self.team.size).filter(|&member| member != self.team.me) {
            met.learn(checked.shadow(member)?.clock(at));
        }
        self.job.meets(met, checked.own().clock(at), self.team.size);
        checked.forget_own_buffers()?;
        Ok(passed)
    }

    /// [`Parts::meet`] at a fence.
    pub(in crate::window) fn meet_at_fence<R>(&self, barrier: impl FnOnce() -> Result<R>) -> Result<R> {
        if !self.is_checked() {
            return barrier();
        }
        self.fences();
        self.meet("fence", barrier)
    }

    /// Passes on what this rank has done before `post`.
    pub(in crate::window) fn posts(&self, origins: &[usize]) {
        let Some((checked, checker)) = self.checker() else { return };
        // Fails only without the memory of rank 0, which a job with the checker has.
        drop(self.promises_of_post(checked, checker, origins));
        *checked.origins.lock().unwrap_or_else(PoisonError::into_inner) = origins.to_vec();
        checked.own().begin_exposure();
        checked.exposes_buffers(checker);
        checker.release().store(checked.own().clock(At::Post));
    }

    /// Learns from the `post` of a target.
    pub(in crate::window) fn post_arrived(&self, member: usize) -> Result<()> {
        self.learn_from(member, &[At::Post])
    }

    /// The origin of the last `post`, if its group is one rank and the window is checked.
    pub(in crate::window) fn single_origin(&self) -> Option<usize> {
        let (checked, _) = self.checker()?;
        let origins = checked.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.first().copied().filter(|_| origins.len() == 1)
    }

    /// Passes on what this rank has done before `complete`, to a target that has posted and gets
    /// the notice next.
    #[inline]
    pub(in crate::window) fn completes(&self, member: usize) {
        if self.is_checked() {
            // Fails only without the target's memory, which a job with the checker has.
            drop(self.ends_gets(member).and_then(|()| self.pass_to(member, At::Complete)));
        }
    }

    /// Gets are complete when `complete` returns, before the exposure epoch ends (MPI-4.1 §12.5.2).
    #[cold]
    fn ends_gets(&self, member: usize) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        checked.complete(checker, member, Completed::Fetching).map(drop)
    }

    /// Ends the exposure epoch, and learns from the `complete` of all origins of `post`. No origin
    /// has ended a later epoch to this rank, because this rank has not posted for it.
    pub(in crate::window) fn completes_arrived(&self) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        checker.end_exposure(checked.own());
        checked.own().forbids_puts(None);
        checked.origins.lock().unwrap_or_else(PoisonError::into_inner).clear();
        checked.forget_own_buffers()?;
        self.learn_from(self.team.me, &[At::Complete])
    }

    /// Adds one to a counter of a member after a notified operation, which is complete, and
    /// releases this rank's clock with the notice. `counts`: the memory of the member's counters.
    #[cold]
    pub(in crate::window) fn raise_checked(&self, member: usize, counts: &Memory, index: usize) -> Result<()> {
        let Some((checked, checker)) = self.checker() else {
            counters::raise(counts, index);
            return Ok(());
        };
        checked.complete(checker, member, Completed::Operation(last_operation().number))?;
        // The numbers of the clocks are those of the counter, so the lock covers both.
        let notices = NoticeClocks::of(counts, counters::BYTES, index, self.job.size);
        let locked = notices.lock(|turn| checked.wait(turn))?;
        locked.add(&checker.release());
        counters::raise(counts, index);
        Ok(())
    }

    /// Learns from the ranks whose notices a counter of this rank counts, up to `value`. Earlier
    /// notices, before the last reset of the counter, are among them.
    #[inline]
    pub(in crate::window) fn notices_read(&self, index: usize, value: u64) -> Result<()> {
        if self.is_checked() { self.learn_notices(index, value) } else { Ok(()) }
    }

    #[cold]
    fn learn_notices(&self, index: usize, value: u64) -> Result<()> {
        let (Some((checked, _)), Some(counters)) = (self.checker(), self.counters.get()) else { return Ok(()) };
        // If another thread has reset the counter since the value was read, this rank learns more
        // than the value shows.
        let number = counters.zeros[index].load(Ordering::Acquire).saturating_add(value);
        let notices = NoticeClocks::of(&counters.parts.own.memory, counters::BYTES, index, self.job.size);
        let known = notices.lock(|turn| checked.wait(turn))?.clock_of(number);
        self.job.learns(|clock| clock.merge(&known));
        Ok(())
    }

    /// Orders this rank's loads and stores with those of other ranks (`MPI_WIN_SYNC`). A rank may
    /// poll its memory with this call, so it learns from the ranks whose operations it may find
    /// there, now and before its next access; in a shared window also from the ranks whose parts it
    /// may read. Other ranks may poll for what it has stored. Where the checker sees the loads by
    /// which a program polls, they teach the rank, and this call does not.
    pub(crate) fn sync(&self) {
        self.job.progress.look_on();
        self.own.sync();
        let Some((checked, checker)) = self.checker().filter(|(_, checker)| !checker.has_seen_atomics()) else {
            return;
        };
        // What this rank has performed in a call is complete.
        drop(checker.release_by_operation());
        // Relaxed: the number only limits the work.
        let polls = u32::try_from(checked.polls.fetch_add(1, Ordering::Relaxed)).unwrap_or(u32::MAX);
        let me = self.team.me;
        let read = if self.flavor == Flavor::Shared { 0..self.team.size } else { me..me + 1 };
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(read.into_iter().try_for_each(|member| self.polls_part(checked, checker, member, polls)));
    }

    fn polls_part(&self, checked: &Checked, checker: &Checker, member: usize, polls: u32) -> Result<()> {
        let (shadow, rank) = (checked.shadow(member)?, self.team.rank(member));
        shadow.polls();
        self.learn_news(checker, shadow, &[At::Settled, At::Flags]);
        if member == self.team.me {
            checker.polls(checked.memory(member)?, None, polls);
            return Ok(());
        }
        self.learn_stored(checked, checker, member)?;
        let block = self.job.link(rank)?.block().ok_or(JobError::WordsUnmapped { rank })?;
        checker.polls(checked.memory(member)?, Some((rank, block)), polls);
        Ok(())
    }

    /// Learns those of a part's clocks of which this rank may not know all.
    fn learn_news(&self, checker: &Checker, shadow: Shadow<'_>, from: &[At]) {
        let slots = from.iter().map(|&at| shadow.clock(at));
        slots.filter(|&slot| checker.is_news(shadow.words_of(slot))).for_each(|slot| {
            self.job.learns(|clock| clock.learn(slot));
        });
    }

    /// Before operations are complete: learns from what other ranks did before they changed the
    /// words whose values arrive now. A rank may poll by gets. The value of an accumulate that the
    /// target performs is not there when its call returns.
    pub(super) fn learn_of_values(
        &self,
        checked: &Checked,
        checker: &Checker,
        member: usize,
        which: Completed<'_>,
    ) -> Result<()> {
        let (shadow, sees_atomics) = (checked.shadow(member)?, checker.has_seen_atomics());
        let is_far = self.known(member).is_some_and(|target| matches!(target.reach, Reach::Unmapped(_)));
        if !shadow.may_have_flags() && !sees_atomics && !is_far {
            return Ok(());
        }
        let learns = |one: &&Pending| match one.access.kind {
            Kind::Get => one.access.end - one.access.start <= POLLED as u64,
            kind => is_far && kind.fetches(),
        };
        let range = |one: &Pending| (one.access.start, one.access.end, one.access.kind == Kind::Get);
        let arrives = |one: &&Pending| learns(one) && which.brings_value(one);
        let words: Vec<_> = checked.pending()[member].iter().filter(arrives).map(range).collect();
        if words.is_empty() {
            return Ok(());
        }
        self.learn_stored(checked, checker, member)?;
        // Gets do not see the changes by operations in order.
        let known = words.iter().filter(|(_, _, is_get)| sees_atomics || !is_get);
        self.job.learns(|clock| {
            let slots = known.flat_map(|&(start, end, _)| shadow.clocks_for(start, end));
            slots.for_each(|slot| clock.learn(slot));
        });
        if sees_atomics {
            words.iter().try_for_each(|&(start, end, _)| checked.sees(checker, member, start, end))?;
        }
        Ok(())
    }

    /// Learns from the rank of a part of which this rank has read words: it may have found a flag
    /// that the other rank stored, after all that the other rank has done so far. Where the checker
    /// sees atomics of the language, flags are such atomics, and tell more.
    pub(super) fn learn_stored(&self, checked: &Checked, checker: &Checker, member: usize) -> Result<()> {
        if checker.has_seen_atomics() || member == self.team.me || !checked.shadow(member)?.may_have_flags() {
            return Ok(());
        }
        let rank = self.team.rank(member);
        let area = self.job.area(checker, rank)?;
        if checker.lacks(rank, area) {
            let known = checker.knows_now(rank, area);
            self.job.learns(|clock| clock.merge(&known));
        }
        // The other rank may have polled its part, and have stored the flag before its next access.
        let shadow = checked.shadow(member)?;
        if shadow.is_polled() {
            self.learn_news(checker, shadow, &[At::Settled, At::Flags]);
        }
        Ok(())
    }
}

//! Operations on a target whose lock is delayed: they are kept for the message of the lock, or have
//! the lock taken first. Waits for operations that were sent with a lock.

use std::sync::atomic::Ordering;

use transom_fabric::TallyRef;

use super::super::parts::Parts;
use super::super::target::{Hold, Target};
use super::not_locked;
use crate::error::{JobError, Result};
use crate::messages::{CARRIED, OVERHEAD, ReplyDestination, Request, STRIP};

impl Parts {
    /// Ends the delay of a lock, which is taken or given up.
    pub(in crate::window) fn end_delay(&self) {
        self.delay.end();
        self.job.delayed.forget();
    }

    /// Whether an operation of `len` bytes travels as a message, with the delayed lock. If not, the
    /// lock is held on return.
    #[inline]
    pub(in crate::window) fn travels(&self, target: &Target, len: usize) -> Result<bool> {
        if target.awaits_use() { self.travels_slow(target, len) } else { Ok(false) }
    }

    #[cold]
    fn travels_slow(&self, target: &Target, len: usize) -> Result<bool> {
        if self.use_taken(target)? {
            return Ok(false);
        }
        let most = self.message_max(target);
        // The same upper bound as in `LockDelay::keep`, for an operation with one strip.
        if 2 * OVERHEAD + STRIP + CARRIED + len <= most {
            return Ok(true);
        }
        self.need_lock(target)?;
        Ok(false)
    }

    /// Records the first operation under a lock that is held; false for a delayed lock. Waits while
    /// operations on the target are held back.
    ///
    /// # Errors
    /// The lock could not be taken.
    pub(in crate::window) fn use_taken(&self, target: &Target) -> Result<bool> {
        self.await_drain(target);
        let hold = target.hold();
        match hold {
            Hold::Delayed => return Ok(false),
            Hold::Failed => return Err(not_locked(target.rank())),
            Hold::UnusedShared | Hold::UnusedBiased => {
                target.shift(hold, hold.used());
                self.delay.guards.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(true)
    }

    /// Records that an epoch has ended without an operation.
    pub(in crate::window) fn was_unused(&self) {
        self.delay.guards.store(false, Ordering::Relaxed);
    }

    /// Keeps a request for the message of the delayed lock. A request that is not counted by the
    /// target's tally is complete on return, because its caller waits for it. Returns a request
    /// that must be sent by itself; the lock is then held.
    #[cold]
    pub(in crate::window) fn keep<'r>(
        &self,
        target: &Target,
        request: Request<'r>,
        into: ReplyDestination,
        tally: &TallyRef,
    ) -> Result<Option<(Request<'r>, ReplyDestination)>> {
        // The end of the epoch, or a flush, waits for the operations that the target's tally
        // counts. The caller waits for an operation that another tally counts.
        let owes = std::ptr::eq(&raw const **tally, &raw const *target.tally);
        if !owes && target.reach.is_dynamic() {
            // The target may refuse this operation or another one of the message, and the caller
            // needs the outcome of its own.
            self.need_lock(target)?;
            return Ok(Some((request, into)));
        }
        let (lends, is_mine) = (owes && into.len() > 0, self.job.delayed.is_mine());
        if lends && is_mine && self.job.delayed.is_shared() {
            // The thread may use the handle of another thread's epoch, whose end does not wait for
            // this lock.
            self.need_lock(target)?;
            return Ok(Some((request, into)));
        }
        let left = self.delay.keep(request, into, self.message_max(target), [owes, lends && !is_mine]);
        if left.is_some() || !owes {
            self.need_lock(target)?;
        }
        Ok(left)
    }

    /// Makes the window ([`TakesLock`](crate::job::TakesLock)) take the delayed lock of a target
    /// and perform the operations delayed until then.
    #[cold]
    pub(super) fn need_lock(&self, target: &Target) -> Result<()> {
        let taken = self.job.delayed.take();
        // The state of the target's lock changes last, maybe in another thread.
        let changed = self.await_taken(target);
        taken.and(changed)
    }

    /// Waits until the thread that takes a target's lock has taken it and has performed the
    /// operations that waited for it. The failure of that thread is an error here too: the caller's
    /// operation may be among these operations. The wait goes on after an error, because the
    /// operations have lent buffers, and the state of the lock still changes.
    pub(super) fn await_taken(&self, target: &Target) -> Result<()> {
        if self.job.progress.until(|| !target.is_delayed()).is_err() {
            self.job.outlast(|| u64::from(target.is_delayed()));
        }
        match target.hold() {
            Hold::Failed => Err(not_locked(target.rank())),
            _ if self.delay.lost.load(Ordering::Relaxed) => Err(JobError::NotPerformed { rank: target.rank() }.into()),
            _ => Ok(()),
        }
    }

    /// Waits for operations that were sent for a lock, which may be another thread's, and returns
    /// their outcome. `sent`: the result of sending them. The wait goes on after an error, because
    /// a later answer would be stored in the users' buffers.
    pub(super) fn outlast_sent(&self, sent: Result<()>, tally: &TallyRef) -> Result<()> {
        let progress = &self.job.progress;
        if progress.until(|| tally.idle()).is_err() {
            self.job.finish(tally);
        }
        sent.and(progress.outcome(tally))
    }

    /// [`Parts::outlast_sent`] for a call that only needs the lock. If there are operations of
    /// `earlier` calls, the target's tally keeps the failure for the flush or the unlock, also if
    /// the wait has failed because another rank is lost. This call returns only failures that may
    /// concern an operation of its own, which are not refusals.
    pub(super) fn outlast_performed(&self, sent: Result<()>, tally: &TallyRef, earlier: bool) -> Result<()> {
        let progress = &self.job.progress;
        if progress.until(|| tally.idle()).is_err() {
            self.job.finish(tally);
        }
        match tally.fault() {
            Some(_) if tally.is_refused() => sent,
            Some(fault) if earlier => sent.and(Err(progress.explained(fault))),
            _ => sent.and(progress.outcome(tally)),
        }
    }
}

//! How a lock is delayed, taken with the operations that wait for it, and given up.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use transom_fabric::Tally;

use super::super::checked::Completed;
use super::super::core::Core;
use super::super::lock::Lock;
use super::super::target::{Control, Hold, Reach, Target, Unmapped};
use super::not_locked;
use super::state::DelayedLock;
use crate::error::Result;
use crate::job::TakesLock;
use crate::messages::{Carried, ReplyDestination, Request};
use crate::routes::Actor;
use crate::sync::lock::Tried;

impl TakesLock for Core {
    fn take_delayed(&self) -> Result<()> {
        self.take_any_delayed()
    }
}

impl Core {
    /// Delays a target's lock if it may be delayed and the previous epoch had an operation, else
    /// takes it. Returns the state of the lock.
    pub(in crate::window) fn delay_or_take(&self, target: &Target, kind: Lock) -> Result<Hold> {
        if !self.may_delay(target, kind)? {
            return self.take(kind, target.rank());
        }
        if self.parts.delay.guards.load(Ordering::Relaxed) && self.delay_lock(kind, target.rank()) {
            return Ok(Hold::Delayed);
        }
        self.take(kind, target.rank()).map(Hold::unused)
    }

    /// Whether the lock of a target may be delayed: it is the only lock of this process, and an
    /// exclusive one needs no word but the target's.
    fn may_delay(&self, target: &Target, kind: Lock) -> Result<bool> {
        let by_message = self.parts.control == Actor::Cpu
            && self.parts.actor == Actor::Cpu
            && matches!(target.reach, Reach::Unmapped(Unmapped::Posted(_) | Unmapped::Dynamic(None)))
            && self.epochs.word().locks() == 0
            && (kind == Lock::Shared || self.epochs.bias.is_expected());
        Ok(by_message && matches!(target.control(&self.parts)?, Control::Messages))
    }

    /// Delays a lock; false where this process must not delay it.
    fn delay_lock(&self, kind: Lock, target: usize) -> bool {
        if !self.parts.delay.delay(kind, target) {
            return false;
        }
        let is_noted = self.parts.job.delayed.note(Weak::<Core>::clone(&self.this));
        if !is_noted {
            self.parts.delay.end();
        }
        is_noted
    }

    /// Gives up the delayed lock and the operations that wait for it, because the program will not
    /// end their epoch.
    pub(in crate::window) fn abandon_delayed(&self) {
        let is_delayed = self.parts.delay.slot().is_some();
        if is_delayed {
            self.parts.end_delay();
        }
    }

    /// Takes the delayed lock of a target and performs the delayed operations. `release`: the epoch
    /// ends and needs no lock afterwards. If the lock can't be taken, this call returns the
    /// failure, and later calls of the epoch fail. If the lock is taken and operations of earlier
    /// calls fail, the target's tally keeps the failure too.
    #[cold]
    pub(in crate::window) fn take_delayed_lock(&self, target: &Target, release: bool) -> Result<()> {
        let Some(lock) = self.parts.delay.take() else {
            // Another thread takes the lock.
            return self.parts.await_taken(target);
        };
        if release && lock.operations.is_empty() {
            self.parts.was_unused();
        }
        let (hold, done) = self.carry(target, *lock, release);
        self.parts.delay.lost.store(done.is_err(), Ordering::Relaxed);
        match hold {
            // The epoch word counts the lock until the epoch ends.
            Hold::Failed => self.parts.job.delayed.forget(),
            _ => self.parts.end_delay(),
        }
        target.set_hold(hold);
        // If nothing is in flight, the release may follow puts.
        target.tally.unmix();
        self.parts.job.progress.end_sleeps();
        done
    }

    /// The target whose lock was delayed last, if the lock is not taken.
    fn pending_target(&self) -> Option<&Target> {
        if self.parts.delay.pending() == 0 {
            return None;
        }
        self.parts.targets.get(self.parts.delay.target.load(Ordering::Relaxed) as usize)
    }

    /// [`Core::take_delayed_lock`] for the target whose lock is delayed, if there is one.
    fn take_any_delayed(&self) -> Result<()> {
        let delayed = self.pending_target().filter(|target| target.hold() == Hold::Delayed);
        delayed.map_or(Ok(()), |target| self.take_delayed_lock(target, false))
    }

    /// Takes the delayed lock, for a call that completes operations. On return no operation whose
    /// call has returned, of whatever thread, waits for the lock (MPI-4.1 §12.5.4: a flush
    /// completes the operations of the process).
    ///
    /// # Errors
    /// The lock can't be taken, now or by an earlier call of the epoch.
    pub(in crate::window) fn complete_delayed(&self) -> Result<()> {
        let Some(target) = self.pending_target() else { return Ok(()) };
        match target.hold() {
            Hold::Delayed if self.needs_delayed() => self.take_delayed_lock(target, false),
            Hold::Failed => Err(not_locked(target.rank())),
            _ => Ok(()),
        }
    }

    /// Completes the operations of other threads than the one that has delayed the lock, if their
    /// buffers are lent: the epoch of a closure ends, and buffers of this thread may be among them.
    /// The thread that has delayed the lock performs its own operations in the unlock that follows.
    #[inline]
    pub(in crate::window) fn complete_others(&self) {
        if self.parts.delay.pending() > 0 {
            self.complete_others_late();
        }
    }

    #[cold]
    fn complete_others_late(&self) {
        if self.parts.delay.lends.load(Ordering::Relaxed) && !self.parts.job.delayed.is_mine() {
            // The tally of the operations, or the unlock of the other thread, reports the failure.
            let _ = self.take_any_delayed();
        }
    }

    /// Whether a call that completes operations needs the delayed lock. The thread that has delayed
    /// the lock takes it in any case, so that a flush after `lock` waits for the lock. Another
    /// thread takes it only if operations wait for it (section *Threads* of `delayed_lock`).
    fn needs_delayed(&self) -> bool {
        self.parts.job.delayed.is_mine() || self.parts.delay.owes.load(Ordering::Relaxed)
    }

    /// Completes all operations of an epoch that continues.
    #[inline]
    pub(crate) fn flush_epoch(&self) -> Result<()> {
        let taken = self.complete_delayed();
        taken.and(self.parts.flush_all())
    }

    /// [`Core::flush_epoch`] for the local flushes, which promise only that buffers may be used
    /// again.
    #[inline]
    pub(crate) fn flush_epoch_locally(&self) -> Result<()> {
        let taken = self.complete_delayed();
        taken.and(self.parts.flush_all_locally())?;
        if self.parts.is_checked() { self.parts.all_completed(Completed::Fetching) } else { Ok(()) }
    }

    /// Takes a lock and performs its operations by one request, or, if the lock is not free, takes
    /// it by its words. Returns the state of the lock, and the result of the operations.
    fn carry(&self, target: &Target, lock: DelayedLock, release: bool) -> (Hold, Result<()>) {
        let DelayedLock { kind, operations, earlier, .. } = lock;
        if operations.is_empty() && !release {
            return self.take_with(target, kind, operations, earlier);
        }
        let (parts, destinations): (Vec<_>, Vec<_>) = operations.into_iter().unzip();
        let carried = Arc::new(Carried::new(destinations));
        let request = Request::Carry { exclusive: kind == Lock::Exclusive, release, parts };
        let tally = Tally::within(&target.tally);
        let sent = self.parts.send(target, &request, ReplyDestination::Carried(Arc::clone(&carried)), &tally);
        let done = match release {
            true => self.parts.outlast_sent(sent, &tally),
            false => self.parts.outlast_performed(sent, &tally, earlier > 0),
        };
        let again = || {
            let Request::Carry { parts, .. } = request else { return Vec::new() };
            parts.into_iter().zip(carried.destinations()).collect()
        };
        match (carried.outcome(), kind) {
            (Some(Tried::Busy), _) => self.take_with(target, kind, again(), earlier),
            (Some(Tried::NoBias), _) => {
                self.epochs.bias.record_lost();
                self.take_with(target, kind, again(), earlier)
            }
            (Some(Tried::Taken), Lock::Shared) if !release => (Hold::Shared, done),
            (Some(Tried::Taken), Lock::Exclusive) if !release => (Hold::Biased, done),
            (Some(Tried::Taken), _) => (Hold::Unchecked, done),
            (None, _) => (Hold::Failed, done.and(Err(not_locked(target.rank())))),
        }
    }

    /// Waits for a lock, then performs the operations that were delayed with it. `earlier`: the
    /// number of operations up to the last one whose call has returned. After an operation that
    /// could not be sent the others are not sent either.
    fn take_with(
        &self,
        target: &Target,
        kind: Lock,
        operations: Vec<(Request<'_>, ReplyDestination)>,
        earlier: usize,
    ) -> (Hold, Result<()>) {
        let hold = match self.take(kind, target.rank()) {
            Ok(hold) => hold,
            Err(error) => return (Hold::Failed, Err(error)),
        };
        // The target's tally may also count operations that other threads begin meanwhile.
        let tally = Tally::within(&target.tally);
        let mut operations = operations.into_iter().enumerate();
        let sent = operations.try_for_each(|(index, (request, into))| match index < earlier {
            true => self.parts.send_earlier(target, &request, into, &tally),
            false => self.parts.send(target, &request, into, &tally),
        });
        (hold, self.parts.outlast_performed(sent, &tally, earlier > 0))
    }
}

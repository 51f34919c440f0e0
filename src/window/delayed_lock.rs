//! Delayed locks: the lock request is sent together with operations. MPI-4.1 §12.5.3 allows a lock
//! to wait for the first operation.
//! 1. If the target's CPU changes the words of the lock, `lock` sends nothing.
//! 2. Small operations are delayed, with their data, as long as they fit into one message.
//! 3. The unlock sends the lock request with these operations and the release.
//! 4. If the lock is free, the target takes it, performs the operations, releases the lock and
//!    answers once.
//! 5. If the lock is not free, the target performs nothing. The origin takes the lock by its words,
//!    and then sends the operations.
//!
//! Three calls send the lock request before the unlock, without the release: a flush, an operation
//! whose call returns its result, and an operation that does not fit into the message. They send
//! the operations that were delayed until then with the lock request.
//!
//! A lock is delayed only if the epoch before it had an operation. Programs also use locks to guard
//! data outside of the window, such as other windows or files, and such epochs have no operations.
//!
//! # Threads
//!
//! A process delays at most one lock of all windows (`job::delayed`). Before a thread waits for
//! another lock, it takes its own delayed lock, so that a process takes locks in the program's
//! order. Otherwise processes that all lock in one order could deadlock.
//!
//! A process delays locks only if one thread makes all of its lock calls. Otherwise thread A, which
//! completes all operations of a window, would often have to take the lock that thread B has
//! delayed. A could then wait for a process that waits for a lock that A holds. For the same
//! reason a thread takes only its own delayed lock before it waits for another lock, and takes
//! another thread's delayed lock to complete operations only if operations wait for that lock.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use transom_fabric::{Tally, TallyRef};

use super::checked::Completed;
use super::core::Core;
use super::lock::Lock;
use super::parts::Parts;
use super::target::{Control, Hold, Reach, Target, Unmapped};
use crate::error::{Error, JobError, Result};
use crate::job::{TakesLock, peer};
use crate::messages::{CARRIED, Carried, Landing, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use crate::routes::Actor;
use crate::sync::lock::Tried;

impl TakesLock for Core {
    fn take_delayed(&self) -> Result<()> {
        self.take_any_delayed()
    }
}

/// The state of delayed locks of a process on a window: at most one lock is delayed at a time.
#[derive(Debug, Default)]
pub(crate) struct LockDelay {
    /// The delayed lock. `None` also while a thread takes it.
    slot: Mutex<Option<Box<DelayedLock>>>,
    /// Whether the epoch word counts a lock that no target has granted: the lock is delayed, a
    /// thread is taking it, or it could not be taken.
    pending: AtomicBool,
    /// The target whose lock was delayed last.
    target: AtomicU32,
    /// Whether an operation whose call has returned waits for the lock, or is in the message that
    /// takes the lock. Relaxed everywhere: a call that completes operations is ordered by the
    /// program after the operations that it must complete.
    owes: AtomicBool,
    /// Whether such an operation, of another thread than the one that has delayed the lock, stores
    /// its result in a lent buffer. Relaxed everywhere, as for `owes`.
    lends: AtomicBool,
    /// Whether the lock was taken and an operation that waited for it failed or was not sent.
    /// Relaxed everywhere: the state of the target's lock, which is set later, publishes the value.
    lost: AtomicBool,
    /// Whether the last epoch had an operation, as far as this process has noticed. If so, the
    /// program's locks guard the window's data, and the next lock may be delayed. Relaxed
    /// everywhere, because the value is an estimate.
    guards: AtomicBool,
}

/// A delayed lock, and the operations that its request will carry.
#[derive(Debug)]
struct DelayedLock {
    kind: Lock,
    operations: Vec<(Request<'static>, Landing)>,
    /// The number of operations up to the last one whose call has returned.
    earlier: usize,
    /// Upper bound of the request's length in bytes.
    request_bytes: usize,
    /// Upper bound of the reply's length in bytes.
    reply_bytes: usize,
}

impl LockDelay {
    fn slot(&self) -> MutexGuard<'_, Option<Box<DelayedLock>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delays a target's lock; false where another lock is delayed.
    fn delay(&self, kind: Lock, target: usize) -> bool {
        // Relaxed: of several threads that delay a lock at the same time, only one finds false.
        if self.pending.swap(true, Ordering::Relaxed) {
            return false;
        }
        // Relaxed: a thread that finds another target finds no delayed lock there.
        self.target.store(peer(target).0, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
        let (request_bytes, reply_bytes) = (OVERHEAD, REPLY_OVERHEAD + 1);
        let operations = Vec::new();
        *self.slot() = Some(Box::new(DelayedLock { kind, operations, earlier: 0, request_bytes, reply_bytes }));
        true
    }

    /// Removes the delayed lock, for the thread that takes it.
    fn take(&self) -> Option<Box<DelayedLock>> {
        self.slot().take()
    }

    /// Ends the delay. The epoch word then counts granted locks alone.
    pub(super) fn end(&self) {
        *self.slot() = None;
        self.owes.store(false, Ordering::Relaxed);
        self.lends.store(false, Ordering::Relaxed);
        // Release: pairs with the acquire of a thread that waits for the lock.
        self.pending.store(false, Ordering::Release);
    }

    /// The number of delayed locks, which the epoch word counts and no target has granted: 0 or 1.
    pub(super) fn pending(&self) -> u64 {
        // Relaxed: a reader decides by it only whether to defer to waiting processes.
        u64::from(self.pending.load(Ordering::Relaxed))
    }

    /// Keeps an operation, or returns it if the message has no room for it. `owes` and `lends`:
    /// whether the operation sets these fields.
    fn keep<'r>(
        &self,
        request: Request<'r>,
        into: Landing,
        most: usize,
        [owes, lends]: [bool; 2],
    ) -> Option<(Request<'r>, Landing)> {
        let mut slot = self.slot();
        let Some(lock) = &mut *slot else { return Some((request, into)) };
        let request_bytes = lock.request_bytes + request.most_bytes();
        let reply_bytes = lock.reply_bytes + CARRIED + into.len();
        if request_bytes > most || reply_bytes > most || !request.may_be_carried() {
            return Some((request, into));
        }
        (lock.request_bytes, lock.reply_bytes) = (request_bytes, reply_bytes);
        lock.operations.push((request.into_owned(), into));
        if owes {
            lock.earlier = lock.operations.len();
        }
        self.owes.fetch_or(owes, Ordering::Relaxed);
        self.lends.fetch_or(lends, Ordering::Relaxed);
        None
    }
}

impl Parts {
    /// Ends the delay of a lock, which is taken or given up.
    pub(super) fn end_delay(&self) {
        self.delay.end();
        self.job.delayed.forget();
    }

    /// Whether an operation of `len` bytes travels as a message, with the delayed lock. If not, the
    /// lock is held on return.
    #[inline]
    pub(super) fn travels(&self, target: &Target, len: usize) -> Result<bool> {
        if target.awaits_use() { self.travels_slow(target, len) } else { Ok(false) }
    }

    #[cold]
    fn travels_slow(&self, target: &Target, len: usize) -> Result<bool> {
        if self.use_taken(target)? {
            return Ok(false);
        }
        let most = self.message_max(target);
        // The same upper bound as in `keep`, for an operation with one strip.
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
    pub(super) fn use_taken(&self, target: &Target) -> Result<bool> {
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
    pub(super) fn was_unused(&self) {
        self.delay.guards.store(false, Ordering::Relaxed);
    }

    /// Keeps a request for the message of the delayed lock. A request that is not counted by the
    /// target's tally is complete on return, because its caller waits for it. Returns a request
    /// that must be sent by itself; the lock is then held.
    #[cold]
    pub(super) fn keep<'r>(
        &self,
        target: &Target,
        request: Request<'r>,
        into: Landing,
        tally: &TallyRef,
    ) -> Result<Option<(Request<'r>, Landing)>> {
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

    /// Makes the window ([`TakesLock`]) take the delayed lock of a target and perform the
    /// operations delayed until then.
    #[cold]
    fn need_lock(&self, target: &Target) -> Result<()> {
        let taken = self.job.delayed.take();
        // The state of the target's lock changes last, maybe in another thread.
        let changed = self.await_taken(target);
        taken.and(changed)
    }

    /// Waits until the thread that takes a target's lock has taken it and has performed the
    /// operations that waited for it. The failure of that thread is an error here too: the caller's
    /// operation may be among these operations. The wait goes on after an error, because the
    /// operations have lent buffers, and the state of the lock still changes.
    fn await_taken(&self, target: &Target) -> Result<()> {
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
    fn outlast_sent(&self, sent: Result<()>, tally: &TallyRef) -> Result<()> {
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
    fn outlast_performed(&self, sent: Result<()>, tally: &TallyRef, earlier: bool) -> Result<()> {
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

impl Core {
    /// Delays a target's lock if it may be delayed and the previous epoch had an operation, else
    /// takes it. Returns the state of the lock.
    pub(super) fn delay_or_take(&self, target: &Target, kind: Lock) -> Result<Hold> {
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
    pub(super) fn abandon_delayed(&self) {
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
    pub(super) fn take_delayed_lock(&self, target: &Target, release: bool) -> Result<()> {
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
    pub(super) fn complete_delayed(&self) -> Result<()> {
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
    pub(super) fn complete_others(&self) {
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
    /// thread takes it only if operations wait for it (section *Threads* of this module).
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
        let (parts, landings): (Vec<_>, Vec<_>) = operations.into_iter().unzip();
        let carried = Arc::new(Carried::new(landings));
        let request = Request::Carry { exclusive: kind == Lock::Exclusive, release, parts };
        let tally = Tally::within(&target.tally);
        let sent = self.parts.send(target, &request, Landing::Carried(Arc::clone(&carried)), &tally);
        let done = match release {
            true => self.parts.outlast_sent(sent, &tally),
            false => self.parts.outlast_performed(sent, &tally, earlier > 0),
        };
        let again = || {
            let Request::Carry { parts, .. } = request else { return Vec::new() };
            parts.into_iter().zip(carried.landings()).collect()
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
        operations: Vec<(Request<'_>, Landing)>,
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

/// The error of a call in an epoch whose lock could not be taken.
#[cold]
pub(super) fn not_locked(rank: usize) -> Error {
    JobError::NotLocked { rank }.into()
}

#[cfg(test)]
mod tests;

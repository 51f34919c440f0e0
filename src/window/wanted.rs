//! Locks that travel with operations (MPI-4.1 §12.5.3 lets a lock wait for the first operation).
//! Where the target's CPU changes the words of the lock, `lock` only notes that the lock is wanted.
//! Small operations are kept, with their data, as long as they fit into one message. The unlock
//! then sends them with the lock: the target takes the lock if it is free, performs the operations,
//! releases the lock and answers once. Other calls first take the lock, together with the
//! operations kept until then: a flush, an operation whose call returns its result, and an
//! operation that does not fit. A target that finds its lock taken performs nothing, and the origin
//! takes the lock as in `lock`.
//!
//! Programs also use locks to guard data outside of the window, such as other windows or files.
//! Such epochs have no operations. A lock is therefore delayed only if the epoch before it had one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use transom_fabric::{Tally, TallyRef};

use super::checked::Which;
use super::core::Core;
use super::lock::Lock;
use super::target::{Control, Far, Hold, Reach, Target};
use crate::error::Result;
use crate::job::TakesLock;
use crate::messages::{CARRIED, Carried, Landing, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use crate::routes::Actor;
use crate::sync::lock::Tried;

impl TakesLock for Core {
    fn take_delayed(&self) -> Result<()> {
        self.take_any_wanted()
    }
}

/// The delayed lock of a process on a window, at most one at a time.
#[derive(Debug, Default)]
pub(crate) struct Wanting {
    /// None also while a thread takes the lock.
    slot: Mutex<Option<Box<Wanted>>>,
    /// Whether the epoch word counts a lock that is not granted yet.
    pending: AtomicBool,
    /// Whether the last epoch that shows it had an operation, so that locks guard the window.
    /// Relaxed everywhere: an estimate.
    guards: AtomicBool,
}

/// A wanted lock, and the operations that travel with it.
#[derive(Debug)]
struct Wanted {
    kind: Lock,
    kept: Vec<(Request<'static>, Landing)>,
    /// Bytes of the request, and of its reply, at most.
    bytes: usize,
    back: usize,
}

impl Wanting {
    fn slot(&self) -> MutexGuard<'_, Option<Box<Wanted>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a wanted lock; false where another one is wanted.
    fn want(&self, kind: Lock) -> bool {
        // Relaxed: of threads that want a lock at the same time one finds false.
        if self.pending.swap(true, Ordering::Relaxed) {
            return false;
        }
        let wanted = Wanted { kind, kept: Vec::new(), bytes: OVERHEAD, back: REPLY_OVERHEAD + 1 };
        *self.slot() = Some(Box::new(wanted));
        true
    }

    /// The wanted lock, for the thread that takes it.
    fn begin(&self) -> Option<Box<Wanted>> {
        self.slot().take()
    }

    /// Clears the mark of [`Wanting::want`]. The epoch word then counts granted locks alone.
    pub(super) fn end(&self) {
        *self.slot() = None;
        // Release: pairs with the acquire of a thread that waits for the lock.
        self.pending.store(false, Ordering::Release);
    }

    /// How many locks the epoch word counts that are not granted.
    pub(super) fn pending(&self) -> u64 {
        // Relaxed: a reader decides by it only whether to defer to waiting processes.
        u64::from(self.pending.load(Ordering::Relaxed))
    }

    /// Keeps an operation, or gives it back where the message has no room for it.
    fn keep<'r>(&self, request: Request<'r>, into: Landing, most: usize) -> Option<(Request<'r>, Landing)> {
        let mut slot = self.slot();
        let Some(wanted) = &mut *slot else { return Some((request, into)) };
        let bytes = wanted.bytes + request.most_bytes();
        let back = wanted.back + CARRIED + into.len();
        if bytes > most || back > most || !request.may_be_carried() {
            return Some((request, into));
        }
        (wanted.bytes, wanted.back) = (bytes, back);
        wanted.kept.push((request.into_owned(), into));
        None
    }
}

impl Core {
    /// The state of a target's lock on return from `lock`: the lock is taken, or only wanted if it
    /// may travel with operations.
    pub(super) fn want_or_take(&self, target: &Target, kind: Lock) -> Result<Hold> {
        if !self.may_travel(target, kind)? {
            return self.take(kind, target.rank());
        }
        if self.epochs.wanting.guards.load(Ordering::Relaxed) && self.want(kind) {
            return Ok(Hold::Wanted);
        }
        self.take(kind, target.rank()).map(Hold::unused)
    }

    /// Whether the lock of a target may travel with operations: it is the only one of this process,
    /// and an exclusive one needs no word but the target's.
    fn may_travel(&self, target: &Target, kind: Lock) -> Result<bool> {
        let far = self.control == Actor::Cpu
            && self.actor == Actor::Cpu
            && matches!(target.reach, Reach::Far(Far::Posted(_)))
            && self.epochs.word().locks() == 0
            && (kind == Lock::Shared || self.epochs.bias.is_expected());
        Ok(far && matches!(target.control(self)?, Control::Messages))
    }

    /// Notes a wanted lock; false where the process must not delay it.
    fn want(&self, kind: Lock) -> bool {
        if !self.epochs.wanting.want(kind) {
            return false;
        }
        let is_noted = self.job.delayed.note(Weak::<Core>::clone(&self.me));
        if !is_noted {
            self.epochs.wanting.end();
        }
        is_noted
    }

    /// Clears the mark of [`Core::want`].
    pub(super) fn end_wanting(&self) {
        self.epochs.wanting.end();
        self.job.delayed.forget();
    }

    /// Gives up the lock that is wanted with the operations kept for it: their epoch has no end.
    pub(super) fn give_up_wanted(&self) {
        if self.epochs.wanting.pending() > 0 {
            self.end_wanting();
        }
    }

    /// Whether an operation of `len` bytes travels as a message, with the lock that is wanted. If
    /// not, the lock is held on return.
    #[inline]
    pub(super) fn travels(&self, target: &Target, len: usize) -> Result<bool> {
        if target.awaits_use() { self.travels_wanted(target, len) } else { Ok(false) }
    }

    #[cold]
    fn travels_wanted(&self, target: &Target, len: usize) -> Result<bool> {
        if self.use_taken(target) {
            return Ok(false);
        }
        let most = self.message_max(target);
        // As `keep` counts an operation with one strip.
        if 2 * OVERHEAD + STRIP + CARRIED + len <= most {
            return Ok(true);
        }
        self.take_wanted(target, false)?;
        Ok(false)
    }

    /// Records the first operation under a lock that is taken; false for a wanted lock.
    pub(super) fn use_taken(&self, target: &Target) -> bool {
        let hold = target.hold();
        if hold == Hold::Wanted {
            return false;
        }
        target.shift(hold, hold.used());
        self.epochs.wanting.guards.store(true, Ordering::Relaxed);
        true
    }

    /// Records that an epoch has ended without an operation.
    pub(super) fn was_unused(&self) {
        self.epochs.wanting.guards.store(false, Ordering::Relaxed);
    }

    /// Keeps a request for the message of the wanted lock. A request whose operation is complete
    /// immediately is complete on return. Gives back a request that is still to be sent; the lock
    /// is then held.
    #[cold]
    pub(super) fn keep<'r>(
        &self,
        target: &Target,
        request: Request<'r>,
        into: Landing,
        tally: &TallyRef,
    ) -> Result<Option<(Request<'r>, Landing)>> {
        let left = self.epochs.wanting.keep(request, into, self.message_max(target));
        // The epoch's end, or a flush, waits for the target's tally. Others wait for their own.
        if left.is_some() || !std::ptr::eq(tally, &raw const target.tally) {
            self.take_wanted(target, false)?;
        }
        Ok(left)
    }

    /// Takes the lock of a target if it is still wanted, and performs the kept operations;
    /// `release`: the epoch ends, and needs no lock afterwards. If the lock can't be taken, the
    /// epoch continues without it, and this call returns the failure.
    #[cold]
    pub(super) fn take_wanted(&self, target: &Target, release: bool) -> Result<()> {
        let Some(wanted) = self.epochs.wanting.begin() else {
            // Another thread takes it.
            return self.job.progress.until(|| target.hold() != Hold::Wanted);
        };
        if release && wanted.kept.is_empty() {
            self.was_unused();
        }
        let (hold, done) = self.carry(target, *wanted, release);
        self.end_wanting();
        target.set_hold(hold);
        done
    }

    /// [`Core::take_wanted`] for whichever target's lock is wanted.
    pub(super) fn take_any_wanted(&self) -> Result<()> {
        if self.epochs.wanting.pending() == 0 {
            return Ok(());
        }
        self.targets.wanted().map_or(Ok(()), |target| self.take_wanted(target, false))
    }

    /// Completes all operations of an epoch that continues.
    #[inline]
    pub(crate) fn flush_epoch(&self) -> Result<()> {
        let taken = self.take_any_wanted();
        taken.and(self.flush_all())
    }

    /// [`Core::flush_epoch`], of which the program knows only that its buffers may be used again.
    #[inline]
    pub(crate) fn flush_epoch_locally(&self) -> Result<()> {
        let taken = self.take_any_wanted();
        taken.and(self.flush_all_locally())?;
        if self.is_checked() { self.all_completed(Which::Fetching) } else { Ok(()) }
    }

    /// Takes a lock with its operations by one request, or, where it is not free, by its words.
    /// Returns the lock that is held, and whether the operations are complete.
    fn carry(&self, target: &Target, wanted: Wanted, release: bool) -> (Hold, Result<()>) {
        let Wanted { kind, kept, .. } = wanted;
        if kept.is_empty() && !release {
            return self.take_with(target, kind, kept);
        }
        let (parts, landings): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        let carried = Arc::new(Carried::new(landings));
        let request = Request::Carry { exclusive: kind == Lock::Exclusive, release, parts };
        let tally = Tally::within(&target.tally);
        let sent = self.send(target, &request, Landing::Carried(Arc::clone(&carried)), &tally);
        let done = sent.and(self.job.progress.complete(&tally));
        if done.is_err() {
            // A later answer would be stored in the users' buffers.
            self.job.finish(&tally);
        }
        let again = || {
            let Request::Carry { parts, .. } = request else { return Vec::new() };
            parts.into_iter().zip(carried.landings()).collect()
        };
        match (carried.outcome(), kind) {
            (Some(Tried::Busy), _) => self.take_with(target, kind, again()),
            (Some(Tried::NoBias), _) => {
                self.epochs.bias.is_lost();
                self.take_with(target, kind, again())
            }
            (Some(Tried::Taken), Lock::Shared) if !release => (Hold::Shared, done),
            (Some(Tried::Taken), Lock::Exclusive) if !release => (Hold::Biased, done),
            (Some(Tried::Taken) | None, _) => (Hold::Unchecked, done),
        }
    }

    /// Waits for a lock, then performs the operations that were kept for it.
    fn take_with(&self, target: &Target, kind: Lock, kept: Vec<(Request<'_>, Landing)>) -> (Hold, Result<()>) {
        let hold = match self.take(kind, target.rank()) {
            Ok(hold) => hold,
            Err(error) => return (Hold::Unchecked, Err(error)),
        };
        let mut kept = kept.into_iter();
        let sent = kept.try_for_each(|(request, into)| self.send(target, &request, into, &target.tally));
        let done = sent.and(self.job.progress.complete(&target.tally));
        if done.is_err() {
            self.job.finish(&target.tally);
        }
        (hold, done)
    }
}

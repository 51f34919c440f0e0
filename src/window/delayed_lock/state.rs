//! The state of delayed locks on a window: the lock with the operations that wait for it, and what
//! calls have to know about them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::lock::Lock;
use crate::job::peer;
use crate::messages::{CARRIED, OVERHEAD, REPLY_OVERHEAD, ReplyDestination, Request};

/// The state of delayed locks of a process on a window: at most one lock is delayed at a time.
#[derive(Debug, Default)]
pub(crate) struct LockDelay {
    /// The delayed lock. `None` also while a thread takes it.
    slot: Mutex<Option<Box<DelayedLock>>>,
    /// Whether the epoch word counts a lock that no target has granted: the lock is delayed, a
    /// thread is taking it, or it could not be taken.
    pending: AtomicBool,
    /// The target whose lock was delayed last.
    pub(super) target: AtomicU32,
    /// Whether an operation whose call has returned waits for the lock, or is in the message that
    /// takes the lock. Relaxed everywhere: a call that completes operations is ordered by the
    /// program after the operations that it must complete.
    pub(super) owes: AtomicBool,
    /// Whether such an operation, of another thread than the one that has delayed the lock, stores
    /// its result in a lent buffer. Relaxed everywhere, as for `owes`.
    pub(super) lends: AtomicBool,
    /// Whether the lock was taken and an operation that waited for it failed or was not sent.
    /// Relaxed everywhere: the state of the target's lock, which is set later, publishes the value.
    pub(super) lost: AtomicBool,
    /// Whether the last epoch had an operation, as far as this process has noticed. If so, the
    /// program's locks guard the window's data, and the next lock may be delayed. Relaxed
    /// everywhere, because the value is an estimate.
    pub(super) guards: AtomicBool,
}

/// A delayed lock, and the operations that its request will carry.
#[derive(Debug)]
pub(super) struct DelayedLock {
    pub(super) kind: Lock,
    pub(super) operations: Vec<(Request<'static>, ReplyDestination)>,
    /// The number of operations up to the last one whose call has returned.
    pub(super) earlier: usize,
    /// Upper bound of the request's length in bytes.
    request_bytes: usize,
    /// Upper bound of the reply's length in bytes.
    reply_bytes: usize,
}

impl LockDelay {
    pub(super) fn slot(&self) -> MutexGuard<'_, Option<Box<DelayedLock>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delays a target's lock; false where another lock is delayed.
    pub(super) fn delay(&self, kind: Lock, target: usize) -> bool {
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
    pub(super) fn take(&self) -> Option<Box<DelayedLock>> {
        self.slot().take()
    }

    /// Ends the delay. The epoch word then counts granted locks alone.
    pub(in crate::window) fn end(&self) {
        *self.slot() = None;
        self.owes.store(false, Ordering::Relaxed);
        self.lends.store(false, Ordering::Relaxed);
        // Release: pairs with the acquire of a thread that waits for the lock.
        self.pending.store(false, Ordering::Release);
    }

    /// The number of delayed locks, which the epoch word counts and no target has granted: 0 or 1.
    pub(in crate::window) fn pending(&self) -> u64 {
        // Relaxed: a reader decides by it only whether to defer to waiting processes.
        u64::from(self.pending.load(Ordering::Relaxed))
    }

    /// Keeps an operation, or returns it if the message has no room for it. `owes` and `lends`:
    /// whether the operation sets these fields.
    pub(super) fn keep<'r>(
        &self,
        request: Request<'r>,
        into: ReplyDestination,
        most: usize,
        [owes, lends]: [bool; 2],
    ) -> Option<(Request<'r>, ReplyDestination)> {
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

//! The lock that this process has asked for and not taken. Whoever waits for another lock takes the
//! delayed one first, so that locks are taken in the program's order: processes that all lock in
//! one order would else wait for each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use crate::error::Result;

/// A window with a lock that can be taken later.
pub(crate) trait TakesLock: Send + Sync {
    /// Takes the lock, and waits for it.
    fn take_delayed(&self) -> Result<()>;
}

/// At most one lock of all windows.
#[derive(Default)]
pub(crate) struct Delayed {
    is_noted: AtomicBool,
    noted: Mutex<Option<(ThreadId, Weak<dyn TakesLock>)>>,
}

impl Delayed {
    fn noted(&self) -> MutexGuard<'_, Option<(ThreadId, Weak<dyn TakesLock>)>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a lock of this thread; false where another lock is delayed.
    pub(crate) fn note(&self, window: Weak<dyn TakesLock>) -> bool {
        // Relaxed: of threads that note a lock at the same time one finds false.
        if self.is_noted.swap(true, Ordering::Relaxed) {
            return false;
        }
        *self.noted() = Some((thread::current().id(), window));
        true
    }

    /// Forgets the lock, which is taken or given up.
    pub(crate) fn forget(&self) {
        *self.noted() = None;
        self.is_noted.store(false, Ordering::Relaxed);
    }

    /// Takes the delayed lock before this thread waits for another one. Locks of other threads are
    /// left: this thread must not wait for what they wait for.
    #[inline]
    pub(crate) fn take_first(&self) -> Result<()> {
        // Relaxed: the flag of this thread's own lock.
        if self.is_noted.load(Ordering::Relaxed) { self.take_noted() } else { Ok(()) }
    }

    #[cold]
    fn take_noted(&self) -> Result<()> {
        let window = match &*self.noted() {
            Some((thread, window)) if *thread == thread::current().id() => window.upgrade(),
            _ => None,
        };
        window.map_or(Ok(()), |window| window.take_delayed())
    }
}

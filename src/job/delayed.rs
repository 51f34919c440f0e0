//! The record of this process's delayed lock, at most one of all windows: `lock` has returned, and
//! the target has not granted the lock yet. `window::delayed_lock` explains delayed locks and the
//! rules for threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use transom_fabric::threads::{self, Identity};

use crate::error::Result;

/// A window whose lock may be delayed.
pub(crate) trait TakesLock: Send + Sync {
    /// Takes the lock, and waits for it.
    fn take_delayed(&self) -> Result<()>;
}

/// The delayed lock: at most one of all windows of the process.
#[derive(Default)]
pub(crate) struct Delayed {
    is_noted: AtomicBool,
    noted: Mutex<Option<Weak<dyn TakesLock>>>,
    /// The first thread whose lock call was recorded.
    thread: OnceLock<Identity>,
    /// Whether another thread has locked since then. Never reset.
    is_shared: AtomicBool,
}

impl Delayed {
    fn noted(&self) -> MutexGuard<'_, Option<Weak<dyn TakesLock>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this thread locks. Returns whether all recorded calls came from this thread.
    pub(crate) fn is_alone(&self) -> bool {
        let me = threads::identity();
        // Relaxed, both: the next lock of either thread sees the flag.
        if *self.thread.get_or_init(|| me) != me {
            self.share();
        }
        !self.is_shared()
    }

    /// Records that a second thread locks.
    pub(crate) fn share(&self) {
        // Relaxed: as in `is_alone`.
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Whether calls of a second thread were recorded.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Records the delayed lock of this thread. Returns false if another lock is delayed, or if
    /// several threads lock.
    pub(crate) fn note(&self, window: Weak<dyn TakesLock>) -> bool {
        // Relaxed: of several threads that record a lock at the same time, only one finds false.
        if !self.is_alone() || self.is_noted.swap(true, Ordering::Relaxed) {
            return false;
        }
        *self.noted() = Some(window);
        true
    }

    /// Forgets the lock, which is taken or given up.
    pub(crate) fn forget(&self) {
        *self.noted() = None;
        self.is_noted.store(false, Ordering::Relaxed);
    }

    /// Takes the delayed lock of this thread before the thread waits for another lock.
    #[inline]
    pub(crate) fn take_first(&self) -> Result<()> {
        // Relaxed: the thread that has delayed a lock finds it.
        if self.is_noted.load(Ordering::Relaxed) { self.take_noted() } else { Ok(()) }
    }

    #[cold]
    fn take_noted(&self) -> Result<()> {
        self.is_alone();
        if self.is_mine() { self.take() } else { Ok(()) }
    }

    /// Whether the delayed lock is this thread's: only the first thread that was recorded delays
    /// locks.
    pub(crate) fn is_mine(&self) -> bool {
        self.thread.get() == Some(&threads::identity())
    }

    /// Takes the delayed lock, for an operation that needs it.
    #[cold]
    pub(crate) fn take(&self) -> Result<()> {
        let window = self.noted().as_ref().and_then(Weak::upgrade);
        window.map_or(Ok(()), |window| window.take_delayed())
    }
}

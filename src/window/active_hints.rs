//! The current hints of a window, decoded into the form that operations read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::hints::{Hints, Info, Notify};

/// The hints in force.
#[derive(Debug)]
pub(crate) struct ActiveHints {
    all: Mutex<Hints>,
    ordered: AtomicBool,
    no_locks: AtomicBool,
    /// Whether illegal values are ignored ([`Info::forgiving`]).
    forgiving: bool,
    /// Whether accumulates are atomic by the CPU's atomics on elements, not by locked stripes.
    pub(super) per_element: bool,
    /// Whether the program has requested huge pages.
    pub(super) in_huge_pages: bool,
    /// What increments counters of notified operations.
    pub(super) notify: Notify,
}

impl ActiveHints {
    pub(super) fn new(hints: Hints) -> ActiveHints {
        ActiveHints {
            ordered: AtomicBool::new(hints.ordered()),
            no_locks: AtomicBool::new(hints.forbids_locks()),
            forgiving: hints.is_forgiving(),
            per_element: hints.per_element(),
            in_huge_pages: hints.huge_pages.is_some(),
            notify: hints.notify,
            all: Mutex::new(hints),
        }
    }

    /// Whether accumulates of this origin keep their order.
    #[inline]
    pub(super) fn ordered(&self) -> bool {
        // Relaxed: hints change only while no operation runs.
        self.ordered.load(Ordering::Relaxed)
    }

    /// Whether the program has promised not to lock the window.
    #[inline]
    pub(super) fn no_locks(&self) -> bool {
        // Relaxed: hints change only while no lock call runs.
        self.no_locks.load(Ordering::Relaxed)
    }

    fn all(&self) -> MutexGuard<'_, Hints> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether illegal values are ignored ([`Info::forgiving`]).
    pub(crate) fn is_forgiving(&self) -> bool {
        self.forgiving
    }

    /// The hints in force (`MPI_WIN_GET_INFO`).
    pub(crate) fn info(&self) -> Info {
        self.all().in_force()
    }

    /// Sets the hints that may change after creation (`MPI_WIN_SET_INFO`).
    pub(crate) fn set(&self, info: &Info) -> Result<()> {
        let mut hints = self.all();
        hints.update(info)?;
        // Relaxed: the caller orders its own operations.
        self.ordered.store(hints.ordered(), Ordering::Relaxed);
        self.no_locks.store(hints.forbids_locks(), Ordering::Relaxed);
        Ok(())
    }
}

//! The lock of a provider's table of regions, for providers that do not lock the table themselves
//! (`Rules::locks_regions_from`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that is held during each call that may access the provider's table of regions; `None`
/// where the provider locks the table itself.
#[derive(Debug)]
pub(crate) struct RegionLock(Option<Mutex<()>>);

impl RegionLock {
    pub(crate) fn new(is_needed: bool) -> RegionLock {
        RegionLock(is_needed.then(Mutex::default))
    }

    /// Acquires the lock, which is held until the result is dropped.
    #[inline]
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.as_ref().map(|mutex| mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! Turns of the calls that access a provider's table of regions, where the provider itself does not
//! serialize them (`Rules::locks_regions_from`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The turns; `None` where the provider serializes the calls.
#[derive(Debug)]
pub(crate) struct Turn(Option<Mutex<()>>);

impl Turn {
    pub(crate) fn new(is_needed: bool) -> Turn {
        Turn(is_needed.then(Mutex::default))
    }

    /// Waits for this thread's turn, which lasts until the result is dropped.
    #[inline]
    pub(crate) fn take(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! Polls of window memory by `MPI_WIN_SYNC` and loads that the checker does not see. A rank that
//! has called it may read its part at any time before its next access or release, and find there
//! what other ranks have written meanwhile. It learns from these ranks only then, because a call of
//! `MPI_WIN_SYNC` may come before the update, and the load behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use transom_fabric::Memory;

use super::Checker;
use super::shadow::{At, Shadow};

/// The first polls of a part read the clocks of all atomics. Later atomics find that the part is
/// polled, and also change one clock of the part.
const FIRST: u32 = 16;

/// The parts that this rank may have read.
#[derive(Debug, Default)]
pub(super) struct Polled {
    any: AtomicBool,
    /// The shadows of the parts, and whether the clocks of all atomics count.
    parts: Mutex<Vec<(Memory, bool)>>,
}

impl Checker {
    /// This rank may read a part from now on. `shadow`: that of the part. `polls`: how often it has
    /// done so.
    pub(crate) fn polls(&self, shadow: &Memory, polls: u32) {
        // ThreadSanitizer has to be told what the rank learns, at the call by which it learns.
        if self.watches() {
            return;
        }
        let mut parts = self.known.polled.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if !parts.iter().any(|(known, _)| known.as_ptr() == shadow.as_ptr()) {
            parts.push((shadow.clone(), polls < FIRST));
        }
        // Relaxed, here and below: the lock orders the parts; other threads have read nothing yet.
        self.known.polled.any.store(true, Ordering::Relaxed);
    }

    /// Learns what this rank may have read before the access or the release that comes next.
    #[inline]
    pub(crate) fn learn_polled(&self) {
        if self.known.polled.any.load(Ordering::Relaxed) {
            self.learn_parts();
        }
    }

    #[cold]
    fn learn_parts(&self) {
        let mut parts = self.known.polled.parts.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.polled.any.store(false, Ordering::Relaxed);
        let mut clock = self.clock();
        for (shadow, all) in parts.drain(..) {
            let shadow = Shadow::of(&shadow, self.ranks);
            [At::Settled, At::Flags].into_iter().for_each(|at| clock.learn(shadow.clock(at)));
            if all {
                shadow.all_atomics().for_each(|slot| clock.learn(slot));
            }
        }
        self.known.counts.show(&clock);
    }
}

//! Polls of window memory by `MPI_WIN_SYNC` and loads that the checker does not see. A rank that
//! has called it may read its part at any time before its next access or release, and find there
//! what other ranks have written meanwhile. It learns from these ranks only then, because a call of
//! `MPI_WIN_SYNC` may come before the update, and the load behind it. In a shared window the rank
//! may also read the parts of other ranks, and what these have stored there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use transom_fabric::Memory;

use super::Checker;
use super::area::Area;
use super::shadow::{At, Shadow};

/// The first polls of a part read the clocks of all atomics. Later atomics find that the part is
/// polled, and also change one clock of the part.
const FIRST: u32 = 16;

/// The parts that this rank may have read.
#[derive(Debug, Default)]
pub(super) struct Polled {
    any: AtomicBool,
    parts: Mutex<Vec<Part>>,
}

#[derive(Debug)]
struct Part {
    shadow: Memory,
    /// Whether the clocks of all atomics count.
    all: bool,
    /// The rank of the part, if it is another one, and the memory with that rank's area.
    owner: Option<(usize, Memory)>,
}

impl Checker {
    /// This rank may read a part from now on. `shadow`: that of the part. `owner`: the rank of the
    /// part, if it is another one, and its job block. `polls`: how often this rank has done so.
    pub(crate) fn polls(&self, shadow: &Memory, owner: Option<(usize, &Memory)>, polls: u32) {
        // ThreadSanitizer has to be told what the rank learns, at the call by which it learns.
        if self.watches() {
            return;
        }
        let mut parts = self.known.polled.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if !parts.iter().any(|part| part.shadow.as_ptr() == shadow.as_ptr()) {
            let owner = owner.map(|(rank, block)| (rank, block.clone()));
            parts.push(Part { shadow: shadow.clone(), all: polls < FIRST, owner });
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
        for Part { shadow, all, owner } in parts.drain(..) {
            if let Some((rank, block)) = owner {
                clock.merge(&self.knows_now(rank, Area::at(&block, self.base, self.ranks)));
            }
            let shadow = Shadow::of(&shadow, self.ranks);
            [At::Settled, At::Flags].into_iter().for_each(|at| clock.learn(shadow.clock(at)));
            if all {
                shadow.all_atomics().for_each(|slot| clock.learn(slot));
            }
        }
        self.show(&clock);
    }
}

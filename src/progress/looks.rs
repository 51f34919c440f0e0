//! Progress in calls that only look at this rank's own memory. A program that waits by such calls
//! keeps the progress thread away, and would otherwise serve no other rank itself.

use std::sync::atomic::Ordering;

use super::Progress;
use crate::transport::Lane;

/// Number of such calls of which one makes progress.
const LOOKS_FOR_A_POLL: u32 = 8;

impl Progress {
    /// Makes progress from time to time for a program that repeats this call until its own memory
    /// has changed, and makes no other call. The progress thread leaves polling to the calls of the
    /// program, and would find what other ranks send only when these calls have ended for a while.
    #[inline]
    pub(crate) fn look_on(&self) {
        if self.is_left_to_calls() {
            self.poll_for_look(true);
        }
    }

    /// [`look_on`](Progress::look_on) for a call that a program may repeat for other reasons too:
    /// such calls do not keep the progress thread away.
    #[inline]
    pub(crate) fn look_beside(&self) {
        if self.is_left_to_calls() {
            self.poll_for_look(false);
        }
    }

    /// Whether a progress thread leaves polling to calls, or has ended.
    #[inline]
    fn is_left_to_calls(&self) -> bool {
        [Lane::Net, Lane::Shm].iter().any(|&lane| self.callers.is_served(lane) && !self.callers.is_dozing(lane))
    }

    #[cold]
    fn poll_for_look(&self, counts: bool) {
        // Relaxed both: of two threads' looks at the same time one may not count.
        let looks = self.looks.load(Ordering::Relaxed).wrapping_add(1);
        self.looks.store(looks, Ordering::Relaxed);
        // Relaxed: as in `poll_once`.
        if looks.is_multiple_of(LOOKS_FOR_A_POLL) && self.callers.inside.load(Ordering::Relaxed) == 0 {
            // The call awaits nothing that could fail. Later calls meet the failure too.
            drop(if counts { self.poll_once() } else { self.poll_arrivals() });
        }
    }
}

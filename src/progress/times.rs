//! How long a blocking call polls before it sleeps, and how long it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time that a blocking call polls before it sleeps, where every rank has a core.
const SPIN: Duration = Duration::from_micros(50);
/// Maximum polling time if replies arrive soon after polling ends.
const SPIN_MAX: Duration = Duration::from_micros(400);
/// Calls sleep early again after this number of consecutive replies that came after the longest
/// polling. A single late reply, which may be due to other programs, changes nothing: calls would
/// sleep until the polling time has grown again, and each sleep delays a reply.
const LATE_REPLIES: u32 = 4;
/// Maximum polling time if sleeps keep ending early, because origins access this rank's memory
/// without a completion here.
pub(super) const SPIN_BUSY: Duration = Duration::from_micros(800);
/// Maximum sleep of a blocking call, which bounds the delay of progress without a wake-up.
pub(super) const NAP: Duration = Duration::from_millis(1);
/// Length of the first sleep until a word of this rank has changed, where a device changes it
/// without an event. The length of sleeps that run to their end doubles up to the maximum.
const NAP_SILENT: Duration = Duration::from_micros(64);
/// Maximum sleep where ranks outnumber cores and no rank shares memory with this one. The length of
/// sleeps that run to their end doubles up to this limit, because frequent polling of all ranks
/// would occupy cores that other ranks need.
const NAP_CROWDED: Duration = Duration::from_millis(16);

/// The times of the blocking calls of a rank.
#[derive(Debug)]
pub(super) struct Times {
    /// Initial polling time before the first sleep; 0 where ranks outnumber cores.
    pub(super) spin: Duration,
    /// First sleep until a word of this rank has changed.
    pub(super) first_nap: Duration,
    /// The same for a word that a device changes without an event, on any net.
    pub(super) silent_nap: Duration,
    /// Maximum sleep.
    pub(super) nap: Duration,
    /// The current polling time before the first sleep, in microseconds.
    poll_time: AtomicU32,
    /// The number of consecutive waits for which even the longest polling was too short.
    too_short: AtomicU32,
}

impl Times {
    /// `crowded`: ranks of this machine have to share cores. `alone`: no other rank shares memory
    /// with this rank. `silent`: a device changes words of this rank without an event.
    pub(super) fn new(crowded: bool, alone: bool, silent: bool) -> Times {
        let spin = if crowded { Duration::ZERO } else { SPIN };
        let silent_nap = if crowded { NAP } else { NAP_SILENT };
        Times {
            spin,
            first_nap: if silent { silent_nap } else { NAP },
            silent_nap,
            nap: if crowded && alone { NAP_CROWDED } else { NAP },
            poll_time: AtomicU32::new(micros(spin)),
            too_short: AtomicU32::new(0),
        }
    }

    /// How long a call polls before its first sleep.
    pub(super) fn polling(&self) -> Duration {
        // Relaxed: a time, which orders no other access.
        Duration::from_micros(self.poll_time.load(Ordering::Relaxed).into())
    }

    /// Adapts the polling time after a reply came soon after a call's first sleep had begun: later
    /// calls poll longer, since a wake-up takes time. Where even the longest polling does not get
    /// [`LATE_REPLIES`] consecutive replies, the device needs this core, and later calls sleep
    /// early again.
    pub(super) fn adapt(&self) {
        // Relaxed for all: of calls that adapt at the same time, one takes effect.
        let polled = self.poll_time.load(Ordering::Relaxed);
        if polled < micros(SPIN_MAX) {
            self.poll_time.store(polled * 2, Ordering::Relaxed);
        } else if self.too_short.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_REPLIES {
            self.too_short.store(0, Ordering::Relaxed);
            self.poll_time.store(micros(self.spin), Ordering::Relaxed);
        }
    }

    /// Notes that a call got its reply by polling.
    #[inline]
    pub(super) fn polled_enough(&self) {
        // Relaxed both: as in `adapt`.
        if self.too_short.load(Ordering::Relaxed) > 0 {
            self.too_short.store(0, Ordering::Relaxed);
        }
    }
}

/// A time below an hour.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: one late reply ended the long polling of all later calls, each of which then
    /// slept.
    #[test]
    fn only_consecutive_late_replies_shorten_the_polling() {
        let times = Times::new(false, true, false);
        assert_eq!(times.polling(), SPIN);
        for _ in 0..3 {
            times.adapt();
        }
        assert_eq!(times.polling(), SPIN_MAX);
        for _ in 0..2 * LATE_REPLIES {
            times.adapt();
            times.polled_enough();
        }
        assert_eq!(times.polling(), SPIN_MAX);
        for _ in 0..LATE_REPLIES {
            times.adapt();
        }
        assert_eq!(times.polling(), SPIN);
    }
}

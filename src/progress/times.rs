//! How long a blocking call polls before it sleeps, and how long it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time that a blocking call polls before it sleeps, where every rank has a core.
const SPIN: Duration = Duration::from_micros(50);
/// Maximum polling time if replies arrive soon after polling ends.
const SPIN_MAX: Duration = Duration::from_micros(400);
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
    /// Maximum sleep.
    pub(super) nap: Duration,
    /// The current polling time before the first sleep, in microseconds.
    poll_time: AtomicU32,
}

impl Times {
    /// `crowded`: ranks of this machine have to share cores. `alone`: no other rank shares memory
    /// with this rank. `silent`: a device changes words of this rank without an event.
    pub(super) fn new(crowded: bool, alone: bool, silent: bool) -> Times {
        let spin = if crowded { Duration::ZERO } else { SPIN };
        Times {
            spin,
            first_nap: if silent && !crowded { NAP_SILENT } else { NAP },
            nap: if crowded && alone { NAP_CROWDED } else { NAP },
            poll_time: AtomicU32::new(micros(spin)),
        }
    }

    /// How long a call polls before its first sleep.
    pub(super) fn polling(&self) -> Duration {
        // Relaxed: a time, which orders no other access.
        Duration::from_micros(self.poll_time.load(Ordering::Relaxed).into())
    }

    /// Adapts the polling time after a reply came soon after a call's first sleep had begun: later
    /// calls poll longer, since a wake-up takes time. Where even the longest polling does not get
    /// the reply, the device needs this core, and later calls sleep early again.
    pub(super) fn adapt(&self) {
        // Relaxed both: of calls that adapt at the same time, one takes effect.
        let polled = self.poll_time.load(Ordering::Relaxed);
        let longer = if polled < micros(SPIN_MAX) { polled * 2 } else { micros(self.spin) };
        self.poll_time.store(longer, Ordering::Relaxed);
    }
}

/// A time below an hour.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

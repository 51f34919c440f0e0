//! The doorbell of a peer: a word of the peer's message ring that shows whether a thread of the
//! peer sleeps. A thread sets its bit before it sleeps. A process that changes a word on which the
//! peer may wait then loads the doorbell, and wakes the sleeping threads.

use std::sync::atomic::{AtomicU32, Ordering};

use transom_fabric::Row;

use crate::ring::{self, RingMemory, SharedRing, has_sleepers};
use crate::word::Word32 as _;

/// The word that shows whether a [`ShmPort::wake_peer`](crate::ShmPort::wake_peer) must wake a
/// thread.
#[derive(Debug)]
pub struct Doorbell(Row<AtomicU32, 4, 1>);

impl Doorbell {
    pub(crate) fn of(ring: &SharedRing) -> Option<Doorbell> {
        ring.doorbell_word().map(Doorbell)
    }

    /// Whether the peer sleeps, or is about to. The caller has changed a word of the peer before,
    /// by a sequentially consistent operation.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        // SeqCst: takes the place of the fence in `ring::wake_sleepers`. The caller's change
        // precedes this load in the order of sequentially consistent operations, which includes the
        // fence of `ring::may_sleep`: either the sleeper sees the change, or this load sees the
        // announced sleep.
        self.0.get(0).is_some_and(|doorbell| has_sleepers(doorbell.load(Ordering::SeqCst)))
    }
}

/// Wakes the threads that sleep on a ring. No fence is necessary: the caller has changed a word of
/// the ring's owner before, by a sequentially consistent read-modify-write operation.
#[inline]
pub(crate) fn wake_sleepers_after_rmw(ring: &impl RingMemory) {
    // SeqCst: as in `Doorbell::has_sleepers`.
    if has_sleepers(ring.doorbell().load(Ordering::SeqCst)) {
        ring::wake_announced(ring);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use transom_fabric::Memory;

    use super::*;
    use crate::ring;

    /// The doorbell shows a sleeper from the announcement of a sleep until a wake.
    #[test]
    fn shows_that_the_owner_sleeps() {
        let page = rustix::param::page_size();
        let ring = SharedRing::in_header(&Memory::private(page * 64), 0).expect("room");
        let doorbell = Doorbell::of(&ring).expect("room");
        assert!(!doorbell.has_sleepers());
        let mut seen = false;
        ring::sleep(&ring, Some(Duration::from_millis(1)), || {
            seen = doorbell.has_sleepers();
            true
        });
        assert!(seen);
        ring::wake_sleepers(&ring);
        assert!(!doorbell.has_sleepers());
    }
}

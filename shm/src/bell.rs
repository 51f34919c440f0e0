//! The bell of a peer: a word of the peer's message ring that the peer sets before it sleeps. A
//! process that changes a word on which the peer may wait loads the bell, which shows whether a
//! thread must be woken.

use std::sync::atomic::{AtomicU32, Ordering};

use transom_fabric::Row;

use crate::ring::{self, Cells, Shared, has_sleepers};
use crate::word::Word32 as _;

/// The word that shows whether a [`ShmPort::knock`](crate::ShmPort::knock) must wake a thread.
#[derive(Debug)]
pub struct Bell(Row<AtomicU32, 4, 1>);

impl Bell {
    pub(crate) fn of(ring: &Shared) -> Option<Bell> {
        ring.bell_word().map(Bell)
    }

    /// Whether the peer sleeps, or is about to. The caller has changed a word of the peer before,
    /// by a sequentially consistent operation.
    #[inline]
    pub fn is_heard(&self) -> bool {
        // SeqCst: takes the place of the fence in `ring::knock`. The caller's change precedes this
        // load in the order of sequentially consistent operations, which includes the fence of
        // `ring::still`: either the sleeper sees the change, or this load sees the announced sleep.
        self.0.get(0).is_some_and(|bell| has_sleepers(bell.load(Ordering::SeqCst)))
    }
}

/// Wakes the threads that sleep on a ring. No fence is necessary: the caller has changed a word of
/// the ring's owner before, by a sequentially consistent read-modify-write operation.
#[inline]
pub(crate) fn knock_after_change(ring: &impl Cells) {
    // SeqCst: as in `Bell::is_heard`.
    if has_sleepers(ring.bell().load(Ordering::SeqCst)) {
        ring::wake(ring);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use transom_fabric::Memory;

    use super::*;
    use crate::ring;

    /// The bell is heard from the announcement of a sleep until a knock.
    #[test]
    fn heard_while_the_owner_sleeps() {
        let page = rustix::param::page_size();
        let ring = Shared::in_header(&Memory::private(page * 64), 0).expect("room");
        let bell = Bell::of(&ring).expect("room");
        assert!(!bell.is_heard());
        let mut heard = false;
        ring::sleep(&ring, Some(Duration::from_millis(1)), || {
            heard = bell.is_heard();
            true
        });
        assert!(heard);
        ring::knock(&ring);
        assert!(!bell.is_heard());
    }
}

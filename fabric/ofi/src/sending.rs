//! The buffers of outgoing messages, which all peers share. A peer that takes no messages can hold
//! only a part of them, so messages to other peers can still be sent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use transom_fabric::{Fault, Peer, PeerMap, share};

use crate::slots::{Local, Purpose, Slot, Slots};

/// The pool of slots for messages, and the state of each peer.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) slots: Slots,
    peers: PeerMap<(Peer, Messages)>,
}

/// The state of the messages to a peer.
#[derive(Debug, Default)]
struct Messages {
    /// Number of slots that these messages hold.
    held: AtomicUsize,
    /// The first failure of an operation on the peer.
    failure: OnceLock<Fault>,
}

impl Sending {
    /// A pool of `count` slots with buffers of `len` bytes each, a multiple of 8.
    pub(crate) fn new(count: u32, len: usize) -> Sending {
        Sending { slots: Slots::new(count, len), peers: PeerMap::new() }
    }

    /// Lets messages to a peer take slots.
    pub(crate) fn meet(&self, peer: Peer) {
        let met = self.peers.get_or_try_insert(peer, || Ok((peer, Messages::default())));
        met.map_or_else(|never: std::convert::Infallible| match never {}, drop);
    }

    /// Takes a slot for a message; `None` if the peer holds its share of the slots, or was not met.
    pub(crate) fn take(&self, peer: Peer) -> Option<&Slot> {
        let (_, Messages { held, .. }) = self.peers.get(peer)?;
        // Relaxed, as in `give_back`: a count. Threads that take slots at the same time may exceed
        // the share by one each.
        if !share::allows(held.load(Ordering::Relaxed), self.slots.count_free()) {
            return None;
        }
        let slot = self.slots.take(Purpose { peer, tally: None, local: Local::Nothing })?;
        held.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Frees the slot of a message, and returns the message's peer.
    pub(crate) fn give_back(&self, slot: &Slot) -> Option<Peer> {
        let Purpose { peer, .. } = self.slots.give_back(slot, false)?;
        if let Some((_, Messages { held, .. })) = self.peers.get(peer) {
            held.fetch_sub(1, Ordering::Relaxed);
        }
        Some(peer)
    }

    /// Records that an operation on a peer has failed.
    pub(crate) fn record_failure(&self, peer: Peer, fault: &Fault) {
        if let Some((_, messages)) = self.peers.get(peer) {
            // Only the first fault is kept.
            let _ = messages.failure.set(fault.clone());
        }
    }

    /// The first failure of an operation on a peer.
    pub(crate) fn failure(&self, peer: Peer) -> Option<&Fault> {
        self.peers.get(peer)?.1.failure.get()
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Reason;

    use super::*;

    /// Peers of which no message completes leave slots to another one.
    #[test]
    fn peers_that_take_no_messages_leave_slots_to_others() {
        let sending = Sending::new(128, 64);
        assert!(sending.take(Peer(9)).is_none(), "not met yet");
        (0..10).for_each(|peer| sending.meet(Peer(peer)));
        for peer in (0..7).map(Peer) {
            while sending.take(peer).is_some() {}
        }
        for _ in 0..1000 {
            let slot = sending.take(Peer(9)).expect("left by the others");
            assert_eq!(sending.give_back(slot), Some(Peer(9)));
        }
    }

    #[test]
    fn a_failed_operation_breaks_the_messages_to_its_peer_alone() {
        let sending = Sending::new(8, 64);
        (0..2).for_each(|peer| sending.meet(Peer(peer)));
        sending.record_failure(Peer(1), &Fault::new(Peer(1), Reason::Died));
        sending.record_failure(Peer(1), &Fault::new(Peer(1), Reason::Unreachable));
        assert!(sending.failure(Peer(0)).is_none());
        let first = sending.failure(Peer(1)).expect("broken");
        assert_eq!(first.to_string(), Fault::new(Peer(1), Reason::Died).to_string());
    }

    #[test]
    fn a_peer_gets_its_share_again_after_its_messages() {
        let sending = Sending::new(128, 64);
        sending.meet(Peer(3));
        let fill = || std::iter::from_fn(|| sending.take(Peer(3))).collect::<Vec<_>>();
        let first = fill();
        let len = first.len();
        first.into_iter().for_each(|slot| _ = sending.give_back(slot));
        assert!(len > 16 && fill().len() == len, "{len} slots");
    }
}

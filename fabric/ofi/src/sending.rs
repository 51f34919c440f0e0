//! The buffers of outgoing messages, which all peers share. A peer that takes no messages holds a
//! part of them only, so that messages to other peers go on.

use std::sync::atomic::{AtomicUsize, Ordering};

use transom_fabric::{Peer, PeerMap, share};

use crate::slots::{Local, Purpose, Slot, Slots};

/// The pool, and the number of slots that each peer holds.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) slots: Slots,
    held: PeerMap<(Peer, AtomicUsize)>,
}

impl Sending {
    /// A pool of `count` slots with buffers of `len` bytes each, a multiple of 8.
    pub(crate) fn new(count: u32, len: usize) -> Sending {
        Sending { slots: Slots::new(count, len), held: PeerMap::new() }
    }

    /// Lets messages to a peer take slots.
    pub(crate) fn meet(&self, peer: Peer) {
        let met = self.held.get_or_try_insert(peer, || Ok((peer, AtomicUsize::new(0))));
        met.map_or_else(|never: std::convert::Infallible| match never {}, drop);
    }

    /// A slot for a message; `None` where the peer holds its share of the slots, or was not met.
    pub(crate) fn take(&self, peer: Peer) -> Option<&Slot> {
        let (_, held) = self.held.get(peer)?;
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
        if let Some((_, held)) = self.held.get(peer) {
            held.fetch_sub(1, Ordering::Relaxed);
        }
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peers of which no message completes leave slots to another one.
    #[test]
    fn peers_that_take_no_messages_leave_slots_to_others() {
        let sending = Sending::new(128, 64);
        assert!(sending.take(Peer(9)).is_none(), "not met yet");
        (0..10).for_each(|peer| sending.meet(Peer(peer)));
        for peer in (0..9).map(Peer) {
            while sending.take(peer).is_some() {}
        }
        for _ in 0..1000 {
            let slot = sending.take(Peer(9)).expect("left by the others");
            assert_eq!(sending.give_back(slot), Some(Peer(9)));
        }
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

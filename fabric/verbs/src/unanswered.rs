//! Peers whose hellos could not be answered, for example for lack of memory or descriptors. A peer
//! repeats its hello, so each hello is another attempt. Independent of the reasons.

use std::time::{Duration, Instant};

use transom_fabric::Peer;

/// An attempt that fails this long after the first failed one is the last.
const PATIENCE: Duration = Duration::from_secs(10);

/// The peers, each with the time of its first failed attempt.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    peers: Vec<(Peer, Instant)>,
}

impl Unanswered {
    /// Records a failed attempt to answer a peer. Returns whether it was the last one, so that the
    /// peer is given up.
    pub(crate) fn has_failed(&mut self, peer: Peer, now: Instant) -> bool {
        match self.peers.iter().find(|(known, _)| *known == peer) {
            Some((_, since)) => now.duration_since(*since) >= PATIENCE,
            None => {
                self.peers.push((peer, now));
                false
            }
        }
    }

    /// Removes a peer that is answered.
    pub(crate) fn remove(&mut self, peer: Peer) {
        self.peers.retain(|(known, _)| *known != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, PATIENCE, Peer, Unanswered};

    #[test]
    fn a_peer_is_given_up_after_ten_seconds_of_failures() {
        let (mut unanswered, start) = (Unanswered::default(), Instant::now());
        let millisecond = Duration::from_millis(1);
        assert!(!unanswered.has_failed(Peer(1), start));
        assert!(!unanswered.has_failed(Peer(2), start + PATIENCE));
        assert!(!unanswered.has_failed(Peer(1), start + PATIENCE - millisecond));
        assert!(unanswered.has_failed(Peer(1), start + PATIENCE));
        unanswered.remove(Peer(1));
        assert!(!unanswered.has_failed(Peer(1), start + PATIENCE));
        assert!(unanswered.has_failed(Peer(2), start + 2 * PATIENCE));
    }
}

//! Small puts that share a message, where the target's CPU performs puts as well as messages. A put
//! is kept, with its data, while operations to its target are in flight. A call that waits or polls
//! sends the kept puts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use transom_fabric::{Fault, Peer, TallyRef};

use super::codec::{MAX_STRIPS, OVERHEAD, Request, STRIP};
use super::{Landing, Messages, locked};
use crate::datatype::Strip;

/// Largest number of bytes of a message of puts: longer messages are not faster, and delay the
/// start of the target's work.
const MOST: usize = 8192;

/// Most targets for which puts are kept at a time.
const TARGETS: usize = 16;

/// The outcome of a put.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// It is kept, and counted by its tally.
    Kept,
    /// The message has no room: it is to be sent first.
    Full,
    /// The put must be posted separately, because the largest number of targets already has kept
    /// puts.
    Refused,
}

/// The puts that are kept.
#[derive(Default)]
pub(super) struct Gathering {
    /// Whether there are any.
    holds: AtomicBool,
    batches: Mutex<Vec<Batch>>,
}

/// Puts to one target of one window.
struct Batch {
    to: Peer,
    window: u64,
    strips: Vec<Strip>,
    data: Vec<u8>,
    /// Counts the batch as one operation.
    tally: TallyRef,
}

impl Batch {
    /// Adds a put, if the message may be `most` bytes long with it. A put that continues the one
    /// before needs no strip.
    fn add(&mut self, at: i64, bytes: &[u8], most: usize) -> bool {
        let long = OVERHEAD + STRIP * (self.strips.len() + 1) + self.data.len() + bytes.len();
        if long > most.min(MOST) {
            return false;
        }
        let count = self.strips.len();
        match self.strips.last_mut() {
            Some(last) if last.offset + last.block as i64 == at => last.block += bytes.len(),
            _ if count == MAX_STRIPS => return false,
            _ => self.strips.push(Strip::one(at, bytes.len())),
        }
        self.data.extend_from_slice(bytes);
        true
    }
}

impl Messages {
    /// Keeps a put of `bytes` to offset `at` of a target's part, which `tally` counts. `most`: the
    /// longest message.
    pub(crate) fn gather(
        &self,
        (to, window): (Peer, u64),
        at: u64,
        bytes: &[u8],
        most: usize,
        tally: &TallyRef,
    ) -> Gather {
        let mut kept = locked(&self.gathering.batches);
        let counts = |batch: &&mut Batch| std::ptr::eq(&raw const *batch.tally, &raw const **tally);
        if let Some(batch) = kept.iter_mut().find(counts) {
            return if batch.add(at.cast_signed(), bytes, most) { Gather::Kept } else { Gather::Full };
        }
        let mut batch = Batch { to, window, strips: Vec::new(), data: Vec::new(), tally: tally.clone() };
        if kept.len() == TARGETS || !batch.add(at.cast_signed(), bytes, most) {
            return Gather::Refused;
        }
        // A call that waits for the tally sends the batch.
        tally.begin();
        tally.mix();
        kept.push(batch);
        // Relaxed: a thread that waits for the put is the one that put, or was ordered after it by
        // the program.
        self.gathering.holds.store(true, Ordering::Relaxed);
        Gather::Kept
    }

    /// Makes messages of the puts that are kept, for [`Messages::send_deferred`].
    #[inline]
    pub(crate) fn end_gathering(&self) {
        // Relaxed: as in `gather`.
        if self.gathering.holds.load(Ordering::Relaxed) {
            self.defer_gathered();
        }
    }

    #[cold]
    fn defer_gathered(&self) {
        for batch in self.take_gathered(|_| true) {
            let Batch { to, window, strips, data, tally } = batch;
            let request = Request::Scatter { strips: strips.into(), data: data.into() };
            let (token, message) = self.counted(to, window, 0, &request, Landing::Nowhere, tally);
            self.defer(to, message, Some(token));
        }
    }

    /// Fails the puts that are kept for a peer that died.
    pub(super) fn give_up_gathered(&self, fault: &Fault) {
        for batch in self.take_gathered(|batch| batch.to == fault.peer) {
            batch.tally.fail(fault);
        }
    }

    fn take_gathered(&self, wanted: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let mut kept = locked(&self.gathering.batches);
        let (taken, left) = std::mem::take(&mut *kept).into_iter().partition(wanted);
        *kept = left;
        // Relaxed: as in `gather`. Under the lock, so that no later batch is overlooked.
        self.gathering.holds.store(!kept.is_empty(), Ordering::Relaxed);
        taken
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::{Post, Reason, Tally};

    use super::*;

    const TO: (Peer, u64) = (Peer(1), 7);

    fn sent(messages: &Messages) -> Vec<(Peer, Vec<u8>)> {
        let mut sent = Vec::new();
        messages.send_deferred(|to, bytes| {
            sent.push((to, bytes.to_vec()));
            Post::Done
        });
        sent
    }

    #[test]
    fn kept_puts_are_one_request_that_their_tally_counts() {
        let (messages, tally) = (Messages::default(), Tally::new());
        messages.end_gathering();
        assert!(sent(&messages).is_empty());
        for (at, bytes) in [(0, &[1u8; 8][..]), (64, &[2; 8]), (72, &[3; 8])] {
            assert_eq!(messages.gather(TO, at, bytes, 1024, &tally), Gather::Kept);
        }
        assert_eq!((tally.outstanding(), tally.only_puts()), (1, false));
        messages.end_gathering();
        let request = Request::Scatter {
            strips: vec![Strip::one(0, 8), Strip::one(64, 16)].into(),
            data: [[1; 8], [2; 8], [3; 8]].concat().into(),
        };
        let message = super::super::codec::encode_request(&[0, TO.1, 0], &request);
        assert_eq!(sent(&messages), [(TO.0, message)]);
        assert_eq!(tally.outstanding(), 1, "until the answer");
        messages.answered(0, Ok(&[]));
        assert!(tally.idle());
    }

    #[test]
    fn each_target_has_its_own_message() {
        let messages = Messages::default();
        let tallies: Vec<_> = (0..=TARGETS).map(|_| Tally::new()).collect();
        for turn in 0..3 {
            for (to, tally) in (0..).zip(&tallies) {
                let expected = if (to as usize) < TARGETS { Gather::Kept } else { Gather::Refused };
                assert_eq!(messages.gather((Peer(to), 7), 8 * turn, &[1; 8], 1024, tally), expected);
            }
        }
        messages.end_gathering();
        let to: Vec<_> = sent(&messages).into_iter().map(|(to, _)| to.index()).collect();
        assert_eq!(to, (0..TARGETS).collect::<Vec<_>>());
        assert!(tallies.iter().take(TARGETS).all(|tally| tally.outstanding() == 1));
        assert!(tallies[TARGETS].idle());
    }

    #[test]
    fn a_message_of_puts_stays_within_its_limits() {
        let (messages, tally) = (Messages::default(), Tally::new());
        assert_eq!(messages.gather(TO, 0, &[0; 8], OVERHEAD + STRIP + 7, &tally), Gather::Refused);
        for (most, apart) in [(200, 16), (1 << 20, 16), (1 << 20, 8)] {
            let mut at = 0;
            while messages.gather(TO, at, &[0; 8], most, &tally) == Gather::Kept {
                at += apart;
            }
            assert!(at >= 3 * apart, "{at}");
            messages.end_gathering();
            let long = sent(&messages)[0].1.len();
            assert!(long <= most.min(MOST), "{long} of {most}");
        }
    }

    #[test]
    fn kept_puts_of_a_dead_peer_fail() {
        let (messages, tally) = (Messages::default(), Tally::new());
        let fault = |peer| Fault::new(Peer(peer), Reason::Died);
        let keep = || assert_eq!(messages.gather(TO, 0, &[0; 8], 1024, &tally), Gather::Kept);
        keep();
        messages.give_up(&fault(2));
        assert!(!tally.idle());
        messages.give_up(&fault(1));
        assert!(tally.idle() && tally.take_failure().is_some());
        keep();
        messages.end_gathering();
        messages.send_deferred(|to, _| Post::Broken(Box::new(Fault::new(to, Reason::Died))));
        assert!(tally.idle() && tally.take_failure().is_some() && !messages.owes_answers());
    }
}

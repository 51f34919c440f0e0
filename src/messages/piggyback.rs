//! Piggybacked answers: the answer to a notified put is sent in the message of this rank's next
//! notified put to the same rank (*the put in return*). Two ranks that notify each other in turn
//! then exchange one message each way instead of two. A waiting answer does not delay a call that
//! waits for a notice. Answers to requests that end an access epoch or signal a fence are
//! piggybacked in the same way. All answers may also be piggybacked on a notice of `post` or
//! `complete`, on a message that ends an epoch, and on a signal of a barrier. Below, *message in
//! return* means any of these messages, or the put in return. The origin's fence waits for its
//! answer, so such an answer waits only for a fence that follows at once.
//!
//! An answer waits only if earlier messages in return were quick: they followed the request within
//! `Limits::answers_wait`. A call that makes progress and continues to wait sends the waiting
//! answers, and so does the progress thread.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use transom_fabric::{Peer, TallyRef};

use super::codec::{self, ANSWERS_OVERHEAD, End};
use super::{Messages, ReplyDestination, Request, Waiting, locked};

/// Minimum number of consecutive quick messages in return before an answer waits.
const LEAST: u32 = 2;
/// Maximum of this number. Each answer that was not carried in time doubles the number.
const MOST: u32 = 1024;
/// Number of messages with answers after which one answer that was not carried in time has no
/// consequence: the saved messages have paid for its delay.
const PROVEN: u32 = 32;
/// Most answers that wait for one message.
const WAITING: usize = 8;

/// Divisor of the waiting time for the answer to a fence's message. The result is little more than
/// the time to send an answer; a longer wait would delay the origin's fence by more than the saved
/// message.
const PART_FOR_FENCES: u32 = 4;

/// The answers that wait, by peer.
#[derive(Default)]
pub(super) struct Piggyback {
    /// The longest time that an answer may wait; zero: answers do not wait.
    limit: Duration,
    /// Number of answers that wait.
    waiting: AtomicUsize,
    peers: Mutex<BTreeMap<Peer, Turns>>,
}

/// The requests of a peer whose answers may wait, and this rank's messages in return.
struct Turns {
    /// The requests whose answers wait.
    tokens: Vec<u64>,
    /// When this rank executed the first such request of the peer since it last sent the peer a
    /// message that can carry answers.
    came: Option<Instant>,
    /// Whether a request since then was a fence's message.
    is_fence: bool,
    /// The number of consecutive quick messages in return.
    soon: u32,
    /// The number of consecutive quick messages in return that is needed before an answer waits.
    needed: u32,
    /// The number of messages in return with answers since answers last waited too long.
    piggybacked: u32,
}

impl Turns {
    /// Records that answers waited too long. A message in return that is sent even later belongs to
    /// another phase of the program.
    fn missed(&mut self) {
        if self.piggybacked < PROVEN || self.is_fence {
            self.needed = (2 * self.needed).min(MOST);
            self.soon = 0;
        }
        self.piggybacked = 0;
        self.came = None;
        self.is_fence = false;
    }

    /// The longest time that the answers may wait, if those of notified puts may wait for `limit`.
    fn patience(&self, limit: Duration) -> Duration {
        if self.is_fence { limit / PART_FOR_FENCES } else { limit }
    }
}

impl Piggyback {
    /// Whether the answer to a request of `from`, which was executed now, waits. `is_fence`: the
    /// request was a fence's message.
    fn takes(&self, from: Peer, token: u64, is_fence: bool, now: impl FnOnce() -> Instant) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        let mut peers = locked(&self.peers);
        let turns = peers.entry(from).or_insert(Turns {
            tokens: Vec::new(),
            came: None,
            is_fence: false,
            soon: 0,
            needed: LEAST,
            piggybacked: 0,
        });
        turns.came.get_or_insert_with(now);
        turns.is_fence |= is_fence;
        if turns.soon < turns.needed || turns.tokens.len() == WAITING {
            return false;
        }
        turns.tokens.push(token);
        // SeqCst: pairs with that in `Messages::keeps_answers`.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Passes the answers for a message to `to`, at most `room` of them, to `take`.
    fn attach<R>(&self, to: Peer, room: usize, now: impl FnOnce() -> Instant, take: impl FnOnce(&[u64]) -> R) -> R {
        if self.limit.is_zero() {
            return take(&[]);
        }
        let mut peers = locked(&self.peers);
        let Some(turns) = peers.get_mut(&to) else { return take(&[]) };
        let Some(came) = turns.came.take() else { return take(&[]) };
        let late = now().duration_since(came) > turns.patience(self.limit);
        let taken = turns.tokens.len().min(room);
        self.waiting.fetch_sub(taken, Ordering::Relaxed);
        match (late, taken > 0) {
            (true, true) => turns.missed(),
            (true, false) => turns.soon = 0,
            (false, has_answers) => {
                turns.soon = turns.soon.saturating_add(1);
                if has_answers {
                    turns.needed = (turns.needed / 2).max(LEAST);
                    turns.piggybacked = turns.piggybacked.saturating_add(1);
                }
            }
        }
        turns.is_fence = false;
        let taking = take(&turns.tokens[..taken]);
        turns.tokens.drain(..taken);
        taking
    }

    /// Ends the waits: no message came in time.
    fn end(&self, mut each: impl FnMut(Peer, Vec<u64>)) {
        for (&peer, turns) in locked(&self.peers).iter_mut().filter(|(_, turns)| !turns.tokens.is_empty()) {
            turns.missed();
            self.waiting.fetch_sub(turns.tokens.len(), Ordering::Relaxed);
            each(peer, std::mem::take(&mut turns.tokens));
        }
    }
}

impl Messages {
    /// Messages between ranks that let answers wait for `limit`.
    pub(crate) fn with_piggyback(limit: Duration) -> Messages {
        Messages { piggyback: Piggyback { limit, ..Piggyback::default() }, ..Messages::default() }
    }

    /// Whether the answer to a request, which may wait, waits for a message to `from`.
    pub(super) fn keeps(&self, from: Peer, token: u64, request: &Request<'_>) -> bool {
        let is_fence = matches!(request, Request::Closing { end: End::Signal { .. }, .. });
        self.piggyback.takes(from, token, is_fence, Instant::now)
    }

    /// Whether answers wait.
    pub(crate) fn keeps_answers(&self) -> bool {
        // SeqCst: one thread lets an answer wait and then looks for a sleeping thread; another
        // thread announces its sleep and then looks for answers. At least one of them sees the
        // other's store.
        self.piggyback.waiting.load(Ordering::SeqCst) > 0
    }

    /// [`Messages::request`] of a notified put, after the answers that wait for such a message to
    /// `to`, in one message of up to `most` bytes.
    pub(crate) fn notify(
        &self,
        to: Peer,
        window: u64,
        request: &Request<'_>,
        tally: &TallyRef,
        most: usize,
    ) -> (u64, Vec<u8>) {
        tally.begin();
        tally.mix();
        let token = self.awaited(Waiting::new(to, ReplyDestination::Nowhere, tally));
        let len = request.most_bytes();
        let room = most.saturating_sub(len + ANSWERS_OVERHEAD) / 8;
        let out = self.piggyback.attach(to, room, Instant::now, |tokens| match tokens {
            [] => codec::buffer(len),
            _ => codec::answers_with_room(tokens, len),
        });
        (token, codec::encode_request_behind(out, &[token, window, 0], request))
    }

    /// A short message, such as a notice of post-start-complete-wait or a signal of a barrier,
    /// after the answers that wait for a message to `to`.
    pub(crate) fn behind_answers(&self, to: Peer, message: Vec<u8>) -> Vec<u8> {
        self.piggyback
            .attach(to, WAITING, Instant::now, |tokens| match tokens {
                [] => None,
                _ => Some(codec::encode_answers(tokens, &message)),
            })
            .unwrap_or(message)
    }

    /// The message of operations that end an epoch, after those waiting answers to `to` for which a
    /// message of at most `most` bytes has room.
    pub(super) fn closing_behind_answers(&self, to: Peer, message: Vec<u8>, most: usize) -> Vec<u8> {
        let has_room = message.len() + ANSWERS_OVERHEAD + 8 * WAITING <= most;
        if has_room { self.behind_answers(to, message) } else { message }
    }

    /// Passes the answers that wait to [`Messages::send_deferred`].
    #[inline]
    pub(crate) fn stop_keeping_answers(&self) {
        // Relaxed: the thread that let an answer wait sees it, and others are not responsible.
        if self.piggyback.waiting.load(Ordering::Relaxed) > 0 {
            self.defer_answers();
        }
    }

    #[cold]
    fn defer_answers(&self) {
        // The lock of the waiting answers is released before that of the deferred ones is taken.
        let mut ended = Vec::new();
        self.piggyback.end(|peer, tokens| ended.push((peer, tokens)));
        for (peer, tokens) in ended {
            self.defer(peer, codec::encode_answers(&tokens, &[]), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer(3);

    fn piggyback() -> (Piggyback, Instant) {
        (Piggyback { limit: Duration::from_micros(20), ..Piggyback::default() }, Instant::now())
    }

    /// A put of the peer, and one in return after `pause`; the number of answers on it.
    fn round(piggyback: &Piggyback, at: Instant, pause: Duration) -> usize {
        piggyback.takes(PEER, 7, false, || at);
        piggyback.attach(PEER, 8, || at + pause, <[u64]>::len)
    }

    #[test]
    fn answers_wait_where_puts_in_return_come_soon() {
        let (piggyback, start) = piggyback();
        let rounds = |count, pause| -> Vec<_> { (0..count).map(|_| round(&piggyback, start, pause)).collect() };
        let (soon, late) = (Duration::from_micros(5), Duration::from_millis(1));
        assert_eq!(rounds(5, late), [0; 5]);
        assert_eq!((rounds(2, soon), rounds(3, soon)), (vec![0; 2], vec![1; 3]), "no answer had waited in vain");
        assert_eq!(rounds(1, late), [1], "it waited longer than it should");
        assert_eq!((rounds(4, soon), rounds(3, soon)), (vec![0; 4], vec![1; 3]), "twice as many are needed");
        assert_eq!(piggyback.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn answers_that_wait_in_vain_are_sent_together_and_later_ones_at_once() {
        let (piggyback, start) = piggyback();
        (0..2).for_each(|_| assert_eq!(round(&piggyback, start, Duration::ZERO), 0));
        let kept: Vec<_> = (0..10).filter(|&token| piggyback.takes(PEER, token, false, || start)).collect();
        assert_eq!((kept.len(), piggyback.waiting.load(Ordering::Relaxed)), (WAITING, WAITING), "a message has limits");
        let mut sent = Vec::new();
        piggyback.end(|peer, tokens| sent.push((peer, tokens)));
        assert_eq!(sent, [(PEER, kept)]);
        assert!(!piggyback.takes(PEER, 10, false, || start));
        assert_eq!(piggyback.waiting.load(Ordering::Relaxed), 0);
    }

    /// A program that puts in turns, pauses and goes on: after many piggybacked answers, a pause
    /// changes nothing.
    #[test]
    fn after_many_piggybacked_answers_one_waits_in_vain_for_free() {
        let (piggyback, start) = piggyback();
        let rounds = |count| (0..count).map(|_| round(&piggyback, start, Duration::ZERO)).sum::<usize>();
        rounds(LEAST + PROVEN);
        for _ in 0..20 {
            assert_eq!(round(&piggyback, start, Duration::from_secs(1)), 1, "the pause");
            assert_eq!(rounds(PROVEN), PROVEN as usize);
            assert!(piggyback.takes(PEER, 7, false, || start), "the last one waits");
            piggyback.end(|_, _| {});
            assert_eq!(rounds(PROVEN), PROVEN as usize);
        }
        piggyback.end(|_, _| {});
        assert_eq!(round(&piggyback, start, Duration::from_secs(1)), 1, "the first of two misses in succession");
        assert_eq!(round(&piggyback, start, Duration::from_secs(1)), 1, "the second one");
        assert_eq!((rounds(2 * LEAST), rounds(5)), (0, 5), "twice as many are needed");
    }

    /// The fence of the origin waits for its answer.
    #[test]
    fn the_answers_to_fences_wait_for_fences_that_follow_at_once() {
        let (piggyback, start) = piggyback();
        let fence = |pause| {
            piggyback.takes(PEER, 7, true, || start);
            piggyback.attach(PEER, 8, || start + pause, <[u64]>::len)
        };
        let (at_once, soon) = (Duration::from_micros(1), Duration::from_micros(6));
        assert_eq!([soon, soon, soon, soon].map(fence), [0; 4]);
        assert_eq!([at_once, at_once, at_once].map(fence), [0, 0, 1]);
        (0..PROVEN).for_each(|_| assert_eq!(fence(at_once), 1));
        assert!(piggyback.takes(PEER, 7, true, || start));
        piggyback.end(|_, _| {});
        assert_eq!(fence(at_once), 0, "one that waited in vain counts, whatever came before");
    }

    #[test]
    fn no_more_answers_are_piggybacked_than_there_is_room_for() {
        let (piggyback, start) = piggyback();
        (0..2).for_each(|_| assert_eq!(round(&piggyback, start, Duration::ZERO), 0));
        (0..3).for_each(|token| assert!(piggyback.takes(PEER, token, false, || start)));
        assert_eq!(piggyback.attach(Peer(4), 8, || start, <[u64]>::to_vec), [] as [u64; 0], "of another peer");
        assert_eq!(piggyback.attach(PEER, 2, || start, <[u64]>::to_vec), [0, 1]);
        let mut left = Vec::new();
        piggyback.end(|_, tokens| left.extend(tokens));
        assert_eq!(left, [2]);
    }

    #[test]
    fn without_a_limit_no_answer_waits() {
        let piggyback = Piggyback::default();
        let start = Instant::now();
        (0..9).for_each(|_| assert_eq!(round(&piggyback, start, Duration::ZERO), 0));
    }
}

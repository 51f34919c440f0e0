//! Messages that wait for a thread that makes progress: answers, notices, and requests of several
//! operations. A peer that takes no message delays only the messages to this peer. An answer or
//! notice is kept until it is sent or the peer is given up, because the peer may wait for it. A
//! request that can't be sent fails, and a request with its sequence number and without an effect
//! takes its place.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use transom_fabric::{Fault, Peer, Post, diagnostics};

use super::codec::{self, Message};
use super::{Messages, TARGET, locked, reuse_buffer};
use crate::failures::Attempts;

/// The number of peers that may refuse a message before `send_deferred` stops.
const MOST_FULL: usize = 4;

/// The number of queued messages that are searched for one that takes a further answer.
const RECENT: usize = 4;

/// The time for which messages to a peer that can't be reached are tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The deferred messages.
#[derive(Default)]
pub(super) struct Deferral {
    queue: Mutex<Queue>,
    /// The number of deferred messages that are not sent yet: the queued ones, and those that a
    /// thread is sending.
    owed: AtomicUsize,
    /// The first peer that could not be reached for [`PATIENCE`].
    lost: OnceLock<Fault>,
}

#[derive(Default)]
struct Queue {
    /// Messages to peers that are not known to be blocked.
    ready: VecDeque<Queued>,
    /// The peers that did not take the message sent to them last. A peer is removed when the last
    /// message to it has been sent.
    blocked: BTreeMap<Peer, Blocked>,
    /// The rank of the blocked peer with which the next attempt begins.
    at: u32,
    /// The number of the next message.
    next: u64,
}

/// The messages to a peer that takes none, in their order.
#[derive(Default)]
struct Blocked {
    messages: VecDeque<Queued>,
    /// The number of messages that threads are sending.
    sending: u32,
    /// Set if the peer can't be reached: the attempts since the first failure, and its reason.
    failing: Option<(Attempts, Fault)>,
}

struct Queued {
    to: Peer,
    /// Grows from message to message.
    number: u64,
    bytes: Vec<u8>,
    /// The token of a request that fails if it can't be sent; `None` for a message that is kept
    /// until it is sent.
    token: Option<u64>,
}

impl Queue {
    /// Takes the next message to a peer that is not in `full`, and returns whether the peer is
    /// blocked. Messages to peers that are not known to be blocked come first. Each message moves
    /// to a blocked peer at most once.
    fn next(&mut self, full: &[Peer]) -> Option<(Queued, bool)> {
        while let Some(message) = self.ready.pop_front() {
            match self.blocked.get_mut(&message.to) {
                Some(peer) => peer.messages.push_back(message),
                None => return Some((message, false)),
            }
        }
        let candidate = |(peer, blocked): &(&Peer, &Blocked)| !full.contains(peer) && !blocked.messages.is_empty();
        let (later, earlier) = (self.blocked.range(Peer(self.at)..), self.blocked.range(..Peer(self.at)));
        let &to = later.chain(earlier).find(candidate)?.0;
        self.at = to.0;
        let blocked = self.blocked.get_mut(&to)?;
        let message = blocked.messages.pop_front()?;
        blocked.sending += 1;
        Some((message, true))
    }

    /// Ends an attempt to send a message to a blocked peer. The message has left the queue.
    /// `is_taken`: the peer has the message.
    fn ended(&mut self, peer: Peer, is_taken: bool) {
        // A peer that was given up meanwhile is not in the map.
        let Some(blocked) = self.blocked.get_mut(&peer) else { return };
        blocked.sending = blocked.sending.saturating_sub(1);
        if is_taken {
            blocked.failing = None;
        }
        if blocked.messages.is_empty() && blocked.sending == 0 {
            self.blocked.remove(&peer);
        }
    }

    /// Puts a message back, which its peer has not taken. `fault`: the peer can't be reached.
    fn put_back(&mut self, message: Queued, was_blocked: bool, fault: Option<Fault>) {
        // The next attempt begins with another peer.
        self.at = message.to.0.wrapping_add(1);
        let blocked = self.blocked.entry(message.to).or_default();
        blocked.sending = blocked.sending.saturating_sub(was_blocked.into());
        blocked.failing = match (blocked.failing.take(), fault) {
            (_, None) => None,
            (Some((mut attempts, first)), Some(_)) => {
                attempts.failed(Instant::now());
                Some((attempts, first))
            }
            (None, Some(fault)) => {
                diagnostics::warn(TARGET, &format!("a reply or notice can't be sent, and is tried again: {fault:#}"));
                Some((Attempts::begin(Instant::now()), fault))
            }
        };
        blocked.messages.push_front(message);
    }

    /// Whether messages to `peer` before the number `end` wait, or a thread is sending one to the
    /// blocked peer.
    fn owes(&self, peer: Peer, end: u64) -> bool {
        let is_earlier = |message: &Queued| message.to == peer && message.number < end;
        let blocked = self.blocked.get(&peer);
        blocked.is_some_and(|blocked| blocked.sending > 0 || blocked.messages.iter().any(is_earlier))
            || self.ready.iter().any(is_earlier)
    }

    /// Drops the messages to a peer, and returns their number.
    fn drop_all(&mut self, peer: Peer) -> usize {
        let before = self.ready.len();
        self.ready.retain(|message| message.to != peer);
        let blocked = self.blocked.remove(&peer).map_or(0, |blocked| blocked.messages.len());
        before - self.ready.len() + blocked
    }
}

impl Messages {
    /// Queues a message for a thread that makes progress. `token`: of a request that fails if it
    /// can't be sent; `None` for a message that the peer needs.
    pub(crate) fn defer(&self, to: Peer, bytes: Vec<u8>, token: Option<u64>) {
        let mut queue = locked(&self.deferred.queue);
        // SeqCst: pairs with the SeqCst in `owes_answers`. Counted before the queue has the
        // message, so that the count is never too small.
        self.deferred.owed.fetch_add(1, Ordering::SeqCst);
        let number = queue.next;
        queue.next += 1;
        queue.ready.push_back(Queued { to, number, bytes, token });
    }

    /// Queues the answer without a result to the request of this token. The answers that are queued
    /// for a peer share messages.
    pub(super) fn defer_answer(&self, to: Peer, token: u64) {
        let mut queue = locked(&self.deferred.queue);
        let recent = queue.ready.iter_mut().rev().take(RECENT);
        let mut shared = recent.filter(|message| message.to == to && message.token.is_none());
        if !shared.any(|message| codec::add_answer(&mut message.bytes, token)) {
            drop(queue);
            self.defer(to, Message::Reply { token, bytes: &[] }.encode(), None);
        }
    }

    /// Sends the deferred messages by `send`; returns their number. Messages to a peer for which
    /// `send` answers `Again` stay, and those to other peers pass them.
    pub(crate) fn send_deferred(&self, mut send: impl FnMut(Peer, &[u8]) -> Post) -> usize {
        let (mut sent, mut full) = (0, Vec::new());
        // Peers may refuse messages because of the port's resources, which all peers share.
        while self.owes_answers() && full.len() < MOST_FULL {
            // The lock is not held during the send: the port may run a handler that queues a
            // message.
            let Some((message, was_blocked)) = locked(&self.deferred.queue).next(&full) else { break };
            let fault = match (send(message.to, &message.bytes), message.token) {
                (Post::Done | Post::Pending, _) => {
                    if was_blocked {
                        locked(&self.deferred.queue).ended(message.to, true);
                    }
                    reuse_buffer(message.bytes);
                    sent += 1;
                    // Relaxed: a count; the queue's lock orders its contents.
                    self.deferred.owed.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                (Post::Broken(fault), Some(token)) => {
                    if was_blocked {
                        locked(&self.deferred.queue).ended(message.to, false);
                    }
                    self.unsent(message.to, token, &message.bytes, Some(&fault));
                    // Relaxed: as above.
                    self.deferred.owed.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                (Post::Broken(fault), None) => Some(*fault),
                (Post::Again, _) => None,
            };
            full.push(message.to);
            locked(&self.deferred.queue).put_back(message, was_blocked, fault);
        }
        sent
    }

    /// Whether deferred messages wait to be sent, or to be put back by a thread that could not send
    /// one.
    pub(crate) fn owes_answers(&self) -> bool {
        // SeqCst: pairs with the SeqCst in `defer`, so that a progress thread that goes to sleep
        // finds the message, or the thread that has left it finds the progress thread asleep.
        self.deferred.owed.load(Ordering::SeqCst) > 0
    }

    /// The number of the next deferred message. All earlier ones have lower numbers.
    pub(crate) fn next_deferred(&self) -> u64 {
        locked(&self.deferred.queue).next
    }

    /// Whether deferred messages to `peer`, of those before the number `end`, wait to be sent.
    pub(crate) fn owes(&self, peer: Peer, end: u64) -> bool {
        self.owes_answers() && locked(&self.deferred.queue).owes(peer, end)
    }

    /// The first peer to which a message that it needs could not be sent for [`PATIENCE`]. The
    /// answer does not change afterwards.
    pub(crate) fn lost(&self) -> Option<Fault> {
        self.lost_for(PATIENCE)
    }

    fn lost_for(&self, patience: Duration) -> Option<Fault> {
        if self.deferred.lost.get().is_none() && self.owes_answers() {
            let queue = locked(&self.deferred.queue);
            // A peer may take the message that a thread is sending.
            let idle = queue.blocked.values().filter(|blocked| blocked.sending == 0);
            let mut failing = idle.filter_map(|blocked| blocked.failing.as_ref());
            if let Some((_, fault)) = failing.find(|(attempts, _)| attempts.time() >= patience) {
                // Only the first fault is kept.
                let _ = self.deferred.lost.set(fault.clone());
            }
        }
        self.deferred.lost.get().cloned()
    }

    /// Takes the first deferred message.
    #[cfg(test)]
    pub(super) fn take_deferred(&self) -> Option<Vec<u8>> {
        let mut queue = locked(&self.deferred.queue);
        let (message, was_blocked) = queue.next(&[])?;
        if was_blocked {
            queue.ended(message.to, true);
        }
        self.deferred.owed.fetch_sub(1, Ordering::Relaxed);
        Some(message.bytes)
    }

    /// Drops the deferred messages to a peer that is given up.
    pub(super) fn give_up_deferred(&self, peer: Peer) {
        let dropped = locked(&self.deferred.queue).drop_all(peer);
        // Relaxed: as in `send_deferred`.
        self.deferred.owed.fetch_sub(dropped, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

//! Operations that are sent as messages: signals of barriers, notices of post/start/complete/wait,
//! and requests that no hardware path serves. The target executes requests with the code that local
//! ranks use (`exposed`). A handler never posts: it queues its answer, and the thread that makes
//! progress sends it.

mod carried;
mod codec;
pub(crate) mod counted;
mod deferred;
mod exposed;
#[cfg(test)]
mod fuzz;
mod gathered;
mod keys;
pub(crate) mod named;
mod packed;
mod piggyback;
mod staging;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_fabric::{Cause, Fault, Handler, Immediate, Peer, Tally, TallyRef, diagnostics};

use crate::buffers::Sink;
use crate::error::Refusal;
use crate::sync::barrier;
pub(crate) use carried::{CARRIED, Carried};
use codec::Message;
#[cfg(test)]
pub(crate) use codec::encoded_len;
pub(crate) use codec::{
    End, FEW_STRIPS, MAX_STRIPS, OVERHEAD, PscwNotice, REPLY_OVERHEAD, Request, STRIP, reuse_buffer,
};
pub(crate) use exposed::{Atomicity, Exposed, Posted, Space};
pub(crate) use gathered::{Blocks, Close, Combined, Counting, Gather, Run, Small, Towards, What};
pub(crate) use keys::KeyHolder;
pub(crate) use packed::{MAX_PACKED, PACKED_COUNT, PACKED_MOST, packed_len};
pub(crate) use staging::{Area, Grant, PIECE, PIECES, Piece};
use waiting::{Requests, Waiting};

/// The log target of messages.
const TARGET: &str = "transom::messages";

/// The destination of a reply's bytes.
#[derive(Debug)]
pub(crate) enum ReplyDestination {
    /// The bytes are not wanted.
    Nowhere,
    /// Into one buffer.
    One(Sink),
    /// Several buffers, one after another.
    Pieces(Vec<Sink>),
    /// The buffers of the operations that a request contains.
    Carried(Arc<Carried>),
}

/// Received messages and answers to send.
#[derive(Default)]
pub(crate) struct Messages {
    /// The slots of each window and team, which are few.
    signals: Mutex<HashMap<u64, BTreeMap<u32, u32>>>,
    exposed: Mutex<BTreeMap<u64, Arc<Exposed>>>,
    /// The counters to which immediates of the net add.
    pub(crate) counted: counted::Counted,
    /// The windows that immediates of the net name.
    named: named::Named,
    requests: Mutex<Requests>,
    /// Messages that wait for a thread that makes progress.
    deferred: deferred::Deferral,
    /// Small operations that will share messages.
    gathering: gathered::Gathering,
    /// Answers that wait for a message in the other direction.
    piggyback: piggyback::Piggyback,
    /// Areas into which peers put the operands of long operations.
    areas: staging::Areas,
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Messages {
    /// Gives staging areas to peers that ask for one.
    pub(crate) fn grant_by(&self, grant: Grant) {
        self.areas.grant_by(grant);
    }

    /// The message that raises a signal.
    pub(crate) fn signal(key: u64, slot: u32, value: u32) -> Vec<u8> {
        Message::Signal { key, slot, value }.encode()
    }

    /// The slot's value, if it has reached `value`.
    pub(crate) fn signalled(&self, key: u64, slot: u32, value: u32) -> Option<u32> {
        locked(&self.signals).get(&key)?.get(&slot).copied().filter(|&seen| barrier::reached(seen, value))
    }

    /// The number of windows and teams with signals.
    #[cfg(test)]
    pub(crate) fn signalling(&self) -> usize {
        locked(&self.signals).len()
    }

    /// The message of a notice of the window `key`.
    pub(crate) fn notice(key: u64, member: u32, notice: PscwNotice) -> Vec<u8> {
        Message::Notice { window: key, member, notice }.encode()
    }

    /// Makes the window `key` the target of requests.
    pub(crate) fn expose(&self, key: u64, window: Arc<Exposed>) {
        locked(&self.exposed).insert(key, window);
    }

    fn exposed(&self, key: u64) -> Option<Arc<Exposed>> {
        locked(&self.exposed).get(&key).cloned()
    }

    /// Ends the exposure and drops the window's signals. Called after the barrier in which the last
    /// of them arrived.
    pub(crate) fn forget(&self, key: u64) {
        self.named.forget(key);
        locked(&self.exposed).remove(&key);
        self.forget_signals(key);
    }

    /// Drops the signals of a window or team after the last barrier.
    pub(crate) fn forget_signals(&self, key: u64) {
        locked(&self.signals).remove(&key);
    }

    /// Counts a request to `to` in `tally` and gives its token and message; the reply will be
    /// stored in `into`. `order`: the request's number among ordered requests, 0 for an unordered
    /// one.
    pub(crate) fn request(
        &self,
        to: Peer,
        window: u64,
        order: u64,
        request: &Request<'_>,
        into: ReplyDestination,
        tally: &TallyRef,
    ) -> (u64, Vec<u8>) {
        tally.begin();
        tally.mix();
        self.counted(window, order, request, Waiting::new(to, into, tally))
    }

    /// [`Messages::request`] of a request that its tally has counted.
    fn counted(&self, window: u64, order: u64, request: &Request<'_>, waiting: Waiting) -> (u64, Vec<u8>) {
        let token = self.awaited(waiting);
        (token, codec::encode_request(&[token, window, order], request))
    }

    /// The token of a request that waits for its reply from now on.
    fn awaited(&self, waiting: Waiting) -> u64 {
        locked(&self.requests).insert(waiting)
    }

    /// Fails a request whose peer can't be reached.
    pub(crate) fn fail(&self, token: u64, fault: &Fault) {
        if let Some(waiting) = locked(&self.requests).remove(token) {
            waiting.end_failed(|tally| tally.fail(fault));
        }
    }

    /// Ends a request that was not sent, and whose failure the caller reports.
    fn end(&self, token: u64) {
        if let Some(waiting) = locked(&self.requests).remove(token) {
            waiting.end_failed(Tally::finish);
        }
    }

    /// Ends a request that was not sent. `fault` is the reason, or `None` if the caller reports the
    /// failure. The parts of the message that the peer needs are queued: the answers before the
    /// request; and in place of an ordered request, or of one that ends an epoch, a request with
    /// the same sequence number or end and no other effect. A change of a control word whose result
    /// no call awaits is queued as it is, because other ranks may wait for the end of a lock.
    pub(crate) fn unsent(&self, to: Peer, token: u64, message: &[u8], fault: Option<&Fault>) {
        let request = Message::decode(message);
        if matches!(request, Some(Message::Request { request: Request::Control { .. }, .. })) && !self.is_awaited(token)
        {
            self.defer(to, message.to_vec(), None);
            return;
        }
        match fault {
            Some(fault) => self.fail(token, fault),
            None => self.end(token),
        }
        let Some(Message::Request { window, order, request, .. }) = self.without_answers(to, request) else { return };
        let nothing = Request::Several { parts: Vec::new() };
        let needed = match request {
            Request::Closing { end, .. } => Request::Closing { operations: Box::new(nothing), end },
            _ if order > 0 => nothing,
            _ => return,
        };
        // No call waits for it: the target's `wait` or later requests need it.
        let (_, message) = self.request(to, window, order, &needed, ReplyDestination::Nowhere, &Tally::new());
        self.defer(to, message, None);
    }

    /// Queues the answers that precede a message that was not sent, and returns this message.
    fn without_answers<'m>(&self, to: Peer, message: Option<Message<'m>>) -> Option<Message<'m>> {
        let Some(Message::Answers { tokens, rest }) = message else { return message };
        let tokens: Vec<_> = tokens.iter().map(|&token| u64::from_ne_bytes(token)).collect();
        self.defer(to, codec::encode_answers(&tokens, &[]), None);
        Message::decode(rest)
    }

    /// Queues the answers before a notice or signal that was not sent.
    pub(crate) fn notice_unsent(&self, to: Peer, message: &[u8]) {
        self.without_answers(to, Message::decode(message));
    }

    /// Whether a request awaits bytes of its reply.
    fn is_awaited(&self, token: u64) -> bool {
        locked(&self.requests).get(token).is_some_and(|waiting| waiting.into.len() > 0)
    }

    /// The number of the next request. All earlier requests have lower numbers.
    pub(crate) fn next_token(&self) -> u64 {
        locked(&self.requests).next_token()
    }

    /// Whether more than `most` requests to a peer, of those before the number `end`, wait for
    /// their replies.
    pub(crate) fn waits_for_more(&self, to: Peer, end: u64, most: usize) -> bool {
        let requests = locked(&self.requests);
        requests.iter().filter(|&(token, waiting)| token < end && waiting.from == to).nth(most).is_some()
    }

    /// Fails all requests to a peer that died, and drops the deferred messages to it. Returns
    /// whether operations have failed.
    pub(crate) fn give_up(&self, fault: &Fault) -> bool {
        self.give_up_deferred(fault.peer);
        let mut requests = locked(&self.requests);
        let to_it = |(token, waiting): (u64, &Waiting)| (waiting.from == fault.peer).then_some(token);
        let tokens: Vec<_> = requests.iter().filter_map(to_it).collect();
        let lost: Vec<_> = tokens.iter().filter_map(|&token| requests.remove(token)).collect();
        drop(requests);
        let any = !lost.is_empty();
        for waiting in lost {
            waiting.end_failed(|tally| tally.fail(fault));
        }
        self.give_up_gathered(fault) || any
    }

    /// Stores a signal of a barrier, unless a later one has overtaken it.
    fn signal_arrived(&self, key: u64, slot: u32, value: u32) {
        self.signal_changes(key, slot, |_| value);
    }

    /// [`Messages::signal_arrived`] of a value that `value` computes from the last one, which is 0
    /// at first.
    fn signal_changes(&self, key: u64, slot: u32, value: impl Fn(u32) -> u32) {
        let mut signals = locked(&self.signals);
        let slots = signals.entry(key).or_default();
        let seen = slots.get(&slot).copied();
        let value = value(seen.unwrap_or(0));
        if seen.is_none_or(|seen| barrier::reached(value, seen)) {
            slots.insert(slot, value);
        }
    }

    /// Records a notice of `member` of a window. If it is a post whose access epoch has ended, this
    /// rank answers that it has completed.
    fn noticed(&self, from: Peer, (key, window): (u64, &Exposed), member: u32, notice: PscwNotice) {
        if let Some(own) = window.notice(member, notice) {
            self.defer(from, Messages::notice(key, own, PscwNotice::Completed), None);
        }
    }

    /// Executes a request and queues the answer.
    fn execute(&self, from: Peer, token: u64, (key, window): (u64, Option<&Exposed>), request: &Request<'_>) {
        let outcome = match (window, request) {
            (None, request) => {
                if let Request::Closing { end: End::Signal { slot, value }, .. } = *request {
                    self.signal_arrived(key, slot, value);
                }
                Err(Refusal::NoWindow)
            }
            (Some(_), Request::Stage) => Ok(self.areas.key(from)),
            (Some(here), Request::Staged { op, ty, fetch, piece }) => {
                let area = self.areas.of(from).ok_or(Refusal::NoArea);
                area.and_then(|area| here.combine_staged((*op, *ty), *fetch, piece, &area))
            }
            (Some(here), Request::Copy { fetch, piece }) => {
                let area = self.areas.of(from).ok_or(Refusal::NoArea);
                area.and_then(|area| here.copy_staged(*fetch, piece, &area))
            }
            (Some(here), Request::Key { address, len }) => here.give_key(from, *address, *len),
            (Some(here), Request::Withdraw { number }) => here.withdraw_key(from, *number),
            (Some(here), Request::Closing { operations, end }) => {
                let outcome = here.execute(operations);
                // The origin's epoch is over, even if operations were refused.
                match *end {
                    End::Completed => here.completed(),
                    End::Signal { slot, value } => self.signal_arrived(key, slot, value),
                }
                outcome
            }
            (Some(here), request) => here.execute(request),
        };
        let reply = match &outcome {
            Ok(bytes) if bytes.is_empty() => {
                if !(may_wait(request) && self.keeps(from, token, request)) {
                    self.defer_answer(from, token);
                }
                return;
            }
            Ok(bytes) => Message::Reply { token, bytes },
            Err(reason) => Message::Refusal { token, reason: *reason },
        };
        self.defer(from, reply.encode(), None);
    }

    /// Executes a request now, or in its origin's order.
    fn requested(&self, from: Peer, token: u64, window: u64, order: u64, request: Request<'_>) {
        let exposed = self.exposed(window);
        match &exposed {
            Some(here) if order > 0 => here.in_order(from, order, (token, request), |token, request| {
                self.execute(from, token, (window, Some(here)), request);
            }),
            _ => self.execute(from, token, (window, exposed.as_deref()), &request),
        }
    }

    fn answered(&self, token: u64, outcome: Result<&[u8], Fault>) {
        let Some(mut waiting) = locked(&self.requests).remove(token) else { return };
        let (from, into) = (waiting.from, std::mem::replace(&mut waiting.into, ReplyDestination::Nowhere));
        let outcome = outcome
            .and_then(|bytes| into.fill(bytes).map_err(|reason| Fault::new(from, Cause::Answer(reason.to_words()))));
        match outcome {
            Ok(()) => waiting.end(),
            Err(fault) => waiting.end_failed(|tally| tally.refuse(&fault)),
        }
    }
}

/// Whether the answer to a request may wait for a message to the sender: a notified put, a notice
/// of `post` or `complete`, or the next fence in return often follows.
fn may_wait(request: &Request<'_>) -> bool {
    matches!(request, Request::Notify { .. } | Request::Closing { .. })
}

impl ReplyDestination {
    /// The number of bytes that the destination takes.
    pub(crate) fn len(&self) -> usize {
        match self {
            ReplyDestination::Nowhere | ReplyDestination::Carried(_) => 0,
            ReplyDestination::One(into) => into.len(),
            ReplyDestination::Pieces(pieces) => pieces.iter().map(Sink::len).sum(),
        }
    }

    /// Stores the bytes of a reply.
    ///
    /// # Errors
    /// The reply reports that the operation was refused.
    fn fill(self, bytes: &[u8]) -> Result<(), Refusal> {
        match self {
            ReplyDestination::Nowhere => {}
            ReplyDestination::One(into) => into.fill_from(bytes),
            ReplyDestination::Pieces(pieces) => {
                let mut rest = bytes;
                for piece in pieces {
                    let (part, tail) = rest.split_at(piece.len().min(rest.len()));
                    piece.fill_from(part);
                    rest = tail;
                }
            }
            ReplyDestination::Carried(carried) => return carried.fill(bytes),
        }
        Ok(())
    }
}

impl Handler for Messages {
    fn message(&self, from: Peer, bytes: &[u8]) {
        match Message::decode(bytes) {
            Some(Message::Signal { key, slot, value }) => self.signal_arrived(key, slot, value),
            Some(Message::Notice { window, member, notice }) => match self.exposed(window) {
                Some(here) => self.noticed(from, (window, &here), member, notice),
                None => {
                    diagnostics::warn(
                        TARGET,
                        &format!("{from} sent a notice of window {window:x}, which does not exist at this rank"),
                    );
                }
            },
            Some(Message::Request { token, window, order, request }) => {
                self.requested(from, token, window, order, request);
            }
            Some(Message::Reply { token, bytes }) => self.answered(token, Ok(bytes)),
            Some(Message::Refusal { token, reason }) => {
                self.answered(token, Err(Fault::new(from, Cause::Answer(reason.to_words()))));
            }
            Some(Message::Answers { tokens, rest }) => {
                tokens.iter().for_each(|&token| self.answered(u64::from_ne_bytes(token), Ok(&[])));
                if !rest.is_empty() {
                    self.message(from, rest);
                }
            }
            None => {
                let len = bytes.len();
                let what = format!("{from} sent a message of {len} bytes that this version can't decode");
                diagnostics::warn(TARGET, &what);
                // The origin waits for an answer. If the request was ordered, or ended an epoch,
                // later calls may wait for ever.
                if let Some(token) = codec::token_of_request(bytes) {
                    self.defer(from, Message::Refusal { token, reason: Refusal::NotDecoded }.encode(), None);
                }
            }
        }
    }

    fn immediate(&self, from: Peer, immediate: Immediate) {
        let number = immediate.number();
        let (is_known, what) = match number {
            ..named::FIRST => (self.counted.raise(immediate), "raised a counter"),
            _ => (self.named_immediate(from, immediate), "sent a notice of a window"),
        };
        if !is_known {
            diagnostics::warn(TARGET, &format!("{from} has {what} that this rank lacks ({number:x})"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use transom_fabric::{Amo, AmoKind, Post, Reason, Tally, Width};

    use super::*;

    #[test]
    fn an_overtaken_signal_does_not_lower_the_slot() {
        let messages = Messages::default();
        for value in [2, 1] {
            messages.message(Peer(1), &Messages::signal(7, 0, value));
        }
        assert_eq!(messages.signalled(7, 0, 1), Some(2));
        assert!(messages.signalled(7, 0, 3).is_none() && messages.signalled(7, 1, 1).is_none());
    }

    #[test]
    fn forgotten_signals_leave_nothing() {
        let messages = Messages::default();
        for (key, slot) in [(7, 0), (7, 1), (8, 0)] {
            messages.message(Peer(1), &Messages::signal(key, slot, 1));
        }
        messages.forget_signals(7);
        assert!(messages.signalled(7, 0, 1).is_none() && messages.signalled(8, 0, 1).is_some());
        messages.forget(8);
        assert_eq!(messages.signalling(), 0);
    }

    /// The end of a lock reaches the target although its message could not be sent at first. A
    /// change whose result a call awaits fails instead. Nothing stays queued for a dead rank.
    #[test]
    fn the_end_of_a_lock_that_was_not_sent_is_queued() {
        let (messages, tally, awaited) = (Messages::default(), Tally::new(), Tally::new());
        let release = Request::Control { at: 0, amo: Amo::new(AmoKind::Sum, Width::W64, 1) };
        let fault = Fault::new(Peer(1), Reason::NotSent);
        let (token, message) = messages.request(Peer(1), 4, 0, &release, ReplyDestination::One(Sink::NONE), &tally);
        messages.unsent(Peer(1), token, &message, Some(&fault));
        let mut word = [0; 8];
        crate::buffers::scoped(
            || (),
            |scope| {
                let into = ReplyDestination::One(scope.sink(&mut word));
                let (token, message) = messages.request(Peer(1), 4, 0, &release, into, &awaited);
                messages.unsent(Peer(1), token, &message, Some(&fault));
            },
        );
        assert!(awaited.idle() && awaited.has_failed() && !tally.idle());
        let sent = std::cell::RefCell::new(Vec::new());
        let full = |_: Peer, bytes: &[u8]| {
            sent.borrow_mut().push(bytes.to_vec());
            Post::Again
        };
        assert_eq!((messages.send_deferred(full), sent.into_inner()), (0, vec![message]));
        messages.give_up(&Fault::new(Peer(1), Reason::Died));
        assert!(tally.idle() && tally.has_failed() && !messages.owes_answers());
    }

    /// A request that can't be decoded is refused, and its origin waits no longer.
    #[test]
    fn undecodable_requests_are_refused() {
        let (origin, target) = (Messages::default(), Messages::default());
        let tally = Tally::new();
        let request = Request::Gather { strips: Cow::default() };
        let (_, mut message) = origin.request(Peer(1), 4, 0, &request, ReplyDestination::Nowhere, &tally);
        message.truncate(30);
        target.message(Peer(0), &message);
        target.send_deferred(|_, bytes| {
            origin.message(Peer(1), bytes);
            Post::Done
        });
        assert!(tally.idle() && tally.has_failed());
        target.message(Peer(0), &Messages::signal(7, 0, 1)[..5]);
        assert!(!target.owes_answers(), "a signal has no answer");
    }

    /// A request for a window that does not exist is refused, and its origin's tally has the
    /// reason.
    #[test]
    fn requests_for_no_window_are_refused() {
        let (origin, target) = (Messages::default(), Messages::default());
        let tally = Tally::new();
        let request = Request::Gather { strips: Cow::default() };
        let (_, message) = origin.request(Peer(1), 4, 0, &request, ReplyDestination::Nowhere, &tally);
        assert!(!target.owes_answers());
        target.message(Peer(0), &message);
        assert!(target.owes_answers(), "until it is sent");
        // A thread that calls `owes_answers` meanwhile must not sleep for long: the origin may have
        // no free receive buffer.
        let full = |_: Peer, _: &[u8]| {
            assert!(target.owes_answers(), "while it is sent");
            Post::Again
        };
        assert_eq!((target.send_deferred(full), target.owes_answers()), (0, true), "put back");
        let mut reply = Vec::new();
        let sent = target.send_deferred(|_, bytes| {
            reply = bytes.to_vec();
            Post::Done
        });
        assert_eq!((sent, target.owes_answers()), (1, false));
        origin.message(Peer(1), &reply);
        assert!(tally.idle());
        let reason = tally.fault().map(|fault| fault.cause);
        assert_eq!(reason, Some(Cause::Answer(Refusal::NoWindow.to_words())));
    }
}

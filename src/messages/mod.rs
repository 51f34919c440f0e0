//! Operations that travel as messages: signals of barriers, notices of post-start-complete-wait, and requests that no
//! hardware path serves. The target's side executes them by the code that local ranks use (`exposed`). It never posts by
//! itself: what it wants to send waits in a queue for whoever makes progress.

mod codec;
mod exposed;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_fabric::{Fault, Handler, Peer, Post, TallyRef};

use crate::buffers::Sink;
use crate::sync::barrier;
use crate::wire::Wire;
use codec::Message;
pub(crate) use codec::{MAX_STRIPS, Notice, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
pub(crate) use exposed::{Exposed, Space};

/// Where the bytes of a reply go.
#[derive(Debug)]
pub(crate) enum Landing {
    /// Nobody wants them.
    Nowhere,
    /// Into one buffer.
    One(Sink),
    /// Into several, one after the other.
    Pieces(Vec<Sink>),
}

/// A request whose reply is not here yet.
struct Waiting {
    from: Peer,
    into: Landing,
    tally: TallyRef,
}

#[derive(Default)]
struct Requests {
    next: u64,
    waiting: HashMap<u64, Waiting>,
}

/// What arrived and what is owed.
#[derive(Default)]
pub(crate) struct Messages {
    signals: Mutex<HashMap<(u64, u32), u32>>,
    exposed: Mutex<HashMap<u64, Arc<Exposed>>>,
    requests: Mutex<Requests>,
    deferred: Mutex<VecDeque<(Peer, Vec<u8>)>>,
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
    /// The message that raises a signal.
    pub(crate) fn signal(key: u64, slot: u32, value: u32) -> Vec<u8> {
        Message::Signal { key, slot, value }.encode()
    }

    /// What the slot holds, where it has reached `value`.
    pub(crate) fn signalled(&self, key: u64, slot: u32, value: u32) -> Option<u32> {
        locked(&self.signals).get(&(key, slot)).copied().filter(|&seen| barrier::reached(seen, value))
    }

    /// The message that tells a notice of the window `key`.
    pub(crate) fn notice(key: u64, member: u32, notice: Notice) -> Vec<u8> {
        Message::Notice { window: key, member, notice }.encode()
    }

    /// Lets requests for the window `key` act on it.
    pub(crate) fn expose(&self, key: u64, window: Arc<Exposed>) {
        locked(&self.exposed).insert(key, window);
    }

    fn exposed(&self, key: u64) -> Option<Arc<Exposed>> {
        locked(&self.exposed).get(&key).cloned()
    }

    /// Ends that, and forgets the window's signals; after the barrier in which the last of them arrived.
    pub(crate) fn forget(&self, key: u64) {
        locked(&self.exposed).remove(&key);
        locked(&self.signals).retain(|&(of, _), _| of != key);
    }

    /// Counts a request to `to` in `tally` and gives its token and message; the reply will go into `into`. `order`: the request's place
    /// among those that keep their order, 0 for one that needs none.
    pub(crate) fn request(
        &self,
        to: Peer,
        window: u64,
        order: u64,
        request: Request<'_>,
        into: Landing,
        tally: &TallyRef,
    ) -> (u64, Vec<u8>) {
        let mut requests = locked(&self.requests);
        let token = requests.next;
        requests.next += 1;
        tally.begin();
        requests.waiting.insert(token, Waiting { from: to, into, tally: tally.clone() });
        drop(requests);
        (token, Message::Request { token, window, order, request }.encode())
    }

    /// Gives up a request, since its peer can't be reached.
    pub(crate) fn fail(&self, token: u64, fault: &Fault) {
        if let Some(waiting) = locked(&self.requests).waiting.remove(&token) {
            waiting.tally.fail(fault);
        }
    }

    /// Gives up all requests to a peer that died.
    pub(crate) fn give_up(&self, fault: &Fault) {
        let died = |_: &u64, waiting: &mut Waiting| waiting.from == fault.peer;
        let lost: Vec<_> = locked(&self.requests).waiting.extract_if(died).collect();
        for (_, waiting) in lost {
            waiting.tally.fail(fault);
        }
    }

    /// Sends what handlers left to be sent, until a port says `Again`; how many went.
    pub(crate) fn send_deferred(&self, wire: &Wire) -> usize {
        let mut sent = 0;
        loop {
            // Not held while sending: the port may be busy with a handler that defers.
            let Some((peer, bytes)) = locked(&self.deferred).pop_front() else { return sent };
            match wire.send(peer, &bytes) {
                Post::Done | Post::Pending => sent += 1,
                Post::Again => {
                    locked(&self.deferred).push_front((peer, bytes));
                    return sent;
                }
                // The origin is gone: nobody waits for the reply.
                Post::Broken(fault) => eprintln!("transom: a reply is lost: {fault}"),
            }
        }
    }

    /// Whether answers wait to be sent.
    pub(crate) fn owes_answers(&self) -> bool {
        !locked(&self.deferred).is_empty()
    }

    /// Executes a request, whose answer waits to be sent.
    fn execute(&self, from: Peer, token: u64, window: Option<&Exposed>, request: &Request<'_>) {
        let outcome = window.map_or_else(|| Err("there is no such window here".to_owned()), |it| it.execute(request));
        let reply = match &outcome {
            Ok(bytes) => Message::Reply { token, bytes },
            Err(reason) => Message::Refusal { token, reason },
        };
        locked(&self.deferred).push_back((from, reply.encode()));
    }

    /// Takes a request: now, or in its origin's order.
    fn requested(&self, from: Peer, message: &[u8]) {
        let Some(Message::Request { token, window, order, request }) = Message::decode(message) else { return };
        let exposed = self.exposed(window);
        match &exposed {
            Some(here) if order > 0 => here.in_order(from, order, message, |message| {
                if let Some(Message::Request { token, request, .. }) = Message::decode(message) {
                    self.execute(from, token, Some(here), &request);
                }
            }),
            _ => self.execute(from, token, exposed.as_deref(), &request),
        }
    }

    fn answered(&self, token: u64, outcome: Result<&[u8], Fault>) {
        let Some(waiting) = locked(&self.requests).waiting.remove(&token) else { return };
        match outcome {
            Ok(bytes) => {
                waiting.into.fill(bytes);
                waiting.tally.finish();
            }
            Err(fault) => waiting.tally.refuse(&fault),
        }
    }
}

impl Landing {
    fn fill(self, bytes: &[u8]) {
        match self {
            Landing::Nowhere => {}
            Landing::One(into) => into.fill_from(bytes),
            Landing::Pieces(pieces) => {
                let mut rest = bytes;
                for piece in pieces {
                    let (part, tail) = rest.split_at(piece.len().min(rest.len()));
                    piece.fill_from(part);
                    rest = tail;
                }
            }
        }
    }
}

impl Handler for Messages {
    fn message(&self, from: Peer, bytes: &[u8]) {
        match Message::decode(bytes) {
            Some(Message::Signal { key, slot, value }) => {
                let mut signals = locked(&self.signals);
                let seen = signals.entry((key, slot)).or_insert(value);
                if barrier::reached(value, *seen) {
                    *seen = value;
                }
            }
            Some(Message::Notice { window, member, notice }) => match self.exposed(window) {
                Some(here) => here.notice(member, notice),
                None => eprintln!("transom: {from} tells of window {window:x}, which is not here"),
            },
            Some(Message::Request { .. }) => self.requested(from, bytes),
            Some(Message::Reply { token, bytes }) => self.answered(token, Ok(bytes)),
            Some(Message::Refusal { token, reason }) => {
                self.answered(token, Err(Fault { peer: from, reason: reason.to_owned() }));
            }
            None => eprintln!("transom: a message of {} bytes from {from} that is none of this version's", bytes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Tally;

    use super::*;

    #[test]
    fn a_late_signal_does_not_take_back_a_later_one() {
        let messages = Messages::default();
        for value in [2, 1] {
            messages.message(Peer(1), &Messages::signal(7, 0, value));
        }
        assert_eq!(messages.signalled(7, 0, 1), Some(2));
        assert!(messages.signalled(7, 0, 3).is_none() && messages.signalled(7, 1, 1).is_none());
    }

    /// A request for a window that is not here is refused, and its origin's tally tells why.
    #[test]
    fn requests_for_no_window_are_refused() {
        let (origin, target) = (Messages::default(), Messages::default());
        let tally = Tally::new();
        let request = Request::Gather { strips: Vec::new() };
        let (_, message) = origin.request(Peer(1), 4, 0, request, Landing::Nowhere, &tally);
        assert!(!target.owes_answers());
        target.message(Peer(0), &message);
        assert!(target.owes_answers(), "until it is sent");
        let (_, reply) = locked(&target.deferred).pop_front().expect("an answer");
        assert!(!target.owes_answers());
        origin.message(Peer(1), &reply);
        assert!(tally.idle());
        let reason = tally.fault().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(reason.contains("no such window"), "{reason}");
    }
}

//! Operations that travel as messages: signals of barriers, and puts, gets and atomics that no hardware path serves.
//! The target's side executes them on the window's memory by the same CPU atomics that local ranks use (DESIGN §3).
//! It never posts by itself: what it wants to send waits in a queue for whoever makes progress.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_fabric::{Amo, AmoKind, Fault, Handler, Memory, Peer, Post, Tally, Width};

use crate::buffers::Sink;
use crate::sync::barrier;
use crate::wire::Wire;

/// The bytes that a message has beside its data, at most.
pub(crate) const OVERHEAD: usize = 40;

/// What is asked of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Put { at: u64, bytes: &'a [u8] },
    Get { at: u64, len: u64 },
    Amo { at: u64, amo: Amo },
}

/// What travels.
#[derive(Debug, PartialEq, Eq)]
enum Message<'a> {
    /// The slot of a barrier, that of the thing with this key, now holds `value`.
    Signal {
        key: u64,
        slot: u32,
        value: u32,
    },
    Request {
        token: u64,
        window: u64,
        request: Request<'a>,
    },
    Reply {
        token: u64,
        bytes: &'a [u8],
    },
    /// The request could not be executed; the reason in words.
    Refusal {
        token: u64,
        reason: &'a str,
    },
}

/// A request whose reply is not here yet.
struct Waiting {
    into: Sink,
    tally: Arc<Tally>,
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
    exposed: Mutex<HashMap<u64, Memory>>,
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

    /// Lets requests for the window `key` act on `memory`.
    pub(crate) fn expose(&self, key: u64, memory: Memory) {
        locked(&self.exposed).insert(key, memory);
    }

    /// Ends that, and forgets the window's signals; after the barrier in which the last of them arrived.
    pub(crate) fn forget(&self, key: u64) {
        locked(&self.exposed).remove(&key);
        locked(&self.signals).retain(|&(of, _), _| of != key);
    }

    /// Counts a request in `tally` and gives its token and message; the reply will go into `into`.
    pub(crate) fn request(&self, window: u64, request: Request<'_>, into: Sink, tally: &Arc<Tally>) -> (u64, Vec<u8>) {
        let mut requests = locked(&self.requests);
        let token = requests.next;
        requests.next += 1;
        tally.begin();
        requests.waiting.insert(token, Waiting { into, tally: Arc::clone(tally) });
        (token, Message::Request { token, window, request }.encode())
    }

    /// Gives up a request, since its peer can't be reached.
    pub(crate) fn fail(&self, token: u64, fault: &Fault) {
        if let Some(waiting) = locked(&self.requests).waiting.remove(&token) {
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

    fn execute(&self, window: u64, request: Request<'_>) -> Result<Vec<u8>, String> {
        let memory = locked(&self.exposed).get(&window).cloned().ok_or_else(|| format!("no window {window} here"))?;
        let (at, len) = request.range();
        let start =
            usize::try_from(at).ok().filter(|at| memory.len().checked_sub(*at).is_some_and(|rest| len <= rest as u64));
        let start = start.ok_or_else(|| format!("{len} bytes at {at} of a window of {} bytes", memory.len()))?;
        match request {
            Request::Put { bytes, .. } => {
                memory.write(start, bytes);
                Ok(Vec::new())
            }
            Request::Get { len, .. } => {
                let mut bytes = vec![0; usize::try_from(len).map_err(|error| error.to_string())?];
                memory.read(start, &mut bytes);
                Ok(bytes)
            }
            Request::Amo { amo, .. } if !(memory.as_ptr() as usize + start).is_multiple_of(amo.width.bytes()) => {
                Err(format!("an atomic of {} bytes at the misaligned offset {at}", amo.width.bytes()))
            }
            Request::Amo { amo, .. } => Ok(memory.amo(start, amo).to_ne_bytes()[..amo.width.bytes()].to_vec()),
        }
    }

    fn answered(&self, token: u64, outcome: Result<&[u8], Fault>) {
        let Some(waiting) = locked(&self.requests).waiting.remove(&token) else { return };
        match outcome {
            Ok(bytes) => {
                waiting.into.fill_from(bytes);
                waiting.tally.finish();
            }
            Err(fault) => waiting.tally.fail(&fault),
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
            Some(Message::Request { token, window, request }) => {
                let outcome = self.execute(window, request);
                let reply = match &outcome {
                    Ok(bytes) => Message::Reply { token, bytes },
                    Err(reason) => Message::Refusal { token, reason },
                };
                locked(&self.deferred).push_back((from, reply.encode()));
            }
            Some(Message::Reply { token, bytes }) => self.answered(token, Ok(bytes)),
            Some(Message::Refusal { token, reason }) => {
                self.answered(token, Err(Fault { peer: from, reason: reason.to_owned() }));
            }
            None => eprintln!("transom: a message of {} bytes from {from} that is none of this version's", bytes.len()),
        }
    }
}

impl Request<'_> {
    fn range(&self) -> (u64, u64) {
        match self {
            Request::Put { at, bytes } => (*at, bytes.len() as u64),
            Request::Get { at, len } => (*at, *len),
            Request::Amo { at, amo } => (*at, amo.width.bytes() as u64),
        }
    }
}

/// Words in the machine's byte order: all ranks of a job run the same program.
impl<'a> Message<'a> {
    fn encode(&self) -> Vec<u8> {
        let words = |kind: u8, words: &[u64], bytes: &[u8]| {
            let mut out = Vec::with_capacity(1 + words.len() * 8 + bytes.len());
            out.push(kind);
            words.iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
            out.extend_from_slice(bytes);
            out
        };
        match *self {
            Message::Signal { key, slot, value } => words(1, &[key, u64::from(slot) << 32 | u64::from(value)], &[]),
            Message::Request { token, window, request: Request::Put { at, bytes } } => {
                words(2, &[token, window, at], bytes)
            }
            Message::Request { token, window, request: Request::Get { at, len } } => {
                words(3, &[token, window, at, len], &[])
            }
            Message::Request { token, window, request: Request::Amo { at, amo } } => {
                let how = [u8::from(amo.width == Width::W64), kind_number(amo.kind)];
                let mut bytes = how.to_vec();
                bytes.extend_from_slice(&amo.operand.to_ne_bytes());
                bytes.extend_from_slice(&amo.compare.to_ne_bytes());
                words(4, &[token, window, at], &bytes)
            }
            Message::Reply { token, bytes } => words(5, &[token], bytes),
            Message::Refusal { token, reason } => words(6, &[token], reason.as_bytes()),
        }
    }

    fn decode(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (&kind, mut rest) = bytes.split_first()?;
        let mut word = || {
            let (word, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            Some(u64::from_ne_bytes(*word))
        };
        if kind == 1 {
            let (key, both) = (word()?, word()?);
            let (slot, value) = (u32::try_from(both >> 32).ok()?, u32::try_from(both & 0xffff_ffff).ok()?);
            return Some(Message::Signal { key, slot, value });
        }
        let token = word()?;
        if kind >= 5 {
            return match kind {
                5 => Some(Message::Reply { token, bytes: rest }),
                6 => Some(Message::Refusal { token, reason: std::str::from_utf8(rest).ok()? }),
                _ => None,
            };
        }
        let (window, at) = (word()?, word()?);
        let request = match kind {
            2 => Request::Put { at, bytes: rest },
            3 => Request::Get { at, len: word()? },
            4 => {
                let (how, values) = rest.split_first_chunk::<2>()?;
                let (operand, compare) = (values.first_chunk::<8>()?, values.last_chunk::<8>()?);
                let width = if how[0] == 1 { Width::W64 } else { Width::W32 };
                let kind = *AmoKind::ALL.get(usize::from(how[1]))?;
                let amo =
                    Amo { kind, width, operand: u64::from_ne_bytes(*operand), compare: u64::from_ne_bytes(*compare) };
                Request::Amo { at, amo }
            }
            _ => return None,
        };
        Some(Message::Request { token, window, request })
    }
}

/// The kind's place in [`AmoKind::ALL`].
fn kind_number(kind: AmoKind) -> u8 {
    match kind {
        AmoKind::Sum => 0,
        AmoKind::Replace => 1,
        AmoKind::Read => 2,
        AmoKind::CompareSwap => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        let put = Request::Put { at: 1 << 40, bytes: b"data" };
        let get = Request::Get { at: 3, len: 9 };
        let amos = AmoKind::ALL.map(|kind| Amo { kind, width: Width::W32, operand: 7, compare: u64::MAX });
        let requests = [put, get].into_iter().chain(amos.map(|amo| Request::Amo { at: 8, amo }));
        for request in requests {
            let message = Message::Request { token: 5, window: 6, request };
            assert!(message.encode().len() <= OVERHEAD + 10);
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        for message in [
            Message::Signal { key: u64::MAX, slot: 63, value: 0x7fff_ffff },
            Message::Reply { token: 1, bytes: &[] },
            Message::Refusal { token: 2, reason: "no" },
        ] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        assert_eq!(Message::decode(&[]), None);
        assert_eq!(Message::decode(&[2, 0, 0]), None);
        assert_eq!(Message::decode(&[99; 40]), None);
    }

    #[test]
    fn a_request_outside_the_window_is_refused_and_writes_nothing() {
        let messages = Messages::default();
        let memory = Memory::private(16);
        messages.expose(4, memory.clone());
        for (window, at) in [(4, 9), (4, u64::MAX), (5, 0)] {
            assert!(messages.execute(window, Request::Put { at, bytes: &[1; 8] }).is_err());
        }
        let amo = Amo::new(AmoKind::Sum, Width::W64, 1);
        assert!(messages.execute(4, Request::Amo { at: 4, amo }).is_err());
        assert_eq!(messages.execute(4, Request::Get { at: 0, len: 16 }), Ok(vec![0; 16]));
        assert_eq!(messages.execute(4, Request::Amo { at: 8, amo }), Ok(vec![0; 8]));
        messages.forget(4);
        assert!(messages.execute(4, Request::Get { at: 0, len: 1 }).is_err());
    }

    #[test]
    fn a_late_signal_does_not_take_back_a_later_one() {
        let messages = Messages::default();
        for value in [2, 1] {
            messages.message(Peer(1), &Messages::signal(7, 0, value));
        }
        assert_eq!(messages.signalled(7, 0, 1), Some(2));
        assert!(messages.signalled(7, 0, 3).is_none() && messages.signalled(7, 1, 1).is_none());
    }
}

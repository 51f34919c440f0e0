//! The connection to one peer: its queue pair, the requests in flight in the order they were posted, and whether it stands.
//!
//! Requests complete in order, so that one signaled completion tells of all before it. Which of many puts is the last one
//! before a flush shows only by the flush; so the newest small request is *held*: written down, not posted. The next request
//! posts it unsignaled before itself, and [`Link::release`], which is called by whoever makes progress or goes to sleep, posts it
//! signaled. N small puts and a flush are N requests and one completion. Large requests, whose time on the wire matters, and
//! messages, which nobody flushes, are posted at once and signaled.
//!
//! So the last posted request is signaled, or one is held: nothing is in flight of which no completion will tell.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transom_fabric::{Fault, Peer};

use crate::pair::Pair;
use crate::stock::{Record, Stock};
use crate::sys;
use crate::ticket::Ticket;

/// Bytes that a request carries itself, where the device can. As many as leave its place in the device's queue at 128 bytes
/// (mlx5), or 256 (Soft-RoCE).
pub(crate) const INLINE: u32 = 48;
/// Records of requests; one is always free, so that one less are in flight.
const RECORDS: u32 = 64;
/// Requests of one connection in flight at once.
pub(crate) const DEPTH: u32 = RECORDS - 1;
/// After so many unsignaled requests one is signaled, so that there is room again before all are used.
const SIGNAL_EVERY: u32 = RECORDS / 2;

const OPENING: u8 = 0;
const READY: u8 = 1;
const BROKEN: u8 = 2;

/// A request to be posted.
pub(crate) struct Request<'b> {
    pub(crate) opcode: u32,
    pub(crate) target: sys::Target,
    /// A message's sender.
    pub(crate) immediate: u32,
    pub(crate) bytes: Bytes<'b>,
    /// It may wait for the next request or release.
    pub(crate) hold: bool,
    pub(crate) record: Record,
}

/// The local bytes of a request.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'b> {
    /// Carried by the request: at most what the device gave.
    Inline(&'b [u8]),
    /// Reached by the device.
    Element(sys::ibv_sge),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Accepted.
    Accepted,
    /// Accepted and held: the link is to be released.
    Held,
    /// Not accepted.
    Again,
    /// Not accepted: the link is broken.
    Broken,
}

/// What a link posted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Work requests given to the device.
    pub requests: u64,
    /// Those of them that asked for a completion.
    pub signaled: u64,
}

/// The connection to a peer.
pub(crate) struct Link {
    peer: Peer,
    state: AtomicU8,
    fault: OnceLock<String>,
    // Before the records: no registration ends while the device uses it.
    pub(crate) pair: Pair,
    queue: Mutex<SendQueue>,
}

struct SendQueue {
    records: Box<[Option<Record>; RECORDS as usize]>,
    /// The number of the next request; it wraps.
    head: u32,
    /// The number of the oldest request in flight.
    tail: u32,
    /// Requests that were posted after the last signaled one.
    unsignaled: u32,
    /// The newest request is written down below and not posted.
    held: bool,
    /// Somebody will call `release`.
    listed: bool,
    request: sys::ibv_send_wr,
    element: sys::ibv_sge,
    inline: [u8; INLINE as usize],
    posted: Posted,
}

// SAFETY: the pointers of the request are set when it is posted, to fields of this structure and to objects that any
// thread may use.
unsafe impl Send for SendQueue {}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: a look.
        let state = self.state.load(Ordering::Relaxed);
        write!(f, "Link({}, {})", self.peer, ["opening", "ready", "broken"][usize::from(state)])
    }
}

impl Link {
    /// What the records take.
    pub(crate) const RECORDS_BYTES: usize = RECORDS as usize * size_of::<Option<Record>>();

    /// A connection that is being opened.
    pub(crate) fn new(peer: Peer, pair: Pair) -> Link {
        // SAFETY: numbers and null pointers.
        let request = unsafe { std::mem::zeroed() };
        let queue = SendQueue {
            records: Box::new([const { None }; RECORDS as usize]),
            head: 0,
            tail: 0,
            unsignaled: 0,
            held: false,
            listed: false,
            request,
            element: sys::ibv_sge { addr: 0, length: 0, lkey: 0 },
            inline: [0; INLINE as usize],
            posted: Posted::default(),
        };
        Link { peer, state: AtomicU8::new(OPENING), fault: OnceLock::new(), pair, queue: Mutex::new(queue) }
    }

    /// Whom it leads to.
    #[inline]
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// Both ends are connected: requests may be posted.
    pub(crate) fn open(&self) {
        // Release: pairs with the Acquire in `push`. A link that broke stays broken.
        let _ = self.state.compare_exchange(OPENING, READY, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether nothing can be posted before the peer has answered.
    pub(crate) fn is_opening(&self) -> bool {
        // Relaxed: whoever sees another state asks `push` what it means.
        self.state.load(Ordering::Relaxed) == OPENING
    }

    /// Why nothing goes to this peer any more.
    pub(crate) fn fault(&self) -> Fault {
        Fault { peer: self.peer, reason: self.fault.get().cloned().unwrap_or_default() }
    }

    /// What was posted so far.
    pub(crate) fn posted(&self) -> Posted {
        self.lock().posted
    }

    fn lock(&self) -> MutexGuard<'_, SendQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request, counts its operation, and posts or holds it. Inlined, so that the request is written once.
    #[inline(always)]
    pub(crate) fn push(&self, request: Request<'_>, stock: &Stock) -> Pushed {
        let mut queue = self.lock();
        // Acquire: pairs with the Release in `open`.
        let state = self.state.load(Ordering::Acquire);
        let full = queue.head.wrapping_sub(queue.tail) >= DEPTH;
        if state != READY || full || !stock.enter() {
            stock.discard(&request.record);
            return if state == BROKEN { Pushed::Broken } else { Pushed::Again };
        }
        if queue.held {
            let signaled = queue.unsignaled + 1 >= SIGNAL_EVERY;
            if let Err(error) = queue.post(&self.pair, signaled) {
                self.break_down(&mut queue, &error.to_string(), stock);
                stock.leave(1);
                stock.discard(&request.record);
                return Pushed::Broken;
            }
        }
        if let Some(tally) = &request.record.tally {
            tally.begin();
        }
        let hold = request.hold;
        queue.write(self.peer, request);
        if hold {
            return if std::mem::replace(&mut queue.listed, true) { Pushed::Accepted } else { Pushed::Held };
        }
        if let Err(error) = queue.post(&self.pair, true) {
            self.break_down(&mut queue, &error.to_string(), stock);
        }
        Pushed::Accepted
    }

    /// Posts what is held, signaled.
    pub(crate) fn release(&self, stock: &Stock) {
        let mut queue = self.lock();
        queue.listed = false;
        if queue.held
            && let Err(error) = queue.post(&self.pair, true)
        {
            self.break_down(&mut queue, &error.to_string(), stock);
        }
    }

    /// Request `number` is complete, and with it all before. With a reason it failed, and so will all after it.
    /// Completions of a link are told in their order.
    pub(crate) fn complete(&self, number: u32, failure: Option<&str>, stock: &Stock) {
        let mut queue = self.lock();
        let count = number.wrapping_sub(queue.tail).wrapping_add(1);
        if count > queue.head.wrapping_sub(queue.tail) {
            return;
        }
        if let Some(reason) = failure {
            self.break_down(&mut queue, reason, stock);
        }
        for left in (0..count).rev() {
            let at = queue.tail;
            queue.tail = at.wrapping_add(1);
            if let Some(record) = queue.record(at).take() {
                let fault = failure.filter(|_| left == 0).map(|_| self.fault());
                stock.retire(record, fault.as_ref());
            }
        }
        stock.leave(count);
    }

    /// Nothing goes to this peer any more. What is in flight completes with errors.
    pub(crate) fn give_up(&self, reason: &str, stock: &Stock) {
        self.break_down(&mut self.lock(), reason, stock);
    }

    #[cold]
    fn break_down(&self, queue: &mut SendQueue, reason: &str, stock: &Stock) {
        // The first reason tells what happened; later ones are its consequences.
        let _ = self.fault.set(reason.to_owned());
        // Release: pairs with the Acquire in `push`, for the reason.
        if self.state.swap(BROKEN, Ordering::Release) != BROKEN {
            self.pair.abandon();
        }
        if std::mem::take(&mut queue.held) {
            queue.head = queue.head.wrapping_sub(1);
            let at = queue.head;
            stock.leave(1);
            if let Some(record) = queue.record(at).take() {
                stock.retire(record, Some(&self.fault()));
            }
        }
    }
}

impl SendQueue {
    fn record(&mut self, number: u32) -> &mut Option<Record> {
        &mut self.records[(number % RECORDS) as usize]
    }

    /// Writes the newest request down.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // at most INLINE bytes
    fn write(&mut self, peer: Peer, request: Request<'_>) {
        let number = self.head;
        self.head = number.wrapping_add(1);
        self.request.wr_id = Ticket::Request(peer, number).encode();
        self.request.opcode = request.opcode;
        self.request.imm_data = request.immediate;
        self.request.wr = request.target;
        match request.bytes {
            Bytes::Inline(bytes) => {
                match <[u8; 8]>::try_from(bytes) {
                    Ok(word) => self.inline[..8].copy_from_slice(&word),
                    Err(_) => self.inline[..bytes.len()].copy_from_slice(bytes),
                }
                self.element.length = bytes.len() as u32;
                self.request.send_flags = sys::IBV_SEND_INLINE;
            }
            Bytes::Element(element) => {
                self.element = element;
                self.request.send_flags = 0;
            }
        }
        *self.record(number) = Some(request.record);
        self.held = true;
    }

    /// Posts the newest request.
    #[inline]
    fn post(&mut self, pair: &Pair, signaled: bool) -> Result<(), std::io::Error> {
        if self.request.send_flags & sys::IBV_SEND_INLINE != 0 {
            self.element.addr = self.inline.as_ptr() as u64;
        }
        self.request.sg_list = &raw mut self.element;
        self.request.num_sge = 1;
        if signaled {
            self.request.send_flags |= sys::IBV_SEND_SIGNALED;
        }
        // SAFETY: the request is whole; inline bytes are copied; others stay until the record's completion: a block's by
        // being in use, the caller's by its promise.
        unsafe { pair.post(&mut self.request) }?;
        self.held = false;
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
        self.posted.requests += 1;
        self.posted.signaled += u64::from(signaled);
        Ok(())
    }
}

//! The connection to one peer: its queue pair, the requests in flight in the order they were posted, and whether it stands.
//!
//! Requests complete in order, so that one signaled completion tells of all before it. Which of many puts is the last one
//! before a flush shows only by the flush; so the newest small request is *held*: written down, not posted. The next request
//! posts it unsignaled before itself, and [`Link::release`], which is called by whoever makes progress or goes to sleep, posts it
//! signaled. N small puts and a flush are N requests and one completion. Large requests, whose time on the wire matters, and
//! messages, which nobody flushes, are posted at once and signaled.
//!
//! So the last posted request is signaled, or one is held: nothing is in flight of which no completion will tell.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use transom_fabric::{Fault, Peer, TallyRef};

use crate::pair::Pair;
use crate::sending::{Posted, Request, Sending};
use crate::stock::Stock;
use crate::sys;

const OPENING: u8 = 0;
const READY: u8 = 1;
const BROKEN: u8 = 2;

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no room, or the connection does not stand yet.
    Again,
    /// The link is broken.
    Broken,
}

/// The connection to a peer.
pub(crate) struct Link {
    peer: Peer,
    state: AtomicU8,
    fault: OnceLock<String>,
    // Before the records: no registration ends while the device uses it.
    pub(crate) pair: Pair,
    sending: Mutex<Sending>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: a look.
        let state = self.state.load(Ordering::Relaxed);
        write!(f, "Link({}, {})", self.peer, ["opening", "ready", "broken"][usize::from(state)])
    }
}

impl Link {
    /// A connection that is being opened.
    pub(crate) fn new(peer: Peer, pair: Pair) -> Link {
        let (fault, sending) = (OnceLock::new(), Mutex::new(Sending::new(peer)));
        Link { peer, state: AtomicU8::new(OPENING), fault, pair, sending }
    }

    /// Whom it leads to.
    #[inline]
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// Both ends are connected: requests may be posted.
    pub(crate) fn open(&self) {
        let mut sending = self.sending.lock();
        // Relaxed: under the lock. A link that broke stays broken.
        if self.state.compare_exchange(OPENING, READY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            sending.open();
        }
    }

    /// Whether nothing can be posted before the peer has answered.
    pub(crate) fn is_opening(&self) -> bool {
        // Relaxed: whoever sees another state is told by `push` what it means.
        self.state.load(Ordering::Relaxed) == OPENING
    }

    /// Why nothing goes to this peer any more.
    pub(crate) fn fault(&self) -> Fault {
        Fault { peer: self.peer, reason: self.fault.get().cloned().unwrap_or_default() }
    }

    /// What was posted so far.
    pub(crate) fn posted(&self) -> Posted {
        self.sending.lock().posted()
    }

    /// Takes a request, counts its operation, and posts or holds it.
    pub(crate) fn push(&self, request: Request<'_>, stock: &Stock) -> Result<(), Refused> {
        let mut sending = self.sending.lock();
        if !self.admit(&mut sending, stock) {
            stock.discard(&request.local);
            // Relaxed: under the lock, as all that break it.
            let broken = self.state.load(Ordering::Relaxed) == BROKEN;
            return Err(if broken { Refused::Broken } else { Refused::Again });
        }
        if let Some(tally) = request.tally {
            tally.begin();
        }
        let hold = request.hold;
        sending.write(request);
        if hold {
            self.list(&mut sending, stock);
        } else {
            self.post_signaled(&mut sending, stock);
        }
        Ok(())
    }

    /// Takes a put whose bytes the request carries, and holds it; whether there was room. The path of most operations: inlined, and
    /// without a request that would be written twice.
    #[inline(always)]
    pub(crate) fn push_carried(
        &self,
        to: impl FnOnce() -> sys::Rdma,
        bytes: &[u8],
        tally: &TallyRef,
        stock: &Stock,
    ) -> bool {
        let mut sending = self.sending.lock();
        let room = self.admit(&mut sending, stock);
        if room {
            tally.begin();
            sending.write_carried(to(), bytes, tally);
            self.list(&mut sending, stock);
        }
        room
    }

    /// Makes room for one more request: what is held is posted. Whether there is.
    #[inline(always)]
    fn admit(&self, sending: &mut Sending, stock: &Stock) -> bool {
        if !sending.has_room() || !stock.enter() {
            return false;
        }
        if sending.is_held()
            && let Err(error) = sending.post(&self.pair)
        {
            stock.leave(1);
            self.break_down(sending, &error.to_string(), stock);
            return false;
        }
        true
    }

    /// The newest request is held: somebody is to release it.
    #[inline(always)]
    fn list(&self, sending: &mut Sending, stock: &Stock) {
        if !sending.listed {
            self.list_first(sending, stock);
        }
    }

    #[cold]
    fn list_first(&self, sending: &mut Sending, stock: &Stock) {
        sending.listed = stock.list(self.peer);
        if !sending.listed {
            self.post_signaled(sending, stock);
        }
    }

    /// Posts the newest request.
    fn post_signaled(&self, sending: &mut Sending, stock: &Stock) {
        sending.signal();
        if let Err(error) = sending.post(&self.pair) {
            self.break_down(sending, &error.to_string(), stock);
        }
    }

    /// Posts what is held, signaled.
    pub(crate) fn release(&self, stock: &Stock) {
        let mut sending = self.sending.lock();
        sending.listed = false;
        if sending.is_held() {
            self.post_signaled(&mut sending, stock);
        }
    }

    /// Request `number` is complete, and with it all before. With a reason it failed, and so will all after it.
    /// Completions of a link are told in their order.
    pub(crate) fn complete(&self, number: u32, failure: Option<&str>, stock: &Stock) {
        let mut sending = self.sending.lock();
        let count = sending.over(number);
        if count == 0 {
            return;
        }
        if let Some(reason) = failure {
            self.break_down(&mut sending, reason, stock);
        }
        for left in (0..count).rev() {
            if let Some(record) = sending.oldest() {
                let fault = failure.filter(|_| left == 0).map(|_| self.fault());
                stock.retire(record, fault.as_ref());
            }
        }
        stock.leave(count);
    }

    /// Nothing goes to this peer any more. What is in flight completes with errors.
    pub(crate) fn give_up(&self, reason: &str, stock: &Stock) {
        self.break_down(&mut self.sending.lock(), reason, stock);
    }

    #[cold]
    fn break_down(&self, sending: &mut Sending, reason: &str, stock: &Stock) {
        // The first reason tells what happened; later ones are its consequences.
        let _ = self.fault.set(reason.to_owned());
        // Relaxed: under the lock.
        if self.state.swap(BROKEN, Ordering::Relaxed) != BROKEN {
            sending.close();
            self.pair.abandon();
        }
        if let Some(record) = sending.take_held() {
            stock.leave(1);
            stock.retire(record, Some(&self.fault()));
        }
    }
}

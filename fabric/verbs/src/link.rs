//! The connection to one peer: its queue pair, the requests in flight in the order of their posts,
//! and its state.
//!
//! Requests complete in order, so one signaled completion covers all requests before it. When a put
//! arrives, it is unknown whether a flush follows. The newest small request is therefore *held*: it
//! is written but not posted. The next request first posts the held request, unsignaled. Without a
//! next request, [`Link::release`] posts the held request signaled; `progress` and `wait` call it.
//! N small puts and a flush are thus N requests, of which every 32nd and the last are signaled.
//! Three kinds of requests are posted signaled immediately: large ones, because their transfer time
//! matters, and messages and limits (`credits`), because no flush waits for them.
//!
//! A small put with an immediate is posted at once, because the target may wait for it while this
//! process computes, and, if it has bytes, *unsignaled*: a process that waits for a notice in
//! return need not handle a completion for each of its puts. A *run* is the sequence of such
//! requests between two calls in which a thread awaits completions ([`Link::request_completions`],
//! which `progress` calls and `progress_arrivals` does not). The first request of a run enters the
//! link in the list of links with unsignaled requests. If the last request of a run is unsignaled,
//! an empty write follows it, signaled. A program that flushes after each put, or after each group
//! of n puts, has runs of equal length. The n-th request of a run is therefore signaled if the
//! previous run had n requests, which saves the empty write.
//!
//! A thread that goes to sleep until completions has the device report those of all requests in
//! flight. Of the requests that another thread posts meanwhile, the first that lists a link is
//! signaled, and its completion ends the sleep.
//!
//! The invariant: the last posted request is signaled, or a request is held, or the link is listed
//! with an unsignaled request as its last one. In the third case the queue has room for the empty
//! write, since a request that fills the queue is signaled, and the completion queue has an entry
//! for it, reserved at the listing. A completion therefore covers every request in flight.
//!
//! The invariant does not hold for a broken link: the signaled request may be the one whose post
//! failed, and a device with an error on the queue pair may report no completion. `progress`
//! therefore ends the requests of a broken link in three steps:
//! 1. The queue pair moves to the error state. All completions until then are processed.
//! 2. The queue pair is reset. All completions until then are processed.
//! 3. [`Link::fail_in_flight`] fails the remaining requests, whose fate is unknown.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use transom_fabric::{Cause, Fault, Peer, Reason, TallyRef};

use crate::credits::Credits;
use crate::pair::Pair;
use crate::resources::{Local, Resources};
use crate::sending::{Bytes, Posted, Posting, Request, Sending};
use crate::sys;

const OPENING: u8 = 0;
const READY: u8 = 1;
const BROKEN: u8 = 2;

/// The reason why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no room, or the connection is not open yet.
    Again,
    /// The link is broken.
    Broken,
}

/// The connection to a peer.
pub(crate) struct Link {
    peer: Peer,
    state: AtomicU8,
    fault: OnceLock<Cause>,
    // Declared before the records: no registration may end while the device uses it.
    pub(crate) pair: Pair,
    pub(crate) credits: Credits,
    sending: Mutex<Sending>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: for display only.
        let state = self.state.load(Ordering::Relaxed);
        write!(f, "Link({}, {})", self.peer, ["opening", "ready", "broken"][usize::from(state)])
    }
}

impl Link {
    /// A connection that is being opened.
    pub(crate) fn new(peer: Peer, pair: Pair, credits: Credits) -> Link {
        let (fault, sending) = (OnceLock::new(), Mutex::new(Sending::new(peer)));
        Link { peer, state: AtomicU8::new(OPENING), fault, pair, credits, sending }
    }

    /// The peer.
    #[inline]
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// Marks the link as ready: both ends are connected.
    pub(crate) fn open(&self) {
        let mut sending = self.sending.lock();
        // Relaxed: under the lock. A broken link can't be repaired.
        if self.state.compare_exchange(OPENING, READY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            sending.open();
        }
    }

    /// Whether the connection is being opened, so that no request can be posted yet.
    pub(crate) fn is_opening(&self) -> bool {
        // Relaxed: `push` checks the state again under the lock.
        self.state.load(Ordering::Relaxed) == OPENING
    }

    /// Whether a message would find credit, or fail because the link is broken.
    pub(crate) fn takes_messages(&self) -> bool {
        self.is_broken() || self.credits.has_any()
    }

    /// Whether the connection is broken.
    pub(crate) fn is_broken(&self) -> bool {
        // Relaxed: `push` checks the state again under the lock.
        self.state.load(Ordering::Relaxed) == BROKEN
    }

    /// Whether a request would find no room now.
    pub(crate) fn is_full(&self) -> bool {
        // Relaxed: `push` checks the state again under the lock.
        self.state.load(Ordering::Relaxed) == READY && !self.sending.lock().has_room()
    }

    /// Whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.sending.lock().in_flight() == 0
    }

    /// The fault for which the link is broken.
    pub(crate) fn fault(&self) -> Fault {
        Fault::new(self.peer, self.fault.get().cloned().unwrap_or(Reason::BrokenConnection.into()))
    }

    /// The counts of posts so far.
    pub(crate) fn posted(&self) -> Posted {
        self.sending.lock().posted()
    }

    /// Accepts a request, counts its operation, and posts or holds it.
    pub(crate) fn push(&self, request: Request<'_>, resources: &Resources) -> Result<(), Refused> {
        let mut sending = self.sending.lock();
        if !self.admit(&mut sending, resources) {
            resources.discard(&request.local);
            // Relaxed: under the lock, like all stores that break the link.
            let broken = self.state.load(Ordering::Relaxed) == BROKEN;
            return Err(if broken { Refused::Broken } else { Refused::Again });
        }
        if let Some(tally) = request.tally {
            tally.begin();
        }
        let posting = request.posting;
        sending.write(request);
        match posting {
            Posting::Held => self.list_held(&mut sending, resources),
            Posting::Signaled => self.post_signaled(&mut sending, resources),
            Posting::Unsignaled => self.post_unsignaled(&mut sending, resources),
        }
        Ok(())
    }

    /// Writes the peer's next limit to the peer (see `credits`).
    pub(crate) fn renew(&self, resources: &Resources) -> Result<(), Refused> {
        let (element, place) = self.credits.renew().ok_or(Refused::Again)?;
        let (target, bytes) = (sys::Target { rdma: place }, Bytes::Element(element));
        let (opcode, local) = (sys::IBV_WR_RDMA_WRITE, Local::Unreported);
        self.push(
            Request {
                opcode,
                target,
                immediate: 0,
                solicited: false,
                bytes,
                posting: Posting::Signaled,
                tally: None,
                local,
            },
            resources,
        )?;
        self.credits.renewed();
        Ok(())
    }

    /// Accepts a put whose bytes are inline in the request, and holds the request; returns whether
    /// there was room. Most operations take this path, so the function is inlined and writes the
    /// request once.
    #[inline(always)]
    pub(crate) fn push_inline(
        &self,
        to: impl FnOnce() -> sys::Rdma,
        bytes: &[u8],
        tally: &TallyRef,
        resources: &Resources,
    ) -> bool {
        let mut sending = self.sending.lock();
        let room = self.admit(&mut sending, resources);
        if room {
            tally.begin();
            sending.write_inline(to(), bytes, tally);
            self.list_held(&mut sending, resources);
        }
        room
    }

    /// Reserves room for one more request, and posts the held request; returns whether both
    /// succeeded.
    #[inline(always)]
    fn admit(&self, sending: &mut Sending, resources: &Resources) -> bool {
        if !sending.has_room() || !resources.reserve() {
            return false;
        }
        if sending.is_held()
            && let Err(error) = sending.post(&self.pair)
        {
            resources.unreserve(1);
            self.break_down(sending, error, resources);
            return false;
        }
        true
    }

    /// Lists the link, so that `progress` releases the held request.
    #[inline(always)]
    fn list_held(&self, sending: &mut Sending, resources: &Resources) {
        if !sending.listed {
            self.list_held_first(sending, resources);
        }
    }

    #[cold]
    fn list_held_first(&self, sending: &mut Sending, resources: &Resources) {
        sending.listed = resources.list_held(self.peer);
        if !sending.listed || resources.are_completions_awaited() {
            self.post_signaled(sending, resources);
        }
    }

    /// Posts the held request signaled.
    fn post_signaled(&self, sending: &mut Sending, resources: &Resources) {
        sending.signal();
        self.post(sending, resources);
    }

    /// Posts the held request, unsignaled if it needs no signal. The first request of a run lists
    /// the link.
    fn post_unsignaled(&self, sending: &mut Sending, resources: &Resources) {
        let is_listed = sending.is_in_run() || resources.list_unsignaled(self.peer);
        let begins_awaited = !sending.is_in_run() && resources.are_completions_awaited();
        if !is_listed || sending.needs_signal() || begins_awaited {
            sending.signal();
        }
        self.post(sending, resources);
    }

    /// Posts the held request.
    fn post(&self, sending: &mut Sending, resources: &Resources) {
        if let Err(error) = sending.post(&self.pair) {
            self.break_down(sending, error, resources);
        }
    }

    /// Posts the held request signaled, if there is one.
    pub(crate) fn release(&self, resources: &Resources) {
        let mut sending = self.sending.lock();
        sending.listed = false;
        if sending.is_held() {
            self.post_signaled(&mut sending, resources);
        }
    }

    /// Ensures that the device reports the completions of all requests in flight: a request without
    /// bytes follows an unsignaled one. Called for a listed link, before a thread waits for
    /// completions.
    pub(crate) fn request_completions(&self, resources: &Resources) {
        let mut sending = self.sending.lock();
        sending.end_run();
        // Relaxed: under the lock.
        if self.state.load(Ordering::Relaxed) == READY && sending.is_unsignaled() {
            // It takes the reserved entry.
            sending.write_empty();
            self.post_signaled(&mut sending, resources);
        } else {
            resources.unreserve(1);
        }
    }

    /// Ends request `number` and all before it. With a `failure` request `number` failed, and the
    /// link breaks. Completions of a link are processed in order.
    pub(crate) fn complete(&self, number: u32, failure: Option<&Cause>, resources: &Resources) {
        let mut sending = self.sending.lock();
        let count = sending.ended_by(number);
        if count == 0 {
            return;
        }
        if let Some(reason) = failure {
            self.break_down(&mut sending, reason.clone(), resources);
        }
        for left in (0..count).rev() {
            if let Some(record) = sending.take_oldest() {
                let fault = failure.filter(|_| left == 0).map(|_| self.fault());
                resources.retire(record, fault.as_ref());
            }
        }
        resources.unreserve(count);
    }

    /// Breaks the link. `progress` then ends the requests in flight, step by step.
    pub(crate) fn give_up(&self, reason: impl Into<Cause>, resources: &Resources) {
        self.break_down(&mut self.sending.lock(), reason, resources);
    }

    /// Fails all requests in flight of a broken link. The queue pair was reset, so the device no
    /// longer uses their buffers.
    pub(crate) fn fail_in_flight(&self, resources: &Resources) {
        let mut sending = self.sending.lock();
        let (count, fault) = (sending.in_flight(), self.fault());
        for _ in 0..count {
            if let Some(record) = sending.take_oldest() {
                resources.retire(record, Some(&fault));
            }
        }
        resources.unreserve(count);
    }

    #[cold]
    fn break_down(&self, sending: &mut Sending, reason: impl Into<Cause>, resources: &Resources) {
        // Only the first reason is kept: later ones are its consequences.
        let _ = self.fault.set(reason.into());
        // Relaxed: under the lock.
        if self.state.swap(BROKEN, Ordering::Relaxed) != BROKEN {
            sending.close();
            self.pair.set_error();
            resources.list_broken(self.peer);
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unsignaled;

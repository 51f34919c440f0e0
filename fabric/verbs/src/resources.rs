//! Resources that all connections share: buffers, credits, and room in the completion queue. Also
//! ends requests that completed or failed.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering, fence};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::{ArrayQueue, SegQueue};
use transom_fabric::{Fault, Peer, Span, TallyRef, Wake};

use crate::credits::Flow;
use crate::device::Registration;
use crate::pool::{Block, Pools};

/// The record of a request, kept until it completes.
#[derive(Debug)]
pub(crate) struct Record {
    /// The tally that counts the operation; `None` for messages and limits.
    pub(crate) tally: Option<TallyRef>,
    /// The local bytes.
    pub(crate) local: Local,
}

/// The owner of a request's local bytes, and their handling at completion.
#[derive(Debug)]
pub(crate) enum Local {
    /// Bytes inside the request, or the caller's bytes under a permanent registration: no step is
    /// needed.
    Nothing,
    /// No bytes of an operation: a write of the peer's next limit (`credits`), or the empty write
    /// of [`Link::request_completions`](crate::link::Link::request_completions). Its failure breaks
    /// the connection, which fails the operations on it, so the write itself is not reported.
    Unreported,
    /// A buffer of the pools; at completion its first bytes are copied to the span.
    Block(Block, Span),
    /// A buffer of the pools; at completion its first bytes are scattered over the spans.
    Scattered(Block, Box<[Span]>),
    /// The caller's bytes: their registrations, which last at least until completion, and a
    /// reference that counts such requests.
    Registered(Box<[Arc<Registration>]>, Arc<()>),
}

/// The resources that all connections share.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) pools: Pools,
    pub(crate) flow: Flow,
    /// The number of further requests that may be in flight on all connections. The completion
    /// queue must have a free entry for each request in flight, because each request that fails
    /// takes one.
    room: AtomicI64,
    /// Whether a message found no room and no request has completed since.
    awaits_room: AtomicBool,
    /// Number of threads that sleep until completions of this process's requests.
    pub(crate) awaiting: AtomicU32,
    /// Peers whose links hold a request.
    with_held: ArrayQueue<Peer>,
    /// Peers whose links may have an unsignaled request as their last one. For each, an entry of
    /// the completion queue is reserved, for the empty write behind this request.
    with_unsignaled: ArrayQueue<Peer>,
    /// Peers whose links have broken, until `progress` takes them.
    broken: SegQueue<Peer>,
    /// Ends the sleeps of threads that wait for completions.
    pub(crate) wake: Wake,
    /// The first unreachable peer.
    lost: OnceLock<Fault>,
}

/// Most links with a held request at a time; further links hold none.
const MOST_WITH_HELD: usize = 1024;
/// Most links that may have unsignaled requests as their last ones; on further links each request
/// is signaled.
const MOST_WITH_UNSIGNALED: usize = 1024;

impl Resources {
    pub(crate) fn new(pools: Pools, flow: Flow, room: u32, wake: Wake) -> Resources {
        Resources {
            pools,
            flow,
            room: AtomicI64::new(i64::from(room)),
            awaits_room: AtomicBool::new(false),
            awaiting: AtomicU32::new(0),
            with_held: ArrayQueue::new(MOST_WITH_HELD),
            with_unsignaled: ArrayQueue::new(MOST_WITH_UNSIGNALED),
            broken: SegQueue::new(),
            wake,
            lost: OnceLock::new(),
        }
    }

    /// Reserves an entry of the completion queue for one request; returns whether there is one.
    #[inline]
    pub(crate) fn reserve(&self) -> bool {
        // Relaxed for both operations: the count orders no other memory.
        let free = self.room.fetch_sub(1, Ordering::Relaxed) > 0;
        if !free {
            self.room.fetch_add(1, Ordering::Relaxed);
        }
        free
    }

    /// Frees the reserved entries of `count` requests that are over.
    #[inline]
    pub(crate) fn unreserve(&self, count: u32) {
        // Relaxed: the count orders no other memory.
        self.room.fetch_add(i64::from(count), Ordering::Relaxed);
    }

    /// Notes that a message found no room, so that the next completion of this process's requests
    /// ends sleeps.
    #[cold]
    pub(crate) fn await_room(&self) {
        // Relaxed: the thread that sends the message again sleeps later than this. A thread that
        // processes completions meanwhile has made room; the sleep then lasts to its limit.
        self.awaits_room.store(true, Ordering::Relaxed);
    }

    /// Whether a message waits for room.
    pub(crate) fn awaits_room(&self) -> bool {
        // Relaxed: as in `await_room`.
        self.awaits_room.load(Ordering::Relaxed)
    }

    /// Notes that requests have completed.
    #[inline]
    pub(crate) fn made_room(&self) {
        // Relaxed: as in `await_room`.
        if self.awaits_room.load(Ordering::Relaxed) {
            self.awaits_room.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a thread sleeps until completions. Called after the link of a request was listed: a
    /// thread that goes to sleep later finds the link in the list.
    pub(crate) fn are_completions_awaited(&self) -> bool {
        // SeqCst: pairs with the fence in `Open::sleep`. Relaxed: the fences order it.
        fence(Ordering::SeqCst);
        self.awaiting.load(Ordering::Relaxed) > 0
    }

    /// Lists a peer whose link holds a request; returns whether there was room.
    pub(crate) fn list_held(&self, peer: Peer) -> bool {
        self.with_held.push(peer).is_ok()
    }

    /// Takes the listed peers out of the list. Peers that other threads list meanwhile may remain.
    pub(crate) fn take_held(&self) -> impl Iterator<Item = Peer> {
        (0..self.with_held.len()).map_while(|_| self.with_held.pop())
    }

    /// Lists a peer whose link begins a run of unsignaled requests, and reserves an entry of the
    /// completion queue; returns whether there was room for both.
    pub(crate) fn list_unsignaled(&self, peer: Peer) -> bool {
        if !self.reserve() {
            return false;
        }
        let listed = self.with_unsignaled.push(peer).is_ok();
        if !listed {
            self.unreserve(1);
        }
        listed
    }

    /// Takes the listed peers out of the list, as `take_held` does.
    #[inline]
    pub(crate) fn take_unsignaled(&self) -> impl Iterator<Item = Peer> {
        (0..self.with_unsignaled.len()).map_while(|_| self.with_unsignaled.pop())
    }

    /// Lists a peer whose link has broken. No event may follow, so this ends a sleep.
    pub(crate) fn list_broken(&self, peer: Peer) {
        self.broken.push(peer);
        self.wake.end_sleeps();
    }

    /// Takes out the peers whose links have broken since the last call.
    #[inline]
    pub(crate) fn take_broken(&self) -> impl Iterator<Item = Peer> {
        std::iter::from_fn(|| if self.broken.is_empty() { None } else { self.broken.pop() })
    }

    /// Records an unreachable peer; only the first fault is kept.
    pub(crate) fn record_lost(&self, fault: &Fault) {
        let _ = self.lost.set(fault.clone());
    }

    /// The first unreachable peer.
    pub(crate) fn lost(&self) -> Option<&Fault> {
        self.lost.get()
    }

    /// Frees the buffer of a request that was not accepted.
    pub(crate) fn discard(&self, local: &Local) {
        if let Local::Block(block, _) | Local::Scattered(block, _) = local {
            self.pools.give_back(*block);
        }
    }

    /// Frees a buffer; unless the request failed, first copies the buffer's bytes to `places`.
    #[inline]
    fn unload(&self, block: Block, places: &[Span], failed: bool) {
        let mut from = self.pools.buffer(block);
        for to in places.iter().filter(|_| !failed) {
            // SAFETY: the request is over, so the buffer is ours; it is at least as long as its
            // result (see `port`). The caller that requested the result promised that its buffers
            // are valid until the tally falls.
            unsafe {
                std::ptr::copy_nonoverlapping(from, to.as_ptr(), to.len());
                from = from.add(to.len());
            }
        }
        self.pools.give_back(block);
    }

    /// Ends a request that completed or failed. Its use of registrations ends before the tally
    /// falls.
    #[inline]
    pub(crate) fn retire(&self, record: Record, fault: Option<&Fault>) {
        match record.local {
            Local::Nothing => {}
            Local::Unreported => return,
            Local::Registered(registrations, count) => drop((registrations, count)),
            Local::Block(block, to) => self.unload(block, &[to], fault.is_some()),
            Local::Scattered(block, to) => self.unload(block, &to, fault.is_some()),
        }
        match (record.tally, fault) {
            (Some(tally), None) => tally.finish(),
            (Some(tally), Some(fault)) => tally.fail(fault),
            (None, None) => {}
            (None, Some(fault)) => self.record_lost(fault),
        }
    }
}

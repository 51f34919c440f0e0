//! What all connections draw from: buffers, and room in the completion queue; and what is done when a request is over.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crossbeam_queue::ArrayQueue;
use transom_fabric::{Fault, Peer, Span, TallyRef};

use crate::device::Registration;
use crate::pool::{Block, Pools};

/// What a request leaves behind until it completes.
#[derive(Debug)]
pub(crate) struct Record {
    /// Counts the operation; `None` for messages.
    pub(crate) tally: Option<TallyRef>,
    /// The local bytes.
    pub(crate) local: Local,
}

/// Whose the local bytes of a request are.
#[derive(Debug)]
pub(crate) enum Local {
    /// The request's own, or the caller's under a registration that stays.
    Nothing,
    /// A buffer of the pools, and where its first bytes go when the request is complete.
    Block(Block, Span),
    /// A buffer of the pools whose first bytes go to these places, one after another.
    Scattered(Block, Box<[Span]>),
    /// The caller's, registered for this request.
    Registered(Box<[Registration]>),
}

/// Buffers, and room for completions.
#[derive(Debug)]
pub(crate) struct Stock {
    pub(crate) pools: Pools,
    /// How many more requests may be in flight on all connections: each may complete with an entry of its own, if only
    /// because it failed, and the queue must have room for all.
    room: AtomicI64,
    /// Peers whose links hold a request.
    holders: ArrayQueue<Peer>,
    lost: OnceLock<Fault>,
}

/// Links with a held request that are remembered; further ones hold none.
const HOLDERS: usize = 1024;

impl Stock {
    pub(crate) fn new(pools: Pools, room: u32) -> Stock {
        Stock { pools, room: AtomicI64::new(i64::from(room)), holders: ArrayQueue::new(HOLDERS), lost: OnceLock::new() }
    }

    /// A request begins; whether there is room for it.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        // Relaxed both: a count that orders nothing.
        let free = self.room.fetch_sub(1, Ordering::Relaxed) > 0;
        if !free {
            self.room.fetch_add(1, Ordering::Relaxed);
        }
        free
    }

    /// Requests are over.
    #[inline]
    pub(crate) fn leave(&self, count: u32) {
        // Relaxed: as above.
        self.room.fetch_add(i64::from(count), Ordering::Relaxed);
    }

    /// Remembers a peer whose link holds a request; whether there was room for it.
    pub(crate) fn list(&self, peer: Peer) -> bool {
        self.holders.push(peer).is_ok()
    }

    /// The peers whose links hold a request, as many as there are now: others may go on adding.
    pub(crate) fn listed(&self) -> impl Iterator<Item = Peer> {
        (0..self.holders.len()).map_while(|_| self.holders.pop())
    }

    /// A peer waits in vain; the first one is told of.
    pub(crate) fn lose(&self, fault: &Fault) {
        let _ = self.lost.set(fault.clone());
    }

    /// The first peer that waits in vain.
    pub(crate) fn lost(&self) -> Option<&Fault> {
        self.lost.get()
    }

    /// A request was not accepted.
    pub(crate) fn discard(&self, local: &Local) {
        if let Local::Block(block, _) | Local::Scattered(block, _) = local {
            self.pools.give_back(*block);
        }
    }

    /// A buffer's request is over: unless it failed, its bytes go to `places`.
    #[inline]
    fn empty(&self, block: Block, places: &[Span], failed: bool) {
        let mut from = self.pools.buffer(block);
        for to in places.iter().filter(|_| !failed) {
            // SAFETY: the request is over, so that its buffer is ours; it was at least as long as its result (see
            // `port`). Whoever asked for the result promised that its places stay until the tally falls.
            unsafe {
                std::ptr::copy_nonoverlapping(from, to.as_ptr(), to.len());
                from = from.add(to.len());
            }
        }
        self.pools.give_back(block);
    }

    /// A request is complete, or failed. Its registrations end before its tally falls.
    #[inline]
    pub(crate) fn retire(&self, record: Record, fault: Option<&Fault>) {
        match record.local {
            Local::Nothing => {}
            Local::Registered(registrations) => drop(registrations),
            Local::Block(block, to) => self.empty(block, &[to], fault.is_some()),
            Local::Scattered(block, to) => self.empty(block, &to, fault.is_some()),
        }
        match (record.tally, fault) {
            (Some(tally), None) => tally.finish(),
            (Some(tally), Some(fault)) => tally.fail(fault),
            (None, None) => {}
            (None, Some(fault)) => self.lose(fault),
        }
    }
}

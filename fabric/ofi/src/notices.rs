//! Notices that puts carry: writes with remote CQ data, which add an entry to the target's
//! completion queue (man fi_rma, fi_cq).
//!
//! **Flow control.** An overflow of a completion queue is fatal (man fi_cq), and a target that
//! computes reads no entries. Half of each queue is therefore divided among the ranks of the job:
//! an origin has at most its *share* of unread entries in the queue of a target. The target counts
//! the notices of each origin that it has taken, in a table in registered memory. An origin counts
//! the notices that it has sent. When half of its share is used, it reads its word of the table, by
//! one read, in which the target's CPU takes no part over a device. The target need not know how to
//! reach the origin.
//!
//! **No deadlock:** a read needs no room in a completion queue of the target. A target counts
//! notices in `progress`, which waits for nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use transom_fabric::{FabricError, Handler, Immediate, Memory, Peer, PeerMap};

use crate::endpoint::{Endpoint, Registration};
use crate::remote::OfiRemote;

/// Most unread notices of one origin at a target.
const MOST: usize = 128;
/// Length of a counter in bytes.
const WORD: usize = size_of::<u64>();

/// The notices of one endpoint, in both directions.
#[derive(Debug)]
pub(crate) struct Notices {
    me: Peer,
    /// Most unread notices of an origin at a target, the same at all ranks.
    share: u64,
    peers: PeerMap<(Peer, Arc<Line>)>,
    /// Held while completions are read and handled, so that notices reach the handler in their
    /// order, and [`Port::settle`](transom_fabric::Port::settle) can wait for other threads.
    taking: Mutex<()>,
    /// The registration of `taken`. Declared first, because fields drop in order.
    registration: Registration,
    /// The number of notices taken from each origin.
    taken: Memory,
}

/// The location of a rank's table, as a part of the rank's address; zeros: the rank has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) key: u64,
    pub(crate) base: u64,
}

/// The notices from this process to a peer.
#[derive(Debug)]
pub(crate) struct Line {
    /// This process's word in the peer's table.
    pub(crate) word: OfiRemote,
    /// Most unread notices.
    share: u64,
    /// The number of notices sent.
    sent: AtomicU64,
    /// The number of notices that the peer has taken, by the last read of the word.
    taken: AtomicU64,
    /// Whether a read of the word is in flight.
    reading: AtomicBool,
}

/// The share of each of `ranks` origins in a completion queue; `None` if it has too few entries.
fn share(entries: usize, ranks: usize) -> Option<usize> {
    Some((entries / 2 / ranks.max(1)).min(MOST)).filter(|&share| share > 0)
}

impl Notices {
    /// The notices of rank `me`, whose queue has `entries`; `None` if they are too few for a job of
    /// this number of ranks.
    pub(crate) fn new(
        endpoint: &Endpoint,
        me: Peer,
        ranks: usize,
        entries: usize,
    ) -> Result<Option<Notices>, FabricError> {
        let Some(share) = share(entries, ranks) else { return Ok(None) };
        let taken = Memory::private(ranks.max(1) * WORD);
        // SAFETY: the memory is a field that drops after its registration.
        let registration = unsafe { endpoint.register(taken.as_ptr(), taken.len()) }?;
        let (peers, taking) = (PeerMap::new(), Mutex::default());
        Ok(Some(Notices { me, share: share as u64, peers, taking, registration, taken }))
    }

    /// The location of the table for peers. `addresses`: peers address regions by addresses.
    pub(crate) fn table(&self, addresses: bool) -> Table {
        Table { key: self.registration.key(), base: if addresses { self.taken.as_ptr() as u64 } else { 0 } }
    }

    /// Lets notices go to a peer with this table.
    pub(crate) fn meet(&self, peer: Peer, table: Table) {
        let line = || {
            let base = table.base + (self.me.index() * WORD) as u64;
            let word = OfiRemote { peer, key: table.key, base, len: WORD as u64 };
            let (sent, taken, reading) = Default::default();
            Ok((peer, Arc::new(Line { word, share: self.share, sent, taken, reading })))
        };
        let met = self.peers.get_or_try_insert(peer, line);
        met.map_or_else(|never: std::convert::Infallible| match never {}, drop);
    }

    /// The notices to a peer; `None` if the peer was not met.
    pub(crate) fn line(&self, peer: Peer) -> Option<&Arc<Line>> {
        self.peers.get(peer).map(|(_, line)| line)
    }

    /// The data of an entry.
    pub(crate) fn data(&self, immediate: Immediate) -> u64 {
        u64::from(self.me.0) << 32 | u64::from(immediate.number())
    }

    /// Hands the notice of an entry to the handler. Returns false if no rank of the job has sent
    /// it.
    pub(crate) fn arrived(&self, data: u64, handler: &impl Handler) -> bool {
        let [from, number] = [data >> 32, data & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or(0));
        let (from, Some(immediate)) = (Peer(from), Immediate::new(number)) else { return false };
        let at = from.index() * WORD;
        if at >= self.taken.len() {
            return false;
        }
        handler.immediate(from, immediate);
        // Relaxed: the origin reads the word as a number by itself. The entry has left the queue.
        self.taken.word64(at).fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Excludes other threads from completions.
    pub(crate) fn take(&self) -> MutexGuard<'_, ()> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Notices::take`]; `None` if another thread handles completions.
    pub(crate) fn try_take(&self) -> Option<MutexGuard<'_, ()>> {
        match self.taking.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Line {
    /// Counts a notice to send; returns false if the share is used.
    pub(crate) fn take(&self) -> bool {
        // Relaxed, here and below: numbers that order no other memory.
        let limit = self.taken.load(Ordering::Relaxed) + self.share;
        let next = |sent: u64| (sent < limit).then_some(sent + 1);
        self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Counts back a notice that was not sent.
    pub(crate) fn put_back(&self) {
        self.sent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether half of the share is used, as far as this process knows, and the caller is to read
    /// the word now. The read ends by [`Line::read`].
    pub(crate) fn begins_read(&self) -> bool {
        let (sent, taken) = (self.sent.load(Ordering::Relaxed), self.taken.load(Ordering::Relaxed));
        sent.saturating_sub(taken) * 2 >= self.share && !self.reading.swap(true, Ordering::Relaxed)
    }

    /// Ends a read of the word; `None`: the read has failed, or was not posted.
    pub(crate) fn read(&self, taken: Option<u64>) {
        if let Some(taken) = taken {
            self.taken.fetch_max(taken, Ordering::Relaxed);
        }
        self.reading.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_ranks_take_at_most_half_of_the_queue() {
        for (entries, ranks) in [(32_768, 2), (32_768, 128), (32_768, 129), (4096, 2048), (300, 7)] {
            let share = share(entries, ranks).expect("room");
            assert!(share * ranks <= entries / 2 && (1..=MOST).contains(&share), "{entries} of {ranks}: {share}");
        }
        assert_eq!((share(32_768, 2), share(32_768, 1024), share(4096, 2049)), (Some(128), Some(16), None));
    }

    /// An origin whose share is used sends again when the target has taken notices, and one read of
    /// the target's word is in flight at a time.
    #[test]
    fn a_share_is_free_again_once_its_notices_are_taken() {
        let word = OfiRemote { peer: Peer(1), key: 0, base: 0, len: 8 };
        let (sent, taken, reading) = Default::default();
        let line = Line { word, share: 4, sent, taken, reading };
        assert!(line.take() && !line.begins_read(), "less than half");
        assert!(line.take() && line.begins_read() && !line.begins_read());
        assert!(line.take() && line.take() && !line.take());
        line.read(Some(1));
        assert!(line.take() && !line.take() && line.begins_read());
        line.read(None);
        assert!(!line.take() && line.begins_read(), "a failed read is repeated");
        line.put_back();
        assert!(line.take() && !line.take());
    }
}

//! Notices that puts carry: writes with remote CQ data, which add an entry to the target's
//! completion queue (man fi_rma, fi_cq).
//!
//! **Flow control.** An overflow of a queue is fatal (man fi_cq, `Rules::room_for_notices`), and a
//! target that computes reads no entries. Half of the target's shortest queue is therefore divided
//! among the ranks of the job: an origin has at most its *share* of unread entries there. The
//! target states the share in its address. A table in the target's registered memory has the number
//! of notices that the target has taken from each origin. An origin counts the notices that it has
//! sent. When half of its share is used, the origin reads its word of the table. If the device
//! performs reads (`cxi`), the target's CPU takes no part in the read. The target need not know how
//! to reach the origin.
//!
//! **Failures.** A notice whose put has failed is subtracted from the origin's count, because the
//! target will not count the notice. If the notice has arrived nevertheless, the target's count may
//! exceed the origin's, and a read then raises the origin's count. If a read fails, the next post
//! without share returns the error instead of waiting for ever, and the post after it reads again.
//!
//! **No deadlock:** a read needs no room in a queue of the target. A target counts notices in
//! `progress`, which waits for nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use transom_fabric::{FabricError, Fault, Handler, Immediate, Immediates, Memory, Peer, PeerMap};

use crate::carrying::Entry;
use crate::endpoint::{Endpoint, Registration};
use crate::remote::OfiRemote;

/// The largest share.
const MOST: usize = 128;
/// The smallest share. With less, each notice would wait for a read and for the target's CPU, which
/// takes longer than a device that counts.
const LEAST: usize = 4;
/// Length of a counter in bytes.
const WORD: usize = size_of::<u64>();

/// The notices of one endpoint, in both directions.
#[derive(Debug)]
pub(crate) struct Notices {
    me: Peer,
    /// The data of an entry.
    entry: Entry,
    /// Most unread notices of an origin at this process.
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

/// The location of a rank's table and the share of each origin, as a part of the rank's address. A
/// rank without a table has no share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) key: u64,
    pub(crate) base: u64,
    pub(crate) share: u64,
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
    /// Why the last read has failed, until a post returns it.
    fault: Mutex<Option<Fault>>,
}

/// The share of each of `ranks` origins in a queue; `None` if it has too few entries.
pub(crate) fn share(entries: usize, ranks: usize) -> Option<u64> {
    let share = (entries / 2 / ranks.max(1)).min(MOST);
    (share >= LEAST).then_some(share as u64)
}

impl Notices {
    /// The notices of rank `me` of `ranks`, of which each has this share in the queues of `me`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        me: Peer,
        (ranks, share): (usize, u64),
        entry: Entry,
    ) -> Result<Notices, FabricError> {
        let taken = Memory::private(ranks.max(1) * WORD);
        // SAFETY: the memory is a field that drops after its registration.
        let registration = unsafe { endpoint.register(taken.as_ptr(), taken.len()) }?;
        let (peers, taking) = (PeerMap::new(), Mutex::default());
        Ok(Notices { me, entry, share, peers, taking, registration, taken })
    }

    /// The immediates of a provider whose writes follow earlier writes of at most `follow` bytes,
    /// for puts of at most `longest` bytes.
    pub(crate) fn immediates(&self, follow: usize, longest: usize) -> Immediates {
        Immediates { bits: self.entry.bits(), follow: if follow < longest { follow } else { usize::MAX } }
    }

    /// The table for peers. `addresses`: peers address regions by addresses.
    pub(crate) fn table(&self, addresses: bool) -> Table {
        let base = if addresses { self.taken.as_ptr() as u64 } else { 0 };
        Table { key: self.registration.key(), base, share: self.share }
    }

    /// Permits notices to a peer, if the peer has a table.
    pub(crate) fn meet(&self, peer: Peer, table: Table) {
        if table.share == 0 {
            return;
        }
        let line = || {
            let base = table.base + (self.me.index() * WORD) as u64;
            let word = OfiRemote { peer, key: table.key, base, len: WORD as u64 };
            Ok((peer, Arc::new(Line::new(word, table.share))))
        };
        let met = self.peers.get_or_try_insert(peer, line);
        met.map_or_else(|never: std::convert::Infallible| match never {}, drop);
    }

    /// The notices to a peer; `None` if the peer takes none.
    pub(crate) fn line(&self, peer: Peer) -> Option<&Arc<Line>> {
        self.peers.get(peer).map(|(_, line)| line)
    }

    /// Subtracts a notice whose put has failed from the count of its peer.
    pub(crate) fn put_back(&self, peer: Peer) {
        if let Some(line) = self.line(peer) {
            line.put_back();
        }
    }

    /// The data of an entry.
    pub(crate) fn data(&self, immediate: Immediate) -> u64 {
        self.entry.data(self.me, immediate)
    }

    /// Hands the notice of an entry to the handler. Returns false if no rank of the job has sent
    /// it.
    pub(crate) fn arrived(&self, data: u64, handler: &impl Handler) -> bool {
        let Some((from, immediate)) = self.entry.parsed(data) else { return false };
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
    fn new(word: OfiRemote, share: u64) -> Line {
        let (sent, taken, reading, fault) = Default::default();
        Line { word, share, sent, taken, reading, fault }
    }

    /// Counts a notice to send; returns false if the share is used.
    pub(crate) fn take(&self) -> bool {
        // Relaxed, here and below: numbers that order no other memory.
        let limit = self.taken.load(Ordering::Relaxed) + self.share;
        let next = |sent: u64| (sent < limit).then_some(sent + 1);
        self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Subtracts a notice that was not sent, or whose put has failed.
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
            // The peer has counted notices that were subtracted here.
            self.sent.fetch_max(taken, Ordering::Relaxed);
            self.take_fault();
        }
        self.reading.store(false, Ordering::Relaxed);
    }

    /// Keeps the fault of a read for the next post without share.
    pub(crate) fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// The fault of the last read. A later call gives none before another read has failed.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_ranks_take_at_most_half_of_the_queue() {
        for (entries, ranks) in [(256, 2), (32_768, 128), (32_768, 129), (256, 32), (300, 7)] {
            let share = usize::try_from(share(entries, ranks).expect("room")).expect("few");
            assert!(share * ranks <= entries / 2 && (LEAST..=MOST).contains(&share), "{entries} of {ranks}: {share}");
        }
        assert_eq!([(256, 1), (256, 2), (256, 32)].map(|(most, ranks)| share(most, ranks)), [128, 64, 4].map(Some));
        assert_eq!((share(256, 33), share(0, 2)), (None, None));
    }

    /// An origin whose share is used sends again when the target has taken notices, and one read of
    /// the target's word is in flight at a time.
    #[test]
    fn a_share_is_free_again_once_its_notices_are_taken() {
        let word = OfiRemote { peer: Peer(1), key: 0, base: 0, len: 8 };
        let line = Line::new(word, 4);
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

    /// A notice that has arrived although its put has failed takes room in the peer's queue. The
    /// share is exceeded only until the peer has counted the notice.
    #[test]
    fn a_failed_notice_that_has_arrived_is_counted_again() {
        let line = Line::new(OfiRemote { peer: Peer(1), key: 0, base: 0, len: 8 }, 4);
        for _ in 0..4 {
            assert!(line.take());
            line.put_back();
        }
        line.read(Some(4));
        assert_eq!((0..9).filter(|_| line.take()).count(), 4, "no more than the share");
    }
}

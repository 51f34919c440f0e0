//! Credits: a message is sent only if its receiver has posted a receive for it. A message without a
//! receive would be refused and retried by the devices (receiver not ready), and would delay all
//! later requests of its connection, RDMA writes too.
//!
//! Receives are shared by all connections of a process, in two parts: one receive for each
//! connection, and the others, which connections borrow ([`Flow`]). The *credit window* of a
//! connection, which has nothing to do with windows of MPI, is its own receive and those that it
//! has borrowed. The size of the credit window limits the number of messages that the peer has sent
//! and this process has not taken. Both ends count messages from the start of the connection. The
//! sender sends message number n if n is below its *limit*. The first limit comes with the peer's
//! hello. As soon as the receiver has taken at least half of a credit window, it writes the next
//! limit into the sender's [`Cell`], by an RDMA write of 8 bytes.
//!
//! **No deadlock:**
//! 1. A limit needs no receive and no CPU of the peer, only room in the queues. Every request in
//!    these queues ends by the devices alone, because each message among them has its receive.
//! 2. A receiver posts the receive of a message again in `progress`, which waits for nothing: a
//!    post of a handler never blocks, and a limit is written later if the queue is full.
//! 3. Each connection has a receive that no other connection can take. A sender without credit has
//!    therefore sent a message whose receipt raises its limit. If the peer makes no progress or has
//!    ended, the sender waits as for a full queue, and other connections go on.
//! 4. No completion announces a limit. A process with a refused message therefore sleeps at most
//!    [`NAP`] at a time.
//!
//! Credit windows adapt. Each message states whether a message of its sender was refused since the
//! previous one. If so, the receiver doubles the credit window, as far as the share rule of
//! `transom_fabric::share` allows. If not, and fewer receives are free than the credit window has,
//! the credit window returns one receive. The credit window also doubles when a limit becomes due,
//! if as many receives as it has are free afterwards. A busy connection then writes fewer limits,
//! and a sender whose messages are taken in time keeps more than [`WAKE_AT`] credits, so that it
//! wakes no thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use transom_fabric::{FabricError, Peer, share};

use crate::address::Grant;
use crate::device::Device;
use crate::pool::Pool;
use crate::sys;

/// The longest sleep of a process in which a message waits for credit.
pub(crate) const NAP: Duration = Duration::from_micros(500);
/// Largest credit window: a connection never has more messages in flight, because its queue is no
/// longer.
const MAX_CREDITS: u32 = 64;
/// Most receives that a new connection borrows.
const MAX_FIRST_BORROWED: u32 = 15;
/// A new connection borrows at most 1/`SHARE_OF_NEW` of the free receives.
const SHARE_OF_NEW: u32 = 4;
/// A sender wakes the receiver when this number of credits is left, which is half of the usual
/// credit window, and again when none is left.
const WAKE_AT: u64 = 8;
/// Number of cells that are registered at a time: a page of cells.
const CELLS_OF_PAGE: u32 = 256;
/// Length of a cell in bytes.
const CELL: usize = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flow control of all connections of a process: the receives that connections borrow, and the
/// peers to which messages were refused.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The number of receives that no connection has borrowed.
    free: AtomicU32,
    /// The peers to which messages were refused.
    refused: Mutex<Vec<Peer>>,
    /// Whether `refused` has a peer, readable without the lock.
    has_refused: AtomicBool,
}

impl Flow {
    /// `free`: the number of receives that connections may borrow.
    pub(crate) fn new(free: u32) -> Flow {
        Flow { free: AtomicU32::new(free), refused: Mutex::default(), has_refused: AtomicBool::new(false) }
    }

    /// Borrows up to `most` receives for a connection that has borrowed `held` before; returns the
    /// number of receives that it got.
    fn borrow(&self, most: u32, held: u32) -> u32 {
        // Relaxed: the count orders no other memory.
        let one = |more: &u32| {
            let take = |free: u32| share::allows((held + more) as usize, free as usize).then(|| free - 1);
            self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        };
        u32::try_from((0..most).take_while(one).count()).unwrap_or(0)
    }

    fn give_back(&self, count: u32) {
        // Relaxed: as in `borrow`.
        self.free.fetch_add(count, Ordering::Relaxed);
    }

    /// The number of receives that no connection has borrowed.
    pub(crate) fn free(&self) -> u32 {
        // Relaxed: a hint.
        self.free.load(Ordering::Relaxed)
    }

    /// Lists a peer to which a message was refused.
    #[cold]
    pub(crate) fn refuse(&self, peer: Peer) {
        let mut refused = lock(&self.refused);
        refused.push(peer);
        // Relaxed: the thread that was refused sleeps later than this, or is seen at the next nap.
        self.has_refused.store(true, Ordering::Relaxed);
    }

    /// Whether a message waits for credit.
    #[inline]
    pub(crate) fn has_refused(&self) -> bool {
        // Relaxed: as in `refuse`.
        self.has_refused.load(Ordering::Relaxed)
    }

    /// Unlists the peers for which `may_send` is true; returns whether there were any.
    #[cold]
    pub(crate) fn relieve(&self, may_send: impl Fn(Peer) -> bool) -> bool {
        let mut refused = lock(&self.refused);
        let before = refused.len();
        refused.retain(|peer| !may_send(*peer));
        // Relaxed: as in `refuse`, under the lock.
        self.has_refused.store(!refused.is_empty(), Ordering::Relaxed);
        refused.len() < before
    }
}

/// Registered memory for the cells of connections.
#[derive(Debug)]
pub(crate) struct Cells {
    device: Arc<Device>,
    /// The memory that was registered last; earlier memory has no free cell.
    newest: Mutex<Option<Arc<Pool>>>,
}

/// Two words of a connection: this process's limit, which the peer's device writes, and the peer's
/// limit, which this process's device reads to write it to the peer.
#[derive(Debug)]
struct Cell {
    pool: Arc<Pool>,
    index: u32,
}

impl Cells {
    pub(crate) fn new(device: &Arc<Device>) -> Cells {
        Cells { device: Arc::clone(device), newest: Mutex::default() }
    }

    fn cell(&self) -> Result<Cell, FabricError> {
        let mut newest = lock(&self.newest);
        if let Some(pool) = newest.as_ref()
            && let Some(index) = pool.take()
        {
            return Ok(Cell { pool: Arc::clone(pool), index });
        }
        let pool = Arc::new(Pool::new(&self.device, CELLS_OF_PAGE, CELL)?);
        *newest = Some(Arc::clone(&pool));
        let index = pool.take().unwrap_or(0);
        Ok(Cell { pool, index })
    }
}

impl Cell {
    /// This process's limit. Devices write aligned words whole, so a load sees no part of a limit.
    fn own(&self) -> &AtomicU64 {
        self.pool.word(self.index, 0)
    }

    /// The peer's limit.
    fn peers(&self) -> &AtomicU64 {
        self.pool.word(self.index, 1)
    }
}

/// The credit for one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// Whether a message was refused since the last one that was sent.
    pub(crate) was_refused: bool,
    /// The number of further credits.
    left: u64,
}

impl Credit {
    /// Whether the message is to wake the receiver, so that it takes its messages and renews the
    /// credit.
    pub(crate) fn wakes_receiver(self) -> bool {
        [0, WAKE_AT].contains(&self.left)
    }
}

/// The credits of one connection in both directions.
#[derive(Debug)]
pub(crate) struct Credits {
    cell: Cell,
    /// The number of messages sent.
    sent: AtomicU64,
    /// Whether a message was refused since the last one that was sent.
    refused: AtomicBool,
    /// Whether the flow lists the peer.
    listed: AtomicBool,
    /// The location in the peer's memory to which the peer's limit is written.
    peers_cell: OnceLock<sys::Rdma>,
    account: Mutex<Account>,
}

/// The messages from a peer.
#[derive(Debug)]
struct Account {
    /// The connection's own receive and those that it has borrowed; 0 after the connection's end.
    window: u32,
    /// The number of messages that this process has taken.
    taken: u64,
    /// Whether the next limit is to be written.
    due: bool,
}

impl Credits {
    /// The credits of a new connection.
    ///
    /// # Errors
    /// Those of the registration of cells.
    pub(crate) fn new(cells: &Cells, flow: &Flow) -> Result<Credits, FabricError> {
        let cell = cells.cell()?;
        let window = 1 + flow.borrow(MAX_FIRST_BORROWED.min(flow.free() / SHARE_OF_NEW), 0);
        // Relaxed: the limit reaches the peer by messages and by the device.
        cell.peers().store(u64::from(window), Ordering::Relaxed);
        let account = Mutex::new(Account { window, taken: 0, due: false });
        let (sent, refused, listed, peers_cell) = Default::default();
        Ok(Credits { cell, sent, refused, listed, peers_cell, account })
    }

    /// The grant for the peer: the peer's first limit, and the location of this process's limit.
    pub(crate) fn grant(&self) -> Grant {
        let place = self.cell.pool.as_rdma(self.cell.index);
        // The limit that has grown meanwhile is valid too.
        // Relaxed: a number by itself.
        Grant { address: place.remote_addr, key: place.rkey, limit: self.cell.peers().load(Ordering::Relaxed) }
    }

    /// Stores the peer's grant, before the peer's device can write limits. Later grants are
    /// ignored.
    pub(crate) fn accept(&self, grant: &Grant) {
        if self.peers_cell.set(sys::Rdma { remote_addr: grant.address, rkey: grant.key }).is_ok() {
            // Relaxed: a number by itself.
            self.cell.own().store(grant.limit, Ordering::Relaxed);
        }
    }

    /// Takes the credit for one message; `None`: there is none.
    pub(crate) fn take(&self) -> Option<Credit> {
        // Relaxed for all: the numbers order no other memory.
        let limit = self.cell.own().load(Ordering::Relaxed);
        let next = |sent: u64| (sent < limit).then_some(sent + 1);
        let sent = self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let was_refused = self.refused.load(Ordering::Relaxed) && self.refused.swap(false, Ordering::Relaxed);
        Some(Credit { was_refused, left: limit - sent - 1 })
    }

    /// Returns the credit for a message that was not sent. The next message states a refusal that
    /// this one would have stated.
    pub(crate) fn put_back(&self, credit: Credit) {
        // Relaxed for both: as in `take`.
        if credit.was_refused {
            self.refused.store(true, Ordering::Relaxed);
        }
        self.sent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there is credit for a message.
    pub(crate) fn has_any(&self) -> bool {
        // Relaxed: as in `take`.
        self.sent.load(Ordering::Relaxed) < self.cell.own().load(Ordering::Relaxed)
    }

    /// Notes that a message is refused; returns whether the flow has to list the peer.
    pub(crate) fn refuse(&self) -> bool {
        // Relaxed for both: as in `take`. The flow's lock orders the changes of the list.
        self.refused.store(true, Ordering::Relaxed);
        !self.listed.swap(true, Ordering::Relaxed)
    }

    /// Notes that the flow unlists the peer. The next refusal lists the peer again, whether or not
    /// a message was sent in between.
    pub(crate) fn relieved(&self) {
        // Relaxed: as in `refuse`.
        self.listed.store(false, Ordering::Relaxed);
    }

    /// Counts a message from the peer that was taken, and whose receive is posted again. `refused`:
    /// whether the message states a refusal. Returns whether the next limit becomes due.
    pub(crate) fn taken(&self, refused: bool, flow: &Flow) -> bool {
        let mut account = lock(&self.account);
        account.taken += 1;
        if account.window == 0 {
            return false;
        }
        if refused {
            let more = account.window.min(MAX_CREDITS - account.window);
            account.window += flow.borrow(more, account.window - 1);
        } else if account.window > 1 && flow.free() < account.window {
            // The peer has just used a credit, so its unused credits are fewer than the window.
            account.window -= 1;
            flow.give_back(1);
        }
        // Relaxed: as in `take`.
        let unused = self.cell.peers().load(Ordering::Relaxed) - account.taken;
        let due = unused <= u64::from(account.window / 2) && !std::mem::replace(&mut account.due, true);
        if due {
            let more = account.window.min(MAX_CREDITS - account.window);
            if flow.free() >= account.window + 2 * more {
                account.window += flow.borrow(more, account.window - 1);
            }
        }
        due
    }

    /// Raises the peer's limit. Returns the word that holds the limit, and the location in the
    /// peer's memory to which the word is to be written; `None` before the peer's grant is known.
    pub(crate) fn renew(&self) -> Option<(sys::ibv_sge, sys::Rdma)> {
        let place = *self.peers_cell.get()?;
        let account = lock(&self.account);
        // Relaxed: the post orders the word for the device.
        self.cell.peers().fetch_max(account.taken + u64::from(account.window), Ordering::Relaxed);
        let mut element = self.cell.pool.element(self.cell.index, CELL);
        (element.addr, element.length) = (element.addr + 8, 8);
        Some((element, place))
    }

    /// Notes that the next limit was posted.
    pub(crate) fn renewed(&self) {
        lock(&self.account).due = false;
    }

    /// The number of messages that the peer may send now.
    pub(crate) fn granted(&self) -> u64 {
        let account = lock(&self.account);
        // Relaxed: as in `take`.
        if account.window == 0 { 0 } else { self.cell.peers().load(Ordering::Relaxed) - account.taken }
    }

    /// Returns the borrowed receives of a connection that has ended.
    pub(crate) fn end(&self, flow: &Flow) {
        let window = std::mem::take(&mut lock(&self.account).window);
        flow.give_back(window.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;

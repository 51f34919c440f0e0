//! The receives of messages, which all connections share, and their buffers. Receives are added as
//! connections are made, so that each connection can have a receive of its own (see `credits`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use transom_fabric::FabricError;

use crate::device::Device;
use crate::pool::{Pool, Pools};
use crate::queue::SharedReceiveQueue;
use crate::wr_id::WrId;

/// Longest message in bytes.
pub(crate) const MESSAGE: usize = Pools::MIDDLE;
/// Number of receives of a process with few connections.
pub(crate) const MESSAGES: u32 = 192;
/// Number of receives that are added at once.
const ADDED: u32 = 64;
/// Most additions.
const ADDITIONS: u32 = 16;
/// Most receives of a process.
pub(crate) const MOST: u32 = MESSAGES + ADDED * ADDITIONS;

/// The posted receives and their buffers.
#[derive(Debug)]
pub(crate) struct Inbox {
    receives: Arc<SharedReceiveQueue>,
    device: Arc<Device>,
    first: Pool,
    /// The number of receives in `first`.
    count: u32,
    /// The buffers of receives that were added.
    added: [OnceLock<Pool>; ADDITIONS as usize],
    /// The number of additions for which the queue has room.
    additions: usize,
    /// The number of connections.
    connections: AtomicU32,
}

impl Inbox {
    /// Posts up to [`MESSAGES`] receives to a queue of `room` receives.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn new(
        device: &Arc<Device>,
        receives: &Arc<SharedReceiveQueue>,
        room: u32,
    ) -> Result<Inbox, FabricError> {
        let count = room.min(MESSAGES);
        let inbox = Inbox {
            receives: Arc::clone(receives),
            device: Arc::clone(device),
            first: Pool::new(device, count, MESSAGE)?,
            count,
            added: [const { OnceLock::new() }; ADDITIONS as usize],
            additions: ((room - count) / ADDED) as usize,
            connections: AtomicU32::new(0),
        };
        inbox.post_all(&inbox.first, 0)?;
        Ok(inbox)
    }

    /// The number of receives that connections borrow; each other receive is a connection's own.
    /// If there are two connections, one of them can therefore reach the largest credit window.
    pub(crate) fn shared(&self) -> u32 {
        self.count - self.count / 3
    }

    /// The number of receives, those whose messages are being taken included.
    pub(crate) fn len(&self) -> u32 {
        let additions = self.added.iter().filter(|pool| pool.get().is_some()).count();
        self.count + ADDED * u32::try_from(additions).unwrap_or(0)
    }

    /// Counts a new connection, and adds receives if none is left for the connection's own.
    ///
    /// # Errors
    /// A receive can't be posted.
    pub(crate) fn add_connection(&self) -> Result<(), FabricError> {
        // Relaxed: a count.
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let Some(beyond) = before.checked_sub(self.count - self.shared()) else { return Ok(()) };
        let at = (beyond / ADDED) as usize;
        if at >= self.additions || self.added[at].get().is_some() {
            return Ok(());
        }
        // Without more receives, for lack of memory or at the limit, devices refuse messages that
        // find no receive, and send them again.
        let Ok(pool) = Pool::new(&self.device, ADDED, MESSAGE) else { return Ok(()) };
        let first = self.count + ADDED * u32::try_from(at).unwrap_or(0);
        self.post_all(self.added[at].get_or_init(|| pool), first).inspect_err(|_| {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Posts receives into all buffers of a pool, the first of which has the number `first`.
    fn post_all(&self, pool: &Pool, first: u32) -> Result<(), FabricError> {
        while let Some(index) = pool.take() {
            self.post(first + index)?;
        }
        Ok(())
    }

    /// The pool of a buffer, and its index there.
    fn locate(&self, buffer: u32) -> (&Pool, u32) {
        match buffer.checked_sub(self.count) {
            None => (&self.first, buffer),
            Some(beyond) => {
                let pool = self.added[(beyond / ADDED) as usize].get();
                (pool.expect("posted from this pool"), beyond % ADDED)
            }
        }
    }

    /// Hands the message of a completed receive to `take`, and posts the receive again.
    ///
    /// # Errors
    /// The receive can't be posted.
    pub(crate) fn taken(&self, buffer: u32, len: usize, take: impl FnOnce(&[u8])) -> Result<(), FabricError> {
        let (pool, index) = self.locate(buffer);
        // SAFETY: the receive is complete and is not posted again before the bytes are read, so the
        // buffer has no other user.
        take(unsafe { std::slice::from_raw_parts(pool.buffer(index), len.min(MESSAGE)) });
        self.post(buffer)
    }

    /// Posts a receive into a buffer.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn post(&self, buffer: u32) -> Result<(), FabricError> {
        let (pool, index) = self.locate(buffer);
        // SAFETY: the buffer belongs to the device until the completion; the pool's registration
        // ends before its memory.
        unsafe { self.receives.post(WrId::Message(buffer).encode(), pool.element(index, MESSAGE)) }
    }
}

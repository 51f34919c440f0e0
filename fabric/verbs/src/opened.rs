//! An opened device: the connections with peers, the completion queue and the buffers.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use transom_fabric::{Cause, Peer};

use crate::connections::Connections;
use crate::device::{Device, Registration};
use crate::inbox::Inbox;
use crate::queue::CompletionQueue;
use crate::registrations::Registrations;
use crate::resources::Resources;
use crate::sys;

/// Completions polled at once.
pub(crate) const BATCH: usize = 32;

/// An opened device. Fields drop in order: the queue pairs, then the receives that they share, then
/// the memory that both used.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) connections: Connections,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) resources: Resources,
    /// The registration of the whole address space (implicit on-demand paging), if the user wants
    /// page faults and the device supports them.
    pub(crate) implicit_odp: Option<Registration>,
    /// The other registrations.
    pub(crate) registrations: Arc<Registrations<Registration>>,
    pub(crate) device: Arc<Device>,
    /// The thread that holds this lock makes progress.
    pub(crate) polled: Mutex<Polled>,
    /// The number of threads that sleep until any completion.
    pub(crate) watching: AtomicU32,
    /// The failure of the device as a whole.
    pub(crate) device_failure: OnceLock<Cause>,
}

/// The state of progress: polled completions, and work that continues in the next call.
#[derive(Default)]
pub(crate) struct Polled {
    pub(crate) entries: [sys::ibv_wc; BATCH],
    /// The number of entries that are not processed yet.
    pub(crate) count: usize,
    /// Broken links whose requests are being ended (see `link`).
    pub(crate) broken: Vec<Broken>,
    /// Peers whose next limit is due (see `credits`).
    pub(crate) due: Vec<Peer>,
}

/// A broken link whose requests are being ended.
pub(crate) struct Broken {
    pub(crate) peer: Peer,
    /// Whether the queue pair was reset.
    pub(crate) reset: bool,
}

impl std::fmt::Debug for Polled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Polled({})", self.count)
    }
}

//! An opened device: the connections with peers, the completion queue and the buffers.

use std::sync::{Arc, Mutex, OnceLock};

use transom_fabric::{Cause, Peer};

use crate::connections::Connections;
use crate::device::{Device, Registration};
use crate::inbox::Inbox;
use crate::queue::Queue;
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
    pub(crate) queue: Arc<Queue>,
    pub(crate) resources: Resources,
    /// Registration of all memory of the process, if the user wants the device's page faults.
    pub(crate) everything: Option<Registration>,
    /// The other registrations.
    pub(crate) registrations: Arc<Registrations<Registration>>,
    pub(crate) device: Arc<Device>,
    pub(crate) taken: Mutex<Taken>,
    /// The failure of the device as a whole.
    pub(crate) trouble: OnceLock<Cause>,
}

/// Completions that were polled and are not processed yet. The thread with its lock makes progress.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) entries: [sys::ibv_wc; BATCH],
    pub(crate) count: usize,
    /// Broken links whose requests are being ended (see `link`).
    pub(crate) broken: Vec<Broken>,
    /// Peers whose next limit is due (see `credits`).
    pub(crate) due: Vec<Peer>,
}

/// A broken link whose requests are being ended.
pub(crate) struct Broken {
    pub(crate) peer: Peer,
    /// The queue pair was reset.
    pub(crate) reset: bool,
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Taken({})", self.count)
    }
}

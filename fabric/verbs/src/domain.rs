//! A device opened for a job: its port, and memory registered with it.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::event::EventfdFlags;
use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Region, RegionKey, Width, secret};

use crate::choice;
use crate::contacts::{CONNECTION, Contacts, Maker};
use crate::device::{Device, Registration};
use crate::greeter::{Greeter, HELLOS};
use crate::library::{Library, SONAME};
use crate::opened::{MESSAGE, MESSAGES, Open};
use crate::pair::{Depth, Pair, Quality};
use crate::path::PathOptions;
use crate::pool::{Pool, Pools};
use crate::port::VerbsPort;
use crate::queue::{Queue, Receives};
use crate::remote::{TAG, coherence};
use crate::stock::Stock;

/// Entries of the completion queue, limited by the device.
const COMPLETIONS: u32 = 4096;

/// Options of a device to open.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// The ports to choose from: a list of `device[:port]`, of which the first that works is taken;
    /// `^` before the list excludes them. `None`: the first active port, preferably one near the
    /// NUMA node to which this process is bound. Ranks are distributed over equally good ports of
    /// one InfiniBand subnet.
    pub devices: Option<String>,
    /// This process's rank, which is part of each message and connection request; below 2^30.
    pub rank: Peer,
    /// The failure detector's limit: a connected peer that leaves packets unanswered for this time
    /// counts as gone (its process ended, or its machine vanished). Devices may take up to four
    /// times as long. At most 4.8 h.
    pub silence: Duration,
    /// How long a peer may take to answer a connection request, which needs the peer's process and
    /// not only its device.
    pub patience: Duration,
    /// The administrator's settings of the port and of its paths.
    pub paths: PathOptions,
    /// The library's name for the dynamic loader.
    pub library: String,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        let (silence, patience) = (Duration::from_secs(2), Duration::from_secs(30));
        let (paths, library) = (PathOptions::default(), SONAME.into());
        VerbsOptions { devices: None, rank: Peer(0), silence, patience, paths, library }
    }
}

/// An opened device.
#[derive(Debug)]
pub struct VerbsDomain {
    port: VerbsPort,
}

/// Registered memory, which keeps the device open and the memory alive.
#[derive(Debug)]
pub struct VerbsRegion {
    // Declared before the memory, because fields drop in order. `None` for a length of 0, which
    // can't be registered.
    _registration: Option<Registration>,
    key: RegionKey,
    device: Arc<Device>,
    _memory: Memory,
}

impl VerbsDomain {
    /// Opens a device.
    ///
    /// # Errors
    /// `Unavailable` where the library or a usable device is missing, with the missing part;
    /// `Failed` where opening failed.
    pub fn open(options: &VerbsOptions) -> Result<Arc<VerbsDomain>, FabricError> {
        let library = Library::open(&options.library)?;
        let device = Device::open(
            &library,
            &choice::choose(options.devices.as_deref(), options.paths.gid_index, options.rank)?,
            options.paths,
        )?;
        let count = |device: i32| u32::try_from(device).unwrap_or(0);
        let completions = COMPLETIONS.min(count(device.attributes.max_cqe));
        let messages = MESSAGES.min(count(device.attributes.max_srq_wr));
        let queue = Queue::create(&device, completions)?;
        let receives = Receives::create(&device, messages)?;
        // The queue has room for all entries that can be outstanding at once.
        let room = completions.saturating_sub(messages + 2 * HELLOS);
        let (depth, inline) = probe(&queue, &receives, options.rank)?;
        let list = depth.list.min(count(device.attributes.max_sge_rd)).max(1) as usize;
        let make = Maker {
            device: Arc::clone(&device),
            queue: Arc::clone(&queue),
            receives: Arc::clone(&receives),
            depth,
            me: options.rank,
            quality: Quality::of(options.silence),
            patience: options.patience,
        };
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| FabricError::failed("eventfd", error))?;
        let open = Open {
            contacts: Contacts::new(make, Greeter::new(&device, &queue, secret::word()?)?),
            receives,
            queue,
            messages: Pool::new(&device, messages, MESSAGE)?,
            stock: Stock::new(Pools::new(&device)?, room),
            everything: device.register_everything(),
            device,
            taken: Mutex::default(),
            wake,
            trouble: OnceLock::new(),
        };
        let port = VerbsPort::new(open, inline, list, options.rank)?;
        Ok(Arc::new(VerbsDomain { port }))
    }

    /// The memory that this crate keeps for each connected peer, in bytes, in addition to the queue
    /// pair.
    pub fn bytes_per_peer() -> usize {
        Contacts::BYTES_PER_PEER
    }

    /// The settings of the port and of its paths in words, for users.
    pub fn paths(&self) -> String {
        self.port.device().in_words()
    }

    /// The device and port, as `mlx5_0:1`.
    pub fn name(&self) -> String {
        let info = &self.port.device().port;
        format!("{}:{}", info.device, info.port)
    }
}

/// The dimensions of connections on this device, and how many bytes their requests carry inline,
/// found by creating a queue pair.
fn probe(queue: &Arc<Queue>, receives: &Arc<Receives>, me: Peer) -> Result<(Depth, usize), FabricError> {
    let without = Depth { inline: 0, list: 1, ..CONNECTION };
    for depth in [CONNECTION, without] {
        if let Ok((_, inline)) = Pair::reliable(queue, receives, depth, me) {
            return Ok((depth, inline));
        }
    }
    Pair::reliable(queue, receives, without, me).map(|(_, inline)| (without, inline))
}

impl Domain for VerbsDomain {
    type Region = VerbsRegion;
    type Port = VerbsPort;

    fn port(&self) -> &VerbsPort {
        &self.port
    }

    fn register(&self, memory: &Memory) -> Result<VerbsRegion, FabricError> {
        let device = self.port.device();
        let registration = if memory.is_empty() {
            None
        } else {
            // SAFETY: the region keeps a clone of the memory until its registration is dropped.
            Some(unsafe { device.register(memory.as_ptr(), memory.len()) }?)
        };
        let remote = registration.as_ref().map_or(0, Registration::remote_key);
        let key = RegionKey([TAG, memory.as_ptr() as u64, memory.len() as u64, u64::from(remote)]);
        Ok(VerbsRegion { _registration: registration, key, device: Arc::clone(device), _memory: memory.clone() })
    }
}

impl Region for VerbsRegion {
    fn key(&self) -> RegionKey {
        self.key
    }

    fn amo(&self, kind: AmoKind, width: Width) -> Option<Coherence> {
        let [_, base, _, _] = self.key.0;
        coherence(&self.device, base, kind, width)
    }
}

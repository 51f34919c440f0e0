//! A device opened for a job: its port, and memory registered with it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use transom_fabric::devices::Place;
use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Region, RegionKey, Wake, Width, secret};

use crate::choice;
use crate::connections::{CONNECTION, Connections, Maker};
use crate::credits::{Cells, Flow};
use crate::datagrams::{Datagrams, HELLOS};
use crate::device::{Device, Registration};
use crate::inbox::{self, Inbox, MESSAGE};
use crate::library::{Library, SONAME};
use crate::opened::Open;
use crate::pair::{Capacity, Pair, Retransmission};
use crate::path::PathOptions;
use crate::pool::Pools;
use crate::port::VerbsPort;
use crate::queue::{CompletionQueue, SharedReceiveQueue};
use crate::registrations::Registrations;
use crate::remote::{TAG, coherence};
use crate::resources::Resources;
use crate::sending::{DEPTH, INLINE, LIST};

/// Entries of the completion queue, limited by the device.
pub(crate) const COMPLETIONS: u32 = 5120;
/// The bytes of an entry of the completion queue.
const ENTRY: usize = 64;

/// Options of a device to open.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// The ports to choose from: a list of `device[:port]`, from which the first usable one is
    /// taken; `^` before the list excludes its members. `None`: the port of the best network, which
    /// is hardware before Soft-RoCE, InfiniBand before Ethernet, and then the higher rate. The
    /// processes of a machine share the ports of equal rate of one InfiniBand subnet, those nearest
    /// to each of them first.
    pub devices: Option<String>,
    /// The place of this process among those of its machine, which selects the port and the CPU
    /// that receives the device's interrupts.
    pub place: Place,
    /// This process's rank, which is part of each message and connection request; below 2^30.
    pub rank: Peer,
    /// A connected peer that leaves packets unanswered for this time counts as gone. Choose a time
    /// in which a failed link comes back; a failure detector reports deaths earlier
    /// ([`Port::lose`](transom_fabric::Port::lose)). Devices may take up to four times as long. At
    /// most 4.8 h.
    pub silence: Duration,
    /// The time in which a peer must answer a connection request. The answer requires the peer's
    /// process, not only its device.
    pub patience: Duration,
    /// The administrator's settings of the port and of its paths.
    pub paths: PathOptions,
    /// The most bytes of origin buffers that stay registered for later transfers; 0: none.
    pub registered_max: usize,
    /// Whether the device accesses origin buffers by page faults (on-demand paging), if it can.
    pub page_faults: bool,
    /// The library's name for the dynamic loader.
    pub library: String,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        let (silence, patience) = (Duration::from_secs(8), Duration::from_secs(30));
        let (paths, library) = (PathOptions::default(), SONAME.into());
        let (registered_max, page_faults, place) = (1 << 30, false, Place::alone());
        VerbsOptions {
            devices: None,
            place,
            rank: Peer(0),
            silence,
            patience,
            paths,
            registered_max,
            page_faults,
            library,
        }
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
    key: RegionKey,
    device: Arc<Device>,
    /// The registrations of the process. One of them is that of this region, which also serves as
    /// the registration of origin buffers inside the region. An empty region has none.
    registrations: Arc<Registrations<Registration>>,
    /// Distinguishes regions over the same memory.
    number: u64,
    // Dropped after the registration has ended, unless transfers of this process still use it.
    memory: Memory,
}

impl VerbsDomain {
    /// Opens a device.
    ///
    /// # Errors
    /// `Unavailable` where the library or a usable device is missing, with the missing part;
    /// `Failed` where opening failed.
    pub fn open(options: &VerbsOptions) -> Result<Arc<VerbsDomain>, FabricError> {
        // A machine without a port does not load the library, which may change its behavior at
        // `fork`.
        let port = choice::choose(options.devices.as_deref(), options.paths.gid_index, &options.place)?;
        let library = Library::open(&options.library)?;
        VerbsDomain::on(Device::open(&library, &port, options.paths)?, options)
    }

    /// A domain on an opened device.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn on(device: Arc<Device>, options: &VerbsOptions) -> Result<Arc<VerbsDomain>, FabricError> {
        let count = |device: i32| u32::try_from(device).unwrap_or(0);
        let completions = COMPLETIONS.min(count(device.attributes.max_cqe));
        let most = inbox::MOST.min((completions / 4).max(inbox::MESSAGES));
        let messages = most.min(count(device.attributes.max_srq_wr));
        let queue = CompletionQueue::create(&device, completions, options.place.before.len())?;
        let receives = SharedReceiveQueue::create(&device, messages)?;
        // Entries are reserved for all receives and hellos; requests use the others.
        let room = completions.saturating_sub(messages + 2 * HELLOS);
        let inbox = Arc::new(Inbox::new(&device, &receives, messages)?);
        let flow = Flow::new(inbox.shared());
        let (capacity, inline) = probe(&queue, &receives, options.rank)?;
        let list = capacity.list.min(count(device.attributes.max_sge_rd)).max(1) as usize;
        let make = Maker {
            device: Arc::clone(&device),
            queue: Arc::clone(&queue),
            receives,
            inbox: Arc::clone(&inbox),
            cells: Cells::new(&device),
            capacity,
            me: options.rank,
            retransmission: Retransmission::of(options.silence),
            patience: options.patience,
        };
        let open = Open {
            connections: Connections::new(make, Datagrams::new(&device, &queue, secret::word()?)?),
            inbox,
            queue,
            resources: Resources::new(Pools::new(&device)?, flow, room, Wake::new()?),
            implicit_odp: options.page_faults.then(|| device.register_implicit_odp()).flatten(),
            registrations: Arc::new(Registrations::new(options.registered_max)),
            device,
            polled: Mutex::default(),
            watching: AtomicU32::new(0),
            device_failure: OnceLock::new(),
        };
        let port = VerbsPort::new(open, inline, list, options.rank)?;
        Ok(Arc::new(VerbsDomain { port }))
    }

    /// The bytes that this crate allocates for each connected peer, in addition to the queue pair.
    pub fn bytes_per_peer() -> usize {
        Connections::BYTES_PER_PEER
    }

    /// The bytes of memory of a process without connections: its buffers, those for incoming
    /// messages, and the completion queue at the device. More than 64 connections have up to
    /// 16 MiB more for messages.
    pub fn bytes() -> usize {
        let (_, buffers) = Pools::size();
        buffers + inbox::MESSAGES as usize * MESSAGE + COMPLETIONS as usize * ENTRY
    }

    /// The settings of the port and of its paths in words, for users.
    pub fn paths(&self) -> String {
        self.port.device().describe()
    }

    /// The connections and buffers of this process in words, for users.
    pub fn resources(&self) -> String {
        let (connections, granted) = self.port.connections().count();
        let (receives, (buffers, bytes)) = (self.port.receives(), Pools::size());
        let kib = VerbsDomain::bytes_per_peer().div_ceil(1 << 10);
        let words = |count: usize| if count == 1 { "1 queue pair".into() } else { format!("{count} queue pairs") };
        format!(
            "{} of {DEPTH} requests each, with {kib} KiB of records each; {buffers} buffers ({} MiB) and {receives} \
             receives ({} MiB) for all peers, {granted} of which peers may use now",
            words(connections),
            bytes >> 20,
            (receives as usize * MESSAGE) >> 20,
        )
    }

    /// The device and port, as `mlx5_0:1`.
    pub fn name(&self) -> String {
        let info = &self.port.device().port;
        format!("{}:{}", info.device, info.port)
    }
}

/// The capacity of connections on this device, and the most inline bytes of their requests, found
/// by creating a queue pair.
fn probe(
    queue: &Arc<CompletionQueue>,
    receives: &Arc<SharedReceiveQueue>,
    me: Peer,
) -> Result<(Capacity, usize), FabricError> {
    let try_one = |(inline, list)| {
        let capacity = Capacity { inline, list, ..CONNECTION };
        Pair::reliable(queue, receives, capacity, me).map(|(_, inline)| (capacity, inline))
    };
    let with_lists = [(INLINE, LIST), (INLINE / 3 * 2, LIST), (0, LIST)];
    with_lists.into_iter().find_map(|sizes| try_one(sizes).ok()).map_or_else(|| try_one((0, 1)), Ok)
}

impl Domain for VerbsDomain {
    type Region = VerbsRegion;
    type Port = VerbsPort;

    fn port(&self) -> &VerbsPort {
        &self.port
    }

    fn register(&self, memory: &Memory) -> Result<VerbsRegion, FabricError> {
        static REGIONS: AtomicU64 = AtomicU64::new(0);
        let (device, registrations) = (self.port.device(), self.port.registrations());
        // Relaxed: only the number's uniqueness matters.
        let (start, number) = (memory.as_ptr().addr(), REGIONS.fetch_add(1, Ordering::Relaxed));
        let mut remote = 0;
        if !memory.is_empty() {
            // SAFETY: the region keeps a clone of the memory until it removes the registration. A
            // transfer that uses the registration longer has its own promise of valid memory.
            let registration = unsafe { device.register(memory.as_ptr(), memory.len()) }?;
            remote = registration.remote_key();
            registrations.add_region(start..start + memory.len(), number, Arc::new(registration));
        }
        let key = RegionKey([TAG, start as u64, memory.len() as u64, u64::from(remote)]);
        let (device, registrations) = (Arc::clone(device), Arc::clone(registrations));
        Ok(VerbsRegion { key, device, registrations, number, memory: memory.clone() })
    }
}

impl Drop for VerbsRegion {
    fn drop(&mut self) {
        self.registrations.remove_region(self.memory.as_ptr().addr(), self.number);
    }
}

impl Region for VerbsRegion {
    fn key(&self) -> RegionKey {
        self.key
    }

    fn amo(&self, kind: AmoKind, width: Width) -> Option<Coherence> {
        coherence(&self.device, kind, width)
    }

    fn leak(self) {
        self.registrations.leak_region(self.memory.as_ptr().addr(), self.number);
        std::mem::forget(self);
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::devices::Nodes;

    use super::*;
    use crate::standin::Standin;

    /// Regression: one CPU served the interrupts of all processes.
    #[test]
    fn processes_use_the_interrupt_vectors_in_turn() {
        let vector = |local| {
            let (device, standin) = Standin::open_large();
            let place = Place { near: Nodes(0), before: vec![Nodes(0); local] };
            let options = VerbsOptions { place, ..VerbsOptions::default() };
            VerbsDomain::on(device, &options).expect("a stand-in");
            standin.state().vector
        };
        assert_eq!([0, 1, 3, 4, 9].map(vector), [0, 1, 3, 0, 1]);
    }

    /// Regression: a device with fewer inline bytes was used without lists.
    #[test]
    fn a_device_with_few_inline_bytes_still_has_lists() {
        let limits = |inline_max| {
            let (device, standin) = Standin::open_large();
            standin.state().inline_max = inline_max;
            let queue = CompletionQueue::create(&device, 64, 0).expect("a queue");
            let receives = SharedReceiveQueue::create(&device, 8).expect("receives");
            let (capacity, _) = probe(&queue, &receives, Peer(0)).expect("a queue pair");
            (capacity.inline, capacity.list)
        };
        assert_eq!([64, 40, 4].map(limits), [(48, 3), (32, 3), (0, 3)]);
    }
}

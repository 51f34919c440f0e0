//! The enum of backends: the only module that names their types, and the match over them.
//!
//! Memory of a process of the node is [`NodeMemory`]; memory that the net reaches is [`NetMemory`],
//! which has its port.

/// Applies one body to the net, whichever backend it is.
macro_rules! each_net {
    ($net:expr, $domain:ident => $what:expr) => {
        match $net {
            Net::Verbs($domain) => $what,
            Net::Ofi($domain) => $what,
            Net::Sim($domain) => $what,
        }
    };
}

mod events;
#[allow(unsafe_code)]
mod pieces;
mod remote;
mod trial;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use transom_fabric::devices::Place;
use transom_fabric::sim::SimDomain;
use transom_fabric::{
    AmoKind, Coherence, Domain, FabricError, Fault, Immediates, Memory, Peer, PeerMap, Port, Post, Reason, Region,
    RegionKey, Span, Width,
};
use transom_ofi::{Carrying, OfiDomain, OfiOptions, PassiveProbe};
use transom_shm::{Heap, HeapOptions, ShmDomain};
pub(crate) use transom_verbs::PathOptions;
use transom_verbs::{VerbsDomain, VerbsOptions};

use crate::environment::{Rdma, Settings};
use crate::error::NetName;
use crate::routes::{Amos, NetAtomics};
pub(crate) use pieces::{get_pieces, put_pieces};
pub(crate) use remote::{NetMemory, NodeMemory, ProcessMemory, advise_huge, touch};

pub(crate) use transom_shm::Doorbell;
pub(crate) use transom_shm::event;
pub(crate) use transom_shm::event::SpinBudget;
pub(crate) use transom_shm::huge_pages;
pub(crate) use transom_shm::topology;
pub use transom_verbs::Posted;

/// Memory up to this size is populated at once in shared segments, whose pages should be on their
/// owner's NUMA node, and where the program requests huge pages.
const TOUCHED_BY_OWNER: usize = 64 << 20;

/// A lane: one of the two kinds of transport to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Between nodes, or where shared memory is excluded.
    Net,
    /// Within a node.
    Shm,
}

/// The transport to a rank, and the rank's address in this transport.
pub(crate) type Way = (Lane, Vec<u8>);

/// The transport between nodes.
#[derive(Clone, Debug)]
pub(crate) enum Net {
    Verbs(Arc<VerbsDomain>),
    Ofi(Arc<OfiDomain>),
    Sim(Arc<SimDomain>),
}

/// Memory that peers may access through the net.
#[derive(Debug)]
pub(crate) enum NetRegion {
    Verbs(<VerbsDomain as Domain>::Region),
    Ofi(<OfiDomain as Domain>::Region),
    Sim(<SimDomain as Domain>::Region),
}

/// Memory that ranks of the node may access.
pub(crate) type ShmRegion = <ShmDomain as Domain>::Region;

/// All transports of this process.
#[derive(Debug)]
pub(crate) struct Wire {
    heap: Option<Arc<Heap>>,
    shm: Option<Arc<ShmDomain>>,
    net: Option<Net>,
    /// The route to each rank, and the rank's address on it; `None` for this rank if it needs none.
    addresses: OnceLock<Vec<Option<Way>>>,
    /// The contacted peers.
    lanes: PeerMap<(Peer, Lane)>,
}

/// The time that a rank may need to make one connection.
const CONTACT: Duration = Duration::from_millis(10);

/// Opens a verbs device of rank `me` of `ranks`: one that the settings list, else the best.
pub(crate) fn open_verbs(me: Peer, ranks: usize, settings: &Settings, place: &Place) -> Result<Net, FabricError> {
    let usual = VerbsOptions::default();
    let silence = settings.silence.unwrap_or(usual.silence);
    let options = VerbsOptions {
        rank: me,
        devices: settings.devices.clone(),
        place: place.clone(),
        silence,
        // All ranks may connect to the same rank, which makes its connections one after another.
        patience: usual.patience + CONTACT * u32::try_from(ranks).unwrap_or(u32::MAX),
        paths: rdma_paths(settings),
        registered_max: settings.rdma.registered.unwrap_or(usual.registered_max),
        page_faults: settings.rdma.page_faults,
        ..usual
    };
    VerbsDomain::open(&options).map(Net::Verbs)
}

/// The settings of the paths of RDMA devices.
pub(crate) fn rdma_paths(settings: &Settings) -> PathOptions {
    let Rdma { gid_index, service_level, traffic_class, partition, mtu, .. } = settings.rdma;
    PathOptions { gid_index, service_level, traffic_class, partition, mtu }
}

/// Whether this machine has a port of an RDMA device, usable or not.
pub(crate) fn has_rdma_port() -> bool {
    !transom_verbs::ports().is_empty()
}

/// The provider that rank 0 has chosen for all ranks, and what its probe has found.
#[derive(Clone, Debug)]
pub(crate) struct ChosenProvider {
    pub(crate) name: String,
    /// Whether the provider serves idle targets.
    pub(crate) passive: bool,
    /// Whether puts carry notices.
    pub(crate) carries: bool,
}

/// A request to open libfabric.
#[derive(Clone, Debug)]
pub(crate) struct Libfabric<'a> {
    pub(crate) me: Peer,
    /// The number of ranks of the job.
    pub(crate) ranks: usize,
    /// The provider that the user names.
    pub(crate) named: Option<&'a str>,
    /// The choice of rank 0. `None`: this process chooses the first provider that works, and probes
    /// it.
    pub(crate) chosen: Option<ChosenProvider>,
    /// The providers that a rank of the job can't open, each with the reason.
    pub(crate) refused: &'a [(String, String)],
    /// The user's list of devices.
    pub(crate) devices: Option<&'a str>,
    /// The address of this process's interface.
    pub(crate) source: IpAddr,
    pub(crate) place: &'a Place,
}

/// Opens libfabric.
pub(crate) fn open_ofi(request: Libfabric<'_>) -> Result<Net, FabricError> {
    let (passive, carrying) = request.chosen.as_ref().map_or((PassiveProbe::Run, Carrying::ByRules), |chosen| {
        (PassiveProbe::Known(chosen.passive), Carrying::Known(chosen.carries))
    });
    let options = OfiOptions {
        rank: request.me,
        ranks: request.ranks,
        provider: request.named.map(str::to_owned),
        chosen: request.chosen.map(|chosen| chosen.name),
        refused: request.refused.to_vec(),
        devices: request.devices.map(str::to_owned),
        place: request.place.clone(),
        source: Some(request.source),
        passive,
        carrying,
        ..OfiOptions::default()
    };
    OfiDomain::open(&options).map(Net::Ofi)
}

/// Opens shared memory: this process's memory for windows, and the route to ranks of the node.
pub(crate) fn open_shm(
    me: Peer,
    populate: usize,
    without_xpmem: Option<&str>,
) -> Result<(Arc<Heap>, Arc<ShmDomain>), FabricError> {
    let mut options = HeapOptions::default();
    options.populate_max = populate;
    let heap = Heap::create(options)?;
    let domain = match without_xpmem {
        None => ShmDomain::new(Arc::clone(&heap), me)?,
        Some(reason) => ShmDomain::without_xpmem(Arc::clone(&heap), me, reason)?,
    };
    Ok((heap, domain))
}

impl Net {
    /// The backend's name, with the provider or device of this process.
    pub(crate) fn name(&self) -> String {
        match self {
            Net::Verbs(domain) => format!("verbs {}", domain.name()),
            Net::Ofi(domain) => format!("libfabric {}", domain.name()),
            Net::Sim(_) => self.shared_name().to_string(),
        }
    }

    /// The net's name as all ranks must have it alike.
    pub(crate) fn shared_name(&self) -> NetName {
        match self {
            Net::Verbs(_) => NetName::of("verbs"),
            Net::Ofi(domain) => {
                let variables = domain.agreed().map(|(name, value)| (name.to_owned(), value)).collect();
                NetName { provider: Some(domain.provider()), variables, ..NetName::of("libfabric") }
            }
            Net::Sim(_) => NetName::of("sim"),
        }
    }

    /// The reasons why libfabric does not use devices of this machine that it should prefer.
    pub(crate) fn unused(&self) -> &[String] {
        match self {
            Net::Ofi(domain) => domain.unused(),
            Net::Verbs(_) | Net::Sim(_) => &[],
        }
    }

    /// The settings of the paths from this process in words, if the net provides them.
    pub(crate) fn paths(&self) -> Option<String> {
        match self {
            Net::Verbs(domain) => Some(domain.paths()),
            Net::Ofi(_) | Net::Sim(_) => None,
        }
    }

    /// The connections and buffers of this process in words, if the net counts them.
    pub(crate) fn resources(&self) -> Option<String> {
        match self {
            Net::Verbs(domain) => Some(domain.resources()),
            Net::Ofi(_) | Net::Sim(_) => None,
        }
    }

    /// Whether the target's CPU performs puts when it receives messages.
    pub(crate) fn gathers(&self) -> bool {
        each_net!(self, domain => domain.port().limits().gathers)
    }

    /// Whether accumulates that the target's CPU performs may share messages.
    pub(crate) fn combines(&self) -> bool {
        each_net!(self, domain => domain.port().limits().combines)
    }

    /// Whether messages to a peer arrive after the puts that were posted before them.
    pub(crate) fn is_ordered(&self) -> bool {
        each_net!(self, domain => domain.port().limits().ordered)
    }

    /// Whether the net reaches only peers that IP reaches.
    pub(crate) fn uses_ip(&self) -> bool {
        matches!(self, Net::Ofi(domain) if domain.uses_ip())
    }

    /// Whether a rank must call `progress` from the start on: because operations on it need calls,
    /// because other ranks connect to it, or because the number of unread notices is limited.
    pub(crate) fn needs_service(&self) -> bool {
        let takes_notices = matches!(self, Net::Ofi(_)) && self.has_immediates();
        matches!(self, Net::Verbs(_)) || !self.passive_target() || takes_notices
    }

    /// Whether an origin may change a counter of this rank without an event here.
    pub(crate) fn changes_silently(&self) -> bool {
        self.passive_target() && !self.has_immediates()
    }

    pub(crate) fn address(&self) -> Vec<u8> {
        each_net!(self, domain => domain.port().address())
    }

    pub(crate) fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        each_net!(self, domain => domain.port().connect(peer, address))
    }

    /// Whether puts can carry a number to the target's handler.
    pub(crate) fn has_immediates(&self) -> bool {
        self.immediates().any()
    }

    /// Whether immediates can stand for signals and notices (`messages::named`), which have all
    /// bits, and follow all puts.
    pub(crate) fn signals_by_immediates(&self) -> bool {
        self.immediates() == Immediates::ALL
    }

    fn immediates(&self) -> Immediates {
        each_net!(self, domain => domain.port().limits().immediates)
    }

    /// Whether puts, gets and atomics complete while the target makes no call.
    pub(crate) fn passive_target(&self) -> bool {
        each_net!(self, domain => domain.port().limits().passive_target)
    }

    /// How long an answer may wait for a message to the same rank.
    pub(crate) fn answers_wait(&self) -> Duration {
        each_net!(self, domain => domain.port().limits().answers_wait)
    }

    /// The atomics that the net has on a region.
    pub(crate) fn atomics(&self, region: &NetRegion) -> NetAtomics {
        let both = |kind: &AmoKind| region.has(*kind, Width::W32) && region.has(*kind, Width::W64);
        let all = AmoKind::ALL.iter().all(both);
        let words = [AmoKind::Sum, AmoKind::Read, AmoKind::CompareSwap];
        let amos = match self {
            Net::Ofi(domain) => Amos::of_provider(&domain.provider(), all),
            Net::Verbs(_) | Net::Sim(_) if all => Amos::Native,
            Net::Verbs(_) | Net::Sim(_) if words.iter().all(|&kind| region.has(kind, Width::W64)) => Amos::Words,
            Net::Verbs(_) | Net::Sim(_) => Amos::None,
        };
        let with_cpu = |kind, width| region.coherence(kind, width) != Some(Coherence::DeviceOnly);
        let coherent = AmoKind::ALL.iter().all(|&kind| with_cpu(kind, Width::W32) && with_cpu(kind, Width::W64));
        NetAtomics { amos, coherent: coherent && amos != Amos::None }
    }

    /// The number of requests that were posted to the device for a peer so far; `None` if the
    /// device does not count it.
    pub(crate) fn posted(&self, peer: Peer) -> Option<Posted> {
        match self {
            Net::Verbs(domain) => Some(domain.port().posted(peer)),
            Net::Ofi(_) | Net::Sim(_) => None,
        }
    }

    fn message_max(&self) -> usize {
        each_net!(self, domain => domain.port().limits().message_max)
    }

    fn register(&self, memory: &Memory) -> Result<NetRegion, FabricError> {
        match self {
            Net::Verbs(domain) => domain.register(memory).map(NetRegion::Verbs),
            Net::Ofi(domain) => domain.register(memory).map(NetRegion::Ofi),
            Net::Sim(domain) => domain.register(memory).map(NetRegion::Sim),
        }
    }
}

impl NetRegion {
    pub(crate) fn key(&self) -> RegionKey {
        match self {
            NetRegion::Verbs(region) => region.key(),
            NetRegion::Ofi(region) => region.key(),
            NetRegion::Sim(region) => region.key(),
        }
    }

    /// Leaves the region registered for ever, as `Region::leak` says.
    pub(crate) fn leak(self) {
        match self {
            NetRegion::Verbs(region) => region.leak(),
            NetRegion::Ofi(region) => region.leak(),
            NetRegion::Sim(region) => region.leak(),
        }
    }

    /// Whether the net performs an atomic on the region.
    fn has(&self, kind: AmoKind, width: Width) -> bool {
        self.coherence(kind, width).is_some()
    }

    /// The other atomics with which an atomic on the region is atomic; `None` if the net lacks it.
    fn coherence(&self, kind: AmoKind, width: Width) -> Option<Coherence> {
        match self {
            NetRegion::Verbs(region) => region.amo(kind, width),
            NetRegion::Ofi(region) => region.amo(kind, width),
            NetRegion::Sim(region) => region.amo(kind, width),
        }
    }
}

impl Wire {
    pub(crate) fn new(shm: Option<(Arc<Heap>, Arc<ShmDomain>)>, net: Option<Net>) -> Wire {
        let (heap, shm) = shm.map_or((None, None), |(heap, shm)| (Some(heap), Some(shm)));
        Wire { heap, shm, net, addresses: OnceLock::new(), lanes: PeerMap::new() }
    }

    /// Allocates memory for a window from the heap, which ranks of the node can map.
    pub(crate) fn allocate(&self, len: usize) -> Result<Memory, FabricError> {
        match &self.heap {
            Some(heap) => heap.allocate(len),
            None => Ok(Memory::private(len)),
        }
    }

    /// Whether memory of that length gets its pages at once. `by_owner`: it matters which process
    /// touches a page first.
    pub(crate) fn populates(&self, len: usize, by_owner: bool) -> bool {
        self.heap.as_ref().is_none_or(|heap| heap.populates(len) || by_owner && len <= TOUCHED_BY_OWNER)
    }

    /// Memory that peers can map, whose pages are allocated at the first touch.
    pub(crate) fn reserve(&self, len: usize) -> Result<Memory, FabricError> {
        match &self.heap {
            Some(heap) => heap.reserve(len),
            None => Ok(Memory::private(len)),
        }
    }

    /// As [`allocate`](Self::allocate), in huge pages where the kernel gives them.
    pub(crate) fn allocate_huge(&self, len: usize) -> Result<Memory, FabricError> {
        let Some(heap) = &self.heap else { return Ok(Memory::private(len)) };
        let memory = heap.reserve(len)?;
        // A kernel without huge pages refuses the advice; small pages serve as well.
        let _ = advise_huge(&memory);
        if self.populates(len, true) {
            touch(&memory)?;
        }
        Ok(memory)
    }

    /// The memory of [`allocate`](Self::allocate) within which the bytes lie: memory of this rank,
    /// or memory of another rank of the node that is mapped here. The result keeps memory of this
    /// rank. Of another rank's memory it keeps only the mapping: that rank may free the memory.
    pub(crate) fn allocated(&self, base: *mut u8, len: usize) -> Option<Memory> {
        let span = Span::from_raw(base, len);
        self.heap.as_ref()?.part(span).or_else(|| self.shm.as_ref()?.port().mapped_from_peer(span))
    }

    pub(crate) fn net(&self) -> Option<&Net> {
        self.net.as_ref()
    }

    pub(crate) fn has(&self, lane: Lane) -> bool {
        match lane {
            Lane::Net => self.net.is_some(),
            Lane::Shm => self.shm.is_some(),
        }
    }

    /// Makes `peer` reachable by `lane`.
    pub(crate) fn connect(&self, lane: Lane, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        self.lanes.get_or_try_insert(peer, || {
            match (lane, &self.shm, &self.net) {
                (Lane::Shm, Some(shm), _) => shm.port().connect(peer, address)?,
                (Lane::Net, _, Some(net)) => net.connect(peer, address)?,
                _ => return Err(absent(lane)),
            }
            Ok((peer, lane))
        })?;
        Ok(())
    }

    /// Connects the net to a rank of this node; messages to this rank still use shared memory.
    pub(crate) fn connect_net(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        self.net.as_ref().ok_or_else(|| absent(Lane::Net))?.connect(peer, address)
    }

    /// Sets the route to each rank, after all ranks have published their addresses.
    pub(crate) fn set_addresses(&self, addresses: Vec<Option<Way>>) {
        // Set once, by the start of the job.
        let _ = self.addresses.set(addresses);
    }

    /// Makes a rank reachable, at first contact.
    pub(crate) fn reach(&self, peer: Peer) -> Result<Lane, FabricError> {
        if let Some(&(_, lane)) = self.lanes.get(peer) {
            return Ok(lane);
        }
        match self.addresses.get().and_then(|all| all.get(peer.index())?.as_ref()) {
            Some((lane, address)) => self.connect(*lane, peer, address).map(|()| *lane),
            None => Err(FabricError::failed(format!("reaching {peer}"), Reason::NoTransport)),
        }
    }

    /// Registers `memory` for access by ranks of the node.
    pub(crate) fn register_shm(&self, memory: &Memory) -> Result<Option<ShmRegion>, FabricError> {
        self.shm.as_ref().filter(|_| !memory.is_empty()).map(|shm| shm.register(memory)).transpose()
    }

    /// Registers all memory of this process, so that ranks of the node access it by its addresses
    /// where the kernel allows it.
    pub(crate) fn register_addresses(&self) -> Option<ShmRegion> {
        self.shm.as_ref().map(|shm| shm.register_addresses())
    }

    /// Registers `memory` for access by ranks of other nodes.
    pub(crate) fn register_net(&self, memory: &Memory) -> Result<Option<NetRegion>, FabricError> {
        self.net.as_ref().filter(|_| !memory.is_empty()).map(|net| net.register(memory)).transpose()
    }

    /// Registers `memory` as origin buffers alone, where transfers use the registration: over
    /// verbs. Without it each long transfer registers its buffer, so a failure does not matter.
    pub(crate) fn lend_net(&self, memory: &Memory) -> Option<NetRegion> {
        let net = self.net.as_ref().filter(|net| matches!(net, Net::Verbs(_)) && !memory.is_empty())?;
        net.register(memory).ok()
    }

    /// Opens a region of a connected peer of this node.
    pub(crate) fn import_shm(&self, peer: Peer, key: &RegionKey) -> Result<NodeMemory, FabricError> {
        NodeMemory::import(self.shm.as_ref().ok_or_else(|| absent(Lane::Shm))?, peer, key, false)
    }

    /// [`import_shm`](Self::import_shm) in a mapping of its own, for which the kernel may be
    /// advised.
    pub(crate) fn import_dedicated(&self, peer: Peer, key: &RegionKey) -> Result<NodeMemory, FabricError> {
        NodeMemory::import(self.shm.as_ref().ok_or_else(|| absent(Lane::Shm))?, peer, key, true)
    }

    /// User memory of a connected peer of this node, from one of its addresses on, if this CPU can
    /// map it.
    pub(crate) fn user_memory(&self, peer: Peer, address: u64, len: u64) -> Option<Memory> {
        self.shm.as_ref()?.port().user_memory(peer, address, len)
    }

    /// A region of user memory of a connected peer of this node, if this CPU can map it.
    pub(crate) fn user_region(&self, peer: Peer, key: &RegionKey) -> Option<Memory> {
        self.shm.as_ref()?.port().user_region(peer, key)
    }

    /// Whether user memory of ranks of the node is mapped, or the reason why not.
    pub(crate) fn maps_user_memory(&self) -> Result<(), &str> {
        self.shm.as_ref().map_or(Err("shared memory is not used"), |shm| shm.port().maps_user_memory())
    }

    /// The reason of the first failure to map user memory that should be mappable.
    pub(crate) fn unmapped(&self) -> Option<&str> {
        self.shm.as_ref()?.port().unmapped()
    }

    /// Opens a connected peer's region through the net.
    pub(crate) fn import_net(&self, peer: Peer, key: &RegionKey) -> Result<NetMemory, FabricError> {
        self.net.as_ref().ok_or_else(|| absent(Lane::Net))?.import(peer, key)
    }

    /// Sends a message to a peer by the peer's route, with first contact if needed.
    pub(crate) fn send(&self, peer: Peer, bytes: &[u8]) -> Post {
        match (self.reach(peer), &self.shm, &self.net) {
            (Ok(Lane::Shm), Some(shm), _) => shm.port().send(peer, bytes),
            (Ok(Lane::Net), _, Some(net)) => each_net!(net, domain => domain.port().send(peer, bytes)),
            (Ok(lane), ..) => Post::Broken(Box::new(Fault::new(peer, absent(lane)))),
            (Err(error), ..) => Post::Broken(Box::new(Fault::new(peer, error))),
        }
    }

    /// The length of the longest message that `lane` takes.
    pub(crate) fn message_max(&self, lane: Lane) -> usize {
        match (lane, &self.shm, &self.net) {
            (Lane::Shm, Some(shm), _) => shm.port().limits().message_max,
            (Lane::Net, _, Some(net)) => net.message_max(),
            _ => 0,
        }
    }
}

fn absent(lane: Lane) -> FabricError {
    let transport = match lane {
        Lane::Net => "a net",
        Lane::Shm => "shared memory",
    };
    FabricError::unavailable(transport, Reason::NotOpened)
}

/// Whether ranks of the node map the region of a key.
pub(crate) fn is_mapped(key: &RegionKey) -> bool {
    transom_shm::is_mapped(key)
}

/// The rank in whose heap the region of a key lies, if another rank has registered the region.
pub(crate) fn heap_owner(key: &RegionKey) -> Option<usize> {
    transom_shm::heap_owner(key).map(Peer::index)
}

/// The key by which ranks of the node reach a region.
pub(crate) fn shm_key(region: &ShmRegion) -> RegionKey {
    region.key()
}

/// The memory of a process over verbs, without connections.
#[cfg(test)]
pub(crate) fn bytes_of_verbs() -> usize {
    VerbsDomain::bytes()
}

//! Regions: the memory that peers may access, and its keys. Knows nothing of the ways of access.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Region, RegionKey, Width};

use crate::heap::{Heap, Token};
use crate::port::ShmPort;
use crate::xpmem::{self, Xpmem};

/// This process's end of the shared-memory transport.
#[derive(Debug)]
pub struct ShmDomain {
    heap: Arc<Heap>,
    port: ShmPort,
    regions: Arc<Regions>,
    generation: AtomicU32,
}

/// Memory that peers on this node may access.
#[derive(Debug)]
pub struct ShmRegion {
    key: Key,
    regions: Arc<Regions>,
}

/// The registered regions by their generation, for imports by this rank itself.
#[derive(Debug, Default)]
pub(crate) struct Regions(Mutex<BTreeMap<u32, Memory>>);

/// The way by which peers reach a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By mapping: `at` is an offset in the heap.
    Mapped,
    /// By XPMEM or cross-memory attach: `at` is an address in the process.
    Foreign,
}

/// A region key of this backend, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// The low half of the owner's token.
    pub(crate) owner: u32,
    pub(crate) generation: u32,
}

const MAPPED: u64 = u64::from_le_bytes(*b"shm-map1");
const FOREIGN: u64 = u64::from_le_bytes(*b"shm-cma1");

impl ShmDomain {
    /// The domain of rank `me` over its heap: one for each heap, whose message ring it reads.
    ///
    /// # Errors
    /// The heap has a domain already, or this process can't open its own heap through `/proc`.
    pub fn new(heap: Arc<Heap>, me: Peer) -> Result<Arc<ShmDomain>, FabricError> {
        ShmDomain::open(heap, me, xpmem::here())
    }

    /// [`ShmDomain::new`] without XPMEM, for this process's memory and for that of peers. `reason`
    /// says why.
    ///
    /// # Errors
    /// As for [`ShmDomain::new`].
    pub fn without_xpmem(heap: Arc<Heap>, me: Peer, reason: &str) -> Result<Arc<ShmDomain>, FabricError> {
        ShmDomain::open(heap, me, Err(reason.to_owned()))
    }

    fn open(heap: Arc<Heap>, me: Peer, xpmem: Result<&'static Xpmem, String>) -> Result<Arc<ShmDomain>, FabricError> {
        if !heap.claim() {
            let what = format!("opening shared memory for {me}");
            return Err(FabricError::failed(what, "the heap has a domain already"));
        }
        let regions = Arc::new(Regions::default());
        let port = ShmPort::new(&heap, me, Arc::clone(&regions), xpmem)?;
        Ok(Arc::new(ShmDomain { heap, port, regions, generation: AtomicU32::new(0) }))
    }

    /// Lets peers access the whole address space of this process by address: offsets are addresses,
    /// and callers choose which of them to access. Whether the kernel allows it is known when a
    /// peer imports the region.
    pub fn register_addresses(&self) -> ShmRegion {
        self.enter(Kind::Foreign, 0, u64::MAX, &Memory::private(0))
    }

    /// The heap that the domain was made with.
    pub fn heap(&self) -> &Arc<Heap> {
        &self.heap
    }
}

impl ShmDomain {
    /// Records a region among the registered ones.
    fn enter(&self, kind: Kind, at: u64, len: u64, memory: &Memory) -> ShmRegion {
        // Relaxed: the numbers need only differ.
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let key = Key { kind, at, len, owner: owner_check(self.heap.token()), generation };
        self.regions.lock().insert(generation, memory.clone());
        ShmRegion { key, regions: Arc::clone(&self.regions) }
    }
}

impl Domain for ShmDomain {
    type Region = ShmRegion;
    type Port = ShmPort;

    fn port(&self) -> &ShmPort {
        &self.port
    }

    fn register(&self, memory: &Memory) -> Result<ShmRegion, FabricError> {
        let (kind, at) = match self.heap.offset_of(memory) {
            Some(offset) => (Kind::Mapped, offset),
            None if memory.is_empty() => (Kind::Mapped, 0),
            None => (Kind::Foreign, memory.as_ptr().addr() as u64),
        };
        Ok(self.enter(kind, at, memory.len() as u64, memory))
    }
}

impl Region for ShmRegion {
    fn key(&self) -> RegionKey {
        self.key.pack()
    }

    fn amo(&self, _kind: AmoKind, _width: Width) -> Option<Coherence> {
        self.key.amo()
    }
}

impl Drop for ShmRegion {
    fn drop(&mut self) {
        let memory = self.regions.lock().remove(&self.key.generation);
        // Dropped after the lock is released: the last clone of a block unmaps and empties it.
        drop(memory);
    }
}

impl Regions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of a region of this process.
    pub(crate) fn find(&self, key: &Key) -> Option<Memory> {
        let found = self.lock().get(&key.generation).cloned()?;
        (found.len() as u64 == key.len).then_some(found)
    }
}

impl Key {
    fn pack(&self) -> RegionKey {
        let kind = match self.kind {
            Kind::Mapped => MAPPED,
            Kind::Foreign => FOREIGN,
        };
        let check = u64::from(self.generation) << 32 | u64::from(self.owner);
        RegionKey([kind, self.at, self.len, check])
    }

    /// The parts of a key; `None` for a key of another backend.
    pub(crate) fn unpack(key: &RegionKey) -> Option<Key> {
        let [kind, at, len, check] = key.0;
        let kind = match kind {
            MAPPED => Kind::Mapped,
            FOREIGN => Kind::Foreign,
            _ => return None,
        };
        Some(Key {
            kind,
            at,
            len,
            owner: u32::try_from(check & 0xffff_ffff).ok()?,
            generation: u32::try_from(check >> 32).ok()?,
        })
    }

    /// Mapped regions have the CPU's atomics, other regions have none.
    pub(crate) fn amo(&self) -> Option<Coherence> {
        (self.kind == Kind::Mapped).then_some(Coherence::WithCpu)
    }
}

/// Whether peers map the region of a key, and then use it as their own memory. If not, they reach
/// it by cross-memory attach, or not at all.
pub fn is_mapped(key: &RegionKey) -> bool {
    Key::unpack(key).is_some_and(|key| key.kind == Kind::Mapped)
}

/// The part of a rank's token that ties a key to its heap.
pub(crate) fn owner_check(token: Token) -> u32 {
    u32::try_from(token[0] & 0xffff_ffff).unwrap_or(0)
}

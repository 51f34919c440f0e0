//! The domain: this rank's end of the transport, and the registration of memory that peers may
//! access.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Reason, Region, RegionKey, Width};

use crate::heap::Heap;
use crate::port::ShmPort;
use crate::regions::{Key, Kind, Regions, owner_check};
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

impl ShmDomain {
    /// The domain of rank `me` over its heap: one for each heap, whose message ring it reads.
    ///
    /// # Errors
    /// The heap has a domain already, or this process can't open its own heap through `/proc`.
    pub fn new(heap: Arc<Heap>, me: Peer) -> Result<Arc<ShmDomain>, FabricError> {
        ShmDomain::open(heap, me, xpmem::module())
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
            return Err(FabricError::failed(what, Reason::Opened));
        }
        let regions = Arc::new(Regions::default());
        let port = ShmPort::new(&heap, me, Arc::clone(&regions), xpmem)?;
        Ok(Arc::new(ShmDomain { heap, port, regions, generation: AtomicU32::new(0) }))
    }

    /// Lets peers access the whole address space of this process by address: offsets are addresses,
    /// and callers choose which of them to access. Whether the kernel allows it is known when a
    /// peer imports the region.
    pub fn register_addresses(&self) -> ShmRegion {
        self.record(self.key(Kind::UserMemory, 0, u64::MAX), &Memory::private(0))
    }

    /// The heap that the domain was made with.
    pub fn heap(&self) -> &Arc<Heap> {
        &self.heap
    }
}

impl ShmDomain {
    /// The key of memory of this process, before the region has a number.
    fn key(&self, kind: Kind, at: u64, len: u64) -> Key {
        Key { kind, at, len, owner: owner_check(self.heap.token()), generation: 0 }
    }

    /// Records a region among the registered ones.
    fn record(&self, key: Key, memory: &Memory) -> ShmRegion {
        // Relaxed: the numbers need only differ.
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let key = Key { generation, ..key };
        self.regions.insert(generation, memory.clone());
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
        let len = memory.len() as u64;
        let key = match self.heap.offset_of(memory) {
            Some(offset) => self.key(Kind::Mapped, offset, len),
            None if memory.is_empty() => self.key(Kind::Mapped, 0, 0),
            None => match self.port.in_heap_of_peer(memory.span()) {
                Some(found) => found.key(),
                None => self.key(Kind::UserMemory, memory.as_ptr().addr() as u64, len),
            },
        };
        Ok(self.record(key, memory))
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
        drop(self.regions.remove(self.key.generation));
    }
}

//! Keys of regions, which peers use to import a region, and this process's registered regions. Must
//! not know how peers access them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Coherence, Memory, Peer, RegionKey};

use crate::heap::Token;

/// The registered regions by their generation, for imports by this rank itself.
#[derive(Debug, Default)]
pub(crate) struct Regions(Mutex<BTreeMap<u32, Memory>>);

/// The way by which peers reach a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By mapping: `at` is an offset in the heap.
    Mapped,
    /// By mapping the heap of another rank of the node: `at` is an offset in that heap.
    MappedFrom(Peer),
    /// By XPMEM or cross-memory attach: `at` is an address in the process.
    UserMemory,
}

/// A region key of this backend, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// The low half of the token of the process in whose heap the region lies, or, for user memory,
    /// of the process that registered it.
    pub(crate) owner: u32,
    /// The number of the region among those of its process. A packed key of
    /// [`Kind::MappedFrom`] has the rank in its place.
    pub(crate) generation: u32,
}

const MAPPED: u64 = u64::from_le_bytes(*b"shm-map1");
const MAPPED_FROM: u64 = u64::from_le_bytes(*b"shm-from");
const USER_MEMORY: u64 = u64::from_le_bytes(*b"shm-cma1");

impl Regions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a region.
    pub(crate) fn insert(&self, generation: u32, memory: Memory) {
        self.lock().insert(generation, memory);
    }

    /// Forgets a region. The memory is returned, because its last clone unmaps and empties the
    /// block, which must not happen under the lock.
    pub(crate) fn remove(&self, generation: u32) -> Option<Memory> {
        self.lock().remove(&generation)
    }

    /// The memory of a region of this process.
    pub(crate) fn find(&self, key: &Key) -> Option<Memory> {
        let found = self.lock().get(&key.generation).cloned()?;
        (found.len() as u64 == key.len).then_some(found)
    }
}

impl Key {
    /// The key as peers get it.
    pub(crate) fn pack(&self) -> RegionKey {
        let (kind, number) = match self.kind {
            Kind::Mapped => (MAPPED, self.generation),
            Kind::MappedFrom(Peer(rank)) => (MAPPED_FROM, rank),
            Kind::UserMemory => (USER_MEMORY, self.generation),
        };
        let check = u64::from(number) << 32 | u64::from(self.owner);
        RegionKey([kind, self.at, self.len, check])
    }

    /// The parts of a key; `None` for a key of another backend.
    pub(crate) fn unpack(key: &RegionKey) -> Option<Key> {
        let [kind, at, len, check] = key.0;
        let number = u32::try_from(check >> 32).ok()?;
        let (kind, generation) = match kind {
            MAPPED => (Kind::Mapped, number),
            MAPPED_FROM => (Kind::MappedFrom(Peer(number)), 0),
            USER_MEMORY => (Kind::UserMemory, number),
            _ => return None,
        };
        Some(Key { kind, at, len, owner: u32::try_from(check & 0xffff_ffff).ok()?, generation })
    }

    /// Mapped regions have the CPU's atomics, other regions have none.
    pub(crate) fn amo(&self) -> Option<Coherence> {
        (self.kind != Kind::UserMemory).then_some(Coherence::WithCpu)
    }
}

/// Whether peers map the region of a key, and then use it as their own memory. If not, they reach
/// it by cross-memory attach, or not at all.
pub fn is_mapped(key: &RegionKey) -> bool {
    Key::unpack(key).is_some_and(|key| key.kind != Kind::UserMemory)
}

/// The rank in whose heap the region of a key lies, if another rank has registered the region. A
/// rank that imports the region must have connected to the heap's rank too.
pub fn heap_owner(key: &RegionKey) -> Option<Peer> {
    match Key::unpack(key)?.kind {
        Kind::MappedFrom(rank) => Some(rank),
        Kind::Mapped | Kind::UserMemory => None,
    }
}

/// The part of a rank's token that ties a key to its heap.
pub(crate) fn owner_check(token: Token) -> u32 {
    u32::try_from(token[0] & 0xffff_ffff).unwrap_or(0)
}

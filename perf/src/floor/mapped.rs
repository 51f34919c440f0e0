//! Memory of several ranks that all of them have mapped, independent of the library's route: each
//! rank has a heap and opens the heaps of the others.

use std::sync::Arc;

use transom_fabric::{Domain, Memory, Peer, Port, Region, RegionKey};
use transom_shm::{Heap, HeapOptions, ShmDomain};

use crate::outcome::Outcome;

/// A block of each of several ranks.
pub(crate) struct Parts {
    /// Indexed by rank, this rank included.
    pub(crate) memory: Vec<Memory>,
    _keeps: (<ShmDomain as Domain>::Region, Arc<ShmDomain>),
}

impl Parts {
    /// Allocates `len` bytes at this rank and maps the blocks of the other ranks. `exchange` sends
    /// the key and address of this rank's block to them, and returns those of each rank.
    pub(crate) fn open(
        rank: usize,
        len: usize,
        exchange: impl FnOnce(&[u8]) -> Outcome<Vec<Vec<u8>>>,
    ) -> Outcome<Parts> {
        let heap = Heap::create(HeapOptions::default())?;
        let domain = ShmDomain::new(Arc::clone(&heap), Peer(u32::try_from(rank)?))?;
        let mine = heap.allocate(len)?;
        let region = domain.register(&mine)?;
        let mut own: Vec<u8> = region.key().0.iter().flat_map(|word| word.to_le_bytes()).collect();
        own.extend(domain.port().address());
        let mut memory = Vec::new();
        for (other, block) in exchange(&own)?.iter().enumerate() {
            memory.push(if other == rank { mine.clone() } else { mapped(&domain, other, block)? });
        }
        Ok(Parts { memory, _keeps: (region, domain) })
    }
}

/// Maps the block of another rank, by its key and address.
fn mapped(domain: &ShmDomain, other: usize, block: &[u8]) -> Outcome<Memory> {
    let (key, address) = block.split_at_checked(32).ok_or("the address that another rank sent is too short")?;
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let other = Peer(u32::try_from(other)?);
    domain.port().connect(other, address)?;
    let remote = domain.port().import(other, &RegionKey(words))?;
    Ok(domain.port().direct(&remote).ok_or("another rank's memory is not mapped")?.clone())
}

/// A block of each of two ranks.
pub(crate) struct Mapped {
    /// This rank's own.
    pub(crate) mine: Memory,
    /// The other rank's.
    pub(crate) theirs: Memory,
    _keeps: Parts,
}

impl Mapped {
    /// Allocates `len` bytes at this rank, 0 or 1, and maps the other rank's; `exchange` sends some
    /// bytes to the other rank and returns its bytes.
    pub(crate) fn open(rank: usize, len: usize, exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>) -> Outcome<Mapped> {
        let parts = Parts::open(rank, len, |mine| {
            let mut blocks = vec![Vec::new(); 2];
            blocks[1 - rank] = exchange(mine)?;
            Ok(blocks)
        })?;
        let (mine, theirs) = (parts.memory[rank].clone(), parts.memory[1 - rank].clone());
        Ok(Mapped { mine, theirs, _keeps: parts })
    }
}

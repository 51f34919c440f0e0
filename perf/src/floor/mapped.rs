//! Memory of ranks 0 and 1 that both have mapped, independent of the library's route: each rank has
//! a heap and opens the other's. The use of the memory is unknown here.

use std::sync::Arc;

use transom_fabric::{Domain, Memory, Peer, Port, Region, RegionKey};
use transom_shm::{Heap, HeapOptions, ShmDomain};

use crate::Outcome;

/// A block of each of the two ranks.
pub(crate) struct Mapped {
    /// This rank's own.
    pub(crate) mine: Memory,
    /// The other rank's.
    pub(crate) theirs: Memory,
    _keeps: (<ShmDomain as Domain>::Region, Arc<ShmDomain>),
}

impl Mapped {
    /// Allocates `len` bytes at this rank, 0 or 1, and maps the other rank's; `exchange` sends some
    /// bytes to the other rank and returns its bytes.
    pub(crate) fn open(rank: usize, len: usize, exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>) -> Outcome<Mapped> {
        let me = Peer(u32::try_from(rank)?);
        let heap = Heap::create(HeapOptions::default())?;
        let domain = ShmDomain::new(Arc::clone(&heap), me)?;
        let mine = heap.allocate(len)?;
        let region = domain.register(&mine)?;
        let mut card: Vec<u8> = region.key().0.iter().flat_map(|word| word.to_le_bytes()).collect();
        card.extend(domain.port().address());
        let card = exchange(&card)?;
        let (key, address) = card.split_at_checked(32).ok_or("the other rank's card is too short")?;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let other = Peer(1 - me.0);
        domain.port().connect(other, address)?;
        let remote = domain.port().import(other, &RegionKey(words))?;
        let theirs = domain.port().direct(&remote).ok_or("the other rank's memory is not mapped")?.clone();
        Ok(Mapped { mine, theirs, _keeps: (region, domain) })
    }
}

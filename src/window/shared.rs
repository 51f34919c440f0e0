//! Parts of other ranks that this process loads and stores itself (MPI-4.1 §12.2.3; for created and
//! allocated windows where MPI-4.1 allows it).

use transom_fabric::{Memory, Span};

use super::own::Own;
use super::target::{Reach, Target};
use crate::error::{ArgumentError, Class, Error, Result};

/// A part that this process can load and store (`MPI_WIN_SHARED_QUERY`).
#[derive(Clone, Debug)]
pub struct SharedPart {
    pub(super) rank: usize,
    pub(super) memory: Memory,
    /// The part's address range in this process.
    place: Span,
    pub(super) unit: u32,
}

impl SharedPart {
    /// The rank that owns the part.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The address of the first byte in this process. Null for an empty part, unless the part is in
    /// a contiguous segment. Memory of the library stays mapped as long as this value exists; the
    /// memory of a created window may end when the window is freed. Other ranks may write the bytes
    /// at any time, so Rust code must access them by the pointer, never by a reference.
    pub fn base(&self) -> *mut u8 {
        self.place.as_ptr()
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.memory.len()
    }

    /// The displacement unit in bytes.
    pub fn disp_unit(&self) -> u32 {
        self.unit
    }
}

impl Own {
    /// The part of a target, as this rank loads and stores it. `me`: this rank in the window's
    /// group.
    pub(super) fn shared(&self, me: usize, target: &Target) -> Result<SharedPart> {
        let rank = target.rank();
        let memory = if rank == me { Some(self.local()) } else { target.reach.memory() };
        let refused = |reason| Err(Error::argument(Class::RmaShared, "shared_query", reason));
        match (memory, self.separate.is_some() && rank != me, &target.reach) {
            (Some(memory), false, _) => Ok(self.found(rank, memory.clone(), target.unit)),
            (_, _, Reach::Mapped(..)) => refused(ArgumentError::SeparateCopy { rank }),
            _ => refused(ArgumentError::NotShared { rank }),
        }
    }

    /// The result if no part has bytes: a part of no bytes.
    pub(super) fn shared_nothing(&self) -> SharedPart {
        self.found(0, Memory::private(0), self.part.unit)
    }

    fn found(&self, rank: usize, memory: Memory, unit: u32) -> SharedPart {
        SharedPart { rank, place: self.place_of(&memory), memory, unit }
    }
}

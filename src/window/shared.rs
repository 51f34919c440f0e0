//! Parts of other ranks that this process loads and stores itself (MPI-4.1 §12.2.3; for created and
//! allocated windows where MPI-4.1 allows it).

use transom_fabric::{Memory, Span};

use super::core::Core;
use super::target::{Reach, Target};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::flavor::Flavor;
use crate::job::PROC_NULL;

/// A part that this process can load and store (`MPI_WIN_SHARED_QUERY`).
#[derive(Clone, Debug)]
pub struct SharedPart {
    pub(super) rank: usize,
    pub(super) memory: Memory,
    /// The part's place in this process's memory.
    place: Span,
    pub(super) unit: u32,
}

impl SharedPart {
    /// The rank that owns the part.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The first byte, as an address of this process. Null for a part of no bytes, unless it lies
    /// in a contiguous segment.
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

impl Core {
    /// The part of a rank; for `PROC_NULL`, that of the lowest rank whose part has bytes (MPI-4.1
    /// §12.2.3).
    pub(crate) fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        if self.flavor == Flavor::Dynamic {
            return Err(Error::argument(Class::RmaFlavor, "shared_query", ArgumentError::DynamicUnshared));
        }
        if rank != PROC_NULL {
            let part = self.target("shared_query", rank)?.map(|target| self.part_of(target));
            return part.unwrap_or_else(|| Err(Error::argument(Class::Rank, "shared_query", ArgumentError::ProcNull)));
        }
        for rank in 0..self.team.size {
            if let Some(target) = self.target("shared_query", rank)?
                && target.size > 0
            {
                return self.part_of(target);
            }
        }
        Ok(self.found(0, Memory::private(0), self.own.part.unit))
    }

    fn found(&self, rank: usize, memory: Memory, unit: u32) -> SharedPart {
        SharedPart { rank, place: self.own.place_of(&memory), memory, unit }
    }

    fn part_of(&self, target: &Target) -> Result<SharedPart> {
        let memory = if target.rank() == self.team.me { Some(self.own.local()) } else { target.reach.memory() };
        match (memory, self.own.separate.is_some() && target.rank() != self.team.me, &target.reach) {
            (Some(memory), false, _) => Ok(self.found(target.rank(), memory.clone(), target.unit)),
            (_, _, Reach::Mapped(..)) => {
                let reason = ArgumentError::SeparateCopy { rank: target.rank() };
                Err(Error::argument(Class::RmaShared, "shared_query", reason))
            }
            _ => {
                let reason = ArgumentError::NotShared { rank: target.rank() };
                Err(Error::argument(Class::RmaShared, "shared_query", reason))
            }
        }
    }
}

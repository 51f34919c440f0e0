//! Memory of the library outside of windows: programs allocate it, and may create windows over it
//! later.

use transom_fabric::Memory;

use super::available_memory::{allocated, has_huge_pages};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::flavor::Flavor;
use crate::hints::{Hints, Info};
use crate::job::Job;

/// Memory that other ranks of the node can map (`MPI_ALLOC_MEM`, MPI-4.1 §9.2), zeroed at first.
/// For ranks of the node, windows that are created over it, or over a range of it, are as fast as
/// allocated ones: [`Window::create_over`](crate::Window::create_over), or
/// [`RawWindow::create`](crate::RawWindow::create) by address.
///
/// The drop frees the memory (`MPI_FREE_MEM`), unless windows over it still exist: then the last
/// window frees it.
///
/// ```
/// # fn main() -> transom::Result<()> {
/// use transom::Window;
/// let world = transom::init()?;
/// let memory = world.alloc_mem(4096)?;
/// let whole = Window::<u64>::create_over(&world, &memory, 0, 512)?;
/// let tail = Window::<u32>::create_over(&world, &memory, 2048, 512)?;
/// drop(memory); // the windows keep it
/// whole.lock_all(|epoch| epoch.put_value(0, 256, 7))?;
/// let mut seen = [0];
/// tail.load(0, &mut seen)?;
/// assert_eq!(seen, [7]);
/// tail.free()?;
/// whole.free()
/// # }
/// ```
#[derive(Debug)]
pub struct Allocation {
    memory: Memory,
}

impl Job {
    /// Allocates memory of this process that other ranks of the node can map (`MPI_ALLOC_MEM`,
    /// MPI-4.1 §9.2). Local. The memory begins at the start of a page.
    ///
    /// # Errors
    /// `Size` where the memory can't be allocated.
    pub fn alloc_mem(&self, bytes: usize) -> Result<Allocation> {
        self.alloc_mem_with(bytes, &Info::new())
    }

    /// [`Job::alloc_mem`] with hints. The memory begins at a multiple of the hint
    /// `mpi_minimum_memory_alignment`, a power of two, if this hint is larger than a page. With the
    /// hint `transom_huge_pages` the memory consists of huge pages.
    ///
    /// # Errors
    /// As for [`Job::alloc_mem`]; `InfoValue` for a hint with an illegal value.
    pub fn alloc_mem_with(&self, bytes: usize, info: &Info) -> Result<Allocation> {
        let of = |info: &Info| Hints::at_creation(info, Flavor::Allocate);
        let hints = if info.is_forgiving() { of(&info.usable(|one| of(one).map(drop)).0)? } else { of(info)? };
        if hints.huge_pages.is_some() {
            has_huge_pages(self.core());
        }
        Ok(Allocation { memory: allocated(self.core(), "alloc_mem", bytes, &hints)? })
    }
}

impl Allocation {
    /// The first byte. For a length of 0 the pointer must not be dereferenced. No Rust reference to
    /// the bytes may exist while other ranks may write them.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Loads `into.len()` bytes, from byte `at` on.
    ///
    /// # Panics
    /// If the bytes are not all inside the memory.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.memory.read(at, into);
    }

    /// Stores the bytes of `from`, from byte `at` on.
    ///
    /// # Panics
    /// If the bytes are not all inside the memory.
    pub fn store(&self, at: usize, from: &[u8]) {
        self.memory.write(at, from);
    }

    /// A part of the memory, which keeps the whole alive.
    pub(super) fn part(&self, call: &'static str, at: usize, len: usize) -> Result<Memory> {
        let outside = || {
            let reason = ArgumentError::OutsideAllocation { at, length: len, size: self.len() };
            Error::argument(Class::RmaRange, call, reason)
        };
        self.memory.slice(at, len).ok_or_else(outside)
    }
}

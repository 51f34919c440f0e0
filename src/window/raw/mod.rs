//! The byte-level window: explicit epochs, displacement units per rank, buffers by address, types at run time. The typed
//! window and the C interface are made of the same parts; this one checks at run time what types say there.

mod assert;
mod items;
mod operate;
mod synchronize;

use std::sync::Arc;

use transom_fabric::Memory;

use super::core::Core;
use super::create::{Wanted, allocated};
use super::shared::SharedPart;
use super::target::Flavor;
use crate::buffers;
use crate::error::{Class, Error, Result};
use crate::hints::{Info, Model};
use crate::job::{Job, JobCore, Route};
use crate::plan::Actor;

pub use assert::Assert;
pub use items::{At, Items};

/// A window of bytes. Sizes and displacement units may differ at every rank (MPI §11.2.1).
#[derive(Debug)]
pub struct RawWindow {
    core: Arc<Core>,
}

/// How windows come and go.
impl RawWindow {
    /// Allocates `size` zeroed bytes at this rank, addressed by others in units of `disp_unit` bytes
    /// (`MPI_WIN_ALLOCATE`, MPI §11.2.2). Collective.
    ///
    /// # Errors
    /// `Size` where the memory can't be had, `Disp` for a unit of 0, `InfoValue` for a hint with a value that it can't have.
    pub fn allocate(job: &Job, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let wanted = Wanted { flavor: Flavor::Allocate, unit: disp_unit, info };
        let core = Core::create(job, &wanted, |job, hints| allocated(job, "allocate", size, hints))?;
        Ok(RawWindow { core })
    }

    /// Allocates memory that all ranks, which must be of one node, load and store: one segment in which the parts lie in the order of
    /// the ranks, or apart where the hint `alloc_shared_noncontig` allows it (`MPI_WIN_ALLOCATE_SHARED`, MPI §11.2.3). Collective.
    ///
    /// # Errors
    /// `RmaShared` where a rank is of another node; otherwise as for [`RawWindow::allocate`].
    pub fn allocate_shared(job: &Job, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let wanted = Wanted { flavor: Flavor::Shared, unit: disp_unit, info };
        Ok(RawWindow { core: Core::create_shared(job, &wanted, size)? })
    }

    /// A window without memory, to which each rank attaches what it likes (`MPI_WIN_CREATE_DYNAMIC`, MPI §11.2.4). Displacements are
    /// addresses of the target. Collective.
    ///
    /// # Errors
    /// `InfoValue` for a hint with a value that it can't have.
    pub fn create_dynamic(job: &Job, info: &Info) -> Result<RawWindow> {
        let wanted = Wanted { flavor: Flavor::Dynamic, unit: 1, info };
        let core = Core::create(job, &wanted, |_, _| Ok(Memory::private(0)))?;
        Ok(RawWindow { core })
    }

    /// Opens `size` bytes at `base` as this rank's part (`MPI_WIN_CREATE`, MPI §11.2.1). Collective. Where they lie within one
    /// [`Allocation`](crate::Allocation), or within one part of the library's memory, ranks of the node map them, and the window keeps that memory. Other
    /// memory is mapped where its pages can be exchanged ([costs](crate::book::costs#operations)) as long as the window lives.
    ///
    /// # Errors
    /// `Base` for a null base with a size, `Disp` for a unit of 0, `InfoValue` for a hint with a value that it can't have.
    ///
    /// # Safety
    /// The memory stays readable and writable until `free` has returned `Ok`, and no Rust reference to it exists while
    /// peers may write it.
    pub unsafe fn create(job: &Job, base: *mut u8, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        // SAFETY: the caller's promise.
        let memory = if size == 0 { Some(Memory::private(0)) } else { unsafe { given(job.core(), base, size) } };
        let memory = memory
            .ok_or_else(|| Error::argument(Class::Base, "create", format!("a null base with a size of {size} bytes")));
        let wanted = Wanted { flavor: Flavor::Create, unit: disp_unit, info };
        Ok(RawWindow { core: Core::create(job, &wanted, |_, _| memory)? })
    }

    /// Attaches `size` bytes at `base` to a dynamic window (`MPI_WIN_ATTACH`, MPI §11.2.4). Local.
    ///
    /// # Errors
    /// `RmaAttach` where they overlap what is attached, or for no bytes; `RmaFlavor` for a window that is not dynamic.
    ///
    /// # Safety
    /// The memory stays readable and writable until it is detached, and no peer accesses it from then on; no Rust reference to it exists
    /// while peers may write it.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let memory = if size == 0 { None } else { unsafe { given(&self.core.job, base, size) } };
        let none = || Error::argument(Class::RmaAttach, "attach", format!("{size} bytes at {base:p} are no memory"));
        self.core.attach(memory.ok_or_else(none)?)
    }

    /// Detaches the region that begins at `base` (`MPI_WIN_DETACH`, MPI §11.2.4). Local.
    ///
    /// # Errors
    /// `RmaAttach` where no region begins there; `RmaFlavor` for a window that is not dynamic.
    pub fn detach(&self, base: *const u8) -> Result<()> {
        self.core.detach(base.addr())
    }

    /// Ends the window (`MPI_WIN_FREE`, MPI §11.2.5). Collective; detaches everything.
    ///
    /// # Errors
    /// `RmaSync` within an epoch; otherwise as for [`Window::free`](crate::Window::free).
    pub fn free(&self) -> Result<()> {
        self.core.free()
    }
}

/// What a window is (MPI §11.2.6).
impl RawWindow {
    /// The first byte of this rank's part, which is its private copy in the separate model (`MPI_WIN_BASE`); null for a dynamic window
    /// (`MPI_BOTTOM`).
    pub fn base(&self) -> *mut u8 {
        if self.core.flavor == Flavor::Dynamic { std::ptr::null_mut() } else { self.core.local().as_ptr() }
    }

    /// The bytes of this rank's part (`MPI_WIN_SIZE`); 0 for a dynamic window.
    pub fn size(&self) -> usize {
        self.core.memory.len()
    }

    /// This rank's displacement unit in bytes (`MPI_WIN_DISP_UNIT`); 1 for a dynamic window.
    pub fn disp_unit(&self) -> u32 {
        self.core.part.unit
    }

    /// How the window came to its memory (`MPI_WIN_CREATE_FLAVOR`).
    pub fn flavor(&self) -> Flavor {
        self.core.flavor
    }

    /// Its memory model (`MPI_WIN_MODEL`).
    pub fn model(&self) -> Model {
        self.core.model()
    }

    /// Its ranks, as ranks of the whole job (`MPI_WIN_GET_GROUP`).
    pub fn group(&self) -> Vec<usize> {
        self.core.group()
    }

    /// All hints with the values in force (`MPI_WIN_GET_INFO`, MPI §11.2.7).
    pub fn info(&self) -> Info {
        self.core.info()
    }

    /// Changes hints (`MPI_WIN_SET_INFO`): `no_locks`, `accumulate_ordering`, `accumulate_ops`, `same_size` and `same_disp_unit`; others
    /// were decided at creation and stay. Collective in MPI: all ranks give the same; here nothing is sent.
    ///
    /// # Errors
    /// `InfoValue` for a value that can't be; then nothing changes.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.core.set_info(info)
    }

    /// The part of `rank` as this process loads and stores it, or for `PROC_NULL` of the lowest rank whose part has bytes
    /// (`MPI_WIN_SHARED_QUERY`, MPI §11.2.3).
    ///
    /// # Errors
    /// `RmaShared` where load and store do not reach it; `RmaFlavor` for a dynamic window; `Rank`.
    pub fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        self.core.shared_query(rank)
    }

    /// Loads bytes of this rank's part, its private copy, from byte `at` on.
    ///
    /// # Panics
    /// Outside this rank's part.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.core.local().read(at, into);
    }

    /// Stores bytes into this rank's part, its private copy, from byte `at` on.
    ///
    /// # Panics
    /// Outside this rank's part.
    pub fn store(&self, at: usize, from: &[u8]) {
        self.core.local().write(at, from);
    }

    /// The way to a rank.
    ///
    /// # Errors
    /// `Rank`.
    pub fn route(&self, rank: usize) -> Result<Route> {
        self.core.route(rank)
    }

    /// Whether ranks of a node map each other's parts, all of them: so it is for memory of the library, and for created windows where all
    /// parts of a node are within such memory ([`Job::alloc_mem`]), or could be made mappable ([costs](crate::book::costs#operations)). Others of the
    /// node reach parts that are not mapped by system calls, or by messages where the kernel forbids those.
    pub fn is_mapped(&self) -> bool {
        self.core.is_mapped()
    }

    /// Who performs atomics on integers of 64 bits, and of 32 where the device has those; on all other types it is the CPU.
    pub fn actor(&self) -> Actor {
        self.core.actor()
    }
}

/// Memory that a user gave: of the library's own, which then stays, or what the user promises to keep.
///
/// # Safety
/// As for [`buffers::promised_memory`].
unsafe fn given(job: &JobCore, base: *mut u8, size: usize) -> Option<Memory> {
    // SAFETY: the caller's promise.
    job.wire.allocated(base, size).or_else(|| unsafe { buffers::promised_memory(base, size) })
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        Core::abandon(&self.core);
    }
}

//! The byte-level window: explicit epochs, a displacement unit for each rank, buffers by address,
//! types at run time. The typed window and the C interface use the same core. This window checks at
//! run time the properties that the typed window has by its types.

mod assert;
mod checked;
mod forgiving;
mod items;
mod notify;
mod operate;
mod synchronize;

use std::sync::Arc;
use std::time::Duration;

use transom_fabric::{Memory, Span};

use super::available_memory::allocated;
use super::core::Core;
use super::create::WindowSpec;
use super::shared::SharedPart;
use crate::buffers;
use crate::epoch::Call;
use crate::error::{ArgumentError, Class, Error, Result};
use crate::flavor::Flavor;
use crate::hints::{Info, Model};
use crate::job::{Job, JobCore, Route};
use crate::routes::Actor;

use forgiving::{agreeing, usable};

pub use assert::Assert;
pub use items::{At, Items};

/// A window of bytes with a method for each of MPI's calls: explicit epochs, assertions, datatypes
/// as values, buffers by address. Sizes and displacement units may differ between ranks (MPI-4.1
/// §12.2.1). Operations that may use a buffer after their call are unsafe. New programs should
/// begin with [`Window`](crate::Window), which needs no unsafe call; dynamic windows exist only
/// here. [`book::mpi`](crate::book::mpi) lists the methods by MPI's names.
///
/// ```
/// use transom::{Assert, Info, RawWindow};
///
/// let world = transom::init()?;
/// let win = RawWindow::allocate(&world, 64, 8, &Info::new())?; // 8 units of 8 bytes
/// let next = (world.rank() + 1) % world.size();
/// let data = 7u64.to_ne_bytes();
/// win.fence(Assert::NONE)?;
/// // SAFETY: `data` is not written before the second fence.
/// unsafe { win.put(data.as_ptr(), data.len(), next, 0)? };
/// win.fence(Assert::NOSUCCEED)?; // the puts of all ranks are complete
/// let mut got = [0; 8];
/// win.load(0, &mut got);
/// assert_eq!(u64::from_ne_bytes(got), 7);
/// win.free()?;
/// # Ok::<(), transom::Error>(())
/// ```
#[derive(Debug)]
pub struct RawWindow {
    core: Arc<Core>,
    /// The base that the caller of `create` gave for a part of no bytes.
    given: Option<Span>,
}

/// Creation and end of windows. If creation fails at one rank, it fails at all ranks, and no rank
/// has the window: the other ranks get `Other`. A call fails with `Arg` at this rank alone if
/// another thread of this rank is in a barrier or a window creation of the same ranks.
impl RawWindow {
    /// Allocates `size` zeroed bytes at this rank, which other ranks address in units of
    /// `disp_unit` bytes (`MPI_WIN_ALLOCATE`, MPI-4.1 §12.2.2). Collective.
    ///
    /// # Errors
    /// `Size` if the memory can't be allocated, `Disp` for a unit of 0, `InfoValue` for a hint with
    /// an illegal value.
    pub fn allocate(job: &Job, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let spec = WindowSpec { flavor: Flavor::Allocate, unit: disp_unit, info };
        let make = |spec: &WindowSpec| Core::create(job, spec, |job, hints| allocated(job, "allocate", size, hints));
        let core = agreeing(job, &spec, make)?;
        Ok(RawWindow { core, given: None })
    }

    /// Allocates memory that all ranks load and store; the ranks must be on one node. The parts are
    /// contiguous in the order of the ranks, unless the hint `alloc_shared_noncontig` allows
    /// separate parts (`MPI_WIN_ALLOCATE_SHARED`, MPI-4.1 §12.2.3). Collective.
    ///
    /// # Errors
    /// `RmaShared` if a rank is on another node; otherwise as for [`RawWindow::allocate`].
    pub fn allocate_shared(job: &Job, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let spec = WindowSpec { flavor: Flavor::Shared, unit: disp_unit, info };
        let core = agreeing(job, &spec, |spec| Core::create_shared(job, spec, Ok(size)))?;
        Ok(RawWindow { core, given: None })
    }

    /// Creates a window without memory, to which each rank attaches memory later
    /// (`MPI_WIN_CREATE_DYNAMIC`, MPI-4.1 §12.2.4). Displacements are addresses of the target.
    /// Collective.
    ///
    /// # Errors
    /// `InfoValue` for a hint with an illegal value.
    pub fn create_dynamic(job: &Job, info: &Info) -> Result<RawWindow> {
        let spec = WindowSpec { flavor: Flavor::Dynamic, unit: 1, info };
        let core = agreeing(job, &spec, |spec| Core::create(job, spec, |_, _| Ok(Memory::private(0))))?;
        Ok(RawWindow { core, given: None })
    }

    /// Takes part in a window creation, and makes it fail at all ranks: for a caller whose own
    /// arguments are invalid.
    #[doc(hidden)]
    pub fn refuse(job: &Job) {
        let spec = WindowSpec { flavor: Flavor::Create, unit: 0, info: &Info::new() };
        // A unit of 0 is an error at all ranks.
        drop(Core::create(job, &spec, |_, _| Ok(Memory::private(0))));
    }

    /// Creates a window whose part at this rank is the `size` bytes at `base` (`MPI_WIN_CREATE`,
    /// MPI-4.1 §12.2.1). Collective. If the bytes lie within one [`Allocation`](crate::Allocation),
    /// or within another block of the library's memory, ranks of the node map them. The window
    /// keeps a block that this rank has allocated. It does not keep memory of other ranks, such as
    /// that of a contiguous shared window, which the window's first rank has allocated. Ranks of
    /// the node access other memory by XPMEM or by system calls
    /// ([costs](crate::book::costs#which-memory-is-mapped-within-a-node)).
    ///
    /// # Errors
    /// `Base` for a null base with a size, `Size` for more bytes than the address space has there,
    /// `Disp` for a unit of 0, `InfoValue` for a hint with an illegal value.
    ///
    /// # Safety
    /// The memory is readable and writable until `free` has returned `Ok`, and no Rust reference to
    /// it exists while peers may write it.
    pub unsafe fn create(job: &Job, base: *mut u8, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        // SAFETY: the caller's promise.
        let memory = if size == 0 { Some(Memory::private(0)) } else { unsafe { given(job.core(), base, size) } };
        let none = || match base.is_null() {
            true => Error::argument(Class::Base, "create", ArgumentError::NullBase { size }),
            false => Error::argument(Class::Size, "create", ArgumentError::NotMemory { address: base.addr(), size }),
        };
        let spec = WindowSpec { flavor: Flavor::Create, unit: disp_unit, info };
        let make = |spec: &WindowSpec| Core::create(job, spec, |_, _| memory.clone().ok_or_else(none));
        let given = (size == 0).then(|| Span::from_raw(base, 0));
        Ok(RawWindow { core: agreeing(job, &spec, make)?, given })
    }

    /// Attaches `size` bytes at `base` to a dynamic window (`MPI_WIN_ATTACH`, MPI-4.1 §12.2.4).
    /// Local.
    ///
    /// # Errors
    /// `RmaAttach` if the bytes overlap an attached region, for a null base with a size, and for
    /// more bytes than the address space has there; `RmaFlavor` for a window that is not dynamic.
    ///
    /// # Safety
    /// The memory is readable and writable until it is detached, and no peer accesses the memory
    /// afterwards. No Rust reference to the memory exists while peers may write it.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        if size == 0 {
            return self.core.attach_empty(base.addr());
        }
        // SAFETY: the caller's promise.
        let memory = unsafe { given(&self.core.parts.job, base, size) };
        let reason = ArgumentError::NotMemory { address: base.addr(), size };
        let none = || Error::argument(Class::RmaAttach, "attach", reason);
        self.core.attach(memory.ok_or_else(none)?)
    }

    /// Detaches the region that begins at `base` (`MPI_WIN_DETACH`, MPI-4.1 §12.2.4). Not
    /// collective. Over a net the call waits for an answer of each rank whose net accesses the
    /// region; these ranks need not call anything.
    ///
    /// # Errors
    /// `RmaAttach` if no region begins there; `RmaFlavor` for a window that is not dynamic; `Other`
    /// if a transport failed. The region is then detached too.
    pub fn detach(&self, base: *const u8) -> Result<()> {
        self.core.detach(base.addr())
    }

    /// Checks whether [`RawWindow::free`] may be called now. Completes this rank's operations, and
    /// leaves the window unchanged. Local.
    ///
    /// # Errors
    /// As for [`RawWindow::free`].
    #[doc(hidden)]
    pub fn may_free(&self) -> Result<()> {
        let allowed = self.core.epochs.check("free", Call::Free).map(drop);
        // The conflict checker reports an operation at its target when the operation is complete,
        // and the refusal may end the job.
        if allowed.is_err() && !self.core.parts.is_checked() {
            return allowed;
        }
        allowed.and(self.core.parts.flush_all())
    }

    /// Whether all ranks pass true. Collective.
    ///
    /// # Errors
    /// A rank has died or can't be reached.
    #[doc(hidden)]
    pub fn all_agree(&self, agrees: bool) -> Result<bool> {
        self.core.barrier_with_bits(u32::from(!agrees)).map(|bits| bits == 0)
    }

    /// With the conflict checker: waits until all ranks are in this call, for at most `patience`.
    /// Returns whether they are. If not, this rank is no longer in the call.
    ///
    /// # Errors
    /// A rank has died.
    #[doc(hidden)]
    pub fn assemble_to_free(&self, patience: Option<Duration>) -> Result<bool> {
        self.core.parts.assemble("free", patience)
    }

    /// Frees the window and detaches all its regions (`MPI_WIN_FREE`, MPI-4.1 §12.2.5). Collective.
    ///
    /// # Errors
    /// `RmaSync` within an epoch; otherwise as for [`Window::free`](crate::Window::free). If only
    /// operations have failed, the window is freed nevertheless ([`RawWindow::is_freed`]).
    pub fn free(&self) -> Result<()> {
        self.core.free()
    }

    /// Whether the window was freed. No rank accesses this rank's part any more.
    pub fn is_freed(&self) -> bool {
        self.core.is_freed()
    }

    /// Panics if the window was freed, because its memory may no longer exist.
    pub(super) fn assert_not_freed(&self, call: &str) {
        assert!(!self.core.is_freed(), "{call}: the window was freed");
    }
}

/// Attributes of a window (MPI-4.1 §12.2.6).
impl RawWindow {
    /// The first byte of this rank's part, which is its private copy in the separate model
    /// (`MPI_WIN_BASE`); valid until the window is freed. For a part of no bytes, it is the base
    /// given to [`RawWindow::create`], the part's address in a contiguous shared segment, or else
    /// null. A dynamic window has null (`MPI_BOTTOM`).
    pub fn base(&self) -> *mut u8 {
        let found = match self.given {
            Some(given) => given,
            None => self.core.parts.own.place_of(self.core.parts.own.local()),
        };
        found.as_ptr()
    }

    /// The size of this rank's part in bytes (`MPI_WIN_SIZE`); 0 for a dynamic window.
    pub fn size(&self) -> usize {
        self.core.parts.own.memory.len()
    }

    /// This rank's displacement unit in bytes (`MPI_WIN_DISP_UNIT`); 1 for a dynamic window.
    pub fn disp_unit(&self) -> u32 {
        self.core.parts.own.part.unit
    }

    /// The kind of call that created the window (`MPI_WIN_CREATE_FLAVOR`).
    pub fn flavor(&self) -> Flavor {
        self.core.parts.flavor
    }

    /// The window's memory model (`MPI_WIN_MODEL`).
    pub fn model(&self) -> Model {
        self.core.parts.own.model()
    }

    /// The window's ranks, as ranks of the whole job (`MPI_WIN_GET_GROUP`).
    pub fn group(&self) -> Vec<usize> {
        self.core.parts.group()
    }

    /// All hints with the values in force (`MPI_WIN_GET_INFO`, MPI-4.1 §12.2.7).
    pub fn info(&self) -> Info {
        self.core.parts.hints.info()
    }

    /// Changes these hints (`MPI_WIN_SET_INFO`, MPI-4.1 §12.2.7): `no_locks`,
    /// `accumulate_ordering`, `accumulate_ops`, `same_size`, `same_disp_unit`,
    /// `mpi_assert_max_num_notify` and `mpi_assert_same_num_notifications`. Creation fixes the
    /// other hints, and this call ignores them. All ranks must give the same values, as in MPI,
    /// where the call is collective. This call sends no message.
    ///
    /// # Errors
    /// `InfoValue` for an illegal value; then no hint changes.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        if !self.core.parts.hints.is_forgiving() {
            return self.core.parts.hints.set(info);
        }
        self.core.parts.hints.set(&usable(&self.core.parts.job, &self.core.parts.team, self.core.parts.flavor, info))
    }

    /// The part of `rank`, at the address at which this process can load and store it
    /// (`MPI_WIN_SHARED_QUERY`, MPI-4.1 §12.2.3). For `PROC_NULL`, the part of the lowest rank
    /// whose part is not empty and that this process can load and store; an empty part if there is
    /// none.
    ///
    /// # Errors
    /// `RmaShared` if this process can't load and store the part; `RmaFlavor` for a dynamic window;
    /// `Rank` for a rank that does not exist.
    pub fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        self.core.parts.shared_query(rank)
    }

    /// Loads bytes of this rank's part from byte `at` on; in the separate model, of the private
    /// copy.
    ///
    /// # Panics
    /// If the bytes are outside of this rank's part, or the window was freed.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.assert_not_freed("load");
        self.core.parts.load(at, into);
    }

    /// Stores bytes into this rank's part from byte `at` on; in the separate model, into the
    /// private copy.
    ///
    /// # Panics
    /// If the bytes are outside of this rank's part, or the window was freed.
    pub fn store(&self, at: usize, from: &[u8]) {
        self.assert_not_freed("store");
        self.core.parts.store(at, from);
    }

    /// The route to `rank`: its own part, memory of the node, or the net.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist.
    pub fn route(&self, rank: usize) -> Result<Route> {
        self.core.parts.route(rank)
    }

    /// Whether the ranks of each node map all parts of their node without XPMEM. This is true for
    /// windows with memory of the library, and for created windows if all parts are within memory
    /// of [`Job::alloc_mem`], of allocated or of shared windows. Ranks of the node access other
    /// parts by XPMEM, by system calls, or, where the kernel forbids those calls, by messages.
    pub fn is_mapped(&self) -> bool {
        self.core.is_mapped()
    }

    /// The actor that performs atomics on integers of 64 bits, and of 32 bits if the device has
    /// such atomics. The CPU performs atomics on all other types.
    pub fn actor(&self) -> Actor {
        self.core.parts.actor()
    }
}

/// Memory that the user gave: memory of the library, or other memory. The library keeps only blocks
/// that this rank has allocated; the user promises to keep all other memory. `None` for bytes that
/// no process can have.
///
/// # Safety
/// As for [`buffers::promised_memory`].
unsafe fn given(job: &JobCore, base: *mut u8, size: usize) -> Option<Memory> {
    let is_possible = isize::try_from(size).is_ok() && base.addr().checked_add(size).is_some();
    if !is_possible {
        return None;
    }
    // SAFETY: the caller's promise.
    job.wire.allocated(base, size).or_else(|| unsafe { buffers::promised_memory(base, size) })
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        Core::abandon(&self.core);
    }
}

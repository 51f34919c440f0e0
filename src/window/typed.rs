//! The typed window: elements instead of bytes, epochs as closures, no unsafe call.

use std::marker::PhantomData;
use std::sync::Arc;

use super::allocation::Allocation;
use super::available_memory::allocated;
use super::core::Core;
use super::create::WindowSpec;
use super::element::RmaElem;
use super::shared::SharedPart;
use crate::buffers::{self, Reclaim};
use crate::check::Kind;
use crate::error::{ArgumentError, Class, Error, ErrorKind, Result};
use crate::flavor::Flavor;
use crate::hints::{Info, Model};
use crate::job::{Job, Route};
use crate::routes::Actor;

/// A window of elements `T` over all ranks of a job, or of a subset of them. The parts of the ranks
/// may differ in length; displacements count elements. The creation of a window, [`Window::fence`]
/// and [`Window::free`] are collective.
///
/// ```
/// let world = transom::init()?;
/// let win = transom::Window::<u64>::allocate(&world, 4)?; // four elements at each rank
/// let next = (world.rank() + 1) % world.size();
/// win.fence(|epoch| epoch.put_value(next, 0, 7))?; // the puts of all ranks are complete
/// let mut got = [0];
/// win.load(0, &mut got)?;
/// assert_eq!(got, [7]);
/// win.free()?;
/// # Ok::<(), transom::Error>(())
/// ```
///
/// Dropping a window without [`Window::free`] prints a warning and keeps the memory, because a drop
/// can't wait for the other ranks.
#[derive(Debug)]
pub struct Window<T: RmaElem> {
    pub(super) core: Arc<Core>,
    buffer: Option<Reclaim<T>>,
    _elements: PhantomData<fn() -> T>,
}

impl<T: RmaElem> Window<T> {
    /// Allocates `len` zeroed elements at this rank (`MPI_WIN_ALLOCATE`, MPI-4.1 §12.2.2); 0 is
    /// legal. Collective.
    ///
    /// # Errors
    /// `Size` if the memory is not available. If creation fails at one rank, it fails at all ranks,
    /// and no rank has the window: the other ranks get `Other`. `Arg` at this rank alone if another
    /// thread of this rank is in a barrier or a window creation of the same ranks.
    pub fn allocate(job: &Job, len: usize) -> Result<Window<T>> {
        Window::allocate_with(job, len, &Info::new())
    }

    /// [`Window::allocate`] with hints (MPI-4.1 §12.2.2).
    ///
    /// # Errors
    /// As for [`Window::allocate`]; `InfoValue` for a hint with an illegal value.
    pub fn allocate_with(job: &Job, len: usize, info: &Info) -> Result<Window<T>> {
        let spec = WindowSpec { flavor: Flavor::Allocate, unit: unit::<T>(), info };
        let core =
            Core::create(job, &spec, |job, hints| allocated(job, "allocate", bytes_of::<T>("allocate", len)?, hints))?;
        Ok(Window { core, buffer: None, _elements: PhantomData })
    }

    /// Allocates `len` elements that all ranks load and store; the ranks must be on one node. The
    /// parts are contiguous in the order of the ranks (`MPI_WIN_ALLOCATE_SHARED`, MPI-4.1 §12.2.3).
    /// Collective.
    ///
    /// # Errors
    /// As for [`Window::allocate`]; `RmaShared` if a rank is on another node.
    pub fn allocate_shared(job: &Job, len: usize) -> Result<Window<T>> {
        Window::allocate_shared_with(job, len, &Info::new())
    }

    /// [`Window::allocate_shared`] with hints. The hint `alloc_shared_noncontig` allows parts that
    /// are not contiguous (MPI-4.1 §12.2.3).
    ///
    /// # Errors
    /// As for [`Window::allocate_shared`]; `InfoValue` for a hint with an illegal value.
    pub fn allocate_shared_with(job: &Job, len: usize, info: &Info) -> Result<Window<T>> {
        let spec = WindowSpec { flavor: Flavor::Shared, unit: unit::<T>(), info };
        let core = Core::create_shared(job, &spec, bytes_of::<T>("allocate_shared", len))?;
        Ok(Window { core, buffer: None, _elements: PhantomData })
    }

    /// Creates a window whose part at this rank is `buffer`, which may be empty (`MPI_WIN_CREATE`,
    /// MPI-4.1 §12.2.1). [`Window::reclaim`] returns the buffer. Collective.
    ///
    /// # Errors
    /// As for [`Window::allocate`].
    pub fn create(job: &Job, buffer: Vec<T>) -> Result<Window<T>> {
        Window::create_with(job, buffer, &Info::new())
    }

    /// [`Window::create`] with hints (MPI-4.1 §12.2.1).
    ///
    /// # Errors
    /// As for [`Window::allocate_with`].
    pub fn create_with(job: &Job, buffer: Vec<T>, info: &Info) -> Result<Window<T>> {
        let (memory, buffer) = buffers::owned_memory(buffer);
        let spec = WindowSpec { flavor: Flavor::Create, unit: unit::<T>(), info };
        let core = Core::create(job, &spec, |_, _| Ok(memory))?;
        Ok(Window { core, buffer: Some(buffer), _elements: PhantomData })
    }

    /// Creates a window whose part at this rank is `len` elements of memory of [`Job::alloc_mem`],
    /// from byte `at` of `memory` on (`MPI_WIN_CREATE` over memory of `MPI_ALLOC_MEM`). The window
    /// keeps the memory, and several windows may use one memory. Collective.
    ///
    /// # Errors
    /// As for [`Window::allocate`]; `RmaRange` if the elements are not all inside `memory`.
    pub fn create_over(job: &Job, memory: &Allocation, at: usize, len: usize) -> Result<Window<T>> {
        Window::create_over_with(job, memory, at, len, &Info::new())
    }

    /// [`Window::create_over`] with hints.
    ///
    /// # Errors
    /// As for [`Window::create_over`]; `InfoValue` for a hint with an illegal value.
    pub fn create_over_with(job: &Job, memory: &Allocation, at: usize, len: usize, info: &Info) -> Result<Window<T>> {
        let part = bytes_of::<T>("create_over", len).and_then(|bytes| memory.part("create_over", at, bytes));
        let spec = WindowSpec { flavor: Flavor::Create, unit: unit::<T>(), info };
        let core = Core::create(job, &spec, |_, _| part)?;
        Ok(Window { core, buffer: None, _elements: PhantomData })
    }

    /// Frees the window after all ranks have ended their accesses (`MPI_WIN_FREE`, MPI-4.1
    /// §12.2.5). Collective.
    ///
    /// # Errors
    /// `RmaSync` within an epoch, also within the exposure epoch of a [`Window::post`] without
    /// [`Window::wait`]; `Other` if an operation could not be completed or a transport failed.
    /// After an error the window can't be freed any more, and the library keeps its memory.
    pub fn free(self) -> Result<()> {
        self.reclaim().map(drop)
    }

    /// Like [`Window::free`], and returns the buffer that was given to [`Window::create`], or an
    /// empty one if the window was not created over a buffer. Collective.
    ///
    /// # Errors
    /// As for [`Window::free`]. After an error the library keeps the buffer, because peers may
    /// still access it.
    pub fn reclaim(mut self) -> Result<Vec<T>> {
        self.core.free()?;
        // SAFETY: `free` has passed its barrier: no peer accesses the memory, and this rank's
        // window ends here.
        Ok(self.buffer.take().map(|buffer| unsafe { buffer.take() }).unwrap_or_default())
    }

    /// The number of elements of this rank's part.
    pub fn len(&self) -> usize {
        self.core.parts.own.memory.len() / size_of::<T>().max(1)
    }

    /// Whether this rank's part has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads `into.len()` elements of this rank's part, from element `first` on; in the separate
    /// memory model, of the private copy (MPI-4.1 §12.4). The load may see all, some or none of the
    /// data of concurrent puts.
    ///
    /// # Errors
    /// `RmaRange` outside this rank's part.
    pub fn load(&self, first: usize, into: &mut [T]) -> Result<()> {
        let at = self.local("load", first, into.len())?;
        self.core.parts.load(at, bytemuck::cast_slice_mut(into));
        Ok(())
    }

    /// Stores the elements `from` into this rank's part, from element `first` on; in the separate
    /// memory model, into the private copy (MPI-4.1 §12.4).
    ///
    /// # Errors
    /// As for [`Window::load`].
    pub fn store(&self, first: usize, from: &[T]) -> Result<()> {
        let at = self.local("store", first, from.len())?;
        self.core.parts.store(at, bytemuck::cast_slice(from));
        Ok(())
    }

    /// Orders this rank's loads and stores with those of other ranks, and with operations. In the
    /// separate model `sync` also makes both copies equal (`MPI_WIN_SYNC`, MPI-4.1 §12.5.4). `sync`
    /// completes no operation.
    pub fn sync(&self) {
        self.core.parts.sync();
    }

    /// The route to `rank`: its own part, memory of the node, or the net.
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist.
    pub fn route(&self, rank: usize) -> Result<Route> {
        self.core.parts.route(rank)
    }

    /// The address, size and displacement unit in bytes of the part of `rank`, if this process can
    /// load and store the part (`MPI_WIN_SHARED_QUERY`, MPI-4.1 §12.2.3). For `PROC_NULL` the
    /// result is that of [`RawWindow::shared_query`](crate::RawWindow::shared_query).
    ///
    /// # Errors
    /// `RmaShared` if this process can't load and store the part, `Rank` for a rank that does not
    /// exist.
    pub fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        self.core.parts.shared_query(rank)
    }

    /// Loads `into.len()` elements of the part of `rank`, from element `first` on, if this process
    /// can load and store the part (`MPI_WIN_SHARED_QUERY`, MPI-4.1 §12.2.3).
    ///
    /// # Errors
    /// `RmaShared` if this process can't load and store the part, `RmaRange` outside of the part,
    /// `Rank` for a rank that does not exist.
    pub fn load_from(&self, rank: usize, first: usize, into: &mut [T]) -> Result<()> {
        let part = self.core.parts.shared_query(rank)?;
        let at = self.inside("load", part.rank, part.memory.len(), first, into.len())?;
        self.core.parts.note_local(rank, at, size_of_val(into), Kind::Load);
        part.memory.read(at, bytemuck::cast_slice_mut(into));
        Ok(())
    }

    /// Stores the elements `from` into the part of `rank`, from element `first` on, if this process
    /// can load and store the part (MPI-4.1 §12.2.3).
    ///
    /// # Errors
    /// As for [`Window::load_from`].
    pub fn store_to(&self, rank: usize, first: usize, from: &[T]) -> Result<()> {
        let part = self.core.parts.shared_query(rank)?;
        let at = self.inside("store", part.rank, part.memory.len(), first, from.len())?;
        self.core.parts.note_local(rank, at, size_of_val(from), Kind::Store);
        part.memory.write(at, bytemuck::cast_slice(from));
        Ok(())
    }

    /// The number of elements of the part of `rank`, if this process can load and store the part
    /// (MPI-4.1 §12.2.3).
    ///
    /// # Errors
    /// As for [`Window::shared_query`].
    pub fn shared_len(&self, rank: usize) -> Result<usize> {
        Ok(self.core.parts.shared_query(rank)?.size() / size_of::<T>().max(1))
    }

    /// The window's ranks, as ranks of the whole job (`MPI_WIN_GET_GROUP`).
    pub fn group(&self) -> Vec<usize> {
        self.core.parts.group()
    }

    /// All hints with the values in force (`MPI_WIN_GET_INFO`, MPI-4.1 §12.2.7).
    pub fn info(&self) -> Info {
        self.core.parts.hints.info()
    }

    /// Changes the hints that [`RawWindow::set_info`](crate::RawWindow::set_info) lists, at this
    /// rank (`MPI_WIN_SET_INFO`, MPI-4.1 §12.2.7). All ranks must give the same values.
    ///
    /// # Errors
    /// `InfoValue` for an illegal value; then no hint changes.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.core.parts.hints.set(info)
    }

    /// The memory model (`MPI_WIN_MODEL`).
    pub fn model(&self) -> Model {
        self.core.parts.own.model()
    }

    /// Whether all parts are in memory of the library, which ranks of the same node load and store.
    /// [`RawWindow::is_mapped`](crate::RawWindow::is_mapped) says for which windows this is true.
    pub fn is_mapped(&self) -> bool {
        self.core.is_mapped()
    }

    /// The actor that performs atomics on integers of 64 bits, and of 32 bits if the device has
    /// such atomics. The CPU performs atomics on all other types.
    pub fn actor(&self) -> Actor {
        self.core.parts.actor()
    }

    /// The source of the window's memory (`MPI_WIN_CREATE_FLAVOR`).
    pub fn flavor(&self) -> Flavor {
        self.core.parts.flavor
    }

    fn local(&self, call: &'static str, first: usize, len: usize) -> Result<usize> {
        self.inside(call, self.core.parts.team.me, self.core.parts.own.memory.len(), first, len)
    }

    fn inside(&self, call: &'static str, rank: usize, bytes: usize, first: usize, len: usize) -> Result<usize> {
        if first.checked_add(len).is_some_and(|end| end <= bytes / size_of::<T>().max(1)) {
            return Ok(first * size_of::<T>());
        }
        Err(ErrorKind::Range {
            call,
            rank,
            displacement: first as u64,
            unit: unit::<T>(),
            length: len.saturating_mul(size_of::<T>()),
            limit: bytes as u64,
        }
        .into())
    }
}

impl<T: RmaElem> Drop for Window<T> {
    fn drop(&mut self) {
        Core::abandon(&self.core);
    }
}

/// The size of `len` elements in bytes.
fn bytes_of<T>(call: &'static str, len: usize) -> Result<usize> {
    let size = size_of::<T>();
    let refused = || Error::argument(Class::Size, call, ArgumentError::TooManyElements { count: len, size });
    len.checked_mul(size).ok_or_else(refused)
}

/// The displacement unit of a typed window; 1 for types without size, which have no bytes to
/// address.
#[allow(clippy::cast_possible_truncation)] // the assertion
fn unit<T>() -> u32 {
    const { assert!(size_of::<T>() <= u32::MAX as usize, "an element of a window has less than 4 GiB") };
    (size_of::<T>() as u32).max(1)
}

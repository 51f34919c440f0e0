//! The typed window: elements instead of bytes, epochs as closures, no unsafe call.

use std::marker::PhantomData;
use std::sync::Arc;

use super::access::{Access, FenceEpoch, LockAllEpoch};
use super::core::Core;
use super::element::RmaElem;
use super::target::Flavor;
use crate::buffers::{self, Reclaim};
use crate::epoch::Call;
use crate::error::{Class, Error, ErrorKind, Result};
use crate::job::{Job, Route};
use crate::plan::Actor;

/// A window of elements `T` over all ranks of a job. Each rank's part may have another length; displacements count
/// elements. Collective: [`Window::allocate`], [`Window::create`], [`Window::fence`], [`Window::free`].
///
/// Dropping a window without [`Window::free`] warns and keeps the memory: it can't wait for the others.
#[derive(Debug)]
pub struct Window<T: RmaElem> {
    core: Arc<Core>,
    buffer: Option<Reclaim<T>>,
    _elements: PhantomData<fn() -> T>,
}

impl<T: RmaElem> Window<T> {
    /// Allocates `len` zeroed elements at this rank (`MPI_WIN_ALLOCATE`, MPI §11.2.2); 0 is legal. Collective.
    ///
    /// # Errors
    /// `Size` where the memory can't be had. Where one rank fails, all do: then no rank has the window.
    pub fn allocate(job: &Job, len: usize) -> Result<Window<T>> {
        let core = Core::create(job, Flavor::Allocate, unit::<T>(), |job| {
            let bytes = len.checked_mul(size_of::<T>());
            let bytes = bytes.ok_or_else(|| {
                Error::argument(Class::Size, "allocate", format!("{len} elements of {} bytes overflow", size_of::<T>()))
            })?;
            allocated(job, bytes)
        })?;
        Ok(Window { core, buffer: None, _elements: PhantomData })
    }

    /// Opens memory that the caller has as this rank's part (`MPI_WIN_CREATE`, MPI §11.2.1); empty is legal. The buffer
    /// comes back from [`Window::reclaim`]. Collective.
    ///
    /// # Errors
    /// As for [`Window::allocate`].
    pub fn create(job: &Job, buffer: Vec<T>) -> Result<Window<T>> {
        let (memory, buffer) = buffers::owned_memory(buffer);
        let core = Core::create(job, Flavor::Create, unit::<T>(), |_| Ok(memory))?;
        Ok(Window { core, buffer: Some(buffer), _elements: PhantomData })
    }

    /// Ends the window: waits until no rank accesses it any more (MPI §11.2.5). Collective.
    ///
    /// # Errors
    /// An operation that could not be completed, or a transport that failed.
    pub fn free(self) -> Result<()> {
        self.reclaim().map(drop)
    }

    /// [`Window::free`], which gives back the buffer that [`Window::create`] took; empty for an allocated window. Collective.
    ///
    /// # Errors
    /// As for [`Window::free`]; then the buffer is kept, since peers may still access it.
    pub fn reclaim(mut self) -> Result<Vec<T>> {
        self.core.free()?;
        // SAFETY: `free` has passed its barrier: no peer accesses the memory, and this rank's window ends here.
        Ok(self.buffer.take().map(|buffer| unsafe { buffer.take() }).unwrap_or_default())
    }

    /// An access epoch to all ranks (`MPI_WIN_LOCK_ALL`, MPI §11.5.3): shared, passive, not collective. Everything is
    /// complete at both sides when it returns.
    ///
    /// # Errors
    /// Those of `body`, `RmaSync` within another epoch of this window, or what completing met.
    pub fn lock_all<'s, R>(&'s self, body: impl for<'e> FnOnce(&LockAllEpoch<'e, 's>) -> Result<R>) -> Result<R> {
        self.core.step("lock_all", Call::LockAll)?;
        let _ends = Ends(|| drop(self.core.step("unlock_all", Call::UnlockAll)));
        Access::run(&self.core, |access| {
            let done = body(&LockAllEpoch::new(access));
            self.core.flush_all()?;
            done
        })
    }

    /// An epoch between two fences (`MPI_WIN_FENCE`, MPI §11.5.1). Collective; [`FenceEpoch::fence`] separates phases
    /// in it. The closing fence also runs where `body` fails, since the other ranks wait in it.
    ///
    /// # Errors
    /// Those of `body`, `RmaSync` within another epoch of this window, or what completing met.
    pub fn fence<'s, R>(&'s self, body: impl for<'e> FnOnce(&FenceEpoch<'e, 's>) -> Result<R>) -> Result<R> {
        self.core.step("fence", Call::Fence)?;
        self.core.step("fence", Call::Operation)?;
        let _ends = Ends(|| drop(self.core.step("fence", Call::LastFence)));
        self.core.fence()?;
        Access::run(&self.core, |access| {
            let done = body(&FenceEpoch::new(access));
            self.core.fence()?;
            done
        })
    }

    /// The elements of this rank's part.
    pub fn len(&self) -> usize {
        self.core.memory.len() / size_of::<T>().max(1)
    }

    /// Whether this rank's part has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads elements of this rank's part, from `first` on: as many as `into` has. A local access as MPI §11.7 means it: within
    /// an epoch that others access concurrently it sees what there is.
    ///
    /// # Errors
    /// `RmaRange` outside this rank's part.
    pub fn load(&self, first: usize, into: &mut [T]) -> Result<()> {
        let at = self.local("load", first, into.len())?;
        self.core.memory.read(at, bytemuck::cast_slice_mut(into));
        Ok(())
    }

    /// Stores elements into this rank's part, from `first` on.
    ///
    /// # Errors
    /// As for [`Window::load`].
    pub fn store(&self, first: usize, from: &[T]) -> Result<()> {
        let at = self.local("store", first, from.len())?;
        self.core.memory.write(at, bytemuck::cast_slice(from));
        Ok(())
    }

    /// Orders this rank's own accesses with those of others (`MPI_WIN_SYNC`, MPI §11.5.4).
    pub fn sync(&self) {
        self.core.sync();
    }

    /// The way to a rank.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn route(&self, rank: usize) -> Result<Route> {
        self.core.route(rank)
    }

    /// Who performs this window's atomics.
    pub fn actor(&self) -> Actor {
        self.core.actor()
    }

    /// How the window came to its memory.
    pub fn flavor(&self) -> Flavor {
        self.core.flavor
    }

    fn local(&self, call: &'static str, first: usize, len: usize) -> Result<usize> {
        if first.checked_add(len).is_some_and(|end| end <= self.len()) {
            return Ok(first * size_of::<T>());
        }
        Err(ErrorKind::Range {
            call,
            rank: self.core.job.rank,
            displacement: first as u64,
            unit: unit::<T>(),
            length: len.saturating_mul(size_of::<T>()),
            limit: self.core.part.size,
        }
        .into())
    }
}

impl<T: RmaElem> Drop for Window<T> {
    fn drop(&mut self) {
        Core::abandon(&self.core);
    }
}

/// Memory of the library for a window, with the error that a user expects of `allocate`.
pub(super) fn allocated(job: &crate::job::JobCore, bytes: usize) -> Result<transom_fabric::Memory> {
    job.wire.allocate(bytes).map_err(|error| {
        Error::argument(Class::Size, "allocate", format!("{bytes} bytes at rank {}: {error}", job.rank))
    })
}

/// The displacement unit of a typed window; 1 for types without size, which have no bytes to address.
fn unit<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX).max(1)
}

struct Ends<F: Fn()>(F);

impl<F: Fn()> Drop for Ends<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

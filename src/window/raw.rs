//! The byte-level window: explicit epochs, displacement units per rank, buffers by address. The typed window and the C
//! interface are made of the same parts; this one checks at run time what types say there.

use std::sync::Arc;

use transom_fabric::{Amo, AmoKind, Width};

use super::core::Core;
use super::target::Flavor;
use super::typed::allocated;
use crate::buffers::{self, Sink, Source};
use crate::epoch::Call;
use crate::error::{Class, Error, Result};
use crate::job::{Job, Route};
use crate::plan::Actor;

/// What `fetch_and_op` does (MPI §11.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// `MPI_SUM`, wrapping.
    Sum,
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`: reads.
    NoOp,
}

/// The integer that an atomic of a [`RawWindow`] works on; signed ones are the same operation on the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IntType {
    /// 32 bits.
    Int32,
    /// 64 bits.
    Int64,
}

/// What follows a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fence {
    /// Perhaps operations, up to the next fence.
    Opens,
    /// No operations (`MPI_MODE_NOSUCCEED`).
    Closes,
}

/// A window of bytes. Sizes and displacement units may differ at every rank (MPI §11.2.1).
#[derive(Debug)]
pub struct RawWindow {
    core: Arc<Core>,
}

impl RawWindow {
    /// Allocates `size` zeroed bytes at this rank, addressed by others in units of `disp_unit` bytes. Collective.
    ///
    /// # Errors
    /// `Size` where the memory can't be had, `Disp` for a unit of 0.
    pub fn allocate(job: &Job, size: usize, disp_unit: u32) -> Result<RawWindow> {
        let core = Core::create(job, Flavor::Allocate, disp_unit, |job| allocated(job, size))?;
        Ok(RawWindow { core })
    }

    /// Opens `size` bytes at `base` as this rank's part. Collective.
    ///
    /// # Errors
    /// `Base` for a null base with a size, `Disp` for a unit of 0.
    ///
    /// # Safety
    /// The memory stays readable and writable until `free` has returned `Ok`, and no Rust reference to it exists while
    /// peers may write it.
    pub unsafe fn create(job: &Job, base: *mut u8, size: usize, disp_unit: u32) -> Result<RawWindow> {
        let memory = match size {
            0 => Some(transom_fabric::Memory::private(0)),
            // SAFETY: the caller's promise.
            _ => unsafe { buffers::promised_memory(base, size) },
        };
        let memory = memory
            .ok_or_else(|| Error::argument(Class::Base, "create", format!("a null base with a size of {size} bytes")));
        let core = Core::create(job, Flavor::Create, disp_unit, |_| memory)?;
        Ok(RawWindow { core })
    }

    /// Ends the window (MPI §11.2.5). Collective.
    ///
    /// # Errors
    /// `RmaSync` within an epoch; otherwise as for [`Window::free`](crate::Window::free).
    pub fn free(&self) -> Result<()> {
        self.core.free()
    }

    /// Opens a passive access epoch to all ranks. Not collective; no remote operation.
    ///
    /// # Errors
    /// `RmaSync` within another epoch.
    pub fn lock_all(&self) -> Result<()> {
        self.core.step("lock_all", Call::LockAll)
    }

    /// Completes everything and ends the epoch.
    ///
    /// # Errors
    /// `RmaSync` without `lock_all`; an operation that could not be completed.
    pub fn unlock_all(&self) -> Result<()> {
        self.core.step("unlock_all", Call::UnlockAll)?;
        self.core.flush_all()
    }

    /// Ends the fence epoch and perhaps opens another (MPI §11.5.1). Collective.
    ///
    /// # Errors
    /// `RmaSync` within a passive epoch; an operation that could not be completed.
    pub fn fence(&self, next: Fence) -> Result<()> {
        let call = match next {
            Fence::Opens => Call::Fence,
            Fence::Closes => Call::LastFence,
        };
        self.core.step("fence", call)?;
        self.core.fence()
    }

    /// Completes operations to `target` at both sides (MPI §11.5.4).
    ///
    /// # Errors
    /// `RmaSync` outside a passive epoch, `Rank`, an operation that could not be completed.
    #[inline]
    pub fn flush(&self, target: usize) -> Result<()> {
        self.core.step("flush", Call::Flush)?;
        self.core.flush("flush", target)
    }

    /// Completes operations to all targets at both sides.
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.core.step("flush_all", Call::Flush)?;
        self.core.flush_all()
    }

    /// Completes operations to `target` at this side.
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_local(&self, target: usize) -> Result<()> {
        self.core.step("flush_local", Call::Flush)?;
        self.core.flush("flush_local", target)
    }

    /// Completes operations to all targets at this side.
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        self.core.step("flush_local_all", Call::Flush)?;
        self.core.flush_all()
    }

    /// Orders this rank's own accesses with those of others (`MPI_WIN_SYNC`).
    pub fn sync(&self) {
        self.core.sync();
    }

    /// Puts `len` bytes from `origin` at `displacement` of `target` (MPI §11.3.1).
    ///
    /// # Errors
    /// `RmaSync` outside an access epoch, `Rank`, `RmaRange`; nothing is written.
    ///
    /// # Safety
    /// `origin` is readable for `len` bytes, and nobody writes them, until the operation is complete at this side.
    #[inline]
    pub unsafe fn put(&self, origin: *const u8, len: usize, target: usize, displacement: u64) -> Result<()> {
        self.core.step("put", Call::Operation)?;
        // SAFETY: the caller's promise.
        self.core.put(target, displacement, unsafe { Source::promised(origin, len) })
    }

    /// Gets `len` bytes into `origin` (MPI §11.3.2).
    ///
    /// # Errors
    /// As for [`RawWindow::put`].
    ///
    /// # Safety
    /// `origin` is writable for `len` bytes, and nobody else touches them, until the operation is complete.
    #[inline]
    pub unsafe fn get(&self, origin: *mut u8, len: usize, target: usize, displacement: u64) -> Result<()> {
        self.core.step("get", Call::Operation)?;
        // SAFETY: the caller's promise.
        self.core.get(target, displacement, unsafe { Sink::promised(origin, len) })
    }

    /// Performs `op` with `operand` and waits for the value from before (MPI §11.3.4). Values are in the low bits.
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `Type` where the place is not aligned.
    #[inline]
    pub fn fetch_and_op(&self, target: usize, displacement: u64, op: Op, int: IntType, operand: u64) -> Result<u64> {
        self.core.step("fetch_and_op", Call::Operation)?;
        let kind = match op {
            Op::Sum => AmoKind::Sum,
            Op::Replace => AmoKind::Replace,
            Op::NoOp => AmoKind::Read,
        };
        self.core.amo_now("fetch_and_op", target, displacement, Amo::new(kind, int.width(), operand))
    }

    /// Stores `new` where `expected` is found; waits for the value from before (MPI §11.3.4).
    ///
    /// # Errors
    /// As for [`RawWindow::fetch_and_op`].
    #[inline]
    pub fn compare_and_swap(
        &self,
        target: usize,
        displacement: u64,
        int: IntType,
        expected: u64,
        new: u64,
    ) -> Result<u64> {
        self.core.step("compare_and_swap", Call::Operation)?;
        self.core.amo_now("compare_and_swap", target, displacement, Amo::compare_swap(int.width(), expected, new))
    }

    /// The first byte of this rank's part (`MPI_WIN_BASE`).
    pub fn base(&self) -> *mut u8 {
        self.core.memory.as_ptr()
    }

    /// The bytes of this rank's part (`MPI_WIN_SIZE`).
    pub fn size(&self) -> usize {
        self.core.memory.len()
    }

    /// This rank's displacement unit (`MPI_WIN_DISP_UNIT`).
    pub fn disp_unit(&self) -> u32 {
        self.core.part.unit
    }

    /// How the window came to its memory (`MPI_WIN_CREATE_FLAVOR`).
    pub fn flavor(&self) -> Flavor {
        self.core.flavor
    }

    /// Loads bytes of this rank's part.
    ///
    /// # Panics
    /// Outside this rank's part.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.core.memory.read(at, into);
    }

    /// Stores bytes into this rank's part.
    ///
    /// # Panics
    /// Outside this rank's part.
    pub fn store(&self, at: usize, from: &[u8]) {
        self.core.memory.write(at, from);
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
}

impl IntType {
    #[inline]
    fn width(self) -> Width {
        match self {
            IntType::Int32 => Width::W32,
            IntType::Int64 => Width::W64,
        }
    }
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        Core::abandon(&self.core);
    }
}

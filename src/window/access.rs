//! Epochs as closures (DESIGN §8). An [`Access`] is the right to operate within an epoch or a part of one: buffers are
//! lent to it for as long as it lasts, and its end waits for what is in flight, also when it unwinds. So the borrow
//! checker and not a destructor keeps a buffer alive.

use std::ops::Deref;

use transom_fabric::{Amo, AmoKind};

use super::core::Core;
use super::element::{RmaElem, RmaInt};
use crate::buffers::{self, Scope};
use crate::error::Result;

/// The right to put, get and perform atomics, for as long as `'scope` lasts. Ranks are those of the job; displacements
/// count the target's displacement units, which for a [`Window<T>`](crate::Window) is one `T`.
///
/// Operations complete at the end of the epoch, at a flush, or at the end of [`Access::scope`]; until then lent buffers
/// are borrowed.
///
/// ```compile_fail
/// # fn try_it(win: &transom::Window<u64>) -> transom::Result<()> {
/// win.lock_all(|epoch| {
///     let short_lived = [1u64; 4];
///     epoch.put(1, 0, &short_lived) // does not outlive the epoch: refused
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct Access<'scope, 'env: 'scope> {
    core: &'env Core,
    scope: &'scope Scope<'scope, 'env>,
}

/// An epoch of `lock_all` (MPI §11.5.3).
#[derive(Debug)]
pub struct LockAllEpoch<'scope, 'env: 'scope>(Access<'scope, 'env>);

/// An epoch between fences (MPI §11.5.1).
#[derive(Debug)]
pub struct FenceEpoch<'scope, 'env: 'scope>(Access<'scope, 'env>);

impl<'scope, 'env> Access<'scope, 'env> {
    /// Puts `source` at `displacement` of `target` (MPI §11.3.1).
    ///
    /// # Errors
    /// `RmaRange` outside the target's window, `Rank`, `Other` from the transport; nothing is written.
    #[inline]
    pub fn put<T: RmaElem>(&self, target: usize, displacement: u64, source: &'scope [T]) -> Result<()> {
        self.core.put(target, displacement, self.scope.source(bytemuck::cast_slice(source)))
    }

    /// Puts one value, which is copied: no buffer is borrowed.
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn put_value<T: RmaElem>(&self, target: usize, displacement: u64, value: T) -> Result<()> {
        self.core.put_copied(target, displacement, bytemuck::bytes_of(&value))
    }

    /// Gets as many elements as `result` has (MPI §11.3.2). They are there when the operation is complete.
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn get<T: RmaElem>(&self, target: usize, displacement: u64, result: &'scope mut [T]) -> Result<()> {
        self.core.get(target, displacement, self.scope.sink(bytemuck::cast_slice_mut(result)))
    }

    /// Adds `operand` and gives the value from before (`MPI_FETCH_AND_OP` with `MPI_SUM`); waits for it.
    ///
    /// # Errors
    /// As for [`Access::put`]; `Type` where the place is not aligned to the type.
    #[inline]
    pub fn fetch_add<T: RmaInt>(&self, target: usize, displacement: u64, operand: T) -> Result<T> {
        self.fetch(target, displacement, AmoKind::Sum, operand)
    }

    /// Replaces the value by `operand` and gives the one from before (`MPI_REPLACE`); waits for it.
    ///
    /// # Errors
    /// As for [`Access::fetch_add`].
    #[inline]
    pub fn swap<T: RmaInt>(&self, target: usize, displacement: u64, operand: T) -> Result<T> {
        self.fetch(target, displacement, AmoKind::Replace, operand)
    }

    /// Reads atomically (`MPI_NO_OP`); waits for the value.
    ///
    /// # Errors
    /// As for [`Access::fetch_add`].
    #[inline]
    pub fn fetch_value<T: RmaInt>(&self, target: usize, displacement: u64) -> Result<T> {
        self.fetch(target, displacement, AmoKind::Read, T::from_bits(0))
    }

    /// Stores `new` if the value equals `expected`; gives the value from before (`MPI_COMPARE_AND_SWAP`); waits for it.
    ///
    /// # Errors
    /// As for [`Access::fetch_add`].
    #[inline]
    pub fn compare_and_swap<T: RmaInt>(&self, target: usize, displacement: u64, expected: T, new: T) -> Result<T> {
        let amo = Amo::compare_swap(T::WIDTH, expected.to_bits(), new.to_bits());
        self.core.amo_now("compare_and_swap", target, displacement, amo).map(T::from_bits)
    }

    /// [`Access::fetch_add`] that does not wait: the value from before is in `result` when the operation is complete.
    ///
    /// # Errors
    /// As for [`Access::fetch_add`].
    #[inline]
    pub fn start_fetch_add<T: RmaInt>(
        &self,
        target: usize,
        displacement: u64,
        operand: T,
        result: &'scope mut T,
    ) -> Result<()> {
        let amo = Amo::new(AmoKind::Sum, T::WIDTH, operand.to_bits());
        let into = self.scope.sink(bytemuck::bytes_of_mut(result));
        self.core.amo("fetch_and_op", target, displacement, amo, into)
    }

    /// A part of the epoch: operations posted in it are complete, and its buffers free again, when it ends.
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<u64>) -> transom::Result<u64> {
    /// win.lock_all(|epoch| {
    ///     let mut seen = [0u64];
    ///     epoch.scope(|part| part.get(1, 0, &mut seen))?;
    ///     Ok(seen[0])
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body` and of completing its operations.
    #[inline]
    pub fn scope<'s, R>(&'s self, body: impl for<'part> FnOnce(&Access<'part, 's>) -> Result<R>) -> Result<R> {
        Access::run(self.core, |access: &Access<'_, 's>| {
            let done = body(access);
            access.core.flush_all()?;
            done
        })
    }

    #[inline]
    fn fetch<T: RmaInt>(&self, target: usize, displacement: u64, kind: AmoKind, operand: T) -> Result<T> {
        let amo = Amo::new(kind, T::WIDTH, operand.to_bits());
        self.core.amo_now("fetch_and_op", target, displacement, amo).map(T::from_bits)
    }

    /// Runs `body` with an access to the window; what it posted is not in flight any more afterwards.
    #[inline]
    pub(super) fn run<R>(core: &'env Core, body: impl for<'part> FnOnce(&Access<'part, 'env>) -> R) -> R {
        buffers::scoped(|| core.settle(), |scope| body(&Access { core, scope }))
    }
}

impl<'scope, 'env> LockAllEpoch<'scope, 'env> {
    pub(super) fn new(access: &Access<'scope, 'env>) -> LockAllEpoch<'scope, 'env> {
        LockAllEpoch(Access { core: access.core, scope: access.scope })
    }

    /// Completes all operations to `target`, at both sides (MPI §11.5.4). On shared memory it costs nothing.
    ///
    /// # Errors
    /// `Rank`, or `Other` for an operation that could not be completed.
    #[inline]
    pub fn flush(&self, target: usize) -> Result<()> {
        self.core.flush("flush", target)
    }

    /// Completes all operations to all targets, at both sides.
    ///
    /// # Errors
    /// As for [`LockAllEpoch::flush`].
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.core.flush_all()
    }

    /// Completes all operations to `target` at this side: buffers could be used again. No transport of this version
    /// knows it earlier than completion at both sides.
    ///
    /// # Errors
    /// As for [`LockAllEpoch::flush`].
    #[inline]
    pub fn flush_local(&self, target: usize) -> Result<()> {
        self.core.flush("flush_local", target)
    }

    /// [`LockAllEpoch::flush_local`] for all targets.
    ///
    /// # Errors
    /// As for [`LockAllEpoch::flush`].
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        self.core.flush_all()
    }

    /// Orders this rank's own accesses to its window with those of others (`MPI_WIN_SYNC`).
    #[inline]
    pub fn sync(&self) {
        self.core.sync();
    }
}

impl<'scope, 'env> FenceEpoch<'scope, 'env> {
    pub(super) fn new(access: &Access<'scope, 'env>) -> FenceEpoch<'scope, 'env> {
        FenceEpoch(Access { core: access.core, scope: access.scope })
    }

    /// Ends one phase and begins the next: all operations of all ranks are complete, at both sides. Collective.
    ///
    /// # Errors
    /// `Other` for an operation or a barrier that could not be completed.
    #[inline]
    pub fn fence(&self) -> Result<()> {
        self.core.fence()
    }
}

impl<'scope, 'env> Deref for LockAllEpoch<'scope, 'env> {
    type Target = Access<'scope, 'env>;
    #[inline]
    fn deref(&self) -> &Access<'scope, 'env> {
        &self.0
    }
}

impl<'scope, 'env> Deref for FenceEpoch<'scope, 'env> {
    type Target = Access<'scope, 'env>;
    #[inline]
    fn deref(&self) -> &Access<'scope, 'env> {
        &self.0
    }
}

//! The calls that a typed window has in passive epochs alone: flushes, and operations with
//! requests. A request-based call borrows its buffers for the lifetime of the access; a call whose
//! name ends in `_owned` takes a buffer, which its request gives back.

use super::access::{Access, items, whole};
use super::element::RmaElem;
use super::raw::At;
use super::request::{BufferRequest, Request};
use super::transfer::{CountedBy, Incoming, Outgoing};
use crate::datatype::Datatype;
use crate::error::Result;
use crate::memory::layout::Layout;
use crate::reduce::Element;
use crate::reduce::ops::Reduction;

/// The calls that exist only in passive epochs, those of `lock` and `lock_all` (MPI-4.1 §12.5.3):
/// flushes, operations with requests, and notified operations.
///
/// A call whose name begins with `r` returns a request, and borrows its buffers until the epoch or
/// scope ends. A call with `_owned` in its name takes a buffer instead, which the request gives
/// back ([requests](crate::book::requests)).
#[derive(Debug)]
pub struct Passive<'scope, 'env: 'scope, T>(pub(super) Access<'scope, 'env, T>);

impl<'scope, 'env, T> std::ops::Deref for Passive<'scope, 'env, T> {
    type Target = Access<'scope, 'env, T>;
    #[inline]
    fn deref(&self) -> &Access<'scope, 'env, T> {
        &self.0
    }
}

impl<'scope, T: RmaElem> Passive<'scope, '_, T> {
    /// Runs `body` as a part of the epoch, like [`Access::scope`], with the calls of passive
    /// epochs.
    ///
    /// # Errors
    /// Those of `body` and of completing its operations.
    #[inline]
    pub fn scope<'s, R>(&'s self, body: impl for<'part> FnOnce(&Passive<'part, 's, T>) -> Result<R>) -> Result<R> {
        self.0.scope(|access| body(&Passive(access.again())))
    }

    /// Completes the operations on `target` that any thread of this rank has called, at origin and
    /// target (`MPI_WIN_FLUSH`, MPI-4.1 §12.5.4). Does not wait if `target` is mapped, unless the
    /// device performs the window's atomics.
    ///
    /// # Errors
    /// `Rank`, `RmaSync` for a target that is not locked, `RmaRange` for an access that the target
    /// refused, or `Other` for an operation that could not be completed.
    #[inline]
    pub fn flush(&self, target: usize) -> Result<()> {
        let permit = self.0.admit_flush("flush", target)?;
        self.0.core.parts.flush("flush", permit)
    }

    /// Completes all operations on all targets, at origin and target (`MPI_WIN_FLUSH_ALL`).
    ///
    /// # Errors
    /// As for [`Passive::flush`].
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.0.core.flush_epoch()
    }

    /// Completes all operations on `target` at the origin, whose buffers may then be used again
    /// (`MPI_WIN_FLUSH_LOCAL`). No transport reports completion at the origin earlier than at the
    /// target, so the call waits as long as [`Passive::flush`].
    ///
    /// # Errors
    /// As for [`Passive::flush`].
    #[inline]
    pub fn flush_local(&self, target: usize) -> Result<()> {
        let permit = self.0.admit_flush("flush_local", target)?;
        self.0.core.parts.flush("flush_local", permit)
    }

    /// Like [`Passive::flush_local`], for all targets (`MPI_WIN_FLUSH_LOCAL_ALL`).
    ///
    /// # Errors
    /// As for [`Passive::flush`].
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        self.0.core.flush_epoch_locally()
    }

    /// Same as [`Window::sync`](crate::Window::sync) (`MPI_WIN_SYNC`).
    #[inline]
    pub fn sync(&self) {
        self.0.core.parts.sync();
    }

    /// Like [`Access::put`], and returns a request by which to wait for this operation alone
    /// (`MPI_RPUT`, MPI-4.1 §12.3.5).
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn rput(&self, target: usize, displacement: usize, source: &'scope [T]) -> Result<Request> {
        let permit = self.0.admit("rput", target)?;
        let mut tally = None;
        let source = self.0.scope.source(bytemuck::cast_slice(source));
        self.0.core.parts.put(permit, displacement as u64, source, CountedBy::Request(&mut tally))?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Access::get`], and returns a request, which is complete when the data is in `result`
    /// (`MPI_RGET`, MPI-4.1 §12.3.5). `result` is borrowed until the epoch or scope ends. The
    /// request of [`Passive::rget_owned`] gives its buffer back earlier.
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn rget(&self, target: usize, displacement: usize, result: &'scope mut [T]) -> Result<Request> {
        let permit = self.0.admit("rget", target)?;
        let mut tally = None;
        let result = self.0.scope.sink(bytemuck::cast_slice_mut(result));
        self.0.core.parts.get(permit, displacement as u64, result, CountedBy::Request(&mut tally))?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Access::put_items`], and returns a request (`MPI_RPUT`, MPI-4.1 §12.3.5).
    ///
    /// # Errors
    /// As for [`Access::put_items`].
    pub fn rput_items(&self, source: &'scope [T], count: usize, ty: &Datatype, target: At<'_>) -> Result<Request> {
        let permit = self.0.admit("rput", target.rank)?;
        let mut tally = None;
        let bytes = self.0.scope.source(bytemuck::cast_slice(source));
        let from = Outgoing { bytes, low: 0, layout: Layout::Items(ty, count) };
        let counted_by = CountedBy::Request(&mut tally);
        self.0.core.parts.put_layout(permit, target.displacement, &from, &target.layout(), counted_by)?;
        Ok(Request::of(self.0.core, target.rank, tally))
    }

    /// Like [`Access::get_items`], and returns a request, which is complete when the data is in
    /// `result` (`MPI_RGET`, MPI-4.1 §12.3.5).
    ///
    /// # Errors
    /// As for [`Access::get_items`].
    pub fn rget_items(&self, result: &'scope mut [T], count: usize, ty: &Datatype, target: At<'_>) -> Result<Request> {
        let permit = self.0.admit("rget", target.rank)?;
        let mut tally = None;
        let bytes = self.0.scope.sink(bytemuck::cast_slice_mut(result));
        let into = Incoming { bytes, low: 0, layout: Layout::Items(ty, count) };
        let counted_by = CountedBy::Request(&mut tally);
        self.0.core.parts.get_layout(permit, target.displacement, &into, &target.layout(), counted_by)?;
        Ok(Request::of(self.0.core, target.rank, tally))
    }

    /// Puts the elements of `buffer`. The request returns the buffer when the buffer may be used
    /// again (`MPI_RPUT`, MPI-4.1 §12.3.5).
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn rput_owned(&self, target: usize, displacement: usize, buffer: Vec<T>) -> Result<BufferRequest<T>> {
        let permit = self.0.admit("rput", target)?;
        BufferRequest::lend(self.0.core, target, buffer, |buffer, tally| {
            self.0.core.parts.put(permit, displacement as u64, buffer.source(), CountedBy::Request(tally))
        })
    }

    /// Gets `buffer.len()` elements of `target`, from `displacement` on. The request returns the
    /// buffer with the data (`MPI_RGET`, MPI-4.1 §12.3.5).
    ///
    /// ```no_run
    /// # fn try_it(win: &transom::Window<u64>) -> transom::Result<Vec<u64>> {
    /// win.lock_all(|epoch| {
    ///     let first = epoch.rget_owned(1, 0, vec![0; 100])?;
    ///     let second = epoch.rget_owned(1, 100, vec![0; 100])?; // both in flight
    ///     let mut all = first.wait()?;
    ///     all.extend(second.wait()?);
    ///     Ok(all)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Access::put`].
    #[inline]
    pub fn rget_owned(&self, target: usize, displacement: usize, buffer: Vec<T>) -> Result<BufferRequest<T>> {
        let permit = self.0.admit("rget", target)?;
        BufferRequest::lend(self.0.core, target, buffer, |buffer, tally| {
            self.0.core.parts.get(permit, displacement as u64, buffer.sink(), CountedBy::Request(tally))
        })
    }
}

impl<'scope, T: Element> Passive<'scope, '_, T> {
    /// Like [`Access::accumulate`], and returns a request (`MPI_RACCUMULATE`).
    ///
    /// # Errors
    /// As for [`Access::accumulate`].
    pub fn raccumulate<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        _op: R,
    ) -> Result<Request> {
        let permit = self.0.admit("raccumulate", target)?;
        let mut tally = None;
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let accumulate = whole::<T>("raccumulate", R::OP, Some(from), None, size_of_val(source));
        self.0.core.parts.accumulate(permit, displacement as u64, &accumulate, CountedBy::Request(&mut tally))?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Access::accumulate_items`], and returns a request (`MPI_RACCUMULATE`).
    ///
    /// # Errors
    /// As for [`Access::accumulate_items`].
    pub fn raccumulate_items<R: Reduction<T>>(
        &self,
        source: &'scope [T],
        count: usize,
        ty: &Datatype,
        target: At<'_>,
        _op: R,
    ) -> Result<Request> {
        let permit = self.0.admit("raccumulate", target.rank)?;
        let mut tally = None;
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let accumulate = items::<T>("raccumulate", R::OP, (count, ty), Some(from), None, target)?;
        let counted_by = CountedBy::Request(&mut tally);
        self.0.core.parts.accumulate(permit, target.displacement, &accumulate, counted_by)?;
        Ok(Request::of(self.0.core, target.rank, tally))
    }

    /// Like [`Access::get_accumulate`], and returns a request, which is complete when the previous
    /// values are in `result` (`MPI_RGET_ACCUMULATE`).
    ///
    /// # Errors
    /// As for [`Access::get_accumulate`].
    pub fn rget_accumulate<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        result: &'scope mut [T],
        _op: R,
    ) -> Result<Request> {
        let permit = self.0.admit("rget_accumulate", target)?;
        let mut tally = None;
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let into = self.0.scope.sink(bytemuck::cast_slice_mut(result));
        let accumulate = whole::<T>("rget_accumulate", R::OP, Some(from), Some(into), size_of_val(source));
        self.0.core.parts.accumulate(permit, displacement as u64, &accumulate, CountedBy::Request(&mut tally))?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Access::get_accumulate`], into a buffer that the request returns with the previous
    /// values (`MPI_RGET_ACCUMULATE`).
    ///
    /// # Errors
    /// As for [`Access::get_accumulate`].
    pub fn rget_accumulate_owned<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        result: Vec<T>,
        _op: R,
    ) -> Result<BufferRequest<T>> {
        let permit = self.0.admit("rget_accumulate", target)?;
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        BufferRequest::lend(self.0.core, target, result, |result, tally| {
            let into = result.sink();
            let accumulate = whole::<T>("rget_accumulate", R::OP, Some(from), Some(into), size_of_val(source));
            self.0.core.parts.accumulate(permit, displacement as u64, &accumulate, CountedBy::Request(tally))
        })
    }
}

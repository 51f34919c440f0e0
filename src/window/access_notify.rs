//! Notified operations of a typed window, in passive epochs only (the MPI Forum's draft of RMA
//! notification). Each performs an operation and then adds one to a counter of the target. The
//! counter changes after the operation is complete at the target.

use super::access::{items, whole};
use super::accumulate::Accumulate;
use super::element::RmaElem;
use super::notices::Notice;
use super::passive::Passive;
use super::raw::At;
use super::request::{BufferRequest, Request};
use super::transfer::{CountedBy, Incoming, Outgoing};
use crate::datatype::Datatype;
use crate::error::Result;
use crate::memory::layout::Layout;
use crate::reduce::Element;
use crate::reduce::ops::Reduction;

/// Notified operations (draft of RMA notification).
impl<'scope, T: RmaElem> Passive<'scope, '_, T> {
    /// Performs [`Access::put`](crate::Access::put), and then adds one to a counter of the target.
    /// A target that reads the new count also sees the data (`MPI_Put_notify`). A put of no
    /// elements moves no data, but is counted.
    ///
    /// On nets that do not deliver a notice after earlier data, the call waits until the data is
    /// transferred, unless the data is stored to mapped memory or sent in one message.
    ///
    /// # Errors
    /// As for [`Access::put`](crate::Access::put); `RmaNotification` for a counter that the target
    /// does not have, with no effect on memory and counters.
    #[inline(always)]
    pub fn put_notify(&self, target: usize, displacement: usize, source: &'scope [T], notice: Notice) -> Result<()> {
        let permit = self.0.admit("put_notify", target)?;
        let source = self.0.scope.source(bytemuck::cast_slice(source));
        self.0.core.parts.put_notify(permit, displacement as u64, source, notice.0, CountedBy::Target)
    }

    /// Performs [`Access::get`](crate::Access::get), and then adds one to a counter of the target.
    /// The new count means that the data has been read (`MPI_Get_notify`). The call waits for the
    /// data.
    ///
    /// # Errors
    /// As for [`Passive::put_notify`].
    pub fn get_notify(
        &self,
        target: usize,
        displacement: usize,
        result: &'scope mut [T],
        notice: Notice,
    ) -> Result<()> {
        const CALL: &str = "get_notify";
        let permit = self.0.admit(CALL, target)?;
        let (core, into) = (self.0.core, self.0.scope.sink(bytemuck::cast_slice_mut(result)));
        core.parts.notified(CALL, permit, notice.0, CountedBy::Target, |counted_by| {
            core.parts.get(permit, displacement as u64, into, counted_by)
        })
    }

    /// Performs [`Access::put_items`](crate::Access::put_items), and then adds one to a counter of
    /// the target.
    ///
    /// # Errors
    /// As for [`Access::put_items`](crate::Access::put_items) and [`Passive::put_notify`].
    pub fn put_items_notify(
        &self,
        source: &'scope [T],
        count: usize,
        ty: &Datatype,
        target: At<'_>,
        notice: Notice,
    ) -> Result<()> {
        const CALL: &str = "put_notify";
        let permit = self.0.admit(CALL, target.rank)?;
        let bytes = self.0.scope.source(bytemuck::cast_slice(source));
        let from = Outgoing { bytes, low: 0, layout: Layout::Items(ty, count) };
        let core = self.0.core;
        core.parts.notified(CALL, permit, notice.0, CountedBy::Target, |counted_by| {
            core.parts.put_layout(permit, target.displacement, &from, &target.layout(), counted_by)
        })
    }

    /// Performs [`Access::get_items`](crate::Access::get_items), and then adds one to a counter of
    /// the target.
    ///
    /// # Errors
    /// As for [`Access::get_items`](crate::Access::get_items) and [`Passive::put_notify`].
    pub fn get_items_notify(
        &self,
        result: &'scope mut [T],
        count: usize,
        ty: &Datatype,
        target: At<'_>,
        notice: Notice,
    ) -> Result<()> {
        const CALL: &str = "get_notify";
        let permit = self.0.admit(CALL, target.rank)?;
        let bytes = self.0.scope.sink(bytemuck::cast_slice_mut(result));
        let into = Incoming { bytes, low: 0, layout: Layout::Items(ty, count) };
        let core = self.0.core;
        core.parts.notified(CALL, permit, notice.0, CountedBy::Target, |counted_by| {
            core.parts.get_layout(permit, target.displacement, &into, &target.layout(), counted_by)
        })
    }

    /// Like [`Passive::put_notify`], and returns a request, which is complete when the buffer may
    /// be used again (`MPI_Rput_notify`).
    ///
    /// # Errors
    /// As for [`Passive::put_notify`].
    pub fn rput_notify(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        notice: Notice,
    ) -> Result<Request> {
        let permit = self.0.admit("rput_notify", target)?;
        let mut tally = None;
        let source = self.0.scope.source(bytemuck::cast_slice(source));
        let counted_by = CountedBy::Request(&mut tally);
        self.0.core.parts.put_notify(permit, displacement as u64, source, notice.0, counted_by)?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Passive::get_notify`], and returns a request, which is complete when the data is in
    /// `result` (`MPI_Rget_notify`).
    ///
    /// # Errors
    /// As for [`Passive::put_notify`].
    pub fn rget_notify(
        &self,
        target: usize,
        displacement: usize,
        result: &'scope mut [T],
        notice: Notice,
    ) -> Result<Request> {
        const CALL: &str = "rget_notify";
        let permit = self.0.admit(CALL, target)?;
        let mut tally = None;
        let (core, into) = (self.0.core, self.0.scope.sink(bytemuck::cast_slice_mut(result)));
        core.parts.notified(CALL, permit, notice.0, CountedBy::Request(&mut tally), |counted_by| {
            core.parts.get(permit, displacement as u64, into, counted_by)
        })?;
        Ok(Request::of(core, target, tally))
    }

    /// Like [`Passive::get_notify`], into a buffer that the request returns with the data
    /// (`MPI_Rget_notify`).
    ///
    /// # Errors
    /// As for [`Passive::put_notify`].
    pub fn rget_owned_notify(
        &self,
        target: usize,
        displacement: usize,
        buffer: Vec<T>,
        notice: Notice,
    ) -> Result<BufferRequest<T>> {
        const CALL: &str = "rget_notify";
        let permit = self.0.admit(CALL, target)?;
        let core = self.0.core;
        BufferRequest::lend(core, target, buffer, |buffer, tally| {
            core.parts.notified(CALL, permit, notice.0, CountedBy::Request(tally), |counted_by| {
                core.parts.get(permit, displacement as u64, buffer.sink(), counted_by)
            })
        })
    }
}

/// Notified accumulates (draft of RMA notification), for windows of MPI's predefined types.
impl<'scope, T: Element> Passive<'scope, '_, T> {
    /// Performs [`Access::accumulate`](crate::Access::accumulate), and then adds one to a counter
    /// of the target (`MPI_Accumulate_notify`). An accumulate with `NO_OP` is counted too.
    ///
    /// # Errors
    /// As for [`Access::accumulate`](crate::Access::accumulate) and [`Passive::put_notify`].
    pub fn accumulate_notify<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        _op: R,
        notice: Notice,
    ) -> Result<()> {
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let accumulate = whole::<T>("accumulate_notify", R::OP, Some(from), None, size_of_val(source));
        self.counted((target, displacement as u64), &accumulate, notice, CountedBy::Target)
    }

    /// Performs [`Access::accumulate_items`](crate::Access::accumulate_items), and then adds one to
    /// a counter of the target.
    ///
    /// # Errors
    /// As for [`Access::accumulate_items`](crate::Access::accumulate_items) and
    /// [`Passive::put_notify`].
    pub fn accumulate_items_notify<R: Reduction<T>>(
        &self,
        source: &'scope [T],
        count: usize,
        ty: &Datatype,
        target: At<'_>,
        _op: R,
        notice: Notice,
    ) -> Result<()> {
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let accumulate = items::<T>("accumulate_notify", R::OP, (count, ty), Some(from), None, target)?;
        self.counted((target.rank, target.displacement), &accumulate, notice, CountedBy::Target)
    }

    /// Performs [`Access::get_accumulate`](crate::Access::get_accumulate), and then adds one to a
    /// counter of the target (`MPI_Get_accumulate_notify`).
    ///
    /// # Errors
    /// As for [`Access::get_accumulate`](crate::Access::get_accumulate) and
    /// [`Passive::put_notify`].
    pub fn get_accumulate_notify<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        result: &'scope mut [T],
        _op: R,
        notice: Notice,
    ) -> Result<()> {
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let into = self.0.scope.sink(bytemuck::cast_slice_mut(result));
        let accumulate = whole::<T>("get_accumulate_notify", R::OP, Some(from), Some(into), size_of_val(source));
        self.counted((target, displacement as u64), &accumulate, notice, CountedBy::Target)
    }

    /// Like [`Passive::accumulate_notify`], and returns a request (`MPI_Raccumulate_notify`).
    ///
    /// # Errors
    /// As for [`Passive::accumulate_notify`].
    pub fn raccumulate_notify<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        _op: R,
        notice: Notice,
    ) -> Result<Request> {
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let accumulate = whole::<T>("raccumulate_notify", R::OP, Some(from), None, size_of_val(source));
        let mut tally = None;
        self.counted((target, displacement as u64), &accumulate, notice, CountedBy::Request(&mut tally))?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Passive::get_accumulate_notify`], and returns a request, which is complete when the
    /// previous values are in `result` (`MPI_Rget_accumulate_notify`).
    ///
    /// # Errors
    /// As for [`Passive::get_accumulate_notify`].
    pub fn rget_accumulate_notify<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        result: &'scope mut [T],
        _op: R,
        notice: Notice,
    ) -> Result<Request> {
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        let into = self.0.scope.sink(bytemuck::cast_slice_mut(result));
        let accumulate = whole::<T>("rget_accumulate_notify", R::OP, Some(from), Some(into), size_of_val(source));
        let mut tally = None;
        self.counted((target, displacement as u64), &accumulate, notice, CountedBy::Request(&mut tally))?;
        Ok(Request::of(self.0.core, target, tally))
    }

    /// Like [`Passive::get_accumulate_notify`], into a buffer that the request returns with the
    /// previous values (`MPI_Rget_accumulate_notify`).
    ///
    /// # Errors
    /// As for [`Passive::get_accumulate_notify`].
    pub fn rget_accumulate_owned_notify<R: Reduction<T>>(
        &self,
        target: usize,
        displacement: usize,
        source: &'scope [T],
        result: Vec<T>,
        _op: R,
        notice: Notice,
    ) -> Result<BufferRequest<T>> {
        let from = self.0.scope.source(bytemuck::cast_slice(source));
        BufferRequest::lend(self.0.core, target, result, |result, tally| {
            let into = result.sink();
            let accumulate = whole::<T>("rget_accumulate_notify", R::OP, Some(from), Some(into), size_of_val(source));
            self.counted((target, displacement as u64), &accumulate, notice, CountedBy::Request(tally))
        })
    }

    /// An accumulate of any form, which then adds one to a counter of the target.
    fn counted(
        &self,
        (target, displacement): (usize, u64),
        accumulate: &Accumulate<'_>,
        notice: Notice,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let permit = self.0.admit(accumulate.call, target)?;
        let core = self.0.core;
        core.parts.notified(accumulate.call, permit, notice.0, counted_by, |counted_by| {
            core.parts.accumulate(permit, displacement, accumulate, counted_by)
        })
    }
}

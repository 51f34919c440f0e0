//! The byte-level window's notified operations (the MPI Forum's draft of RMA notification), with
//! and without requests, and the counters of a window. The caller promises that buffers stay valid.

use super::super::notices::{Notice, Notices};
use super::super::request::Request;
use super::super::transfer::CountedBy;
use super::{At, Items, RawWindow};
use crate::buffers::Source;
use crate::error::Result;
use crate::reduce::Op;

/// The counters of notified operations.
impl RawWindow {
    /// Gives this rank `number` counters, at most 4096, and zeroes all counters of the window, like
    /// [`Window::set_num_notify`](crate::Window::set_num_notify). Collective.
    ///
    /// # Errors
    /// `Arg` at a rank whose number is too large, and then `Other` at the other ranks. If a rank
    /// can't make its counters, all ranks get an error. After an error the counters of all ranks
    /// are unchanged.
    pub fn set_num_notify(&self, number: usize) -> Result<()> {
        self.core.set_num_notify(number)
    }

    /// The number of counters of `rank` (`MPI_Win_get_num_notify`).
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist.
    pub fn num_notify(&self, rank: usize) -> Result<usize> {
        self.core.parts.num_notify(rank)
    }

    /// This rank's counters.
    pub fn notices(&self) -> Notices<'_> {
        Notices::of(&self.core)
    }
}

/// Notified operations, in passive epochs only. Each performs an operation, and adds one to a
/// counter of the target after the operation is complete at the target.
impl RawWindow {
    /// Performs [`RawWindow::put`], and then adds one to a counter of the target
    /// (`MPI_Put_notify`). On nets that do not deliver a notice after earlier data, the call waits
    /// until the data is transferred, unless the data is sent in one message.
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `RmaSync` outside a passive epoch; `RmaNotification` for a
    /// counter that the target does not have, with no effect on memory and counters.
    ///
    /// # Safety
    /// As for [`RawWindow::put`].
    #[inline]
    pub unsafe fn put_notify(
        &self,
        origin: *const u8,
        len: usize,
        target: usize,
        displacement: u64,
        notice: Notice,
    ) -> Result<()> {
        let permit = self.core.begin_passive("put_notify", target)?;
        // SAFETY: the caller's promise.
        let from = unsafe { Source::promised(origin, len) };
        self.core.parts.put_notify(permit, displacement, from, notice.0, CountedBy::Target)
    }

    /// Performs [`RawWindow::put_items`], and then adds one to a counter of the target
    /// (`MPI_Put_notify`). On nets that do not deliver a notice after earlier data, the call waits
    /// for the transfer.
    ///
    /// # Errors
    /// As for [`RawWindow::put_items`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`].
    pub unsafe fn put_items_notify(&self, origin: Items<'_>, target: At<'_>, notice: Notice) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.put_counted(origin, target, notice, CountedBy::Target) }
    }

    /// Performs [`RawWindow::get_items`], and then adds one to a counter of the target
    /// (`MPI_Get_notify`). The new count means that the data has been read. The call waits for the
    /// data.
    ///
    /// # Errors
    /// As for [`RawWindow::get_items`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::get_items`].
    pub unsafe fn get_items_notify(&self, origin: Items<'_>, target: At<'_>, notice: Notice) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.get_counted(origin, target, notice, CountedBy::Target) }
    }

    /// Performs [`RawWindow::accumulate_items`], and then adds one to a counter of the target
    /// (`MPI_Accumulate_notify`). The call waits for the operation.
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate_items`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::accumulate_items`].
    pub unsafe fn accumulate_items_notify(
        &self,
        origin: Items<'_>,
        target: At<'_>,
        op: Op,
        notice: Notice,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.combine_counted((origin, None), target, op, notice, CountedBy::Target) }
    }

    /// Performs [`RawWindow::get_accumulate_items`], and then adds one to a counter of the target
    /// (`MPI_Get_accumulate_notify`). The call waits for the operation.
    ///
    /// # Errors
    /// As for [`RawWindow::get_accumulate_items`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::get_accumulate_items`].
    pub unsafe fn get_accumulate_items_notify(
        &self,
        origin: Items<'_>,
        result: Items<'_>,
        target: At<'_>,
        op: Op,
        notice: Notice,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.combine_counted((origin, Some(result)), target, op, notice, CountedBy::Target) }
    }
}

/// Notified operations with requests. A request is complete when its buffers may be used again; if
/// the operation gets data, when the data has arrived.
impl RawWindow {
    /// Like [`RawWindow::put_notify`], and returns a request (`MPI_Rput_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::put_notify`].
    pub unsafe fn rput_notify(
        &self,
        origin: *const u8,
        len: usize,
        target: usize,
        displacement: u64,
        notice: Notice,
    ) -> Result<Request> {
        let permit = self.core.begin_passive("rput_notify", target)?;
        // SAFETY: the caller's promise.
        let from = unsafe { Source::promised(origin, len) };
        self.requested(target, |counted_by| {
            self.core.parts.put_notify(permit, displacement, from, notice.0, counted_by)
        })
    }

    /// Like [`RawWindow::put_items_notify`], and returns a request (`MPI_Rput_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::put_items_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::put_items_notify`].
    pub unsafe fn rput_items_notify(&self, origin: Items<'_>, target: At<'_>, notice: Notice) -> Result<Request> {
        // SAFETY: the caller's promise.
        self.requested(target.rank, |counted_by| unsafe { self.put_counted(origin, target, notice, counted_by) })
    }

    /// Like [`RawWindow::get_items_notify`], and returns a request (`MPI_Rget_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::get_items_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::get_items_notify`].
    pub unsafe fn rget_items_notify(&self, origin: Items<'_>, target: At<'_>, notice: Notice) -> Result<Request> {
        // SAFETY: the caller's promise.
        self.requested(target.rank, |counted_by| unsafe { self.get_counted(origin, target, notice, counted_by) })
    }

    /// Like [`RawWindow::accumulate_items_notify`], and returns a request
    /// (`MPI_Raccumulate_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate_items_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::accumulate_items_notify`].
    pub unsafe fn raccumulate_items_notify(
        &self,
        origin: Items<'_>,
        target: At<'_>,
        op: Op,
        notice: Notice,
    ) -> Result<Request> {
        // SAFETY: the caller's promise.
        self.requested(target.rank, |counted_by| unsafe {
            self.combine_counted((origin, None), target, op, notice, counted_by)
        })
    }

    /// Like [`RawWindow::get_accumulate_items_notify`], and returns a request
    /// (`MPI_Rget_accumulate_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::get_accumulate_items_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::get_accumulate_items_notify`].
    pub unsafe fn rget_accumulate_items_notify(
        &self,
        origin: Items<'_>,
        result: Items<'_>,
        target: At<'_>,
        op: Op,
        notice: Notice,
    ) -> Result<Request> {
        // SAFETY: the caller's promise.
        self.requested(target.rank, |counted_by| unsafe {
            self.combine_counted((origin, Some(result)), target, op, notice, counted_by)
        })
    }
}

/// The implementation that operations with and without requests share.
impl RawWindow {
    /// # Safety
    /// As for [`RawWindow::put_items_notify`].
    unsafe fn put_counted(
        &self,
        origin: Items<'_>,
        target: At<'_>,
        notice: Notice,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        const CALL: &str = "put_notify";
        let permit = self.core.begin_passive(CALL, target.rank)?;
        // SAFETY: the caller's promise.
        let from = unsafe { origin.source() };
        self.core.parts.notified(CALL, permit, notice.0, counted_by, |counted_by| {
            self.core.parts.put_layout(permit, target.displacement, &from, &target.layout(), counted_by)
        })
    }

    /// # Safety
    /// As for [`RawWindow::get_items_notify`].
    unsafe fn get_counted(
        &self,
        origin: Items<'_>,
        target: At<'_>,
        notice: Notice,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        const CALL: &str = "get_notify";
        let permit = self.core.begin_passive(CALL, target.rank)?;
        // SAFETY: the caller's promise.
        let into = unsafe { origin.sink() };
        self.core.parts.notified(CALL, permit, notice.0, counted_by, |counted_by| {
            self.core.parts.get_layout(permit, target.displacement, &into, &target.layout(), counted_by)
        })
    }

    /// # Safety
    /// As for [`RawWindow::accumulate_items_notify`], and with a result as for
    /// [`RawWindow::get_accumulate_items_notify`].
    unsafe fn combine_counted(
        &self,
        (origin, result): (Items<'_>, Option<Items<'_>>),
        target: At<'_>,
        op: Op,
        notice: Notice,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let call = if result.is_some() { "get_accumulate_notify" } else { "accumulate_notify" };
        let permit = self.core.begin_passive(call, target.rank)?;
        // SAFETY: the caller's promise.
        self.core.parts.notified(call, permit, notice.0, counted_by, |counted_by| unsafe {
            self.combine(permit, call, Some(origin), result, target, op, counted_by)
        })
    }
}

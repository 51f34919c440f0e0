//! The byte-level window's notified operations (the MPI Forum's draft of RMA notification), with
//! and without requests, and the counters of a window. The caller promises that buffers stay valid.

use super::super::notices::{Notice, Notices};
use super::super::request::Request;
use super::super::transfer::Count;
use super::{At, Items, RawWindow};
use crate::buffers::Source;
use crate::error::Result;
use crate::reduce::Op;

/// The counters of notified operations.
impl RawWindow {
    /// Gives this rank `number` counters, at most 4096, and zeroes all counters of the window, as
    /// [`Window::set_num_notify`](crate::Window::set_num_notify). Collective.
    ///
    /// # Errors
    /// `Arg` for too large a number; then no rank has other counters than before.
    pub fn set_num_notify(&self, number: usize) -> Result<()> {
        self.core.set_num_notify(number)
    }

    /// How many counters `rank` has (`MPI_Win_get_num_notify`).
    ///
    /// # Errors
    /// `Rank`.
    pub fn num_notify(&self, rank: usize) -> Result<usize> {
        self.core.num_notify(rank)
    }

    /// This rank's counters.
    pub fn notices(&self) -> Notices<'_> {
        Notices::of(&self.core)
    }
}

/// Notified operations, in passive epochs only: the operation as its plain form does it, then one
/// added to one counter of the target, after the operation is complete there.
impl RawWindow {
    /// [`RawWindow::put`], then one added to a counter of the target (`MPI_Put_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `RmaSync` outside a passive epoch; `RmaNotification` for a
    /// counter that the target does not have. Nothing is written then, and nothing counted.
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
        let permit = self.core.begin_request("put_notify", target)?;
        // SAFETY: the caller's promise.
        let from = unsafe { Source::promised(origin, len) };
        self.core.put_notify(permit, displacement, from, notice.0, Count::Target)
    }

    /// [`RawWindow::rput`], then one added to a counter of the target (`MPI_Rput_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::rput`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::rput`].
    pub unsafe fn rput_notify(&self, origin: Items<'_>, target: At<'_>, notice: Notice) -> Result<Request> {
        const CALL: &str = "put_notify";
        let permit = self.core.begin_request(CALL, target.rank)?;
        // SAFETY: the caller's promise.
        let from = unsafe { origin.source() };
        self.requested(|count| {
            self.core.notified(CALL, permit, notice.0, count, |count| {
                self.core.put_layout(permit, target.displacement, &from, &target.layout(), count)
            })
        })
    }

    /// [`RawWindow::rget`], then one added to a counter of the target (`MPI_Rget_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::rget`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::rget`].
    pub unsafe fn rget_notify(&self, origin: Items<'_>, target: At<'_>, notice: Notice) -> Result<Request> {
        const CALL: &str = "get_notify";
        let permit = self.core.begin_request(CALL, target.rank)?;
        // SAFETY: the caller's promise.
        let into = unsafe { origin.sink() };
        self.requested(|count| {
            self.core.notified(CALL, permit, notice.0, count, |count| {
                self.core.get_layout(permit, target.displacement, &into, &target.layout(), count)
            })
        })
    }

    /// [`RawWindow::raccumulate`], then one added to a counter of the target
    /// (`MPI_Raccumulate_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::raccumulate`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::raccumulate`].
    pub unsafe fn raccumulate_notify(
        &self,
        origin: Items<'_>,
        target: At<'_>,
        op: Op,
        notice: Notice,
    ) -> Result<Request> {
        const CALL: &str = "accumulate_notify";
        let permit = self.core.begin_request(CALL, target.rank)?;
        self.requested(|count| {
            // SAFETY: the caller's promise.
            self.core.notified(CALL, permit, notice.0, count, |count| unsafe {
                self.combine(permit, CALL, Some(origin), None, target, op, count)
            })
        })
    }

    /// [`RawWindow::rget_accumulate`], then one added to a counter of the target
    /// (`MPI_Rget_accumulate_notify`).
    ///
    /// # Errors
    /// As for [`RawWindow::rget_accumulate`] and [`RawWindow::put_notify`].
    ///
    /// # Safety
    /// As for [`RawWindow::rget_accumulate`].
    pub unsafe fn rget_accumulate_notify(
        &self,
        origin: Items<'_>,
        result: Items<'_>,
        target: At<'_>,
        op: Op,
        notice: Notice,
    ) -> Result<Request> {
        const CALL: &str = "get_accumulate_notify";
        let permit = self.core.begin_request(CALL, target.rank)?;
        self.requested(|count| {
            // SAFETY: the caller's promise.
            self.core.notified(CALL, permit, notice.0, count, |count| unsafe {
                self.combine(permit, CALL, Some(origin), Some(result), target, op, count)
            })
        })
    }
}

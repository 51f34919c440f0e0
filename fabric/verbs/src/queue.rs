//! The completion queue, and the receives that all connections share.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use transom_fabric::{Cause, FabricError};

use crate::device::{Device, checked, failed, opaque_debug};
use crate::library::LIBRARY;
use crate::sys;

/// The completions whose events end a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    /// Those of all requests and messages.
    All,
    /// Those of messages, and of puts whose sender asks for an event.
    Solicited,
}

/// A completion queue and the channel of its events.
pub(crate) struct CompletionQueue {
    pub(crate) cq: *mut sys::ibv_cq,
    channel: *mut sys::ibv_comp_channel,
    pub(crate) device: Arc<Device>,
}

/// The shared receive queue, in which all connections find the receives of their messages.
pub(crate) struct SharedReceiveQueue {
    pub(crate) srq: *mut sys::ibv_srq,
    device: Arc<Device>,
}

opaque_debug!(CompletionQueue, SharedReceiveQueue);

impl CompletionQueue {
    /// A completion queue of `entries` for the process of number `local` of this machine. The
    /// processes use the device's interrupt vectors in turn, because one CPU serves all interrupts
    /// of a vector.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn create(
        device: &Arc<Device>,
        entries: u32,
        local: usize,
    ) -> Result<Arc<CompletionQueue>, FabricError> {
        let call = &device.library.call;
        // SAFETY: an open context. The queue is created after the channel, and the drop of `queue`
        // closes both.
        unsafe {
            let channel = (call.create_comp_channel)(device.context);
            if channel.is_null() {
                return Err(failed("ibv_create_comp_channel"));
            }
            let mut queue = CompletionQueue { cq: std::ptr::null_mut(), channel, device: Arc::clone(device) };
            let count = c_int::try_from(entries).unwrap_or(c_int::MAX);
            let vectors = usize::try_from((*device.context).num_comp_vectors).unwrap_or(0).max(1);
            let vector = c_int::try_from(local % vectors).unwrap_or(0);
            queue.cq = (call.create_cq)(device.context, count, std::ptr::null_mut(), channel, vector);
            if queue.cq.is_null() {
                return Err(failed(format!("ibv_create_cq of {entries} entries")));
            }
            rustix::fs::fcntl_setfl(queue.as_fd(), rustix::fs::OFlags::NONBLOCK)
                .map_err(|error| FabricError::failed("setting the completion channel", error))?;
            Ok(Arc::new(queue))
        }
    }

    /// Polls completions and returns their number.
    ///
    /// # Errors
    /// The queue is broken.
    pub(crate) fn poll(&self, into: &mut [sys::ibv_wc]) -> Result<usize, FabricError> {
        // SAFETY: an open queue, and room for the requested number of entries.
        let count = unsafe {
            let poll = (*self.device.context).ops.poll_cq.expect("poll_cq");
            poll(self.cq, c_int::try_from(into.len()).unwrap_or(1), into.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| {
            let text = format!("the call returned {count}");
            FabricError::failed("ibv_poll_cq", Cause::Library { library: LIBRARY, code: count.into(), text })
        })
    }

    /// Arms the queue: the next completion of these makes the descriptor readable.
    pub(crate) fn arm(&self, events: Events) -> Result<(), FabricError> {
        // SAFETY: an open queue.
        let status = unsafe {
            let notify = (*self.device.context).ops.req_notify_cq.expect("req_notify_cq");
            notify(self.cq, c_int::from(events == Events::Solicited))
        };
        checked("ibv_req_notify_cq", status)
    }

    /// Takes the event that made the descriptor readable, unless another thread took it.
    pub(crate) fn take_event(&self) {
        let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut::<c_void>());
        // SAFETY: an open, non-blocking channel; every event is acknowledged once.
        unsafe {
            if (self.device.library.call.get_cq_event)(self.channel, &raw mut cq, &raw mut context) == 0 {
                (self.device.library.call.ack_cq_events)(cq, 1);
            }
        }
    }
}

impl AsFd for CompletionQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once; every user of the queue keeps it alive.
        unsafe {
            if !self.cq.is_null() {
                let _ = (self.device.library.call.destroy_cq)(self.cq);
            }
            let _ = (self.device.library.call.destroy_comp_channel)(self.channel);
        }
    }
}

impl SharedReceiveQueue {
    /// A shared receive queue of `count` receives.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn create(device: &Arc<Device>, count: u32) -> Result<Arc<SharedReceiveQueue>, FabricError> {
        let mut attributes =
            sys::ibv_srq_init_attr { srq_context: std::ptr::null_mut(), max_wr: count, max_sge: 1, srq_limit: 0 };
        // SAFETY: an open domain.
        let srq = unsafe { (device.library.call.create_srq)(device.pd, &raw mut attributes) };
        if srq.is_null() {
            return Err(failed(format!("ibv_create_srq of {count} receives")));
        }
        Ok(Arc::new(SharedReceiveQueue { srq, device: Arc::clone(device) }))
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// The bytes belong to the device until the completion.
    pub(crate) unsafe fn post(&self, id: u64, mut sge: sys::ibv_sge) -> Result<(), FabricError> {
        let mut request = sys::ibv_recv_wr { wr_id: id, next: std::ptr::null_mut(), sg_list: &raw mut sge, num_sge: 1 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: an open queue; the call copies the request; the caller promises the bytes.
        let status = unsafe {
            let post = (*self.device.context).ops.post_srq_recv.expect("post_srq_recv");
            post(self.srq, &raw mut request, &raw mut bad)
        };
        checked("ibv_post_srq_recv", status)
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once; every user of the receives keeps them alive.
        unsafe {
            let _ = (self.device.library.call.destroy_srq)(self.srq);
        }
    }
}

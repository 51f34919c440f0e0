//! The calls of libfabric that post an operation: each put is a write with delivery complete, each
//! get a read, each atomic a fetching atomic.
//!
//! Every operation has a slot, which is returned to the pool at the completion. The provider locks
//! its own objects (FI_THREAD_SAFE), so posting takes no lock, except where the provider does not
//! lock its table of regions (`region_lock`).

use std::ffi::c_void;

use transom_fabric::{Amo, AmoKind, Span, Width};

use crate::atomics::{datatype, operation};
use crate::opened::{Open, Pool};
use crate::remote::OfiRemote;
use crate::slots::{HEADER, Slot};
use crate::sys;

/// Most parts of a list.
pub(crate) const LIST: usize = 8;
/// Offset of the comparand in an atomic's buffer; the operand is at 0.
const COMPARE: usize = 8;
/// Offset of the result in an atomic's buffer.
pub(crate) const RESULT: usize = 16;

/// The slot of an operation to post, and the peer's address.
pub(crate) type Begun<'s> = (&'s Slot, sys::fi_addr_t);

impl Open {
    /// Writes bytes from several buffers, each with its descriptor, with delivery complete: the
    /// completion means that the target has the data (man fi_rma, fi_endpoint).
    #[inline]
    pub(crate) fn write(
        &self,
        to: &OfiRemote,
        offset: u64,
        from: &[sys::iovec],
        descriptors: &mut [*mut c_void],
        (slot, address): Begun<'_>,
    ) -> isize {
        let target = to.part(offset, from);
        let message = message(from, descriptors, &target, slot, address);
        // SAFETY: the vectors live over the call, which copies them (man fi_rma). The source's
        // bytes stay until the completion: a slot's because it is in flight, the caller's by its
        // promise.
        unsafe {
            let _guard = self.endpoint.region_lock.lock();
            let write = (*(*self.endpoint.ep).rma).writemsg.expect("writemsg");
            write(self.endpoint.ep, &raw const message, sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION)
        }
    }

    /// Writes the slot's first `len` bytes with remote CQ data, with delivery complete (see
    /// `Info::let_carry`). `fi_writemsg` would take flags, but `cxi` of 2.5 and 2.6 refuses the
    /// flag for the data there (libfabric pull request 12740).
    pub(crate) fn write_with_data(
        &self,
        to: &OfiRemote,
        offset: u64,
        len: usize,
        data: u64,
        (slot, address): Begun<'_>,
    ) -> isize {
        let OfiRemote { key, base, .. } = *to;
        // SAFETY: the slot's bytes stay until the completion.
        unsafe {
            let _guard = self.endpoint.region_lock.lock();
            let write = (*(*self.endpoint.ep).rma).writedata.expect("writedata");
            let (from, descriptor) = (slot.buffer().cast(), self.descriptor(Pool::Operations));
            write(self.endpoint.ep, from, len, descriptor, data, address, base + offset, key, slot.context())
        }
    }

    /// Reads into several buffers of the caller. `FI_COMPLETION` is explicit, because older
    /// versions of `opx` complete no read without it.
    pub(crate) fn read_all(
        &self,
        from: &OfiRemote,
        offset: u64,
        into: &[sys::iovec],
        descriptors: &mut [*mut c_void],
        (slot, address): Begun<'_>,
    ) -> isize {
        let source = from.part(offset, into);
        let message = message(into, descriptors, &source, slot, address);
        // SAFETY: the vectors live over the call, which copies them; the caller's buffers stay by
        // its promise.
        unsafe {
            let _guard = self.endpoint.region_lock.lock();
            let read = (*(*self.endpoint.ep).rma).readmsg.expect("readmsg");
            read(self.endpoint.ep, &raw const message, sys::FI_COMPLETION)
        }
    }

    /// Reads into the slot's buffer or the caller's buffer.
    #[inline]
    pub(crate) fn read(
        &self,
        from: &OfiRemote,
        offset: u64,
        into: Span,
        descriptor: *mut c_void,
        begun: Begun<'_>,
    ) -> isize {
        self.read_all(from, offset, &[vector(into)], &mut [descriptor], begun)
    }

    /// Performs an atomic with delivery complete: without it a device may complete before the
    /// target's processes can see the effect.
    pub(crate) fn perform(&self, on: &OfiRemote, offset: u64, amo: Amo, (slot, address): Begun<'_>) -> isize {
        let (ep, flags) = (self.endpoint.ep, sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION);
        let mut descriptors = [self.descriptor(Pool::Operations); 3];
        let [operands, compares, results] = descriptors.each_mut().map(std::ptr::from_mut);
        let at = |place| sys::fi_ioc { addr: slot.buffer().wrapping_add(place).cast(), count: 1 };
        let (operand, compare, mut result) = (at(0), at(COMPARE), at(RESULT));
        let target = sys::fi_rma_ioc { addr: on.base + offset, count: 1, key: on.key };
        let message = sys::fi_msg_atomic {
            msg_iov: &raw const operand,
            desc: operands,
            iov_count: 1,
            addr: address,
            rma_iov: &raw const target,
            rma_iov_count: 1,
            datatype: datatype(amo.width),
            op: operation(amo.kind),
            context: slot.context(),
            data: 0,
        };
        // SAFETY: the vectors live over the call (man fi_atomic: they are copied); the slot's
        // buffer, aligned to 8, holds operand, comparand and result until the completion.
        unsafe {
            store(operand.addr.cast(), amo.width, amo.operand);
            store(compare.addr.cast(), amo.width, amo.compare);
            let (table, result) = ((*ep).atomic, &raw mut result);
            let _guard = self.endpoint.region_lock.lock();
            if amo.kind == AmoKind::CompareSwap {
                let swap = (*table).compwritemsg.expect("compwritemsg");
                return swap(ep, &raw const message, &raw const compare, compares, 1, result, results, 1, flags);
            }
            let fetch = (*table).readwritemsg.expect("readwritemsg");
            fetch(ep, &raw const message, result, results, 1, flags)
        }
    }

    /// Sends a message with its header from the slot's buffer. The slot was just taken, and its
    /// buffer has room for both.
    pub(crate) fn send(&self, head: [[u8; 8]; 2], message: &[u8], (slot, address): Begun<'_>) -> isize {
        // SAFETY: by the port's choice the slot was just taken, and header and message fit its
        // buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr().cast(), slot.buffer(), HEADER);
            std::ptr::copy_nonoverlapping(message.as_ptr(), slot.buffer().add(HEADER), message.len());
            let _guard = self.endpoint.region_lock.lock();
            let send = (*(*self.endpoint.ep).msg).send.expect("send");
            let (at, len) = (slot.buffer().cast(), HEADER + message.len());
            send(self.endpoint.ep, at, len, self.descriptor(Pool::Sends), address, slot.context())
        }
    }
}

/// A span as an `iovec`.
pub(crate) fn vector(bytes: Span) -> sys::iovec {
    sys::iovec { iov_base: bytes.as_ptr().cast(), iov_len: bytes.len() }
}

/// The argument of `fi_writemsg` and `fi_readmsg`, which points to the other arguments.
#[inline(always)]
fn message(
    own: &[sys::iovec],
    descriptors: &mut [*mut c_void],
    remote: &sys::fi_rma_iov,
    slot: &Slot,
    address: sys::fi_addr_t,
) -> sys::fi_msg_rma {
    sys::fi_msg_rma {
        msg_iov: own.as_ptr(),
        desc: descriptors.as_mut_ptr(),
        iov_count: own.len(),
        addr: address,
        rma_iov: remote,
        rma_iov_count: 1,
        context: slot.context(),
        data: 0,
    }
}

/// Stores a value at its width.
///
/// # Safety
/// `at` has 8 writable bytes.
unsafe fn store(at: *mut u8, width: Width, value: u64) {
    #[allow(clippy::cast_possible_truncation)] // the width says that the low half is the value
    match width {
        // SAFETY: the caller's promise; unaligned stores have no further requirement.
        Width::W32 => unsafe { at.cast::<u32>().write_unaligned(value as u32) },
        // SAFETY: the caller's promise; unaligned stores have no further requirement.
        Width::W64 => unsafe { at.cast::<u64>().write_unaligned(value) },
    }
}

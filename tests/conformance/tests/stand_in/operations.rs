//! The stand-in's operations: messages, reads, writes and atomics.

use std::ffi::{c_int, c_void};

use transom_fabric::{Amo, AmoKind, Span, Width};
use transom_ofi::sys;

use super::net::{Place, Port, Posted, Work, mark, net};
use super::objects::{Endpoint, port};
use super::{EAGAIN, EINVAL, EIO, IN_FLIGHT, Reads};

pub(super) static MSG_OPS: sys::fi_ops_msg =
    sys::fi_ops_msg { size: 0, recv: Some(receive), recvv: None, recvmsg: None, send: Some(send) };
pub(super) static RMA_OPS: sys::fi_ops_rma = sys::fi_ops_rma {
    size: 0,
    read: Some(read),
    readv: None,
    readmsg: Some(read_message),
    write: None,
    writev: None,
    writemsg: Some(write),
    inject: None,
    writedata: Some(write_data),
};
pub(super) static ATOMIC_OPS: sys::fi_ops_atomic = sys::fi_ops_atomic {
    size: 0,
    write: None,
    writev: None,
    writemsg: None,
    inject: None,
    readwrite: None,
    readwritev: None,
    readwritemsg: Some(fetch),
    compwrite: None,
    compwritev: None,
    compwritemsg: Some(swap),
    writevalid: None,
    readwritevalid: Some(fetch_valid),
    compwritevalid: Some(swap_valid),
};

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn fetch_valid(_endpoint: *mut sys::fid_ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
    if width(datatype).is_none() || op == sys::FI_CSWAP || kind(op).is_none() {
        return -EINVAL;
    }
    // SAFETY: the caller's place.
    unsafe { *count = 1 };
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn swap_valid(_endpoint: *mut sys::fid_ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
    if width(datatype).is_none() || op != sys::FI_CSWAP {
        return -EINVAL;
    }
    // SAFETY: the caller's place.
    unsafe { *count = 1 };
    0
}

pub(super) fn width(datatype: u32) -> Option<Width> {
    [(sys::FI_UINT32, Width::W32), (sys::FI_UINT64, Width::W64)]
        .into_iter()
        .find(|(code, _)| *code == datatype)
        .map(|(_, width)| width)
}

pub(super) fn kind(op: u32) -> Option<AmoKind> {
    let codes = [sys::FI_SUM, sys::FI_ATOMIC_WRITE, sys::FI_ATOMIC_READ, sys::FI_CSWAP];
    codes.iter().position(|&code| code == op).map(|at| AmoKind::ALL[at])
}

/// Posts, where the endpoint has room and the provider may use the buffer.
///
/// # Safety
/// An open endpoint with its vector; the context and the buffers of `work` are valid until the
/// completion.
unsafe fn post(
    endpoint: *mut sys::fid_ep,
    to: sys::fi_addr_t,
    context: *mut c_void,
    (buffer, descriptor): (Span, *mut c_void),
    work: Work,
) -> isize {
    let mut net = net();
    // SAFETY: an open endpoint with its vector, which is changed under the net's lock.
    let (origin, target) = unsafe {
        let endpoint = &*endpoint.cast::<Endpoint>();
        let addresses = &(*endpoint.vector).addresses;
        (endpoint.me, addresses.get(usize::try_from(to).unwrap_or(usize::MAX)).copied())
    };
    // Results of atomics are fetched as by reads.
    let right = match work {
        Work::Write(..) => sys::FI_WRITE,
        Work::Read(..) | Work::Atomic(..) => sys::FI_READ,
        Work::Send(_) => sys::FI_SEND,
    };
    let Some(target) = target.filter(|_| net.may_use(origin, buffer, descriptor as usize, right)) else {
        return -(EINVAL as isize);
    };
    if net.count_in_flight(origin) >= IN_FLIGHT {
        return -EAGAIN;
    }
    super::record_post(match work {
        Work::Write(_, _, Some(_)) => "writes with data",
        Work::Write(..) => "writes",
        Work::Read(..) => "reads",
        Work::Atomic(..) => "atomics",
        Work::Send(_) => "messages",
    });
    let model = net.endpoints.get(&origin).map(Port::model);
    let context = context as usize;
    // SAFETY: the caller's promise.
    model.into_iter().for_each(|model| unsafe { mark(model, context) });
    net.in_flight_operations.push(Posted { origin, target, context, work });
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn receive(
    endpoint: *mut sys::fid_ep,
    at: *mut c_void,
    len: usize,
    descriptor: *mut c_void,
    _from: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: an open endpoint.
    let me = unsafe { (*endpoint.cast::<Endpoint>()).me };
    if let Some(error) = super::refusal() {
        return error;
    }
    let into = Span::from_raw(at.cast(), len);
    if !net().may_use(me, into, descriptor as usize, sys::FI_RECV) {
        return -(EINVAL as isize);
    }
    port(me, |port| {
        // SAFETY: the caller keeps the context until the completion.
        unsafe { mark(port.model(), context as usize) };
        port.receives.push_back((context as usize, into));
        port.deliver();
    });
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn send(
    endpoint: *mut sys::fid_ep,
    at: *const c_void,
    len: usize,
    descriptor: *mut c_void,
    to: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's bytes, and an open endpoint.
    unsafe {
        let bytes = std::slice::from_raw_parts(at.cast::<u8>(), len).to_vec();
        let from = Span::from_raw(at.cast_mut().cast(), len);
        post(endpoint, to, context, (from, descriptor), Work::Send(bytes))
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn read(
    endpoint: *mut sys::fid_ep,
    into: *mut c_void,
    len: usize,
    descriptor: *mut c_void,
    from: sys::fi_addr_t,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let into = Span::from_raw(into.cast(), len);
    let work = Work::Read(into, Place { key, offset, len });
    // SAFETY: an open endpoint.
    unsafe { post(endpoint, from, context, (into, descriptor), work) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn read_message(endpoint: *mut sys::fid_ep, message: *const sys::fi_msg_rma, _flags: u64) -> isize {
    // SAFETY: the caller's message, of one vector at each side, and an open endpoint.
    unsafe {
        let message = &*message;
        if (message.iov_count, message.rma_iov_count) != (1, 1) {
            return -(EINVAL as isize);
        }
        let (into, from) = (&*message.msg_iov, &*message.rma_iov);
        let key = match super::READS.get() {
            Reads::Performed => from.key,
            Reads::Refused => return -(EIO as isize),
            // No region has this key.
            Reads::Failing => u64::MAX,
        };
        let place = Place { key, offset: from.addr, len: from.len };
        let into = Span::from_raw(into.iov_base.cast(), into.iov_len);
        post(endpoint, message.addr, message.context, (into, *message.desc), Work::Read(into, place))
    }
}

/// Whether completion of the operation guarantees delivery at the target.
fn delivered(flags: u64) -> bool {
    flags & sys::FI_DELIVERY_COMPLETE != 0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn write(endpoint: *mut sys::fid_ep, message: *const sys::fi_msg_rma, flags: u64) -> isize {
    super::record_write();
    // SAFETY: the caller's message, of one vector at each side, and an open endpoint.
    unsafe {
        let message = &*message;
        // Data is taken by `fi_writedata` alone (libfabric pull request 12740).
        let has_data = flags & sys::FI_REMOTE_CQ_DATA != 0;
        if has_data || !delivered(flags) || (message.iov_count, message.rma_iov_count) != (1, 1) {
            return -(EINVAL as isize);
        }
        let (from, to) = (&*message.msg_iov, &*message.rma_iov);
        let place = Place { key: to.key, offset: to.addr, len: to.len };
        let from = Span::from_raw(from.iov_base.cast(), from.iov_len);
        post(endpoint, message.addr, message.context, (from, *message.desc), Work::Write(from, place, None))
    }
}

/// A write with remote CQ data, and with the endpoint's flags.
///
/// # Safety
/// Called as libfabric documents it.
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn write_data(
    endpoint: *mut sys::fid_ep,
    at: *const c_void,
    len: usize,
    descriptor: *mut c_void,
    data: u64,
    to: sys::fi_addr_t,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: an open endpoint.
    unsafe {
        let Endpoint { me, carries, flags, .. } = *endpoint.cast::<Endpoint>();
        let bytes = port(me, |port| port.model().data.0);
        if !carries || !delivered(flags) || bytes < 8 && data >> (8 * bytes) != 0 {
            return -(EINVAL as isize);
        }
        let (from, place) = (Span::from_raw(at.cast_mut().cast(), len), Place { key, offset, len });
        post(endpoint, to, context, (from, descriptor), Work::Write(from, place, Some(data)))
    }
}

/// A fetching atomic; `compare` is given for a compare-and-swap.
///
/// # Safety
/// The message and the vectors are of one element of the datatype; the endpoint is open.
unsafe fn atomic(
    endpoint: *mut sys::fid_ep,
    message: *const sys::fi_msg_atomic,
    compare: Option<*const sys::fi_ioc>,
    (result, descriptor): (*mut sys::fi_ioc, *mut c_void),
    flags: u64,
) -> isize {
    // SAFETY: the caller's message and vectors of one element of the datatype, and an open
    // endpoint.
    unsafe {
        let message = &*message;
        let (operand, place) = (&*message.msg_iov, &*message.rma_iov);
        let one = [operand.count, place.count, (*result).count, message.iov_count, message.rma_iov_count] == [1; 5];
        let (Some(width), Some(kind)) = (width(message.datatype), kind(message.op)) else { return -(EINVAL as isize) };
        let operand_span = Span::from_raw(operand.addr.cast(), width.bytes());
        let origin = (*endpoint.cast::<Endpoint>()).me;
        let may_use = net().may_use(origin, operand_span, *message.desc as usize, sys::FI_WRITE);
        if !one || !may_use || !delivered(flags) || !place.addr.is_multiple_of(width.bytes() as u64) {
            return -(EINVAL as isize);
        }
        let value = |of: *mut c_void| match width {
            Width::W32 => u64::from(of.cast::<u32>().read_unaligned()),
            Width::W64 => of.cast::<u64>().read_unaligned(),
        };
        let compare = compare.map_or(0, |compare| value((*compare).addr));
        let amo = Amo { kind, width, operand: value(operand.addr), compare };
        let into = Span::from_raw((*result).addr.cast(), width.bytes());
        let at = Place { key: place.key, offset: place.addr, len: width.bytes() };
        post(endpoint, message.addr, message.context, (into, descriptor), Work::Atomic(amo, into, at))
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn fetch(
    endpoint: *mut sys::fid_ep,
    message: *const sys::fi_msg_atomic,
    result: *mut sys::fi_ioc,
    descriptors: *mut *mut c_void,
    _count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's.
    unsafe { atomic(endpoint, message, None, (result, *descriptors), flags) }
}

/// # Safety
/// Called as libfabric documents it.
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn swap(
    endpoint: *mut sys::fid_ep,
    message: *const sys::fi_msg_atomic,
    compare: *const sys::fi_ioc,
    _compare_descriptors: *mut *mut c_void,
    _compare_count: usize,
    result: *mut sys::fi_ioc,
    descriptors: *mut *mut c_void,
    _count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's.
    unsafe { atomic(endpoint, message, Some(compare), (result, *descriptors), flags) }
}

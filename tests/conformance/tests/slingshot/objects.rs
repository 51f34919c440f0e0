//! The stand-in's objects in libfabric's form: structures that begin with their tables of
//! functions.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use transom_fabric::{Amo, AmoKind, Memory, Span, Width};
use transom_ofi::sys;

use super::locked;
use super::net::{Pid, Place, Port, Posted, Work, net};
use super::{EAGAIN, EAVAIL, EBUSY, EINVAL, EKEYREJECTED, ENOSYS, IN_FLIGHT};

#[repr(C)]
struct Region {
    fid: sys::fid_mr,
    memory: Memory,
    bound: Option<Pid>,
    enabled: bool,
}

#[repr(C)]
struct Vector {
    fid: sys::fid_av,
    addresses: Vec<Pid>,
}

#[repr(C)]
struct Queue {
    fid: sys::fid_cq,
    /// The endpoint to which the region is bound.
    of: Option<Pid>,
}

#[repr(C)]
struct Endpoint {
    fid: sys::fid_ep,
    me: Pid,
    vector: *mut Vector,
    queue: *mut Queue,
}

pub(super) const fn no_ops(close: unsafe extern "C" fn(*mut sys::fid) -> c_int) -> sys::fi_ops {
    sys::fi_ops { size: size_of::<sys::fi_ops>(), close: Some(close), bind: None, control: None, ops_open: None }
}

static FABRIC: sys::fi_ops = no_ops(close::<sys::fid_fabric>);
static DOMAIN: sys::fi_ops = no_ops(close::<sys::fid_domain>);
static VECTOR: sys::fi_ops = no_ops(close::<Vector>);
static QUEUE: sys::fi_ops = no_ops(close::<Queue>);
static ENDPOINT: sys::fi_ops =
    sys::fi_ops { bind: Some(bind_endpoint), control: Some(enable_endpoint), ..no_ops(close_endpoint) };
static REGION: sys::fi_ops =
    sys::fi_ops { bind: Some(bind_region), control: Some(enable_region), ..no_ops(close_region) };
static FABRIC_OPS: sys::fi_ops_fabric = sys::fi_ops_fabric {
    size: 0,
    domain: Some(domain),
    passive_ep: None,
    eq_open: None,
    wait_open: None,
    trywait: None,
};
static DOMAIN_OPS: sys::fi_ops_domain = sys::fi_ops_domain {
    size: 0,
    av_open: Some(open_vector),
    cq_open: Some(open_queue),
    endpoint: Some(open_endpoint),
    scalable_ep: None,
    cntr_open: None,
    poll_open: None,
    stx_ctx: None,
    srx_ctx: None,
    query_atomic: Some(query_atomic),
};
static MR_OPS: sys::fi_ops_mr = sys::fi_ops_mr { size: 0, reg: Some(register) };
static AV_OPS: sys::fi_ops_av = sys::fi_ops_av { size: 0, insert: Some(insert) };
static CQ_OPS: sys::fi_ops_cq = sys::fi_ops_cq {
    size: 0,
    read: Some(read_queue),
    readfrom: None,
    readerr: Some(read_error),
    sread: None,
    sreadfrom: None,
    signal: None,
    strerror: None,
};
static CM_OPS: sys::fi_ops_cm = sys::fi_ops_cm { size: 0, setname: None, getname: Some(getname) };
static MSG_OPS: sys::fi_ops_msg =
    sys::fi_ops_msg { size: 0, recv: Some(receive), recvv: None, recvmsg: None, send: Some(send) };
static RMA_OPS: sys::fi_ops_rma = sys::fi_ops_rma {
    size: 0,
    read: Some(read),
    readv: None,
    readmsg: Some(read_message),
    write: None,
    writev: None,
    writemsg: Some(write),
};
static ATOMIC_OPS: sys::fi_ops_atomic = sys::fi_ops_atomic {
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
};

fn fid(ops: &'static sys::fi_ops) -> sys::fid {
    sys::fid { fclass: 0, context: null_mut(), ops: table(ops) }
}

pub(super) fn table<T>(of: &'static T) -> *mut T {
    std::ptr::from_ref(of).cast_mut()
}

/// Hands out a new object; its `close` takes it back.
///
/// # Safety
/// `place` is a place for the object, which begins with an `F`.
unsafe fn give<T, F>(object: T, place: *mut *mut F) -> c_int {
    // SAFETY: a place for the object, which begins with an `F`.
    unsafe { *place = Box::into_raw(Box::new(object)).cast() };
    0
}

/// # Safety
/// Given by `give` as a `T`, and closed once.
unsafe extern "C" fn close<T>(object: *mut sys::fid) -> c_int {
    // SAFETY: given by `give` as a `T`, closed once.
    drop(unsafe { Box::from_raw(object.cast::<T>()) });
    0
}

/// # Safety
/// Called as libfabric documents it.
pub(super) unsafe extern "C" fn fabric(
    _attr: *mut sys::fi_fabric_attr,
    place: *mut *mut sys::fid_fabric,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's place.
    unsafe { give(sys::fid_fabric { fid: fid(&FABRIC), ops: table(&FABRIC_OPS), api_version: 0 }, place) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn domain(
    _fabric: *mut sys::fid_fabric,
    info: *mut sys::fi_info,
    place: *mut *mut sys::fid_domain,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: an entry with all attributes, and the caller's place.
    unsafe {
        let mr = if (*(*info).domain_attr).mr_mode & sys::FI_MR_LOCAL == 0 { &MR_OPS } else { &locked::MR_OPS };
        give(sys::fid_domain { fid: fid(&DOMAIN), ops: table(&DOMAIN_OPS), mr: table(mr) }, place)
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn open_vector(
    _domain: *mut sys::fid_domain,
    _attr: *mut sys::fi_av_attr,
    place: *mut *mut sys::fid_av,
    _context: *mut c_void,
) -> c_int {
    let vector = Vector { fid: sys::fid_av { fid: fid(&VECTOR), ops: table(&AV_OPS) }, addresses: Vec::new() };
    // SAFETY: the caller's place.
    unsafe { give(vector, place) }
}

/// Older versions have no descriptors.
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn open_queue(
    _domain: *mut sys::fid_domain,
    attr: *mut sys::fi_cq_attr,
    place: *mut *mut sys::fid_cq,
    _context: *mut c_void,
) -> c_int {
    let queue = Queue { fid: sys::fid_cq { fid: fid(&QUEUE), ops: table(&CQ_OPS) }, of: None };
    // SAFETY: the caller's attributes and place.
    unsafe { if (*attr).wait_obj == sys::FI_WAIT_NONE { give(queue, place) } else { -ENOSYS } }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn open_endpoint(
    _domain: *mut sys::fid_domain,
    _info: *mut sys::fi_info,
    place: *mut *mut sys::fid_ep,
    _context: *mut c_void,
) -> c_int {
    let mut net = net();
    net.last += 1;
    let me = net.last;
    net.endpoints.insert(me, Port::default());
    let fid = sys::fid_ep {
        fid: fid(&ENDPOINT),
        ops: null_mut(),
        cm: table(&CM_OPS),
        msg: table(&MSG_OPS),
        rma: table(&RMA_OPS),
        tagged: null_mut(),
        atomic: table(&ATOMIC_OPS),
        collective: null_mut(),
    };
    // SAFETY: the caller's place.
    unsafe { give(Endpoint { fid, me, vector: null_mut(), queue: null_mut() }, place) }
}

/// A queue is bound with flags, a vector without.
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn bind_endpoint(endpoint: *mut sys::fid, other: *mut sys::fid, flags: u64) -> c_int {
    // SAFETY: open objects of this file.
    unsafe {
        let endpoint = &mut *endpoint.cast::<Endpoint>();
        if flags == 0 {
            endpoint.vector = other.cast();
        } else {
            endpoint.queue = other.cast();
            (*endpoint.queue).of = Some(endpoint.me);
        }
    }
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn enable_endpoint(endpoint: *mut sys::fid, command: c_int, _argument: *mut c_void) -> c_int {
    // SAFETY: an open endpoint.
    let endpoint = unsafe { &*endpoint.cast::<Endpoint>() };
    if command != sys::FI_ENABLE || endpoint.vector.is_null() || endpoint.queue.is_null() {
        return -EINVAL;
    }
    port(endpoint.me, |port| port.enabled = true);
    0
}

/// Regions that are bound to an endpoint keep it open.
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn close_endpoint(object: *mut sys::fid) -> c_int {
    // SAFETY: an open endpoint.
    let me = unsafe { (*object.cast::<Endpoint>()).me };
    let mut net = net();
    let bound = net.endpoints.get(&me).map_or(0, |port| port.regions.len());
    assert_eq!(bound, 0, "regions of an endpoint that is closed");
    net.underway.retain(|posted| posted.origin != me);
    net.endpoints.remove(&me);
    // SAFETY: an open endpoint.
    unsafe { close::<Endpoint>(object) }
}

fn port<T>(me: Pid, what: impl FnOnce(&mut Port) -> T) -> T {
    what(net().endpoints.get_mut(&me).expect("an open endpoint"))
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn query_atomic(
    _domain: *mut sys::fid_domain,
    datatype: u32,
    op: u32,
    attr: *mut sys::fi_atomic_attr,
    flags: u64,
) -> c_int {
    let compares = flags & sys::FI_COMPARE_ATOMIC != 0;
    if width(datatype).is_none() || (op == sys::FI_CSWAP) != compares || kind(op).is_none() {
        return -EINVAL;
    }
    // SAFETY: the caller's place. One element at a time is all that the device takes.
    unsafe { (*attr).count = 1 };
    0
}

fn width(datatype: u32) -> Option<Width> {
    [(sys::FI_UINT32, Width::W32), (sys::FI_UINT64, Width::W64)]
        .into_iter()
        .find(|(code, _)| *code == datatype)
        .map(|(_, width)| width)
}

fn kind(op: u32) -> Option<AmoKind> {
    let codes = [sys::FI_SUM, sys::FI_ATOMIC_WRITE, sys::FI_ATOMIC_READ, sys::FI_CSWAP];
    codes.iter().position(|&code| code == op).map(|at| AmoKind::ALL[at])
}

/// # Safety
/// Called as libfabric documents it.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe extern "C" fn register(
    _domain: *mut sys::fid,
    base: *const c_void,
    len: usize,
    _access: u64,
    offset: u64,
    key: u64,
    _flags: u64,
    place: *mut *mut sys::fid_mr,
    _context: *mut c_void,
) -> c_int {
    if key >> 32 != 0 {
        return -EKEYREJECTED;
    }
    let Some(base) = NonNull::new(base.cast_mut().cast::<u8>()).filter(|_| offset == 0) else { return -EINVAL };
    // SAFETY: the owner keeps the memory until the region is closed (man fi_mr).
    let memory = unsafe { Memory::new(base, len, None) };
    let fid = sys::fid_mr { fid: fid(&REGION), mem_desc: null_mut(), key };
    // SAFETY: the caller's place.
    unsafe { give(Region { fid, memory, bound: None, enabled: false }, place) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn bind_region(region: *mut sys::fid, endpoint: *mut sys::fid, flags: u64) -> c_int {
    // SAFETY: an open region and endpoint.
    unsafe { (*region.cast::<Region>()).bound = Some((*endpoint.cast::<Endpoint>()).me) };
    if flags == 0 { 0 } else { -EINVAL }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn enable_region(region: *mut sys::fid, command: c_int, _argument: *mut c_void) -> c_int {
    // SAFETY: an open region.
    let region = unsafe { &mut *region.cast::<Region>() };
    let Some(me) = region.bound.filter(|_| command == sys::FI_ENABLE) else { return -EINVAL };
    let status =
        port(me, |port| if port.enabled { port.enable(region.fid.key, region.memory.clone()) } else { -EBUSY });
    region.enabled = status == 0;
    status
}

/// # Safety
/// Called as libfabric documents it.
pub(super) unsafe extern "C" fn close_region(object: *mut sys::fid) -> c_int {
    // SAFETY: an open region.
    let region = unsafe { &*object.cast::<Region>() };
    if let Some(me) = region.bound.filter(|_| region.enabled) {
        port(me, |port| port.regions.remove(&region.fid.key));
    }
    // SAFETY: an open region.
    unsafe { close::<Region>(object) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn insert(
    vector: *mut sys::fid_av,
    address: *const c_void,
    count: usize,
    handle: *mut sys::fi_addr_t,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    let _net = net();
    // SAFETY: an open vector, changed under the net's lock, an address of `getname`, and the
    // caller's place for the handle.
    unsafe {
        let vector = &mut *vector.cast::<Vector>();
        vector.addresses.push(address.cast::<Pid>().read_unaligned());
        *handle = vector.addresses.len() as u64 - 1;
    }
    c_int::try_from(count).unwrap_or(0)
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn getname(endpoint: *mut sys::fid, place: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: an open endpoint and the caller's place, which has room for more.
    unsafe {
        place.cast::<Pid>().write_unaligned((*endpoint.cast::<Endpoint>()).me);
        *len = size_of::<Pid>();
    }
    0
}

/// Completions up to the first error; meanwhile the device makes progress.
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn read_queue(queue: *mut sys::fid_cq, entries: *mut c_void, count: usize) -> isize {
    // SAFETY: an open queue, and room for `count` entries.
    unsafe {
        let Some(me) = (*queue.cast::<Queue>()).of else { return -EAGAIN };
        net().step();
        port(me, |port| {
            if port.done.front().is_some_and(|done| done.error != 0) {
                return -EAVAIL;
            }
            let good = port.done.iter().take_while(|done| done.error == 0).count().min(count);
            for (at, done) in port.done.drain(..good).enumerate() {
                let entry = sys::fi_cq_msg_entry { op_context: done.context as *mut c_void, flags: 0, len: done.len };
                entries.cast::<sys::fi_cq_msg_entry>().add(at).write(entry);
            }
            if good == 0 { -EAGAIN } else { good.cast_signed() }
        })
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn read_error(queue: *mut sys::fid_cq, entry: *mut sys::fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: an open queue, and the caller's entry.
    unsafe {
        let Some(me) = (*queue.cast::<Queue>()).of else { return -EAGAIN };
        let failed = |port: &mut Port| port.done.front().is_some_and(|done| done.error != 0);
        let Some(done) = port(me, |port| if failed(port) { port.done.pop_front() } else { None }) else {
            return -EAGAIN;
        };
        (*entry).op_context = done.context as *mut c_void;
        (*entry).err = done.error;
    }
    1
}

/// Posts, where the endpoint has room.
///
/// # Safety
/// An open endpoint with its vector; the buffers of `work` are valid until the completion.
unsafe fn post(endpoint: *mut sys::fid_ep, to: sys::fi_addr_t, context: *mut c_void, work: Work) -> isize {
    let mut net = net();
    // SAFETY: an open endpoint with its vector, which is changed under the net's lock.
    let (origin, target) = unsafe {
        let endpoint = &*endpoint.cast::<Endpoint>();
        let addresses = &(*endpoint.vector).addresses;
        (endpoint.me, addresses.get(usize::try_from(to).unwrap_or(usize::MAX)).copied())
    };
    let Some(target) = target else { return -(EINVAL as isize) };
    if net.in_flight(origin) >= IN_FLIGHT {
        return -EAGAIN;
    }
    net.underway.push(Posted { origin, target, context: context as usize, work });
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn receive(
    endpoint: *mut sys::fid_ep,
    at: *mut c_void,
    len: usize,
    _descriptor: *mut c_void,
    _from: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: an open endpoint.
    port(unsafe { (*endpoint.cast::<Endpoint>()).me }, |port| {
        port.receives.push_back((context as usize, Span::from_raw(at.cast(), len)));
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
    _descriptor: *mut c_void,
    to: sys::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's bytes, and an open endpoint.
    unsafe {
        let bytes = std::slice::from_raw_parts(at.cast::<u8>(), len).to_vec();
        post(endpoint, to, context, Work::Send(bytes))
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn read(
    endpoint: *mut sys::fid_ep,
    into: *mut c_void,
    len: usize,
    _descriptor: *mut c_void,
    from: sys::fi_addr_t,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let work = Work::Read(Span::from_raw(into.cast(), len), Place { key, offset, len });
    // SAFETY: an open endpoint.
    unsafe { post(endpoint, from, context, work) }
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
        let place = Place { key: from.key, offset: from.addr, len: from.len };
        let work = Work::Read(Span::from_raw(into.iov_base.cast(), into.iov_len), place);
        post(endpoint, message.addr, message.context, work)
    }
}

/// Whether completion of the operation guarantees delivery at the target.
fn delivered(flags: u64) -> bool {
    flags & sys::FI_DELIVERY_COMPLETE != 0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn write(endpoint: *mut sys::fid_ep, message: *const sys::fi_msg_rma, flags: u64) -> isize {
    super::observe();
    // SAFETY: the caller's message, of one vector at each side, and an open endpoint.
    unsafe {
        let message = &*message;
        if !delivered(flags) || (message.iov_count, message.rma_iov_count) != (1, 1) {
            return -(EINVAL as isize);
        }
        let (from, to) = (&*message.msg_iov, &*message.rma_iov);
        let place = Place { key: to.key, offset: to.addr, len: to.len };
        let work = Work::Write(Span::from_raw(from.iov_base.cast(), from.iov_len), place);
        post(endpoint, message.addr, message.context, work)
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
    result: *mut sys::fi_ioc,
    flags: u64,
) -> isize {
    // SAFETY: the caller's message and vectors of one element of the datatype, and an open
    // endpoint.
    unsafe {
        let message = &*message;
        let (operand, place) = (&*message.msg_iov, &*message.rma_iov);
        let one = [operand.count, place.count, (*result).count, message.iov_count, message.rma_iov_count] == [1; 5];
        let (Some(width), Some(kind)) = (width(message.datatype), kind(message.op)) else { return -(EINVAL as isize) };
        if !one || !delivered(flags) || !place.addr.is_multiple_of(width.bytes() as u64) {
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
        post(endpoint, message.addr, message.context, Work::Atomic(amo, into, at))
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn fetch(
    endpoint: *mut sys::fid_ep,
    message: *const sys::fi_msg_atomic,
    result: *mut sys::fi_ioc,
    _descriptors: *mut *mut c_void,
    _count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's.
    unsafe { atomic(endpoint, message, None, result, flags) }
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
    _descriptors: *mut *mut c_void,
    _count: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's.
    unsafe { atomic(endpoint, message, Some(compare), result, flags) }
}

//! A stand-in for libibverbs and a device: it records the requests that are posted to connections,
//! and completes, refuses and reports them as a test requests. A test may carry what was sent to
//! other stand-ins (`net`). Its objects are never freed. Each function that takes pointers has the
//! requirements of libibverbs' function, as `Functions` declares it.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::event::EventfdFlags;
use transom_fabric::Peer;

use crate::choice::PortInfo;
use crate::device::Device;
use crate::library::Library;
use crate::path::PathOptions;
use crate::sys::*;
use crate::wr_id::WrId;

mod net;
pub(crate) use net::Net;

const NAME: &CStr = c"standin_0";
const EINVAL: c_int = 22;
const ENOMEM: c_int = 12;

/// The device. Its address is that of the context, of the completion queue and of the domain.
#[repr(C)]
pub(crate) struct Standin {
    context: ibv_context,
    state: Mutex<State>,
}

// SAFETY: the context does not change, and its pointers are not used.
unsafe impl Sync for Standin {}

/// The state of the device.
#[derive(Default)]
pub(crate) struct State {
    /// The requests that connections accepted: the peer and the number of each, and whether it is
    /// signaled.
    pub(crate) posted: Vec<(Peer, u32, bool)>,
    /// Connections refuse requests.
    pub(crate) refuses_posts: bool,
    /// No queue pair can be made.
    pub(crate) refuses_pairs: bool,
    /// No memory can be registered.
    pub(crate) refuses_registrations: bool,
    /// No queue pair can be connected, for lack of memory.
    pub(crate) refuses_connections: bool,
    /// Connections refuse to be reset.
    pub(crate) refuses_resets: bool,
    /// The states in which connections were put, after their start.
    pub(crate) states: Vec<(Peer, u32)>,
    pub(crate) applied: Applied,
    /// The number of the queue pair of each peer's connection.
    pub(crate) pairs: BTreeMap<Peer, u32>,
    /// The interrupt vector of the completion queue.
    pub(crate) vector: c_int,
    /// Most inline bytes of a queue pair that can be made; 0: any number.
    pub(crate) inline_max: u32,
    /// Whether the queue was last armed for solicited completions only.
    pub(crate) armed_solicited: Option<bool>,
    /// The writes and messages that connections accepted, and the datagrams.
    pub(crate) sent: Vec<Sent>,
    /// The posted receives for messages, and those for datagrams.
    pub(crate) receives: [VecDeque<Receive>; 2],
    pub(crate) completions: VecDeque<ibv_wc>,
    events: VecDeque<(u32, Peer)>,
}

/// The settings that the device got.
#[derive(Default)]
pub(crate) struct Applied {
    /// The attributes of queue pairs, with the mask of each call: of connections with their peers,
    /// and of those for datagrams.
    pub(crate) pairs: Vec<(Option<Peer>, c_int, ibv_qp_attr)>,
    /// The attributes of address handles.
    pub(crate) handles: Vec<ibv_ah_attr>,
}

/// A request with the bytes that it sends.
pub(crate) struct Sent {
    /// The connection's peer; `None` for a datagram.
    pub(crate) to: Option<Peer>,
    pub(crate) opcode: u32,
    /// The address that a write changes; 0 for others.
    pub(crate) address: u64,
    pub(crate) immediate: u32,
    pub(crate) solicited: bool,
    pub(crate) bytes: Vec<u8>,
    /// The completion, if the request is signaled.
    pub(crate) completion: Option<ibv_wc>,
}

/// A posted receive: its identifier and buffer.
pub(crate) struct Receive(pub(crate) u64, pub(crate) ibv_sge);

/// The interrupt vectors of the device.
const VECTORS: c_int = 4;
/// Most requests in flight on all connections of a stand-in.
pub(crate) const ROOM: u32 = 8;
/// Entries of the completion queue that have other uses.
const OTHERS: u32 = 1 + 2 * crate::datagrams::HELLOS;

impl Standin {
    /// A device, and its stand-in.
    pub(crate) fn open() -> (Arc<Device>, &'static Standin) {
        Standin::open_by(functions())
    }

    /// A device with room for more than the library uses, and its stand-in.
    pub(crate) fn open_large() -> (Arc<Device>, &'static Standin) {
        Standin::open_by(Functions { query_device: query_large, ..functions() })
    }

    fn open_by(call: Functions) -> (Arc<Device>, &'static Standin) {
        let device = NAME.to_string_lossy().into_owned();
        let gid = Ok((0, [0; 16]));
        let port = PortInfo { device, port: 1, ethernet: true, numa_node: None, rate: 0, software: true, gid };
        Standin::open_at(call, &port, PathOptions::default(), 0)
    }

    /// A device with these settings, whose partition has the index `partition`, and its stand-in.
    pub(crate) fn open_with(
        paths: PathOptions,
        port: u8,
        gid_index: u8,
        partition: u16,
    ) -> (Arc<Device>, &'static Standin) {
        let device = NAME.to_string_lossy().into_owned();
        let gid = Ok((gid_index, [0; 16]));
        let port = PortInfo { device, port, ethernet: true, numa_node: None, rate: 0, software: true, gid };
        Standin::open_at(Functions { query_device: query_large, ..functions() }, &port, paths, partition)
    }

    fn open_at(
        call: Functions,
        port: &PortInfo,
        paths: PathOptions,
        partition: u16,
    ) -> (Arc<Device>, &'static Standin) {
        let library = Arc::new(Library { call });
        let mut device = Device::open(&library, port, paths).expect("a stand-in");
        Arc::get_mut(&mut device).expect("one user").partition = partition;
        // SAFETY: `open_device` made the context, as the first field of a stand-in.
        let standin = unsafe { of(device.context) };
        (device, standin)
    }

    /// The state of the device.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with it")
    }

    /// Completes a request of a connection.
    pub(crate) fn complete(&self, peer: Peer, number: u32, success: bool) {
        let (wr_id, status) = (WrId::Request(peer, number).encode(), if success { IBV_WC_SUCCESS } else { 12 });
        self.state().completions.push_back(ibv_wc { wr_id, status, ..ibv_wc::default() });
    }

    /// Reports an event of a connection.
    pub(crate) fn report(&self, event: u32, peer: Peer) {
        self.state().events.push_back((event, peer));
        // SAFETY: opened by `open_device` and never closed.
        let fd = unsafe { BorrowedFd::borrow_raw(self.context.async_fd) };
        rustix::io::write(fd, &1u64.to_ne_bytes()).expect("room for a number");
    }
}

/// The stand-in at an address that was given out as that of one of its objects.
///
/// # Safety
/// The address is one of these.
unsafe fn of<T>(object: *mut T) -> &'static Standin {
    // SAFETY: the caller's promise; a stand-in is never freed.
    unsafe { &*object.cast::<Standin>() }
}

/// The peer of a connection; `None` for the queue pair of datagrams.
///
/// # Safety
/// A queue pair of `create_qp`.
unsafe fn peer(qp: *mut ibv_qp) -> Option<Peer> {
    // SAFETY: the caller's promise.
    let tag = unsafe { (*qp).qp_context }.addr();
    Some(Peer(u32::try_from(tag.checked_sub(1)?).expect("a rank")))
}

fn leak<T>(value: T) -> *mut T {
    Box::leak(Box::new(value))
}

fn descriptor() -> c_int {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor").into_raw_fd()
}

extern "C" fn open_device(_: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: a table of optional functions, for which all zeroes are valid.
    let mut ops: ibv_context_ops = unsafe { std::mem::zeroed() };
    ops.poll_cq = Some(poll_cq);
    ops.req_notify_cq = Some(req_notify_cq);
    ops.post_srq_recv = Some(post_srq_recv);
    ops.post_send = Some(post_send);
    ops.post_recv = Some(post_recv);
    let (async_fd, num_comp_vectors) = (descriptor(), VECTORS);
    let context = ibv_context { device: null_mut(), ops, cmd_fd: -1, async_fd, num_comp_vectors };
    leak(Standin { context, state: Mutex::default() }).cast()
}

extern "C" fn poll_cq(cq: *mut ibv_cq, room: c_int, into: *mut ibv_wc) -> c_int {
    // SAFETY: the queue of `create_cq`.
    let mut state = unsafe { of(cq) }.state();
    let mut count = 0;
    while count < room
        && let Some(completion) = state.completions.pop_front()
    {
        // SAFETY: the caller has room for `room` completions.
        unsafe { into.offset(count as isize).write(completion) };
        count += 1;
    }
    count
}

extern "C" fn post_send(qp: *mut ibv_qp, request: *mut ibv_send_wr, _: *mut *mut ibv_send_wr) -> c_int {
    // SAFETY: a queue pair of `create_qp`, and one request.
    let (peer, standin, request) = unsafe { (peer(qp), of((*qp).context), &*request) };
    let mut state = standin.state();
    if peer.is_some() && state.refuses_posts {
        return EINVAL;
    }
    let signaled = request.send_flags & IBV_SEND_SIGNALED != 0;
    if let Some(peer) = peer {
        let WrId::Request(of, number) = WrId::decode(request.wr_id) else { panic!("another request") };
        assert_eq!(of, peer);
        state.posted.push((peer, number, signaled));
    }
    let writes = [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM].contains(&request.opcode);
    if writes || [IBV_WR_SEND, IBV_WR_SEND_WITH_IMM].contains(&request.opcode) {
        // SAFETY: the request has these elements, whose bytes are readable; a write has a remote
        // address.
        let (bytes, address) = unsafe {
            let elements = std::slice::from_raw_parts(request.sg_list, request.num_sge.unsigned_abs() as usize);
            let of = |part: &ibv_sge| std::slice::from_raw_parts(part.addr as *const u8, part.length as usize).to_vec();
            let address = if writes { request.wr.rdma.remote_addr } else { 0 };
            (elements.iter().flat_map(of).collect(), address)
        };
        let completion = signaled.then(|| ibv_wc { wr_id: request.wr_id, ..ibv_wc::default() });
        let (opcode, immediate) = (request.opcode, request.imm_data);
        let solicited = request.send_flags & IBV_SEND_SOLICITED != 0;
        state.sent.push(Sent { to: peer, opcode, address, immediate, solicited, bytes, completion });
    }
    0
}

extern "C" fn modify_qp(qp: *mut ibv_qp, to: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: a queue pair of `create_qp`, and attributes.
    let (peer, standin, attributes) = unsafe { (peer(qp), of((*qp).context), *to) };
    let (mut state, to) = (standin.state(), attributes.qp_state);
    if to == IBV_QPS_RESET && state.refuses_resets {
        return EINVAL;
    }
    // The second step: the first one has to be reverted.
    if to == IBV_QPS_RTS && peer.is_some() && state.refuses_connections {
        return ENOMEM;
    }
    state.applied.pairs.push((peer, mask, attributes));
    state
        .states
        .extend(peer.filter(|_| ![IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].contains(&to)).map(|peer| (peer, to)));
    0
}

extern "C" fn create_qp(pd: *mut ibv_pd, wanted: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: attributes.
    let wanted = unsafe { &*wanted };
    // SAFETY: a domain of `alloc_pd`.
    let mut state = unsafe { of(pd) }.state();
    if state.refuses_pairs || (state.inline_max > 0 && wanted.cap.max_inline_data > state.inline_max) {
        return null_mut();
    }
    let (qp_context, send_cq, recv_cq, srq) = (wanted.qp_context, wanted.send_cq, wanted.recv_cq, wanted.srq);
    let qp_num = 1 + u32::try_from(state.pairs.len()).expect("few");
    let qp = leak(ibv_qp { context: pd.cast(), qp_context, pd, send_cq, recv_cq, srq, handle: 0, qp_num });
    // SAFETY: the new queue pair.
    state.pairs.extend(unsafe { peer(qp) }.map(|peer| (peer, qp_num)));
    qp
}

extern "C" fn get_async_event(context: *mut ibv_context, into: *mut ibv_async_event) -> c_int {
    // SAFETY: the context of `open_device`.
    let standin = unsafe { of(context) };
    let Some((event_type, peer)) = standin.state().events.pop_front() else { return -1 };
    // SAFETY: numbers and null pointers.
    let mut qp: ibv_qp = unsafe { std::mem::zeroed() };
    qp.qp_context = without_provenance_mut(peer.index() + 1);
    // SAFETY: a structure to fill.
    unsafe { into.write(ibv_async_event { element: leak(qp).cast(), event_type }) };
    0
}

extern "C" fn query_device(_: *mut ibv_context, into: *mut ibv_device_attr) -> c_int {
    // SAFETY: a structure to fill, of numbers.
    let attributes = unsafe { &mut *into };
    attributes.max_cqe = (ROOM + OTHERS).cast_signed();
    attributes.max_srq_wr = 1;
    attributes.max_sge_rd = 1;
    0
}

extern "C" fn query_large(_: *mut ibv_context, into: *mut ibv_device_attr) -> c_int {
    // SAFETY: a structure to fill, of numbers.
    let attributes = unsafe { &mut *into };
    (attributes.max_cqe, attributes.max_srq_wr, attributes.max_sge_rd) = (1 << 20, 1 << 20, 1);
    0
}

extern "C" fn query_port(_: *mut ibv_context, _: u8, into: *mut ibv_port_attr) -> c_int {
    // SAFETY: a structure to fill, of numbers.
    let attributes = unsafe { &mut *into };
    attributes.active_mtu = 3;
    attributes.max_msg_sz = 1 << 30;
    attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
    0
}

/// The kernel pins memory for writes only if the process may write it.
extern "C" fn reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr {
    // SAFETY: a domain of `alloc_pd`.
    let refused = unsafe { of(pd) }.state().refuses_registrations;
    if refused || access & IBV_ACCESS_LOCAL_WRITE != 0 && is_read_only(addr.addr()) {
        return null_mut();
    }
    leak(ibv_mr { context: pd.cast(), pd, addr, length, handle: 0, lkey: 1, rkey: 2 })
}

/// Whether this process may only read the page at an address.
fn is_read_only(at: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own mappings");
    let of = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (number(begin)?..number(end)?).contains(&at).then(|| rest.starts_with("r-"))
    };
    maps.lines().find_map(of).unwrap_or(false)
}

extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: a number to fill.
    unsafe { count.write(1) };
    leak([without_provenance_mut::<ibv_device>(1), null_mut()]).cast()
}

extern "C" fn create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    leak(ibv_comp_channel { context, fd: descriptor(), refcnt: 0 })
}

extern "C" fn create_cq(
    context: *mut ibv_context,
    _: c_int,
    _: *mut c_void,
    _: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: the context of `open_device`.
    unsafe { of(context) }.state().vector = vector;
    context.cast()
}

extern "C" fn create_srq(pd: *mut ibv_pd, _: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    pd.cast()
}

extern "C" fn create_ah(pd: *mut ibv_pd, vector: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: a domain of `alloc_pd`, and attributes.
    unsafe { of(pd).state().applied.handles.push(*vector) };
    pd.cast()
}

extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    context.cast()
}

extern "C" fn post_srq_recv(srq: *mut ibv_srq, request: *mut ibv_recv_wr, _: *mut *mut ibv_recv_wr) -> c_int {
    // SAFETY: the shared receives of `create_srq`, and one request with one element.
    let (standin, request, element) = unsafe { (of(srq), &*request, *(*request).sg_list) };
    standin.state().receives[0].push_back(Receive(request.wr_id, element));
    0
}

extern "C" fn post_recv(qp: *mut ibv_qp, request: *mut ibv_recv_wr, _: *mut *mut ibv_recv_wr) -> c_int {
    // SAFETY: a queue pair of `create_qp`, and one request with one element.
    let (standin, request, element) = unsafe { (of((*qp).context), &*request, *(*request).sg_list) };
    standin.state().receives[1].push_back(Receive(request.wr_id, element));
    0
}

extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited: c_int) -> c_int {
    // SAFETY: the queue of `create_cq`.
    unsafe { of(cq) }.state().armed_solicited = Some(solicited != 0);
    0
}

extern "C" fn get_cq_event(_: *mut ibv_comp_channel, _: *mut *mut ibv_cq, _: *mut *mut c_void) -> c_int {
    -1
}

extern "C" fn device_name(_: *mut ibv_device) -> *const c_char {
    NAME.as_ptr()
}

extern "C" fn words(_: u32) -> *const c_char {
    c"in words".as_ptr()
}

/// A function without an effect on an object.
extern "C" fn ignore<T>(_: *mut T) -> c_int {
    0
}

extern "C" fn free_device_list(_: *mut *mut ibv_device) {}

extern "C" fn ack_cq_events(_: *mut ibv_cq, _: u32) {}

extern "C" fn ack_async_event(_: *mut ibv_async_event) {}

extern "C" fn fork_init() -> c_int {
    0
}

fn functions() -> Functions {
    Functions {
        fork_init,
        get_device_list,
        free_device_list,
        get_device_name: device_name,
        open_device,
        close_device: ignore,
        query_device,
        query_port,
        alloc_pd,
        dealloc_pd: ignore,
        reg_mr,
        dereg_mr: ignore,
        create_comp_channel,
        destroy_comp_channel: ignore,
        create_cq,
        destroy_cq: ignore,
        get_cq_event,
        ack_cq_events,
        create_srq,
        destroy_srq: ignore,
        create_qp,
        modify_qp,
        destroy_qp: ignore,
        create_ah,
        destroy_ah: ignore,
        get_async_event,
        ack_async_event,
        wc_status_str: words,
        event_type_str: words,
    }
}

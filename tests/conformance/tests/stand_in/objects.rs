//! The stand-in's objects in libfabric's form: structures that begin with their tables of
//! functions.

use std::ffi::{CStr, c_int, c_void};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsRawFd as _;
use std::ptr::{NonNull, null_mut};

use transom_fabric::Memory;
use transom_ofi::sys;

use super::model::Model;
use super::net::{Id, Port, net};
use super::operations::{ATOMIC_OPS, MSG_OPS, RMA_OPS, kind, width};
use super::{Data, EAGAIN, EAVAIL, EBUSY, EFAULT, EINVAL, EIO, EKEYREJECTED, ENOMEM, ENOSYS, ETOOSMALL};

#[repr(C)]
struct Domain {
    fid: sys::fid_domain,
    model: &'static Model,
    number: Id,
    mr_mode: c_int,
    /// What becomes of writes with remote CQ data.
    data: Data,
    /// The most open regions: the memory that the process may lock.
    most: usize,
}

#[repr(C)]
struct Region {
    fid: sys::fid_mr,
    model: &'static Model,
    memory: Memory,
    access: u64,
    /// The endpoint or the domain under whose number the region is usable.
    owner: Option<Id>,
    enabled: bool,
}

#[repr(C)]
pub(super) struct Vector {
    fid: sys::fid_av,
    pub(super) addresses: Vec<Id>,
}

#[repr(C)]
struct Queue {
    fid: sys::fid_cq,
    /// The endpoint to which the queue is bound.
    of: Option<Id>,
    size: usize,
    format: u32,
    /// The descriptor, and what keeps it from becoming readable.
    wait: Option<(PipeReader, PipeWriter)>,
}

#[repr(C)]
pub(super) struct Endpoint {
    fid: sys::fid_ep,
    pub(super) me: Id,
    pub(super) vector: *mut Vector,
    queue: *mut Queue,
    /// Whether writes take remote CQ data.
    pub(super) carries: bool,
    /// The flags of calls that take none.
    pub(super) flags: u64,
}

const fn no_ops(close: unsafe extern "C" fn(*mut sys::fid) -> c_int) -> sys::fi_ops {
    sys::fi_ops { size: size_of::<sys::fi_ops>(), close: Some(close), bind: None, control: None, ops_open: None }
}

static FABRIC: sys::fi_ops = no_ops(close::<sys::fid_fabric>);
static DOMAIN: sys::fi_ops = no_ops(close::<Domain>);
static VECTOR: sys::fi_ops = no_ops(close::<Vector>);
static QUEUE: sys::fi_ops = sys::fi_ops { control: Some(queue_wait), ..no_ops(close::<Queue>) };
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
    trywait: Some(try_wait),
};
static DOMAIN_OPS: sys::fi_ops_domain = sys::fi_ops_domain {
    size: size_of::<sys::fi_ops_domain>(),
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
/// The table of a provider that knows no `fi_query_atomic`.
static DOMAIN_OPS_WITHOUT_QUERY: sys::fi_ops_domain = sys::fi_ops_domain { query_atomic: None, ..DOMAIN_OPS };
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
    attr: *mut sys::fi_fabric_attr,
    place: *mut *mut sys::fid_fabric,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the attributes of an entry of `getinfo`, and the caller's place.
    unsafe {
        let api_version = (*attr).api_version;
        if !super::serves(api_version) {
            return -EINVAL;
        }
        give(sys::fid_fabric { fid: fid(&FABRIC), ops: table(&FABRIC_OPS), api_version }, place)
    }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn domain(
    _fabric: *mut sys::fid_fabric,
    info: *mut sys::fi_info,
    place: *mut *mut sys::fid_domain,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: an entry of `getinfo`, whose provider has a model, and the caller's place.
    unsafe {
        let Some(model) = Model::of(CStr::from_ptr((*(*info).fabric_attr).prov_name)) else { return -EINVAL };
        if super::is_refused(model.name) {
            return -ENOSYS;
        }
        let ops = if model.queries { &DOMAIN_OPS } else { &DOMAIN_OPS_WITHOUT_QUERY };
        let fid = sys::fid_domain { fid: fid(&DOMAIN), ops: table(ops), mr: table(&MR_OPS) };
        let mr_mode = (*(*info).domain_attr).mr_mode;
        let carries = model.data.0 > 0 && mr_mode & sys::FI_MR_PROV_KEY != 0;
        let unset = if model.data.1 { Data::Refused } else { Data::Reported };
        let data = if carries { super::DATA.get().unwrap_or(unset) } else { Data::Refused };
        let most = super::MOST.get();
        give(Domain { fid, model, number: net().number(), mr_mode, data, most }, place)
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

/// Older versions have no descriptors; see [`super::describe_queues`].
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn open_queue(
    _domain: *mut sys::fid_domain,
    attr: *mut sys::fi_cq_attr,
    place: *mut *mut sys::fid_cq,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's attributes.
    let (size, format) = unsafe { ((*attr).size, (*attr).format) };
    super::record_queue(size);
    // SAFETY: the caller's attributes.
    let wait = match unsafe { (*attr).wait_obj } {
        sys::FI_WAIT_NONE => None,
        _ if super::describes_queues() => std::io::pipe().ok(),
        _ => return -ENOSYS,
    };
    let queue = Queue { fid: sys::fid_cq { fid: fid(&QUEUE), ops: table(&CQ_OPS) }, of: None, size, format, wait };
    // SAFETY: the caller's place.
    unsafe { give(queue, place) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn queue_wait(queue: *mut sys::fid, command: c_int, place: *mut c_void) -> c_int {
    // SAFETY: an open queue.
    let wait = unsafe { &(*queue.cast::<Queue>()).wait };
    let (sys::FI_GETWAIT, Some((reader, _))) = (command, wait) else { return -ENOSYS };
    // SAFETY: the caller's place for a descriptor.
    unsafe { place.cast::<c_int>().write(reader.as_raw_fd()) };
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn try_wait(_fabric: *mut sys::fid_fabric, _objects: *mut *mut sys::fid, _count: c_int) -> c_int {
    super::status_of_try_wait()
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn open_endpoint(
    domain: *mut sys::fid_domain,
    info: *mut sys::fi_info,
    place: *mut *mut sys::fid_ep,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: an open domain.
    let domain = unsafe { &*domain.cast::<Domain>() };
    // SAFETY: an entry of `getinfo` with all attributes.
    let (order, flags) = unsafe { ((*(*info).tx_attr).msg_order, (*(*info).tx_attr).op_flags) };
    let me = net().open(domain.model, domain.number, order & sys::FI_ORDER_RMA_WAW != 0, domain.data);
    let carries = domain.data != Data::Refused;
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
    unsafe { give(Endpoint { fid, me, vector: null_mut(), queue: null_mut(), carries, flags }, place) }
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
            let room = (*endpoint.queue).size;
            port(endpoint.me, |port| port.room = room);
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
    assert_eq!(net.regions_of(me), 0, "regions of an endpoint that is closed");
    net.in_flight_operations.retain(|posted| posted.origin != me);
    net.endpoints.remove(&me);
    // SAFETY: an open endpoint.
    unsafe { close::<Endpoint>(object) }
}

pub(super) fn port<T>(me: Id, what: impl FnOnce(&mut Port) -> T) -> T {
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

/// # Safety
/// Called as libfabric documents it.
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn register(
    domain: *mut sys::fid,
    base: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    _flags: u64,
    place: *mut *mut sys::fid_mr,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: an open domain.
    let Domain { model, number, mr_mode, most, .. } = *unsafe { &*domain.cast::<Domain>() };
    let (bits, chooses) = (8 * model.key_bytes, mr_mode & sys::FI_MR_PROV_KEY != 0);
    if !chooses && bits < 64 && key >> bits != 0 {
        return -EKEYREJECTED;
    }
    let Some(base) = NonNull::new(base.cast_mut().cast::<u8>()).filter(|_| offset == 0) else { return -EINVAL };
    super::record_registration();
    // Man fi_mr: the device writes into destinations of reads and receives, and for peers.
    let writes = model.writes || access & (sys::FI_READ | sys::FI_RECV | sys::FI_REMOTE_WRITE) != 0;
    if writes && is_read_only(base.as_ptr()) {
        return -EFAULT;
    }
    // SAFETY: the owner keeps the memory until the region is closed (man fi_mr).
    let memory = unsafe { Memory::new(base, len, None) };
    let mut net = net();
    // A provider that chooses keys ignores the caller's.
    let key = if chooses { net.number() as u64 * 7 } else { key };
    let bound = model.has(sys::FI_MR_ENDPOINT);
    if net.regions_of(number) >= most {
        return -ENOMEM;
    }
    if !bound {
        match net.enable(model, number, key, (memory.clone(), access)) {
            0 => {}
            error => return error,
        }
    }
    let fid = sys::fid_mr { fid: fid(&REGION), mem_desc: null_mut(), key };
    let owner = (!bound).then_some(number);
    let region = Region { fid, model, memory: memory.clone(), access, owner, enabled: !bound };
    // SAFETY: the caller's place, at which the region lies then.
    unsafe {
        give(region, place);
        (**place).mem_desc = (*place).cast();
        net.describe(*place as usize, memory.span(), access);
    }
    0
}

/// Whether the kernel lets this process only read the page at an address.
fn is_read_only(at: *const u8) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own mappings");
    let of = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (number(begin)?..number(end)?).contains(&at.addr()).then(|| rest.starts_with("r-"))
    };
    maps.lines().find_map(of).unwrap_or(false)
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn bind_region(region: *mut sys::fid, endpoint: *mut sys::fid, flags: u64) -> c_int {
    // SAFETY: an open region and endpoint.
    let region = unsafe { &mut *region.cast::<Region>() };
    if flags != 0 || !region.model.has(sys::FI_MR_ENDPOINT) {
        return -EINVAL;
    }
    // SAFETY: an open endpoint.
    region.owner = Some(unsafe { (*endpoint.cast::<Endpoint>()).me });
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn enable_region(region: *mut sys::fid, command: c_int, _argument: *mut c_void) -> c_int {
    // SAFETY: an open region.
    let region = unsafe { &mut *region.cast::<Region>() };
    let Some(me) = region.owner.filter(|_| command == sys::FI_ENABLE && !region.enabled) else { return -EINVAL };
    let mut net = net();
    let is_open = net.endpoints.get(&me).is_some_and(|port| port.enabled);
    let status = if is_open {
        net.enable(region.model, me, region.fid.key, (region.memory.clone(), region.access))
    } else {
        -EBUSY
    };
    region.enabled = status == 0;
    status
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn close_region(object: *mut sys::fid) -> c_int {
    // SAFETY: an open region.
    let region = unsafe { &*object.cast::<Region>() };
    let mut net = net();
    if let Some(owner) = region.owner.filter(|_| region.enabled) {
        net.disable(owner, region.fid.key);
    }
    net.forget(object as usize);
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
        vector.addresses.push(address.cast::<Id>().read_unaligned());
        *handle = vector.addresses.len() as u64 - 1;
    }
    c_int::try_from(count).unwrap_or(0)
}

/// Writes the address, as far as there is room: the endpoint's number and a filling.
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn getname(endpoint: *mut sys::fid, place: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: an open endpoint.
    let me = unsafe { (*endpoint.cast::<Endpoint>()).me };
    let mut address = me.to_ne_bytes().to_vec();
    address.resize(port(me, |port| port.model().address), b'x');
    // SAFETY: the caller's place of `len` bytes.
    unsafe {
        let room = (*len).min(address.len());
        place.cast::<u8>().copy_from_nonoverlapping(address.as_ptr(), room);
        *len = address.len();
        if room < address.len() { -ETOOSMALL } else { 0 }
    }
}

/// Completions up to the first error; meanwhile the device makes progress.
///
/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn read_queue(queue: *mut sys::fid_cq, entries: *mut c_void, count: usize) -> isize {
    // SAFETY: an open queue, and room for `count` entries.
    unsafe {
        let Queue { of: Some(me), format, .. } = *queue.cast::<Queue>() else { return -EAGAIN };
        if super::unread_errors() > 0 {
            return -EAVAIL;
        }
        net().step(me);
        port(me, |port| {
            port.take_events();
            if port.done.front().is_some_and(|done| done.error != 0) {
                return -EAVAIL;
            }
            let good = port.done.iter().take_while(|done| done.error == 0).count().min(count);
            for (at, done) in port.done.drain(..good).enumerate() {
                let flags = done.data.map_or(0, |_| sys::FI_RMA | sys::FI_REMOTE_WRITE | sys::FI_REMOTE_CQ_DATA);
                let head = sys::fi_cq_msg_entry { op_context: done.context as *mut c_void, flags, len: done.len };
                if format == sys::FI_CQ_FORMAT_DATA {
                    let entry = sys::fi_cq_data_entry { head, buf: null_mut(), data: done.data.unwrap_or(0) };
                    entries.cast::<sys::fi_cq_data_entry>().add(at).write(entry);
                } else {
                    entries.cast::<sys::fi_cq_msg_entry>().add(at).write(head);
                }
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
        if let Some(left) = super::unread_errors().checked_sub(1) {
            super::stray_errors(left);
            // Null, or an address of the provider.
            (*entry).op_context = if left % 2 == 0 { null_mut() } else { queue.cast() };
            (*entry).err = EIO;
            return 1;
        }
        let failed = |port: &mut Port| port.done.front().is_some_and(|done| done.error != 0);
        let Some(done) = port(me, |port| if failed(port) { port.done.pop_front() } else { None }) else {
            return -EAGAIN;
        };
        (*entry).op_context = done.context as *mut c_void;
        (*entry).err = done.error;
    }
    1
}

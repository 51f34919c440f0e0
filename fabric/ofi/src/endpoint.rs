//! The objects of one opened provider: fabric, domain, address vector, completion queue, endpoint.
//! Opens and closes these objects in order and offers the bare calls. The port decides on posts and
//! buffers.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::offset_of;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;
use transom_fabric::{Cause, FabricError, Keys, Memory, Span};

use crate::library::{Info, Library};
use crate::offer::{Offer, Registering};
use crate::pages::populate;
use crate::region_lock::RegionLock;
use crate::rules::{self, Sleep};
use crate::sys;

/// An open endpoint. Drop closes it.
pub struct Endpoint {
    /// The endpoint.
    pub ep: *mut sys::fid_ep,
    /// Its only completion queue.
    pub cq: *mut sys::fid_cq,
    /// Its address vector.
    pub av: *mut sys::fid_av,
    domain: *mut sys::fid_domain,
    fabric: *mut sys::fid_fabric,
    /// The wait set that the queue signals; null if the queue has a descriptor of its own, or none.
    wait_set: *mut sys::fid_wait,
    /// The descriptor of the queue or of the wait set; `None` if the provider has none.
    wait_fd: Option<RawFd>,
    registering: Registering,
    keys: Arc<Keys>,
    /// Held during posts, receives, reads of the queue and waits, which may access regions.
    pub(crate) region_lock: Arc<RegionLock>,
    info: Info,
}

// SAFETY: opened with FI_THREAD_SAFE: libfabric serializes calls on all of these objects itself
// (man fi_domain). Where it does not, `region_lock` serializes the calls that access regions.
unsafe impl Send for Endpoint {}
// SAFETY: as for `Send`.
unsafe impl Sync for Endpoint {}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.info.provider())
    }
}

/// A registered region, which must be dropped before its endpoint.
#[derive(Debug)]
pub struct Registration {
    region: *mut sys::fid_mr,
    /// The requested key, which becomes free when the region is closed.
    requested_key: u64,
    keys: Arc<Keys>,
    region_lock: Arc<RegionLock>,
    /// The registered memory, if it is a copy of the caller's.
    copy: Option<Box<Memory>>,
}

/// The rights of a region that peers access, such as the memory of a window.
const WINDOW: u64 =
    sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE | sys::FI_READ | sys::FI_WRITE | sys::FI_SEND | sys::FI_RECV;
/// The rights of origin buffers (man fi_mr); some providers emulate transfers by messages.
const OWN: u64 = SOURCE | DESTINATION;
/// The rights of a put's source, which may be read-only memory.
const SOURCE: u64 = sys::FI_WRITE | sys::FI_SEND;
/// The rights of a get's destination.
const DESTINATION: u64 = sys::FI_READ | sys::FI_RECV;

// SAFETY: libfabric serializes calls on its objects (`Endpoint`), and only drop changes the
// registration.
unsafe impl Send for Registration {}
// SAFETY: as for `Send`.
unsafe impl Sync for Registration {}

/// A function of an object's table; `None` where the provider lacks it.
macro_rules! function {
    ($object:expr, $table:ident, $function:ident) => {{
        let table = (*$object).$table;
        if table.is_null() { None } else { (*table).$function }
    }};
}

/// Calls a function of an object's table. The result is `-FI_ENOSYS` where the provider lacks the
/// function, as in libfabric's own calls.
macro_rules! call {
    ($object:expr, $table:ident, $function:ident ( $($argument:expr),* $(,)? )) => {
        match function!($object, $table, $function) {
            Some(function) => function($object $(, $argument)*),
            None => -sys::FI_ENOSYS,
        }
    };
}

impl Endpoint {
    /// Opens an endpoint of the provider in `info`, with a completion queue of `entries`. With
    /// `descriptor`, the queue has a descriptor to sleep on, if the provider supports this.
    ///
    /// # Errors
    /// The call that failed and the library's reason; objects that were already open are closed.
    pub fn open(info: Info, entries: usize, descriptor: bool) -> Result<Endpoint, FabricError> {
        let rules = rules::of(&info.provider());
        let registering = Offer::of(&info).registering(rules.fast_keys);
        let mut open = Endpoint {
            ep: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            av: std::ptr::null_mut(),
            domain: std::ptr::null_mut(),
            fabric: std::ptr::null_mut(),
            wait_set: std::ptr::null_mut(),
            wait_fd: None,
            registering,
            keys: Arc::new(Keys::new(registering.keys)),
            region_lock: Arc::new(RegionLock::new(info.library().is_before(rules.locks_regions_from))),
            info,
        };
        open.build(entries, descriptor)?;
        Ok(open)
    }

    fn build(&mut self, entries: usize, descriptor: bool) -> Result<(), FabricError> {
        let null = std::ptr::null_mut();
        let mut av = sys::fi_av_attr {
            type_: sys::FI_AV_TABLE,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: null,
            flags: 0,
        };
        let info = self.info.as_ptr();
        let (library, name) = (Arc::clone(self.info.library()), self.info.provider());
        let check = |what: &str, status: c_int| checked(&library, &name, what, status as isize);
        // SAFETY: each object is opened by its parent's table (man fi_fabric, fi_domain,
        // fi_endpoint) with structures that live over the call; pointers are used only after the
        // call that set them succeeded.
        unsafe {
            check("fi_fabric", (library.functions().fabric)((*info).fabric_attr, &raw mut self.fabric, null))?;
            check("fi_domain", call!(self.fabric, ops, domain(info, &raw mut self.domain, null)))?;
            check("fi_av_open", call!(self.domain, ops, av_open(&raw mut av, &raw mut self.av, null)))?;
        }
        // SAFETY: an open fabric.
        let may_wait = unsafe { function!(self.fabric, ops, trywait) }.is_some();
        let sleeps = rules::of(&name).sleep != Sleep::Naps;
        self.open_queue(entries, descriptor && may_wait && sleeps)?;
        // SAFETY: each object is opened by its parent's table, with structures that live over the
        // call; pointers are used only after the call that set them succeeded.
        unsafe {
            check("fi_endpoint", call!(self.domain, ops, endpoint(info, &raw mut self.ep, null)))?;
            let ep = &raw mut (*self.ep).fid;
            check("fi_ep_bind (av)", call!(ep, ops, bind(&raw mut (*self.av).fid, 0)))?;
            let both = sys::FI_SEND | sys::FI_RECV;
            check("fi_ep_bind (cq)", call!(ep, ops, bind(&raw mut (*self.cq).fid, both)))?;
            check("fi_enable", call!(ep, ops, control(sys::FI_ENABLE, null)))?;
        }
        match self.missing() {
            None => Ok(()),
            Some(what) => check(what, -sys::FI_ENOSYS),
        }
    }

    /// The first function that this crate requires and the provider lacks. The calls on hot paths
    /// rely on this check.
    fn missing(&self) -> Option<&'static str> {
        // SAFETY: open objects.
        unsafe {
            let carries = self.info.carries();
            let all = [
                ("fi_mr_reg", function!(self.domain, mr, reg).is_some()),
                ("fi_getname", function!(self.ep, cm, getname).is_some()),
                ("fi_cq_read", function!(self.cq, ops, read).is_some()),
                ("fi_cq_readerr", function!(self.cq, ops, readerr).is_some()),
                ("fi_recv", function!(self.ep, msg, recv).is_some()),
                ("fi_send", function!(self.ep, msg, send).is_some()),
                ("fi_readmsg", function!(self.ep, rma, readmsg).is_some()),
                ("fi_writemsg", function!(self.ep, rma, writemsg).is_some()),
                ("fi_writedata", !carries || function!(self.ep, rma, writedata).is_some()),
            ];
            all.into_iter().find(|(_, is_there)| !is_there).map(|(what, _)| what)
        }
    }

    /// Opens the completion queue: with a descriptor if one is requested and the provider supports
    /// it, else without.
    fn open_queue(&mut self, entries: usize, descriptor: bool) -> Result<(), FabricError> {
        if descriptor && rules::of(&self.info.provider()).sleep == Sleep::WaitSet {
            self.open_wait_set();
        }
        let waits: &[u32] = match (descriptor, self.wait_set.is_null()) {
            (false, _) => &[sys::FI_WAIT_NONE],
            (true, true) => &[sys::FI_WAIT_FD, sys::FI_WAIT_NONE],
            (true, false) => &[sys::FI_WAIT_SET, sys::FI_WAIT_FD, sys::FI_WAIT_NONE],
        };
        let mut status = 0;
        for &wait_obj in waits {
            let wait_set = if wait_obj == sys::FI_WAIT_SET { self.wait_set } else { std::ptr::null_mut() };
            let mut cq = sys::fi_cq_attr {
                size: entries,
                flags: 0,
                format: if self.info.carries() { sys::FI_CQ_FORMAT_DATA } else { sys::FI_CQ_FORMAT_MSG },
                wait_obj,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set,
            };
            // SAFETY: an open domain, and structures that live over the calls; the queue is used
            // only after it was opened.
            status = unsafe { call!(self.domain, ops, cq_open(&raw mut cq, &raw mut self.cq, std::ptr::null_mut())) };
            let awaited = match wait_obj {
                _ if status != 0 => None,
                sys::FI_WAIT_SET => Some(self.wait_set.cast()),
                sys::FI_WAIT_FD => Some(self.cq.cast()),
                _ => return Ok(()),
            };
            match awaited.map(descriptor_of) {
                Some(Ok(fd)) => {
                    self.wait_fd = Some(fd);
                    return Ok(());
                }
                Some(Err(error)) => status = error,
                None => {}
            }
            close(std::mem::replace(&mut self.cq, std::ptr::null_mut()).cast());
            close(std::mem::replace(&mut self.wait_set, std::ptr::null_mut()).cast());
        }
        checked(self.library(), &self.info.provider(), "fi_cq_open", status as isize)
    }

    /// Opens a wait set with a descriptor (man fi_poll), if the library has wait sets.
    fn open_wait_set(&mut self) {
        let mut attributes = sys::fi_wait_attr { wait_obj: sys::FI_WAIT_FD, flags: 0 };
        // SAFETY: an open fabric, and a structure that lives over the call; the set is used only
        // after it was opened.
        unsafe {
            if let Some(open) = (*(*self.fabric).ops).wait_open
                && open(self.fabric, &raw mut attributes, &raw mut self.wait_set) != 0
            {
                self.wait_set = std::ptr::null_mut();
            }
        }
    }

    /// The library's entry for the provider that was opened.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The library.
    pub fn library(&self) -> &Library {
        self.info.library()
    }

    /// The descriptor that becomes readable when the completion queue may have an entry (man fi_cq,
    /// FI_WAIT_FD and FI_WAIT_SET), if there is one.
    pub fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the library keeps it open as long as the queue.
        self.wait_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// How memory is registered.
    pub(crate) fn registering(&self) -> &Registering {
        &self.registering
    }

    /// Whether a sleep on the descriptor is allowed now (man fi_poll, fi_trywait). `None`: the
    /// provider refuses to answer, so that no sleep on the descriptor is ever allowed. A wait on
    /// the set with a timeout of 0 also ends the signal that the queue gave earlier.
    pub fn may_sleep(&self) -> Option<bool> {
        let _guard = self.region_lock.lock();
        if !self.wait_set.is_null() {
            // SAFETY: an open set.
            return Some(unsafe { call!(self.wait_set, ops, wait(0)) } == -Errno::TIMEDOUT.raw_os_error());
        }
        let mut object = self.cq.cast::<sys::fid>();
        // SAFETY: an array of one open object.
        match unsafe { call!(self.fabric, ops, trywait(&raw mut object, 1)) } {
            0 => Some(true),
            status if -status as isize == sys::FI_EAGAIN => Some(false),
            _ => None,
        }
    }

    /// The address that peers insert.
    ///
    /// # Errors
    /// Those of `fi_getname`.
    pub fn name(&self) -> Result<Vec<u8>, FabricError> {
        let mut name = vec![0u8; 256];
        let mut len = name.len();
        let mut status = self.write_name(&mut name, &mut len);
        // `lnx` joins addresses of others. The call states the required length (man fi_cm).
        if len > name.len() {
            name.resize(len, 0);
            status = self.write_name(&mut name, &mut len);
        }
        checked(self.library(), &self.info.provider(), "fi_getname", status as isize)?;
        name.truncate(len);
        Ok(name)
    }

    /// Calls `fi_getname`, which writes the address's length.
    fn write_name(&self, name: &mut [u8], len: &mut usize) -> c_int {
        // SAFETY: the buffer has `len` bytes.
        unsafe {
            let get = (*(*self.ep).cm).getname.expect("getname");
            get(&raw mut (*self.ep).fid, name.as_mut_ptr().cast(), len)
        }
    }

    /// Inserts a peer's address into the address vector.
    ///
    /// # Errors
    /// The address is not one of this provider's.
    pub fn insert(&self, address: &[u8]) -> Result<sys::fi_addr_t, FabricError> {
        let mut handle = 0;
        // SAFETY: one address, of which the provider reads its own length; a peer's `fi_getname`
        // gave it.
        let inserted = unsafe {
            call!(self.av, ops, insert(address.as_ptr().cast(), 1, &raw mut handle, 0, std::ptr::null_mut()))
        };
        if inserted == 1 {
            return Ok(handle);
        }
        Err(FabricError::failed("fi_av_insert", self.library().strerror(inserted as isize)))
    }

    /// Registers memory for peers' access, and for use as an origin buffer.
    ///
    /// # Errors
    /// The provider's refusal, with length and address.
    ///
    /// # Safety
    /// The memory stays valid until the registration is dropped.
    pub unsafe fn register(&self, base: *const u8, len: usize) -> Result<Registration, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.register_for(base, len, WINDOW) }
    }

    /// Registers memory for use by this process only.
    ///
    /// # Errors
    /// As for [`Endpoint::register`].
    ///
    /// # Safety
    /// As for [`Endpoint::register`].
    pub(crate) unsafe fn register_own(&self, base: *const u8, len: usize) -> Result<Registration, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.register_for(base, len, OWN) }
    }

    /// Registers the destination of a get.
    ///
    /// # Errors
    /// As for [`Endpoint::register`].
    ///
    /// # Safety
    /// As for [`Endpoint::register`].
    pub(crate) unsafe fn register_destination(&self, into: Span) -> Result<Registration, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.register_for(into.as_ptr(), into.len(), DESTINATION) }
    }

    /// Registers the source of a put. Also returns the registered bytes: a copy, if `from` is
    /// read-only and the provider registers only writable memory (`efa` with RDMA writes).
    ///
    /// # Errors
    /// As for [`Endpoint::register`].
    ///
    /// # Safety
    /// As for [`Endpoint::register`].
    pub(crate) unsafe fn register_source(&self, from: Span) -> Result<(Registration, Span), FabricError> {
        // SAFETY: the caller's promise.
        let error = match unsafe { self.register_for(from.as_ptr(), from.len(), SOURCE) } {
            Ok(registration) => return Ok((registration, from)),
            Err(error) => error,
        };
        let fault = i64::from(Errno::FAULT.raw_os_error());
        if !matches!(&error, FabricError::Failed { cause: Cause::Library { code, .. }, .. } if *code == -fault) {
            return Err(error);
        }
        let copy = Box::new(Memory::private(from.len()));
        // SAFETY: the caller of the put promised that the bytes are readable and not written
        // meanwhile.
        copy.write(0, unsafe { std::slice::from_raw_parts(from.as_ptr(), from.len()) });
        // SAFETY: the registration keeps the copy until the region is closed.
        let mut registration = unsafe { self.register_for(copy.as_ptr(), copy.len(), SOURCE) }?;
        let copied = copy.span();
        registration.copy = Some(copy);
        Ok((registration, copied))
    }

    /// Registers memory with the rights `access`. If the provider refuses a fast key, a second
    /// attempt uses another key: providers may have fewer fast regions than fast keys.
    ///
    /// # Safety
    /// The memory stays valid until the registration is dropped.
    unsafe fn register_for(&self, base: *const u8, len: usize, access: u64) -> Result<Registration, FabricError> {
        let what = || format!("fi_mr_reg of {len} bytes at {base:p}");
        if self.registering.populated {
            // SAFETY: the caller promises the memory.
            unsafe { populate(base, len) };
        }
        let mut requested_key = self.keys.take()?;
        loop {
            // SAFETY: the caller promises the memory until the registration is dropped.
            match unsafe { self.register_as(base, len, access, requested_key) } {
                Ok(registration) => return Ok(registration),
                Err(_) if self.keys.is_fast(requested_key) => requested_key = self.keys.take_standard()?,
                Err(status) if -status == Errno::NOMEM.raw_os_error() as isize => {
                    let what = format!("{} of provider {}", what(), self.info.provider());
                    return Err(FabricError::unregistered(what, self.library().strerror(status)));
                }
                Err(status) => return Err(refused(self.library(), &self.info.provider(), &what(), status)),
            }
        }
    }

    /// Registers memory under a key, which is given back if the registration fails.
    ///
    /// # Safety
    /// As for `register`.
    unsafe fn register_as(
        &self,
        base: *const u8,
        len: usize,
        access: u64,
        requested_key: u64,
    ) -> Result<Registration, isize> {
        let (null, keys, region_lock) = (std::ptr::null_mut(), Arc::clone(&self.keys), Arc::clone(&self.region_lock));
        let mut registration =
            Registration { region: std::ptr::null_mut(), requested_key, keys, region_lock, copy: None };
        // SAFETY: open objects; the caller promises the memory. A region is used only after the
        // call that made it.
        let status = unsafe {
            let register = (*(*self.domain).mr).reg.expect("reg");
            let domain = &raw mut (*self.domain).fid;
            let region = &raw mut registration.region;
            let _guard = self.region_lock.lock();
            let mut status = register(domain, base.cast(), len, access, 0, requested_key, 0, region, null);
            if status == 0 && self.registering.bound {
                let region = &raw mut (*registration.region).fid;
                status = call!(region, ops, bind(&raw mut (*self.ep).fid, 0));
                if status == 0 {
                    status = call!(region, ops, control(sys::FI_ENABLE, null));
                }
            }
            status
        };
        if status == 0 { Ok(registration) } else { Err(status as isize) }
    }

    /// Whether the provider claims this atomic (man fi_atomic): comparing if `compares`, else
    /// fetching. Without `fi_query_atomic` (`opx`), the endpoint's functions answer.
    pub fn claims_atomic(&self, datatype: u32, op: u32, compares: bool) -> bool {
        if self.info.main().caps & sys::FI_ATOMIC == 0 {
            return false;
        }
        let mut attr = sys::fi_atomic_attr::default();
        let flags = if compares { sys::FI_COMPARE_ATOMIC } else { sys::FI_FETCH_ATOMIC };
        // SAFETY: open objects, a structure and a number to fill.
        unsafe {
            let is_there = match compares {
                true => function!(self.ep, atomic, compwritemsg).is_some(),
                false => function!(self.ep, atomic, readwritemsg).is_some(),
            };
            if !is_there {
                return false;
            }
            // The table of an older provider may end before this function (`FI_CHECK_OP`).
            let is_long = (*(*self.domain).ops).size > offset_of!(sys::fi_ops_domain, query_atomic);
            let mut status = -sys::FI_ENOSYS;
            if is_long {
                status = call!(self.domain, ops, query_atomic(datatype, op, &raw mut attr, flags));
            }
            if status == -sys::FI_ENOSYS {
                status = match compares {
                    true => call!(self.ep, atomic, compwritevalid(datatype, op, &raw mut attr.count)),
                    false => call!(self.ep, atomic, readwritevalid(datatype, op, &raw mut attr.count)),
                };
            }
            status == 0 && attr.count >= 1
        }
    }
}

impl Registration {
    /// The key for peers.
    pub fn key(&self) -> u64 {
        // SAFETY: open until drop.
        unsafe { (*self.region).key }
    }

    /// The descriptor for local use.
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: open until drop.
        unsafe { (*self.region).mem_desc }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _guard = self.region_lock.lock();
        close(self.region.cast());
        self.keys.give_back(self.requested_key);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        close(self.ep.cast());
        close(self.cq.cast());
        close(self.av.cast());
        close(self.domain.cast());
        close(self.wait_set.cast());
        close(self.fabric.cast());
    }
}

/// The descriptor of an open queue or wait set (man fi_control, FI_GETWAIT); else the provider's
/// error.
fn descriptor_of(object: *mut sys::fid) -> Result<RawFd, c_int> {
    let mut fd = -1;
    // SAFETY: an open object, and a location that lives over the call.
    match unsafe { call!(object, ops, control(sys::FI_GETWAIT, (&raw mut fd).cast::<c_void>())) } {
        0 => Ok(fd),
        error => Err(error),
    }
}

/// Closes an object, if it was opened. Every object begins with its `fid`.
fn close(object: *mut sys::fid) {
    if !object.is_null() {
        // SAFETY: opened once and closed once, children before parents. An object that can't be
        // closed remains open until the process ends.
        unsafe {
            let _ = call!(object, ops, close());
        }
    }
}

fn checked(library: &Library, provider: &str, what: &str, status: isize) -> Result<(), FabricError> {
    if status == 0 { Ok(()) } else { Err(refused(library, provider, what, status)) }
}

#[cold]
fn refused(library: &Library, provider: &str, what: &str, status: isize) -> FabricError {
    FabricError::failed(format!("{what} of provider {provider}"), library.strerror(status))
}

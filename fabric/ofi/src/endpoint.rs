//! The objects of one opened provider: fabric, domain, address vector, completion queue, endpoint. It opens and closes
//! them in order and offers the bare calls; what is posted with them, and with which buffers, is the port's business.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::os::fd::{BorrowedFd, RawFd};

use transom_fabric::FabricError;

use crate::library::{Info, Library};
use crate::sys;

/// An open endpoint that can be posted to. Closing is its drop.
pub struct Endpoint {
    /// The endpoint.
    pub ep: *mut sys::fid_ep,
    /// Its only completion queue.
    pub cq: *mut sys::fid_cq,
    /// Its address vector.
    pub av: *mut sys::fid_av,
    domain: *mut sys::fid_domain,
    fabric: *mut sys::fid_fabric,
    wait_fd: RawFd,
    info: Info,
}

// SAFETY: opened with FI_THREAD_SAFE: libfabric serializes calls on all of these objects itself (man fi_domain).
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.info.provider())
    }
}

/// A registered region. It must be dropped before its endpoint.
#[derive(Debug)]
pub struct Registration(*mut sys::fid_mr);

// SAFETY: as for `Endpoint`.
unsafe impl Send for Registration {}
// SAFETY: as for `Endpoint`.
unsafe impl Sync for Registration {}

/// Calls the function of an object's table.
macro_rules! call {
    ($object:expr, $table:ident, $function:ident ( $($argument:expr),* $(,)? )) => {
        // A table's slot that is empty is a library that breaks its own interface.
        ((*(*$object).$table).$function.expect(stringify!($function)))($object $(, $argument)*)
    };
}

impl Endpoint {
    /// Opens an endpoint for what `info` offers, with a completion queue of `entries`.
    ///
    /// # Errors
    /// The call that failed and what the library said; what was opened before it is closed.
    pub fn open(info: Info, entries: usize) -> Result<Endpoint, FabricError> {
        let mut open = Endpoint {
            ep: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            av: std::ptr::null_mut(),
            domain: std::ptr::null_mut(),
            fabric: std::ptr::null_mut(),
            wait_fd: -1,
            info,
        };
        open.build(entries)?;
        Ok(open)
    }

    fn build(&mut self, entries: usize) -> Result<(), FabricError> {
        let null = std::ptr::null_mut();
        let mut cq = sys::fi_cq_attr {
            size: entries,
            flags: 0,
            format: sys::FI_CQ_FORMAT_MSG,
            wait_obj: sys::FI_WAIT_FD,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null,
        };
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
        let library = std::sync::Arc::clone(self.info.library());
        let check = |what: &str, status: c_int| checked(&library, &self.info, what, status as isize);
        // SAFETY: each object is opened by its parent's table (man fi_fabric, fi_domain, fi_endpoint) with structures that
        // live over the call; pointers are used only after the call that filled them succeeded.
        unsafe {
            check("fi_fabric", (library.fabric)((*info).fabric_attr, &raw mut self.fabric, null))?;
            check("fi_domain", call!(self.fabric, ops, domain(info, &raw mut self.domain, null)))?;
            check("fi_av_open", call!(self.domain, ops, av_open(&raw mut av, &raw mut self.av, null)))?;
            check("fi_cq_open", call!(self.domain, ops, cq_open(&raw mut cq, &raw mut self.cq, null)))?;
            check("fi_endpoint", call!(self.domain, ops, endpoint(info, &raw mut self.ep, null)))?;
            let ep = &raw mut (*self.ep).fid;
            check("fi_ep_bind (av)", call!(ep, ops, bind(&raw mut (*self.av).fid, 0)))?;
            let both = sys::FI_SEND | sys::FI_RECV;
            check("fi_ep_bind (cq)", call!(ep, ops, bind(&raw mut (*self.cq).fid, both)))?;
            check("fi_enable", call!(ep, ops, control(sys::FI_ENABLE, null)))?;
            let queue = &raw mut (*self.cq).fid;
            let fd = (&raw mut self.wait_fd).cast::<c_void>();
            check("fi_control (FI_GETWAIT)", call!(queue, ops, control(sys::FI_GETWAIT, fd)))
        }
    }

    /// What was opened.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The library.
    pub fn library(&self) -> &Library {
        self.info.library()
    }

    /// The descriptor that becomes readable when the completion queue may have something (man fi_cq, FI_WAIT_FD).
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the library keeps it open as long as the queue.
        unsafe { BorrowedFd::borrow_raw(self.wait_fd) }
    }

    /// Whether sleeping on the descriptor is allowed now (man fi_poll, fi_trywait).
    pub fn may_sleep(&self) -> bool {
        let mut object = self.cq.cast::<sys::fid>();
        // SAFETY: an array of one open object.
        unsafe { call!(self.fabric, ops, trywait(&raw mut object, 1)) == 0 }
    }

    /// The address that peers insert.
    ///
    /// # Errors
    /// `fi_getname`'s.
    pub fn name(&self) -> Result<Vec<u8>, FabricError> {
        let mut name = vec![0u8; 256];
        let mut len = name.len();
        // SAFETY: the buffer has `len` bytes.
        let status = unsafe {
            let get = (*(*self.ep).cm).getname.expect("getname");
            get(&raw mut (*self.ep).fid, name.as_mut_ptr().cast(), &raw mut len)
        };
        checked(self.library(), &self.info, "fi_getname", status as isize)?;
        name.truncate(len);
        Ok(name)
    }

    /// Makes an address reachable.
    ///
    /// # Errors
    /// The address is none of this provider's.
    pub fn insert(&self, address: &[u8]) -> Result<sys::fi_addr_t, FabricError> {
        let mut handle = 0;
        // SAFETY: one address, which the provider reads at its own length; `fi_getname` of a peer gave it.
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
    /// The memory stays until the registration is dropped.
    pub unsafe fn register(&self, base: *const u8, len: usize, key: u64) -> Result<Registration, FabricError> {
        let access =
            sys::FI_READ | sys::FI_WRITE | sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE | sys::FI_SEND | sys::FI_RECV;
        let mut region = std::ptr::null_mut();
        // SAFETY: an open domain; the memory is the caller's promise.
        let status = unsafe {
            let register = (*(*self.domain).mr).reg.expect("reg");
            let domain = &raw mut (*self.domain).fid;
            register(domain, base.cast(), len, access, 0, key, 0, &raw mut region, std::ptr::null_mut())
        };
        checked(self.library(), &self.info, &format!("fi_mr_reg of {len} bytes at {base:p}"), status as isize)?;
        Ok(Registration(region))
    }

    /// Whether the provider says that it performs this atomic (man fi_atomic, fi_query_atomic). `flags` tells the form.
    pub fn claims_atomic(&self, datatype: u32, op: u32, flags: u64) -> bool {
        let mut attr = sys::fi_atomic_attr::default();
        if self.info.main().caps & sys::FI_ATOMIC == 0 {
            return false;
        }
        // SAFETY: an open domain, a structure to fill.
        let status = unsafe { call!(self.domain, ops, query_atomic(datatype, op, &raw mut attr, flags)) };
        status == 0 && attr.count >= 1
    }
}

impl Registration {
    /// The key that peers use.
    pub fn key(&self) -> u64 {
        // SAFETY: open until drop.
        unsafe { (*self.0).key }
    }

    /// The descriptor for local use.
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: open until drop.
        unsafe { (*self.0).mem_desc }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        close(self.0.cast());
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        close(self.ep.cast());
        close(self.cq.cast());
        close(self.av.cast());
        close(self.domain.cast());
        close(self.fabric.cast());
    }
}

/// Closes an object, if it was opened. Every object begins with its `fid`.
fn close(object: *mut sys::fid) {
    if !object.is_null() {
        // SAFETY: opened once and closed once, children before parents. A refusal would leave it to the process's end.
        unsafe {
            let _ = call!(object, ops, close());
        }
    }
}

fn checked(library: &Library, info: &Info, what: &str, status: isize) -> Result<(), FabricError> {
    if status == 0 {
        return Ok(());
    }
    Err(FabricError::failed(format!("{what} of provider {}", info.provider()), library.strerror(status)))
}

//! An opened device and memory registered with it. Every object keeps its parents alive, so that
//! queue pairs, queues and the device are closed in the required order. The objects offer verbs'
//! bare calls; other modules decide on posts and buffers.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::io::Error;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use transom_fabric::{Cause, FabricError, Peer};

use crate::address::Address;
use crate::choice::{self, PortInfo};
use crate::library::Library;
use crate::path::{PathOptions, Sender};
use crate::sys;

/// An opened device: its context and protection domain in libibverbs, and the port that is used.
pub(crate) struct Device {
    pub(crate) library: Arc<Library>,
    pub(crate) port: PortInfo,
    pub(crate) attributes: sys::ibv_device_attr,
    pub(crate) port_attributes: sys::ibv_port_attr,
    sender: Sender,
    paths: PathOptions,
    /// The index of the partition in the port's table.
    pub(crate) partition: u16,
    pub(crate) context: *mut sys::ibv_context,
    pub(crate) pd: *mut sys::ibv_pd,
}

/// Registered memory.
pub(crate) struct Registration {
    mr: *mut sys::ibv_mr,
    device: Arc<Device>,
}

macro_rules! opaque_debug {
    ($($name:ident),*) => {
        $(
            impl std::fmt::Debug for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(stringify!($name))
                }
            }

            // SAFETY: libibverbs' objects are not tied to a thread, and the library locks them (its
            // interface is thread-safe).
            unsafe impl Send for $name {}
            // SAFETY: the library locks its objects, so that threads may share them.
            unsafe impl Sync for $name {}
        )*
    };
}

opaque_debug!(Registration);
pub(crate) use opaque_debug;

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}:{})", self.port.device, self.port.port)
    }
}

// SAFETY: the library's objects are not tied to a thread; the attributes do not change after
// `open`.
unsafe impl Send for Device {}
// SAFETY: the library locks its objects, and the attributes do not change after `open`.
unsafe impl Sync for Device {}

/// The error of the call that has just failed, from errno.
pub(crate) fn failed(what: impl Into<String>) -> FabricError {
    FabricError::failed(what, Error::last_os_error())
}

/// Checks the result of a function that returns an error number.
pub(crate) fn checked(what: &str, status: c_int) -> Result<(), FabricError> {
    if status == 0 { Ok(()) } else { Err(FabricError::failed(what, Error::from_raw_os_error(status.abs()))) }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn open(
        library: &Arc<Library>,
        port: &PortInfo,
        paths: PathOptions,
    ) -> Result<Arc<Device>, FabricError> {
        let what = |call: &str| format!("{call} of {}", port.device);
        let unusable = |text| FabricError::failed(what("using a port"), Cause::Setup(text));
        let (gid_index, gid) = port.gid.clone().map_err(unusable)?;
        let partition = paths.partition_index(&choice::folder(port)).map_err(unusable)?;
        let context = Device::context(library, &port.device)?;
        // SAFETY: attributes are numbers, for which all zeroes are valid.
        let (attributes, port_attributes) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut device = Device {
            library: Arc::clone(library),
            port: port.clone(),
            attributes,
            port_attributes,
            sender: Sender { gid, gid_index, port: port.port, needs_grh: false },
            paths,
            partition,
            context,
            pd: std::ptr::null_mut(),
        };
        // SAFETY: an open context; the structures are at least as large as the library's.
        unsafe {
            let call = &library.call;
            checked(&what("ibv_query_device"), (call.query_device)(context, &raw mut device.attributes))?;
            let status = (call.query_port)(context, port.port, &raw mut device.port_attributes);
            checked(&what("ibv_query_port"), status)?;
            device.pd = (call.alloc_pd)(context);
            rustix::fs::fcntl_setfl(BorrowedFd::borrow_raw((*context).async_fd), rustix::fs::OFlags::NONBLOCK)
                .map_err(|error| FabricError::failed(what("setting the event descriptor"), error))?;
        }
        device.sender.needs_grh = device.port_attributes.flags & sys::IBV_QPF_GRH_REQUIRED != 0;
        if device.pd.is_null() {
            return Err(failed(what("ibv_alloc_pd")));
        }
        Ok(Arc::new(device))
    }

    /// Opens the device with this name.
    fn context(library: &Library, name: &str) -> Result<*mut sys::ibv_context, FabricError> {
        let mut count = 0;
        // SAFETY: the list ends with null; the device is opened before the list is freed (man
        // ibv_get_device_list).
        let context = unsafe {
            let list = (library.call.get_device_list)(&raw mut count);
            if list.is_null() {
                return Err(failed("ibv_get_device_list"));
            }
            let devices = (0..usize::try_from(count).unwrap_or(0)).map(|at| *list.add(at));
            let found = devices.into_iter().find(|device| {
                let own = (library.call.get_device_name)(*device);
                !own.is_null() && CStr::from_ptr(own).to_bytes() == name.as_bytes()
            });
            let context = found.map(|device| (library.call.open_device)(device));
            let error = Error::last_os_error();
            (library.call.free_device_list)(list);
            context.map(|context| (context, error))
        };
        match context {
            Some((context, _)) if !context.is_null() => Ok(context),
            Some((_, error)) => Err(FabricError::failed(format!("ibv_open_device of {name}"), error)),
            None => {
                let why = format!("libibverbs has no driver for {name}; on Debian: apt-get install ibverbs-providers");
                Err(FabricError::unavailable(crate::library::TRANSPORT, Cause::Setup(why)))
            }
        }
    }

    /// The address of a process whose datagram queue pair, on this port, has this number.
    pub(crate) fn address(&self, token: u64, number: u32) -> Address {
        let reads = self.attributes.max_qp_rd_atom.clamp(1, 16);
        Address {
            token,
            gid: self.sender.gid,
            number,
            lid: self.port_attributes.lid,
            mtu: self.paths.mtu(u8::try_from(self.port_attributes.active_mtu).unwrap_or(1)),
            reads: u8::try_from(reads).unwrap_or(1),
            ethernet: self.port_attributes.link_layer == sys::IBV_LINK_LAYER_ETHERNET,
            needs_grh: self.sender.needs_grh,
        }
    }

    /// The address vector from this port to an address.
    pub(crate) fn address_vector(&self, to: &Address) -> sys::ibv_ah_attr {
        self.paths.vector(&self.sender, to)
    }

    /// The settings of the port and of its paths in words, for users.
    pub(crate) fn describe(&self) -> String {
        let kind = if self.port.ethernet { "RoCE" } else { "InfiniBand" };
        let (Sender { gid_index, .. }, PathOptions { service_level, traffic_class, .. }) = (self.sender, self.paths);
        let bytes = 128u32 << self.address(0, 0).mtu;
        format!(
            "{kind}, global identifier {gid_index}, partition {}, service level {service_level}, traffic class \
             {traffic_class}, packets of {bytes} bytes",
            self.partition
        )
    }

    /// The access rights of peers: reads, writes, and atomics if the device supports them.
    pub(crate) fn peer_access(&self) -> c_int {
        let atomics = match self.attributes.atomic_cap {
            sys::IBV_ATOMIC_HCA | sys::IBV_ATOMIC_GLOB => sys::IBV_ACCESS_REMOTE_ATOMIC,
            _ => 0,
        };
        sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_REMOTE_READ | atomics
    }

    /// Registers memory for peers' access and as a local buffer, without relaxed ordering (see the
    /// crate's documentation).
    ///
    /// # Errors
    /// The system's refusal, with length, address and the limit of locked memory.
    ///
    /// # Safety
    /// The memory stays valid until the registration is dropped, and may be accessed by peers as
    /// `access` allows.
    pub(crate) unsafe fn register(self: &Arc<Self>, base: *mut u8, len: usize) -> Result<Registration, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.register_for(base, len, self.peer_access()) }
    }

    /// Registers memory as a local buffer, which the device may read and, if `written`, write.
    ///
    /// # Errors
    /// As for [`Device::register`].
    ///
    /// # Safety
    /// The memory stays valid until the registration is dropped.
    pub(crate) unsafe fn register_local(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Result<Registration, FabricError> {
        // SAFETY: the caller's promise.
        unsafe { self.register_for(base, len, if written { sys::IBV_ACCESS_LOCAL_WRITE } else { 0 }) }
    }

    /// Registers the whole address space of the process, which the device then accesses by page
    /// faults (implicit on-demand paging). `None`: the device does not support it. Such devices
    /// refuse the call, so no attribute is checked.
    pub(crate) fn register_implicit_odp(self: &Arc<Self>) -> Option<Registration> {
        let access = sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_ON_DEMAND;
        // SAFETY: no memory is pinned and peers get no access; the device accesses only addresses
        // of posted requests, as the process itself could.
        unsafe { self.register_for(std::ptr::null_mut(), usize::MAX, access) }.ok()
    }

    /// # Safety
    /// The memory stays valid until the registration is dropped.
    unsafe fn register_for(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        access: c_int,
    ) -> Result<Registration, FabricError> {
        // SAFETY: an open domain; the caller promises the memory.
        let mr = unsafe { (self.library.call.reg_mr)(self.pd, base.cast(), len, access) };
        if !mr.is_null() {
            return Ok(Registration { mr, device: Arc::clone(self) });
        }
        Err(FabricError::unregistered(format!("ibv_reg_mr of {len} bytes at {base:p}"), Error::last_os_error()))
    }

    /// The descriptor of asynchronous events.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the context.
        unsafe { BorrowedFd::borrow_raw((*self.context).async_fd) }
    }

    /// The next asynchronous event, if there is one: its type, and the peer where the event
    /// concerns a connection.
    pub(crate) fn event(&self) -> Option<(u32, Option<Peer>)> {
        let mut event = sys::ibv_async_event { element: std::ptr::null_mut(), event_type: 0 };
        // SAFETY: an open context with a non-blocking descriptor. The queue pair of an event exists
        // until the event is acknowledged (man ibv_get_async_event); its context is the number set
        // by `Pair::create`.
        unsafe {
            if (self.library.call.get_async_event)(self.context, &raw mut event) != 0 {
                return None;
            }
            let of_pair = matches!(
                event.event_type,
                sys::IBV_EVENT_QP_FATAL | sys::IBV_EVENT_QP_REQ_ERR | sys::IBV_EVENT_QP_ACCESS_ERR
            );
            let tag = of_pair.then(|| (*event.element.cast::<sys::ibv_qp>()).qp_context as usize);
            (self.library.call.ack_async_event)(&raw mut event);
            let peer = tag.and_then(|tag| u32::try_from(tag.checked_sub(1)?).ok()).map(Peer);
            Some((event.event_type, peer))
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened once, and closed once after all objects that were made from it.
        unsafe {
            if !self.pd.is_null() {
                let _ = (self.library.call.dealloc_pd)(self.pd);
            }
            let _ = (self.library.call.close_device)(self.context);
        }
    }
}

impl Registration {
    /// The key for local access.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: open until drop.
        unsafe { (*self.mr).lkey }
    }

    /// The key for peers' access.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: open until drop.
        unsafe { (*self.mr).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered once and deregistered once.
        unsafe {
            let _ = (self.device.library.call.dereg_mr)(self.mr);
        }
    }
}

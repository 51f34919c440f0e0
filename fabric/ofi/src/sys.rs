//! The part of libfabric's binary interface that this crate uses: layouts and constants of the 1.17
//! headers, which later versions keep for callers that request API version 1.17. Unused slots of
//! tables are [`Unused`]. Functions appear only as the types of table slots (man fi_rma, fi_msg,
//! fi_atomic, fi_cq, fi_av).

#![allow(missing_docs, missing_debug_implementations, non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

pub type Unused = Option<unsafe extern "C" fn()>;
pub type fi_addr_t = u64;

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_COMPLETION: u64 = 1 << 24;
/// Writes after writes (man fi_endpoint, message ordering): writes and atomics, or writes alone.
pub const FI_ORDER_WAW: u64 = 1 << 4;
pub const FI_ORDER_RMA_WAW: u64 = 1 << 35;
/// Sends after writes (man fi_endpoint, message ordering).
pub const FI_ORDER_SAW: u64 = 1 << 7;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_FETCH_ATOMIC: u64 = 1 << 58;
pub const FI_COMPARE_ATOMIC: u64 = 1 << 59;
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;

pub const FI_MR_SCALABLE: c_int = 1 << 1;
pub const FI_MR_LOCAL: c_int = 1 << 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;
pub const FI_MR_ENDPOINT: c_int = 1 << 9;
pub const FI_MR_HMEM: c_int = 1 << 10;

pub const FI_EP_RDM: u32 = 3;
pub const FI_AV_TABLE: u32 = 2;
pub const FI_WAIT_NONE: u32 = 0;
pub const FI_WAIT_SET: u32 = 2;
pub const FI_WAIT_FD: u32 = 3;
pub const FI_CQ_FORMAT_MSG: u32 = 2;
pub const FI_CQ_FORMAT_DATA: u32 = 3;
pub const FI_THREAD_SAFE: u32 = 1;
pub const FI_PROGRESS_UNSPEC: u32 = 0;
pub const FI_PROGRESS_AUTO: u32 = 1;
pub const FI_PROGRESS_MANUAL: u32 = 2;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;

pub const FI_ENOSYS: c_int = 38;
pub const FI_ENODATA: isize = 61;
pub const FI_EAGAIN: isize = 11;
pub const FI_EAVAIL: isize = 259;

pub const FI_UINT32: u32 = 5;
pub const FI_UINT64: u32 = 7;
pub const FI_SUM: u32 = 2;
pub const FI_ATOMIC_READ: u32 = 10;
pub const FI_ATOMIC_WRITE: u32 = 11;
pub const FI_CSWAP: u32 = 12;

pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

#[repr(C)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct fi_ep_attr {
    pub type_: u32,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order: [usize; 3],
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

/// The library's structure is longer (longer still in 2.x): only accessed by pointer.
#[repr(C)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: u32,
    pub control_progress: u32,
    pub data_progress: u32,
    pub resource_mgmt: u32,
    pub av_type: u32,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
}

#[repr(C)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut fid,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut c_void,
}

#[repr(C)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(*mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
    pub ops_open: Unused,
}

#[repr(C)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

#[repr(C)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int>,
    pub passive_ep: Unused,
    pub eq_open: Unused,
    pub wait_open: Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_wait_attr, *mut *mut fid_wait) -> c_int>,
    pub trywait: Option<unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int>,
}

#[repr(C)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_wait_attr {
    pub wait_obj: u32,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_wait {
    pub size: usize,
    pub wait: Option<unsafe extern "C" fn(*mut fid_wait, c_int) -> c_int>,
}

#[repr(C)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *mut fi_ops_wait,
}

#[repr(C)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: u32,
    pub wait_obj: u32,
    pub signaling_vector: c_int,
    pub wait_cond: u32,
    pub wait_set: *mut fid_wait,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

/// An entry in the format FI_CQ_FORMAT_DATA, which begins like [`fi_cq_msg_entry`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_data_entry {
    pub head: fi_cq_msg_entry,
    pub buf: *mut c_void,
    pub data: u64,
}

/// Over-allocated: 2.x writes more than the 1.17 headers declare.
#[repr(C)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    pub room: [u64; 16],
}

#[repr(C)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize>,
    pub readfrom: Unused,
    pub readerr: Option<unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize>,
    pub sread: Unused,
    pub sreadfrom: Unused,
    pub signal: Unused,
    pub strerror: Option<unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char>,
}

#[repr(C)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

#[repr(C)]
pub struct fi_av_attr {
    pub type_: u32,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert:
        Option<unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

#[repr(C)]
#[derive(Default)]
pub struct fi_atomic_attr {
    pub count: usize,
    pub size: usize,
}

#[repr(C)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int>,
    pub cq_open: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int>,
    pub endpoint: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub scalable_ep: Unused,
    pub cntr_open: Unused,
    pub poll_open: Unused,
    pub stx_ctx: Unused,
    pub srx_ctx: Unused,
    pub query_atomic: Option<unsafe extern "C" fn(*mut fid_domain, u32, u32, *mut fi_atomic_attr, u64) -> c_int>,
}

#[repr(C)]
pub struct fi_ops_mr {
    pub size: usize,
    #[allow(clippy::type_complexity)]
    pub reg: Option<
        unsafe extern "C" fn(
            *mut fid,
            *const c_void,
            usize,
            u64,
            u64,
            u64,
            u64,
            *mut *mut fid_mr,
            *mut c_void,
        ) -> c_int,
    >,
}

#[repr(C)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}

#[repr(C)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Unused,
    pub getname: Option<unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int>,
}

#[repr(C)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv:
        Option<unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize>,
    pub recvv: Unused,
    pub recvmsg: Unused,
    pub send:
        Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize>,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct iovec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}

#[repr(C)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_ops_rma {
    pub size: usize,
    #[allow(clippy::type_complexity)]
    pub read: Option<
        unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize,
    >,
    pub readv: Unused,
    pub readmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
    pub inject: Unused,
    #[allow(clippy::type_complexity)]
    pub writedata: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            u64,
            fi_addr_t,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
}

#[repr(C)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

#[repr(C)]
pub struct fi_rma_ioc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

#[repr(C)]
pub struct fi_msg_atomic {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_ioc,
    pub rma_iov_count: usize,
    pub datatype: u32,
    pub op: u32,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_ops_atomic {
    pub size: usize,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: Unused,
    pub inject: Unused,
    #[allow(clippy::type_complexity)]
    pub readwrite: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            fi_addr_t,
            u64,
            u64,
            u32,
            u32,
            *mut c_void,
        ) -> isize,
    >,
    pub readwritev: Unused,
    #[allow(clippy::type_complexity)]
    pub readwritemsg: Option<
        unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize,
    >,
    #[allow(clippy::type_complexity)]
    pub compwrite: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            *const c_void,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            fi_addr_t,
            u64,
            u64,
            u32,
            u32,
            *mut c_void,
        ) -> isize,
    >,
    pub compwritev: Unused,
    #[allow(clippy::type_complexity)]
    pub compwritemsg: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const fi_msg_atomic,
            *const fi_ioc,
            *mut *mut c_void,
            usize,
            *mut fi_ioc,
            *mut *mut c_void,
            usize,
            u64,
        ) -> isize,
    >,
    pub writevalid: Unused,
    pub readwritevalid: AtomicValid,
    pub compwritevalid: AtomicValid,
}

/// `fi_fetch_atomicvalid` and `fi_compare_atomicvalid`.
pub type AtomicValid = Option<unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int>;

#[repr(C)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut c_void,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut c_void,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut c_void,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The numbers are those of a C compiler for libfabric 1.17's headers on x86-64 and aarch64
    /// (LP64).
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!((size_of::<fi_info>(), offset_of!(fi_info, domain_attr)), (120, 96));
        assert_eq!((offset_of!(fi_domain_attr, mr_mode), offset_of!(fi_domain_attr, mr_key_size)), (36, 40));
        assert_eq!((offset_of!(fi_domain_attr, cq_data_size), size_of::<fi_cq_data_entry>()), (48, 40));
        assert_eq!((size_of::<fi_ep_attr>(), offset_of!(fi_ep_attr, max_msg_size)), (96, 16));
        assert_eq!((size_of::<fi_tx_attr>(), offset_of!(fi_tx_attr, op_flags)), (80, 16));
        assert_eq!((size_of::<fi_rx_attr>(), offset_of!(fi_rx_attr, size)), (64, 48));
        assert_eq!((size_of::<fi_fabric_attr>(), offset_of!(fi_fabric_attr, prov_name)), (32, 16));
        assert_eq!((size_of::<fi_cq_attr>(), offset_of!(fi_cq_attr, wait_obj)), (40, 20));
        assert_eq!((size_of::<fi_wait_attr>(), offset_of!(fi_wait_attr, flags)), (16, 8));
        assert_eq!((offset_of!(fid_wait, ops), offset_of!(fi_ops_fabric, wait_open)), (24, 32));
        assert_eq!((size_of::<fi_av_attr>(), size_of::<fi_cq_msg_entry>()), (48, 24));
        assert_eq!(offset_of!(fi_cq_err_entry, room), 80);
        assert_eq!((size_of::<fi_msg_rma>(), offset_of!(fi_msg_rma, context)), (64, 48));
        assert_eq!((offset_of!(fi_ops_rma, writemsg), offset_of!(fi_ops_atomic, compwrite)), (48, 64));
        assert_eq!((offset_of!(fi_ops_rma, writedata), offset_of!(fi_cq_data_entry, data)), (64, 32));
        assert_eq!((size_of::<fi_ioc>(), size_of::<fi_rma_ioc>()), (16, 24));
        assert_eq!((size_of::<fi_msg_atomic>(), offset_of!(fi_msg_atomic, context)), (72, 56));
        assert_eq!((offset_of!(fi_ops_atomic, readwritemsg), offset_of!(fi_ops_atomic, compwritemsg)), (56, 80));
        assert_eq!((offset_of!(fi_ops_domain, query_atomic), offset_of!(fi_ops_cq, strerror)), (72, 56));
        assert_eq!((offset_of!(fi_ops_atomic, compwritevalid), size_of::<fi_ops_atomic>()), (104, 112));
        assert_eq!((offset_of!(fid_ep, rma), offset_of!(fid_ep, atomic), offset_of!(fid_mr, key)), (48, 64, 32));
    }
}

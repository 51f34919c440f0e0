//! Regions of a process that may lock little memory.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use transom_ofi::sys;

use super::ENOMEM;
use super::objects::{close_region, no_ops, register, table};

/// Most regions at the same time: the three pools, a window and one more.
const MOST: usize = 5;

/// Regions that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

pub(super) static MR_OPS: sys::fi_ops_mr = sys::fi_ops_mr { size: 0, reg: Some(register_locked) };
static REGION: sys::fi_ops = no_ops(close_locked);

/// # Safety
/// Called as libfabric documents it.
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn register_locked(
    domain: *mut sys::fid,
    base: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    place: *mut *mut sys::fid_mr,
    context: *mut c_void,
) -> c_int {
    // Relaxed for all: the count orders no other memory.
    if OPEN.fetch_add(1, Ordering::Relaxed) >= MOST {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        return -ENOMEM;
    }
    // SAFETY: the caller's arguments; the region is open.
    unsafe {
        let status = register(domain, base, len, access, offset, key, flags, place, context);
        assert_eq!(status, 0);
        (**place).fid.ops = table(&REGION);
    }
    0
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn close_locked(region: *mut sys::fid) -> c_int {
    OPEN.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: the caller's argument.
    unsafe { close_region(region) }
}

//! The stand-in's offers: `fi_getinfo`, and the calls that free and copy its answers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

use transom_ofi::sys;

use super::model::Model;
use super::{EINVAL, ENODATA, ENOSYS};

const CAPS: u64 = sys::FI_MSG | sys::FI_RMA | sys::FI_ATOMIC;

/// # Safety
/// Called as libfabric documents it.
pub(super) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const sys::fi_info,
    found: *mut *mut sys::fi_info,
) -> c_int {
    if !super::serves(version) {
        return -ENOSYS;
    }
    // SAFETY: hints of `dupinfo` with all attributes, and a place for the answer.
    unsafe {
        let name = (*(*hints).fabric_attr).prov_name;
        let model = if name.is_null() { None } else { Model::of(CStr::from_ptr(name)) };
        let Some(model) = model else { return -ENODATA };
        // A node is a device's name or a number.
        if !node.is_null() {
            return -EINVAL;
        }
        let (domain, endpoint) = (&*(*hints).domain_attr, &*(*hints).ep_attr);
        let manual = [sys::FI_PROGRESS_UNSPEC, sys::FI_PROGRESS_MANUAL].contains(&domain.data_progress);
        // The scalable mode stands alone, and a caller that fulfils others does not take it.
        let mr_mode = mr_mode(model);
        let modes = if model.has(sys::FI_MR_SCALABLE) {
            domain.mr_mode == mr_mode
        } else {
            domain.mr_mode & mr_mode == mr_mode
        };
        let contexts = (*hints).mode & model.mode() == model.mode();
        let order = (*(*hints).tx_attr).msg_order;
        let fits = domain.cq_data_size <= model.data.0 && order & !model.orders.0 == 0;
        let served = (manual || model.automatic) && modes && contexts && fits;
        if !served || endpoint.type_ != sys::FI_EP_RDM || (*hints).caps & !CAPS != 0 {
            return -ENODATA;
        }
        *found = null_mut();
        let progress = if manual { sys::FI_PROGRESS_MANUAL } else { sys::FI_PROGRESS_AUTO };
        for device in model.devices.iter().rev() {
            let entry = entry(model, device, (*hints).caps, progress);
            (*(*entry).fabric_attr).api_version = version;
            (*(*entry).domain_attr).mr_mode |= domain.mr_mode & model.mr_mode_accepted;
            (*(*entry).domain_attr).cq_data_size = model.data.0;
            (*(*entry).tx_attr).msg_order = order;
            (*(*entry).ep_attr).max_order = [0, 0, model.orders.1];
            (*entry).next = *found;
            *found = entry;
        }
    }
    0
}

/// The registration modes that the provider requires.
fn mr_mode(model: &Model) -> c_int {
    let for_devices = model.has(sys::FI_MR_SCALABLE) && super::FOR_DEVICES.get();
    model.mr_mode | if for_devices { sys::FI_MR_HMEM } else { 0 }
}

/// The offer of one device.
fn entry(model: &Model, device: &str, caps: u64, progress: u32) -> *mut sys::fi_info {
    // SAFETY: a new entry with all attributes; names are C's to free.
    unsafe {
        let entry = dupinfo(std::ptr::null());
        ((*entry).caps, (*entry).mode) = (caps, model.mode());
        let domain = &mut *(*entry).domain_attr;
        let name = CString::new(device).expect("a name");
        domain.name = libc::strdup(name.as_ptr());
        domain.threading = sys::FI_THREAD_SAFE;
        (domain.control_progress, domain.data_progress) = (progress, progress);
        (domain.mr_mode, domain.mr_key_size) = (mr_mode(model), model.key_bytes);
        let endpoint = &mut *(*entry).ep_attr;
        (endpoint.type_, endpoint.max_msg_size) = (sys::FI_EP_RDM, (1 << 32) - 1);
        (*(*entry).tx_attr).inject_size = model.inject;
        (*(*entry).rx_attr).size = 1024;
        (*(*entry).fabric_attr).prov_name = libc::strdup(model.name.as_ptr());
        entry
    }
}

/// All structures are integers and pointers, for which zeros are valid.
///
/// # Safety
/// Zeros are a valid `T`.
unsafe fn zeroed<T>() -> *mut T {
    // SAFETY: the caller's promise about `T`.
    Box::into_raw(Box::new(unsafe { std::mem::zeroed() }))
}

/// # Safety
/// `of` is a valid `T`, which may be copied bit by bit.
unsafe fn copy<T>(of: *mut T) -> *mut T {
    // SAFETY: structures of integers and pointers, which may be copied; names are copied by the
    // caller.
    Box::into_raw(Box::new(unsafe { of.read() }))
}

/// # Safety
/// Called as libfabric documents it.
pub(super) unsafe extern "C" fn dupinfo(of: *const sys::fi_info) -> *mut sys::fi_info {
    // SAFETY: `of` is null or an entry with all attributes, whose names are C strings or null.
    unsafe {
        if of.is_null() {
            let entry = zeroed::<sys::fi_info>();
            (*entry).tx_attr = zeroed();
            (*entry).rx_attr = zeroed();
            (*entry).ep_attr = zeroed();
            (*entry).domain_attr = zeroed();
            (*entry).fabric_attr = zeroed();
            return entry;
        }
        let entry = copy(of.cast_mut());
        (*entry).next = null_mut();
        (*entry).tx_attr = copy((*of).tx_attr);
        (*entry).rx_attr = copy((*of).rx_attr);
        (*entry).ep_attr = copy((*of).ep_attr);
        (*entry).domain_attr = copy((*of).domain_attr);
        (*entry).fabric_attr = copy((*of).fabric_attr);
        for name in [&mut (*(*entry).domain_attr).name, &mut (*(*entry).fabric_attr).prov_name] {
            if !name.is_null() {
                *name = libc::strdup(*name);
            }
        }
        entry
    }
}

/// # Safety
/// Called as libfabric documents it.
pub(super) unsafe extern "C" fn freeinfo(list: *mut sys::fi_info) {
    let mut next = list;
    while !next.is_null() {
        // SAFETY: entries of this file, each freed once; names are `strdup`'s.
        unsafe {
            let entry = Box::from_raw(next);
            next = entry.next;
            let (domain, fabric) = (Box::from_raw(entry.domain_attr), Box::from_raw(entry.fabric_attr));
            libc::free(domain.name.cast());
            libc::free(fabric.prov_name.cast());
            drop((Box::from_raw(entry.tx_attr), Box::from_raw(entry.rx_attr), Box::from_raw(entry.ep_attr)));
        }
    }
}

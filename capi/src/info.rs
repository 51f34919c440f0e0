//! Hints of windows: keys with values.

use std::ffi::{c_char, c_int};

use transom::Info;

use crate::error::{Failure, TRANSOM_ERR_ARG, guarded};
use crate::pointers::{borrowed, changed, out, text, write_text};

/// Keys with values: hints for windows. Where a call takes an info, NULL stands for no hints.
#[derive(Debug)]
pub struct InfoHandle(pub(crate) Info);

/// The hints of a handle; none for NULL.
///
/// # Safety
/// `info` is NULL or a live handle.
pub(crate) unsafe fn hints(info: *const InfoHandle) -> Info {
    // SAFETY: the caller's promise.
    unsafe { info.as_ref() }.map_or_else(Info::new, |info| info.0.clone())
}

/// Creates an info without keys.
///
/// # Safety
/// `info` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_info_create(info: *mut *mut InfoHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        out(info, "info")?.set(handle(Info::new()));
        Ok(())
    })
}

/// A new handle, which transom_info_free ends.
pub(crate) fn handle(info: Info) -> *mut InfoHandle {
    Box::into_raw(Box::new(InfoHandle(info)))
}

/// Sets the value of a key. Unknown keys are kept and have no effect.
///
/// # Safety
/// `info` is a live handle; `key` and `value` end with a zero byte.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_info_set(info: *mut InfoHandle, key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let info = changed(info, "info")?;
        let (key, value) = (text(key, "key")?, text(value, "value")?);
        info.0 = std::mem::take(&mut info.0).with(key, value);
        Ok(())
    })
}

/// Copies the value of a key to value. A value that does not fit in *size bytes is cut, and the
/// copy always ends with a zero byte. If *size is 0, nothing is copied, and value may be NULL. Then
/// *size is set to the number of bytes of the whole value with its zero byte, and *found to 1. If
/// the key does not exist, *found is set to 0, and value and *size do not change.
///
/// # Safety
/// `info` is a live handle; `key` ends with a zero byte; `value` has *size bytes, and `size` and
/// `found` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_info_get(
    info: *const InfoHandle,
    key: *const c_char,
    value: *mut c_char,
    size: *mut u64,
    found: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (info, key, found) = (borrowed(info, TRANSOM_ERR_ARG, "info")?, text(key, "key")?, out(found, "found")?);
        let known = info.0.get(key);
        if let Some(known) = known {
            write_text(known, value, size)?;
        }
        found.set(c_int::from(known.is_some()));
        Ok(())
    })
}

/// The number of keys.
///
/// # Safety
/// `info` is a live handle; `keys` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_info_keys(info: *const InfoHandle, keys: *mut u64) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (info, keys) = (borrowed(info, TRANSOM_ERR_ARG, "info")?, out(keys, "keys")?);
        keys.set(info.0.iter().count() as u64);
        Ok(())
    })
}

/// Copies the key with this number to key, as transom_info_get copies a value. Keys are numbered
/// from 0 in the order in which they were set.
///
/// # Safety
/// `info` is a live handle; `key` has *size bytes, and `size` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_info_key(
    info: *const InfoHandle,
    number: u64,
    key: *mut c_char,
    size: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let info = borrowed(info, TRANSOM_ERR_ARG, "info")?;
        let known = usize::try_from(number).ok().and_then(|number| info.0.iter().nth(number));
        let (known, _) = known.ok_or_else(|| Failure::new(TRANSOM_ERR_ARG, format!("the info has no key {number}")))?;
        write_text(known, key, size)
    })
}

/// Frees an info; the handle becomes NULL. Windows keep their hints.
///
/// # Safety
/// `info` points to a live handle or to NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_info_free(info: *mut *mut InfoHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let slot = changed(info, "info")?;
        if slot.is_null() {
            return Err(Failure::new(TRANSOM_ERR_ARG, "info is NULL"));
        }
        drop(Box::from_raw(std::mem::replace(slot, std::ptr::null_mut())));
        Ok(())
    })
}

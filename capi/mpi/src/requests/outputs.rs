//! Output arguments of the calls that complete requests.

use std::ffi::c_int;

use crate::messages::Done;

/// Sets an output argument to a value that remains if the host refuses the call's arguments.
///
/// # Safety
/// There is room for the answer, or `out` is null, which the host refuses.
pub(super) unsafe fn preset(out: *mut c_int, value: c_int) {
    // SAFETY: the caller's promise.
    if let Some(out) = unsafe { out.as_mut() } {
        *out = value;
    }
}

/// The value of an output argument that [`preset`] has set before the call; `otherwise` if `out` is
/// null.
///
/// # Safety
/// As for [`preset`].
pub(super) unsafe fn answer(out: *const c_int, otherwise: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { out.as_ref() }.copied().unwrap_or(otherwise)
}

/// The completed requests of a call that returns their indices.
///
/// # Safety
/// There are `done` indices, if that is positive.
pub(super) unsafe fn indices_of<'i>(done: c_int, indices: *const c_int) -> Done<'i> {
    match usize::try_from(done) {
        // SAFETY: as the caller says.
        Ok(count @ 1..) => Done::Some(unsafe { std::slice::from_raw_parts(indices, count) }),
        _ => Done::Some(&[]),
    }
}

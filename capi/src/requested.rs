//! Operations with requests, in passive epochs only.

use std::ffi::{c_int, c_void};

use transom::{At, Items, RawWindow, Request};

use crate::constants::op;
use crate::datatype::DatatypeHandle;
use crate::error::{Failure, guarded};
use crate::operate::{at, items, operand};
use crate::pointers::out;
use crate::request::{RequestHandle, handle};
use crate::window::{WindowHandle, window};

/// Posts the operation of `post` with both sides, and hands out its request.
///
/// # Safety
/// `window` is NULL or a live handle, and `slot` is NULL or points to writable memory. The sides
/// fulfil the requirements of `post`.
unsafe fn posted(
    window: *const WindowHandle,
    slot: *mut *mut RequestHandle,
    origin: Result<Items<'_>, Failure>,
    target: Result<At<'_>, Failure>,
    post: impl FnOnce(&RawWindow, Items<'_>, At<'_>) -> transom::Result<Request>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promises.
    let (window, slot) = unsafe { (self::window(window)?, out(slot, "request")?) };
    slot.set(handle(post(window, origin?, target?)?));
    Ok(())
}

/// transom_put with a request.
///
/// # Safety
/// The requirements of transom_put; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_rput(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let origin = items(origin, origin_count, origin_type, target, "origin");
        let target = at(target, displacement, target_count, target_type);
        posted(window, request, origin, target, |window, origin, target| window.rput_items(origin, target))
    })
}

/// transom_get with a request.
///
/// # Safety
/// The requirements of transom_get; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_rget(
    window: *const WindowHandle,
    origin: *mut c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let origin = items(origin, origin_count, origin_type, target, "origin");
        let target = at(target, displacement, target_count, target_type);
        posted(window, request, origin, target, |window, origin, target| window.rget_items(origin, target))
    })
}

/// transom_accumulate with a request.
///
/// # Safety
/// The requirements of transom_accumulate; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_raccumulate(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    op: c_int,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let op = self::op(op)?;
        let origin = items(origin, origin_count, origin_type, target, "origin");
        let target = at(target, displacement, target_count, target_type);
        posted(window, request, origin, target, |window, origin, target| window.raccumulate_items(origin, target, op))
    })
}

/// transom_get_accumulate with a request.
///
/// # Safety
/// The requirements of transom_get_accumulate; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_rget_accumulate(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    result: *mut c_void,
    result_count: u64,
    result_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    op: c_int,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let op = self::op(op)?;
        let result = items(result, result_count, result_type, target, "result")?;
        let origin = operand((origin, origin_count, origin_type), result, target, op);
        let target = at(target, displacement, target_count, target_type);
        posted(window, request, origin, target, |window, origin, target| {
            window.rget_accumulate_items(origin, result, target, op)
        })
    })
}

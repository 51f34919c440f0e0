//! Notified operations, with and without requests, in passive epochs only. Each performs the
//! operation like its plain form, and then adds one to a counter of the target. `counters` reads
//! the counters.

use std::ffi::{c_int, c_void};

use crate::constants::{op, rank};
use crate::counters::notice;
use crate::datatype::DatatypeHandle;
use crate::error::guarded;
use crate::operate::{at, equal_predefined_bytes, items, operand};
use crate::pointers::out;
use crate::request::{RequestHandle, handle};
use crate::window::{WindowHandle, window};

/// Performs transom_put in a passive epoch, and then adds one to the target's counter with the
/// index notice. A target that reads the new count also sees the data. A call without items only
/// changes the counter. On nets that do not deliver a notice after earlier data, the call waits
/// until the data is transferred, unless contiguous data is sent in one message.
///
/// # Safety
/// The requirements of transom_put.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_put_notify(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    notice: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, notice) = (self::window(window)?, self::notice(notice)?);
        if let Some(len) = equal_predefined_bytes((origin, origin_count, origin_type), (target_count, target_type)) {
            return Ok(window.put_notify(origin.cast(), len, rank(target)?, displacement, notice)?);
        }
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        let target = at(target, displacement, target_count, target_type)?;
        Ok(window.put_items_notify(origin, target, notice)?)
    })
}

/// Performs transom_get in a passive epoch, and then adds one to the target's counter with the
/// index notice. The new count means that the data has been read. The call waits for the data.
///
/// # Safety
/// The requirements of transom_get.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_get_notify(
    window: *const WindowHandle,
    origin: *mut c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    notice: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, notice) = (self::window(window)?, self::notice(notice)?);
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        let target = at(target, displacement, target_count, target_type)?;
        Ok(window.get_items_notify(origin, target, notice)?)
    })
}

/// Performs transom_accumulate in a passive epoch, and then adds one to the target's counter with
/// the index notice. The call waits for the operation.
///
/// # Safety
/// The requirements of transom_accumulate.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_accumulate_notify(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    op: c_int,
    notice: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, notice) = (self::window(window)?, self::notice(notice)?);
        let op = self::op(op)?;
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        let target = at(target, displacement, target_count, target_type)?;
        Ok(window.accumulate_items_notify(origin, target, op, notice)?)
    })
}

/// Performs transom_get_accumulate in a passive epoch, and then adds one to the target's counter
/// with the index notice, also with TRANSOM_NO_OP. The call waits for the operation.
///
/// # Safety
/// The requirements of transom_get_accumulate.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_get_accumulate_notify(
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
    notice: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, notice) = (self::window(window)?, self::notice(notice)?);
        let op = self::op(op)?;
        let result = items(result, result_count, result_type, target, "result")?;
        let origin = operand((origin, origin_count, origin_type), result, target, op)?;
        let target = at(target, displacement, target_count, target_type)?;
        Ok(window.get_accumulate_items_notify(origin, result, target, op, notice)?)
    })
}

/// transom_put_notify with a request.
///
/// # Safety
/// The requirements of transom_put; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_rput_notify(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    notice: c_int,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot, notice) = (self::window(window)?, out(request, "request")?, self::notice(notice)?);
        if let Some(len) = equal_predefined_bytes((origin, origin_count, origin_type), (target_count, target_type)) {
            slot.set(handle(window.rput_notify(origin.cast(), len, rank(target)?, displacement, notice)?));
            return Ok(());
        }
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        let target = at(target, displacement, target_count, target_type)?;
        slot.set(handle(window.rput_items_notify(origin, target, notice)?));
        Ok(())
    })
}

/// transom_get_notify with a request.
///
/// # Safety
/// The requirements of transom_get; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_rget_notify(
    window: *const WindowHandle,
    origin: *mut c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    notice: c_int,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot, notice) = (self::window(window)?, out(request, "request")?, self::notice(notice)?);
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        let target = at(target, displacement, target_count, target_type)?;
        slot.set(handle(window.rget_items_notify(origin, target, notice)?));
        Ok(())
    })
}

/// transom_accumulate_notify with a request.
///
/// # Safety
/// The requirements of transom_accumulate; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_raccumulate_notify(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    op: c_int,
    notice: c_int,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot, notice) = (self::window(window)?, out(request, "request")?, self::notice(notice)?);
        let op = self::op(op)?;
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        let target = at(target, displacement, target_count, target_type)?;
        slot.set(handle(window.raccumulate_items_notify(origin, target, op, notice)?));
        Ok(())
    })
}

/// transom_get_accumulate_notify with a request.
///
/// # Safety
/// The requirements of transom_get_accumulate; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_rget_accumulate_notify(
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
    notice: c_int,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot, notice) = (self::window(window)?, out(request, "request")?, self::notice(notice)?);
        let op = self::op(op)?;
        let result = items(result, result_count, result_type, target, "result")?;
        let origin = operand((origin, origin_count, origin_type), result, target, op)?;
        let target = at(target, displacement, target_count, target_type)?;
        slot.set(handle(window.rget_accumulate_items_notify(origin, result, target, op, notice)?));
        Ok(())
    })
}

//! Operations: origin buffers are items of a datatype at an address, or plain bytes; targets are
//! items of a datatype at a displacement of a rank, in its displacement units.

use std::ffi::{c_int, c_void};

use transom::{At, CompareSwap, Items, Op};

use crate::constants::{TRANSOM_PROC_NULL, op, predefined, rank};
use crate::datatype::{DatatypeHandle, basic, datatype};
use crate::error::{Failure, TRANSOM_ERR_ARG, guarded};
use crate::pointers::{array, array_mut, count, size};
use crate::window::{WindowHandle, window};

/// Items at an address, which is NULL only if there are none, or if the target is
/// TRANSOM_PROC_NULL.
///
/// # Safety
/// `ty` is NULL, a predefined one or a live handle.
#[inline]
pub(crate) unsafe fn items<'a>(
    base: *const c_void,
    count: u64,
    ty: *const DatatypeHandle,
    target: c_int,
    what: &str,
) -> Result<Items<'a>, Failure> {
    // SAFETY: the caller's promise.
    let ty = unsafe { datatype(ty)? };
    let count = self::count(count)?;
    if base.is_null() && count > 0 && ty.size() > 0 && target != TRANSOM_PROC_NULL {
        // Displacements of the type may be addresses.
        if ty.true_lb() == 0 {
            return Err(Failure::new(TRANSOM_ERR_ARG, format!("{what} is NULL")));
        }
        return Ok(Items::of(std::ptr::null(), count, ty));
    }
    Ok(Items::of(address(base), count, ty))
}

/// An address in the form that the library takes: not NULL, even for no bytes.
#[inline]
fn address(base: *const c_void) -> *const u8 {
    if base.is_null() { std::ptr::dangling() } else { base.cast() }
}

/// The length of plain bytes, whose address is NULL only if the length is 0, or if the target is
/// TRANSOM_PROC_NULL.
#[inline]
fn plain(base: *const c_void, len: u64, target: c_int) -> Result<usize, Failure> {
    if base.is_null() && len > 0 && target != TRANSOM_PROC_NULL {
        return Err(Failure::new(TRANSOM_ERR_ARG, "origin is NULL"));
    }
    size(len)
}

/// The bytes of a transfer with equal counts of one predefined type at both sides: the most
/// frequent case, which needs no layouts.
#[inline]
pub(crate) fn equal_predefined_bytes(
    origin: (*const c_void, u64, *const DatatypeHandle),
    target: (u64, *const DatatypeHandle),
) -> Option<usize> {
    let (base, count, ty) = origin;
    if (count, ty.addr()) != (target.0, target.1.addr()) || base.is_null() {
        return None;
    }
    // Between pairs there may be padding, which is no data.
    let ty = predefined(ty.addr()).filter(|ty| count == 1 || ty.size() == ty.extent())?;
    usize::try_from(count).ok()?.checked_mul(ty.size())
}

/// Items at a target.
///
/// # Safety
/// `ty` is NULL, a predefined one or a live handle.
#[inline]
pub(crate) unsafe fn at<'a>(
    target: c_int,
    displacement: u64,
    count: u64,
    ty: *const DatatypeHandle,
) -> Result<At<'a>, Failure> {
    // SAFETY: the caller's promise.
    Ok(At::new(rank(target)?, displacement, self::count(count)?, unsafe { datatype(ty)? }))
}

/// The origin of a fetching operation, ignored if the operation stores no value.
///
/// # Safety
/// As for [`items`].
pub(crate) unsafe fn operand<'a>(
    (base, count, ty): (*const c_void, u64, *const DatatypeHandle),
    result: Items<'a>,
    target: c_int,
    op: Op,
) -> Result<Items<'a>, Failure> {
    if op == Op::NoOp {
        return Ok(result);
    }
    // SAFETY: the caller's promise.
    unsafe { items(base, count, ty, target, "origin") }
}

/// Puts len bytes from origin at a displacement of target. The error is TRANSOM_ERR_RMA_SYNC
/// outside an access epoch, and TRANSOM_ERR_RMA_RANGE outside the target's part.
///
/// # Safety
/// `window` is a live handle. `origin` has `len` bytes, which are not written until the operation
/// is complete at the origin.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_put_bytes(
    window: *const WindowHandle,
    origin: *const c_void,
    len: u64,
    target: c_int,
    displacement: u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        let len = plain(origin, len, target)?;
        Ok(window.put(address(origin), len, rank(target)?, displacement)?)
    })
}

/// Gets len bytes into origin from a displacement of target.
///
/// # Safety
/// `window` is a live handle. `origin` has `len` bytes, which are not accessed until the operation
/// is complete.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_get_bytes(
    window: *const WindowHandle,
    origin: *mut c_void,
    len: u64,
    target: c_int,
    displacement: u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        let len = plain(origin, len, target)?;
        Ok(window.get(address(origin).cast_mut(), len, rank(target)?, displacement)?)
    })
}

/// Puts origin_count items at origin to target_count items at a displacement of target. Both sides
/// have the same sequence of predefined types; otherwise the error is TRANSOM_ERR_TYPE.
///
/// # Safety
/// `window` is a live handle, types are predefined ones or live handles. The bytes of the origin's
/// items are not written until the operation is complete at the origin.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_put(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        if let Some(bytes) = equal_predefined_bytes((origin, origin_count, origin_type), (target_count, target_type)) {
            return Ok(window.put(origin.cast(), bytes, rank(target)?, displacement)?);
        }
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        Ok(window.put_items(origin, at(target, displacement, target_count, target_type)?)?)
    })
}

/// Gets target_count items at a displacement of target to origin_count items at origin. Both sides
/// have the same sequence of predefined types; otherwise the error is TRANSOM_ERR_TYPE.
///
/// # Safety
/// `window` is a live handle, types are predefined ones or live handles. The bytes of the origin's
/// items are not accessed until the operation is complete.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_get(
    window: *const WindowHandle,
    origin: *mut c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        if let Some(bytes) = equal_predefined_bytes((origin, origin_count, origin_type), (target_count, target_type)) {
            return Ok(window.get(origin.cast(), bytes, rank(target)?, displacement)?);
        }
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        Ok(window.get_items(origin, at(target, displacement, target_count, target_type)?)?)
    })
}

/// Combines the target's elements with those of the origin by op, such as TRANSOM_SUM. Each element
/// is combined atomically with respect to all accumulates, fetches and compare-and-swaps on its
/// type.
///
/// # Safety
/// The requirements of transom_put.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_accumulate(
    window: *const WindowHandle,
    origin: *const c_void,
    origin_count: u64,
    origin_type: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    target_count: u64,
    target_type: *const DatatypeHandle,
    op: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        let origin = items(origin, origin_count, origin_type, target, "origin")?;
        Ok(window.accumulate_items(origin, at(target, displacement, target_count, target_type)?, self::op(op)?)?)
    })
}

/// Performs transom_accumulate, and also stores the previous values in result. With TRANSOM_NO_OP
/// origin is not read.
///
/// # Safety
/// The requirements of transom_put for origin, and those of transom_get for result. The bytes of
/// both do not overlap.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_get_accumulate(
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
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, op) = (self::window(window)?, self::op(op)?);
        let result = items(result, result_count, result_type, target, "result")?;
        let origin = operand((origin, origin_count, origin_type), result, target, op)?;
        Ok(window.get_accumulate_items(origin, result, at(target, displacement, target_count, target_type)?, op)?)
    })
}

/// Combines the target's element at displacement with the element at origin by op. datatype is a
/// predefined type. Waits for the previous value of the target's element, and stores it in result.
/// With TRANSOM_NO_OP origin is not read. For TRANSOM_PROC_NULL result does not change.
///
/// # Safety
/// `window` is a live handle; `origin` and `result` have one element each and do not overlap.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_fetch_and_op(
    window: *const WindowHandle,
    origin: *const c_void,
    result: *mut c_void,
    datatype: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
    op: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, ty, op) = (self::window(window)?, basic(datatype)?, self::op(op)?);
        if target == TRANSOM_PROC_NULL {
            let (zeros, mut unused) = (vec![0; ty.size()], vec![0; ty.size()]);
            return Ok(window.fetch_and_op(&zeros, &mut unused, ty, rank(target)?, displacement, op)?);
        }
        let bytes = ty.size() as u64;
        let origin = array::<u8>(origin.cast(), if op == Op::NoOp { 0 } else { bytes }, "origin")?;
        let result = array_mut::<u8>(result.cast(), bytes, "result")?;
        Ok(window.fetch_and_op(origin, result, ty, rank(target)?, displacement, op)?)
    })
}

/// Replaces the target's element by the element at origin if the target's element equals the
/// element at compare. Waits for the previous value of the target's element, and stores it in
/// result. For integers, TRANSOM_C_BOOL and TRANSOM_BYTE.
///
/// # Safety
/// `window` is a live handle; `origin`, `compare` and `result` have one element each; result
/// overlaps neither of the others.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_compare_and_swap(
    window: *const WindowHandle,
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: *const DatatypeHandle,
    target: c_int,
    displacement: u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, ty) = (self::window(window)?, basic(datatype)?);
        if target == TRANSOM_PROC_NULL {
            let (zeros, mut unused) = (vec![0; ty.size()], vec![0; ty.size()]);
            return Ok(window.compare_and_swap(
                CompareSwap { expected: &zeros, new: &zeros },
                &mut unused,
                ty,
                rank(target)?,
                displacement,
            )?);
        }
        let bytes = ty.size() as u64;
        let origin = array::<u8>(origin.cast(), bytes, "origin")?;
        let compare = array::<u8>(compare.cast(), bytes, "compare")?;
        let result = array_mut::<u8>(result.cast(), bytes, "result")?;
        let values = CompareSwap { expected: compare, new: origin };
        Ok(window.compare_and_swap(values, result, ty, rank(target)?, displacement)?)
    })
}

//! Handles of datatypes: predefined ones, which are small numbers instead of addresses, and
//! derived ones; and queries of them. `layouts` makes the derived ones.

use std::ffi::c_int;
use std::sync::LazyLock;

use transom::{BasicType, Datatype};

use crate::constants::predefined;
use crate::error::{Failure, TRANSOM_ERR_TYPE, guarded};
use crate::pointers::{borrowed, changed, out};

/// A datatype: a sequence of predefined types, each with an offset. A datatype never changes, and
/// may be freed before the operations that use it are complete.
#[derive(Debug)]
pub struct DatatypeHandle(pub(crate) Datatype);

static PREDEFINED: LazyLock<Vec<Datatype>> = LazyLock::new(|| BasicType::ALL.map(Datatype::basic).into());

/// No handle has an address in the first page, which no process has.
const FIRST_PAGE: usize = 4096;

/// The datatype of a handle.
///
/// # Safety
/// `datatype` is NULL, a predefined one or a live handle.
#[inline]
pub(crate) unsafe fn datatype<'a>(datatype: *const DatatypeHandle) -> Result<&'a Datatype, Failure> {
    if let Some(basic) = predefined(datatype.addr()) {
        return Ok(&PREDEFINED[usize::from(basic.number())]);
    }
    if (1..FIRST_PAGE).contains(&datatype.addr()) {
        let what = format!("there is no predefined datatype with the number {}", datatype.addr());
        return Err(Failure::new(TRANSOM_ERR_TYPE, what));
    }
    // SAFETY: the caller's promise, and no predefined one.
    unsafe { borrowed(datatype, TRANSOM_ERR_TYPE, "datatype") }.map(|datatype| &datatype.0)
}

/// The predefined type of a handle, for calls that take no other type.
#[inline]
pub(crate) fn basic(datatype: *const DatatypeHandle) -> Result<BasicType, Failure> {
    let why = || Failure::new(TRANSOM_ERR_TYPE, "this call takes predefined datatypes only");
    predefined(datatype.addr()).ok_or_else(why)
}

/// The number of bytes of data of one item, without gaps. The padding behind the index of a pair is
/// no data; the gap in TRANSOM_SHORT_INT counts.
///
/// # Safety
/// `datatype` is a predefined one or a live handle; `size` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_size(datatype: *const DatatypeHandle, size: *mut u64) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (datatype, size) = (self::datatype(datatype)?, out(size, "size")?);
        size.set(datatype.size() as u64);
        Ok(())
    })
}

/// The lower bound, and the number of bytes from one item to the next.
///
/// # Safety
/// `datatype` is a predefined one or a live handle; `lb` and `extent` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_extent(datatype: *const DatatypeHandle, lb: *mut i64, extent: *mut i64) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (datatype, lb, extent) = (self::datatype(datatype)?, out(lb, "lb")?, out(extent, "extent")?);
        lb.set(datatype.lb());
        extent.set(datatype.extent());
        Ok(())
    })
}

/// The offset of the lowest byte of data, and the number of bytes from there to the end of the
/// highest.
///
/// # Safety
/// `datatype` is a predefined one or a live handle; `lb` and `extent` point to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_true_extent(
    datatype: *const DatatypeHandle,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (datatype, lb, extent) = (self::datatype(datatype)?, out(lb, "lb")?, out(extent, "extent")?);
        lb.set(datatype.true_lb());
        extent.set(datatype.true_extent());
        Ok(())
    })
}

/// Frees a derived datatype; the handle becomes NULL. Datatypes that were built from it remain
/// valid. Predefined datatypes cannot be freed.
///
/// # Safety
/// `datatype` points to a live handle, to a predefined one or to NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_free(datatype: *mut *mut DatatypeHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let slot = changed(datatype, "datatype")?;
        if slot.is_null() || predefined(slot.addr()).is_some() {
            return Err(Failure::new(TRANSOM_ERR_TYPE, "datatype is NULL or a predefined one"));
        }
        drop(Box::from_raw(std::mem::replace(slot, std::ptr::null_mut())));
        Ok(())
    })
}

//! The constructors of datatypes. Counts and block lengths are in items of the old type. If
//! displacements or strides are in bytes, the comment says so.

use std::ffi::c_int;

use transom::Datatype;
use transom::datatype::Order;

use crate::constants::{TRANSOM_ORDER_C, TRANSOM_ORDER_FORTRAN};
use crate::datatype::{DatatypeHandle, datatype};
use crate::error::{Failure, TRANSOM_ERR_ARG, TRANSOM_ERR_COUNT, guarded};
use crate::pointers::{array, count, out};

/// Applies `make` to the old type, and hands out the result.
///
/// # Safety
/// `old` is NULL, a predefined one or a live handle; `slot` is NULL or points to writable memory.
unsafe fn made(
    old: *const DatatypeHandle,
    slot: *mut *mut DatatypeHandle,
    make: impl FnOnce(&Datatype) -> Result<Datatype, Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promises.
    let (old, slot) = unsafe { (datatype(old)?, out(slot, "new_type")?) };
    slot.set(Box::into_raw(Box::new(DatatypeHandle(make(old)?))));
    Ok(())
}

fn distance(bytes: i64) -> Result<isize, Failure> {
    isize::try_from(bytes).map_err(|_| {
        Failure::new(TRANSOM_ERR_COUNT, format!("the distance of {bytes} bytes is outside the address space"))
    })
}

/// Blocks as pairs of items and displacement.
///
/// # Safety
/// As for [`array`].
unsafe fn blocks(many: u64, lengths: *const u64, places: *const i64) -> Result<Vec<(usize, isize)>, Failure> {
    // SAFETY: the caller's promises.
    let (lengths, places) = unsafe { (array(lengths, many, "lengths")?, array(places, many, "displacements")?) };
    lengths.iter().zip(places).map(|(&length, &place)| Ok((count(length)?, distance(place)?))).collect()
}

/// Sizes or starts of dimensions.
///
/// # Safety
/// As for [`array`].
unsafe fn numbers(first: *const u64, many: u64, what: &str) -> Result<Vec<usize>, Failure> {
    // SAFETY: the caller's promise.
    unsafe { array(first, many, what) }?.iter().map(|&one| count(one)).collect()
}

/// Displacements.
///
/// # Safety
/// As for [`array`].
unsafe fn displacements(first: *const i64, many: u64) -> Result<Vec<isize>, Failure> {
    // SAFETY: the caller's promise.
    unsafe { array(first, many, "displacements") }?.iter().map(|&one| distance(one)).collect()
}

/// `count` items of a type, each one extent after the previous one.
///
/// # Safety
/// `old_type` is a predefined one or a live handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_contiguous(
    count: u64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        made(old_type, new_type, |old| Ok(Datatype::contiguous(crate::pointers::count(count)?, old)?))
    })
}

/// count blocks of block_length items; blocks begin stride extents of the old type apart.
///
/// # Safety
/// `old_type` is a predefined one or a live handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_vector(
    count: u64,
    block_length: u64,
    stride: i64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    use crate::pointers::count as items;
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let make = |old: &Datatype| Ok(Datatype::vector(items(count)?, items(block_length)?, distance(stride)?, old)?);
        made(old_type, new_type, make)
    })
}

/// count blocks of block_length items; blocks begin stride bytes apart.
///
/// # Safety
/// `old_type` is a predefined one or a live handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_hvector(
    count: u64,
    block_length: u64,
    stride: i64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    use crate::pointers::count as items;
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let make = |old: &Datatype| Ok(Datatype::hvector(items(count)?, items(block_length)?, distance(stride)?, old)?);
        made(old_type, new_type, make)
    })
}

/// Blocks of `lengths[i]` items at `displacements[i]` extents of the old type.
///
/// # Safety
/// `lengths` and `displacements` have `count` numbers; `old_type` is a predefined one or a live
/// handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_indexed(
    count: u64,
    lengths: *const u64,
    displacements: *const i64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let blocks = blocks(count, lengths, displacements)?;
        made(old_type, new_type, |old| Ok(Datatype::indexed(&blocks, old)?))
    })
}

/// Blocks of `lengths[i]` items at `displacements[i]` bytes.
///
/// # Safety
/// `lengths` and `displacements` have `count` numbers; `old_type` is a predefined one or a live
/// handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_hindexed(
    count: u64,
    lengths: *const u64,
    displacements: *const i64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let blocks = blocks(count, lengths, displacements)?;
        made(old_type, new_type, |old| Ok(Datatype::hindexed(&blocks, old)?))
    })
}

/// Blocks of block_length items at `displacements[i]` extents of the old type.
///
/// # Safety
/// `displacements` has `count` numbers; `old_type` is a predefined one or a live handle; `new_type`
/// points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_indexed_block(
    count: u64,
    block_length: u64,
    displacements: *const i64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (length, places) = (crate::pointers::count(block_length)?, self::displacements(displacements, count)?);
        made(old_type, new_type, |old| Ok(Datatype::indexed_block(length, &places, old)?))
    })
}

/// Blocks of block_length items at `displacements[i]` bytes.
///
/// # Safety
/// `displacements` has `count` numbers; `old_type` is a predefined one or a live handle; `new_type`
/// points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_hindexed_block(
    count: u64,
    block_length: u64,
    displacements: *const i64,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (length, places) = (crate::pointers::count(block_length)?, self::displacements(displacements, count)?);
        made(old_type, new_type, |old| Ok(Datatype::hindexed_block(length, &places, old)?))
    })
}

/// Blocks of `lengths[i]` items of `types[i]` at `displacements[i]` bytes. The extent is rounded up
/// to the strictest alignment of the elements, unless a part is resized or a subarray.
///
/// # Safety
/// The arrays have `count` elements; `types` are predefined ones or live handles; `new_type` points
/// to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_struct(
    count: u64,
    lengths: *const u64,
    displacements: *const i64,
    types: *const *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let slot = out(new_type, "new_type")?;
        let types = array(types, count, "types")?;
        let blocks = blocks(count, lengths, displacements)?.into_iter().zip(types);
        let parts = blocks.map(|((length, place), &ty)| Ok((length, place, datatype(ty)?.clone())));
        let new = Datatype::structure(&parts.collect::<Result<Vec<_>, Failure>>()?)?;
        slot.set(Box::into_raw(Box::new(DatatypeHandle(new))));
        Ok(())
    })
}

/// A part of an array. In dimension i the array has `sizes[i]` elements, and the part has
/// `subsizes[i]` elements, from element `starts[i]` (counted from 0) on. order is TRANSOM_ORDER_C
/// or TRANSOM_ORDER_FORTRAN. The extent is that of the whole array. The error is TRANSOM_ERR_ARG if
/// dimensions is 0 or the part is not within the array.
///
/// # Safety
/// `sizes`, `subsizes` and `starts` have `dimensions` numbers; `old_type` is a predefined one or a
/// live handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_subarray(
    dimensions: u64,
    sizes: *const u64,
    subsizes: *const u64,
    starts: *const u64,
    order: c_int,
    old_type: *const DatatypeHandle,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let order = match order {
            TRANSOM_ORDER_C => Order::C,
            TRANSOM_ORDER_FORTRAN => Order::Fortran,
            _ => {
                return Err(Failure::new(
                    TRANSOM_ERR_ARG,
                    format!("the order {order} is neither TRANSOM_ORDER_C nor TRANSOM_ORDER_FORTRAN"),
                ));
            }
        };
        let (sizes, subsizes) = (numbers(sizes, dimensions, "sizes")?, numbers(subsizes, dimensions, "subsizes")?);
        let starts = numbers(starts, dimensions, "starts")?;
        made(old_type, new_type, |old| Ok(Datatype::subarray(&sizes, &subsizes, &starts, order, old)?))
    })
}

/// The old type with the lower bound lb and the extent extent, both in bytes. The offsets of the
/// data do not change.
///
/// # Safety
/// `old_type` is a predefined one or a live handle; `new_type` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_type_resized(
    old_type: *const DatatypeHandle,
    lb: i64,
    extent: i64,
    new_type: *mut *mut DatatypeHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { made(old_type, new_type, |old| Ok(Datatype::resized(old, distance(lb)?, distance(extent)?)?)) })
}

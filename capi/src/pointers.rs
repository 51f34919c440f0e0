//! Pointers from C programs: NULL is an error that names the argument; the caller promises that
//! other pointers are valid. The addresses of results are checked at the beginning of a call, and
//! the results are written at its end, so that no call fails after it has taken effect.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

use crate::constants::rank;
use crate::error::{Failure, TRANSOM_ERR_ARG, TRANSOM_ERR_COUNT, TRANSOM_ERR_SIZE};

/// The address of a result.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Writes the result.
    pub(crate) fn set(self, value: T) {
        // SAFETY: the caller of `out` promised that the memory is writable.
        unsafe { self.0.write(value) }
    }
}

/// The address of a result, or an error that names the argument.
///
/// # Safety
/// `slot` is NULL, or points to memory that is writable until the call returns.
pub(crate) unsafe fn out<T>(slot: *mut T, what: &str) -> Result<Out<T>, Failure> {
    NonNull::new(slot).map(Out).ok_or_else(|| null(what))
}

/// The value behind a pointer.
///
/// # Safety
/// `pointer` is NULL, or points to a live value that is not changed until the call returns.
#[inline]
pub(crate) unsafe fn borrowed<'a, T>(pointer: *const T, class: c_int, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::new(class, format!("{what} is NULL")))
}

/// The value behind a pointer, to be changed.
///
/// # Safety
/// The requirements of [`borrowed`], and the value is not accessed otherwise.
pub(crate) unsafe fn changed<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// An array. If the array has no elements, its address is ignored.
///
/// # Safety
/// `first` is NULL, or points to `count` elements that are not changed until the call returns.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: u64, what: &str) -> Result<&'a [T], Failure> {
    match length::<T>(count, what)? {
        0 => Ok(&[]),
        _ if first.is_null() => Err(null(what)),
        // SAFETY: the caller's promise; the length fits an address space.
        count => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// An array to be changed.
///
/// # Safety
/// The requirements of [`array`], and the elements are not accessed otherwise.
pub(crate) unsafe fn array_mut<'a, T>(first: *mut T, count: u64, what: &str) -> Result<&'a mut [T], Failure> {
    match length::<T>(count, what)? {
        0 => Ok(&mut []),
        _ if first.is_null() => Err(null(what)),
        // SAFETY: the caller's promise; the length fits an address space.
        count => Ok(unsafe { std::slice::from_raw_parts_mut(first, count) }),
    }
}

/// A text.
///
/// # Safety
/// `text` is NULL, or ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| Failure::new(TRANSOM_ERR_ARG, format!("{what} is not UTF-8")))
}

/// Ranks of an array.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn ranks(first: *const c_int, count: c_int, what: &str) -> Result<Vec<usize>, Failure> {
    let many = u64::try_from(count)
        .map_err(|_| Failure::new(TRANSOM_ERR_ARG, format!("{what}: the number {count} is negative")))?;
    // SAFETY: the caller's promise.
    unsafe { array(first, many, what) }?.iter().map(|&one| rank(one)).collect()
}

/// Writes `text` with its zero byte to `value` of `*size` bytes, as much as fits; `*size` is set to
/// the size of the whole text.
///
/// # Safety
/// `size` is NULL, or points to a number that is not accessed otherwise; `value` may be NULL if
/// `*size` is 0; else it has `*size` bytes.
pub(crate) unsafe fn write_text(text: &str, value: *mut c_char, size: *mut u64) -> Result<(), Failure> {
    // SAFETY: the caller's promises.
    let (size, room) = unsafe {
        let size = changed(size, "size")?;
        let room = array_mut(value.cast::<u8>(), *size, "value")?;
        (size, room)
    };
    if let Some(last) = room.len().checked_sub(1) {
        let fits = text.len().min(last);
        room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        room[fits] = 0;
    }
    *size = text.len() as u64 + 1;
    Ok(())
}

/// Bytes of memory as this machine counts them.
#[inline]
pub(crate) fn size(bytes: u64) -> Result<usize, Failure> {
    usize::try_from(bytes)
        .map_err(|_| Failure::new(TRANSOM_ERR_SIZE, format!("the size of {bytes} bytes exceeds the address space")))
}

/// A number of items as this machine counts them.
#[inline]
pub(crate) fn count(items: u64) -> Result<usize, Failure> {
    usize::try_from(items)
        .map_err(|_| Failure::new(TRANSOM_ERR_COUNT, format!("the count of {items} items exceeds the address space")))
}

fn length<T>(count: u64, what: &str) -> Result<usize, Failure> {
    let fits = usize::try_from(count).ok();
    let fits = fits.filter(|count| count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX as usize));
    fits.ok_or_else(|| Failure::new(TRANSOM_ERR_COUNT, format!("{what} cannot have {count} elements")))
}

#[cold]
fn null(what: &str) -> Failure {
    Failure::new(TRANSOM_ERR_ARG, format!("{what} is NULL"))
}

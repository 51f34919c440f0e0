//! The counters that notified operations raise: their numbers, their values, and waiting for them.

use std::ffi::c_int;

use transom::{Notice, RawWindow};

use crate::constants::{number, rank};
use crate::error::{Failure, TRANSOM_ERR_ARG, TRANSOM_ERR_RMA_NOTIFICATION, guarded};
use crate::pointers::{array, out};
use crate::request::{RequestHandle, handle};
use crate::window::{WindowHandle, window};

/// The counter of an index.
#[inline]
pub(crate) fn notice(index: c_int) -> Result<Notice, Failure> {
    let refused = |_| Failure::new(TRANSOM_ERR_RMA_NOTIFICATION, format!("the counter index {index} is negative"));
    usize::try_from(index).map(Notice).map_err(refused)
}

/// Sets the number of this rank's counters, at most 4096, and zeroes all counters of the window.
/// Collective; the numbers may differ between ranks. No notified operation may be in flight.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_set_num_notify(window: *const WindowHandle, counters: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { set_number(self::window(window)?, counters) })
}

/// The call is collective: a negative number is an error at all ranks, like a number that is too
/// large.
fn set_number(window: &RawWindow, counters: c_int) -> Result<(), Failure> {
    let done = window.set_num_notify(usize::try_from(counters).unwrap_or(usize::MAX));
    if counters < 0 && done.is_err() {
        return Err(Failure::new(
            TRANSOM_ERR_ARG,
            format!("set_num_notify: the number of counters {counters} is negative"),
        ));
    }
    Ok(done?)
}

/// Sets *counters to the number of counters of target.
///
/// # Safety
/// `window` is a live handle; `counters` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_get_num_notify(
    window: *const WindowHandle,
    target: c_int,
    counters: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(counters, "counters")?);
        slot.set(number(window.num_notify(rank(target)?)?));
        Ok(())
    })
}

/// Sets *value to the value of this rank's counter with the index notice. Makes progress and does
/// not wait.
///
/// # Safety
/// `window` is a live handle; `value` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_notify_value(
    window: *const WindowHandle,
    notice: c_int,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(value, "value")?);
        slot.set(window.notices().value(self::notice(notice)?.0)?);
        Ok(())
    })
}

/// Zeroes this rank's counter with the index notice, and sets *value to the counter's previous
/// value, in one atomic step.
///
/// # Safety
/// `window` is a live handle; `value` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_notify_reset(
    window: *const WindowHandle,
    notice: c_int,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(value, "value")?);
        slot.set(window.notices().reset(self::notice(notice)?.0)?);
        Ok(())
    })
}

/// Waits until this rank's counter with the index notice has reached value. The counter does not
/// change. Fails if another thread removes the counter by transom_window_set_num_notify.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_notify_wait(window: *const WindowHandle, notice: c_int, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.notices().wait(self::notice(notice)?.0, value)?) })
}

/// Sets *done to 1 if this rank's counter with the index notice has reached value, else to 0. Makes
/// progress and does not wait.
///
/// # Safety
/// `window` is a live handle; `done` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_notify_test(
    window: *const WindowHandle,
    notice: c_int,
    value: u64,
    done: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(done, "done")?);
        slot.set(c_int::from(window.notices().try_wait(self::notice(notice)?.0, value)?));
        Ok(())
    })
}

/// Waits until, for an i below count, this rank's counter with the index `notices[i]` has reached
/// `values[i]`. *index is set to the first such i. Fails if another thread removes one of the
/// counters by transom_window_set_num_notify.
///
/// # Safety
/// `window` is a live handle; `notices` and `values` have `count` numbers each; `index` points to
/// writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_notify_wait_any(
    window: *const WindowHandle,
    count: u64,
    notices: *const c_int,
    values: *const u64,
    index: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(index, "index")?);
        let (notices, values) = (array(notices, count, "notices")?, array(values, count, "values")?);
        let awaited = notices.iter().zip(values).map(|(&notice, &value)| Ok((self::notice(notice)?.0, value)));
        let awaited = awaited.collect::<Result<Vec<_>, Failure>>()?;
        slot.set(window.notices().wait_any(&awaited)? as u64);
        Ok(())
    })
}

/// Creates a request that is complete when this rank's counter with the index notice has reached
/// value. If the counter is removed or the window freed before, the request fails, with
/// TRANSOM_ERR_RMA_NOTIFICATION or TRANSOM_ERR_RMA_SYNC.
///
/// # Safety
/// `window` is a live handle; `request` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_notify_threshold(
    window: *const WindowHandle,
    notice: c_int,
    value: u64,
    request: *mut *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, slot) = (self::window(window)?, out(request, "request")?);
        slot.set(handle(window.notices().request(self::notice(notice)?.0, value)?));
        Ok(())
    })
}

//! Synchronization of windows: fences, post/start/complete/wait, locks, flushes.

use std::ffi::c_int;

use crate::constants::{assertions, lock, rank};
use crate::error::guarded;
use crate::pointers::{out, ranks};
use crate::window::{WindowHandle, window};

/// Ends the fence epoch and perhaps opens another. Collective. Assertions: TRANSOM_MODE_NOSTORE,
/// _NOPUT, _NOPRECEDE, _NOSUCCEED.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_fence(window: *const WindowHandle, assertions: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.fence(self::assertions(assertions)?)?) })
}

/// Exposes this rank's part to origins. It does not wait. Assertions: TRANSOM_MODE_NOCHECK,
/// _NOSTORE, _NOPUT.
///
/// # Safety
/// `window` is a live handle; `origins` has `count` ranks.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_post(
    window: *const WindowHandle,
    count: c_int,
    origins: *const c_int,
    assertions: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        Ok(window.post(&ranks(origins, count, "origins")?, self::assertions(assertions)?)?)
    })
}

/// Opens an access epoch to targets. It does not wait: the first operation on a target waits for
/// its post, and transom_window_complete for those without operations. Assertion:
/// TRANSOM_MODE_NOCHECK.
///
/// # Safety
/// `window` is a live handle; `targets` has `count` ranks.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_start(
    window: *const WindowHandle,
    count: c_int,
    targets: *const c_int,
    assertions: c_int,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let window = self::window(window)?;
        Ok(window.start(&ranks(targets, count, "targets")?, self::assertions(assertions)?)?)
    })
}

/// Ends the epoch of transom_window_start: its operations are complete at both sides.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_complete(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.complete()?) })
}

/// Ends the epoch of transom_window_post when all its origins have completed.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_wait(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.wait()?) })
}

/// Ends the epoch of transom_window_post if all its origins have completed; *done is whether they
/// have.
///
/// # Safety
/// `window` is a live handle; `done` may be written.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_test(window: *const WindowHandle, done: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (window, done) = (self::window(window)?, out(done, "done")?);
        done.set(c_int::from(window.test()?));
        Ok(())
    })
}

/// Opens a passive access epoch to a target; several may be locked at once. kind is
/// TRANSOM_LOCK_SHARED or TRANSOM_LOCK_EXCLUSIVE. Assertion: TRANSOM_MODE_NOCHECK.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_lock(
    window: *const WindowHandle,
    kind: c_int,
    target: c_int,
    assertions: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let window = self::window(window)?;
        Ok(window.lock(lock(kind)?, rank(target)?, self::assertions(assertions)?)?)
    })
}

/// Completes everything to a target at both sides and ends its epoch. Where an operation failed the
/// lock is given up all the same.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_unlock(window: *const WindowHandle, target: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.unlock(rank(target)?)?) })
}

/// Opens a passive access epoch to all ranks. Not collective. Assertion: TRANSOM_MODE_NOCHECK.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_lock_all(window: *const WindowHandle, assertions: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.lock_all(self::assertions(assertions)?)?) })
}

/// Completes everything and ends the epoch of transom_window_lock_all.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_unlock_all(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.unlock_all()?) })
}

/// Completes operations to a target at both sides, in a passive epoch.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush(window: *const WindowHandle, target: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush(rank(target)?)?) })
}

/// Completes operations to all targets at both sides, in a passive epoch.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush_all(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush_all()?) })
}

/// Completes operations to a target at this side: their buffers may be used again.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush_local(window: *const WindowHandle, target: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush_local(rank(target)?)?) })
}

/// Completes operations to all targets at this side.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush_local_all(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush_local_all()?) })
}

/// Orders this rank's own accesses with those of others; in the separate model it brings both
/// copies together.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_sync(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        self::window(window)?.sync();
        Ok(())
    })
}

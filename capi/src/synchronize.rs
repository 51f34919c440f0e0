//! Synchronization of windows: fences, post/start/complete/wait, locks, flushes.

use std::ffi::c_int;

use crate::constants::{assertions, lock, rank};
use crate::error::guarded;
use crate::pointers::{out, ranks};
use crate::window::{WindowHandle, window};

/// Completes the operations that all ranks have called since the last fence, at origin and target;
/// this rank's loads then see them. Collective. Ends the fence epoch, and opens the next one unless
/// _NOSUCCEED is given. With both _NOPRECEDE and _NOSUCCEED the call does not wait for other ranks.
/// Assertions: TRANSOM_MODE_NOSTORE, _NOPUT, _NOPRECEDE, _NOSUCCEED.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_fence(window: *const WindowHandle, assertions: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.fence(self::assertions(assertions)?)?) })
}

/// Exposes this rank's part to origins. The call does not wait. Assertions: TRANSOM_MODE_NOCHECK,
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

/// Opens an access epoch to targets. The call does not wait: the first operation on a target waits
/// for the target's post, and transom_window_complete waits for the posts of targets without
/// operations. Assertion: TRANSOM_MODE_NOCHECK.
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

/// Completes the operations of the epoch of transom_window_start, at origin and target, and ends
/// the epoch.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_complete(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.complete()?) })
}

/// Waits until all origins of transom_window_post have completed, and ends the epoch.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_wait(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.wait()?) })
}

/// Ends the epoch of transom_window_post and sets *done to 1 if all its origins have completed;
/// otherwise sets *done to 0.
///
/// # Safety
/// `window` is a live handle; `done` points to writable memory.
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

/// Opens a passive access epoch to a target; a rank may lock several targets at once. kind is
/// TRANSOM_LOCK_SHARED or TRANSOM_LOCK_EXCLUSIVE. Over a net without atomics the lock may be
/// acquired as late as the unlock; a flush acquires it. Assertion: TRANSOM_MODE_NOCHECK.
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

/// Completes all operations on a target, at origin and target, and ends its epoch. The lock is
/// released even if an operation failed.
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

/// Completes all operations at origin and target, and ends the epoch of transom_window_lock_all.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_unlock_all(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.unlock_all()?) })
}

/// Completes the operations on a target, at origin and target, in a passive epoch.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush(window: *const WindowHandle, target: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush(rank(target)?)?) })
}

/// Completes the operations on all targets, at origin and target, in a passive epoch.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush_all(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush_all()?) })
}

/// Completes the operations on a target at the origin, whose buffers may then be used again.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush_local(window: *const WindowHandle, target: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush_local(rank(target)?)?) })
}

/// Completes the operations on all targets at the origin.
///
/// # Safety
/// `window` is a live handle.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_window_flush_local_all(window: *const WindowHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { Ok(self::window(window)?.flush_local_all()?) })
}

/// Orders this rank's loads and stores with the accesses of others; in the separate model it also
/// makes both copies equal. Completes no operation. To load data that another rank has put, first
/// wait for the barrier or flag that follows the put, and then call transom_window_sync. A fence
/// includes this call.
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

//! The order of the attributes that a program caches with windows. MPI leaves the order of their
//! deletion by `MPI_Win_free` to the implementation (MPI-4.1 §7.7.1). The newest attribute is
//! deleted first, as with `MPI_COMM_SELF` in `MPI_Finalize` (MPI-4.1 §11.2.4), so that a delete
//! function finds the attributes that were set before its own. Open MPI itself uses this order.
//!
//! The host holds the attributes. This module knows the keys of each window, including those of
//! windows that the host serves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::{Key, SUCCESS, Win, host_Win_delete_attr, host_Win_set_attr};

/// The keys of each window that has attributes, the newest last.
static KEYS: Mutex<BTreeMap<usize, Vec<c_int>>> = Mutex::new(BTreeMap::new());

/// The lock is not held while the host calls functions of the program.
fn keys() -> MutexGuard<'static, BTreeMap<usize, Vec<c_int>>> {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A window and its keys. Without a destructor, so that the end of a thread's storage, which comes
/// before functions of `atexit`, does not end it; it is empty whenever no call runs.
type Freed = ManuallyDrop<Option<(usize, Vec<c_int>)>>;

thread_local! {
    /// The window that this thread's innermost `MPI_Win_free` frees at the host, and its keys. They
    /// are not in [`KEYS`], where another thread's new window may get the same handle before the
    /// host returns.
    static FREED: RefCell<Freed> = const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Changes the keys of a window, which are in [`FREED`] if a delete function of the window calls.
fn change(win: Win, change: impl FnOnce(&mut Vec<c_int>)) {
    FREED.with_borrow_mut(|freed| match &mut **freed {
        Some((window, of_window)) if *window == win.key() => change(of_window),
        _ => {
            let mut all = keys();
            let of_window = all.entry(win.key()).or_default();
            change(of_window);
            if of_window.is_empty() {
                all.remove(&win.key());
            }
        }
    });
}

/// Records that an attribute is set. A new value makes it the newest, as a deletion and a setting
/// do (MPI-4.1 §7.7.1).
pub(crate) fn is_set(win: Win, keyval: c_int) {
    change(win, |of_window| {
        of_window.retain(|&key| key != keyval);
        of_window.push(keyval);
    });
}

/// Records that an attribute is deleted.
fn is_deleted(win: Win, keyval: c_int) {
    change(win, |of_window| of_window.retain(|&key| key != keyval));
}

/// Deletes the attributes of a window, the newest first, up to one whose delete function fails.
/// Returns that function's error code, which the host has raised. Deletes no attribute twice: a
/// delete function may set its own attribute again.
pub(crate) fn delete_all(win: Win) -> c_int {
    let mut deleted = BTreeSet::new();
    let next = |deleted: &BTreeSet<c_int>| {
        keys().get(&win.key()).and_then(|all| all.iter().rev().copied().find(|key| !deleted.contains(key)))
    };
    while let Some(keyval) = next(&deleted) {
        deleted.insert(keyval);
        // SAFETY: the window lives. A freed keyval is valid while an attribute has it.
        let code = unsafe { delete_attr(win, keyval) };
        if code != SUCCESS {
            return code;
        }
    }
    SUCCESS
}

/// Forgets the attributes of a window, which `free` frees at the host, unless `free` fails. Returns
/// the code of `free`.
pub(crate) fn forget_freed(win: Win, free: impl FnOnce() -> c_int) -> c_int {
    let of_window = keys().remove(&win.key()).unwrap_or_default();
    let outer = FREED.replace(ManuallyDrop::new(Some((win.key(), of_window))));
    let code = free();
    let freed = ManuallyDrop::into_inner(FREED.replace(outer));
    if let Some((window, left)) = freed.filter(|(_, left)| code != SUCCESS && !left.is_empty()) {
        keys().insert(window, left);
    }
    code
}

#[unsafe(export_name = "PMPI_Win_set_attr")]
pub(crate) unsafe extern "C" fn set_attr(win: Win, keyval: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them; so in all entry points.
    let code = unsafe { host_Win_set_attr(win, keyval, value) };
    if code == SUCCESS {
        is_set(win, keyval);
    }
    code
}

#[unsafe(export_name = "PMPI_Win_delete_attr")]
pub(crate) unsafe extern "C" fn delete_attr(win: Win, keyval: c_int) -> c_int {
    // SAFETY: as in `set_attr`.
    let code = unsafe { host_Win_delete_attr(win, keyval) };
    if code == SUCCESS {
        is_deleted(win, keyval);
    }
    code
}

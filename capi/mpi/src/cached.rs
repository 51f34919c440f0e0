//! The order of the attributes that a program caches with windows. MPI leaves the order of their
//! deletion by `MPI_Win_free` to the implementation (MPI-4.1 §7.7.1). The newest attribute is
//! deleted first, as with `MPI_COMM_SELF` in `MPI_Finalize` (MPI-4.1 §11.2.4), so that a delete
//! function finds the attributes that were set before its own. Open MPI itself uses this order.
//!
//! The host holds the attributes. This module knows the keys of each window, including those of
//! windows that the host serves.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::{Key, SUCCESS, Win, host_Win_delete_attr, host_Win_set_attr};

/// The keys of each window that has attributes, the newest last.
static KEYS: Mutex<BTreeMap<usize, Vec<c_int>>> = Mutex::new(BTreeMap::new());

/// The lock is not held while the host calls functions of the program.
fn keys() -> MutexGuard<'static, BTreeMap<usize, Vec<c_int>>> {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that an attribute is set. A new value makes it the newest, as a deletion and a setting
/// do (MPI-4.1 §7.7.1).
pub(crate) fn is_set(win: Win, keyval: c_int) {
    let mut all = keys();
    let of_window = all.entry(win.key()).or_default();
    of_window.retain(|&key| key != keyval);
    of_window.push(keyval);
}

/// Records that an attribute is deleted.
fn is_deleted(win: Win, keyval: c_int) {
    let mut all = keys();
    let Some(of_window) = all.get_mut(&win.key()) else { return };
    of_window.retain(|&key| key != keyval);
    if of_window.is_empty() {
        all.remove(&win.key());
    }
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

/// Forgets the attributes of a window that will be freed, and returns their keys.
pub(crate) fn forget(win: Win) -> Vec<c_int> {
    keys().remove(&win.key()).unwrap_or_default()
}

/// Records the attributes of a window that could not be freed.
pub(crate) fn remember(win: Win, attributes: Vec<c_int>) {
    if !attributes.is_empty() {
        keys().insert(win.key(), attributes);
    }
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

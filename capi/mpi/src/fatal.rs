//! The windows on which the program has set `MPI_ERRORS_ARE_FATAL`. MPICH answers
//! `MPI_Win_get_errhandler` with this handler also for windows on which no handler was set, whose
//! errors the handler of `MPI_COMM_WORLD` gets.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::{Errhandler, Key, SUCCESS, Win, constants, host_Win_set_errhandler};

static SET: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn set() -> MutexGuard<'static, BTreeSet<usize>> {
    SET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the program has set the handler on this window.
pub(crate) fn is_set(win: Win) -> bool {
    set().contains(&win.key())
}

/// Forgets a window, before the host may give its handle to another one. Returns whether the
/// program had set the handler.
pub(crate) fn forget(win: Win) -> bool {
    set().remove(&win.key())
}

/// Records that the program has set the handler on a window.
pub(crate) fn remember(win: Win) {
    set().insert(win.key());
}

#[unsafe(export_name = "PMPI_Win_set_errhandler")]
pub(crate) unsafe extern "C" fn set_errhandler(win: Win, handler: Errhandler) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them.
    let code = unsafe { host_Win_set_errhandler(win, handler) };
    if code == SUCCESS {
        if handler == constants().errors_are_fatal {
            remember(win);
        } else {
            forget(win);
        }
    }
    code
}

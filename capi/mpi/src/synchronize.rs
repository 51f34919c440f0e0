//! Synchronization (MPI-4.1 §12.5). Several threads may call on one window at the same time, and a
//! waiting thread does not block the others (MPI-4.1 §11.6.1).

use std::ffi::c_int;

use transom::{Assert, Class, Lock, PROC_NULL, Result};

use crate::errors::{Failure, Outcome, coded};
use crate::host::{
    Group, Win, constants, host_Win_complete, host_Win_fence, host_Win_flush, host_Win_flush_all, host_Win_flush_local,
    host_Win_flush_local_all, host_Win_lock, host_Win_lock_all, host_Win_post, host_Win_start, host_Win_sync,
    host_Win_test, host_Win_unlock, host_Win_unlock_all, host_Win_wait,
};
use crate::polls;
use crate::process;
use crate::windows::{self, Window, coded_at, find};

/// A program's assertions, from the host's bits.
fn assertion(bits: c_int) -> Outcome<Assert> {
    let host = constants();
    let known = [
        (host.nocheck, Assert::NOCHECK),
        (host.nostore, Assert::NOSTORE),
        (host.noput, Assert::NOPUT),
        (host.noprecede, Assert::NOPRECEDE),
        (host.nosucceed, Assert::NOSUCCEED),
    ];
    let mut rest = bits;
    let mut assert = Assert::NONE;
    for (bit, promise) in known {
        if bits & bit != 0 {
            assert = assert | promise;
            rest &= !bit;
        }
    }
    let odd = || Failure::new(Class::Assert, format!("the assertions {bits:#x} have bits that MPI does not define"));
    if rest == 0 { Ok(assert) } else { Err(odd()) }
}

/// Makes a call and raises its failure.
fn reported(window: &Window, call: impl FnOnce() -> Result<()>) -> c_int {
    coded(window.proxy, call().map_err(Failure::from))
}

/// Makes a call on `MPI_PROC_NULL`. A call without effect, such as a second lock, succeeds as it
/// does under MPICH.
fn reported_on_null(window: &Window, call: impl FnOnce() -> Outcome<()>) -> c_int {
    coded_at(window.proxy, constants().proc_null, call())
}

/// [`reported`] for a call with an assertion.
fn with_assertion(window: &Window, bits: c_int, call: impl FnOnce(Assert) -> Result<()>) -> c_int {
    match assertion(bits) {
        Ok(assert) => reported(window, || call(assert)),
        Err(failure) => failure.raise(window.proxy),
    }
}

#[unsafe(export_name = "PMPI_Win_fence")]
pub(crate) unsafe extern "C" fn fence(promise: c_int, win: Win) -> c_int {
    match find(win) {
        Some(window) => {
            process::progress_now_and_then();
            with_assertion(window, promise, |assert| window.raw.fence(assert))
        }
        // SAFETY: the caller's arguments, as MPI defines them; so in all entry points.
        None => unsafe { host_Win_fence(promise, win) },
    }
}

#[unsafe(export_name = "PMPI_Win_post")]
pub(crate) unsafe extern "C" fn post(group: Group, promise: c_int, win: Win) -> c_int {
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_post(group, promise, win) };
    };
    match window.ranks(group) {
        Ok(ranks) => with_assertion(window, promise, |assert| window.raw.post(&ranks, assert)),
        Err(failure) => failure.raise(win),
    }
}

#[unsafe(export_name = "PMPI_Win_start")]
pub(crate) unsafe extern "C" fn start(group: Group, promise: c_int, win: Win) -> c_int {
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_start(group, promise, win) };
    };
    match window.ranks(group) {
        Ok(ranks) => with_assertion(window, promise, |assert| window.raw.start(&ranks, assert)),
        Err(failure) => failure.raise(win),
    }
}

#[unsafe(export_name = "PMPI_Win_complete")]
pub(crate) unsafe extern "C" fn complete(win: Win) -> c_int {
    match find(win) {
        Some(window) => {
            process::progress_now_and_then();
            reported(window, || window.raw.complete())
        }
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_complete(win) },
    }
}

#[unsafe(export_name = "PMPI_Win_wait")]
pub(crate) unsafe extern "C" fn wait(win: Win) -> c_int {
    match find(win) {
        Some(window) => {
            process::progress_now_and_then();
            reported(window, || window.raw.wait())
        }
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_wait(win) },
    }
}

#[unsafe(export_name = "PMPI_Win_test")]
pub(crate) unsafe extern "C" fn test(win: Win, flag: *mut c_int) -> c_int {
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_test(win, flag) };
    };
    if flag.is_null() {
        return Failure::no_room("a flag").raise(win);
    }
    // SAFETY: as in `fence`. Written first, since an error handler may read it.
    unsafe { *flag = 0 };
    let mut done = false;
    let code = reported(window, || window.raw.test().map(|over| done = over));
    // The host makes progress here for a program that only tests (MPI-4.1 §12.7.3).
    process::progress();
    if !done {
        polls::found_nothing();
    }
    // SAFETY: as in `fence`.
    unsafe { *flag = done.into() };
    code
}

#[unsafe(export_name = "PMPI_Win_lock")]
pub(crate) unsafe extern "C" fn lock(kind: c_int, target: c_int, promise: c_int, win: Win) -> c_int {
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_lock(kind, target, promise, win) };
    };
    let kind = match kind {
        _ if kind == constants().lock_exclusive => Lock::Exclusive,
        _ if kind == constants().lock_shared => Lock::Shared,
        _ => {
            return Failure::new(
                Class::LockType,
                format!("the lock type {kind} is neither MPI_LOCK_SHARED nor MPI_LOCK_EXCLUSIVE"),
            )
            .raise(win);
        }
    };
    match windows::target_rank(target) {
        Ok(PROC_NULL) => reported_on_null(window, || Ok(window.raw.lock(kind, PROC_NULL, assertion(promise)?)?)),
        Ok(rank) => with_assertion(window, promise, |assert| window.raw.lock(kind, rank, assert)),
        Err(failure) => failure.raise(win),
    }
}

#[unsafe(export_name = "PMPI_Win_unlock")]
pub(crate) unsafe extern "C" fn unlock(target: c_int, win: Win) -> c_int {
    process::progress_now_and_then();
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_unlock(target, win) };
    };
    match windows::target_rank(target) {
        Ok(PROC_NULL) => reported_on_null(window, || Ok(window.raw.unlock(PROC_NULL)?)),
        Ok(rank) => reported(window, || window.raw.unlock(rank)),
        Err(failure) => failure.raise(win),
    }
}

#[unsafe(export_name = "PMPI_Win_lock_all")]
pub(crate) unsafe extern "C" fn lock_all(promise: c_int, win: Win) -> c_int {
    match find(win) {
        Some(window) => with_assertion(window, promise, |assert| window.raw.lock_all(assert)),
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_lock_all(promise, win) },
    }
}

#[unsafe(export_name = "PMPI_Win_unlock_all")]
pub(crate) unsafe extern "C" fn unlock_all(win: Win) -> c_int {
    process::progress_now_and_then();
    match find(win) {
        Some(window) => reported(window, || window.raw.unlock_all()),
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_unlock_all(win) },
    }
}

#[unsafe(export_name = "PMPI_Win_flush")]
pub(crate) unsafe extern "C" fn flush(target: c_int, win: Win) -> c_int {
    process::progress_now_and_then();
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_flush(target, win) };
    };
    coded_at(win, target, windows::target_rank(target).and_then(|rank| Ok(window.raw.flush(rank)?)))
}

#[unsafe(export_name = "PMPI_Win_flush_all")]
pub(crate) unsafe extern "C" fn flush_all(win: Win) -> c_int {
    process::progress_now_and_then();
    match find(win) {
        Some(window) => coded(win, window.raw.flush_all().map_err(Failure::from)),
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_flush_all(win) },
    }
}

#[unsafe(export_name = "PMPI_Win_flush_local")]
pub(crate) unsafe extern "C" fn flush_local(target: c_int, win: Win) -> c_int {
    process::progress_now_and_then();
    let Some(window) = find(win) else {
        // SAFETY: as in `fence`.
        return unsafe { host_Win_flush_local(target, win) };
    };
    coded_at(win, target, windows::target_rank(target).and_then(|rank| Ok(window.raw.flush_local(rank)?)))
}

#[unsafe(export_name = "PMPI_Win_flush_local_all")]
pub(crate) unsafe extern "C" fn flush_local_all(win: Win) -> c_int {
    process::progress_now_and_then();
    match find(win) {
        Some(window) => coded(win, window.raw.flush_local_all().map_err(Failure::from)),
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_flush_local_all(win) },
    }
}

#[unsafe(export_name = "PMPI_Win_sync")]
pub(crate) unsafe extern "C" fn sync(win: Win) -> c_int {
    process::progress_now_and_then();
    match find(win) {
        Some(window) => reported(window, || {
            window.raw.sync();
            Ok(())
        }),
        // SAFETY: as in `fence`.
        None => unsafe { host_Win_sync(win) },
    }
}

//! Calls on the counters that notified operations raise (the MPI Forum's draft of RMA
//! notification): the number of counters, their values, and requests that wait for a value.
//! `notified` has the operations.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use transom::{Class, Notice, Notices};

use crate::attributes::info_of;
use crate::errors::{Failure, Outcome, coded, notification_class};
use crate::host::{InfoHandle, RequestHandle, Win, constants, host_Win_set_info, host_Win_sync};
use crate::process;
use crate::requests::hand_over;
use crate::windows::{self, Window, find};

/// Reads of a counter between two calls that make progress in the host.
const EVERY: u32 = 64;

/// The counter of an index.
pub(crate) fn notice(index: c_int) -> Outcome<Notice> {
    let refused = |_| Failure::new(Class::RmaNotification, format!("the counter index {index} is negative"));
    usize::try_from(index).map(Notice).map_err(refused)
}

/// Fails on a window that transom does not serve.
#[cold]
pub(crate) fn unserved(win: Win) -> c_int {
    if win == constants().null_win {
        // SAFETY: the host refuses the handle as it refuses it everywhere.
        return unsafe { host_Win_sync(win) };
    }
    let why = "the window has no counters: the MPI itself serves it, which has no notified operations";
    Failure::new(Class::RmaNotification, why).raise(win)
}

/// [`unserved`] of a call that gives a request.
///
/// # Safety
/// There is room for a handle, or `out` is null.
#[cold]
pub(crate) unsafe fn unserved_request(win: Win, out: *mut RequestHandle) -> c_int {
    if !out.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *out = constants().null_request };
    }
    unserved(win)
}

/// Performs a call on a window that transom serves.
fn on(win: Win, work: impl FnOnce(&Window) -> Outcome<()>) -> c_int {
    match find(win) {
        Some(window) => coded(win, work(window)),
        None => unserved(win),
    }
}

/// The value of `MPI_ERR_RMA_NOTIFICATION` in `transom_mpi_notify.h`.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_mpi_err_rma_notification() -> c_int {
    notification_class()
}

#[unsafe(export_name = "PMPI_Win_set_num_notify")]
pub(crate) unsafe extern "C" fn set_num(win: Win, info: InfoHandle, number: c_int) -> c_int {
    let Some(window) = find(win) else { return unserved(win) };
    let hints = match info_of(info) {
        Ok(hints) => hints,
        Err(none) => {
            // Collective: the others learn of it as of a number that is too large. The call also
            // reports operations that have failed.
            match window.raw.set_num_notify(usize::MAX) {
                Err(failed) if failed.class() != Class::Arg => return Failure::from(failed).raise(win),
                _ => {}
            }
            // SAFETY: the host refuses the info as it refuses it everywhere.
            return none.code(|| unsafe { host_Win_set_info(win, info) });
        }
    };
    on(win, |window| {
        // A negative number is an error at all ranks too.
        let done = window.raw.set_num_notify(usize::try_from(number).unwrap_or(usize::MAX));
        if number < 0 && done.is_err() {
            return Err(Failure::new(
                Class::Arg,
                format!("set_num_notify: the number of counters {number} is negative"),
            ));
        }
        done?;
        Ok(window.raw.set_info(&hints)?)
    })
}

#[unsafe(export_name = "PMPI_Win_get_num_notify")]
pub(crate) unsafe extern "C" fn get_num(win: Win, target: c_int, number: *mut c_int) -> c_int {
    on(win, |window| {
        if number.is_null() {
            return Err(Failure::no_room("the number of counters"));
        }
        let counters = window.raw.num_notify(windows::target_rank(target)?)?;
        // SAFETY: the caller has room for a number.
        unsafe { *number = c_int::try_from(counters).unwrap_or(c_int::MAX) };
        Ok(())
    })
}

/// Reads a counter of this rank by `read`. Programs poll by such calls, so some of them make
/// progress in the host.
///
/// # Safety
/// There is room for the value.
unsafe fn read(
    win: Win,
    index: c_int,
    value: *mut i64,
    read: impl FnOnce(Notices<'_>, usize) -> transom::Result<u64>,
) -> c_int {
    static POLLS: AtomicU32 = AtomicU32::new(0);
    on(win, |window| {
        if value.is_null() {
            return Err(Failure::no_room("the value of a counter"));
        }
        let found = read(window.raw.notices(), notice(index)?.0)?;
        // SAFETY: the caller's promise.
        unsafe { *value = i64::try_from(found).unwrap_or(i64::MAX) };
        // Relaxed: the count orders no other access.
        if POLLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            process::progress();
        }
        Ok(())
    })
}

#[unsafe(export_name = "PMPI_Win_get_notify_value")]
pub(crate) unsafe extern "C" fn get_value(win: Win, index: c_int, value: *mut i64) -> c_int {
    // SAFETY: the caller's arguments, as the draft defines them; so below.
    unsafe { read(win, index, value, |notices, index| notices.value(index)) }
}

#[unsafe(export_name = "PMPI_Win_reset_notify_value")]
pub(crate) unsafe extern "C" fn reset_value(win: Win, index: c_int, value: *mut i64) -> c_int {
    // SAFETY: as in `get_value`.
    unsafe { read(win, index, value, |notices, index| notices.reset(index)) }
}

#[unsafe(export_name = "PMPI_Win_notify_threshold")]
pub(crate) unsafe extern "C" fn threshold(win: Win, index: c_int, value: i64, out: *mut RequestHandle) -> c_int {
    // SAFETY: the caller's promise.
    let Some(window) = find(win) else { return unsafe { unserved_request(win, out) } };
    // A counter has reached every negative value.
    let value = u64::try_from(value).unwrap_or(0);
    hand_over((win, 0), out, || Ok(window.raw.notices().request(notice(index)?.0, value)?))
}

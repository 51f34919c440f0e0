//! Progress for windows that outlive `MPI_Finalize`: those over communicators of a session (MPI-4.1
//! §11.3). `MPI_Finalize` ends the job, and with it the library's communicator. The job's progress
//! threads serve other ranks until the process exits. A wait of this library tests a pending
//! request of the host, because the host makes progress in the test.

use std::sync::{Mutex, OnceLock, PoisonError};

use transom::Job;

use crate::host::{
    RequestHandle, SUCCESS, constants, host_Grequest_complete, host_Test, host_Wait, host_at_exit, host_pending_request,
};

/// The job of the windows, and the process that it served first.
static JOB: OnceLock<(Job, u32)> = OnceLock::new();
/// The pending request, which the first wait makes.
static PENDING: Mutex<Option<RequestHandle>> = Mutex::new(None);

/// Has the windows of `job` outlive it. Called before this rank leaves the job.
pub(crate) fn begin(job: &Job) {
    if JOB.set((job.clone(), std::process::id())).is_ok() {
        job.serve_on();
        // SAFETY: the function lives as long as the process.
        unsafe { host_at_exit(at_exit) };
    }
}

/// Ends the progress threads before the destructors of the net's libraries run. A child of `fork`
/// that exits has no such threads.
extern "C" fn at_exit() {
    if let Some((job, _)) = JOB.get().filter(|(_, served)| *served == std::process::id()) {
        job.stop_serving();
    }
}

/// The job, if its windows outlive it.
pub(crate) fn job() -> Option<&'static Job> {
    JOB.get().map(|(job, _)| job)
}

/// Makes progress in the host.
pub(crate) fn progress() {
    if job().is_none() {
        return;
    }
    // Otherwise another thread makes progress.
    let Ok(mut pending) = PENDING.try_lock() else { return };
    let request = pending.get_or_insert_with(|| constants().null_request);
    // SAFETY: the calls write a handle and a number. The session of the windows keeps the host
    // alive.
    unsafe {
        if *request != constants().null_request || host_pending_request(request) == SUCCESS {
            host_Test(request, &mut 0, constants().status_ignore);
        }
    }
}

/// Frees the pending request, because the last window is freed.
pub(crate) fn end() {
    let Some(mut request) = PENDING.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    if request != constants().null_request {
        // SAFETY: the request is this module's own, and pending. The caller was in a call on a
        // window, whose session keeps the host alive.
        unsafe {
            host_Grequest_complete(request);
            host_Wait(&raw mut request, constants().status_ignore);
        }
    }
}

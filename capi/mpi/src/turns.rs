//! Waits *in turns* of the host's blocking calls. If the program waits in turns (see [`polls`]), a
//! blocking call begins as a nonblocking call of the host, and the wait for its request alternates
//! tests of the host with polls of transom. This module has `MPI_Barrier`, `MPI_Recv` and the
//! functions for `host/edges.c`, which has the other calls.

use std::ffi::{c_int, c_void};

use transom::backoff::Vain;

use crate::host::{
    Comm, REPORTED, RequestHandle, SUCCESS, Type, constants, host_Barrier, host_Ibarrier, host_Iprobe, host_Irecv,
    host_Recv,
};
use crate::messages::Watch;
#[cfg(tests_report_to_world)]
use crate::polls::Found;
use crate::requests::await_one;
#[cfg(tests_report_to_world)]
use crate::requests::wait_by;
use crate::{edges, members, polls};

#[unsafe(export_name = "PMPI_Barrier")]
pub(crate) unsafe extern "C" fn barrier(comm: Comm) -> c_int {
    // SAFETY: the caller's arguments, as MPI has them; so in all entry points.
    edges::around_barrier(comm, || unsafe {
        match wait_collectively_in_turns(comm) {
            Ok(true) => {}
            Ok(false) => return host_Barrier(comm),
            Err(code) => return code,
        }
        let mut request = constants().null_request;
        match host_Ibarrier(comm, &raw mut request) {
            SUCCESS => transom_turns_await(&raw mut request, constants().status_ignore),
            code => code,
        }
    })
}

/// Whether a collective call on a communicator waits in turns. The answer is equal at all ranks of
/// the communicator, because nonblocking collective calls do not match blocking ones (MPI-4.1
/// §6.12); processes of other jobs may not wait in turns. The error is the code with which the host
/// has reported a handle that is no communicator.
fn wait_collectively_in_turns(comm: Comm) -> Result<bool, c_int> {
    if polls::waits_in_turns() { members::are_of_world(comm) } else { Ok(false) }
}

/// Whether a collective call waits in turns, for `host/edges.c`. If the host has reported the
/// handle, `code` gets the code that the host has returned, which may be `MPI_SUCCESS`.
///
/// # Safety
/// There is room for the code.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_turns_for_collective(comm: Comm, code: *mut c_int) -> c_int {
    let answer = wait_collectively_in_turns(comm);
    if let Err(reported) = answer {
        // SAFETY: the caller's promise.
        unsafe { *code = reported };
    }
    c_int::from(answer == Ok(true))
}

/// Whether a call for one message waits in turns.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_turns_for_message() -> c_int {
    c_int::from(polls::waits_in_turns())
}

/// Waits for a request of the host in turns.
///
/// # Safety
/// The arguments are those of `MPI_Wait`.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_turns_await(request: *mut RequestHandle, status: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { await_one(&Watch::nothing(), request, status) }
}

/// Polls transom before a test of the host in a wait, and pauses. `vain`: at first 0. Returns
/// whether the wait continues in turns.
///
/// # Safety
/// The count is the caller's.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_turns_next(vain: *mut Vain) -> c_int {
    let Some(arrived) = polls::turn(false) else { return 0 };
    // SAFETY: the caller's promise.
    polls::pause_after(unsafe { &mut *vain }.looked(arrived));
    1
}

/// Called after a test of the program for a message that has found none.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_turns_found_nothing() {
    polls::found_nothing();
}

#[unsafe(export_name = "PMPI_Recv")]
pub(crate) unsafe extern "C" fn receive(
    buffer: *mut c_void,
    count: c_int,
    kind: Type,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `barrier`.
    unsafe {
        // Under the conflict checker this call does not wait in turns.
        if let Some(code) = edges::receive(buffer, count, kind, (source, tag), comm, status) {
            return code;
        }
        if !polls::waits_in_turns() {
            return host_Recv(buffer, count, kind, source, tag, comm, status);
        }
        transom_turns_receive(buffer, count, kind, source, tag, comm, status)
    }
}

/// Makes the host check the arguments of a receive except the source, by a receive from
/// `MPI_PROC_NULL`. The error is the code with which the host has reported an argument; MPICH 5
/// returns `MPI_SUCCESS` if the error handler returns.
///
/// # Safety
/// The arguments are those of `MPI_Recv`.
unsafe fn receive_checks(buffer: *mut c_void, count: c_int, kind: Type, tag: c_int, comm: Comm) -> Result<(), c_int> {
    let mut request = constants().null_request;
    // SAFETY: the caller's promise. The request is complete from the start.
    let code = unsafe {
        match host_Irecv(buffer, count, kind, constants().proc_null, tag, comm, &raw mut request) {
            // A receive that failed has no request.
            SUCCESS if request == constants().null_request => return Err(SUCCESS),
            SUCCESS => transom_turns_await(&raw mut request, constants().status_ignore),
            code => code,
        }
    };
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

/// Makes the host check all arguments of a receive, for `host/edges.c`: `MPI_Sendrecv` must not
/// send if they are invalid. Returns whether they are valid; otherwise `reported` gets the code
/// with which the host has reported them.
///
/// # Safety
/// The arguments are those of `MPI_Recv`, and there is room for the code.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_turns_check(
    buffer: *mut c_void,
    count: c_int,
    kind: Type,
    source: c_int,
    tag: c_int,
    comm: Comm,
    reported: *mut c_int,
) -> c_int {
    let mut found = REPORTED;
    // SAFETY: the caller's promise.
    unsafe {
        let code = match receive_checks(buffer, count, kind, tag, comm) {
            Ok(()) => host_Iprobe(source, tag, comm, &raw mut found, constants().status_ignore),
            Err(code) => code,
        };
        *reported = code;
        c_int::from(code == SUCCESS && found != REPORTED)
    }
}

/// Receives a message, in turns.
///
/// # Safety
/// The arguments are those of `MPI_Recv`.
// SAFETY: no other function has this name.
#[cfg(not(tests_report_to_world))]
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_turns_receive(
    buffer: *mut c_void,
    count: c_int,
    kind: Type,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let mut request = constants().null_request;
        match host_Irecv(buffer, count, kind, source, tag, comm, &raw mut request) {
            SUCCESS => transom_turns_await(&raw mut request, status),
            code => code,
        }
    }
}

/// Receives a message: probes in turns until it has arrived, then receives it by the host's
/// blocking call, so that errors go to the communicator's handler. If another thread receives the
/// message first, the host's call waits without polls of transom.
///
/// # Safety
/// The arguments are those of `MPI_Recv`.
// SAFETY: no other function has this name.
#[cfg(tests_report_to_world)]
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_turns_receive(
    buffer: *mut c_void,
    count: c_int,
    kind: Type,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut c_void,
) -> c_int {
    let mut found = 0;
    // SAFETY: the caller's promise.
    unsafe {
        if let Err(code) = receive_checks(buffer, count, kind, tag, comm) {
            return code;
        }
        let test = || {
            found = REPORTED;
            let code = host_Iprobe(source, tag, comm, &raw mut found, constants().status_ignore);
            (code, Found::end_if(found != 0))
        };
        match wait_by(&Watch::nothing(), || SUCCESS, test) {
            SUCCESS if found != REPORTED => host_Recv(buffer, count, kind, source, tag, comm, status),
            code => code,
        }
    }
}

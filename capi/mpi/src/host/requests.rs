//! The host's requests, and the messages and barriers that wait as requests do.

use std::ffi::{c_int, c_void};

#[cfg(all(large_counts, not(open_mpi)))]
use super::InfoHandle;
use super::{Comm, RequestHandle, Type};

/// The value of a flag that a test of the host has not set, because the host has reported an error.
/// The test may return `MPI_SUCCESS` if the error handler returns: MPICH 5 does, and MPICH 4 does
/// after a handler of its C++ interface.
pub(crate) const REPORTED: c_int = -1;

/// The state of a request after a call that waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(dead_code, reason = "C makes the values")]
pub(crate) enum State {
    /// Complete. If the request is a receive, it has taken its message, which may be too long for
    /// its buffer.
    Complete,
    Pending,
    /// Complete with an error. A message may not have been sent or received.
    Failed,
}

/// The requests that a wait for all has tested, as in host/waits.c.
#[repr(C)]
pub(crate) struct Tested {
    /// A byte for each request: whether it is complete. Null before the first test.
    done: *mut u8,
    /// The number of pending requests.
    left: c_int,
    next: c_int,
}

impl Tested {
    /// `count` requests, none of which was tested.
    pub(crate) fn none(count: c_int) -> Tested {
        Tested { done: std::ptr::null_mut(), left: count, next: 0 }
    }

    /// The number of pending requests.
    pub(crate) fn left(&self) -> c_int {
        self.left
    }

    /// Gives room for a byte for each request before the first test. `room` outlives the tests.
    pub(crate) fn with_room(&mut self, room: &mut Vec<u8>) -> &mut Tested {
        if self.done.is_null() {
            room.resize(usize::try_from(self.left).unwrap_or(0), 0);
            self.done = room.as_mut_ptr();
        }
        self
    }
}

#[allow(non_snake_case)]
// SAFETY: the declarations are those of host/host.c, host/messages.c, host/waits.c and
// host/calls.h; the latter are those of mpi.h.
unsafe extern "C" {
    pub(crate) fn host_complete_request(comm: Comm, out: *mut RequestHandle) -> c_int;
    pub(crate) fn host_request(kept: *mut c_void, out: *mut RequestHandle) -> c_int;
    pub(crate) fn host_pending_request(out: *mut RequestHandle) -> c_int;
    pub(crate) fn host_status_size() -> usize;
    pub(crate) fn host_status_error(statuses: *mut c_void, index: c_int, code: c_int);
    pub(crate) fn host_status_of(statuses: *mut c_void, index: c_int, source: *mut c_int, tag: *mut c_int) -> c_int;
    pub(crate) fn host_status_state(statuses: *mut c_void, index: c_int, code: c_int) -> State;
    pub(crate) fn host_status_is_cancelled(statuses: *mut c_void, index: c_int) -> c_int;
    pub(crate) fn host_Barrier(comm: Comm) -> c_int;
    pub(crate) fn host_Ibarrier(comm: Comm, q: *mut RequestHandle) -> c_int;
    pub(crate) fn host_Recv(
        b: *mut c_void,
        n: c_int,
        t: Type,
        r: c_int,
        tag: c_int,
        comm: Comm,
        s: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Irecv(
        b: *mut c_void,
        n: c_int,
        t: Type,
        r: c_int,
        tag: c_int,
        comm: Comm,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Iprobe(r: c_int, tag: c_int, comm: Comm, flag: *mut c_int, s: *mut c_void) -> c_int;
    #[cfg(all(large_counts, not(open_mpi)))]
    pub(crate) fn host_Psend_init(
        b: *const c_void,
        parts: c_int,
        n: i64,
        t: Type,
        rank: c_int,
        tag: c_int,
        comm: Comm,
        info: InfoHandle,
        q: *mut RequestHandle,
    ) -> c_int;
    #[cfg(all(large_counts, not(open_mpi)))]
    pub(crate) fn host_Precv_init(
        b: *mut c_void,
        parts: c_int,
        n: i64,
        t: Type,
        rank: c_int,
        tag: c_int,
        comm: Comm,
        info: InfoHandle,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Grequest_complete(request: RequestHandle) -> c_int;
    pub(crate) fn host_Wait(q: *mut RequestHandle, s: *mut c_void) -> c_int;
    pub(crate) fn host_Test(q: *mut RequestHandle, flag: *mut c_int, s: *mut c_void) -> c_int;
    pub(crate) fn host_Waitall(n: c_int, q: *mut RequestHandle, s: *mut c_void) -> c_int;
    pub(crate) fn host_Testall(n: c_int, q: *mut RequestHandle, flag: *mut c_int, s: *mut c_void) -> c_int;
    /// Tests the requests until it meets a pending one, or one that failed. `flag`: whether all are
    /// complete.
    pub(crate) fn host_test_in_turn(
        n: c_int,
        q: *mut RequestHandle,
        flag: *mut c_int,
        s: *mut c_void,
        tested: *mut Tested,
    ) -> c_int;
    /// Waits for the requests that are pending.
    pub(crate) fn host_wait_for_rest(n: c_int, q: *mut RequestHandle, s: *mut c_void, tested: *const Tested) -> c_int;
    pub(crate) fn host_Waitany(n: c_int, q: *mut RequestHandle, index: *mut c_int, s: *mut c_void) -> c_int;
    pub(crate) fn host_Testany(
        n: c_int,
        q: *mut RequestHandle,
        index: *mut c_int,
        flag: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Waitsome(
        n: c_int,
        q: *mut RequestHandle,
        done: *mut c_int,
        indices: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Testsome(
        n: c_int,
        q: *mut RequestHandle,
        done: *mut c_int,
        indices: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Request_get_status(q: RequestHandle, flag: *mut c_int, s: *mut c_void) -> c_int;
    #[cfg(has_is_complete)]
    pub(crate) fn host_is_complete(q: RequestHandle) -> c_int;
    #[cfg(has_status_of_several)]
    pub(crate) fn host_Request_get_status_all(
        n: c_int,
        q: *const RequestHandle,
        flag: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    #[cfg(has_status_of_several)]
    pub(crate) fn host_Request_get_status_any(
        n: c_int,
        q: *const RequestHandle,
        index: *mut c_int,
        flag: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    #[cfg(has_status_of_several)]
    pub(crate) fn host_Request_get_status_some(
        n: c_int,
        q: *const RequestHandle,
        done: *mut c_int,
        indices: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
}

//! The host's windows. `forms` declares the functions that exist with large counts too.

use std::ffi::{c_int, c_void};

use super::{Comm, Errhandler, Group, InfoHandle, OpHandle, Type, Win};

#[allow(non_snake_case)]
// SAFETY: the declarations are those of host/host.c and host/calls.h; the latter are those of
// mpi.h.
unsafe extern "C" {
    #[cfg(not(int_handles))]
    pub(crate) fn host_win_of(win: c_int) -> Win;
    #[cfg(not(int_handles))]
    pub(crate) fn host_fortran_attribute(
        win: *mut c_int,
        keyval: *mut c_int,
        value: *mut isize,
        flag: *mut c_int,
        error: *mut c_int,
    );
    #[cfg(int_handles)]
    pub(crate) fn host_fortran_attribute(
        win: Win,
        keyval: c_int,
        value: *mut c_void,
        flag: *mut c_int,
        kind: c_int,
    ) -> c_int;
    #[cfg(int_handles)]
    pub(crate) fn host_fortran_set(win: Win, keyval: c_int, value: *mut c_void, kind: c_int) -> c_int;
    #[cfg(not(any(int_handles, open_mpi)))]
    pub(crate) fn host_fortran_set(win: *mut c_int, keyval: *mut c_int, value: *mut isize, error: *mut c_int);
    #[cfg(not(open_mpi))]
    pub(crate) fn host_Win_set_attr(win: Win, keyval: c_int, value: *mut c_void) -> c_int;
    #[cfg(not(open_mpi))]
    pub(crate) fn host_Win_delete_attr(win: Win, keyval: c_int) -> c_int;
    pub(crate) fn host_Win_allocate_shared(
        size: isize,
        unit: c_int,
        info: InfoHandle,
        comm: Comm,
        base: *mut c_void,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_allocate(
        size: isize,
        unit: c_int,
        info: InfoHandle,
        comm: Comm,
        base: *mut c_void,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_create(
        base: *mut c_void,
        size: isize,
        unit: c_int,
        info: InfoHandle,
        comm: Comm,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_create_dynamic(info: InfoHandle, comm: Comm, win: *mut Win) -> c_int;
    pub(crate) fn host_Win_free(win: *mut Win) -> c_int;
    pub(crate) fn host_Win_attach(win: Win, base: *mut c_void, size: isize) -> c_int;
    pub(crate) fn host_Win_detach(win: Win, base: *const c_void) -> c_int;
    pub(crate) fn host_Win_get_attr(win: Win, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int;
    pub(crate) fn host_Win_get_group(win: Win, group: *mut Group) -> c_int;
    pub(crate) fn host_Win_set_info(win: Win, info: InfoHandle) -> c_int;
    pub(crate) fn host_Win_get_info(win: Win, info: *mut InfoHandle) -> c_int;
    pub(crate) fn host_Win_call_errhandler(win: Win, code: c_int) -> c_int;
    pub(crate) fn host_Win_get_errhandler(win: Win, out: *mut Errhandler) -> c_int;
    pub(crate) fn host_Win_set_errhandler(win: Win, handler: Errhandler) -> c_int;
    pub(crate) fn host_Win_lock(kind: c_int, rank: c_int, promise: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_lock_all(promise: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_unlock(rank: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_unlock_all(win: Win) -> c_int;
    pub(crate) fn host_Win_flush(rank: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_flush_all(win: Win) -> c_int;
    pub(crate) fn host_Win_flush_local(rank: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_flush_local_all(win: Win) -> c_int;
    pub(crate) fn host_Win_sync(win: Win) -> c_int;
    pub(crate) fn host_Win_fence(promise: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_post(group: Group, promise: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_start(group: Group, promise: c_int, win: Win) -> c_int;
    pub(crate) fn host_Win_complete(win: Win) -> c_int;
    pub(crate) fn host_Win_wait(win: Win) -> c_int;
    pub(crate) fn host_Win_test(win: Win, flag: *mut c_int) -> c_int;
    pub(crate) fn host_Fetch_and_op(
        o: *const c_void,
        p: *mut c_void,
        t: Type,
        r: c_int,
        d: isize,
        op: OpHandle,
        w: Win,
    ) -> c_int;
    pub(crate) fn host_Compare_and_swap(
        o: *const c_void,
        c: *const c_void,
        p: *mut c_void,
        t: Type,
        r: c_int,
        d: isize,
        w: Win,
    ) -> c_int;
}

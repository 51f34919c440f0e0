//! The host's start and end, its communicators and groups, and the remaining topics: progress,
//! error codes, hints, memory.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};

use super::{Comm, Errhandler, Group, InfoHandle};

#[allow(non_snake_case)]
// SAFETY: the declarations are those of host/host.c, host/names.c and host/calls.h; the latter are
// those of mpi.h.
unsafe extern "C" {
    pub(crate) fn host_present() -> c_int;
    pub(crate) fn host_at_build() -> *const c_char;
    pub(crate) fn host_name(text: *mut c_char);
    pub(crate) fn host_defines(name: *const c_char) -> *mut c_void;
    pub(crate) fn host_tool(name: *const c_char) -> *mut c_void;
    pub(crate) fn host_broadcast_number(comm: Comm, number: *mut c_ulonglong) -> c_int;
    pub(crate) fn host_gather_lengths(comm: Comm, mine: c_int, all: *mut c_int) -> c_int;
    pub(crate) fn host_gather_bytes(
        comm: Comm,
        mine: *const c_void,
        count: c_int,
        all: *mut c_void,
        counts: *const c_int,
        places: *const c_int,
    ) -> c_int;
    pub(crate) fn host_progress(comm: Comm);
    pub(crate) fn host_has_opencoarrays() -> c_int;
    pub(crate) fn host_register_poll(poll: extern "C" fn() -> c_int) -> c_int;
    pub(crate) fn host_unregister_poll(poll: extern "C" fn() -> c_int);
    pub(crate) fn host_split_machine(comm: Comm, key: c_int, out: *mut Comm) -> c_int;
    pub(crate) fn host_comm_keyval(keyval: *mut c_int) -> c_int;
    pub(crate) fn host_call_at_end() -> c_int;
    pub(crate) fn host_at_exit(stop: extern "C" fn());
    pub(crate) fn host_fail_exit();
    pub(crate) fn host_info_get(
        info: InfoHandle,
        key: *const c_char,
        length: c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int;
    pub(crate) fn host_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    pub(crate) fn host_Init_thread(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    pub(crate) fn host_Finalize() -> c_int;
    pub(crate) fn host_ends_with_barrier() -> c_int;
    pub(crate) fn host_Query_thread(provided: *mut c_int) -> c_int;
    pub(crate) fn host_Abort(comm: Comm, code: c_int) -> c_int;
    pub(crate) fn host_Comm_dup(comm: Comm, out: *mut Comm) -> c_int;
    pub(crate) fn host_Comm_free(comm: *mut Comm) -> c_int;
    pub(crate) fn host_Comm_rank(comm: Comm, rank: *mut c_int) -> c_int;
    pub(crate) fn host_Comm_size(comm: Comm, size: *mut c_int) -> c_int;
    pub(crate) fn host_Comm_group(comm: Comm, group: *mut Group) -> c_int;
    pub(crate) fn host_Comm_test_inter(comm: Comm, flag: *mut c_int) -> c_int;
    pub(crate) fn host_Comm_call_errhandler(comm: Comm, code: c_int) -> c_int;
    pub(crate) fn host_Comm_get_errhandler(comm: Comm, out: *mut Errhandler) -> c_int;
    pub(crate) fn host_Comm_set_errhandler(comm: Comm, handler: Errhandler) -> c_int;
    pub(crate) fn host_Comm_free_keyval(keyval: *mut c_int) -> c_int;
    pub(crate) fn host_Comm_set_attr(comm: Comm, keyval: c_int, value: *mut c_void) -> c_int;
    pub(crate) fn host_Comm_get_attr(comm: Comm, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int;
    pub(crate) fn host_Group_size(group: Group, size: *mut c_int) -> c_int;
    pub(crate) fn host_Group_free(group: *mut Group) -> c_int;
    pub(crate) fn host_Group_translate_ranks(
        from: Group,
        n: c_int,
        ranks: *const c_int,
        to: Group,
        out: *mut c_int,
    ) -> c_int;
    pub(crate) fn host_Alloc_mem(size: isize, info: InfoHandle, base: *mut c_void) -> c_int;
    pub(crate) fn host_Free_mem(base: *mut c_void) -> c_int;
    pub(crate) fn host_Errhandler_free(out: *mut Errhandler) -> c_int;
    #[cfg(not(open_mpi))]
    pub(crate) fn host_Info_create(out: *mut InfoHandle) -> c_int;
    #[cfg(not(open_mpi))]
    pub(crate) fn host_Info_free(out: *mut InfoHandle) -> c_int;
    pub(crate) fn host_Info_set(info: InfoHandle, key: *const c_char, value: *const c_char) -> c_int;
    pub(crate) fn host_Info_get_nkeys(info: InfoHandle, n: *mut c_int) -> c_int;
    pub(crate) fn host_Info_get_nthkey(info: InfoHandle, n: c_int, key: *mut c_char) -> c_int;
    pub(crate) fn host_Info_get_valuelen(
        info: InfoHandle,
        key: *const c_char,
        length: *mut c_int,
        flag: *mut c_int,
    ) -> c_int;
    pub(crate) fn host_Add_error_class(class: *mut c_int) -> c_int;
    pub(crate) fn host_Add_error_code(class: c_int, code: *mut c_int) -> c_int;
    pub(crate) fn host_Add_error_string(code: c_int, text: *const c_char) -> c_int;
}

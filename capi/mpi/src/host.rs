//! The host MPI: its handles, constants and functions, as `host/host.c` provides them. Knows
//! nothing of transom.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};
use std::sync::OnceLock;

/// The host's representation of a handle.
#[cfg(int_handles)]
type Word = c_int;
#[cfg(not(int_handles))]
type Word = *mut c_void;

/// A handle as a number that identifies it; never 0.
pub(crate) trait Key: Copy {
    fn key(self) -> usize;
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(Word);

        impl Key for $name {
            #[cfg(int_handles)]
            #[inline]
            fn key(self) -> usize {
                // Handles of other processes do not occur here, so 32 bits suffice.
                self.0.cast_unsigned() as usize
            }

            #[cfg(not(int_handles))]
            #[inline]
            fn key(self) -> usize {
                self.0.addr()
            }
        }
    )*};
}

handles! {
    /// `MPI_Comm`.
    Comm
    /// `MPI_Datatype`.
    Type
    /// `MPI_Errhandler`.
    Errhandler
    /// `MPI_Group`.
    Group
    /// `MPI_Info`.
    InfoHandle
    /// `MPI_Op`.
    OpHandle
    /// `MPI_Request`.
    RequestHandle
    /// `MPI_Win`.
    Win
}

// SAFETY: a handle is a number, or an address that only the host dereferences.
unsafe impl Send for RequestHandle {}
// SAFETY: as above.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}
// SAFETY: as above.
unsafe impl Send for Group {}
// SAFETY: as above.
unsafe impl Sync for Group {}

/// `MPI_SUCCESS` (MPI-4.1 §9.4).
pub(crate) const SUCCESS: c_int = 0;

/// The host's constants (`struct constants` in host/host.h).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Constants {
    pub(crate) world: Comm,
    pub(crate) alone: Comm,
    pub(crate) null_comm: Comm,
    pub(crate) null_type: Type,
    pub(crate) null_info: InfoHandle,
    pub(crate) null_request: RequestHandle,
    /// `MPI_STATUS_IGNORE`.
    pub(crate) ignored: *mut c_void,
    pub(crate) null_win: Win,
    pub(crate) fatal: Errhandler,
    pub(crate) abort: Errhandler,
    pub(crate) ops: [OpHandle; 14],
    pub(crate) classes: [c_int; 19],
    pub(crate) undefined: c_int,
    pub(crate) proc_null: c_int,
    pub(crate) thread_multiple: c_int,
    pub(crate) lock_exclusive: c_int,
    pub(crate) lock_shared: c_int,
    pub(crate) nocheck: c_int,
    pub(crate) nostore: c_int,
    pub(crate) noput: c_int,
    pub(crate) noprecede: c_int,
    pub(crate) nosucceed: c_int,
    pub(crate) win_base: c_int,
    pub(crate) win_size: c_int,
    pub(crate) win_disp_unit: c_int,
    pub(crate) win_create_flavor: c_int,
    pub(crate) win_model: c_int,
    pub(crate) flavor_create: c_int,
    pub(crate) flavor_allocate: c_int,
    pub(crate) flavor_dynamic: c_int,
    pub(crate) flavor_shared: c_int,
    pub(crate) separate: c_int,
    pub(crate) unified: c_int,
    pub(crate) max_info_key: c_int,
}

/// A predefined datatype (`struct predefined` in host/host.h).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Predefined {
    pub(crate) ty: Type,
    pub(crate) kind: c_int,
    pub(crate) ops: u32,
}

/// The constructor of a datatype, and the sizes of its contents (`struct envelope` in host/host.h).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Envelope {
    pub(crate) numbers: i64,
    pub(crate) addresses: i64,
    pub(crate) large: i64,
    pub(crate) types: i64,
    pub(crate) combiner: c_int,
}

// SAFETY: handles in it are numbers, or addresses that only the host dereferences.
unsafe impl Send for Constants {}
// SAFETY: as above.
unsafe impl Sync for Constants {}

/// The host's constants. First read after the host is loaded, since some are found by name at run
/// time.
pub(crate) fn constants() -> &'static Constants {
    static CONSTANTS: OnceLock<Constants> = OnceLock::new();
    CONSTANTS.get_or_init(|| {
        // SAFETY: the call takes nothing.
        let bytes = unsafe { host_constants_bytes() };
        assert_eq!(bytes, size_of::<Constants>(), "host.h and host.rs differ");
        let mut constants = std::mem::MaybeUninit::uninit();
        // SAFETY: the call fills all of a structure of this layout.
        unsafe {
            host_constants(constants.as_mut_ptr());
            constants.assume_init()
        }
    })
}

// Functions of the host in MPI's form (host/calls.h), and functions that combine several
// (host/host.c).
#[allow(non_snake_case)]
// SAFETY: the declarations are those of host/host.c and host/calls.h; the latter are those of
// mpi.h.
unsafe extern "C" {
    pub(crate) fn host_present() -> c_int;
    pub(crate) fn host_tool(name: *const c_char) -> *mut c_void;
    fn host_constants_bytes() -> usize;
    fn host_constants(out: *mut Constants);
    pub(crate) fn host_predefined(out: *mut Predefined, most: c_int) -> c_int;
    pub(crate) fn host_told(comm: Comm, number: *mut c_ulonglong) -> c_int;
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
    pub(crate) fn host_reads_early() -> c_int;
    pub(crate) fn host_poll_with(poll: extern "C" fn() -> c_int) -> c_int;
    pub(crate) fn host_poll_without(poll: extern "C" fn() -> c_int);
    pub(crate) fn host_split_machine(comm: Comm, key: c_int, out: *mut Comm) -> c_int;
    pub(crate) fn host_type_keyval(keyval: *mut c_int) -> c_int;
    pub(crate) fn host_comm_keyval(keyval: *mut c_int) -> c_int;
    pub(crate) fn host_call_at_end() -> c_int;
    pub(crate) fn host_envelope(ty: Type, out: *mut Envelope) -> c_int;
    pub(crate) fn host_contents(
        ty: Type,
        sizes: *const Envelope,
        numbers: *mut c_int,
        addresses: *mut isize,
        large: *mut i64,
        types: *mut Type,
    ) -> c_int;
    pub(crate) fn host_is_fortran_order(order: c_int) -> c_int;
    pub(crate) fn host_distribution(distribution: c_int, argument: c_int, block: *mut c_int) -> c_int;
    pub(crate) fn host_has_foreign(ty: c_int) -> c_int;
    pub(crate) fn host_combine(ty: c_int, op: c_int, target: *mut c_void, operand: *const c_void);
    pub(crate) fn host_measure(ty: Type, size: *mut isize, lb: *mut isize, extent: *mut isize) -> c_int;
    pub(crate) fn host_complete_request(comm: Comm, out: *mut RequestHandle) -> c_int;
    pub(crate) fn host_request(kept: *mut c_void, out: *mut RequestHandle) -> c_int;
    pub(crate) fn host_info_get(
        info: InfoHandle,
        key: *const c_char,
        length: c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int;
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

    pub(crate) fn host_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    pub(crate) fn host_Init_thread(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    pub(crate) fn host_Finalize() -> c_int;
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
    pub(crate) fn host_Comm_set_attr(comm: Comm, keyval: c_int, value: *mut c_void) -> c_int;
    pub(crate) fn host_Comm_get_attr(comm: Comm, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int;
    pub(crate) fn host_Group_excl(group: Group, n: c_int, ranks: *const c_int, out: *mut Group) -> c_int;
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
    pub(crate) fn host_Win_create(
        base: *mut c_void,
        size: isize,
        unit: c_int,
        info: InfoHandle,
        comm: Comm,
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
    pub(crate) fn host_Win_allocate_shared(
        size: isize,
        unit: c_int,
        info: InfoHandle,
        comm: Comm,
        base: *mut c_void,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_create_dynamic(info: InfoHandle, comm: Comm, win: *mut Win) -> c_int;
    pub(crate) fn host_Win_free(win: *mut Win) -> c_int;
    pub(crate) fn host_Win_attach(win: Win, base: *mut c_void, size: isize) -> c_int;
    pub(crate) fn host_Win_detach(win: Win, base: *const c_void) -> c_int;
    pub(crate) fn host_Win_shared_query(
        win: Win,
        rank: c_int,
        size: *mut isize,
        unit: *mut c_int,
        base: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Win_get_attr(win: Win, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int;
    pub(crate) fn host_Win_get_group(win: Win, group: *mut Group) -> c_int;
    pub(crate) fn host_Win_set_info(win: Win, info: InfoHandle) -> c_int;
    pub(crate) fn host_Win_get_info(win: Win, info: *mut InfoHandle) -> c_int;
    pub(crate) fn host_Win_call_errhandler(win: Win, code: c_int) -> c_int;
    pub(crate) fn host_Win_get_errhandler(win: Win, out: *mut Errhandler) -> c_int;
    pub(crate) fn host_Errhandler_free(out: *mut Errhandler) -> c_int;
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
    pub(crate) fn host_Put(o: *const c_void, n: c_int, t: Type, r: c_int, d: isize, m: c_int, u: Type, w: Win)
    -> c_int;
    pub(crate) fn host_Get(o: *mut c_void, n: c_int, t: Type, r: c_int, d: isize, m: c_int, u: Type, w: Win) -> c_int;
    pub(crate) fn host_Accumulate(
        o: *const c_void,
        n: c_int,
        t: Type,
        r: c_int,
        d: isize,
        m: c_int,
        u: Type,
        op: OpHandle,
        w: Win,
    ) -> c_int;
    pub(crate) fn host_Get_accumulate(
        o: *const c_void,
        n: c_int,
        t: Type,
        p: *mut c_void,
        k: c_int,
        v: Type,
        r: c_int,
        d: isize,
        m: c_int,
        u: Type,
        op: OpHandle,
        w: Win,
    ) -> c_int;
    pub(crate) fn host_Rput(
        o: *const c_void,
        n: c_int,
        t: Type,
        r: c_int,
        d: isize,
        m: c_int,
        u: Type,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Rget(
        o: *mut c_void,
        n: c_int,
        t: Type,
        r: c_int,
        d: isize,
        m: c_int,
        u: Type,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Raccumulate(
        o: *const c_void,
        n: c_int,
        t: Type,
        r: c_int,
        d: isize,
        m: c_int,
        u: Type,
        op: OpHandle,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Rget_accumulate(
        o: *const c_void,
        n: c_int,
        t: Type,
        p: *mut c_void,
        k: c_int,
        v: Type,
        r: c_int,
        d: isize,
        m: c_int,
        u: Type,
        op: OpHandle,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
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
    pub(crate) fn host_Info_create(info: *mut InfoHandle) -> c_int;
    pub(crate) fn host_Info_set(info: InfoHandle, key: *const c_char, value: *const c_char) -> c_int;
    pub(crate) fn host_Info_get_nkeys(info: InfoHandle, n: *mut c_int) -> c_int;
    pub(crate) fn host_Info_get_nthkey(info: InfoHandle, n: c_int, key: *mut c_char) -> c_int;
    pub(crate) fn host_Info_get_valuelen(
        info: InfoHandle,
        key: *const c_char,
        length: *mut c_int,
        flag: *mut c_int,
    ) -> c_int;
    pub(crate) fn host_Type_free(kind: *mut Type) -> c_int;
    pub(crate) fn host_Type_set_attr(kind: Type, keyval: c_int, value: *mut c_void) -> c_int;
    pub(crate) fn host_Add_error_code(class: c_int, code: *mut c_int) -> c_int;
    pub(crate) fn host_Add_error_string(code: c_int, text: *const c_char) -> c_int;
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
    pub(crate) fn host_Grequest_complete(request: RequestHandle) -> c_int;
    pub(crate) fn host_Wait(q: *mut RequestHandle, s: *mut c_void) -> c_int;
    pub(crate) fn host_Test(q: *mut RequestHandle, flag: *mut c_int, s: *mut c_void) -> c_int;
    pub(crate) fn host_Waitall(n: c_int, q: *mut RequestHandle, s: *mut c_void) -> c_int;
    pub(crate) fn host_Testall(n: c_int, q: *mut RequestHandle, flag: *mut c_int, s: *mut c_void) -> c_int;
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
    pub(crate) fn host_Request_get_status_all(
        n: c_int,
        q: *const RequestHandle,
        flag: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Request_get_status_any(
        n: c_int,
        q: *const RequestHandle,
        index: *mut c_int,
        flag: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
    pub(crate) fn host_Request_get_status_some(
        n: c_int,
        q: *const RequestHandle,
        done: *mut c_int,
        indices: *mut c_int,
        s: *mut c_void,
    ) -> c_int;
}

// The functions with large counts (MPI-4.1).
#[cfg(large_counts)]
#[allow(non_snake_case)]
// SAFETY: the declarations are those of host/calls.h.
unsafe extern "C" {
    pub(crate) fn host_Put_c(o: *const c_void, n: i64, t: Type, r: c_int, d: isize, m: i64, u: Type, w: Win) -> c_int;
    pub(crate) fn host_Get_c(o: *mut c_void, n: i64, t: Type, r: c_int, d: isize, m: i64, u: Type, w: Win) -> c_int;
    pub(crate) fn host_Accumulate_c(
        o: *const c_void,
        n: i64,
        t: Type,
        r: c_int,
        d: isize,
        m: i64,
        u: Type,
        op: OpHandle,
        w: Win,
    ) -> c_int;
    pub(crate) fn host_Get_accumulate_c(
        o: *const c_void,
        n: i64,
        t: Type,
        p: *mut c_void,
        k: i64,
        v: Type,
        r: c_int,
        d: isize,
        m: i64,
        u: Type,
        op: OpHandle,
        w: Win,
    ) -> c_int;
    pub(crate) fn host_Rput_c(
        o: *const c_void,
        n: i64,
        t: Type,
        r: c_int,
        d: isize,
        m: i64,
        u: Type,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Rget_c(
        o: *mut c_void,
        n: i64,
        t: Type,
        r: c_int,
        d: isize,
        m: i64,
        u: Type,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Raccumulate_c(
        o: *const c_void,
        n: i64,
        t: Type,
        r: c_int,
        d: isize,
        m: i64,
        u: Type,
        op: OpHandle,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Rget_accumulate_c(
        o: *const c_void,
        n: i64,
        t: Type,
        p: *mut c_void,
        k: i64,
        v: Type,
        r: c_int,
        d: isize,
        m: i64,
        u: Type,
        op: OpHandle,
        w: Win,
        q: *mut RequestHandle,
    ) -> c_int;
    pub(crate) fn host_Win_create_c(
        base: *mut c_void,
        size: isize,
        unit: isize,
        info: InfoHandle,
        comm: Comm,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_allocate_c(
        size: isize,
        unit: isize,
        info: InfoHandle,
        comm: Comm,
        base: *mut c_void,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_allocate_shared_c(
        size: isize,
        unit: isize,
        info: InfoHandle,
        comm: Comm,
        base: *mut c_void,
        win: *mut Win,
    ) -> c_int;
    pub(crate) fn host_Win_shared_query_c(
        win: Win,
        rank: c_int,
        size: *mut isize,
        unit: *mut isize,
        base: *mut c_void,
    ) -> c_int;
}

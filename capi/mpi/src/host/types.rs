//! The host's datatypes.

use std::ffi::{c_int, c_void};

use super::Type;

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

#[allow(non_snake_case)]
// SAFETY: the declarations are those of host/host.c and host/calls.h; the latter are those of
// mpi.h.
unsafe extern "C" {
    pub(crate) fn host_predefined(out: *mut Predefined, most: c_int) -> c_int;
    pub(crate) fn host_type_keyval(keyval: *mut c_int) -> c_int;
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
    pub(crate) fn host_size_and_extent(ty: Type, size: *mut isize, lb: *mut isize, extent: *mut isize) -> c_int;
    pub(crate) fn host_prepare_commits();
    pub(crate) fn host_is_committed(ty: Type) -> c_int;
    pub(crate) fn host_Type_free(kind: *mut Type) -> c_int;
    pub(crate) fn host_Type_free_keyval(keyval: *mut c_int) -> c_int;
    pub(crate) fn host_Type_set_attr(kind: Type, keyval: c_int, value: *mut c_void) -> c_int;
}

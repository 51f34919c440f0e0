//! The part of libpmix's binary interface that this crate uses: layouts and constants of
//! pmix_common.h, which are the same in 4.2 and 5.0.

#![allow(missing_docs, missing_debug_implementations, non_camel_case_types)]

use std::ffi::{c_char, c_int};

pub const PMIX_SUCCESS: c_int = 0;
pub const PMIX_ERR_NOT_FOUND: c_int = -46;

pub const PMIX_RANK_WILDCARD: u32 = u32::MAX - 1;

pub const PMIX_BOOL: u16 = 1;
pub const PMIX_STRING: u16 = 3;
pub const PMIX_UINT32: u16 = 14;
pub const PMIX_BYTE_OBJECT: u16 = 27;

/// Visible to ranks of this node and of others.
pub const PMIX_GLOBAL: u8 = 3;

/// Longest key in bytes.
pub const PMIX_MAX_KEYLEN: usize = 511;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc {
    pub nspace: [c_char; 256],
    pub rank: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_byte_object {
    pub bytes: *mut c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union Data {
    pub flag: bool,
    pub string: *mut c_char,
    pub uint32: u32,
    pub bo: pmix_byte_object,
    /// The size of the union's largest members.
    pub room: [u64; 3],
}

#[repr(C)]
pub struct pmix_value {
    pub kind: u16,
    pub data: Data,
}

#[repr(C)]
pub struct pmix_info {
    pub key: [c_char; PMIX_MAX_KEYLEN + 1],
    pub flags: u32,
    pub value: pmix_value,
}

/// The functions, named without `PMIx_`.
pub struct Functions {
    pub init: unsafe extern "C" fn(*mut pmix_proc, *mut pmix_info, usize) -> c_int,
    pub finalize: unsafe extern "C" fn(*const pmix_info, usize) -> c_int,
    pub abort: unsafe extern "C" fn(c_int, *const c_char, *mut pmix_proc, usize) -> c_int,
    pub put: unsafe extern "C" fn(u8, *const c_char, *mut pmix_value) -> c_int,
    pub commit: unsafe extern "C" fn() -> c_int,
    pub fence: unsafe extern "C" fn(*const pmix_proc, usize, *const pmix_info, usize) -> c_int,
    pub get:
        unsafe extern "C" fn(*const pmix_proc, *const c_char, *const pmix_info, usize, *mut *mut pmix_value) -> c_int,
    pub get_version: unsafe extern "C" fn() -> *const c_char,
    pub error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The numbers are those of a C compiler for the headers of 4.2 on x86-64 (LP64);
    /// tests/header.rs compares them with the installed headers.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!((size_of::<pmix_proc>(), offset_of!(pmix_proc, rank)), (260, 256));
        assert_eq!((size_of::<pmix_value>(), offset_of!(pmix_value, data)), (32, 8));
        assert_eq!((size_of::<pmix_info>(), offset_of!(pmix_info, flags)), (552, 512));
        assert_eq!((offset_of!(pmix_info, value), size_of::<pmix_byte_object>()), (520, 16));
    }
}

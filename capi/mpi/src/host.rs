//! The host MPI: its handles, and by topic its constants and functions, as `host/host.c` provides
//! them. Knows only the list of transom's error classes (`transom::Class::ALL`), which sizes a
//! table.

use std::ffi::c_int;
#[cfg(not(int_handles))]
use std::ffi::c_void;

mod constants;
mod environment;
mod requests;
mod types;
mod windows;

pub(crate) use constants::*;
pub(crate) use environment::*;
pub(crate) use requests::*;
pub(crate) use types::*;
pub(crate) use windows::*;

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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
// SAFETY: a handle is a number, or an address that only the host dereferences.
unsafe impl Send for Comm {}
// SAFETY: a handle is a number, or an address that only the host dereferences.
unsafe impl Sync for Comm {}
// SAFETY: a handle is a number, or an address that only the host dereferences.
unsafe impl Send for Group {}
// SAFETY: a handle is a number, or an address that only the host dereferences.
unsafe impl Sync for Group {}

/// `MPI_SUCCESS` (MPI-4.1 §9.4).
pub(crate) const SUCCESS: c_int = 0;

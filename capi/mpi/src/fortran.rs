//! Attributes for Fortran programs (`MPI_WIN_GET_ATTR`, MPI-4.1 §12.2.6). These programs get the
//! values of predefined attributes instead of their addresses, and set values of their own
//! attributes (`MPI_WIN_SET_ATTR`). These are the only functions whose form in Fortran differs from
//! that in C.

use std::ffi::{c_int, c_void};

#[cfg(not(int_handles))]
use transom::Class;

use crate::attributes::attribute;
#[cfg(not(int_handles))]
use crate::errors::Failure;
#[cfg(not(open_mpi))]
use crate::host::host_fortran_set;
#[cfg(not(int_handles))]
use crate::host::{Key, host_win_of};
use crate::host::{Win, constants, host_fortran_attribute};
use crate::windows::find;

/// The value of a predefined attribute of a window that transom serves.
fn value_of(win: Win, key: c_int) -> Option<isize> {
    let found: *mut c_void = find(win).and_then(|window| attribute(window, key))?;
    if key == constants().win_base {
        return Some(found.addr().cast_signed());
    }
    // SAFETY: the address is that of an attribute of this type, which lives as long as the window.
    Some(unsafe { if key == constants().win_size { *found.cast::<isize>() } else { *found.cast::<c_int>() as isize } })
}

/// For MPICH: all its Fortran functions for attributes call this. The keys of predefined attributes
/// are one more than in C.
#[cfg(int_handles)]
#[unsafe(export_name = "MPII_Win_get_attr")]
unsafe extern "C" fn get_attr(win: Win, keyval: c_int, value: *mut c_void, flag: *mut c_int, kind: c_int) -> c_int {
    // SAFETY: the arguments are the host's, with room for the answers.
    unsafe {
        let Some(found) = value_of(win, keyval - 1) else {
            return host_fortran_attribute(win, keyval, value, flag, kind);
        };
        *value.cast::<isize>() = found;
        *flag = 1;
    }
    crate::host::SUCCESS
}

/// For MPICH: all its Fortran functions that set attributes call this.
#[cfg(int_handles)]
#[unsafe(export_name = "MPII_Win_set_attr")]
unsafe extern "C" fn set_attr(win: Win, keyval: c_int, value: *mut c_void, kind: c_int) -> c_int {
    // SAFETY: the arguments are the host's.
    let code = unsafe { host_fortran_set(win, keyval, value, kind) };
    if code == crate::host::SUCCESS {
        crate::cached::is_set(win, keyval);
    }
    code
}

/// For other hosts: under the name that programs call, and under the names that `profiled` adds.
#[cfg(not(int_handles))]
#[unsafe(export_name = "mpi_win_get_attr_")]
pub(crate) unsafe extern "C" fn get_attr(
    win: *mut c_int,
    keyval: *mut c_int,
    value: *mut isize,
    flag: *mut c_int,
    error: *mut c_int,
) {
    // SAFETY: the arguments are Fortran's, as MPI defines them.
    unsafe {
        let window = host_win_of(*win);
        // Open MPI would use the null pointer. Open MPI 4.1 passes such handles to the program's
        // delete functions.
        if window.key() == 0 {
            let failure = Failure::new(Class::Win, format!("MPI_WIN_GET_ATTR: {} is no handle of a window", *win));
            *error = failure.raise_on(constants().world);
            return;
        }
        let Some(found) = value_of(window, *keyval) else {
            host_fortran_attribute(win, keyval, value, flag, error);
            return;
        };
        *value = found;
        // Fortran's .TRUE., as in the compilers with which the host is built.
        *flag = 1;
        *error = crate::host::SUCCESS;
    }
}

/// For other hosts but Open MPI, whose order needs no help: as `get_attr`.
#[cfg(not(any(int_handles, open_mpi)))]
#[unsafe(export_name = "mpi_win_set_attr_")]
pub(crate) unsafe extern "C" fn set_attr(win: *mut c_int, keyval: *mut c_int, value: *mut isize, error: *mut c_int) {
    // SAFETY: the arguments are Fortran's, as MPI defines them.
    unsafe {
        host_fortran_set(win, keyval, value, error);
        if *error == crate::host::SUCCESS {
            crate::cached::is_set(host_win_of(*win), *keyval);
        }
    }
}

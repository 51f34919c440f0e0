//! Attributes as Fortran programs ask for them: the one function whose form in Fortran is another than in C, a value instead of its
//! address.

use std::ffi::c_int;

use crate::attributes::attribute;
use crate::host::{constants, host_fortran_attribute, host_fortran_keys, host_win_of};
use crate::windows::find;

/// `MPI_WIN_GET_ATTR`: predefined attributes are their values (MPI §11.2.6).
#[unsafe(export_name = "mpi_win_get_attr_")]
pub(crate) unsafe extern "C" fn get_attr(
    win: *mut c_int,
    keyval: *mut c_int,
    value: *mut isize,
    flag: *mut c_int,
    error: *mut c_int,
) {
    // SAFETY: the arguments are Fortran's, as MPI has them.
    unsafe {
        let key = *keyval - host_fortran_keys();
        let found = find(host_win_of(*win)).and_then(|window| attribute(window, key));
        let Some(found) = found else {
            host_fortran_attribute(win, keyval, value, flag, error);
            return;
        };
        *value = if key == constants().win_base {
            found.addr().cast_signed()
        } else if key == constants().win_size {
            *found.cast::<isize>()
        } else {
            *found.cast::<c_int>() as isize
        };
        // Fortran's .TRUE., as the compilers have it that the host is built with.
        *flag = 1;
        *error = 0;
    }
}

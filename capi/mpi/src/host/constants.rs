//! The host's constants.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use transom::Class;

use super::{Comm, Errhandler, Group, InfoHandle, OpHandle, RequestHandle, Type, Win, host_present};

/// The host's constants (`struct constants` in host/host.h).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Constants {
    pub(crate) world: Comm,
    pub(crate) comm_self: Comm,
    pub(crate) null_comm: Comm,
    pub(crate) null_type: Type,
    pub(crate) null_info: InfoHandle,
    pub(crate) null_request: RequestHandle,
    pub(crate) status_ignore: *mut c_void,
    pub(crate) null_win: Win,
    pub(crate) null_group: Group,
    pub(crate) errors_are_fatal: Errhandler,
    pub(crate) errors_abort: Errhandler,
    pub(crate) errors_return: Errhandler,
    pub(crate) ops: [OpHandle; 14],
    pub(crate) classes: [c_int; Class::ALL.len()],
    pub(crate) err_buffer: c_int,
    pub(crate) err_group: c_int,
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
    pub(crate) model_separate: c_int,
    pub(crate) model_unified: c_int,
    pub(crate) max_info_key: c_int,
    pub(crate) err_in_status: c_int,
}

// SAFETY: handles in it are numbers, or addresses that only the host dereferences.
unsafe impl Send for Constants {}
// SAFETY: its handles are numbers, or addresses that only the host dereferences.
unsafe impl Sync for Constants {}

/// The host's constants. First read after the host is loaded, since some are found by name at run
/// time.
pub(crate) fn constants() -> &'static Constants {
    static CONSTANTS: OnceLock<Constants> = OnceLock::new();
    CONSTANTS.get_or_init(|| {
        // SAFETY: the calls take nothing. The first makes the host's names visible, by which some
        // constants are found.
        let bytes = unsafe {
            host_present();
            host_constants_bytes()
        };
        assert_eq!(bytes, size_of::<Constants>(), "host.h and constants.rs differ");
        let mut constants = std::mem::MaybeUninit::uninit();
        // SAFETY: the call fills all of a structure of this layout.
        unsafe {
            host_constants(constants.as_mut_ptr());
            constants.assume_init()
        }
    })
}

// SAFETY: the declarations are those of host/host.c.
unsafe extern "C" {
    fn host_constants_bytes() -> usize;
    fn host_constants(out: *mut Constants);
}

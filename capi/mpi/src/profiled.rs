//! MPI names for the intercepted functions, which are defined under their PMPI names. The MPI names
//! go to a profiling tool if there is one. The Fortran interfaces (`mpif.h`, the modules `mpi` and
//! `mpi_f08`) convert their arguments and then call C: those of Open MPI, and the functions of
//! MPICH's `mpi_f08` without buffers, by the PMPI names. Tools also call the PMPI names (MPI-4.1
//! §15.2). If a tool is loaded before this library, the program calls the tool directly, and the
//! tool calls this library. A tool that is loaded after this library, between it and the MPI, is
//! found at start.

use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(not(open_mpi))]
use crate::cached;
use crate::forms::int;
#[cfg(large_counts)]
use crate::forms::large;
#[cfg(not(int_handles))]
use crate::fortran;
use crate::host::host_tool;
#[cfg(all(large_counts, not(open_mpi)))]
use crate::partitioned;
use crate::{
    attributes, counters, create, fatal, groups, lifecycle, memory, notified, operate, requests, synchronize, turns,
};

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($to:path) => {
        naked_asm!("jmp {}@PLT", sym $to)
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($to:path) => {
        naked_asm!("b {}", sym $to)
    };
}

/// Further names of functions.
macro_rules! aliases {
    ($($name:literal => $to:path;)*) => {$(
        const _: () = {
            // SAFETY: the function is a jump, which leaves all arguments in place.
            #[unsafe(export_name = $name)]
            #[unsafe(naked)]
            unsafe extern "C" fn alias() {
                jump!($to)
            }
        };
    )*};
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump_through {
    ($to:path) => {
        naked_asm!("jmp qword ptr [rip + {}]", sym $to)
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump_through {
    ($to:path) => {
        naked_asm!("adrp x16, {0}", "ldr x16, [x16, :lo12:{0}]", "br x16", sym $to)
    };
}

/// Functions under the names that programs call. Each name leads to the function here, or to that
/// of a tool.
macro_rules! routed {
    ($($name:literal => $to:path;)*) => {$(
        const _: () = {
            static DESTINATION: AtomicPtr<c_void> = AtomicPtr::new($to as *mut c_void);

            // SAFETY: the function is a jump, which leaves all arguments in place, to a function of
            // this type.
            #[unsafe(export_name = $name)]
            #[unsafe(naked)]
            unsafe extern "C" fn routed() {
                jump_through!(DESTINATION)
            }

            extern "C" fn find() {
                // SAFETY: the name ends with a zero byte.
                let tool = unsafe { host_tool(concat!($name, "\0").as_ptr().cast()) };
                if !tool.is_null() {
                    // Relaxed: the program's threads start after this.
                    DESTINATION.store(tool, Ordering::Relaxed);
                }
            }

            // SAFETY: the section is an array of such functions, which the loader calls once.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static FIND: extern "C" fn() = find;
        };
    )*};
}

// After the macros, which it uses.
mod watched;

routed! {
    "MPI_Init" => lifecycle::init;
    "MPI_Init_thread" => lifecycle::init_thread;
    "MPI_Finalize" => lifecycle::finalize;
    "MPI_Alloc_mem" => memory::alloc_mem;
    "MPI_Free_mem" => memory::free_mem;
    "MPI_Win_create" => int::create;
    "MPI_Win_allocate" => int::allocate;
    "MPI_Win_allocate_shared" => int::allocate_shared;
    "MPI_Win_create_dynamic" => create::create_dynamic;
    "MPI_Win_attach" => create::attach;
    "MPI_Win_detach" => create::detach;
    "MPI_Win_free" => create::free;
    "MPI_Win_get_attr" => attributes::get_attr;
    "MPI_Win_get_group" => attributes::get_group;
    "MPI_Group_free" => groups::free;
    "MPI_Win_shared_query" => int::shared_query;
    "MPI_Win_set_info" => attributes::set_info;
    "MPI_Win_set_errhandler" => fatal::set_errhandler;
    "MPI_Win_get_info" => attributes::get_info;
    "MPI_Put" => int::put;
    "MPI_Get" => int::get;
    "MPI_Accumulate" => int::accumulate;
    "MPI_Get_accumulate" => int::get_accumulate;
    "MPI_Fetch_and_op" => operate::fetch_and_op;
    "MPI_Compare_and_swap" => operate::compare_and_swap;
    "MPI_Win_fence" => synchronize::fence;
    "MPI_Win_post" => synchronize::post;
    "MPI_Win_start" => synchronize::start;
    "MPI_Win_complete" => synchronize::complete;
    "MPI_Win_wait" => synchronize::wait;
    "MPI_Win_test" => synchronize::test;
    "MPI_Win_lock" => synchronize::lock;
    "MPI_Win_unlock" => synchronize::unlock;
    "MPI_Win_lock_all" => synchronize::lock_all;
    "MPI_Win_unlock_all" => synchronize::unlock_all;
    "MPI_Win_flush" => synchronize::flush;
    "MPI_Win_flush_all" => synchronize::flush_all;
    "MPI_Win_flush_local" => synchronize::flush_local;
    "MPI_Win_flush_local_all" => synchronize::flush_local_all;
    "MPI_Win_sync" => synchronize::sync;
    "MPI_Barrier" => turns::barrier;
    "MPI_Recv" => turns::receive;
    "MPI_Wait" => requests::wait;
    "MPI_Waitall" => requests::waitall;
    "MPI_Waitany" => requests::waitany;
    "MPI_Waitsome" => requests::waitsome;
    "MPI_Test" => requests::test;
    "MPI_Testall" => requests::testall;
    "MPI_Testany" => requests::testany;
    "MPI_Testsome" => requests::testsome;
    "MPI_Request_get_status" => requests::request_get_status;
    "MPI_Rput" => int::rput;
    "MPI_Rget" => int::rget;
    "MPI_Raccumulate" => int::raccumulate;
    "MPI_Rget_accumulate" => int::rget_accumulate;
}

#[cfg(all(large_counts, not(open_mpi)))]
routed! {
    "MPI_Psend_init" => partitioned::send_init;
    "MPI_Precv_init" => partitioned::receive_init;
}

#[cfg(has_is_complete)]
routed! {
    "MPIX_Request_is_complete" => requests::request_is_complete;
}

#[cfg(has_status_of_several)]
routed! {
    "MPI_Request_get_status_all" => requests::request_get_status_all;
    "MPI_Request_get_status_any" => requests::request_get_status_any;
    "MPI_Request_get_status_some" => requests::request_get_status_some;
}

#[cfg(not(open_mpi))]
routed! {
    "MPI_Win_set_attr" => cached::set_attr;
    "MPI_Win_delete_attr" => cached::delete_attr;
}

#[cfg(not(int_handles))]
aliases! {
    "pmpi_win_get_attr_" => fortran::get_attr;
    "ompi_win_get_attr_f" => fortran::get_attr;
}

// Names by the conventions of other Fortran compilers.
#[cfg(open_mpi)]
aliases! {
    "mpi_win_get_attr" => fortran::get_attr;
    "mpi_win_get_attr__" => fortran::get_attr;
    "MPI_WIN_GET_ATTR" => fortran::get_attr;
    "pmpi_win_get_attr" => fortran::get_attr;
    "pmpi_win_get_attr__" => fortran::get_attr;
    "PMPI_WIN_GET_ATTR" => fortran::get_attr;
}

#[cfg(not(any(int_handles, open_mpi)))]
aliases! {
    "pmpi_win_set_attr_" => fortran::set_attr;
}

#[cfg(large_counts)]
routed! {
    "MPI_Put_c" => large::put;
    "MPI_Get_c" => large::get;
    "MPI_Accumulate_c" => large::accumulate;
    "MPI_Get_accumulate_c" => large::get_accumulate;
    "MPI_Rput_c" => large::rput;
    "MPI_Rget_c" => large::rget;
    "MPI_Raccumulate_c" => large::raccumulate;
    "MPI_Rget_accumulate_c" => large::rget_accumulate;
    "MPI_Win_create_c" => large::create;
    "MPI_Win_allocate_c" => large::allocate;
    "MPI_Win_allocate_shared_c" => large::allocate_shared;
    "MPI_Win_shared_query_c" => large::shared_query;
}

// Notified operations, under the draft's names and those for what MPI does not have yet.
routed! {
    "MPI_Put_notify" => notified::int::put;
    "MPI_Get_notify" => notified::int::get;
    "MPI_Accumulate_notify" => notified::int::accumulate;
    "MPI_Get_accumulate_notify" => notified::int::get_accumulate;
    "MPI_Rput_notify" => notified::int::rput;
    "MPI_Rget_notify" => notified::int::rget;
    "MPI_Raccumulate_notify" => notified::int::raccumulate;
    "MPI_Rget_accumulate_notify" => notified::int::rget_accumulate;
    "MPI_Put_notify_c" => notified::large::put;
    "MPI_Get_notify_c" => notified::large::get;
    "MPI_Accumulate_notify_c" => notified::large::accumulate;
    "MPI_Get_accumulate_notify_c" => notified::large::get_accumulate;
    "MPI_Rput_notify_c" => notified::large::rput;
    "MPI_Rget_notify_c" => notified::large::rget;
    "MPI_Raccumulate_notify_c" => notified::large::raccumulate;
    "MPI_Rget_accumulate_notify_c" => notified::large::rget_accumulate;
    "MPI_Win_set_num_notify" => counters::set_num;
    "MPI_Win_get_num_notify" => counters::get_num;
    "MPI_Win_get_notify_value" => counters::get_value;
    "MPI_Win_reset_notify_value" => counters::reset_value;
    "MPI_Win_notify_threshold" => counters::threshold;
    "MPIX_Put_notify" => notified::int::put;
    "MPIX_Get_notify" => notified::int::get;
    "MPIX_Accumulate_notify" => notified::int::accumulate;
    "MPIX_Get_accumulate_notify" => notified::int::get_accumulate;
    "MPIX_Rput_notify" => notified::int::rput;
    "MPIX_Rget_notify" => notified::int::rget;
    "MPIX_Raccumulate_notify" => notified::int::raccumulate;
    "MPIX_Rget_accumulate_notify" => notified::int::rget_accumulate;
    "MPIX_Put_notify_c" => notified::large::put;
    "MPIX_Get_notify_c" => notified::large::get;
    "MPIX_Accumulate_notify_c" => notified::large::accumulate;
    "MPIX_Get_accumulate_notify_c" => notified::large::get_accumulate;
    "MPIX_Rput_notify_c" => notified::large::rput;
    "MPIX_Rget_notify_c" => notified::large::rget;
    "MPIX_Raccumulate_notify_c" => notified::large::raccumulate;
    "MPIX_Rget_accumulate_notify_c" => notified::large::rget_accumulate;
    "MPIX_Win_set_num_notify" => counters::set_num;
    "MPIX_Win_get_num_notify" => counters::get_num;
    "MPIX_Win_get_notify_value" => counters::get_value;
    "MPIX_Win_reset_notify_value" => counters::reset_value;
    "MPIX_Win_notify_threshold" => counters::threshold;
}

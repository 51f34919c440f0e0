//! The intercepted functions under their PMPI names too. Fortran (`mpif.h`, the modules `mpi` and `mpi_f08`) converts its arguments
//! and then calls C: by these names in all of Open MPI's, and in the module `mpi_f08` of MPICH's. So does whoever profiles.

use std::arch::naked_asm;

#[cfg(not(int_handles))]
use crate::fortran;
#[cfg(large_counts)]
use crate::large;
use crate::{attributes, create, memory, operate, process, requests, synchronize};

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

/// Functions under another name.
macro_rules! also {
    ($($name:literal => $to:path;)*) => {$(
        const _: () = {
            // SAFETY: it is nothing but a jump, which leaves all arguments where they are.
            #[unsafe(export_name = $name)]
            #[unsafe(naked)]
            unsafe extern "C" fn also() {
                jump!($to)
            }
        };
    )*};
}

also! {
    "PMPI_Init" => process::init;
    "PMPI_Init_thread" => process::init_thread;
    "PMPI_Finalize" => process::finalize;
    "PMPI_Alloc_mem" => memory::alloc_mem;
    "PMPI_Free_mem" => memory::free_mem;
    "PMPI_Win_create" => create::create;
    "PMPI_Win_allocate" => create::allocate;
    "PMPI_Win_allocate_shared" => create::allocate_shared;
    "PMPI_Win_create_dynamic" => create::create_dynamic;
    "PMPI_Win_attach" => create::attach;
    "PMPI_Win_detach" => create::detach;
    "PMPI_Win_free" => create::free;
    "PMPI_Win_get_attr" => attributes::get_attr;
    "PMPI_Win_get_group" => attributes::get_group;
    "PMPI_Win_shared_query" => attributes::shared_query;
    "PMPI_Win_set_info" => attributes::set_info;
    "PMPI_Win_get_info" => attributes::get_info;
    "PMPI_Put" => operate::put;
    "PMPI_Get" => operate::get;
    "PMPI_Accumulate" => operate::accumulate;
    "PMPI_Get_accumulate" => operate::get_accumulate;
    "PMPI_Fetch_and_op" => operate::fetch_and_op;
    "PMPI_Compare_and_swap" => operate::compare_and_swap;
    "PMPI_Win_fence" => synchronize::fence;
    "PMPI_Win_post" => synchronize::post;
    "PMPI_Win_start" => synchronize::start;
    "PMPI_Win_complete" => synchronize::complete;
    "PMPI_Win_wait" => synchronize::wait;
    "PMPI_Win_test" => synchronize::test;
    "PMPI_Win_lock" => synchronize::lock;
    "PMPI_Win_unlock" => synchronize::unlock;
    "PMPI_Win_lock_all" => synchronize::lock_all;
    "PMPI_Win_unlock_all" => synchronize::unlock_all;
    "PMPI_Win_flush" => synchronize::flush;
    "PMPI_Win_flush_all" => synchronize::flush_all;
    "PMPI_Win_flush_local" => synchronize::flush_local;
    "PMPI_Win_flush_local_all" => synchronize::flush_local_all;
    "PMPI_Win_sync" => synchronize::sync;
    "PMPI_Barrier" => requests::barrier;
    "PMPI_Recv" => requests::receive;
    "PMPI_Wait" => requests::wait;
    "PMPI_Waitall" => requests::waitall;
    "PMPI_Waitany" => requests::waitany;
    "PMPI_Waitsome" => requests::waitsome;
    "PMPI_Test" => requests::test;
    "PMPI_Testall" => requests::testall;
    "PMPI_Testany" => requests::testany;
    "PMPI_Testsome" => requests::testsome;
    "PMPI_Request_get_status" => requests::request_get_status;
    "PMPI_Request_get_status_all" => requests::request_get_status_all;
    "PMPI_Request_get_status_any" => requests::request_get_status_any;
    "PMPI_Request_get_status_some" => requests::request_get_status_some;
    "PMPI_Rput" => requests::rput;
    "PMPI_Rget" => requests::rget;
    "PMPI_Raccumulate" => requests::raccumulate;
    "PMPI_Rget_accumulate" => requests::rget_accumulate;
}

#[cfg(not(int_handles))]
also! {
    "pmpi_win_get_attr_" => fortran::get_attr;
    "ompi_win_get_attr_f" => fortran::get_attr;
}

#[cfg(large_counts)]
also! {
    "PMPI_Put_c" => large::put;
    "PMPI_Get_c" => large::get;
    "PMPI_Accumulate_c" => large::accumulate;
    "PMPI_Get_accumulate_c" => large::get_accumulate;
    "PMPI_Rput_c" => large::rput;
    "PMPI_Rget_c" => large::rget;
    "PMPI_Raccumulate_c" => large::raccumulate;
    "PMPI_Rget_accumulate_c" => large::rget_accumulate;
    "PMPI_Win_create_c" => large::create;
    "PMPI_Win_allocate_c" => large::allocate;
    "PMPI_Win_allocate_shared_c" => large::allocate_shared;
    "PMPI_Win_shared_query_c" => large::shared_query;
}

//! Partitioned messages (MPI-4.1 §4.2) of a program. MPICH's `MPI_Testall` fails for the requests
//! of such messages, because `MPI_Testall` reads an error from a status that is not set. In a
//! program that has made such messages, a wait for all of several requests therefore makes progress
//! until the operations on windows are complete, and then calls `MPI_Waitall` once.

#[cfg(all(large_counts, not(open_mpi)))]
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(all(large_counts, not(open_mpi)))]
use crate::host::{Comm, InfoHandle, RequestHandle, Type, host_Precv_init, host_Psend_init};

static USED: AtomicBool = AtomicBool::new(false);

/// Whether the program has made partitioned messages of MPICH.
pub(crate) fn are_used() -> bool {
    // Relaxed: a thread that waits for such a request got its handle after the change.
    USED.load(Ordering::Relaxed)
}

/// Functions that make requests of such messages, by the host's functions.
#[cfg(all(large_counts, not(open_mpi)))]
macro_rules! made {
    ($($exported:literal $name:ident $buffer:ty, $host:ident;)*) => {$(
        // SAFETY: the name is that of MPI's function with these arguments.
        #[unsafe(export_name = $exported)]
        pub(crate) unsafe extern "C" fn $name(
            buffer: $buffer,
            partitions: c_int,
            count: i64,
            kind: Type,
            rank: c_int,
            tag: c_int,
            comm: Comm,
            info: InfoHandle,
            out: *mut RequestHandle,
        ) -> c_int {
            // Relaxed: see `are_used`.
            USED.store(true, Ordering::Relaxed);
            // SAFETY: the caller's arguments.
            unsafe { $host(buffer, partitions, count, kind, rank, tag, comm, info, out) }
        }
    )*};
}

#[cfg(all(large_counts, not(open_mpi)))]
made! {
    "PMPI_Psend_init" send_init *const c_void, host_Psend_init;
    "PMPI_Precv_init" receive_init *mut c_void, host_Precv_init;
}

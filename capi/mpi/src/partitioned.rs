//! Requests that MPICH can't test together with others: those of partitioned messages (MPI-4.1
//! §4.2) and of persistent collective calls (§6.13). MPICH's `MPI_Testall` fails for such requests,
//! because it does not know their kinds. [`are_used`] says whether the program has made some. A
//! wait for all of several requests then makes progress until the operations on windows are
//! complete, and calls `MPI_Waitall` once.
//!
//! The module also reports partitioned messages to the conflict checker ([`PartitionedMessage`]).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use transom::Job;

#[cfg(all(large_counts, not(open_mpi)))]
use crate::edges;
use crate::host::RequestHandle;
#[cfg(all(large_counts, not(open_mpi)))]
use crate::host::{Comm, InfoHandle, SUCCESS, Type, host_Precv_init, host_Psend_init};
use crate::messages::{PartitionedMessage, add_partitioned, with_partitioned};
use crate::process::{self, Process};

static USED: AtomicBool = AtomicBool::new(false);

/// Whether the program has made requests that MPICH can't test together with others.
pub(crate) fn are_used() -> bool {
    // Relaxed: a thread that waits for such a request got its handle after the change.
    USED.load(Ordering::Relaxed)
}

/// The program makes a persistent request of a collective call.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_makes_persistent_collective() {
    // Relaxed: see `are_used`.
    USED.store(!cfg!(open_mpi), Ordering::Relaxed);
}

/// Defines functions that make requests of partitioned messages, by the host's functions.
#[cfg(all(large_counts, not(open_mpi)))]
macro_rules! made {
    ($($exported:literal $name:ident $buffer:ty, $host:ident $sends:literal;)*) => {$(
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
            // SAFETY: the caller's arguments; the host has written a handle.
            unsafe {
                let code = $host(buffer, partitions, count, kind, rank, tag, comm, info, out);
                if code == SUCCESS && edges::is_on() {
                    host_edges_partitioned(comm, rank, tag, *out, $sends, partitions, buffer.cast(), count, kind);
                }
                code
            }
        }
    )*};
}

#[cfg(all(large_counts, not(open_mpi)))]
made! {
    "PMPI_Psend_init" send_init *const c_void, host_Psend_init 1;
    "PMPI_Precv_init" receive_init *mut c_void, host_Precv_init 0;
}

#[cfg(all(large_counts, not(open_mpi)))]
// SAFETY: the declaration is that of host/messages.c.
unsafe extern "C" {
    fn host_edges_partitioned(
        comm: Comm,
        rank: c_int,
        tag: c_int,
        request: RequestHandle,
        sends: c_int,
        partitions: c_int,
        buffer: *const c_void,
        count: i64,
        kind: Type,
    );
}

fn job() -> Option<Job> {
    process::get().and_then(Process::job)
}

/// A partitioned message has a request. `peer` is -1 for `MPI_PROC_NULL`, and -2 for an unknown
/// rank. A partition of the buffer has `bytes` bytes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_request_of_partitioned(
    handle: RequestHandle,
    peer: c_int,
    tag: c_int,
    group: u64,
    sends: c_int,
    partitions: c_int,
    buffer: *const c_void,
    bytes: i64,
) {
    let Some(job) = job() else { return };
    let partitions = usize::try_from(partitions).unwrap_or(0);
    let known = usize::try_from(peer).ok();
    let buffer = (buffer.addr(), usize::try_from(bytes).unwrap_or(0));
    let message = known.map(|peer| PartitionedMessage::new(&job, (peer, tag, group), sends != 0, partitions, buffer));
    add_partitioned(handle, message, peer >= -1);
}

/// A partition is ready.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_partition_is_ready(handle: RequestHandle, partition: c_int) {
    if let (Some(job), Ok(partition)) = (job(), usize::try_from(partition)) {
        with_partitioned(handle, |message| message.is_ready(&job, partition));
    }
}

/// A partition has arrived.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_partition_has_arrived(handle: RequestHandle, partition: c_int) {
    if let (Some(job), Ok(partition)) = (job(), usize::try_from(partition))
        && !with_partitioned(handle, |message| message.has_arrived(&job, partition))
    {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_learns_all());
    }
}

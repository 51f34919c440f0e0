//! Partitioned messages (MPI-4.1 §4.2) of a program, and persistent collective calls (§6.13).
//! MPICH's `MPI_Testall` fails for their requests, because it does not know their kinds. In a
//! program that has made such requests, a wait for all of several requests therefore makes progress
//! until the operations on windows are complete, and then calls `MPI_Waitall` once.
//!
//! For the conflict checker, what the sender did before it marked a partition as ready happens
//! before what the receiver does after the partition has arrived.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use transom::Job;

use crate::channels::Channel;
#[cfg(all(large_counts, not(open_mpi)))]
use crate::edges;
use crate::host::RequestHandle;
#[cfg(all(large_counts, not(open_mpi)))]
use crate::host::{Comm, InfoHandle, SUCCESS, Type, host_Precv_init, host_Psend_init};
use crate::messages::{made_partitioned, with_channel};
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
extern "C" fn transom_edge_persistent() {
    // Relaxed: see `are_used`.
    USED.store(!cfg!(open_mpi), Ordering::Relaxed);
}

/// Functions that make requests of such messages, by the host's functions.
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
// SAFETY: the declaration is that of host/edges.c.
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

/// A message in partitions has a request. `peer` is -1 for none, and -2 for an unknown one. A
/// partition of the buffer has `bytes` bytes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_partitioned(
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
    let channel = known.map(|peer| Channel::new(&job, (peer, tag, group), sends != 0, partitions, buffer));
    made_partitioned(handle, channel, peer >= -1);
}

/// A partition is ready.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_ready(handle: RequestHandle, partition: c_int) {
    if let (Some(job), Ok(partition)) = (job(), usize::try_from(partition)) {
        with_channel(handle, |channel| channel.is_ready(&job, partition));
    }
}

/// A partition has arrived.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_arrived(handle: RequestHandle, partition: c_int) {
    if let (Some(job), Ok(partition)) = (job(), usize::try_from(partition))
        && !with_channel(handle, |channel| channel.has_arrived(&job, partition))
    {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_learns_all());
    }
}

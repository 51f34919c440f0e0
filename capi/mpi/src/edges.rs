//! The host's functions that order the ranks, for the conflict checker (`TRANSOM_CHECK`).
//! `host/edges.c` wraps most of them, and calls the functions `transom_edge_*` here and in
//! `messages`. `turns` and `requests` wrap the functions that also wait for transom. The module
//! also has the suppressions and options for ThreadSanitizer.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::{Comm, SUCCESS, Type};
use crate::process::{self, Process};

/// The number of words of a clock: one for each rank of the job, or 0 while the checker is off.
static WORDS: AtomicUsize = AtomicUsize::new(0);

/// Starts to pass on clocks of that many words. 0 ends this.
pub(crate) fn begin(words: usize) {
    // Relaxed: set at the start and at the end, when no other thread calls.
    WORDS.store(words, Ordering::Relaxed);
    #[cfg(feature = "openmp")]
    crate::openmp::begin(words > 0);
    // SAFETY: the host has started, and has not ended.
    unsafe { host_edges_begin(c_int::try_from(words).unwrap_or_default()) };
}

/// Whether the program has races that this library can't report: those of threads that OpenMP
/// starts, in a build without the feature `openmp`.
pub(crate) fn misses_openmp() -> bool {
    #[cfg(not(feature = "openmp"))]
    // SAFETY: the call takes nothing.
    let misses = unsafe { host_has_openmp_and_sanitizer() } != 0;
    #[cfg(feature = "openmp")]
    let misses = false;
    misses
}

/// Whether the checker is on.
#[inline]
pub(crate) fn is_on() -> bool {
    // Relaxed: see `begin`.
    WORDS.load(Ordering::Relaxed) != 0
}

/// Makes a call in which every rank of a communicator waits for all ranks, and exchanges the
/// clocks.
pub(crate) fn around_barrier(comm: Comm, call: impl FnOnce() -> c_int) -> c_int {
    let Some(mut clock) = release() else { return call() };
    transom_edge_wait_begins(c"MPI_Barrier".as_ptr());
    let code = call();
    if code == SUCCESS {
        // SAFETY: the clock has the words that `begin` was told.
        unsafe { host_edges_learn_from_all(comm, clock.as_mut_ptr()) };
    }
    transom_edge_wait_ends();
    code
}

/// Receives a message (`MPI_Recv`); `None` while the checker is off.
///
/// # Safety
/// The arguments are those of `MPI_Recv`.
pub(crate) unsafe fn receive(
    buffer: *mut c_void,
    count: c_int,
    kind: Type,
    (rank, tag): (c_int, c_int),
    comm: Comm,
    status: *mut c_void,
) -> Option<c_int> {
    release()?;
    // SAFETY: the caller's promise.
    Some(unsafe { host_edges_receive(buffer, count, kind, rank, tag, comm, status) })
}

/// If the checker is on, counts a release and returns this rank's clock.
#[inline]
fn release() -> Option<Vec<u64>> {
    if !is_on() {
        return None;
    }
    process::get().and_then(Process::job)?.checker_releases()
}

/// Counts a release and stores this rank's clock.
///
/// # Safety
/// There is room for the words that `begin` was told.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_release(clock: *mut u64) {
    let words = WORDS.load(Ordering::Relaxed);
    // A rank learns nothing from zeros.
    let mut known = release().unwrap_or_default();
    known.resize(words, 0);
    // SAFETY: the caller has room.
    unsafe { std::ptr::copy_nonoverlapping(known.as_ptr(), clock, words) };
}

/// Learns a clock.
///
/// # Safety
/// The clock has the words that `begin` was told.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_learn(clock: *const u64) {
    if let Some(job) = process::get().and_then(Process::job) {
        // SAFETY: as the caller says.
        job.checker_learns(unsafe { std::slice::from_raw_parts(clock, WORDS.load(Ordering::Relaxed)) });
    }
}

/// Learns the merged clock of ranks that have exchanged their clocks; of all ranks of the job if
/// `all` is not 0. As many words follow: the same, but each rank's clock without its own entry.
///
/// # Safety
/// The clocks have the words that `begin` was told.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_learn_met(clocks: *const u64, all: c_int) {
    if let Some(job) = process::get().and_then(Process::job) {
        let words = WORDS.load(Ordering::Relaxed);
        // SAFETY: as the caller says.
        let (met, others) = unsafe { std::slice::from_raw_parts(clocks, 2 * words) }.split_at(words);
        job.checker_meets(met, others, all != 0);
    }
}

/// A call of the host begins that may wait for other ranks.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_wait_begins(call: *const c_char) {
    /// Prefixes of the calls that wait for single ranks.
    const SINGLE: [&str; 8] =
        ["MPI_Send", "MPI_Bsend", "MPI_Rsend", "MPI_Ssend", "MPI_Recv", "MPI_Probe", "MPI_Mprobe", "MPI_Mrecv"];
    /// Calls after which processes outside of the job may send to this one.
    const OUTSIDE: [&str; 3] = ["MPI_Comm_accept", "MPI_Comm_connect", "MPI_Comm_spawn"];
    if let Some(job) = process::get().and_then(Process::job) {
        // SAFETY: all callers give a literal.
        let call = unsafe { CStr::from_ptr(call) }.to_str().unwrap_or_default();
        if OUTSIDE.iter().any(|name| call.starts_with(name)) {
            job.checker_gets_help();
        }
        job.checker_wait_begins(call, !SINGLE.iter().any(|name| call.starts_with(name)));
    }
}

/// Tells the checker that another job has started this one.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_has_parent() {
    if let Some(job) = process::get().and_then(Process::job) {
        job.checker_gets_help();
    }
}

/// The call that began last has ended.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_wait_ends() {
    if let Some(job) = process::get().and_then(Process::job) {
        job.checker_wait_ends();
    }
}

/// Learns the clocks that all ranks have released.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_learn_all() {
    if let Some(job) = process::get().and_then(Process::job) {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_learns_all());
    }
}

/// Suppressions for one host only. MPICH links UCX, whose libraries share locks. Open MPI may
/// unload UCX, and ThreadSanitizer then ends the program if a suppression of the first kind names
/// UCX.
#[cfg(not(open_mpi))]
macro_rules! by_host {
    () => {
        "called_from_lib:libucp.so
mutex:libucp.so
mutex:libucs.so
mutex:libuct.so
"
    };
}
#[cfg(open_mpi)]
macro_rules! by_host {
    () => {
        ""
    };
}

/// Suppressions for ThreadSanitizer, in programs that have it (`sanitizer/tsan_interface.h`).
/// Copies that this library and an MPI make through the C library are reported as the operations
/// that they serve. The MPI's locks order nothing on which the program may rely, and accesses among
/// the MPI's libraries do not concern the program. Open MPI 4 destroys a mutex that it holds.
// SAFETY: the function may be defined once in a process.
#[unsafe(no_mangle)]
extern "C" fn __tsan_default_suppressions() -> *const c_char {
    let text = concat!(
        "called_from_lib:libtransom_mpi.so\n",
        by_host!(),
        "called_from_lib:libmpich.so
called_from_lib:libmpi.so
called_from_lib:libopen-pal.so
race:libmpi.so
race:libmpich.so
race:libopen-pal.so
race:libopen-rte.so
race:libpmix.so
race:libprrte.so
race:libevent
race:libhwloc.so
race:libgomp.so
race:mca_
deadlock:mca_
deadlock:libmpi.so
deadlock:libopen-pal.so
deadlock:libmpich.so
mutex:mca_
mutex:libmpi.so
mutex:libopen-pal.so
mutex:libopen-rte.so
race:libfabric.so
race:libucp.so
race:libuct.so
race:libucs.so
race:libucm.so
\0"
    );
    text.as_ptr().cast()
}

/// Options for ThreadSanitizer, which those of `TSAN_OPTIONS` replace. An access of the program may
/// have come long before this rank learns of an operation that conflicts with it. With the longest
/// history ThreadSanitizer still finds the place of the access.
// SAFETY: the function may be defined once in a process.
#[unsafe(no_mangle)]
extern "C" fn __tsan_default_options() -> *const c_char {
    c"history_size=7".as_ptr()
}

// SAFETY: the declarations are those of host/host.c, host/communicators.c, host/collectives.c and
// host/messages.c.
unsafe extern "C" {
    #[cfg(not(feature = "openmp"))]
    fn host_has_openmp_and_sanitizer() -> c_int;
    fn host_edges_begin(count: c_int);
    fn host_edges_learn_from_all(comm: Comm, clock: *mut u64);
    fn host_edges_receive(
        buffer: *mut c_void,
        count: c_int,
        kind: Type,
        rank: c_int,
        tag: c_int,
        comm: Comm,
        status: *mut c_void,
    ) -> c_int;
}

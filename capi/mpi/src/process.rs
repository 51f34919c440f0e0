//! The state of this process between `MPI_Init` and `MPI_Finalize`. `lifecycle` sets and ends it.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use transom::Job;

use crate::host::{Comm, RequestHandle, constants, host_complete_request, host_progress};
use crate::outliving;

/// The calls of a thread between two readings of the clock, and the least time between two calls of
/// [`progress`] in [`progress_now_and_then`].
const CALLS: u32 = 16;
const BETWEEN: Duration = Duration::from_micros(50);

thread_local! {
    static CALLED: Cell<u32> = const { Cell::new(0) };
    static LAST_PROGRESS: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The state of this process.
static PROCESS: OnceLock<Process> = OnceLock::new();
/// Whether the program reads the buffers of gets before their completion.
static EARLY_READS: AtomicBool = AtomicBool::new(false);
/// Whether calls that fetch a value over a net return before they have it.
static LATE_VALUES: AtomicBool = AtomicBool::new(false);

/// Whether the program has called `MPI_Init` or `MPI_Init_thread`.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether the job has ended, and with it the library's communicator.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The state between `MPI_Init` and `MPI_Finalize`.
#[derive(Debug)]
pub(crate) struct Process {
    /// The library's own communicator.
    comm: Comm,
    /// `None` after `MPI_Finalize`.
    job: Mutex<Option<Job>>,
    /// Whether the user requested information about windows and routes.
    pub(crate) info: bool,
    /// Whether it is rank 0 of `MPI_COMM_WORLD`.
    is_first: bool,
}

impl Process {
    /// The state after the start of the job over `comm`.
    pub(crate) fn new(comm: Comm, job: Job, info: bool, is_first: bool) -> Process {
        Process { comm, job: Mutex::new(Some(job)), info, is_first }
    }

    /// Takes the job, which ends, and the library's communicator, which ends after it.
    pub(crate) fn take(&self) -> Option<(Job, Comm)> {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // Relaxed, here and below: MPI_Finalize runs while no other thread calls.
        ENDED.store(true, Ordering::Relaxed);
        Some((job, self.comm))
    }

    /// Whether this rank prints information about windows and routes.
    pub(crate) fn reports(&self) -> bool {
        self.info && self.is_first
    }

    /// The job, until it ends.
    pub(crate) fn job(&self) -> Option<Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sets the state. Called once: `lifecycle` starts no second job.
pub(crate) fn set(process: Process, early_reads: bool) {
    EARLY_READS.store(early_reads, Ordering::Relaxed);
    let net = process.job().is_some_and(|job| job.net().is_some());
    LATE_VALUES.store(net && !early_reads, Ordering::Relaxed);
    drop(PROCESS.set(process));
}

/// The program starts MPI by `MPI_Init` or `MPI_Init_thread`.
pub(crate) fn begins() {
    // Relaxed, here and below: no other thread uses MPI before this.
    BEGUN.store(true, Ordering::Relaxed);
}

/// Whether the program has called `MPI_Init` or `MPI_Init_thread`.
pub(crate) fn has_begun() -> bool {
    BEGUN.load(Ordering::Relaxed)
}

/// Whether the user has switched the service of windows off.
pub(crate) fn is_off() -> bool {
    std::env::var("TRANSOM_MPI").is_ok_and(|value| matches!(&*value, "off" | "n" | "no" | "0"))
}

/// The process, if it serves windows.
pub(crate) fn get() -> Option<&'static Process> {
    PROCESS.get()
}

/// Whether gets of passive-target epochs are complete when they return, for programs that read
/// their buffers early.
pub(crate) fn has_early_reads() -> bool {
    // Relaxed: set once, before there are windows.
    EARLY_READS.load(Ordering::Relaxed)
}

/// Whether calls that fetch a value over a net return before they have it.
#[inline]
pub(crate) fn has_late_values() -> bool {
    // Relaxed, as in `has_early_reads`.
    LATE_VALUES.load(Ordering::Relaxed)
}

/// Stores a complete request, for an operation that is complete. Returns the host's code.
pub(crate) fn completed_request(out: *mut RequestHandle) -> c_int {
    progress_now_and_then();
    let comm = alive().map_or(constants().comm_self, |process| process.comm);
    // SAFETY: the communicator lives until `end`; the caller has room for a handle.
    unsafe { host_complete_request(comm, out) }
}

/// The process, until its job ends.
fn alive() -> Option<&'static Process> {
    PROCESS.get().filter(|_| !ENDED.load(Ordering::Relaxed))
}

/// Makes progress for requests of operations, as a test of one of them does.
pub(crate) fn poll_requests() -> transom::Result<()> {
    let job = get().and_then(Process::job).or_else(|| outliving::job().cloned());
    job.map_or(Ok(()), |job| job.poll_requests())
}

/// Makes progress in the host.
pub(crate) fn progress() {
    match alive() {
        // SAFETY: the communicator lives until `end`.
        Some(process) => unsafe { host_progress(process.comm) },
        None => outliving::progress(),
    }
}

/// At intervals, makes progress in the host (MPI-4.1 §12.7.3) and yields the core. For calls that
/// do not wait if all their operations are complete: programs poll windows by such calls.
#[inline]
pub(crate) fn progress_now_and_then() {
    let calls = CALLED.get().wrapping_add(1);
    CALLED.set(calls);
    if calls.is_multiple_of(CALLS) {
        progress_and_yield();
    }
}

#[cold]
fn progress_and_yield() {
    let now = Instant::now();
    if LAST_PROGRESS.get().is_none_or(|last| now.duration_since(last) >= BETWEEN) {
        LAST_PROGRESS.set(Some(now));
        progress();
        std::thread::yield_now();
    }
}

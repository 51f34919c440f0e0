//! The job of this process. It starts after the host has started (`MPI_Init`), over all ranks of
//! `MPI_COMM_WORLD`, and ends before the host ends (`MPI_Finalize`). If it can't start at one rank,
//! it starts at none, and the host serves all windows.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use transom::{Job, Route};

use crate::boot::HostBootstrap;
use crate::host::{
    Comm, RequestHandle, SUCCESS, constants, host_Comm_dup, host_Comm_free, host_Comm_rank, host_Comm_size,
    host_Finalize, host_Init, host_Init_thread, host_Query_thread, host_call_at_end, host_complete_request,
    host_gather_lengths, host_poll_with, host_poll_without, host_present, host_progress, host_reads_early,
};
use crate::{members, told, types};

/// The state of this process.
static PROCESS: OnceLock<Process> = OnceLock::new();
/// Whether the host calls `transom_end`.
static CALLED_AT_END: AtomicBool = AtomicBool::new(false);
/// Whether the program reads the buffers of gets before their completion.
static EARLY_READS: AtomicBool = AtomicBool::new(false);

/// The state between `MPI_Init` and `MPI_Finalize`.
#[derive(Debug)]
pub(crate) struct Process {
    /// The library's own communicator.
    comm: Comm,
    /// `None` after `MPI_Finalize`.
    job: Mutex<Option<Job>>,
    /// Whether the user asked for information about windows and routes.
    pub(crate) info: bool,
    /// Whether it is rank 0 of `MPI_COMM_WORLD`.
    is_first: bool,
}

impl Process {
    /// Whether this rank prints information about windows and routes.
    pub(crate) fn tells(&self) -> bool {
        self.info && self.is_first
    }

    /// The job, until it ends.
    pub(crate) fn job(&self) -> Option<Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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

/// Starts the job, after the host has started.
pub(crate) fn begin() {
    // SAFETY: the call takes nothing.
    if unsafe { host_present() } == 0 || is_off() || PROCESS.get().is_some() {
        return;
    }
    let world = constants().world;
    let (mut comm, mut rank, mut size, mut level) = (world, 0, 0, 0);
    // SAFETY: the host has started; each call has room for its answer.
    unsafe {
        if host_Comm_dup(world, &raw mut comm) != SUCCESS {
            return;
        }
        host_Comm_rank(comm, &raw mut rank);
        host_Comm_size(comm, &raw mut size);
        host_Query_thread(&raw mut level);
    }
    let Some(job) = start(comm, rank, size) else { return };
    // SAFETY: waiting calls end before the job does, and the job before the communicator.
    job.while_waiting(move || unsafe { host_progress(comm) });
    let looked_after = poll_with_host(&job);
    types::begin();
    members::begin();
    EARLY_READS.store(reads_early(), Ordering::Relaxed);
    if level != constants().thread_multiple {
        job.synchronize_serially();
    }
    let info = std::env::var("TRANSOM_INFO").is_ok_and(|value| matches!(&*value, "y" | "yes" | "1" | "on"));
    // SAFETY: the call takes nothing; the host has started.
    CALLED_AT_END.store(unsafe { host_call_at_end() } == SUCCESS, Ordering::Relaxed);
    // It is not set yet: `begin` returns early if it is.
    drop(PROCESS.set(Process { comm, job: Mutex::new(Some(job)), info, is_first: rank == 0 }));
    if info && rank == 0 {
        eprintln!("transom: windows of this MPI program are served by transom (TRANSOM_MPI=off turns it off)");
        if looked_after {
            eprintln!("transom: the MPI looks after transom's traffic while it waits");
        }
    }
}

/// Starts the job at all ranks or at none.
fn start(comm: Comm, rank: c_int, size: c_int) -> Option<Job> {
    let number = |value: c_int| usize::try_from(value).unwrap_or_default();
    // Errors that one rank finds alone come before the collective steps.
    agreed(comm, rank, size, transom::info::check_variables())?;
    let started = Job::with_bootstrap(Box::new(HostBootstrap::new(comm, number(rank), number(size))));
    let (job, outcome) = match started {
        Ok(job) => (Some(job), Ok(())),
        Err(error) => (None, Err(error)),
    };
    if agreed(comm, rank, size, outcome).is_none() {
        // Leaving the job would wait for ranks that are not in it.
        std::mem::forget(job);
        return None;
    }
    job
}

/// `Some` if all ranks succeeded. If not, the lowest rank that failed prints its error. Collective.
fn agreed(comm: Comm, rank: c_int, size: c_int, outcome: transom::Result<()>) -> Option<()> {
    let mut failed = vec![0; usize::try_from(size).unwrap_or_default()];
    // SAFETY: there is room for a number of each rank.
    let code = unsafe { host_gather_lengths(comm, outcome.is_err().into(), failed.as_mut_ptr()) };
    let first = failed.iter().position(|&failed| failed != 0);
    if let Err(error) = outcome
        && first.and_then(|first| c_int::try_from(first).ok()) == Some(rank)
    {
        eprintln!("transom: rank {rank}: windows are served by the MPI itself: {error}");
    }
    (code == SUCCESS && first.is_none()).then_some(())
}

/// A complete request, for an operation that is complete.
pub(crate) fn complete_request(out: *mut RequestHandle) -> c_int {
    let comm = PROCESS.get().map_or(constants().alone, |process| process.comm);
    // SAFETY: the communicator lives until `end`; the caller has room for a handle.
    unsafe { host_complete_request(comm, out) }
}

/// Makes progress for transom while the host waits, if the host lets other libraries do that.
static POLLER: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// The host's polls between two polls of transom, some of which cost a system call; and the number
/// of polls after an arrival during which transom is polled every time.
const EVERY: u32 = 8;
const EAGER: u32 = 64;

/// Whether waiting calls of the program test the host and poll transom in turns, because the host
/// can't poll other libraries itself. It is the same at all ranks, so that they take part in a
/// collective call by the same function.
static TURNS: AtomicBool = AtomicBool::new(false);

/// Called by the host while it waits.
extern "C" fn poll() -> c_int {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed, all: the counts order nothing. Of several waiting threads one may poll too often.
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    let eager = look.wrapping_sub(LAST.load(Ordering::Relaxed)) < EAGER;
    if (eager || look.is_multiple_of(EVERY))
        && let Some(poller) = POLLER.get()
        && poller()
    {
        LAST.store(look, Ordering::Relaxed);
    }
    0
}

/// Makes the host poll transom too while it waits, if other ranks reach this one through a net:
/// transom's thread would have to be woken. Returns whether the host does.
fn poll_with_host(job: &Job) -> bool {
    let far = |rank| job.route(rank).is_ok_and(|route| route == Route::Net);
    let wanted = (0..job.size()).any(far) && POLLER.set(Box::new(job.poller())).is_ok();
    // SAFETY: the function lives as long as the process, and `end` takes it back.
    let by_host = wanted && unsafe { host_poll_with(poll) } != 0;
    // Relaxed: set before the program's other calls begin.
    TURNS.store(wanted && !by_host, Ordering::Relaxed);
    by_host
}

/// Whether waiting calls test the host and poll transom in turns.
#[inline]
pub(crate) fn waits_in_turns() -> bool {
    TURNS.load(Ordering::Relaxed)
}

/// Polls transom between two tests of the host. Returns whether more polls are needed.
pub(crate) fn turn() -> bool {
    let wanted = waits_in_turns();
    if wanted {
        poll();
    }
    wanted
}

/// Gives the host a chance to make progress.
pub(crate) fn progress() {
    if let Some(process) = PROCESS.get() {
        // SAFETY: the communicator lives until `end`, after which no call comes.
        unsafe { host_progress(process.comm) };
    }
}

/// Whether the user has switched the service of windows off.
fn is_off() -> bool {
    std::env::var("TRANSOM_MPI").is_ok_and(|value| matches!(&*value, "off" | "n" | "no" | "0"))
}

/// Whether gets must be complete early: by the user's setting, else if OpenCoarrays, which reads
/// early, is loaded.
fn reads_early() -> bool {
    match std::env::var("TRANSOM_EARLY_READS").as_deref() {
        Ok("y" | "yes" | "1" | "on") => true,
        Ok("n" | "no" | "0" | "off") => false,
        // SAFETY: the call takes nothing.
        _ => unsafe { host_reads_early() != 0 },
    }
}

/// Called at the start of the host's end. Functions of the program that MPI calls at its end have
/// used their windows by then.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_end() {
    end();
}

/// Ends the job, before the host ends.
fn end() {
    let Some(process) = PROCESS.get() else { return };
    let job = process.job.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(job) = job {
        told::at_end();
        // From here to the program's end, only operations of the host are waited for.
        TURNS.store(false, Ordering::Relaxed);
        // SAFETY: a function that is not registered is not removed.
        unsafe { host_poll_without(poll) };
        if let Err(error) = job.finalize() {
            eprintln!("transom: leaving the job: {error}");
        }
        let mut comm = process.comm;
        // SAFETY: the communicator is not used any more.
        unsafe { host_Comm_free(&raw mut comm) };
    }
}

#[unsafe(export_name = "PMPI_Init")]
pub(crate) unsafe extern "C" fn init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the caller's arguments, as MPI defines them.
    let code = unsafe { host_Init(argc, argv.cast()) };
    if code == SUCCESS {
        begin();
    }
    code
}

#[unsafe(export_name = "PMPI_Init_thread")]
pub(crate) unsafe extern "C" fn init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: as in `init`.
    let code = unsafe { host_Init_thread(argc, argv.cast(), required, provided) };
    if code == SUCCESS {
        begin();
    }
    code
}

#[unsafe(export_name = "PMPI_Finalize")]
pub(crate) unsafe extern "C" fn finalize() -> c_int {
    if !CALLED_AT_END.load(Ordering::Relaxed) {
        end();
    }
    // SAFETY: the call takes nothing.
    unsafe { host_Finalize() }
}

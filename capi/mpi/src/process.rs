//! The job of this process: it begins when the host has begun (`MPI_Init`), over all ranks of `MPI_COMM_WORLD`, and ends before the
//! host ends (`MPI_Finalize`). Where it can't begin at one rank it begins at none, and the host serves all windows.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use transom::{Job, Route};

use crate::boot::HostBootstrap;
use crate::host::{
    Comm, RequestHandle, SUCCESS, constants, host_Comm_dup, host_Comm_free, host_Comm_rank, host_Comm_size,
    host_Finalize, host_Init, host_Init_thread, host_Query_thread, host_complete_request, host_gather_lengths,
    host_poll_with, host_poll_without, host_present, host_progress,
};
use crate::{members, types};

/// The one of this process.
static PROCESS: OnceLock<Process> = OnceLock::new();
/// Whether calls come from several threads at once (`MPI_THREAD_MULTIPLE`).
static MULTIPLE: AtomicBool = AtomicBool::new(false);

/// What there is between `MPI_Init` and `MPI_Finalize`.
#[derive(Debug)]
pub(crate) struct Process {
    /// Of the library's own.
    comm: Comm,
    /// `None` after `MPI_Finalize`.
    job: Mutex<Option<Job>>,
    /// Whether the user wants to know of windows and routes.
    pub(crate) info: bool,
}

impl Process {
    /// The job, until it ends.
    pub(crate) fn job(&self) -> Option<Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The process, where it serves windows.
pub(crate) fn get() -> Option<&'static Process> {
    PROCESS.get()
}

/// Whether calls may come from several threads at once.
pub(crate) fn is_multiple() -> bool {
    // Relaxed: set once, before there are windows.
    MULTIPLE.load(Ordering::Relaxed)
}

/// Begins, once the host has begun.
pub(crate) fn begin() {
    // SAFETY: it takes nothing.
    if unsafe { host_present() } == 0 || is_off() || PROCESS.get().is_some() {
        return;
    }
    let world = constants().world;
    let (mut comm, mut rank, mut size, mut level) = (world, 0, 0, 0);
    // SAFETY: the host has begun; each call has room for its answer.
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
    MULTIPLE.store(level == constants().thread_multiple, Ordering::Relaxed);
    let info = std::env::var("TRANSOM_INFO").is_ok_and(|value| matches!(&*value, "y" | "yes" | "1" | "on"));
    // Nobody set it before.
    drop(PROCESS.set(Process { comm, job: Mutex::new(Some(job)), info }));
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
    // What a rank alone may find wrong comes before what all do together.
    agreed(comm, rank, size, transom::info::check_variables())?;
    let started = Job::with_bootstrap(Box::new(HostBootstrap::new(comm, number(rank), number(size))));
    let (job, outcome) = match started {
        Ok(job) => (Some(job), Ok(())),
        Err(error) => (None, Err(error)),
    };
    if agreed(comm, rank, size, outcome).is_none() {
        // To leave it would be to wait for ranks that are not in it.
        std::mem::forget(job);
        return None;
    }
    job
}

/// Something where all ranks succeeded; else the lowest that did not says why. Collective.
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

/// A request that is complete, for an operation that is over.
pub(crate) fn complete_request(out: *mut RequestHandle) -> c_int {
    let comm = PROCESS.get().map_or(constants().alone, |process| process.comm);
    // SAFETY: the communicator lives until `end`; the caller has room for a handle.
    unsafe { host_complete_request(comm, out) }
}

/// Makes progress while the host waits, where it lets others do that.
static POLLER: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// How many looks of the host at its own affairs come between two at ours: some cost a system call. None, for so many looks after
/// something came.
const EVERY: u32 = 8;
const EAGER: u32 = 64;

/// Whether waiting calls of the program wait by tests of the host in turns with looks at our affairs, since the host has no such turns of
/// its own. The same at all ranks, so that they take part in a collective call by the same function.
static TURNS: AtomicBool = AtomicBool::new(false);

/// What the host calls while it waits.
extern "C" fn poll() -> c_int {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed, all: counts that order nothing; of several threads that wait one may look too often.
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

/// Has the host make our progress too while it waits, where others reach this rank through a net: its thread would have to be woken.
/// Whether it does.
fn poll_with_host(job: &Job) -> bool {
    let far = |rank| job.route(rank).is_ok_and(|route| route == Route::Net);
    let wanted = (0..job.size()).any(far) && POLLER.set(Box::new(job.poller())).is_ok();
    // SAFETY: the function lives as long as the process, and `end` takes it back.
    let by_host = wanted && unsafe { host_poll_with(poll) } != 0;
    // Relaxed: set before the program's other calls begin.
    TURNS.store(wanted && !by_host, Ordering::Relaxed);
    by_host
}

/// Whether waiting calls wait in turns.
#[inline]
pub(crate) fn waits_in_turns() -> bool {
    TURNS.load(Ordering::Relaxed)
}

/// A look at our affairs between two tests of the host. Whether more are wanted.
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

/// Whether the user does not want windows to be served.
fn is_off() -> bool {
    std::env::var("TRANSOM_MPI").is_ok_and(|value| matches!(&*value, "off" | "n" | "no" | "0"))
}

/// Ends, before the host ends.
pub(crate) fn end() {
    let Some(process) = PROCESS.get() else { return };
    let job = process.job.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(job) = job {
        // What the program waits for until it ends is the host's alone.
        TURNS.store(false, Ordering::Relaxed);
        // SAFETY: what is not there is not taken away.
        unsafe { host_poll_without(poll) };
        if let Err(error) = job.finalize() {
            eprintln!("transom: leaving the job: {error}");
        }
        let mut comm = process.comm;
        // SAFETY: nobody uses it any more.
        unsafe { host_Comm_free(&raw mut comm) };
    }
}

#[unsafe(export_name = "MPI_Init")]
pub(crate) unsafe extern "C" fn init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: the caller's arguments, as MPI has them.
    let code = unsafe { host_Init(argc, argv.cast()) };
    if code == SUCCESS {
        begin();
    }
    code
}

#[unsafe(export_name = "MPI_Init_thread")]
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

#[unsafe(export_name = "MPI_Finalize")]
pub(crate) unsafe extern "C" fn finalize() -> c_int {
    end();
    // SAFETY: it takes nothing.
    unsafe { host_Finalize() }
}

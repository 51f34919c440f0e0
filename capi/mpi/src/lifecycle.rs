//! The start and the end of this process's job. The job starts after the host (`MPI_Init`), over
//! all ranks of `MPI_COMM_WORLD`, and ends in `MPI_Finalize`: before the host ends, and under Open
//! MPI after that. If it can't start at one rank, it starts at none, and the host serves all
//! windows.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use transom::{ErrorKind, Job, JobError, diagnostics};

use crate::boot::{GIVEN_UP, HostBootstrap};
use crate::errors::{Failure, Outcome};
use crate::host::{
    Comm, SUCCESS, constants, host_Comm_dup, host_Comm_free, host_Comm_rank, host_Comm_set_errhandler, host_Comm_size,
    host_Finalize, host_Init, host_Init_thread, host_Query_thread, host_call_at_end, host_ends_with_barrier,
    host_fail_exit, host_gather_lengths, host_has_opencoarrays, host_present,
};
use crate::process::{self, Process};
use crate::{accesses, edges, identity, members, outliving, polls, proxies, report, turns, types, windows};

/// Time after which the start of the job appears to wait for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the host calls `transom_end`.
static CALLED_AT_END: AtomicBool = AtomicBool::new(false);
/// The job of a program that has ended it, until `MPI_Finalize` returns.
static LEAVING: Mutex<Option<Job>> = Mutex::new(None);

/// Starts the job, after the host has started.
fn begin() {
    // SAFETY: the call takes nothing.
    if unsafe { host_present() } == 0 || process::is_off() || process::get().is_some() {
        return;
    }
    let world = constants().world;
    let (mut comm, mut rank, mut size, mut level) = (world, 0, 0, 0);
    // SAFETY: the host has started, and there is room for the answer.
    unsafe { host_Comm_rank(world, &raw mut rank) };
    let waiting = tell_if_missing(rank);
    // SAFETY: as above.
    unsafe {
        if host_Comm_dup(world, &raw mut comm) != SUCCESS {
            return;
        }
        // The duplicate has the handler of MPI_COMM_WORLD, which ends the program. A program that
        // goes on after the death of a rank (ULFM) sets another one later.
        host_Comm_set_errhandler(comm, constants().errors_return);
        host_Comm_size(comm, &raw mut size);
        host_Query_thread(&raw mut level);
    }
    let Some(job) = start(comm, rank, size) else { return };
    drop(waiting);
    let mut crowded = vec![0; job.size()];
    // SAFETY: there is room for a number of each rank.
    let code = unsafe { host_gather_lengths(comm, c_int::from(job.is_crowded()), crowded.as_mut_ptr()) };
    let some_crowded = code == SUCCESS && crowded.contains(&1);
    // Windows of a session may be used after the job has left.
    job.while_waiting(process::progress);
    let looked_after = polls::begin(&job, some_crowded);
    types::begin();
    members::begin();
    if level != constants().thread_multiple {
        job.synchronize_serially();
    }
    let info = std::env::var("TRANSOM_INFO").is_ok_and(|value| matches!(&*value, "y" | "yes" | "1" | "on"));
    // SAFETY: the call takes nothing; the host has started.
    CALLED_AT_END.store(unsafe { host_call_at_end() } == SUCCESS, Ordering::Relaxed);
    let clock = job.checker_releases();
    process::set(Process::new(comm, job, info, rank == 0), reads_early());
    let is_checked = clock.is_some();
    edges::begin(clock.map_or(0, |clock| clock.len()));
    if is_checked {
        accesses::connect_to_checker();
        if rank == 0 && edges::misses_openmp() {
            diagnostics::warn(
                "transom::mpi",
                &"TRANSOM_CHECK: this libtransom_mpi suppresses reports on threads that OpenMP started; build it with \
                  --features openmp to see them",
            );
        }
    }
    if info && rank == 0 {
        diagnostics::print_requested(
            "transom: windows of this MPI program are served by transom (TRANSOM_MPI=off turns it off)",
        );
        if looked_after {
            diagnostics::print_requested("transom: while the MPI waits, it also makes progress for transom");
        }
    }
}

/// At rank 0: warns if the returned value is not dropped in time. Other ranks then start slowly, or
/// a rank has no library, or one that is switched off.
fn tell_if_missing(rank: c_int) -> Option<Sender<()>> {
    let text = "MPI_Init waits for other ranks: either the machine is slow, or libtransom_mpi is not preloaded at \
                every rank, or TRANSOM_MPI=off is set at some";
    (rank == 0).then(|| diagnostics::warn_after(PATIENCE, "transom::mpi", text.into()))
}

/// Starts the job at all ranks or at none.
fn start(comm: Comm, rank: c_int, size: c_int) -> Option<Job> {
    let number = |value: c_int| usize::try_from(value).unwrap_or_default();
    // Errors of one rank alone are detected before the collective steps.
    agreed(comm, rank, size, transom::info::check_variables().map_err(Failure::from).and_then(|()| proxies::begin()))?;
    let given_up = Arc::new(AtomicBool::new(false));
    let boot = HostBootstrap::new(comm, number(rank), number(size), Arc::clone(&given_up));
    let started = Job::with_watched_bootstrap(Box::new(boot));
    let (job, outcome) = match started {
        Ok(job) => (Some(job), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Relaxed: this thread has set it. Another rank's failure ended the last collective call.
    if given_up.load(Ordering::Relaxed) || agreed(comm, rank, size, outcome.map_err(Failure::from)).is_none() {
        // Leaving the job would wait for ranks that are not in it.
        std::mem::forget(job);
        return None;
    }
    job
}

/// `Some` if all ranks succeeded. If not, the lowest rank that failed prints its error. Collective,
/// but other ranks may be in a step of [`HostBootstrap`] instead, which they leave by the failure.
fn agreed(comm: Comm, rank: c_int, size: c_int, outcome: Outcome<()>) -> Option<()> {
    let mut failed = vec![0; usize::try_from(size).unwrap_or_default()];
    // SAFETY: there is room for a number of each rank.
    let code = unsafe { host_gather_lengths(comm, if outcome.is_err() { GIVEN_UP } else { 0 }, failed.as_mut_ptr()) };
    let first = failed.iter().position(|&failed| failed == GIVEN_UP);
    if let Err(failure) = outcome
        && first.and_then(|first| c_int::try_from(first).ok()) == Some(rank)
    {
        let what = format_args!("rank {rank}: windows are served by the MPI itself: {failure}");
        diagnostics::error("transom::mpi", &what);
    }
    (code == SUCCESS && first.is_none()).then_some(())
}

/// Whether gets must be complete early: by the user's setting, else if OpenCoarrays, which reads
/// early, is loaded.
fn reads_early() -> bool {
    match std::env::var("TRANSOM_EARLY_READS").as_deref() {
        Ok("y" | "yes" | "1" | "on") => true,
        Ok("n" | "no" | "0" | "off") => false,
        // SAFETY: the call takes nothing.
        _ => unsafe { host_has_opencoarrays() != 0 },
    }
}

/// Called at the start of the host's end. Functions of the program that MPI calls at its end have
/// used their windows by then. Open MPI does not call this where such a function fails, and then
/// goes on, so that no rank may wait here for the others: `leave` comes after the barrier of the
/// host's end.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_end() {
    // SAFETY: the call takes nothing.
    if unsafe { host_ends_with_barrier() } == 0 {
        end();
    } else if let Some((job, comm)) = end_use() {
        free_of_host(comm);
        *LEAVING.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
    }
}

/// Ends the job, before the host ends.
fn end() {
    if let Some((job, comm)) = end_use() {
        polls::end();
        finish(job.finalize());
        free_of_host(comm);
    }
}

/// Ends the use of the job at this rank, which goes on to serve other ranks.
fn end_use() -> Option<(Job, Comm)> {
    let taken = process::get().and_then(Process::take)?;
    // MPICH ends the job only with the last session.
    if cfg!(open_mpi) && windows::any_exists() {
        outliving::begin(&taken.0);
    }
    report::at_end();
    edges::begin(0);
    accesses::watch_nothing();
    Some(taken)
}

/// Frees the objects of the host that the library has: `comm`, those of the proxies, and keys.
fn free_of_host(mut comm: Comm) {
    proxies::end();
    types::end();
    members::end();
    // SAFETY: the communicator is not used any more.
    unsafe { host_Comm_free(&raw mut comm) };
}

/// Leaves the job after the host's end, in which all ranks have waited for each other.
fn leave() {
    let ended = LEAVING.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The host has not called `transom_end` where the job is still in use.
    if let Some(job) = ended.or_else(|| end_use().map(|(job, _)| job)) {
        polls::end();
        finish(job.leave_after_barrier());
    }
}

fn finish(left: transom::Result<()>) {
    if let Err(error) = left {
        diagnostics::error("transom::mpi", &format_args!("leaving the job failed: {error:#}"));
        // An MPI program has no error of MPI_Finalize to return from its `main`.
        if matches!(error.kind(), ErrorKind::Job(JobError::Conflicts { .. })) {
            // SAFETY: the call takes nothing.
            unsafe { host_fail_exit() };
        }
    }
}

#[unsafe(export_name = "PMPI_Init")]
pub(crate) unsafe extern "C" fn init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    process::begins();
    accesses::watch_nothing();
    identity::check();
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
    process::begins();
    accesses::watch_nothing();
    identity::check();
    // SAFETY: as in `init`.
    let code = unsafe { host_Init_thread(argc, argv.cast(), required, provided) };
    if code == SUCCESS {
        begin();
    }
    code
}

#[unsafe(export_name = "PMPI_Finalize")]
pub(crate) unsafe extern "C" fn finalize() -> c_int {
    if edges::is_on() {
        // The ranks learn of operations on windows that the program has not freed.
        // SAFETY: the host has not ended, and all ranks of the communicator make this call.
        unsafe { turns::barrier(constants().world) };
    }
    if !CALLED_AT_END.load(Ordering::Relaxed) {
        end();
    }
    // SAFETY: the call takes nothing.
    let code = unsafe { host_Finalize() };
    // SAFETY: as above.
    if unsafe { host_ends_with_barrier() } != 0 {
        leave();
    }
    code
}

//! Progress of transom while the program waits in the host.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use transom::{Job, Route};

use crate::host::{host_poll_with, host_poll_without};
use crate::windows;

/// Makes progress for transom while the host waits, if the host lets other libraries do that.
static POLLER: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// The host's polls between two polls of transom, some of which cost a system call; and the number
/// of polls after an arrival during which transom is polled every time.
const EVERY: u32 = 8;
const EAGER: u32 = 64;

/// A poll that takes at least this long has received something: a put over sockets arrives in
/// pieces, and ends without an event at its target. A poll that finds nothing takes far less.
const BUSY: Duration = Duration::from_micros(4);

/// Whether waiting calls of the program alternately test the host and poll transom: other ranks
/// reach this one through a net, and the host can't poll other libraries itself; or ranks have to
/// share CPUs, and the host's waits do not yield them. The value is equal at all ranks, so that all
/// of them use one function for a collective call.
static TURNS: AtomicBool = AtomicBool::new(false);

/// The tests of the host after which a waiting thread yields its CPU: `CROWDED` if this rank has to
/// share CPUs.
static YIELDS_AFTER: AtomicU32 = AtomicU32::new(64);
const CROWDED: u32 = 4;

/// Called by the host while it waits. If the host serves all windows of this process, no operation
/// waits for a poll.
extern "C" fn poll() -> c_int {
    if !windows::any() {
        return 0;
    }
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed, all: the counts order no other access. Of several waiting threads one may poll too
    // often.
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    let eager = look.wrapping_sub(LAST.load(Ordering::Relaxed)) < EAGER;
    if (eager || look.is_multiple_of(EVERY))
        && let Some(poller) = POLLER.get()
    {
        let start = Instant::now();
        if poller() || start.elapsed() >= BUSY {
            LAST.store(look, Ordering::Relaxed);
        }
    }
    0
}

/// Makes the host poll transom too while it waits, if other ranks reach this one through a net:
/// otherwise transom's thread would have to be woken. `some_crowded`: some ranks of the job have to
/// share CPUs; equal at all ranks. Returns whether the host polls transom.
pub(crate) fn begin(job: &Job, some_crowded: bool) -> bool {
    let far = |rank| job.route(rank).is_ok_and(|route| route == Route::Net);
    let wanted = (0..job.size()).any(far) && POLLER.set(Box::new(job.poller())).is_ok();
    // SAFETY: the function lives as long as the process, and `end` takes it back.
    let by_host = wanted && unsafe { host_poll_with(poll) } != 0;
    // Open MPI yields by itself (`mpi_yield_when_idle`).
    let keeps_cpu = some_crowded && !cfg!(open_mpi);
    // Relaxed, both: set before the program's other calls begin.
    TURNS.store((wanted && !by_host) || keeps_cpu, Ordering::Relaxed);
    if job.is_crowded() {
        YIELDS_AFTER.store(CROWDED, Ordering::Relaxed);
    }
    by_host
}

/// Yields the CPU if `tests`, the number of a wait's tests, is a multiple of `YIELDS_AFTER`.
pub(crate) fn yield_after(tests: u32) {
    // Relaxed: see `begin`.
    if tests.is_multiple_of(YIELDS_AFTER.load(Ordering::Relaxed)) {
        std::thread::yield_now();
    }
}

/// Called by a test of the program that completes nothing. Programs repeat such tests, so a rank
/// that shares CPUs yields its CPU from time to time.
pub(crate) fn in_vain() {
    static TESTS: AtomicU32 = AtomicU32::new(0);
    if is_crowded() {
        yield_after(TESTS.fetch_add(1, Ordering::Relaxed));
    }
}

fn is_crowded() -> bool {
    // Relaxed: see `begin`.
    YIELDS_AFTER.load(Ordering::Relaxed) == CROWDED
}

/// Whether waiting calls alternately test the host and poll transom.
#[inline]
pub(crate) fn waits_in_turns() -> bool {
    TURNS.load(Ordering::Relaxed)
}

/// Polls transom between two tests of the host. Returns whether the wait goes on in turns.
pub(crate) fn turn() -> bool {
    if !waits_in_turns() {
        return false;
    }
    poll();
    windows::any() || is_crowded()
}

/// Ends the polls. From here to the program's end, only operations of the host are waited for.
pub(crate) fn end() {
    TURNS.store(false, Ordering::Relaxed);
    // SAFETY: a function that is not registered is not removed.
    unsafe { host_poll_without(poll) };
}

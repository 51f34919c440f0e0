//! Progress of transom while the program waits in the host. Open MPI calls a progress function of
//! the library while it waits. MPICH has no such hook: there the library replaces waits by waits
//! *in turns*, which alternate tests of the host with polls of transom (`turns`, `requests`).

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use transom::backoff::{self, Vain};
use transom::{Job, Route};

use crate::host::{SUCCESS, host_register_poll, host_unregister_poll};
use crate::{process, windows};

/// Makes progress for transom while the host waits, if the host lets other libraries do that.
static POLLER: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// Only each `EVERY`th call of the hook polls transom, because a poll may cost a system call. For
/// `EAGER` calls after an arrival every call polls transom.
const EVERY: u32 = 8;
const EAGER: u32 = 64;

/// A poll that takes at least this long counts as an arrival: a put over sockets arrives in pieces,
/// and makes no event at its target. A poll that finds nothing takes far less.
const BUSY: Duration = Duration::from_micros(4);

/// Tests of the program that follow each other sooner than this, in nanoseconds, are a loop. The
/// time includes the host's own test. Between rarer ones the program probably computes: polls by
/// them would be too rare to replace the progress thread, but would keep it away.
const LOOP: u64 = 8000;

/// The time of the program's last test that has found nothing, as [`since_start`] gives it.
static LAST_TEST: AtomicU64 = AtomicU64::new(0);

/// Whether the program waits in turns. There are two reasons: other ranks reach this rank through a
/// net, and the host has no hook for polls; or ranks share CPUs, and the host's waits do not yield
/// them. The value is equal at all ranks, so that all of them use the same form of a collective
/// call.
static TURNS: AtomicBool = AtomicBool::new(false);

/// The number of tests of the host after which a waiting thread pauses. `CROWDED` if this rank
/// shares CPUs.
static YIELDS_AFTER: AtomicU32 = AtomicU32::new(64);
const CROWDED: u32 = 4;

/// The hook, which the host calls while it waits. If the host serves all windows of this process,
/// no operation needs a poll.
extern "C" fn poll() -> c_int {
    poll_transom();
    0
}

/// Polls transom, or omits the poll. Returns whether something has arrived.
fn poll_transom() -> bool {
    if !windows::any_exists() {
        return false;
    }
    static POLLS: AtomicU32 = AtomicU32::new(0);
    static LAST_ARRIVAL: AtomicU32 = AtomicU32::new(0);
    // Relaxed, all: the counts order no other access. Of several waiting threads one may poll too
    // often.
    let poll = POLLS.fetch_add(1, Ordering::Relaxed);
    let eager = poll.wrapping_sub(LAST_ARRIVAL.load(Ordering::Relaxed)) < EAGER;
    if (eager || poll.is_multiple_of(EVERY))
        && let Some(poller) = POLLER.get()
    {
        let start = Instant::now();
        if poller() || start.elapsed() >= BUSY {
            LAST_ARRIVAL.store(poll, Ordering::Relaxed);
            return true;
        }
    }
    false
}

/// Installs the hook if other ranks reach this rank through a net; otherwise each message would
/// have to wake transom's progress thread. Decides whether waits are in turns. `some_crowded`: some
/// ranks of the job share CPUs; equal at all ranks. Returns whether the host calls the hook.
pub(crate) fn begin(job: &Job, some_crowded: bool) -> bool {
    let far = |rank| job.route(rank).is_ok_and(|route| route == Route::Net);
    let wanted = (0..job.size()).any(far) && POLLER.set(Box::new(job.poller())).is_ok();
    // SAFETY: the function lives as long as the process, and `end` takes it back.
    let by_host = wanted && unsafe { host_register_poll(poll) } != 0;
    // Open MPI yields by itself (`mpi_yield_when_idle`).
    let keeps_cpu = some_crowded && !cfg!(open_mpi);
    // Relaxed, both: set before the program's other calls begin.
    TURNS.store((wanted && !by_host) || keeps_cpu, Ordering::Relaxed);
    if job.is_crowded() {
        YIELDS_AFTER.store(CROWDED, Ordering::Relaxed);
    }
    by_host
}

/// Pauses if `tests`, the number of tests of a wait since the last arrival, is a positive multiple
/// of `YIELDS_AFTER`: yields the CPU at first. A rank that shares CPUs later sleeps, because the
/// ranks that compute would get little time from ranks that only yield.
pub(crate) fn pause_after(tests: u32) {
    // Relaxed: see `begin`.
    let every = YIELDS_AFTER.load(Ordering::Relaxed);
    if tests == 0 || !tests.is_multiple_of(every) {
        return;
    }
    if is_crowded() {
        backoff::pause(tests / every, true);
    } else {
        std::thread::yield_now();
    }
}

/// Called after a test of the program that has found nothing. Programs repeat such tests, so those
/// in a loop ([`LOOP`]) make progress for transom where the host has no hook, and a rank that
/// shares CPUs yields its CPU after some tests. The rank does not sleep, because the program may
/// compute between its tests.
pub(crate) fn found_nothing() {
    let in_turns = waits_in_turns();
    // Relaxed, here and below: a hint. Of several testing threads one may poll too often.
    if in_turns && since_start().saturating_sub(LAST_TEST.load(Ordering::Relaxed)) < LOOP {
        poll_transom();
    }
    static TESTS: AtomicU32 = AtomicU32::new(0);
    if is_crowded() && TESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(CROWDED) {
        std::thread::yield_now();
    }
    if in_turns {
        LAST_TEST.store(since_start(), Ordering::Relaxed);
    }
}

/// The time since the first call of this function, in nanoseconds.
fn since_start() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Makes progress in the host and pauses, for a wait that has looked `looks` times in vain.
pub(crate) fn progress_and_pause(looks: u32) {
    process::progress();
    backoff::pause(looks, is_crowded());
}

fn is_crowded() -> bool {
    // Relaxed: see `begin`.
    YIELDS_AFTER.load(Ordering::Relaxed) == CROWDED
}

/// Whether the program waits in turns.
#[inline]
pub(crate) fn waits_in_turns() -> bool {
    TURNS.load(Ordering::Relaxed)
}

/// Polls transom between two tests of the host. `is_pending`: operations with requests are in
/// flight. Returns whether a message has arrived for transom; `None` if the wait does not continue
/// in turns.
pub(crate) fn turn(is_pending: bool) -> Option<bool> {
    let arrived = waits_in_turns().then(poll_transom);
    let goes_on = is_pending || (arrived.is_some() && (windows::any_exists() || is_crowded()));
    goes_on.then(|| arrived.unwrap_or(false))
}

/// The outcome of a poll of the operations in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Polled {
    /// Whether operations are left in flight.
    pub(crate) left: bool,
    /// Whether requests were completed.
    pub(crate) completed: bool,
}

/// What a test of a wait has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Some of the requests are complete that were not before.
    Progress,
    /// The wait is over.
    End,
}

impl Found {
    pub(crate) fn end_if(over: bool) -> Found {
        if over { Found::End } else { Found::Nothing }
    }
}

/// Alternates `poll`, polls of transom and `test`, which returns a code and what it has found,
/// until the wait is over. Returns the last code; `None` if the wait does not continue in turns.
pub(crate) fn alternate(poll: impl Fn() -> Polled, mut test: impl FnMut() -> (c_int, Found)) -> Option<c_int> {
    let mut vain = Vain::default();
    loop {
        let polled = poll();
        let arrived = turn(polled.left)?;
        let (code, found) = test();
        if found == Found::End || code != SUCCESS {
            return Some(code);
        }
        pause_after(vain.looked(arrived || polled.completed || found == Found::Progress));
    }
}

/// Ends the polls of transom. Later waits of the program are waits for the host alone.
pub(crate) fn end() {
    TURNS.store(false, Ordering::Relaxed);
    // SAFETY: a function that is not registered is not removed.
    unsafe { host_unregister_poll(poll) };
}

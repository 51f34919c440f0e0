//! Waits for all operations in flight, to one target or to all. The count of these operations may
//! never be zero while other threads begin further ones. A long wait therefore holds further
//! operations back: it sets a bit in the state of each target's lock, which puts and gets over a
//! net load in any case. Operations that begin later wait until the bit is clear. The last of the
//! waits for the target clears the bit. Releases of locks by the net or by messages are held back
//! too, because the count includes them. A thread is not held back while an operation in flight
//! depends on this thread, for example because the thread has claimed a staged piece.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use transom_fabric::Tally;

use super::parts::Parts;
use super::target::Target;
use super::targets::Targets;
use crate::error::Result;
use crate::job::JobCore;

/// The time for which a wait does not hold operations back: longer than the operations of one
/// thread usually take.
const PATIENCE: Duration = Duration::from_micros(250);
/// The number of reads of the count between two reads of the clock.
const LOOKS: u32 = 16;

/// The targets of a wait.
#[derive(Clone, Copy)]
pub(super) enum DrainedTargets<'t> {
    /// One of the window's targets.
    One(&'t Target),
    /// One of the window's targets, without the release of its lock, which the tally counts. No
    /// call needs the answer to a release.
    Beside(&'t Target, &'t Tally),
    All(&'t Targets),
}

/// A wait that holds operations back.
#[derive(PartialEq, Eq)]
struct Stall {
    /// The address of the window's targets.
    window: usize,
    /// The rank of the target, or `None` for all of them.
    target: Option<usize>,
}

/// The waits of all windows that hold operations back. Only waits that are long already take the
/// lock. A thread holds it until it has set or cleared the bits, so that no wait clears a bit that
/// another one has set.
static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());

fn stalls() -> MutexGuard<'static, Vec<Stall>> {
    STALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'t> DrainedTargets<'t> {
    /// Counts the operations in flight.
    pub(super) fn tally(self) -> &'t Tally {
        match self {
            DrainedTargets::One(target) | DrainedTargets::Beside(target, _) => &target.tally,
            DrainedTargets::All(targets) => &targets.tally,
        }
    }

    /// The number of awaited operations in flight.
    pub(super) fn outstanding(self) -> u64 {
        self.outstanding_of(self.tally())
    }

    /// The number of awaited operations among those that `tally` counts.
    fn outstanding_of(self, tally: &Tally) -> u64 {
        let all = tally.outstanding();
        match self {
            // Read last: the end of the release lowers its own count first.
            DrainedTargets::Beside(_, release) => all.saturating_sub(release.outstanding()),
            DrainedTargets::One(_) | DrainedTargets::All(_) => all,
        }
    }

    /// Calls `each` for each target. Atomics by the device may be in flight to mapped targets too.
    fn for_each(self, each: impl Fn(&Target)) {
        match self {
            DrainedTargets::One(target) | DrainedTargets::Beside(target, _) => each(target),
            DrainedTargets::All(targets) => targets.iter().for_each(each),
        }
    }
}

/// A wait for all operations in flight. Operations that the wait holds back begin when the wait
/// ends.
struct Drain<'t> {
    job: &'t JobCore,
    /// All targets of the window.
    targets: &'t Targets,
    awaited: DrainedTargets<'t>,
    looks: Cell<u32>,
    begun: Cell<Option<Instant>>,
    holds_back: Cell<bool>,
}

impl<'t> Drain<'t> {
    fn new(job: &'t JobCore, targets: &'t Targets, awaited: DrainedTargets<'t>) -> Drain<'t> {
        Drain { job, targets, awaited, looks: Cell::new(0), begun: Cell::new(None), holds_back: Cell::new(false) }
    }

    /// The number of operations in flight. Sends those that are kept.
    fn left(&self) -> u64 {
        let left = self.awaited.outstanding();
        if left > 0 {
            self.job.messages.end_gathering_in(self.awaited.tally());
            self.looks.set(self.looks.get().wrapping_add(1));
            if self.looks.get().is_multiple_of(LOOKS) {
                self.look_at_clock();
            }
        }
        left
    }

    /// [`Drain::left`] without the operations on lost ranks, which a transport may never end.
    fn left_on_live(&self) -> u64 {
        if self.left() == 0 {
            return 0;
        }
        let (lost, left) = (self.job.progress.lost(), Cell::new(0));
        self.awaited.for_each(|target| {
            let outstanding = self.awaited.outstanding_of(&target.tally);
            if outstanding > 0 && !lost.contains(&self.targets.job_rank(target)) {
                left.set(left.get() + outstanding);
            }
        });
        left.get()
    }

    #[cold]
    fn look_at_clock(&self) {
        match self.begun.get() {
            None => self.begun.set(Some(Instant::now())),
            Some(begun) if begun.elapsed() >= PATIENCE => {
                // The bit is set again and again: a change of the target's lock clears it, and the
                // window may have a new target.
                self.hold_back();
                self.begun.set(Some(Instant::now()));
            }
            Some(_) => {}
        }
    }

    fn stall(&self) -> Stall {
        let target = match self.awaited {
            DrainedTargets::One(target) | DrainedTargets::Beside(target, _) => Some(target.rank()),
            DrainedTargets::All(_) => None,
        };
        Stall { window: std::ptr::from_ref(self.targets).addr(), target }
    }

    /// Holds operations on the targets back.
    fn hold_back(&self) {
        let mut stalls = stalls();
        if !self.holds_back.replace(true) {
            stalls.push(self.stall());
        }
        self.awaited.for_each(Target::hold_back);
    }

    /// Ends a wait that holds operations back. Operations on targets that no other wait holds back
    /// may begin.
    fn let_go(&self) {
        let (mut stalls, own) = (stalls(), self.stall());
        if let Some(place) = stalls.iter().position(|stall| *stall == own) {
            stalls.swap_remove(place);
        }
        self.awaited.for_each(|target| {
            let holds =
                |stall: &Stall| stall.window == own.window && stall.target.is_none_or(|rank| rank == target.rank());
            if !stalls.iter().any(holds) {
                target.let_go();
            }
        });
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        if self.holds_back.get() {
            self.let_go();
            self.job.progress.end_sleeps();
        }
    }
}

/// Waits until no operation is in flight to `awaited`, of the window's `targets`. Failed operations
/// stay recorded in the tally. After the loss of a rank, the wait goes on for the operations on
/// live ranks: the caller may release a lock or notify a target next, or return buffers to the
/// program.
///
/// # Errors
/// The loss of a rank, whether or not operations are in flight to it. Operations are in flight to
/// live ranks too only if a transport failed or nothing has moved for long.
#[cold]
pub(super) fn drain(job: &JobCore, targets: &Targets, awaited: DrainedTargets<'_>) -> Result<()> {
    let drain = Drain::new(job, targets, awaited);
    let waited = job.progress.until(|| drain.left() == 0).and_then(|()| job.progress.look_between());
    waited.map_err(|mut error| {
        job.go_on_after(&mut error, || drain.left_on_live());
        error
    })
}

/// [`drain`] that goes on after errors, because lent buffers can't be returned before the
/// operations are complete. If waiting for them is impossible, the process aborts.
#[cold]
pub(super) fn outlast(job: &JobCore, targets: &Targets, awaited: DrainedTargets<'_>) {
    let drain = Drain::new(job, targets, awaited);
    job.outlast(|| drain.left());
}

impl Parts {
    /// Waits at the beginning of an operation, or of the release of a lock, while another thread's
    /// wait holds operations on the target back.
    #[inline]
    pub(super) fn await_drain(&self, target: &Target) {
        if target.is_held_back() {
            await_release(&self.job, target);
        }
    }
}

/// [`Parts::await_drain`] for a target whose operations are held back.
#[cold]
pub(super) fn await_release(job: &JobCore, target: &Target) {
    if let Err(mut error) = job.progress.until(|| !target.is_held_back()) {
        // The wait that holds the operation back goes on after a loss, too. After another error the
        // operation begins, and its own failure is reported.
        job.go_on_after(&mut error, || u64::from(target.is_held_back()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use transom_fabric::Peer;
    use transom_fabric::sim::{SimNet, SimOptions};

    use super::*;
    use crate::bootstrap::local::Board;
    use crate::job::Job;
    use crate::window::Window;

    /// Rank 2 of the job, the second one of the window, is lost. Its transport ends no operation.
    fn wait_after_a_loss(job: &Job, parts: &Parts, net: &SimNet) {
        let [lost, live] = [1, 2].map(|member| parts.target("put", member).expect("contact").expect("a rank"));
        let drained = |awaited| drain(&parts.job, &parts.targets, awaited);
        lost.tally.begin();
        live.tally.begin();
        net.report_lost(Peer(0), Peer(2));
        assert!(drained(DrainedTargets::One(lost)).is_err() && !live.tally.idle());
        let (calls, tally) = (AtomicU32::new(0), live.tally.clone());
        // Relaxed: only the waiting thread calls the hook.
        job.while_waiting(move || {
            if calls.fetch_add(1, Ordering::Relaxed) == 2 {
                tally.finish();
            }
        });
        assert!(drained(DrainedTargets::All(&parts.targets)).is_err(), "the operation on the lost rank");
        assert!(live.tally.idle() && !lost.tally.idle());
        net.report_none_lost(Peer(0));
        lost.tally.finish();
        drained(DrainedTargets::All(&parts.targets)).expect("nothing is in flight");
    }

    /// A rank is lost, and an operation on it never ends. A wait goes on until the operations on
    /// live ranks are complete, and then fails. Regression: the wait failed at once.
    /// Shows E1, E3.
    #[test]
    fn a_wait_goes_on_for_live_ranks_alone() {
        let (net, board) = (SimNet::new(3, SimOptions::default()), Board::new(3));
        let one = |rank: u32| {
            let domain = net.domain(Peer(rank)).expect("a rank of the net");
            let job = Job::simulated(domain, Box::new(board.rank(rank as usize))).expect("a job");
            let win = Window::<u64>::allocate(&job.subset(&[0, 2, 1]).expect("a subset"), 1).expect("a window");
            if rank == 0 {
                wait_after_a_loss(&job, &win.core.parts, &net);
            }
            win.free().expect("the end of the window");
            job.finalize().expect("the end");
        };
        std::thread::scope(|ranks| {
            ranks.spawn(|| one(1));
            ranks.spawn(|| one(2));
            one(0);
        });
    }
}

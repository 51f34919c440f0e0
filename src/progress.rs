//! Progress: polling the ports, sleeping while nothing arrives, and the thread that serves origins
//! while the user's threads compute. Independent of windows; messages that arrive go to
//! [`Messages`].

mod descriptors;
mod later;
mod looks;
mod losses;
mod rhythm;
mod thread;
mod times;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transom_fabric::{Awaited, Cause, Failure, Fault, Tally, TallyRef, threads};

use crate::buffers::AtEnd;
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::failures::Detector;
use crate::messages::Messages;
use crate::transport::{Lane, Net, Wire};
use descriptors::Descriptors;
use later::Later;
use thread::Callers;
use times::{NAP, SPIN_BUSY, Times};

/// Number of times that a blocking call reads an awaited word before it makes progress, if a CPU of
/// this node changes the word. The reads take some microseconds.
const BARE_POLLS: u32 = 64;
/// Number of polls after which a blocking call that does not sleep, or a post that is repeated,
/// checks whether all ranks live.
const POLLS_BETWEEN_CHECKS: u32 = 4096;

/// Polls, waits, and owns the progress threads.
pub(crate) struct Progress {
    wire: Arc<Wire>,
    messages: Arc<Messages>,
    detector: Detector,
    /// For the net, for the messages, and for the notices: whether `look_for_lost` has waited for
    /// the death of the rank that was lost.
    explained: [Once; 3],
    /// Warns of a lack of descriptors; `None` on nets whose connections take none.
    descriptors: Option<Descriptors>,
    times: Times,
    /// The number of repeated posts of all threads.
    repeats: AtomicU32,
    /// The number of flushes that have waited.
    waits: AtomicU32,
    /// Number of sleeps beside a net that lasted to their limit although the awaited event had
    /// happened.
    late_wakes: AtomicU64,
    callers: Arc<Callers>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Threads>,
    later: Later,
    /// The number of calls that only look at this rank's memory while a net is open.
    looks: AtomicU32,
    /// Counts the immediates that stand for messages. No call waits for them.
    notices: TallyRef,
    /// The program's hook, called while a call waits.
    hook: OnceLock<Hook>,
}

/// The argument of [`Job::while_waiting`](crate::Job::while_waiting).
pub(crate) type Hook = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Threads {
    net: Option<JoinHandle<()>>,
    shm: Option<JoinHandle<()>>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("times", &self.times).finish_non_exhaustive()
    }
}

/// What ends the sleeps of a call, and the length of its first sleep.
type Sleep = (Awaited, Duration);

impl Progress {
    /// `rank`: this rank, for messages. `crowded`: ranks of this machine have to share cores.
    /// `alone`: no other rank shares memory with this rank.
    pub(crate) fn new(
        wire: Arc<Wire>,
        messages: Arc<Messages>,
        detector: Detector,
        rank: usize,
        crowded: bool,
        alone: bool,
    ) -> Progress {
        let times = Times::new(crowded, alone, wire.net().is_some_and(Net::changes_silently));
        let descriptors = wire.net().is_some_and(Net::uses_ip).then(|| Descriptors::new(rank));
        Progress {
            wire,
            messages,
            detector,
            explained: [const { Once::new() }; 3],
            descriptors,
            times,
            repeats: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            late_wakes: AtomicU64::new(0),
            callers: Arc::default(),
            stop: Arc::default(),
            threads: Mutex::default(),
            later: Later::default(),
            looks: AtomicU32::new(0),
            notices: Tally::new(),
            hook: OnceLock::new(),
        }
    }

    /// Sets the hook that waiting calls call from time to time; only the first hook is kept.
    pub(crate) fn while_waiting(&self, hook: Hook) {
        // A second hook is dropped.
        drop(self.hook.set(hook));
    }

    /// The tally of the immediates that stand for messages. A failure of one is the loss of its
    /// receiver ([`Progress::look`]).
    pub(crate) fn notices(&self) -> &TallyRef {
        &self.notices
    }

    /// Calls the program's hook.
    #[inline]
    pub(crate) fn call_hook(&self) {
        if let Some(hook) = self.hook.get() {
            hook();
        }
    }

    /// The length of a sleep of `nap`; shorter where there is a hook.
    #[inline]
    pub(crate) fn nap_of(&self, nap: Duration) -> Duration {
        if self.hook.get().is_some() { nap.min(NAP) } else { nap }
    }

    /// Processes pending events without blocking, and returns their number. Sends operations that
    /// were kept to share messages, except those that [`Messages::end_gathering`] leaves.
    pub(crate) fn poll(&self) -> Result<usize> {
        self.poll_for(Awaited::Completions)
    }

    /// [`poll`](Progress::poll) for these events.
    fn poll_for(&self, awaited: Awaited) -> Result<usize> {
        let seen = self.poll_keeping(0, awaited)?;
        Ok(seen + self.send_kept())
    }

    /// [`poll`](Progress::poll) that lets answers wait for a message to the same rank. `own`: the
    /// number of counted callers that are this thread, 0 or 1.
    fn poll_keeping(&self, own: u32, awaited: Awaited) -> Result<usize> {
        let messages = &*self.messages;
        messages.end_gathering();
        // A failure of the net neither keeps messages of the node from arriving nor from leaving.
        let net = match self.callers.reported(awaited) {
            Awaited::Completions => self.wire.poll(Lane::Net, messages),
            Awaited::Arrivals => self.wire.poll_arrivals(Lane::Net, messages),
        };
        let node = self.wire.poll(Lane::Shm, messages);
        let sent = messages.send_deferred(|peer, bytes| self.wire.send(peer, bytes));
        let seen = net? + node?;
        // Another caller may sleep although its event was processed here. Relaxed: if it is missed,
        // its sleep is short.
        if seen > 0 && self.callers.inside.load(Ordering::Relaxed) > own {
            self.wire.end_sleeps();
        }
        Ok(seen + sent)
    }

    /// Sends the answers that wait, and returns the number of messages.
    #[inline]
    fn send_kept(&self) -> usize {
        send_kept(&self.wire, &self.messages)
    }

    /// Processes pending events for a program that waits in another library, unless a call of this
    /// library polls. Returns whether there were events.
    pub(crate) fn poll_once(&self) -> Result<bool> {
        // Relaxed both: as in `enter`, so that the progress thread keeps away while such polls
        // follow each other.
        if self.callers.inside.load(Ordering::Relaxed) > 0 {
            return Ok(false);
        }
        self.callers.calls.fetch_add(1, Ordering::Relaxed);
        self.poll_arrivals()
    }

    /// Processes arrivals. Nobody awaits a completion here: a call that does so polls for it.
    fn poll_arrivals(&self) -> Result<bool> {
        let owed = self.messages.owes_answers();
        let taken = self.poll_for(Awaited::Arrivals);
        self.leave_since(owed);
        taken.map(|taken| taken > 0)
    }

    /// Makes the next poll report completions too. For a program that asks whether its operation is
    /// complete, but makes progress only by calls that poll for arrivals.
    pub(crate) fn ask(&self) {
        self.callers.ask();
    }

    /// [`poll`](Progress::poll) for a call that returns without waiting.
    pub(crate) fn poll_and_leave(&self) -> Result<usize> {
        let taken = self.poll();
        self.leave();
        taken
    }

    /// Counts all immediates that have arrived, and makes progress for a call that returns without
    /// waiting for completions. The poll then sends the answers to messages that came with them.
    pub(crate) fn settle(&self) -> Result<()> {
        let settled = self.wire.settle(&*self.messages);
        if !matches!(settled, Ok(false)) {
            self.end_sleeps();
        }
        let polled = self.poll_for(Awaited::Arrivals);
        self.leave();
        polled?;
        settled?;
        Ok(())
    }

    /// [`poll`](Progress::poll) for a call that waits on after a failure: sleeps for `nap` if there
    /// was no event. Returns whether there were events.
    pub(crate) fn poll_on(&self, nap: Duration) -> Result<bool> {
        // The progress thread leaves the events to this call.
        let guard = self.callers.enter();
        let polled = self.poll_keeping(1, Awaited::Completions);
        self.send_kept();
        if !matches!(polled, Ok(1..)) {
            std::thread::sleep(nap);
        }
        drop(guard);
        self.leave();
        polled.map(|events| events > 0)
    }

    /// Sleeps until an event may have come, at most for `limit`.
    #[cold]
    pub(crate) fn sleep(&self, limit: Duration) {
        // Counted, so that a thread that processes the event ends the sleep.
        let guard = self.callers.enter();
        self.wire.wait(limit, Awaited::Completions, || true);
        drop(guard);
    }

    /// [`poll`](Progress::poll) for a call that may return after it. Answers that this poll leaves
    /// are sent by a progress thread, which is woken once for them.
    pub(crate) fn poll_between(&self) -> Result<usize> {
        let owed = self.messages.owes_answers();
        let taken = self.poll();
        self.leave_since(owed);
        taken
    }

    /// Like [`leave`](Progress::leave), but wakes the progress threads only once for the same
    /// answers. `owed`: whether answers waited to be sent before the call's poll. The threads know
    /// of these answers. A thread that sleeps and had none to send is woken nevertheless, because
    /// it may have sent them, and the poll may have left further ones.
    fn leave_since(&self, owed: bool) {
        if !owed || [Lane::Net, Lane::Shm].iter().any(|&lane| self.callers.is_idle(lane)) {
            self.leave();
        }
    }

    /// Wakes the progress threads if a call could not send all answers: a progress thread sends
    /// them later.
    fn leave(&self) {
        if self.messages.owes_answers() {
            self.wire.wake(Lane::Net);
            self.wire.wake(Lane::Shm);
        } else if self.messages.keeps_answers() && self.callers.is_dozing(Lane::Net) {
            // A thread that is not dozing sleeps only briefly, and then finds the answers.
            self.wire.wake(Lane::Net);
        }
    }

    /// Ends the sleeps of other calls, after this thread has changed a state for which they wait.
    pub(crate) fn end_sleeps(&self) {
        // Relaxed: if a caller is missed, its sleep is short.
        if self.callers.inside.load(Ordering::Relaxed) > 0 {
            self.wire.end_sleeps();
        }
    }

    /// Makes progress until `done` returns true: polls for a while, then sleeps between polls.
    pub(crate) fn until(&self, done: impl Fn() -> bool) -> Result<()> {
        self.until_looking(done, || Ok(()))
    }

    /// [`until`](Progress::until) that also calls `look` before each sleep, and from time to time
    /// while events arrive. An error of `look` ends the wait.
    pub(crate) fn until_looking(&self, done: impl Fn() -> bool, look: impl Fn() -> Result<()>) -> Result<()> {
        self.until_came(Awaited::Completions, done, look)
    }

    /// [`until_looking`](Progress::until_looking) for these events.
    pub(crate) fn until_came(
        &self,
        awaited: Awaited,
        done: impl Fn() -> bool,
        look: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let first_nap = if awaited == Awaited::Arrivals { self.times.first_nap } else { NAP };
        self.wait((awaited, first_nap), done, look)
    }

    fn wait(&self, how: Sleep, done: impl Fn() -> bool, look: impl Fn() -> Result<()>) -> Result<()> {
        if done() {
            return Ok(());
        }
        let guard = self.callers.enter();
        let outcome = self.wait_until(how, done, look);
        drop(guard);
        self.leave();
        outcome
    }

    /// [`until`](Progress::until) for a word of this rank that other ranks change. Where no net is
    /// open, CPUs of this node change the word, and the call reads only the word for a while before
    /// it makes progress.
    pub(crate) fn until_changed(&self, done: impl Fn() -> bool) -> Result<()> {
        if !self.times.spin.is_zero() && self.wire.net().is_none() {
            for _ in 0..BARE_POLLS {
                if done() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        self.until_came(Awaited::Arrivals, done, || Ok(()))
    }

    /// [`until_changed`](Progress::until_changed) for a counter of notices. `silently`: a device
    /// may change the counter without an event here.
    pub(crate) fn until_counted(&self, silently: bool, done: impl Fn() -> bool) -> Result<()> {
        if silently {
            self.wait((Awaited::Arrivals, self.times.silent_nap), done, || Ok(()))
        } else {
            self.until_changed(done)
        }
    }

    /// Gives the core up if another thread of this process is inside a blocking call: the awaited
    /// event may depend on it.
    fn yield_to_callers(&self) {
        // Relaxed: a count.
        if self.callers.inside.load(Ordering::Relaxed) > 1 {
            std::thread::yield_now();
        }
    }

    /// Calls the program's hook if the last call was [`NAP`] ago: events of other ranks may keep a
    /// call from its sleeps. `since`: the time of the first poll after the last call.
    fn call_hook_between(&self, since: &mut Option<Instant>) {
        if since.get_or_insert_with(Instant::now).elapsed() >= NAP {
            self.call_hook();
            *since = None;
        }
    }

    fn wait_until(&self, how: Sleep, done: impl Fn() -> bool, look: impl Fn() -> Result<()>) -> Result<()> {
        let (mut spin, (awaited, first)) = (self.times.polling(), how);
        let (mut slept, mut nap) = (Duration::ZERO, first);
        let (mut quiet_since, mut hooked): (Option<Instant>, Option<Instant>) = (None, None);
        let (mut polls, mut missed) = (0u32, false);
        // Sends the waiting answers that no put since the caller's last wait has carried.
        self.send_kept();
        loop {
            let mut seen = self.poll_keeping(1, awaited)?;
            if done() {
                if missed {
                    // Relaxed: a count.
                    self.late_wakes.fetch_add(1, Ordering::Relaxed);
                }
                if !slept.is_zero() {
                    self.progressed();
                    if slept <= NAP {
                        self.times.adapt();
                    }
                } else if polls > 0 {
                    self.times.polled_enough();
                }
                return Ok(());
            }
            seen += self.send_kept();
            missed = false;
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_BETWEEN_CHECKS) {
                self.look()?;
                look()?;
            }
            if polls.is_multiple_of(16) && self.hook.get().is_some() {
                self.call_hook_between(&mut hooked);
            }
            if seen > 0 {
                quiet_since = None;
            } else if polls.is_multiple_of(16) || self.times.spin.is_zero() {
                self.yield_to_callers();
                let since = *quiet_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= spin {
                    self.look()?;
                    look()?;
                    self.call_hook();
                    // `done` is called once for each poll, because a true result may consume the
                    // awaited event.
                    let mut came = false;
                    let limit = self.nap_of(nap);
                    let start = Instant::now();
                    missed = self.wire.wait(limit, awaited, || {
                        came = done();
                        !came
                    });
                    // No completion reports an origin's put or get, which only ends the sleep. A
                    // short sleep therefore makes the polling before the next sleep longer.
                    let busy = !missed && start.elapsed() < SPIN_BUSY;
                    if came {
                        self.progressed();
                        return Ok(());
                    }
                    slept += limit;
                    nap = if busy { first } else { (nap * 2).min(self.times.nap) };
                    spin = if busy { (spin * 2).min(SPIN_BUSY) } else { self.times.spin };
                    quiet_since = quiet_since.filter(|_| !busy);
                }
            }
            self.pause();
        }
    }

    /// Leaves execution resources to another thread of the core between two polls. A poll of a net
    /// takes long enough by itself.
    #[inline]
    fn pause(&self) {
        if self.wire.net().is_none() {
            std::hint::spin_loop();
        }
    }

    /// [`Job::late_wakes`](crate::Job::late_wakes).
    pub(crate) fn late_wakes(&self) -> u64 {
        self.late_wakes.load(Ordering::Relaxed)
    }

    /// Waits until nothing that `tally` counts is in flight.
    #[inline]
    pub(crate) fn complete(&self, tally: &Tally) -> Result<()> {
        if tally.settled() {
            return Ok(());
        }
        self.complete_late(tally)
    }

    /// A separate function, so that the waiting takes no registers from calls that need not wait.
    #[cold]
    fn complete_late(&self, tally: &Tally) -> Result<()> {
        let waited = self.until(|| tally.idle());
        self.outcome_after(waited, tally)
    }

    /// The outcome of a wait for all operations that `tally` counts. If none is in flight, the wait
    /// has the outcome of the operations, even if progress failed: another rank may be lost.
    pub(crate) fn outcome_after(&self, waited: Result<()>, tally: &Tally) -> Result<()> {
        if !tally.idle() {
            waited?;
        }
        self.outcome(tally)
    }

    /// The first failure of the operations that `tally` has counted, if it was not reported.
    pub(crate) fn outcome(&self, tally: &Tally) -> Result<()> {
        match tally.take_failure() {
            None => Ok(()),
            Some(Failure::Broken(fault)) => Err(self.explained(fault)),
            Some(Failure::Refused(fault)) => Err(refused(&fault)),
        }
    }

    /// Serves origins from now on while this process computes, where `lane` needs a thread for it.
    pub(crate) fn serve(&self, lane: Lane) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match lane {
            Lane::Net => &mut threads.net,
            Lane::Shm => &mut threads.shm,
        };
        if slot.is_some() || !self.wire.has(lane) {
            return Ok(());
        }
        let (wire, messages) = (Arc::clone(&self.wire), Arc::clone(&self.messages));
        let (callers, stop) = (Arc::clone(&self.callers), Arc::clone(&self.stop));
        let later = self.later.clone();
        let body = move || {
            let _ends = AtEnd(|| {
                // Relaxed: the fence orders it.
                callers.serving.fetch_sub(1, Ordering::Relaxed);
                // SeqCst: pairs with the fence in `is_served`: either a call that has deferred
                // messages does not see this thread, or this thread sees the messages.
                fence(Ordering::SeqCst);
                // Acquire: pairs with the Release in `stop`.
                if messages.owes_answers() && !stop.load(Ordering::Acquire) {
                    later.begin(&wire, &messages, &stop);
                }
            });
            thread::serve(&wire, lane, &messages, &callers, &stop);
        };
        self.callers.serve(lane);
        // Relaxed: no call relies on the thread before this call returns.
        self.callers.serving.fetch_add(1, Ordering::Relaxed);
        let thread = threads::spawn("transom-progress", body).map_err(|error| {
            self.callers.serving.fetch_sub(1, Ordering::Relaxed);
            transom_fabric::FabricError::failed("starting the progress thread", error)
        })?;
        *slot = Some(thread);
        Ok(())
    }

    /// Has a thread send the deferred messages, whatever this rank does meanwhile: a progress
    /// thread or a temporary one (`later`). Returns false if the kernel refuses the thread.
    pub(crate) fn send_later(&self) -> bool {
        if self.is_served() {
            self.leave();
            return true;
        }
        self.later.begin(&self.wire, &self.messages, &self.stop)
    }

    /// Whether a progress thread exists. A thread that has stopped after a failure no longer does.
    pub(crate) fn is_served(&self) -> bool {
        // SeqCst: pairs with the fence at the end of the thread. Relaxed: the fence orders it.
        fence(Ordering::SeqCst);
        self.callers.serving.load(Ordering::Relaxed) > 0
    }

    /// Ends the progress threads.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `serve`.
        self.stop.store(true, Ordering::Release);
        self.callers.wake();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for (lane, thread) in [(Lane::Net, threads.net.take()), (Lane::Shm, threads.shm.take())] {
            if let Some(thread) = thread {
                self.wire.wake(lane);
                // A panic of the thread was already reported.
                let _ = thread.join();
            }
        }
        // A progress thread may have begun it.
        self.later.end();
    }
}

/// Sends the answers that wait for a message to the same rank, and returns the number of messages.
#[inline]
fn send_kept(wire: &Wire, messages: &Messages) -> usize {
    if !messages.keeps_answers() {
        return 0;
    }
    messages.stop_keeping_answers();
    messages.send_deferred(|peer, bytes| wire.send(peer, bytes))
}

/// The error of an operation that a target refused to execute.
#[cold]
fn refused(fault: &Fault) -> Error {
    let reason = match fault.cause {
        Cause::Answer(words) => Refusal::of_words(words),
        _ => Refusal::Unknown { code: 0 },
    };
    ErrorKind::Refused { rank: fault.peer.index(), reason }.into()
}

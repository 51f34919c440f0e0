//! Making progress: polling the ports, waiting without burning a core, and the thread that serves origins while the
//! user's threads compute (DESIGN §7). It knows nothing of windows; what arrives goes to [`Messages`].

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transom_fabric::{Failure, Fault, Peer, Tally};

use crate::error::{Error, ErrorKind, Result};
use crate::messages::Messages;
use crate::watch::Watch;
use crate::wire::{Lane, Wire};

/// How long a blocking call polls before it sleeps, where every rank has a core.
const SPIN: Duration = Duration::from_micros(50);
/// How long it does at most where answers come soon after it.
const SPIN_MAX: Duration = Duration::from_micros(400);
/// How long it polls at most where its sleeps keep ending at once: origins are at work here, which no completion tells.
const SPIN_BUSY: Duration = Duration::from_micros(800);
/// How long one sleep of a blocking call lasts at most: progress that needs no wake-up is seen by then.
const NAP: Duration = Duration::from_millis(1);
/// How long it lasts at most where ranks are many for the cores and none shares memory with this one: sleeps that nothing ends double up
/// to it, since the waiting of all would take the cores that the others need.
const NAP_CROWDED: Duration = Duration::from_millis(16);
/// Polls after which a blocking call that is kept busy by others looks whether all live.
const BUSY_LOOKS: u32 = 4096;
/// How long a process takes at most to be gone after the kernel has closed its sockets, which its peers notice first.
const DYING: Duration = Duration::from_millis(800);
/// How long the progress thread keeps away when it finds callers that poll, at first: it doubles while they do, so that an
/// origin waits no longer after the last of them than they have been polling.
const KEEP_AWAY: Duration = Duration::from_micros(32);
/// How long it keeps away at most. A single call that lasts longer wakes it by its end.
const KEEP_AWAY_MAX: Duration = Duration::from_micros(256);
/// How long the progress thread sleeps at most.
const IDLE: Duration = Duration::from_millis(500);
/// How long it does at first where answers wait for room at their origins, which nothing tells; it doubles while none comes.
const RETRY: Duration = Duration::from_micros(64);

/// Polls, waits, and owns the progress threads.
pub(crate) struct Progress {
    wire: Arc<Wire>,
    messages: Arc<Messages>,
    watch: Watch,
    /// How long a blocking call polls before it sleeps, at first.
    spin: Duration,
    /// How long one of its sleeps lasts at most.
    nap: Duration,
    /// How long it does at present, in microseconds.
    learned: AtomicU32,
    callers: Arc<Callers>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Threads>,
    /// What the program wants called while a call waits.
    hook: OnceLock<Hook>,
}

/// What [`Job::while_waiting`](crate::Job::while_waiting) takes.
pub(crate) type Hook = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Threads {
    net: Option<JoinHandle<()>>,
    shm: Option<JoinHandle<()>>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("spin", &self.spin).finish_non_exhaustive()
    }
}

impl Progress {
    /// `crowded`: ranks of this machine have to share cores. `alone`: none shares memory with this one.
    pub(crate) fn new(wire: Arc<Wire>, messages: Arc<Messages>, watch: Watch, crowded: bool, alone: bool) -> Progress {
        let spin = if crowded { Duration::ZERO } else { SPIN };
        Progress {
            wire,
            messages,
            watch,
            spin,
            nap: if crowded && alone { NAP_CROWDED } else { NAP },
            learned: AtomicU32::new(micros(spin)),
            callers: Arc::default(),
            stop: Arc::default(),
            threads: Mutex::default(),
            hook: OnceLock::new(),
        }
    }

    /// Takes what waiting calls are to call now and then; the first one holds.
    pub(crate) fn while_waiting(&self, hook: Hook) {
        // A second one has nowhere to go.
        drop(self.hook.set(hook));
    }

    /// Calls what the program wants called while a call waits.
    #[inline]
    pub(crate) fn call_hook(&self) {
        if let Some(hook) = self.hook.get() {
            hook();
        }
    }

    /// How long a sleep may last that would take `nap`: shorter where something wants to be called.
    #[inline]
    pub(crate) fn nap_of(&self, nap: Duration) -> Duration {
        if self.hook.get().is_some() { nap.min(NAP) } else { nap }
    }

    /// Takes what is there, without blocking; how much there was.
    pub(crate) fn poll(&self) -> Result<usize> {
        let seen = self.wire.poll(Lane::Net, &self.messages)? + self.wire.poll(Lane::Shm, &self.messages)?;
        Ok(seen + self.messages.send_deferred(&self.wire))
    }

    /// Whether all ranks live and can be reached. For whoever waits: it is no news where nobody has died, and cheap.
    ///
    /// # Errors
    /// `RankDied` or `RankUnreachable`, or the transport's reason. What waits for an answer of that rank has failed then.
    pub(crate) fn look(&self) -> Result<()> {
        self.told(self.watch.look(Duration::ZERO))?;
        match self.wire.lost() {
            None => Ok(()),
            Some(fault) => {
                self.messages.give_up(&fault);
                Err(self.explained(fault))
            }
        }
    }

    /// A transport's error, or the death behind it, which may be another rank's than the one it names.
    pub(crate) fn explained(&self, fault: Fault) -> Error {
        let reason = match self.watch.whereabouts(fault.peer.index()) {
            Some(place) => format!("{} ({place})", fault.reason),
            None => fault.reason,
        };
        self.or_death(Fault { reason, ..fault }.into())
    }

    /// An error that met a rank, or the death behind it.
    pub(crate) fn or_death(&self, error: Error) -> Error {
        self.told(self.watch.look(DYING)).err().unwrap_or(error)
    }

    fn told(&self, look: std::result::Result<(), ErrorKind>) -> Result<()> {
        look.map_err(|died| {
            let (lost, reason) = match &died {
                ErrorKind::RankDied { ranks, .. } => (ranks.as_slice(), "it died"),
                ErrorKind::RankUnreachable { rank, .. } => (std::slice::from_ref(rank), "it can't be reached"),
                _ => (&[][..], ""),
            };
            let peers = lost.iter().filter_map(|&rank| u32::try_from(rank).ok());
            peers.for_each(|rank| self.messages.give_up(&Fault { peer: Peer(rank), reason: reason.into() }));
            died.into()
        })
    }

    /// Takes what is there, for a program that waits in another library; nothing where a call of this one polls. Whether there was
    /// anything.
    pub(crate) fn poll_once(&self) -> Result<bool> {
        // Relaxed both: as in `enter`, so that the progress thread keeps away while such looks follow each other.
        if self.callers.inside.load(Ordering::Relaxed) > 0 {
            return Ok(false);
        }
        self.callers.calls.fetch_add(1, Ordering::Relaxed);
        self.poll().map(|taken| taken > 0)
    }

    /// Makes progress until `done`: polls for a while, then sleeps between looks.
    pub(crate) fn until(&self, done: impl Fn() -> bool) -> Result<()> {
        if done() {
            return Ok(());
        }
        let _here = self.callers.enter();
        // Relaxed: a time, which orders nothing.
        let mut spin = Duration::from_micros(self.learned.load(Ordering::Relaxed).into());
        let (mut naps, mut nap) = (0u32, NAP);
        let mut quiet_since: Option<Instant> = None;
        let mut looks = 0u32;
        loop {
            let seen = self.poll()?;
            if done() {
                if naps == 1 {
                    self.learn();
                }
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(BUSY_LOOKS) {
                self.look()?;
            }
            if seen > 0 {
                quiet_since = None;
            } else if looks.is_multiple_of(16) || self.spin.is_zero() {
                let since = *quiet_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= spin {
                    self.look()?;
                    self.call_hook();
                    // Asked once for each look: to be told that it is done may consume what was waited for.
                    let mut came = false;
                    let busy = self.sleep(self.nap_of(nap), || {
                        came = done();
                        !came
                    });
                    if came {
                        return Ok(());
                    }
                    naps += 1;
                    nap = if busy { NAP } else { (nap * 2).min(self.nap) };
                    spin = if busy { (spin * 2).min(SPIN_BUSY) } else { self.spin };
                    quiet_since = quiet_since.filter(|_| !busy);
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Sleeps until something may have happened, `limit` at most; whether that was soon. An origin's put or get shows here by ending
    /// the sleep and by nothing else, so whoever is woken soon polls longer before the next sleep.
    fn sleep(&self, limit: Duration, stay: impl FnOnce() -> bool) -> bool {
        let start = Instant::now();
        self.wire.wait(limit, stay);
        start.elapsed() < SPIN_BUSY
    }

    /// The answer that a call waited for came during its first sleep: later ones poll longer, since being woken takes time.
    /// Where even the longest polling does not get it, the device is one that needs this core, and they sleep early again.
    fn learn(&self) {
        // Relaxed both: of calls that learn at once, one teaches.
        let polled = self.learned.load(Ordering::Relaxed);
        let longer = if polled < micros(SPIN_MAX) { polled * 2 } else { micros(self.spin) };
        self.learned.store(longer, Ordering::Relaxed);
    }

    /// Waits until nothing that `tally` counts is in flight.
    #[inline]
    pub(crate) fn complete(&self, tally: &Tally) -> Result<()> {
        if tally.settled() {
            return Ok(());
        }
        self.complete_late(tally)
    }

    /// Apart, so that the waiting takes no registers from those who needn't.
    #[cold]
    fn complete_late(&self, tally: &Tally) -> Result<()> {
        self.until(|| tally.idle())?;
        match tally.take_failure() {
            None => Ok(()),
            Some(Failure::Broken(fault)) => Err(self.explained(fault)),
            Some(Failure::Refused(fault)) => Err(ErrorKind::Refused(fault).into()),
        }
    }

    /// From here on origins are served while this process computes, as far as `lane` needs a thread for it.
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
        let thread = std::thread::Builder::new()
            .name("transom-progress".into())
            .spawn(move || serve(&wire, lane, &messages, &callers, &stop))
            .map_err(|error| transom_fabric::FabricError::failed("starting the progress thread", error))?;
        *slot = Some(thread);
        Ok(())
    }

    /// Whether a progress thread exists.
    pub(crate) fn is_served(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.net.is_some() || threads.shm.is_some()
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
                // A thread that panicked has said so already; there is nothing to add while stopping.
                let _ = thread.join();
            }
        }
    }
}

/// A time below an hour.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Who is inside a blocking call, where the progress thread is only in the way: it waits here until they are gone.
#[derive(Default)]
struct Callers {
    inside: AtomicU32,
    /// Grows with every call.
    calls: AtomicU32,
    /// How many progress threads wait for the last caller to leave.
    waiting: AtomicU32,
    lock: Mutex<()>,
    left: Condvar,
}

/// A blocking call, until it is dropped.
struct Here<'c>(&'c Callers);

impl Callers {
    fn enter(&self) -> Here<'_> {
        // Relaxed: tells the thread that calls come and go; it decides nothing but for how long it keeps away.
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Relaxed: a thread that misses it is in the way once more.
        self.inside.fetch_add(1, Ordering::Relaxed);
        Here(self)
    }

    /// Waits until no caller is inside, `wake` is called, or `limit` has passed.
    fn wait_gone(&self, stop: &AtomicBool, limit: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SeqCst: pairs with the SeqCst in `Here::drop`: either it sees that one waits, or this sees that it left.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // SeqCst: as above. Acquire: pairs with the Release in `stop`, whose wake takes the lock.
        let present = |_: &mut ()| self.inside.load(Ordering::SeqCst) > 0 && !stop.load(Ordering::Acquire);
        // Whether it timed out does not matter: the caller looks again.
        drop(self.left.wait_timeout_while(guard, limit, present));
        // Relaxed: a wake too many changes nothing.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    #[cold]
    fn wake(&self) {
        // Whoever waits has either seen what changed, or sleeps by the time that the lock is free.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.left.notify_all();
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        // SeqCst both: pair with those in `wait_gone`.
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.waiting.load(Ordering::SeqCst) > 0 {
            self.0.wake();
        }
    }
}

/// The progress thread: asleep until traffic comes, and out of the way while callers poll by themselves.
fn serve(wire: &Wire, lane: Lane, messages: &Messages, callers: &Callers, stop: &AtomicBool) {
    // The usual slack of 50 us would be longer than the shortest sleep; where it is refused, that sleep takes twice as long.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
    let (mut seen_calls, mut retry) = (0, RETRY);
    // Acquire: pairs with the Release in `stop`.
    while !stop.load(Ordering::Acquire) {
        let owing = messages.owes_answers();
        wire.wait_on(lane, if owing { retry } else { IDLE });
        keep_away(callers, &mut seen_calls, stop);
        match wire.poll(lane, messages) {
            // A caller that came meanwhile may sleep on what was taken here. Relaxed: if it is missed, the caller's sleep is short.
            Ok(seen) if seen > 0 && callers.inside.load(Ordering::Relaxed) > 0 => wire.wake(lane),
            Ok(_) => {}
            Err(error) => {
                eprintln!("transom: progress stopped: {error}");
                return;
            }
        }
        retry = if messages.send_deferred(wire) == 0 && owing { (retry * 2).min(IDLE) } else { RETRY };
    }
}

/// Returns when callers no longer poll: at once, after some sleeps while short calls follow each other (each would
/// otherwise wake the thread with its end), or by the end of a long call. `seen` is how many calls there were.
fn keep_away(callers: &Callers, seen: &mut u32, stop: &AtomicBool) {
    let mut nap = KEEP_AWAY;
    // Acquire: pairs with the Release in `stop`.
    while !stop.load(Ordering::Acquire) {
        // Relaxed both: they say who polls, and order nothing.
        let (calls, inside) = (callers.calls.load(Ordering::Relaxed), callers.inside.load(Ordering::Relaxed));
        if calls == *seen && inside == 0 {
            return;
        }
        if calls == *seen && nap == KEEP_AWAY_MAX {
            callers.wait_gone(stop, IDLE);
        } else {
            std::thread::sleep(nap);
            nap = (nap * 2).min(KEEP_AWAY_MAX);
        }
        *seen = calls;
    }
}

//! Making progress: polling the ports, waiting without burning a core, and the thread that serves origins while the
//! user's threads compute (DESIGN §7). It knows nothing of windows; what arrives goes to [`Messages`].

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transom_fabric::{Failure, Tally};

use crate::error::{ErrorKind, Result};
use crate::messages::Messages;
use crate::wire::{Lane, Wire};

/// How long a blocking call polls before it sleeps, where every rank has a core.
const SPIN: Duration = Duration::from_micros(50);
/// How long one sleep of a blocking call lasts at most: progress that needs no wake-up is seen by then.
const NAP: Duration = Duration::from_millis(1);
/// How long the progress thread keeps away after it saw callers poll by themselves.
const KEEP_AWAY: Duration = Duration::from_micros(250);
/// How long the progress thread sleeps at most.
const IDLE: Duration = Duration::from_millis(500);

/// Polls, waits, and owns the progress threads.
pub(crate) struct Progress {
    wire: Arc<Wire>,
    messages: Arc<Messages>,
    spin: Duration,
    /// Grows with every blocking call: the thread keeps away while it does.
    calls: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Threads>,
}

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
    pub(crate) fn new(wire: Arc<Wire>, messages: Arc<Messages>, crowded: bool) -> Progress {
        Progress {
            wire,
            messages,
            spin: if crowded { Duration::ZERO } else { SPIN },
            calls: Arc::default(),
            stop: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Takes what is there, without blocking; how much there was.
    pub(crate) fn poll(&self) -> Result<usize> {
        let seen = self.wire.poll(Lane::Net, &self.messages)? + self.wire.poll(Lane::Shm, &self.messages)?;
        Ok(seen + self.messages.send_deferred(&self.wire))
    }

    /// Makes progress until `done`: polls for a while, then sleeps between looks.
    pub(crate) fn until(&self, done: impl Fn() -> bool) -> Result<()> {
        if done() {
            return Ok(());
        }
        // Relaxed: a hint for the progress thread.
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut quiet_since: Option<Instant> = None;
        let mut looks = 0u32;
        loop {
            let seen = self.poll()?;
            if done() {
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            if seen > 0 {
                quiet_since = None;
            } else if looks.is_multiple_of(16) || self.spin.is_zero() {
                let since = *quiet_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= self.spin {
                    self.calls.fetch_add(1, Ordering::Relaxed);
                    self.wire.wait(NAP);
                }
            }
            std::hint::spin_loop();
        }
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
            Some(Failure::Broken(fault)) => Err(fault.into()),
            Some(Failure::Refused(fault)) => Err(ErrorKind::Refused(fault).into()),
        }
    }

    /// From here on origins are served while this process computes, as far as `lane` needs a thread for it.
    pub(crate) fn serve(&self, lane: Lane) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let slot = match lane {
            Lane::Net => &mut threads.net,
            Lane::Shm => &mut threads.shm,
        };
        if slot.is_some() || !self.wire.has(lane) {
            return Ok(());
        }
        let (wire, messages) = (Arc::clone(&self.wire), Arc::clone(&self.messages));
        let (calls, stop) = (Arc::clone(&self.calls), Arc::clone(&self.stop));
        let thread = std::thread::Builder::new()
            .name("transom-progress".into())
            .spawn(move || serve(&wire, lane, &messages, &calls, &stop))
            .map_err(|error| transom_fabric::FabricError::failed("starting the progress thread", error))?;
        *slot = Some(thread);
        Ok(())
    }

    /// Whether a progress thread exists.
    pub(crate) fn is_served(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        threads.net.is_some() || threads.shm.is_some()
    }

    /// Ends the progress threads.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `serve`.
        self.stop.store(true, Ordering::Release);
        let mut threads = self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (lane, thread) in [(Lane::Net, threads.net.take()), (Lane::Shm, threads.shm.take())] {
            if let Some(thread) = thread {
                self.wire.wake(lane);
                // A thread that panicked has said so already; there is nothing to add while stopping.
                let _ = thread.join();
            }
        }
    }
}

/// The progress thread: asleep until traffic comes, and out of the way while a caller polls by itself.
fn serve(wire: &Wire, lane: Lane, messages: &Messages, calls: &AtomicU32, stop: &AtomicBool) {
    let mut seen_calls = calls.load(Ordering::Relaxed);
    // Acquire: pairs with the Release in `stop`.
    while !stop.load(Ordering::Acquire) {
        wire.wait_on(lane, IDLE);
        let now = calls.load(Ordering::Relaxed);
        if now != seen_calls {
            seen_calls = now;
            std::thread::park_timeout(KEEP_AWAY);
            continue;
        }
        if let Err(error) = wire.poll(lane, messages) {
            eprintln!("transom: progress stopped: {error}");
            return;
        }
        messages.send_deferred(wire);
    }
}

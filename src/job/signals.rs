//! Signals of barriers. Within a node a signal is a store into a word of the peer, on which the
//! peer waits. Between nodes a signal of a window is an immediate where puts carry immediates and
//! the peer's part of the window is known. Other signals, and those of teams without words, are
//! messages.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use transom_fabric::Awaited;

use super::{JobCore, Team, Turn};
use crate::error::{JobError, Result};
use crate::messages::{Messages, named};
use crate::sync::barrier::{self, Signals};
use crate::sync::words::Words;
use crate::transport::{Lane, SpinBudget, event};

/// Bytes between two words: each word has a separate cache line, because each has a different
/// writer.
const STRIDE: usize = 64;
/// Length of one sleep on a word between two checks.
const NAP: Duration = Duration::from_millis(200);
/// Time between two reads of the marks (`left`) of an awaited rank of this node.
const BETWEEN_LOOKS: Duration = NAP;

/// The signals of one barrier.
pub(crate) struct BarrierWords<'j, F> {
    pub(crate) job: &'j JobCore,
    pub(crate) team: &'j Team,
    /// The key of the barrier's owner in messages.
    pub(crate) key: u64,
    pub(crate) turn: Turn,
    /// This rank's words, which members of this node signal; `None`: all signals are messages.
    pub(crate) mine: Option<Words<'j>>,
    /// How a member is signaled.
    pub(crate) theirs: F,
}

/// How a member of a team is signaled.
pub(crate) enum Way<'w> {
    /// By its words, which this CPU maps.
    Words(Words<'w>),
    /// By immediates that name the window by this number.
    Immediate(u32),
    Message,
}

impl<'j, F: Fn(usize) -> Result<Way<'j>>> Signals for BarrierWords<'j, F> {
    #[inline]
    fn raise(&self, peer: usize, slot: usize, value: u32) -> Result<()> {
        let way = (self.theirs)(peer)?;
        if let Way::Words(words) = way {
            event::signal(words.word32(slot * STRIDE), value);
            return Ok(());
        }
        #[allow(clippy::cast_possible_truncation)] // slots are below 64
        let (rank, slot) = (self.team.rank(peer), slot as u32);
        match way {
            Way::Immediate(place) if let Some(immediate) = named::signal(place, slot, value) => {
                self.job.signal_by_immediate(rank, immediate)
            }
            _ => self.job.signal(rank, Messages::signal(self.key, slot, value)),
        }
    }

    #[inline]
    fn await_from(&self, peer: usize, slot: usize, value: u32) -> Result<u32> {
        let (job, watch) = (self.job, Watch::default());
        let Some(mine) = self.mine.filter(|_| job.lane(self.team.rank(peer)) == Some(Lane::Shm)) else {
            #[allow(clippy::cast_possible_truncation)] // slots are below 64
            let seen = || job.messages.signalled(self.key, slot as u32, value);
            let is_there = || seen().is_some();
            // No completion of this rank's operations is awaited. Only nets that signal by
            // immediates distinguish.
            let awaited = if job.signals_by_immediates() { Awaited::Arrivals } else { Awaited::Completions };
            job.progress.until_came(awaited, is_there, || self.look_at(peer, &watch, is_there))?;
            return Ok(seen().unwrap_or(value));
        };
        let word = mine.word32(slot * STRIDE);
        // Acquire: pairs with the signal's Release.
        let is_there = || barrier::reached(word.load(Ordering::Acquire), value);
        let look = || self.look_at(peer, &watch, is_there);
        let between = || {
            // This thread may sleep on the word next. While it sleeps, it sends no answers, and
            // ranks that send to this rank wait if its ring is full.
            job.progress.poll_and_leave()?;
            job.progress.look()?;
            look()?;
            job.progress.call_hook();
            Ok(())
        };
        let poll = || if job.polls() { job.progress.poll_and_leave().map(drop) } else { Ok(()) };
        wait_polling(word, value, job.spin, || job.progress.nap_of(NAP), poll, between)?;
        // Acquire: pairs with the signal's Release, like the preceding wait.
        Ok(word.load(Ordering::Acquire) & event::COUNTER)
    }
}

impl<F> BarrierWords<'_, F> {
    /// Fails if an awaited rank has left the collective call, and its signal has not come.
    /// Otherwise the wait goes on. Reads the marks only at intervals ([`Watch`]).
    #[cold]
    fn look_at(&self, peer: usize, watch: &Watch, is_there: impl Fn() -> bool) -> Result<()> {
        let (job, rank) = (self.job, self.team.rank(peer));
        // A get of the marks of another node might never end. If the marks can't be read, the rank
        // may still send its signal.
        let may_have_left = job.lane(rank) == Some(Lane::Shm) && watch.is_due();
        if !may_have_left || !job.has_left(rank, self.key, self.turn).unwrap_or(false) {
            return Ok(());
        }
        // A message that the rank has sent before may wait to be read.
        job.progress.poll_and_leave()?;
        let window = (self.key != self.team.key).then_some(self.key);
        if is_there() { Ok(()) } else { Err(JobError::Left { rank, window }.into()) }
    }
}

/// When a wait next reads the marks of the awaited rank. Set at the first check, so that short
/// waits do not read the clock.
#[derive(Default)]
struct Watch(Cell<Option<Instant>>);

impl Watch {
    /// Whether it is time to read the marks. The first time is [`BETWEEN_LOOKS`] after the first
    /// call.
    fn is_due(&self) -> bool {
        let now = Instant::now();
        let next = self.0.get().unwrap_or(now + BETWEEN_LOOKS);
        let is_due = now >= next;
        self.0.set(Some(if is_due { now + BETWEEN_LOOKS } else { next }));
        is_due
    }
}

/// Waits on a word. Calls `poll` between polls of the word, and `between` after each sleep of
/// `nap`; a failure of either ends the wait. A wait without polls (`SpinBudget::NONE`) calls only
/// `between`.
fn wait_polling(
    word: &AtomicU32,
    value: u32,
    spin: SpinBudget,
    nap: impl Fn() -> Duration,
    poll: impl Fn() -> Result<()>,
    between: impl Fn() -> Result<()>,
) -> Result<()> {
    loop {
        let mut failed = None;
        let done = event::wait(word, value, spin, nap(), || failed = failed.take().or_else(|| poll().err()));
        if let Some(error) = failed {
            return Err(error);
        }
        if done {
            return Ok(());
        }
        between()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ArgumentError, Class, Error};

    /// Regression: a rank that shares its CPU took no messages in a long barrier, and did not learn
    /// of a failure.
    #[test]
    fn a_crowded_wait_makes_progress_after_each_sleep() {
        let word = AtomicU32::new(0);
        let turns = Cell::new(0);
        let between = || {
            turns.set(turns.get() + 1);
            if turns.get() == 3 {
                Err(Error::argument(Class::Rank, "barrier", ArgumentError::ProcNull))
            } else {
                Ok(())
            }
        };
        let nap = || Duration::from_millis(1);
        assert!(wait_polling(&word, 1, SpinBudget::NONE, nap, || Ok(()), between).is_err());
        assert_eq!(turns.get(), 3);
        event::signal(&word, 1);
        let never = || -> Result<()> { panic!("the word has the value") };
        assert!(wait_polling(&word, 1, SpinBudget::NONE, nap, never, never).is_ok());
    }
}

//! Signals of barriers. Within a node a signal is a store into a word of the peer, on which the
//! peer waits. Between nodes, and in teams without words, a signal is a message.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{JobCore, Team};
use crate::error::Result;
use crate::messages::Messages;
use crate::sync::barrier::Signals;
use crate::sync::words::Words;
use crate::transport::{Lane, event};

/// Bytes between two words: each word has a separate cache line, because each has a different
/// writer.
const STRIDE: usize = 64;
/// Length of one sleep on a word between two checks.
const NAP: Duration = Duration::from_millis(200);

/// The signals of one barrier.
pub(crate) struct BarrierWords<'j, F> {
    pub(crate) job: &'j JobCore,
    pub(crate) team: &'j Team,
    /// The key of the barrier's owner in messages.
    pub(crate) key: u64,
    /// This rank's words, which members of this node signal; `None`: all signals are messages.
    pub(crate) mine: Option<Words<'j>>,
    /// The words of a member of the node; `None` where only messages reach it.
    pub(crate) theirs: F,
}

/// The number of the next barrier, from 1; it wraps.
pub(crate) fn next(counter: &AtomicU32) -> u32 {
    // Relaxed: barriers of one window are called by one thread at a time (MPI-4.1 §12.5.1).
    counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

impl<'j, F: Fn(usize) -> Result<Option<Words<'j>>>> Signals for BarrierWords<'j, F> {
    #[inline]
    fn raise(&self, peer: usize, slot: usize, value: u32) -> Result<()> {
        if let Some(words) = (self.theirs)(peer)? {
            event::signal(words.word32(slot * STRIDE), value);
            return Ok(());
        }
        #[allow(clippy::cast_possible_truncation)] // slots are below 64
        self.job.signal(self.team.rank(peer), Messages::signal(self.key, slot as u32, value))
    }

    #[inline]
    fn await_from(&self, peer: usize, slot: usize, value: u32) -> Result<u32> {
        let job = self.job;
        let Some(mine) = self.mine.filter(|_| job.lane(self.team.rank(peer)) == Some(Lane::Shm)) else {
            #[allow(clippy::cast_possible_truncation)] // slots are below 64
            let seen = || job.messages.signalled(self.key, slot as u32, value);
            job.progress.until(|| seen().is_some())?;
            return Ok(seen().unwrap_or(value));
        };
        let word = mine.word32(slot * STRIDE);
        if job.polls() {
            wait_polling(job, word, value)?;
        } else {
            while !event::wait(word, value, job.spin, job.progress.nap_of(NAP), || ()) {
                // Ranks that send to this rank wait while its ring is full.
                job.progress.poll_and_leave()?;
                job.progress.look()?;
                job.progress.call_hook();
            }
        }
        // Acquire: pairs with the signal's Release, like the preceding wait.
        Ok(word.load(Ordering::Acquire) & event::COUNTER)
    }
}

/// Waits on a word while ports also need polling; a failure of a port ends the wait.
fn wait_polling(job: &JobCore, word: &AtomicU32, value: u32) -> Result<()> {
    let mut failed = None;
    loop {
        let idle = || {
            // This thread may sleep on the word next, and sends no answers while it sleeps.
            if let Err(error) = job.progress.poll_and_leave() {
                failed = Some(error);
            }
        };
        let done = event::wait(word, value, job.spin, job.progress.nap_of(NAP), idle);
        if let Some(error) = failed {
            return Err(error);
        }
        if done {
            return Ok(());
        }
        job.progress.look()?;
        job.progress.call_hook();
    }
}

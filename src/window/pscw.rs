//! Generalized active target synchronization (MPI §11.5.2): post tells each origin, which looks for it only when it first
//! operates on the target, or completes; complete tells each target after its operations are there; wait counts. A notice is
//! one atomic on a word of the other rank's within a node, and else one message. Nothing here is kept per rank of the window beyond
//! the groups themselves.

use std::sync::atomic::Ordering;

use super::core::Core;
use super::target::{Hold, Target};
use super::words::Words;
use crate::epoch::{Access, Call, Exposure};
use crate::error::{Class, Error, Result};
use crate::job::{PROC_NULL, peer};
use crate::messages::{Messages, Notice};
use crate::plan::Actor;
use crate::sync::notices;
use crate::wire::Lane;

impl Core {
    /// Exposes this rank's part to `origins` (`MPI_WIN_POST`); `check`: false under `MPI_MODE_NOCHECK`, which both sides
    /// must give. It does not wait.
    pub(crate) fn post(&self, origins: &[usize], check: bool) -> Result<()> {
        let own = match self.state().0 {
            Access::Lock => self.target("post", self.team.me)?.is_some_and(|own| own.hold() != Hold::None),
            Access::LockAll => true,
            _ => false,
        };
        let next = self.check("post", Call::Post { own_locked: own })?;
        self.check_group("post", origins)?;
        self.publish();
        // Relaxed: synchronization calls of a window come from one thread at a time.
        self.origins.store(u32::try_from(origins.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.enter(next);
        if check {
            for &origin in origins {
                self.notify(origin, Notice::Posted)?;
            }
        }
        Ok(())
    }

    /// Opens an access epoch to `targets` (`MPI_WIN_START`). It does not wait: the first operation on a target does, until the target has
    /// posted.
    pub(crate) fn start(&self, targets: &[usize], check: bool) -> Result<()> {
        let next = self.check("start", Call::Start)?;
        self.check_group("start", targets)?;
        // Who can't be reached fails the call before it has changed anything.
        for &rank in targets {
            self.target("start", rank)?;
        }
        for target in targets.iter().filter_map(|&rank| self.known(rank)) {
            target.set_hold(if check { Hold::Started } else { Hold::Open });
        }
        *self.group_of_start() = targets.to_vec();
        self.enter(next);
        Ok(())
    }

    /// Completes the epoch's operations, at both sides, and tells the targets (`MPI_WIN_COMPLETE`).
    pub(crate) fn complete(&self) -> Result<()> {
        let next = self.check("complete", Call::Complete)?;
        let targets = std::mem::take(&mut *self.group_of_start());
        let mut outcome = self.flush_all();
        for &rank in &targets {
            let Some(target) = self.target("complete", rank)? else { continue };
            if target.hold() == Hold::Started {
                // Its post belongs to this epoch, though nothing was done under it.
                outcome = outcome.and(self.await_post(target));
            }
            target.set_hold(Hold::None);
            outcome = outcome.and(self.notify(rank, Notice::Completed));
        }
        self.enter(next);
        outcome
    }

    /// Ends the exposure epoch when all origins have completed (`MPI_WIN_WAIT`).
    pub(crate) fn wait(&self) -> Result<()> {
        let next = self.check("wait", Call::Wait)?;
        let origins = self.origins.load(Ordering::Relaxed);
        self.job.progress.until(|| self.exposed.take_completions(origins))?;
        self.exposure_ended(next);
        Ok(())
    }

    /// Ends the exposure epoch if all origins have completed; whether they have (`MPI_WIN_TEST`).
    pub(crate) fn test(&self) -> Result<bool> {
        let next = self.check("test", Call::Wait)?;
        self.job.progress.poll()?;
        let done = self.exposed.take_completions(self.origins.load(Ordering::Relaxed));
        if done {
            self.exposure_ended(next);
        } else {
            self.job.progress.look()?;
        }
        Ok(done)
    }

    fn exposure_ended(&self, next: (Access, Exposure)) {
        self.enter(next);
        self.refresh();
    }

    /// Waits until a target of `start` has posted.
    pub(super) fn await_post(&self, target: &Target) -> Result<()> {
        let member = number(target.rank());
        self.job.progress.until(|| self.exposed.take_post(member))?;
        target.set_hold(Hold::Open);
        Ok(())
    }

    fn group_of_start(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.started.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn notify(&self, rank: usize, notice: Notice) -> Result<()> {
        if rank == self.team.me {
            self.exposed.notice(number(rank), notice);
            return Ok(());
        }
        if let Some(words) = self.words_near(rank) {
            let told = match notice {
                Notice::Posted => notices::post(words, number(self.team.me)),
                Notice::Completed => {
                    notices::complete(words);
                    true
                }
            };
            if told {
                self.job.wire.knock(peer(self.team.rank(rank)));
                return Ok(());
            }
        }
        self.job.send(self.team.rank(rank), &Messages::notice(self.id, number(self.team.me), notice))
    }

    /// The control words of a rank of this node, as this CPU changes them. Who can't be contacted is told by message, or fails that.
    fn words_near(&self, rank: usize) -> Option<Words<'_>> {
        if self.job.actor == Actor::Nic || self.job.lane(self.team.rank(rank)) != Some(Lane::Shm) {
            return None;
        }
        self.target("post", rank).ok()??.words(self)
    }

    fn check_group(&self, call: &'static str, group: &[usize]) -> Result<()> {
        for (index, &rank) in group.iter().enumerate() {
            if rank == PROC_NULL {
                return Err(Error::argument(Class::Rank, call, "PROC_NULL is no member of a group"));
            }
            crate::job::check_rank(&self.team, call, rank)?;
            if group[..index].contains(&rank) {
                return Err(Error::argument(Class::Rank, call, format!("rank {rank} is listed twice")));
            }
        }
        Ok(())
    }
}

/// A member's number as it travels: windows have fewer than 2^32 ranks.
#[allow(clippy::cast_possible_truncation)]
fn number(member: usize) -> u32 {
    member as u32
}

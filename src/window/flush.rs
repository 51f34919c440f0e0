//! Flushes: completion of this rank's operations (MPI-4.1 §12.5.4), at one target or at all.

use std::sync::atomic::{Ordering, fence};

use transom_fabric::{Post, Tally};

use super::checked::Completed;
use super::drain::{self, DrainedTargets};
use super::parts::Parts;
use super::permit::Permit;
use super::target::{Reach, Target, Unmapped};
use crate::buffers::{Scattered, Sink};
use crate::error::Result;
use crate::job;
use crate::messages::Run;

/// The most polls in which `complete` sends its messages.
const SENDS: u32 = 16;

impl Parts {
    /// Completes all operations to a target, at origin and target (MPI-4.1 §12.5.4).
    #[inline]
    pub(crate) fn flush(&self, call: &'static str, permit: Permit) -> Result<()> {
        self.complete_to(call, permit.rank())
    }

    /// Makes progress from time to time for a program that repeats a call on its own part until
    /// another rank has changed the part.
    #[inline]
    pub(crate) fn look_on(&self, rank: usize) {
        if rank == self.team.me {
            self.job.progress.look_on();
        }
    }

    /// [`Parts::flush`] for the end of the epoch to `rank`.
    #[inline]
    pub(super) fn complete_to(&self, call: &'static str, rank: usize) -> Result<()> {
        // A rank that synchronizes with this one after the call must see its stores to mapped
        // memory. On x86 this fence only restrains the compiler and costs no instruction; elsewhere
        // it is the memory barrier.
        fence(Ordering::AcqRel);
        match self.fast_target(rank) {
            Some(target) if target.tally.settled() => Ok(()),
            Some(target) => self.complete_one_late(target),
            None => self.complete_other(call, rank),
        }
    }

    /// [`Parts::complete_to`] for a rank without first contact, and in checked windows.
    #[cold]
    fn complete_other(&self, call: &'static str, rank: usize) -> Result<()> {
        if rank == job::PROC_NULL {
            return Ok(());
        }
        job::check_rank(&self.team, call, rank)?;
        // Without first contact, nothing is in flight.
        let Some(target) = self.known(rank) else { return Ok(()) };
        self.complete_counted(DrainedTargets::One(target))?;
        self.completed(rank, if call == "flush_local" { Completed::Fetching } else { Completed::All })
    }

    /// Completes all operations to a target but the release of its lock, which `release` counts.
    #[cold]
    pub(super) fn complete_beside(&self, target: &Target, release: &Tally) -> Result<()> {
        // As in `complete_to`.
        fence(Ordering::AcqRel);
        self.complete_counted_late(DrainedTargets::Beside(target, release))
    }

    /// Waits for all operations in flight.
    #[inline]
    fn complete_counted(&self, awaited: DrainedTargets<'_>) -> Result<()> {
        if awaited.tally().settled() { Ok(()) } else { self.complete_counted_late(awaited) }
    }

    /// A separate function, so that calls that need not wait keep no registers for the wait.
    #[cold]
    fn complete_one_late(&self, target: &Target) -> Result<()> {
        self.complete_counted_late(DrainedTargets::One(target))
    }

    /// [`Parts::complete_counted`] for operations in flight.
    #[cold]
    fn complete_counted_late(&self, awaited: DrainedTargets<'_>) -> Result<()> {
        self.post_runs();
        let drained = drain::drain(&self.job, &self.targets, awaited);
        // After a wait that has succeeded, other threads may have begun further operations. After
        // another one, failures of the operations come first: a loss is reported again.
        let is_over = drained.is_ok() || awaited.outstanding() == 0;
        if let DrainedTargets::One(target) = awaited {
            // If nothing is in flight, the release of a lock may follow later puts.
            target.tally.unmix();
        }
        let outcome = if is_over { self.job.progress.outcome(awaited.tally()) } else { Ok(()) };
        outcome.and(drained)
    }

    /// Completes all operations to all targets.
    #[inline]
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.flush_all_locally()?;
        if self.is_checked() { self.all_completed(Completed::All) } else { Ok(()) }
    }

    /// [`Parts::flush_all`] for local flushes, after which buffers may be used again. The caller
    /// tells the checker which operations are complete.
    #[inline]
    pub(super) fn flush_all_locally(&self) -> Result<()> {
        fence(Ordering::AcqRel);
        self.complete_counted(DrainedTargets::All(&self.targets)).inspect_err(|_| self.targets.discard_reported())
    }

    /// Sends the messages that end an access epoch, for whose answers no flush waits. Another
    /// thread may be sending one of them, and a peer may take none now: progress then sends it
    /// later.
    #[cold]
    pub(super) fn send_closing(&self) -> Result<()> {
        for _ in 0..SENDS {
            self.job.progress.poll_and_leave()?;
            if !self.job.messages.owes_answers() {
                break;
            }
        }
        Ok(())
    }

    /// [`Parts::flush_all`] at the end of a closure's epoch: waits for the operations even if
    /// another rank is lost meanwhile.
    #[inline]
    pub(super) fn flush_lent(&self) -> Result<()> {
        self.settle();
        self.flush_all()
    }

    /// Waits until no operation is in flight, even after errors, so that lent buffers can be
    /// returned.
    #[inline]
    pub(crate) fn settle(&self) {
        if !self.targets.tally.idle() {
            self.settle_late();
        }
    }

    #[cold]
    fn settle_late(&self) {
        self.post_runs();
        drain::outlast(&self.job, &self.targets, DrainedTargets::All(&self.targets));
    }

    /// Posts those kept operations (`messages::gathered`) that one put or get can perform, because
    /// a request and its reply would take longer. Tallies record failures.
    #[cold]
    pub(super) fn post_runs(&self) {
        self.job.messages.post_runs(self.id, |member, at, run, tally| {
            let Some(Reach::Unmapped(Unmapped::Posted(memory))) = self.known(member).map(|target| &target.reach) else {
                return Post::Again;
            };
            let most = memory.limits().packed_max;
            match run {
                Run::Put(bytes) if bytes.len() <= most => {
                    memory.put_packed(at, bytes.len(), |buffer| buffer.copy_from_slice(bytes), tally)
                }
                Run::Get(buffers) if buffers.iter().map(Sink::len).sum::<usize>() <= most => {
                    let mut parts = Scattered::new();
                    buffers.iter().for_each(|into| parts.add(into.part(0, into.len())));
                    memory.get_scattered(at, &parts, tally)
                }
                Run::Put(_) | Run::Get(_) => Post::Again,
            }
        });
    }
}

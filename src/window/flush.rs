//! Flushes: completion of this rank's operations (MPI-4.1 §12.5.4), at one target or at all.

use std::sync::atomic::{Ordering, fence};

use transom_fabric::Post;

use super::checked::Completed;
use super::drain::{self, DrainedTargets};
use super::parts::Parts;
use super::permit::Permit;
use super::target::{Reach, Unmapped};
use crate::buffers::{Scattered, Sink};
use crate::error::Result;
use crate::job;
use crate::messages::Run;

impl Parts {
    /// Completes all operations to a target, at origin and target (MPI-4.1 §12.5.4).
    #[inline]
    pub(crate) fn flush(&self, call: &'static str, permit: Permit) -> Result<()> {
        self.complete_to(call, permit.rank())
    }

    /// [`Parts::flush`] for the end of the epoch to `rank`.
    #[inline]
    pub(super) fn complete_to(&self, call: &'static str, rank: usize) -> Result<()> {
        // A rank that synchronizes with this one after the call must see its stores to mapped
        // memory. On x86 this fence only restrains the compiler and costs no instruction; elsewhere
        // it is the memory barrier.
        fence(Ordering::AcqRel);
        match self.fast_target(rank) {
            Some(target) => self.complete_counted(DrainedTargets::One(target)),
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

    /// Waits for all operations in flight.
    #[inline]
    fn complete_counted(&self, awaited: DrainedTargets<'_>) -> Result<()> {
        if awaited.tally().settled() { Ok(()) } else { self.complete_counted_late(awaited) }
    }

    /// A separate function, so that calls that need not wait keep no registers for the wait.
    #[cold]
    fn complete_counted_late(&self, awaited: DrainedTargets<'_>) -> Result<()> {
        self.post_runs();
        let drained = drain::drain(&self.job, &self.targets, awaited);
        // After a wait that has succeeded, other threads may have begun further operations. After
        // another one, failures of the operations come first: a loss is reported again.
        let is_over = drained.is_ok() || awaited.tally().idle();
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

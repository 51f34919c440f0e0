//! [`Permit`], the permission to operate on a target. For operations of the program only the checks
//! of the open epoch create this value, and every operation takes it, so that no call can omit the
//! check.

use super::access;
use super::core::Core;
use super::delayed_lock::not_locked;
use super::epoch_state::{at_target, misused};
use super::target::{Hold, Target};
use crate::epoch::{Access, Call};
use crate::error::{Error, Result};
use crate::job::Cause;

/// The permission to operate on one target, or on `PROC_NULL`, in the open epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit {
    rank: usize,
}

impl Permit {
    /// The target.
    #[inline]
    pub(super) fn rank(self) -> usize {
        self.rank
    }

    /// The permission for the library's own accesses, which belong to no epoch.
    pub(super) fn of_library(rank: usize) -> Permit {
        Permit { rank }
    }
}

impl<T> access::Access<'_, '_, T> {
    /// The permission to operate on a target. An access to all targets needs no check.
    #[inline]
    pub(super) fn admit(&self, call: &'static str, target: usize) -> Result<Permit> {
        if self.checked { self.core.admit(call, target) } else { Ok(Permit { rank: target }) }
    }

    /// The permission to flush a target.
    #[inline]
    pub(super) fn admit_flush(&self, call: &'static str, target: usize) -> Result<Permit> {
        if self.checked { self.core.may_flush(call, target) } else { Ok(Permit { rank: target }) }
    }
}

impl Core {
    /// The permission to operate on `target`. In an epoch of `start` the call waits for the
    /// target's post.
    #[inline]
    pub(crate) fn begin(&self, name: &'static str, target: usize) -> Result<Permit> {
        match self.epochs.state().0 {
            Access::LockAll | Access::Fence => Ok(Permit { rank: target }),
            _ => self.begin_checked(name, target),
        }
    }

    #[cold]
    fn begin_checked(&self, name: &'static str, target: usize) -> Result<Permit> {
        let next = self.epochs.check(name, Call::Operation).map_err(|error| at_target(error, target))?;
        match next.0 {
            Access::Lock | Access::Start => self.admit(name, target),
            _ => {
                // An operation on an invalid rank begins no fence epoch.
                self.parts.target(name, target)?;
                self.epochs.step(name, Call::Operation)?;
                Ok(Permit { rank: target })
            }
        }
    }

    /// Returns `outcome`. After a refused operation, the fence epoch that the operation has opened
    /// is closed again.
    #[inline]
    pub(crate) fn settle<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.refused();
        }
        outcome
    }

    /// Takes back the fence epoch that a refused first operation has opened.
    #[cold]
    fn refused(&self) {
        // Other states stay as they are, and another thread may change the word meanwhile.
        if self.epochs.state().0 == Access::FirstOperation {
            // The operation's error is the one to report.
            let _ = self.epochs.step("", Call::Refused);
        }
    }

    /// As [`Core::begin`], for a request-based operation (MPI-4.1 §12.3.5).
    #[inline]
    pub(crate) fn begin_request(&self, name: &'static str, target: usize) -> Result<Permit> {
        self.begin_passive(name, target).or_else(|refused| self.begin_anyway(name, target, refused))
    }

    /// The permission to operate on `target` in a passive-target epoch, for notified operations.
    #[inline]
    pub(crate) fn begin_passive(&self, name: &'static str, target: usize) -> Result<Permit> {
        match self.epochs.check(name, Call::Request).map_err(|error| at_target(error, target))?.0 {
            Access::Lock => self.admit(name, target),
            _ => Ok(Permit { rank: target }),
        }
    }

    /// The permission for a request-based operation in a fence epoch or an epoch of `start`. MPI
    /// forbids such operations, but MPIs perform them, and so do windows with `Info::forgiving`.
    #[cold]
    fn begin_anyway(&self, name: &'static str, target: usize, refused: Error) -> Result<Permit> {
        let is_active =
            matches!(self.epochs.state().0, Access::Fenced | Access::FirstOperation | Access::Fence | Access::Start);
        if !is_active || !self.parts.hints.is_forgiving() {
            return Err(refused);
        }
        if self.parts.job.rank == 0 {
            self.parts.job.warn_once(Cause::Request, &format!("{refused}; it is performed nevertheless"));
        }
        self.begin(name, target)
    }

    /// The permission to operate on a target in an epoch to some targets only, if the epoch
    /// includes the target.
    fn admit(&self, name: &'static str, rank: usize) -> Result<Permit> {
        let permit = Permit { rank };
        let Some(target) = self.parts.target(name, rank)? else { return Ok(permit) };
        match target.hold() {
            Hold::Shared | Hold::Exclusive | Hold::Biased | Hold::Unchecked => Ok(permit),
            Hold::Open | Hold::Posted | Hold::Delayed | Hold::UnusedShared | Hold::UnusedBiased => Ok(permit),
            Hold::Started => self.await_post(target).map(|()| permit),
            Hold::Failed => Err(not_locked(rank)),
            Hold::None => {
                let reason = match self.epochs.state().0 {
                    Access::Start => "the target is not in the group of start (MPI-4.1 §12.5.2)",
                    _ => "the target is not locked (MPI-4.1 §12.5.3)",
                };
                Err(at_target(misused(name, reason), rank))
            }
        }
    }

    /// The permission to flush one target.
    #[inline]
    pub(crate) fn may_flush(&self, call: &'static str, rank: usize) -> Result<Permit> {
        // The most common case: `lock_all`, under which every target may be flushed.
        if self.epochs.state().0 == Access::LockAll { Ok(Permit { rank }) } else { self.may_flush_checked(call, rank) }
    }

    /// A separate function, so that the common case need not save registers.
    #[cold]
    fn may_flush_checked(&self, call: &'static str, rank: usize) -> Result<Permit> {
        let hold = match self.epochs.state().0 {
            Access::Lock => self.parts.target(call, rank)?.map(Target::hold),
            _ => None,
        };
        let allowed = self.epochs.check(call, Call::Flush { held: hold != Some(Hold::None) });
        allowed.map_err(|error| at_target(error, rank))?;
        match hold {
            Some(Hold::Delayed) => self.complete_delayed().inspect_err(|_| {
                // This call reports the failures of the operations, which the tally has kept.
                drop(self.parts.complete_to(call, rank));
            })?,
            Some(Hold::Failed) => return Err(not_locked(rank)),
            _ => {}
        }
        Ok(Permit { rank })
    }
}

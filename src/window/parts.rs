//! The parts of a window at all its ranks, as this rank reaches them: its own part, the route to
//! each target, and the counts of operations in flight. Operations are methods of [`Parts`],
//! because they need nothing else. Epochs and synchronization belong to [`super::core::Core`]. Two
//! internal kinds of windows are [`Parts`] without epochs: the counters of notified operations, and
//! the shadows of the conflict checker.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::active_hints::ActiveHints;
use super::checked::Checked;
use super::delayed_lock::LockDelay;
use super::notify::Counters;
use super::own::Own;
use super::shared::SharedPart;
use super::target::{Reach, Target, Unmapped};
use super::targets::Targets;
use crate::directory::Part;
use crate::error::{ArgumentError, Class, Error, ErrorKind, Result};
use crate::flavor::Flavor;
use crate::job::{self, JobCore, Route, Team, peer};
use crate::memory::layout::Layout;
use crate::routes::Actor;
use crate::sync::lock::Patience;
use crate::transport::{Lane, NetMemory};

/// The parts of a window, as this rank reaches them.
pub(crate) struct Parts {
    pub(crate) job: Arc<JobCore>,
    pub(crate) team: Arc<Team>,
    /// The window's number in the job.
    pub(crate) id: u64,
    pub(crate) flavor: Flavor,
    /// The actor of accumulates on integers.
    pub(super) actor: Actor,
    /// The actor of atomics on control words.
    pub(super) control: Actor,
    /// Whether an epoch of `lock_all` is open. Relaxed everywhere, because the value only decides
    /// whether operations share a message.
    pub(super) all_locked: AtomicBool,
    pub(crate) own: Own,
    pub(crate) targets: Targets,
    pub(crate) hints: ActiveHints,
    /// The operations that wait for a delayed lock.
    pub(super) delay: LockDelay,
    /// The patience of this process's locks.
    pub(super) patience: Patience,
    /// The counters of notified operations, once `set_num_notify` has made them.
    pub(super) counters: OnceLock<Box<Counters>>,
    /// The hot paths serve ranks below this number: all ranks, or none in a checked window.
    pub(super) fast_ranks: usize,
    /// The data of the conflict checker.
    pub(super) checked: Option<Box<Checked>>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {:x} ({:?}, {} bytes, unit {})", self.id, self.flavor, self.own.part.size, self.own.part.unit)
    }
}

impl Parts {
    /// If the net performs atomics on a part of this node, possibly this rank's own, makes the part
    /// reachable through the net.
    pub(super) fn import_loopback(&self, rank: usize, part: &Part, reach: &Reach) -> Result<()> {
        if part.size == 0 || !self.uses_loopback(reach) {
            return Ok(());
        }
        let job_rank = self.team.rank(rank);
        // Connects the net to the rank.
        self.job.block_by_net(job_rank)?;
        self.targets.loopback.get_or_try_insert(peer(rank), || {
            let memory = self.job.wire.import_net(peer(job_rank), &part.net)?;
            Ok::<_, Error>((peer(rank), memory))
        })?;
        Ok(())
    }

    /// Whether the device performs atomics on a part of this node, through its loopback.
    fn uses_loopback(&self, reach: &Reach) -> bool {
        match (self.actor, reach) {
            (Actor::Nic, Reach::Mapped(..)) => true,
            // The CPU has no atomics on memory that it does not map.
            (Actor::Nic | Actor::Both, Reach::Unmapped(Unmapped::Copied(_) | Unmapped::Messages)) => true,
            _ => false,
        }
    }

    /// The target's part as memory of the net, if the device performs atomics on the part.
    #[inline]
    pub(super) fn by_nic<'t>(&'t self, target: &'t Target) -> Option<&'t NetMemory> {
        match &target.reach {
            _ if self.actor == Actor::Cpu => None,
            Reach::Unmapped(Unmapped::Posted(memory)) => Some(memory),
            reach if self.uses_loopback(reach) => {
                self.targets.loopback.get(peer(target.rank())).map(|(_, memory)| memory)
            }
            _ => None,
        }
    }

    /// The target, with first contact if needed; `None` for `PROC_NULL`.
    #[inline]
    pub(crate) fn target(&self, call: &'static str, rank: usize) -> Result<Option<&Target>> {
        match self.known(rank) {
            Some(target) => Ok(Some(target)),
            None => self.contact(call, rank),
        }
    }

    /// The target, if first contact has been made.
    #[inline]
    pub(super) fn known(&self, rank: usize) -> Option<&Target> {
        if rank < self.team.size { self.targets.get(rank) } else { None }
    }

    /// [`Parts::known`] for the hot paths, which do not serve checked windows.
    #[inline]
    pub(super) fn fast_target(&self, rank: usize) -> Option<&Target> {
        if rank < self.fast_ranks { self.targets.get(rank) } else { None }
    }

    #[cold]
    fn contact(&self, call: &'static str, rank: usize) -> Result<Option<&Target>> {
        if rank == job::PROC_NULL {
            return Ok(None);
        }
        job::check_rank(&self.team, call, rank)?;
        self.targets.get_or_contact(rank, || Target::contact(self, rank)).map(Some)
    }

    /// [`Parts::locate`] for the hot path. `None` before first contact, for `PROC_NULL`, for an
    /// access outside of the part, and in a checked window. The caller then calls a separate
    /// function, which locates again, so that the hot path keeps no registers for that call.
    #[inline(always)]
    pub(super) fn located(&self, rank: usize, displacement: u64, len: usize) -> Option<(&Target, u64)> {
        let target = self.fast_target(rank)?;
        let at = displacement.checked_mul(u64::from(target.unit))?;
        (at.checked_add(len as u64)? <= target.size).then_some((target, at))
    }

    /// The target and the byte offset of an access of `len` bytes, checked against the target's
    /// size (requirement O7).
    #[inline]
    pub(super) fn locate(
        &self,
        call: &'static str,
        rank: usize,
        displacement: u64,
        len: usize,
    ) -> Result<Option<(&Target, u64)>> {
        let Some(target) = self.target(call, rank)? else { return Ok(None) };
        match displacement.checked_mul(u64::from(target.unit)) {
            Some(at) if at <= target.size && len as u64 <= target.size - at => Ok(Some((target, at))),
            // An access of no bytes is inside every part.
            _ if len == 0 => Ok(Some((target, 0))),
            _ => Err(outside(call, target, displacement, len)),
        }
    }

    /// [`Parts::locate`] for a layout, by its true span. The result is the offset of the layout's
    /// origin, which may lie outside of the part.
    pub(super) fn locate_layout(
        &self,
        call: &'static str,
        rank: usize,
        displacement: u64,
        layout: &Layout<'_>,
    ) -> Result<Option<(&Target, i64)>> {
        let Some(target) = self.target(call, rank)? else { return Ok(None) };
        let (low, end) = layout.span();
        let at = displacement.checked_mul(u64::from(target.unit)).and_then(|at| i64::try_from(at).ok());
        let inside = |at: i64| {
            let (low, end) = (at.checked_add(low)?, at.checked_add(end)?);
            (low >= 0 && end.cast_unsigned() <= target.size).then_some(at)
        };
        match at.and_then(inside) {
            Some(at) => Ok(Some((target, at))),
            None if layout.len() == 0 => Ok(Some((target, 0))),
            None => Err(outside(call, target, displacement, usize::try_from(end.abs_diff(low)).unwrap_or(usize::MAX))),
        }
    }

    /// The route to a rank's data.
    pub(crate) fn route(&self, rank: usize) -> Result<Route> {
        job::check_rank(&self.team, "route", rank)?;
        Ok(match self.job.lane(self.team.rank(rank)) {
            None => Route::Own,
            Some(Lane::Shm) => Route::Shm,
            Some(Lane::Net) => Route::Net,
        })
    }

    /// The part of a rank as memory of this process; for `PROC_NULL`, that of the lowest rank whose
    /// part has bytes and is reached by loads and stores (MPI-4.1 §12.2.3).
    pub(crate) fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        const CALL: &str = "shared_query";
        if self.flavor == Flavor::Dynamic {
            return Err(Error::argument(Class::RmaFlavor, CALL, ArgumentError::DynamicUnshared));
        }
        if rank != job::PROC_NULL {
            let part = self.target(CALL, rank)?.map(|target| self.own.shared(self.team.me, target));
            return part.unwrap_or_else(|| Err(Error::argument(Class::Rank, CALL, ArgumentError::ProcNull)));
        }
        let is_near = |&rank: &usize| self.job.lane(self.team.rank(rank)) != Some(Lane::Net);
        for rank in (0..self.team.size).filter(is_near) {
            if let Some(target) = self.target(CALL, rank)?
                && target.size > 0
                && let Ok(part) = self.own.shared(self.team.me, target)
            {
                return Ok(part);
            }
        }
        Ok(self.own.shared_nothing())
    }

    pub(crate) fn actor(&self) -> Actor {
        self.actor
    }

    /// The window's ranks, as ranks of the whole job (`MPI_WIN_GET_GROUP`).
    pub(crate) fn group(&self) -> Vec<usize> {
        (0..self.team.size).map(|member| self.team.rank(member)).collect()
    }
}

/// A checked offset as an index, which fits because the memory is mapped here.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(super) fn index(at: u64) -> usize {
    at as usize
}

#[cold]
fn outside(call: &'static str, target: &Target, displacement: u64, length: usize) -> Error {
    let (rank, unit, limit) = (target.rank(), target.unit, target.size);
    ErrorKind::Range { call, rank, displacement, unit, length, limit }.into()
}

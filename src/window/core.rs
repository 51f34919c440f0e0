//! What a window is at one rank: its parts, its epochs, the way to each target, completion. What is done to memory is in
//! `transfer` and `accumulate`; the protocols are in `lock`, `pscw` and here (fence).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use transom_fabric::{Memory, Peer, PeerMap, TallyRef};

use super::dynamic::Known;
use super::model::Separate;
use super::target::{Data, Flavor, Hold, Target};
use super::words::{self, Words};
use crate::directory::Part;
use crate::epoch::{self, Access, Call};
use crate::error::{Error, ErrorKind, Result};
use crate::hints::{Hints, Info, Model};
use crate::job::{self, BarrierWords, JobCore, Route, Team, peer};
use crate::messages::Exposed;
use crate::plan::Actor;
use crate::rma::attached::Attached;
use crate::rma::layout::Layout;
use crate::sync::barrier;
use crate::wire::{Adopted, Far, Lane, NetRegion, ShmRegion};

/// One rank's side of a window.
pub(crate) struct Core {
    pub(crate) job: Arc<JobCore>,
    pub(crate) team: Arc<Team>,
    /// The window's number in the job.
    pub(crate) id: u64,
    pub(crate) flavor: Flavor,
    /// This rank's part: the public copy, which others reach.
    pub(crate) memory: Memory,
    /// The private copy, where the model is separate.
    pub(super) separate: Option<Separate>,
    pub(crate) part: Part,
    /// The control words that other ranks reach here.
    pub(crate) words: Memory,
    pub(super) exposed: Arc<Exposed>,
    /// What is attached, in a dynamic window.
    pub(super) attached: Arc<Attached>,
    /// The whole segment of a contiguous shared window.
    pub(super) segment: Option<Memory>,
    pub(super) hints: Mutex<Hints>,
    pub(super) ordered: AtomicBool,
    pub(super) no_locks: AtomicBool,
    pub(super) per_element: bool,
    /// Whether ranks of a node map each other's parts, all of them.
    pub(super) mapped: bool,
    pub(super) actor: Actor,
    /// What is in flight to all targets.
    pub(crate) tally: TallyRef,
    pub(super) place: usize,
    pub(super) regions: Regions,
    pub(super) targets: PeerMap<Target>,
    /// The own part through the net, where the net performs its integers' atomics.
    pub(super) own: OnceLock<Far>,
    /// Places with atomics of the net in flight, one bit for many.
    pub(super) busy: AtomicU64,
    /// What is attached at targets of this node, in a dynamic window.
    pub(super) known: PeerMap<(Peer, Mutex<Known>)>,
    pub(super) epoch: AtomicU8,
    pub(super) fences: AtomicU32,
    /// Targets locked, and exclusively among them.
    pub(super) locks: AtomicU32,
    pub(super) exclusives: AtomicU32,
    /// Whether `lock_all` took the master's word.
    pub(super) holds_all: AtomicBool,
    /// The group of `start`.
    pub(super) started: Mutex<Vec<usize>>,
    /// The origins of `post`.
    pub(super) origins: AtomicU32,
}

/// What keeps peers' access to this rank's part open.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) shm: Option<ShmRegion>,
    pub(crate) net: Option<NetRegion>,
    /// What makes the user's memory one that ranks of the node map, until the window is freed.
    pub(crate) adopted: Mutex<Option<Adopted>>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {:x} ({:?}, {} bytes, unit {})", self.id, self.flavor, self.part.size, self.part.unit)
    }
}

impl Core {
    pub(super) fn state(&self) -> epoch::State {
        // Relaxed: a window's synchronization calls come from one thread at a time (MPI §11.5); the state orders nothing.
        epoch::from_number(self.epoch.load(Ordering::Relaxed))
    }

    /// What the state would be after `call`.
    // Inlined: where the call is known, little is left of the state machine.
    #[inline]
    pub(crate) fn check(&self, name: &'static str, call: Call) -> Result<epoch::State> {
        epoch::after(self.state(), call).map_err(|reason| misused(name, reason))
    }

    /// Passes `call` through the epochs' state machine.
    #[inline]
    pub(crate) fn step(&self, name: &'static str, call: Call) -> Result<()> {
        let next = self.check(name, call)?;
        self.enter(next);
        Ok(())
    }

    #[inline]
    pub(super) fn enter(&self, state: epoch::State) {
        self.epoch.store(epoch::number(state), Ordering::Relaxed);
    }

    /// Whether an operation on `target` may begin, which in an epoch of `start` waits for the target's post.
    #[inline]
    pub(crate) fn begin(&self, name: &'static str, target: usize) -> Result<()> {
        match self.state().0 {
            Access::LockAll | Access::Fence => Ok(()),
            _ => self.begin_checked(name, target),
        }
    }

    #[cold]
    fn begin_checked(&self, name: &'static str, target: usize) -> Result<()> {
        let next = self.check(name, Call::Operation)?;
        match next.0 {
            Access::Lock | Access::Start => self.admit(name, target),
            _ => {
                // No fence epoch begins by an operation on a rank that is none.
                self.target(name, target)?;
                self.enter(next);
                Ok(())
            }
        }
    }

    /// As [`Core::begin`], for a request-based operation (MPI §11.3.5).
    #[inline]
    pub(crate) fn begin_request(&self, name: &'static str, target: usize) -> Result<()> {
        self.check(name, Call::Request)?;
        match self.state().0 {
            Access::Lock => self.admit(name, target),
            _ => Ok(()),
        }
    }

    /// Makes the own part reachable through the net, where the net performs atomics on it.
    pub(super) fn import_own(&self) -> Result<()> {
        if self.actor == Actor::Nic && self.part.size > 0 {
            let own = self.job.wire.import_net(peer(self.job.rank), &self.part.net)?;
            // Set once, by the first contact with the own rank.
            let _ = self.own.set(own);
        }
        Ok(())
    }

    /// A target's part through the net, where the net is the actor.
    #[inline]
    pub(super) fn by_nic<'t>(&'t self, target: &'t Target) -> Option<&'t Far> {
        match &target.data {
            _ if self.actor != Actor::Nic || self.flavor == Flavor::Dynamic => None,
            Data::Far(far) => Some(far),
            Data::Mapped(_, None) => self.own.get(),
            Data::Mapped(_, Some(_)) => None,
        }
    }

    /// Whether the open epoch, which is one of some targets only, has this one in it.
    pub(crate) fn admit(&self, name: &'static str, rank: usize) -> Result<()> {
        let Some(target) = self.target(name, rank)? else { return Ok(()) };
        match target.hold() {
            Hold::Shared | Hold::Exclusive | Hold::Unchecked | Hold::Open => Ok(()),
            Hold::Started => self.await_post(target),
            Hold::None if self.state().0 == Access::Start => {
                Err(ErrorKind::Epoch { call: name, reason: "the target is not in the group of start (MPI §11.5.2)" }
                    .into())
            }
            Hold::None => Err(ErrorKind::Epoch { call: name, reason: "the target is not locked (MPI §11.5.3)" }.into()),
        }
    }

    /// The target, contacted before or now; `None` for `PROC_NULL`.
    #[inline]
    pub(crate) fn target(&self, call: &'static str, rank: usize) -> Result<Option<&Target>> {
        match self.known(rank) {
            Some(target) => Ok(Some(target)),
            None => self.contact(call, rank),
        }
    }

    /// The target, if it was contacted before.
    #[inline]
    pub(super) fn known(&self, rank: usize) -> Option<&Target> {
        if rank < self.team.size { self.targets.get(peer(rank)) } else { None }
    }

    #[cold]
    fn contact(&self, call: &'static str, rank: usize) -> Result<Option<&Target>> {
        if rank == job::PROC_NULL {
            return Ok(None);
        }
        job::check_rank(&self.team, call, rank)?;
        self.targets.get_or_try_insert(peer(rank), || Target::contact(self, rank)).map(Some)
    }

    /// The same as [`Core::locate`] on the hot path, where it is `None` for whatever is not plain: a first contact, `PROC_NULL`, an
    /// access outside. Who gets `None` calls a function of its own that locates again, and so keeps no register for it.
    #[inline(always)]
    pub(super) fn located(&self, rank: usize, displacement: u64, len: usize) -> Option<(&Target, u64)> {
        let target = self.known(rank)?;
        let at = displacement.checked_mul(u64::from(target.unit))?;
        (at.checked_add(len as u64)? <= target.size).then_some((target, at))
    }

    /// The target and the byte offset of an access of `len` bytes, checked against the target's size (REQUIREMENTS O7).
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
            _ => Err(outside(call, target, displacement, len)),
        }
    }

    /// The same for a layout, by its true span. The offset is that of the layout's origin, which may lie outside.
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
            None => Err(outside(call, target, displacement, usize::try_from(end.abs_diff(low)).unwrap_or(usize::MAX))),
        }
    }

    /// Completes all operations to `rank`, at both sides (MPI §11.5.4).
    #[inline]
    pub(crate) fn flush(&self, call: &'static str, rank: usize) -> Result<()> {
        // Stores to mapped memory are in program order for every observer that synchronizes after us: on x86 this
        // keeps the compiler from moving them and costs no instruction; elsewhere it is the store barrier that is needed.
        fence(Ordering::AcqRel);
        match self.targets.get(peer(rank)) {
            Some(target) if target.rank() == rank => self.job.progress.complete(&target.tally),
            // Never contacted: nothing is in flight.
            _ if rank == job::PROC_NULL => Ok(()),
            _ => job::check_rank(&self.team, call, rank),
        }
    }

    /// Completes all operations to all targets.
    #[inline]
    pub(crate) fn flush_all(&self) -> Result<()> {
        fence(Ordering::AcqRel);
        self.job.progress.complete(&self.tally).inspect_err(|_| self.told())
    }

    /// A failure that was told for all targets is not told again by one of them.
    #[cold]
    fn told(&self) {
        for target in self.targets.values() {
            drop(target.tally.take_failure());
        }
    }

    /// Whether a flush of one target is allowed now.
    #[inline]
    pub(crate) fn may_flush(&self, call: &'static str, rank: usize) -> Result<()> {
        // What most programs do: all targets are held, and the state stays.
        if self.state().0 == Access::LockAll { Ok(()) } else { self.may_flush_checked(call, rank) }
    }

    /// Apart, so that its registers are not taken on the way of most flushes.
    #[cold]
    fn may_flush_checked(&self, call: &'static str, rank: usize) -> Result<()> {
        let held = match self.state().0 {
            Access::Lock => self.target(call, rank)?.is_none_or(|target| target.hold() != Hold::None),
            _ => true,
        };
        self.check(call, Call::Flush { held }).map(drop)
    }

    /// Waits until no operation is in flight, errors or not: lent buffers go back.
    #[inline]
    pub(crate) fn settle(&self) {
        self.job.finish(&self.tally);
    }

    /// Orders this rank's loads and stores of its window with what others did (MPI §11.5.4, `MPI_WIN_SYNC`); in the
    /// separate model it brings both copies together.
    #[inline]
    pub(crate) fn sync(&self) {
        fence(Ordering::SeqCst);
        if let Some(separate) = &self.separate {
            separate.publish(&self.memory);
            separate.refresh(&self.memory);
        }
    }

    /// The private copy's changes become visible in the public one (MPI §11.7 rule 5).
    #[inline]
    pub(super) fn publish(&self) {
        if let Some(separate) = &self.separate {
            separate.publish(&self.memory);
        }
    }

    /// The public copy's changes become visible in the private one (MPI §11.7 rule 6).
    #[inline]
    pub(super) fn refresh(&self) {
        if let Some(separate) = &self.separate {
            separate.refresh(&self.memory);
        }
    }

    /// What this process loads and stores.
    #[inline]
    pub(crate) fn local(&self) -> &Memory {
        self.separate.as_ref().map_or(&self.memory, Separate::private)
    }

    /// The fence's work: completes what this rank started, then a barrier of the window's ranks (MPI §11.5.1).
    #[inline]
    pub(crate) fn fence(&self) -> Result<()> {
        let flushed = self.flush_all();
        self.publish();
        self.barrier()?;
        self.refresh();
        flushed
    }

    #[inline]
    pub(crate) fn barrier(&self) -> Result<()> {
        let theirs = |member: usize| match self.job.lane(self.team.rank(member)) {
            Some(Lane::Net) => Ok(None),
            _ => {
                let block = self.target("fence", member)?.and_then(|target| target.words(self));
                Ok(block.map(|words| words.from(words::FENCE)))
            }
        };
        let mine = Some(Words::at(&self.words, words::FENCE));
        let words = BarrierWords { job: &self.job, team: &self.team, key: self.id, mine, theirs };
        barrier::dissemination(self.team.me, self.team.size, job::next(&self.fences), 0, &words).map(drop)
    }

    /// The way to a rank's data.
    pub(crate) fn route(&self, rank: usize) -> Result<Route> {
        job::check_rank(&self.team, "route", rank)?;
        Ok(match self.job.lane(self.team.rank(rank)) {
            None => Route::Own,
            Some(Lane::Shm) => Route::Shm,
            Some(Lane::Net) => Route::Net,
        })
    }

    /// The memory model (`MPI_WIN_MODEL`).
    pub(crate) fn model(&self) -> Model {
        if self.separate.is_some() { Model::Separate } else { Model::Unified }
    }

    /// Whether operations were begun since the last fence.
    pub(crate) fn in_fence_epoch(&self) -> bool {
        self.state().0 == Access::Fence
    }

    pub(crate) fn actor(&self) -> Actor {
        self.actor
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// The window's ranks, as ranks of the whole job (`MPI_WIN_GET_GROUP`).
    pub(crate) fn group(&self) -> Vec<usize> {
        (0..self.team.size).map(|member| self.team.rank(member)).collect()
    }

    pub(super) fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hints in force (`MPI_WIN_GET_INFO`).
    pub(crate) fn info(&self) -> Info {
        self.hints().in_force()
    }

    /// Takes over hints that may change (`MPI_WIN_SET_INFO`).
    pub(crate) fn set_info(&self, info: &Info) -> Result<()> {
        let mut hints = self.hints();
        hints.update(info)?;
        // Relaxed: the caller orders its own operations.
        self.ordered.store(hints.ordered(), Ordering::Relaxed);
        self.no_locks.store(hints.no_locks, Ordering::Relaxed);
        Ok(())
    }
}

/// A checked offset as an index: it is below the size of memory that is mapped here.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(super) fn index(at: u64) -> usize {
    at as usize
}

#[cold]
fn misused(call: &'static str, reason: &'static str) -> Error {
    ErrorKind::Epoch { call, reason }.into()
}

#[cold]
fn outside(call: &'static str, target: &Target, displacement: u64, length: usize) -> Error {
    let (rank, unit, limit) = (target.rank(), target.unit, target.size);
    ErrorKind::Range { call, rank, displacement, unit, length, limit }.into()
}

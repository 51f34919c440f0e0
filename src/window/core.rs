//! A window at one rank: its parts, its epochs, the route to each target, completion. Operations on
//! memory are in `transfer` and `accumulate`. The protocols are in `lock`, `pscw` and here (fence).

use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use transom_fabric::Tally;

use super::active_hints::ActiveHints;
use super::checked::{Checked, Which};
use super::epoch_state::EpochState;
use super::notify;
use super::own::Own;
use super::permit::Permit;
use super::shared::SharedPart;
use super::target::{Reach, Target, Unmapped};
use super::targets::Targets;
use crate::directory::Part;
use crate::epoch::Access;
use crate::error::{ArgumentError, Class, Error, ErrorKind, Result};
use crate::flavor::Flavor;
use crate::job::{self, BarrierWords, JobCore, Route, Team, peer};
use crate::memory::layout::Layout;
use crate::routes::Actor;
use crate::sync::barrier::{self, Signals};
use crate::sync::words::{self, Words};
use crate::transport::{Lane, NetMemory};

/// One rank's side of a window.
pub(crate) struct Core {
    pub(crate) job: Arc<JobCore>,
    pub(crate) team: Arc<Team>,
    /// The window's number in the job.
    pub(crate) id: u64,
    pub(crate) flavor: Flavor,
    /// The actor of accumulates on integers.
    pub(super) actor: Actor,
    /// The actor of atomics on control words.
    pub(super) control: Actor,
    /// Whether all parts of the node's ranks are mapped by the other ranks of the node.
    pub(super) mapped: bool,
    pub(crate) own: Own,
    pub(crate) targets: Targets,
    pub(crate) epochs: EpochState,
    pub(crate) hints: ActiveHints,
    /// The counters of notified operations.
    pub(super) counters: notify::Place,
    /// A weak reference to this value, for values that keep the window.
    pub(super) this: Weak<Core>,
    /// The hot paths serve ranks below this number: all ranks, or none in a checked window.
    pub(super) fast_ranks: usize,
    /// The data of the conflict checker.
    pub(super) checked: Option<Box<Checked>>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {:x} ({:?}, {} bytes, unit {})", self.id, self.flavor, self.own.part.size, self.own.part.unit)
    }
}

impl Core {
    /// Makes the part of a rank of this node, or of this rank, reachable through the net, if the
    /// net performs atomics on it.
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
            // The CPU can't change memory that it does not map by atomics that the device respects.
            (Actor::Nic | Actor::Both, Reach::Unmapped(Unmapped::Copied(_) | Unmapped::Messages)) => true,
            _ => false,
        }
    }

    /// A target's part as the net reaches it, if the device performs atomics on the part.
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

    /// [`Core::known`] for the hot paths, which do not serve checked windows.
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

    /// [`Core::locate`] for the hot path: `None` for a first contact, for `PROC_NULL`, for an
    /// access outside of the part, and in a checked window. After `None` the caller calls a
    /// separate function that locates again, so that the hot path keeps no registers for it.
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

    /// [`Core::locate`] for a layout, by its true span. The result is the offset of the layout's
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

    /// Completes all operations to a target, at origin and target (MPI-4.1 §12.5.4).
    #[inline]
    pub(crate) fn flush(&self, call: &'static str, permit: Permit) -> Result<()> {
        self.complete_to(call, permit.rank())
    }

    /// [`Core::flush`] for the end of the epoch to `rank`.
    #[inline]
    pub(super) fn complete_to(&self, call: &'static str, rank: usize) -> Result<()> {
        // Stores to mapped memory must be in program order for every observer that synchronizes
        // after this call. On x86 the fence only stops the compiler from moving them and costs no
        // instruction; elsewhere it is the store barrier.
        fence(Ordering::AcqRel);
        match self.fast_target(rank) {
            Some(target) => self.complete_counted(&target.tally),
            None => self.complete_other(call, rank),
        }
    }

    /// [`Core::complete_to`] for a rank without first contact, and in checked windows.
    #[cold]
    fn complete_other(&self, call: &'static str, rank: usize) -> Result<()> {
        if rank == job::PROC_NULL {
            return Ok(());
        }
        job::check_rank(&self.team, call, rank)?;
        // Without first contact, nothing is in flight.
        let Some(target) = self.known(rank) else { return Ok(()) };
        self.complete_counted(&target.tally)?;
        self.completed(rank, if call == "flush_local" { Which::Fetching } else { Which::All })
    }

    /// Waits for the operations that `tally` counts.
    #[inline]
    fn complete_counted(&self, tally: &Tally) -> Result<()> {
        if tally.settled() { Ok(()) } else { self.complete_counted_late(tally) }
    }

    /// A separate function, so that the waiting takes no registers from calls that need not wait.
    #[cold]
    fn complete_counted_late(&self, tally: &Tally) -> Result<()> {
        self.post_runs();
        self.job.progress.complete(tally)
    }

    /// Completes all operations to all targets.
    #[inline]
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.flush_all_locally()?;
        if self.is_checked() { self.all_completed(Which::All) } else { Ok(()) }
    }

    /// [`Core::flush_all`] for the local flushes, which promise only that buffers may be used
    /// again.
    #[inline]
    pub(super) fn flush_all_locally(&self) -> Result<()> {
        fence(Ordering::AcqRel);
        self.complete_counted(&self.targets.tally).inspect_err(|_| self.targets.discard_reported())
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
        self.job.finish(&self.targets.tally);
    }

    /// Completes the operations of this rank, then passes a barrier of the window's ranks (MPI-4.1
    /// §12.5.1).
    #[inline]
    pub(crate) fn fence(&self) -> Result<()> {
        // The window's count is read before the first target's: a completion lowers that one first.
        let outstanding = self.targets.tally.outstanding();
        if outstanding != 0 && self.all_follow_to_first(outstanding) {
            return self.fence_behind();
        }
        let flushed = self.flush_all();
        if outstanding != 0 {
            self.forget_first();
        }
        self.own.publish();
        self.meet("fence", || self.disseminate(0, &self.signals(|member| self.words_for_fence(member))))?;
        self.own.refresh();
        flushed
    }

    fn words_for_fence(&self, member: usize) -> Result<Option<Words<'_>>> {
        Ok(self.target("fence", member)?.and_then(|target| target.words(self)))
    }

    /// The receiver of the first signal of this rank's barriers, if first contact has been made.
    fn first(&self) -> Option<&Target> {
        self.known((self.team.me + 1) % self.team.size)
    }

    /// Whether all operations in flight are puts to the receiver of the first signal, and that
    /// signal arrives behind them.
    #[cold]
    fn all_follow_to_first(&self, outstanding: u64) -> bool {
        self.first().is_some_and(|first| first.orders_messages() && first.tally.outstanding() == outstanding)
    }

    #[cold]
    fn forget_first(&self) {
        if let Some(first) = self.first() {
            first.tally.unmix();
        }
    }

    /// [`Core::fence`] whose first signal is ordered after the puts in flight. The puts are
    /// complete before the second signal, because its receiver may signal further ranks, whose
    /// operations are not ordered after the puts.
    #[cold]
    fn fence_behind(&self) -> Result<()> {
        self.own.publish();
        let signals = barrier::Behind::new(self.signals(|member| self.words_for_fence(member)), || self.flush_all());
        let passed = self.disseminate(0, &signals);
        let flushed = signals.complete();
        passed?;
        self.own.refresh();
        flushed
    }

    /// A barrier without first contacts: the words of a target that was never contacted are found
    /// through its job block.
    pub(crate) fn barrier(&self) -> Result<()> {
        self.barrier_with_bits(0).map(drop)
    }

    /// [`Core::barrier`] that returns the union of the bits that ranks send.
    pub(super) fn barrier_with_bits(&self, bits: u32) -> Result<u32> {
        self.meet("collective call", || self.barrier_unchecked(bits))
    }

    /// [`Core::barrier_with_bits`] that the conflict checker does not see.
    pub(super) fn barrier_unchecked(&self, bits: u32) -> Result<u32> {
        let signals = self.signals(|member| {
            if let Some(target) = self.known(member) {
                return Ok(target.words(self));
            }
            let rank = self.team.rank(member);
            let (_, place) = self.job.lookup(rank, self.id)?;
            let block = self.job.link(rank)?.block();
            Ok(block.map(|block| Words::at(block, self.job.block.words_at(place))))
        });
        self.disseminate(bits, &signals)
    }

    /// The signals of a barrier of the window's ranks, with the control words of the ranks of this
    /// node.
    #[inline]
    fn signals<'w>(&'w self, words: impl Fn(usize) -> Result<Option<Words<'w>>> + 'w) -> impl Signals {
        let theirs = move |member: usize| match self.job.lane(self.team.rank(member)) {
            Some(Lane::Net) => Ok(None),
            _ => Ok(words(member)?.map(|words| words.from(words::FENCE))),
        };
        let mine = Some(Words::at(&self.own.words, words::FENCE));
        BarrierWords { job: &self.job, team: &self.team, key: self.id, mine, theirs }
    }

    #[inline]
    fn disseminate(&self, bits: u32, signals: &impl Signals) -> Result<u32> {
        barrier::dissemination(self.team.me, self.team.size, job::next(&self.epochs.fences), bits, signals)
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
    /// part has bytes (MPI-4.1 §12.2.3).
    pub(crate) fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        const CALL: &str = "shared_query";
        if self.flavor == Flavor::Dynamic {
            return Err(Error::argument(Class::RmaFlavor, CALL, ArgumentError::DynamicUnshared));
        }
        if rank != job::PROC_NULL {
            let part = self.target(CALL, rank)?.map(|target| self.own.shared(self.team.me, target));
            return part.unwrap_or_else(|| Err(Error::argument(Class::Rank, CALL, ArgumentError::ProcNull)));
        }
        for rank in 0..self.team.size {
            if let Some(target) = self.target(CALL, rank)?
                && target.size > 0
            {
                return self.own.shared(self.team.me, target);
            }
        }
        Ok(self.own.shared_nothing())
    }

    /// Whether operations were started since the last fence.
    pub(crate) fn in_fence_epoch(&self) -> bool {
        self.epochs.state().0 == Access::Fence
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

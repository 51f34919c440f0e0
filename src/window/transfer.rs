//! Puts and gets on a window that are contiguous at both sides (MPI-4.1 §12.3.1, §12.3.2). Within a
//! node the hot path only chooses the route and copies.

use std::sync::atomic::Ordering;

use transom_fabric::{Tally, TallyRef};

use super::drain::{self, DrainedTargets};
use super::kernel_copies::CopiedByKernel;
use super::lent::Buffer;
use super::parts::{Parts, index};
use super::permit::Permit;
use super::posted::Posted;
use super::target::{Hold, Reach, Target, Unmapped};
use crate::buffers::{Sink, Source};
use crate::check::Kind;
use crate::error::Result;
use crate::job::peer;
use crate::memory::layout::Layout;
use crate::messages::{Close, Counting, End, Gather, Small, Towards};
use crate::sync::barrier;
use crate::transport::{Lane, Net, NetMemory};

/// Longest operation that may share a message with others, in bytes.
pub(super) const MAX_GATHERED_BYTES: usize = 4096;

/// Longest accumulate that is kept for the message that ends its epoch, in bytes. Only the first
/// operation of an epoch is kept for this reason.
const MAX_ENDING_BYTES: usize = 16384;

/// In an epoch whose end notifies the target, puts share messages from this number of operations in
/// flight on. With fewer, each put is posted: the notice may be sent directly after posted puts,
/// but has to wait for the reply to a message.
const AHEAD_OF_NOTICES: u64 = 6;
/// Number of operations in flight to a target above which a new message waits, if the message has
/// several operations, or if its reply carries data. In windows of many ranks messages whose
/// replies carry data wait earlier ([`Parts::bound_replies`]).
pub(super) const MAX_IN_FLIGHT: u64 = 64;

/// The tally that counts an operation: the target's, or a tally of the operation's own, made when
/// the operation does not complete at once.
pub(crate) enum CountedBy<'c> {
    Target,
    Request(&'c mut Option<TallyRef>),
}

impl CountedBy<'_> {
    #[inline(always)]
    pub(super) fn tally<'t>(&'t mut self, target: &'t Target) -> &'t TallyRef {
        match self {
            CountedBy::Target => &target.tally,
            CountedBy::Request(own) => own.get_or_insert_with(|| Tally::within(&target.tally)),
        }
    }
}

/// A buffer to read, and the layout of the data in it. Layout offset 0 is `low` bytes after the
/// beginning of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'t> {
    pub(crate) bytes: Source,
    pub(crate) low: i64,
    pub(crate) layout: Layout<'t>,
}

/// A buffer to fill, with the layout of its data as in [`Outgoing`].
#[derive(Debug)]
pub(crate) struct Incoming<'t> {
    pub(crate) bytes: Sink,
    pub(crate) low: i64,
    pub(crate) layout: Layout<'t>,
}

impl Outgoing<'_> {
    /// The bytes of a contiguous buffer.
    pub(crate) fn contiguous(bytes: Source) -> Outgoing<'static> {
        Outgoing { bytes, low: 0, layout: Layout::Bytes(bytes.len()) }
    }

    /// The buffer, for the conflict checker.
    pub(super) fn buffer(&self) -> Buffer<'_> {
        Buffer::new(self.bytes.address(), self.low, &self.layout, false)
    }

    pub(super) fn part(&self, at: i64, len: usize) -> Source {
        self.bytes.part(usize::try_from(at - self.low).unwrap_or(usize::MAX), len)
    }
}

impl Incoming<'_> {
    /// The bytes of a contiguous buffer.
    pub(crate) fn contiguous(bytes: Sink) -> Incoming<'static> {
        let layout = Layout::Bytes(bytes.len());
        Incoming { bytes, low: 0, layout }
    }

    /// The buffer, for the conflict checker.
    pub(super) fn buffer(&self) -> Buffer<'_> {
        Buffer::new(self.bytes.address(), self.low, &self.layout, true)
    }

    pub(super) fn part(&self, at: i64, len: usize) -> Sink {
        self.bytes.part(usize::try_from(at - self.low).unwrap_or(usize::MAX), len)
    }
}

/// Whether an operation of `len` bytes may be kept for a message with others. It is kept if
/// operations are in flight, if others will probably follow, or if its message can end the epoch
/// too. Otherwise the operation is probably the only one before a flush, and is posted at once.
#[inline(always)]
pub(super) fn may_gather(memory: &NetMemory, len: usize, target: &Target, parts: &Parts) -> bool {
    memory.gathers() && may_share(target, len, parts)
}

/// Whether an accumulate of `len` bytes, which is sent as a message in any case, is kept: as
/// [`may_gather`], or because its message can end the epoch too.
pub(super) fn may_combine(target: &Target, len: usize, parts: &Parts) -> bool {
    may_share(target, len, parts)
        || target.ends_by_message(parts) && target.tally.idle() && (1..=MAX_ENDING_BYTES).contains(&len)
}

#[inline(always)]
fn may_share(target: &Target, len: usize, parts: &Parts) -> bool {
    shares(target, len) || (1..=MAX_GATHERED_BYTES).contains(&len) && target.ends_by_message(parts)
}

#[inline(always)]
fn shares(target: &Target, len: usize) -> bool {
    target.tally.is_busy() && (1..=MAX_GATHERED_BYTES).contains(&len)
}

/// Whether the message of a small operation may also end the open epoch. The message of a get must
/// not carry the signal of a fence, because the data arrives after the signal.
fn may_close(target: &Target, small: &Small<'_>) -> bool {
    target.hold() != Hold::None || !small.gets()
}

impl Parts {
    /// [`may_gather`] for a target of a dynamic window that performs small operations itself.
    fn may_gather_by_address(&self, target: &Target, len: usize) -> bool {
        may_share(target, len, self) && self.gathers_by_address(target)
    }

    /// Whether a target of a dynamic window is reached over a net on which small operations share
    /// messages.
    pub(super) fn gathers_by_address(&self, target: &Target) -> bool {
        self.is_by_address(target, Net::gathers)
    }

    /// [`Parts::gathers_by_address`] for accumulates.
    pub(super) fn combines_by_address(&self, target: &Target) -> bool {
        self.is_by_address(target, Net::combines)
    }

    fn is_by_address(&self, target: &Target, has: fn(&Net) -> bool) -> bool {
        matches!(target.reach, Reach::Unmapped(Unmapped::Dynamic(None)))
            && self.job.wire.net().is_some_and(has)
            && self.job.lane(self.team.rank(target.rank())) == Some(Lane::Net)
    }

    /// Puts (MPI-4.1 §12.3.1).
    #[inline(always)]
    pub(crate) fn put(
        &self,
        permit: Permit,
        displacement: u64,
        from: Source,
        mut counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        match self.located(rank, displacement, from.len()) {
            None => self.put_first(rank, displacement, from, counted_by),
            Some((target, at)) => match &target.reach {
                Reach::Mapped(memory, _) => {
                    memory.write(index(at), from.bytes());
                    Ok(())
                }
                Reach::Unmapped(far) => self.put_far(target, far, at, from, counted_by.tally(target)),
            },
        }
    }

    /// The first put to a target, a put in a checked window, or an error.
    #[cold]
    fn put_first(&self, rank: usize, displacement: u64, from: Source, mut counted_by: CountedBy<'_>) -> Result<()> {
        let Some((target, at)) = self.locate("put", rank, displacement, from.len())? else { return Ok(()) };
        let to = (at.cast_signed(), &Layout::Bytes(from.len()));
        self.note(target, to.0, to.1, Kind::Put, &mut counted_by)?;
        match &target.reach {
            Reach::Mapped(memory, _) => memory.write(index(at), from.bytes()),
            Reach::Unmapped(far) => self.put_far(target, far, at, from, counted_by.tally(target))?,
        }
        self.lent(target, to, Kind::Put, &[Buffer::new(from.address(), 0, to.1, false)])
    }

    /// A put that needs more than a store.
    #[inline(never)]
    fn put_far(&self, target: &Target, far: &Unmapped, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        match far {
            Unmapped::Posted(memory) if !self.travels(target, from.len())? => {
                if memory.put_carried(at, from, tally) {
                    return Ok(());
                }
                if may_gather(memory, from.len(), target, self)
                    && self.gather_small::<false>(
                        target,
                        at,
                        Small::Put(from.bytes()),
                        memory.limits().message_max,
                        tally,
                    )?
                {
                    return Ok(());
                }
                Posted::of(&self.job, memory).put(at, from, tally)
            }
            _ => self.put_by_others(target, far, at, from, tally),
        }
    }

    /// A put that the kernel or the target performs. A separate function, so that posted puts take
    /// no instructions for it.
    #[inline(never)]
    fn put_by_others(&self, target: &Target, far: &Unmapped, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        if let Unmapped::Copied(memory) = far {
            return CopiedByKernel::of(&self.job, memory).put_bytes(at, from);
        }
        if self.gather_by_address(target, at, Small::Put(from.bytes()), tally)? {
            return Ok(());
        }
        let (from, to) = (Outgoing::contiguous(from), Layout::Bytes(from.len()));
        self.put_layout_far(target, far, at.cast_signed(), &from, &to, tally)
    }

    /// Puts bytes, which are copied before the call returns.
    #[inline(always)]
    pub(crate) fn put_copied(&self, permit: Permit, displacement: u64, bytes: &[u8]) -> Result<()> {
        let rank = permit.rank();
        if let Some((target, at)) = self.located(rank, displacement, bytes.len())
            && let Reach::Mapped(memory, _) = &target.reach
        {
            memory.write(index(at), bytes);
            return Ok(());
        }
        self.put_copied_far(rank, displacement, bytes)
    }

    #[inline(never)]
    fn put_copied_far(&self, rank: usize, displacement: u64, bytes: &[u8]) -> Result<()> {
        let Some((target, at)) = self.locate("put", rank, displacement, bytes.len())? else { return Ok(()) };
        self.note(target, at.cast_signed(), &Layout::Bytes(bytes.len()), Kind::Put, &mut CountedBy::Target)?;
        match &target.reach {
            Reach::Mapped(memory, _) => {
                memory.write(index(at), bytes);
                Ok(())
            }
            Reach::Unmapped(Unmapped::Posted(memory))
                if bytes.len() <= memory.limits().inline_max && !self.travels(target, bytes.len())? =>
            {
                if may_gather(memory, bytes.len(), target, self)
                    && self.gather_small::<false>(
                        target,
                        at,
                        Small::Put(bytes),
                        memory.limits().message_max,
                        &target.tally,
                    )?
                {
                    return Ok(());
                }
                while !self.job.taken(memory.put_inline(at, bytes, &target.tally))? {}
                Ok(())
            }
            Reach::Unmapped(far) => {
                // The call waits for its own put alone. A put that a delayed lock keeps is counted
                // by the target's tally; otherwise the call would take the lock.
                let own = (!target.is_delayed()).then(|| Tally::within(&target.tally));
                let tally = own.as_ref().unwrap_or(&target.tally);
                let finish = || match &own {
                    Some(own) => self.job.finish(own),
                    None => drain::outlast(&self.job, &self.targets, DrainedTargets::One(target)),
                };
                crate::buffers::scoped(finish, |scope| self.put_far(target, far, at, scope.source(bytes), tally))
            }
        }
    }

    /// Keeps a small operation for a message with several of one target, and returns whether the
    /// operation was kept. `tally` is the target's tally or that of the operation's request; `most`
    /// is the length of the longest message; `APART`: the window is dynamic ([`Towards::apart`]).
    #[cold]
    pub(super) fn gather_small<const APART: bool>(
        &self,
        target: &Target,
        at: u64,
        small: Small<'_>,
        most: usize,
        tally: &TallyRef,
    ) -> Result<bool> {
        let counting = Counting {
            target: &target.tally,
            request: (!std::ptr::eq(&raw const **tally, &raw const *target.tally)).then_some(tally),
        };
        // A request fails if another operation of its message is refused.
        if APART && counting.request.is_some() {
            return Ok(false);
        }
        let (closes, enough) = match self.notifies_at_end(target) {
            true => self.kept_for_end::<APART>(target, &small, counting.request.is_none()),
            false => (false, 0),
        };
        if target.tally.outstanding() < enough {
            return Ok(false);
        }
        let member = target.rank();
        let to = Towards { peer: peer(self.team.rank(member)), window: self.id, member, apart: APART, closes };
        loop {
            match self.job.messages.gather(to, at, &small, most, counting, || self.next_order(target)) {
                Gather::Kept => return Ok(true),
                Gather::Refused => return Ok(false),
                Gather::Full => {
                    self.job.messages.end_gathering_in(&target.tally);
                    self.job.progress.poll_and_leave()?;
                    // Bounds the number of messages that each side keeps. Messages to other ranks,
                    // which may be stopped, delay no operation to this one, and neither do later
                    // messages of other threads.
                    let end = self.job.messages.next_deferred();
                    let mut failed = 0;
                    while self.job.messages.owes(to.peer, end) {
                        self.job.pause_before_retry(&mut failed)?;
                    }
                    self.await_few(target, MAX_IN_FLIGHT)?;
                }
            }
        }
    }

    /// Keeps a small put or get on a dynamic window for a message with others, and returns whether
    /// it was kept. The target checks the address.
    pub(super) fn gather_by_address(
        &self,
        target: &Target,
        address: u64,
        small: Small<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        if !self.may_gather_by_address(target, small.len()) || self.travels(target, small.len())? {
            return Ok(false);
        }
        self.gather_small::<true>(target, address, small, self.job.wire.message_max(Lane::Net), tally)
    }

    /// Sends the end of the epoch to a target together with the operations that are kept for it, if
    /// nothing else in flight may arrive later.
    pub(super) fn close(&self, target: &Target, end: End) -> Close {
        let most = match &target.reach {
            Reach::Unmapped(Unmapped::Posted(memory)) => memory.limits().message_max,
            Reach::Unmapped(Unmapped::Dynamic(None)) => self.message_max(target),
            _ => return Close::Nothing,
        };
        self.job.messages.close(&target.tally, end, most, target.follows_puts(self))
    }

    /// The receiver of the first signal of this rank's barriers.
    pub(super) fn first(&self) -> usize {
        barrier::first(self.team.me, self.team.size)
    }

    /// Whether an operation is kept for the message that ends the open epoch, and the number of
    /// operations in flight at which it is kept. `alone`: the operation has no request.
    #[inline(never)]
    fn kept_for_end<const APART: bool>(&self, target: &Target, small: &Small<'_>, alone: bool) -> (bool, u64) {
        let closes = alone && target.ends_by_message(self) && may_close(target, small);
        let enough = match small {
            // A put that follows posted puts is posted too.
            _ if closes && (target.tally.idle() || self.job.messages.keeps_for(&target.tally)) => 0,
            // Small puts on a dynamic window are messages.
            Small::Put(_) if !APART => AHEAD_OF_NOTICES,
            _ => u64::from(!target.tally.is_busy()),
        };
        (closes, enough)
    }

    /// Whether the end of the open epoch notifies the target: the epoch is one of `fence` or
    /// `start`.
    pub(super) fn notifies_at_end(&self, target: &Target) -> bool {
        match target.hold() {
            Hold::None => !self.all_locked.load(Ordering::Relaxed),
            Hold::Started | Hold::Open | Hold::Posted => true,
            _ => false,
        }
    }

    /// Gets (MPI-4.1 §12.3.2).
    #[inline(always)]
    pub(crate) fn get(&self, permit: Permit, displacement: u64, into: Sink, counted_by: CountedBy<'_>) -> Result<()> {
        let rank = permit.rank();
        if let Some((target, at)) = self.located(rank, displacement, into.len())
            && let Reach::Mapped(memory, _) = &target.reach
        {
            into.fill(memory, index(at));
            return Ok(());
        }
        self.get_far(rank, displacement, into, counted_by)
    }

    /// A get that needs more than a load, or whose route is not known yet.
    #[inline(never)]
    fn get_far(&self, rank: usize, displacement: u64, into: Sink, mut counted_by: CountedBy<'_>) -> Result<()> {
        let Some((target, at)) = self.locate("get", rank, displacement, into.len())? else { return Ok(()) };
        let from = (at.cast_signed(), &Layout::Bytes(into.len()));
        let buffer = Buffer::new(into.address(), 0, from.1, true);
        self.note(target, from.0, from.1, Kind::Get, &mut counted_by)?;
        match &target.reach {
            Reach::Mapped(memory, _) => into.fill(memory, index(at)),
            Reach::Unmapped(Unmapped::Posted(memory)) if !self.travels(target, into.len())? => {
                let tally = counted_by.tally(target);
                let is_kept = may_gather(memory, into.len(), target, self)
                    && self.gather_small::<false>(target, at, Small::Get(&into), memory.limits().message_max, tally)?;
                if !is_kept {
                    Posted::of(&self.job, memory).get(at, &into, tally)?;
                }
            }
            Reach::Unmapped(Unmapped::Copied(memory)) => CopiedByKernel::of(&self.job, memory).get_bytes(at, into)?,
            Reach::Unmapped(far) => {
                let tally = counted_by.tally(target);
                if !self.gather_by_address(target, at, Small::Get(&into), tally)? {
                    let from = Layout::Bytes(into.len());
                    let into = Incoming::contiguous(into);
                    self.get_layout_far(target, far, at.cast_signed(), &into, &from, tally)?;
                }
            }
        }
        self.lent(target, from, Kind::Get, &[buffer])
    }
}

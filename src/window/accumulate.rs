//! The accumulate family on a window (MPI-4.1 §12.3.4). One actor performs all accumulates on a
//! type in a window: the device, by the net's atomics; or CPUs of the target's node. This CPU
//! performs an accumulate on memory that it maps or that the kernel copies (`kernel_copies`).
//! Otherwise a message requests the accumulate from the target's CPU. CPUs perform all accumulates
//! on misaligned elements, for which neither CPUs nor devices have atomics. The operands are
//! copied, or used, before the call returns, except those that the net puts into a staging area
//! (`staged`).

mod arguments;

use std::sync::atomic::{Ordering, fence};

use transom_fabric::{Tally, TallyRef};

pub(in crate::window) use arguments::is_array;
pub(crate) use arguments::{Accumulate, basic_type};
use arguments::{check, is_padded};

use super::accumulate_mapped::{local, one_piece};
use super::accumulate_net::{ByNet, width_by_net};
use super::dynamic::{Resolved, Within};
use super::kernel_copies::CopiedUnderLock;
use super::packing::RequestBuilder;
use super::parts::{Parts, index};
use super::permit::Permit;
use super::start_atomics::differ;
use super::target::{Reach, Target, Unmapped};
use super::transfer::{CountedBy, Incoming, Outgoing, may_combine};
use crate::buffers::{Sink, Source};
use crate::check::{Call, Kind};
use crate::error::{JobError, Result};
use crate::memory::accumulate::{AtomicMemory, Operand, bytes_of, truncate, value};
use crate::memory::layout::Layout;
use crate::messages::{ReplyDestination, Request, Small, What};
use crate::reduce::{BasicType, CompareSwap, Op};
use crate::routes::Actor;

/// Elements up to this size travel in a register.
pub(super) const REGISTER_BYTES: usize = 8;
/// The largest element.
pub(crate) const MAX_ELEMENT_BYTES: usize = 32;

impl Target {
    /// [`Target::atomic`] for an element at byte `at`, at any alignment.
    #[inline]
    pub(super) fn atomic_at<'t>(&'t self, parts: &'t Parts, at: u64, ty: BasicType) -> Option<AtomicMemory<'t>> {
        // A misaligned element is treated like a byte, which the device does not change either.
        self.atomic(parts, if self.aligned(at, ty) { ty } else { BasicType::Byte })
    }

    /// The mapped memory on which this CPU performs accumulates of `ty` on aligned elements; `None`
    /// if the memory is not mapped, or the device performs them.
    #[inline(always)]
    pub(super) fn atomic<'t>(&'t self, parts: &'t Parts, ty: BasicType) -> Option<AtomicMemory<'t>> {
        let Reach::Mapped(memory, link) = &self.reach else { return None };
        let words = match link {
            Some(link) => self.words_of(parts, link)?,
            None => parts.job.block.words(parts.own.place),
        };
        let per_element = match parts.actor {
            Actor::Cpu => parts.hints.per_element,
            Actor::Both | Actor::Nic => parts.per_element_beside_device(ty)?,
        };
        Some(AtomicMemory { memory, words, visitor: &parts.job.block.visitor, per_element, base: 0 })
    }

    /// Whether byte `at` is aligned for an element of `ty`.
    #[inline]
    pub(super) fn aligned(&self, at: u64, ty: BasicType) -> bool {
        at.wrapping_add(u64::from(self.skew)) & (ty.align() as u64 - 1) == 0
    }
}

impl Parts {
    /// In a window whose integers the device changes too: whether CPUs change elements of `ty` by
    /// atomics on single words. `None` if only the device changes them. The device's atomics are
    /// atomic with the CPU's atomics, and not with the locks of stripes.
    #[cold]
    fn per_element_beside_device(&self, ty: BasicType) -> Option<bool> {
        match (width_by_net(self, ty), self.actor) {
            (Some(_), Actor::Nic) => None,
            (Some(_), _) => Some(true),
            (None, _) => Some(self.hints.per_element),
        }
    }

    /// The memory on which this CPU performs accumulates, and the offset in it, for `len` bytes of
    /// aligned elements of `ty`. For the hot path, as [`Parts::located`].
    #[inline(always)]
    fn atomic_aligned(
        &self,
        rank: usize,
        displacement: u64,
        ty: BasicType,
        len: usize,
    ) -> Option<(AtomicMemory<'_>, usize)> {
        let (target, at) = self.located(rank, displacement, len)?;
        if target.aligned(at, ty) { Some((target.atomic(self, ty)?, index(at))) } else { None }
    }

    /// Combines one element of at most 8 bytes and waits for its previous value (MPI-4.1 §12.3.4),
    /// which is 0 for `PROC_NULL`.
    // Always inlined: with a known operation and type the compiler removes the choice among them.
    #[inline(always)]
    pub(crate) fn fetch_op(
        &self,
        permit: Permit,
        displacement: u64,
        op: Op,
        ty: BasicType,
        operand: u64,
    ) -> Result<u64> {
        let rank = permit.rank();
        if let Some((atomic, at)) = self.atomic_aligned(rank, displacement, ty, ty.size()) {
            return Ok(atomic.one(at, op, ty, operand));
        }
        self.fetch_op_far(rank, displacement, op, ty, operand)
    }

    #[inline(never)]
    fn fetch_op_far(&self, rank: usize, displacement: u64, op: Op, ty: BasicType, operand: u64) -> Result<u64> {
        let Some((target, at)) = self.locate("fetch_and_op", rank, displacement, ty.size())? else { return Ok(0) };
        let kind = Kind::Combine { call: Call::FetchAndOp, op: Some(op), ty };
        if let Some(atomic) = target.atomic_at(self, at, ty) {
            return self.note_around(target, at, (kind, ty), || atomic.one_anywhere(index(at), op, ty, operand));
        }
        let operand = operand.to_ne_bytes();
        let mut old = [0; REGISTER_BYTES];
        let size = ty.size();
        self.note_around_far(target, at, (kind, ty), || {
            self.fetch_bytes_far(target, at, op, ty, bytes_of(&operand, size), &mut old[..size])
        })?;
        Ok(value(&old[..size]))
    }

    /// [`Parts::fetch_op`] for elements of any size, as bytes.
    pub(crate) fn fetch_bytes(
        &self,
        permit: Permit,
        displacement: u64,
        op: Op,
        ty: BasicType,
        operand: &[u8],
        old: &mut [u8],
    ) -> Result<()> {
        let rank = permit.rank();
        let Some((target, at)) = self.locate("fetch_and_op", rank, displacement, ty.size())? else { return Ok(()) };
        let kind = Kind::Combine { call: Call::FetchAndOp, op: Some(op), ty };
        if let Some(atomic) = target.atomic_at(self, at, ty) {
            let operand = if op == Op::NoOp { Operand::Nothing(ty.size()) } else { Operand::Bytes(operand) };
            return self.note_around(target, at, (kind, ty), || {
                atomic.many(index(at), op, ty, operand, Some(&mut |_, bytes: &[u8]| old.copy_from_slice(bytes)));
            });
        }
        self.note_around_far(target, at, (kind, ty), || self.fetch_bytes_far(target, at, op, ty, operand, old))
    }

    fn fetch_bytes_far(
        &self,
        target: &Target,
        at: u64,
        op: Op,
        ty: BasicType,
        operand: &[u8],
        old: &mut [u8],
    ) -> Result<()> {
        // A separate tally, so that the call does not wait for other operations in flight to the
        // target.
        let tally = Tally::within(&target.tally);
        crate::buffers::scoped(
            || self.job.finish(&tally),
            |scope| {
                let into = scope.sink(old);
                if let Some(net) = ByNet::at(self, target, at, ty)
                    && let Some(posted) = net.fetch(at, op, operand, &into, &tally)
                {
                    return posted;
                }
                let accumulate = Accumulate {
                    call: "fetch_and_op",
                    op,
                    ty,
                    from: (op != Op::NoOp).then(|| Outgoing::contiguous(scope.source(operand))),
                    into: Some(Incoming::contiguous(into)),
                    to: Layout::Bytes(ty.size()),
                };
                self.accumulate_far(target, at.cast_signed(), &accumulate, &tally)
            },
        )?;
        self.job.progress.complete(&tally)
    }

    /// Stores `new` if the value is `expected` and waits for the previous value (MPI-4.1 §12.3.4),
    /// which is 0 for `PROC_NULL`.
    #[inline]
    pub(crate) fn compare_swap(
        &self,
        permit: Permit,
        displacement: u64,
        ty: BasicType,
        values: CompareSwap<u64>,
    ) -> Result<u64> {
        let rank = permit.rank();
        if let Some((atomic, at)) = self.atomic_aligned(rank, displacement, ty, ty.size()) {
            return Ok(atomic.swap(at, ty, values));
        }
        self.compare_swap_far(rank, displacement, ty, values)
    }

    #[inline(never)]
    fn compare_swap_far(&self, rank: usize, displacement: u64, ty: BasicType, values: CompareSwap<u64>) -> Result<u64> {
        let Some((target, at)) = self.locate("compare_and_swap", rank, displacement, ty.size())? else { return Ok(0) };
        let kind = Kind::Combine { call: Call::CompareAndSwap, op: None, ty };
        if let Some(old) = self.is_checked().then(|| self.swap_fails(target, at, ty, values.expected)).flatten() {
            return self.note_attempt(target, at, (kind, ty), false, || old);
        }
        if let Some(atomic) = target.atomic_at(self, at, ty) {
            let swap = || atomic.swap_anywhere(index(at), ty, values);
            if !self.is_checked() {
                return Ok(swap());
            }
            return self.note_attempt(target, at, (kind, ty), differ(values, ty), swap);
        }
        let mut old = [0; REGISTER_BYTES];
        let tally = Tally::within(&target.tally);
        let old = &mut old[..ty.size()];
        self.note_around_far(target, at, (kind, ty), || {
            crate::buffers::scoped(
                || self.job.finish(&tally),
                |scope| self.swap_far(target, at, ty, values, scope.sink(old), &tally),
            )?;
            self.job.progress.complete(&tally)
        })?;
        Ok(value(old))
    }

    #[inline(never)]
    pub(super) fn swap_far(
        &self,
        target: &Target,
        at: u64,
        ty: BasicType,
        values: CompareSwap<u64>,
        into: Sink,
        tally: &TallyRef,
    ) -> Result<()> {
        // Held until the message is posted.
        let mut _unposted = None;
        if target.reach.is_dynamic() {
            let (call, size) = ("compare_and_swap", ty.size());
            match self.resolve(call, target, at.cast_signed(), &Layout::Bytes(size))? {
                Resolved::Unmapped(unposted) => _unposted = Some(unposted),
                Resolved::Mapped => {
                    let there = self.within(call, target, at, size)?;
                    let old = self.atomic_within(target, &there)?.swap_anywhere(there.at, ty, values);
                    let old = old.to_ne_bytes();
                    into.fill_from(bytes_of(&old, size));
                    return Ok(());
                }
                Resolved::Across => {
                    // The call waits for its own message alone.
                    let own = Tally::within(tally);
                    self.ask_swap(target, at, ty, values, into, &own)?;
                    return self.job.progress.complete(&own);
                }
            }
        }
        if let Some(net) = ByNet::at(self, target, at, ty) {
            return net.swap(at, values, &into, tally);
        }
        if let Some(by_kernel) = CopiedUnderLock::of(self, target) {
            return by_kernel.swap(at, ty, values, into);
        }
        self.ask_swap(target, at, ty, values, into, tally)
    }

    /// Has the target's CPU compare and swap.
    fn ask_swap(
        &self,
        target: &Target,
        at: u64,
        ty: BasicType,
        values: CompareSwap<u64>,
        into: Sink,
        tally: &TallyRef,
    ) -> Result<()> {
        let request = Request::Swap { ty, at, expected: truncate(values.expected, ty.size()), new: values.new };
        self.bound_replies(target)?;
        self.ask(target, request, ReplyDestination::One(into), tally)
    }

    /// Accumulates contiguous elements of a type on which `op` is defined, without previous values
    /// (MPI-4.1 §12.3.4).
    #[inline(always)]
    pub(crate) fn accumulate_elements(
        &self,
        permit: Permit,
        displacement: u64,
        op: Op,
        ty: BasicType,
        from: Source,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some((atomic, at)) = self.atomic_aligned(rank, displacement, ty, from.len()) {
            if from.len() == ty.size() && ty.size() <= REGISTER_BYTES {
                atomic.one(at, op, ty, value(from.bytes()));
                return Ok(());
            }
            if !is_padded(ty, from.len()) {
                atomic.many(at, op, ty, Operand::Bytes(from.bytes()), None);
                return Ok(());
            }
        }
        self.accumulate_elements_far(permit, displacement, (op, ty), from)
    }

    /// [`Parts::accumulate_elements`] without the short path for mapped memory. A separate
    /// function, so that the short path keeps no registers for it.
    #[inline(never)]
    fn accumulate_elements_far(
        &self,
        permit: Permit,
        displacement: u64,
        (op, ty): (Op, BasicType),
        from: Source,
    ) -> Result<()> {
        if self.is_checked() && self.accumulate_one_checked(permit.rank(), displacement, (op, ty), &from)? {
            return Ok(());
        }
        let len = from.len();
        let it = Accumulate::of_array("accumulate", op, ty, (op != Op::NoOp).then_some(from), None, len);
        self.accumulate(permit, displacement, &it, CountedBy::Target)
    }

    /// Accumulates contiguous elements and gets the previous values (MPI-4.1 §12.3.4); `from` is
    /// `None` for `MPI_NO_OP`.
    #[inline]
    pub(crate) fn get_accumulate_elements(
        &self,
        permit: Permit,
        displacement: u64,
        op: Op,
        ty: BasicType,
        from: Option<Source>,
        into: Sink,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some((atomic, at)) = self.atomic_aligned(rank, displacement, ty, into.len())
            && !is_padded(ty, into.len())
        {
            let operand = from.as_ref().map_or(Operand::Nothing(into.len()), |from| Operand::Bytes(from.bytes()));
            atomic.many(at, op, ty, operand, Some(&mut |done, old: &[u8]| into.part(done, old.len()).fill_from(old)));
            return Ok(());
        }
        let len = into.len();
        let it = Accumulate::of_array("get_accumulate", op, ty, from, Some(into), len);
        self.accumulate(permit, displacement, &it, CountedBy::Target)
    }

    /// Accumulates, with or without the previous values (MPI-4.1 §12.3.4).
    #[inline(never)]
    pub(crate) fn accumulate(
        &self,
        permit: Permit,
        displacement: u64,
        accumulate: &Accumulate<'_>,
        mut counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        check(accumulate)?;
        let call = accumulate.call;
        self.no_overlap_at_target(call, &accumulate.to)?;
        let Some((target, at)) = self.locate_layout(call, rank, displacement, &accumulate.to)? else { return Ok(()) };
        if self.is_checked() {
            return self.accumulate_checked(target, at, accumulate, counted_by);
        }
        match target.atomic(self, accumulate.ty) {
            Some(atomic) => local(&atomic, at, accumulate),
            None => self.accumulate_far(target, at, accumulate, counted_by.tally(target))?,
        }
        Ok(())
    }

    /// [`Parts::accumulate_elements`] for one element on mapped memory in a checked window. Returns
    /// false if the accumulate has to take the path of all accumulates.
    #[inline(never)]
    fn accumulate_one_checked(
        &self,
        rank: usize,
        displacement: u64,
        (op, ty): (Op, BasicType),
        from: &Source,
    ) -> Result<bool> {
        let len = ty.size();
        let Some(target) = self.known(rank).filter(|_| from.len() == len && len <= REGISTER_BYTES && op != Op::NoOp)
        else {
            return Ok(false);
        };
        let inside = |at: &u64| at.checked_add(len as u64).is_some_and(|end| end <= target.size);
        let Some(at) = displacement.checked_mul(u64::from(target.unit)).filter(inside) else { return Ok(false) };
        let Some(atomic) = target.atomic(self, ty).filter(|_| target.aligned(at, ty)) else { return Ok(false) };
        if !self.note_later(target, at, (op, ty), from.bytes().as_ptr().addr())? {
            return Ok(false);
        }
        atomic.one(index(at), op, ty, value(from.bytes()));
        Ok(true)
    }

    /// [`Parts::accumulate`] in a checked window.
    #[cold]
    #[inline(never)]
    fn accumulate_checked(
        &self,
        target: &Target,
        at: i64,
        it: &Accumulate<'_>,
        mut counted_by: CountedBy<'_>,
    ) -> Result<()> {
        self.note(target, at, &it.to, it.kind(), &mut counted_by)?;
        let offset = at.cast_unsigned();
        match (target.atomic(self, it.ty), it.one_element()) {
            // By the path of `accumulate_elements`, because most accumulates have one element.
            (Some(atomic), Some(operand)) if target.aligned(offset, it.ty) => {
                atomic.one(index(offset), it.op, it.ty, operand);
            }
            (Some(atomic), _) => local(&atomic, at, it),
            (None, _) => self.accumulate_far(target, at, it, counted_by.tally(target))?,
        }
        self.lent_by(target, at, it)?;
        if it.into.is_some() { self.layout_fetched(target, at, &it.to) } else { Ok(()) }
    }

    #[inline(never)]
    pub(super) fn accumulate_far(&self, target: &Target, at: i64, it: &Accumulate<'_>, tally: &TallyRef) -> Result<()> {
        // Held until all messages are posted.
        let mut _unposted = None;
        if target.reach.is_dynamic() {
            match self.resolve(it.call, target, at, &it.to)? {
                Resolved::Unmapped(unposted) => _unposted = Some(unposted),
                Resolved::Mapped => return self.accumulate_within(target, at, it),
                Resolved::Across => {
                    // The call waits for its own messages alone.
                    let own = Tally::within(tally);
                    self.combine(target, at, it, &own)?;
                    return self.job.progress.complete(&own);
                }
            }
        }
        match ByNet::of(self, target, it.ty) {
            Some(net) if all_aligned(target, at, it) => net.accumulate(at, it, tally),
            Some(net) => self.accumulate_by_pieces(&net, target, at, it, tally),
            None => self.accumulate_by_cpu(target, at, it, tally),
        }
    }

    /// Accumulates in a window in which the device changes aligned elements of the type. The device
    /// combines the pieces that are aligned, and CPUs combine the others.
    #[cold]
    fn accumulate_by_pieces(
        &self,
        net: &ByNet<'_>,
        target: &Target,
        at: i64,
        it: &Accumulate<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        it.pieces().try_for_each(|([theirs, from, into], len)| {
            let piece = Accumulate {
                from: it.from.as_ref().map(|side| Outgoing::contiguous(side.part(from, len))),
                into: it.into.as_ref().map(|side| Incoming::contiguous(side.part(into, len))),
                to: Layout::Bytes(len),
                ..*it
            };
            let there = at + theirs;
            if target.aligned(there.cast_unsigned(), it.ty) {
                return net.accumulate(there, &piece, tally);
            }
            match target.atomic_at(self, there.cast_unsigned(), it.ty) {
                Some(atomic) => local(&atomic, there, &piece),
                None => self.accumulate_by_cpu(target, there, &piece, tally)?,
            }
            Ok(())
        })
    }

    /// Accumulates by a CPU: this one, if the kernel copies the memory, else the target's.
    fn accumulate_by_cpu(&self, target: &Target, at: i64, it: &Accumulate<'_>, tally: &TallyRef) -> Result<()> {
        match CopiedUnderLock::of(self, target) {
            Some(by_kernel) => by_kernel.accumulate(at, it),
            None => self.combine(target, at, it, tally),
        }
    }

    /// Accumulates by messages that the target's CPU executes.
    fn combine(&self, target: &Target, at: i64, it: &Accumulate<'_>, tally: &TallyRef) -> Result<()> {
        let len = it.to.len();
        let is_posted = matches!(target.reach, Reach::Unmapped(Unmapped::Posted(_)));
        let combines = match &target.reach {
            Reach::Unmapped(Unmapped::Posted(memory)) => memory.limits().combines,
            _ => self.combines_by_address(target),
        };
        let shares = combines
            && may_combine(target, len, self)
            // An accumulate with its own tally is sent at once: its call may wait for the result.
            && std::ptr::eq(&raw const **tally, &raw const *target.tally)
            && !self.travels(target, len)?;
        if shares && let Some(small) = it.contiguous() {
            let (at, small, most) = (at.cast_unsigned(), Small::Combine(small), self.message_max(target));
            let is_kept = match is_posted {
                true => self.gather_small::<false>(target, at, small, most, tally)?,
                false => self.gather_small::<true>(target, at, small, most, tally)?,
            };
            if is_kept {
                return Ok(());
            }
        }
        if self.accumulate_staged(target, at, it, tally)? {
            return Ok(());
        }
        let mut builder = RequestBuilder::new(self.message_max(target), it.ty.size());
        let mut pieces = it.pieces();
        let (op, ty, fetch) = (it.op, it.ty, it.into.is_some());
        while builder.fill(&mut pieces, at, it.from.as_ref(), it.into.as_ref()) {
            if shares
                && is_posted
                && builder.has_all(&it.to)
                && self.keep_blocks(target, What::Combine { op, ty, fetch }, &builder, tally)?
            {
                return Ok(());
            }
            let destination = builder.destination();
            let (strips, data) = ((&builder.strips).into(), (&builder.data).into());
            let request = Request::Combine { op, ty, fetch, strips, data };
            if it.into.is_some() {
                self.bound_replies(target)?;
            }
            self.ask(target, request, destination, tally)?;
        }
        Ok(())
    }

    /// The sequence number of the next ordered request to the target (MPI-4.1 §12.7.2); 0 where no
    /// order is required.
    pub(super) fn next_order(&self, target: &Target) -> u64 {
        // Relaxed: accumulates whose order matters come from one thread, or the program has ordered
        // them.
        match self.hints.ordered() {
            true => u64::from(target.order.fetch_add(1, Ordering::Relaxed)) + 1,
            false => 0,
        }
    }

    /// The [`AtomicMemory`] of bytes of an attached region.
    pub(super) fn atomic_within<'m>(&'m self, target: &'m Target, there: &'m Within) -> Result<AtomicMemory<'m>> {
        let words = target.words(self).ok_or(JobError::WordsUnmapped { rank: target.rank() })?;
        let (per_element, visitor) = (self.hints.per_element, &self.job.block.visitor);
        Ok(AtomicMemory { memory: &there.memory, words, visitor, per_element, base: there.base })
    }

    fn accumulate_within(&self, target: &Target, at: i64, it: &Accumulate<'_>) -> Result<()> {
        let done = it.pieces().try_for_each(|([theirs, from, into], len)| {
            let address = at.wrapping_add(theirs).cast_unsigned();
            let there = self.within(it.call, target, address, len)?;
            one_piece(&self.atomic_within(target, &there)?, there.at, it, from, into, len);
            Ok(())
        });
        // As in `local`.
        fence(Ordering::AcqRel);
        done
    }
}

/// Whether every element at the target is at a multiple of its alignment.
fn all_aligned(target: &Target, at: i64, it: &Accumulate<'_>) -> bool {
    let align = i64::try_from(it.ty.align()).unwrap_or(1);
    let mut aligned = true;
    it.to.for_strips(|strip| {
        aligned &= target.aligned((at + strip.offset).cast_unsigned(), it.ty)
            && (strip.count == 1 || strip.stride % align == 0);
    });
    aligned
}

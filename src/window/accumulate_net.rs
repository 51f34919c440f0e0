//! Accumulates by the device's atomics, where the device is the actor: one atomic for each integer
//! of 64 bits, or of 32 bits where the device has those. An operation for which the device has no
//! atomic uses the device's compare-and-swap, so that one actor performs all accumulates on a type.

use transom_fabric::{Amo, AmoKind, BusyLocations, PostingThread, Tally, TallyRef, Width};

use super::accumulate::Accumulate;
use super::drain::{self, DrainedTargets};
use super::parts::Parts;
use super::target::Target;
use super::targets::Targets;
use crate::buffers::Sink;
use crate::error::Result;
use crate::job::JobCore;
use crate::memory::accumulate::{bytes_of, value};
use crate::reduce::{BasicType, CompareSwap, Op, kernel};
use crate::routes::{Actor, Amos};
use crate::transport::NetMemory;

/// The largest value that an atomic of the net returns, in bytes.
const REGISTER_BYTES: usize = 8;

/// The width of the net's atomics on `ty`, if the net performs accumulates on it: integers of 64
/// bits, and of 32 bits where the net has atomics on those. The target's CPU performs accumulates
/// on all other types.
#[inline(always)]
pub(super) fn width_by_net(parts: &Parts, ty: BasicType) -> Option<Width> {
    if parts.actor == Actor::Cpu {
        return None;
    }
    match ty {
        BasicType::Int32 | BasicType::Uint32 if parts.job.atomics.amos != Amos::Words => Some(Width::W32),
        BasicType::Int64 | BasicType::Uint64 => Some(Width::W64),
        _ => None,
    }
}

/// A target whose integers of one width the net's atomics change.
#[derive(Clone, Copy)]
pub(super) struct ByNet<'t> {
    job: &'t JobCore,
    target: &'t Target,
    targets: &'t Targets,
    memory: &'t NetMemory,
    width: Width,
    /// The target's locations with atomics in flight, if accumulates on one location are performed
    /// in their order, and the net does not keep it.
    busy: Option<&'t BusyLocations>,
}

impl<'t> ByNet<'t> {
    /// The target's part through the net, if the net performs accumulates on the element of `ty` at
    /// byte `at`.
    #[inline]
    pub(super) fn at(parts: &'t Parts, target: &'t Target, at: u64, ty: BasicType) -> Option<ByNet<'t>> {
        ByNet::of(parts, target, ty).filter(|_| target.aligned(at, ty))
    }

    /// The target's part through the net, if the net performs accumulates on aligned elements of
    /// `ty`.
    #[inline]
    pub(super) fn of(parts: &'t Parts, target: &'t Target, ty: BasicType) -> Option<ByNet<'t>> {
        let width = width_by_net(parts, ty)?;
        let memory = parts.by_nic(target)?;
        let by_order = parts.hints.ordered() && !memory.limits().amos_in_order;
        let busy = by_order.then(|| parts.targets.busy(target));
        Some(ByNet { job: &parts.job, target, targets: &parts.targets, memory, width, busy })
    }

    /// The net's atomic for `op`; `None` if it has none.
    fn kind(&self, op: Op) -> Option<AmoKind> {
        match op {
            Op::Sum => Some(AmoKind::Sum),
            Op::Replace if self.job.atomics.amos != Amos::Words => Some(AmoKind::Replace),
            Op::NoOp => Some(AmoKind::Read),
            _ => None,
        }
    }

    /// Posts the atomic that combines one element and returns its previous value; `None` if the net
    /// has none for the operation.
    pub(super) fn fetch(&self, at: u64, op: Op, operand: &[u8], into: &Sink, tally: &TallyRef) -> Option<Result<()>> {
        let operand = if op == Op::NoOp { 0 } else { value(operand) };
        Some(self.post(at, Amo::new(self.kind(op)?, self.width, operand), into, tally))
    }

    /// Posts the atomic that compares and swaps one element.
    pub(super) fn swap(&self, at: u64, values: CompareSwap<u64>, into: &Sink, tally: &TallyRef) -> Result<()> {
        self.post(at, Amo::compare_swap(self.width, values.expected, values.new), into, tally)
    }

    /// Posts the atomic that adds one to a counter of notices, whose additions need no order. The
    /// port does not hold it back: the target may wait for it while this process computes.
    pub(super) fn count(&self, at: u64, tally: &TallyRef) -> Result<()> {
        let one = Amo::new(AmoKind::Sum, self.width, 1);
        while !self.job.taken(self.memory.amo(at, one, &Sink::NONE, tally))? {}
        self.memory.release();
        Ok(())
    }

    /// Accumulates by the net's atomics, one for each element.
    pub(super) fn accumulate(&self, at: i64, it: &Accumulate<'_>, tally: &TallyRef) -> Result<()> {
        let mut elements = it.pieces();
        while let Some(([theirs, ours, result], size)) = elements.next_at_most(self.width.bytes()) {
            let there = (at + theirs).cast_unsigned();
            let operand = it.from.as_ref().map_or(0, |from| value(from.part(ours, size).bytes()));
            let into = it.into.as_ref().map_or(Sink::NONE, |into| into.part(result, size));
            match self.kind(it.op) {
                Some(kind) => self.post(there, Amo::new(kind, self.width, operand), &into, tally)?,
                None => {
                    let old = self.by_swaps(there, it, operand)?;
                    into.fill_from(bytes_of(&old.to_ne_bytes(), size));
                }
            }
        }
        Ok(())
    }

    /// An operation for which the net has no atomic, by its compare-and-swap.
    fn by_swaps(&self, at: u64, it: &Accumulate<'_>, operand: u64) -> Result<u64> {
        let now = |amo: Amo| -> Result<u64> {
            let mut old = [0; REGISTER_BYTES];
            let bytes = &mut old[..self.width.bytes()];
            let tally = Tally::within(&self.target.tally);
            crate::buffers::scoped(
                || self.job.finish(&tally),
                |scope| self.post(at, amo, &scope.sink(&mut *bytes), &tally),
            )?;
            self.job.progress.complete(&tally)?;
            Ok(value(bytes))
        };
        let mut old = now(Amo::new(AmoKind::Read, self.width, 0))?;
        loop {
            let new = kernel::combine_one(it.op, it.ty, old, operand);
            let found = now(Amo::compare_swap(self.width, old, new))?;
            if found == old {
                return Ok(old);
            }
            old = found;
        }
    }

    /// Posts an atomic of the net, in its order on its location (MPI-4.1 §12.7.2).
    fn post(&self, at: u64, amo: Amo, into: &Sink, tally: &TallyRef) -> Result<()> {
        if self.target.awaits_use() {
            drain::await_release(self.job, self.target);
        }
        // Keeps the location marked until the port has counted the operation.
        let _posting = match self.busy {
            Some(busy) => Some(self.mark(busy, at)?),
            None => None,
        };
        while !self.job.taken(self.memory.amo(at, amo, into, tally))? {}
        Ok(())
    }

    /// Marks a location as busy. First waits for atomics in flight on it.
    fn mark<'b>(&self, busy: &'b BusyLocations, at: u64) -> Result<PostingThread<'b>> {
        let idle = || self.target.tally.idle();
        let posting = busy.begin(at, idle);
        if !posting.is_busy() {
            return Ok(posting);
        }
        // While this thread is posting, no marks are removed.
        drop(posting);
        drain::drain(self.job, self.targets, DrainedTargets::One(self.target))?;
        // Every earlier operation of this thread is complete, whatever other threads have marked.
        Ok(busy.begin(at, idle))
    }
}

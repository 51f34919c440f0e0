//! Accumulates by the device's atomics, where the device is the actor: one atomic for each integer
//! of 64 bits, or of 32 bits where the device has those. An operation for which the device has no
//! atomic uses the device's compare-and-swap, so that one actor performs all accumulates on a type.

use smallvec::SmallVec;
use transom_fabric::{Amo, AmoKind, BusyLocations, PostingThread, Tally, TallyRef, Width};

use super::accumulate::Accumulate;
use super::drain::{self, DrainedTargets};
use super::parts::Parts;
use super::target::Target;
use super::targets::Targets;
use crate::buffers::Sink;
use crate::datatype::Walk;
use crate::error::{Error, Result};
use crate::job::JobCore;
use crate::memory::accumulate::{bytes_of, value};
use crate::reduce::{BasicType, CompareSwap, Op, kernel};
use crate::routes::{Actor, Amos};
use crate::transport::NetMemory;

/// The largest value that an atomic of the net returns, in bytes.
const REGISTER_BYTES: usize = 8;

/// The most elements whose atomics share round trips.
const BATCH: usize = 64;

/// An element of an accumulate: its location, its operand, and its previous value.
struct Element {
    at: u64,
    operand: u64,
    old: u64,
}

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
        let Some(kind) = self.kind(it.op) else { return self.by_swaps(at, it) };
        let mut pieces = it.pieces();
        while let Some((element, into)) = self.next(&mut pieces, at, it) {
            self.post(element.at, Amo::new(kind, self.width, element.operand), &into, tally)?;
        }
        Ok(())
    }

    /// The next element of an accumulate, and the destination of its previous value.
    fn next(&self, pieces: &mut Walk<'_, 3>, at: i64, it: &Accumulate<'_>) -> Option<(Element, Sink)> {
        let ([theirs, ours, result], size) = pieces.next_at_most(self.width.bytes())?;
        let operand = it.from.as_ref().map_or(0, |from| value(from.part(ours, size).bytes()));
        let into = it.into.as_ref().map_or(Sink::NONE, |into| into.part(result, size));
        Some((Element { at: (at + theirs).cast_unsigned(), operand, old: 0 }, into))
    }

    /// An operation for which the net has no atomic, by its compare-and-swap: in batches, whose
    /// elements share round trips. The locations of a batch differ, because the order of its
    /// elements is open.
    fn by_swaps(&self, at: i64, it: &Accumulate<'_>) -> Result<()> {
        let mut pieces = it.pieces();
        let mut next = self.next(&mut pieces, at, it);
        while next.is_some() {
            let (mut batch, mut sinks) = (SmallVec::<[Element; BATCH]>::new(), SmallVec::<[Sink; BATCH]>::new());
            while let Some((element, into)) = next.take() {
                if batch.len() == BATCH || batch.iter().any(|other| other.at == element.at) {
                    next = Some((element, into));
                    break;
                }
                batch.push(element);
                sinks.push(into);
                next = self.next(&mut pieces, at, it);
            }
            self.swap_batch(&mut batch, it)?;
            for (element, into) in batch.iter().zip(sinks) {
                into.fill_from(bytes_of(&element.old.to_ne_bytes(), self.width.bytes()));
            }
        }
        Ok(())
    }

    /// Combines elements at different locations, and waits for their previous values.
    fn swap_batch(&self, batch: &mut [Element], it: &Accumulate<'_>) -> Result<()> {
        // The reads are performed after this process's earlier accumulates on their locations, and
        // complete before any later ones. So are the swaps, which follow the reads.
        let is_busy = |busy: &BusyLocations| busy.has_any(batch.iter().map(|element| element.at));
        if !self.target.tally.idle() && self.busy.is_some_and(is_busy) {
            drain::drain(self.job, self.targets, DrainedTargets::One(self.target))?;
        }
        let mut left: SmallVec<[&mut Element; BATCH]> = batch.iter_mut().collect();
        let found = self.now(&left, |_| Amo::new(AmoKind::Read, self.width, 0))?;
        left.iter_mut().zip(found).for_each(|(element, found)| element.old = found);
        let new = |element: &Element| kernel::combine_one(it.op, it.ty, element.old, element.operand);
        loop {
            // An element that keeps its value was combined when it was read.
            left.retain(|element| new(element) != element.old);
            if left.is_empty() {
                return Ok(());
            }
            let found = self.now(&left, |element| Amo::compare_swap(self.width, element.old, new(element)))?;
            let mut found = found.into_iter();
            left.retain(|element| {
                let expected = element.old;
                element.old = found.next().unwrap_or(expected);
                element.old != expected
            });
        }
    }

    /// Performs an atomic on each element's location, and waits for the previous values.
    fn now(&self, elements: &[&mut Element], amo: impl Fn(&Element) -> Amo) -> Result<[u64; BATCH]> {
        let (size, mut bytes) = (self.width.bytes(), [0; BATCH * REGISTER_BYTES]);
        let tally = Tally::within(&self.target.tally);
        crate::buffers::scoped(
            || self.job.finish(&tally),
            |scope| {
                let into = scope.sink(&mut bytes);
                elements.iter().enumerate().try_for_each(|(place, element)| {
                    self.await_release();
                    let (amo, into) = (amo(element), into.part(place * size, size));
                    while !self.job.taken(self.memory.amo(element.at, amo, &into, &tally))? {}
                    Ok::<_, Error>(())
                })
            },
        )?;
        self.job.progress.complete(&tally)?;
        Ok(std::array::from_fn(|place| value(&bytes[place * size..][..size])))
    }

    /// Posts an atomic of the net, in its order on its location (MPI-4.1 §12.7.2).
    fn post(&self, at: u64, amo: Amo, into: &Sink, tally: &TallyRef) -> Result<()> {
        self.await_release();
        // Keeps the location marked until the port has counted the operation.
        let _posting = match self.busy {
            Some(busy) => Some(self.mark(busy, at)?),
            None => None,
        };
        while !self.job.taken(self.memory.amo(at, amo, into, tally))? {}
        Ok(())
    }

    /// Waits while another thread's flush holds operations on the target back.
    fn await_release(&self) {
        if self.target.awaits_use() {
            drain::await_release(self.job, self.target);
        }
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

//! Accumulates by the device's atomics, where the device is the actor: one atomic for each integer
//! of 64 bits, or of 32 bits where the device has those. An operation for which the device has no
//! atomic goes by its compare-and-swap, so that one actor performs all accumulates on a type.

use transom_fabric::{Amo, AmoKind, Posting, Tally, TallyRef, Width};

use super::accumulate::Accumulate;
use super::core::Core;
use super::target::Target;
use crate::buffers::Sink;
use crate::error::Result;
use crate::memory::accumulate::{bytes_of, value};
use crate::reduce::{BasicType, Op, kernel};
use crate::routes::{Actor, Amos};
use crate::transport::NetMemory;

/// The largest value that an atomic of the net returns, in bytes.
const REGISTER: usize = 8;

impl Core {
    /// Whether the net performs accumulates on `ty`: integers of 64 bits, and of 32 bits where the
    /// net has atomics on those. The target's CPU performs accumulates on all other types.
    #[inline(always)]
    pub(super) fn nic_width(&self, ty: BasicType) -> Option<Width> {
        if self.actor == Actor::Cpu {
            return None;
        }
        match ty {
            BasicType::Int32 | BasicType::Uint32 if self.job.atomics.amos != Amos::Words => Some(Width::W32),
            BasicType::Int64 | BasicType::Uint64 => Some(Width::W64),
            _ => None,
        }
    }

    /// A target's part through the net, if the net performs accumulates on `ty`.
    #[inline]
    pub(super) fn by_net<'t>(&'t self, target: &'t Target, ty: BasicType) -> Option<(&'t NetMemory, Width)> {
        let width = self.nic_width(ty)?;
        Some((self.by_nic(target)?, width))
    }

    /// The net's atomic for `op`; `None` if it has none.
    fn net_kind(&self, op: Op) -> Option<AmoKind> {
        match op {
            Op::Sum => Some(AmoKind::Sum),
            Op::Replace if self.job.atomics.amos != Amos::Words => Some(AmoKind::Replace),
            Op::NoOp => Some(AmoKind::Read),
            _ => None,
        }
    }

    /// Posts the atomic that combines one element and returns its previous value; `None` if the net
    /// has none for the operation.
    pub(super) fn fetch_by_net(
        &self,
        target: &Target,
        at: u64,
        (op, ty): (Op, BasicType),
        operand: &[u8],
        into: &Sink,
        tally: &TallyRef,
    ) -> Option<Result<()>> {
        let (remote, width) = self.by_net(target, ty)?;
        let operand = if op == Op::NoOp { 0 } else { value(operand) };
        Some(self.post_amo(target, remote, at, Amo::new(self.net_kind(op)?, width, operand), into, tally))
    }

    /// Accumulates by the net's atomics, one for each element.
    pub(super) fn accumulate_by_net(
        &self,
        target: &Target,
        remote: &NetMemory,
        width: Width,
        at: i64,
        it: &Accumulate<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let size = width.bytes();
        let mut elements = it.pieces();
        while let Some(([theirs, ours, result], size)) = elements.next_at_most(size) {
            let there = (at + theirs).cast_unsigned();
            let operand = it.from.as_ref().map_or(0, |from| value(from.part(ours, size).bytes()));
            let into = it.into.as_ref().map_or(Sink::NONE, |into| into.part(result, size));
            match self.net_kind(it.op) {
                Some(kind) => {
                    self.post_amo(target, remote, there, Amo::new(kind, width, operand), &into, tally)?;
                }
                None => {
                    let old = self.by_swaps(target, remote, width, there, it, operand)?;
                    into.fill_from(bytes_of(&old.to_ne_bytes(), size));
                }
            }
        }
        Ok(())
    }

    /// An operation for which the net has no atomic, by its compare-and-swap.
    fn by_swaps(
        &self,
        target: &Target,
        remote: &NetMemory,
        width: Width,
        at: u64,
        it: &Accumulate<'_>,
        operand: u64,
    ) -> Result<u64> {
        let now = |amo: Amo| -> Result<u64> {
            let mut old = [0; REGISTER];
            let bytes = &mut old[..width.bytes()];
            let tally = Tally::within(&target.tally);
            crate::buffers::scoped(
                || self.job.finish(&tally),
                |scope| {
                    let into = scope.sink(&mut *bytes);
                    self.post_amo(target, remote, at, amo, &into, &tally)
                },
            )?;
            self.job.progress.complete(&tally)?;
            Ok(value(bytes))
        };
        let mut old = now(Amo::new(AmoKind::Read, width, 0))?;
        loop {
            let new = kernel::combine_one(it.op, it.ty, old, operand);
            let found = now(Amo::compare_swap(width, old, new))?;
            if found == old {
                return Ok(old);
            }
            old = found;
        }
    }

    /// Posts an atomic of the net. It waits for other atomics in flight on the same place, since a
    /// port keeps no order and MPI orders accumulates on one location (MPI-4.1 §12.7.2).
    pub(super) fn post_amo(
        &self,
        target: &Target,
        remote: &NetMemory,
        at: u64,
        amo: Amo,
        into: &Sink,
        tally: &TallyRef,
    ) -> Result<()> {
        // The place is held until the port has counted the operation.
        let posting = self.hints.ordered().then(|| self.targets.busy.begin(at, || self.targets.tally.idle()));
        if posting.as_ref().is_some_and(Posting::is_busy) {
            self.job.finish(&target.tally);
        }
        while !self.job.taken(remote.amo(at, amo, into, tally))? {}
        Ok(())
    }
}

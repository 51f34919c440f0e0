//! `fetch_and_op` and `compare_and_swap` that do not wait for the previous value (MPI-4.1 §12.3.4):
//! the value is in the caller's buffer when the operation is complete.

use super::accumulate::{Accumulate, REGISTER_BYTES};
use super::accumulate_mapped::local;
use super::accumulate_net::ByNet;
use super::dynamic::Resolved;
use super::kernel_copies::CopiedUnderLock;
use super::parts::{Parts, index};
use super::permit::Permit;
use super::target::Target;
use super::transfer::{Incoming, Outgoing};
use crate::buffers::{Sink, scoped};
use crate::check::{Call, Kind};
use crate::error::Result;
use crate::memory::accumulate::{AtomicMemory, bytes_of, value};
use crate::memory::layout::Layout;
use crate::reduce::{BasicType, CompareSwap, Op};

impl Parts {
    /// Combines one element; `into` has its previous value when the operation is complete.
    #[inline]
    pub(crate) fn start_fetch(
        &self,
        permit: Permit,
        displacement: u64,
        op: Op,
        ty: BasicType,
        operand: &[u8],
        into: Sink,
    ) -> Result<()> {
        let rank = permit.rank();
        let Some((target, at)) = self.locate("fetch_and_op", rank, displacement, ty.size())? else { return Ok(()) };
        let kind = Kind::Combine { call: Call::FetchAndOp, op: Some(op), ty };
        self.note_one(target, at, kind, true)?;
        let reads = [(op != Op::NoOp).then_some(operand.as_ptr().addr()), None];
        let writes = into.address();
        if let (Some(atomic), true) = (target.atomic_at(self, at, ty), ty.size() <= REGISTER_BYTES) {
            let old = atomic.one_anywhere(index(at), op, ty, value(operand)).to_ne_bytes();
            into.fill_from(bytes_of(&old, ty.size()));
            self.fetched(target, at, ty)?;
        } else if let Some(net) = ByNet::at(self, target, at, ty)
            && let Some(posted) = net.fetch(at, op, operand, &into, &target.tally)
        {
            posted?;
        } else {
            self.start_fetch_layouts(target, at, op, ty, operand, into)?;
        }
        self.lent_elements(target, at, (kind, ty), reads, writes)
    }

    /// [`Parts::start_fetch`] as an accumulate of one element between layouts.
    fn start_fetch_layouts(
        &self,
        target: &Target,
        at: u64,
        op: Op,
        ty: BasicType,
        operand: &[u8],
        into: Sink,
    ) -> Result<()> {
        // The operand is copied before the call returns: one element needs no staging area.
        scoped(
            || (),
            |scope| {
                let accumulate = Accumulate {
                    call: "fetch_and_op",
                    op,
                    ty,
                    from: (op != Op::NoOp).then(|| Outgoing::contiguous(scope.source(operand))),
                    into: Some(Incoming::contiguous(into)),
                    to: Layout::Bytes(ty.size()),
                };
                match target.atomic_at(self, at, ty) {
                    Some(atomic) => local(&atomic, at.cast_signed(), &accumulate),
                    None => self.accumulate_far(target, at.cast_signed(), &accumulate, &target.tally)?,
                }
                self.fetched(target, at, ty)
            },
        )
    }

    /// In a checked window: the value from which a compare-and-swap fails, because it expects
    /// another one. No rank is then ordered after the operation. For conflicts it remains an
    /// update. `None` also where the target's CPU performs the operation.
    #[cold]
    pub(super) fn swap_fails(&self, target: &Target, at: u64, ty: BasicType, expected: u64) -> Option<u64> {
        let values = CompareSwap { expected, new: expected };
        let old = match target.atomic_at(self, at, ty) {
            Some(atomic) => atomic.swap_anywhere(index(at), ty, values),
            None => self.swap_alone(target, at, ty, values)?,
        };
        differ(CompareSwap { expected, new: old }, ty).then_some(old)
    }

    /// Compares and swaps in memory that this rank maps only for the call, or that the kernel
    /// copies for it. If that fails, the caller's operation fails too.
    fn swap_alone(&self, target: &Target, at: u64, ty: BasicType, values: CompareSwap<u64>) -> Option<u64> {
        if target.reach.is_dynamic() {
            let (call, size) = ("compare_and_swap", ty.size());
            match self.resolve(call, target, at.cast_signed(), &Layout::Bytes(size)).ok()? {
                Resolved::Mapped => {
                    let there = self.within(call, target, at, size).ok()?;
                    return Some(self.atomic_within(target, &there).ok()?.swap_anywhere(there.at, ty, values));
                }
                Resolved::Across => return None,
                Resolved::Unmapped(_) => {}
            }
        }
        let by_kernel = CopiedUnderLock::of(self, target)?;
        let mut old = [0; REGISTER_BYTES];
        let old = &mut old[..ty.size()];
        scoped(|| (), |scope| by_kernel.swap(at, ty, values, scope.sink(old))).ok()?;
        Some(value(old))
    }

    /// [`Parts::compare_swap`] without waiting: `into` has the previous value when the operation is
    /// complete. `reads`: the addresses from which the caller took the values, for the conflict
    /// checker.
    pub(crate) fn start_compare_swap(
        &self,
        permit: Permit,
        displacement: u64,
        ty: BasicType,
        values: CompareSwap<u64>,
        reads: [Option<usize>; 2],
        into: Sink,
    ) -> Result<()> {
        let rank = permit.rank();
        let Some((target, at)) = self.locate("compare_and_swap", rank, displacement, ty.size())? else {
            return Ok(());
        };
        let failed = if self.is_checked() { self.swap_fails(target, at, ty, values.expected) } else { None };
        let kind = Kind::Combine { call: Call::CompareAndSwap, op: None, ty };
        self.note_one(target, at, kind, failed.is_none() && differ(values, ty))?;
        let writes = into.address();
        let swap = |atomic: AtomicMemory<'_>| atomic.swap_anywhere(index(at), ty, values);
        match failed.or_else(|| target.atomic_at(self, at, ty).map(swap)) {
            Some(old) => into.fill_from(bytes_of(&old.to_ne_bytes(), ty.size())),
            None => self.swap_far(target, at, ty, values, into, &target.tally)?,
        }
        self.lent_elements(target, at, (kind, ty), reads, writes)?;
        self.fetched(target, at, ty)
    }
}

/// Whether the two values, in the low bytes of words, are different elements of a type.
pub(super) fn differ(values: CompareSwap<u64>, ty: BasicType) -> bool {
    let CompareSwap { expected, new } = values.map(u64::to_ne_bytes);
    bytes_of(&expected, ty.size()) != bytes_of(&new, ty.size())
}

//! Compare-and-swap of elements of more than 8 bytes (MPI-4.1 §12.3.4): as bytes, by the target's
//! CPU or by a CPU of its node.

use transom_fabric::Tally;

use super::dynamic::Resolved;
use super::kernel_copies::CopiedUnderLock;
use super::parts::{Parts, index};
use super::permit::Permit;
use super::target::Target;
use crate::buffers::scoped;
use crate::check::{Call, Kind};
use crate::error::Result;
use crate::memory::layout::Layout;
use crate::messages::{ReplyDestination, Request};
use crate::reduce::{BasicType, CompareSwap};

impl Parts {
    /// Compares and swaps an element, and waits for its previous value, which it stores in `old`.
    /// For `PROC_NULL` `old` is unchanged.
    pub(crate) fn compare_swap_bytes(
        &self,
        permit: Permit,
        displacement: u64,
        ty: BasicType,
        values: CompareSwap<&[u8]>,
        old: &mut [u8],
    ) -> Result<()> {
        let rank = permit.rank();
        let located = self.locate("compare_and_swap", rank, displacement, ty.size())?;
        let Some((target, at)) = located else { return Ok(()) };
        let kind = Kind::Combine { call: Call::CompareAndSwap, op: None, ty };
        if let Some(atomic) = target.atomic(self, ty) {
            return self.note_around(target, at, (kind, ty), || atomic.swap_bytes(index(at), values, old));
        }
        self.note_around_far(target, at, (kind, ty), || self.swap_bytes_far(target, at, ty, values, old))
    }

    fn swap_bytes_far(
        &self,
        target: &Target,
        at: u64,
        ty: BasicType,
        values: CompareSwap<&[u8]>,
        old: &mut [u8],
    ) -> Result<()> {
        let (call, size) = ("compare_and_swap", ty.size());
        // The call waits for its message, so that no later access can overtake it.
        if target.reach.is_dynamic()
            && let Resolved::Mapped = self.resolve(call, target, at.cast_signed(), &Layout::Bytes(size))?
        {
            let there = self.within(call, target, at, size)?;
            self.atomic_within(target, &there)?.swap_bytes(there.at, values, old);
            return Ok(());
        }
        // A separate tally, so that the call does not wait for other operations in flight to the
        // target.
        let tally = Tally::within(&target.tally);
        scoped(
            || self.job.finish(&tally),
            |scope| {
                let into = scope.sink(old);
                if let Some(by_kernel) = CopiedUnderLock::of(self, target) {
                    return by_kernel.swap_bytes(at, values, into);
                }
                let request = Request::SwapBytes { ty, at, data: [values.expected, values.new].concat().into() };
                self.ask(target, request, ReplyDestination::One(into), &tally)
            },
        )?;
        self.job.progress.complete(&tally)
    }
}

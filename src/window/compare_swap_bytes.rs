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
use crate::messages::{Landing, Request};
use crate::reduce::BasicType;

impl Parts {
    /// Stores `both[1]` if the element equals `both[0]`, and waits for the previous value, which it
    /// stores in `old`. For `PROC_NULL` `old` is unchanged.
    pub(crate) fn compare_swap_bytes(
        &self,
        permit: Permit,
        displacement: u64,
        ty: BasicType,
        both: [&[u8]; 2],
        old: &mut [u8],
    ) -> Result<()> {
        let rank = permit.rank();
        let located = self.locate("compare_and_swap", rank, displacement, ty.size())?;
        let Some((target, at)) = located else { return Ok(()) };
        let kind = Kind::Combine { call: Call::CompareAndSwap, op: None, ty };
        if let Some(atomic) = target.atomic(self, ty) {
            return self.note_around(target, at, (kind, ty), || atomic.swap_bytes(index(at), both, old));
        }
        self.note_around_far(target, at, (kind, ty), || self.swap_bytes_far(target, at, ty, both, old))
    }

    fn swap_bytes_far(&self, target: &Target, at: u64, ty: BasicType, both: [&[u8]; 2], old: &mut [u8]) -> Result<()> {
        let (call, size) = ("compare_and_swap", ty.size());
        // The call waits for its message, so that no later access can overtake it.
        if target.reach.is_dynamic()
            && let Resolved::Mapped = self.resolve(call, target, at.cast_signed(), &Layout::Bytes(size))?
        {
            let there = self.within(call, target, at, size)?;
            self.atomic_within(target, &there)?.swap_bytes(there.at, both, old);
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
                    return by_kernel.swap_bytes(at, both, into);
                }
                let request = Request::SwapBytes { ty, at, data: both.concat().into() };
                self.ask(target, request, Landing::One(into), &tally)
            },
        )?;
        self.job.progress.complete(&tally)
    }
}

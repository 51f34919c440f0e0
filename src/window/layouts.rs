//! Puts and gets with derived layouts at either side (MPI-4.1 §12.3.1, §12.3.2; requirement O5 of
//! tests/requirements.txt). Most layouts are one run of equal blocks in mapped memory, which one
//! copy loop moves. Other layouts are walked block by block, or become as few remote operations as
//! possible.

use transom_fabric::{Memory, Tally, TallyRef};

use super::dynamic::Resolved;
use super::kernel_copies::CopiedByKernel;
use super::parts::Parts;
use super::permit::Permit;
use super::posted::{BLOCK_BY_ITSELF, Posted};
use super::target::{Reach, Target, Unmapped};
use super::transfer::{CountedBy, Incoming, Outgoing};
use crate::buffers::Steps;
use crate::check::Kind;
use crate::datatype::Run;
use crate::error::{ArgumentError, Class, Error, Result, Side};
use crate::memory::layout::Layout;
use crate::messages::Small;
use crate::transport::{NetMemory, ProcessMemory};

impl Parts {
    /// Both sides as one run of equal blocks in mapped memory, with the offset of the first block
    /// in the target's part. Most layouts have this form and need no walk. `None` for all other
    /// layouts, also for invalid ones. The run may extend beyond the part.
    #[inline(always)]
    fn run_in_mapped_memory(
        &self,
        rank: usize,
        displacement: u64,
        ours: &Layout<'_>,
        theirs: &Layout<'_>,
    ) -> Option<(&Memory, Run<2>, i64)> {
        let ((ours, len, a), (theirs, other, b)) = (ours.equal_blocks()?, theirs.equal_blocks()?);
        if len != other || a.zip(b).is_some_and(|(a, b)| a != b) {
            return None;
        }
        let (run, target) = (Run::of(theirs, ours)?, self.fast_target(rank)?);
        let at = i64::try_from(displacement.checked_mul(u64::from(target.unit))?).ok()?.checked_add(run.at[0])?;
        Some((target.reach.memory()?, run, at))
    }

    /// Puts with layouts at both sides (MPI-4.1 §12.3.1, requirement O5).
    #[inline(always)]
    pub(crate) fn put_layout(
        &self,
        permit: Permit,
        displacement: u64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some((memory, run, at)) = self.run_in_mapped_memory(rank, displacement, &from.layout, to)
            && from.bytes.store_blocks(steps(&run, from.low), memory, at, run.strides[0])
        {
            return Ok(());
        }
        self.put_walked(rank, displacement, from, to, counted_by)
    }

    /// A put of layouts that are not one run in mapped memory, or whose route is not known yet.
    #[inline(never)]
    fn put_walked(
        &self,
        rank: usize,
        displacement: u64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        mut counted_by: CountedBy<'_>,
    ) -> Result<()> {
        holds("put", from.bytes.len(), from.low, &from.layout)?;
        agree("put", &from.layout, to)?;
        self.no_overlap_at_target("put", to)?;
        let Some((target, at)) = self.locate_layout("put", rank, displacement, to)? else { return Ok(()) };
        self.note(target, at, to, Kind::Put, &mut counted_by)?;
        match &target.reach {
            Reach::Mapped(memory, _) => store(memory, at, from, to),
            Reach::Unmapped(far) => self.put_layout_far(target, far, at, from, to, counted_by.tally(target))?,
        }
        self.lent(target, (at, to), Kind::Put, &[from.buffer()])
    }

    /// Fails if entries of a target that is written overlap (MPI-4.1 §12.3.1, §12.3.4). Windows
    /// with `Info::forgiving` accept them: MPIs write and combine such entries one after another.
    pub(super) fn no_overlap_at_target(&self, call: &'static str, layout: &Layout<'_>) -> Result<()> {
        if self.hints.is_forgiving() { Ok(()) } else { no_overlap(call, Side::Target, layout) }
    }

    #[inline(never)]
    pub(super) fn put_layout_far(
        &self,
        target: &Target,
        far: &Unmapped,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        match far {
            Unmapped::Posted(_) if self.travels(target, to.len())? => self.scatter(target, at, from, to, tally),
            Unmapped::Posted(memory) => self.put_layout_posted(target, memory, at, from, to, tally),
            Unmapped::Copied(by_kernel) => CopiedByKernel::of(&self.job, by_kernel).put(at, from, to),
            Unmapped::Messages => self.scatter(target, at, from, to, tally),
            Unmapped::Dynamic(by_kernel) => match self.by_key(target, at, (to, &from.layout), false)? {
                Some((memory, at)) => self.put_by_key(target, &memory, at, from, to, tally),
                None => self.put_by_address(target, by_kernel.as_deref(), at, from, to, tally),
            },
        }
    }

    /// A put on a region of a dynamic window that the net reaches.
    fn put_by_key(
        &self,
        target: &Target,
        memory: &NetMemory,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let (Some(theirs), Some(ours)) = (to.contiguous(), from.layout.contiguous()) else {
            return self.put_layout_posted(target, memory, at, from, to, tally);
        };
        let (at, from) = ((at + theirs).cast_unsigned(), from.part(ours, to.len()));
        if memory.put_carried(at, from, tally) { Ok(()) } else { Posted::of(&self.job, memory).put(at, from, tally) }
    }

    /// A put on a dynamic window by load and store, by the kernel, or by the target.
    fn put_by_address(
        &self,
        target: &Target,
        by_kernel: Option<&ProcessMemory>,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        match (self.resolve("put", target, at, to)?, by_kernel) {
            (Resolved::Mapped, _) => self.put_within(target, at, from, to),
            (Resolved::Across, _) => {
                // The call waits for its own messages alone.
                let own = Tally::within(tally);
                self.scatter(target, at, from, to, &own)?;
                self.job.progress.complete(&own)
            }
            (Resolved::Unmapped(_), Some(by_kernel)) => CopiedByKernel::of(&self.job, by_kernel).put(at, from, to),
            (Resolved::Unmapped(_unposted), None) => {
                if self.put_gathered(target, at, from, to, tally)? || self.put_staged(target, at, from, to, tally)? {
                    return Ok(());
                }
                self.scatter(target, at, from, to, tally)
            }
        }
    }

    fn put_layout_posted(
        &self,
        target: &Target,
        memory: &NetMemory,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let (block, memory) = (to.longest().min(from.layout.longest()), Posted::of(&self.job, memory));
        match to.contiguous() {
            Some(offset) if memory.packs(block) => memory.put_packed((at + offset).cast_unsigned(), from, tally),
            Some(offset) if from.layout.contiguous().is_none() => {
                memory.put_listed((at + offset).cast_unsigned(), from, tally)
            }
            None if block < BLOCK_BY_ITSELF => self.scatter(target, at, from, to, tally),
            _ => to.beside(&from.layout).try_for_each(|([theirs, ours], len)| {
                memory.put((at + theirs).cast_unsigned(), from.part(ours, len), tally)
            }),
        }
    }

    /// [`Parts::gather_by_address`] of a put with layouts at both sides.
    fn put_gathered(
        &self,
        target: &Target,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        let contiguous = from.layout.is_contiguous() && from.low == 0 && to.is_contiguous();
        Ok(contiguous && self.gather_by_address(target, at.cast_unsigned(), Small::Put(from.bytes.bytes()), tally)?)
    }

    /// [`Parts::gather_by_address`] of a get with layouts at both sides.
    fn get_gathered(
        &self,
        target: &Target,
        at: i64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        let contiguous = into.layout.is_contiguous() && into.low == 0 && from.is_contiguous();
        Ok(contiguous && self.gather_by_address(target, at.cast_unsigned(), Small::Get(&into.bytes), tally)?)
    }

    /// Puts into mapped regions.
    fn put_within(&self, target: &Target, at: i64, from: &Outgoing<'_>, to: &Layout<'_>) -> Result<()> {
        to.beside(&from.layout).try_for_each(|([theirs, ours], len)| {
            let there = self.within("put", target, (at + theirs).cast_unsigned(), len)?;
            there.memory.write(there.at, from.part(ours, len).bytes());
            Ok(())
        })
    }

    /// Gets from mapped regions.
    fn get_within(&self, target: &Target, at: i64, into: &Incoming<'_>, from: &Layout<'_>) -> Result<()> {
        from.beside(&into.layout).try_for_each(|([theirs, ours], len)| {
            let there = self.within("get", target, (at + theirs).cast_unsigned(), len)?;
            into.part(ours, len).fill(&there.memory, there.at);
            Ok(())
        })
    }

    /// Gets with layouts at both sides.
    #[inline(always)]
    pub(crate) fn get_layout(
        &self,
        permit: Permit,
        displacement: u64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        counted_by: CountedBy<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some((memory, run, at)) = self.run_in_mapped_memory(rank, displacement, &into.layout, from)
            && into.bytes.load_blocks(steps(&run, into.low), memory, at, run.strides[0])
        {
            return Ok(());
        }
        self.get_walked(rank, displacement, into, from, counted_by)
    }

    /// A get of layouts that are not one run in mapped memory, or whose route is not known yet.
    #[inline(never)]
    fn get_walked(
        &self,
        rank: usize,
        displacement: u64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        mut counted_by: CountedBy<'_>,
    ) -> Result<()> {
        holds("get", into.bytes.len(), into.low, &into.layout)?;
        agree("get", &into.layout, from)?;
        let Some((target, at)) = self.locate_layout("get", rank, displacement, from)? else { return Ok(()) };
        self.note(target, at, from, Kind::Get, &mut counted_by)?;
        match &target.reach {
            Reach::Mapped(memory, _) => load(memory, at, into, from),
            Reach::Unmapped(far) => self.get_layout_far(target, far, at, into, from, counted_by.tally(target))?,
        }
        self.lent(target, (at, from), Kind::Get, &[into.buffer()])
    }

    #[inline(never)]
    pub(super) fn get_layout_far(
        &self,
        target: &Target,
        far: &Unmapped,
        at: i64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        match far {
            Unmapped::Posted(_) if self.travels(target, from.len())? => self.gather(target, at, into, from, tally),
            Unmapped::Posted(memory) => self.get_layout_posted(target, memory, at, into, from, tally),
            Unmapped::Copied(by_kernel) => CopiedByKernel::of(&self.job, by_kernel).get_together(at, into, from),
            Unmapped::Messages => self.gather(target, at, into, from, tally),
            Unmapped::Dynamic(by_kernel) => {
                let is_lone = !target.tally.is_busy();
                match self.by_key(target, at, (from, &into.layout), is_lone)? {
                    Some((memory, at)) => self.get_layout_posted(target, &memory, at, into, from, tally),
                    None => self.get_by_address(target, by_kernel.as_deref(), at, into, from, tally),
                }
            }
        }
    }

    /// A get on a dynamic window by load and store, by the kernel, or by the target.
    fn get_by_address(
        &self,
        target: &Target,
        by_kernel: Option<&ProcessMemory>,
        at: i64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        match (self.resolve("get", target, at, from)?, by_kernel) {
            (Resolved::Mapped, _) => self.get_within(target, at, into, from),
            (Resolved::Across, _) => {
                let own = Tally::within(tally);
                self.gather(target, at, into, from, &own)?;
                self.job.progress.complete(&own)
            }
            (Resolved::Unmapped(_), Some(by_kernel)) => CopiedByKernel::of(&self.job, by_kernel).get(at, into, from),
            (Resolved::Unmapped(_unposted), None) => {
                if self.get_gathered(target, at, into, from, tally)?
                    || self.get_staged(target, at, into, from, tally)?
                {
                    return Ok(());
                }
                self.gather(target, at, into, from, tally)
            }
        }
    }

    fn get_layout_posted(
        &self,
        target: &Target,
        memory: &NetMemory,
        at: i64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let (block, memory) = (from.longest().min(into.layout.longest()), Posted::of(&self.job, memory));
        match from.contiguous() {
            Some(offset) if into.layout.contiguous().is_none() => {
                let at = (at + offset).cast_unsigned();
                if memory.packs(block) {
                    memory.get_scattered(at, into, tally)
                } else {
                    memory.get_listed(at, into, tally)
                }
            }
            None if block < BLOCK_BY_ITSELF => self.gather(target, at, into, from, tally),
            _ => from.beside(&into.layout).try_for_each(|([theirs, ours], len)| {
                memory.get((at + theirs).cast_unsigned(), &into.part(ours, len), tally)
            }),
        }
    }
}

/// Fails where a layout reaches outside of a buffer of `len` bytes that begins with offset `low`.
pub(super) fn holds(call: &'static str, len: usize, low: i64, layout: &Layout<'_>) -> Result<()> {
    let (begin, end) = layout.span();
    if begin == end || begin >= low && i128::from(end) - i128::from(low) <= len as i128 {
        return Ok(());
    }
    Err(Error::argument(Class::Count, call, ArgumentError::OutsideBuffer { begin, end, length: len }))
}

/// Fails where the two sides do not have the same signature (MPI-4.1 §12.3.1).
fn agree(call: &'static str, ours: &Layout<'_>, target: &Layout<'_>) -> Result<()> {
    let same = match (ours, target) {
        (Layout::Items(a, count), Layout::Items(b, other)) => a.matches(*count, b, *other),
        _ => ours.len() == target.len(),
    };
    if !same {
        let reason = ArgumentError::Signatures { origin: ours.len(), target: target.len() };
        return Err(Error::argument(Class::Type, call, reason));
    }
    Ok(())
}

/// Fails where entries of a side that is written overlap. The target of a get may overlap (MPI-4.1
/// §12.3.1, §12.3.2).
pub(super) fn no_overlap(call: &'static str, side: Side, layout: &Layout<'_>) -> Result<()> {
    match layout {
        Layout::Items(_, count) if layout.overlaps_itself() => {
            Err(Error::argument(Class::Type, call, ArgumentError::Overlap { side, count: *count }))
        }
        _ => Ok(()),
    }
}

fn store(memory: &Memory, at: i64, from: &Outgoing<'_>, to: &Layout<'_>) {
    runs(to, &from.layout, |run| {
        let inside = from.bytes.store_blocks(steps(&run, from.low), memory, at + run.at[0], run.strides[0]);
        assert!(inside, "{run:?} at {at} of {memory:?}, whose layout was inside");
    });
}

fn load(memory: &Memory, at: i64, into: &Incoming<'_>, from: &Layout<'_>) {
    runs(from, &into.layout, |run| {
        let inside = into.bytes.load_blocks(steps(&run, into.low), memory, at + run.at[0], run.strides[0]);
        assert!(inside, "{run:?} at {at} of {memory:?}, whose layout was inside");
    });
}

/// The origin's side of a run, in a buffer that begins with offset `low`.
#[inline]
fn steps(run: &Run<2>, low: i64) -> Steps {
    Steps { at: run.at[1] - low, stride: run.strides[1], len: run.length, count: run.count }
}

fn runs(theirs: &Layout<'_>, ours: &Layout<'_>, mut each: impl FnMut(Run<2>)) {
    let mut runs = theirs.beside(ours);
    while let Some(run) = runs.next_run() {
        each(run);
    }
}

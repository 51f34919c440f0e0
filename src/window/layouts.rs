//! Puts and gets with derived layouts at either side (MPI-4.1 §12.3.1, §12.3.2, requirement O5).
//! Most are one run of equal blocks in mapped memory, which one copy loop moves. Other layouts are
//! walked, or become as few remote operations as possible.

use transom_fabric::{Memory, TallyRef};

use super::core::Core;
use super::dynamic::Resolved;
use super::permit::Permit;
use super::target::{Far, Reach, Target};
use super::transfer::{Count, From, Into};
use crate::buffers::{Lent, Parts, Steps};
use crate::datatype::{Pieces, Run};
use crate::error::{ArgumentError, Class, Error, Result, Side};
use crate::memory::layout::Layout;
use crate::transport::NetMemory;

/// Blocks from this length on are not copied, unless the port would do so anyway; shorter ones are
/// packed.
const BLOCK_BY_ITSELF: usize = 1024;
/// Maximum number of destinations of one get. For small blocks the bookkeeping is twice as long as
/// the data.
const PLACES: usize = 2048;

impl Core {
    /// Both sides as one run of equal blocks with the same data, in memory that is mapped, and
    /// where it begins there: most layouts are that, and need no walk. `None` for all others, wrong
    /// ones among them. The run may lie outside.
    #[inline(always)]
    fn even(
        &self,
        rank: usize,
        displacement: u64,
        ours: &Layout<'_>,
        theirs: &Layout<'_>,
    ) -> Option<(&Memory, Run<2>, i64)> {
        let ((ours, len, a), (theirs, other, b)) = (ours.even()?, theirs.even()?);
        if len != other || a.zip(b).is_some_and(|(a, b)| a != b) {
            return None;
        }
        let (run, target) = (Run::of(theirs, ours)?, self.known(rank)?);
        let at = i64::try_from(displacement.checked_mul(u64::from(target.unit))?).ok()?.checked_add(run.at[0])?;
        Some((target.reach.memory()?, run, at))
    }

    /// Puts with layouts at both sides (MPI-4.1 §12.3.1, requirement O5).
    #[inline(always)]
    pub(crate) fn put_layout(
        &self,
        permit: Permit,
        displacement: u64,
        from: &From<'_>,
        to: &Layout<'_>,
        count: Count<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some((memory, run, at)) = self.even(rank, displacement, &from.layout, to)
            && from.bytes.store_blocks(steps(&run, from.low), memory, at, run.strides[0])
        {
            return Ok(());
        }
        self.put_walked(rank, displacement, from, to, count)
    }

    /// A put of layouts that are not one run in mapped memory, or whose route is not known yet.
    #[inline(never)]
    fn put_walked(
        &self,
        rank: usize,
        displacement: u64,
        from: &From<'_>,
        to: &Layout<'_>,
        mut count: Count<'_>,
    ) -> Result<()> {
        holds("put", from.bytes.len(), from.low, &from.layout)?;
        agree("put", &from.layout, to)?;
        let Some((target, at)) = self.locate_layout("put", rank, displacement, to)? else { return Ok(()) };
        match &target.reach {
            Reach::Mapped(memory, _) => {
                store(memory, at, from, to);
                Ok(())
            }
            Reach::Far(far) => self.put_layout_far(target, far, at, from, to, count.tally(target)),
        }
    }

    #[inline(never)]
    pub(super) fn put_layout_far(
        &self,
        target: &Target,
        far: &Far,
        at: i64,
        from: &From<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        match far {
            Far::Posted(_) if self.travels(target, to.len())? => self.scatter(target, at, from, to, tally),
            Far::Posted(memory) => self.put_layout_posted(target, memory, at, from, to, tally),
            Far::Near(near) => self.put_near(near, at, from, to),
            Far::Messages => self.scatter(target, at, from, to, tally),
            Far::Dynamic(near) => match (self.resolve("put", target, at, to)?, near) {
                (Resolved::Mapped, _) => self.put_within(target, at, from, to),
                (Resolved::Across, _) => {
                    self.scatter(target, at, from, to, tally)?;
                    self.job.progress.complete(tally)
                }
                (Resolved::Far, Some(near)) => self.put_near(near, at, from, to),
                (Resolved::Far, None) => self.scatter(target, at, from, to, tally),
            },
        }
    }

    fn put_layout_posted(
        &self,
        target: &Target,
        memory: &NetMemory,
        at: i64,
        from: &From<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let block = to.longest().min(from.layout.longest());
        match to.contiguous() {
            Some(offset) if is_packed(memory, block) => {
                self.put_packed(memory, (at + offset).cast_unsigned(), from, tally)
            }
            Some(offset) if from.layout.contiguous().is_none() => {
                self.put_listed(memory, (at + offset).cast_unsigned(), from, tally)
            }
            None if block < BLOCK_BY_ITSELF => self.scatter(target, at, from, to, tally),
            _ => to.beside(&from.layout).try_for_each(|([theirs, ours], len)| {
                self.put_run(memory, (at + theirs).cast_unsigned(), from.part(ours, len), tally)
            }),
        }
    }

    /// Puts into mapped regions.
    fn put_within(&self, target: &Target, at: i64, from: &From<'_>, to: &Layout<'_>) -> Result<()> {
        to.beside(&from.layout).try_for_each(|([theirs, ours], len)| {
            let there = self.within("put", target, (at + theirs).cast_unsigned(), len)?;
            there.memory.write(there.at, from.part(ours, len).bytes());
            Ok(())
        })
    }

    /// Gets from mapped regions.
    fn get_within(&self, target: &Target, at: i64, into: &Into<'_>, from: &Layout<'_>) -> Result<()> {
        from.beside(&into.layout).try_for_each(|([theirs, ours], len)| {
            let there = self.within("get", target, (at + theirs).cast_unsigned(), len)?;
            into.part(ours, len).fill(&there.memory, there.at);
            Ok(())
        })
    }

    /// Puts small blocks of the origin into one run of the target, gathered in the send buffer.
    fn put_packed(&self, memory: &NetMemory, at: u64, from: &From<'_>, tally: &TallyRef) -> Result<()> {
        let most = memory.limits().packed_max;
        let (mut pieces, mut at, mut left) = (from.layout.pieces(), at, from.layout.len());
        while left > 0 {
            let len = left.min(most);
            // A refused post may have advanced its cursor, so each attempt begins with a new one.
            let post = || {
                let mut pieces = pieces.clone();
                let fill = |buffer: &mut [u8]| {
                    let mut done = 0;
                    while let Some((ours, len)) = pieces.next_at_most(buffer.len() - done) {
                        buffer[done..done + len].copy_from_slice(from.part(ours, len).bytes());
                        done += len;
                    }
                };
                memory.put_packed(at, len, fill, tally)
            };
            while !self.job.taken(post())? {}
            let mut skip = len;
            while let Some((_, len)) = pieces.next_at_most(skip) {
                skip -= len;
            }
            at += len as u64;
            left -= len;
        }
        Ok(())
    }

    /// Gets with layouts at both sides.
    #[inline(always)]
    pub(crate) fn get_layout(
        &self,
        permit: Permit,
        displacement: u64,
        into: &Into<'_>,
        from: &Layout<'_>,
        count: Count<'_>,
    ) -> Result<()> {
        let rank = permit.rank();
        if let Some((memory, run, at)) = self.even(rank, displacement, &into.layout, from)
            && into.bytes.load_blocks(steps(&run, into.low), memory, at, run.strides[0])
        {
            return Ok(());
        }
        self.get_walked(rank, displacement, into, from, count)
    }

    /// A get of layouts that are not one run in mapped memory, or whose route is not known yet.
    #[inline(never)]
    fn get_walked(
        &self,
        rank: usize,
        displacement: u64,
        into: &Into<'_>,
        from: &Layout<'_>,
        mut count: Count<'_>,
    ) -> Result<()> {
        holds("get", into.bytes.len(), into.low, &into.layout)?;
        agree("get", &into.layout, from)?;
        let Some((target, at)) = self.locate_layout("get", rank, displacement, from)? else { return Ok(()) };
        match &target.reach {
            Reach::Mapped(memory, _) => {
                load(memory, at, into, from);
                Ok(())
            }
            Reach::Far(far) => self.get_layout_far(target, far, at, into, from, count.tally(target)),
        }
    }

    #[inline(never)]
    pub(super) fn get_layout_far(
        &self,
        target: &Target,
        far: &Far,
        at: i64,
        into: &Into<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        match far {
            Far::Posted(_) if self.travels(target, from.len())? => self.gather(target, at, into, from, tally),
            Far::Posted(memory) => self.get_layout_posted(target, memory, at, into, from, tally),
            Far::Near(near) => self.get_near(near, at, into, from),
            Far::Messages => self.gather(target, at, into, from, tally),
            Far::Dynamic(near) => match (self.resolve("get", target, at, from)?, near) {
                (Resolved::Mapped, _) => self.get_within(target, at, into, from),
                (Resolved::Across, _) => {
                    self.gather(target, at, into, from, tally)?;
                    self.job.progress.complete(tally)
                }
                (Resolved::Far, Some(near)) => self.get_near(near, at, into, from),
                (Resolved::Far, None) => self.gather(target, at, into, from, tally),
            },
        }
    }

    fn get_layout_posted(
        &self,
        target: &Target,
        memory: &NetMemory,
        at: i64,
        into: &Into<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let block = from.longest().min(into.layout.longest());
        match from.contiguous() {
            Some(offset) if into.layout.contiguous().is_none() => {
                let at = (at + offset).cast_unsigned();
                if is_packed(memory, block) {
                    self.get_scattered(memory, at, into, tally)
                } else {
                    self.get_listed(memory, at, into, tally)
                }
            }
            None if block < BLOCK_BY_ITSELF => self.gather(target, at, into, from, tally),
            _ => from.beside(&into.layout).try_for_each(|([theirs, ours], len)| {
                self.get_run(memory, (at + theirs).cast_unsigned(), &into.part(ours, len), tally)
            }),
        }
    }

    /// Gets one run of the target into many blocks of the origin, by way of the port's buffers.
    fn get_scattered(&self, memory: &NetMemory, at: u64, into: &Into<'_>, tally: &TallyRef) -> Result<()> {
        let group = Group { bytes: memory.limits().packed_max, parts: PLACES };
        group.each(
            into.layout.pieces(),
            |ours, len| into.part(ours, len),
            |done, places| {
                while !self.job.taken(memory.get_scattered(at + done, places, tally))? {}
                Ok(())
            },
        )
    }

    /// Gets one run of the target into long blocks of the origin, in one operation for as many
    /// blocks as the port takes.
    fn get_listed(&self, memory: &NetMemory, at: u64, into: &Into<'_>, tally: &TallyRef) -> Result<()> {
        Group::listed(memory).each(
            into.layout.pieces(),
            |ours, len| into.part(ours, len),
            |done, places| {
                while !self.job.taken(memory.get_list(at + done, places, tally))? {}
                Ok(())
            },
        )
    }

    /// Puts long blocks of the origin into one run of the target, in one operation for as many
    /// blocks as the port takes.
    fn put_listed(&self, memory: &NetMemory, at: u64, from: &From<'_>, tally: &TallyRef) -> Result<()> {
        Group::listed(memory).each(
            from.layout.pieces(),
            |ours, len| from.part(ours, len),
            |done, blocks| {
                while !self.job.taken(memory.put_list(at + done, blocks, tally))? {}
                Ok(())
            },
        )
    }
}

/// Whether blocks of the origin are packed for one run of the target: short blocks, and blocks that
/// the port copies anyway.
fn is_packed(memory: &NetMemory, block: usize) -> bool {
    block < BLOCK_BY_ITSELF || block <= memory.limits().copied_max
}

/// Limits of one post of several parts.
#[derive(Clone, Copy, Debug)]
struct Group {
    bytes: usize,
    parts: usize,
}

impl Group {
    /// The limits of a list.
    fn listed(memory: &NetMemory) -> Group {
        let limits = memory.limits();
        Group { bytes: limits.transfer_max, parts: limits.list_max }
    }

    /// Calls `post` with pieces of our side, made parts by `part`, in groups of this size, and how
    /// many bytes went before them.
    fn each<S: Lent>(
        self,
        mut pieces: Pieces<'_>,
        part: impl Fn(i64, usize) -> S,
        mut post: impl FnMut(u64, &Parts<S>) -> Result<()>,
    ) -> Result<()> {
        let (mut done, mut parts) = (0, Parts::new());
        loop {
            let room = if parts.count() < self.parts { self.bytes - parts.len() } else { 0 };
            if let Some((ours, len)) = pieces.next_at_most(room) {
                parts.add(part(ours, len));
                continue;
            }
            if parts.len() == 0 {
                return Ok(());
            }
            post(done, &parts)?;
            done += parts.len() as u64;
            parts.clear();
        }
    }
}

/// Fails where a layout reaches outside of a buffer of `len` bytes that begins with offset `low`.
fn holds(call: &'static str, len: usize, low: i64, layout: &Layout<'_>) -> Result<()> {
    let (begin, end) = layout.span();
    if begin == end || begin >= low && i128::from(end) - i128::from(low) <= len as i128 {
        return Ok(());
    }
    Err(Error::argument(Class::Count, call, ArgumentError::OutsideBuffer { begin, end, length: len }))
}

/// Fails where the two sides do not have the same signature, or entries of the target overlap
/// (MPI-4.1 §12.3.1).
fn agree(call: &'static str, ours: &Layout<'_>, target: &Layout<'_>) -> Result<()> {
    let same = match (ours, target) {
        (Layout::Items(a, count), Layout::Items(b, other)) => a.matches(*count, b, *other),
        _ => ours.len() == target.len(),
    };
    if !same {
        let reason = ArgumentError::Signatures { origin: ours.len(), target: target.len() };
        return Err(Error::argument(Class::Type, call, reason));
    }
    no_overlap(call, Side::Target, target)
}

pub(super) fn no_overlap(call: &'static str, side: Side, layout: &Layout<'_>) -> Result<()> {
    match layout {
        Layout::Items(ty, count) if ty.overlaps_itself(*count) => {
            Err(Error::argument(Class::Type, call, ArgumentError::Overlap { side, count: *count }))
        }
        _ => Ok(()),
    }
}

fn store(memory: &Memory, at: i64, from: &From<'_>, to: &Layout<'_>) {
    runs(to, &from.layout, |run| {
        let inside = from.bytes.store_blocks(steps(&run, from.low), memory, at + run.at[0], run.strides[0]);
        assert!(inside, "{run:?} at {at} of {memory:?}, whose layout was inside");
    });
}

fn load(memory: &Memory, at: i64, into: &Into<'_>, from: &Layout<'_>) {
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

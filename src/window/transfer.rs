//! Puts and gets on a window: contiguous ones, whose path within a node decides nothing but the way and touches memory; and
//! those with layouts at either side. What can't be one remote operation is packed into as few messages as it takes.

use transom_fabric::{Fault, Memory, Tally, TallyRef};

use super::core::{Core, index};
use super::target::{Data, Flavor, Target};
use crate::buffers::{Sink, Source, Steps};
use crate::datatype::{Run, Strip, zip};
use crate::error::{Class, Error, ErrorKind, Result};
use crate::job::peer;
use crate::messages::{Landing, MAX_STRIPS, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use crate::rma::layout::Layout;
use crate::rma::stream::Stream;
use crate::wire::{Far, Lane};

/// Blocks from this length on go by an operation each; shorter ones are packed into messages.
const BLOCK_BY_ITSELF: usize = 1024;

/// The tally that an operation counts in: its target's, or one of its own, made when the operation does not end at once.
pub(crate) enum Count<'c> {
    Target,
    Request(&'c mut Option<TallyRef>),
}

impl Count<'_> {
    pub(super) fn tally(self, target: &Target) -> TallyRef {
        match self {
            Count::Target => target.tally.clone(),
            Count::Request(own) => own.insert(Tally::within(&target.tally)).clone(),
        }
    }
}

/// A buffer to read, and how the data lies in it, from `low` bytes after the buffer's begin counted as offset 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From<'t> {
    pub(crate) bytes: Source,
    pub(crate) low: i64,
    pub(crate) layout: Layout<'t>,
}

/// A buffer to fill, likewise.
#[derive(Debug)]
pub(crate) struct Into<'t> {
    pub(crate) bytes: Sink,
    pub(crate) low: i64,
    pub(crate) layout: Layout<'t>,
}

impl From<'_> {
    /// The bytes of a contiguous buffer.
    pub(crate) fn contiguous(bytes: Source) -> From<'static> {
        From { bytes, low: 0, layout: Layout::Bytes(bytes.len()) }
    }

    pub(super) fn part(&self, at: i64, len: usize) -> Source {
        self.bytes.part(usize::try_from(at - self.low).unwrap_or(usize::MAX), len)
    }
}

impl Into<'_> {
    /// The bytes of a contiguous buffer.
    pub(crate) fn contiguous(bytes: Sink) -> Into<'static> {
        let layout = Layout::Bytes(bytes.len());
        Into { bytes, low: 0, layout }
    }

    pub(super) fn part(&self, at: i64, len: usize) -> Sink {
        self.bytes.part(usize::try_from(at - self.low).unwrap_or(usize::MAX), len)
    }
}

impl Core {
    /// Puts (MPI §11.3.1).
    #[inline]
    pub(crate) fn put(&self, rank: usize, displacement: u64, from: Source, count: Count<'_>) -> Result<()> {
        if let Some((target, at)) = self.located(rank, displacement, from.len())
            && let Data::Mapped(memory, _) = &target.data
        {
            memory.write(index(at), from.bytes());
            return Ok(());
        }
        self.put_far(rank, displacement, from, count)
    }

    /// A put that is not just a store, or of which that is not known yet.
    #[inline(never)]
    fn put_far(&self, rank: usize, displacement: u64, from: Source, count: Count<'_>) -> Result<()> {
        let Some((target, at)) = self.locate("put", rank, displacement, from.len())? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            memory.write(index(at), from.bytes());
            return Ok(());
        }
        self.put_posted(target, at, from, &count.tally(target))
    }

    /// Puts bytes that are copied before this returns.
    #[inline]
    pub(crate) fn put_copied(&self, rank: usize, displacement: u64, bytes: &[u8]) -> Result<()> {
        if let Some((target, at)) = self.located(rank, displacement, bytes.len())
            && let Data::Mapped(memory, _) = &target.data
        {
            memory.write(index(at), bytes);
            return Ok(());
        }
        self.put_copied_far(rank, displacement, bytes)
    }

    #[inline(never)]
    fn put_copied_far(&self, rank: usize, displacement: u64, bytes: &[u8]) -> Result<()> {
        let Some((target, at)) = self.locate("put", rank, displacement, bytes.len())? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            memory.write(index(at), bytes);
            return Ok(());
        }
        if let Data::Far(far) = &target.data
            && self.flavor != Flavor::Dynamic
            && bytes.len() <= self.job.wire.inline_max(far)
        {
            return self.job.post(|wire| wire.put_inline(far, at, bytes, &target.tally));
        }
        crate::buffers::scoped(
            || self.job.finish(&target.tally),
            |scope| self.put_posted(target, at, scope.source(bytes), &target.tally),
        )
    }

    fn put_posted(&self, target: &Target, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return self.put_layout_far(
                target,
                at.cast_signed(),
                &From::contiguous(from),
                &Layout::Bytes(from.len()),
                tally,
            );
        }
        match target.data.posted() {
            Some(far) => self.put_run(far, at, from, tally),
            None => self.scatter(target, at.cast_signed(), &From::contiguous(from), &Layout::Bytes(from.len()), tally),
        }
    }

    /// Posts a put of bytes that are contiguous at both sides.
    fn put_run(&self, far: &Far, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        let most = self.job.wire.transfer_max(far).unwrap_or(usize::MAX);
        let mut done = 0;
        while done < from.len() {
            let part = from.part(done, most);
            self.job.post(|wire| wire.put(far, at + done as u64, part, tally))?;
            done += part.len();
        }
        Ok(())
    }

    /// Puts with layouts at both sides (MPI §11.3.1, REQUIREMENTS O5).
    pub(crate) fn put_layout(
        &self,
        rank: usize,
        displacement: u64,
        from: &From<'_>,
        to: &Layout<'_>,
        count: Count<'_>,
    ) -> Result<()> {
        agree("put", &from.layout, to)?;
        let Some((target, at)) = self.locate_layout("put", rank, displacement, to)? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            store(memory, at, from, to);
            return Ok(());
        }
        self.put_layout_far(target, at, from, to, &count.tally(target))
    }

    #[inline(never)]
    fn put_layout_far(
        &self,
        target: &Target,
        at: i64,
        from: &From<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            if target.rank() == self.team.me {
                return self.in_own_regions("put", at, from.layout, *to, |memory, inside, ours, len| {
                    memory.write(inside, from.part(ours, len).bytes());
                });
            }
            self.covered("put", target, at, to)?;
        }
        let Some(far) = target.data.posted() else { return self.scatter(target, at, from, to, tally) };
        if to.longest().min(from.layout.longest()) >= BLOCK_BY_ITSELF {
            let mut pieces = zip(from.layout.pieces(), to.pieces());
            while let Some((ours, theirs, len)) = pieces.next_at_most(usize::MAX) {
                self.put_run(far, (at + theirs).cast_unsigned(), from.part(ours, len), tally)?;
            }
            return Ok(());
        }
        match to.contiguous() {
            Some(offset) => self.put_packed(far, (at + offset).cast_unsigned(), from, tally),
            None => self.scatter(target, at, from, to, tally),
        }
    }

    /// Puts small blocks of the origin into one run of the target, gathered in the send buffer.
    fn put_packed(&self, far: &Far, at: u64, from: &From<'_>, tally: &TallyRef) -> Result<()> {
        let most = self.job.wire.packed_max(far);
        let (mut pieces, mut at, mut left) = (from.layout.pieces(), at, from.layout.len());
        while left > 0 {
            let len = left.min(most);
            // A post that is refused may have used up its cursor: each attempt begins with a fresh one.
            self.job.post(|wire| {
                let mut pieces = pieces.clone();
                let fill = |buffer: &mut [u8]| {
                    let mut done = 0;
                    while let Some((ours, len)) = pieces.next_at_most(buffer.len() - done) {
                        buffer[done..done + len].copy_from_slice(from.part(ours, len).bytes());
                        done += len;
                    }
                };
                wire.put_packed(far, at, len, fill, tally)
            })?;
            let mut skip = len;
            while let Some((_, len)) = pieces.next_at_most(skip) {
                skip -= len;
            }
            at += len as u64;
            left -= len;
        }
        Ok(())
    }

    /// Gets (MPI §11.3.2).
    #[inline]
    pub(crate) fn get(&self, rank: usize, displacement: u64, into: Sink, count: Count<'_>) -> Result<()> {
        if let Some((target, at)) = self.located(rank, displacement, into.len())
            && let Data::Mapped(memory, _) = &target.data
        {
            into.fill(memory, index(at));
            return Ok(());
        }
        self.get_far(rank, displacement, into, count)
    }

    /// A get that is not just a load, or of which that is not known yet.
    #[inline(never)]
    fn get_far(&self, rank: usize, displacement: u64, into: Sink, count: Count<'_>) -> Result<()> {
        let Some((target, at)) = self.locate("get", rank, displacement, into.len())? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            into.fill(memory, index(at));
            return Ok(());
        }
        let tally = count.tally(target);
        if let Some(far) = target.data.posted()
            && self.flavor != Flavor::Dynamic
        {
            return self.get_run(far, at, &into, &tally);
        }
        let from = Layout::Bytes(into.len());
        self.get_layout_far(target, at.cast_signed(), &Into::contiguous(into), &from, &tally)
    }

    /// Posts a get of bytes that are contiguous at both sides.
    fn get_run(&self, far: &Far, at: u64, into: &Sink, tally: &TallyRef) -> Result<()> {
        let most = self.job.wire.transfer_max(far).unwrap_or(usize::MAX);
        let mut done = 0;
        while done < into.len() {
            let part = into.part(done, most);
            self.job.post(|wire| wire.get(far, at + done as u64, &part, tally))?;
            done += part.len();
        }
        Ok(())
    }

    /// Gets with layouts at both sides.
    pub(crate) fn get_layout(
        &self,
        rank: usize,
        displacement: u64,
        into: &Into<'_>,
        from: &Layout<'_>,
        count: Count<'_>,
    ) -> Result<()> {
        agree("get", &into.layout, from)?;
        let Some((target, at)) = self.locate_layout("get", rank, displacement, from)? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            load(memory, at, into, from);
            return Ok(());
        }
        self.get_layout_far(target, at, into, from, &count.tally(target))
    }

    #[inline(never)]
    fn get_layout_far(
        &self,
        target: &Target,
        at: i64,
        into: &Into<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            if target.rank() == self.team.me {
                return self.in_own_regions("get", at, into.layout, *from, |memory, inside, ours, len| {
                    into.part(ours, len).fill(memory, inside);
                });
            }
            self.covered("get", target, at, from)?;
        }
        let small = from.longest().min(into.layout.longest()) < BLOCK_BY_ITSELF && from.len() >= BLOCK_BY_ITSELF
            || from.contiguous().is_none() && from.longest() < BLOCK_BY_ITSELF;
        let Some(far) = target.data.posted().filter(|_| !small) else {
            return self.gather(target, at, into, from, tally);
        };
        let mut pieces = zip(into.layout.pieces(), from.pieces());
        while let Some((ours, theirs, len)) = pieces.next_at_most(usize::MAX) {
            self.get_run(far, (at + theirs).cast_unsigned(), &into.part(ours, len), tally)?;
        }
        Ok(())
    }

    /// Walks pieces of this rank's own attached regions: the memory, where in it, where at our side, and the length. All are
    /// looked up before the first is touched.
    pub(super) fn in_own_regions(
        &self,
        call: &'static str,
        at: i64,
        ours: Layout<'_>,
        theirs: Layout<'_>,
        mut each: impl FnMut(&Memory, usize, i64, usize),
    ) -> Result<()> {
        for (offset, len) in theirs.pieces() {
            self.own_region(call, (at + offset).cast_unsigned(), len)?;
        }
        for (ours, offset, len) in zip(ours.pieces(), theirs.pieces()) {
            let (memory, inside, _) = self.own_region(call, (at + offset).cast_unsigned(), len)?;
            each(&memory, inside, ours, len);
        }
        Ok(())
    }

    /// Puts by messages that carry the data and where it goes.
    fn scatter(&self, target: &Target, at: i64, from: &From<'_>, to: &Layout<'_>, tally: &TallyRef) -> Result<()> {
        let (mut ours, mut theirs) = (Stream::new(from.layout.pieces()), Stream::new(to.pieces()));
        let mut batch = Batch::new(self.message_max(target), 1);
        loop {
            let len = ours.left().min(theirs.left());
            let room = batch.room(len, true);
            if len > 0 && room > 0 {
                let len = len.min(room);
                batch.add(at + theirs.take(len), len);
                batch.data.extend_from_slice(from.part(ours.take(len), len).bytes());
                continue;
            }
            if !batch.is_empty() {
                let request = Request::Scatter { strips: std::mem::take(&mut batch.strips), data: &batch.data };
                self.ask(target, 0, request, Landing::Nowhere, tally)?;
                batch.clear();
            }
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// Gets by messages that say what is wanted, whose replies carry the data.
    fn gather(&self, target: &Target, at: i64, into: &Into<'_>, from: &Layout<'_>, tally: &TallyRef) -> Result<()> {
        let (mut ours, mut theirs) = (Stream::new(into.layout.pieces()), Stream::new(from.pieces()));
        let mut batch = Batch::new(self.message_max(target), 1);
        loop {
            let len = ours.left().min(theirs.left());
            let room = batch.room(len, false);
            if len > 0 && room > 0 {
                let len = len.min(room);
                batch.add(at + theirs.take(len), len);
                batch.landing.push(into.part(ours.take(len), len));
                continue;
            }
            if !batch.is_empty() {
                let request = Request::Gather { strips: std::mem::take(&mut batch.strips) };
                self.ask(target, 0, request, Landing::Pieces(std::mem::take(&mut batch.landing)), tally)?;
                batch.clear();
            }
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// Sends a request that the target's CPU executes.
    pub(super) fn ask(
        &self,
        target: &Target,
        order: u64,
        request: Request<'_>,
        into: Landing,
        tally: &TallyRef,
    ) -> Result<()> {
        let (token, message) = self.job.messages.request(self.id, order, request, into, tally);
        let rank = self.team.rank(target.rank());
        self.job.send(rank, &message).inspect_err(|error| {
            let fault = Fault { peer: peer(rank), reason: error.to_string() };
            self.job.messages.fail(token, &fault);
        })
    }

    /// The longest message to a target.
    pub(super) fn message_max(&self, target: &Target) -> usize {
        self.job.wire.message_max(self.job.lane(self.team.rank(target.rank())).unwrap_or(Lane::Net))
    }
}

/// A request while it is filled: where at the target, the data for it, and where the answer goes.
pub(super) struct Batch {
    pub(super) strips: Vec<Strip>,
    pub(super) data: Vec<u8>,
    pub(super) landing: Vec<Sink>,
    bytes: usize,
    message_max: usize,
    /// Pieces are cut at multiples of it.
    unit: usize,
}

impl Batch {
    pub(super) fn new(message_max: usize, unit: usize) -> Batch {
        Batch { strips: Vec::new(), data: Vec::new(), landing: Vec::new(), bytes: 0, message_max, unit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes of the data that are in it.
    pub(super) fn clear(&mut self) {
        self.strips.clear();
        self.data.clear();
        self.landing.clear();
        self.bytes = 0;
    }

    /// How much of a piece still fits, both ways; `carries`: the request carries the data.
    pub(super) fn room(&self, piece: usize, carries: bool) -> usize {
        if self.strips.len() >= MAX_STRIPS {
            return 0;
        }
        let fixed = OVERHEAD + STRIP * (self.strips.len() + 1) + if carries { self.bytes } else { 0 };
        let there = self.message_max.saturating_sub(fixed);
        let back = self.message_max.saturating_sub(REPLY_OVERHEAD + self.bytes);
        let there = if carries || there == 0 { there } else { usize::MAX };
        let room = there.min(back).min(piece);
        room / self.unit * self.unit
    }

    /// Adds a block of the target, to the last strip where it goes on with it.
    pub(super) fn add(&mut self, at: i64, len: usize) {
        self.bytes += len;
        if let Some(last) = self.strips.last_mut() {
            if last.count == 1 && last.offset + last.block as i64 == at {
                last.block += len;
                return;
            }
            let stride = if last.count == 1 { at.wrapping_sub(last.offset) } else { last.stride };
            if last.block == len && stride != len as i64 && last.offset + last.count as i64 * stride == at {
                last.stride = stride;
                last.count += 1;
                return;
            }
        }
        self.strips.push(Strip::one(at, len));
    }
}

/// Fails where the two sides do not have the same signature, or entries of the target overlap (MPI §11.3.1).
fn agree(call: &'static str, ours: &Layout<'_>, target: &Layout<'_>) -> Result<()> {
    let same = match (ours, target) {
        (Layout::Items(a, count), Layout::Items(b, other)) => a.matches(*count, b, *other),
        _ => ours.len() == target.len(),
    };
    if !same {
        let why =
            format!("the origin has {} bytes, the target {}, or other types in their order", ours.len(), target.len());
        return Err(Error::argument(Class::Type, call, why));
    }
    no_overlap(call, "target", target)
}

pub(super) fn no_overlap(call: &'static str, whose: &str, layout: &Layout<'_>) -> Result<()> {
    match layout {
        Layout::Items(ty, count) if ty.overlaps_itself(*count) => {
            let why = format!("entries of the {whose} type overlap each other in {count} items");
            Err(ErrorKind::Argument { class: Class::Type, call, reason: why }.into())
        }
        _ => Ok(()),
    }
}

fn store(memory: &Memory, at: i64, from: &From<'_>, to: &Layout<'_>) {
    runs(&from.layout, to, |run| {
        let steps = Steps { at: run.a - from.low, stride: run.a_stride, len: run.length, count: run.count };
        from.bytes.store_blocks(steps, memory, at + run.b, run.b_stride);
    });
}

fn load(memory: &Memory, at: i64, into: &Into<'_>, from: &Layout<'_>) {
    runs(&into.layout, from, |run| {
        let steps = Steps { at: run.a - into.low, stride: run.a_stride, len: run.length, count: run.count };
        into.bytes.load_blocks(steps, memory, at + run.b, run.b_stride);
    });
}

/// Walks both sides together. Most are one strip each, and then one run.
#[inline(always)]
fn runs(ours: &Layout<'_>, theirs: &Layout<'_>, mut each: impl FnMut(Run)) {
    if let (Some(ours), Some(theirs)) = (ours.strip(), theirs.strip())
        && let Some(run) = Run::of(ours, theirs)
    {
        return each(run);
    }
    let mut runs = zip(ours.pieces(), theirs.pieces());
    while let Some(run) = runs.next_run() {
        each(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_describes_what_is_regular_in_one_strip() {
        let mut batch = Batch::new(1000, 1);
        (0..10).for_each(|index| batch.add(index * 24, 8));
        assert_eq!(batch.strips, [Strip { offset: 0, block: 8, count: 10, stride: 24 }]);
        batch.add(500, 8);
        batch.add(508, 20);
        assert_eq!(batch.strips[1..], [Strip::one(500, 28)]);
        batch.clear();
        (0..3).rev().for_each(|index| batch.add(index * 8, 8));
        assert_eq!(batch.strips, [Strip { offset: 16, block: 8, count: 3, stride: -8 }]);
    }

    #[test]
    fn a_batch_never_exceeds_a_message_either_way() {
        let mut batch = Batch::new(200, 8);
        let mut sent = 0;
        for index in 0.. {
            let len = batch.room(64, true);
            if len == 0 {
                break;
            }
            assert!(len.is_multiple_of(8));
            batch.add(index * 1000, len);
            sent += len;
            assert!(OVERHEAD + STRIP * batch.strips.len() + sent <= 200 && sent + REPLY_OVERHEAD <= 200);
        }
        assert!(sent > 0);
        let gather = Batch::new(200, 1);
        assert_eq!(gather.room(usize::MAX, false), 200 - REPLY_OVERHEAD);
    }
}

//! Puts and gets on a window that are contiguous at both sides (MPI-4.1 §12.3.1, §12.3.2): within a
//! node their path only chooses the route and copies.

use transom_fabric::{Tally, TallyRef};

use super::core::{Core, index};
use super::target::{Data, Target};
use crate::buffers::{Sink, Source};
use crate::error::Result;
use crate::flavor::Flavor;
use crate::memory::layout::Layout;
use crate::transport::Far;

/// The tally that counts an operation: the target's, or a tally of the operation's own, made when
/// the operation does not complete at once.
pub(crate) enum Count<'c> {
    Target,
    Request(&'c mut Option<TallyRef>),
}

impl Count<'_> {
    #[inline(always)]
    pub(super) fn tally<'t>(&'t mut self, target: &'t Target) -> &'t TallyRef {
        match self {
            Count::Target => &target.tally,
            Count::Request(own) => own.get_or_insert_with(|| Tally::within(&target.tally)),
        }
    }
}

/// A buffer to read, and the layout of the data in it. Layout offset 0 is `low` bytes after the
/// beginning of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From<'t> {
    pub(crate) bytes: Source,
    pub(crate) low: i64,
    pub(crate) layout: Layout<'t>,
}

/// A buffer to fill, with the layout of its data as in [`From`].
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
    /// Puts (MPI-4.1 §12.3.1).
    #[inline(always)]
    pub(crate) fn put(&self, rank: usize, displacement: u64, from: Source, mut count: Count<'_>) -> Result<()> {
        match self.located(rank, displacement, from.len()) {
            None => self.put_first(rank, displacement, from, count),
            Some((target, at)) => match &target.data {
                Data::Mapped(memory, _) => {
                    memory.write(index(at), from.bytes());
                    Ok(())
                }
                Data::Far(_) => self.put_far(target, at, from, count.tally(target)),
            },
        }
    }

    /// The first put to a target, or an error.
    #[cold]
    fn put_first(&self, rank: usize, displacement: u64, from: Source, mut count: Count<'_>) -> Result<()> {
        let Some((target, at)) = self.locate("put", rank, displacement, from.len())? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            memory.write(index(at), from.bytes());
            return Ok(());
        }
        self.put_far(target, at, from, count.tally(target))
    }

    /// A put that needs more than a store.
    #[inline(never)]
    fn put_far(&self, target: &Target, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        if let Data::Far(far) = &target.data
            && self.job.wire.put_carried(far, at, from, tally)
        {
            return Ok(());
        }
        self.put_posted(target, at, from, tally)
    }

    /// Puts bytes that are copied before this returns.
    #[inline(always)]
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

    #[inline(never)]
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
    pub(super) fn put_run(&self, far: &Far, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        let most = self.job.wire.transfer_max(far).unwrap_or(usize::MAX);
        // The common case: one post.
        if (1..=most).contains(&from.len()) {
            return self.job.post(|wire| wire.put(far, at, from, tally));
        }
        let mut done = 0;
        while done < from.len() {
            let part = from.part(done, most);
            self.job.post(|wire| wire.put(far, at + done as u64, part, tally))?;
            done += part.len();
        }
        Ok(())
    }

    /// Gets (MPI-4.1 §12.3.2).
    #[inline(always)]
    pub(crate) fn get(&self, rank: usize, displacement: u64, into: Sink, count: Count<'_>) -> Result<()> {
        if let Some((target, at)) = self.located(rank, displacement, into.len())
            && let Data::Mapped(memory, _) = &target.data
        {
            into.fill(memory, index(at));
            return Ok(());
        }
        self.get_far(rank, displacement, into, count)
    }

    /// A get that needs more than a load, or whose route is not known yet.
    #[inline(never)]
    fn get_far(&self, rank: usize, displacement: u64, into: Sink, mut count: Count<'_>) -> Result<()> {
        let Some((target, at)) = self.locate("get", rank, displacement, into.len())? else { return Ok(()) };
        if let Data::Mapped(memory, _) = &target.data {
            into.fill(memory, index(at));
            return Ok(());
        }
        let tally = count.tally(target);
        if let Some(far) = target.data.posted()
            && self.flavor != Flavor::Dynamic
        {
            return self.get_run(far, at, &into, tally);
        }
        let from = Layout::Bytes(into.len());
        self.get_layout_far(target, at.cast_signed(), &Into::contiguous(into), &from, tally)
    }

    /// Posts a get of bytes that are contiguous at both sides.
    pub(super) fn get_run(&self, far: &Far, at: u64, into: &Sink, tally: &TallyRef) -> Result<()> {
        let most = self.job.wire.transfer_max(far).unwrap_or(usize::MAX);
        let mut done = 0;
        while done < into.len() {
            let part = into.part(done, most);
            self.job.post(|wire| wire.get(far, at + done as u64, &part, tally))?;
            done += part.len();
        }
        Ok(())
    }
}

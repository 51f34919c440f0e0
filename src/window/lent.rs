//! The buffers of operations, for the conflict checker (`check`): they are lent from the call until
//! the operation is complete at the origin. In windows with safe accessors the borrow checker sees
//! to that; windows of bytes record them.

use std::sync::atomic::Ordering;

use super::accumulate::Accumulate;
use super::checked::last_operation;
use super::core::Core;
use super::target::Target;
use super::transfer::{Incoming, Outgoing};
use crate::check::{Kind, Lent};
use crate::error::Result;
use crate::flavor::Flavor;
use crate::memory::layout::Layout;
use crate::reduce::BasicType;

/// A buffer of an operation: items of a layout at an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer<'l> {
    base: usize,
    layout: &'l Layout<'l>,
    written: bool,
}

impl<'l> Buffer<'l> {
    /// A buffer that the operation reads, or writes. Layout offset `low` is at `address`.
    pub(super) fn new(address: usize, low: i64, layout: &'l Layout<'l>, written: bool) -> Buffer<'l> {
        Buffer { base: address.wrapping_add_signed(isize::try_from(-low).unwrap_or(0)), layout, written }
    }

    fn pieces(&self) -> impl Iterator<Item = (usize, usize, bool)> {
        let Buffer { base, layout, written } = *self;
        layout
            .pieces()
            .map(move |(offset, len)| (base.wrapping_add_signed(isize::try_from(offset).unwrap_or(0)), len, written))
    }
}

impl Accumulate<'_> {
    /// The access that it is.
    pub(super) fn kind(&self) -> Kind {
        Kind::combine(if self.into.is_some() { "get_accumulate" } else { "accumulate" }, Some(self.op), self.ty)
    }
}

impl Core {
    /// Buffers of this window's operations are given by address, and lent until these are complete.
    pub(super) fn lends_buffers(&self) {
        if let Some(checked) = &self.checked {
            checked.lends.store(true, Ordering::Relaxed);
        }
    }

    /// Records the buffers of the operation on `to` at byte `at` that this thread has just begun.
    #[inline]
    pub(super) fn lent(
        &self,
        target: &Target,
        (at, to): (i64, &Layout<'_>),
        kind: Kind,
        buffers: &[Buffer<'_>],
    ) -> Result<()> {
        if self.is_checked() { self.lent_checked(target, (at, to), kind, buffers) } else { Ok(()) }
    }

    #[cold]
    fn lent_checked(
        &self,
        target: &Target,
        (at, to): (i64, &Layout<'_>),
        kind: Kind,
        buffers: &[Buffer<'_>],
    ) -> Result<()> {
        let Some((checked, checker)) = self.checker() else { return Ok(()) };
        let member = target.rank();
        let is_own = member == self.team.me && checker.watches();
        // Relaxed: set at creation.
        let lends = checked.lends.load(Ordering::Relaxed);
        if !is_own && !lends {
            return Ok(());
        }
        let uses: Vec<_> = buffers.iter().filter(|_| lends).flat_map(Buffer::pieces).collect();
        let memory = (self.flavor != Flavor::Dynamic).then(|| self.own.local());
        let piece = |(offset, len)| (memory, usize::try_from(at.wrapping_add(offset)).unwrap_or(0), len);
        let own: Vec<_> = to.pieces().filter(|_| is_own).map(piece).collect();
        let lent = Lent { window: self.id, member, operation: last_operation(), kind, buffers: &uses, own: &own };
        let conflicts = checker.lend(&lent);
        conflicts.into_iter().try_for_each(|(new, met)| self.conflict(checker, self.team.me, new, met))
    }

    /// [`Core::lent`] for an accumulate.
    #[inline]
    pub(super) fn lent_by(&self, target: &Target, at: i64, it: &Accumulate<'_>) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        let (from, into) = (it.from.as_ref().map(Outgoing::buffer), it.into.as_ref().map(Incoming::buffer));
        let buffers: Vec<_> = from.into_iter().chain(into).collect();
        self.lent(target, (at, &it.to), it.kind(), &buffers)
    }

    /// [`Core::lent`] for an accumulate of one element: the addresses of the buffers that it reads,
    /// and of the one that it writes.
    #[inline]
    pub(super) fn lent_elements(
        &self,
        target: &Target,
        at: u64,
        (kind, ty): (Kind, BasicType),
        reads: [Option<usize>; 2],
        writes: usize,
    ) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        let element = Layout::Bytes(ty.size());
        let buffer = |(address, written)| Buffer::new(address, 0, &element, written);
        let reads = reads.into_iter().flatten().map(|address| (address, false));
        let buffers: Vec<_> = reads.chain([(writes, true)]).map(buffer).collect();
        self.lent(target, (at.cast_signed(), &element), kind, &buffers)
    }
}

//! The buffers of operations, for the conflict checker (`check`). A buffer is lent from the call
//! until the operation is complete at the origin. The borrow checker protects lent buffers of typed
//! windows, so only windows of bytes record them.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use super::accumulate::Accumulate;
use super::checked::{Checked, Operation, last_operation};
use super::parts::Parts;
use super::target::Target;
use super::transfer::{Incoming, Outgoing};
use crate::check::{self, BufferUse, Call, Checker, Kind, Loan, OperationAccesses, Place};
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

    fn each_piece(&self, mut each: impl FnMut((usize, usize, bool))) {
        let Buffer { base, layout, written } = *self;
        let Ok(()) = layout.each_piece(|offset, len| {
            each((base.wrapping_add_signed(isize::try_from(offset).unwrap_or(0)), len, written));
            Ok::<(), Infallible>(())
        });
    }
}

impl Accumulate<'_> {
    /// The kind of the accumulate's access to the target.
    pub(super) fn kind(&self) -> Kind {
        let call = if self.into.is_some() { Call::GetAccumulate } else { Call::Accumulate };
        Kind::Combine { call, op: Some(self.op), ty: self.ty }
    }
}

impl Parts {
    /// Records the buffers of this window's operations from now on, because the program passes them
    /// by address.
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

    /// [`Parts::lent`] for the buffer of one element of `len` bytes, which an accumulate by `place`
    /// reads.
    #[inline]
    pub(super) fn lent_element(
        &self,
        (checked, checker): (&Checked, &Checker),
        (target, at): (&Target, u64),
        (kind, place): (Kind, Place),
        (address, len): (usize, usize),
    ) -> Result<()> {
        // Relaxed: set at creation.
        if !checked.lends.load(Ordering::Relaxed) {
            return Ok(());
        }
        let lent = BufferUse { window: self.id, member: target.rank(), operation: 0, is_alone: false, kind, place };
        let part = self.own.local();
        let start = part.as_ptr().addr();
        // A buffer in the own part is also recorded there.
        let is_apart = address >= start.saturating_add(part.len()) || address.saturating_add(len) <= start;
        if is_apart && checker.lend_with_others(&lent, address, len) {
            return Ok(());
        }
        checked.begin_operation(place, false);
        let element = Layout::Bytes(len);
        let buffer = Buffer::new(address, 0, &element, false);
        self.lent_checked(target, (at.cast_signed(), &element), kind, &[buffer])
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
        // Relaxed: set at creation.
        let lends = checked.lends.load(Ordering::Relaxed);
        let Operation { number: operation, place, is_alone } = last_operation();
        let lent = BufferUse { window: self.id, member: target.rank(), operation, is_alone, kind, place };
        let mut conflicts = Vec::new();
        for buffer in buffers.iter().filter(|_| lends) {
            buffer.each_piece(|piece @ (address, len, written)| {
                if written || !checker.lend_with_others(&lent, address, len) {
                    checker.lend(&lent, piece, &mut checked.loans(), &mut conflicts);
                }
            });
        }
        if checker.watches() {
            let mut loans = checked.loans();
            let piece = |(offset, len)| (at.wrapping_add(offset).cast_unsigned(), len);
            let ranges = to.pieces().map(piece).collect();
            let mut accesses = OperationAccesses { buffers: Vec::new(), own: Vec::new(), window: self.id, ranges };
            buffers.iter().filter(|_| lends).for_each(|one| one.each_piece(|piece| accesses.buffers.push(piece)));
            let own = if lent.member == self.team.me { Some(self.own.local()) } else { target.reach.memory() };
            // The program may access a shared part of any member.
            let is_near = lent.member == self.team.me || self.flavor == Flavor::Shared;
            accesses.own.extend(to.pieces().filter(|_| is_near).filter_map(|(offset, len)| {
                let at = usize::try_from(at.wrapping_add(offset)).ok()?;
                // Offsets in a dynamic window are addresses.
                let found = match self.flavor {
                    Flavor::Dynamic => checker.exposed(self.id, at, len),
                    _ => own.map(|memory| (memory.clone(), at)),
                };
                found.map(|(memory, at)| (memory, at, len))
            }));
            checker.touch(&lent, &accesses, &mut loans);
            drop(loans);
            let parts = check::show_buffers(&accesses.buffers);
            checked.loans().extend(parts.into_iter().map(|part| Loan::of_part(&lent, part)));
        } else {
            let mut outcome = Ok(());
            buffers.iter().filter(|_| lends).for_each(|buffer| {
                buffer.each_piece(|piece| match self.lends_own(target, &lent, piece, &mut conflicts) {
                    Ok(loan) => loan.into_iter().for_each(|loan| checked.loans().push(loan)),
                    Err(error) => outcome = Err(error),
                });
            });
            outcome?;
        }
        conflicts.into_iter().try_for_each(|(new, clash)| self.conflict(checker, self.team.me, new, clash))
    }

    /// [`Parts::lent`] for an accumulate.
    #[inline]
    pub(super) fn lent_by(&self, target: &Target, at: i64, it: &Accumulate<'_>) -> Result<()> {
        if !self.is_checked() {
            return Ok(());
        }
        let (from, into) = (it.from.as_ref().map(Outgoing::buffer), it.into.as_ref().map(Incoming::buffer));
        let lent = |buffers: &[Buffer<'_>]| self.lent_checked(target, (at, &it.to), it.kind(), buffers);
        match (from, into) {
            (Some(from), Some(into)) => lent(&[from, into]),
            (Some(one), None) | (None, Some(one)) => lent(&[one]),
            (None, None) => lent(&[]),
        }
    }

    /// [`Parts::lent`] for an accumulate of one element: the addresses of the buffers that it reads
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

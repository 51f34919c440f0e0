//! The two sides of an operation, described at run time: items of a datatype at an address, and at
//! a target.

use super::super::transfer::{Incoming, Outgoing};
use crate::buffers::{Sink, Source};
use crate::datatype::Datatype;
use crate::memory::layout::Layout;

/// `count` items of a type at an address: one side of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Items<'t> {
    /// The address from which the type's displacements count.
    pub base: *mut u8,
    /// The number of items.
    pub count: usize,
    /// The type of the items.
    pub ty: &'t Datatype,
}

impl<'t> Items<'t> {
    /// Items that an operation reads.
    pub fn of(base: *const u8, count: usize, ty: &'t Datatype) -> Items<'t> {
        Items { base: base.cast_mut(), count, ty }
    }

    /// Items that an operation fills.
    pub fn of_mut(base: *mut u8, count: usize, ty: &'t Datatype) -> Items<'t> {
        Items { base, count, ty }
    }

    /// The offset of the lowest byte, and the number of bytes from there to the end of the highest.
    fn reach(&self) -> (i64, usize) {
        let (low, end) = self.ty.span(self.count).unwrap_or((0, 0));
        (low, usize::try_from(end.abs_diff(low)).unwrap_or(usize::MAX))
    }

    /// # Safety
    /// The bytes of the items are readable, and no thread writes them, until the operation is
    /// complete.
    pub(super) unsafe fn source(&self) -> Outgoing<'t> {
        let (low, len) = self.reach();
        #[allow(clippy::cast_possible_truncation)] // an offset within memory that exists
        let base = self.base.wrapping_offset(low as isize);
        // SAFETY: the caller's promise, for the bytes of the items. The bytes between items are not
        // accessed.
        let bytes = unsafe { Source::promised(base, len) };
        Outgoing { bytes, low, layout: Layout::Items(self.ty, self.count) }
    }

    /// # Safety
    /// The bytes of the items are writable, and nothing else accesses them, until the operation is
    /// complete.
    pub(super) unsafe fn sink(&self) -> Incoming<'t> {
        let (low, len) = self.reach();
        #[allow(clippy::cast_possible_truncation)] // an offset within memory that exists
        let base = self.base.wrapping_offset(low as isize);
        // SAFETY: as in `source`.
        let bytes = unsafe { Sink::promised(base, len) };
        Incoming { bytes, low, layout: Layout::Items(self.ty, self.count) }
    }
}

/// The target's side of an operation: `count` items of a type at a displacement of a rank.
#[derive(Clone, Copy, Debug)]
pub struct At<'t> {
    /// The target, or [`PROC_NULL`](crate::PROC_NULL).
    pub rank: usize,
    /// The displacement, in the target's displacement units; the address in a dynamic window.
    pub displacement: u64,
    /// The number of items.
    pub count: usize,
    /// The type of the items.
    pub ty: &'t Datatype,
}

impl<'t> At<'t> {
    /// `count` items of `ty` at `displacement` of `rank`.
    pub fn new(rank: usize, displacement: u64, count: usize, ty: &'t Datatype) -> At<'t> {
        At { rank, displacement, count, ty }
    }

    pub(in crate::window) fn layout(&self) -> Layout<'t> {
        Layout::Items(self.ty, self.count)
    }
}

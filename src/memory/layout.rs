//! The layout of one side of an operation: a run of bytes, or items of a datatype. Offsets count
//! from the beginning of the side; no addresses.

use crate::datatype::{Datatype, Pieces, Strip, Strips, Walk};
use crate::reduce::BasicType;

/// One side's layout.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout<'t> {
    /// A number of bytes.
    Bytes(usize),
    /// A number of items of a type.
    Items(&'t Datatype, usize),
}

impl<'t> Layout<'t> {
    /// The bytes of data.
    pub(crate) fn len(&self) -> usize {
        match self {
            Layout::Bytes(len) => *len,
            Layout::Items(ty, count) => ty.size().saturating_mul(*count),
        }
    }

    /// Whether the layout is a run of bytes.
    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(self, Layout::Bytes(_))
    }

    /// Whether two of its entries overlap.
    pub(crate) fn overlaps_itself(&self) -> bool {
        match self {
            Layout::Bytes(_) => false,
            Layout::Items(ty, count) => ty.overlaps_itself(*count),
        }
    }

    /// The lowest byte and the end of the highest; both 0 where there is no data.
    pub(crate) fn span(&self) -> (i64, i64) {
        match self {
            Layout::Bytes(len) => (0, i64::try_from(*len).unwrap_or(i64::MAX)),
            Layout::Items(ty, count) => ty.span(*count).unwrap_or((0, 0)),
        }
    }

    /// The contiguous pieces, in the order of the data.
    pub(crate) fn pieces(&self) -> Pieces<'t> {
        match self {
            Layout::Bytes(len) => Pieces::contiguous(*len),
            Layout::Items(ty, count) => ty.pieces(*count),
        }
    }

    /// Calls `each` with the pieces that are not empty. Faster than [`Layout::pieces`] for bytes.
    pub(crate) fn each_piece<E>(&self, mut each: impl FnMut(i64, usize) -> Result<(), E>) -> Result<(), E> {
        match *self {
            Layout::Bytes(0) => Ok(()),
            Layout::Bytes(len) => each(0, len),
            Layout::Items(ty, count) => {
                ty.pieces(count).filter(|&(_, len)| len > 0).try_for_each(|(offset, len)| each(offset, len))
            }
        }
    }

    /// The walk over this layout and `other` side by side.
    pub(crate) fn beside(&self, other: &Layout<'t>) -> Walk<'t, 2> {
        Walk::of([self.pieces(), other.pieces()])
    }

    /// The strip of [`Datatype::equal_blocks`], the number of bytes, and the basic type. The type
    /// is `None` for plain bytes, which match every basic type.
    #[inline(always)]
    pub(crate) fn equal_blocks(&self) -> Option<(Strip, usize, Option<BasicType>)> {
        match self {
            Layout::Bytes(0) => None,
            Layout::Bytes(len) => Some((Strip::one(0, *len), *len, None)),
            Layout::Items(ty, count) => {
                ty.equal_blocks(*count).map(|blocks| (blocks.strip, blocks.bytes, Some(blocks.basic)))
            }
        }
    }

    /// The offset of the data if it is one run of bytes.
    pub(crate) fn contiguous(&self) -> Option<i64> {
        match self {
            Layout::Bytes(_) => Some(0),
            Layout::Items(ty, count) => {
                one(ty.strips(*count)).filter(|strip| strip.count == 1).map(|strip| strip.offset)
            }
        }
    }

    /// Calls `each` with the strips, in the order of the data.
    pub(crate) fn for_strips(&self, mut each: impl FnMut(Strip)) {
        match self {
            Layout::Bytes(0) => {}
            Layout::Bytes(len) => each(Strip::one(0, *len)),
            Layout::Items(ty, count) => ty.strips(*count).for_each(each),
        }
    }

    /// The longest block that the data is made of.
    pub(crate) fn longest(&self) -> usize {
        let mut longest = 0;
        self.for_strips(|strip| longest = longest.max(strip.block));
        longest
    }
}

/// The layouts of a target, an origin and a result side by side. The offsets of an absent one count
/// bytes of data.
pub(crate) fn walk_sides<'t>(to: &Layout<'t>, from: Option<&Layout<'t>>, into: Option<&Layout<'t>>) -> Walk<'t, 3> {
    let pieces = |side: Option<&Layout<'t>>| side.map_or_else(Pieces::endless, Layout::pieces);
    Walk::of([to.pieces(), pieces(from), pieces(into)])
}

fn one(mut strips: Strips<'_>) -> Option<Strip> {
    let first = strips.next()?;
    strips.next().is_none().then_some(first)
}

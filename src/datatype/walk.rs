//! Layouts side by side: the one walk of every operation that moves or combines data of derived
//! types. The sides are, for instance, a target, an origin and a result. No allocation, and no
//! division for a piece.

use super::layout::Strip;
use super::pieces::Pieces;

/// `N` layouts with the same data, each in its own order of bytes; ends with the shortest. A clone
/// continues from the same position.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a, const N: usize>([Pieces<'a>; N]);

/// Bytes that are contiguous in each layout: the offsets in the order of the sides, and the length.
pub(crate) type Piece<const N: usize> = ([i64; N], usize);

/// `count` pieces of `length` bytes at equal distances in each layout, for one copy loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<const N: usize> {
    /// Where the first piece begins in each.
    pub(crate) at: [i64; N],
    /// The bytes of one piece; not 0.
    pub(crate) length: usize,
    /// The number of pieces; not 0.
    pub(crate) count: usize,
    /// The bytes from the start of a piece to the start of the next, in each; of no meaning for one
    /// piece.
    pub(crate) strides: [i64; N],
}

impl<'a, const N: usize> Walk<'a, N> {
    pub(crate) fn of(sides: [Pieces<'a>; N]) -> Walk<'a, N> {
        Walk(sides)
    }

    /// The next piece, cut after `most` bytes; the rest of the piece is returned next. `None` at
    /// the end, and for a `most` of 0.
    #[inline]
    pub(crate) fn next_at_most(&mut self, most: usize) -> Option<Piece<N>> {
        let length = self.left().min(most);
        if length == 0 {
            return None;
        }
        Some((self.0.each_mut().map(|side| side.cut(length)), length))
    }

    /// The next pieces that are equally long and at equal distances, all at once.
    pub(crate) fn next_run(&mut self) -> Option<Run<N>> {
        let length = self.left();
        if length == 0 {
            return None;
        }
        let equal = self.0.each_ref().map(|side| side.equal_pieces(length));
        let count = equal.iter().fold(usize::MAX, |least, (count, _)| least.min(*count));
        let at = self.0.each_mut().map(|side| side.cut_equal_pieces(length, count));
        Some(Run { at, length, count, strides: equal.map(|(_, stride)| stride) })
    }

    /// The bytes that are contiguous in each layout from here on; 0 at the end.
    #[inline]
    fn left(&mut self) -> usize {
        self.0.iter_mut().fold(usize::MAX, |least, side| least.min(side.left()))
    }
}

impl<const N: usize> Iterator for Walk<'_, N> {
    type Item = Piece<N>;

    #[inline]
    fn next(&mut self) -> Option<Piece<N>> {
        self.next_at_most(usize::MAX)
    }
}

impl Run<2> {
    /// Two strips with the same bytes of data as one run, where their blocks are equal, or one of
    /// them is a single block.
    #[inline(always)]
    pub(crate) fn of(a: Strip, b: Strip) -> Option<Run<2>> {
        let run =
            |like: Strip, strides| Run { at: [a.offset, b.offset], length: like.block, count: like.count, strides };
        if a.block == b.block {
            return Some(run(a, [a.stride, b.stride]));
        }
        match (a.count, b.count) {
            (1, _) => Some(run(b, [b.block as i64, b.stride])),
            (_, 1) => Some(run(a, [a.stride, a.block as i64])),
            _ => None,
        }
    }
}

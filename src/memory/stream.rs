//! Layouts walked together: a [`Stream`] gives the places of one side, and a step takes the longest
//! piece that is contiguous at all sides. It knows offsets and lengths, no memory.

use crate::datatype::Pieces;

/// The pieces of one side, taken in steps of any length.
pub(crate) struct Stream<'a> {
    pieces: Pieces<'a>,
    at: i64,
    left: usize,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(pieces: Pieces<'a>) -> Stream<'a> {
        Stream { pieces, at: 0, left: 0 }
    }

    /// The bytes of the piece that comes next; 0 at the end.
    #[inline]
    pub(crate) fn left(&mut self) -> usize {
        if self.left == 0
            && let Some((at, len)) = self.pieces.next_at_most(usize::MAX)
        {
            (self.at, self.left) = (at, len);
        }
        self.left
    }

    /// Takes `len` bytes of the piece that [`Stream::left`] measured, and returns their offset.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> i64 {
        let at = self.at;
        self.at += i64::try_from(len).unwrap_or(i64::MAX);
        self.left -= len;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Datatype;
    use crate::reduce::BasicType;

    #[test]
    fn pieces_are_taken_in_steps_of_any_length() {
        let byte = Datatype::basic(BasicType::Byte);
        let pairs = Datatype::vector(2, 2, 10, &byte).expect("a vector");
        let mut stream = Stream::new(pairs.pieces(1));
        assert_eq!((stream.left(), stream.take(1), stream.left(), stream.take(1)), (2, 0, 1, 1));
        assert_eq!((stream.left(), stream.take(2), stream.left()), (2, 10, 0));
    }
}

//! The strips of items, and their contiguous pieces in the order of the data. No allocation, and no
//! division for a piece. Knows neither basic types nor bounds: callers have checked the span, and
//! offsets that leave `i64` wrap.

use super::layout::{Layout, Loop, Strip, place};

/// The strips of items of a datatype, in the order of the data.
#[derive(Clone, Debug)]
pub(crate) struct Strips<'a> {
    /// The remaining strips of the present repetition.
    rest: std::slice::Iter<'a, Strip>,
    /// The single strip that describes all items, if there is one.
    single: Option<Strip>,
    strips: &'a [Strip],
    loops: &'a [Loop],
    /// Bytes from item to item.
    extent: i64,
    /// Where the present repetition begins.
    base: i64,
    /// The number of the next repetition, and how many there are.
    next: usize,
    end: usize,
    /// Repetitions that follow each by `step` bytes, before the next round of an outer loop.
    run: usize,
    step: i64,
}

impl<'a> Strips<'a> {
    /// These strips, once.
    pub(crate) fn of(strips: &'a [Strip]) -> Strips<'a> {
        Strips {
            rest: strips.iter(),
            single: None,
            strips,
            loops: &[],
            extent: 0,
            base: 0,
            next: 1,
            end: 1,
            run: 0,
            step: 0,
        }
    }

    /// `count` items of `layout`, `extent` bytes apart.
    pub(super) fn items(layout: &'a Layout, extent: i64, count: usize) -> Strips<'a> {
        if let ([], [strip]) = (&layout.loops[..], &layout.strips[..])
            && count > 0
            && let Some(all) = strip.repeated(count, extent)
        {
            return Strips { single: Some(all), ..Strips::of(&[]) };
        }
        let end = if layout.strips.is_empty() { 0 } else { count.saturating_mul(layout.repetitions()) };
        Strips {
            rest: [].iter(),
            strips: &layout.strips,
            loops: &layout.loops,
            extent,
            next: 0,
            end,
            step: layout.loops.last().map_or(extent, |inner| inner.stride),
            ..Strips::of(&[])
        }
    }

    /// Begins the next repetition; false after the last.
    fn repeat(&mut self) -> bool {
        if self.next == self.end {
            return false;
        }
        if self.run > 0 {
            self.run -= 1;
            self.base = self.base.wrapping_add(self.step);
        } else {
            let (item, base) = place(self.loops, self.next);
            self.base = (item as i64).wrapping_mul(self.extent).wrapping_add(base);
            self.run = self.loops.last().map_or(self.end, |inner| inner.count) - 1;
        }
        self.next += 1;
        self.rest = self.strips.iter();
        true
    }
}

impl Iterator for Strips<'_> {
    type Item = Strip;

    fn next(&mut self) -> Option<Strip> {
        loop {
            if let Some(strip) = self.rest.next() {
                return Some(Strip { offset: strip.offset.wrapping_add(self.base), ..*strip });
            }
            if let Some(strip) = self.single.take() {
                return Some(strip);
            }
            if !self.repeat() {
                return None;
            }
        }
    }

    /// Exact, unless there are more than `usize` counts.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let now = self.rest.len() + usize::from(self.single.is_some());
        let all = (self.end - self.next).checked_mul(self.strips.len()).and_then(|later| later.checked_add(now));
        (all.unwrap_or(usize::MAX), all)
    }
}

/// The contiguous pieces `(offset, length)` of items, in the order of the data. A clone continues
/// from the same position.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<'a> {
    strips: Strips<'a>,
    /// Where the present block begins, how long it is, how many follow in its strip, and how far
    /// apart.
    begin: i64,
    block: usize,
    after: usize,
    stride: i64,
    /// The rest of the present block.
    at: i64,
    left: usize,
}

impl<'a> Pieces<'a> {
    /// One piece of `length` bytes at offset 0.
    pub(crate) fn contiguous(length: usize) -> Pieces<'a> {
        Pieces { left: length, ..Pieces::of(Strips::of(&[])) }
    }

    /// One piece that never ends, for a side of a [`super::Walk`] that limits no other.
    pub(crate) fn endless() -> Pieces<'a> {
        Pieces::contiguous(usize::MAX)
    }

    /// The pieces of these strips.
    pub(crate) fn of(strips: Strips<'a>) -> Pieces<'a> {
        Pieces { strips, begin: 0, block: 0, after: 0, stride: 0, at: 0, left: 0 }
    }

    /// The next piece, cut after `most` bytes; the rest of the piece is returned next. `None` at
    /// the end, and for a `most` of 0.
    #[inline]
    pub(crate) fn next_at_most(&mut self, most: usize) -> Option<(i64, usize)> {
        let length = self.left().min(most);
        if length == 0 { None } else { Some((self.cut(length), length)) }
    }

    /// The bytes that are left of the present block, which is the next one where the last is used
    /// up; 0 at the end.
    #[inline]
    pub(super) fn left(&mut self) -> usize {
        if self.left == 0 {
            self.next_block();
        }
        self.left
    }

    #[inline]
    fn next_block(&mut self) {
        if self.after == 0 {
            return self.next_strip();
        }
        self.after -= 1;
        self.begin = self.begin.wrapping_add(self.stride);
        self.at = self.begin;
        self.left = self.block;
    }

    fn next_strip(&mut self) {
        let Some(strip) = self.strips.next() else { return };
        self.begin = strip.offset;
        self.block = strip.block;
        self.after = strip.count - 1;
        self.stride = strip.stride;
        self.at = strip.offset;
        self.left = strip.block;
    }

    /// The number of pieces of `length` bytes that follow at equal distances, and the distance.
    /// `length` is at most the rest of the present block.
    pub(super) fn equal_pieces(&self, length: usize) -> (usize, i64) {
        if self.left > length {
            (self.left / length, length as i64)
        } else if self.left == self.block {
            (self.after + 1, self.stride)
        } else {
            (1, 0)
        }
    }

    /// Takes `count` pieces of `length` bytes, as many as `equal_pieces` promised or fewer; where
    /// the first begins.
    pub(super) fn cut_equal_pieces(&mut self, length: usize, count: usize) -> i64 {
        if self.left > length {
            return self.cut(length * count);
        }
        let at = self.at;
        self.after -= count - 1;
        self.begin = self.begin.wrapping_add(self.stride.wrapping_mul(count as i64 - 1));
        self.left = 0;
        at
    }

    /// Takes `length` bytes, no more than are left of the present block; where they begin.
    #[inline]
    pub(super) fn cut(&mut self, length: usize) -> i64 {
        let at = self.at;
        self.at = at.wrapping_add(length as i64);
        self.left -= length;
        at
    }
}

impl Iterator for Pieces<'_> {
    type Item = (i64, usize);

    #[inline]
    fn next(&mut self) -> Option<(i64, usize)> {
        self.next_at_most(usize::MAX)
    }
}

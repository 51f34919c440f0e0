//! The normalized form of a datatype's memory: *strips*, which are equal blocks at equal distances,
//! and the loops that repeat them. Owns merging, which keeps the order of the type map; knows no
//! basic types, no bounds, no items.

use crate::error::{ArgumentError, Class, Error, Result};

/// Strips that one datatype may need beyond those of its own blocks, where repeated irregular parts
/// must be written out.
const MAX_WRITTEN_OUT: usize = 1 << 24;

/// `count` blocks of `block` bytes, the first at `offset`, each `stride` bytes after the one
/// before. A single block has the stride 0; of several, none begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    /// Where the first block begins, in bytes from the buffer's address.
    pub(crate) offset: i64,
    /// The bytes of one block; not 0.
    pub(crate) block: usize,
    /// The number of blocks; not 0.
    pub(crate) count: usize,
    /// The bytes from the start of a block to the start of the next; perhaps negative or 0.
    pub(crate) stride: i64,
}

impl Strip {
    /// One block.
    pub(crate) const fn one(offset: i64, block: usize) -> Strip {
        Strip { offset, block, count: 1, stride: 0 }
    }

    /// Four words for a message.
    pub(crate) fn encode(self) -> [u64; 4] {
        [self.offset.cast_unsigned(), self.block as u64, self.count as u64, self.stride.cast_unsigned()]
    }

    /// The strip that `encode` wrote. `None` where no strip is like that: no bytes, or bytes that
    /// have no `i64` offset.
    pub(crate) fn decode(words: [u64; 4]) -> Option<Strip> {
        let [offset, block, count, stride] = words;
        let strip = Strip {
            offset: offset.cast_signed(),
            block: usize::try_from(block).ok()?,
            count: usize::try_from(count).ok()?,
            stride: stride.cast_signed(),
        };
        if strip.block == 0 || strip.count == 0 {
            return None;
        }
        let last = i64::try_from(count - 1).ok()?.checked_mul(strip.stride)?.checked_add(strip.offset)?;
        strip.offset.max(last).checked_add(i64::try_from(block).ok()?)?;
        block.checked_mul(count)?;
        Some(strip)
    }

    /// The lowest byte, and the end of the highest.
    pub(crate) fn span(&self) -> (i64, i64) {
        let last = self.last();
        (self.offset.min(last), self.offset.max(last) + self.block as i64)
    }

    /// Whether the blocks are known not to overlap, by a cheap test.
    #[inline]
    pub(super) fn has_disjoint_blocks(&self) -> bool {
        self.count == 1 || self.stride.unsigned_abs() >= self.block as u64
    }

    /// Where the last block begins.
    fn last(&self) -> i64 {
        self.offset + (self.count - 1) as i64 * self.stride
    }

    /// This strip `count` times, `distance` bytes apart, where that is one strip.
    pub(crate) fn repeated(self, count: usize, distance: i64) -> Option<Strip> {
        if count == 1 {
            return Some(self);
        }
        if self.count == 1 && distance == self.block as i64 {
            return Some(Strip { block: self.block.checked_mul(count)?, ..self });
        }
        if self.count == 1 {
            return Some(Strip { count, stride: distance, ..self });
        }
        let goes_on = i64::try_from(self.count).ok()?.checked_mul(self.stride) == Some(distance);
        if goes_on { Some(Strip { count: self.count.checked_mul(count)?, ..self }) } else { None }
    }
}

/// A repetition of its content, `count` times, each `stride` bytes after the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) count: usize,
    pub(crate) stride: i64,
}

/// Strips in the order of the type map, repeated by loops, the outermost first. No strips: no
/// bytes, and no loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) loops: Vec<Loop>,
    pub(crate) strips: Vec<Strip>,
}

impl Layout {
    /// One block from offset 0.
    pub(crate) fn block(bytes: usize) -> Layout {
        Layout { loops: Vec::new(), strips: vec![Strip::one(0, bytes)] }
    }

    /// This layout `count` times, `distance` bytes apart. The bytes must have been found to have
    /// `i64` offsets.
    pub(crate) fn repeated(mut self, count: usize, distance: i64) -> Layout {
        if count == 0 || self.strips.is_empty() {
            return Layout::default();
        }
        if count == 1 {
            return self;
        }
        if let ([], [strip]) = (&self.loops[..], &mut self.strips[..])
            && let Some(merged) = strip.repeated(count, distance)
        {
            *strip = merged;
            return self;
        }
        match self.loops.first_mut() {
            Some(outer) if (outer.count as i64).checked_mul(outer.stride) == Some(distance) => outer.count *= count,
            _ => self.loops.insert(0, Loop { count, stride: distance }),
        }
        self
    }

    /// This layout, shifted by `by` bytes.
    pub(crate) fn shifted(mut self, by: i64) -> Layout {
        for strip in &mut self.strips {
            strip.offset += by;
        }
        self
    }

    /// How often the loops repeat the strips.
    pub(crate) fn repetitions(&self) -> usize {
        self.loops.iter().fold(1, |all, inner| all.saturating_mul(inner.count))
    }
}

/// Concatenates layouts in order, merging adjacent blocks.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    strips: Vec<Strip>,
    /// The block that the next one may lengthen.
    pending: Option<(i64, usize)>,
    written_out: usize,
}

impl Builder {
    /// Appends `layout`, `by` bytes further. Loops are written out; `call` is for the error
    /// where that is too much.
    pub(crate) fn append(&mut self, call: &'static str, layout: &Layout, by: i64) -> Result<()> {
        if layout.strips.is_empty() {
            return Ok(());
        }
        let repetitions = layout.repetitions();
        if repetitions > 1 {
            self.written_out = self.written_out.saturating_add(repetitions.saturating_mul(layout.strips.len()));
            if self.written_out > MAX_WRITTEN_OUT {
                let reason = ArgumentError::TooManyStrips { strips: self.written_out, limit: MAX_WRITTEN_OUT };
                return Err(Error::argument(Class::Count, call, reason));
            }
        }
        for repetition in 0..repetitions {
            let base = by + place(&layout.loops, repetition).1;
            for strip in &layout.strips {
                self.push(Strip { offset: strip.offset + base, ..*strip });
            }
        }
        Ok(())
    }

    /// The strips, merged.
    pub(crate) fn finish(mut self) -> Layout {
        self.flush();
        self.strips.shrink_to_fit();
        Layout { loops: Vec::new(), strips: self.strips }
    }

    /// Appends a strip: its first block may lengthen the pending one, its last becomes the pending
    /// one.
    fn push(&mut self, strip: Strip) {
        self.push_block(strip.offset, strip.block);
        if strip.count == 1 {
            return;
        }
        if strip.count > 2 {
            self.flush();
            let offset = strip.offset + strip.stride;
            let count = strip.count - 2;
            self.merge(Strip { offset, count, stride: if count == 1 { 0 } else { strip.stride }, ..strip });
        }
        self.push_block(strip.last(), strip.block);
    }

    fn push_block(&mut self, offset: i64, block: usize) {
        match &mut self.pending {
            Some((at, length)) if *at + *length as i64 == offset => *length += block,
            _ => {
                self.flush();
                self.pending = Some((offset, block));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((offset, block)) = self.pending.take() {
            self.merge(Strip::one(offset, block));
        }
    }

    /// Appends `next`, whose first block does not begin where the last one ends, to the last strip
    /// if it continues it.
    fn merge(&mut self, next: Strip) {
        if let Some(last) = self.strips.last_mut()
            && last.block == next.block
            && let Some(stride) = next.offset.checked_sub(last.last())
            && (last.count == 1 || last.stride == stride)
            && (next.count == 1 || next.stride == stride)
        {
            last.stride = stride;
            last.count += next.count;
        } else {
            self.strips.push(next);
        }
    }
}

/// The offset of repetition number `index` of `loops` (outermost first), and the part of the index
/// beyond all loops.
pub(crate) fn place(loops: &[Loop], index: usize) -> (usize, i64) {
    let mut rest = index;
    let mut base = 0i64;
    for inner in loops.iter().rev() {
        base = base.wrapping_add(((rest % inner.count) as i64).wrapping_mul(inner.stride));
        rest /= inner.count;
    }
    (rest, base)
}

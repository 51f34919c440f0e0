//! Derived datatypes as layouts of memory (MPI-4.1 §5.1): the basic types, their order and their
//! offsets. Owns constructors, queries and the walk over the contiguous pieces; knows no buffers,
//! transports or epochs.
//!
//! A constructor compiles the datatype into strips of equal blocks, and loops that repeat the
//! strips; a vector is one strip, whatever its count. The memory of a datatype therefore depends on
//! the irregularity of the datatype, and not on the amount of data.

mod build;
mod layout;
mod overlap;
mod pieces;
mod signature;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::{Arc, OnceLock};

pub use build::Order;
pub(crate) use layout::Strip;
pub(crate) use pieces::{Pieces, Strips};
pub(crate) use walk::{Run, Walk};

use crate::reduce::BasicType;
use layout::Layout;
use signature::Signature;

/// An MPI datatype: a sequence of basic types, each with an offset in bytes. A datatype never
/// changes, and its clones share its memory.
///
/// ```
/// use transom::{BasicType, Datatype};
///
/// // A column of a matrix of 10 rows of 8 numbers.
/// let column = Datatype::vector(10, 1, 8, &Datatype::basic(BasicType::Float64))?;
/// assert_eq!((column.size(), column.extent()), (80, 8 * (9 * 8 + 1)));
/// # Ok::<(), transom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datatype(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    layout: Layout,
    signature: Signature,
    /// Bytes of data.
    size: usize,
    bounds: Bounds,
    /// The lowest byte of data and the end of the highest; `None` without bytes.
    data: Option<(i64, i64)>,
    /// The strictest alignment of its elements.
    align: usize,
    /// Whether one item overlaps itself; computed at the first query.
    overlaps: OnceLock<bool>,
    /// The result of [`Datatype::equal_blocks`] for one item.
    equal_blocks: Option<EqualBlocks>,
}

/// Equal blocks of one basic type, no two of which share a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EqualBlocks {
    pub(crate) strip: Strip,
    pub(crate) basic: BasicType,
    /// The bytes of all blocks.
    pub(crate) bytes: usize,
    /// Whether consecutive items form one block.
    items_form_one_block: bool,
}

/// Lower and upper bound (MPI-4.1 §5.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    /// Of no elements and no markers.
    None,
    /// Of the elements.
    Elements(i64, i64),
    /// The bounds that the markers of `resized` and `subarray` set; elements do not change them.
    Markers(i64, i64),
}

impl Inner {
    fn empty() -> Inner {
        Inner {
            layout: Layout::default(),
            signature: Signature::EMPTY,
            size: 0,
            bounds: Bounds::None,
            data: None,
            align: 1,
            overlaps: OnceLock::new(),
            equal_blocks: None,
        }
    }

    fn finish(mut self) -> Datatype {
        self.equal_blocks = match (&self.layout.loops[..], &self.layout.strips[..], self.signature.uniform()) {
            ([], [strip], Some(basic)) if strip.has_disjoint_blocks() => {
                let (lb, ub) = self.bounds.get();
                let items_form_one_block = strip.count == 1 && ub - lb == strip.block as i64;
                Some(EqualBlocks { strip: *strip, basic, bytes: self.size, items_form_one_block })
            }
            _ => None,
        };
        Datatype(Arc::new(self))
    }
}

impl Datatype {
    /// The number of bytes of data of one item (`MPI_Type_size`). Gaps and padding do not count,
    /// except the gap in `MPI_SHORT_INT`, which is part of its size.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// The lower bound in bytes (`MPI_Type_get_extent`).
    pub fn lb(&self) -> i64 {
        self.0.bounds.get().0
    }

    /// The number of bytes from one item to the next (`MPI_Type_get_extent`).
    pub fn extent(&self) -> i64 {
        let (lb, ub) = self.0.bounds.get();
        ub - lb
    }

    /// The offset of the lowest byte of data (`MPI_Type_get_true_extent`); 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.0.data.map_or(0, |(low, _)| low)
    }

    /// The number of bytes from the lowest byte of data to the end of the highest
    /// (`MPI_Type_get_true_extent`).
    pub fn true_extent(&self) -> i64 {
        self.0.data.map_or(0, |(low, end)| end - low)
    }

    /// Whether any number of items is one run of bytes from offset 0, in order and without gaps.
    pub fn is_contiguous(&self) -> bool {
        let inner = &*self.0;
        let items_form_one_block = match (&inner.layout.loops[..], &inner.layout.strips[..]) {
            ([], []) => true,
            ([], [strip]) => strip.offset == 0 && strip.count == 1,
            _ => false,
        };
        items_form_one_block && self.lb() == 0 && self.extent() == inner.size as i64
    }

    /// The basic type of all elements, which accumulates require; `None` if there are several basic
    /// types, or no elements.
    pub fn uniform(&self) -> Option<BasicType> {
        self.0.signature.uniform()
    }

    /// Whether `count` items have the signature of `other_count` items of `other`: the same basic
    /// types in the same order (MPI-4.1 §3.3.1). The time is logarithmic in the counts. Signatures
    /// are compared by hashes: different ones compare as equal with a probability of 2^-122.
    pub fn matches(&self, count: usize, other: &Datatype, other_count: usize) -> bool {
        let (ours, theirs) = (&*self.0, &*other.0);
        // With the same single basic type, equal bytes mean equal counts of elements.
        if ours.signature.uniform().is_some()
            && ours.signature.uniform() == theirs.signature.uniform()
            && let (Some(bytes), Some(others)) = (ours.size.checked_mul(count), theirs.size.checked_mul(other_count))
        {
            return bytes == others;
        }
        ours.signature.matches(count, &theirs.signature, other_count)
    }

    /// Whether entries of `count` items overlap, which is illegal at a target (MPI-4.1 §12.3.1).
    /// The result is exact. The time is constant if the spans of the items are disjoint; an
    /// irregular item is examined once, in the order of its addresses. For interleaved items the
    /// memory is proportional to their strips, and the time at most to their blocks.
    pub fn overlaps_itself(&self, count: usize) -> bool {
        let inner = &*self.0;
        if count == 0 || inner.size == 0 {
            return false;
        }
        let one = *inner.overlaps.get_or_init(|| overlap::overlap(&inner.layout, self.true_extent(), 0, 1));
        if one || count == 1 {
            return one;
        }
        let width = self.true_extent();
        if self.extent().unsigned_abs() >= width.unsigned_abs() {
            return one;
        }
        overlap::overlap(&inner.layout, width, self.extent(), count)
    }

    /// The offsets of the lowest byte of `count` items and of the end of the highest; `None` if the
    /// items have no bytes. Offsets beyond `i64`, which no window contains, are clamped.
    pub fn span(&self, count: usize) -> Option<(i64, i64)> {
        let (low, end) = self.0.data?;
        if count == 1 {
            return Some((low, end));
        }
        if let Some(last) = i64::try_from(count).ok().and_then(|count| (count - 1).checked_mul(self.extent()))
            && let (Some(below), Some(above)) = (low.checked_add(last.min(0)), end.checked_add(last.max(0)))
            && count > 0
        {
            return Some((below, above));
        }
        self.wide_span(count)
    }

    /// [`Datatype::span`] for results beyond `i64`.
    #[cold]
    fn wide_span(&self, count: usize) -> Option<(i64, i64)> {
        let (low, end) = self.0.data?;
        let last = (count as i128).checked_sub(1).filter(|&last| last >= 0)? * i128::from(self.extent());
        let clamp = |wide: i128| i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX });
        Some((clamp(i128::from(low) + last.min(0)), clamp(i128::from(end) + last.max(0))))
    }

    /// `count` items as one strip of one basic type, no two blocks of which share a byte. `None` if
    /// they need several strips, or if it is not known cheaply whether blocks share bytes: most
    /// transfers make this query first.
    #[inline(always)]
    pub(crate) fn equal_blocks(&self, count: usize) -> Option<EqualBlocks> {
        let one = self.0.equal_blocks.as_ref()?;
        if count == 0 || count > 1 && !one.items_form_one_block {
            return self.equal_blocks_of_items(one, count);
        }
        // One item, or one block.
        let bytes = one.bytes.checked_mul(count)?;
        let Strip { offset, block, count: blocks, stride } = one.strip;
        let strip = Strip { offset, block: block * count, count: blocks, stride };
        Some(EqualBlocks { strip, basic: one.basic, bytes, items_form_one_block: one.items_form_one_block })
    }

    /// [`Datatype::equal_blocks`] for no items, or for several items that do not form one block.
    #[inline(never)]
    fn equal_blocks_of_items(&self, one: &EqualBlocks, count: usize) -> Option<EqualBlocks> {
        let strip =
            one.strip.repeated(count, self.extent()).filter(|strip| count > 0 && strip.has_disjoint_blocks())?;
        Some(EqualBlocks { strip, bytes: one.bytes.checked_mul(count)?, ..*one })
    }

    /// The strips of `count` items in the order of the data. The span must be one of `i64` numbers.
    pub(crate) fn strips(&self, count: usize) -> Strips<'_> {
        Strips::items(&self.0.layout, self.extent(), count)
    }

    /// The pieces of `count` items at an address: where each begins, and its length. For the
    /// conflict checker.
    #[doc(hidden)]
    pub fn pieces_at(&self, address: usize, count: usize) -> Vec<(usize, usize)> {
        let place = |(offset, len)| (address.wrapping_add_signed(isize::try_from(offset).unwrap_or(0)), len);
        self.pieces(count).map(place).collect()
    }

    /// The same layout of bytes instead of basic types. The gap of `MPI_SHORT_INT` counts as
    /// data. For the library for MPI programs.
    #[doc(hidden)]
    #[must_use]
    pub fn as_bytes(&self) -> Datatype {
        let inner = &*self.0;
        let (layout, overlaps) = (inner.layout.clone(), inner.overlaps.clone());
        let signature = Signature::basic(BasicType::Byte).repeated(inner.size);
        let Inner { size, bounds, data, .. } = *inner;
        Inner { layout, signature, size, bounds, data, align: 1, overlaps, equal_blocks: None }.finish()
    }

    /// The contiguous pieces of `count` items in the order of the data. The span must be one of
    /// `i64` numbers.
    pub(crate) fn pieces(&self, count: usize) -> Pieces<'_> {
        Pieces::of(self.strips(count))
    }
}

impl Bounds {
    fn get(self) -> (i64, i64) {
        match self {
            Bounds::None => (0, 0),
            Bounds::Elements(lb, ub) | Bounds::Markers(lb, ub) => (lb, ub),
        }
    }

    /// The bounds of both together: where there are markers, elements are ignored.
    fn join(self, other: Bounds) -> Bounds {
        match (self, other) {
            (Bounds::None, bounds) | (bounds, Bounds::None) => bounds,
            (Bounds::Elements(a, b), Bounds::Elements(c, d)) => Bounds::Elements(a.min(c), b.max(d)),
            (Bounds::Markers(a, b), Bounds::Markers(c, d)) => Bounds::Markers(a.min(c), b.max(d)),
            (markers @ Bounds::Markers(..), _) | (_, markers) => markers,
        }
    }
}

//! The constructors of datatypes (MPI-4.1 §5.1.2, §5.1.3, §5.1.7): checked arithmetic on bounds,
//! sizes and layouts. Each constructor combines two steps: it repeats a datatype at equal
//! distances, and joins datatypes at displacements.

use super::layout::{Builder, Layout};
use super::signature::Signature;
use super::{Bounds, Datatype, Inner};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::reduce::BasicType;

/// The order of an array's elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last index varies fastest (`MPI_ORDER_C`).
    C,
    /// The first index varies fastest (`MPI_ORDER_FORTRAN`).
    Fortran,
}

impl From<BasicType> for Datatype {
    fn from(basic: BasicType) -> Datatype {
        Datatype::basic(basic)
    }
}

/// Constructors (MPI-4.1 §5.1.2, §5.1.3, §5.1.7). They fail with the class `Count` if a size or an
/// offset is out of range.
impl Datatype {
    /// One basic type at offset 0. The padding behind a pair counts for the extent alone.
    pub fn basic(basic: BasicType) -> Datatype {
        let size = basic.size();
        Inner {
            layout: Layout::block(size),
            signature: Signature::basic(basic),
            size,
            bounds: Bounds::Elements(0, basic.extent() as i64),
            data: Some((0, size as i64)),
            align: basic.align(),
            ..Inner::empty()
        }
        .finish()
    }

    /// `count` items of `old`, each one extent after the previous one (`MPI_Type_contiguous`).
    pub fn contiguous(count: usize, old: &Datatype) -> Result<Datatype> {
        Ok(repeat("contiguous", &old.0, count, old.extent())?.finish())
    }

    /// `count` blocks of `blocklength` items of `old`; blocks begin `stride` extents apart
    /// (`MPI_Type_vector`).
    pub fn vector(count: usize, blocklength: usize, stride: isize, old: &Datatype) -> Result<Datatype> {
        let bytes = (stride as i64).checked_mul(old.extent()).ok_or_else(|| too_far("vector"))?;
        blocks("vector", count, blocklength, bytes, old)
    }

    /// `count` blocks of `blocklength` items of `old`; blocks begin `stride` bytes apart
    /// (`MPI_Type_create_hvector`).
    pub fn hvector(count: usize, blocklength: usize, stride: isize, old: &Datatype) -> Result<Datatype> {
        blocks("hvector", count, blocklength, stride as i64, old)
    }

    /// Blocks of `old`, each `(number of items, displacement in extents)` (`MPI_Type_indexed`).
    pub fn indexed(blocks: &[(usize, isize)], old: &Datatype) -> Result<Datatype> {
        scattered("indexed", blocks.iter().copied(), old.extent(), old)
    }

    /// Blocks of `old`, each `(number of items, displacement in bytes)`
    /// (`MPI_Type_create_hindexed`).
    pub fn hindexed(blocks: &[(usize, isize)], old: &Datatype) -> Result<Datatype> {
        scattered("hindexed", blocks.iter().copied(), 1, old)
    }

    /// Blocks of `blocklength` items of `old` at displacements in extents
    /// (`MPI_Type_create_indexed_block`).
    pub fn indexed_block(blocklength: usize, displacements: &[isize], old: &Datatype) -> Result<Datatype> {
        let blocks = displacements.iter().map(|&displacement| (blocklength, displacement));
        scattered("indexed_block", blocks, old.extent(), old)
    }

    /// Blocks of `blocklength` items of `old` at displacements in bytes
    /// (`MPI_Type_create_hindexed_block`).
    pub fn hindexed_block(blocklength: usize, displacements: &[isize], old: &Datatype) -> Result<Datatype> {
        let blocks = displacements.iter().map(|&displacement| (blocklength, displacement));
        scattered("hindexed_block", blocks, 1, old)
    }

    /// Blocks `(number of items, displacement in bytes, datatype)` (`MPI_Type_create_struct`). If
    /// some part has explicit bounds, as `resized` and `subarray` set them, the bounds of the
    /// result are the outermost explicit ones (MPI-4.1 §5.1.7). Otherwise the extent is rounded up
    /// to the strictest alignment of the elements.
    pub fn structure(parts: &[(usize, isize, Datatype)]) -> Result<Datatype> {
        let call = "structure";
        let mut all = Joined::new(call);
        for (count, displacement, part) in parts {
            all.append(&repeat(call, &part.0, *count, part.extent())?, *displacement as i64)?;
        }
        let mut all = all.finish();
        if let Bounds::Elements(lb, ub) = all.bounds {
            let extent = ub.abs_diff(lb).checked_next_multiple_of(all.align as u64);
            let ub = extent.and_then(|extent| lb.checked_add_unsigned(extent)).ok_or_else(|| too_far(call))?;
            ub.checked_sub(lb).ok_or_else(|| too_far(call))?;
            all.bounds = Bounds::Elements(lb, ub);
        }
        Ok(all.finish())
    }

    /// A part of an array whose elements are items of `old` (`MPI_Type_create_subarray`). For each
    /// dimension, `sizes` has the number of elements of the array, `subsizes` that of the part, and
    /// `starts` the index of the part's first element, from 0. The extent is that of the whole
    /// array. Fails with the class `Arg` if the lists are empty or differ in length, or if the part
    /// is not within the array; with `Count` like all constructors.
    pub fn subarray(
        sizes: &[usize],
        subsizes: &[usize],
        starts: &[usize],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype> {
        let call = "subarray";
        check_subarray(call, sizes, subsizes, starts)?;
        let mut dimensions: Vec<_> = (0..sizes.len()).map(|d| (sizes[d], subsizes[d], starts[d])).collect();
        if order == Order::C {
            dimensions.reverse();
        }
        let mut whole = old.extent();
        let mut start = 0i64;
        let mut part: Option<Inner> = None;
        for (size, subsize, first) in dimensions {
            part = Some(repeat(call, part.as_ref().unwrap_or(&old.0), subsize, whole)?);
            let offset = i64::try_from(first).ok().and_then(|first| first.checked_mul(whole));
            start = offset.and_then(|offset| start.checked_add(offset)).ok_or_else(|| too_far(call))?;
            let wider = i64::try_from(size).ok().and_then(|size| size.checked_mul(whole));
            whole = wider.ok_or_else(|| too_far(call))?;
        }
        let part = part.unwrap_or_else(Inner::empty);
        // Only the markers count for the bounds; those of the repeated elements may not even be in
        // range once shifted.
        let mut all = Joined::new(call);
        all.append(&Inner { bounds: Bounds::None, ..part }, start)?;
        Ok(Inner { bounds: Bounds::Markers(0, whole), ..all.finish() }.finish())
    }

    /// `old` with the lower bound `lb` and the extent `extent`, in bytes. The offsets of the data
    /// do not change. The arguments have MPI's order (`MPI_Type_create_resized`, MPI-4.1 §5.1.7).
    pub fn resized(old: &Datatype, lb: isize, extent: isize) -> Result<Datatype> {
        let lb = lb as i64;
        let ub = lb.checked_add(extent as i64).ok_or_else(|| too_far("resized"))?;
        let inner = Inner {
            layout: old.0.layout.clone(),
            bounds: Bounds::Markers(lb, ub),
            overlaps: old.0.overlaps.clone(),
            ..*old.0
        };
        Ok(inner.finish())
    }
}

impl Datatype {
    /// The first `elements` basic elements of a sequence of items, as one item. A receiving side
    /// needs it if the data ends within an item (MPI-4.1 §12.3.1, §12.3.2). Fails with the class
    /// `Type` if the elements have several basic types.
    pub fn leading(&self, elements: usize) -> Result<Datatype> {
        let call = "leading";
        let Some(basic) = self.uniform() else {
            return Err(Error::argument(Class::Type, call, ArgumentError::NotUniform));
        };
        let each = self.size() / basic.size();
        let (whole, mut rest) = (elements / each, elements % each);
        let mut blocks = Vec::new();
        for (offset, length) in self.pieces(1) {
            let taken = rest.min(length / basic.size());
            if taken == 0 {
                break;
            }
            blocks.push((taken, isize::try_from(offset).map_err(|_| too_far(call))?));
            rest -= taken;
        }
        let last = i64::try_from(whole).ok().and_then(|whole| whole.checked_mul(self.extent()));
        let mut all = Joined::new(call);
        all.append(&repeat(call, &self.0, whole, self.extent())?, 0)?;
        // Elements of a block follow each other without padding.
        let element = Datatype::resized(&Datatype::basic(basic), 0, basic.size() as isize)?;
        let part = scattered(call, blocks.into_iter(), 1, &element)?;
        all.append(&part.0, last.ok_or_else(|| too_far(call))?)?;
        Ok(all.finish().finish())
    }
}

/// `count` blocks of `blocklength` items, `stride` bytes apart.
fn blocks(call: &'static str, count: usize, blocklength: usize, stride: i64, old: &Datatype) -> Result<Datatype> {
    let block = repeat(call, &old.0, blocklength, old.extent())?;
    Ok(repeat(call, &block, count, stride)?.finish())
}

/// Blocks of `old` of `(items, displacement)`, displacements in `unit` bytes.
fn scattered(
    call: &'static str,
    blocks: impl Iterator<Item = (usize, isize)> + Clone,
    unit: i64,
    old: &Datatype,
) -> Result<Datatype> {
    let place = |displacement: isize| (displacement as i64).checked_mul(unit).ok_or_else(|| too_far(call));
    let blocks = blocks.filter(|&(length, _)| length > 0);
    if let Some((count, length, first, step)) = regular(blocks.clone()) {
        let block = repeat(call, &old.0, length, old.extent())?;
        let mut all = Joined::new(call);
        let step = step.checked_mul(unit).ok_or_else(|| too_far(call))?;
        all.append(&repeat(call, &block, count, step)?, place(first)?)?;
        return Ok(all.finish().finish());
    }
    let mut all = Joined::new(call);
    let mut block = (0, Inner::empty());
    for (length, displacement) in blocks {
        if length != block.0 {
            block = (length, repeat(call, &old.0, length, old.extent())?);
        }
        all.append(&block.1, place(displacement)?)?;
    }
    Ok(all.finish().finish())
}

/// `(number of blocks, items of each, first displacement, step)`, if all blocks have the same
/// number of items and follow at equal distances.
fn regular(mut blocks: impl Iterator<Item = (usize, isize)>) -> Option<(usize, usize, isize, i64)> {
    let (length, first) = blocks.next()?;
    let mut count = 1;
    let mut last = first as i64;
    let mut step = None;
    for (items, displacement) in blocks {
        let distance = (displacement as i64).checked_sub(last)?;
        if items != length || *step.get_or_insert(distance) != distance {
            return None;
        }
        last = displacement as i64;
        count += 1;
    }
    Some((count, length, first, step.unwrap_or(0)))
}

/// `count` times `old`, `distance` bytes apart.
fn repeat(call: &'static str, old: &Inner, count: usize, distance: i64) -> Result<Inner> {
    if count == 0 || matches!(old.bounds, Bounds::None) {
        return Ok(Inner::empty());
    }
    let last = i64::try_from(count - 1).ok().and_then(|last| last.checked_mul(distance));
    let last = last.ok_or_else(|| too_far(call))?;
    let size = old.size.checked_mul(count).filter(|&size| i64::try_from(size).is_ok()).ok_or_else(|| too_big(call))?;
    let widen = |(low, high): (i64, i64)| {
        let (low, high) = (low.checked_add(last.min(0))?, high.checked_add(last.max(0))?);
        high.checked_sub(low)?;
        Some((low, high))
    };
    let data = old.data.map(|data| widen(data).ok_or_else(|| too_far(call))).transpose()?;
    let bounds = old.bounds.map(widen).ok_or_else(|| too_far(call))?;
    let layout = old.layout.clone().repeated(count, distance);
    Ok(Inner {
        layout,
        signature: old.signature.repeated(count),
        size,
        bounds,
        data,
        align: old.align,
        ..Inner::empty()
    })
}

/// Datatypes one after the other in the type map.
struct Joined {
    call: &'static str,
    all: Inner,
    /// The layout of a single part, with its loops; several parts go to the builder.
    single: Option<Layout>,
    builder: Builder,
}

impl Joined {
    fn new(call: &'static str) -> Joined {
        Joined { call, all: Inner::empty(), single: None, builder: Builder::default() }
    }

    /// Appends `part`, shifted by `by` bytes.
    fn append(&mut self, part: &Inner, by: i64) -> Result<()> {
        let call = self.call;
        let shift = |(low, high): (i64, i64)| Some((low.checked_add(by)?, high.checked_add(by)?));
        let bounds = self.all.bounds.join(part.bounds.map(shift).ok_or_else(|| too_far(call))?);
        let (lb, ub) = bounds.get();
        ub.checked_sub(lb).ok_or_else(|| too_far(call))?;
        self.all.bounds = bounds;
        let Some(data) = part.data else { return Ok(()) };
        let (low, end) = shift(data).ok_or_else(|| too_far(call))?;
        let first = self.all.data.is_none();
        let (low, end) = self.all.data.map_or((low, end), |(a, b)| (a.min(low), b.max(end)));
        end.checked_sub(low).ok_or_else(|| too_far(call))?;
        self.all.data = Some((low, end));
        let size = self.all.size.checked_add(part.size).filter(|&size| i64::try_from(size).is_ok());
        self.all.size = size.ok_or_else(|| too_big(call))?;
        self.all.align = self.all.align.max(part.align);
        self.all.signature = self.all.signature.then(part.signature);
        if first {
            self.single = Some(part.layout.clone().shifted(by));
            return Ok(());
        }
        if let Some(single) = self.single.take() {
            self.builder.append(call, &single, 0)?;
        }
        self.builder.append(call, &part.layout, by)
    }

    fn finish(self) -> Inner {
        let layout = self.single.unwrap_or_else(|| self.builder.finish());
        Inner { layout, ..self.all }
    }
}

impl Bounds {
    fn map(self, change: impl Fn((i64, i64)) -> Option<(i64, i64)>) -> Option<Bounds> {
        Some(match self {
            Bounds::None => Bounds::None,
            Bounds::Elements(lb, ub) => change((lb, ub)).map(|(lb, ub)| Bounds::Elements(lb, ub))?,
            Bounds::Markers(lb, ub) => change((lb, ub)).map(|(lb, ub)| Bounds::Markers(lb, ub))?,
        })
    }
}

fn check_subarray(call: &'static str, sizes: &[usize], subsizes: &[usize], starts: &[usize]) -> Result<()> {
    let wrong = |reason| Err(Error::argument(Class::Arg, call, reason));
    if sizes.is_empty() || sizes.len() != subsizes.len() || sizes.len() != starts.len() {
        let (sizes, subsizes, starts) = (sizes.len(), subsizes.len(), starts.len());
        return wrong(ArgumentError::Dimensions { sizes, subsizes, starts });
    }
    for dimension in 0..sizes.len() {
        let (size, subsize, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
        if subsize == 0 || subsize > size || start > size - subsize {
            return wrong(ArgumentError::Subarray { dimension, size, subsize, start });
        }
    }
    Ok(())
}

#[cold]
fn too_far(call: &'static str) -> Error {
    Error::argument(Class::Count, call, ArgumentError::BeyondOffsets)
}

#[cold]
fn too_big(call: &'static str) -> Error {
    Error::argument(Class::Count, call, ArgumentError::TooMuchData)
}

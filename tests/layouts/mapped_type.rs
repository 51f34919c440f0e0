//! Datatypes with their type maps, written out element by element (MPI-4.1 §5.1). Tests compute the
//! expected data of transfers from the type map, without the library's walk over a layout. Random
//! datatypes come from a seed.

use transom::datatype::Order;
use transom::{BasicType, Datatype, Result};

use crate::support::model::mixed;

/// A datatype and its type map: the offset and basic type of each element, in the order of the
/// data.
#[derive(Clone, Debug)]
pub(crate) struct MappedType {
    pub(crate) ty: Datatype,
    pub(crate) map: Vec<(i64, BasicType)>,
}

impl MappedType {
    pub(crate) fn basic(ty: BasicType) -> MappedType {
        MappedType { ty: Datatype::basic(ty), map: vec![(0, ty)] }
    }

    /// Items at byte offsets, each `(count, offset)`, together with the datatype made of them.
    fn placed(&self, ty: Datatype, blocks: impl IntoIterator<Item = (usize, i64)>) -> MappedType {
        let extent = self.ty.extent();
        let starts = blocks.into_iter().flat_map(|(count, at)| (0..count as i64).map(move |item| at + item * extent));
        let map = starts.flat_map(|at| self.map.iter().map(move |&(offset, basic)| (at + offset, basic))).collect();
        MappedType { ty, map }
    }

    pub(crate) fn contiguous(&self, count: usize) -> Result<MappedType> {
        Ok(self.placed(Datatype::contiguous(count, &self.ty)?, [(count, 0)]))
    }

    pub(crate) fn vector(&self, count: usize, length: usize, stride: isize) -> Result<MappedType> {
        let bytes = stride as i64 * self.ty.extent();
        let ty = Datatype::vector(count, length, stride, &self.ty)?;
        Ok(self.placed(ty, (0..count as i64).map(|block| (length, block * bytes))))
    }

    pub(crate) fn hvector(&self, count: usize, length: usize, stride: isize) -> Result<MappedType> {
        let ty = Datatype::hvector(count, length, stride, &self.ty)?;
        Ok(self.placed(ty, (0..count as i64).map(|block| (length, block * stride as i64))))
    }

    pub(crate) fn indexed(&self, blocks: &[(usize, isize)]) -> Result<MappedType> {
        let extent = self.ty.extent();
        let ty = Datatype::indexed(blocks, &self.ty)?;
        Ok(self.placed(ty, blocks.iter().map(|&(length, at)| (length, at as i64 * extent))))
    }

    pub(crate) fn hindexed(&self, blocks: &[(usize, isize)]) -> Result<MappedType> {
        let ty = Datatype::hindexed(blocks, &self.ty)?;
        Ok(self.placed(ty, blocks.iter().map(|&(length, at)| (length, at as i64))))
    }

    pub(crate) fn indexed_block(&self, length: usize, places: &[isize]) -> Result<MappedType> {
        let extent = self.ty.extent();
        let ty = Datatype::indexed_block(length, places, &self.ty)?;
        Ok(self.placed(ty, places.iter().map(|&at| (length, at as i64 * extent))))
    }

    pub(crate) fn structure(parts: &[(usize, isize, MappedType)]) -> Result<MappedType> {
        let types: Vec<_> = parts.iter().map(|(count, at, part)| (*count, *at, part.ty.clone())).collect();
        let ty = Datatype::structure(&types)?;
        let map = parts.iter().flat_map(|(count, at, part)| part.placed(part.ty.clone(), [(*count, *at as i64)]).map);
        Ok(MappedType { ty, map: map.collect() })
    }

    /// For each dimension its size, the part's size, and the part's start; the last dimension is
    /// contiguous (C order).
    pub(crate) fn subarray(&self, dimensions: &[(usize, usize, usize)], order: Order) -> Result<MappedType> {
        let column = |pick: fn(&(usize, usize, usize)) -> usize| dimensions.iter().map(pick).collect::<Vec<_>>();
        let ty = Datatype::subarray(&column(|it| it.0), &column(|it| it.1), &column(|it| it.2), order, &self.ty)?;
        let mut slowest_first = dimensions.to_vec();
        if order == Order::Fortran {
            slowest_first.reverse();
        }
        let mut places = vec![0i64];
        for (size, part, start) in slowest_first {
            let next = |&before: &i64| (start..start + part).map(move |index| before * size as i64 + index as i64);
            places = places.iter().flat_map(next).collect();
        }
        let extent = self.ty.extent();
        Ok(self.placed(ty, places.into_iter().map(|place| (1, place * extent))))
    }

    pub(crate) fn resized(&self, lb: isize, extent: isize) -> Result<MappedType> {
        Ok(MappedType { ty: Datatype::resized(&self.ty, lb, extent)?, map: self.map.clone() })
    }

    /// The offsets of the elements of `count` items.
    pub(crate) fn items(&self, count: usize) -> Vec<(i64, BasicType)> {
        self.placed(self.ty.clone(), [(count, 0)]).map
    }
}

/// The lowest byte of the elements, and the end of the highest.
pub(crate) fn span(map: &[(i64, BasicType)]) -> (i64, i64) {
    let low = map.iter().map(|entry| entry.0).min().unwrap_or(0);
    let end = map.iter().map(|(at, ty)| at + ty.size() as i64).max().unwrap_or(0);
    (low, end)
}

/// Whether two elements share a byte.
pub(crate) fn overlaps(map: &[(i64, BasicType)]) -> bool {
    let mut sorted = map.to_vec();
    sorted.sort_unstable_by_key(|entry| entry.0);
    sorted.windows(2).any(|pair| pair[0].0 + pair[0].1.size() as i64 > pair[1].0)
}

/// A number of bytes in the type of the constructors' arguments.
fn bytes(wide: i64) -> isize {
    isize::try_from(wide).expect("small")
}

/// Pseudo-random numbers.
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(mixed(seed))
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = mixed(self.0);
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }

    /// A divisor of `n`.
    fn divisor(&mut self, n: usize) -> usize {
        let all: Vec<_> = (1..=n).filter(|&divisor| n.is_multiple_of(divisor)).collect();
        all[self.below(all.len())]
    }

    /// Up to six parts with sum `n`, each with its offset in a row with gaps, in any order.
    fn blocks(&mut self, n: usize, unit: isize) -> Vec<(usize, isize)> {
        let (mut left, mut at, mut all) = (n, self.below(4) as isize - 2, Vec::new());
        while left > 0 {
            let length = if all.len() == 5 { left } else { 1 + self.below(left) };
            all.push((length, at * unit));
            at += (length + self.below(3)) as isize;
            left -= length;
        }
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
        all
    }

    /// `n` items of `old` in some layout; `depth` limits the nesting.
    pub(crate) fn layout(&mut self, n: usize, old: &MappedType, depth: usize) -> Result<MappedType> {
        let extent = bytes(old.ty.extent());
        if depth > 0 && self.below(2) == 0 {
            let inner = self.divisor(n);
            let part = self.layout(inner, old, depth - 1)?;
            let (low, end) = span(&part.map);
            let gap = self.below(3) as isize * extent;
            let wide = part.resized(bytes(low), bytes(end - low) + gap)?;
            return self.layout(n / inner, &wide, depth - 1);
        }
        let length = self.divisor(n);
        let sign = if self.below(3) == 0 { -1 } else { 1 };
        let stride = sign * (length + self.below(4)) as isize;
        match self.below(8) {
            0 => old.contiguous(n),
            1 => old.vector(n / length, length, stride),
            2 => old.hvector(n / length, length, stride * extent),
            3 => old.indexed(&self.blocks(n, 1)),
            4 => old.hindexed(&self.blocks(n, extent)),
            5 => {
                let blocks = self.blocks(n / length, 1);
                let each = blocks.iter().flat_map(|&(count, at)| (0..count as isize).map(move |block| at + block));
                let places: Vec<_> = each.map(|block| block * length as isize).collect();
                old.indexed_block(length, &places)
            }
            6 => {
                let (wide, high) = (length + self.below(3), n / length + self.below(2));
                let starts = (self.below(wide - length + 1), self.below(high - n / length + 1));
                let order = if self.below(2) == 0 { Order::C } else { Order::Fortran };
                let (rows, columns) = ((high, n / length, starts.1), (wide, length, starts.0));
                old.subarray(&[rows, columns], order)
            }
            _ => {
                let blocks = self.blocks(n, extent);
                let parts: Vec<_> = blocks.iter().map(|&(length, at)| (length, at, old.clone())).collect();
                MappedType::structure(&parts)
            }
        }
    }
}

//! One process's part of a distributed array (`MPI_Type_create_darray`, MPI-4.1 §5.1.4), built of
//! vectors of blocks.

use std::ffi::c_int;

use transom::Datatype;
use transom::datatype::Order;

use super::order_of;
use crate::errors::Outcome;
use crate::host::host_distribution;

/// One dimension: its elements, the processes among which they are distributed, and this process's
/// position among these.
struct Dimension {
    size: usize,
    processes: usize,
    process: usize,
    /// Elements that are distributed at once.
    block: usize,
}

/// Builds the type again from its numbers in the order of MPI-4.1 §5.1.13. With large counts the
/// sizes of the array come last.
pub(super) fn construct(values: &[i64], large: bool, part: &Datatype) -> Outcome<Datatype> {
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    let count = |place: usize| usize::try_from(at(place)).unwrap_or_default();
    let (rank, n) = (count(1), count(2));
    // Four lists of `n` numbers, then the order; with large counts three lists, the order, and the
    // sizes.
    let (sizes, lists) = if large { (4 + 3 * n, 3) } else { (3, 3 + n) };
    let order = order_of(at(lists + 3 * n));
    let (mut rest, mut processes) = (rank, count(0));
    let mut dimensions = Vec::with_capacity(n);
    for d in 0..n {
        let (size, across) = (count(sizes + d), count(lists + 2 * n + d).max(1));
        // Processes are numbered row by row, for both orders of the array.
        processes /= across;
        let process = rest / processes.max(1);
        rest %= processes.max(1);
        let block = block(at(lists + d), at(lists + n + d), size, across);
        dimensions.push(Dimension { size, processes: across, process, block });
    }
    if order == Order::C {
        dimensions.reverse();
    }
    dimensions.iter().try_fold(part.clone(), |inner, dimension| dimension.dealt(&inner))
}

/// The number of elements of a dimension that are distributed at once.
fn block(distribution: i64, argument: i64, size: usize, processes: usize) -> usize {
    let number = |value: i64| c_int::try_from(value).unwrap_or_default();
    let mut given = 0;
    // SAFETY: the call compares numbers and writes one.
    let kind = unsafe { host_distribution(number(distribution), number(argument), &raw mut given) };
    let given = usize::try_from(given).unwrap_or_default();
    match u8::try_from(kind) {
        Ok(b'b') if given == 0 => size.div_ceil(processes).max(1),
        Ok(b'b' | b'c') => given.max(1),
        _ => size.max(1),
    }
}

impl Dimension {
    /// This process's items of `inner`, with the extent of the whole dimension.
    fn dealt(&self, inner: &Datatype) -> Outcome<Datatype> {
        let Dimension { size, processes, process, block } = *self;
        let (first, step) = (process * block, processes * block);
        let extent = isize::try_from(inner.extent()).unwrap_or(isize::MAX);
        let bytes = |items: usize| isize::try_from(items).unwrap_or(isize::MAX).saturating_mul(extent);
        // Whole blocks, then a shorter one for the rest of the array.
        let whole = size.saturating_sub(first).saturating_add(step - block) / step;
        let begin = whole.saturating_mul(step).saturating_add(first);
        let short = size.saturating_sub(begin).min(block);
        let blocks = Datatype::hvector(whole, block, bytes(step), inner)?;
        let rest = Datatype::contiguous(short, inner)?;
        let all = Datatype::structure(&[(1, bytes(first), blocks), (1, bytes(begin), rest)])?;
        Ok(Datatype::resized(&all, 0, bytes(size))?)
    }
}

//! The accumulate family on misaligned elements, as in packed structures and after a shared
//! window's part of odd size, from all ranks at once. Neither CPUs nor devices have atomics for
//! them, so CPUs perform them under a lock, on every route. Independent of the route.

use bytemuck::{bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};
use transom::ops::{Reduction, Sum};
use transom::{Datatype, Flavor, Info};
use transom_harness::{Outcome, ensure, same};

use crate::family::CheckedElement;
use crate::pairs::Context;
use crate::support::byte_window::{ByteWindow, Shape};

/// A part of two blocks of the library's locks.
const BYTES: usize = 8192;

/// The offset of a misaligned element that is combined alone, in a pair, and in a type with an
/// aligned element before it.
const AFTER: usize = 64 + 16 + 1;

/// Adds 1 to misaligned elements by every function of the byte-level window: elements within a
/// word's neighbours, across a cache line, and across a lock's block. Aligned elements between them
/// are changed too. All sums are exact and no fetched value is torn.
pub(crate) fn sums<T: CheckedElement>(
    context: Context<'_>,
    (flavor, info): (Flavor, &Info),
    turns: usize,
    plus: fn(T, T) -> T,
) -> Outcome
where
    Sum: Reduction<T>,
{
    let (world, target, size) = (context.world, context.world.size() - 1, size_of::<T>());
    let Some(win) = ByteWindow::new(world, flavor, BYTES, info)? else { return Ok(()) };
    (context.step)(format!("misaligned sums of {}, {flavor:?}, {info:?}", T::TYPE));
    let basic = Datatype::basic(T::TYPE);
    // Elements at `AFTER - size - 1`, which is aligned, and at `AFTER`.
    let ragged = Datatype::hvector(2, 1, isize::try_from(size + 1)?, &basic)?;
    let alone = [128 - size / 2 + 1, 4096 - size / 2 - 1, 256, AFTER];
    let one = [T::number(1); 2];
    let mut added = std::collections::BTreeMap::<usize, u64>::new();
    let mut old = [T::number(0); 2];
    for turn in 0..turns {
        for (index, at) in alone.into_iter().enumerate() {
            let shape = Shape::new(1, &basic);
            let (from, to) = ((bytes_of(&one[0]), shape), (target, at, shape));
            let into = (cast_slice_mut(&mut old[..1]), shape);
            match (turn + index + world.rank()) % 7 {
                0 => win.accumulate(from, to, Sum::OP)?,
                1 => win.raccumulate(from, to, Sum::OP)?,
                2 => win.get_accumulate(from, into, to, Sum::OP)?,
                3 => win.rget_accumulate(from, into, to, Sum::OP)?,
                4 if T::SWAPS => swap_in(&win, (target, at), plus)?,
                5 => old[0] = pod_read_unaligned(&win.start_fetch(from.0, T::TYPE, target, at, Sum::OP)?),
                _ => old[0] = pod_read_unaligned(&win.fetch(from.0, T::TYPE, target, at, Sum::OP)?),
            }
            ensure(old[0].read().is_some(), &format!("{:?} is torn", old[0]))?;
            *added.entry(at).or_default() += 1;
        }
        let (two, both) = (Shape::new(2, &basic), Shape::new(1, &ragged));
        let (at, shape, second) = match turn % 3 {
            0 => (AFTER, two, AFTER + size),
            1 => (4096 - size / 2 - 1 - size, two, 4096 - size / 2 - 1),
            _ => (AFTER - size - 1, both, AFTER),
        };
        let (from, to) = ((cast_slice(&one), two), (target, at, shape));
        match (turn + world.rank()) % 2 {
            0 => win.accumulate(from, to, Sum::OP)?,
            _ => win.get_accumulate(from, (cast_slice_mut(&mut old), two), to, Sum::OP)?,
        }
        ensure(old.iter().all(|old| old.read().is_some()), &format!("{old:?} are torn"))?;
        *added.entry(at).or_default() += 1;
        *added.entry(second).or_default() += 1;
    }
    world.barrier()?;
    for (at, times) in added {
        let found: T = pod_read_unaligned(&win.read(target, at, size)?);
        let sum = T::number(times * world.size() as u64 % T::MODULUS);
        same(&format!("the sum at {at}"), &found, &sum)?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// Adds 1 by compare-and-swaps.
fn swap_in<T: CheckedElement>(win: &ByteWindow, (target, at): (usize, usize), plus: fn(T, T) -> T) -> Outcome {
    let mut seen = T::number(0);
    loop {
        let new = plus(seen, T::number(1));
        let found: T = pod_read_unaligned(&win.swap(bytes_of(&new), bytes_of(&seen), T::TYPE, target, at)?);
        if found == seen {
            return Ok(());
        }
        ensure(found.read().is_some(), &format!("{found:?} is torn"))?;
        seen = found;
    }
}

//! Long accumulates of integers by operations for which devices have no atomic, from all ranks at
//! once. A device performs them by compare-and-swap, several elements at a time. Independent of the
//! route.

use bytemuck::{cast_slice, cast_slice_mut};
use transom::{BasicType, Datatype, Flavor, Info, Op};
use transom_harness::{Outcome, ensure, same};

use crate::pairs::Context;
use crate::support::byte_window::{ByteWindow, Shape};

const TURNS: usize = 4;

/// Additions to the upper halves of words, beside bits that are set in their lower halves: sums are
/// exact, and no bit is lost or set before its call.
pub(crate) fn sums_and_bits(context: Context<'_>, (flavor, info): (Flavor, &Info), len: usize) -> Outcome {
    let (world, size) = (context.world, context.world.size());
    ensure(TURNS * size < 32, "a bit for each call")?;
    let Some(win) = ByteWindow::new(world, flavor, 8 * len, info)? else { return Ok(()) };
    let basic = Datatype::basic(BasicType::Int64);
    let shape = Shape::new(len, &basic);
    for turn in 0..TURNS {
        // Ranks begin with different targets.
        for target in (0..size).map(|step| (world.rank() + step) % size) {
            (context.step)(format!("turn {turn} at rank {target}, {flavor:?}, {info:?}"));
            let bit = 1i64 << (turn * size + world.rank());
            let (add, set, mut old) = (vec![1i64 << 32; len], vec![bit; len], vec![0i64; len]);
            win.accumulate((cast_slice(&add), shape), (target, 0, shape), Op::Sum)?;
            let (from, into) = ((cast_slice(&set), shape), (cast_slice_mut(&mut old), shape));
            win.get_accumulate(from, into, (target, 0, shape), Op::Bor)?;
            ensure(old.iter().all(|old| old & bit == 0 && old >> 32 > turn as i64), "the values before")?;
            win.accumulate((cast_slice(&set), shape), (target, 0, shape), Op::Bor)?;
        }
    }
    world.barrier()?;
    let found = win.read(world.rank(), 0, 8 * len)?;
    let all = (((TURNS * size) as i64) << 32) | ((1 << (TURNS * size)) - 1);
    same("all words", &found, &all.to_ne_bytes().repeat(len))?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Elements of the target that overlap, which forgiving windows accept: they are combined one after
/// another.
pub(crate) fn repeated_locations(context: Context<'_>, flavor: Flavor) -> Outcome {
    const PLACES: [isize; 9] = [0, 1, 0, 2, 2, 3, 1, 0, 4];
    let world = context.world;
    let Some(win) = ByteWindow::new(world, flavor, 40, &Info::new().forgiving())? else { return Ok(()) };
    let basic = Datatype::basic(BasicType::Uint64);
    let places = Datatype::indexed_block(1, &PLACES, &basic)?;
    if world.rank() == 0 {
        let mut expected = [0u64; 5];
        for (op, combine) in [(Op::Bxor, (|old, new| old ^ new) as fn(u64, u64) -> u64), (Op::Replace, |_, new| new)] {
            (context.step)(format!("{op:?}, {flavor:?}"));
            let (operands, mut old): (Vec<u64>, _) = ((0..9).map(|number| 3 << (3 * number)).collect(), [0u64; 9]);
            let (from, into) = (Shape::new(9, &basic), (cast_slice_mut(&mut old), Shape::new(9, &basic)));
            let to = (world.size() - 1, 0, Shape::new(1, &places));
            win.get_accumulate((cast_slice(&operands), from), into, to, op)?;
            let mut before = [0; 9];
            for (number, place) in PLACES.iter().enumerate() {
                let word = &mut expected[place.unsigned_abs()];
                before[number] = *word;
                *word = combine(*word, operands[number]);
            }
            same("the values before", &old, &before)?;
        }
        let found = win.read(world.size() - 1, 0, 40)?;
        same("the words", &found, &cast_slice(&expected).to_vec())?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

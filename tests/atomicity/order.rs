//! The order of one origin's accumulates on one location (MPI-4.1 §12.7.2): program order, unless a
//! hint relaxes it. Independent of the route.

use bytemuck::{cast_slice, cast_slice_mut};
use transom::ops::{NoOp, Reduction, Replace, Sum};
use transom::{Datatype, Flavor, Info, Op, Window};
use transom_harness::{Outcome, ensure, same};

use crate::family::{CheckedElement, typed};
use crate::pairs::Context;
use crate::support::byte_window::{AccumulateCall, ByteWindow};

/// The number of operations in flight at once.
const TURNS: usize = 24;

/// Sequences of writes and reads without a flush between them, on one and on `len` elements.
pub(crate) fn program_order<T: CheckedElement>(context: Context<'_>, flavor: Flavor, len: usize, info: &Info) -> Outcome
where
    Sum: Reduction<T>,
{
    let world = context.world;
    let (me, size) = (world.rank(), world.size());
    let Some(win) = typed::<T>(world, flavor, len * size, info)? else { return Ok(()) };
    // Each rank has its own elements at every target; no other rank writes them.
    let at = me * len;
    for target in 0..size {
        (context.step)(format!("order of {} at {target}, {flavor:?}, {info:?}", T::TYPE));
        // raw and waw: a read returns the sum on top of the value put before it.
        let values: Vec<_> = (0..TURNS).map(|turn| vec![T::number(turn as u64 + 10); len]).collect();
        let three = vec![T::number(3); len];
        let mut reads: Vec<_> = (0..TURNS).map(|_| vec![T::number(1); len]).collect();
        let mut firsts = vec![T::number(1); TURNS];
        win.lock_all(|epoch| {
            epoch.scope(|part| {
                for ((value, read), first) in values.iter().zip(&mut reads).zip(&mut firsts) {
                    part.accumulate(target, at, value, Replace)?;
                    part.start_fetch_and_op(target, at, T::number(4), first, Sum)?;
                    part.accumulate(target, at, &three, Sum)?;
                    part.get_atomic(target, at, read)?;
                }
                Ok(())
            })
        })?;
        for (turn, (read, first)) in reads.iter().zip(&firsts).enumerate() {
            let now = T::number(turn as u64 + 13);
            same("raw: what was put is what fetch_and_op finds", first, &T::number(turn as u64 + 10))?;
            same("waw: the sums of the first element", &read[0], &T::number(turn as u64 + 17))?;
            ensure(read[1..].iter().all(|other| *other == now), &format!("turn {turn}: {read:?} is not {now:?}"))?;
        }
        write_after_read(&win, target, at, len)?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// war: a read does not see a later write; neither does a read by another function.
fn write_after_read<T: CheckedElement>(win: &Window<T>, target: usize, at: usize, len: usize) -> Outcome
where
    Sum: Reduction<T>,
{
    let values: Vec<_> = (0..=TURNS).map(|turn| vec![T::number(turn as u64 + 50); len]).collect();
    let mut reads: Vec<_> = (0..TURNS).map(|_| vec![T::number(1); len]).collect();
    let mut singles = vec![T::number(1); TURNS];
    win.lock_all(|epoch| {
        epoch.scope(|part| part.accumulate(target, at, &values[0], Replace))?;
        epoch.scope(|part| {
            for ((value, read), single) in values[1..].iter().zip(&mut reads).zip(&mut singles) {
                part.get_atomic(target, at, read)?;
                part.start_fetch_and_op(target, at, T::zeroed(), single, NoOp)?;
                part.accumulate(target, at, value, Replace)?;
            }
            Ok(())
        })
    })?;
    for ((value, read), single) in values.iter().zip(&reads).zip(&singles) {
        same("war: an array", read, value)?;
        same("war: a single one", single, &value[0])?;
    }
    Ok(())
}

/// These sequences through the byte-level window, for untyped flavors; `len` elements.
pub(crate) fn order_of_bytes<T: CheckedElement>(
    context: Context<'_>,
    flavor: Flavor,
    len: usize,
    info: &Info,
) -> Outcome {
    let world = context.world;
    let (me, size) = (world.rank(), world.size());
    let Some(win) = ByteWindow::new(world, flavor, len * size * size_of::<T>(), info)? else { return Ok(()) };
    let ty = Datatype::basic(T::TYPE);
    for target in 0..size {
        (context.step)(format!("order of {} by bytes at {target}, {flavor:?}, {info:?}", T::TYPE));
        let all = |number: u64| vec![T::number(number); len];
        let values: Vec<_> = (0..TURNS as u64).map(|turn| all(turn + 10)).collect();
        let (three, four) = (all(3), all(4));
        let mut olds: Vec<_> = (0..2 * TURNS).map(|_| all(1)).collect();
        let mut calls = Vec::new();
        for (value, olds) in values.iter().zip(olds.chunks_mut(2)) {
            let [raw, waw] = olds else { return Err("two for each turn".into()) };
            calls.push(AccumulateCall { operand: cast_slice(value), old: None, op: Op::Replace });
            calls.push(AccumulateCall { operand: cast_slice(&four), old: Some(cast_slice_mut(raw)), op: Op::Sum });
            calls.push(AccumulateCall { operand: cast_slice(&three), old: None, op: Op::Sum });
            calls.push(AccumulateCall { operand: cast_slice(&three), old: Some(cast_slice_mut(waw)), op: Op::NoOp });
        }
        win.accumulate_all(&mut calls, &ty, target, me * len * size_of::<T>())?;
        for (turn, olds) in olds.chunks(2).enumerate() {
            same("raw: what was put is what the sum finds", &olds[0], &all(turn as u64 + 10))?;
            same("waw: the sums", &olds[1], &all(turn as u64 + 17))?;
        }
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// rar: of two reads the later one does not see an older value, while another rank increments.
pub(crate) fn reads_in_order<T: CheckedElement>(context: Context<'_>, flavor: Flavor, info: &Info) -> Outcome
where
    Sum: Reduction<T>,
{
    let world = context.world;
    let Some(win) = typed::<T>(world, flavor, 1, info)? else { return Ok(()) };
    let target = world.size() - 1;
    (context.step)(format!("reads of {} in order, {flavor:?}, {info:?}", T::TYPE));
    let mut reads = [[T::number(0)]; 2 * TURNS];
    let one = [T::number(1)];
    win.lock_all(|epoch| {
        epoch.scope(|part| {
            for (turn, read) in reads.iter_mut().enumerate() {
                match (world.rank(), turn % 2) {
                    (0, 0) => part.get_atomic(target, 0, read)?,
                    (0, _) => part.start_fetch_and_op(target, 0, T::zeroed(), &mut read[0], NoOp)?,
                    _ => part.accumulate(target, 0, &one, Sum)?,
                }
            }
            Ok(())
        })
    })?;
    let numbers: Option<Vec<_>> = reads.iter().map(|read| read[0].read()).collect();
    ensure(numbers.as_ref().is_some_and(|numbers| numbers.is_sorted()), &format!("rar: {numbers:?}"))?;
    world.barrier()?;
    let total: T = win.lock_all(|epoch| epoch.fetch_value(target, 0))?;
    same("what all counted", &total.read(), &Some((2 * TURNS * (world.size() - 1)) as u64))?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Without ordering, sums are still exact.
pub(crate) fn sums_without_order<T: CheckedElement>(
    context: Context<'_>,
    flavor: Flavor,
    len: usize,
    info: &Info,
) -> Outcome
where
    Sum: Reduction<T>,
{
    let world = context.world;
    let info = info.clone().with("accumulate_ordering", "none");
    let Some(win) = typed::<T>(world, flavor, len, &info)? else { return Ok(()) };
    same("the hint is taken", &win.info().get("accumulate_ordering"), &Some("none"))?;
    (context.step)(format!("sums of {} without order, {flavor:?}, {info:?}", T::TYPE));
    let target = world.size() - 1;
    let (one, mut olds) = (vec![T::number(1); len], vec![T::number(0); TURNS]);
    win.lock_all(|epoch| {
        epoch.scope(|part| {
            for old in &mut olds {
                part.accumulate(target, 0, &one, Sum)?;
                part.start_fetch_and_op(target, 0, T::number(1), old, Sum)?;
                part.accumulate(target, len - 1, &one[..1], Sum)?;
            }
            Ok(())
        })
    })?;
    world.barrier()?;
    let mut found = vec![T::number(0); len];
    win.lock_all(|epoch| epoch.scope(|part| part.get(target, 0, &mut found)))?;
    let each = (TURNS * world.size()) as u64;
    let mut expected = vec![T::number(each % T::MODULUS); len];
    expected[0] = T::number(2 * each % T::MODULUS);
    expected[len - 1] = expected[0];
    same("sums", &found, &expected)?;
    world.barrier()?;
    Ok(win.free()?)
}

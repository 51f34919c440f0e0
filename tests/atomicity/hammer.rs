//! All functions of the family on the same two elements, as fast as possible, from all ranks:
//! interference of two atomicity disciplines shows only between one element's load and store.
//! Independent of the route.

use bytemuck::{bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};
use transom::ops::{Reduction, Replace, Sum};
use transom::{BasicType, Complex, Datatype, Flavor, Info, Op, Window};
use transom_harness::{Outcome, ensure, same};

use crate::family::{AnyWindow, CheckedElement, Function};
use crate::pairs::Context;
use crate::support::byte_window::{ByteWindow, Shape};

/// The windows, and the number of each rank's calls to each function, which is even.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload<'a> {
    pub(crate) flavor: Flavor,
    pub(crate) info: &'a Info,
    pub(crate) turns: usize,
}

impl Workload<'_> {
    /// The calls of a rank: the function and the number of elements. Ranks begin with different
    /// functions, and all make the same number of calls to each.
    fn calls<T: CheckedElement>(&self, rank: usize) -> impl Iterator<Item = (Function, usize)> + use<T> {
        let calls = rank..rank + self.turns;
        calls.flat_map(|call| {
            let all = Function::all::<T>().enumerate();
            all.map(move |(index, function)| (function, if function.takes_many() { 1 + (call + index) % 2 } else { 1 }))
        })
    }
}

/// Adds 1 by every function in turn, on one and on two elements; the sums are exact.
pub(crate) fn sums<T: CheckedElement>(context: Context<'_>, workload: Workload<'_>, plus: fn(T, T) -> T) -> Outcome
where
    Sum: Reduction<T>,
{
    let (world, target) = (context.world, context.world.size() - 1);
    let Some(win) = AnyWindow::<T>::new(world, workload.flavor, 2, workload.info)? else { return Ok(()) };
    (context.step)(format!("sums of {}, {workload:?}", T::TYPE));
    let (one, mut old, mut added) = ([T::number(1); 2], [T::number(0); 2], [0; 2]);
    win.epoch(|epoch| {
        for (function, count) in workload.calls::<T>(world.rank()) {
            function.apply(epoch, (target, 0), &one[..count], &mut old[..count], (Sum, plus))?;
            added[..count].iter_mut().for_each(|all| *all += world.size() as u64);
        }
        Ok(())
    })?;
    world.barrier()?;
    same("the sums", &win.read(target, 2)?, &added.map(|all| T::number(all % T::MODULUS)).to_vec())?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Adds 1 to the same elements by long accumulates and, in long rows between them, by every
/// function on one element; the sums are exact. Ranks differ in the length of their rows, so that
/// single elements pass the locks of long accumulates at some times and not at others.
pub(crate) fn sums_beside_long_accumulates<T: CheckedElement>(
    context: Context<'_>,
    workload: Workload<'_>,
    plus: fn(T, T) -> T,
) -> Outcome
where
    Sum: Reduction<T>,
{
    const MANY: usize = 20;
    let (world, target) = (context.world, context.world.size() - 1);
    let Some(win) = AnyWindow::<T>::new(world, workload.flavor, MANY, workload.info)? else { return Ok(()) };
    (context.step)(format!("rows of {}, {workload:?}", T::TYPE));
    let (one, mut old, mut added) = ([T::number(1); MANY], [T::number(0); MANY], [0; MANY]);
    let all: Vec<Function> = Function::all::<T>().collect();
    let of_many: Vec<Function> = Function::all::<T>().filter(|function| function.takes_many()).collect();
    let calls = |rank: usize| {
        let (all, of_many) = (&all, &of_many);
        (0..workload.turns).map(move |turn| match turn % (100 + 40 * (rank % 4)) {
            99 => (of_many[turn % of_many.len()], MANY),
            _ => (all[turn % all.len()], 1),
        })
    };
    for (_, count) in (0..world.size()).flat_map(calls) {
        added[..count].iter_mut().for_each(|all| *all += 1);
    }
    win.epoch(|epoch| {
        for (function, count) in calls(world.rank()) {
            function.apply(epoch, (target, 0), &one[..count], &mut old[..count], (Sum, plus))?;
        }
        Ok(())
    })?;
    world.barrier()?;
    same("the sums", &win.read(target, MANY)?, &added.map(|all| T::number(all % T::MODULUS)).to_vec())?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Swaps numbers in by every function that fetches: the fetched and the final numbers are exactly
/// those that were put.
pub(crate) fn swaps<T: CheckedElement>(context: Context<'_>, workload: Workload<'_>) -> Outcome
where
    Replace: Reduction<T>,
{
    let (world, target) = (context.world, context.world.size() - 1);
    let Some(win) = AnyWindow::<T>::new(world, workload.flavor, 2, workload.info)? else { return Ok(()) };
    (context.step)(format!("swaps of {}, {workload:?}", T::TYPE));
    let totals = Window::<u64>::allocate(world, 2)?;
    let (mut put, mut seen) = (0, Some(0));
    let add = |seen: Option<u64>, elements: &[T]| elements.iter().try_fold(seen?, |sum, it| Some(sum + it.read()?));
    win.epoch(|epoch| {
        let calls = workload.calls::<T>(world.rank()).filter(|(function, _)| function.fetches());
        for (turn, (function, count)) in calls.enumerate() {
            let number = (turn * world.size() + world.rank()) as u64 % T::MODULUS;
            let (new, mut old) = ([T::number(number); 2], [T::number(0); 2]);
            function.apply(epoch, (target, 0), &new[..count], &mut old[..count], (Replace, |_, new| new))?;
            put += number * count as u64;
            seen = add(seen, &old[..count]);
        }
        Ok(())
    })?;
    let seen = seen.ok_or("an element was torn")?;
    totals.lock_all(|epoch| epoch.fetch_add(0, 0, put).and(epoch.fetch_add(0, 1, seen)))?;
    world.barrier()?;
    let [put, seen] = totals.lock_all(|epoch| Ok([epoch.fetch_value(0, 0)?, epoch.fetch_value(0, 1)?]))?;
    same("what was seen, and is there", &add(Some(seen), &win.read(target, 2)?), &Some(put))?;
    world.barrier()?;
    totals.free()?;
    Ok(win.free()?)
}

/// Replaces elements, one of which crosses a cache line, which no single store covers; no reader
/// sees a half-replaced element.
pub(crate) fn whole_elements(context: Context<'_>, workload: Workload<'_>) -> Outcome {
    const FOUR: usize = 4;
    let (world, target) = (context.world, context.world.size() - 1);
    let Some(win) = ByteWindow::new(world, workload.flavor, 128, workload.info)? else { return Ok(()) };
    (context.step)(format!("whole elements, {workload:?}"));
    let ty = Datatype::basic(BasicType::Complex64);
    let new = [Complex::<f64>::number(world.rank() as u64 + 1); FOUR];
    let (all, mut old) = (Shape::new(FOUR, &ty), [Complex::<f64>::number(0); FOUR]);
    let to = (target, ty.size() / 2, all);
    for turn in 0..10 * workload.turns {
        win.accumulate((cast_slice(&new), all), to, Op::Replace)?;
        win.get_accumulate((cast_slice(&new), all), (cast_slice_mut(&mut old), all), to, Op::NoOp)?;
        let (index, operand) = (turn % FOUR, bytes_of(&new[0]));
        let at = to.1 + index * ty.size();
        old[index] = pod_read_unaligned(&win.fetch(operand, BasicType::Complex64, target, at, Op::Replace)?);
        ensure(old.iter().all(|element| element.read().is_some()), &format!("turn {turn}: {old:?} has a torn one"))?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

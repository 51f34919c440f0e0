//! All functions of the family on the same two elements, as fast as possible, from all ranks:
//! interference of two atomicity disciplines shows only between one element's load and store.
//! Independent of the route.

use bytemuck::{bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};
use transom::ops::{Reduction, Replace, Sum};
use transom::{BasicType, Complex, Datatype, Flavor, Info, Op, Window};
use transom_harness::{Outcome, ensure, same};

use crate::family::{Function, Ground, Kind};
use crate::pairs::Stage;
use crate::support::part::{Part, Shape};

/// The windows, and the calls of each rank to each function; an even number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blows<'a> {
    pub(crate) flavor: Flavor,
    pub(crate) info: &'a Info,
    pub(crate) turns: usize,
}

impl Blows<'_> {
    /// The calls of a rank: the function and the number of elements. Ranks begin with different
    /// functions, and all make the same number of calls to each.
    fn calls<T: Kind>(&self, rank: usize) -> impl Iterator<Item = (Function, usize)> + use<T> {
        let calls = rank..rank + self.turns;
        calls.flat_map(|call| {
            let all = Function::all::<T>().enumerate();
            all.map(move |(index, function)| (function, if function.takes_many() { 1 + (call + index) % 2 } else { 1 }))
        })
    }
}

/// Adds 1 by every function in turn, on one and on two elements; the sums are exact.
pub(crate) fn sums<T: Kind>(stage: Stage<'_>, blows: Blows<'_>, plus: fn(T, T) -> T) -> Outcome
where
    Sum: Reduction<T>,
{
    let (world, target) = (stage.world, stage.world.size() - 1);
    let Some(win) = Ground::<T>::new(world, blows.flavor, 2, blows.info)? else { return Ok(()) };
    (stage.step)(format!("sums of {}, {blows:?}", T::TYPE));
    let (one, mut old, mut added) = ([T::number(1); 2], [T::number(0); 2], [0; 2]);
    win.epoch(|epoch| {
        for (function, count) in blows.calls::<T>(world.rank()) {
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
pub(crate) fn rows<T: Kind>(stage: Stage<'_>, blows: Blows<'_>, plus: fn(T, T) -> T) -> Outcome
where
    Sum: Reduction<T>,
{
    const MANY: usize = 20;
    let (world, target) = (stage.world, stage.world.size() - 1);
    let Some(win) = Ground::<T>::new(world, blows.flavor, MANY, blows.info)? else { return Ok(()) };
    (stage.step)(format!("rows of {}, {blows:?}", T::TYPE));
    let (one, mut old, mut added) = ([T::number(1); MANY], [T::number(0); MANY], [0; MANY]);
    let all: Vec<Function> = Function::all::<T>().collect();
    let of_many: Vec<Function> = Function::all::<T>().filter(|function| function.takes_many()).collect();
    let calls = |rank: usize| {
        let (all, of_many) = (&all, &of_many);
        (0..blows.turns).map(move |turn| match turn % (100 + 40 * (rank % 4)) {
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
pub(crate) fn swaps<T: Kind>(stage: Stage<'_>, blows: Blows<'_>) -> Outcome
where
    Replace: Reduction<T>,
{
    let (world, target) = (stage.world, stage.world.size() - 1);
    let Some(win) = Ground::<T>::new(world, blows.flavor, 2, blows.info)? else { return Ok(()) };
    (stage.step)(format!("swaps of {}, {blows:?}", T::TYPE));
    let totals = Window::<u64>::allocate(world, 2)?;
    let (mut put, mut seen) = (0, Some(0));
    let add = |seen: Option<u64>, elements: &[T]| elements.iter().try_fold(seen?, |sum, it| Some(sum + it.read()?));
    win.epoch(|epoch| {
        let calls = blows.calls::<T>(world.rank()).filter(|(function, _)| function.fetches());
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
pub(crate) fn whole(stage: Stage<'_>, blows: Blows<'_>) -> Outcome {
    const FOUR: usize = 4;
    let (world, target) = (stage.world, stage.world.size() - 1);
    let Some(part) = Part::new(world, blows.flavor, 128, blows.info)? else { return Ok(()) };
    (stage.step)(format!("whole elements, {blows:?}"));
    let ty = Datatype::basic(BasicType::Complex64);
    let new = [Complex::<f64>::number(world.rank() as u64 + 1); FOUR];
    let (all, mut old) = (Shape::new(FOUR, &ty), [Complex::<f64>::number(0); FOUR]);
    let to = (target, ty.size() / 2, all);
    for turn in 0..10 * blows.turns {
        part.accumulate((cast_slice(&new), all), to, Op::Replace)?;
        part.get_accumulate((cast_slice(&new), all), (cast_slice_mut(&mut old), all), to, Op::NoOp)?;
        let (index, operand) = (turn % FOUR, bytes_of(&new[0]));
        let at = to.1 + index * ty.size();
        old[index] = pod_read_unaligned(&part.fetch(operand, BasicType::Complex64, target, at, Op::Replace)?);
        ensure(old.iter().all(|element| element.read().is_some()), &format!("turn {turn}: {old:?} has a torn one"))?;
    }
    world.barrier()?;
    Ok(part.free()?)
}

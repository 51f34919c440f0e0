//! The all-pairs test of atomicity (MPI-4.1 §12.3.4, §12.7.1): two functions of the accumulate
//! family on the same elements, from all ranks at once, including the target. The expected outcome
//! is computed from the calls of each rank. Independent of the route.

use std::collections::HashSet;

use transom::ops::Reduction;
use transom::{Flavor, Info, Job, Window};
use transom_harness::{Outcome, ensure, same};

use crate::family::{AnyWindow, CheckedElement, Function};

/// A job, and the function that records a rank's position.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The job.
    pub(crate) world: &'a Job,
    /// Reports the position.
    pub(crate) step: &'a dyn Fn(String),
}

/// The windows on which the functions work, and the amount of work.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The flavor of the windows.
    pub(crate) flavor: Flavor,
    /// The hints of the windows.
    pub(crate) info: Info,
    /// Elements of a large operation.
    pub(crate) len: usize,
    /// Calls of each rank for each pair.
    pub(crate) turns: usize,
}

/// An operation, its arithmetic, and the invariant that its calls keep.
#[derive(Debug)]
struct Operation<T, R> {
    /// The operation.
    op: R,
    /// The operation's effect on an element.
    combine: fn(T, T) -> T,
    /// The invariant, which also determines the operands.
    invariant: Invariant,
}

/// The property by which concurrent calls of an operation are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    /// Every call adds 1: the sum is exact, and no two calls fetch the same value.
    Sum,
    /// Every call replaces by a unique number: each number is fetched once, or is the final one.
    Replace,
    /// Every operand is unique: the largest remains, and values only grow.
    Max,
    /// Every operand is unique: the smallest remains, and values only shrink.
    Min,
}

/// The calls of a pair, by rank and turn; the same at every rank, so that each rank knows all
/// operands.
struct Plan<'a> {
    pair: (Function, Function),
    setup: &'a Setup,
    ranks: usize,
}

/// One call: the function and the elements.
struct Step {
    function: Function,
    first: usize,
    count: usize,
}

impl Plan<'_> {
    fn step(&self, rank: usize, turn: usize) -> Step {
        let len = self.setup.len;
        // Every rank calls both functions in turn, each with few and with many elements; neighbours
        // begin with different functions.
        let function = if (turn / 2 + rank).is_multiple_of(2) { self.pair.0 } else { self.pair.1 };
        let large = function.takes_many() && (turn + rank / 2).is_multiple_of(2);
        // Calls on one element contend at the first element, and at the last one, which is in
        // another block.
        let (first, count) = if large { (0, len) } else { ([0, 0, len - 1][turn % 3], 1) };
        Step { function, first, count }
    }

    /// The elements at which all calls contend.
    fn watched(&self) -> [usize; 2] {
        [0, self.setup.len - 1]
    }

    /// The operand of the call.
    fn number<T: CheckedElement>(&self, invariant: Invariant, rank: usize, turn: usize) -> u64 {
        let own = (turn * self.ranks + rank + 1) as u64;
        match invariant {
            Invariant::Sum => 1,
            Invariant::Replace | Invariant::Max => own,
            Invariant::Min => TOP - own,
        }
    }
}

/// The initial value for MIN: above all operands, also for types with few values.
const TOP: u64 = 127;

/// Runs all pairs of functions; skips an impossible flavor.
fn all_pairs<T: CheckedElement, R: Reduction<T> + Copy>(
    context: Context<'_>,
    setup: &Setup,
    operation: &Operation<T, R>,
) -> Outcome {
    let world = context.world;
    let Some(win) = AnyWindow::new(world, setup.flavor, setup.len, &setup.info)? else { return Ok(()) };
    let seen = Window::<u64>::allocate(world, 2 * setup.turns * world.size())?;
    for first in Function::all::<T>() {
        for second in Function::all::<T>().filter(|&second| second >= first) {
            let plan = Plan { pair: (first, second), setup, ranks: world.size() };
            let what = format!("{:?} of {} by {first:?} and {second:?}, {setup:?}", operation.invariant, T::TYPE);
            (context.step)(what.clone());
            one_pair(world, &win, &seen, &plan, operation).map_err(|error| format!("{what}: {error:#}"))?;
        }
    }
    win.free()?;
    Ok(seen.free()?)
}

/// [`all_pairs`] of an operation of which `combine` is the effect on an element.
pub(crate) fn pairs_of<T: CheckedElement, R: Reduction<T> + Copy>(
    context: Context<'_>,
    setup: &Setup,
    invariant: Invariant,
    op: R,
    combine: fn(T, T) -> T,
) -> Outcome {
    all_pairs(context, setup, &Operation { op, combine, invariant })
}

/// Stands for a value that a call has not fetched.
const NOTHING: u64 = u64::MAX;

fn one_pair<T: CheckedElement, R: Reduction<T> + Copy>(
    world: &Job,
    win: &AnyWindow<T>,
    seen: &Window<u64>,
    plan: &Plan<'_>,
    operation: &Operation<T, R>,
) -> Outcome {
    let (me, setup) = (world.rank(), plan.setup);
    let target = world.size() - 1;
    let begin = if operation.invariant == Invariant::Min { TOP } else { 0 };
    if me == target {
        win.write(target, &vec![T::number(begin); setup.len])?;
    }
    world.barrier()?;
    let operands: Vec<_> = (0..setup.turns)
        .map(|turn| vec![T::number(plan.number::<T>(operation.invariant, me, turn)); setup.len])
        .collect();
    let mut olds: Vec<_> = (0..setup.turns).map(|_| vec![T::number(0); setup.len]).collect();
    win.epoch(|epoch| {
        for (turn, (operand, old)) in operands.iter().zip(&mut olds).enumerate() {
            let Step { function, first, count } = plan.step(me, turn);
            function.apply(
                epoch,
                (target, first),
                &operand[..count],
                &mut old[..count],
                (operation.op, operation.combine),
            )?;
        }
        Ok(())
    })?;
    let mine = observed(plan, me, &olds)?;
    seen.lock_all(|epoch| epoch.put(0, me * mine.len(), &mine))?;
    world.barrier()?;
    let found = win.read(target, setup.len)?;
    let found = found.iter().map(|element| element.read().ok_or(format!("torn: {element:?}")));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    check_final::<T>(plan, operation.invariant, &found)?;
    if me == 0 {
        let mut all = vec![0; mine.len() * plan.ranks];
        seen.load(0, &mut all)?;
        for (index, element) in plan.watched().into_iter().enumerate() {
            let here: Vec<_> = all.iter().copied().skip(index).step_by(2).collect();
            check_fetched::<T>(plan, operation.invariant, element, &here, found[element])
                .map_err(|error| format!("element {element}: {error:#}"))?;
        }
    }
    Ok(world.barrier()?)
}

/// The fetched numbers of the watched elements, by turn; all other elements are checked for torn
/// values.
fn observed<T: CheckedElement>(plan: &Plan<'_>, rank: usize, olds: &[Vec<T>]) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    for (turn, old) in olds.iter().enumerate() {
        let step = plan.step(rank, turn);
        let mut here = [NOTHING; 2];
        for (index, element) in old[..step.count].iter().enumerate().filter(|_| step.function.fetches()) {
            let number = element.read().ok_or(format!("turn {turn}: {element:?} at {index} is torn"))?;
            if let Some(watched) = plan.watched().iter().position(|&at| at == step.first + index) {
                here[watched] = number;
            }
        }
        all.extend(here);
    }
    Ok(all)
}

/// Checks the final value of every element.
fn check_final<T: CheckedElement>(plan: &Plan<'_>, invariant: Invariant, found: &[u64]) -> Outcome {
    let last = found.len() - 1;
    // Only calls on many elements reach those between the first and the last.
    for elements in [0..1, 1..last, last..last + 1] {
        let operands = operands::<T>(plan, invariant, elements.start);
        for element in elements {
            let (what, number) = (format!("{invariant:?} of element {element}"), found[element]);
            match invariant {
                Invariant::Sum => same(&what, &number, &(operands.len() as u64 % T::MODULUS))?,
                Invariant::Max => same(&what, &number, &operands.iter().copied().max().unwrap_or(0))?,
                Invariant::Min => same(&what, &number, &operands.iter().copied().min().unwrap_or(TOP))?,
                Invariant::Replace => {
                    let put = if operands.is_empty() { number == 0 } else { operands.contains(&number) };
                    ensure(put, &format!("{what}: {number} is not an operand"))?;
                }
            }
        }
    }
    Ok(())
}

/// Checks the fetched values of all ranks for one element: `all` by rank and turn, `last` the final
/// one.
fn check_fetched<T: CheckedElement>(
    plan: &Plan<'_>,
    invariant: Invariant,
    element: usize,
    all: &[u64],
    last: u64,
) -> Outcome {
    let observed: Vec<_> = all.iter().copied().filter(|&number| number != NOTHING).collect();
    if matches!(invariant, Invariant::Max | Invariant::Min) {
        for (rank, own) in all.chunks(plan.setup.turns).enumerate() {
            let own: Vec<_> = own.iter().filter(|&&number| number != NOTHING).collect();
            let grows = own.is_sorted_by(|a, b| if invariant == Invariant::Max { a <= b } else { a >= b });
            ensure(grows, &format!("values that rank {rank} fetched are monotonic: {own:?}"))?;
        }
        return Ok(());
    }
    let operands = operands::<T>(plan, invariant, element);
    assert!((operands.len() as u64) < T::MODULUS, "numbers are distinct");
    let distinct: HashSet<_> = observed.iter().copied().collect();
    same("values that two calls fetched", &(observed.len() - distinct.len()), &0)?;
    ensure(!distinct.contains(&last), &format!("{last} is the final value, and was also fetched"))?;
    if plan.pair.0.fetches() && plan.pair.1.fetches() {
        let mut expected: HashSet<_> = match invariant {
            Invariant::Sum => (0..=operands.len() as u64).collect(),
            _ => operands.into_iter().chain([0]).collect(),
        };
        expected.remove(&last);
        same("values fetched, each once", &distinct, &expected)?;
    }
    Ok(())
}

/// The operands of all calls on an element.
fn operands<T: CheckedElement>(plan: &Plan<'_>, invariant: Invariant, element: usize) -> Vec<u64> {
    let calls = (0..plan.ranks).flat_map(|rank| (0..plan.setup.turns).map(move |turn| (rank, turn)));
    let here = calls.filter(|&(rank, turn)| {
        let step = plan.step(rank, turn);
        (step.first..step.first + step.count).contains(&element)
    });
    here.map(|(rank, turn)| plan.number::<T>(invariant, rank, turn)).collect()
}

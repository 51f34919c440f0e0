//! Atomicity and order of the accumulate family (MPI §11.7.1-2): every pair of its functions on the same elements at the same
//! time, from all ranks, the target included, one element and many at once, checked exactly.

use std::process::ExitCode;

use transom::ops::{self, Reduction};
use transom::{Complex, Element, Info, Job, LockAllEpoch, Route, Window};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], body }
}

const TESTS: &[Test] = &[
    test("sums_by_all_functions_are_exact", &[1, 2, 5, 16], sums),
    test("swaps_form_one_chain", &[1, 2, 5], chains),
    test("replaced_elements_are_whole", &[2, 4], whole_elements),
    test("one_origins_accumulates_keep_their_order", &[1, 2, 4], order),
    test("without_order_sums_are_exact", &[2, 4], without_order),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

/// The windows on which everything is tried: of each flavor, under each discipline, and by the net where it can.
fn windows<T: Element>(world: &Job, len: usize) -> Result<Vec<(&'static str, Window<T>)>, transom::Error> {
    let by_elements = Info::new().with("mpi_accumulate_granularity", "8");
    let zeros = || vec![T::zeroed(); len];
    let mut all = vec![
        ("allocated", Window::allocate(world, len)?),
        ("created", Window::create(world, zeros())?),
        ("allocated, by elements", Window::allocate_with(world, len, &by_elements)?),
        ("created, by elements", Window::create_with(world, zeros(), &by_elements)?),
    ];
    let alone =
        (0..world.size()).all(|rank| rank == world.rank() || world.route(rank).is_ok_and(|way| way == Route::Net));
    if world.net().is_some() && alone && world.size() > 1 {
        // Every rank tries: where the provider has not all atomics, none gets the window.
        if let Ok(win) = Window::allocate_with(world, len, &Info::new().with("transom_atomics", "nic")) {
            all.push(("by the net", win));
        }
    }
    Ok(all)
}

/// How one rank adds 1 to the first `many` elements of a target.
#[derive(Clone, Copy, Debug)]
enum Adds {
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
    Request,
}

const ADDS: [Adds; 5] = [Adds::Accumulate, Adds::GetAccumulate, Adds::FetchAndOp, Adds::CompareAndSwap, Adds::Request];

fn add(epoch: &LockAllEpoch<'_, '_, i64>, how: Adds, target: usize, many: usize) -> transom::Result<()> {
    let ones = vec![1i64; many];
    let mut old = vec![0i64; many];
    match how {
        Adds::Accumulate => epoch.scope(|part| part.accumulate(target, 0, &ones, ops::Sum)),
        Adds::GetAccumulate => epoch.scope(|part| part.get_accumulate(target, 0, &ones, &mut old, ops::Sum)),
        Adds::FetchAndOp => (0..many).try_for_each(|at| epoch.fetch_add(target, at as u64, 1i64).map(drop)),
        Adds::CompareAndSwap => (0..many).try_for_each(|at| {
            let mut seen = epoch.fetch_value(target, at as u64)?;
            loop {
                let found = epoch.compare_and_swap(target, at as u64, seen, seen + 1)?;
                if found == seen {
                    return Ok(());
                }
                seen = found;
            }
        }),
        Adds::Request => epoch.scope(|part| part.raccumulate(target, 0, &ones, ops::Sum)?.wait()),
    }
}

/// Every pair of functions, with 1 element against many: ranks alternate between the two, and all additions count.
/// Shows M3, O1, O2.
fn sums(world: &Job) -> Outcome {
    const MANY: usize = 700;
    for (kind, win) in windows::<i64>(world, MANY)? {
        let (target, mut expected) = (world.size() - 1, [0i64; 2]);
        for (first, second) in ADDS.iter().flat_map(|one| ADDS.iter().map(move |other| (*one, *other))) {
            step(format!("{kind}: {first:?} against {second:?}"));
            let many = |how| if matches!(how, Adds::FetchAndOp | Adds::CompareAndSwap) { 3 } else { MANY };
            let plans = [(first, 1), (first, many(first)), (second, 1), (second, many(second))];
            let (how, len) = plans[world.rank() % 4];
            win.lock_all(|epoch| (0..4).try_for_each(|_| add(epoch, how, target, len)))?;
            world.barrier()?;
            for rank in 0..world.size() {
                let (_, len) = plans[rank % 4];
                expected[0] += 4;
                expected[1] += if len > 2 { 4 } else { 0 };
            }
            let found = win.lock_all(|epoch| Ok([epoch.fetch_value(target, 0)?, epoch.fetch_value(target, 2)?]))?;
            same(&format!("{kind}: {first:?} against {second:?}"), &found, &expected)?;
            world.barrier()?;
        }
        win.free()?;
    }
    Ok(())
}

/// Values that are swapped in: each is seen once by the next one, whoever swaps and however.
/// Shows M3, O1.
fn chains(world: &Job) -> Outcome {
    const TURNS: u64 = 60;
    let all = world.size() as u64 * TURNS + 1;
    for (kind, win) in windows::<u64>(world, 600)? {
        step(kind);
        let seen = Window::<u8>::allocate(world, usize::try_from(all)?)?;
        let mut mine = Vec::new();
        win.lock_all(|epoch| {
            for turn in 0..TURNS {
                let value = world.rank() as u64 * TURNS + turn + 1;
                if turn % 2 == 0 {
                    mine.push(epoch.swap(0, 5, value)?);
                } else {
                    // The same element within a long operation.
                    let (values, mut old) = (vec![value; 600], vec![0; 600]);
                    epoch.scope(|part| part.get_accumulate(0, 0, &values, &mut old, ops::Replace))?;
                    mine.push(old[5]);
                }
            }
            Ok(())
        })?;
        world.barrier()?;
        let last = win.lock_all(|epoch| epoch.fetch_value(0, 5))?;
        if world.rank() == 0 {
            mine.push(last);
        }
        seen.lock_all(|epoch| mine.iter().try_for_each(|&value| epoch.fetch_add(0, value, 1u8).map(drop)))?;
        world.barrier()?;
        if world.rank() == 0 {
            let mut counts = vec![0; usize::try_from(all)?];
            seen.load(0, &mut counts)?;
            ensure(counts.iter().all(|&count| count == 1), &format!("{kind}: each value was seen once"))?;
        }
        world.barrier()?;
        seen.free()?;
        win.free()?;
    }
    Ok(())
}

/// Elements whose halves must match are never seen half replaced.
/// Shows M3.
fn whole_elements(world: &Job) -> Outcome {
    for (kind, win) in windows::<Complex<f64>>(world, 300)? {
        step(kind);
        win.lock_all(|epoch| {
            for turn in 0..40u32 {
                let value = f64::from(turn * 100) + world.rank() as f64;
                let values = vec![Complex::new(value, value); 300];
                let mut found = vec![Complex::<f64>::default(); 300];
                epoch.scope(|part| part.accumulate(0, 0, &values, ops::Replace))?;
                epoch.scope(|part| part.get_atomic(0, 0, &mut found))?;
                assert!(found.iter().all(|one| one.re == one.im), "{kind}: an element is torn");
                let old = epoch.swap(0, 7, values[0])?;
                assert!(old.re == old.im, "{kind}: {old} is torn");
            }
            Ok(())
        })?;
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

/// Each origin has an element of its own; what it does to it without a flush happens in the order of its calls (rar, raw, war, waw).
/// Shows M4.
fn order(world: &Job) -> Outcome {
    for (kind, win) in windows::<i64>(world, 40 * world.size())? {
        step(kind);
        let (me, target) = (world.rank(), world.size() - 1);
        let at = |element: usize| (me * 40 + element) as u64;
        for turn in 0..30i64 {
            let (mut first, mut second, mut third) = (vec![-1; 40], vec![-1; 40], -1);
            let (fives, twos, ones) = (vec![5 + turn; 40], vec![2; 40], vec![1; 40]);
            win.lock_all(|epoch| {
                epoch.accumulate(target, at(0), &fives, ops::Replace)?;
                epoch.get_accumulate(target, at(0), &twos, &mut first, ops::Prod)?;
                epoch.get_accumulate(target, at(0), &ones, &mut second, ops::Sum)?;
                epoch.start_fetch_and_op(target, at(39), 0, &mut third, ops::NoOp)?;
                epoch.accumulate(target, at(0), &ones, ops::Sum)
            })?;
            let found = (first[0], first[39], second[0], second[39], third);
            let (replaced, doubled) = (5 + turn, 2 * (5 + turn));
            same(kind, &found, &(replaced, replaced, doubled, doubled, doubled + 1))?;
        }
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

fn sum_of<T: Element>(world: &Job, one: T, info: &Info) -> Result<T, Box<dyn std::error::Error>>
where
    ops::Sum: Reduction<T>,
    ops::NoOp: Reduction<T>,
{
    let win = Window::<T>::allocate_with(world, 100, info)?;
    let ones = vec![one; 100];
    win.lock_all(|epoch| (0..50).try_for_each(|_| epoch.accumulate(0, 0, &ones, ops::Sum)))?;
    world.barrier()?;
    let found = win.lock_all(|epoch| epoch.fetch_value(0, 99))?;
    world.barrier()?;
    win.free()?;
    Ok(found)
}

/// The hint relaxes the order and nothing else.
/// Shows M4, W6.
fn without_order(world: &Job) -> Outcome {
    let info = Info::new().with("accumulate_ordering", "none");
    let all = world.size() * 50;
    same("f64", &sum_of(world, 1.0f64, &info)?, &(all as f64))?;
    same("i32", &sum_of(world, 1i32, &info)?, &i32::try_from(all)?)?;
    same("u8, which wraps", &sum_of(world, 3u8, &info)?, &u8::try_from(3 * all % 256)?)
}

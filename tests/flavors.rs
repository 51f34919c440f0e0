//! Windows of every flavor (MPI §11.2): shared ones, dynamic ones with thousands of regions, of subsets of the ranks, a thousand at
//! once, several over one memory; what they tell of themselves, and hints.

use std::process::ExitCode;

use transom::{Assert, BasicType, Class, Flavor, Info, Job, Lock, Model, Op, PROC_NULL, RawWindow, Route, Window, ops};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], body }
}

const TESTS: &[Test] = &[
    test("shared_parts_lie_one_after_the_other", &[1, 3, 6], shared),
    test("shared_parts_may_lie_apart", &[1, 3], shared_apart),
    test("parts_of_other_windows_are_loaded_where_they_can_be", &[1, 3], query),
    test("thousands_of_regions_are_attached_and_detached", &[1, 2, 4], regions),
    test("what_is_not_attached_is_refused", &[2, 3], not_attached),
    test("windows_of_subsets", &[1, 2, 5], subsets),
    test("a_thousand_windows_at_once", &[2], thousand),
    test("two_windows_over_one_memory", &[2], overlapping),
    test("windows_tell_what_they_are", &[1, 2], attributes),
    test("hints_that_differ_are_told", &[2], different_hints),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

fn one_node(world: &Job) -> Result<bool, transom::Error> {
    (0..world.size()).try_fold(true, |all, rank| Ok(all && world.route(rank)? != Route::Net))
}

/// Each rank's part, whose sizes differ and may be 0, begins where the one before ends; over a net it is refused at every rank.
/// Shows W1, W3, W5, M1.
fn shared(world: &Job) -> Outcome {
    let len = |rank: usize| [5, 0, 1, 9][rank % 4];
    let made = Window::<u32>::allocate_shared(world, len(world.rank()), &Info::new());
    if !one_node(world)? {
        same("the class", &made.err().map(|error| error.class()), &Some(Class::RmaShared))?;
        return Ok(world.barrier()?);
    }
    let win = made?;
    let value = |rank: usize, at: usize| u32::try_from(rank * 100 + at).unwrap_or(0);
    for rank in 0..world.size() {
        same("a part's length", &win.shared_len(rank)?, &len(rank))?;
        same("where it begins", &win.shared_query(rank)?.rank(), &rank)?;
    }
    let bases: Vec<usize> = (0..world.size())
        .map(|rank| Ok(win.shared_query(rank)?.base().addr()))
        .collect::<Result<_, transom::Error>>()?;
    for rank in 1..world.size() {
        same("adjacent", &(bases[rank] - bases[rank - 1]), &(len(rank - 1) * 4))?;
    }
    let next = (world.rank() + 1) % world.size();
    let values: Vec<u32> = (0..len(next)).map(|at| value(next, at)).collect();
    win.store_to(next, 0, &values)?;
    win.sync();
    world.barrier()?;
    win.sync();
    let mut mine = vec![0; len(world.rank())];
    win.load(0, &mut mine)?;
    same("stored by the rank before", &mine, &(0..mine.len()).map(|at| value(world.rank(), at)).collect())?;
    same("the lowest part with bytes", &win.shared_query(PROC_NULL)?.rank(), &0)?;
    world.barrier()?;
    win.fence(|epoch| epoch.accumulate(0, 0, &[1; 5], ops::Sum))?;
    let mut first = [0; 5];
    win.load_from(0, 0, &mut first)?;
    let added = u32::try_from(world.size())?;
    same("sums in a shared part", &first.to_vec(), &(0..5).map(|at| value(0, at) + added).collect())?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Shows W1, W5, W6.
fn shared_apart(world: &Job) -> Outcome {
    if !one_node(world)? {
        return Ok(());
    }
    let info = Info::new().with("alloc_shared_noncontig", "true").with("mpi_minimum_alignment", "8192");
    let win = Window::<u64>::allocate_shared(world, 3, &info)?;
    same("the flavor", &win.flavor(), &Flavor::Shared)?;
    for rank in 0..world.size() {
        ensure(win.shared_query(world.rank())?.base().addr() % 8192 == 0, "its own part is aligned")?;
        win.store_to(rank, world.rank() % 3, &[world.rank() as u64 + 1])?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// Shows W5.
fn query(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 4)?;
    let reaches = world.route(next)? != Route::Net;
    match win.shared_query(next) {
        Ok(part) => ensure(reaches && part.size() == 32, "the neighbour's part")?,
        Err(error) => ensure(!reaches && error.class() == Class::RmaShared, "no load and store there")?,
    }
    let dynamic = RawWindow::create_dynamic(world, &Info::new())?;
    let refused = dynamic.shared_query(next).map(drop).map_err(|error| error.class());
    same("a dynamic window", &refused, &Err(Class::RmaFlavor))?;
    world.barrier()?;
    dynamic.free()?;
    Ok(win.free()?)
}

/// Regions are pieces of one buffer with gaps between them; their addresses go to the others by a window.
/// Shows W1, W2.
#[allow(unsafe_code)]
fn regions(world: &Job) -> Outcome {
    const COUNT: usize = 3000;
    const EACH: usize = 4;
    let mut memory = vec![0u64; COUNT * (EACH + 1)];
    let base = memory.as_mut_ptr();
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    let at = |region: usize| base.wrapping_add(region * (EACH + 1));
    for step in 0..COUNT {
        // SAFETY: the pieces are of the vector, which outlives the window and is not touched before its end.
        unsafe { win.attach(at(step * 7 % COUNT).cast(), EACH * 8)? };
    }
    let bases = Window::<u64>::allocate(world, world.size())?;
    bases.fence(|epoch| {
        (0..world.size()).try_for_each(|rank| epoch.put_value(rank, world.rank() as u64, base.addr() as u64))
    })?;
    let mut all = vec![0; world.size()];
    bases.load(0, &mut all)?;
    let next = (world.rank() + 1) % world.size();
    let theirs = |region: usize| all[next] + (region * (EACH + 1) * 8) as u64;
    win.lock_all(Assert::NONE)?;
    for region in (0..COUNT).step_by(11) {
        step(format!("region {region}"));
        let values = [region as u64 + 1; EACH];
        // SAFETY: the values outlive the flush.
        unsafe { win.put(values.as_ptr().cast(), EACH * 8, next, theirs(region))? };
        win.flush(next)?;
        let mut old = [0; 8];
        win.fetch_and_op(&1u64.to_ne_bytes(), &mut old, BasicType::Uint64, next, theirs(region) + 8, Op::Sum)?;
        same("what was put", &u64::from_ne_bytes(old), &(region as u64 + 1))?;
        let mut back = [0u64; EACH];
        // SAFETY: the buffer outlives the flush, and nobody looks at it before.
        unsafe { win.get(back.as_mut_ptr().cast(), EACH * 8, next, theirs(region))? };
        win.flush(next)?;
        same("what came back", &back, &[region as u64 + 1, region as u64 + 2, region as u64 + 1, region as u64 + 1])?;
    }
    win.unlock_all()?;
    world.barrier()?;
    for region in 0..COUNT {
        win.detach(at(region).cast::<u8>())?;
    }
    same("twice", &win.detach(at(0).cast::<u8>()).map_err(|error| error.class()), &Err(Class::RmaAttach))?;
    win.free()?;
    ensure(
        memory.iter().enumerate().all(|(index, &value)| (value == 0) != (index % 5 < 4 && index / 5 % 11 == 0)),
        "only regions",
    )?;
    Ok(bases.free()?)
}

/// Shows W1, O7, E1.
#[allow(unsafe_code)]
fn not_attached(world: &Job) -> Outcome {
    let mut memory = vec![0u64; 100];
    let base = memory.as_mut_ptr();
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    // SAFETY: the vector outlives the window.
    unsafe { win.attach(base.cast(), 400)? };
    // SAFETY: refused, since it overlaps.
    let again = unsafe { win.attach(base.wrapping_add(10).cast(), 8) };
    same("overlapping", &again.map_err(|error| error.class()), &Err(Class::RmaAttach))?;
    let bases = Window::<u64>::allocate(world, world.size())?;
    bases.fence(|epoch| {
        (0..world.size()).try_for_each(|rank| epoch.put_value(rank, world.rank() as u64, base.addr() as u64))
    })?;
    let mut all = vec![0; world.size()];
    bases.load(0, &mut all)?;
    let (next, data) = ((world.rank() + 1) % world.size(), [9u64; 2]);
    win.lock_all(Assert::NONE)?;
    for (what, at) in [("behind", 400), ("across the end", 392), ("far away", 1 << 40)] {
        step(what);
        // SAFETY: the data outlives the flush.
        let put = unsafe { win.put(data.as_ptr().cast(), 16, next, all[next] + at) }.and_then(|()| win.flush(next));
        let error = put.err().ok_or_else(|| format!("{what}: it was taken"))?;
        same(what, &error.class(), &Class::RmaRange)?;
        ensure(error.to_string().contains("16 bytes"), &error.to_string())?;
        // SAFETY: as above.
        unsafe { win.put(data.as_ptr().cast(), 16, next, all[next] + 16)? };
        win.flush(next)?;
    }
    win.unlock_all()?;
    world.barrier()?;
    win.detach(base.cast::<u8>())?;
    world.barrier()?;
    win.lock_all(Assert::NONE)?;
    let mut old = [0; 8];
    let gone = win.fetch_and_op(&1u64.to_ne_bytes(), &mut old, BasicType::Uint64, next, all[next], Op::Sum);
    same("detached", &gone.map_err(|error| error.class()), &Err(Class::RmaRange))?;
    win.unlock_all()?;
    world.barrier()?;
    win.free()?;
    same("what was written", &memory.iter().filter(|&&value| value != 0).count(), &2)?;
    Ok(bases.free()?)
}

/// Odd and even ranks, each numbered from the highest down, beside windows of all; the same ranks twice.
/// Shows W7.
fn subsets(world: &Job) -> Outcome {
    let mine: Vec<usize> = (0..world.size()).rev().filter(|rank| rank % 2 == world.rank() % 2).collect();
    let all = Window::<u64>::allocate(world, world.size())?;
    let (first, second) = (world.subset(&mine)?, world.subset(&mine)?);
    for (turn, part) in [first, second].iter().enumerate() {
        step(format!("subset {turn}"));
        same("its ranks", &(part.size(), mine[part.rank()]), &(mine.len(), world.rank()))?;
        let win = Window::<u64>::allocate(part, 2)?;
        same("its group", &win.group(), &mine)?;
        let next = (part.rank() + 1) % part.size();
        win.fence(|epoch| epoch.put_value(next, 0, world.rank() as u64 + 1))?;
        let mut found = [0; 2];
        win.load(0, &mut found)?;
        let before = mine[(part.rank() + part.size() - 1) % part.size()];
        same("put by the one before", &found[0], &(before as u64 + 1))?;
        win.lock(Lock::Shared, 0, |epoch| epoch.fetch_add(0, 1, 1u64))?;
        part.barrier()?;
        let count = win.lock(Lock::Exclusive, 0, |epoch| epoch.fetch_value(0, 1))?;
        same("counted", &count, &(part.size() as u64))?;
        part.barrier()?;
        win.free()?;
    }
    all.fence(|epoch| (0..world.size()).try_for_each(|rank| epoch.put_value(rank, world.rank() as u64, 1u64)))?;
    let mut found = vec![0; world.size()];
    all.load(0, &mut found)?;
    same("the window of all", &found, &vec![1; world.size()])?;
    same(
        "a rank that is not in it",
        &world.subset(&[world.size()]).err().map(|error| error.class()),
        &Some(Class::Rank),
    )?;
    world.barrier()?;
    Ok(all.free()?)
}

/// Shows W7.
fn thousand(world: &Job) -> Outcome {
    let windows: Vec<Window<u64>> = (0..1000).map(|_| Window::allocate(world, 1)).collect::<Result<_, _>>()?;
    let other = 1 - world.rank();
    for (number, win) in windows.iter().enumerate() {
        step(format!("window {number}"));
        win.lock_all(|epoch| epoch.put_value(other, 0, number as u64 + 7))?;
    }
    world.barrier()?;
    for (number, win) in windows.iter().enumerate() {
        win.sync();
        let mut found = [0];
        win.load(0, &mut found)?;
        same("a window's value", &found[0], &(number as u64 + 7))?;
    }
    world.barrier()?;
    for win in windows {
        win.free()?;
    }
    Ok(())
}

/// Shows W7.
#[allow(unsafe_code)]
fn overlapping(world: &Job) -> Outcome {
    let mut memory = vec![0u64; 8];
    let base = memory.as_mut_ptr();
    // SAFETY: the vector outlives both windows, and nobody touches it before they are freed.
    let (all, half) = unsafe {
        let all = RawWindow::create(world, base.cast(), 64, 8, &Info::new())?;
        (all, RawWindow::create(world, base.wrapping_add(4).cast(), 32, 4, &Info::new())?)
    };
    let other = 1 - world.rank();
    let mut old = [0; 8];
    for (win, at) in [(&all, 4), (&half, 0)] {
        win.lock_all(Assert::NONE)?;
        win.fetch_and_op(&5u64.to_ne_bytes(), &mut old, BasicType::Uint64, other, at, Op::Sum)?;
        win.unlock_all()?;
        world.barrier()?;
    }
    same("the first window's sum, seen by the second", &u64::from_ne_bytes(old), &5)?;
    all.free()?;
    half.free()?;
    same("the memory", &memory, &vec![0, 0, 0, 0, 10, 0, 0, 0])
}

/// Shows W2, W4, W6.
fn attributes(world: &Job) -> Outcome {
    let info = Info::new().with("no_locks", "true").with("nonsense", "1").with("mpi_minimum_alignment", "65536");
    let win = RawWindow::allocate(world, 100, 4, &info)?;
    same(
        "what it is",
        &(win.size(), win.disp_unit(), win.flavor(), win.model()),
        &(100, 4, Flavor::Allocate, Model::Unified),
    )?;
    ensure(win.base().addr() % 65536 == 0, "aligned")?;
    same("the group", &win.group(), &(0..world.size()).collect())?;
    let told = win.info();
    same(
        "hints",
        &(told.get("no_locks"), told.get("nonsense"), told.get("same_size")),
        &(Some("true"), None, Some("false")),
    )?;
    same("a lock", &win.lock_all(Assert::NONE).map_err(|error| error.class()), &Err(Class::LockType))?;
    win.set_info(&Info::new().with("no_locks", "false"))?;
    win.lock_all(Assert::NONE)?;
    same("free within an epoch", &win.free().map_err(|error| error.class()), &Err(Class::RmaSync))?;
    win.unlock_all()?;
    let bad = RawWindow::allocate(world, 8, 1, &Info::new().with("transom_model", "both"));
    same("a bad hint", &bad.err().map(|error| error.class()), &Some(Class::InfoValue))?;
    let dynamic = RawWindow::create_dynamic(world, &Info::new())?;
    ensure(dynamic.base().is_null(), "MPI_BOTTOM")?;
    same("a dynamic window", &(dynamic.size(), dynamic.disp_unit(), dynamic.flavor()), &(0, 1, Flavor::Dynamic))?;
    dynamic.free()?;
    Ok(win.free()?)
}

/// The barrier of creation tells: no rank has the window, and the job goes on.
/// Shows W6, E1.
fn different_hints(world: &Job) -> Outcome {
    for (key, values) in [("mpi_accumulate_granularity", ["8", "0"]), ("transom_model", ["unified", "separate"])] {
        let info = Info::new().with(key, values[world.rank()]);
        let refused = Window::<u64>::allocate_with(world, 1, &info).map(drop).map_err(|error| error.to_string());
        ensure(refused.as_ref().is_err_and(|why| why.contains(key)), &format!("{refused:?}"))?;
    }
    let win = Window::<u64>::allocate(world, 1)?;
    Ok(win.free()?)
}

//! Windows among real processes: puts, gets and counters are exact, bounds and epochs are enforced,
//! and targets that compute delay no origin. Every test runs over the route that the environment
//! chooses; ci/test runs each of them twice.

#![allow(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::ops::{Reduction, Swappable};
use transom::{Assert, BasicType, Class, Info, Job, Op, RawWindow, Route, Window, ops};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], fails: None, body }
}

static TESTS: &[Test] = &[
    test("puts_reach_the_next_rank", &[1, 2, 3, 16], puts_reach_the_next_rank),
    test("every_length_arrives_whole", &[1, 2], every_length_arrives_whole),
    test("created_windows_are_as_allocated_ones", &[1, 2, 4], created_windows),
    test("tickets_are_handed_out_once", &[1, 2, 5], tickets),
    test("compare_and_swap_counts_exactly", &[1, 2, 4], compare_and_swap),
    test("all_integer_operations", &[1, 2], integer_operations),
    test("bytes_with_requests_and_numbers", &[1, 2, 3], bytes_and_numbers),
    test("sizes_and_units_differ_by_rank", &[1, 3], sizes_and_units),
    test("accesses_outside_are_refused_and_write_nothing", &[1, 2], refusals),
    test("a_window_that_one_rank_cannot_create_is_nobodys", &[1, 2, 3, 5], failed_creation),
    test("epochs_are_checked", &[1, 2], epochs),
    test("four_gibibytes_sparse", &[1, 2], four_gibibytes),
    test("windows_come_and_go_without_growth", &[2], no_growth),
    test("a_computing_target_delays_nobody", &[2], passive_target),
    test("fences_separate_phases", &[1, 2, 7], fences),
    test("sixty_four_ranks_fence", &[64], many_fences),
    test("dropping_without_free_does_not_hang", &[2], dropped),
    test("an_unwinding_epoch_completes", &[2], unwinding),
    test("many_operations_in_flight", &[2], many_in_flight),
    test("progress_threads_exist_only_where_needed", &[2], progress_threads),
    // Shows T2.
    // Route: shm.
    Test {
        name: "user_memory_without_cross_memory_attach",
        ranks: &[2, 4],
        env: &[("TRANSOM_CMA", "n")],
        fails: None,
        body: created_windows,
    },
    Test {
        name: "atomics_by_messages",
        ranks: &[2, 5],
        env: &[("TRANSOM_ATOMICS", "cpu")],
        fails: None,
        body: tickets,
    },
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

/// MPI-4.1 §12.3.1, §12.5.3: a put is at the target after the end of its epoch and a barrier.
/// Shows W1, O1, S2.
fn puts_reach_the_next_rank(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, 2)?;
    let mut expected = [0u64; 2];
    win.load(0, &mut expected)?;
    same("fresh memory", &expected, &[0, 0])?;
    world.barrier()?;
    let values = [me as u64 + 1, 77];
    win.lock_all(|epoch| epoch.put((me + 1) % size, 0, &values))?;
    world.barrier()?;
    let mut found = [0; 2];
    win.load(0, &mut found)?;
    same("what the rank before put", &found, &[((me + size - 1) % size) as u64 + 1, 77])?;
    Ok(win.free()?)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed * 31).to_le_bytes()[0]).collect()
}

/// MPI-4.1 §12.3.1, §12.3.2: the whole data, at any alignment, and no byte beside it.
/// Shows O1.
fn every_length_arrives_whole(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let most = (1 << 20) + 9;
    let win = Window::<u8>::allocate(world, most + 64)?;
    for (turn, len) in (0..=40).chain([63, 64, 4095, 4096, 4104, 4105, 65_537, 1 << 20, (1 << 20) + 3]).enumerate() {
        let at = turn % 13;
        if world.rank() == 0 {
            step(format!("put and get of {len} bytes at {at}"));
            let data = pattern(len, turn);
            let mut back = vec![0xee; len + 2];
            win.lock_all(|epoch| {
                epoch.put(target, 0, &[0xdd; 16])?;
                epoch.put(target, at + len, &[0xdd; 8])?;
                epoch.flush(target)?;
                epoch.put(target, at, &data)?;
                epoch.flush(target)?;
                epoch.get(target, at, &mut back[1..=len])
            })?;
            same(&format!("{len} bytes back"), &(back[0], &back[1..=len], back[len + 1]), &(0xee, &data[..], 0xee))?;
        }
        world.barrier()?;
        if world.rank() == target {
            let mut found = vec![0; len + 8];
            win.load(at, &mut found)?;
            same(&format!("{len} bytes at the target"), &&found[..len], &&pattern(len, turn)[..])?;
            same("the bytes behind", &&found[len..], &&[0xdd; 8][..])?;
        }
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// MPI-4.1 §12.2.1: a window over the caller's memory, which is given back at the end.
/// Shows W1, O1.
fn created_windows(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::create(world, vec![me as u64; 3000 + me])?;
    let next = (me + 1) % size;
    let theirs = 3000 + next;
    let data: Vec<u64> = (0..2000).map(|i| (me * 10_000 + i) as u64).collect();
    let mut seen = vec![0; theirs];
    win.lock_all(|epoch| {
        step("get of the untouched part");
        epoch.scope(|part| part.get(next, 0, &mut seen))?;
        step("put");
        epoch.put(next, 500, &data)?;
        epoch.flush(next)?;
        step("atomics");
        for _ in 0..100 {
            epoch.fetch_add(0, 0, 1u64)?;
        }
        Ok(())
    })?;
    same("before the put", &seen[1..500].iter().all(|&value| value == next as u64), &true)?;
    world.barrier()?;
    win.sync();
    let mine = win.reclaim()?;
    let before = (me + size - 1) % size;
    same(
        "what the rank before put",
        &mine[500..2500].iter().copied().eq((0..2000).map(|i| (before * 10_000 + i) as u64)),
        &true,
    )?;
    same("beside it", &mine[499], &(me as u64))?;
    same("the count", &mine[0], &(if me == 0 { 100 * size as u64 } else { me as u64 }))
}

/// `fetch_and_op` of a byte-level window on a value in a register.
fn fetch(win: &RawWindow, target: usize, at: u64, op: Op, ty: BasicType, operand: u64) -> transom::Result<u64> {
    let mut old = [0; 8];
    win.fetch_and_op(&operand.to_le_bytes()[..ty.size()], &mut old[..ty.size()], ty, target, at, op)?;
    Ok(u64::from_le_bytes(old))
}

/// `compare_and_swap` of a byte-level window on values in registers.
fn swap(win: &RawWindow, target: usize, at: u64, ty: BasicType, expected: u64, new: u64) -> transom::Result<u64> {
    let mut old = [0; 8];
    let (expected, new) = (expected.to_le_bytes(), new.to_le_bytes());
    let size = ty.size();
    win.compare_and_swap(&new[..size], &expected[..size], &mut old[..size], ty, target, at)?;
    Ok(u64::from_le_bytes(old))
}

fn tickets_of<T: Swappable + Ord>(world: &Job, one: T, turns: usize, index: impl Fn(T) -> usize) -> Outcome
where
    ops::Sum: Reduction<T>,
{
    for create in [false, true] {
        let zero = <T as bytemuck::Zeroable>::zeroed();
        let win = if create { Window::create(world, vec![zero; 4])? } else { Window::<T>::allocate(world, 4)? };
        let mut mine =
            win.lock_all(|epoch| (0..turns).map(|_| epoch.fetch_add(0, 3, one)).collect::<Result<Vec<_>, _>>())?;
        world.barrier()?;
        ensure(mine.is_sorted(), "one origin's tickets grow")?;
        let taken = Window::<u8>::allocate(world, turns * world.size())?;
        taken.lock_all(|epoch| mine.drain(..).try_for_each(|ticket| epoch.put_value(0, index(ticket), 1u8)))?;
        world.barrier()?;
        if world.rank() == 0 {
            let mut seen = vec![0; turns * world.size()];
            taken.load(0, &mut seen)?;
            ensure(seen.iter().all(|&count| count == 1), "every ticket was given out")?;
        }
        taken.free()?;
        win.free()?;
    }
    Ok(())
}

/// MPI-4.1 §12.3.4, §12.7.1: fetch-and-op is atomic per element among all origins, including the
/// target.
/// Shows O1, M3.
fn tickets(world: &Job) -> Outcome {
    step("64 bits");
    tickets_of::<u64>(world, 1, 500, |ticket| usize::try_from(ticket).unwrap_or(usize::MAX))?;
    step("32 bits, signed");
    tickets_of::<i32>(world, 1, 200, |ticket| usize::try_from(ticket).unwrap_or(usize::MAX))
}

/// MPI-4.1 §12.3.4: increments by compare-and-swap lose nothing.
/// Shows O1, M3.
fn compare_and_swap(world: &Job) -> Outcome {
    let win = Window::<i64>::allocate(world, 1)?;
    let turns = 200;
    win.lock_all(|epoch| {
        let mut seen = 0;
        for turn in 0..turns {
            loop {
                step(format!("increment {turn}"));
                let found = epoch.compare_and_swap(0, 0, seen, seen + 1)?;
                let done = found == seen;
                seen = if done { seen + 1 } else { found };
                if done {
                    break;
                }
            }
        }
        Ok(())
    })?;
    world.barrier()?;
    let total = win.lock_all(|epoch| epoch.fetch_value(0, 0))?;
    same("increments", &total, &(turns * world.size() as i64))?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.3.4: SUM, REPLACE and NO_OP on each integer type; sums wrap.
/// Shows O1.
fn integer_operations(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let win = RawWindow::allocate(world, 64, 4, &Info::new())?;
    if world.rank() == 0 {
        win.lock_all(Assert::NONE)?;
        for (int, at, top) in [(BasicType::Int32, 1, u64::from(u32::MAX)), (BasicType::Int64, 2, u64::MAX)] {
            let op = |op, value| fetch(&win, target, at, op, int, value);
            same("replace", &op(Op::Replace, top)?, &0)?;
            same("read", &op(Op::NoOp, 5)?, &top)?;
            same("sum", &op(Op::Sum, 3)?, &top)?;
            same("wrapped", &op(Op::NoOp, 0)?, &2)?;
            same("swap refused", &swap(&win, target, at, int, 9, 10)?, &2)?;
            same("swap", &swap(&win, target, at, int, 2, 10)?, &2)?;
            same("swapped", &op(Op::Replace, 0)?, &10)?;
        }
        win.unlock_all()?;
    }
    world.barrier()?;
    let mut bytes = [1; 64];
    win.load(0, &mut bytes);
    same("all is back to zero, and nothing else was touched", &bytes, &[0; 64])?;
    let mut started = [0u32; 2];
    let typed = Window::<u32>::allocate(world, 2)?;
    typed.lock_all(|epoch| {
        let [first, second] = &mut started;
        epoch.start_fetch_and_op(world.rank(), 1, 6, first, ops::Sum)?;
        epoch.flush(world.rank())?;
        epoch.start_fetch_and_op(world.rank(), 1, 6, second, ops::Sum)
    })?;
    same("started ones", &started, &[0, 6])?;
    typed.free()?;
    Ok(win.free()?)
}

/// The byte-level window's short forms: requests on runs of bytes, and one element as a number.
/// Shows O1, O2, O3, O6.
fn bytes_and_numbers(world: &Job) -> Outcome {
    let (me, size) = (world.rank() as u64, world.size());
    let next = (world.rank() + 1) % size;
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    win.lock_all(Assert::NONE)?;
    let mine = (me * 1000 + 7).to_ne_bytes();
    let mut back = [0u8; 8];
    // SAFETY: `mine` and `back` live until the end of the function, past the end of the epoch.
    unsafe {
        win.rput_bytes(mine.as_ptr(), 8, next, 2)?.wait()?;
        win.flush(next)?;
        win.rget_bytes(back.as_mut_ptr(), 8, next, 2)?.wait()?;
    }
    same("what was put", &back, &mine)?;
    for _ in 0..10 {
        win.fetch_value(3, BasicType::Int64, 0, 0, Op::Sum)?;
        win.fetch_value(5, BasicType::Int32, 0, 1, Op::Sum)?;
        win.fetch_value(u64::from(u16::MAX), BasicType::Uint16, 0, 3, Op::Sum)?;
    }
    world.barrier()?;
    let read = |ty, at| win.fetch_value(0, ty, 0, at, Op::NoOp);
    same("the sum of 64 bits", &read(BasicType::Int64, 0)?, &(30 * size as u64))?;
    same("the sum of 32 bits", &read(BasicType::Int32, 1)?, &(50 * size as u64))?;
    same("the sum of 16 bits, which wraps", &read(BasicType::Uint16, 3)?, &(65536 - 10 * size as u64))?;
    same("nobody's value", &win.fetch_value(1, BasicType::Int64, transom::PROC_NULL, 0, Op::Sum)?, &0)?;
    let class = |outcome: transom::Result<u64>| outcome.err().map(|error| error.class());
    same("of 16 bytes", &class(win.fetch_value(0, BasicType::Complex64, 0, 0, Op::Sum)), &Some(Class::Type))?;
    same("bits of a real", &class(win.fetch_value(0, BasicType::Float64, 0, 0, Op::Band)), &Some(Class::Op))?;
    win.unlock_all()?;
    same("outside an epoch", &class(win.fetch_value(0, BasicType::Int64, 0, 0, Op::Sum)), &Some(Class::RmaSync))?;
    world.barrier()?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.2.1: each rank has its own size and displacement unit; size 0 is legal.
/// Shows W3, O7, S1.
fn sizes_and_units(world: &Job) -> Outcome {
    let unit = |rank: usize| 1u32 << (rank * 2);
    let size_of = |rank: usize| rank * 640;
    let win = RawWindow::allocate(world, size_of(world.rank()), unit(world.rank()), &Info::new())?;
    same("own size and unit", &(win.size(), win.disp_unit()), &(size_of(world.rank()), unit(world.rank())))?;
    win.fence(Assert::NONE)?;
    let byte = [world.rank().to_le_bytes()[0] + 1];
    for rank in 0..world.size() {
        let count = size_of(rank) as u64 / u64::from(unit(rank));
        // SAFETY: `byte` lives until the end of the function, past the closing fence.
        let put = |at| unsafe { win.put(byte.as_ptr(), 1, rank, at) };
        if count > world.rank() as u64 {
            put(world.rank() as u64)?;
        }
        ensure(put(count).is_err_and(|error| error.class() == Class::RmaRange), "the unit behind the end is outside")?;
        // SAFETY: the operation has no bytes.
        unsafe { win.put(std::ptr::null(), 0, rank, 0).and_then(|()| win.get(std::ptr::null_mut(), 0, rank, 0))? };
    }
    win.fence(Assert::NOSUCCEED)?;
    let mut mine = vec![0; win.size()];
    win.load(0, &mut mine);
    for (at, value) in mine.iter().enumerate() {
        let from = at / unit(world.rank()) as usize;
        let hit = from < world.size() && at.is_multiple_of(unit(world.rank()) as usize);
        same(&format!("byte {at}"), value, &(if hit { from.to_le_bytes()[0] + 1 } else { 0 }))?;
    }
    Ok(win.free()?)
}

/// The error names rank, displacement, length and limit; nothing is written.
/// Shows O7, E1.
fn refusals(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let win = Window::<u64>::allocate(world, 10)?;
    let data = [u64::MAX; 4];
    let mut back = [5u64; 4];
    win.lock_all(|epoch| {
        let outside = |error: Option<transom::Error>, length: usize, at: usize| {
            let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
            let parts =
                [format!("{length} bytes"), format!("displacement {at}"), format!("rank {target}"), "80 bytes".into()];
            ensure(error.is_some_and(|error| error.class() == Class::RmaRange), &format!("at {at}: {text}"))?;
            ensure(parts.iter().all(|part| text.contains(part)), &text)
        };
        let check = || -> Outcome {
            for at in [7, 10, 1 << 40, usize::MAX / 8, usize::MAX] {
                outside(epoch.put(target, at, &data).err(), 32, at)?;
                outside(epoch.fetch_add(target, at.max(10), 1u64).err(), 8, at.max(10))?;
            }
            for at in [0, 10, 11, 1 << 40, usize::MAX] {
                epoch.put(target, at, &[])?;
                epoch.accumulate(target, at, &[], ops::Sum)?;
            }
            let unknown = epoch.put(world.size(), 0, &data).err();
            let text = unknown.as_ref().map(ToString::to_string).unwrap_or_default();
            ensure(unknown.is_some_and(|error| error.class() == Class::Rank), "an unknown rank")?;
            ensure(text.contains(&format!("rank {}", world.size())), &text)
        };
        let checked = check();
        same("get outside", &epoch.scope(|part| part.get(target, 8, &mut back)).is_err(), &true)
            .and(checked)
            .map_err(|error| panic!("{error}"))
    })?;
    same("the get's buffer", &back, &[5; 4])?;
    world.barrier()?;
    let mut mine = [1; 10];
    win.load(0, &mut mine)?;
    same("the window", &mine, &[0; 10])?;
    win.free()?;
    misaligned(world, target)
}

fn misaligned(world: &Job, target: usize) -> Outcome {
    let win = RawWindow::allocate(world, 32, 1, &Info::new())?;
    win.lock_all(Assert::NONE)?;
    for (at, int, width) in [(4, BasicType::Int64, 8), (1, BasicType::Int32, 4), (2, BasicType::Int32, 4)] {
        let error = fetch(&win, target, at, Op::Sum, int, 1).err();
        let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
        ensure(error.is_some_and(|error| error.class() == Class::Type), "misaligned atomics are refused")?;
        for part in
            [format!("displacement {at}"), format!("rank {target}"), format!("{width} bytes"), "32 bytes".into()]
        {
            ensure(text.contains(&part), &text)?;
        }
    }
    win.unlock_all()?;
    world.barrier()?;
    let mut mine = [1; 32];
    win.load(0, &mut mine);
    same("nothing was added", &mine, &[0; 32])?;
    Ok(win.free()?)
}

/// The outcome of creation is collective too: no rank waits for one that did not get the window.
/// Shows E1.
fn failed_creation(world: &Job) -> Outcome {
    let last = world.rank() == world.size() - 1;
    let bad_unit = RawWindow::allocate(world, 64, u32::from(!last), &Info::new()).err();
    ensure(
        bad_unit.as_ref().is_some_and(|error| !last || error.class() == Class::Disp),
        &format!("unit: {bad_unit:?}"),
    )?;
    let too_long = Window::<u64>::allocate(world, if last { 1 << 45 } else { 8 }).err();
    ensure(
        too_long.as_ref().is_some_and(|error| !last || error.class() == Class::Size),
        &format!("size: {too_long:?}"),
    )?;
    puts_reach_the_next_rank(world)
}

/// Misuse is an error at the call, and the window keeps working.
/// Shows E2.
fn epochs(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 8, 1, &Info::new())?;
    let byte = [9u8];
    let sync = |what: &str, outcome: transom::Result<()>| {
        ensure(outcome.is_err_and(|error| error.class() == Class::RmaSync), what)
    };
    // SAFETY: `byte` lives until the end of the function; each epoch ends before.
    let put = || unsafe { win.put(byte.as_ptr(), 1, 0, 3) };
    sync("put outside an epoch", put())?;
    sync("flush outside an epoch", win.flush(0))?;
    sync("flush_all outside an epoch", win.flush_all())?;
    sync("unlock_all without lock_all", win.unlock_all())?;
    sync("fetch_and_op outside an epoch", fetch(&win, 0, 0, Op::Sum, BasicType::Int32, 1).map(drop))?;
    win.lock_all(Assert::NONE)?;
    sync("lock_all twice", win.lock_all(Assert::NONE))?;
    sync("a fence within lock_all", win.fence(Assert::NONE))?;
    win.unlock_all()?;
    win.fence(Assert::NONE)?;
    put()?;
    sync("lock_all within a fence epoch", win.lock_all(Assert::NONE))?;
    sync("a flush within a fence epoch", win.flush_local(0))?;
    sync("free within a fence epoch", win.free())?;
    win.fence(Assert::NOSUCCEED)?;
    sync("put after the last fence", put())?;
    win.lock_all(Assert::NONE)?;
    sync("free within lock_all", win.free())?;
    win.unlock_all()?;
    if world.rank() == 0 {
        let mut mine = [0; 8];
        win.load(0, &mut mine);
        same("only the legal put arrived", &mine, &[0, 0, 0, 9, 0, 0, 0, 0])?;
    }
    win.free()?;
    sync("lock_all after free", win.lock_all(Assert::NONE))?;
    sync("free after free", win.free())?;
    let typed = Window::<u8>::allocate(world, 1)?;
    let nested = typed.lock_all(|_| typed.lock_all(|_| Ok(())));
    sync("lock_all within lock_all", nested)?;
    Ok(typed.free()?)
}

/// Displacements past 2^32, in memory that has pages only where it was touched.
/// Shows W3.
fn four_gibibytes(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let size = (1usize << 32) + 4096;
    let win = Window::<u8>::allocate(world, if world.rank() == target { size } else { 0 })?;
    let far = (1usize << 32) + 100;
    if world.rank() == 0 {
        let mut back = [0; 3];
        win.lock_all(|epoch| {
            epoch.put(target, far, b"far")?;
            epoch.put(target, 100, b"near")?;
            epoch.flush_all()?;
            epoch.get(target, far, &mut back)
        })?;
        same("past 2^32", &&back, &b"far")?;
        ensure(win.lock_all(|epoch| epoch.put_value(target, size, 1u8)).is_err(), "the end is kept")?;
    }
    world.barrier()?;
    if world.rank() == target {
        let mut found = [0; 4];
        win.load(100, &mut found)?;
        same("not cut to 32 bits", &&found, &b"near")?;
        let resident = status("VmRSS:")?;
        ensure(resident < 1 << 20, &format!("{resident} KiB are resident"))?;
    }
    Ok(win.free()?)
}

/// A number from /proc/self/status.
fn status(name: &str) -> Result<usize, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with(name)).ok_or("no such line")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
}

/// 100 windows created and freed 100 times, without growth of memory, mappings or descriptors.
/// Shows W2, W7.
fn no_growth(world: &Job) -> Outcome {
    let count = || -> Result<[usize; 3], Box<dyn std::error::Error>> {
        let maps = std::fs::read_to_string("/proc/self/maps")?.lines().count();
        Ok([maps, std::fs::read_dir("/proc/self/fd")?.count(), status("VmRSS:")?])
    };
    let turn = |windows: usize| -> Outcome {
        let all = (0..windows).map(|_| Window::<u64>::allocate(world, 512)).collect::<Result<Vec<_>, _>>()?;
        for (index, win) in all.iter().enumerate() {
            win.lock_all(|epoch| epoch.put_value((world.rank() + 1) % world.size(), 5, index as u64))?;
        }
        world.barrier()?;
        for (index, win) in all.into_iter().enumerate() {
            let mut found = [0];
            win.load(5, &mut found)?;
            same("each window is its own", &found, &[index as u64])?;
            win.free()?;
        }
        Ok(())
    };
    for _ in 0..5 {
        turn(100)?;
    }
    let before = count()?;
    for round in 0..95 {
        step(format!("round {round}"));
        turn(100)?;
    }
    let after = count()?;
    same("mappings and descriptors", &after[..2].to_vec(), &before[..2].to_vec())?;
    // Providers fill their own pools for a while; a leak of one page per window would be 38 MiB.
    ensure(after[2] < before[2] + 8192, &format!("{} KiB grew to {} KiB", before[2], after[2]))
}

/// While the target computes and makes no call, all operations complete and their data is there.
/// Shows S5, M1.
fn passive_target(world: &Job) -> Outcome {
    for create in [false, true] {
        let win = if create { Window::create(world, vec![0u64; 9000])? } else { Window::<u64>::allocate(world, 9000)? };
        // First contact may need the target, so computing begins after it.
        win.lock_all(|epoch| epoch.put_value((world.rank() + 1) % 2, 8999, 1u64))?;
        world.barrier()?;
        if world.rank() == 1 {
            compute_until(&win, 4)?;
            let mut found = vec![0; 8193];
            win.load(5, &mut found)?;
            ensure(
                found[..8192].iter().all(|&value| value == 3),
                "the long put was whole before the target's next call",
            )?;
        } else {
            let long = vec![3u64; 8192];
            let mut back = [0u64; 64];
            win.lock_all(|epoch| {
                step("put of 64 KiB to a computing target");
                epoch.put(1, 5, &long)?;
                epoch.flush(1)?;
                step("get from a computing target");
                epoch.scope(|part| part.get(1, 5, &mut back))?;
                step("fetch_add at a computing target");
                let old = epoch.fetch_add(1, 1, 2u64)?;
                step("compare_and_swap at a computing target");
                let swapped = epoch.compare_and_swap(1, 1, 2u64, 6)?;
                step("the last put");
                // The target computes until it sees this value; an origin that waited for the
                // target would never write it.
                epoch.put_value(1, 0, if (old, swapped) == (0, 2) { 4u64 } else { 99 })
            })?;
            same("got from a computing target", &back, &[3; 64])?;
        }
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

/// Computes, and sometimes loads from the own memory, which makes no progress.
fn compute_until(win: &Window<u64>, expected: u64) -> Outcome {
    let (start, mut sum, mut seen) = (Instant::now(), 0u64, [0u64]);
    while seen[0] == 0 {
        for i in 0..100_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
        win.load(0, &mut seen)?;
        ensure(start.elapsed() < Duration::from_secs(30), "the origin's operations wait for the computing target")?;
    }
    same("what came while computing", &seen[0], &expected)
}

/// MPI-4.1 §12.5.1: a put before a fence is visible after it at every rank; the next phase may
/// overwrite it.
/// Shows S1.
fn fences(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, size)?;
    win.fence(|epoch| {
        for round in 0..50u64 {
            step(format!("round {round}"));
            for target in 0..size {
                epoch.put_value(target, me, round * 1000 + me as u64)?;
            }
            epoch.fence()?;
            let mut found = vec![0; size];
            win.load(0, &mut found)?;
            let expected: Vec<_> = (0..size as u64).map(|rank| round * 1000 + rank).collect();
            assert_eq!(found, expected, "after the fence of round {round}");
            epoch.fence()?;
        }
        Ok(())
    })?;
    Ok(win.free()?)
}

/// Waiting ranks sleep; only the watchdog limits the time.
/// Shows S1, S6.
fn many_fences(world: &Job) -> Outcome {
    let win = Window::<u32>::allocate(world, 100)?;
    win.fence(|epoch| {
        for round in 0..100 {
            step(format!("fence {round}"));
            epoch.put_value((world.rank() + 1) % world.size(), round, 7u32)?;
            epoch.fence()?;
        }
        Ok(())
    })?;
    let mut found = [0; 100];
    win.load(0, &mut found)?;
    same("all rounds arrived", &found, &[7; 100])?;
    Ok(win.free()?)
}

/// Dropping a window without `free` warns and never deadlocks; the memory stays for the other
/// ranks.
/// Shows W2.
fn dropped(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    if world.rank() == 1 {
        drop(win);
        world.barrier()?;
    } else {
        world.barrier()?;
        win.lock_all(|epoch| epoch.put_value(1, 0, 5u64))?;
        same("the memory is kept", &win.lock_all(|epoch| epoch.fetch_value(1, 0))?, &5)?;
        drop(win);
    }
    Ok(())
}

/// An epoch that unwinds completes its operations and closes.
/// Shows A1.
fn unwinding(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 600)?;
    if world.rank() == 0 {
        let data = vec![8u64; 600];
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            win.lock_all(|epoch| {
                epoch.put(1, 0, &data)?;
                if epoch.flush(1).is_ok() {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                Ok(())
            })
        }));
        ensure(unwound.is_err(), "the closure unwound")?;
        win.lock_all(|epoch| epoch.put_value(1, 1, 9u64))?;
    }
    world.barrier()?;
    if world.rank() == 1 {
        let mut found = [0; 3];
        win.load(0, &mut found)?;
        same("what was put before unwinding", &found, &[8, 9, 8])?;
    }
    Ok(win.free()?)
}

/// More operations in flight than any queue holds; a flush of one target, then of all.
/// Shows O1, S3.
fn many_in_flight(world: &Job) -> Outcome {
    let turns = 10_000;
    let win = Window::<u64>::allocate(world, turns)?;
    if world.rank() == 0 {
        let data: Vec<u64> = (0..turns as u64).map(|i| i * i).collect();
        let mut back = vec![0u64; turns];
        win.lock_all(|epoch| {
            step("puts");
            for (at, value) in data.chunks(1).enumerate() {
                epoch.put(1, at, value)?;
            }
            epoch.flush(1)?;
            step("gets");
            epoch.scope(|part| back.chunks_mut(1).enumerate().try_for_each(|(at, place)| part.get(1, at, place)))
        })?;
        ensure(back == data, "ten thousand gets saw ten thousand puts")?;
    }
    Ok(win.free()?)
}

/// A job that needs no progress thread starts none.
fn progress_threads(world: &Job) -> Outcome {
    let allocated = Window::<u64>::allocate(world, 1)?;
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    match world.route(1 - world.rank())? {
        // This thread and the watchdog's.
        Route::Shm => same(
            "threads with allocated windows in shared memory",
            &(threads, world.has_progress_thread()),
            &(2, false),
        )?,
        _ => ensure(threads >= 2, "threads over a net")?,
    }
    let created = Window::create(world, vec![0u64; 1])?;
    if world.route(1 - world.rank())? == Route::Shm {
        ensure(world.has_progress_thread(), "user memory of a neighbour needs one")?;
    }
    created.free()?;
    Ok(allocated.free()?)
}

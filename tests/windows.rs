//! Windows among real processes: puts, gets and counters are exact, bounds and epochs are enforced,
//! and targets that compute delay no origin. Every test runs over the route that the environment
//! chooses: ci/test runs each of them over shared memory, over TCP and over two nodes.

#![allow(unsafe_code)]

#[path = "windows/atomics.rs"]
mod atomics;
#[path = "windows/refusals.rs"]
mod refusals;
#[path = "windows/resources.rs"]
mod resources;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::{Assert, Class, Info, Job, RawWindow, Window};
use transom_harness::{Outcome, Test, ensure, same, step};

static TESTS: &[Test] = &[
    Test::new("puts_reach_the_next_rank", &[1, 2, 3, 16], puts_reach_the_next_rank),
    Test::new("every_length_arrives_whole", &[1, 2], every_length_arrives_whole),
    Test::new("created_windows_behave_as_allocated_ones", &[1, 2, 4], created_windows),
    Test::new("tickets_are_handed_out_once", &[1, 2, 5], atomics::tickets),
    Test::new("compare_and_swap_counts_exactly", &[1, 2, 4], atomics::compare_and_swap),
    Test::new("every_operation_on_integers_is_exact", &[1, 2], atomics::integer_operations),
    Test::new("requests_on_bytes_and_atomics_on_numbers", &[1, 2, 3], atomics::bytes_and_numbers),
    Test::new("sizes_and_units_differ_by_rank", &[1, 3], sizes_and_units),
    Test::new("accesses_outside_are_refused_and_write_nothing", &[1, 2], refusals::refusals),
    Test::new("creation_that_fails_at_one_rank_fails_at_all", &[1, 2, 3, 5], refusals::failed_creation),
    Test::new("epochs_are_checked", &[1, 2], refusals::epochs),
    Test::new("displacements_past_four_gibibytes", &[1, 2], resources::four_gibibytes),
    Test::new("creating_and_freeing_windows_without_growth", &[2], resources::no_growth),
    Test::new("a_computing_target_delays_no_origin", &[2], passive_target),
    Test::new("fences_separate_phases", &[1, 2, 7], fences),
    Test::new("sixty_four_ranks_fence", &[64], many_fences),
    Test::new("dropping_without_free_does_not_hang", &[2], resources::dropped),
    Test::new("an_unwinding_epoch_completes", &[2], resources::unwinding),
    Test::new("many_operations_in_flight", &[2], resources::many_in_flight),
    Test::new("progress_threads_exist_only_where_needed", &[2], resources::progress_threads),
    // Shows T2.
    // Route: shm.
    Test::new("user_memory_without_cross_memory_attach", &[2, 4], created_windows).with_env(&[("TRANSOM_CMA", "n")]),
    Test::new("atomics_by_messages", &[2, 5], atomics::tickets).with_env(&[("TRANSOM_ATOMICS", "cpu")]),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
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

/// MPI-4.1 §12.3.1, §12.3.2: the whole data, at any alignment, and no other byte.
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

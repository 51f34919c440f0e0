//! The programs of the checker's test, each without a race or with exactly one.

use super::{Case, Datatype, Job, Lock, Max, NoOp, Notice, Request, Result, Sum, Window};

/// A program without a race.
const fn right(name: &'static str, ranks: usize, body: fn(&Job) -> Result<()>) -> Case {
    Case { name, ranks, body, reported: &[], reports: 0 }
}

/// A program with one race.
const fn racy(
    name: &'static str,
    ranks: usize,
    body: fn(&Job) -> Result<()>,
    reported: &'static [&'static str],
) -> Case {
    Case { name, ranks, body, reported, reports: 1 }
}

const OVERLAP: &str = "one of two concurrent accesses changes bytes of the other (MPI-4.1 §12.7)";
const UNORDERED: &str = "No synchronization orders the two";
const IN_FLIGHT: &str = "The first is not complete when the second begins";

pub(super) const CASES: &[Case] = &[
    racy(
        "puts_of_two_origins_between_fences",
        2,
        puts_between_fences,
        &["at rank 0:", "rank 0: put of bytes 8..16, ", "rank 1: put of bytes 8..16, ", OVERLAP, UNORDERED],
    ),
    right("puts_of_two_phases", 2, puts_of_two_phases),
    right("adjacent_puts", 3, adjacent_puts),
    racy(
        "a_get_beside_a_put",
        2,
        get_beside_put,
        &["put of bytes 0..16, ", "get of bytes 8..24, ", OVERLAP, UNORDERED],
    ),
    racy("two_puts_of_one_origin", 2, two_puts, &["put of bytes 0..8, ", IN_FLIGHT]),
    right("two_puts_with_a_flush", 2, two_puts_flushed),
    racy("two_puts_with_a_local_flush", 2, two_puts_flushed_locally, &["put of bytes 0..8, ", IN_FLIGHT]),
    racy(
        "a_barrier_without_a_flush",
        2,
        barrier_without_flush,
        &["rank 0: put of bytes 0..8, ", "rank 1: get of bytes 0..8, "],
    ),
    right("a_barrier_behind_a_flush", 2, barrier_behind_flush),
    racy("a_flush_without_a_barrier", 2, flush_without_barrier, &["rank 0: put", "rank 1: put", UNORDERED]),
    racy("shared_locks", 2, |world| locked(world, Lock::Shared), &["put of bytes 0..8, ", OVERLAP, UNORDERED]),
    right("exclusive_locks", 3, |world| locked(world, Lock::Exclusive)),
    right("readers_and_a_writer_in_locks", 3, readers_and_writer),
    right("accumulates_of_one_operation", 3, |world| accumulates(world, false)),
    racy(
        "accumulates_of_two_operations",
        2,
        |world| accumulates(world, true),
        &[
            "accumulate (MPI_SUM, MPI_INT64_T) of bytes 0..16, ",
            "accumulate (MPI_MAX, MPI_INT64_T)",
            "differ in their operation",
        ],
    ),
    right("atomic_reads_of_a_sum", 3, atomic_reads),
    racy(
        "a_get_beside_an_accumulate",
        2,
        get_beside_accumulate,
        &["accumulate (MPI_SUM", "get of bytes 0..8, ", OVERLAP],
    ),
    right("a_flag_by_atomics", 2, |world| flag(world, true)),
    racy(
        "a_flag_without_a_flush",
        2,
        |world| flag(world, false),
        &["rank 0: put of bytes 8..16, ", "rank 1: get of bytes 8..16, "],
    ),
    right("a_mutex_by_compare_and_swap", 3, mutex),
    right("a_flag_by_compare_and_swap", 2, |world| swapped(world, true)),
    racy(
        "a_compare_and_swap_that_fails",
        2,
        |world| swapped(world, false),
        &["rank 0: put of bytes 8..16, ", "rank 1: get of bytes 8..16, ", UNORDERED],
    ),
    right("post_start_complete_wait", 2, |world| posted(world, true)),
    racy(
        "a_store_while_exposed",
        2,
        |world| posted(world, false),
        &["rank 0: store of bytes 0..8, ", "rank 1: put of bytes 0..8, "],
    ),
    right("gets_that_were_waited_for_together", 2, |world| requested_together(world, 1)),
    racy(
        "a_get_that_was_not_waited_for_together_with_others",
        2,
        |world| requested_together(world, 2),
        &["rank 0: get of bytes 16..24, ", "rank 1: put of bytes 16..24, "],
    ),
    right("a_get_that_was_waited_for", 2, |world| requested(world, true)),
    racy(
        "a_get_that_was_not_waited_for",
        2,
        |world| requested(world, false),
        &["rank 0: get of bytes 0..8, ", "rank 1: put of bytes 0..8, "],
    ),
    racy(
        "a_put_whose_request_was_waited_for",
        2,
        put_requested,
        &["rank 0: put of bytes 0..8, ", "rank 1: get of bytes 0..8, "],
    ),
    right("a_notified_put", 2, |world| notified(world, true)),
    racy(
        "a_notified_put_read_too_early",
        2,
        |world| notified(world, false),
        &["put of bytes 0..8, ", "load of bytes 0..16, "],
    ),
    right("interleaved_columns", 2, |world| columns(world, 1)),
    racy("overlapping_columns", 2, |world| columns(world, 0), &["put of bytes 0..8, "]),
    right("a_word_that_is_polled", 2, polled),
    right("a_polled_word_of_a_fetch_and_add", 3, counted),
    right("puts_of_many_places", 1, many_places),
    racy("many_conflicts_of_two_places", 2, many_conflicts, &["put of bytes 0..8, "]),
    right("windows_one_after_the_other", 2, windows_in_turn),
    right("a_shared_window", 2, shared_window),
];

fn puts_between_fences(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.fence(|epoch| epoch.put_value(0, 1, 7))?;
    win.free()
}

fn puts_of_two_phases(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.fence(|epoch| {
        for writer in 0..world.size() {
            if world.rank() == writer {
                epoch.put_value(0, 1, 7)?;
            }
            epoch.fence()?;
        }
        Ok(())
    })?;
    win.store(1, &[3])?;
    win.free()
}

fn adjacent_puts(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.fence(|epoch| epoch.put_value(0, world.rank(), 7))?;
    win.free()
}

fn get_beside_put(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0; 2];
    win.fence(|epoch| match world.rank() {
        0 => epoch.put(1, 0, &[1, 2]),
        _ => epoch.get(1, 1, &mut seen),
    })?;
    win.free()
}

fn two_puts(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.lock_all(|epoch| {
        if world.rank() == 1 {
            epoch.put_value(0, 0, 1)?;
            epoch.put_value(0, 0, 2)?;
        }
        Ok(())
    })?;
    win.free()
}

fn two_puts_flushed(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.lock_all(|epoch| {
        if world.rank() == 1 {
            epoch.put_value(0, 0, 1)?;
            epoch.flush(0)?;
            epoch.put_value(0, 0, 2)?;
            epoch.flush_all()?;
            epoch.put_value(0, 0, 3)?;
        }
        Ok(())
    })?;
    win.free()
}

fn two_puts_flushed_locally(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.lock_all(|epoch| {
        if world.rank() == 1 {
            epoch.put_value(0, 0, 1)?;
            epoch.flush_local(0)?;
            epoch.put_value(0, 0, 2)?;
        }
        Ok(())
    })?;
    win.free()
}

fn barrier_without_flush(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            epoch.put_value(0, 0, 1)?;
        }
        world.barrier()?;
        if world.rank() == 1 { epoch.get(0, 0, &mut seen) } else { Ok(()) }
    })?;
    win.free()
}

fn barrier_behind_flush(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            epoch.put_value(0, 0, 1)?;
            epoch.flush(0)?;
        }
        world.barrier()?;
        if world.rank() == 1 { epoch.get(0, 0, &mut seen) } else { Ok(()) }
    })?;
    win.free()
}

fn flush_without_barrier(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.lock_all(|epoch| {
        epoch.put_value(0, 0, 1)?;
        epoch.flush(0)
    })?;
    win.free()
}

fn locked(world: &Job, kind: Lock) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    for _ in 0..10 {
        win.lock(kind, 0, |epoch| epoch.put_value(0, 0, 1))?;
    }
    win.free()
}

fn readers_and_writer(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    for turn in 0..20 {
        if turn % 3 == world.rank() {
            win.lock(Lock::Exclusive, 1, |epoch| epoch.put_value(1, 2, 1))?;
        } else {
            let mut seen = [0];
            win.lock(Lock::Shared, 1, |epoch| epoch.scope(|part| part.get(1, 2, &mut seen)))?;
        }
    }
    win.lock_all(|_| Ok(()))?;
    win.free()
}

fn accumulates(world: &Job, differ: bool) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.fence(|epoch| match world.rank() {
        0 if differ => epoch.accumulate(0, 0, &[1, 2], Max),
        _ => epoch.accumulate(0, 0, &[1, 2], Sum),
    })?;
    win.free()
}

fn atomic_reads(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.lock_all(|epoch| {
        for _ in 0..10 {
            epoch.fetch_add(0, 0, 1)?;
            epoch.fetch_value(0, 0)?;
            epoch.fetch_and_op(0, 0, 0, NoOp)?;
        }
        Ok(())
    })?;
    win.free()
}

fn get_beside_accumulate(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| match world.rank() {
        0 => epoch.accumulate(0, 0, &[1], Sum),
        _ => epoch.get(0, 0, &mut seen),
    })?;
    win.free()
}

/// Rank 0 puts, then sets a flag; rank 1 waits for the flag and gets.
fn flag(world: &Job, flushed: bool) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            epoch.put_value(0, 1, 5)?;
            if flushed {
                epoch.flush(0)?;
            }
            epoch.fetch_add(0, 0, 1)?;
            return Ok(());
        }
        while epoch.fetch_value(0, 0)? == 0 {
            std::thread::yield_now();
        }
        epoch.get(0, 1, &mut seen)
    })?;
    win.free()
}

fn mutex(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.lock_all(|epoch| {
        for _ in 0..20 {
            while epoch.compare_and_swap(0, 0, 0, 1)? != 0 {
                std::thread::yield_now();
            }
            let mut seen = [0];
            epoch.scope(|part| part.get(0, 1, &mut seen))?;
            epoch.put_value(0, 1, seen[0] + 1)?;
            epoch.flush(0)?;
            epoch.swap(0, 0, 0)?;
        }
        Ok(())
    })?;
    win.free()
}

/// Rank 0 raises a flag by a compare-and-swap, which fails if `succeeds` is false. Rank 1 reads the
/// flag afterwards, as a rule: a word that was not changed orders nothing.
fn swapped(world: &Job, succeeds: bool) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            epoch.put_value(0, 1, 5)?;
            epoch.flush(0)?;
            return epoch.compare_and_swap(0, 0, if succeeds { 0 } else { 7 }, 1).map(drop);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        while epoch.fetch_value(0, 0)? == 0 && succeeds {
            std::thread::yield_now();
        }
        epoch.get(0, 1, &mut seen)
    })?;
    win.free()
}

fn posted(world: &Job, waits: bool) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    for _ in 0..3 {
        if world.rank() == 1 {
            win.start(&[0], |epoch| epoch.put_value(0, 0, 5))?;
            continue;
        }
        win.store(0, &[1])?;
        win.post(&[1])?;
        if !waits {
            win.store(0, &[2])?;
        }
        win.wait()?;
        win.store(0, &[3])?;
    }
    win.free()
}

fn requested(world: &Job, waits: bool) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            let mut get = epoch.rget(0, 0, &mut seen)?;
            if waits {
                get.wait()?;
            }
        }
        world.barrier()?;
        if world.rank() == 1 { epoch.put_value(0, 0, 1) } else { Ok(()) }
    })?;
    win.free()
}

/// Rank 0 waits for two of three gets, and rank 1 puts where one of them has read.
fn requested_together(world: &Job, which: usize) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [[0]; 3];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            let mut gets = Vec::new();
            for (place, into) in seen.iter_mut().enumerate() {
                gets.push(epoch.rget(0, place, into)?);
            }
            Request::wait_all(&mut gets[..2])?;
        }
        world.barrier()?;
        if world.rank() == 1 { epoch.put_value(0, which, 1) } else { Ok(()) }
    })?;
    win.free()
}

fn put_requested(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let (from, mut seen) = ([3], [0]);
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            Request::wait_all([&mut epoch.rput(0, 0, &from)?])?;
        }
        world.barrier()?;
        if world.rank() == 1 { epoch.get(0, 0, &mut seen) } else { Ok(()) }
    })?;
    win.free()
}

fn notified(world: &Job, waits: bool) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    win.set_num_notify(1)?;
    if world.rank() == 0 {
        win.lock_all(|epoch| epoch.put_notify(1, 0, &[9], Notice(0)))?;
    } else {
        let mut seen = [0; 2];
        if waits {
            win.notices().wait(0, 1)?;
        }
        win.load(0, &mut seen)?;
    }
    win.free()
}

/// Each rank puts a column of 8 bytes; `apart` 0: the same one.
fn columns(world: &Job, apart: usize) -> Result<()> {
    let win = Window::<i64>::allocate(world, 64)?;
    let int = Datatype::basic(transom::BasicType::Int64);
    let column = Datatype::vector(32, 1, 2, &int)?;
    let from = [1; 32];
    win.fence(|epoch| {
        epoch.put_items(&from, 32, &int, transom::At::new(0, (world.rank() * apart) as u64, 1, &column))
    })?;
    win.free()
}

/// Rank 1 polls a word, which MPI allows in the unified model, and gets what was put before.
fn polled(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 4)?;
    let mut seen = [0];
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            epoch.put_value(1, 1, 5)?;
            epoch.flush(1)?;
            epoch.put_value(1, 0, 1)?;
            return epoch.flush(1);
        }
        let mut word = [0];
        while word[0] == 0 {
            std::thread::yield_now();
            win.load(0, &mut word)?;
            win.sync();
        }
        epoch.get(1, 1, &mut seen)
    })?;
    win.free()
}

/// Rank 1 polls a word of its own part that a fetch-and-add changes, after a put into the part of
/// rank 2, and then puts there too.
fn counted(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 1)?;
    win.lock_all(|epoch| match world.rank() {
        0 => {
            epoch.put_value(2, 0, 5)?;
            epoch.flush(2)?;
            epoch.fetch_add(1, 0, 1).map(drop)
        }
        1 => {
            let mut word = [0];
            while word[0] == 0 {
                std::thread::yield_now();
                win.load(0, &mut word)?;
                win.sync();
            }
            epoch.put_value(2, 0, 6)
        }
        _ => Ok(()),
    })?;
    win.free()
}

fn many_places(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 10_000)?;
    win.lock_all(|epoch| (0..1000).try_for_each(|place| epoch.put_value(0, 10 * place, 1)))?;
    win.free()
}

fn many_conflicts(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate(world, 1000)?;
    win.fence(|epoch| (0..100).try_for_each(|place| epoch.put_value(0, 10 * place, 1)))?;
    win.free()
}

fn windows_in_turn(world: &Job) -> Result<()> {
    for writer in [0, 1, 0] {
        let win = Window::<i64>::allocate(world, 4)?;
        if world.rank() == writer {
            win.lock(Lock::Exclusive, 0, |epoch| epoch.put_value(0, 0, 1))?;
        }
        win.free()?;
    }
    Ok(())
}

fn shared_window(world: &Job) -> Result<()> {
    let win = Window::<i64>::allocate_shared(world, 2)?;
    if world.rank() == 0 {
        win.store_to(1, 0, &[4])?;
    }
    win.sync();
    world.barrier()?;
    let mut seen = [0];
    win.load_from(1, 0, &mut seen)?;
    win.free()
}

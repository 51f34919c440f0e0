//! The resources of windows: address space, memory, descriptors and threads; and windows that are
//! dropped or unwound.

use transom::{Job, Route, Window};
use transom_harness::{Outcome, bytes_of_proc, ensure, same, step};

/// Displacements past 2^32, in memory that has pages only where it was touched.
/// Shows W3.
pub(crate) fn four_gibibytes(world: &Job) -> Outcome {
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
        let resident = bytes_of_proc("/proc/self/status", "VmRSS:")?;
        ensure(resident < 1 << 30, &format!("{resident} bytes are resident"))?;
    }
    Ok(win.free()?)
}

/// 100 windows created and freed 100 times, without growth of memory, mappings or descriptors.
/// Shows W2, W7.
pub(crate) fn no_growth(world: &Job) -> Outcome {
    let count = || -> std::io::Result<([usize; 2], u64)> {
        let maps = std::fs::read_to_string("/proc/self/maps")?.lines().count();
        let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
        Ok(([maps, descriptors], bytes_of_proc("/proc/self/status", "VmRSS:")?))
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
    let (before, resident) = count()?;
    for round in 0..95 {
        step(format!("round {round}"));
        turn(100)?;
    }
    let (after, grown) = count()?;
    same("mappings and descriptors", &after, &before)?;
    // Providers fill their own pools for a while; a leak of one page per window would be 38 MiB.
    ensure(grown < resident + (8 << 20), &format!("{resident} bytes grew to {grown} bytes"))
}

/// Dropping a window without `free` warns and never deadlocks; the memory remains for the other
/// ranks.
/// Shows W2.
pub(crate) fn dropped(world: &Job) -> Outcome {
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
pub(crate) fn unwinding(world: &Job) -> Outcome {
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
pub(crate) fn many_in_flight(world: &Job) -> Outcome {
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

/// The number of this process's threads, and of those that are progress threads. Waits until there
/// are `expected` progress threads, because a new thread has its name only after it runs.
fn threads(expected: usize) -> Outcome<[usize; 2]> {
    loop {
        let mut names = Vec::new();
        for thread in std::fs::read_dir("/proc/self/task")? {
            names.push(std::fs::read_to_string(thread?.path().join("comm"))?);
        }
        // The kernel keeps 15 bytes of a name.
        let serving = names.iter().filter(|name| name.trim_end() == "transom-progres").count();
        if serving >= expected {
            return Ok([names.len(), serving]);
        }
        std::thread::yield_now();
    }
}

/// A job has a progress thread only where one is needed: over a net from the start, and within a
/// node as soon as a window has a part in user memory.
pub(crate) fn progress_threads(world: &Job) -> Outcome {
    let within_node = world.route(1 - world.rank())? == Route::Shm;
    let allocated = Window::<u64>::allocate(world, 1)?;
    same("has a progress thread", &world.has_progress_thread(), &!within_node)?;
    if within_node {
        step("no progress thread");
        // This thread and the watchdog's.
        same("all threads, and progress threads", &threads(0)?, &[2, 0])?;
    } else {
        step("the progress thread of the net");
        same("progress threads over a net", &threads(1)?[1], &1)?;
    }
    let created = Window::create(world, vec![0u64; 1])?;
    ensure(world.has_progress_thread(), "a part in user memory needs a progress thread")?;
    step("one progress thread");
    same("progress threads beside user memory", &threads(1)?[1], &1)?;
    created.free()?;
    Ok(allocated.free()?)
}

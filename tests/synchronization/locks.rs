//! Locks and flushes (MPI-4.1 §12.5.3, §12.5.4).

use std::time::{Duration, Instant};

use transom::{Assert, Class, Info, Job, Lock, Op, RawWindow, Window};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same, step};

use crate::word;

/// Adds 1 to both words of a target under its exclusive lock. Within the lock the words differ for
/// a while.
fn increment_pair(win: &Window<u64>, target: usize) -> transom::Result<()> {
    win.lock(Lock::Exclusive, target, |epoch| {
        let value = epoch.fetch_value(target, 0)? + 1;
        epoch.put_value(target, 0, value)?;
        epoch.flush(target)?;
        std::thread::yield_now();
        epoch.put_value(target, 1, value)
    })
}

/// Fails if the two words of a rank differ under `lock_all`.
fn check_pairs(win: &Window<u64>, size: usize) -> Outcome {
    let pairs = win.lock_all(|epoch| {
        let pair = |rank| Ok([epoch.fetch_value(rank, 0)?, epoch.fetch_value(rank, 1)?]);
        (0..size).map(pair).collect::<transom::Result<Vec<_>>>()
    })?;
    ensure(pairs.iter().all(|[first, second]| first == second), &format!("no half of a pair in {pairs:?}"))
}

/// MPI-4.1 §12.5.3: a counter that is read and written under exclusive locks loses no increment.
/// Shows S2.
pub(crate) fn exclusive_locks_exclude(world: &Job) -> Outcome {
    let (size, turns) = (world.size(), 60);
    let win = Window::<u64>::allocate(world, 1)?;
    for target in [0, size - 1] {
        for turn in 0..turns {
            step(format!("turn {turn} at {target}"));
            win.lock(Lock::Exclusive, target, |epoch| {
                let mut seen = [0];
                epoch.scope(|part| part.get(target, 0, &mut seen))?;
                epoch.put_value(target, 0, seen[0] + 1)
            })?;
        }
    }
    world.barrier()?;
    let times = if size == 1 { 2 } else { 1 };
    for target in [0, size - 1] {
        let count = win.lock(Lock::Shared, target, |epoch| epoch.fetch_value(target, 0))?;
        same("the counter", &count, &(times * turns * size as u64))?;
    }
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.3: shared locks are held together: each holder stays until all have reported,
/// within their locks, that they hold theirs.
/// Shows S2.
pub(crate) fn shared_locks_run_together(world: &Job) -> Outcome {
    let size = world.size() as u64;
    let win = Window::<u64>::allocate(world, 1)?;
    for turn in 1..=20 {
        step(format!("turn {turn}"));
        win.lock(Lock::Shared, 0, |epoch| {
            epoch.fetch_add(0, 0, 1u64)?;
            while epoch.fetch_value(0, 0)? < turn * size {
                std::thread::yield_now();
            }
            Ok(())
        })?;
        // The first rank to leave waits for the others.
        win.lock(Lock::Exclusive, 0, |_| Ok(()))?;
        world.barrier()?;
    }
    same("all were in", &win.lock(Lock::Shared, 0, |epoch| epoch.fetch_value(0, 0))?, &(20 * size))?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.3: many targets locked at once, shared and exclusive, unlocked in another order.
/// Shows S2.
pub(crate) fn many_targets(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = RawWindow::allocate(world, 16, 8, &Info::new())?;
    for turn in 0..20 {
        step(format!("turn {turn}"));
        for target in 0..size {
            // In the order of the ranks, so that there is no circular wait.
            let kind = if (target + me + turn).is_multiple_of(2) { Lock::Shared } else { Lock::Exclusive };
            win.lock(kind, target, Assert::NONE)?;
            fetch(&win, target, 0, Op::Sum, 1)?;
        }
        (0..size).rev().try_for_each(|target| win.unlock(target))?;
    }
    world.barrier()?;
    same("increments", &word(&win, 0), &(20 * size as u64))?;
    world.barrier()?;
    for target in 0..size {
        win.lock(Lock::Exclusive, target, Assert::NONE)?;
    }
    for target in 0..size {
        let seen = fetch(&win, target, 1, Op::NoOp, 0)?;
        fetch(&win, target, 1, Op::Replace, seen + 1)?;
        win.unlock(target)?;
    }
    world.barrier()?;
    same("read and written back", &word(&win, 1), &(size as u64))?;
    Ok(win.free()?)
}

/// A holder of one shared lock gets another one although a writer waits there. Otherwise holders
/// that lock two targets in opposite orders would deadlock through the writers that wait for them.
/// Shows S2.
pub(crate) fn opposite_orders(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    let nested = |first: usize, second: usize| {
        win.lock(Lock::Shared, first, |_| {
            std::thread::yield_now();
            win.lock(Lock::Shared, second, |inner| inner.fetch_add(second, 0, 1u64)).map(drop)
        })
    };
    let alone = |target: usize| win.lock(Lock::Exclusive, target, |epoch| epoch.fetch_add(target, 0, 1u64)).map(drop);
    for turn in 0..60 {
        step(format!("turn {turn}"));
        match world.rank() % 4 {
            0 => nested(0, 1)?,
            1 => nested(1, 0)?,
            2 => alone(0)?,
            _ => alone(1)?,
        }
    }
    world.barrier()?;
    if world.rank() < 2 {
        let mut found = [0];
        win.load(0, &mut found)?;
        same("increments", &found[0], &(60 * world.size() as u64 / 2))?;
    }
    Ok(win.free()?)
}

/// Ranks 1 and 2 hold a shared lock of rank 0, each in its window, until ranks 3 and 4 wait there
/// for exclusive locks. Then each asks for the other window's. Only processes that wait themselves
/// are in the way.
fn circle(world: &Job, shared: fn(&Window<u64>, &mut dyn FnMut() -> Outcome) -> Outcome) -> Outcome {
    let windows = [Window::<u64>::allocate(world, 1)?, Window::<u64>::allocate(world, 1)?];
    for turn in 0..3 {
        step(format!("turn {turn}"));
        match world.rank() {
            rank @ (1 | 2) => shared(&windows[rank - 1], &mut || {
                world.barrier()?;
                // The writers begin to wait.
                std::thread::sleep(Duration::from_millis(20));
                shared(&windows[2 - rank], &mut || Ok(()))
            })?,
            rank => {
                world.barrier()?;
                if rank > 2 {
                    windows[rank - 3].lock(Lock::Exclusive, 0, |epoch| epoch.fetch_add(0, 0, 1u64))?;
                }
            }
        }
        world.barrier()?;
    }
    if world.rank() == 0 {
        for win in &windows {
            let mut found = [0];
            win.load(0, &mut found)?;
            same("turns of a writer", &found, &[3])?;
        }
    }
    Ok(windows.into_iter().try_for_each(Window::free)?)
}

/// Shows S2.
pub(crate) fn readers_in_a_circle(world: &Job) -> Outcome {
    circle(world, |win, within| {
        let mut outcome = Ok(());
        win.lock(Lock::Shared, 0, |epoch| {
            // A lock without an operation may be delayed.
            epoch.fetch_value(0, 0)?;
            outcome = within();
            Ok(())
        })?;
        outcome
    })
}

/// Shows S2.
pub(crate) fn holders_in_a_circle(world: &Job) -> Outcome {
    circle(world, |win, within| {
        let mut outcome = Ok(());
        win.lock_all(|_| {
            outcome = within();
            Ok(())
        })?;
        outcome
    })
}

/// MPI-4.1 §12.5.3: `lock_all` is shared: within it no rank sees partial writes of an exclusive
/// holder, at any target.
/// Shows S2.
pub(crate) fn lock_all_excludes(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, 2)?;
    for turn in 1..=40u64 {
        step(format!("turn {turn}"));
        let target = usize::try_from(turn)? % size;
        if me % 2 == 1 {
            increment_pair(&win, target)?;
        } else {
            check_pairs(&win, size)?;
        }
    }
    world.barrier()?;
    let total = win.lock_all(|epoch| (0..size).map(|rank| epoch.fetch_value(rank, 1)).sum::<transom::Result<u64>>())?;
    same("all increments", &total, &(40 * (size as u64 / 2)))?;
    Ok(win.free()?)
}

/// Each rank locks its right neighbour so often that a lock there no longer changes the word at the
/// first rank, and now and then a second target meanwhile. One rank after the other locks all
/// targets: it sees no half of a pair, and no rank waits for ever (MPI-4.1 §12.5.3).
/// Shows S2.
pub(crate) fn few_lock_alls(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, 2)?;
    for turn in 0..12 {
        step(format!("turn {turn}"));
        (0..16).try_for_each(|_| increment_pair(&win, (me + 1) % size))?;
        if me + 1 < size {
            // In the order of ranks, so that no two wait for each other's targets.
            win.lock(Lock::Exclusive, me, |_| increment_pair(&win, me + 1))?;
        }
        if turn % size == me {
            check_pairs(&win, size)?;
        }
    }
    world.barrier()?;
    let total = win.lock_all(|epoch| (0..size).map(|rank| epoch.fetch_value(rank, 1)).sum::<transom::Result<u64>>())?;
    same("all increments", &total, &(12 * (17 * size as u64 - 1)))?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.4: each flush leaves the data at the target, which only loads; within a lock a
/// flush of another target is refused.
/// Shows S3, E2.
pub(crate) fn flushes(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 32, 8, &Info::new())?;
    let data = Window::<u64>::allocate(world, 2000)?;
    if world.rank() == 0 {
        let long = vec![5u64; 1999];
        data.lock(Lock::Shared, 1, |epoch| {
            epoch.put(1, 1, &long)?;
            epoch.flush_local(1)?;
            epoch.flush_local_all()?;
            epoch.flush(1)?;
            epoch.flush_all()?;
            epoch.sync();
            epoch.put_value(1, 0, 1u64)
        })?;
        win.lock(Lock::Exclusive, 1, Assert::NONE)?;
        for refused in [win.flush(0), win.flush_local(0)] {
            same("of a target that is not locked", &refused.map_err(|error| error.class()), &Err(Class::RmaSync))?;
        }
        fetch(&win, 1, 0, Op::Replace, 9)?;
        win.flush(1)?;
        win.flush_local(1)?;
        win.flush_all()?;
        win.flush_local_all()?;
        win.sync();
        win.unlock(1)?;
    } else {
        let mut found = vec![0; 2000];
        load_until(|| {
            data.load(0, &mut found[..1])?;
            Ok(found[0] == 1)
        })?;
        data.load(0, &mut found)?;
        ensure(found[1..].iter().all(|&value| value == 5), "what was flushed is there before what came after")?;
    }
    world.barrier()?;
    if world.rank() == 1 {
        same("the word", &word(&win, 0), &9)?;
    }
    data.free()?;
    Ok(win.free()?)
}

/// Loads until `done`, without any call that makes progress.
fn load_until(mut done: impl FnMut() -> transom::Result<bool>) -> Outcome {
    let start = Instant::now();
    while !done()? {
        for i in 0..10_000u64 {
            std::hint::black_box(i);
        }
        ensure(start.elapsed() < Duration::from_secs(30), "the origins wait for the computing target")?;
    }
    Ok(())
}

/// MPI-4.1 §12.2.1: `no_locks` refuses locks and no other call.
/// Shows S2, E1.
pub(crate) fn no_locks(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 8, 8, &Info::new().with("no_locks", "true"))?;
    let class = |outcome: transom::Result<()>| outcome.map_err(|error| error.class());
    same("lock", &class(win.lock(Lock::Shared, 0, Assert::NONE)), &Err(Class::LockType))?;
    same("lock, unchecked", &class(win.lock(Lock::Exclusive, 0, Assert::NOCHECK)), &Err(Class::LockType))?;
    same("lock_all", &class(win.lock_all(Assert::NONE)), &Err(Class::LockType))?;
    same("unlock", &class(win.unlock(0)), &Err(Class::RmaSync))?;
    win.fence(Assert::NONE)?;
    fetch(&win, (world.rank() + 1) % world.size(), 0, Op::Replace, 3)?;
    win.fence(Assert::NOSUCCEED)?;
    same("a fence works", &word(&win, 0), &3)?;
    Ok(win.free()?)
}

/// The target computes, and it also has the master word. Every lock of it is acquired and released
/// without its help.
/// Shows S5, S2.
pub(crate) fn computing_target(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 2)?;
    // First contact may need the target, so computing begins after it.
    win.lock_all(|epoch| epoch.fetch_add(0, 1, 1u64))?;
    world.barrier()?;
    if world.rank() == 0 {
        let mut seen = [0];
        load_until(|| {
            win.load(0, &mut seen)?;
            Ok(seen[0] == 2)
        })?;
    } else {
        for turn in 0..30 {
            step(format!("turn {turn}"));
            win.lock(Lock::Exclusive, 0, |epoch| {
                let seen = epoch.fetch_value(0, 1)?;
                epoch.put_value(0, 1, seen + 1)
            })?;
            win.lock(Lock::Shared, 0, |epoch| epoch.fetch_value(0, 1))?;
            win.lock_all(|epoch| epoch.flush(0))?;
        }
        win.lock(Lock::Exclusive, 0, |epoch| epoch.fetch_add(0, 0, 1u64))?;
    }
    world.barrier()?;
    if world.rank() == 0 {
        let mut found = [0; 2];
        win.load(0, &mut found)?;
        same("increments", &found, &[2, 63])?;
    }
    Ok(win.free()?)
}

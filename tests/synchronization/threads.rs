//! Synchronization calls of several threads on one window at the same time (MPI-4.1 §11.6): a
//! thread that waits blocks no other thread, and the window's state is that of some serial order of
//! the calls.

use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::Duration;

use transom::{Assert, Class, Info, Job, Lock, Op, RawWindow, Window};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same, step};

use crate::word;

/// After this time the call of another thread or rank waits.
const PAUSE: Duration = Duration::from_millis(100);

/// The outcome of a thread of the scope.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, transom::Result<T>>) -> Outcome<T> {
    Ok(thread.join().map_err(|_| "a thread panicked")??)
}

/// MPI-4.1 §12.5.3: a lock request waits for the other rank, which first needs a lock that another
/// thread releases meanwhile; the lock that remains keeps out holders of all ranks.
/// Shows S2.
pub(crate) fn lock_beside_unlock(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 16, 8, &Info::new())?;
    if world.rank() == 0 {
        win.lock(Lock::Exclusive, 0, Assert::NONE)?;
        world.barrier()?;
        thread::scope(|scope| {
            let waits = scope.spawn(|| win.lock(Lock::Exclusive, 1, Assert::NONE));
            sleep(PAUSE);
            let unlocks = scope.spawn(|| win.unlock(0));
            step("the lock and the unlock");
            joined(waits).and(joined(unlocks))
        })?;
        // A delayed lock is acquired by now.
        win.flush(1)?;
        world.barrier()?;
        sleep(PAUSE);
        fetch(&win, 1, 0, Op::Sum, 7)?;
        win.unlock(1)?;
    } else {
        win.lock(Lock::Exclusive, 1, Assert::NONE)?;
        world.barrier()?;
        step("the lock that is given up");
        win.lock(Lock::Exclusive, 0, Assert::NONE)?;
        win.unlock(0)?;
        win.unlock(1)?;
        world.barrier()?;
        win.lock_all(Assert::NONE)?;
        same("what the holder of an exclusive lock wrote, to one that holds all", &word(&win, 0), &7)?;
        win.unlock_all()?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.2: one thread's access epochs and another's exposure epochs proceed side by side.
/// Shows S1.
pub(crate) fn access_beside_exposure(world: &Job) -> Outcome {
    let (me, size, turns) = (world.rank(), world.size(), 100u64);
    let win = RawWindow::allocate(world, 8 * size, 8, &Info::new())?;
    let others: Vec<usize> = (0..size).filter(|&rank| rank != me).collect();
    thread::scope(|scope| {
        let accesses = scope.spawn(|| {
            for _ in 0..turns {
                win.start(&others, Assert::NONE)?;
                others.iter().try_for_each(|&to| fetch(&win, to, me as u64, Op::Sum, 1).map(drop))?;
                win.complete()?;
            }
            Ok(())
        });
        let exposes = scope.spawn(|| {
            for turn in 0..turns {
                win.post(&others, Assert::NONE)?;
                if turn % 2 == 0 {
                    win.wait()?;
                } else {
                    while !win.test()? {
                        thread::yield_now();
                    }
                }
            }
            Ok(())
        });
        joined(accesses).and(joined(exposes))
    })?;
    for &from in &others {
        same("what the others added", &word(&win, from), &turns)?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.3: threads lock different targets of one window, in every mode, and no count is
/// lost.
/// Shows S2.
pub(crate) fn locks_of_many_threads(world: &Job) -> Outcome {
    let (me, size, turns) = (world.rank(), world.size(), 200);
    let win = RawWindow::allocate(world, 16, 8, &Info::new())?;
    // A process locks a target once at a time.
    let free: Vec<_> = (0..size).map(|_| Mutex::new(())).collect();
    let turn = |number: usize| -> transom::Result<()> {
        let target = (number * 7 + number / size + me) % size;
        let _mine = free[target].lock();
        let kind = if number.is_multiple_of(3) { Lock::Shared } else { Lock::Exclusive };
        win.lock(kind, target, Assert::NONE)?;
        fetch(&win, target, 0, Op::Sum, 1)?;
        if kind == Lock::Exclusive {
            let seen = fetch(&win, target, 1, Op::NoOp, 0)?;
            fetch(&win, target, 1, Op::Replace, seen + 1)?;
        }
        win.unlock(target)
    };
    thread::scope(|scope| {
        let body = |first: usize| (first..first + turns).try_for_each(&turn);
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || body(number * turns))).collect();
        threads.into_iter().try_for_each(joined)
    })?;
    world.barrier()?;
    let (mut all, mut alone) = (0, 0);
    for target in 0..size {
        win.lock(Lock::Shared, target, Assert::NONE)?;
        all += fetch(&win, target, 0, Op::NoOp, 0)?;
        alone += fetch(&win, target, 1, Op::NoOp, 0)?;
        win.unlock(target)?;
    }
    let exclusive = (0..4 * turns).filter(|number| !number.is_multiple_of(3)).count();
    same(
        "additions, and those under exclusive locks",
        &(all, alone),
        &((4 * turns * size) as u64, (exclusive * size) as u64),
    )?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Two threads lock the same target at the same time, which is an error at one of them at most, so
/// that the other one has the lock; the lock is free in the end.
/// Shows S2, E1.
pub(crate) fn locks_of_one_target(world: &Job) -> Outcome {
    const TURNS: u32 = 200;
    let win = RawWindow::allocate(world, 8, 8, &Info::new())?;
    let target = world.size() - 1;
    // The number of locks that a thread had.
    let body = || -> transom::Result<u32> {
        let mut locks = 0;
        for turn in 0..TURNS {
            let kind = if turn % 2 == 0 { Lock::Shared } else { Lock::Exclusive };
            match win.lock(kind, target, Assert::NONE) {
                Ok(()) => win.unlock(target)?,
                Err(error) if error.class() == Class::RmaSync => continue,
                Err(error) => return Err(error),
            }
            locks += 1;
        }
        Ok(locks)
    };
    let locks = thread::scope(|scope| {
        let threads = [scope.spawn(body), scope.spawn(body)];
        threads.map(joined).into_iter().sum::<Outcome<u32>>()
    })?;
    ensure(locks > 0, "a thread without an error")?;
    world.barrier()?;
    step("a free lock");
    win.lock(Lock::Exclusive, target, Assert::NONE)?;
    win.unlock(target)?;
    win.lock_all(Assert::NONE)?;
    win.unlock_all()?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Two threads of one rank in collective calls of one job: the second one gets an error, because
/// the matching of their calls would be ambiguous.
/// Shows E1.
pub(crate) fn barriers_at_once(world: &Job) -> Outcome {
    let go = Window::<u64>::allocate(world, 1)?;
    if world.rank() > 0 {
        go.lock_all(|epoch| {
            while epoch.fetch_value(world.rank(), 0)? == 0 {
                thread::yield_now();
            }
            Ok(())
        })?;
        world.barrier()?;
        return Ok(go.free()?);
    }
    thread::scope(|scope| {
        let [mut first, mut second] = [(); 2].map(|()| scope.spawn(|| world.barrier()));
        while !first.is_finished() && !second.is_finished() {
            thread::yield_now();
        }
        if first.is_finished() {
            std::mem::swap(&mut first, &mut second);
        }
        let error = second.join().map_err(|_| "a thread panicked")?.err().ok_or("a second barrier at once")?;
        ensure(error.class() == Class::Arg && error.to_string().contains("subset_tagged"), "the reason")?;
        let error = RawWindow::allocate(world, 8, 8, &Info::new()).err().ok_or("a window within a barrier")?;
        same("its class", &error.class(), &Class::Arg)?;
        go.lock_all(|epoch| (1..world.size()).try_for_each(|rank| epoch.put_value(rank, 0, 1)))?;
        joined(first)
    })?;
    Ok(go.free()?)
}

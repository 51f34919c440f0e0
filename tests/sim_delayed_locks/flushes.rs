//! Calls that complete operations while another thread of the process has delayed a lock: the
//! operations that they perform, and the operations for which they wait.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transom::ops::Sum;
use transom::{Assert, Lock, LockEpoch, PROC_NULL, Window};

use super::simulated::{Rank, await_flag, peer, raise, run, same};
use super::{beside_a_holder, delay_locks, net};

/// A second thread completes the operations of a window on which the first thread has delayed a
/// lock. No operation waits for the lock, which another rank holds, so the second thread does not
/// wait for it either. Regression: the second thread took the lock.
/// Shows S2.
#[test]
fn a_flush_does_not_wait_for_a_lock_that_another_thread_has_delayed() {
    let changed = AtomicBool::new(false);
    run(3, &net(), move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        beside_a_holder(world, &win, &changed, || {
            let second = win.lock(Lock::Shared, 2, |epoch| {
                let flushes = || epoch.flush_all().and(epoch.flush(2)).and(epoch.scope(|_| Ok(())));
                let done = std::thread::scope(|threads| threads.spawn(flushes).join().expect("no thread panics"));
                raise(&changed);
                done.and(epoch.accumulate(2, 1, &[1], Sum))
            });
            Ok(second?)
        })?;
        world.barrier()?;
        let mut found = [0; 4];
        win.load(0, &mut found)?;
        same("additions", &found, &if world.rank() == 2 { [0, 1, 0, 1] } else { [0; 4] })?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// The first thread waits in a call for a delayed lock, which another rank holds, and for the
/// result of its operation. A flush of a second thread does not wait for this call, which has not
/// returned.
/// Shows S2.
#[test]
fn a_flush_does_not_wait_for_a_call_of_another_thread() {
    let changed = AtomicBool::new(false);
    run(3, &net(), move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        beside_a_holder(world, &win, &changed, || {
            let found = win.lock(Lock::Shared, 2, |epoch| {
                let before = world.counters().messages;
                let flushes = || {
                    while world.counters().messages == before {
                        std::thread::yield_now();
                    }
                    let done = epoch.flush_all().and(epoch.flush(2)).and(epoch.scope(|_| Ok(())));
                    raise(&changed);
                    done
                };
                std::thread::scope(|threads| {
                    let second = threads.spawn(flushes);
                    let found = epoch.fetch_add(2, 3, 2);
                    second.join().expect("no thread panics").and(found)
                })
            })?;
            same("the value that the holder put", &found, &1)
        })?;
        world.barrier()?;
        let mut found = [0; 4];
        win.load(0, &mut found)?;
        same("the sum", &found[3], &if world.rank() == 2 { 3 } else { 0 })?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// A second thread, which has locked another window, flushes the target whose lock the first thread
/// has delayed, or all targets, or ends a scope. The first thread's operation is then performed: a
/// flush completes the operations of all threads of the process. Regression: the flush left it to
/// the first thread.
/// Shows S2, O4.
#[test]
fn a_flush_performs_what_another_thread_has_delayed() {
    type Flush = fn(&LockEpoch<'_, '_, u64>) -> transom::Result<()>;
    const FLUSHES: [Flush; 5] = [
        |epoch| epoch.flush(1),
        |epoch| epoch.flush_local(1),
        |epoch| epoch.flush_all(),
        |epoch| epoch.flush_local_all(),
        |epoch| epoch.scope(|_| Ok(())),
    ];
    for (number, flush) in FLUSHES.into_iter().enumerate() {
        let [flushed, seen] = [const { AtomicBool::new(false) }; 2];
        run(2, &net(), move |world| {
            let [win, other] = [Window::<u64>::allocate(world, 4)?, Window::<u64>::allocate(world, 4)?];
            world.barrier()?;
            if world.rank() == 0 {
                delay_locks(&win, Lock::Shared, 1)?;
                win.lock(Lock::Shared, 1, |epoch| {
                    epoch.accumulate(1, 0, &[7], Sum)?;
                    let flushes = || other.lock(Lock::Shared, 1, |_| Ok(())).and(flush(epoch));
                    let done = std::thread::scope(|threads| threads.spawn(flushes).join().expect("no thread panics"));
                    raise(&flushed);
                    await_flag(&seen);
                    done
                })?;
            } else {
                await_flag(&flushed);
                win.sync();
                let mut found = [0; 4];
                win.load(0, &mut found)?;
                raise(&seen);
                same(&format!("additions before the unlock, flush {number}"), &found[0], &7)?;
            }
            world.barrier()?;
            other.free()?;
            Ok(win.free()?)
        });
    }
}

/// Within the epoch of a delayed lock another epoch is opened whose own lock needs no wait. Its end
/// returns the buffer of a get of the outer epoch's target with the data. Regression: the data came
/// at the end of the outer epoch, after the buffer was returned.
/// Shows S2, E1.
#[test]
fn an_inner_epoch_without_a_lock_to_wait_for_returns_buffers_with_their_data() {
    run(3, &net(), |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        win.store(0, &[10 + world.rank() as u64])?;
        world.barrier()?;
        if world.rank() == 0 {
            delay_locks(&win, Lock::Shared, 1)?;
            for (inner, assert) in [(2, Assert::NOCHECK), (PROC_NULL, Assert::NONE)] {
                let found = win.lock(Lock::Shared, 1, |_| {
                    let mut found = [0];
                    win.lock_with(Lock::Shared, inner, assert, |epoch| epoch.get(1, 0, &mut found))?;
                    Ok(found)
                })?;
                same(&format!("within the lock of {inner}"), &found, &[11])?;
                delay_locks(&win, Lock::Shared, 1)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// A get of the second thread waits for the lock that the first thread has delayed. The second
/// thread's buffer has the data as soon as the buffer is returned: at the end of a scope, whose
/// body may panic, and at the end of the second thread's epoch at another target.
/// Shows S2, E1.
#[test]
fn buffers_return_with_the_data_of_gets_that_wait_for_a_lock_of_another_thread() {
    type Gets = fn(&Window<u64>, &LockEpoch<'_, '_, u64>, &mut [u64; 1]) -> transom::Result<()>;
    const GETS: [Gets; 3] = [
        |_, epoch, seen| epoch.scope(|part| part.get(1, 0, seen)),
        |_, epoch, seen| {
            let panics = || epoch.scope(|part| part.get(1, 0, seen).map(|()| std::panic::resume_unwind(Box::new(()))));
            let ended: std::thread::Result<transom::Result<()>> = std::panic::catch_unwind(AssertUnwindSafe(panics));
            ended.unwrap_or(Ok(()))
        },
        |win, _, seen| win.lock(Lock::Shared, 2, |epoch| epoch.get(1, 0, seen)),
    ];
    for (number, gets) in GETS.into_iter().enumerate() {
        run(3, &net(), move |world| {
            let win = Window::<u64>::allocate(world, 4)?;
            win.store(0, &[5; 4])?;
            world.barrier()?;
            if world.rank() == 0 {
                delay_locks(&win, Lock::Shared, 1)?;
                let seen = win.lock(Lock::Shared, 1, |epoch| {
                    epoch.put_value(1, 1, 6)?;
                    let second = || {
                        let mut seen = [9];
                        gets(&win, epoch, &mut seen).map(|()| seen)
                    };
                    std::thread::scope(|threads| threads.spawn(second).join().expect("no thread panics"))
                })?;
                same(&format!("the data, get {number}"), &seen, &[5])?;
            }
            world.barrier()?;
            let mut found = [0; 2];
            win.load(0, &mut found)?;
            same("the put", &found[1], &if world.rank() == 1 { 6 } else { 5 })?;
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// A get of the second thread waits for a delayed lock, which another rank holds. The first thread
/// waits for the lock, and performs the get then. The second thread learns meanwhile that a further
/// rank is lost. It gets its buffer back only after the get. Regression: the buffer was returned,
/// and the get wrote into it later.
/// Shows E1.
#[test]
fn a_buffer_is_not_returned_while_another_thread_takes_the_lock() {
    let changed = AtomicBool::new(false);
    run(4, &net(), move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        win.store(0, &[5; 4])?;
        world.barrier()?;
        beside_a_holder(world, &win, &changed, || {
            let found = win.lock(Lock::Shared, 2, |epoch| Ok(got_beside(world, epoch, &changed)))?;
            same("the buffer was returned early, and its data", &found, &(false, (true, [5])))
        })?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Whether the buffer of the second thread was returned before the holder released the lock; the
/// outcome of the get, and its data.
fn got_beside(world: &Rank, epoch: &LockEpoch<'_, '_, u64>, changed: &AtomicBool) -> (bool, (bool, [u64; 1])) {
    let [is_kept, is_sent, is_returned] = &[const { AtomicBool::new(false) }; 3];
    let gets = || {
        let mut seen = [9];
        let done = epoch.scope(|part| {
            part.get(2, 0, &mut seen)?;
            raise(is_kept);
            await_flag(is_sent);
            world.net().report_lost_to_this_thread(peer(0), peer(3));
            Ok(())
        });
        raise(is_returned);
        world.net().report_none_lost(peer(0));
        (done.is_ok(), seen)
    };
    let before = world.counters().messages;
    let releases = || {
        while world.counters().messages == before {
            std::thread::yield_now();
        }
        raise(is_sent);
        // Long enough for a call that does not wait; any time is sufficient for one that does.
        std::thread::sleep(Duration::from_millis(100));
        let early = is_returned.load(Ordering::Relaxed);
        raise(changed);
        early
    };
    std::thread::scope(|threads| {
        let second = threads.spawn(gets);
        await_flag(is_kept);
        let releasing = threads.spawn(releases);
        world.step("takes the lock");
        let flushed = epoch.flush(2);
        let early = releasing.join().expect("no thread panics");
        flushed.expect("the lock is taken");
        (early, second.join().expect("no thread panics"))
    })
}

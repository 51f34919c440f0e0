//! Delayed locks (MPI-4.1 §12.5.3), which save a message for each epoch: beside other threads, with
//! a target that dies, and in programs whose locks guard data outside of the window.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use simulated::{Outcome, Rank, await_flag, cost, messages, on_every_net, peer, raise, run, same};
use transom::ops::Sum;
use transom::{Assert, BasicType, Class, CompareSwap, Info, Lock, Op, RawWindow, Window};
use transom_fabric::sim::{SimAmo, SimOptions};

#[path = "sim_delayed_locks/failures.rs"]
mod failures;
#[path = "sim_delayed_locks/flushes.rs"]
mod flushes;
mod simulated;

const SEVEN: &[u8] = &[7; 8];

fn net() -> SimOptions {
    SimOptions { amo: SimAmo::None, message_max: 1024, ..SimOptions::default() }
}

/// Locks often enough that the process delays its further locks of this kind.
fn delay_locks(win: &Window<u64>, kind: Lock, target: usize) -> transom::Result<()> {
    (0..64).try_for_each(|_| win.lock(kind, target, |epoch| epoch.accumulate(target, 0, &[0], Sum)))
}

/// One thread locks rank 0 and continues only after another thread has locked rank 1, used the lock
/// and released it. All ranks do so, and no addition is lost.
/// Shows S2.
#[test]
fn threads_lock_two_targets_of_a_window_at_once() {
    const TURNS: u64 = 12;
    on_every_net(3, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        let turns = Barrier::new(2);
        for kind in [Lock::Shared, Lock::Exclusive] {
            world.step(format!("{kind:?}"));
            delay_locks(&win, kind, 0)?;
            world.barrier()?;
            let first = || {
                (0..TURNS).try_for_each(|_| {
                    win.lock(kind, 0, |epoch| {
                        let kept = epoch.accumulate(0, 1, &[1], Sum);
                        turns.wait();
                        turns.wait();
                        kept.and(epoch.flush(0))?;
                        epoch.accumulate(0, 2, &[1], Sum)
                    })
                })
            };
            let second = || {
                (0..TURNS).try_for_each(|_| {
                    turns.wait();
                    let done = win.lock(kind, 1, |epoch| {
                        epoch.accumulate(1, 1, &[1], Sum)?;
                        epoch.flush(1)
                    });
                    turns.wait();
                    done
                })
            };
            std::thread::scope(|threads| {
                let other = threads.spawn(second);
                first().and(other.join().expect("no thread panics"))
            })?;
        }
        world.barrier()?;
        let (mut found, additions) = ([0; 4], 2 * TURNS * world.size() as u64);
        win.load(0, &mut found)?;
        let expected = [[0, additions, additions, 0], [0, additions, 0, 0], [0; 4]];
        same("additions", &found, &expected[world.rank()])?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Operations on a dynamic window of rank 0 beside one that the target refuses: the others are
/// performed, and calls that need the delayed lock succeed.
fn beside_refused(win: &RawWindow, other: &Window<u64>, base: u64, kind: Lock) -> Outcome {
    let (from, ty, long, there) = (1u64.to_ne_bytes(), BasicType::Uint64, [7; 960], |word: u64| base + 8 * word);
    let class = |outcome: transom::Result<()>| outcome.map_err(|error| error.class());
    // SAFETY: the bytes are a constant.
    let put = |at| unsafe { win.put(SEVEN.as_ptr(), 8, 0, at) };
    // SAFETY: the operand outlives the epochs.
    let add = || unsafe { win.accumulate(from.as_ptr(), 1, ty, 0, there(1), Op::Sum) };
    // Epochs with operations, after which a lock is delayed.
    let delay = || {
        (0..4).try_for_each(|_| {
            win.lock(kind, 0, Assert::NONE)?;
            put(there(0)).and(win.unlock(0))
        })
    };
    delay()?;
    win.lock(kind, 0, Assert::NONE)?;
    put(there(3)).and(put(there(1000))).and(add())?;
    same("the unlock", &class(win.unlock(0)), &Err(Class::RmaRange))?;
    // A lock of another window, an operation that returns its result, and one that does not fit.
    let mut old = [0; 8];
    let mut fetch = || win.fetch_and_op(&from, &mut old, ty, 0, there(1), Op::NoOp);
    // SAFETY: the bytes outlive the epoch.
    let mut put_long = || unsafe { win.put(long.as_ptr(), long.len(), 0, there(4)) };
    let needs: [&mut dyn FnMut() -> transom::Result<()>; 3] =
        [&mut || other.lock(Lock::Shared, 0, |_| Ok(())), &mut fetch, &mut put_long];
    for (number, need) in needs.into_iter().enumerate() {
        delay()?;
        win.lock(kind, 0, Assert::NONE)?;
        let needed = put(there(1000)).and_then(|()| need());
        same(&format!("call {number}"), &class(needed), &Ok(()))?;
        same(&format!("unlock {number}"), &class(win.unlock(0)), &Err(Class::RmaRange))?;
    }
    delay()?;
    win.lock(kind, 0, Assert::NONE)?;
    let swapped = put(there(2))
        .and_then(|()| win.compare_and_swap(CompareSwap { expected: &from, new: &from }, &mut old, ty, 0, there(1000)));
    same("a swap", &class(swapped), &Err(Class::RmaRange))?;
    same("its unlock", &class(win.unlock(0)), &Ok(()))
}

/// A lock, small operations on a dynamic window, and the unlock are one request too.
/// Shows O2.
#[test]
fn locks_of_dynamic_windows_are_delayed() {
    run(2, &net(), |world| {
        let (words, win) = ([const { AtomicU64::new(0) }; 124], RawWindow::create_dynamic(world, &Info::new())?);
        let at = words.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: the words outlive the attachment; they are atomic.
        unsafe { win.attach(at, 8 * 124)? };
        let bases = Window::<u64>::create(world, vec![at.addr() as u64])?;
        let (mut base, mut got) = ([0], 0u64);
        bases.lock_all(|epoch| epoch.get(0, 0, &mut base))?;
        let there = |word: u64| base[0] + 8 * word;
        world.barrier()?;
        if world.rank() == 1 {
            for kind in [Lock::Shared, Lock::Exclusive] {
                let within = |operate: &mut dyn FnMut() -> transom::Result<()>| {
                    win.lock(kind, 0, Assert::NONE)?;
                    let outcome = operate();
                    outcome.and(win.unlock(0))
                };
                // SAFETY: the bytes are a constant.
                let put = |at| unsafe { win.put(SEVEN.as_ptr(), 8, 0, at) };
                let (from, ty) = (1u64.to_ne_bytes(), BasicType::Uint64);
                // SAFETY: the operand outlives the epochs.
                let add = || unsafe { win.accumulate(from.as_ptr(), 1, ty, 0, there(1), Op::Sum) };
                // SAFETY: the result outlives the epochs, and is not used before their ends.
                let mut get = || unsafe { win.get((&raw mut got).cast(), 8, 0, there(1)) };
                // After epochs with operations the process delays its locks.
                (0..64).try_for_each(|_| within(&mut || add()))?;
                let puts = cost(world, || within(&mut || put(there(0)).and(put(there(2))).and(add())))?;
                same(&format!("puts, {kind:?}"), &puts, &messages(1))?;
                same(&format!("a get, {kind:?}"), &cost(world, || within(&mut get))?, &messages(1))?;
                beside_refused(&win, &bases, base[0], kind)?;
            }
            same("what was got", &got, &(2 * 65 + 1))?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            let found: Vec<_> = words[..5].iter().map(|word| word.load(Ordering::Relaxed)).collect();
            let seven = u64::from_ne_bytes(SEVEN.try_into()?);
            same("the words", &found, &vec![seven, 2 * 66, seven, seven, u64::from_ne_bytes([7; 8])])?;
        }
        world.barrier()?;
        bases.free()?;
        Ok(win.free()?)
    });
}

/// Threads operate under one delayed lock, and one of them flushes: each operation is performed
/// once, by whichever thread takes the lock.
/// Shows S2.
#[test]
fn threads_share_a_delayed_lock() {
    const THREADS: usize = 3;
    const TURNS: u64 = 12;
    on_every_net(2, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        for kind in [Lock::Shared, Lock::Exclusive] {
            world.step(format!("{kind:?}"));
            delay_locks(&win, kind, 0)?;
            for _ in 0..TURNS {
                win.lock(kind, 0, |epoch| {
                    std::thread::scope(|threads| {
                        let add = |thread: usize| {
                            threads.spawn(move || {
                                let added = epoch.accumulate(0, thread, &[1], Sum);
                                if thread == 1 { added.and(epoch.flush(0)) } else { added }
                            })
                        };
                        let started: Vec<_> = (0..THREADS).map(add).collect();
                        started.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
                    })
                })?;
            }
        }
        world.barrier()?;
        if world.rank() == 0 {
            let mut found = [0; 4];
            win.load(0, &mut found)?;
            let additions = 2 * TURNS * world.size() as u64;
            same("additions", &found, &[additions, additions, additions, 0])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// The target of a delayed lock is cut off. The call that takes the lock names the rank in its
/// error, and later calls return errors too.
/// Shows E1.
#[test]
fn a_target_that_dies_before_its_lock_is_taken_is_named() {
    for (call, kind) in (0..4).flat_map(|call| [(call, Lock::Shared), (call, Lock::Exclusive)]) {
        let idle = AtomicBool::new(false);
        run(2, &net(), move |world| takes_the_lock_of_a_dead_rank(world, call, kind, &idle));
    }
}

fn takes_the_lock_of_a_dead_rank(world: &Rank, call: u32, kind: Lock, idle: &AtomicBool) -> Outcome {
    let win = Window::<u64>::allocate(world, 4)?;
    let other = RawWindow::allocate(world, 32, 8, &Info::new())?;
    world.barrier()?;
    if world.rank() == 1 {
        delay_locks(&win, kind, 0)?;
    }
    world.barrier()?;
    if world.rank() == 0 {
        raise(idle);
    } else {
        await_flag(idle);
        world.step(format!("call {call}, {kind:?}"));
        let mut error = None;
        let ended = win.lock(kind, 0, |epoch| {
            epoch.put_value(0, 1, 7)?;
            world.kill(0);
            error = match call {
                0 => None,
                1 => epoch.flush(0).err(),
                2 => epoch.fetch_value(0, 1).err(),
                _ => other.lock(Lock::Shared, 1, Assert::NONE).err(),
            };
            Ok(())
        });
        let error = error.or(ended.err()).ok_or("no error was returned")?;
        same("the rank is named", &format!("{error:#}").contains("rank 0"), &true)?;
        let next = win.lock(kind, 0, |epoch| epoch.put_value(0, 1, 7)).expect_err("the rank is unreachable");
        same("the class", &next.class(), &Class::Other)?;
    }
    // `free` would wait for the rank that is cut off.
    drop((win, other));
    Ok(())
}

/// A window is dropped with a delayed lock: the lock is given up, and others are delayed again.
/// Shows S2.
#[test]
fn a_dropped_window_gives_up_its_delayed_lock() {
    run(2, &net(), |world| {
        let (win, dropped) = (Window::<u64>::allocate(world, 4)?, RawWindow::allocate(world, 32, 8, &Info::new())?);
        world.barrier()?;
        if world.rank() == 1 {
            delay_locks(&win, Lock::Shared, 0)?;
            // SAFETY: the bytes are a constant.
            let put = || unsafe { dropped.put(SEVEN.as_ptr(), SEVEN.len(), 0, 0) };
            dropped.lock(Lock::Shared, 0, Assert::NONE)?;
            put().and(dropped.unlock(0))?;
            dropped.lock(Lock::Shared, 0, Assert::NONE)?;
            put()?;
        }
        drop(dropped);
        if world.rank() == 1 {
            let cost = cost(world, || win.lock(Lock::Shared, 0, |epoch| epoch.put_value(0, 1, 7)))?;
            same("one request", &cost, &messages(1))?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// A lock is delayed if the epoch before it had an operation.
/// Shows S2.
#[test]
fn a_lock_is_delayed_after_an_epoch_with_an_operation() {
    run(2, &net(), |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 1 {
            for kind in [Lock::Shared, Lock::Exclusive] {
                delay_locks(&win, kind, 0)?;
                let count = |what: &str, used: bool, number: u64| -> Outcome {
                    // An earlier unlock may still be in flight.
                    win.lock_all_with(Assert::NOCHECK, |epoch| epoch.flush_all())?;
                    let body =
                        || win.lock(kind, 0, |epoch| if used { epoch.accumulate(0, 0, &[1], Sum) } else { Ok(()) });
                    same(&format!("{what}, {kind:?}"), &cost(world, body)?, &messages(number))
                };
                count("nothing, after an operation", false, 1)?;
                count("nothing, after nothing", false, 2)?;
                count("an operation, after nothing", true, 3)?;
                count("an operation, after an operation", true, 1)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Locks without operations guard data of another window: a word that all ranks read and write by
/// turns. A lock that is not yet taken would exclude no rank.
/// Shows S2.
#[test]
fn a_lock_without_operations_is_taken_at_once() {
    const TURNS: u64 = 40;
    on_every_net(3, |world| {
        let (guard, data) = (Window::<u64>::allocate(world, 1)?, Window::<u64>::allocate(world, 1)?);
        world.barrier()?;
        let there = world.size() - 1;
        data.lock_all(|epoch| {
            (0..TURNS).try_for_each(|turn| {
                world.step(format!("turn {turn}"));
                guard.lock(Lock::Exclusive, 0, |_| {
                    let next = epoch.fetch_value(there, 0)? + 1;
                    epoch.put_value(there, 0, next)?;
                    epoch.flush(there)
                })
            })
        })?;
        world.barrier()?;
        if world.rank() == there {
            let mut found = [0];
            data.load(0, &mut found)?;
            same("changes", &found, &[TURNS * world.size() as u64])?;
        }
        world.barrier()?;
        guard.free()?;
        Ok(data.free()?)
    });
}

/// Each thread of a rank locks one target at a time, and completes the operations of all.
/// Shows S2.
#[test]
fn threads_flush_all_targets_while_others_hold_locks() {
    const TURNS: u64 = 40;
    on_every_net(4, |world| {
        let win = Window::<u64>::allocate(world, 2)?;
        world.barrier()?;
        for kind in [Lock::Shared, Lock::Exclusive] {
            delay_locks(&win, kind, 0)?;
        }
        world.barrier()?;
        let turns = |thread: usize| {
            let win = &win;
            move || {
                (0..TURNS).try_for_each(|turn| {
                    let kind = if turn % 3 == 0 { Lock::Shared } else { Lock::Exclusive };
                    win.lock(kind, thread, |epoch| {
                        epoch.accumulate(thread, 1, &[1], Sum)?;
                        epoch.flush_all()
                    })
                })
            }
        };
        std::thread::scope(|threads| {
            let other = threads.spawn(turns(1));
            turns(0)().and(other.join().expect("no thread panics"))
        })?;
        world.barrier()?;
        if world.rank() < 2 {
            let mut found = [0; 2];
            win.load(0, &mut found)?;
            same("additions", &found, &[0, TURNS * world.size() as u64])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// A thread has delayed a lock that another rank holds, or waits for it in `unlock`. The other rank
/// releases the lock after a second thread has locked and changed a counter: the first lock call of
/// the second thread does not wait for the delayed lock. Regression: the threads and the other rank
/// waited for each other.
/// Shows S2.
#[test]
fn a_lock_does_not_wait_for_a_lock_that_another_thread_has_delayed() {
    for is_ending in [false, true] {
        let (requested, changed) = (AtomicBool::new(false), AtomicBool::new(false));
        run(3, &net(), move |world| contended_beside(world, is_ending, [&requested, &changed]));
    }
}

/// `is_ending`: the second thread begins after the first has sent the lock request of its `unlock`.
fn contended_beside(world: &Rank, is_ending: bool, [requested, changed]: [&AtomicBool; 2]) -> Outcome {
    let (win, counter) = (Window::<u64>::allocate(world, 4)?, Window::<u64>::allocate(world, 1)?);
    world.barrier()?;
    if world.rank() == 0 {
        delay_locks(&win, Lock::Shared, 2)?;
    }
    world.barrier()?;
    if world.rank() == 1 {
        win.lock(Lock::Exclusive, 2, |epoch| {
            epoch.put_value(2, 3, 1)?;
            epoch.flush(2)?;
            world.barrier()?;
            world.step("awaits the second thread");
            await_flag(changed);
            Ok(())
        })?;
    } else {
        world.barrier()?;
    }
    if world.rank() == 0 {
        let second = || {
            await_flag(requested);
            let done = counter.lock(Lock::Exclusive, 1, |epoch| epoch.accumulate(1, 0, &[1], Sum));
            raise(changed);
            done
        };
        std::thread::scope(|threads| {
            let other = threads.spawn(second);
            let request = || {
                let before = world.counters().messages;
                let sent = move || world.counters().messages > before + 1;
                threads.spawn(move || {
                    while is_ending && !sent() {
                        std::thread::yield_now();
                    }
                    raise(requested);
                });
            };
            world.step(format!("delays a lock, is_ending: {is_ending}"));
            let first = win.lock(Lock::Shared, 2, |epoch| {
                epoch.accumulate(2, 1, &[1], Sum)?;
                request();
                if !is_ending {
                    await_flag(changed);
                }
                Ok(())
            });
            first.and(other.join().expect("no thread panics"))
        })?;
    }
    world.barrier()?;
    let mut found = [0; 4];
    win.load(0, &mut found)?;
    same("additions", &found, &if world.rank() == 2 { [0, 1, 0, 1] } else { [0; 4] })?;
    counter.load(0, &mut found[..1])?;
    same("the counter", &found[0], &u64::from(world.rank() == 1))?;
    world.barrier()?;
    win.free()?;
    Ok(counter.free()?)
}

/// Rank 1 holds the lock of rank 2 until `changed`. Rank 0, whose locks of rank 2 are delayed, runs
/// `body` meanwhile.
fn beside_a_holder(world: &Rank, win: &Window<u64>, changed: &AtomicBool, body: impl FnOnce() -> Outcome) -> Outcome {
    if world.rank() == 0 {
        delay_locks(win, Lock::Shared, 2)?;
    }
    world.barrier()?;
    if world.rank() != 1 {
        world.barrier()?;
    } else {
        win.lock(Lock::Exclusive, 2, |epoch| {
            epoch.put_value(2, 3, 1)?;
            epoch.flush(2)?;
            world.barrier()?;
            world.step("holds the lock");
            await_flag(changed);
            Ok(())
        })?;
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let done = body();
    raise(changed);
    done
}

/// A delayed lock can't be taken, because a rank is lost while another rank holds the lock. The
/// operations that wait for the lock are not performed. All further calls of the epoch and its end
/// are errors, and the next epoch is as usual. Regression: later operations were performed without
/// the lock, and the end of the epoch succeeded.
/// Shows E1.
#[test]
fn the_epoch_of_a_lock_that_can_not_be_taken_fails() {
    let changed = AtomicBool::new(false);
    run(4, &net(), move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        beside_a_holder(world, &win, &changed, || {
            let mut calls = Vec::new();
            let ended = win.lock(Lock::Shared, 2, |epoch| {
                epoch.accumulate(2, 1, &[1], Sum)?;
                world.net().report_lost(peer(0), peer(3));
                calls.push(("takes the lock", epoch.fetch_value(2, 0).map(drop)));
                world.net().report_none_lost(peer(0));
                calls.push(("operates", epoch.accumulate(2, 1, &[1], Sum)));
                calls.push(("flushes", epoch.flush(2)));
                calls.push(("flushes all", epoch.flush_all()));
                Ok(())
            });
            calls.push(("ends", ended));
            let good: Vec<_> = calls.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(call, _)| *call).collect();
            same("calls without an error", &good, &Vec::new())
        })?;
        if world.rank() == 0 {
            win.lock(Lock::Shared, 2, |epoch| epoch.accumulate(2, 2, &[1], Sum))?;
        }
        world.barrier()?;
        let mut found = [0; 4];
        win.load(0, &mut found)?;
        same("additions", &found, &if world.rank() == 2 { [0, 0, 1, 1] } else { [0; 4] })?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

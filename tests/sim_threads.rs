//! Several threads of a rank operate on one window (MPI-4.1 §11.6, §12.7) on nets that reorder. The
//! meaning of one thread's operations does not depend on concurrent operations of other threads.
//!
//! Route: sim.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use simulated::{Rank, run, same};
use transom::ops::Replace;
use transom::{At, BasicType, Datatype, Window};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimOptions};

mod simulated;

const THREADS: usize = 4;
const TURNS: u64 = 400;

fn reordering(seed: u64) -> SimOptions {
    SimOptions {
        seed,
        delay: 9,
        again_one_in: if seed.is_multiple_of(2) { 0 } else { 8 },
        done_one_in: 0,
        amo: SimAmo::All(Coherence::DeviceOnly),
        ..SimOptions::default()
    }
}

/// Each thread stores increasing numbers into a separate location without waiting: the last number
/// remains, on nets that perform accumulates themselves and complete them in any order. Regression:
/// a thread's places in flight were forgotten when another thread recorded its own at the same
/// moment.
/// Shows M4.
#[test]
fn accumulates_of_each_thread_keep_their_order() {
    let values: Vec<u64> = (1..=TURNS).collect();
    for seed in 0..12 {
        let values = values.clone();
        run(2, &reordering(seed), move |world: &Rank| {
            let win = Window::<u64>::allocate(world, 64)?;
            if world.rank() == 0 {
                world.step("threads accumulate");
                win.lock_all(|epoch| {
                    std::thread::scope(|threads| {
                        let start = |thread: usize| {
                            let values = &values;
                            threads.spawn(move || {
                                // Neighbours in memory are no neighbours in the table of watched
                                // places.
                                values.chunks(1).try_for_each(|value| epoch.accumulate(1, 7 * thread, value, Replace))
                            })
                        };
                        let started: Vec<_> = (0..THREADS).map(start).collect();
                        started.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
                    })?;
                    epoch.flush(1)
                })?;
                let last = win.lock_all(|epoch| {
                    (0..THREADS).map(|thread| epoch.fetch_value(1, 7 * thread)).collect::<Result<Vec<_>, _>>()
                })?;
                same("the last values", &last, &vec![TURNS; THREADS])?;
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// Two threads make their first operations on a target of `start` at the same time. Neither has
/// seen the target's post, and one of them consumes the notice.
/// Shows S2.
#[test]
fn threads_share_the_notice_of_a_post() {
    for seed in 0..12 {
        run(2, &reordering(seed), |world: &Rank| {
            let win = Window::<u64>::allocate(world, 8)?;
            for turn in 1..=20 {
                world.step(format!("turn {turn}"));
                if world.rank() == 0 {
                    let values: Vec<u64> = (100 * turn..).take(THREADS).collect();
                    win.start(&[1], |epoch| {
                        std::thread::scope(|threads| {
                            let put = |(at, value): (usize, &u64)| {
                                let value = *value;
                                threads.spawn(move || epoch.put_value(1, at, value))
                            };
                            let started: Vec<_> = values.iter().enumerate().map(put).collect();
                            started.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
                        })
                    })?;
                } else {
                    win.post(&[0])?;
                    win.wait()?;
                    let mut found = vec![0; THREADS];
                    win.load(0, &mut found)?;
                    let wanted: Vec<u64> = (100 * turn..).take(THREADS).collect();
                    same("what the threads put", &found, &wanted)?;
                }
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// Two threads wait for replies. The thread that takes the other one's reply wakes that one, as
/// does the progress thread. Regression: the other thread slept to the limit.
/// Shows M4.
#[test]
fn a_thread_wakes_the_one_whose_reply_it_takes() {
    const ROUNDS: u64 = 1_000;
    let options = SimOptions { delay: 0, again_one_in: 0, amo: SimAmo::None, ..SimOptions::default() };
    // With more ranks than cores, waiting calls sleep at once.
    let ranks = 1 + std::thread::available_parallelism().map_or(1, usize::from);
    run(ranks, &options, move |world: &Rank| {
        let win = Window::<u64>::allocate(world, 64)?;
        world.barrier()?;
        if world.rank() == 0 {
            world.step("threads fetch");
            let (before, round) = (world.late_wakes(), Barrier::new(2));
            win.lock_all(|epoch| {
                std::thread::scope(|threads| {
                    let start = |thread: usize| {
                        let round = &round;
                        threads.spawn(move || {
                            (0..ROUNDS).try_for_each(|_| {
                                round.wait();
                                epoch.fetch_add(1, thread, 1).map(drop)
                            })
                        })
                    };
                    [0, 8].map(start).into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
                })
            })?;
            let late = world.late_wakes() - before;
            same(&format!("{late} late wakes are few"), &(late <= ROUNDS / 50), &true)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// One thread exposes the own part to the own rank, and another one accesses it; one of the two is
/// late in turn. The notices of the post and of the completion end the other thread's sleep.
/// Regression: it slept to the limit.
/// Shows S1.
#[test]
fn notices_to_the_own_rank_end_the_sleep_of_another_thread() {
    const ROUNDS: u64 = 300;
    // Longer than a thread polls, shorter than it sleeps.
    const LATE: Duration = Duration::from_micros(300);
    let options = SimOptions { delay: 0, again_one_in: 0, ..SimOptions::default() };
    // With more ranks than cores, waiting calls sleep at once.
    let ranks = 1 + std::thread::available_parallelism().map_or(1, usize::from);
    run(ranks, &options, move |world: &Rank| {
        let win = Window::<u64>::allocate(world, 1)?;
        world.barrier()?;
        if world.rank() == 0 {
            world.step("threads synchronize");
            let (before, round) = (world.late_wakes(), Barrier::new(2));
            let turn = |is_late: bool| {
                round.wait();
                if is_late {
                    std::thread::sleep(LATE);
                }
            };
            std::thread::scope(|threads| {
                let exposes = threads.spawn(|| {
                    (0..ROUNDS).try_for_each(|number| {
                        turn(number % 2 == 0);
                        win.post(&[0])?;
                        win.wait()
                    })
                });
                let accesses = threads.spawn(|| {
                    (0..ROUNDS).try_for_each(|number| {
                        turn(number % 2 == 1);
                        win.start(&[0], |_| Ok(()))
                    })
                });
                [exposes, accesses].into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
            })?;
            let late = world.late_wakes() - before;
            same(&format!("{late} late wakes are few"), &(late <= ROUNDS / 10), &true)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// One thread always has many puts in flight to a target, until another thread has put a value and
/// has asked for more blocks than the target may have to keep. Regression: such calls waited until
/// few operations of all threads were in flight.
/// Shows S2.
#[test]
fn calls_do_not_wait_for_the_operations_of_another_thread() {
    const IN_FLIGHT: usize = 300;
    const BLOCKS: usize = 2000;
    let options = SimOptions {
        delay: 400,
        again_one_in: 0,
        done_one_in: 0,
        inline_max: 4,
        amo: SimAmo::None,
        ..SimOptions::default()
    };
    run(2, &options, |world: &Rank| {
        let win = Window::<i64>::allocate(world, 2 * BLOCKS)?;
        win.store(0, &[3; 2 * BLOCKS])?;
        world.barrier()?;
        if world.rank() == 0 {
            let every_other = Datatype::vector(BLOCKS, 1, 2, &Datatype::basic(BasicType::Int64))?;
            let (done, mut back) = (AtomicBool::new(false), vec![0; 2 * BLOCKS]);
            win.lock_all(|epoch| {
                let stream = || {
                    let mut puts = VecDeque::new();
                    // Relaxed: the flag publishes no other data.
                    while !done.load(Ordering::Relaxed) {
                        puts.push_back(epoch.rput_owned(1, 1, vec![4])?);
                        if puts.len() > IN_FLIGHT
                            && let Some(put) = puts.pop_front()
                        {
                            put.wait()?;
                        }
                    }
                    Ok::<(), transom::Error>(())
                };
                std::thread::scope(|threads| {
                    let other = threads.spawn(stream);
                    world.step("puts a value beside the stream");
                    let calls = (0..3).try_for_each(|_| epoch.put_value(1, 3, 5)).and_then(|()| {
                        world.step("gets blocks beside the stream");
                        epoch.get_items(&mut back, 1, &every_other, At::new(1, 0, 1, &every_other))
                    });
                    done.store(true, Ordering::Relaxed);
                    world.step("ends the stream");
                    calls.and(other.join().expect("no thread panics"))
                })
            })?;
            same("the blocks", &back.chunks_exact(2).all(|two| two == [3, 0]), &true)?;
        }
        world.barrier()?;
        if world.rank() == 1 {
            let mut found = [0; 4];
            win.load(0, &mut found)?;
            same("the puts", &found, &[3, 4, 3, 5])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

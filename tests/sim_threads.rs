//! Several threads of a rank operate on one window (MPI-4.1 §11.6, §12.7) on nets that reorder. The
//! meaning of one thread's operations does not depend on concurrent operations of other threads.
//!
//! Route: sim.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use simulated::{Rank, await_flag, peer, raise, run, same};
use transom::ops::{Replace, Sum};
use transom::{Assert, At, BasicType, Datatype, Info, Lock, LockAllEpoch, Op, RawWindow, Window};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimDelivery, SimOptions};

#[path = "sim_threads/held_back.rs"]
mod held_back;
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
/// a thread's locations in flight were forgotten when another thread recorded its own at the same
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

/// A call that waits for its own put, and one that asks for more blocks than the target may have to
/// keep, return although another thread has many operations in flight at all times. Regression:
/// such calls waited until few operations of all threads were in flight.
/// Shows S2.
#[test]
fn calls_do_not_wait_for_the_operations_of_another_thread() {
    const BLOCKS: usize = 2000;
    type Calls = fn(&LockAllEpoch<'_, '_, u64>, &Datatype, &mut [u64]) -> transom::Result<()>;
    const CALLS: [(&str, Calls); 2] = [
        ("puts a value", |epoch, _, _| epoch.put_value(1, 3, 5)),
        ("gets blocks", |epoch, every_other, back| {
            epoch.scope(|part| part.get_items(back, 1, every_other, At::new(1, 4, 1, every_other)))
        }),
    ];
    let options = SimOptions { inline_max: 4, ..answered_late(SimAmo::None) };
    run(2, &options, |world: &Rank| {
        let win = Window::<u64>::allocate(world, 2 * BLOCKS + 4)?;
        win.store(4, &[3; 2 * BLOCKS])?;
        world.barrier()?;
        if world.rank() == 0 {
            let of_every_other = |count| Datatype::vector(count, 1, 2, &Datatype::basic(BasicType::Uint64));
            let (two, many) = (of_every_other(2)?, of_every_other(BLOCKS)?);
            let mut back = vec![0; 2 * BLOCKS];
            win.lock_all(|epoch| {
                let put = || epoch.put_items(&[4, 9, 4], 1, &two, At::new(1, 0, 1, &two));
                CALLS.into_iter().try_for_each(|(call, calls)| {
                    world.step(format!("{call} beside the stream"));
                    beside_a_stream(world, put, || calls(epoch, &many, &mut back))
                })
            })?;
            same("the blocks", &back.chunks_exact(2).all(|two| two == [3, 0]), &true)?;
        }
        world.barrier()?;
        if world.rank() == 1 {
            let mut found = [0; 5];
            win.load(0, &mut found)?;
            same("the puts", &found, &[4, 0, 4, 5, 3])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// A call that completes operations returns although another thread has operations in flight at all
/// times. Regression: such calls waited until no operation of any thread was in flight.
/// Shows S2.
#[test]
fn calls_that_complete_operations_end_beside_the_stream_of_another_thread() {
    type Completes = fn(&LockAllEpoch<'_, '_, u64>) -> transom::Result<()>;
    const CALLS: [(&str, Completes); 6] = [
        ("flush", |epoch| epoch.flush(1)),
        ("flush_local", |epoch| epoch.flush_local(1)),
        ("flush_all", |epoch| epoch.flush_all()),
        ("flush_local_all", |epoch| epoch.flush_local_all()),
        ("scope", |epoch| epoch.scope(|part| part.put(1, 4, &[5]))),
        ("accumulates on one location", |epoch| {
            (0..4).try_for_each(|_| epoch.accumulate(1, 5, &[1], Sum)).and(epoch.flush(1))
        }),
    ];
    for (amo, net) in [(SimAmo::None, "no atomics"), (SimAmo::All(Coherence::DeviceOnly), "atomics")] {
        run(2, &answered_late(amo), move |world: &Rank| {
            let win = Window::<u64>::allocate(world, 8)?;
            world.barrier()?;
            if world.rank() == 0 {
                let blocks = Datatype::vector(2, 1, 2, &Datatype::basic(BasicType::Uint64))?;
                win.lock_all(|epoch| {
                    let put = || epoch.put_items(&[4, 9, 4], 1, &blocks, At::new(1, 0, 1, &blocks));
                    CALLS.into_iter().try_for_each(|(call, completes)| {
                        world.step(format!("{call}, {net}"));
                        beside_a_stream(world, put, || epoch.put_value(1, 3, 7).and(completes(epoch)))
                    })
                })?;
            }
            world.barrier()?;
            if world.rank() == 1 {
                let mut found = [0; 8];
                win.load(0, &mut found)?;
                same("the operations", &found, &[4, 0, 4, 7, 5, 4, 0, 0])?;
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// The end of a closure's epoch waits for operations in flight to all targets. It returns although
/// another thread, which has locked another target, has operations in flight at all times.
/// Regression: it waited until no operation of any thread was in flight.
/// Shows S2.
#[test]
fn epochs_end_beside_the_stream_of_another_thread() {
    run(3, &answered_late(SimAmo::None), |world: &Rank| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 0 {
            let blocks = Datatype::vector(2, 1, 2, &Datatype::basic(BasicType::Uint64))?;
            win.lock(Lock::Shared, 1, |epoch| {
                let put = || epoch.put_items(&[4, 9, 4], 1, &blocks, At::new(1, 0, 1, &blocks));
                world.step("ends an epoch beside the stream");
                beside_a_stream(world, put, || win.lock(Lock::Exclusive, 2, |epoch| epoch.put_value(2, 3, 3)))
            })?;
        }
        world.barrier()?;
        let mut found = [0; 4];
        win.load(0, &mut found)?;
        same("the puts", &found, &[[0; 4], [4, 0, 4, 0], [0, 0, 0, 3]][world.rank()])?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// A net whose messages stay in flight while their receiver takes none.
fn answered_late(amo: SimAmo) -> SimOptions {
    let delivery = SimDelivery { slots: Some(1000), ..SimDelivery::default() };
    SimOptions { delay: 0, again_one_in: 0, done_one_in: 0, amo, delivery, ..SimOptions::default() }
}

/// Runs `body` while another thread of rank 0 puts to rank 1 by messages, many of which are in
/// flight at any time: rank 0 gets the answers to a batch of messages only after the next batch was
/// sent, or the thread has not sent it for a while. Afterwards the other thread can put again.
fn beside_a_stream(
    world: &Rank,
    put: impl Fn() -> transom::Result<()> + Sync,
    body: impl FnOnce() -> transom::Result<()>,
) -> transom::Result<()> {
    /// More than a call that limits the operations in flight lets be.
    const BATCH: u64 = 70;
    let [wanted, posted] = [const { AtomicU64::new(0) }; 2];
    let is_done = AtomicBool::new(false);
    let stream = || {
        // Relaxed, here and below: the flag and the numbers publish no other data.
        while !is_done.load(Ordering::Relaxed) {
            if number_of(&posted) < number_of(&wanted) {
                put()?;
                posted.fetch_add(1, Ordering::Relaxed);
            } else {
                std::thread::yield_now();
            }
        }
        Ok::<(), transom::Error>(())
    };
    let ask = |limit| {
        let goal = number_of(&posted) + BATCH;
        wanted.store(goal, Ordering::Relaxed);
        await_within(limit, || number_of(&posted), goal)
    };
    let control = || {
        let (net, answers) = (world.net(), || world.net().counters(peer(1)).messages);
        while !is_done.load(Ordering::Relaxed) {
            net.stop_messages_to(peer(0));
            let goal = answers() + BATCH;
            net.resume_messages_to(peer(1));
            await_at_least(answers, goal);
            net.stop_messages_to(peer(1));
            ask(AWHILE);
            net.resume_messages_to(peer(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        net.resume_messages_to(peer(1));
    };
    std::thread::scope(|threads| {
        world.net().stop_messages_to(peer(1));
        let other = threads.spawn(stream);
        let is_begun = ask(PATIENCE);
        let control = threads.spawn(control);
        let outcome = body();
        let goal = number_of(&posted) + BATCH;
        let is_continued = await_within(PATIENCE, || number_of(&posted), goal);
        is_done.store(true, Ordering::Relaxed);
        control.join().expect("no thread panics");
        outcome.and(other.join().expect("no thread panics"))?;
        assert!(is_begun && is_continued, "the other thread puts before the call and after it");
        Ok(())
    })
}

/// Long enough for another thread on a quiet machine.
const AWHILE: Duration = Duration::from_millis(200);
/// After this time a thread is taken to hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a while until a number has grown. Returns whether it has.
fn await_at_least(number: impl Fn() -> u64, goal: u64) -> bool {
    await_within(AWHILE, number, goal)
}

fn await_within(limit: Duration, number: impl Fn() -> u64, goal: u64) -> bool {
    let begun = Instant::now();
    while number() < goal && begun.elapsed() < limit {
        std::thread::yield_now();
    }
    number() >= goal
}

fn number_of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// A look of rank 1 at its own part.
type Look = fn(&RawWindow) -> transom::Result<()>;

/// A look within an epoch with rank 1.
fn locked(win: &RawWindow, kind: Lock, look: Look) -> transom::Result<()> {
    win.lock(kind, 1, Assert::NONE)?;
    look(win)?;
    win.unlock(1)
}

/// A look within an epoch with all ranks.
fn all_locked(win: &RawWindow, look: Look) -> transom::Result<()> {
    win.lock_all(Assert::NOCHECK)?;
    look(win)?;
    win.unlock_all()
}

/// A rank that waits for other ranks by looking at its own part again and again serves them by
/// these calls: its progress thread leaves this to calls, and here it has ended. Regression: only
/// the thread served them, up to a millisecond late.
/// Shows S3.
#[test]
fn looks_at_the_own_part_serve_other_ranks() {
    const LOOKS: [Look; 7] = [
        |win| {
            win.sync();
            Ok(())
        },
        |win| locked(win, Lock::Shared, |_| Ok(())),
        |win| locked(win, Lock::Exclusive, |_| Ok(())),
        |win| locked(win, Lock::Shared, |win| (0..16).try_for_each(|_| win.flush(1))),
        |win| locked(win, Lock::Shared, |win| (0..16).try_for_each(|_| win.flush_local(1))),
        |win| all_locked(win, |win| (0..16).try_for_each(|_| win.flush_all())),
        |win| all_locked(win, |win| (0..16).try_for_each(|_| win.flush_local_all())),
    ];
    let options = SimOptions { amo: SimAmo::None, ..SimOptions::default() };
    for look in LOOKS {
        let stopped = Arc::new(AtomicBool::new(false));
        run(2, &options, move |world: &Rank| {
            let win = RawWindow::allocate(world, 8, 1, &Info::new())?;
            let put = |value: u64| {
                win.lock(Lock::Shared, 1, Assert::NONE)?;
                win.fetch_value(value, BasicType::Uint64, 1, 0, Op::Sum)?;
                win.unlock(1)
            };
            // First contact, after which rank 0 needs rank 1 for nothing but the sum.
            put(0)?;
            world.barrier()?;
            if world.rank() == 0 {
                await_flag(&stopped);
                world.step("adds");
                put(7)?;
            } else {
                world.stop_serving();
                raise(&stopped);
                world.step("looks");
                let mut found = [0; 8];
                while u64::from_ne_bytes(found) != 7 {
                    look(&win)?;
                    win.load(0, &mut found);
                }
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

//! Locks that are sent with operations (MPI-4.1 §12.5.3), where the target's CPU changes the words
//! of locks: the cost of an epoch, and that no update is lost on adversarial nets.
//!
//! Route: sim.

use simulated::{Outcome, Rank, cost, like_sockets, messages, on_every_net, run, same};
use transom::ops::Sum;
use transom::{Assert, Class, Lock, LockEpoch, Window};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimCounters, SimDelivery, SimOptions};

mod simulated;

/// A net without atomics, whose messages have room for some operations.
fn net() -> SimOptions {
    SimOptions { amo: SimAmo::None, message_max: 1024, ..SimOptions::default() }
}

type Body = fn(&LockEpoch<'_, '_, u64>) -> transom::Result<()>;

/// The cost of an epoch of rank 1 at the last rank, or of the next one where rank 1 is the last.
fn epoch(world: &Rank, win: &Window<u64>, kind: Lock, body: Body) -> Result<SimCounters, transom::Error> {
    cost(world, || win.lock(kind, target(world), |epoch| body(epoch)))
}

fn target(world: &Rank) -> usize {
    if world.size() > 2 { world.size() - 1 } else { 0 }
}

/// Rank 1 counts while the others wait, so that its counts have no answers to their messages.
fn costs(world: &Rank) -> Outcome {
    let win = Window::<u64>::allocate(world, 256)?;
    if world.rank() == 1 {
        let there = target(world);
        for kind in [Lock::Shared, Lock::Exclusive] {
            // Until the target has the bias.
            (0..64).try_for_each(|_| win.lock(kind, there, |_| Ok(())))?;
            win.lock_all(|epoch| epoch.flush_all())?;
            let used = || win.lock(kind, there, |epoch| epoch.accumulate(there, 0, &[0], Sum));
            (0..16).try_for_each(|_| used())?;
            let count = |what: &str, number: u64, body: Body| -> Outcome {
                world.step(format!("{what}, {kind:?}"));
                // A lock is delayed after an epoch with an operation. An earlier unlock may still
                // be in flight.
                used()?;
                win.lock_all_with(Assert::NOCHECK, |epoch| epoch.flush_all())?;
                same(what, &epoch(world, &win, kind, body)?, &messages(number))
            };
            costs_of_one(world, &count)?;
        }
    }
    world.barrier()?;
    Ok(win.free()?)
}

const SEVEN: &[u64] = &[7];

fn costs_of_one(world: &Rank, count: &dyn Fn(&str, u64, Body) -> Outcome) -> Outcome {
    // The closures are functions, and know the job by its size alone.
    if world.size() > 2 {
        return costs_at::<2>(count);
    }
    costs_at::<0>(count)
}

fn costs_at<const THERE: usize>(count: &dyn Fn(&str, u64, Body) -> Outcome) -> Outcome {
    count("no operation", 1, |_| Ok(()))?;
    count("put", 1, |epoch| epoch.put(THERE, 0, SEVEN))?;
    count("put of a value", 1, |epoch| epoch.put_value(THERE, 0, 7))?;
    count("accumulate", 1, |epoch| epoch.accumulate(THERE, 1, SEVEN, Sum))?;
    count("several operations", 1, |epoch| {
        (0..4).try_for_each(|at| epoch.put(THERE, at, SEVEN))?;
        epoch.accumulate(THERE, 0, SEVEN, Sum)
    })?;
    // The call needs the result, so the unlock has a separate message.
    count("fetch_and_op", 2, |epoch| epoch.fetch_add(THERE, 0, 1).map(drop))?;
    count("compare_and_swap", 2, |epoch| epoch.compare_and_swap(THERE, 0, 15, 9).map(drop))?;
    count("put and flush", 2, |epoch| epoch.put(THERE, 0, SEVEN).and(epoch.flush(THERE)))?;
    count("put and flush_all", 2, |epoch| epoch.put(THERE, 0, SEVEN).and(epoch.flush_all()))?;
    count("a flush of nothing", 2, |epoch| epoch.flush(THERE))
}

/// Shows S2.
#[test]
fn a_lock_its_operations_and_its_unlock_are_one_request() {
    for ranks in [2, 3] {
        run(ranks, &net(), costs);
    }
}

/// A get whose result is needed only after the epoch is sent with the lock too, and gets its data.
#[test]
fn results_come_with_the_answer_to_the_unlock() {
    run(2, &net(), |world| {
        let win = Window::<u64>::allocate(world, 256)?;
        world.barrier()?;
        if world.rank() == 1 {
            win.lock(Lock::Shared, 0, |epoch| epoch.put(0, 3, SEVEN))?;
            let (mut got, mut old, mut swapped) = ([0], 0, 0);
            let cost = cost(world, || {
                win.lock(Lock::Shared, 0, |epoch| {
                    epoch.get(0, 3, &mut got)?;
                    epoch.start_fetch_and_op(0, 3, 5, &mut old, Sum)?;
                    epoch.start_compare_and_swap(0, 3, 12, 40, &mut swapped)
                })
            })?;
            same("one request", &cost, &messages(1))?;
            same("results", &(got, old, swapped), &([7], 7, 12))?;
            // A part of an epoch ends with its operations complete.
            let (mut first, mut second) = ([0], [0]);
            win.lock(Lock::Shared, 0, |epoch| {
                epoch.scope(|part| part.get(0, 3, &mut first))?;
                same_now(first[0], 40)?;
                epoch.get(0, 3, &mut second)
            })?;
            same("after the part", &second, &[40])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

fn same_now(found: u64, expected: u64) -> transom::Result<()> {
    assert_eq!(found, expected, "a part of an epoch is complete");
    Ok(())
}

/// An operation that does not fit takes the lock first, and those before it are performed.
#[test]
fn operations_that_do_not_fit_take_the_lock_first() {
    // A net that does not cut the long put, which the first one may still precede.
    run(2, &SimOptions { transfer_max: 1 << 20, ..net() }, |world| {
        let win = Window::<u64>::allocate(world, 256)?;
        world.barrier()?;
        if world.rank() == 1 {
            win.lock(Lock::Shared, 0, |epoch| epoch.put(0, 0, SEVEN))?;
            let long: Vec<u64> = (0..125).collect();
            let cost = cost(world, || {
                win.lock(Lock::Shared, 0, |epoch| {
                    epoch.put(0, 200, SEVEN)?;
                    epoch.put(0, 0, &long)?;
                    epoch.put(0, 201, SEVEN)
                })
            })?;
            same("lock with a put, two puts, unlock", &cost, &SimCounters { puts: 2, messages: 2, ..cost })?;
            let outside = win.lock(Lock::Shared, 0, |epoch| {
                let error = epoch.put(0, 256, SEVEN).expect_err("it is outside");
                assert_eq!(error.class(), Class::RmaRange, "{error}");
                epoch.put(0, 202, SEVEN)
            });
            outside?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            let mut found = vec![0; 256];
            win.load(0, &mut found)?;
            same("long", &found[..125].to_vec(), &(0..125).collect())?;
            same("short", &found[199..204].to_vec(), &vec![0, 7, 7, 7, 0])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// After a panic within a scope the library holds no operation that refers to the scope's buffers.
#[test]
fn an_unwinding_scope_keeps_no_operation() {
    run(2, &net(), |world| {
        let win = Window::<u64>::allocate(world, 8)?;
        world.barrier()?;
        if world.rank() == 1 {
            // First contact reads the target's directory, and a first lock is taken at once.
            win.lock(Lock::Shared, 0, |epoch| epoch.put(0, 1, SEVEN))?;
            let mut got = [0; 1];
            let cost = cost(world, || {
                win.lock(Lock::Shared, 0, |epoch| {
                    epoch.put(0, 0, SEVEN)?;
                    let part = std::panic::AssertUnwindSafe(|| {
                        epoch.scope::<()>(|part| {
                            part.get(0, 0, &mut got)?;
                            std::panic::resume_unwind(Box::new("a part ends early"));
                        })
                    });
                    assert!(std::panic::catch_unwind(part).is_err());
                    assert_eq!(got, [7], "the get is over");
                    Ok(())
                })
            })?;
            same("the lock with its operations, and the unlock", &cost, &messages(2))?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// All ranks change one word of rank 0 under exclusive locks of every form, beside shared locks and
/// `lock_all`: no change is lost, and no reader sees a change in part.
/// Shows S2.
#[test]
fn no_change_under_a_lock_is_lost() {
    const TURNS: u64 = 24;
    on_every_net(4, |world| {
        let win = Window::<u64>::allocate(world, 8)?;
        world.barrier()?;
        for turn in 0..TURNS {
            world.step(format!("turn {turn}"));
            let mut pair = [0; 2];
            win.lock(Lock::Exclusive, 0, |epoch| {
                let seen = epoch.scope(|part| part.get(0, 0, &mut pair)).map(|()| pair);
                let next = seen?[0] + 1;
                epoch.put_value(0, 0, next)?;
                epoch.put_value(0, 1, next)
            })?;
            win.lock(Lock::Exclusive, 0, |epoch| {
                epoch.accumulate(0, 2, SEVEN, Sum)?;
                epoch.accumulate(0, 3, SEVEN, Sum)
            })?;
            let mut seen = [0; 4];
            if turn % 5 == 4 {
                win.lock_all(|epoch| epoch.get(0, 0, &mut seen))?;
            } else {
                win.lock(Lock::Shared, 0, |epoch| epoch.get(0, 0, &mut seen))?;
            }
            same("both words of a change", &(seen[0], seen[2]), &(seen[1], seen[3]))?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            let mut found = [0; 4];
            win.load(0, &mut found)?;
            let changes = TURNS * world.size() as u64;
            same("all changes", &found, &[changes, changes, 7 * changes, 7 * changes])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// The number of turns of [`unlocks`] in which exclusive locks are announced in the master word. In
/// the last [`TURNS`] turns they have the bias.
const ANNOUNCED: u64 = 3;
const TURNS: u64 = 20;

/// Rank `origin` puts to the other rank under a lock. Returns the number of releases that followed
/// puts in flight, in the first turns and in the last ones. `gets`: each epoch has a get in
/// addition to the put.
fn unlocks(world: &Rank, kind: Lock, origin: usize, gets: bool) -> Outcome<[u64; 2]> {
    let (me, target) = (world.rank(), 1 - origin);
    let win = Window::<u64>::allocate(world, 16)?;
    let mut behind = [0; 2];
    for turn in 1..=ANNOUNCED + 5 + TURNS {
        world.step(format!("turn {turn}"));
        let (value, mut got) = ([turn], [7]);
        if me == origin {
            let epoch = cost(world, || {
                win.lock(kind, target, |epoch| {
                    // The lock is not delayed until the unlock.
                    epoch.flush(target)?;
                    epoch.put(target, 0, &value)?;
                    if gets { epoch.get(target, 1, &mut got) } else { Ok(()) }
                })
            })?;
            if turn <= ANNOUNCED {
                behind[0] += epoch.behind;
            } else if turn > ANNOUNCED + 5 {
                behind[1] += epoch.behind;
            }
            same("the get", &got, &[if gets { 0 } else { 7 }])?;
        }
        world.barrier()?;
        if me == target {
            let mut found = [0];
            win.load(0, &mut found)?;
            same("the data after the unlock", &found, &[turn])?;
        }
        world.barrier()?;
    }
    win.free()?;
    Ok(behind)
}

/// The release of a lock does not wait for puts that the net performs before it, whether a message
/// or an atomic releases it. It waits for gets: the next holder may change their data.
/// Shows S2.
#[test]
fn an_unlock_follows_puts_where_the_net_keeps_order() {
    let by_device = |amos_ordered| {
        let delivery = SimDelivery { amos_ordered, ..SimDelivery::default() };
        SimOptions { delivery, amo: SimAmo::All(Coherence::DeviceOnly), ..like_sockets(false, false) }
    };
    for (net, gets, follows) in [
        (like_sockets(false, true), false, true),
        (like_sockets(false, true), true, false),
        (like_sockets(false, false), false, false),
        (by_device(true), false, true),
        (by_device(true), true, false),
        (by_device(false), false, false),
    ] {
        for (kind, origin) in [(Lock::Shared, 0), (Lock::Exclusive, 0), (Lock::Exclusive, 1)] {
            run(2, &SimOptions { delay: 40, ..net }, move |world| {
                let what = format!("releases of {kind:?} locks of rank {origin} followed puts");
                let behind = unlocks(world, kind, origin, gets)?;
                same(&what, &behind.map(|count| count > 0), &[follows && world.rank() == origin; 2])
            });
        }
    }
}

/// Ranks change a long part under exclusive locks, and read it under locks of all forms. A release
/// may be sent before the put is complete: no holder finds the part changed by half.
/// Shows S2.
#[test]
fn no_long_put_under_a_lock_is_seen_by_half() {
    const TURNS: u64 = 8;
    const LEN: usize = 700;
    fn all_equal(part: &[u64]) -> Outcome<u64> {
        let first = part[0];
        same("an element that differs", &part.iter().position(|&at| at != first), &None)?;
        Ok(first)
    }
    on_every_net(3, |world| {
        let win = Window::<u64>::allocate(world, LEN)?;
        world.barrier()?;
        for turn in 0..TURNS {
            for target in [0, 1] {
                world.step(format!("turn {turn}, rank {target}"));
                let mut seen = vec![0; LEN];
                win.lock(Lock::Exclusive, target, |epoch| {
                    epoch.scope(|part| part.get(target, 0, &mut seen))?;
                    // The operand lives longer than the closure.
                    epoch.put(target, 0, vec![seen[0] + 1; LEN].leak())
                })?;
                all_equal(&seen)?;
                if turn % 3 == 2 {
                    win.lock_all(|epoch| epoch.get(target, 0, &mut seen))?;
                } else {
                    win.lock(Lock::Shared, target, |epoch| epoch.get(target, 0, &mut seen))?;
                }
                all_equal(&seen)?;
            }
        }
        world.barrier()?;
        let mut found = vec![0; LEN];
        win.load(0, &mut found)?;
        let changes = if world.rank() < 2 { TURNS * world.size() as u64 } else { 0 };
        same("all changes", &found, &vec![changes; LEN])?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Ranks lock two windows, or two targets of one window, in one order, and need the first lock only
/// when they have the second. If the first lock were delayed until then, it would be taken last,
/// and ranks would wait for each other.
/// Shows S2.
#[test]
fn locks_are_taken_in_the_programs_order() {
    const TURNS: u64 = 40;
    on_every_net(4, |world| {
        let (first, second) = (Window::<u64>::allocate(world, 1)?, Window::<u64>::allocate(world, 1)?);
        world.barrier()?;
        let both = |outer: &Window<u64>, inner: &Window<u64>, inner_target: usize| {
            outer.lock(Lock::Exclusive, 0, |before| {
                inner.lock(Lock::Exclusive, inner_target, |after| {
                    after.flush(inner_target)?;
                    before.flush(0)?;
                    before.accumulate(0, 0, &[1], Sum)
                })
            })
        };
        for turn in 0..TURNS {
            world.step(format!("turn {turn}"));
            both(&first, &second, 0)?;
            both(&first, &first, 1)?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            let mut sum = [0];
            first.load(0, &mut sum)?;
            same("additions", &sum, &[2 * TURNS * world.size() as u64])?;
        }
        world.barrier()?;
        first.free()?;
        Ok(second.free()?)
    });
}

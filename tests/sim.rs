//! Windows on the simulated net, which does the worst that the transport contract permits: their
//! guarantees hold at every seed, and the calls post as many operations as docs/protocols.md
//! states. Ranks are threads, and no real transport is used.
//!
//! Route: sim.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Add;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use simulated::{Outcome, Rank, cost, messages, nets, on_every_net, peer, run, same};
use transom::ops::{Reduction, Swappable};
use transom::{Actor, Assert, BasicType, Class, Info, Lock, Op, RawWindow, Window, ops};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimCounters, SimOptions};

mod simulated;

/// All ranks agree on one actor; the net is the actor only if it performs every atomic itself.
/// Shows T5.
#[test]
fn the_actor_follows_the_nets_atomics() {
    for options in nets() {
        let expected = match options.amo {
            SimAmo::None => Actor::Cpu,
            SimAmo::All(Coherence::WithCpu) | SimAmo::Only64(Coherence::WithCpu) => Actor::Both,
            SimAmo::All(_) | SimAmo::Only64(_) => Actor::Nic,
        };
        run(2, &options, move |world| {
            let win = Window::<u64>::allocate(world, 1)?;
            same("the actor", &(world.actor(), win.actor()), &(expected, expected))?;
            Ok(win.free()?)
        });
    }
}

/// MPI-4.1 §12.3.1, §12.5.3: a put of any length is at the target after the end of its epoch and a
/// barrier.
/// Shows W1, O1, S2.
#[test]
fn a_ring_of_puts_arrives() {
    on_every_net(3, |world| {
        let (me, size) = (world.rank(), world.size());
        let win = Window::<u64>::allocate(world, 151)?;
        for turn in 0..4 {
            world.step(format!("turn {turn}"));
            let values = |from: usize| (0..150).map(move |i| (turn * 1_000_000 + from * 1000 + i) as u64);
            let mine: Vec<u64> = values(me).collect();
            win.lock_all(|epoch| {
                epoch.put((me + 1) % size, 0, &mine)?;
                epoch.put_value((me + 1) % size, 150, turn as u64)
            })?;
            world.barrier()?;
            win.sync();
            let mut found = [0; 151];
            win.load(0, &mut found)?;
            same("what the rank before put", &found[..150].to_vec(), &values((me + size - 1) % size).collect())?;
            same("the value behind", &found[150], &(turn as u64))?;
            world.barrier()?;
        }
        Ok(win.free()?)
    });
}

/// MPI-4.1 §12.5.4: flushed data is at the target, though the target makes no call.
/// Shows S3, S5, M1.
#[test]
fn a_flushed_put_is_seen_by_a_target_that_only_loads() {
    for options in nets() {
        let meet = Barrier::new(2);
        run(2, &options, move |world| {
            let win = Window::<u64>::allocate(world, 40)?;
            for turn in 1..=5u64 {
                let values = [turn; 38];
                world.step(format!("turn {turn}"));
                if world.rank() == 0 {
                    win.lock_all(|epoch| {
                        epoch.put(1, 1, &values)?;
                        epoch.put_value(1, 0, turn)?;
                        epoch.flush(1)?;
                        meet.wait();
                        meet.wait();
                        Ok(())
                    })?;
                } else {
                    meet.wait();
                    let mut found = [0; 40];
                    win.load(0, &mut found)?;
                    meet.wait();
                    same("what was flushed", &found[..39].to_vec(), &vec![turn; 39])?;
                    same("an element without puts", &found[39], &0)?;
                }
            }
            Ok(win.free()?)
        });
    }
}

/// MPI-4.1 §12.3.2: the result of a get is there when its epoch or scope ends, from every rank
/// including the origin.
/// Shows W1, O1, O6.
#[test]
fn gets_return_the_targets_data() {
    on_every_net(4, |world| {
        let (me, size) = (world.rank(), world.size());
        let pattern = |rank: usize| (0..300).map(move |i| peer(rank).0 * 1000 + i);
        let win = Window::<u32>::create(world, pattern(me).collect())?;
        let mut whole = vec![vec![0u32; 300]; size];
        world.step("whole windows");
        win.lock_all(|epoch| {
            whole.iter_mut().enumerate().try_for_each(|(rank, into)| epoch.get((me + rank) % size, 0, into))
        })?;
        for (rank, found) in whole.iter().enumerate() {
            same("a whole window", found, &pattern((me + rank) % size).collect())?;
        }
        world.step("elements");
        win.lock_all(|epoch| {
            for at in (0..300).step_by(37) {
                let (mut found, target) = ([0; 2], (me + at) % size);
                epoch.scope(|part| part.get(target, at, &mut found))?;
                assert_eq!(found.to_vec(), pattern(target).skip(at).take(2).collect::<Vec<_>>(), "at {at}");
            }
            Ok(())
        })?;
        same("the buffer", &win.reclaim()?, &pattern(me).collect())
    });
}

/// `fetch_and_op` of a byte-level window on a value in a register.
fn fetch(win: &RawWindow, target: usize, at: u64, op: Op, ty: BasicType, operand: u64) -> transom::Result<u64> {
    let mut old = [0; 8];
    win.fetch_and_op(&operand.to_le_bytes()[..ty.size()], &mut old[..ty.size()], ty, target, at, op)?;
    Ok(u64::from_le_bytes(old))
}

/// MPI-4.1 §12.3.4, §12.7.1: every ticket is issued once, and no increment by compare-and-swap is
/// lost, including those of the target.
fn atomics<T>(world: &Rank, tickets: &Mutex<BTreeSet<T>>, number: fn(T) -> u64) -> Outcome
where
    T: Swappable + Ord + From<u8> + Debug + Add<Output = T>,
    ops::Sum: Reduction<T>,
    ops::NoOp: Reduction<T>,
{
    let next = |seen: T| seen + T::from(1);
    const TURNS: u64 = 30;
    let one = T::from(1);
    let win = Window::<T>::allocate(world, 2)?;
    let target = world.size() - 1;
    world.step("tickets");
    let mine =
        win.lock_all(|epoch| (0..TURNS).map(|_| epoch.fetch_add(target, 0, one)).collect::<Result<Vec<_>, _>>())?;
    same("sorted", &mine.is_sorted_by(|a, b| a < b), &true)?;
    tickets.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
    world.step("swaps");
    win.lock_all(|epoch| {
        let mut seen = T::from(0);
        for _ in 0..TURNS {
            loop {
                let found = epoch.compare_and_swap(target, 1, seen, next(seen))?;
                let done = found == seen;
                seen = if done { next(seen) } else { found };
                if done {
                    break;
                }
            }
        }
        Ok(())
    })?;
    world.barrier()?;
    let expected = TURNS * world.size() as u64;
    let counted = win.lock_all(|epoch| Ok([epoch.fetch_value(0, 0)?, epoch.fetch_value(target, 1)?]))?;
    same("increments", &number(counted[1]), &expected)?;
    let given = tickets.lock().unwrap_or_else(PoisonError::into_inner);
    same("tickets", &given.iter().map(|&ticket| number(ticket)).collect::<Vec<_>>(), &(0..expected).collect())?;
    drop(given);
    Ok(win.free()?)
}

/// Shows O1, M3.
#[test]
fn atomics_of_64_bits_are_exact() {
    for options in nets() {
        let tickets = Mutex::default();
        run(3, &options, move |world| atomics::<u64>(world, &tickets, |value| value));
    }
}

/// Shows O1, M3.
#[test]
fn atomics_of_32_bits_are_exact() {
    for options in nets() {
        let tickets = Mutex::default();
        run(3, &options, move |world| atomics::<u32>(world, &tickets, u64::from));
    }
}

/// MPI-4.1 §12.5.1: a put before a fence is visible after it, and a put after the fence is not
/// visible before it.
/// Shows S1.
#[test]
fn fences_separate_phases() {
    on_every_net(5, |world| {
        let (me, size) = (world.rank(), world.size());
        let win = Window::<u64>::allocate(world, size)?;
        win.fence(|epoch| {
            for phase in 1..=6u64 {
                world.step(format!("phase {phase}"));
                for target in 0..size {
                    epoch.put_value(target, me, phase * 100 + me as u64)?;
                }
                epoch.fence()?;
                let mut found = vec![0; size];
                win.load(0, &mut found)?;
                let mut theirs = vec![0; size];
                epoch.scope(|part| part.get((me + 1) % size, 0, &mut theirs))?;
                let expected: Vec<u64> = (0..size as u64).map(|from| phase * 100 + from).collect();
                assert_eq!((&found, &theirs), (&expected, &expected), "rank {me} after phase {phase}");
                epoch.fence()?;
            }
            Ok(())
        })?;
        Ok(win.free()?)
    });
}

/// MPI-4.1 §12.5: epochs of different windows are independent; one window may be in a fence epoch
/// and another in lock_all.
/// Shows W7.
#[test]
fn two_windows_do_not_mix() {
    on_every_net(3, |world| {
        let (me, size) = (world.rank(), world.size());
        let next = (me + 1) % size;
        let (first, second) = (Window::<u64>::allocate(world, 4)?, Window::<u32>::allocate(world, 8)?);
        for turn in 0..4u32 {
            let at = turn as usize;
            world.step(format!("turn {turn}"));
            first.lock_all(|a| {
                second.fence(|b| {
                    a.put_value(next, at, u64::from(turn) + 10)?;
                    b.put_value(next, at, turn + 20)?;
                    a.flush(next)?;
                    b.fence()?;
                    a.fetch_add(next, at, 100u64)?;
                    b.put_value(next, at + 4, turn + 30)
                })
            })?;
        }
        let mut found = ([0; 4], [0; 8]);
        world.barrier()?;
        first.load(0, &mut found.0)?;
        second.load(0, &mut found.1)?;
        same("both", &found, &([110, 111, 112, 113], [20, 21, 22, 23, 30, 31, 32, 33]))?;
        // Freed in another order than created: keys that mix would free the wrong window.
        first.free()?;
        second.lock_all(|epoch| epoch.put_value(next, 0, 1u32))?;
        Ok(second.free()?)
    });
}

/// The error names rank, displacement, length and limit; the operation is not posted and has no
/// effect.
/// Shows O7, E1.
#[test]
fn accesses_outside_the_part_post_no_request() {
    on_every_net(2, |world| {
        let other = 1 - world.rank();
        let win = RawWindow::allocate(world, 64 + 8 * world.rank(), 1, &Info::new())?;
        let size = 64 + 8 * other as u64;
        let add = |rank, at| fetch(&win, rank, at, Op::Sum, BasicType::Int64, 1);
        same("outside an epoch", &add(other, 0).map_err(|error| error.class()), &Err(Class::RmaSync))?;
        win.lock_all(Assert::NONE)?;
        add(other, 0)?;
        win.flush(other)?;
        // After this barrier the other rank has no request left whose answer would count here.
        world.barrier()?;
        let before = world.counters();
        for at in [size - 7, size, size + 1, u64::MAX - 7, u64::MAX] {
            let error = add(other, at).expect_err("it is outside");
            same("class", &error.class(), &Class::RmaRange)?;
            let text = error.to_string();
            for word in [format!("rank {other}"), at.to_string(), "8 bytes".into(), size.to_string()] {
                same(&format!("{text:?} has {word:?}"), &text.contains(&word), &true)?;
            }
        }
        same("no rank", &add(2, 0).map_err(|error| error.class()), &Err(Class::Rank))?;
        same("no rank to flush", &win.flush(9).map_err(|error| error.class()), &Err(Class::Rank))?;
        same("posted", &world.counters(), &before)?;
        // Before this call an unlock of the other rank may still be answered from here.
        world.barrier()?;
        win.unlock_all()?;
        world.barrier()?;
        let mut found = vec![9; win.size()];
        win.load(0, &mut found);
        let mut expected = vec![0; win.size()];
        expected[..8].copy_from_slice(&1u64.to_ne_bytes());
        same("the window", &found, &expected)?;
        Ok(win.free()?)
    });
}

/// Remote operations of synchronization at every rank: ceil(log2 p) messages for a fence, a
/// barrier, and a window's creation or free; one atomic each for lock_all and unlock_all; none for
/// a flush. First contact with a rank's window reads its directory once.
fn synchronization_costs(ranks: usize) {
    let rounds = u64::from(ranks.next_power_of_two().trailing_zeros());
    let options = SimOptions { amo: SimAmo::All(Coherence::DeviceOnly), ..SimOptions::default() };
    run(ranks, &options, move |world| {
        let next = (world.rank() + 1) % world.size();
        same("barrier", &cost(world, || world.barrier())?, &messages(rounds))?;
        let mut made = None;
        let creation = cost(world, || {
            made = Some(RawWindow::allocate(world, 64, 8, &Info::new())?);
            Ok(())
        })?;
        same("creation", &creation, &messages(rounds))?;
        let win = made.ok_or("no window")?;
        world.step("first fence");
        let first = cost(world, || win.fence(Assert::NONE))?;
        same("first fence", &first, &messages(rounds))?;
        world.step("fences");
        for _ in 0..3 {
            same("fence", &cost(world, || win.fence(Assert::NONE))?, &messages(rounds))?;
        }
        win.fence(Assert::NOSUCCEED)?;
        // A job of one rank performs its atomics by CPU. The master word is at rank 0, which is
        // contacted first here.
        let amos = u64::from(world.size() > 1);
        let contact = u64::from(world.rank() != 0);
        let all = SimCounters { amos, gets: contact, ..SimCounters::default() };
        same("lock_all", &cost(world, || win.lock_all(Assert::NONE))?, &all)?;
        for (what, gets) in [("an atomic at first contact", u64::from(next != 0)), ("an atomic", 0)] {
            let add = cost(world, || fetch(&win, next, 0, Op::Sum, BasicType::Int64, 1).map(drop))?;
            same(what, &add, &SimCounters { amos, gets, ..SimCounters::default() })?;
        }
        same("flush", &cost(world, || win.flush(next))?, &messages(0))?;
        same("flush of an untouched target", &cost(world, || win.flush(world.size() / 2))?, &messages(0))?;
        same("flush_all", &cost(world, || win.flush_all())?, &messages(0))?;
        same("unlock_all", &cost(world, || win.unlock_all())?, &SimCounters { amos, ..SimCounters::default() })?;
        let nothing = cost(world, || win.lock_all(Assert::NOCHECK).and_then(|()| win.unlock_all()))?;
        same("lock_all and unlock_all without a check", &nothing, &messages(0))?;
        world.step("free");
        same("free", &cost(world, || win.free())?, &messages(rounds))
    });
}

/// Shows S3.
#[test]
fn synchronization_costs_log2_messages() {
    for ranks in [1, 2, 3, 4, 8, 16, 64] {
        synchronization_costs(ranks);
    }
}

/// Shows S3.
#[test]
fn synchronization_costs_9_messages_at_512_ranks() {
    synchronization_costs(512);
}

/// A waiting call runs the hook: here only the hook makes the event happen that the call waits for.
/// Shows S6.
#[test]
fn a_waiting_call_runs_the_hook() {
    type Wait = fn(&RawWindow, bool) -> transom::Result<()>;
    // In each call the first rank waits until the second one ends the wait.
    let waits: [(&str, Wait); 3] = [
        ("fence", |win, _| win.fence(Assert::NONE)),
        ("wait", |win, first| match first {
            true => win.post(&[1], Assert::NONE).and_then(|()| win.wait()),
            false => win.start(&[0], Assert::NONE).and_then(|()| win.complete()),
        }),
        ("lock", |win, first| if first { win.lock(Lock::Exclusive, 1, Assert::NONE) } else { win.unlock(1) }),
    ];
    for (what, wait) in waits {
        let called = Arc::new(AtomicUsize::new(0));
        run(2, &SimOptions::default(), move |world| {
            let first = world.rank() == 0;
            let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
            if what == "lock" && !first {
                win.lock(Lock::Exclusive, 1, Assert::NONE)?;
            }
            world.barrier()?;
            world.step(what);
            if first {
                let called = Arc::clone(&called);
                // Relaxed: a counter alone.
                world.while_waiting(move || _ = called.fetch_add(1, Ordering::Relaxed));
            } else {
                while called.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
            }
            wait(&win, first)?;
            if what == "lock" && first {
                win.unlock(1)?;
            }
            if what == "fence" {
                win.fence(Assert::NOSUCCEED)?;
            }
            Ok(win.free()?)
        });
    }
}

/// A sender whose message finds no room sleeps on the net, where an event ends the sleep.
///
/// Shows S6.
#[test]
fn a_sender_without_room_waits_for_events() {
    run(2, &SimOptions { amo: SimAmo::None, again_one_in: 0, ..SimOptions::default() }, |world| {
        let win = Window::<u64>::allocate(world, 1)?;
        if world.rank() == 0 {
            win.lock_all(|epoch| {
                epoch.fetch_add(1, 0, 1)?;
                let net = world.net();
                net.stop_messages_to(peer(1));
                let before = net.waits(peer(0));
                let resumes = std::thread::spawn(move || {
                    while net.waits(peer(0)) == before {
                        std::thread::yield_now();
                    }
                    net.resume_messages_to(peer(1));
                });
                let added = epoch.accumulate(1, 0, &[1], ops::Sum);
                resumes.join().expect("the call has waited");
                added
            })?;
        }
        world.barrier()?;
        if world.rank() == 1 {
            let mut sum = [0];
            win.load(0, &mut sum)?;
            same("sum", &sum, &[2])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

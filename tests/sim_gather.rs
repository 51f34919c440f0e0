//! Small puts, gets and accumulates share messages where the target's CPU performs them, as over
//! sockets: their costs, completion by a flush, and the order of accumulates.
//!
//! Route: sim.

use std::thread;

use simulated::{Outcome, Rank, combining, cost, like_sockets, on_every_net, run, same};
use transom::{Lock, Passive, Window, ops};
use transom_fabric::sim::{SimCounters, SimOptions};

mod simulated;

/// The number of puts of 8 bytes, apart from each other, that fit into a message of the net: 29
/// bytes, and 40 for each put.
const TOGETHER: u64 = (1024 - 29) / 40;

/// A net on which operations stay in flight until their targets have polled for long.
fn net(gathers: bool) -> SimOptions {
    SimOptions { delay: 40, ..like_sockets(gathers, false) }
}

/// Nets on which accumulates share messages: with puts and gets that do too, and with those that
/// are always posted.
fn nets_for_accumulates() -> [SimOptions; 2] {
    [net(true), SimOptions { delay: 40, ..combining(false) }]
}

fn counted(puts: u64, messages: u64) -> SimCounters {
    SimCounters { puts, messages, ..SimCounters::default() }
}

/// What rank 1 did before the measured operations.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// A put and a flush, so that a single operation is expected again.
    One,
    /// The same operations, so that a further one is expected after the first.
    Same,
}

impl Before {
    /// `spare`: an element that the measured operations do not use.
    fn begin(self, epoch: &Passive<'_, '_, u64>, spare: usize) -> transom::Result<()> {
        epoch.flush_all()?;
        match self {
            Before::One => epoch.put_value(0, spare, 0).and_then(|()| epoch.flush(0)),
            Before::Same => Ok(()),
        }
    }
}

/// Epochs of `puts` puts and a flush, each with its cost, by rank 1, at rank 0.
fn epochs(world: &Rank, win: &Window<u64>, puts: u64, before: Before) -> Outcome<Vec<SimCounters>> {
    let mut costs = Vec::new();
    for turn in 1..=20 {
        world.step(format!("turn {turn} of {puts} puts"));
        let values: Vec<u64> = (0..puts).map(|at| turn << 32 | at).collect();
        win.lock_all(|epoch| {
            before.begin(epoch, 511)?;
            let spent = cost(world, || {
                for (at, value) in (0..).zip(&values) {
                    epoch.put(0, 2 * at, std::slice::from_ref(value))?;
                }
                epoch.flush(0)
            })?;
            costs.push(spent);
            Ok(())
        })?;
        let mut found = vec![0; 512];
        win.lock_all(|epoch| epoch.get(0, 0, &mut found))?;
        let found: Vec<u64> = found.chunks(2).map(|pair| pair[0]).take(values.len()).collect();
        same("the puts are there after the flush", &found, &values)?;
    }
    Ok(costs)
}

/// One put is posted; the puts that find it in flight travel together. If a put was followed by
/// another one before, the first travels with the others. The flush posts one that is alone.
#[test]
fn puts_and_a_flush_cost_a_put_and_few_messages() {
    run(2, &net(true), |world| {
        let win = Window::<u64>::allocate(world, 512)?;
        world.barrier()?;
        if world.rank() == 1 {
            for (before, puts, posted, batches) in [
                (Before::One, 1, 1, 0),
                (Before::One, 2, 2, 0),
                (Before::One, 3, 1, 1),
                (Before::One, 1 + TOGETHER, 1, 1),
                (Before::One, 2 + TOGETHER, 2, 1),
                (Before::One, 64, 1, 63u64.div_ceil(TOGETHER)),
                (Before::Same, 1, 1, 0),
                (Before::Same, 2, 0, 1),
                (Before::Same, TOGETHER, 0, 1),
                (Before::Same, 1 + TOGETHER, 1, 1),
                (Before::Same, 64, 0, 64u64.div_ceil(TOGETHER)),
            ] {
                let costs = epochs(world, &win, puts, before)?;
                let least = counted(posted, batches);
                // A put that is complete before the next one lets that one be posted too.
                let found = costs.contains(&least);
                same(&format!("{puts} puts as {least:?}: {costs:?}"), &found, &true)?;
                let most = costs.iter().all(|cost| cost.puts + cost.messages <= puts);
                same(&format!("never more than {puts}: {costs:?}"), &most, &true)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
    run(2, &net(false), |world| {
        let win = Window::<u64>::allocate(world, 512)?;
        world.barrier()?;
        if world.rank() == 1 {
            same("all are posted", &epochs(world, &win, 64, Before::Same)?, &vec![counted(64, 0); 20])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// As with puts, the first get is posted, unless one was followed by another before. Those that
/// find it in flight travel together, unless there is only one. The request describes each of them
/// by 32 bytes at most, and the reply has the data.
#[test]
fn gets_and_a_flush_cost_a_get_and_few_messages() {
    run(2, &net(true), |world| {
        let win = Window::<u64>::allocate(world, 512)?;
        win.store(0, &(1000..1512).collect::<Vec<_>>())?;
        world.barrier()?;
        if world.rank() == 1 {
            for (before, gets, posted, messages) in [
                (Before::One, 1, 1, 0),
                (Before::One, 2, 2, 0),
                (Before::One, 3, 1, 1),
                (Before::One, 32, 1, 1),
                (Before::One, 64, 2, 2),
                (Before::Same, 2, 0, 1),
                (Before::Same, 31, 0, 1),
                (Before::Same, 32, 1, 1),
                (Before::Same, 64, 0, 3),
            ] {
                let mut costs = Vec::new();
                for turn in 0..10 {
                    world.step(format!("turn {turn} of {gets} gets"));
                    let mut found = vec![[0; 1]; gets];
                    win.lock_all(|epoch| {
                        before.begin(epoch, 511)?;
                        let spent = cost(world, || {
                            epoch.scope(|part| {
                                let mut at = (turn..).step_by(3);
                                found.iter_mut().try_for_each(|it| part.get(0, at.next().unwrap_or(0), it))
                            })
                        })?;
                        costs.push(spent);
                        Ok(())
                    })?;
                    let expected = (1000 + turn as u64..).step_by(3).take(gets);
                    same("the gets", &found.concat(), &expected.collect())?;
                }
                let least = SimCounters { gets: posted, messages, ..SimCounters::default() };
                same(&format!("{gets} gets as {least:?}: {costs:?}"), &costs.contains(&least), &true)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Kept operations that are contiguous at the target are one put and one get, as long as the port
/// copies them: 100 bytes here.
#[test]
fn contiguous_puts_and_gets_are_posted_together() {
    run(2, &net(true), |world| {
        let win = Window::<u64>::allocate(world, 64)?;
        world.barrier()?;
        if world.rank() == 1 {
            for (before, count, posted, messages) in [
                (Before::One, 3, 2, 0),
                (Before::One, 13, 2, 0),
                (Before::One, 14, 1, 1),
                (Before::Same, 3, 1, 0),
                (Before::Same, 12, 1, 0),
                (Before::Same, 13, 0, 1),
            ] {
                let (mut puts, mut gets) = (Vec::new(), Vec::new());
                for turn in 1..=10 {
                    world.step(format!("turn {turn} of {count}"));
                    let values: Vec<u64> = (0..count).map(|at| turn << 32 | at).collect();
                    let mut found = vec![[0; 1]; values.len()];
                    win.lock_all(|epoch| {
                        before.begin(epoch, 63)?;
                        puts.push(cost(world, || {
                            (0..).zip(&values).try_for_each(|(at, &value)| epoch.put_value(0, at, value))?;
                            epoch.flush(0)
                        })?);
                        before.begin(epoch, 63)?;
                        gets.push(cost(world, || {
                            epoch.scope(|part| (0..).zip(&mut found).try_for_each(|(at, it)| part.get(0, at, it)))
                        })?);
                        Ok(())
                    })?;
                    same("the gets find the puts", &found.concat(), &values)?;
                }
                let least = counted(posted, messages);
                same(&format!("{count} puts as {least:?}: {puts:?}"), &puts.contains(&least), &true)?;
                let least = SimCounters { gets: posted, messages, ..SimCounters::default() };
                same(&format!("{count} gets as {least:?}: {gets:?}"), &gets.contains(&least), &true)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// The first accumulate is a request, unless one was followed by another before. Those that find it
/// in flight share messages, whether they return the previous values or not. Operations that differ
/// from the one before take more room.
#[test]
fn accumulates_and_a_flush_cost_few_messages() {
    type One = for<'s> fn(&Passive<'s, '_, u64>, usize, &'s [u64]) -> transom::Result<()>;
    const SUM: One = |epoch, at, _| epoch.accumulate(0, 2 * at, &[1], ops::Sum);
    const DIFFER: One = |epoch, at, turn| match at % 2 {
        0 => epoch.accumulate(0, 2 * at, &[1], ops::Sum),
        _ => epoch.accumulate(0, 2 * at, turn, ops::Max),
    };
    /// Most accumulates of a message where each differs from the one before: 53 bytes, and the
    /// answer has 40.
    const APART: u64 = (1024 - 29) / 53;
    fn body(world: &Rank) -> Outcome {
        let win = Window::<u64>::allocate(world, 512)?;
        world.barrier()?;
        if world.rank() == 1 {
            for (before, count, messages, one) in [
                (Before::One, 1, 1, SUM),
                (Before::One, 2, 2, SUM),
                (Before::One, 1 + TOGETHER, 2, SUM),
                (Before::One, 2 + TOGETHER, 3, SUM),
                (Before::One, 64, 1 + 63u64.div_ceil(TOGETHER), SUM),
                (Before::One, 1 + APART, 2, DIFFER),
                (Before::One, 64, 1 + 63u64.div_ceil(APART), DIFFER),
                (Before::Same, 2, 1, SUM),
                (Before::Same, TOGETHER, 1, SUM),
                (Before::Same, 64, 64u64.div_ceil(TOGETHER), SUM),
                (Before::Same, APART, 1, DIFFER),
            ] {
                let at = || 0..usize::try_from(count).unwrap_or(0);
                win.lock_all(|epoch| at().try_for_each(|at| epoch.put_value(0, 2 * at, 0)))?;
                let mut costs = Vec::new();
                for turn in 1..=20 {
                    world.step(format!("turn {turn} of {count} accumulates"));
                    let value = [turn];
                    win.lock_all(|epoch| {
                        epoch.flush_all()?;
                        if matches!(before, Before::One) {
                            epoch.accumulate(0, 511, &[0], ops::Sum).and(epoch.flush(0))?;
                        }
                        let all = || at().try_for_each(|at| one(epoch, at, &value));
                        costs.push(cost(world, || all().and(epoch.flush(0)))?);
                        Ok(())
                    })?;
                    let mut found = vec![0; 512];
                    win.lock_all(|epoch| epoch.get(0, 0, &mut found))?;
                    let found = found.chunks(2).map(|pair| pair[0]).take(at().len());
                    same("the accumulates are there after the flush", &found.collect(), &vec![turn; at().len()])?;
                }
                let least = counted(0, messages);
                same(&format!("{count} accumulates as {least:?}: {costs:?}"), &costs.contains(&least), &true)?;
                same("never more than one for each", &costs.iter().all(|cost| cost.messages <= count), &true)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    nets_for_accumulates().iter().for_each(|net| run(2, net, body));
}

/// Accumulates that return previous values share messages too, if no call waits for the values.
#[test]
fn fetching_accumulates_share_messages() {
    fn body(world: &Rank) -> Outcome {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 1 {
            let mut costs = Vec::new();
            for turn in 0..20 {
                world.step(format!("turn {turn}"));
                let (mut counts, mut gets) = ([0; 10], vec![[0; 2]; 10]);
                win.lock_all(|epoch| {
                    let spent = cost(world, || {
                        epoch.scope(|part| {
                            counts.iter_mut().try_for_each(|it| part.start_fetch_and_op(0, 1, 1, it, ops::Sum))?;
                            gets.iter_mut().try_for_each(|it| part.get_accumulate(0, 1, &[1, 2], it, ops::Sum))
                        })
                    })?;
                    costs.push(spent);
                    Ok(())
                })?;
                same("the counts", &counts.to_vec(), &(turn * 20..turn * 20 + 10).collect())?;
                let expected = (0..10).map(|at| [turn * 20 + 10 + at, 20 * turn + 2 * at]);
                same("the gets", &gets, &expected.collect())?;
            }
            same(&format!("2 messages: {costs:?}"), &costs.contains(&counted(0, 2)), &true)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    nets_for_accumulates().iter().for_each(|net| run(2, net, body));
}

/// Operations with requests share messages with each other and with those without. Each request is
/// complete when its wait returns, in whatever order the program waits.
#[test]
fn operations_with_requests_share_messages() {
    run(2, &net(true), |world| {
        let win = Window::<u64>::allocate(world, 64)?;
        world.barrier()?;
        if world.rank() == 1 {
            let mut costs = Vec::new();
            for turn in 1..=20u64 {
                world.step(format!("turn {turn}"));
                let values: Vec<u64> = (0..10).map(|at| turn << 32 | at).collect();
                win.lock_all(|epoch| {
                    epoch.flush_all()?;
                    let spent = cost(world, || {
                        let puts = (0..).zip(values.chunks(1)).map(|(at, value)| match at {
                            5 => epoch.put(0, 2 * at, value).map(|()| None),
                            at => epoch.rput(0, 2 * at, value).map(Some),
                        });
                        let puts = puts.collect::<transom::Result<Vec<_>>>()?;
                        puts.into_iter().flatten().rev().try_for_each(|mut put| put.wait())
                    })?;
                    costs.push(spent);
                    epoch.flush(0)?;
                    let gets = (0..10).map(|at| epoch.rget_owned(0, 2 * at, vec![0]));
                    let gets = gets.collect::<transom::Result<Vec<_>>>()?;
                    let found = gets.into_iter().map(|get| get.wait().map(|found| found[0]));
                    assert_eq!(found.collect::<transom::Result<Vec<_>>>()?, values, "turn {turn}");
                    Ok(())
                })?;
            }
            same(&format!("1 put and 1 message: {costs:?}"), &costs.contains(&counted(1, 1)), &true)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Operations on one location, kept and others, take effect in the order of the program (MPI-4.1
/// §12.7.2).
#[test]
fn kept_accumulates_keep_their_order_among_others() {
    on_every_net(2, |world| {
        let win = Window::<u64>::allocate(world, 600)?;
        world.barrier()?;
        let (mut expected, many, turns) = (1u64, vec![1u64; 600], (0..40).collect::<Vec<u64>>());
        if world.rank() == 1 {
            win.lock_all(|epoch| {
                epoch.accumulate(0, 0, &[1], ops::Replace)?;
                for (turn, own) in (0..).zip(turns.chunks(1)) {
                    epoch.accumulate(0, 0, &[3], ops::Prod)?;
                    epoch.accumulate(0, 0, own, ops::Sum)?;
                    expected = expected.wrapping_mul(3).wrapping_add(turn);
                    match turn % 4 {
                        0 => {
                            let found = epoch.fetch_and_op(0, 0, 7, ops::Bxor)?;
                            assert_eq!(found, expected, "turn {turn}: fetch_and_op");
                            expected ^= 7;
                        }
                        1 => {
                            let found = epoch.compare_and_swap(0, 0, expected, turn + 2)?;
                            assert_eq!(found, expected, "turn {turn}: compare_and_swap");
                            expected = turn + 2;
                        }
                        2 => {
                            epoch.accumulate(0, 0, &many, ops::Sum)?;
                            expected = expected.wrapping_add(1);
                        }
                        _ => epoch.raccumulate(0, 0, &many[..1], ops::Max)?.wait()?,
                    }
                    expected = if turn % 4 == 3 { expected.max(1) } else { expected };
                }
                Ok(())
            })?;
            let mut found = [0];
            win.lock(Lock::Shared, 0, |epoch| epoch.get(0, 0, &mut found))?;
            same("the last value", &found, &[expected])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Between fences, the first 6 puts are posted; those after them share a message. All puts share
/// the message that ends the epoch between start and complete, and the message that signals the
/// fence to the next rank.
#[test]
fn puts_before_a_notice_are_posted_where_they_are_few() {
    run(3, &net(true), |world| {
        let win = Window::<u64>::allocate(world, 128)?;
        for (puts, posted) in [(1, 1), (6, 6), (7, 7), (8, 6), (16, 6)] {
            let mut costs = Vec::new();
            for turn in 1..=10 {
                world.step(format!("turn {turn} of {puts} puts"));
                let at = |index: u64| index << 8 | turn;
                let put = |epoch: &transom::Access<'_, '_, u64>, to| {
                    (0..puts).try_for_each(|index| epoch.put_value(to, 2 * index, at(index as u64)))
                };
                win.fence(|_| Ok(()))?;
                let fence = |to| win.fence(|epoch| if world.rank() == 1 { put(epoch, to) } else { Ok(()) });
                let (next, fence) = (cost(world, || fence(2))?, cost(world, || fence(0))?);
                let found = |win: &Window<u64>| {
                    let mut found = vec![0; 2 * puts];
                    win.load(0, &mut found)?;
                    let expected: Vec<u64> = (0..puts as u64).flat_map(|index| [at(index), 0]).collect();
                    Ok::<_, transom::Error>(found == expected)
                };
                if world.rank() != 1 {
                    same("the puts are there after the fence", &found(&win)?, &true)?;
                    win.store(0, &vec![0; 2 * puts])?;
                }
                if world.rank() == 0 {
                    win.post(&[1])?;
                    win.wait()?;
                    same("the puts are there after the wait", &found(&win)?, &true)?;
                    win.store(0, &vec![0; 2 * puts])?;
                } else if world.rank() == 1 {
                    let start = cost(world, || win.start(&[0], |epoch| put(epoch, 0)))?;
                    costs.push(fence.puts);
                    same("posted puts to the next rank", &next.puts, &0)?;
                    same("the epoch of start", &(start.puts, start.messages), &(0, 1))?;
                }
            }
            if world.rank() == 1 {
                // A put that is complete before a later one lets that one be posted too.
                same(&format!("{puts} puts: {costs:?}"), &costs.iter().min().copied(), &Some(posted))?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Every way to complete puts covers those that are kept: flushes of one and of all targets, the
/// end of the epoch.
#[test]
fn every_completion_covers_kept_operations() {
    type Ends = fn(&Window<u64>, usize, u64) -> transom::Result<()>;
    const PUTS: u64 = 40;
    fn put(epoch: &transom::Access<'_, '_, u64>, to: usize, value: u64) -> transom::Result<()> {
        (0..).zip(value..value + PUTS).try_for_each(|(at, value)| epoch.put_value(to, 3 * at, value))
    }
    const ENDS: [Ends; 5] = [
        |win, to, value| win.lock_all(|epoch| put(epoch, to, value)),
        |win, to, value| win.lock(Lock::Shared, to, |epoch| put(epoch, to, value)),
        |win, to, value| win.lock(Lock::Exclusive, to, |epoch| put(epoch, to, value).and(epoch.flush(to))),
        |win, to, value| win.lock_all(|epoch| put(epoch, to, value).and(epoch.flush_all())),
        |win, to, value| {
            let values: Vec<u64> = (value..value + PUTS).collect();
            win.lock_all(|epoch| {
                (0..).zip(values.chunks(1)).try_for_each(|(at, it)| epoch.accumulate(to, 3 * at, it, ops::Replace))
            })
        },
    ];
    on_every_net(3, |world| {
        let win = Window::<u64>::allocate(world, 128)?;
        let to = (world.rank() + 1) % world.size();
        for (turn, ends) in (1..).zip(ENDS.iter().cycle().take(15)) {
            world.step(format!("turn {turn}"));
            ends(&win, to, turn << 16)?;
            world.barrier()?;
            let mut found = vec![0; 128];
            win.load(0, &mut found)?;
            let found: Vec<u64> = found.chunks(3).map(|three| three[0]).take(40).collect();
            same("the puts", &found, &(0..PUTS).map(|at| (turn << 16) + at).collect())?;
            world.barrier()?;
        }
        Ok(win.free()?)
    });
}

/// Threads of one rank put to two targets and flush at the same time: each finds its own puts.
#[test]
fn threads_share_kept_operations() -> Outcome {
    fn body(world: &Rank) -> Outcome {
        const EACH: usize = 50;
        let win = Window::<u64>::allocate(world, 256)?;
        world.barrier()?;
        if world.rank() == 0 {
            win.lock_all(|epoch| {
                thread::scope(|scope| {
                    let threads: Vec<_> = (0..4)
                        .map(|me| {
                            scope.spawn(move || {
                                for turn in 1..=EACH as u64 {
                                    let to = 1 + me % 2;
                                    let at = |index: usize| me * 64 + 2 * index;
                                    (0..8).try_for_each(|index| epoch.put_value(to, at(index), turn))?;
                                    epoch.flush(to)?;
                                    for index in 0..8 {
                                        let mut found = [0];
                                        epoch.scope(|part| part.get(to, at(index), &mut found))?;
                                        assert_eq!(found, [turn], "thread {me}, turn {turn}, put {index}");
                                    }
                                }
                                Ok(())
                            })
                        })
                        .collect();
                    threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
                })
            })?;
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    run(3, &net(true), body);
    Ok(())
}

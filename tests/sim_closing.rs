//! The ends of epochs that notify targets. Over sockets the message of small operations also ends
//! the epoch, which saves a message, and the end of a closure waits no longer than the call of the
//! byte-level window.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use simulated::{Outcome, Rank, combining, cost, like_sockets, nets, peer, run, same};
use transom::{Assert, BasicType, Class, Info, Op, RawWindow, Window, ops};
use transom_fabric::sim::{SimDelivery, SimOptions};

mod simulated;

const BYTES: usize = 32_000;

fn net(ordered: bool) -> SimOptions {
    SimOptions { transfer_max: 1 << 20, ..like_sockets(true, ordered) }
}

/// Operations of an epoch on rank 1, on different bytes.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A put: its number of bytes, and its offset.
    Put(usize, usize),
    Get(usize, usize),
    Add(usize, usize),
    /// A `fetch_and_op` that changes nothing.
    Fetch,
}

/// Puts, gets and messages.
type Cost = (u64, u64, u64);

/// Epochs, with the puts, gets and messages that they may cost. On an ordered net the first cost is
/// the only one, if the second operation is short: the message is sent behind a long put in flight.
const EPOCHS: &[(&[Step], &[Cost])] = &[
    (&[], &[(0, 0, 1)]),
    (&[Step::Put(8, 0)], &[(0, 0, 1)]),
    (&[Step::Put(8, 8), Step::Put(8, 100), Step::Put(16, 200)], &[(0, 0, 1)]),
    (&[Step::Add(8, 304)], &[(0, 0, 1)]),
    (&[Step::Add(8, 304), Step::Add(16, 320)], &[(0, 0, 1)]),
    (&[Step::Get(8, 8)], &[(0, 0, 1)]),
    (&[Step::Get(8, 0), Step::Get(24, 304)], &[(0, 0, 1)]),
    // Two messages of operations, then the notice. The flush posts one put as a put.
    (&[Step::Put(8, 400), Step::Add(8, 304)], &[(1, 0, 2)]),
    (&[Step::Put(8, 408), Step::Put(20_000, 8000)], &[(1, 0, 1), (2, 0, 1)]),
    (&[Step::Put(20_000, 8000), Step::Put(8, 408)], &[(1, 0, 1), (2, 0, 1)]),
    // Atomics that are complete do not keep the message from ending the epoch.
    (&[Step::Fetch, Step::Put(8, 416)], &[(0, 0, 2)]),
];

/// Shows S2, O1, O2, O3.
#[test]
fn the_message_of_small_operations_ends_the_epoch() {
    ends_epochs(false);
}

/// The message signals the next fence, too.
/// Shows S1, O1, O2, O3.
#[test]
fn the_message_of_small_operations_signals_the_fence() {
    ends_epochs(true);
}

/// The costs of gets between fences, which are posted: the signal does not precede their results.
const GETS_OF_FENCES: &[Cost] = &[(0, 1, 1), (0, 2, 1)];

/// Begins an operation on rank 1.
///
/// # Safety
/// The buffers outlive the epoch, and are not used before its end.
unsafe fn operate(win: &RawWindow, step: Step, from: &[u8], into: &mut [u8]) -> transom::Result<()> {
    // SAFETY: the caller upholds it.
    unsafe {
        match step {
            Step::Put(len, at) => win.put(from.as_ptr(), len, 1, at as u64),
            Step::Get(len, at) => win.get(into.as_mut_ptr().add(at), len, 1, at as u64),
            Step::Fetch => win.fetch_and_op(&[], &mut into[..8], BasicType::Int64, 1, 424, Op::NoOp),
            Step::Add(len, at) => win.accumulate(from.as_ptr(), len / 8, BasicType::Int64, 1, at as u64, Op::Sum),
        }
    }
}

/// Does the step on the expected content of rank 1's part. All bytes of the operands are `byte`.
fn apply(step: Step, byte: u8, expected: &mut [u8]) {
    match step {
        Step::Put(len, at) => expected[at..][..len].fill(byte),
        Step::Get(..) | Step::Fetch => {}
        Step::Add(len, at) => {
            for word in expected[at..][..len].as_chunks_mut::<8>().0 {
                *word = (i64::from_ne_bytes(*word) + i64::from_ne_bytes([byte; 8])).to_ne_bytes();
            }
        }
    }
}

/// The costs that an epoch may have, of those in [`EPOCHS`].
fn allowed_costs(steps: &[Step], costs: &'static [Cost], by_fence: bool, ordered: bool) -> &'static [Cost] {
    let costs = if by_fence && matches!(steps, [Step::Get(..), ..]) { GETS_OF_FENCES } else { costs };
    let is_exact = ordered && matches!(steps, [Step::Put(8, _), ..]);
    if is_exact { &costs[..1] } else { costs }
}

/// Rank 0's side of an epoch: the steps, and the end of the epoch, with their cost.
fn access(world: &Rank, win: &RawWindow, by_fence: bool, steps: &[Step], byte: u8, expected: &[u8]) -> Outcome<Cost> {
    let (from, mut into) = (vec![byte; BYTES], vec![0u8; BYTES]);
    // The target's post is here before the operations.
    if by_fence {
        win.fence(Assert::NOPRECEDE)?;
    } else {
        win.start(&[1], Assert::NONE)?;
    }
    let spent = cost(world, || {
        // SAFETY: the buffers outlive the epoch.
        steps.iter().try_for_each(|step| unsafe { operate(win, *step, &from, &mut into) })?;
        if by_fence { win.fence(Assert::NOSUCCEED) } else { win.complete() }
    })?;
    for step in steps {
        if let Step::Get(len, at) = *step {
            same("a get", &into[at..][..len].to_vec(), &expected[at..][..len].to_vec())?;
        }
    }
    Ok((spent.puts, spent.gets, spent.messages))
}

/// Rank 1's side of an epoch, after which its part has the expected content.
fn expose(win: &RawWindow, by_fence: bool, expected: &[u8]) -> Outcome {
    if by_fence {
        win.fence(Assert::NOPRECEDE)?;
        win.fence(Assert::NOSUCCEED)?;
    } else {
        win.post(&[0], Assert::NONE)?;
        win.wait()?;
    }
    // SAFETY: no rank accesses the part now.
    let part = unsafe { std::slice::from_raw_parts(win.base(), BYTES) };
    same("the part after wait", &part.iter().zip(expected).position(|(a, b)| a != b), &None)
}

/// Runs [`EPOCHS`] of rank 0 on rank 1, between fences or between start and complete.
fn ends_epochs(by_fence: bool) {
    for ordered in [true, false] {
        run(2, &net(ordered), move |world| {
            let win = RawWindow::allocate(world, BYTES, 1, &Info::new())?;
            let mut expected = vec![0u8; BYTES];
            // First contact, which is not counted below.
            let mut got = [0u8; 8];
            win.fence(Assert::NOPRECEDE)?;
            // SAFETY: the buffer outlives the epoch.
            unsafe { win.get(got.as_mut_ptr(), 8, 1, 0)? };
            win.fence(Assert::NOSUCCEED)?;
            world.barrier()?;
            for (byte, (steps, costs)) in (1..).zip(EPOCHS) {
                world.step(format!("{steps:?}"));
                steps.iter().for_each(|step| apply(*step, byte, &mut expected));
                if world.rank() == 1 {
                    expose(&win, by_fence, &expected)?;
                    continue;
                }
                let found = access(world, &win, by_fence, steps, byte, &expected)?;
                let allowed = allowed_costs(steps, costs, by_fence, ordered);
                same(&format!("{found:?} is one of {allowed:?}"), &allowed.contains(&found), &true)?;
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// An accumulate that is sent as a message, and is the first of its epoch, ends the epoch too.
/// Shows S2, O3.
#[test]
fn the_message_of_an_accumulate_ends_the_epoch() {
    const LEN: usize = 1000;
    fn body(world: &Rank) -> Outcome {
        let win = Window::<u64>::allocate(world, LEN)?;
        let ones = vec![1; LEN];
        for count in [1, 1, 2u64] {
            world.barrier()?;
            if world.rank() == 1 {
                win.post(&[0])?;
                win.wait()?;
                continue;
            }
            let add = || win.start(&[1], |epoch| (0..count).try_for_each(|_| epoch.accumulate(1, 0, &ones, ops::Sum)));
            // After two messages the notice is one more.
            same(&format!("{count} accumulates"), &cost(world, add)?.messages, &(if count == 1 { 1 } else { 3 }))?;
        }
        if world.rank() == 1 {
            same("the sums", &[loaded(&win, 0)?, loaded(&win, LEN - 1)?], &[4, 4])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    for net in [net(true), combining(true)] {
        run(2, &SimOptions { message_max: 10_000, ..net }, body);
    }
}

/// Where a device performs puts and CPUs accumulates, the message of the accumulates ends the epoch
/// behind puts in flight if the net keeps the order, and else when the puts are complete.
/// Shows S1, S2, O3.
#[test]
fn the_message_of_accumulates_ends_the_epoch_behind_puts() {
    const LEN: usize = 4000;
    for ordered in [true, false] {
        run(2, &SimOptions { transfer_max: 1 << 20, delay: 40, ..combining(ordered) }, move |world| {
            let win = Window::<u64>::allocate(world, LEN)?;
            // First contact.
            win.fence(|epoch| epoch.put_value(1 - world.rank(), 0, 0))?;
            let mut costs = Vec::new();
            for turn in 1..=20u64 {
                world.step(format!("turn {turn}"));
                let values = vec![turn; LEN - 1];
                world.barrier()?;
                let spent = match world.rank() {
                    0 => cost(world, || win.start(&[1], |epoch| put_and_add(epoch, &values)))?,
                    _ => {
                        win.post(&[0])?;
                        win.wait()?;
                        same("after wait", &loaded_all(&win, LEN)?, &expected(turn, 4 * turn - 2, LEN))?;
                        Default::default()
                    }
                };
                world.barrier()?;
                win.fence(|epoch| if world.rank() == 0 { put_and_add(epoch, &values) } else { Ok(()) })?;
                if world.rank() == 1 {
                    same("after the fence", &loaded_all(&win, LEN)?, &expected(turn, 4 * turn, LEN))?;
                }
                costs.push((spent.puts, spent.messages));
            }
            if world.rank() == 0 {
                let most = if ordered { 1 } else { 2 };
                let all = costs.iter().all(|&(puts, messages)| puts == 1 && (1..=most).contains(&messages));
                same(&format!("1 put, at most {most} messages: {costs:?}"), &all, &true)?;
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// Puts the values to rank 1, and adds 2 to the element behind them.
fn put_and_add<'s>(epoch: &transom::Access<'_, 's, u64>, values: &'s [u64]) -> transom::Result<()> {
    epoch.put(1, 0, values)?;
    epoch.accumulate(1, values.len(), &[1], ops::Sum)?;
    epoch.accumulate(1, values.len(), &[1], ops::Sum)
}

/// The content of this rank's part.
fn loaded_all(win: &Window<u64>, len: usize) -> transom::Result<Vec<u64>> {
    let mut found = vec![0; len];
    win.load(0, &mut found)?;
    Ok(found)
}

/// `len` elements: `value`, and at last `last`.
fn expected(value: u64, last: u64, len: usize) -> Vec<u64> {
    let mut all = vec![value; len];
    all[len - 1] = last;
    all
}

/// Small operations on a dynamic window end the epoch with their message too.
/// Shows S2, O1, O2, O3.
#[test]
fn operations_by_address_end_the_epoch() {
    for ordered in [true, false] {
        run(2, &net(ordered), move |world| {
            let (words, win) = ([const { AtomicU64::new(0) }; 8], RawWindow::create_dynamic(world, &Info::new())?);
            let at = words.as_ptr().cast_mut().cast::<u8>();
            // SAFETY: the words outlive the attachment; they are atomic.
            unsafe { win.attach(at, 64)? };
            let bases = Window::<u64>::create(world, vec![at.addr() as u64])?;
            let mut base = [0];
            // Without a lock, so that no answer to its release is counted below.
            bases.lock_all_with(Assert::NOCHECK, |epoch| epoch.get(1, 0, &mut base))?;
            let there = |word: u64| base[0] + 8 * word;
            world.barrier()?;
            let (ones, mut got) = ([1u64; 2], 0u64);
            let from = ones.as_ptr().cast::<u8>();
            // SAFETY: the operand outlives the epochs.
            let put = |word| unsafe { win.put(from, 8, 1, there(word)) };
            // SAFETY: as for the put.
            let add = |word| unsafe { win.accumulate(from, 2, BasicType::Uint64, 1, there(word), Op::Sum) };
            // SAFETY: the result outlives the epochs, and is not used before their ends.
            let mut get = || unsafe { win.get((&raw mut got).cast(), 8, 1, there(2)) };
            type Epoch<'e> = &'e mut dyn FnMut() -> transom::Result<()>;
            let epochs: [(Epoch<'_>, u64); 6] = [
                (&mut || put(0), 1),
                (&mut || put(1).and(put(7)), 1),
                (&mut || add(2), 1),
                (&mut || add(2).and(add(3)), 1),
                (&mut || get(), 1),
                // Two messages of operations, then the notice.
                (&mut || put(5).and(add(2)), 3),
            ];
            for (turn, (operate, messages)) in epochs.into_iter().enumerate() {
                world.step(format!("epoch {turn}"));
                if world.rank() == 1 {
                    win.post(&[0], Assert::NONE)?;
                    win.wait()?;
                    continue;
                }
                win.start(&[1], Assert::NONE)?;
                let spent = cost(world, || operate().and_then(|()| win.complete()))?;
                same(&format!("epoch {turn}"), &(spent.puts, spent.gets, spent.messages), &(0, 0, messages))?;
            }
            if world.rank() == 0 {
                world.step("an address that is not attached");
                win.start(&[1], Assert::NONE)?;
                let outcome = put(0).and(put(100)).and_then(|()| win.complete());
                same("the class", &outcome.map_err(|error| error.class()), &Err(Class::RmaRange))?;
                same("what was got", &got, &2)?;
            } else {
                win.post(&[0], Assert::NONE)?;
                win.wait()?;
                let found: Vec<_> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
                same("the words", &found, &vec![1, 1, 3, 4, 1, 1, 0, 1])?;
            }
            world.barrier()?;
            bases.free()?;
            Ok(win.free()?)
        });
    }
}

/// Rings of epochs with small puts and accumulates in all directions, on all kinds of nets.
/// Shows S2.
#[test]
fn epochs_of_all_ranks_end_with_their_data() {
    for options in nets() {
        run(3, &options, |world| {
            let (me, size) = (world.rank(), world.size());
            let win = RawWindow::allocate(world, 512, 8, &Info::new())?;
            let others: Vec<usize> = (0..size).filter(|&rank| rank != me).collect();
            for turn in 1..30usize {
                world.step(format!("turn {turn}"));
                win.post(&others, Assert::NONE)?;
                win.start(&others, Assert::NONE)?;
                let values = [(turn * 100 + me) as u64; 4];
                let ones = [1i64; 2];
                for &to in &others {
                    // SAFETY: the buffers outlive the epoch.
                    unsafe {
                        win.put(values.as_ptr().cast(), 8 * (1 + turn % 4), to, 4 * me as u64)?;
                        if turn % 3 > 0 {
                            let (from, at) = (ones.as_ptr().cast(), 32 + 2 * me as u64);
                            win.accumulate(from, 2, BasicType::Int64, to, at, Op::Sum)?;
                        }
                    }
                }
                win.complete()?;
                win.wait()?;
                // SAFETY: no rank accesses the part before this rank's next post.
                let part = unsafe { std::slice::from_raw_parts(win.base().cast::<u64>(), 64) };
                for &from in &others {
                    same("a put", &part[4 * from], &((turn * 100 + from) as u64))?;
                    same("a sum", &part[32 + 2 * from], &((turn - turn / 3) as u64))?;
                }
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

fn loaded(win: &Window<u64>, at: usize) -> transom::Result<u64> {
    let mut found = [0];
    win.load(at, &mut found)?;
    Ok(found[0])
}

/// The notice at the end of a closure is sent behind the closure's puts without waiting for them.
/// Shows S1, S2.
#[test]
fn the_ends_of_closures_follow_puts() {
    let options =
        SimOptions { delay: 40, delivery: SimDelivery { ordered: true, ..SimDelivery::default() }, ..net(true) };
    run(2, &options, |world| {
        let win = Window::<u64>::allocate(world, 8)?;
        let mut behind = [0; 2];
        for turn in 1..=30u64 {
            world.step(format!("turn {turn}"));
            if world.rank() == 1 {
                win.fence(|_| Ok(()))?;
                same("after the fence", &loaded(&win, 0)?, &turn)?;
                win.post(&[0])?;
                win.wait()?;
                same("after wait", &loaded(&win, 1)?, &turn)?;
            } else {
                let value = [turn];
                let fence = cost(world, || win.fence(|epoch| epoch.put(1, 0, &value)))?;
                let start = cost(world, || win.start(&[1], |epoch| epoch.put(1, 1, &value)))?;
                behind[0] += fence.behind;
                behind[1] += start.behind;
            }
        }
        world.barrier()?;
        if world.rank() == 0 {
            same("notices followed puts", &behind.map(|count| count > 0), &[true; 2])?;
        }
        Ok(win.free()?)
    });
}

/// Small puts to two targets, the second of which posts late: each message ends its epoch, although
/// the origin has polled between the puts.
/// Shows S1, S2.
#[test]
fn a_late_post_leaves_the_other_messages_whole() {
    run(3, &net(true), |world| {
        let win = Window::<u64>::allocate(world, 8)?;
        for turn in 1..=10u64 {
            world.step(format!("turn {turn}"));
            world.barrier()?;
            if world.rank() > 0 {
                if world.rank() == 2 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                win.post(&[0])?;
                win.wait()?;
                same("after wait", &loaded(&win, 0)?, &turn)?;
            } else {
                let spent = cost(world, || {
                    win.start(&[1, 2], |epoch| {
                        epoch.put_value(1, 0, turn)?;
                        epoch.put_value(2, 0, turn)
                    })
                })?;
                same("puts and messages", &(spent.puts, spent.messages), &(0, 2))?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// More operations than fit a message, and operations of both kinds, complete, and are there after
/// the wait, while another thread of the origin polls.
/// Shows S2, O1, O3.
#[test]
fn epochs_end_with_their_data_beside_a_polling_thread() {
    const PUTS: usize = 60;
    for options in [net(true), net(false)] {
        run(2, &options, |world| {
            let [win, other] = [(); 2].map(|()| Window::<u64>::allocate(world, 2 * PUTS + 1));
            let (win, other, over) = (win?, other?, AtomicBool::new(false));
            let epochs = || {
                (1..=60u64).try_for_each(|turn| {
                    let puts = [PUTS, 1, 2, 3][usize::try_from(turn % 4)?];
                    world.step(format!("turn {turn}"));
                    if world.rank() == 0 {
                        win.start(&[1], |epoch| {
                            (0..puts).try_for_each(|at| epoch.put_value(1, 2 * at, turn))?;
                            if turn % 3 == 0 { epoch.accumulate(1, 2 * PUTS, &[1], ops::Sum) } else { Ok(()) }
                        })?;
                    } else {
                        win.post(&[0])?;
                        win.wait()?;
                        for at in 0..puts {
                            same("a put", &loaded(&win, 2 * at)?, &turn)?;
                        }
                        same("the sum", &loaded(&win, 2 * PUTS)?, &(turn / 3))?;
                    }
                    Ok::<_, Box<dyn std::error::Error>>(())
                })
            };
            std::thread::scope(|threads| {
                let polls = threads.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        other.lock_all(|epoch| epoch.put_value(1, 0, 1))?;
                    }
                    Ok::<_, transom::Error>(())
                });
                let done = epochs().map_err(|error| error.to_string());
                over.store(true, Ordering::Release);
                polls.join().expect("the thread does not panic").map_err(|error| error.to_string())?;
                done
            })?;
            world.barrier()?;
            win.free()?;
            Ok(other.free()?)
        });
    }
}

/// A message that ends an epoch and can't be sent fails its operations. The end itself is sent
/// later, so the target does not wait in vain. The same holds for the notice behind a long put, and
/// for one after operations that are complete.
/// Shows S2, E1.
#[test]
fn an_end_that_can_not_be_sent_is_sent_later() {
    const LONG: usize = 3000;
    run(2, &net(true), |world| {
        let win = Window::<u64>::allocate(world, LONG)?;
        for turn in 1..=12u64 {
            world.step(format!("turn {turn}"));
            if world.rank() == 1 {
                win.post(&[0])?;
                world.barrier()?;
                win.wait()?;
                win.post(&[0])?;
                win.wait()?;
                same("a later epoch", &loaded(&win, 0)?, &turn)?;
                continue;
            }
            let (values, sums) = (vec![turn; LONG], [1]);
            world.barrier()?;
            let failed = win.start(&[1], |epoch| {
                let begun = match turn % 4 {
                    0 => epoch.accumulate(1, 1, &sums, ops::Sum),
                    1 => epoch.put(1, 2, &values[..1]),
                    2 => epoch.put(1, 2, &values[2..]),
                    _ => epoch.scope(|part| part.put(1, 2, &values[..1])),
                };
                world.net().break_connection_to(peer(1));
                begun
            });
            world.net().mend_connection_to(peer(1));
            same("the epoch fails", &failed.is_err(), &true)?;
            win.start(&[1], |epoch| epoch.put_value(1, 0, turn))?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// An answer that waits for a notice to the origin is sent even if the notice can't be.
/// Shows S2, E1.
#[test]
fn an_answer_outlasts_its_notice() {
    const TURNS: u64 = 100;
    let delivery = SimDelivery { gathers: true, answers_wait: Duration::from_secs(1), ..SimDelivery::default() };
    run(2, &SimOptions { delivery, ..net(true) }, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        let mut waited = 0;
        if world.rank() == 1 {
            win.post(&[0])?;
        }
        for turn in 1..=TURNS {
            world.step(format!("turn {turn}, {waited} answers waited"));
            if world.rank() == 0 {
                win.start(&[1], |epoch| epoch.put_value(1, 0, turn))?;
                continue;
            }
            if turn % 4 > 0 {
                win.wait()?;
            } else {
                let spent = cost(world, || {
                    win.wait()?;
                    world.net().break_connection_to(peer(0));
                    assert!(win.post(&[0]).is_err(), "turn {turn}: the post fails");
                    Ok(())
                })?;
                // The answer had not been sent before.
                waited += u32::from(spent.messages == 0);
                world.net().mend_connection_to(peer(0));
                // The epoch of the post, which reached nobody.
                win.wait()?;
            }
            if turn < TURNS {
                win.post(&[0])?;
            }
        }
        if world.rank() == 1 {
            same("answers waited for notices", &(waited > 0), &true)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

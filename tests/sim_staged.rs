//! Long operations through staging areas of the target, where the target's CPU performs puts: their
//! costs, the order of accumulates, and threads that share an area.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicBool;
use std::thread;

use simulated::{Outcome, Rank, await_flag, combining, cost, gathered, like_sockets, raise, run, same};
use transom::{Assert, At, BasicType, Class, Datatype, Info, Items, Lock, Op, RawWindow, Window, ops};
use transom_fabric::sim::{SimCounters, SimOptions};

mod simulated;

/// Elements of 8 bytes in a piece.
const PIECE: usize = 65536;
const LEN: usize = 9 * PIECE + 100;

fn net(gathers: bool, ordered: bool) -> SimOptions {
    // A piece is one put.
    SimOptions { transfer_max: 1 << 20, delay: 40, ..like_sockets(gathers, ordered) }
}

/// A put and a request for each piece, and one request for the area. The origin of previous values
/// gets them from the area.
#[test]
fn a_long_accumulate_costs_a_put_and_a_message_for_each_piece() {
    // Over the last net puts and gets share no messages.
    let by_devices = SimOptions { transfer_max: 1 << 20, delay: 40, ..combining(true) };
    for net in [net(true, true), net(true, false), by_devices] {
        run(2, &net, move |world| {
            let win = Window::<u64>::allocate(world, LEN)?;
            world.barrier()?;
            if world.rank() == 1 {
                let operands: Vec<u64> = (0..LEN as u64).collect();
                for turn in 0..3u64 {
                    let mut found = vec![0; LEN];
                    world.step(format!("turn {turn}"));
                    win.lock_all(|epoch| {
                        let add = || epoch.accumulate(0, 0, &operands, ops::Sum).and(epoch.flush(0));
                        let spent = cost(world, add)?;
                        let area = u64::from(turn == 0);
                        let expected = SimCounters { puts: 10, messages: 10 + area, ..SimCounters::default() };
                        assert_eq!(SimCounters { behind: 0, ..spent }, expected, "an accumulate");
                        let fetch = || epoch.scope(|part| part.get_accumulate(0, 0, &operands, &mut found, ops::Sum));
                        let spent = cost(world, fetch)?;
                        let expected = SimCounters { gets: 10, messages: 10, ..expected };
                        assert_eq!(SimCounters { behind: 0, ..spent }, expected, "a get_accumulate");
                        Ok(())
                    })?;
                    same("the previous values", &found, &operands.iter().map(|it| it * (2 * turn + 1)).collect())?;
                    let read = cost(world, || {
                        win.lock(Lock::Shared, 0, |epoch| epoch.get_accumulate(0, 0, &operands, &mut found, ops::NoOp))
                    })?;
                    same("reading puts nothing", &(read.puts, read.gets), &(0, 10))?;
                    same("the values", &found, &operands.iter().map(|it| it * (2 * turn + 2)).collect())?;
                }
            }
            world.barrier()?;
            Ok(win.free()?)
        });
    }
    run(2, &net(false, true), |world| {
        let win = Window::<u64>::allocate(world, LEN)?;
        world.barrier()?;
        if world.rank() == 1 {
            let operands = vec![1; LEN];
            win.lock_all(|epoch| {
                let spent = cost(world, || epoch.accumulate(0, 0, &operands, ops::Sum).and(epoch.flush(0)))?;
                assert_eq!((spent.puts, spent.messages > 10), (0, true), "messages only");
                Ok(())
            })?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Items of contiguous datatypes are an array, also where the datatypes of the sides differ, and
/// with a request. Regression: they took a message for each 16 KiB.
#[test]
fn items_of_contiguous_types_cost_as_much_as_an_array() {
    run(2, &net(true, true), |world| {
        let win = RawWindow::allocate(world, 8 * LEN, 8, &Info::new())?;
        world.barrier()?;
        if world.rank() == 1 {
            let (ones, mut found) = (vec![1u64; LEN], vec![0u64; LEN]);
            let basic = Datatype::basic(BasicType::Uint64);
            let (pair, all) = (Datatype::contiguous(2, &basic)?, Datatype::contiguous(LEN, &basic)?);
            let (from, at) = (Items::of(ones.as_ptr().cast(), LEN / 2, &pair), At::new(0, 0, 1, &all));
            let (single, many) = (Items::of(ones.as_ptr().cast(), LEN, &basic), At::new(0, 0, LEN, &basic));
            let into = Items::of_mut(found.as_mut_ptr().cast(), LEN / 2, &pair);
            win.lock_all(Assert::NONE)?;
            // SAFETY: each call completes its operation while the buffers live.
            let calls: [(&str, &dyn Fn() -> transom::Result<()>); 4] = unsafe {
                [
                    ("raccumulate", &|| win.raccumulate_items(single, many, Op::Sum)?.wait()),
                    ("raccumulate of pairs", &|| win.raccumulate_items(from, at, Op::Sum)?.wait()),
                    ("accumulate", &|| win.accumulate_items(from, at, Op::Sum)),
                    ("rget_accumulate", &|| win.rget_accumulate_items(from, into, at, Op::Sum)?.wait()),
                ]
            };
            for (turn, (name, call)) in calls.into_iter().enumerate() {
                let spent = cost(world, || call().and_then(|()| win.flush(0)))?;
                let (area, gets) = (u64::from(turn == 0), if turn == 3 { 10 } else { 0 });
                let expected = SimCounters { puts: 10, messages: 10 + area, gets, ..SimCounters::default() };
                same(name, &SimCounters { behind: 0, ..spent }, &expected)?;
            }
            win.unlock_all()?;
            same("the previous values", &found, &vec![3; LEN])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Long accumulates, short ones and requests on one location take effect in the order of the
/// program (MPI-4.1 §12.7.2), also while another rank accumulates there.
#[test]
fn long_accumulates_keep_their_order() {
    fn body(world: &Rank) -> Outcome {
        let win = Window::<u64>::allocate(world, 2 * LEN)?;
        world.barrier()?;
        let me = world.rank();
        let (ones, threes) = (vec![1u64; LEN], vec![3u64; LEN]);
        if me > 0 {
            let at = (me - 1) * LEN;
            win.lock_all(|epoch| {
                for _ in 0..2 {
                    epoch.accumulate(0, at, &ones, ops::Sum)?;
                    epoch.accumulate(0, at, &threes, ops::Prod)?;
                    epoch.accumulate(0, at + LEN - 1, &ones[..1], ops::Sum)?;
                    epoch.accumulate(0, at + LEN - 2, &ones[..1], ops::Sum)?;
                    epoch.accumulate(0, at, &ones, ops::Sum)?;
                }
                Ok(())
            })?;
        }
        world.barrier()?;
        if me == 0 {
            let mut found = vec![0; 2 * LEN];
            win.load(0, &mut found)?;
            for half in found.chunks(LEN) {
                // The last two got more, right behind the last piece.
                let (others, last) = half.split_at(LEN - 2);
                same("the last two", &last.to_vec(), &vec![(5 + 1) * 3 + 2; 2])?;
                same("the others", &others.to_vec(), &vec![(4 + 1) * 3 + 1; LEN - 2])?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    const NETS: [(u32, u32, u32); 4] = [(3, 8, 0), (0, 0, 0), (9, 8, 2), (40, 0, 0)];
    for (seed, &(delay, again_one_in, done_one_in)) in (0..16).zip(NETS.iter().cycle()) {
        let kind = net(true, seed % 3 != 0);
        run(3, &SimOptions { seed, delay, again_one_in, done_one_in, ..kind }, body);
    }
}

/// Threads of a rank share its area: exactly one thread gets each previous value, and sums are
/// complete.
#[test]
fn threads_share_an_area() {
    fn body(world: &Rank) -> Outcome {
        const THREADS: u64 = 3;
        let win = Window::<u64>::allocate(world, LEN)?;
        world.barrier()?;
        if world.rank() == 0 {
            win.lock_all(|epoch| {
                thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS)
                        .map(|_| {
                            scope.spawn(|| {
                                let (ones, mut found) = (vec![1u64; LEN], vec![0; LEN]);
                                epoch.scope(|part| part.get_accumulate(1, 0, &ones, &mut found, ops::Sum))?;
                                epoch.scope(|part| part.accumulate(1, 0, &ones, ops::Sum))?;
                                Ok::<_, transom::Error>(found)
                            })
                        })
                        .collect();
                    for thread in threads {
                        let found = thread.join().expect("a thread panicked")?;
                        assert!(found.iter().all(|&old| old < 2 * THREADS));
                    }
                    Ok(())
                })
            })?;
            let mut found = vec![0; LEN];
            win.lock_all(|epoch| epoch.get(1, 0, &mut found))?;
            same("the sums", &found, &vec![2 * THREADS; LEN])?;
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    run(2, &net(true, true), body);
    run(2, &net(true, false), body);
}

/// Long puts and gets on several regions of a dynamic window go through the area too. The target
/// checks all of the operation with each piece, and performs nothing if a byte is not attached
/// (MPI-4.1 §12.2.4).
#[test]
fn long_operations_by_address_cost_a_transfer_and_a_message_for_each_piece() {
    /// Bytes of the attached memory, and of the first of its two regions.
    const ATTACHED: usize = 8 * LEN;
    const FIRST: usize = 4096;
    fn body(world: &Rank) -> Outcome {
        let mut memory = vec![0u64; LEN];
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the vector outlives the window, and is not used before its end.
        unsafe { win.attach(at, FIRST).and_then(|()| win.attach(at.add(FIRST), ATTACHED - FIRST))? };
        let base = gathered(world, at.addr() as u64)?[1];
        if world.rank() == 0 {
            let values: Vec<u64> = (1..=LEN as u64).collect();
            // SAFETY: the operation is flushed before the call returns.
            let put = |len, at| unsafe { win.put(values.as_ptr().cast(), len, 1, base + at) }.and(win.flush(1));
            win.lock_all(Assert::NOCHECK)?;
            // The first contact, the area, and a request for a key, which there is none for.
            put(8 * PIECE, 0).and_then(|()| put(8 * PIECE, 0))?;
            let spent = |pieces, put| {
                let (puts, gets) = if put { (pieces, 0) } else { (0, pieces) };
                SimCounters { puts, gets, messages: pieces, ..SimCounters::default() }
            };
            let counted = |what: &str, call: &dyn Fn() -> transom::Result<()>, expected| {
                let found = cost(world, call)?;
                same(what, &SimCounters { behind: 0, ..found }, &expected)
            };
            counted("one piece", &|| put(8 * PIECE, 0), spent(1, true))?;
            counted("all pieces", &|| put(ATTACHED, 0), spent(10, true))?;
            for (len, at) in [(8 * PIECE, ATTACHED - 8 * PIECE + 1), (ATTACHED, 8), (8 * PIECE, 1 << 40)] {
                let error = put(len, at as u64).expect_err("it is not attached");
                same("the error's class", &error.class(), &Class::RmaRange)?;
            }
            let mut found = vec![0u64; LEN];
            let into = found.as_mut_ptr().cast::<u8>();
            // SAFETY: the operation is flushed before the call returns.
            let get = || unsafe { win.get(into, ATTACHED, 1, base) }.and(win.flush(1));
            counted("a get", &get, spent(10, false))?;
            same("the values", &found, &values)?;
            win.unlock_all()?;
        }
        world.barrier()?;
        win.free()?;
        let last = if world.rank() == 1 { LEN as u64 } else { 0 };
        same("the last word", &memory[LEN - 1], &last)
    }
    for ordered in [true, false] {
        run(2, &net(true, ordered), body);
    }
}

/// An operation whose origin is not contiguous takes several messages, and none of them has an
/// effect if a byte is not attached (MPI-4.1 §12.2.4).
#[test]
fn a_long_operation_with_gaps_at_its_origin_is_refused_as_a_whole() {
    /// Words of the attached memory.
    const WORDS: usize = PIECE;
    fn body(world: &Rank) -> Outcome {
        let memory: &'static mut [u64] = Box::leak(vec![0u64; WORDS].into());
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        // SAFETY: the memory lives for ever, and is used by operations alone.
        unsafe { win.attach(memory.as_mut_ptr().cast(), 8 * WORDS)? };
        let base = gathered(world, memory.as_ptr().addr() as u64)?[1];
        if world.rank() == 0 {
            let word = Datatype::basic(BasicType::Int64);
            let gaps = Datatype::vector(WORDS, 1, 2, &word)?;
            let mut values = vec![1u64; 2 * WORDS];
            let from = Items::of(values.as_ptr().cast(), 1, &gaps);
            let at = |first: usize| At::new(1, base + 8 * first as u64, WORDS, &word);
            win.lock_all(Assert::NOCHECK)?;
            // SAFETY: the operation is flushed before the buffer ends.
            let put = |first| unsafe { win.put_items(from, at(first)) }.and(win.flush(1));
            // SAFETY: as above.
            let add = |first| unsafe { win.accumulate_items(from, at(first), Op::Sum) }.and(win.flush(1));
            let sum = || {
                let mut found = vec![0u64; WORDS];
                // SAFETY: the operation is flushed before the buffer ends.
                unsafe { win.get(found.as_mut_ptr().cast(), 8 * WORDS, 1, base) }.and(win.flush(1))?;
                Outcome::Ok(found.iter().sum::<u64>())
            };
            let refused = |what: &str, outcome: transom::Result<()>| {
                let error = outcome.expect_err("bytes are not attached");
                same(what, &error.class(), &Class::RmaRange)?;
                same(what, &sum()?, &0)
            };
            for first in [1, WORDS / 2] {
                refused("a put", put(first))?;
                refused("an accumulate", add(first))?;
            }
            put(0)?;
            same("the sum of a put", &sum()?, &(WORDS as u64))?;
            add(0)?;
            same("the sum of an accumulate", &sum()?, &(2 * WORDS as u64))?;
            let into = Items::of_mut(values.as_mut_ptr().cast(), 1, &gaps);
            // SAFETY: as above.
            let got = unsafe { win.get_items(into, at(1)) }.and(win.flush(1));
            same("a get is refused", &got.map_err(|error| error.class()), &Err(Class::RmaRange))?;
            same("a refused get stores nothing", &values.iter().all(|&value| value == 1), &true)?;
            win.unlock_all()?;
        }
        world.barrier()?;
        Ok(win.free()?)
    }
    for ordered in [true, false] {
        run(2, &net(true, ordered), body);
    }
}

/// Where a message stays behind earlier puts, a long operation returns while its operands are on
/// the way, so that the next one follows at once. A wait would make progress, which fails here.
#[test]
fn long_operations_do_not_wait_for_their_operands() {
    fn body(world: &Rank) -> Outcome {
        let mut memory = vec![0u64; 2 * PIECE];
        let dynamic = RawWindow::create_dynamic(world, &Info::new())?;
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the vector outlives the window, and is not used before its end.
        unsafe { dynamic.attach(base, 8).and_then(|()| dynamic.attach(base.add(8), 16 * PIECE - 8))? };
        let base = gathered(world, base.addr() as u64)?[1];
        let win = Window::<u64>::allocate(world, 2 * PIECE)?;
        world.barrier()?;
        if world.rank() == 0 {
            let twos = vec![2u64; 2 * PIECE];
            let without_progress = |call: &dyn Fn() -> transom::Result<()>| {
                world.fail_next_progress();
                let outcome = call();
                world.accept(1);
                outcome
            };
            dynamic.lock_all(Assert::NOCHECK)?;
            // SAFETY: the operands outlive the flush.
            let put = || unsafe { dynamic.put(twos.as_ptr().cast(), 16 * PIECE, 1, base) };
            world.step("the first contact, the area, and a request for a key");
            put().and(dynamic.flush(1))?;
            put().and(dynamic.flush(1))?;
            world.step("two puts");
            without_progress(&|| put().and(put()))?;
            dynamic.flush(1)?;
            dynamic.unlock_all()?;
            win.lock_all(|epoch| {
                let add = || epoch.accumulate(1, 0, &twos, ops::Sum);
                add().and(epoch.flush(1))?;
                world.step("two accumulates");
                without_progress(&|| add().and(add()))
            })?;
        }
        world.barrier()?;
        let mut found = vec![0; 2 * PIECE];
        win.load(0, &mut found)?;
        win.free()?;
        dynamic.free()?;
        let (put, sum) = if world.rank() == 1 { (2, 6) } else { (0, 0) };
        same("what was put", &memory, &vec![put; 2 * PIECE])?;
        same("the sums", &found, &vec![sum; 2 * PIECE])
    }
    for seed in 0..4 {
        run(2, &SimOptions { seed, ..net(true, true) }, body);
    }
}

/// The target ends while it has an area for this rank: the call or the end of the epoch reports the
/// failure, and the epoch ends.
#[test]
fn an_ended_target_is_reported() {
    let idle = AtomicBool::new(false);
    run(2, &net(true, true), move |world| {
        let win = Window::<u64>::allocate(world, LEN)?;
        let (ones, mut found) = (vec![1; LEN], vec![0; LEN]);
        if world.rank() == 0 {
            win.lock_all(|epoch| epoch.accumulate(1, 0, &ones, ops::Sum))?;
        }
        world.barrier()?;
        if world.rank() == 1 {
            // This rank makes no further call on the net.
            raise(&idle);
        } else {
            await_flag(&idle);
            world.kill(1);
            win.lock_all(|epoch| epoch.accumulate(1, 0, &ones, ops::Sum)).expect_err("the rank has ended");
            let fetch = win.lock_all(|epoch| epoch.get_accumulate(1, 0, &ones, &mut found, ops::Sum));
            fetch.expect_err("the rank has ended");
        }
        // `free` would wait for the rank that is cut off.
        drop(win);
        Ok(())
    });
}

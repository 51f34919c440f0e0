//! Costs of derived layouts in remote operations on the simulated net: regular layouts travel
//! packed, never element by element (requirement O5).
//!
//! Route: sim.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use simulated::{Outcome, Rank, cost, peer, run, same};
use transom::ops::Sum;
use transom::{Actor, Assert, At, BasicType, Datatype, Info, Window};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimCounters, SimOptions};

mod simulated;

/// Blocks of 8 bytes, every other one.
const BLOCKS: usize = 1000;
const BYTES: u64 = 8 * BLOCKS as u64;
/// Bytes of a message in addition to the data: its header, and room for two descriptions of
/// layouts.
const HEAD: u64 = 128;

fn options(amo: SimAmo) -> SimOptions {
    SimOptions { message_max: 2048, packed_max: 1500, transfer_max: 4096, amo, ..SimOptions::default() }
}

/// Runs `body` at rank 0 with a window and half the elements of each rank's part in a vector.
fn at_rank_0(amo: SimAmo, body: fn(&Rank, &Window<i64>, &Datatype) -> Outcome) {
    over(&options(amo), body);
}

/// The test over any net.
fn over(options: &SimOptions, body: impl Fn(&Rank, &Window<i64>, &Datatype) -> Outcome + Send + Sync + 'static) {
    run(2, options, move |world| {
        let win = Window::allocate_with(world, 2 * BLOCKS, &Info::new())?;
        let every_other = Datatype::vector(BLOCKS, 1, 2, &Datatype::basic(BasicType::Int64))?;
        if world.rank() == 0 {
            // First contact.
            win.lock_all(|epoch| epoch.put_value(1, 0, 0i64))?;
            body(world, &win, &every_other)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// No put, get or atomic, and at most `most` messages.
fn only_messages(what: &str, found: &SimCounters, most: u64) -> Outcome {
    let few = found.messages <= most && found.messages > 0;
    let others = (found.puts, found.gets, found.amos);
    same(&format!("{what}: at most {most} messages, {found:?}"), &(few, others), &(true, (0, 0, 0)))
}

fn every_other_of(values: &[i64]) -> Vec<i64> {
    values.iter().enumerate().map(|(at, &it)| if at % 2 == 0 { it } else { 0 }).collect()
}

fn values() -> Vec<i64> {
    (0..2 * BLOCKS as i64).map(|at| at * at + 1).collect()
}

/// In both directions data fills the message; the layout is described once.
/// Shows O5.
#[test]
fn strided_blocks_travel_in_full_messages() {
    at_rank_0(SimAmo::None, |world, win, every_other| {
        let (values, mut back) = (values(), vec![0; 2 * BLOCKS]);
        let few = BYTES.div_ceil(2048 - HEAD) + 1;
        let target = At::new(1, 0, 1, every_other);
        let (put, get) = win.lock_all_with(Assert::NOCHECK, |epoch| {
            let put = cost(world, || epoch.scope(|part| part.put_items(&values, 1, every_other, target)))?;
            let get = cost(world, || epoch.scope(|part| part.get_items(&mut back, 1, every_other, target)))?;
            Ok((put, get))
        })?;
        only_messages("put", &put, few)?;
        only_messages("get", &get, few)?;
        same("what came back", &back, &every_other_of(&values))
    });
}

/// A target whose replies nobody takes gets few requests for data: it has to keep the replies, and
/// many ranks may ask it for more than its memory holds.
#[test]
fn a_target_keeps_few_replies() {
    const MANY: usize = 40_000;
    let stage = Arc::new(AtomicU32::new(0));
    run(2, &SimOptions { again_one_in: 0, ..options(SimAmo::None) }, move |world| {
        let reaches = |wanted| while_not(|| stage.load(SeqCst) >= wanted);
        let win = Window::<i64>::allocate(world, 2 * MANY)?;
        if world.rank() == 0 {
            let every_other = Datatype::vector(MANY, 1, 2, &Datatype::basic(BasicType::Int64))?;
            win.lock_all_with(Assert::NOCHECK, |epoch| {
                // First contact.
                epoch.put_value(1, 0, 0i64)?;
                epoch.flush(1)?;
                stage.store(1, SeqCst);
                assert!(reaches(2), "the target refuses nothing");
                let mut back = vec![1; 2 * MANY];
                epoch.scope(|part| part.get_items(&mut back, 1, &every_other, At::new(1, 0, 1, &every_other)))?;
                epoch.flush(1)?;
                assert!(back.chunks_exact(2).all(|two| two == [0, 1]), "all blocks came");
                Ok(())
            })?;
        } else {
            assert!(reaches(1), "no contact");
            let (net, origin) = (world.net(), peer(0));
            let before = net.counters(origin).messages;
            net.stop_messages_to(origin);
            stage.store(2, SeqCst);
            let sent = || net.counters(origin).messages - before;
            let begun = while_not(|| sent() >= 60);
            thread::sleep(Duration::from_millis(100));
            let sent = sent();
            net.resume_messages_to(origin);
            same("the origin asks", &begun, &true)?;
            same(&format!("{sent} requests, at most 80"), &(sent <= 80), &true)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Sleeps until `done` or, at most, for a minute; returns whether it is done.
fn while_not(done: impl Fn() -> bool) -> bool {
    (0..60_000).any(|_| done() || (thread::sleep(Duration::from_millis(1)), false).1)
}

/// Data from many locations of the origin for one run of the target: packed in a buffer of the
/// port, without the target's CPU. Shows O5, S5.
#[test]
fn contiguous_targets_get_packed_transfers() {
    at_rank_0(SimAmo::All(Coherence::DeviceOnly), |world, win, every_other| {
        let values = values();
        let run = Datatype::contiguous(BLOCKS, &Datatype::basic(BasicType::Int64))?;
        let (mut back, mut scattered) = (vec![0; BLOCKS], vec![0; 2 * BLOCKS]);
        let (put, get) = win.lock_all_with(Assert::NOCHECK, |epoch| {
            let target = At::new(1, 5, 1, &run);
            let put = cost(world, || epoch.scope(|part| part.put_items(&values, 1, every_other, target)))?;
            epoch.scope(|part| part.get(1, 5, &mut back))?;
            let get = cost(world, || epoch.scope(|part| part.get_items(&mut scattered, 1, every_other, target)))?;
            Ok((put, get))
        })?;
        let few = BYTES.div_ceil(1500);
        same("packed puts", &put, &SimCounters { puts: few, ..SimCounters::default() })?;
        same("scattered gets", &get, &SimCounters { gets: few, ..SimCounters::default() })?;
        same("what is there", &back, &values.iter().copied().step_by(2).collect())?;
        same("what came back", &scattered, &every_other_of(&values))
    });
}

/// Long blocks that the port copies anyway are packed together too.
/// Shows O5, S5.
#[test]
fn blocks_that_the_port_copies_are_packed() {
    five_blocks_for_one_run(&SimOptions { packed_max: 4096, copied_max: 4096, ..options(SimAmo::None) }, 2);
}

/// Other blocks go as scatter-gather lists, without a copy.
/// Shows O5, S5.
#[test]
fn blocks_that_the_port_does_not_copy_are_listed() {
    five_blocks_for_one_run(&SimOptions { list_max: 2, ..options(SimAmo::None) }, 3);
    five_blocks_for_one_run(&SimOptions { list_max: 5, transfer_max: 8000, ..options(SimAmo::None) }, 1);
    // 4,096 bytes and the rest, in as many parts as necessary.
    five_blocks_for_one_run(&SimOptions { list_max: 5, ..options(SimAmo::None) }, 2);
}

/// Puts and gets five blocks of 1,600 bytes for one run of the target; each direction takes the
/// stated number of operations.
fn five_blocks_for_one_run(options: &SimOptions, operations: u64) {
    over(options, move |world, win, _| {
        let (long, word) = (200, Datatype::basic(BasicType::Int64));
        let blocks = Datatype::vector(5, long, 2 * long.cast_signed(), &word)?;
        let run = Datatype::contiguous(5 * long, &word)?;
        let (values, mut back, mut scattered) = (values(), vec![0; 5 * long], vec![0; 2 * BLOCKS]);
        let (put, get) = win.lock_all_with(Assert::NOCHECK, |epoch| {
            let target = At::new(1, 3, 1, &run);
            let put = cost(world, || epoch.scope(|part| part.put_items(&values, 1, &blocks, target)))?;
            epoch.scope(|part| part.get(1, 3, &mut back))?;
            let get = cost(world, || epoch.scope(|part| part.get_items(&mut scattered, 1, &blocks, target)))?;
            Ok((put, get))
        })?;
        same("puts", &put, &SimCounters { puts: operations, ..SimCounters::default() })?;
        same("gets", &get, &SimCounters { gets: operations, ..SimCounters::default() })?;
        let in_block = |at: usize| at % 400 < 200;
        same("what is there", &back, &(0..2 * BLOCKS).filter(|&at| in_block(at)).map(|at| values[at]).collect())?;
        let expected = |at: usize| if in_block(at) { values[at] } else { 0 };
        same("what came back", &scattered, &(0..2 * BLOCKS).map(expected).collect())
    });
}

/// Long blocks are put and got one by one, without a copy.
/// Shows O5, S5.
#[test]
fn long_blocks_are_separate_requests() {
    at_rank_0(SimAmo::None, |world, win, _| {
        // Five blocks of 1,600 bytes.
        let long = Datatype::vector(5, 200, 400, &Datatype::basic(BasicType::Int64))?;
        let (values, mut back) = (values(), vec![0; 2 * BLOCKS]);
        let (put, get) = win.lock_all_with(Assert::NOCHECK, |epoch| {
            let target = At::new(1, 0, 1, &long);
            let put = cost(world, || epoch.scope(|part| part.put_items(&values, 1, &long, target)))?;
            let get = cost(world, || epoch.scope(|part| part.get_items(&mut back, 1, &long, target)))?;
            Ok((put, get))
        })?;
        same("puts", &put, &SimCounters { puts: 5, ..SimCounters::default() })?;
        same("gets", &get, &SimCounters { gets: 5, ..SimCounters::default() })?;
        let expected = |at: usize| if at % 400 < 200 { values[at] } else { 0 };
        same("what came back", &back, &(0..2 * BLOCKS).map(expected).collect())
    });
}

/// An irregular layout is described block by block; several blocks still share a message.
/// Shows O5.
#[test]
fn irregular_blocks_share_messages() {
    at_rank_0(SimAmo::None, |world, win, _| {
        let places: Vec<isize> = (0..300).map(|block: isize| block * 6 + block * block % 5).collect();
        let irregular = Datatype::indexed_block(1, &places, &Datatype::basic(BasicType::Int64))?;
        let (values, mut back) = (values(), vec![0; 2 * BLOCKS]);
        let put = win.lock_all_with(Assert::NOCHECK, |epoch| {
            let target = At::new(1, 0, 1, &irregular);
            let put = cost(world, || epoch.scope(|part| part.put_items(&values, 1, &irregular, target)))?;
            epoch.scope(|part| part.get(1, 0, &mut back))?;
            Ok(put)
        })?;
        // A block of 8 bytes needs 32 bytes of description.
        only_messages("put", &put, (300 * 40u64).div_ceil(2048 - HEAD) + 1)?;
        let there = |at: usize| places.binary_search(&at.cast_signed()).map_or(0, |_| values[at]);
        same("what is there", &back, &(0..2 * BLOCKS).map(there).collect())
    });
}

/// Accumulates of many elements take few messages too, where the target's CPU performs them.
/// Shows O5, M3.
#[test]
fn accumulates_travel_in_full_messages() {
    at_rank_0(SimAmo::None, |world, win, _| {
        let (values, mut olds) = (values(), vec![9; BLOCKS]);
        let first = &values[..BLOCKS];
        let (add, fetch) = win.lock_all_with(Assert::NOCHECK, |epoch| {
            let add = cost(world, || epoch.scope(|part| part.accumulate(1, 0, first, Sum)))?;
            let fetch = cost(world, || epoch.scope(|part| part.get_accumulate(1, 0, first, &mut olds, Sum)))?;
            Ok((add, fetch))
        })?;
        let few = BYTES.div_ceil(2048 - HEAD) + 1;
        only_messages("accumulate", &add, few)?;
        only_messages("get_accumulate", &fetch, few)?;
        same("values from before", &olds, &first.to_vec())
    });
}

/// Accumulates on scattered elements share messages where the target's CPU performs them, and give
/// the same sums where the device does.
/// Shows O5, M3.
#[test]
fn scattered_accumulates_share_messages() {
    for amo in [SimAmo::None, SimAmo::All(Coherence::DeviceOnly)] {
        at_rank_0(amo, |world, win, _| {
            let places: Vec<isize> = (0..300).map(|block: isize| block * 6 + block * block % 5).collect();
            let word = Datatype::basic(BasicType::Int64);
            let scattered = Datatype::indexed_block(1, &places, &word)?;
            let (values, mut olds, mut all) = (values(), vec![9; 300], vec![0; 2 * BLOCKS]);
            let target = At::new(1, 0, 1, &scattered);
            let add = win.lock_all_with(Assert::NOCHECK, |epoch| {
                let first = &values[..300];
                let add = cost(world, || epoch.scope(|part| part.accumulate_items(first, 300, &word, target, Sum)))?;
                epoch.scope(|part| part.get_accumulate_items(first, &mut olds, 300, &word, target, Sum))?;
                epoch.scope(|part| part.get_atomic(1, 0, &mut all))?;
                Ok(add)
            })?;
            if win.actor() == Actor::Cpu {
                only_messages("accumulate_items", &add, (300 * 40u64).div_ceil(2048 - HEAD) + 1)?;
            }
            same("values from before", &olds, &values[..300].to_vec())?;
            let there = |at: usize| places.binary_search(&at.cast_signed()).map_or(0, |found| 2 * values[found]);
            same("the sums", &all, &(0..2 * BLOCKS).map(there).collect())
        });
    }
}

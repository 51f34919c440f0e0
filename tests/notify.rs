//! Notified operations among real processes (the MPI Forum's draft of RMA notification): each
//! operation increments its counter at the target by one, after it is complete at the target.
//!
//! Shows N1, N2.

// The byte-level window takes buffers by address.
#![allow(unsafe_code)]

use std::process::ExitCode;

use transom::{
    Assert, At, BasicType, Class, Datatype, Flavor, Info, Items, Job, Lock, Notice, Op, PROC_NULL, RawWindow, Request,
    Window, ops,
};
use transom_harness::{Outcome, Test, ensure, same, step};

#[path = "notify/removed.rs"]
mod removed;
mod support;
#[path = "notify/threads.rs"]
mod threads;
#[path = "notify/visible.rs"]
mod visible;

static TESTS: &[Test] = &[
    Test::new("data_arrives_before_its_notice", &[1, 2, 3], data_first),
    Test::new("every_operation_and_layout_completes_before_its_notice", &[1, 2, 3], every_layout),
    Test::new("counted_puts_in_flight_are_complete", &[1, 2, 3], in_flight),
    Test::new("the_cpu_or_the_device_counts_as_a_hint_says", &[2, 3], visible::counted_by),
    Test::new("every_operation_counts_once", &[1, 2, 3], every_operation),
    Test::new("many_producers_are_counted_exactly", &[2, 4], producers),
    Test::new("a_million_notices_are_counted_exactly", &[4, 16], million),
    Test::new("a_queue_of_several_producers", &[2, 4], queue),
    Test::new("waits_end_at_their_thresholds", &[1, 2, 3], waits),
    Test::new("requests_and_resets_of_counters", &[1, 2, 3], requests_past_resets),
    Test::new("a_wait_for_a_removed_counter_fails", &[1, 2], removed::meanwhile),
    Test::new("threads_wait_for_different_counters", &[1, 2, 3], threads::apart),
    Test::new("a_rank_that_waits_for_notices_serves_others", &[2, 3], serves),
    Test::new("a_counter_is_read_and_zeroed_atomically", &[2, 3], resets),
    Test::new("numbers_of_counters_differ_and_change", &[1, 2, 3], numbers),
    Test::new("refused_operations_are_not_counted", &[2, 3], refused),
    Test::new("windows_of_user_memory_and_of_other_flavors", &[2, 3], flavors),
    Test::new("a_notified_put_serves_as_put_signal", &[2, 3], put_signal),
    Test::new("notices_and_atomics_serve_as_signals_that_set_and_add", &[2, 3], set_and_add),
    Test::new("each_of_4096_counters_counts_alone", &[1, 2, 3], last_counter),
    Test::new("notified_operations_need_passive_epochs", &[1, 2], passive_only),
    Test::new("byte_level_operations_count_once", &[1, 2], byte_level),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// A ring without barriers: each rank checks all data of a round as soon as its counter changes.
/// Short puts share a message with their notice; long puts precede it.
fn data_first(world: &Job) -> Outcome {
    const LONGEST: usize = 70_000;
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let win = Window::<u64>::allocate(world, LONGEST)?;
    win.set_num_notify(2)?;
    let value = |rank: usize, round: usize| (rank * 1000 + round) as u64 + 1;
    win.lock_all(|epoch| {
        for (round, len) in [1, 2, 100, 1000, LONGEST, 3, 20_000, 1].into_iter().cycle().take(24).enumerate() {
            step(format!("round {round}: {len} elements"));
            let data = vec![value(me, round); len];
            epoch.scope(|part| part.put_notify(next, 0, &data, Notice(0)))?;
            win.notices().wait(0, round as u64 + 1)?;
            let mut came = vec![0; len];
            win.load(0, &mut came)?;
            assert!(came.iter().all(|&it| it == value(before, round)), "round {round}: {:?}", &came[..1]);
            // Notifies the left neighbour, which may then overwrite this rank's part.
            epoch.scope(|part| part.put_notify(before, 0, &[], Notice(1)))?;
            win.notices().wait(1, round as u64 + 1)?;
        }
        Ok(())
    })?;
    same("the count", &win.notices().value(0)?, &24)?;
    Ok(win.free()?)
}

/// Puts that fit into one message on every net, and puts that need one or several messages.
fn every_layout(world: &Job) -> Outcome {
    visible::data_first(world, &[1, 20, 3000, 20_000], "auto", &|what| step(what))
}

fn in_flight(world: &Job) -> Outcome {
    [100, 50_000].into_iter().try_for_each(|len| visible::in_flight(world, len, "auto", &|what| step(what)))
}

/// Puts, gets, accumulates, their request forms, operations with datatypes and empty operations:
/// each increments its counter by one.
fn every_operation(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = Window::<u64>::allocate(world, 64)?;
    win.set_num_notify(14)?;
    let every_other = Datatype::vector(4, 1, 2, &Datatype::basic(BasicType::Uint64))?;
    let data: Vec<u64> = (0..8).map(|i| (me * 100 + i) as u64).collect();
    let ones = [1u64; 8];
    let (mut got, mut old) = ([0u64; 8], [9u64; 8]);
    win.lock_all(|epoch| {
        epoch.scope(|part| {
            part.put_notify(next, 0, &data, Notice(0))?;
            part.put_items_notify(&data, 1, &every_other, At::new(next, 16, 1, &every_other), Notice(1))
        })?;
        epoch.rput_notify(next, 8, &data, Notice(2))?.wait()?;
        // Gets and accumulates are not ordered behind puts.
        epoch.flush(next)?;
        epoch.scope(|part| part.get_notify(next, 0, &mut got, Notice(3)))?;
        let again = epoch.rget_owned_notify(next, 0, vec![0; 8], Notice(4))?.wait()?;
        assert_eq!((again.as_slice(), &got[..]), (data.as_slice(), data.as_slice()));
        epoch.scope(|part| part.accumulate_notify(next, 0, &ones, ops::Sum, Notice(5)))?;
        epoch.scope(|part| part.get_accumulate_notify(next, 0, &ones, &mut old, ops::NoOp, Notice(6)))?;
        assert!(old.iter().zip(&data).all(|(old, put)| *old == put + 1), "{old:?}");
        epoch.scope(|part| part.put_notify(next, 64, &[], Notice(7)))?;
        epoch.scope(|part| part.put_notify(PROC_NULL, 0, &data, Notice(8)))?;
        epoch.raccumulate_notify(next, 8, &ones, ops::Sum, Notice(9))?.wait()?;
        let sums = epoch.rget_accumulate_owned_notify(next, 8, &ones, vec![9; 8], ops::Sum, Notice(10))?.wait()?;
        assert!(sums.iter().zip(&data).all(|(sum, put)| *sum == put + 1), "{sums:?}");
        epoch.scope(|part| part.rget_notify(next, 8, &mut got, Notice(11))?.wait())?;
        epoch.scope(|part| part.rget_accumulate_notify(next, 8, &ones, &mut old, ops::Sum, Notice(12))?.wait())?;
        assert!(got.iter().zip(&data).all(|(got, put)| *got == put + 2) && old == got, "{got:?}, {old:?}");
        let first = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12];
        first.into_iter().try_for_each(|index| win.notices().wait(index, 1))
    })?;
    world.barrier()?;
    let counts = (0..14).map(|index| win.notices().value(index)).collect::<transom::Result<Vec<_>>>()?;
    same("counts", &counts, &[1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0].to_vec())?;
    let mut mine = [0; 24];
    win.load(0, &mut mine)?;
    let before = ((me + size - 1) % size * 100) as u64;
    for i in 0..4 {
        same("items", &mine[16 + 2 * i], &(before + 2 * i as u64))?;
    }
    Ok(win.free()?)
}

/// All ranks increment all counters of all ranks; the sums are exact.
fn producers(world: &Job) -> Outcome {
    const TIMES: usize = 400;
    let size = world.size();
    let win = Window::<u32>::allocate(world, 8 * size)?;
    win.set_num_notify(3)?;
    let at = 8 * world.rank();
    win.lock_all(|epoch| {
        for turn in 0..TIMES {
            let data = [u32::try_from(turn).unwrap_or(u32::MAX); 4];
            for target in 0..size {
                epoch.scope(|part| part.put_notify(target, at, &data, Notice(turn % 3)))?;
            }
        }
        (0..3).try_for_each(|index| {
            let each = (0..TIMES).filter(|turn| turn % 3 == index).count();
            win.notices().wait(index, (size * each) as u64)
        })
    })?;
    world.barrier()?;
    let all: u64 = (0..3).map(|index| win.notices().reset(index)).sum::<transom::Result<u64>>()?;
    same("counted", &all, &((size * TIMES) as u64))?;
    Ok(win.free()?)
}

/// All ranks increment two counters of rank 0, a million times in all, while rank 0 also makes its
/// own puts.
fn million(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, size + 1)?;
    win.set_num_notify(2)?;
    let each = 1_000_000 / size;
    let data = [each as u64];
    win.lock_all(|epoch| {
        epoch.fetch_add(0, size, each as u64)?;
        (0..each).try_for_each(|turn| epoch.put_notify(0, me, &data, Notice(turn % 2)))
    })?;
    world.barrier()?;
    if me == 0 {
        let mut words = vec![0; size + 1];
        win.load(0, &mut words)?;
        let all = words.pop().unwrap_or(0);
        same("data", &words.iter().sum(), &all)?;
        same("puts", &all, &1_000_000)?;
        same("counters", &[win.notices().value(0)?, win.notices().value(1)?], &[all.div_ceil(2), all / 2])?;
    }
    Ok(win.free()?)
}

/// Producers take slots of a queue at rank 0 by an atomic and fill each by one notified put to the
/// slot's counter; the consumer takes them in order.
fn queue(world: &Job) -> Outcome {
    const SLOTS: usize = 64;
    const EACH: usize = 40;
    let (me, producers) = (world.rank(), world.size() - 1);
    let (tail, all) = (SLOTS, producers * EACH);
    let win = Window::<u64>::allocate(world, if me == 0 { SLOTS + 2 } else { 0 })?;
    win.set_num_notify(if me == 0 { SLOTS } else { 0 })?;
    win.lock_all(|epoch| {
        if me == 0 {
            let mut seen = vec![0; producers];
            for item in 0..all {
                let slot = item % SLOTS;
                win.notices().wait(slot, (item / SLOTS) as u64 + 1)?;
                let mut value = [0];
                win.load(slot, &mut value)?;
                let (from, number) = ((value[0] >> 32) as usize, value[0] & 0xffff_ffff);
                assert_eq!(number, seen[from - 1] + 1, "items of rank {from} come in order");
                seen[from - 1] = number;
                // Notifies the producers: the slot may be filled again.
                epoch.fetch_add(0, tail + 1, 1)?;
            }
            return Ok(());
        }
        for number in 1..=EACH as u64 {
            let item = epoch.fetch_add(0, tail, 1)?;
            while epoch.fetch_value(0, tail + 1)? + SLOTS as u64 <= item {
                std::thread::yield_now();
            }
            let value = [(me as u64) << 32 | number];
            let slot = usize::try_from(item).unwrap_or(0) % SLOTS;
            epoch.scope(|part| part.put_notify(0, slot, &value, Notice(slot)))?;
        }
        Ok(())
    })?;
    world.barrier()?;
    Ok(win.free()?)
}

/// The waits: for a threshold, for one of several, without waiting, and as a request among others.
fn waits(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = Window::<u64>::allocate(world, 4)?;
    win.set_num_notify(4)?;
    let notices = win.notices();
    ensure(!notices.try_wait(1, 1)? && notices.try_wait(1, 0)?, "a count of 0 before the first notice")?;
    let mut third = notices.request(2, 3)?;
    ensure(!third.test()? && third.is_active(), "an active request before the first notice")?;
    world.barrier()?;
    win.lock_all(|epoch| {
        let put = |index| epoch.scope(|part| part.put_notify(next, 0, &[1], Notice(index)));
        put(1)?;
        assert_eq!(notices.wait_any(&[(0, 1), (2, 1), (1, 1)])?, 2);
        // The neighbour's next notice must not arrive before this rank has checked its counts.
        world.barrier()?;
        put(2)?;
        put(2)?;
        notices.wait(2, 2)?;
        assert!(!third.test()?, "the request completed after two of three notices");
        world.barrier()?;
        put(2)?;
        let mut both = [notices.request(3, 1)?, third];
        assert_eq!(Request::wait_any(&mut both)?, Some(1));
        assert!(!both[1].is_active() && both[0].is_active());
        world.barrier()?;
        put(3)?;
        Request::wait_all(&mut both)
    })?;
    world.barrier()?;
    let refused = notices.wait_any(&[]).expect_err("an empty list of counters");
    same("class", &refused.class(), &Class::Arg)?;
    Ok(win.free()?)
}

/// A request stays complete if the counter is reset before the request is tested, and fails if its
/// counter is removed or its window is freed.
fn requests_past_resets(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 1)?;
    win.set_num_notify(2)?;
    let notices = win.notices();
    let (mut three, mut four) = (notices.request(0, 3)?, notices.request(0, 4)?);
    let mut removed = notices.request(1, 2)?;
    world.barrier()?;
    win.lock_all(|epoch| {
        let put = |index| epoch.scope(|part| part.put_notify(next, 0, &[1], Notice(index)));
        (0..3).try_for_each(|_| put(0))?;
        put(1)
    })?;
    notices.wait(0, 3)?;
    notices.wait(1, 1)?;
    same("the value before the reset", &notices.reset(0)?, &3)?;
    ensure(three.test()? && !three.is_active(), "a request that the counter had reached")?;
    ensure(!four.test()? && four.is_active(), "a request that the counter had not reached")?;
    world.barrier()?;
    win.set_num_notify(1)?;
    let error = removed.wait().expect_err("the counter was removed");
    same("class", &error.class(), &Class::RmaNotification)?;
    ensure(!removed.is_active() && !four.test()?, "after the change of the number")?;
    win.free()?;
    same("class", &four.wait().expect_err("the window was freed").class(), &Class::RmaSync)
}

/// Rank 0 only waits for a notice of each other rank. Before their notices the other ranks lock
/// rank 0, get its data and accumulate to it; over some transports rank 0's CPU performs these
/// requests.
fn serves(world: &Job) -> Outcome {
    const LEN: usize = 500;
    let (me, others) = (world.rank(), world.size() - 1);
    let win = Window::<u64>::allocate(world, LEN)?;
    win.set_num_notify(1)?;
    win.store(0, &[1; LEN])?;
    win.sync();
    world.barrier()?;
    for round in 1..=10 {
        if me == 0 {
            win.notices().wait(0, (round * others) as u64)?;
        } else {
            let mut got = [0; LEN];
            win.lock(Lock::Exclusive, 0, |epoch| {
                epoch.scope(|part| part.get(0, 0, &mut got))?;
                epoch.accumulate(0, 0, &[2; LEN], ops::Sum)
            })?;
            ensure(got.iter().all(|it| *it % 2 == 1 && *it == got[0]), "whole sums")?;
            win.lock(Lock::Shared, 0, |epoch| epoch.put_notify(0, 0, &[], Notice(0)))?;
        }
    }
    world.barrier()?;
    if me == 0 {
        let mut sums = [0; LEN];
        win.load(0, &mut sums)?;
        same("sums", &sums, &[1 + 20 * others as u64; LEN])?;
    }
    Ok(win.free()?)
}

/// Notices that arrive while the counter is zeroed are counted exactly once.
fn resets(world: &Job) -> Outcome {
    const EACH: u64 = 500;
    let me = world.rank();
    let win = Window::<u64>::allocate(world, world.size())?;
    win.set_num_notify(usize::from(me == 0))?;
    win.lock_all(|epoch| {
        if me > 0 {
            let put = |turn: [u64; 1]| epoch.scope(|part| part.put_notify(0, me, &turn, Notice(0)));
            return (0..EACH).try_for_each(|turn| put([turn]));
        }
        let mut left = EACH * (world.size() as u64 - 1);
        while left > 0 {
            win.notices().wait(0, 1)?;
            left -= win.notices().reset(0)?;
        }
        Ok(())
    })?;
    world.barrier()?;
    if me == 0 {
        same("left", &win.notices().value(0)?, &0)?;
    }
    Ok(win.free()?)
}

/// Ranks have different numbers of counters, every rank can query the number of every rank, and
/// each change zeroes all counters.
fn numbers(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u8>::allocate(world, 1)?;
    same("before the first call", &win.num_notify(size - 1)?, &0)?;
    for turn in 0..4 {
        let of = |rank: usize| if turn == 2 { 4096 } else { rank * 3 + turn };
        win.set_num_notify(of(me))?;
        for rank in 0..size {
            same("number", &win.num_notify(rank)?, &of(rank))?;
        }
        let next = (me + 1) % size;
        if of(next) > 0 {
            let last = Notice(of(next) - 1);
            win.lock(Lock::Shared, next, |epoch| epoch.put_notify(next, 0, &[1], last))?;
        }
        if of(me) > 0 {
            win.notices().wait(of(me) - 1, 1)?;
        }
        world.barrier()?;
    }
    let refused = win.set_num_notify(if me == size - 1 { 4097 } else { 1 }).expect_err("more than 4096 counters");
    same("class", &refused.class(), &if me == size - 1 { Class::Arg } else { Class::Other })?;
    same("number", &win.num_notify(me)?, &(me * 3 + 3))?;
    same("rank", &win.num_notify(size).expect_err("no rank").class(), &Class::Rank)?;
    Ok(win.free()?)
}

/// A counter that the target lacks, bytes outside of its part, and a window without counters are
/// errors; nothing is written and nothing is counted.
fn refused(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = Window::<u64>::allocate(world, 4)?;
    let none = win.lock_all(|epoch| epoch.put_notify(next, 0, &[1], Notice(0))).expect_err("no counters");
    same("class", &none.class(), &Class::RmaNotification)?;
    win.set_num_notify(me + 1)?;
    for index in [next + 1, usize::MAX] {
        let refused = win.lock_all(|epoch| epoch.put_notify(next, 0, &[1], Notice(index))).expect_err("no counter");
        same("class", &refused.class(), &Class::RmaNotification)?;
        let expected = format!("rank {next} has no counter {index}: it has {} counters", next + 1);
        ensure(refused.to_string().contains(&expected), &refused.to_string())?;
    }
    let outside = win.lock_all(|epoch| epoch.put_notify(next, 4, &[1], Notice(0))).expect_err("outside");
    same("class", &outside.class(), &Class::RmaRange)?;
    let mine = win.notices().wait(me + 1, 1).expect_err("no such counter here");
    same("class", &mine.class(), &Class::RmaNotification)?;
    world.barrier()?;
    let mut found = [9; 4];
    win.load(0, &mut found)?;
    same("data", &found, &[0; 4])?;
    same("count", &win.notices().value(0)?, &0)?;
    Ok(win.free()?)
}

/// Notified puts to user memory, which is reached by cross-memory attach or XPMEM, and to windows
/// in the separate model.
fn flavors(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let separate = Info::new().with("transom_model", "separate");
    let windows = [
        (Flavor::Create, Window::<u64>::create(world, vec![0; 500])?),
        (Flavor::Allocate, Window::<u64>::allocate_with(world, 500, &separate)?),
        (Flavor::Create, Window::<u64>::create_with(world, vec![0; 500], &separate)?),
    ];
    for (flavor, win) in windows {
        same("the flavor", &win.flavor(), &flavor)?;
        win.set_num_notify(1)?;
        let data = vec![me as u64 + 1; 500];
        for (turn, len) in [1, 500, 20].into_iter().enumerate() {
            win.lock_all(|epoch| epoch.put_notify(next, 0, &data[..len], Notice(0)))?;
            win.notices().wait(0, turn as u64 + 1)?;
            win.sync();
            let mut came = vec![0; len];
            win.load(0, &mut came)?;
            same("data", &came, &vec![((me + size - 1) % size) as u64 + 1; len])?;
            world.barrier()?;
        }
        win.free()?;
    }
    Ok(())
}

/// The semantics of OpenSHMEM's `put_signal` with `SIGNAL_ADD` by one notified put: the signal is
/// updated after the data. `signal_wait_until` is a wait for a threshold.
fn put_signal(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let root = 0;
    let win = Window::<u64>::allocate(world, 10)?;
    win.set_num_notify(1)?;
    win.lock_all(|epoch| {
        // A broadcast along a chain: the root starts, each rank passes on the data that came.
        let mut data = [0u64; 10];
        if me == root {
            data = std::array::from_fn(|i| i as u64 + 5);
            win.store(0, &data)?;
        } else {
            win.notices().wait(0, 1)?;
            win.load(0, &mut data)?;
        }
        if me + 1 < size { epoch.scope(|part| part.put_notify(me + 1, 0, &data, Notice(0))) } else { Ok(()) }
    })?;
    let mut mine = [0; 10];
    win.load(0, &mut mine)?;
    same("data", &mine, &std::array::from_fn(|i| i as u64 + 5))?;
    Ok(win.free()?)
}

/// The semantics of OpenSHMEM's `put_signal` with each of its signal operations. `SIGNAL_ADD` of a
/// value is one notified put followed by notices without data. Another rank cannot set a counter to
/// a value, so `SIGNAL_SET` is a put, a flush, and an atomic store to a word of the window, which
/// the target reads atomically.
fn set_and_add(world: &Job) -> Outcome {
    const LEN: usize = 100;
    const ROUNDS: u64 = 10;
    const ADDED: Notice = Notice(0);
    const READ: Notice = Notice(1);
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let win = Window::<u64>::allocate(world, LEN + 1)?;
    win.set_num_notify(2)?;
    let mut added = 0;
    win.lock_all(|epoch| {
        for round in 1..=ROUNDS {
            step(format!("round {round}"));
            let (adds, signal) = (round % 3 + 1, 1000 * round);
            let (data, later) = ([me as u64 + signal; LEN], [me as u64 + signal + 1; LEN]);
            let expected = |more: u64| vec![before as u64 + signal + more; LEN];
            let mut came = vec![0; LEN];
            epoch.scope(|part| part.put_notify(next, 0, &data, ADDED))?;
            (1..adds).try_for_each(|_| epoch.put_notify(next, 0, &[], ADDED))?;
            added += adds;
            win.notices().wait(ADDED.0, added)?;
            win.load(0, &mut came)?;
            assert_eq!(came, expected(0), "data before the added signal");
            epoch.put_notify(before, 0, &[], READ)?;
            win.notices().wait(READ.0, 2 * round - 1)?;

            epoch.scope(|part| part.put(next, 0, &later))?;
            epoch.flush(next)?;
            epoch.fetch_and_op(next, LEN, signal, ops::Replace)?;
            while epoch.fetch_value(me, LEN)? != signal {}
            win.load(0, &mut came)?;
            assert_eq!(came, expected(1), "data before the signal is set");
            epoch.put_notify(before, 0, &[], READ)?;
            win.notices().wait(READ.0, 2 * round)?;
        }
        Ok(())
    })?;
    same("signals", &win.notices().value(ADDED.0)?, &added)?;
    Ok(win.free()?)
}

/// An increment of one of 4,096 counters, the first and the last included, changes no other one.
fn last_counter(world: &Job) -> Outcome {
    const MOST: usize = 4096;
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = Window::<u64>::allocate(world, 1)?;
    win.set_num_notify(MOST)?;
    let data = [me as u64];
    let raised = [(0, 1), (1, 2), (63, 3), (2047, 4), (MOST - 2, 5), (MOST - 1, 6)];
    win.lock_all(|epoch| {
        for (index, times) in raised {
            (0..times).try_for_each(|_| epoch.put_notify(next, 0, &data, Notice(index)))?;
        }
        for (index, times) in raised {
            win.notices().wait(index, times)?;
        }
        Ok(())
    })?;
    world.barrier()?;
    for index in 0..MOST {
        let times = raised.iter().find(|it| it.0 == index).map_or(0, |it| it.1);
        same("counter", &(index, win.notices().value(index)?), &(index, times))?;
    }
    let beyond = win.lock_all(|epoch| epoch.put_notify(next, 0, &data, Notice(MOST)));
    same("no counter", &beyond.expect_err("a counter past the last").class(), &Class::RmaNotification)?;
    Ok(win.free()?)
}

/// The draft allows notified operations in passive epochs only.
fn passive_only(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = RawWindow::allocate(world, 64, 1, &Info::new())?;
    win.set_num_notify(1)?;
    let data = [1u8; 8];
    // SAFETY: the data outlives the flush of its epoch, and no thread writes it.
    let put = || unsafe { win.put_notify(data.as_ptr(), 8, next, 0, Notice(0)) };
    same("no epoch", &put().expect_err("no epoch").class(), &Class::RmaSync)?;
    win.fence(Assert::NONE)?;
    same("fence", &put().expect_err("a fence").class(), &Class::RmaSync)?;
    win.fence(Assert::NONE)?;
    same("counted", &win.notices().value(0)?, &0)?;
    world.barrier()?;
    win.lock(Lock::Shared, next, Assert::NONE)?;
    put()?;
    win.unlock(next)?;
    win.notices().wait(0, 1)?;
    Ok(win.free()?)
}

/// The request forms of the byte-level window with datatypes, and its forms without requests.
fn byte_level(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    win.set_num_notify(2)?;
    let ty = Datatype::basic(BasicType::Uint64);
    let (data, mut got, mut old) = ([3u64; 4], [0u64; 4], [0u64; 4]);
    let at = At::new(next, 0, 4, &ty);
    let from = Items::of(data.as_ptr().cast(), 4, &ty);
    let (into, before) =
        (Items::of_mut(got.as_mut_ptr().cast(), 4, &ty), Items::of_mut(old.as_mut_ptr().cast(), 4, &ty));
    win.lock_all(Assert::NONE)?;
    // SAFETY: the buffers outlive their operations, and nothing else accesses them meanwhile.
    unsafe {
        win.rput_items_notify(from, at, Notice(0))?.wait()?;
        win.flush(next)?;
        win.raccumulate_items_notify(from, at, Op::Sum, Notice(0))?.wait()?;
        win.rget_accumulate_items_notify(from, before, at, Op::Sum, Notice(0))?.wait()?;
        win.flush(next)?;
        win.rget_items_notify(into, at, Notice(1))?.wait()?;
        assert_eq!((old, got), ([6; 4], [9; 4]));
        win.put_notify(data.as_ptr().cast(), 32, next, 4, Notice(0))?;
        win.rput_notify(data.as_ptr().cast(), 32, next, 0, Notice(0))?.wait()?;
        win.put_items_notify(from, at, Notice(0))?;
        win.flush(next)?;
        win.accumulate_items_notify(from, at, Op::Prod, Notice(0))?;
        win.get_accumulate_items_notify(from, before, at, Op::Replace, Notice(0))?;
        win.flush(next)?;
        win.get_items_notify(into, at, Notice(1))?;
    }
    win.notices().wait(0, 8)?;
    win.notices().request(1, 2)?.wait()?;
    win.unlock_all()?;
    same("before", &old, &[9; 4])?;
    same("got", &got, &[3; 4])?;
    world.barrier()?;
    Ok(win.free()?)
}

//! Notified operations on simulated nets, which delay and reorder operations: a counter never
//! changes before the data has arrived. No real transport is used.
//!
//! Shows N1, N2.
//! Route: sim.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use simulated::{Outcome, Rank, calm, cost, on_every_net, run, same};
use transom::{Info, Notice, Window, ops};
use transom_fabric::sim::{SimAmo, SimCounters, SimDelivery, SimOptions};
use transom_fabric::{Coherence, Immediates};

mod simulated;
mod support;
#[path = "notify/visible.rs"]
mod visible;

/// Each rank checks all data as soon as the counter has moved; operations that are not notified are
/// in flight beside.
#[test]
fn the_counter_moves_after_the_data() {
    on_every_net(3, |world| {
        let (me, size) = (world.rank(), world.size());
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let win = Window::<u64>::allocate(world, 3000)?;
        win.set_num_notify(3)?;
        let value = |rank: usize, round: usize| (rank * 1000 + round) as u64 + 1;
        win.lock_all(|epoch| {
            for (round, len) in [1, 40, 1000, 2, 300].into_iter().cycle().take(10).enumerate() {
                world.step("a round");
                let data = vec![value(me, round); len];
                let other = vec![7; 1000];
                epoch.scope(|part| {
                    part.put(next, 2000, &other)?;
                    part.put_notify(next, 0, &data, Notice(0))?;
                    part.accumulate_notify(next, 1000, &data, ops::Replace, Notice(1))
                })?;
                win.notices().wait(0, round as u64 + 1)?;
                let mut came = vec![0; len];
                win.load(0, &mut came)?;
                assert!(came.iter().all(|&it| it == value(before, round)), "round {round}: {:?}", &came[..1]);
                win.notices().wait(1, round as u64 + 1)?;
                win.load(1000, &mut came)?;
                assert!(came.iter().all(|&it| it == value(before, round)), "round {round}, replaced");
                epoch.scope(|part| part.put_notify(before, 0, &[], Notice(2)))?;
                win.notices().wait(2, round as u64 + 1)?;
            }
            Ok(())
        })?;
        world.barrier()?;
        let counts = (0..3).map(|index| win.notices().reset(index)).collect::<transom::Result<Vec<_>>>()?;
        same("counts", &counts, &vec![10; 3])?;
        Ok(win.free()?)
    });
}

/// Every operation in every layout: shorter than a message, and in several transfers.
#[test]
fn every_operation_and_layout_completes_before_its_notice() {
    on_every_net(2, |world| visible::data_first(world, &[3, 150], "auto", &|what| world.step(what)));
}

#[test]
fn counted_puts_in_flight_are_complete() {
    on_every_net(2, |world| {
        [3, 300].into_iter().try_for_each(|len| visible::in_flight(world, len, "auto", &|what| world.step(what)))
    });
}

/// The notice of a get means that the data has been read and that the target may overwrite it.
#[test]
fn the_notice_of_a_get_permits_overwriting() {
    on_every_net(2, |world| {
        let other = 1 - world.rank();
        let win = Window::<u64>::allocate(world, 200)?;
        win.set_num_notify(1)?;
        for round in 1..=8u64 {
            win.store(0, &vec![round; 200])?;
            win.sync();
            world.barrier()?;
            let mut got = vec![0; 200];
            win.lock_all(|epoch| {
                epoch.scope(|part| part.get_notify(other, 0, &mut got, Notice(0)))?;
                win.notices().wait(0, round)
            })?;
            win.store(0, &[99; 200])?;
            same("got", &got, &vec![round; 200])?;
        }
        Ok(win.free()?)
    });
}

/// A notified put costs its writes and one atomic of the device. Where the CPU counts, it is one
/// message with the data, or, if the data does not fit, writes and one message behind them. The
/// notice waits for the writes only where the net does not keep their order.
/// Shows S1.
#[test]
fn a_notice_follows_puts_where_the_net_keeps_order() {
    for by_cpu in [false, true] {
        for (ordered, amos_ordered) in [(false, false), (true, false), (false, true), (true, true)] {
            let delivery = SimDelivery { ordered, amos_ordered, ..SimDelivery::default() };
            let amo = if by_cpu { SimAmo::None } else { SimAmo::All(Coherence::DeviceOnly) };
            // Operations stay in flight until their target has polled for long.
            let slow = SimOptions { delay: 40, done_one_in: 0, passive_target: false, ..SimOptions::default() };
            let follows = if by_cpu { ordered } else { amos_ordered };
            run(2, &SimOptions { delivery, amo, ..slow }, move |world| costs(world, "auto", (by_cpu, follows)));
        }
    }
}

/// With `transom_notify=device` the device counts although puts could carry notices: a notified put
/// is its writes and one atomic, which follows them where the net keeps this order. No message is
/// sent, no put carries a number, and the target takes no part. With `cpu` the target's CPU counts
/// although the device could. A device without atomics counts nothing: the puts carry the notices.
/// Shows S1.
#[test]
fn a_hint_says_whether_the_device_or_the_cpu_counts() {
    let slow = SimOptions { delay: 40, done_one_in: 0, passive_target: false, ..SimOptions::default() };
    for amo in [SimAmo::All(Coherence::DeviceOnly), SimAmo::Only64(Coherence::WithCpu)] {
        for amos_ordered in [false, true] {
            let delivery = SimDelivery { amos_ordered, immediates: Immediates::ALL, ..SimDelivery::default() };
            let by_device = move |world: &Rank| costs(world, "device", (false, amos_ordered));
            run(2, &SimOptions { delivery, amo, ..slow.clone() }, by_device);
        }
        run(2, &SimOptions { amo, ..slow.clone() }, |world| costs(world, "cpu", (true, false)));
    }
    let delivery = SimDelivery { immediates: Immediates::ALL, ..SimDelivery::default() };
    run(3, &SimOptions { delivery, amo: SimAmo::None, done_one_in: 0, ..SimOptions::default() }, |world| {
        carried(world, "device")
    });
}

/// The ranks of a window may differ in the hint: each rank's counters grow as its own hint says.
/// Shows S1.
#[test]
fn ranks_differ_in_who_counts() {
    for (turn, amo) in [SimAmo::All(Coherence::DeviceOnly), SimAmo::Only64(Coherence::WithCpu)].into_iter().enumerate()
    {
        let delivery = SimDelivery { immediates: Immediates::ALL, ..SimDelivery::default() };
        run(4, &SimOptions { delivery, amo, delay: 40, ..SimOptions::default() }, move |world| {
            let hint = ["device", "cpu", "auto", "device"][(world.rank() + turn) % 4];
            [3, 300].into_iter().try_for_each(|len| visible::in_flight(world, len, hint, &|what| world.step(what)))
        });
    }
}

/// `notify`: the hint `transom_notify`.
fn costs(world: &Rank, notify: &str, (by_cpu, follows): (bool, bool)) -> Outcome {
    /// As long as three transfers.
    const LONG: usize = 375;
    const TURNS: usize = 20;
    let me = world.rank();
    let win = Window::<u64>::allocate_with(world, LONG, &Info::new().with("transom_notify", notify))?;
    win.set_num_notify(1)?;
    let mut found = Vec::new();
    win.lock_all(|epoch| {
        // First contact.
        if me == 0 {
            epoch.put_notify(1, 0, &[], Notice(0))?;
            epoch.flush(1)?;
        }
        // `lock_all` of rank 1 asks rank 0, whose answer is no part of the costs.
        world.barrier()?;
        for (turn, len) in [1, LONG].into_iter().cycle().take(TURNS).enumerate() {
            world.step(format!("turn {turn}"));
            let data = vec![turn as u64 + 1; len];
            if me == 0 {
                epoch.scope(|part| {
                    found.push((len, cost(world, || part.put_notify(1, 0, &data, Notice(0)))?));
                    Ok(())
                })?;
            } else {
                let waited = cost(world, || win.notices().wait(0, turn as u64 + 2))?;
                assert!(by_cpu || waited == SimCounters::default(), "the target takes no part: {waited:?}");
                let mut came = vec![0; len];
                win.load(0, &mut came)?;
                assert_eq!(came, data, "turn {turn}");
            }
            world.barrier()?;
        }
        Ok(())
    })?;
    for (len, counters) in &found {
        let puts = if by_cpu && *len == 1 { 0 } else { len.div_ceil(125) as u64 };
        let (amos, messages) = (u64::from(!by_cpu), u64::from(by_cpu));
        same(
            "cost",
            counters,
            &SimCounters { puts, amos, messages, behind: counters.behind, ..SimCounters::default() },
        )?;
    }
    let behind = found.iter().any(|(_, counters)| counters.behind > 0);
    same("notices followed puts", &behind, &(follows && me == 0))?;
    Ok(win.free()?)
}

/// Where puts carry a number, a notified put is its writes, the last of which carries the notice. A
/// put that is too long to be copied costs one write more. The target takes part only when it reads
/// the counter, and a counter that is read after a barrier has all notices from before.
#[test]
fn a_put_carries_its_notice() {
    let delivery = SimDelivery { immediates: Immediates::ALL, ..SimDelivery::default() };
    for seed in 0..8 {
        let amo = if seed % 2 == 0 { SimAmo::None } else { SimAmo::All(Coherence::DeviceOnly) };
        run(3, &SimOptions { seed, delivery, amo, done_one_in: 0, ..SimOptions::default() }, |world| {
            carried(world, "auto")
        });
    }
}

/// Regression: over a net with immediates each notice was posted right behind its data. A target
/// whose port has none is notified by an atomic or a message, which overtook the data.
#[test]
fn notices_to_a_rank_without_immediates_come_after_the_data() {
    after_the_data(SimDelivery { immediates: Immediates::ALL, without_immediates: Some(1), ..SimDelivery::default() });
}

/// Immediates of 12 bits name the counters of one window. If they follow puts of at most 64 bytes,
/// the notices of longer puts wait. Immediates of 11 bits name no counter.
#[test]
fn immediates_of_few_bits_come_after_the_data() {
    for immediates in [(12, 64), (12, 0), (11, usize::MAX)].map(|(bits, follow)| Immediates { bits, follow }) {
        after_the_data(SimDelivery { immediates, ..SimDelivery::default() });
    }
}

/// Puts of several lengths, whose notices come after the data on a slow net.
fn after_the_data(delivery: SimDelivery) {
    for seed in 0..20 {
        let amo = if seed % 2 == 0 { SimAmo::None } else { SimAmo::All(Coherence::DeviceOnly) };
        run(2, &SimOptions { seed, delivery, amo, delay: 40, done_one_in: 0, ..SimOptions::default() }, |world| {
            const LENGTHS: [usize; 5] = [3, 1, 12, 260, 1000];
            let win = Window::<u64>::allocate(world, LENGTHS[4])?;
            win.set_num_notify(1)?;
            win.lock_all(|epoch| {
                // The first put waits for the lock.
                for (count, len) in (1..).zip(LENGTHS.into_iter().cycle().take(15)) {
                    world.barrier()?;
                    world.step(format!("a put of {len} words"));
                    let mut came = vec![0; len];
                    if world.rank() == 0 {
                        let data = vec![count; len];
                        epoch.scope(|part| part.put_notify(1, 0, &data, Notice(0)))?;
                    } else {
                        win.notices().wait(0, count)?;
                        win.load(0, &mut came)?;
                        assert!(came.iter().all(|&it| it == count), "{len} words, {:?}", &came[..1]);
                    }
                }
                Ok(())
            })?;
            Ok(win.free()?)
        });
    }
}

fn carried(world: &Rank, notify: &str) -> Outcome {
    const EACH: usize = 20;
    // 96 bytes are the longest put that is copied, 1000 the longest single one.
    const LENGTHS: [(usize, u64); 4] = [(0, 1), (1, 1), (12, 1), (260, 4)];
    let me = world.rank();
    let (at, mut found) = (me * LENGTHS[3].0, Vec::new());
    let info = Info::new().with("transom_notify", notify);
    let win = Window::<u64>::allocate_with(world, 3 * LENGTHS[3].0, &info)?;
    for round in 1..=3 {
        // Notices that arrive late would count for the next round.
        win.set_num_notify(LENGTHS.len())?;
        win.lock_all(|epoch| {
            for (index, (len, writes)) in LENGTHS.into_iter().enumerate().filter(|_| me != 0) {
                let data = vec![(round * 10 + me) as u64; len];
                for turn in 0..EACH {
                    let put = || epoch.scope(|part| part.put_notify(0, at, &data, Notice(index)));
                    found.push((turn, writes, cost(world, put)?));
                }
            }
            Ok(())
        })?;
        world.barrier()?;
        if me == 0 {
            for index in 0..LENGTHS.len() {
                same("value", &win.notices().value(index)?, &(2 * EACH as u64))?;
            }
            same("reset", &win.notices().reset(1)?, &(2 * EACH as u64))?;
        }
        world.barrier()?;
    }
    for (turn, puts, cost) in found {
        // The first put reads the number of counters.
        let gets = if turn == 0 { cost.gets } else { 0 };
        same("cost", &cost, &SimCounters { puts, gets, behind: cost.behind, ..SimCounters::default() })?;
    }
    Ok(win.free()?)
}

/// Two ranks notify each other in turn: an answer is sent with the put in return where the net lets
/// answers wait. A rank that puts nothing in return sends the answer while it makes no call.
#[test]
fn answers_are_piggybacked_on_puts_in_return() {
    let piggybacked = |answers_wait| {
        let delivery = SimDelivery { answers_wait, ..SimDelivery::default() };
        let net = SimOptions { delivery, amo: SimAmo::None, again_one_in: 0, ..SimOptions::default() };
        PIGGYBACKED.store(0, Ordering::Relaxed);
        run(2, &net, in_turns);
        PIGGYBACKED.load(Ordering::Relaxed)
    };
    assert_eq!(piggybacked(Duration::ZERO), 0, "answers waited");
    // Where threads wait for a core, a progress thread may send each answer before the put.
    assert!((0..20).any(|_| piggybacked(Duration::from_secs(60)) > 0), "no answer was piggybacked");
}

/// The number of piggybacked answers.
static PIGGYBACKED: AtomicU64 = AtomicU64::new(0);

fn in_turns(world: &Rank) -> Outcome {
    const TURNS: u64 = 200;
    static FLUSHED: AtomicBool = AtomicBool::new(false);
    let me = world.rank();
    let win = Window::<u64>::allocate(world, 1)?;
    win.set_num_notify(1)?;
    win.lock_all(|epoch| {
        FLUSHED.store(false, Ordering::Release);
        // `lock_all` of rank 1 asks rank 0, whose answer is no part of the costs.
        world.barrier()?;
        let put = |turn: u64| {
            let data = [turn];
            epoch.scope(|part| part.put_notify(1 - me, 0, &data, Notice(0)))
        };
        let came = |turn| {
            win.notices().wait(0, turn)?;
            let mut came = [0];
            win.load(0, &mut came)?;
            assert_eq!(came, [turn]);
            Ok(())
        };
        let sent = cost(world, || {
            (1..=TURNS).try_for_each(|turn| {
                world.step(format!("turn {turn}"));
                if me == 0 { put(turn).and_then(|()| came(turn)) } else { came(turn).and_then(|()| put(turn)) }
            })
        })?;
        // The last answer may be sent later.
        PIGGYBACKED.fetch_add((2 * TURNS - 1).saturating_sub(sent.messages), Ordering::Relaxed);
        world.step("a flush while the target makes no call");
        if me == 0 {
            put(TURNS + 1)?;
            FLUSHED.store(true, Ordering::Release);
            return Ok(());
        }
        came(TURNS + 1)?;
        let start = Instant::now();
        while !FLUSHED.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(FLUSHED.load(Ordering::Acquire), "nobody sent the answer");
        Ok(())
    })?;
    Ok(win.free()?)
}

/// Regression: the event that ended a long wait for a notice also woke the progress thread, which
/// polled for completions. Over verbs each such poll posted an empty write behind the last put.
///
/// Shows S6.
#[test]
fn nobody_polls_for_completions_while_notices_are_exchanged() {
    let delivery = SimDelivery { immediates: Immediates::ALL, ..SimDelivery::default() };
    run(2, &SimOptions { delivery, amo: SimAmo::None, ..calm() }, |world| {
        const TURNS: u64 = 100;
        const PAUSE: Duration = Duration::from_millis(1);
        let (me, values) = (world.rank(), Vec::from_iter(0..=TURNS));
        let win = Window::<u64>::allocate(world, 1)?;
        win.set_num_notify(1)?;
        // The polls of an MPI that waits, in a program over the interposition library.
        let poll = world.poller();
        win.lock_all(|epoch| {
            let mut before = 0;
            for turn in 1..=TURNS {
                world.step(format!("turn {turn}"));
                // The first put finds the target and its number of counters.
                if turn == 2 {
                    before = world.completion_polls();
                }
                let value = &values[usize::try_from(turn).expect("few")..][..1];
                if me == 1 {
                    win.notices().wait(0, turn)?;
                    poll();
                    std::thread::sleep(PAUSE);
                }
                epoch.put_notify(1 - me, 0, value, Notice(0))?;
                if me == 0 {
                    win.notices().wait(0, turn)?;
                    std::thread::sleep(PAUSE);
                }
            }
            assert_eq!(world.completion_polls() - before, 0);
            Ok(())
        })?;
        let mut last = [0];
        win.load(0, &mut last)?;
        same("the last value", &last, &[TURNS])?;
        Ok(win.free()?)
    });
}

/// Regression: a program that asked `is_complete` and made progress by looks at a counter waited
/// for ever, because these looks poll for arrivals only.
///
/// Shows S1.
#[test]
fn looks_at_a_counter_complete_the_request_of_a_notified_put() {
    const LIMIT: Duration = Duration::from_secs(20);
    let delivery = SimDelivery { immediates: Immediates::ALL, ..SimDelivery::default() };
    run(2, &SimOptions { delivery, amo: SimAmo::None, ..calm() }, |world| {
        let win = Window::<u64>::allocate(world, 1)?;
        win.set_num_notify(1)?;
        let values = [1, 2, 3, 4];
        win.lock_all(|epoch| {
            if world.rank() == 1 {
                return win.notices().wait(0, 4);
            }
            for value in &values {
                world.step(format!("put {value}"));
                let request = epoch.rput_notify(1, 0, std::slice::from_ref(value), Notice(0))?;
                let start = Instant::now();
                while !request.is_complete() {
                    win.notices().value(0)?;
                    assert!(start.elapsed() < LIMIT, "put {value} is not complete");
                }
            }
            Ok(())
        })?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Where a port gathers small puts, the put of a notice is not kept for a later message: the notice
/// would be performed before it.
/// Shows S1.
#[test]
fn the_put_of_a_notice_is_not_kept() {
    const TURNS: usize = 20;
    for amo in [SimAmo::None, SimAmo::All(Coherence::DeviceOnly)] {
        let delivery = SimDelivery { ordered: true, amos_ordered: true, gathers: true, ..SimDelivery::default() };
        let net =
            SimOptions { delay: 40, done_one_in: 0, passive_target: false, delivery, amo, ..SimOptions::default() };
        run(2, &net, |world| {
            const PLAIN: usize = 10;
            let me = world.rank();
            let win = Window::<u64>::allocate(world, PLAIN + 1)?;
            win.set_num_notify(1)?;
            win.lock_all(|epoch| {
                for turn in 1..=TURNS as u64 {
                    world.step(format!("turn {turn}"));
                    let data = [turn];
                    if me == 0 {
                        epoch.scope(|part| {
                            (0..PLAIN).try_for_each(|at| part.put(1, at, &data))?;
                            part.put_notify(1, PLAIN, &data, Notice(0))
                        })?;
                    } else {
                        win.notices().wait(0, turn)?;
                        let mut came = [0];
                        win.load(PLAIN, &mut came)?;
                        assert_eq!(came, data);
                    }
                    world.barrier()?;
                }
                Ok(())
            })?;
            Ok(win.free()?)
        });
    }
}

/// While the ranks set their numbers of counters, another thread asks for them: it may read a
/// number that is about to change. After the call the new numbers count. Regression: the thread's
/// answer was kept as the new number.
#[test]
fn a_query_of_another_thread_keeps_no_old_number() {
    run(2, &SimOptions::default(), |world| {
        const ROUNDS: usize = 300;
        let me = world.rank();
        let win = Window::<u64>::allocate(world, 1)?;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let query = || {
                while !is_over.load(Ordering::Relaxed) {
                    win.num_notify(1 - me).expect("a rank that exists");
                }
            };
            threads.spawn(query);
            let rounds = || {
                for round in 1..=ROUNDS {
                    world.step(format!("round {round}"));
                    win.set_num_notify(round)?;
                    same("number", &win.num_notify(1 - me)?, &round)?;
                    win.lock_all(|epoch| epoch.put_notify(1 - me, 0, &[7], Notice(round - 1)))?;
                    world.barrier()?;
                }
                Ok(())
            };
            let outcome: Outcome = rounds();
            is_over.store(true, Ordering::Relaxed);
            outcome
        })?;
        Ok(win.free()?)
    });
}

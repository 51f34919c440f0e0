//! Calls that fail once while all ranks live: the ranks, their locks and the order of accumulates
//! are usable afterwards.
//!
//! Route: sim.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use simulated::{Rank, await_flag, calm, combining, like_sockets, peer, raise, run, run_on, same};
use transom::{BufferRequest, ErrorKind, Lock, LockAllEpoch, Notice, Request, Window, ops};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimDelivery, SimOptions};

mod simulated;

/// A calm net on which the target's CPU performs accumulates.
fn net() -> SimOptions {
    SimOptions { amo: SimAmo::None, ..calm() }
}

/// Rank `origin` accesses a window of 4 words at each rank, while the others wait in a barrier.
fn access(
    (origin, ranks): (usize, usize),
    net: &SimOptions,
    body: impl Fn(&Rank, &LockAllEpoch<'_, '_, u64>) -> transom::Result<()> + Send + Sync + 'static,
) {
    run(ranks, net, move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == origin {
            win.lock_all(|epoch| body(world, epoch))?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Rank 2 is stopped and owes rank 1 the receipt of a message. Rank 1 puts to rank 0 meanwhile.
#[test]
fn puts_to_a_rank_do_not_wait_for_another_rank_that_is_stopped() {
    let net = SimOptions { delay: 40, ..like_sockets(true, false) };
    run(3, &net, |world| {
        static STOPPED: AtomicBool = AtomicBool::new(false);
        static WAITED: AtomicBool = AtomicBool::new(false);
        let win = Window::<u64>::allocate(world, 512)?;
        world.barrier()?;
        if world.rank() == 1 {
            let net = world.net();
            world.while_waiting(move || {
                // Relaxed, as below: the hook runs in the thread that stores the flag.
                if STOPPED.swap(false, Ordering::Relaxed) {
                    WAITED.store(true, Ordering::Relaxed);
                    net.resume_messages_to(peer(2));
                }
            });
            win.lock_all(|epoch| {
                (0..3).try_for_each(|rank| epoch.put_value(rank, 0, 1))?;
                epoch.flush_all()?;
                world.step("puts to rank 2, of which the net has the first");
                (0..8).try_for_each(|at| epoch.put_value(2, 2 * at, 2))?;
                world.net().stop_messages_to(peer(2));
                STOPPED.store(true, Ordering::Relaxed);
                world.step("puts to rank 0");
                (0..100).try_for_each(|at| epoch.put_value(0, 2 * at, 3))?;
                STOPPED.store(false, Ordering::Relaxed);
                world.accept(2);
                Ok(())
            })?;
            same("the puts to rank 0 waited for rank 2", &WAITED.load(Ordering::Relaxed), &false)?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Rank 2 is stopped, and a thread of rank 1 waits for buffers of messages to it. A message of
/// another thread to rank 0 finds a buffer.
#[test]
fn messages_to_a_rank_do_not_wait_for_another_rank_that_takes_none() {
    thread_local! {
        static STREAMS: Cell<bool> = const { Cell::new(false) };
    }
    static BLOCKED: AtomicBool = AtomicBool::new(false);
    static SENDING: AtomicBool = AtomicBool::new(false);
    static WAITED: AtomicBool = AtomicBool::new(false);
    let delivery = SimDelivery { slots: Some(8), ..SimDelivery::default() };
    run(3, &SimOptions { delivery, ..net() }, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        win.lock_all(|epoch| {
            let add = |rank| epoch.accumulate(rank, 0, &[1], ops::Sum);
            (0..3).try_for_each(add)?;
            epoch.flush_all()?;
            world.barrier()?;
            if world.rank() == 1 {
                let net = world.net();
                // Relaxed, as below: the flags order no other access.
                world.while_waiting(move || {
                    if STREAMS.get() {
                        raise(&BLOCKED);
                    } else if SENDING.load(Ordering::Relaxed) {
                        WAITED.store(true, Ordering::Relaxed);
                        net.resume_messages_to(peer(2));
                    }
                });
                world.net().stop_messages_to(peer(2));
                std::thread::scope(|threads| {
                    let stream = threads.spawn(|| {
                        STREAMS.set(true);
                        (0..8).try_for_each(|_| add(2))
                    });
                    world.step("messages to rank 2");
                    await_flag(&BLOCKED);
                    world.step("a message to rank 0");
                    SENDING.store(true, Ordering::Relaxed);
                    add(0)?;
                    SENDING.store(false, Ordering::Relaxed);
                    epoch.flush(0)?;
                    world.net().resume_messages_to(peer(2));
                    stream.join().expect("no thread panics")
                })?;
            }
            Ok(())
        })?;
        same("the message waited for rank 2", &WAITED.load(Ordering::Relaxed), &false)?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// After the failed wait no other rank finds a waiting writer or an announced one.
#[test]
fn a_failed_wait_for_an_exclusive_lock_keeps_nobody_out() {
    run_on(Some(1), 2, &net(), |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        let lock = |kind| win.lock(kind, 1, |epoch| epoch.put_value(1, 0, 1));
        lock(Lock::Shared)?;
        world.barrier()?;
        if world.rank() == 0 {
            win.lock(Lock::Exclusive, 1, |_| {
                world.barrier()?;
                world.step("while rank 1's lock fails");
                world.barrier()
            })?;
        } else {
            world.barrier()?;
            world.fail_next_progress();
            let failed = lock(Lock::Exclusive).is_err();
            world.barrier()?;
            same("the lock fails", &failed, &true)?;
        }
        world.barrier()?;
        world.step("locks after the failed one");
        lock(Lock::Shared)?;
        win.lock_all(|epoch| epoch.put_value(1, 0, 1))?;
        lock(Lock::Exclusive)?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Two threads of a rank announce their first exclusive locks at the same time. The withdrawal of
/// the second announcement fails, and so does that thread's lock. The other thread's unlock then
/// withdraws the announcement that remains.
#[test]
fn a_lock_that_fails_beside_another_thread_keeps_nobody_out() {
    thread_local! {
        /// The number of posts of this thread since the test began to count.
        static POSTS: Cell<Option<u32>> = const { Cell::new(None) };
    }
    run(2, &SimOptions { amo: SimAmo::All(Coherence::DeviceOnly), ..net() }, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        let lock = |kind| win.lock(kind, 0, |epoch| epoch.put_value(0, 0, 1));
        lock(Lock::Shared)?;
        world.barrier()?;
        if world.rank() == 1 {
            let turns = Arc::new(Barrier::new(2));
            let (net, other) = (world.net(), Arc::clone(&turns));
            world.on_post(move |_| match POSTS.replace(POSTS.get().map(|posts| posts + 1)) {
                // The announcement waits until the other thread is announced and holds the lock.
                Some(0) => {
                    other.wait();
                    other.wait();
                }
                Some(1) => net.fail_progress(peer(1), 1),
                _ => (),
            });
            let failed = std::thread::scope(|threads| {
                let failing = threads.spawn(|| {
                    POSTS.set(Some(0));
                    let failed = lock(Lock::Exclusive).is_err();
                    turns.wait();
                    failed
                });
                turns.wait();
                win.lock(Lock::Exclusive, 0, |_| {
                    turns.wait();
                    turns.wait();
                    Ok(())
                })?;
                Ok::<_, transom::Error>(failing.join().expect("no thread panics"))
            })?;
            same("the lock fails", &failed, &true)?;
        }
        world.barrier()?;
        world.step("locks after the failed one");
        win.lock_all(|epoch| epoch.put_value(0, 0, 1))?;
        lock(Lock::Exclusive)?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// The number of the refused accumulate is not missing in the order of the later ones (MPI-4.1
/// §12.7.2).
#[test]
fn a_refused_accumulate_does_not_hold_up_later_ones() {
    for (net, shares) in
        [(like_sockets(false, false), false), (like_sockets(true, false), true), (combining(true), true)]
    {
        access((1, 2), &SimOptions { delay: 40, ..net }, move |world, epoch| {
            let add = |value: &'static [u64; 1]| epoch.accumulate(0, 0, value, ops::Sum);
            add(&[1])?;
            epoch.flush(0)?;
            if shares {
                // The second one is kept, and sent before the fetch.
                add(&[2])?;
                add(&[4])?;
            }
            world.refuse(0);
            let refused = epoch.fetch_and_op(0, 0, 8, ops::Sum);
            world.accept(0);
            assert!(refused.is_err(), "{refused:?}");
            // The failure of the kept one.
            drop(epoch.flush(0));
            world.step("later accumulates");
            add(&[16])?;
            epoch.flush(0)?;
            // Of 2 and 4, the net had those that were not kept.
            let found = epoch.fetch_and_op(0, 0, 0, ops::Sum)?;
            assert_eq!(found & !6, 1 + 16, "without the one that was refused: {found}");
            Ok(())
        });
    }
}

/// Kept accumulates that can't be sent fail, and their number is not missing in the order of the
/// later ones (MPI-4.1 §12.7.2).
#[test]
fn kept_accumulates_that_can_not_be_sent_do_not_hold_up_later_ones() {
    let delivery = SimDelivery { gathers: true, ..SimDelivery::default() };
    let net = SimOptions { delivery, message_max: 1024, delay: 40, passive_target: false, ..net() };
    access((1, 2), &net, kept_accumulates_fail);
    access((1, 2), &SimOptions { delay: 40, ..combining(true) }, kept_accumulates_fail);
}

fn kept_accumulates_fail(world: &Rank, epoch: &LockAllEpoch<'_, '_, u64>) -> transom::Result<()> {
    // Rank 0 can't answer the first one, so the others are kept.
    world.net().stop_messages_to(peer(1));
    epoch.accumulate(0, 0, &[1], ops::Sum)?;
    (0..3).try_for_each(|_| epoch.accumulate(0, 0, &[2], ops::Sum))?;
    world.net().break_connection_to(peer(0));
    world.net().resume_messages_to(peer(1));
    let failed = epoch.flush(0);
    world.net().mend_connection_to(peer(0));
    assert!(failed.is_err(), "the kept ones fail");
    world.step("later accumulates");
    epoch.accumulate(0, 0, &[16], ops::Sum)?;
    epoch.flush(0)?;
    assert_eq!(epoch.fetch_and_op(0, 0, 0, ops::Sum)?, 17);
    Ok(())
}

/// Rank 0 lacks the memory for messages to rank 1 for a while. The answer to rank 1 is sent later.
#[test]
fn an_answer_that_can_not_be_sent_at_first_is_sent_later() {
    static CUT: AtomicBool = AtomicBool::new(true);
    run(2, &net(), move |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 1 {
            let net = world.net();
            world.while_waiting(move || {
                // Rank 0 executes the request meanwhile.
                std::thread::sleep(Duration::from_millis(20));
                net.mend_connection_to(peer(1));
                // Relaxed, as below: the flag orders no other access.
                CUT.store(false, Ordering::Relaxed);
            });
            world.net().break_connection_to(peer(1));
            world.step("an accumulate whose answer rank 0 can't send at once");
            win.lock_all(|epoch| epoch.accumulate(0, 0, &[1], ops::Sum))?;
        }
        // Rank 0 sends nothing else meanwhile.
        while CUT.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Rank 0 loses rank 1 while rank 2 has not answered yet. The operations at rank 2 complete, and
/// the program's hook is called meanwhile.
#[test]
fn an_operation_completes_although_another_rank_is_lost() {
    access((0, 3), &net(), |world, epoch| {
        epoch.accumulate(2, 0, &[3], ops::Sum)?;
        epoch.flush(2)?;
        let net = world.net();
        world.while_waiting(move || net.resume_messages_to(peer(0)));
        world.step("a fetch that rank 2 can't answer at once");
        world.net().stop_messages_to(peer(0));
        world.net().report_lost(peer(0), peer(1));
        let found = epoch.fetch_and_op(2, 0, 1, ops::Sum);
        world.step("a flush, which only waits");
        world.net().stop_messages_to(peer(0));
        epoch.accumulate(2, 0, &[3], ops::Sum)?;
        let lost = epoch.flush(2);
        let found_after = epoch.fetch_and_op(2, 0, 0, ops::Sum);
        world.accept(0);
        world.net().report_none_lost(peer(0));
        assert_eq!(found?, 3, "what rank 2 had");
        let error = lost.expect_err("rank 1 is lost");
        assert!(matches!(error.kind(), ErrorKind::Peer { rank: 1, .. }), "{error:#}");
        assert_eq!(found_after?, 7, "what the flush has completed");
        Ok(())
    });
}

/// Tests of a request do not end it while its operation is in flight, although another rank is
/// lost.
#[test]
fn a_request_in_flight_stays_pending_although_another_rank_is_lost() {
    access((0, 3), &SimOptions { delay: 40, ..net() }, |world, epoch| {
        epoch.put_value(2, 0, 7)?;
        epoch.flush(2)?;
        world.step("tests of requests that rank 2 does not answer yet");
        world.net().stop_messages_to(peer(0));
        let mut gets =
            vec![epoch.rget_owned(2, 0, vec![0])?, epoch.rget_accumulate_owned(2, 0, &[0], vec![0], ops::Sum)?];
        world.net().report_lost(peer(0), peer(1));
        for _ in 0..100 {
            let _ = gets[1].test()?;
            let _ = Request::test_some(&mut gets[1..])?;
        }
        let pending = !gets[1].test()?;
        world.net().resume_messages_to(peer(0));
        world.step("tests until the requests are complete");
        while !gets[0].test()? || !gets[1].test()? {
            std::thread::yield_now();
        }
        world.net().report_none_lost(peer(0));
        assert!(pending, "rank 2 could not answer");
        for (get, value) in gets.into_iter().zip([7, 7]) {
            assert_eq!(get.wait()?, [value]);
        }
        Ok(())
    });
}

/// The target of a request can't be reached, and its transport does not end the operation, as on
/// nets that learn of no silence. Tests of the request then fail, and leave it active. Regression:
/// they returned "not complete" for ever.
/// Shows E1.
#[test]
fn a_request_to_a_rank_that_is_lost_fails_in_its_tests() {
    access((0, 3), &SimOptions { delay: 400, ..net() }, |world, epoch| {
        // Some of the gets may be complete before their tests.
        for some in [false, true] {
            let mut failed = 0;
            for _ in 0..100 {
                let mut gets = [epoch.rget_owned(1, 0, vec![1])?, epoch.rget_owned(2, 0, vec![1])?];
                let mut test = |which: usize| match some {
                    true => Request::test_some(&mut gets[which..=which]).map(|_| true),
                    false => gets[which].test(),
                };
                world.net().report_lost(peer(0), peer(1));
                failed += usize::from(test(0).is_err());
                let other = test(1);
                world.net().report_none_lost(peer(0));
                assert!(other.is_ok(), "rank 2 is not lost: {other:?}");
                gets.into_iter().try_for_each(|get| get.wait().map(|got| assert_eq!(got, [0])))?;
            }
            assert!(failed > 0, "no test reported the loss, of several: {some}");
        }
        Ok(())
    });
}

/// A wait for a request fails while another rank is lost, and leaves the request as it is: its
/// operation is still in flight. Regression: the request was inactive.
#[test]
fn a_request_in_flight_stays_active_after_a_failed_wait() {
    run(3, &SimOptions { delay: 40, ..net() }, |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 0 {
            win.lock_all(|epoch| {
                epoch.put_value(2, 0, 7)?;
                epoch.flush(2)?;
                world.net().stop_messages_to(peer(0));
                let mut all = [epoch.raccumulate(2, 0, &[1], ops::Sum)?, epoch.raccumulate(2, 1, &[1], ops::Sum)?];
                world.net().report_lost(peer(0), peer(1));
                world.step("waits for requests that rank 2 does not answer yet");
                let waits = [all[0].wait(), Request::wait_all(&mut all), Request::wait_any(&mut all).map(drop)];
                let active = all.iter().all(|request| request.is_active() && !request.is_complete());
                world.net().resume_messages_to(peer(0));
                world.step("waits until the requests are complete");
                let done = waits.iter().all(Result::is_err);
                while Request::wait_all(&mut all).is_err() {
                    std::thread::yield_now();
                }
                world.net().report_none_lost(peer(0));
                assert!(done && active, "{waits:?}, {active}");
                assert!(!all.iter().any(Request::is_active));
                Ok(())
            })?;
        }
        world.barrier()?;
        let mut found = [0; 2];
        win.load(0, &mut found)?;
        assert_eq!(found, if world.rank() == 2 { [8, 1] } else { [0; 2] });
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// The rank of an operation in flight is lost. The flush that waits for the operation fails, and
/// the next one has nothing to report. Regression: both failed.
/// Shows E1.
#[test]
fn a_loss_during_a_flush_is_reported_once() {
    run(3, &net(), |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 0 {
            for all in [false, true] {
                win.lock_all(|epoch| {
                    epoch.put_value(1, 0, 7)?;
                    epoch.flush(1)?;
                    world.net().stop_messages_to(peer(0));
                    epoch.accumulate(1, 1, &[1], ops::Sum)?;
                    world.net().report_lost(peer(0), peer(1));
                    let flush = || if all { epoch.flush_all() } else { epoch.flush(1) };
                    let flushes = [flush(), flush()];
                    world.net().report_none_lost(peer(0));
                    world.net().resume_messages_to(peer(0));
                    assert!(matches!(flushes, [Err(_), Ok(())]), "{flushes:?}");
                    Ok(())
                })?;
            }
        }
        // `free` would wait for the rank that is lost.
        drop(win);
        Ok(())
    });
}

/// A buffer whose operation failed does not come back as if it had the data, although an earlier
/// call has reported the failure. Regression: the wait returned the old contents.
/// Shows E1.
#[test]
fn a_buffer_without_its_data_is_an_error() {
    run(3, &net(), |world| {
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 0 {
            for flushes in [false, true] {
                win.lock_all(|epoch| {
                    epoch.put_value(1, 0, 7)?;
                    epoch.flush(1)?;
                    world.net().stop_messages_to(peer(0));
                    let fetch = || epoch.rget_accumulate_owned(1, 1, &[1], vec![0], ops::Sum);
                    let mut fetches = [fetch()?, fetch()?];
                    world.net().report_lost(peer(0), peer(1));
                    let reported = if flushes { epoch.flush_all() } else { Request::wait_all(&mut fetches) };
                    world.net().report_none_lost(peer(0));
                    world.net().resume_messages_to(peer(0));
                    let waits = fetches.map(BufferRequest::wait);
                    assert!(reported.is_err() && waits.iter().all(Result::is_err), "{reported:?}, {waits:?}");
                    Ok(())
                })?;
            }
        }
        // `free` would wait for the rank that is lost.
        drop(win);
        Ok(())
    });
}

/// Answers that would have gone with the refused put are sent without it.
#[test]
fn a_refused_notified_put_loses_no_answer() {
    let delivery = SimDelivery { answers_wait: Duration::from_secs(60), ..SimDelivery::default() };
    run(2, &SimOptions { delivery, ..net() }, |world| {
        let me = world.rank();
        let win = Window::<u64>::allocate(world, 1)?;
        win.set_num_notify(1)?;
        win.lock_all(|epoch| {
            world.barrier()?;
            for turn in 1..=100 {
                world.step(format!("turn {turn}"));
                let put = || epoch.put_notify(1 - me, 0, &[], Notice(0));
                if me == 0 {
                    put()?;
                    win.notices().wait(0, turn)?;
                } else {
                    win.notices().wait(0, turn)?;
                    if turn % 10 == 0 {
                        world.refuse(0);
                        let refused = put();
                        world.accept(0);
                        assert!(refused.is_err(), "turn {turn}");
                    }
                    put()?;
                }
            }
            if me == 0 {
                world.step("the flush, for which rank 1 answers all");
                epoch.flush(1)?;
            } else {
                // The failures of the refused puts.
                drop(epoch.flush(0));
            }
            Ok(())
        })?;
        Ok(win.free()?)
    });
}

/// The net performs the accumulates, and one that follows another at once waits until that one is
/// complete. If the wait fails, the accumulate fails and has no effect.
#[test]
fn an_accumulate_that_can_not_wait_for_another_one_is_an_error() {
    let net = SimOptions { amo: SimAmo::All(Coherence::DeviceOnly), delay: 40, ..net() };
    access((1, 2), &net, |world, epoch| {
        let (mut sum, mut failed) = (0, 0);
        for turn in 0..100 {
            world.step(format!("turn {turn}"));
            epoch.accumulate(0, 0, &[1], ops::Sum)?;
            world.fail_next_progress();
            let second = epoch.accumulate(0, 0, &[1000], ops::Sum);
            world.accept(0);
            epoch.flush(0)?;
            sum += if second.is_ok() { 1001 } else { 1 };
            failed += usize::from(second.is_err());
            assert_eq!(epoch.fetch_and_op(0, 0, 0, ops::Sum)?, sum, "turn {turn}: {second:?}");
        }
        // It need not wait if the first one is complete already.
        assert!(failed > 0, "no accumulate has waited");
        Ok(())
    });
}

/// A rank whose first `set_num_notify` failed gets counters from the next one.
#[test]
fn a_failed_set_num_notify_can_be_repeated() {
    run(2, &net(), |world| {
        let me = world.rank();
        let win = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        static FAILED: AtomicBool = AtomicBool::new(false);
        if me == 1 {
            world.fail_next_progress();
            let first = win.set_num_notify(2);
            raise(&FAILED);
            same("the first one fails at rank 1", &first.is_err(), &true)?;
        } else {
            // Rank 0 calls after rank 1 has failed for lack of its signal.
            await_flag(&FAILED);
            win.set_num_notify(2)?;
        }
        // Rank 1 has left the first of the two barriers of its call. The barriers of
        // the fences make up for it.
        if me == 0 {
            win.fence(|epoch| {
                world.step("a fence within");
                epoch.fence()
            })?;
        } else {
            win.set_num_notify(2)?;
            win.fence(|_| Ok(()))?;
        }
        world.step("notified puts");
        win.lock_all(|epoch| epoch.put_notify(1 - me, 0, &[7], Notice(1)))?;
        win.notices().wait(1, 1)?;
        world.barrier()?;
        Ok(win.free()?)
    });
}

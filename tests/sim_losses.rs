//! Synchronization after the loss of a rank. Operations on live ranks are in flight when the loss
//! is found. They are complete before this rank notifies a target, signals a fence or releases a
//! lock. The loss of a rank ends only the operations on that rank.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use simulated::{Outcome, Rank, await_flag, like_sockets, peer, raise, run, run_on, same};
use transom::{Assert, BasicType, Class, ErrorKind, Info, Job, Lock, Op, RawWindow};
use transom_fabric::Immediates;
use transom_fabric::sim::{SimDelivery, SimOptions};

mod simulated;

/// A net on which operations take many steps of progress, and messages overtake puts.
fn slow(seed: u64) -> SimOptions {
    SimOptions { seed, delay: 400, ..like_sockets(false, false) }
}

/// [`slow`] nets on which notices are messages, and immediates, which follow puts.
fn slow_nets(seeds: u64) -> impl Iterator<Item = SimOptions> {
    (0..seeds).flat_map(|seed| {
        let messages = slow(seed);
        let delivery = SimDelivery { immediates: Immediates::ALL, ordered: seed % 2 == 1, ..messages.delivery };
        [SimOptions { delivery, ..messages.clone() }, messages]
    })
}

/// A window of 8 words at each rank of `job`, with first contacts between all ranks.
fn window(job: &Job) -> transom::Result<RawWindow> {
    let win = RawWindow::allocate(job, 64, 8, &Info::new())?;
    win.lock_all(Assert::NONE)?;
    for target in 0..job.size() {
        win.fetch_value(0, BasicType::Int64, target, 7, Op::NoOp)?;
    }
    win.unlock_all()?;
    job.barrier()?;
    Ok(win)
}

/// A value that outlives all operations.
fn value(value: u64) -> *const u8 {
    std::ptr::from_ref(Box::leak(Box::new(value))).cast()
}

/// A word of this rank's part.
fn word(win: &RawWindow, at: usize) -> u64 {
    let mut word = [0; 8];
    win.load(8 * at, &mut word);
    u64::from_ne_bytes(word)
}

/// Rank 0 operates on rank 1, loses rank 2, and ends the epoch.
fn end_beside_a_loss(world: &Rank, win: &RawWindow, by_fence: bool) -> transom::Result<()> {
    match world.rank() {
        _ if by_fence => win.fence(Assert::NOPRECEDE)?,
        0 => win.start(&[1], Assert::NONE)?,
        _ => win.post(&[0], Assert::NONE)?,
    }
    if world.rank() == 0 {
        let old: &'static mut u64 = Box::leak(Box::new(0));
        // SAFETY: the buffers live for ever.
        unsafe {
            win.put(value(5), 8, 1, 0)?;
            win.get_accumulate(value(6), (&raw mut *old).cast(), 1, BasicType::Int64, 1, 1, Op::Sum)?;
        }
        world.net().report_lost(peer(0), peer(2));
    }
    match world.rank() {
        _ if by_fence => win.fence(Assert::NOSUCCEED),
        0 => win.complete(),
        _ => win.wait(),
    }
}

/// An epoch of rank 0 on rank 1 ends after the loss of a rank outside of the window. Rank 1 has the
/// data.
fn target_has_the_data(by_fence: bool) {
    let found = Arc::new(AtomicU64::new(0));
    for net in slow_nets(10) {
        let found = Arc::clone(&found);
        run(3, &net, move |world| {
            if world.rank() == 2 {
                return Ok(());
            }
            let win = window(&world.subset(&[0, 1])?)?;
            world.step("the epoch");
            let ended = end_beside_a_loss(world, &win, by_fence);
            world.net().report_none_lost(peer(world.rank()));
            match ended {
                Err(error) if world.rank() == 0 => {
                    same("the loss", &lost(&error), &Some(2))?;
                    found.fetch_add(1, Ordering::Relaxed);
                }
                ended => ended?,
            }
            if world.rank() == 1 {
                same("the data", &[word(&win, 0), word(&win, 1)], &[5, 6])?;
            }
            // Rank 0's fence may have failed.
            world.step("free");
            Ok(win.free()?)
        });
    }
    assert!(found.load(Ordering::Relaxed) > 0, "no epoch ended with the loss");
}

/// The rank whose loss is the error.
fn lost(error: &transom::Error) -> Option<usize> {
    match error.kind() {
        ErrorKind::Peer { rank, .. } => Some(*rank),
        _ => None,
    }
}

/// Regression: `complete` had notified rank 1 before the operations were complete.
/// Shows S1, E1.
#[test]
fn complete_notifies_behind_the_operations_although_another_rank_is_lost() {
    target_has_the_data(false);
}

/// Regression: rank 1 got the signal before the operations were complete, and its fence succeeded.
/// Shows S1, E1.
#[test]
fn a_fence_signals_behind_the_operations_although_another_rank_is_lost() {
    target_has_the_data(true);
}

/// Rank 0 puts under an exclusive lock, loses rank 2, which is outside of the window, and unlocks.
/// Rank 3 then puts to the same word under the same lock.
fn put_in_turn(world: &Rank, turn: &[AtomicBool; 2], found: &AtomicU64) -> Outcome {
    if world.rank() == 2 {
        return Ok(());
    }
    let team = world.subset(&[0, 1, 3])?;
    let win = window(&team)?;
    let put = |operand, before_unlock: &dyn Fn()| {
        win.lock(Lock::Exclusive, 1, Assert::NONE)?;
        // SAFETY: the buffer lives for ever.
        unsafe { win.put(value(operand), 8, 1, 0) }?;
        before_unlock();
        win.unlock(1)
    };
    match world.rank() {
        0 => {
            let unlocked = put(5, &|| {
                world.net().report_lost(peer(0), peer(2));
                raise(&turn[0]);
            });
            await_flag(&turn[1]);
            world.net().report_none_lost(peer(0));
            if let Err(error) = unlocked {
                same("the loss", &lost(&error), &Some(2))?;
                found.fetch_add(1, Ordering::Relaxed);
            }
        }
        3 => {
            await_flag(&turn[0]);
            let unlocked = put(9, &|| ());
            raise(&turn[1]);
            unlocked?;
        }
        _ => {}
    }
    team.barrier()?;
    if world.rank() == 1 {
        same("the put under the later lock", &word(&win, 0), &9)?;
    }
    Ok(win.free()?)
}

/// Regression: the lock was released while the put of its holder was in flight, so the put
/// overwrote a later one.
/// Shows S2, E1.
#[test]
fn a_lock_is_released_behind_the_operations_although_another_rank_is_lost() {
    let found = Arc::new(AtomicU64::new(0));
    for seed in 0..20 {
        let (turn, found) = ([const { AtomicBool::new(false) }; 2], Arc::clone(&found));
        run(4, &slow(seed), move |world| put_in_turn(world, &turn, &found));
    }
    assert!(found.load(Ordering::Relaxed) > 0, "no unlock found the loss");
}

/// One thread flushes puts that the target refuses, while two threads begin further operations.
/// Returns the number of flushes that succeeded.
fn flush_refused_puts(win: &RawWindow, base: u64) -> transom::Result<u64> {
    let (stop, from) = (AtomicBool::new(false), value(7).addr());
    std::thread::scope(|threads| {
        for thread in 0..2 {
            let stop = &stop;
            threads.spawn(move || {
                // Relaxed: the flag only requests the end.
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: the buffer lives for ever.
                    let put = unsafe { win.rput(from as *const u8, 8, 0, base + 8 * thread) };
                    put.and_then(|mut request| request.wait()).expect("the region is attached");
                }
            });
        }
        let missed = (0..1000).try_fold(0, |missed, _| {
            // SAFETY: the buffer lives for ever.
            unsafe { win.put(from as *const u8, 8, 0, base + 1000) }?;
            Ok(missed + u64::from(win.flush(0).is_ok()))
        });
        stop.store(true, Ordering::Relaxed);
        missed
    })
}

/// The requests of the other threads report only their own failures. Regression: a flush found the
/// operations of other threads in flight when its own wait had ended, and succeeded.
/// Shows E1.
#[test]
fn a_flush_reports_its_failure_beside_operations_of_other_threads() {
    let net = SimOptions { delay: 9, ..like_sockets(true, false) };
    run(2, &net, |world| {
        let win = RawWindow::create_dynamic(world, &Info::new())?;
        let memory: &'static mut [u64] = Box::leak(Box::new([0; 64]));
        let mut base = [memory.as_ptr().addr() as u64];
        // SAFETY: the memory lives for ever.
        unsafe { win.attach(memory.as_mut_ptr().cast(), 512)? };
        world.broadcast(0, &mut base)?;
        if world.rank() == 1 {
            win.lock_all(Assert::NOCHECK)?;
            world.step("refused puts");
            same("flushes that missed a failure", &flush_refused_puts(&win, base[0])?, &0)?;
            win.unlock_all()?;
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Rank 2 exposes its part to rank 1, which puts slowly. Rank 0 ends an epoch for which rank 2 has
/// not posted, because it loses rank 3, which is outside of the window. `several`: the epoch has
/// another target, which has posted.
fn complete_before_the_post(world: &Rank, several: bool, flags: &[AtomicBool; 3]) -> Outcome {
    if world.rank() == 3 {
        return Ok(());
    }
    let [posted, failed, completes] = flags;
    let team = world.subset(&[0, 1, 2])?;
    let win = window(&team)?;
    world.step(format!("epochs, several targets: {several}"));
    match world.rank() {
        0 => {
            await_flag(posted);
            win.start(if several { &[2, 1] } else { &[2] }, Assert::NONE)?;
            world.net().report_lost(peer(0), peer(3));
            let completed = win.complete();
            world.net().report_none_lost(peer(0));
            same("the loss", &completed.as_ref().err().and_then(lost), &Some(3))?;
            raise(failed);
        }
        1 => {
            if several {
                win.post(&[0], Assert::NONE)?;
            }
            win.start(&[2], Assert::NONE)?;
            // SAFETY: the buffer lives for ever.
            unsafe { win.put(value(5), 8, 2, 0) }?;
            await_flag(failed);
            // Rank 2 would end the epoch meanwhile.
            sleep(Duration::from_millis(20));
            raise(completes);
            win.complete()?;
            if several {
                win.wait()?;
            }
        }
        _ => {
            win.post(&[1], Assert::NONE)?;
            raise(posted);
            win.wait()?;
            // Acquire: pairs with `raise`.
            same("rank 1 has completed", &completes.load(Ordering::Acquire), &true)?;
            same("the put of rank 1", &word(&win, 0), &5)?;
            world.step("the epoch that rank 0 has ended");
            win.post(&[0], Assert::NONE)?;
            win.wait()?;
        }
    }
    team.barrier()?;
    put_in_epochs(world, &win)?;
    Ok(win.free()?)
}

/// Ranks 0 and 1 put in epochs on rank 2.
fn put_in_epochs(world: &Rank, win: &RawWindow) -> Outcome {
    for turn in 10..20 {
        world.step(format!("a later epoch, {turn}"));
        if world.rank() == 2 {
            win.post(&[0, 1], Assert::NONE)?;
            win.wait()?;
            same("the puts", &[word(win, 1), word(win, 2)], &[turn, turn])?;
        } else {
            win.start(&[2], Assert::NONE)?;
            // SAFETY: the buffer lives for ever.
            unsafe { win.put(value(turn), 8, 2, 1 + world.rank() as u64) }?;
            win.complete()?;
        }
    }
    Ok(())
}

/// Regression: rank 0's notice of the epoch's end came before the post, and ended the epoch of
/// rank 1: completions have no origin.
/// Shows S1, E1.
#[test]
fn an_epoch_that_ends_before_its_post_does_not_end_the_epoch_of_another_origin() {
    for (several, nodes) in [(false, None), (true, None), (false, Some(2)), (true, Some(2))] {
        for net in slow_nets(4) {
            let flags = [const { AtomicBool::new(false) }; 3];
            run_on(nodes, 4, &net, move |world| complete_before_the_post(world, several, &flags));
        }
    }
}

/// Rank 1 takes no message for a while, and rank 2 is lost. Rank 0's kept accumulates, whose calls
/// have succeeded, reach rank 1 although a later call fails. Regression: they were dropped.
/// Shows O1, E1.
#[test]
fn kept_accumulates_outlast_a_call_that_finds_the_loss_of_another_rank() {
    run(3, &like_sockets(true, false), |world| {
        if world.rank() == 2 {
            return Ok(());
        }
        let team = world.subset(&[0, 1])?;
        let win = window(&team)?;
        if world.rank() == 0 {
            // SAFETY: the buffer lives for ever.
            let add = || unsafe { win.accumulate(value(1), 1, BasicType::Int64, 1, 0, Op::Sum) };
            win.lock_all(Assert::NOCHECK)?;
            // After a burst the first operation of the next one is kept, too.
            (0..4).try_for_each(|_| add())?;
            win.flush(1)?;
            (0..4).try_for_each(|_| add())?;
            world.net().stop_messages_to(peer(1));
            world.net().report_lost(peer(0), peer(2));
            let fetched = win.fetch_value(100, BasicType::Int64, 1, 0, Op::Sum);
            same("the loss", &fetched.as_ref().err().and_then(lost), &Some(2))?;
            world.net().resume_messages_to(peer(1));
            world.net().report_none_lost(peer(0));
            win.flush(1)?;
            same("the sum", &win.fetch_value(0, BasicType::Int64, 1, 0, Op::NoOp)?, &8)?;
            win.unlock_all()?;
        }
        team.barrier()?;
        Ok(win.free()?)
    });
}

/// Rank 1 refuses a put that rank 0 has sent with its delayed lock, and rank 2 is lost meanwhile.
fn fetch_beside_a_refused_put(world: &Rank) -> Outcome {
    if world.rank() == 2 {
        return Ok(());
    }
    let team = world.subset(&[0, 1])?;
    let win = RawWindow::create_dynamic(&team, &Info::new())?;
    let memory: &'static mut [u64] = Box::leak(Box::new([0; 8]));
    let mut base = [memory.as_ptr().addr() as u64];
    // SAFETY: the memory lives for ever.
    unsafe { win.attach(memory.as_mut_ptr().cast(), 64)? };
    team.broadcast(1, &mut base)?;
    if world.rank() == 0 {
        // SAFETY: the buffer lives for ever.
        let put = |at| unsafe { win.put(value(1), 8, 1, base[0] + at) };
        // The next lock is delayed, because this epoch has an operation.
        win.lock(Lock::Shared, 1, Assert::NONE)?;
        put(0)?;
        win.unlock(1)?;
        win.lock(Lock::Shared, 1, Assert::NONE)?;
        put(1000)?;
        world.net().report_lost(peer(0), peer(2));
        let fetched = win.fetch_value(1, BasicType::Int64, 1, base[0], Op::Sum);
        world.net().report_none_lost(peer(0));
        let failed = fetched.err().map(|error| error.class());
        same("the fetch reports at most the loss", &failed.filter(|&class| class != Class::Other), &None)?;
        let unlocked = win.unlock(1).map_err(|error| error.class());
        same("the unlock reports the put", &unlocked, &Err(Class::RmaRange))?;
    }
    team.barrier()?;
    Ok(win.free()?)
}

/// Regression: the call that sent the lock reported the failure of the earlier put, and the unlock
/// succeeded.
/// Shows E1.
#[test]
fn an_unlock_reports_a_refused_operation_although_another_rank_is_lost() {
    for seed in 0..10 {
        run(3, &slow(seed), fetch_beside_a_refused_put);
    }
}

/// More windows than a message ring has cells.
const WINDOWS: usize = 160;

/// Ranks 0 and 2, of one node, have windows in which rank 0's posts are messages. Rank 0's progress
/// thread stops. Rank 0 then posts more than rank 2's ring has room for, and makes no further call.
fn post_without_the_thread(world: &Rank, flags: &[AtomicBool; 2]) -> Outcome {
    if world.rank() % 2 == 1 {
        return Ok(());
    }
    let [posted, arrived] = flags;
    let team = world.subset(&[0, 2])?;
    let windows = (0..WINDOWS).map(|_| window(&team)).collect::<transom::Result<Vec<_>>>()?;
    for win in &windows {
        if world.rank() == 0 {
            team.barrier()?;
            win.post(&[1], Assert::NONE)?;
            win.wait()?;
        } else {
            // The epoch ends before its post, so that later posts are messages.
            win.start(&[0], Assert::NONE)?;
            world.net().report_lost(peer(2), peer(3));
            let completed = win.complete();
            world.net().report_none_lost(peer(2));
            same("the loss", &completed.as_ref().err().and_then(lost), &Some(3))?;
            team.barrier()?;
        }
        team.barrier()?;
    }
    world.step("posts");
    if world.rank() == 0 {
        same("a progress thread serves", &world.has_progress_thread(), &true)?;
        world.kill(0);
        while world.has_progress_thread() {
            sleep(Duration::from_millis(1));
        }
        windows.iter().try_for_each(|win| win.post(&[1], Assert::NONE))?;
        raise(posted);
        await_flag(arrived);
        // The waits would poll the net.
        std::mem::forget(windows);
        return Ok(());
    }
    await_flag(posted);
    for (turn, win) in windows.iter().enumerate() {
        world.step(format!("the epoch in window {turn}"));
        win.start(&[0], Assert::NONE)?;
        win.complete()?;
    }
    raise(arrived);
    std::mem::forget(windows);
    Ok(())
}

/// Regression: calls relied on a progress thread that a failure of the net had stopped, and the
/// posts that had found no room stayed at rank 0.
/// Shows E1.
#[test]
fn posts_are_sent_after_the_progress_thread_has_stopped() {
    let flags = [const { AtomicBool::new(false) }; 2];
    run_on(Some(2), 4, &like_sockets(true, false), move |world| post_without_the_thread(world, &flags));
}

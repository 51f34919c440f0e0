//! Releases of locks behind puts in flight, on nets that keep this order: what other ranks find in
//! the target's part, and the loss of a rank between the release and its answer.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use simulated::{Outcome, Rank, await_flag, like_sockets, peer, raise, run, same};
use transom::{Assert, BasicType, ErrorKind, Info, Job, Lock, Op, RawWindow};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimDelivery, SimOptions};

mod simulated;

/// The words of each part.
const LEN: usize = 1500;

/// A net on which a message follows puts, and a long put is in flight for many steps.
fn ordered(seed: u64) -> SimOptions {
    SimOptions { seed, delay: 300, transfer_max: 1 << 20, ..like_sockets(false, true) }
}

/// [`ordered`] where the device changes the words of locks, behind puts. One post in two finds no
/// room.
fn by_device(seed: u64) -> SimOptions {
    let delivery = SimDelivery { amos_ordered: true, ..SimDelivery::default() };
    let amo = SimAmo::All(Coherence::DeviceOnly);
    SimOptions { delivery, amo, again_one_in: 2, ..ordered(seed) }
}

/// A window of [`LEN`] words at each rank of `job`, with first contacts between all ranks.
fn window(job: &Job) -> transom::Result<RawWindow> {
    let win = RawWindow::allocate(job, 8 * LEN, 8, &Info::new())?;
    win.lock_all(Assert::NONE)?;
    for target in 0..job.size() {
        win.fetch_value(0, BasicType::Int64, target, 7, Op::NoOp)?;
    }
    win.unlock_all()?;
    job.barrier()?;
    Ok(win)
}

/// Begins a put of the whole part of `target`. The buffer lives for ever.
fn put(win: &RawWindow, target: usize, value: u64) -> transom::Result<()> {
    let values: &'static [u64] = vec![value; LEN].leak();
    // SAFETY: the buffer lives for ever.
    unsafe { win.put(values.as_ptr().cast(), 8 * LEN, target, 0) }
}

/// Reads the parts of `targets` under `lock_all` until `over`. No part is changed by half.
fn read_until(win: &RawWindow, targets: &[usize], over: &AtomicBool) -> Outcome {
    // Acquire: pairs with `raise`.
    while !over.load(Ordering::Acquire) {
        let mut seen = vec![[0u64; LEN]; targets.len()];
        win.lock_all(Assert::NONE)?;
        for (&target, part) in targets.iter().zip(&mut seen) {
            // SAFETY: the buffer outlives the epoch.
            unsafe { win.get(part.as_mut_ptr().cast(), 8 * LEN, target, 0)? };
        }
        win.unlock_all()?;
        for part in &seen {
            same("an element that differs", &part.iter().position(|&at| at != part[0]), &None)?;
        }
    }
    Ok(())
}

/// Rank 3 changes parts by `write` while rank 0, which has the master word, reads them under
/// `lock_all`.
fn write_beside_a_reader(
    net: &SimOptions,
    targets: &'static [usize],
    write: fn(&Rank, &RawWindow) -> transom::Result<()>,
) {
    let over = Arc::new(AtomicBool::new(false));
    run(4, net, move |world| {
        let win = window(world)?;
        match world.rank() {
            0 => read_until(&win, targets, &over)?,
            3 => {
                let written = write(world, &win);
                raise(&over);
                written?;
            }
            _ => {}
        }
        world.step("free");
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// Two threads hold exclusive locks that the master word announces. One of them ends its epoch
/// while the long put of the other one is in flight and its lock is released already. Regression:
/// the announcement ended, and `lock_all` was granted, before the put was complete.
/// Shows S2.
#[test]
fn an_announcement_outlasts_the_puts_of_another_thread() {
    for seed in 0..3 {
        write_beside_a_reader(&ordered(seed), &[1], |world, win| {
            let is_done = AtomicBool::new(false);
            std::thread::scope(|threads| {
                let other = threads.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        win.lock(Lock::Exclusive, 2, Assert::NONE)?;
                        win.unlock(2)?;
                    }
                    Ok::<(), transom::Error>(())
                });
                let written = (1..=400).try_for_each(|turn| {
                    world.step(format!("turn {turn}"));
                    win.lock(Lock::Exclusive, 1, Assert::NONE)?;
                    put(win, 1, turn)?;
                    win.unlock(1)
                });
                is_done.store(true, Ordering::Relaxed);
                written.and(other.join().expect("no thread panics"))
            })
        });
    }
}

/// One thread holds announced locks of two targets, whose puts are in flight when the first of the
/// locks ends. The put of a request is complete with its epoch, before the call that waits for the
/// request.
/// Shows S2, O2.
#[test]
fn an_announcement_outlasts_the_puts_to_all_targets() {
    for seed in 0..4 {
        write_beside_a_reader(&ordered(seed), &[1, 2], |world, win| {
            (1..=40).try_for_each(|turn| {
                world.step(format!("turn {turn}"));
                [1, 2].into_iter().try_for_each(|target| win.lock(Lock::Exclusive, target, Assert::NONE))?;
                put(win, 2, turn)?;
                let values: &'static [u64] = vec![turn; LEN].leak();
                // SAFETY: the buffer lives for ever.
                let mut request = unsafe { win.rput(values.as_ptr().cast(), 8 * LEN, 1, 0) }?;
                let order = if turn % 2 == 0 { [1, 2] } else { [2, 1] };
                order.into_iter().try_for_each(|target| win.unlock(target))?;
                request.wait()
            })
        });
    }
}

/// The rank whose loss is the error.
fn lost(outcome: &transom::Result<()>) -> Option<usize> {
    match outcome.as_ref().map_err(transom::Error::kind) {
        Err(ErrorKind::Peer { rank, .. }) => Some(*rank),
        _ => None,
    }
}

/// Rank 0 puts under a lock, loses rank 2, which is outside of the window, and unlocks. Rank 3 then
/// gets the lock, and finds the put.
fn unlock_beside_a_loss(world: &Rank, turn: &[AtomicBool; 2], found: &AtomicU64) -> Outcome {
    if world.rank() == 2 {
        return Ok(());
    }
    let team = world.subset(&[0, 1, 3])?;
    let win = window(&team)?;
    match world.rank() {
        0 => {
            win.lock(Lock::Exclusive, 1, Assert::NONE)?;
            put(&win, 1, 5)?;
            world.net().report_lost(peer(0), peer(2));
            let unlocked = win.unlock(1);
            raise(&turn[0]);
            // The next holder gets the lock while the loss is known.
            await_flag(&turn[1]);
            world.net().report_none_lost(peer(0));
            if unlocked.is_err() {
                same("the loss", &lost(&unlocked), &Some(2))?;
                found.fetch_add(1, Ordering::Relaxed);
            }
            world.step("a later epoch");
            win.lock(Lock::Exclusive, 1, Assert::NONE)?;
            win.unlock(1)?;
        }
        3 => {
            await_flag(&turn[0]);
            world.step("the next lock");
            let mut seen = [0u64; LEN];
            win.lock(Lock::Exclusive, 1, Assert::NONE)?;
            // SAFETY: the buffer outlives the epoch.
            unsafe { win.get(seen.as_mut_ptr().cast(), 8 * LEN, 1, 0)? };
            win.unlock(1)?;
            raise(&turn[1]);
            same("the put", &seen.iter().position(|&at| at != 5), &None)?;
        }
        _ => {}
    }
    team.barrier()?;
    Ok(win.free()?)
}

/// Regression: a release by the device that found no room was dropped after the loss of another
/// rank, and the next holder waited for ever.
/// Shows S2, E1.
#[test]
fn a_release_outlasts_the_loss_of_another_rank() {
    let found = Arc::new(AtomicU64::new(0));
    for net in (0..20).flat_map(|seed| [by_device(seed), ordered(seed)]) {
        let (turn, found) = ([const { AtomicBool::new(false) }; 2], Arc::clone(&found));
        run(4, &net, move |world| unlock_beside_a_loss(world, &turn, &found));
    }
    assert!(found.load(Ordering::Relaxed) > 0, "no unlock found the loss");
}

/// Rank 0 loses rank 2, or rank 1 if `own`, between the release of rank 1's lock and the answer to
/// it. An operation on rank 2 is in flight too.
fn report_once(world: &Rank, own: bool, found: &AtomicU64) -> Outcome {
    let win = window(world)?;
    if world.rank() == 0 {
        let [value, old]: &'static mut [u64; 2] = Box::leak(Box::new([7, 0]));
        win.lock(Lock::Exclusive, 1, Assert::NONE)?;
        win.lock(Lock::Shared, 2, Assert::NOCHECK)?;
        put(&win, 1, 5)?;
        let gone = if own { 1 } else { 2 };
        world.net().report_lost(peer(0), peer(gone));
        if !own {
            // SAFETY: the buffers live for ever.
            unsafe {
                let (from, into) = ((&raw const *value).cast(), (&raw mut *old).cast());
                win.get_accumulate(from, into, 1, BasicType::Int64, 2, 0, Op::Sum)?;
            }
        }
        let outcomes = [win.unlock(1), win.flush_all()];
        for outcome in outcomes {
            same("the loss, if any", &(outcome.is_ok() || lost(&outcome) == Some(gone)), &true)?;
            found.fetch_add(outcome.is_err().into(), Ordering::Relaxed);
        }
        world.net().report_none_lost(peer(0));
        for turn in 0..20 {
            world.step(format!("flush {turn}"));
            win.flush_all()?;
            // The progress thread serves.
            std::thread::sleep(Duration::from_millis(1));
        }
        win.unlock(2)?;
    }
    world.step("free");
    world.barrier()?;
    Ok(win.free()?)
}

/// Regression: a flush of all targets did not wait for the answer to a release, so it left the
/// failure of an operation on the lost rank to the next flush.
/// Shows S2, E1.
#[test]
fn a_loss_behind_a_release_is_reported_once() {
    for own in [false, true] {
        let found = Arc::new(AtomicU64::new(0));
        for seed in 0..20 {
            let found = Arc::clone(&found);
            run(3, &SimOptions { delay: 400, ..ordered(seed) }, move |world| report_once(world, own, &found));
        }
        assert!(found.load(Ordering::Relaxed) > 0, "no call found the loss, {own}");
    }
}

//! The end of an epoch completes the epoch's operations before any rank can observe that end, on
//! nets with long latency. The puts have several pieces that only the end of the epoch completes,
//! and the reader reads as early as MPI allows.
//!
//! Route: sim.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier};

use simulated::{Outcome, Rank, await_flag, calm, nets, peer, raise, run, run_on, same};
use transom::{Assert, Info, Lock, RawWindow, Window};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimDelivery, SimOptions};

mod simulated;

const WORDS: usize = 64;
const ROUNDS: u8 = 20;

/// Two ranks: the first one puts, the second one reads its own part. Every second net is slow.
fn on_slow_nets(body: fn(&Rank, &RawWindow) -> Outcome) {
    for options in nets() {
        let delay = if options.seed.is_multiple_of(2) { 200 } else { options.delay };
        run(2, &SimOptions { delay, ..options }, move |world| {
            let win = RawWindow::allocate(world, WORDS * 8, 1, &Info::new())?;
            body(world, &win)?;
            Ok(win.free()?)
        });
    }
}

/// Starts a put of a whole part, with the round's number.
fn put(win: &RawWindow, round: u8) -> transom::Result<()> {
    let bytes: &'static [u8] = Box::leak(Box::new([round; WORDS * 8]));
    // SAFETY: the bytes are leaked and not written.
    unsafe { win.put(bytes.as_ptr(), bytes.len(), 1, 0) }
}

/// Reads this rank's part, whose words must all be of one round.
fn read_own(win: &RawWindow) -> Outcome<u8> {
    win.sync();
    let mut found = [0; WORDS * 8];
    win.load(0, &mut found);
    same("a part of one put", &found, &[found[0]; WORDS * 8])?;
    Ok(found[0])
}

/// The second rank reads under an exclusive lock, at any time, until it has read the last round.
fn read_until_last(world: &Rank, win: &RawWindow, epoch: fn(&RawWindow, u8) -> transom::Result<()>) -> Outcome {
    if world.rank() == 0 {
        return Ok((1..=ROUNDS).try_for_each(|round| epoch(win, round))?);
    }
    let mut seen = 0;
    while seen < ROUNDS {
        world.step(format!("round {seen} was seen"));
        win.lock(Lock::Exclusive, 1, Assert::NONE)?;
        let (first, second) = (read_own(win)?, read_own(win)?);
        win.unlock(1)?;
        same("memory that no rank changes under the lock", &second, &first)?;
        same("rounds go up", &(first >= seen), &true)?;
        seen = first;
    }
    Ok(())
}

/// MPI-4.1 §12.5.3.
/// Shows S2.
#[test]
fn unlock_completes_before_others_lock() {
    on_slow_nets(|world, win| {
        read_until_last(world, win, |win, round| {
            win.lock(Lock::Exclusive, 1, Assert::NONE)?;
            put(win, round)?;
            win.unlock(1)
        })
    });
}

/// MPI-4.1 §12.5.3.
/// Shows S2.
#[test]
fn unlock_all_completes_before_others_lock() {
    on_slow_nets(|world, win| {
        read_until_last(world, win, |win, round| {
            win.lock_all(Assert::NONE)?;
            put(win, round)?;
            win.unlock_all()
        })
    });
}

/// MPI-4.1 §12.5.1.
/// Shows S1.
#[test]
fn a_fence_completes_before_it_ends_anywhere() {
    on_slow_nets(|world, win| {
        for round in 1..=ROUNDS {
            win.fence(Assert::NONE)?;
            if world.rank() == 0 {
                put(win, round)?;
            }
            win.fence(Assert::NOSUCCEED)?;
            same("the round", &(world.rank() == 0 || read_own(win)? == round), &true)?;
        }
        Ok(())
    });
}

/// MPI-4.1 §12.5.2.
/// Shows S1.
#[test]
fn complete_completes_before_wait_ends() {
    on_slow_nets(|world, win| {
        for round in 1..=ROUNDS {
            if world.rank() == 0 {
                win.start(&[1], Assert::NONE)?;
                put(win, round)?;
                win.complete()?;
            } else {
                win.post(&[0], Assert::NONE)?;
                win.wait()?;
                same("the round", &read_own(win)?, &round)?;
            }
        }
        Ok(())
    });
}

/// Rank 1 releases locks of rank 2 and makes no call of the library until rank 0 has had the lock.
/// Rank 1's port holds back the newest operation until the next call, as over verbs.
fn release_locks_without_a_further_call(world: &Rank, turn: &Barrier) -> Outcome {
    let win = RawWindow::allocate(world, WORDS * 8, 1, &Info::new())?;
    let byte: &'static [u8] = &[7];
    for way in 0..6 {
        let kind = if way % 2 == 0 { Lock::Shared } else { Lock::Exclusive };
        world.step(format!("way {way}"));
        world.barrier()?;
        if world.rank() == 1 {
            match way {
                4 | 5 => win.lock_all(Assert::NONE)?,
                _ => win.lock(kind, 2, Assert::NONE)?,
            }
            if way != 2 {
                // SAFETY: the byte is constant.
                unsafe { win.put(byte.as_ptr(), byte.len(), 2, 3) }?;
            }
            match way {
                4 | 5 => win.unlock_all()?,
                _ => win.unlock(2)?,
            }
            same("an operation is held back after the release", &world.holds_back(), &false)?;
        }
        turn.wait();
        if world.rank() == 0 {
            win.lock(Lock::Exclusive, 2, Assert::NONE)?;
            win.unlock(2)?;
        }
        turn.wait();
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// Other origins wait for a release, so it is on its way when the call returns (MPI-4.1 §12.5.3).
/// Shows S2, S4.
#[test]
fn no_port_holds_back_the_release_of_a_lock() {
    for amo in [SimAmo::Only64(Coherence::DeviceOnly), SimAmo::All(Coherence::DeviceOnly)] {
        let delivery = SimDelivery { holds: true, ..SimDelivery::default() };
        let turn = Arc::new(Barrier::new(3));
        run(3, &SimOptions { amo, delivery, ..SimOptions::default() }, move |world| {
            release_locks_without_a_further_call(world, &turn)
        });
    }
}

/// Rank 1 exposes its part and ends an access epoch without a further call of the library: rank 2
/// starts, and its wait ends.
fn post_and_complete_without_a_further_call(world: &Rank, turn: &Barrier) -> Outcome {
    let win = RawWindow::allocate(world, WORDS * 8, 1, &Info::new())?;
    world.barrier()?;
    for round in 0..3 {
        world.step(format!("round {round}"));
        if world.rank() == 1 {
            win.post(&[2], Assert::NONE)?;
            same("an operation is held back after post", &world.holds_back(), &false)?;
        }
        turn.wait();
        if world.rank() == 2 {
            win.start(&[1], Assert::NONE)?;
            win.complete()?;
            win.post(&[1], Assert::NONE)?;
        }
        turn.wait();
        if world.rank() == 1 {
            win.wait()?;
            win.start(&[2], Assert::NONE)?;
            let byte: &'static [u8] = &[7];
            // SAFETY: the byte is constant.
            unsafe { win.put(byte.as_ptr(), byte.len(), 2, 3) }?;
            win.complete()?;
            same("an operation is held back after complete", &world.holds_back(), &false)?;
        }
        turn.wait();
        if world.rank() == 2 {
            win.wait()?;
        }
        turn.wait();
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// Targets wait for the end of the epoch and origins for its exposure (MPI-4.1 §12.5.2).
/// Shows S1.
#[test]
fn no_port_holds_back_post_or_complete() {
    for amo in [SimAmo::Only64(Coherence::DeviceOnly), SimAmo::All(Coherence::WithCpu), SimAmo::None] {
        let delivery = SimDelivery { holds: true, ..SimDelivery::default() };
        let turn = Arc::new(Barrier::new(3));
        run(3, &SimOptions { amo, delivery, ..SimOptions::default() }, move |world| {
            post_and_complete_without_a_further_call(world, &turn)
        });
    }
}

/// Rank 0 completes an epoch to ranks 1, 2 and 3. Each target posts only after the end of another
/// target's exposure epoch: rank 3 first, then rank 2, then rank 1.
fn post_in_turn(world: &Rank, ended: &[AtomicBool; 5]) -> Outcome {
    let win = RawWindow::allocate(world, WORDS * 8, 1, &Info::new())?;
    world.barrier()?;
    match world.rank() {
        0 => {
            win.start(&[1, 2, 3], Assert::NONE)?;
            world.step("complete");
            win.complete()?;
        }
        me => {
            world.step("before the post");
            await_flag(&ended[me + 1]);
            win.post(&[0], Assert::NONE)?;
            world.step("wait");
            win.wait()?;
            raise(&ended[me]);
        }
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// A target that posts late delays the end of no other target's exposure epoch (MPI-4.1 §12.5.2).
/// Shows S1.
#[test]
fn complete_notifies_the_targets_that_have_posted() {
    for nodes in [None, Some(1)] {
        let ended: [AtomicBool; 5] = Default::default();
        raise(&ended[4]);
        run_on(nodes, 4, &SimOptions::default(), move |world| post_in_turn(world, &ended));
    }
}

/// Rank 0 exposes its part to ranks 1 and 2. A broken connection to rank 1 is mended after the
/// post.
fn expose_to_both(world: &Rank, win: &Window<u64>) -> transom::Result<()> {
    let posted = win.post(&[1, 2]);
    world.net().mend_connection_to(peer(1));
    win.wait()?;
    posted
}

/// Puts a value into this rank's word of rank 0, in an epoch of its own.
fn put_own_word(world: &Rank, win: &Window<u64>, value: u64) -> transom::Result<()> {
    win.start(&[0], |epoch| epoch.put_value(0, world.rank(), value))
}

/// Rank 0 can't send its post to rank 1. Its exposure epoch is open to rank 2, and the window is
/// usable afterwards.
/// Shows S1.
#[test]
fn a_post_that_fails_at_one_origin_reaches_the_others() {
    let quiet = Barrier::new(3);
    run(3, &SimOptions::default(), move |world| {
        let win = Window::<u64>::allocate(world, 3)?;
        let epoch_of_all = |value| match world.rank() {
            0 => expose_to_both(world, &win),
            _ => put_own_word(world, &win, value),
        };
        epoch_of_all(1)?;
        world.barrier()?;
        world.step("an epoch without rank 1");
        // While rank 1 is cut off, nobody else sends it a message.
        quiet.wait();
        match world.rank() {
            0 => {
                world.net().break_connection_to(peer(1));
                same("the post fails", &expose_to_both(world, &win).is_err(), &true)?;
            }
            2 => put_own_word(world, &win, 2)?,
            _ => {}
        }
        quiet.wait();
        world.step("an epoch of all");
        epoch_of_all(3)?;
        world.barrier()?;
        let mut found = [0; 3];
        win.load(0, &mut found)?;
        same("the puts", &found, &if world.rank() == 0 { [0, 3, 3] } else { [0; 3] })?;
        Ok(win.free()?)
    });
}

/// The first byte of this rank's part.
fn first_byte(win: &RawWindow) -> u8 {
    let mut found = [0];
    win.load(0, &mut found);
    found[0]
}

/// Starts a put of one byte.
fn put_byte(win: &RawWindow, target: usize) -> transom::Result<()> {
    let byte: &'static [u8] = &[7];
    // SAFETY: the byte is constant.
    unsafe { win.put(byte.as_ptr(), byte.len(), target, 0) }
}

/// Exposes this rank's part to rank 0, until rank 0 has completed its epoch.
fn expose(win: &RawWindow) -> transom::Result<()> {
    win.post(&[0], Assert::NONE)?;
    win.wait()
}

/// Rank 0 starts an epoch, and `complete` fails because no target has posted.
fn fail_to_complete(world: &Rank, win: &RawWindow, targets: &[usize]) -> Outcome {
    win.start(targets, Assert::NONE)?;
    world.fail_next_progress();
    let completed = win.complete();
    world.accept(0);
    same("complete fails", &completed.is_err(), &true)
}

/// Rank 0 starts an epoch, and no put can be posted before the target's post.
fn fail_to_put(world: &Rank, win: &RawWindow, targets: &[usize]) -> Outcome {
    win.start(targets, Assert::NONE)?;
    for &target in targets {
        // The put fails if it waits.
        world.fail_next_progress();
        let early = put_byte(win, target);
        world.accept(0);
        same(&format!("a put to rank {target} waits for its post"), &early.is_err(), &true)?;
    }
    Ok(())
}

/// Rank 0's `complete` fails before the targets have posted. They post afterwards, and these posts
/// begin no later access epoch: the first put of the next epoch waits for the next post.
fn posted_after_a_failed_complete(world: &Rank, targets: &[usize]) -> Outcome {
    let (me, win) = (world.rank(), RawWindow::allocate(world, 8, 1, &Info::new())?);
    let is_target = targets.contains(&me);
    world.barrier()?;
    if me == 0 {
        fail_to_complete(world, &win, targets)?;
    }
    world.barrier()?;
    world.step("the late posts");
    if is_target {
        expose(&win)?;
    }
    world.barrier()?;
    world.step("the next epoch");
    if me == 0 {
        fail_to_put(world, &win, targets)?;
    }
    world.barrier()?;
    if me == 0 {
        targets.iter().try_for_each(|&target| put_byte(&win, target))?;
        win.complete()?;
    } else if is_target {
        expose(&win)?;
        same("the byte", &first_byte(&win), &7)?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// Posts by control words, by messages, and by both: rank 2 is on rank 0's node (MPI-4.1 §12.5.2).
/// Shows S1, E1.
#[test]
fn a_post_after_a_failed_complete_begins_no_later_epoch() {
    for targets in [&[1][..], &[2], &[1, 2, 3]] {
        run_on(Some(2), 4, &calm(), move |world| posted_after_a_failed_complete(world, targets));
    }
}

/// Two exposure epochs of rank 0: of the first one the post is refused at first.
fn expose_after_a_refusal(world: &Rank, win: &RawWindow) -> Outcome {
    world.refuse(1);
    let posted = win.post(&[1], Assert::NONE);
    world.accept(1);
    same("post fails", &posted.is_err(), &true)?;
    win.wait()?;
    same("the byte", &first_byte(win), &7)?;
    win.store(0, &[0]);
    win.post(&[1], Assert::NONE)?;
    Ok(win.wait()?)
}

/// Two access epochs to rank 0: of the second one the `complete` is refused at first.
fn access_until_a_refusal(world: &Rank, win: &RawWindow) -> Outcome {
    win.start(&[0], Assert::NONE)?;
    put_byte(win, 0)?;
    win.complete()?;
    win.start(&[0], Assert::NONE)?;
    put_byte(win, 0)?;
    world.refuse(0);
    let completed = win.complete();
    world.accept(0);
    same("complete fails", &completed.is_err(), &true)
}

/// The progress of the notifying rank fails while its notice waits for room. The call returns the
/// failure, the notice is sent later, and both sides count it.
/// Shows S1, E1.
#[test]
fn a_notice_that_is_sent_after_a_failure_counts() {
    run(2, &calm(), |world| {
        let win = RawWindow::allocate(world, 8, 1, &Info::new())?;
        for round in 0..3 {
            world.barrier()?;
            world.step(format!("round {round}"));
            match world.rank() {
                0 => expose_after_a_refusal(world, &win)?,
                _ => access_until_a_refusal(world, &win)?,
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

/// In windows of MPI programs, a fence with NOPRECEDE after operations completes them. All ranks
/// meet in it, unless it has NOSUCCEED too.
#[test]
fn a_fence_completes_operations_although_it_denies_them() {
    for last in [Assert::NOPRECEDE, Assert::NOPRECEDE | Assert::NOSUCCEED] {
        run(2, &SimOptions { delay: 200, ..nets().next().expect("a net") }, move |world| {
            for (forgives, info) in [(false, Info::new()), (true, Info::new().forgiving())] {
                let win = RawWindow::allocate(world, WORDS * 8, 1, &info)?;
                win.fence(Assert::NONE)?;
                if world.rank() == 0 {
                    put(&win, 7)?;
                    same("accepted", &win.fence(last).is_ok(), &forgives)?;
                    // The refused call has changed nothing.
                    if !forgives {
                        win.fence(Assert::NONE)?;
                    }
                } else {
                    win.fence(if forgives { last } else { Assert::NONE })?;
                }
                world.barrier()?;
                if world.rank() == 1 {
                    same("what was put", &read_own(&win)?, &7)?;
                }
                world.barrier()?;
                win.free()?;
            }
            Ok(())
        });
    }
}

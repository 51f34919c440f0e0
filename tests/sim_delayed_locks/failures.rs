//! Operations that waited for a delayed lock and can't be sent after it: a call reports their
//! failure, unless only another rank is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transom::{Lock, LockEpoch, Window};
use transom_fabric::sim::SimOptions;

use super::delay_locks;
use super::simulated::{Rank, await_flag, like_sockets, peer, raise, run, same};

/// The number of messages until rank 0 has the lock: the request of the delayed lock, and the
/// change of the lock's word.
const LOCKED: u32 = 2;
/// The number of messages of the epoch: behind those for the lock, the put and the release.
const MESSAGES: u32 = LOCKED + 2;

fn net() -> SimOptions {
    like_sockets(false, true)
}

/// Rank 0 delays a lock of rank 2, which has lost the bias. The operations that wait for the lock
/// are therefore sent after the lock was taken by its words. Returns the result of `body` at rank
/// 0, and whether rank 2 has its put.
fn without_the_bias(
    world: &Rank,
    body: impl FnOnce(&Window<u64>) -> transom::Result<()>,
    [is_over, has_put]: &[AtomicBool; 2],
) -> transom::Result<Option<transom::Result<()>>> {
    if world.rank() == 3 {
        return Ok(None);
    }
    let team = world.subset(&[0, 1, 2])?;
    let win = Window::<u64>::allocate(&team, 4)?;
    team.barrier()?;
    if world.rank() == 0 {
        delay_locks(&win, Lock::Exclusive, 2)?;
    }
    team.barrier()?;
    if world.rank() == 1 {
        win.lock_all(|_| Ok(()))?;
    }
    team.barrier()?;
    let done = if world.rank() == 0 { body(&win) } else { Ok(()) };
    if world.rank() == 0 {
        raise(is_over);
    }
    // Until then the other ranks send nothing.
    await_flag(is_over);
    team.barrier()?;
    let mut found = [0];
    win.load(1, &mut found)?;
    if found[0] == 6 {
        raise(has_put);
    }
    team.barrier()?;
    // The release of the lock may have failed.
    std::mem::forget(win);
    Ok(Some(done))
}

/// A second thread takes the delayed lock of the first thread at the end of its own epoch, because
/// its get waits for the lock. The put of the first thread can't be sent then. The unlock reports
/// the failure. Regression: the put was dropped, and the unlock succeeded.
/// Shows E1.
#[test]
fn an_unlock_reports_an_operation_that_another_thread_could_not_send() {
    for messages in 0..MESSAGES {
        let flags = [const { AtomicBool::new(false) }; 2];
        run(4, &net(), move |world| {
            world.step(format!("rank 2 can't be reached after {messages} messages"));
            let body = |win: &Window<u64>| {
                win.lock(Lock::Exclusive, 2, |epoch| {
                    epoch.put_value(2, 1, 6)?;
                    world.net().break_connection_after(peer(2), messages);
                    let gets = || {
                        let mut seen = [0];
                        win.lock(Lock::Shared, 1, |inner| inner.get(2, 0, &mut seen))
                    };
                    // The unlock completes the get.
                    drop(std::thread::scope(|threads| threads.spawn(gets).join().expect("no thread panics")));
                    world.net().mend_connection_to(peer(2));
                    Ok(())
                })
            };
            let Some(done) = without_the_bias(world, body, &flags)? else { return Ok(()) };
            // Acquire: pairs with `raise`.
            let is_performed = flags[1].load(Ordering::Acquire);
            same("performed or reported", &(world.rank() != 0 || is_performed || done.is_err()), &true)
        });
    }
}

/// Rank 2 takes no message when the put is sent that has waited for the lock, and rank 3 is lost.
/// The put reaches rank 2 later. Regression: it was dropped.
/// Shows E1.
#[test]
fn operations_behind_a_delayed_lock_outlast_the_loss_of_another_rank() {
    for messages in 0..MESSAGES {
        let flags = [const { AtomicBool::new(false) }; 2];
        run(4, &net(), move |world| {
            world.step(format!("rank 2 takes {messages} messages"));
            let body = |win: &Window<u64>| {
                let before = world.counters().messages;
                let resume = || {
                    while world.counters().messages < before + u64::from(messages) {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(50));
                    world.net().resume_messages_to(peer(2));
                    world.net().report_none_lost(peer(0));
                };
                std::thread::scope(|threads| {
                    world.net().stop_messages_after(peer(2), messages, peer(3));
                    threads.spawn(resume);
                    win.lock(Lock::Exclusive, 2, |epoch| epoch.put_value(2, 1, 6))
                })
            };
            let Some(done) = without_the_bias(world, body, &flags)? else { return Ok(()) };
            // Acquire: pairs with `raise`.
            let found = (flags[1].load(Ordering::Acquire), done.is_ok());
            match world.rank() {
                0 => same("has the put, without an error", &found, &(messages >= LOCKED, messages == LOCKED)),
                _ => Ok(()),
            }
        });
    }
}

/// A flush can't send the put that has waited for the lock. The flush reports this, and the unlock
/// has nothing to report.
/// Shows E1.
#[test]
fn a_flush_that_can_not_send_a_delayed_operation_reports_it_alone() {
    type Flush = fn(&LockEpoch<'_, '_, u64>) -> transom::Result<()>;
    const FLUSHES: [Flush; 3] = [|epoch| epoch.flush(2), |epoch| epoch.flush_all(), |epoch| epoch.scope(|_| Ok(()))];
    for (number, flush) in FLUSHES.into_iter().enumerate() {
        let flags = [const { AtomicBool::new(false) }; 2];
        run(4, &net(), move |world| {
            let mut flushed = Ok(());
            let body = |win: &Window<u64>| {
                win.lock(Lock::Exclusive, 2, |epoch| {
                    epoch.put_value(2, 1, 6)?;
                    world.net().break_connection_after(peer(2), LOCKED);
                    flushed = flush(epoch);
                    world.net().mend_connection_to(peer(2));
                    Ok(())
                })
            };
            let Some(done) = without_the_bias(world, body, &flags)? else { return Ok(()) };
            let failed = [flushed.is_err(), done.is_err()];
            same(&format!("the calls that fail, flush {number}"), &failed, &[world.rank() == 0, false])
        });
    }
}

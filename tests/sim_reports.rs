//! A failure is reported once: by the call that fails, or by the first request, flush or end of an
//! epoch that covers the operation.
//!
//! Route: sim.

use simulated::{Outcome, Rank, combining, like_sockets, peer, run, same};
use transom::{LockAllEpoch, Window, ops};
use transom_fabric::sim::SimOptions;

mod simulated;

/// Rank 0 begins operations on rank 1, which is lost when `body` makes it so.
fn access(gathers: bool, body: impl Fn(&Rank, &LockAllEpoch<'_, '_, u64>) -> Outcome + Send + Sync + 'static) {
    access_over(&like_sockets(gathers, true), body);
}

fn access_over(net: &SimOptions, body: impl Fn(&Rank, &LockAllEpoch<'_, '_, u64>) -> Outcome + Send + Sync + 'static) {
    run(2, &SimOptions { delay: 40, ..net.clone() }, move |world| {
        let win = Window::<u64>::allocate(world, 64)?;
        world.barrier()?;
        if world.rank() == 0 {
            let mut outcome = Ok(());
            win.lock_all_with(transom::Assert::NOCHECK, |epoch| {
                outcome = body(world, epoch);
                Ok(())
            })?;
            outcome?;
        }
        // `free` would wait for the rank that is lost. Its drop would wait for its own operations.
        std::mem::forget(win);
        Ok(())
    });
}

/// Rank 1 is cut off the net, and rank 0 knows it.
fn lose(world: &Rank) {
    world.kill(1);
    world.net().report_lost(peer(0), peer(1));
}

/// Puts with requests share a message, which fails. Each wait reports the failure of its put, and a
/// later flush has nothing to report unless a put had no request. Regression: the flush failed.
/// Shows O2, E1.
#[test]
fn a_wait_reports_the_failure_of_its_request_alone() {
    for bare in [false, true] {
        access(true, move |world, epoch| {
            // After a burst the first operation of the next one is kept, too.
            (0..4).try_for_each(|at| epoch.put_value(1, 2 * at, 1))?;
            epoch.flush(1)?;
            let mut puts = Vec::new();
            for at in 0..3 {
                puts.push(epoch.rput_owned(1, 2 * at, vec![2])?);
            }
            if bare {
                epoch.put_value(1, 6, 2)?;
            }
            lose(world);
            world.step(format!("waits, with another put: {bare}"));
            let waits: Vec<_> = puts.into_iter().map(|put| put.wait().is_err()).collect();
            same("failed waits", &waits, &vec![true; 3])?;
            same("failed flushes", &[epoch.flush(1).is_err(), epoch.flush_all().is_err()], &[bare, false])
        });
    }
}

/// Kept accumulates fail when their target is lost. The flush reports it, and a later flush has
/// nothing to report.
/// Shows O2, E1.
#[test]
fn a_flush_reports_the_failure_of_kept_accumulates_once() {
    for net in [like_sockets(true, true), combining(true), combining(false)] {
        access_over(&net, |world, epoch| {
            epoch.put_value(1, 0, 1)?;
            (0..4).try_for_each(|_| epoch.accumulate(1, 1, &[1], ops::Sum))?;
            lose(world);
            same("failed flushes", &[epoch.flush(1).is_err(), epoch.flush_all().is_err()], &[true, false])
        });
    }
}

/// A call that can't send its operation reports this, and a later flush has nothing to report.
/// Regression: the flush failed too.
/// Shows E1.
#[test]
fn a_call_that_can_not_send_reports_it_alone() {
    access(false, |world, epoch| {
        epoch.accumulate(1, 0, &[1], ops::Sum)?;
        epoch.flush(1)?;
        lose(world);
        let calls: [(&str, &dyn Fn() -> transom::Result<()>); 3] = [
            ("accumulate", &|| epoch.accumulate(1, 0, &[1], ops::Sum)),
            ("fetch_and_op", &|| epoch.fetch_and_op(1, 0, 1, ops::Sum).map(drop)),
            ("raccumulate", &|| epoch.raccumulate(1, 0, &[1], ops::Sum).map(drop)),
        ];
        for (name, call) in calls {
            world.step(name);
            let failed = [call().is_err(), epoch.flush(1).is_err(), epoch.flush_all().is_err()];
            same(name, &failed, &[true, false, false])?;
        }
        Ok(())
    });
}

/// Kept accumulates can't be sent before an accumulate that is sent by itself. The call of the
/// latter reports its own failure, and the flush that of the kept ones.
/// Shows E1.
#[test]
fn a_flush_reports_the_failure_of_kept_accumulates() {
    access(true, |world, epoch| {
        (0..4).try_for_each(|_| epoch.accumulate(1, 0, &[1], ops::Sum))?;
        epoch.flush(1)?;
        (0..4).try_for_each(|_| epoch.accumulate(1, 0, &[1], ops::Sum))?;
        lose(world);
        let failed = [
            epoch.fetch_and_op(1, 0, 1, ops::Sum).is_err(),
            epoch.flush(1).is_err(),
            epoch.flush(1).is_err(),
            epoch.flush_all().is_err(),
        ];
        same("the calls that failed", &failed, &[true, true, false, false])
    });
}

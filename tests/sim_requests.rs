//! Requests on simulated nets, which delay and reorder operations: a complete request means
//! complete data. No real transport is used.
//!
//! Route: sim.

use simulated::{on_every_net, same};
use support::byte_window::{ByteWindow, class};
use transom::{Class, Flavor, Info, Request, Window, ops};

mod simulated;
mod support;

/// MPI-4.1 §12.3.5: the data of a get has arrived when its request is complete, independent of
/// other operations in flight.
/// Shows O2.
#[test]
fn a_complete_request_has_its_data() {
    on_every_net(3, |world| {
        let (me, size) = (world.rank(), world.size());
        let next = (me + 1) % size;
        let win = Window::<u64>::allocate(world, 400)?;
        let data: Vec<u64> = (0..200).map(|i| (me * 1000 + i) as u64).collect();
        let ones = [1u64; 50];
        world.step("requests");
        let found = win.lock_all(|epoch| {
            epoch.rput(next, 0, &data)?.wait()?;
            epoch.flush(next)?;
            // Other operations in flight, whose requests are dropped without a wait.
            let _first = epoch.rput(next, 200, &data)?;
            let got = epoch.rget_owned(next, 0, vec![0; 50])?;
            let fetched = epoch.rget_accumulate_owned(next, 50, &ones, vec![0; 50], ops::Sum)?;
            let _last = epoch.raccumulate(next, 100, &ones, ops::Sum)?;
            let fetched = fetched.wait()?;
            let after = epoch.rget_accumulate_owned(next, 50, &ones, vec![0; 50], ops::NoOp)?.wait()?;
            Ok((got.wait()?, fetched, after))
        })?;
        let part: Vec<u64> = data[50..100].to_vec();
        same("fetched", &found.1, &part)?;
        same("fetched after", &found.2, &part.iter().map(|value| value + 1).collect())?;
        same("got", &found.0, &data[..50].to_vec())?;
        world.barrier()?;
        let before = (me + size - 1) % size;
        let mut mine = vec![0; 400];
        win.load(0, &mut mine)?;
        let put = |i: usize| (before * 1000 + i) as u64 + u64::from((50..150).contains(&i));
        same("the first half", &mine[..200].to_vec(), &(0..200).map(put).collect())?;
        same("the second half", &mine[200..].to_vec(), &(0..200).map(|i| (before * 1000 + i) as u64).collect())?;
        Ok(win.free()?)
    });
}

/// MPI-4.1 §12.3.5: once the request of a put is complete its buffer may be overwritten, and the
/// target gets the old bytes.
/// Shows O2, O6.
#[test]
fn buffers_may_be_overwritten_after_the_wait() {
    on_every_net(2, |world| {
        let other = 1 - world.rank();
        let win = Window::<u64>::allocate(world, 16 * 40)?;
        win.lock_all(|epoch| {
            for turn in 0..16 {
                let buffer = vec![turn as u64 + 1; if turn % 2 == 0 { 40 } else { 1 }];
                let mut buffer = epoch.rput_owned(other, turn * 40, buffer)?.wait()?;
                buffer.fill(u64::MAX);
                drop(epoch.rget_owned(other, 0, vec![0u64; 40])?);
                std::mem::forget(epoch.rget_owned(other, 0, vec![0u64; 4])?);
            }
            Ok(())
        })?;
        world.barrier()?;
        let mut found = vec![0; 16 * 40];
        win.load(0, &mut found)?;
        for (turn, part) in found.chunks(40).enumerate() {
            let mut expected = vec![if turn % 2 == 0 { turn as u64 + 1 } else { 0 }; 40];
            expected[0] = turn as u64 + 1;
            same(&format!("part {turn}"), &part.to_vec(), &expected)?;
        }
        Ok(win.free()?)
    });
}

/// MPI-4.1 §3.7.5: complete, inactive and active requests in one list; each active one is reported
/// once.
/// Shows O2.
#[test]
fn each_request_is_reported_once() {
    on_every_net(2, |world| {
        let other = 1 - world.rank();
        let win = Window::<u64>::allocate(world, 300)?;
        let data: Vec<u64> = (1..=300).collect();
        let completed = win.lock_all(|epoch| {
            let mut all = (0..100usize)
                .map(|i| {
                    let at = i * 3;
                    match i % 2 {
                        0 => epoch.rput(other, at, &data[at..at + 3]),
                        _ => epoch.raccumulate(other, at, &data[at..at + 3], ops::Sum),
                    }
                })
                .collect::<transom::Result<Vec<_>>>()?;
            for request in all.iter_mut().step_by(7) {
                request.wait()?;
            }
            let mut completed: Vec<usize> = (0..100).filter(|index| index % 7 == 0).collect();
            for _ in 0..20 {
                completed.extend(Request::wait_any(&mut all)?);
                completed.extend(Request::test_some(&mut all)?);
            }
            loop {
                let some = Request::wait_some(&mut all)?;
                if some.is_empty() {
                    break;
                }
                completed.extend(some);
            }
            assert_eq!(Request::wait_any(&mut all)?, None);
            Ok(completed)
        })?;
        let mut sorted = completed.clone();
        sorted.sort_unstable();
        same("completed requests", &sorted, &(0..100).collect())?;
        world.barrier()?;
        let mut found = vec![0; 300];
        win.load(0, &mut found)?;
        same("all arrived", &found, &data)?;
        Ok(win.free()?)
    });
}

/// Two targets refuse memory that is not attached there, and the flush of one target reports only
/// that target's failure. Regression: the other failure was lost if the next flush was one of all
/// targets.
/// Shows S3, E1.
#[test]
fn a_flush_of_one_target_keeps_the_failures_of_others() {
    static DATA: [u8; 16] = [7; 16];
    on_every_net(3, |world| {
        let win = ByteWindow::new(world, Flavor::Dynamic, 64, &Info::new())?.ok_or("no window")?;
        if world.rank() == 0 {
            for (first, second) in [(1, 2), (2, 1)] {
                world.step(format!("{first} refuses first"));
                for target in [first, second, first, second] {
                    win.start_put(&DATA, target, 64)?;
                }
                same("the flush of one", &class(win.raw().flush(second)), &Some(Class::RmaRange))?;
                same("the flush of all", &class(win.raw().flush_all()), &Some(Class::RmaRange))?;
                same("all failures are reported", &class(win.raw().flush(first)), &None)?;
                same("all failures are reported", &class(win.raw().flush_all()), &None)?;
            }
        }
        world.barrier()?;
        Ok(win.free()?)
    });
}

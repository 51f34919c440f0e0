//! Requests among real processes (MPI-4.1 §12.3.5): tests and waits for one and for several
//! requests, any number of requests outstanding, and buffers that the requests return.
//! tests/misuse.rs shows that requests are refused outside passive-target epochs.

use std::process::ExitCode;

use transom::{BufferRequest, Job, Lock, Request, Window, ops};
use transom_harness::{Outcome, Test, ensure, same, step};

static TESTS: &[Test] = &[
    Test::new("every_form_completes", &[1, 2, 3], every_form),
    Test::new("waits_and_tests_report_each_request_once", &[1, 2], many),
    Test::new("owned_requests_complete_in_any_order", &[1, 3], owned),
    Test::new("a_hundred_thousand_requests_at_once", &[1, 2], hundred_thousand),
    Test::new("requests_return_their_buffers", &[1, 2], buffers),
    Test::new("dropped_and_forgotten_requests_complete", &[1, 2], dropped),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// The data of a get is there when its request is complete, in an epoch of `lock_all` and of
/// `lock`.
/// Shows O2.
fn every_form(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = Window::<u64>::allocate(world, 3000)?;
    let data: Vec<u64> = (0..3000).map(|i| (me * 10_000 + i) as u64).collect();
    let ones = vec![1u64; 3000];
    win.lock(Lock::Exclusive, next, |epoch| {
        for len in [1, 2, 40, 3000] {
            step(format!("{len} elements"));
            epoch.rput(next, 0, &data[..len])?.wait()?;
            epoch.flush(next)?;
            assert_eq!(epoch.rget_owned(next, 0, vec![0; len])?.wait()?, data[..len]);
            epoch.raccumulate(next, 0, &ones[..len], ops::Sum)?.wait()?;
            let mut fetched = epoch.rget_accumulate_owned(next, 0, &ones[..len], vec![0; len], ops::Sum)?;
            while !fetched.test()? {
                std::thread::yield_now();
            }
            let more = |by: u64| data[..len].iter().map(move |value| value + by).collect::<Vec<_>>();
            assert_eq!(fetched.wait()?, more(1));
            epoch.flush(next)?;
            assert_eq!(epoch.rget_owned(next, 0, vec![0; len])?.wait()?, more(2));
            // The same with borrowed buffers.
            let (mut got, mut before) = (vec![0; len], vec![0; len]);
            epoch.scope(|part| part.rget(next, 0, &mut got)?.wait())?;
            epoch.scope(|part| part.rget_accumulate(next, 0, &ones[..len], &mut before, ops::Sum)?.wait())?;
            assert_eq!((got, before), (more(2), more(2)));
            assert_eq!(epoch.rget_owned(next, 0, vec![0; len])?.wait()?, more(3));
        }
        Ok(())
    })?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Completes all active requests by the functions of a round; returns the indices that they
/// reported.
fn completed_by(round: usize, all: &mut [Request]) -> transom::Result<Vec<usize>> {
    let mut indices = Vec::new();
    match round {
        0 => {
            while let Some(index) = Request::wait_any(all)? {
                indices.push(index);
            }
        }
        1 => loop {
            let some = Request::wait_some(all)?;
            if some.is_empty() {
                break;
            }
            indices.extend(some);
        },
        2 => {
            while all.iter().any(Request::is_active) {
                indices.extend(Request::test_some(all)?);
            }
        }
        3 => {
            for (index, request) in all.iter_mut().enumerate().filter(|(index, _)| index % 10 != 0) {
                while !request.test()? {
                    std::thread::yield_now();
                }
                indices.push(index);
            }
        }
        _ => {
            indices.extend((0..all.len()).filter(|&index| all[index].is_active()));
            Request::wait_all(all)?;
        }
    }
    Ok(indices)
}

/// Complete, inactive and active requests in one list: every active one is reported once, by any
/// function.
/// Shows O2.
fn many(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 4000)?;
    let data: Vec<u64> = (0..4000).collect();
    win.lock_all(|epoch| {
        for round in 0..5 {
            step(format!("round {round}"));
            let part = |i: usize| &data[i * 40..(i + 1) * 40];
            let mut all = (0..100)
                .map(|i| match i % 2 {
                    0 => epoch.rput(next, i * 40, part(i)),
                    _ => epoch.raccumulate(next, i * 40, part(i), ops::Replace),
                })
                .collect::<transom::Result<Vec<Request>>>()?;
            for request in all.iter_mut().step_by(10) {
                request.wait()?;
                assert!(!request.is_active() && request.test()?, "inactive, and complete for ever");
            }
            let mut indices = completed_by(round, &mut all)?;
            indices.sort_unstable();
            assert_eq!(indices, (0..100).filter(|index| index % 10 != 0).collect::<Vec<_>>(), "each once");
            assert!(!all.iter().any(Request::is_active));
            assert_eq!(Request::wait_any(&mut all)?, None);
            assert!(Request::wait_some(&mut all)?.is_empty() && Request::test_some(&mut all)?.is_empty());
            Request::wait_all(&mut all)?;
        }
        assert_eq!(Request::wait_any::<Request>(&mut [])?, None);
        Ok(())
    })?;
    world.barrier()?;
    let mut found = vec![0; 4000];
    win.load(0, &mut found)?;
    ensure(found == data, "all arrived")?;
    Ok(win.free()?)
}

/// Requests that own their buffers, in order of completion.
/// Shows O2, A1.
fn owned(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 100)?;
    win.store(0, &(0..100).map(|i| i + 1000 * world.rank() as u64).collect::<Vec<_>>())?;
    world.barrier()?;
    let sum = win.lock_all(|epoch| {
        let targets = 0..world.size();
        let mut gets =
            targets.map(|rank| epoch.rget_owned(rank, 10, vec![0; 80])).collect::<transom::Result<Vec<_>>>()?;
        let mut sum = 0;
        while let Some(first) = Request::wait_any(&mut gets)? {
            sum += gets.swap_remove(first).wait()?.iter().sum::<u64>();
        }
        assert!(gets.is_empty(), "each was active until it was waited for");
        Ok(sum)
    })?;
    let expected = (0..world.size() as u64).map(|rank| (10..90).map(|i| i + 1000 * rank).sum::<u64>()).sum();
    same("the sum of all gets", &sum, &expected)?;
    Ok(win.free()?)
}

/// Any number of requests may be outstanding; they are waited for in any order.
/// Shows O2.
fn hundred_thousand(world: &Job) -> Outcome {
    const COUNT: usize = 100_000;
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, COUNT)?;
    let data: Vec<u64> = (0..COUNT as u64).map(|i| i * i + 1).collect();
    win.lock_all(|epoch| {
        step("puts");
        let puts = data.chunks(1).enumerate().map(|(at, value)| epoch.rput(next, at, value));
        let mut puts = puts.collect::<transom::Result<Vec<_>>>()?;
        step("waiting for the puts");
        Request::wait_all(&mut puts)?;
        epoch.flush(next)?;
        step("gets");
        let gets = (0..COUNT).map(|at| epoch.rget_owned(next, at, vec![0u64; 1]));
        let gets = gets.collect::<transom::Result<Vec<BufferRequest<u64>>>>()?;
        step("waiting for the gets, the last first");
        for (at, get) in gets.into_iter().enumerate().rev() {
            assert_eq!(get.wait()?, [data[at]]);
        }
        Ok(())
    })?;
    world.barrier()?;
    let mut found = vec![0; COUNT];
    win.load(0, &mut found)?;
    ensure(found == data, "all arrived")?;
    Ok(win.free()?)
}

/// The buffer of a put may be overwritten after its wait: the target gets the old contents.
/// Shows O2, O6.
fn buffers(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 64 * 500)?;
    win.lock_all(|epoch| {
        let mut buffer = vec![0; 500];
        for turn in 0..64 {
            let len = if turn % 2 == 0 { 500 } else { 3 };
            buffer.resize(len, 0);
            buffer.fill(turn as u64 + 1);
            let place = buffer.as_ptr();
            buffer = epoch.rput_owned(next, turn * 500, buffer)?.wait()?;
            assert_eq!((buffer.as_ptr(), buffer.len()), (place, len), "the same buffer");
            buffer.fill(u64::MAX);
        }
        Ok(())
    })?;
    world.barrier()?;
    let mut found = vec![0; 64 * 500];
    win.load(0, &mut found)?;
    for (turn, part) in found.chunks(500).enumerate() {
        let len = if turn % 2 == 0 { 500 } else { 3 };
        ensure(part[..len].iter().all(|&value| value == turn as u64 + 1), &format!("part {turn} is the old bytes"))?;
    }
    Ok(win.free()?)
}

/// Dropping a request waits for it; forgetting one leaks its buffer, which stays valid for the
/// operation in flight.
/// Shows O2, O6.
fn dropped(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 5000)?;
    win.lock_all(|epoch| {
        for turn in 0..20u64 {
            drop(epoch.rput_owned(next, 0, vec![turn; 5000])?);
            std::mem::forget(epoch.rput_owned(next, 0, vec![turn + 100; 2500])?);
            drop(epoch.rget_owned(next, 0, vec![0u64; 5000])?);
            std::mem::forget(epoch.rget_owned(next, 0, vec![0u64; 5000])?);
            epoch.flush(next)?;
        }
        Ok(())
    })?;
    world.barrier()?;
    let mut found = vec![0; 5000];
    win.load(0, &mut found)?;
    ensure(found[..2500].iter().all(|&value| value == 119), "the forgotten put arrived")?;
    ensure(found[2500..].iter().all(|&value| value == 19), "the dropped put arrived")?;
    Ok(win.free()?)
}

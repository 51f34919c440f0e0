//! Collective work of threads and ranks: one epoch shared by threads, a broadcast, a reduction.

use transom::{Class, Job, Window, ops};
use transom_harness::{Outcome, ensure, same, step};

const THREADS: usize = 4;
const ROUNDS: usize = 200;

/// Threads of each rank put, get and add in one epoch of `lock_all`, and each flushes its own
/// operations.
/// Shows O1, S3, A1.
pub(crate) fn threads_share_an_epoch(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let win = Window::<u64>::allocate(world, 1 + THREADS * ROUNDS)?;
    let value = |thread: usize, round: usize| (me * 1_000_000 + thread * 1000 + round) as u64;
    let thread_of = |epoch: &transom::LockAllEpoch<'_, '_, u64>, thread: usize| -> transom::Result<bool> {
        let mut right = true;
        for round in 0..ROUNDS {
            let at = 1 + thread * ROUNDS + round;
            epoch.put_value(next, at, value(thread, round))?;
            epoch.fetch_add(next, 0, 1)?;
            epoch.flush(next)?;
            let mut back = [0];
            epoch.scope(|part| part.get(next, at, &mut back))?;
            right &= back[0] == value(thread, round);
        }
        Ok(right)
    };
    step("threads");
    let right = win.lock_all(|epoch| {
        std::thread::scope(|threads| {
            let all: Vec<_> = (0..THREADS).map(|thread| threads.spawn(move || thread_of(epoch, thread))).collect();
            all.into_iter().map(|thread| thread.join().expect("no thread panics")).collect::<transom::Result<Vec<_>>>()
        })
    })?;
    ensure(right.iter().all(|&right| right), "every thread gets back what it has put")?;
    world.barrier()?;
    win.sync();
    let mut found = vec![0; 1 + THREADS * ROUNDS];
    win.load(0, &mut found)?;
    same("what all threads have added", &found[0], &((THREADS * ROUNDS) as u64))?;
    let before = (me + size - 1) % size;
    let expected = (0..THREADS * ROUNDS).map(|at| (before * 1_000_000 + at / ROUNDS * 1000 + at % ROUNDS) as u64);
    ensure(found[1..].iter().copied().eq(expected), "what the threads of the rank before have put")?;
    Ok(win.free()?)
}

/// `Job::broadcast` and `Job::all_reduce` with every root, on elements of several sizes including
/// none, and over a subset.
/// Shows A1, W7.
pub(crate) fn collective_calls(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    for root in 0..size {
        let mut data: Vec<u16> = (0..1001).map(|i| if me == root { i + 7 } else { 0 }).collect();
        world.broadcast(root, &mut data)?;
        ensure(data.iter().copied().eq(7..1008), "the data of the root")?;
    }
    world.broadcast::<u64>(0, &mut [])?;
    let mut sums: Vec<f64> = (0..300).map(|i| f64::from(i) + me as f64).collect();
    world.all_reduce(&mut sums, ops::Sum)?;
    let all = (size * (size - 1) / 2) as f64;
    ensure(sums.iter().enumerate().all(|(i, &sum)| sum == i as f64 * size as f64 + all), "sums at every rank")?;
    let mut most = [me as f32, -(me as f32)];
    world.all_reduce(&mut most, ops::Max)?;
    same("the largest of all ranks", &most, &[(size - 1) as f32, 0.0])?;
    let odd: Vec<usize> = (0..size).filter(|rank| rank % 2 == 1).rev().collect();
    if me % 2 == 1 {
        let few = world.subset(&odd)?;
        let mut who = [me];
        few.broadcast(few.size() - 1, &mut who)?;
        same("the last of the subset is rank 1", &who, &[1])?;
    }
    world.barrier()?;
    refused(world)
}

/// Different lengths are an error at the ranks that differ, and no rank waits in vain.
fn refused(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let last = me == size - 1 && size > 1;
    let mut data = vec![me as u64; if last { 3 } else { 5 }];
    let done = world.broadcast(0, &mut data).map_err(|error| error.class());
    same(
        "broadcast",
        &(done, data[0]),
        &(if last { Err(Class::Count) } else { Ok(()) }, if last { me as u64 } else { 0 }),
    )?;
    let mut data = vec![1u64; if last { 7 } else { 5 }];
    let done = world.all_reduce(&mut data, ops::Sum).map_err(|error| error.class());
    let sum = if last { 1 } else { size as u64 - u64::from(size > 1) };
    same("reduce", &(done, data[0]), &(if last { Err(Class::Count) } else { Ok(()) }, sum))?;
    same("no such root", &world.broadcast(size, &mut data).map_err(|error| error.class()), &Err(Class::Rank))?;
    same("no reduction", &world.all_reduce(&mut data, ops::Replace).map_err(|error| error.class()), &Err(Class::Op))
}

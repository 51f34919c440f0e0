//! Fences and generalized active target synchronization (MPI-4.1 §12.5.1, §12.5.2).

use transom::{Assert, Class, Info, Job, Op, RawWindow, Window};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same, step};

use crate::word;

/// MPI-4.1 §12.5.1, §12.5.5: a fence completes the preceding operations, under every legal
/// combination of assertions; the others are refused.
/// Shows S1, S4.
pub(crate) fn fences_with_every_assertion(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, ((me + size - 1) % size) as u64);
    let win = RawWindow::allocate(world, 16, 8, &Info::new())?;
    let flags = [Assert::NOSTORE, Assert::NOPUT, Assert::NOPRECEDE, Assert::NOSUCCEED];
    for bits in 0..16u64 {
        step(format!("combination {bits}"));
        let assert = (0..4).filter(|bit| bits >> bit & 1 == 1).fold(Assert::NONE, |all, bit| all | flags[bit]);
        if !assert.has(Assert::NOPRECEDE) {
            win.fence(Assert::NOPRECEDE)?;
            fetch(&win, next, 0, Op::Replace, bits * 100 + me as u64)?;
            let early = win.fence(Assert::NOPRECEDE).map_err(|error| error.class());
            same("NOPRECEDE after an operation", &early, &Err(Class::Assert))?;
        }
        win.fence(assert)?;
        if !assert.has(Assert::NOPRECEDE) {
            same("what preceded", &word(&win, 0), &(bits * 100 + before))?;
        }
        let operation = fetch(&win, next, 1, if assert.has(Assert::NOPUT) { Op::NoOp } else { Op::Replace }, bits + 7);
        if assert.has(Assert::NOSUCCEED) {
            same("after NOSUCCEED", &operation.map_err(|error| error.class()), &Err(Class::RmaSync))?;
            world.barrier()?;
            continue;
        }
        operation?;
        win.fence(Assert::NOSTORE | Assert::NOSUCCEED)?;
        if !assert.has(Assert::NOPUT) {
            same("what succeeded", &word(&win, 1), &(bits + 7))?;
        }
        world.barrier()?;
    }
    let wrong = win.fence(Assert::NOCHECK | Assert::NOPUT).map_err(|error| error.class());
    same("NOCHECK at a fence", &wrong, &Err(Class::Assert))?;
    Ok(win.free()?)
}

/// The ranks that `rank` accesses, in epochs of many shapes.
fn targets(shape: usize, rank: usize, size: usize) -> Vec<usize> {
    let mut group = match shape % 9 {
        0 => vec![(rank + 1) % size],
        1 => vec![rank ^ 1],
        2 if rank == 0 => (1..size).collect(),
        3 => vec![0],
        4 => vec![rank],
        5 => (0..size).rev().collect(),
        6 => vec![rank, (rank + 1) % size, (rank + 2) % size],
        7 if rank.is_multiple_of(2) => vec![(rank + 3) % size],
        _ => vec![],
    };
    group.retain(|&target| target < size);
    let mut seen = Vec::new();
    group.retain(|&target| !seen.contains(&target) && (seen.push(target), true).1);
    group
}

/// MPI-4.1 §12.5.2: pairs, stars, rings, overlapping groups, a rank in its own group, empty groups,
/// another shape in every epoch. No barrier separates the epochs, so that posts and completions of
/// neighbours arrive early.
/// Shows S1.
pub(crate) fn groups_of_every_shape(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, size)?;
    let mut expected = vec![0; size];
    for epoch in 0..45 {
        step(format!("epoch {epoch}"));
        let mine = targets(epoch, me, size);
        let origins: Vec<usize> = (0..size).filter(|&rank| targets(epoch, rank, size).contains(&me)).collect();
        let value = |rank: usize| (epoch * 1000 + rank + 1) as u64;
        win.post(&origins)?;
        win.start(&mine, |access| {
            // Half of the epochs access only every other target: complete consumes the posts of the
            // others.
            let used = mine.iter().filter(|&&target| epoch % 2 == 0 || target % 2 == 0);
            used.copied().try_for_each(|target| access.put_value(target, me, value(me)))
        })?;
        if epoch % 3 == 0 {
            while !win.test()? {
                std::thread::yield_now();
            }
        } else {
            win.wait()?;
        }
        for &origin in origins.iter().filter(|_| epoch % 2 == 0 || me.is_multiple_of(2)) {
            expected[origin] = value(origin);
        }
        let mut found = vec![0; size];
        win.load(0, &mut found)?;
        same(&format!("epoch {epoch}"), &found, &expected)?;
    }
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.2: start returns before the post; the operation, or complete, waits for the post.
/// Shows S1.
pub(crate) fn late_post(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    let signal = Window::<u64>::allocate(world, 1)?;
    for turn in 1..=20u64 {
        step(format!("turn {turn}"));
        if world.rank() == 0 {
            win.start(&[1], |access| {
                signal.lock_all(|other| other.put_value(1, 0, turn))?;
                // In every second turn there is no put, and complete waits.
                if turn % 2 == 0 { access.put_value(1, 0, turn) } else { Ok(()) }
            })?;
        } else {
            while signal.lock_all(|epoch| epoch.fetch_value(1, 0))? < turn {
                std::thread::yield_now();
            }
            win.post(&[0])?;
            win.wait()?;
            let mut found = [0];
            win.load(0, &mut found)?;
            same("the put", &found[0], &(turn / 2 * 2))?;
        }
    }
    signal.free()?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.7, the symmetric exchange of Figure 11.8 of MPI-3.1 and its mirror: one rank posts
/// first, the other accesses first.
/// Shows S1.
pub(crate) fn opposite_orders(world: &Job) -> Outcome {
    let (me, other) = (world.rank(), 1 - world.rank());
    let win = Window::<u64>::allocate(world, 1)?;
    for turn in 1..=50u64 {
        step(format!("turn {turn}"));
        let access = || win.start(&[other], |access| access.put_value(other, 0, turn * 2 + me as u64));
        if (turn + me as u64).is_multiple_of(2) {
            access()?;
            win.post(&[other])?;
            win.wait()?;
        } else {
            win.post(&[other])?;
            win.wait()?;
            access()?;
        }
        let mut found = [0];
        win.load(0, &mut found)?;
        same("what the other put", &found[0], &(turn * 2 + other as u64))?;
    }
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.2: access and exposure epochs of a process overlap, and end in any order that is
/// free of circular waits. An exposure epoch lasts until its origin has called complete.
/// Shows S1.
pub(crate) fn overlap(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let win = RawWindow::allocate(world, 8, 8, &Info::new())?;
    for turn in 0..40u64 {
        step(format!("turn {turn}"));
        if turn % 2 == 0 {
            win.start(&[next], Assert::NONE)?;
            win.post(&[before], Assert::NOSTORE)?;
        } else {
            win.post(&[before], Assert::NONE)?;
            win.start(&[next], Assert::NONE)?;
        }
        fetch(&win, next, 0, Op::Sum, turn)?;
        // In half of the turns no rank calls complete before all have tested.
        let in_step = turn % 4 < 2;
        let ended = win.test()?;
        if in_step {
            world.barrier()?;
        }
        ensure(!ended || !in_step && size > 1, "the exposure epoch lasts until its origin's complete")?;
        win.complete()?;
        if ended {
            let again = win.wait().map_err(|error| error.class());
            same("wait after a test that has ended the epoch", &again, &Err(Class::RmaSync))?;
        } else {
            win.wait()?;
        }
        same("the sum", &word(&win, 0), &(0..=turn).sum())?;
    }
    Ok(win.free()?)
}

/// MPI-4.1 §12.5.5: NOCHECK at both sides, where other synchronization has ordered post before
/// start.
/// Shows S1, S4.
pub(crate) fn unchecked(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let win = RawWindow::allocate(world, 8, 8, &Info::new())?;
    for turn in 1..=20 {
        step(format!("turn {turn}"));
        win.post(&[before], Assert::NOCHECK)?;
        world.barrier()?;
        win.start(&[next], Assert::NOCHECK)?;
        fetch(&win, next, 0, Op::Replace, turn)?;
        win.complete()?;
        win.wait()?;
        same("the value", &word(&win, 0), &turn)?;
        world.barrier()?;
    }
    // A checked epoch afterwards: no notice was left over.
    win.post(&[before], Assert::NOPUT | Assert::NOSTORE)?;
    win.start(&[next], Assert::NONE)?;
    win.complete()?;
    win.wait()?;
    win.free()?;
    typed_unchecked(world, next, before)
}

/// The same in a typed window.
fn typed_unchecked(world: &Job, next: usize, before: usize) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    for turn in 1..=20 {
        step(format!("typed, turn {turn}"));
        win.post_with(&[before], Assert::NOCHECK | Assert::NOSTORE)?;
        world.barrier()?;
        win.start_with(&[next], Assert::NOCHECK, |epoch| epoch.put_value(next, 0, turn))?;
        win.wait()?;
        let mut found = [0];
        win.load(0, &mut found)?;
        same("the value", &found, &[turn])?;
        world.barrier()?;
    }
    let refused = win.post_with(&[before], Assert::NOPRECEDE).map_err(|error| error.class());
    same("an assertion of a fence", &refused, &Err(Class::Assert))?;
    let refused = win.start_with(&[next], Assert::NOPUT, |_| Ok(())).map_err(|error| error.class());
    same("an assertion of a post", &refused, &Err(Class::Assert))?;
    Ok(win.free()?)
}

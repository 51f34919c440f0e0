//! Examples 11.18 to 11.22 (numbers of MPI-3.1): semaphores and critical regions by accumulates,
//! several buffers in flight, a list in a dynamic window.

use transom::{Assert, Info, Job, Lock, Op, RawWindow, Window, ops};
use transom_harness::word::{fetch, swap};
use transom_harness::{Outcome, ensure, same, step};

/// X counts down from the number of ranks; no rank continues before X is 0. Under both models.
/// Shows M5, M3, S3.
pub(crate) fn semaphore(world: &Job) -> Outcome {
    for model in ["unified", "separate"] {
        step(model);
        let win = Window::<i32>::allocate_with(world, 1, &Info::new().with("transom_model", model))?;
        win.lock_all(|epoch| {
            if world.rank() == 0 {
                win.store(0, &[i32::try_from(world.size()).unwrap_or(0)])?;
                epoch.sync();
            }
            world.barrier()?;
            epoch.scope(|part| part.accumulate(0, 0, &[-1], ops::Sum))?;
            while epoch.fetch_value(0, 0)? != 0 {
                std::thread::yield_now();
            }
            Ok(())
        })?;
        world.barrier()?;
        let mut left = [1];
        win.sync();
        win.load(0, &mut left)?;
        same("X at the end", &left[0], &0)?;
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

/// Both ranks enter a critical region many times and change a word there by a get and a put.
/// Shows M5, M3, M4, S3.
pub(crate) fn peterson(world: &Job) -> Outcome {
    const TURNS: u64 = 40;
    // Each rank has its flag; rank 0 also has the turn, and the word of the region.
    let win = Window::<u64>::allocate(world, 3)?;
    let (me, other) = (world.rank(), 1 - world.rank());
    win.lock_all(|epoch| {
        for round in 0..TURNS {
            step(format!("round {round}"));
            epoch.swap(me, 0, 1u64)?;
            epoch.swap(0, 1, other as u64)?;
            while epoch.fetch_value(other, 0)? == 1 && epoch.fetch_value(0, 1)? == other as u64 {
                std::thread::yield_now();
            }
            let mut word = [0u64];
            epoch.scope(|part| part.get(0, 2, &mut word))?;
            epoch.put_value(0, 2, word[0] + 1)?;
            epoch.flush(0)?;
            epoch.swap(me, 0, 0u64)?;
        }
        Ok(())
    })?;
    world.barrier()?;
    win.sync();
    let mut part = [0; 3];
    win.load(0, &mut part)?;
    same("entries", &part[2], &if me == 0 { 2 * TURNS } else { 0 })?;
    world.barrier()?;
    Ok(win.free()?)
}

/// A = 0 means that the region is free; the rank that swaps it to 1 enters.
/// Shows M5, M3, O1.
pub(crate) fn critical_region(world: &Job) -> Outcome {
    const TURNS: u64 = 25;
    let win = Window::<u64>::allocate(world, 2)?;
    win.lock_all(|epoch| {
        if world.rank() == 0 {
            win.store(0, &[0])?;
            epoch.sync();
        }
        world.barrier()?;
        for round in 0..TURNS {
            step(format!("round {round}"));
            while epoch.compare_and_swap(0, 0, 0u64, 1u64)? != 0 {
                std::thread::yield_now();
            }
            let mut word = [0u64];
            epoch.scope(|part| part.get(0, 1, &mut word))?;
            epoch.put_value(0, 1, word[0] + 1)?;
            epoch.flush(0)?;
            epoch.swap(0, 0, 0u64)?;
        }
        Ok(())
    })?;
    world.barrier()?;
    let entries = win.lock(Lock::Shared, 0, |epoch| epoch.fetch_value(0, 1))?;
    same("entries", &entries, &(TURNS * world.size() as u64))?;
    world.barrier()?;
    Ok(win.free()?)
}

/// Chunks are fetched, changed and written back, with several buffers in flight.
/// Shows M5, O2.
pub(crate) fn several_buffers(world: &Job) -> Outcome {
    const STEPS: usize = 30;
    const CHUNK: usize = 16;
    const BUFFERS: usize = 4;
    let target = (world.rank() + 1) % world.size();
    let win = Window::<u64>::create(world, (0..STEPS * CHUNK).map(|at| at as u64).collect())?;
    world.barrier()?;
    win.lock_all(|epoch| {
        let place = |step: usize| step * CHUNK;
        let mut fetched = std::collections::VecDeque::new();
        for step in 0..BUFFERS {
            fetched.push_back(epoch.rget_owned(target, place(step), vec![0u64; CHUNK])?);
        }
        let mut written = std::collections::VecDeque::new();
        for step in 0..STEPS {
            if let Some(request) = fetched.pop_front() {
                let mut buffer = request.wait()?;
                buffer.iter_mut().for_each(|value| *value = *value * 2 + 1);
                written.push_back(epoch.rput_owned(target, place(step), buffer)?);
            }
            // A buffer is free when its put is complete; then it fetches a later chunk.
            if step + BUFFERS < STEPS
                && let Some(request) = written.pop_front()
            {
                fetched.push_back(epoch.rget_owned(target, place(step + BUFFERS), request.wait()?)?);
            }
        }
        written.into_iter().try_for_each(|request| request.wait().map(drop))
    })?;
    world.barrier()?;
    let found = win.reclaim()?;
    same("the chunks", &found, &(0..STEPS * CHUNK).map(|at| at as u64 * 2 + 1).collect())
}

/// Words of a list element: its value, and the rank and address of the next element; rank -1 ends
/// the list.
const WORDS: usize = 3;
const END: u64 = u64::MAX;

/// Every rank appends elements of its own memory to one list, whose end it finds by following the
/// list.
/// Shows M5, W1, O1, M3.
#[allow(unsafe_code)]
pub(crate) fn linked_list(world: &Job) -> Outcome {
    const EACH: usize = 6;
    let win = RawWindow::create_dynamic(world, &Info::new())?;
    // Elements of this rank, attached one by one; the head is the first element of rank 0.
    let mut memory = vec![[0, END, 0]; EACH + 1];
    let first = memory.as_mut_ptr();
    let element = |index: usize| first.wrapping_add(index).cast::<u8>();
    let heads = Window::<u64>::allocate(world, 1)?;
    // SAFETY: the elements outlive the window, and are accessed only through it until they are
    // detached.
    unsafe { win.attach(element(0), WORDS * 8)? };
    heads.fence(|epoch| match world.rank() {
        0 => (0..world.size()).try_for_each(|rank| epoch.put_value(rank, 0, element(0).addr() as u64)),
        _ => Ok(()),
    })?;
    let mut head = [0];
    heads.load(0, &mut head)?;
    win.lock_all(Assert::NONE)?;
    for number in 1..=EACH {
        step(format!("element {number}"));
        // SAFETY: the elements outlive the window, and are accessed only through it until they are
        // detached.
        unsafe { win.attach(element(number), WORDS * 8)? };
        let (me, address) = (world.rank() as u64, element(number).addr() as u64);
        let value = me * 100 + number as u64;
        fetch(&win, world.rank(), address, Op::Replace, value)?;
        let (mut rank, mut at) = (0, head[0]);
        loop {
            // The address is written first: a rank that sees the rank word finds the address.
            let next = swap(&win, rank, at + 8, END, me << 32 | number as u64)?;
            if next == END {
                fetch(&win, rank, at + 16, Op::Replace, address)?;
                break;
            }
            (rank, at) = (usize::try_from(next >> 32)?, follow(&win, rank, at)?);
        }
    }
    world.barrier()?;
    let mut values = Vec::new();
    let (mut rank, mut at) = (0, head[0]);
    loop {
        let next = fetch(&win, rank, at + 8, Op::NoOp, 0)?;
        if next == END {
            break;
        }
        (rank, at) = (usize::try_from(next >> 32)?, follow(&win, rank, at)?);
        values.push(fetch(&win, rank, at, Op::NoOp, 0)?);
    }
    win.unlock_all()?;
    world.barrier()?;
    let mine = |rank: usize| (1..=EACH).map(move |number| (rank * 100 + number) as u64);
    for rank in 0..world.size() {
        let of_rank: Vec<u64> = values.iter().copied().filter(|value| value / 100 == rank as u64).collect();
        same("a rank's elements, in its order", &of_rank, &mine(rank).collect())?;
    }
    ensure(values.len() == EACH * world.size(), "all elements")?;
    (0..=EACH).try_for_each(|number| win.detach(element(number)))?;
    win.free()?;
    Ok(heads.free()?)
}

/// The address of the next element, which may be visible a moment after its rank.
fn follow(win: &RawWindow, rank: usize, at: u64) -> transom::Result<u64> {
    loop {
        match fetch(win, rank, at + 16, Op::NoOp, 0)? {
            0 => std::thread::yield_now(),
            address => return Ok(address),
        }
    }
}

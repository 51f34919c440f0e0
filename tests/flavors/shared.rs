//! Shared windows: the addresses of their parts, loads and stores by all ranks, and the jobs that
//! can't have such windows (MPI-4.1 §12.2.3).

use transom::{Class, Flavor, Info, Job, Op, PROC_NULL, RawWindow, Route, Window};
use transom_harness::{Outcome, ensure, one_node, same, step};

use super::memory;

/// Sizes of the parts by rank: equal, odd and different, none, all at the last rank, all at the
/// first.
fn sizes(ranks: usize) -> [Vec<usize>; 5] {
    [
        vec![4096; ranks],
        (0..ranks).map(|rank| [13, 0, 7, 4097, 0, 1, 70_001][rank % 7]).collect(),
        vec![0; ranks],
        (0..ranks).map(|rank| if rank == ranks - 1 { 99 } else { 0 }).collect(),
        (0..ranks).map(|rank| if rank == 0 { 99 } else { 0 }).collect(),
    ]
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 5 + i / 253 + seed * 29 + 1).to_le_bytes()[0]).collect()
}

/// MPI-4.1 §12.2.3: without a hint the parts are contiguous in the order of the ranks, with
/// any sizes.
/// Shows W1, W3, W5.
pub(crate) fn contiguous(world: &Job) -> Outcome {
    exchange(world, &Info::new(), |parts, bases| {
        let first = parts.iter().position(|&size| size > 0);
        for (rank, base) in bases.iter().enumerate().filter(|(rank, _)| parts[*rank] > 0) {
            let before: usize = parts[..rank].iter().sum();
            let from = bases[first.unwrap_or(0)];
            same(&format!("where rank {rank}'s part begins"), &(base - from), &before)?;
        }
        Ok(())
    })
}

/// MPI-4.1 §12.2.3: `alloc_shared_noncontig` permits any address for each part; parts do not
/// overlap. Shows W1, W3, W5, W6.
pub(crate) fn noncontiguous(world: &Job) -> Outcome {
    exchange(world, &Info::new().with("alloc_shared_noncontig", "true"), |parts, bases| {
        let mut ranges: Vec<_> = bases.iter().zip(parts).filter(|(_, size)| **size > 0).collect();
        ranges.sort_unstable();
        let apart = ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= *pair[1].0);
        ensure(apart, &format!("parts that do not overlap: {ranges:?}"))
    })
}

/// Creates a shared window for each set of sizes, checks the addresses of its parts, and lets every
/// rank store into the next one's part.
fn exchange(world: &Job, info: &Info, check_addresses: fn(&[usize], &[usize]) -> Outcome) -> Outcome {
    if !one_node(world)? {
        return refused(world);
    }
    let (me, size) = (world.rank(), world.size());
    for parts in sizes(size) {
        step(format!("parts of {parts:?}"));
        let win = RawWindow::allocate_shared(world, parts[me], 1, info)?;
        same("its attributes", &(win.size(), win.disp_unit(), win.flavor()), &(parts[me], 1, Flavor::Shared))?;
        let queried = (0..size).map(|rank| win.shared_query(rank)).collect::<Result<Vec<_>, _>>()?;
        for (rank, part) in queried.iter().enumerate() {
            same("a part", &(part.rank(), part.size(), part.disp_unit()), &(rank, parts[rank], 1))?;
            ensure(memory::load_part(part).iter().all(|&byte| byte == 0), "it begins zeroed")?;
        }
        ensure(parts[me] == 0 || queried[me].base() == win.base(), "the own part begins at the base")?;
        check_addresses(&parts, &queried.iter().map(|part| part.base().addr()).collect::<Vec<_>>())?;
        let lowest = parts.iter().position(|&size| size > 0);
        let null = win.shared_query(PROC_NULL)?;
        match lowest {
            Some(rank) => same("for PROC_NULL", &(null.rank(), null.base()), &(rank, queried[rank].base()))?,
            None => same("for PROC_NULL without any bytes", &null.size(), &0)?,
        }
        world.barrier()?;
        for round in 0..3 {
            let (next, before) = ((me + 1 + round) % size, (me + size - (1 + round) % size) % size);
            memory::store_part(&queried[next], &pattern(parts[next], me * 10 + round));
            win.sync();
            world.barrier()?;
            win.sync();
            let mut mine = vec![0; parts[me]];
            win.load(0, &mut mine);
            ensure(mine == pattern(parts[me], before * 10 + round), "what another rank stored here")?;
            for (rank, part) in queried.iter().enumerate() {
                let from = (rank + size - (1 + round) % size) % size;
                ensure(memory::load_part(part) == pattern(parts[rank], from * 10 + round), "stored anywhere")?;
            }
            world.barrier()?;
        }
        win.free()?;
    }
    typed(world, info)
}

/// The typed window's loads from and stores to other ranks' parts.
fn typed(world: &Job, info: &Info) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let len = |rank: usize| 3 + 2 * rank;
    let win = Window::<u32>::allocate_shared_with(world, len(me), info)?;
    let next = (me + 1) % size;
    same("the length of another part", &win.shared_len(next)?, &len(next))?;
    win.store_to(next, 1, &[7, me.try_into()?])?;
    for (first, count) in [(len(next), 1), (len(next) - 1, 2), (usize::MAX, 2)] {
        let outside = win.store_to(next, first, &vec![1; count]).err().map(|error| error.class());
        same("a store outside", &outside, &Some(Class::RmaRange))?;
    }
    win.sync();
    world.barrier()?;
    win.sync();
    for rank in 0..size {
        let mut found = vec![9; len(rank)];
        win.load_from(rank, 0, &mut found)?;
        let mut expected = vec![0; len(rank)];
        expected[1..3].copy_from_slice(&[7, ((rank + size - 1) % size).try_into()?]);
        same("a typed part", &found, &expected)?;
    }
    Ok(win.free()?)
}

/// A creation that fails after the sizes are published takes no slot in the directory, which has
/// 2048.
/// Shows W1, E1.
pub(crate) fn failed_creations(world: &Job) -> Outcome {
    if !one_node(world)? {
        return refused(world);
    }
    let info = Info::new().with("transom_atomics", "nic");
    for turn in 0..2100 {
        let error = RawWindow::allocate_shared(world, 64, 1, &info).err();
        let class = error.as_ref().map(transom::Error::class);
        ensure(class == Some(Class::InfoValue), &format!("creation {turn}: {error:?}"))?;
    }
    contiguous(world)
}

/// MPI-4.1 §12.2.3: ranks that share no memory have no shared window; each of them gets an error,
/// and the job continues.
/// Shows W1, E1.
pub(crate) fn refused(world: &Job) -> Outcome {
    for info in [Info::new(), Info::new().with("alloc_shared_noncontig", "true")] {
        let error =
            RawWindow::allocate_shared(world, 64, 8, &info).err().ok_or("a shared window without shared memory")?;
        same(&format!("{error}"), &error.class(), &Class::RmaShared)?;
        ensure(error.to_string().contains(&format!("ranks {}", world.rank())), &error.to_string())?;
        let typed = Window::<u64>::allocate_shared_with(world, 0, &info).err().map(|error| error.class());
        same("a typed one, of no elements", &typed, &Some(Class::RmaShared))?;
    }
    let win = Window::<u64>::allocate(world, 1)?;
    win.lock_all(|epoch| epoch.put_value((world.rank() + 1) % world.size(), 0, 5u64))?;
    world.barrier()?;
    win.sync();
    let mut found = [0];
    win.load(0, &mut found)?;
    same("a window after it", &found, &[5])?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.2.3: RMA operations work on a shared window as on any other. After a part of odd
/// size the next part's elements are misaligned.
/// Shows W1, O1, O7.
pub(crate) fn operations(world: &Job) -> Outcome {
    if !one_node(world)? {
        return refused(world);
    }
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    for info in [Info::new(), Info::new().with("alloc_shared_noncontig", "true")] {
        let len = |rank: usize| 8 * 100 + rank;
        let win = RawWindow::allocate_shared(world, len(me), 1, &info)?;
        let skew = |rank: usize| win.shared_query(rank).map(|part| part.base().addr().wrapping_neg() as u64 % 8);
        let (word, own) = (skew(next)?, skew(me)?);
        win.lock_all(transom::Assert::NONE)?;
        memory::put(&win, next, word + 8, &pattern(500, me))?;
        for turn in 0..10 {
            same("fetch_and_op", &memory::fetch(&win, next, word, Op::Sum, 3)?, &(turn * 3))?;
        }
        memory::accumulate(&win, next, word + 512, &[5, 6, 7], Op::Sum)?;
        same("compare_and_swap", &memory::swap(&win, next, word, 30, 31)?, &30)?;
        let crooked = word + 541;
        same("a misaligned atomic", &memory::fetch(&win, next, crooked, Op::Sum, 1)?, &0)?;
        same("a misaligned swap", &memory::swap(&win, next, crooked, 1, 0)?, &1)?;
        let outside = memory::put(&win, next, len(next) as u64 - 1, &[1, 2]).err().map(|error| error.class());
        same("a put past the end, where the next part may lie", &outside, &Some(Class::RmaRange))?;
        win.unlock_all()?;
        world.barrier()?;
        win.sync();
        let mut mine = vec![0; len(me)];
        win.load(0, &mut mine);
        let at = usize::try_from(own)?;
        same("the word", &&mine[at..at + 8], &&31u64.to_ne_bytes()[..])?;
        ensure(mine[at + 8..at + 508] == pattern(500, before), "what was put")?;
        let sums = [5u64, 6, 7].map(u64::to_ne_bytes).concat();
        same("what was accumulated", &&mine[at + 512..at + 536], &&sums[..])?;
        ensure(mine[at + 536..].iter().all(|&byte| byte == 0), "nothing behind")?;
        let mut back = vec![0; len(next)];
        win.lock_all(transom::Assert::NONE)?;
        memory::get(&win, next, 0, &mut back)?;
        win.unlock_all()?;
        ensure(back == memory::load_part(&win.shared_query(next)?), "a get sees what a load sees")?;
        win.free()?;
    }
    Ok(())
}

/// MPI-4.1 §12.2.3 and `MPI_COMM_SPLIT_TYPE`: the ranks of a node, made a subset, can always share
/// memory.
/// Shows W1, W7.
pub(crate) fn of_a_node(world: &Job) -> Outcome {
    let node = world.subset(&world.node_ranks())?;
    ensure(one_node(&node)?, "the ranks of a node reach each other")?;
    let win = Window::<u64>::allocate_shared(&node, 2)?;
    for rank in 0..node.size() {
        if rank == (node.rank() + 1) % node.size() {
            win.store_to(rank, 1, &[40 + node.rank() as u64])?;
        }
    }
    win.sync();
    node.barrier()?;
    win.sync();
    let mut found = [0; 2];
    win.load(0, &mut found)?;
    same(
        "stored by the node's rank before",
        &found,
        &[0, 40 + ((node.rank() + node.size() - 1) % node.size()) as u64],
    )?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.2.3: windows of other flavors answer shared_query where loads and stores reach; a
/// dynamic window has the wrong flavor.
/// Shows W5, E1.
pub(crate) fn query_of_other_flavors(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let next = (me + 1) % size;
    let allocated = RawWindow::allocate(world, 64 + 8 * me, 4, &Info::new())?;
    let created = memory::Block::words(4).window(world, 0, 32, 2, &Info::new())?;
    for (win, parts, unit) in [(&allocated, [64, 72], 4), (&created, [32, 32], 2)] {
        let own = win.shared_query(me)?;
        same("the own part", &(own.base(), own.size(), own.disp_unit()), &(win.base(), parts[me], unit))?;
        let class = win.shared_query(size).err().map(|error| error.class());
        same("a rank that is not", &class, &Some(Class::Rank))?;
        let first = (0..size).find_map(|rank| win.shared_query(rank).ok());
        let null = win.shared_query(PROC_NULL)?;
        same("for PROC_NULL", &Some(null.base()), &first.map(|part| part.base()))?;
    }
    let theirs = allocated.shared_query(next);
    match allocated.route(next)? {
        Route::Net => same("over a net", &theirs.err().map(|error| error.class()), &Some(Class::RmaShared))?,
        _ => {
            let part = theirs?;
            same("another's part", &(part.rank(), part.size(), part.disp_unit()), &(next, 64 + 8 * next, 4))?;
            memory::store_part(&part, &pattern(part.size(), me));
        }
    }
    allocated.sync();
    world.barrier()?;
    allocated.sync();
    if one_node(world)? {
        let mut mine = vec![0; allocated.size()];
        allocated.load(0, &mut mine);
        ensure(mine == pattern(mine.len(), (me + size - 1) % size), "stored by another rank")?;
    }
    if next != me {
        let other = created.shared_query(next).map(|part| (part.rank(), part.size(), part.disp_unit()));
        match other {
            // Where ranks of the node can map user memory.
            Ok(part) => same("user memory that is mapped", &part, &(next, 32, 2))?,
            Err(error) => same("memory that only its owner has mapped", &error.class(), &Class::RmaShared)?,
        }
    }
    let dynamic = RawWindow::create_dynamic(world, &Info::new())?;
    for rank in [me, next, PROC_NULL] {
        let class = dynamic.shared_query(rank).err().map(|error| error.class());
        same("a dynamic window", &class, &Some(Class::RmaFlavor))?;
    }
    dynamic.free()?;
    created.free()?;
    Ok(allocated.free()?)
}

/// Parts that begin and end past 2^32.
/// Shows W1, W3.
pub(crate) fn four_gibibytes(world: &Job) -> Outcome {
    if !one_node(world)? {
        return refused(world);
    }
    let len = (1usize << 32) + 40;
    let win = Window::<u8>::allocate_shared(world, len)?;
    let other = 1 - world.rank();
    let me = u8::try_from(world.rank())?;
    win.store_to(other, len - 3, &[me + 1; 2])?;
    win.lock_all(|epoch| epoch.put_value(other, len - 1, me + 1))?;
    win.sync();
    world.barrier()?;
    win.sync();
    let mut found = [9; 5];
    win.load(len - 5, &mut found)?;
    let theirs = u8::try_from(other)? + 1;
    same("at the end", &found, &[0, 0, theirs, theirs, theirs])?;
    win.load(0, &mut found)?;
    same("at the begin", &found, &[0; 5])?;
    Ok(win.free()?)
}

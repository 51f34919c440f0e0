//! Many windows, several windows over the same memory, windows without bytes, and the attributes of
//! windows (MPI-4.1 §12.2.1, §12.2.6).

use transom::{Assert, Class, Flavor, Info, Job, Model, Op, RawWindow, Window};
use transom_harness::{Outcome, ensure, one_node, same, step};

use super::memory::{self, Block};

/// Rounds of windows that live briefly. A round that leaves something behind adds at least as many
/// mappings or descriptors; the system and other threads may add a few in passing.
const ROUNDS: usize = 20;

/// 1,000 windows live at once, each with an operation. Others are created and freed meanwhile; a
/// round of them leaves no mapping and no descriptor behind.
/// Shows W2, W7.
pub(crate) fn thousand(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let all = (0..1000).map(|_| Window::<u64>::allocate(world, 2)).collect::<Result<Vec<_>, _>>()?;
    for (index, win) in all.iter().enumerate() {
        step(format!("window {index}"));
        win.lock_all(|epoch| {
            epoch.put_value(next, 0, index as u64)?;
            epoch.fetch_add(next, 1, 1u64)
        })?;
    }
    let mut before = [0; 2];
    for round in 0..2 + ROUNDS as u64 {
        step(format!("round {round}"));
        // Providers have filled their pools after two rounds.
        if round == 2 {
            before = owned()?;
        }
        let more = (0..100).map(|_| Window::<u64>::allocate(world, 1)).collect::<Result<Vec<_>, _>>()?;
        for win in more.iter().step_by(10) {
            win.lock_all(|epoch| epoch.put_value(next, 0, round))?;
        }
        world.barrier()?;
        for (index, win) in more.into_iter().enumerate() {
            let mut found = [99];
            win.load(0, &mut found)?;
            same("a short-lived window", &found, &[if index % 10 == 0 { round } else { 0 }])?;
            win.free()?;
        }
    }
    let now = owned()?;
    let kept = |of: usize| now[of] >= before[of] + ROUNDS;
    ensure(!kept(0) && !kept(1), &format!("mappings and descriptors were {before:?} and are {now:?}"))?;
    for (index, win) in all.iter().enumerate() {
        let mut found = [99; 2];
        win.load(0, &mut found)?;
        same("each window is its own", &found, &[index as u64, 1])?;
    }
    all.into_iter().try_for_each(|win| Ok(win.free()?))
}

/// The number of mappings and descriptors of this process.
fn owned() -> Outcome<[usize; 2]> {
    Ok([std::fs::read_to_string("/proc/self/maps")?.lines().count(), std::fs::read_dir("/proc/self/fd")?.count()])
}

/// MPI-4.1 §12.2.1: the same memory in several windows, whole and in part, each with its own unit;
/// data put through one window is visible in all.
/// Shows W3, W7.
pub(crate) fn same_memory(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let block = Block::words(64);
    let info = Info::new();
    let whole = block.window(world, 0, 512, 1, &info)?;
    let again = block.window(world, 0, 512, 8, &info)?;
    // At a different offset at each rank.
    let at = |rank: usize| 256 + 8 * rank;
    let part = block.window(world, at(me), 128, 4, &info)?;
    for win in [&whole, &again, &part] {
        win.lock_all(Assert::NONE)?;
    }
    memory::put(&whole, next, at(next) as u64 + 16, &(me as u64 + 5).to_ne_bytes())?;
    let seen = memory::fetch(&part, next, 4, Op::Sum, 100)?;
    same("by the window of a part", &seen, &(me as u64 + 5))?;
    let seen = memory::swap(&again, next, at(next) as u64 / 8 + 2, me as u64 + 105, 9)?;
    same("by the second window of all", &seen, &(me as u64 + 105))?;
    let mut back = [0; 8];
    memory::get(&whole, next, at(next) as u64 + 16, &mut back)?;
    same("by the first again", &u64::from_ne_bytes(back), &9)?;
    let outside = memory::put(&part, next, 32, &[1]).err().map(|error| error.class());
    same("outside the part, inside the memory", &outside, &Some(Class::RmaRange))?;
    memory::put(&part, next, 31, &[1, 2, 3, before.to_le_bytes()[0]])?;
    for win in [&whole, &again, &part] {
        win.unlock_all()?;
    }
    world.barrier()?;
    same("in memory", &block.word(at(me) + 16), &9)?;
    // Freeing one window leaves the others intact.
    part.free()?;
    again.lock_all(Assert::NONE)?;
    same("after one is freed", &memory::fetch(&again, next, 0, Op::Sum, 2)?, &0)?;
    again.unlock_all()?;
    again.free()?;
    whole.free()?;
    same("at the end", &block.word(0), &2)
}

/// MPI-4.1 §12.2.1: size 0 is legal at one rank or at all: synchronization works, and every access
/// to a byte is out of bounds.
/// Shows W3, O6, O7.
pub(crate) fn without_bytes(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let info = Info::new();
    let mut all = vec![
        RawWindow::allocate(world, 0, 8, &info)?,
        memory::window_over_nothing(world, 0)?,
        Block::words(1).window(world, 8, 0, 1, &info)?,
    ];
    if one_node(world)? {
        all.push(RawWindow::allocate_shared(world, 0, 1, &info)?);
    }
    for win in all {
        step(format!("{:?}", win.flavor()));
        same("its size", &win.size(), &0)?;
        for _ in 0..2 {
            win.fence(Assert::NONE)?;
        }
        win.fence(Assert::NOSUCCEED)?;
        win.lock_all(Assert::NONE)?;
        memory::put(&win, next, 0, &[])?;
        memory::get(&win, next, 0, &mut [])?;
        memory::accumulate(&win, next, 0, &[], Op::Sum)?;
        let class = |outcome: transom::Result<()>| outcome.err().map(|error| error.class());
        same("a byte", &class(memory::put(&win, next, 0, &[1])), &Some(Class::RmaRange))?;
        same("no bytes, past the end", &class(memory::put(&win, next, 1, &[])), &None)?;
        same("a word", &class(memory::fetch(&win, next, 0, Op::Sum, 1).map(drop)), &Some(Class::RmaRange))?;
        win.unlock_all()?;
        win.free()?;
    }
    let bad = memory::window_over_nothing(world, 16).err().map(|error| error.class());
    same("a null base with a size", &bad, &Some(Class::Base))?;
    for size in [usize::MAX, usize::MAX / 2 + 1] {
        let error = memory::window_beyond_memory(world, size).expect_err("no process has so much memory");
        same(&format!("{error}"), &error.class(), &Class::Size)?;
    }
    let typed = Window::<u64>::create(world, Vec::new())?;
    ensure(typed.is_empty(), "an empty buffer")?;
    same("given back", &typed.reclaim()?, &Vec::new())
}

/// User memory past 2^32 bytes; pages that were never touched stay unmapped.
/// Shows W3.
pub(crate) fn four_gibibytes(world: &Job) -> Outcome {
    let size = (1usize << 32) + 4096;
    let target = world.size() - 1;
    let words = if world.rank() == target { size / 8 } else { 0 };
    let win = Window::<u64>::create(world, vec![0; words])?;
    let far = (1usize << 29) + 100;
    if world.rank() != target {
        let (old, outside) = win.lock_all(|epoch| {
            epoch.put_value(target, far, 11u64)?;
            epoch.put_value(target, 100, 12u64)?;
            epoch.flush(target)?;
            let outside = epoch.put_value(target, size / 8, 1u64).err();
            Ok((epoch.fetch_add(target, far, 1u64)?, outside))
        })?;
        same("past 2^32", &old, &11)?;
        same("the end", &outside.map(|error| error.class()), &Some(Class::RmaRange))?;
    }
    world.barrier()?;
    let mine = win.reclaim()?;
    if world.rank() == target {
        same("both", &(mine[far], mine[100]), &(12, 12))?;
    }
    Ok(())
}

/// MPI-4.1 §12.2.6: base, size, unit, flavor, model and group.
/// Shows W4.
pub(crate) fn attributes(world: &Job) -> Outcome {
    let me = world.rank();
    let info = Info::new();
    let block = Block::words(16);
    let (size, unit) = (16 + 8 * me, 1 + u32::try_from(me)?);
    let mut all = vec![
        (RawWindow::allocate(world, size, unit, &info)?, Flavor::Allocate),
        (block.window(world, 8, size, unit, &info)?, Flavor::Create),
        (RawWindow::create_dynamic(world, &info)?, Flavor::Dynamic),
    ];
    if one_node(world)? {
        all.push((RawWindow::allocate_shared(world, size, unit, &info)?, Flavor::Shared));
    }
    for (win, flavor) in all {
        same("the flavor", &win.flavor(), &flavor)?;
        same("the model", &win.model(), &Model::Unified)?;
        same("the group", &win.group(), &(0..world.size()).collect())?;
        let dynamic = flavor == Flavor::Dynamic;
        let expected = if dynamic { (0, 1) } else { (size, unit) };
        same("size and unit", &(win.size(), win.disp_unit()), &expected)?;
        same("whether the base is null", &win.base().is_null(), &dynamic)?;
        if flavor == Flavor::Create {
            same("the base", &(win.base().addr() as u64), &block.address(8))?;
        }
        if !dynamic {
            win.store(size - 1, &[77]);
            let mut last = [0];
            win.load(size - 1, &mut last);
            same("the last byte", &last, &[77])?;
        }
        win.free()?;
    }
    let typed = Window::<u32>::allocate(world, 3)?;
    same("a typed window", &(typed.len(), typed.flavor(), typed.group().len()), &(3, Flavor::Allocate, world.size()))?;
    Ok(typed.free()?)
}

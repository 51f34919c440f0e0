//! The end of windows: by `free`, which is collective and an error within an epoch, or by a drop,
//! which never waits (MPI-4.1 §12.2.5).

use transom::{Assert, Class, Info, Job, Lock, RawWindow, Window};
use transom_harness::{Outcome, ensure, gathered, one_node, same, step};

use super::memory::{self, Block};

/// One window of each flavor that is possible here.
fn each_flavor(world: &Job, block: Block) -> transom::Result<Vec<RawWindow>> {
    let info = Info::new();
    let mut all = vec![RawWindow::allocate(world, 64, 8, &info)?, block.window(world, 0, 64, 8, &info)?];
    all.push(RawWindow::create_dynamic(world, &info)?);
    if one_node(world)? {
        all.push(RawWindow::allocate_shared(world, 64, 8, &info)?);
        all.push(RawWindow::allocate_shared(world, 64, 8, &info.with("alloc_shared_noncontig", "true"))?);
    }
    Ok(all)
}

/// A drop without `free` waits for no rank, at one rank or at all; the memory remains for the other
/// ranks.
/// Shows W2.
pub(crate) fn dropped(world: &Job) -> Outcome {
    let (me, last) = (world.rank(), world.size() - 1);
    let block = Block::words(8);
    for everywhere in [false, true] {
        step(format!("everywhere: {everywhere}"));
        let all = each_flavor(world, block)?;
        let attached = Block::words(1);
        attached.attach(&all[2], 0, 8)?;
        let theirs = gathered(world, attached.address(0))?[last];
        // First contact reads data that a rank has published.
        for (index, win) in all.iter().enumerate() {
            win.lock_all(Assert::NONE)?;
            let at = if index == 2 { theirs } else { 0 };
            memory::fetch(win, last, at, transom::Op::Sum, 1)?;
            win.unlock_all()?;
        }
        world.barrier()?;
        let mut kept = Some(all);
        if everywhere || me == last {
            drop(kept.take());
        }
        world.barrier()?;
        for (index, win) in kept.iter().flatten().enumerate() {
            win.lock_all(Assert::NONE)?;
            let at = if index == 2 { theirs } else { 0 };
            let count = memory::fetch(win, last, at, transom::Op::Sum, 1)?;
            ensure(count >= world.size() as u64, "the memory of a dropped window stays")?;
            win.unlock_all()?;
        }
        drop(kept);
    }
    // The dropped windows do not disturb later ones.
    let win = Window::<u64>::allocate(world, 1)?;
    win.fence(|epoch| epoch.put_value((me + 1) % world.size(), 0, 3u64))?;
    let mut found = [0];
    win.load(0, &mut found)?;
    same("a window after it", &found, &[3])?;
    Ok(win.free()?)
}

/// A drop within an open epoch completes the rank's operations, which are not flushed. In user
/// memory the data is seen after the drop.
/// Shows W2.
pub(crate) fn dropped_within_an_epoch(world: &Job) -> Outcome {
    let other = 1 - world.rank();
    let data = Block::words(1 << 14);
    data.store(0, &vec![7; data.len()]);
    let begin = |win: &RawWindow, what| match what {
        "lock_all" => win.lock_all(Assert::NONE),
        "lock" => win.lock(Lock::Exclusive, other, Assert::NONE),
        "fence" => win.fence(Assert::NONE),
        _ => win.post(&[other], Assert::NONE).and_then(|()| win.start(&[other], Assert::NONE)),
    };
    for what in ["lock_all", "lock", "fence", "post and start"] {
        step(what);
        let allocated = RawWindow::allocate(world, data.len(), 1, &Info::new())?;
        begin(&allocated, what)?;
        data.put(&allocated, other, data.len())?;
        drop(allocated);
        let part = Block::words(1 << 14);
        let win = part.window(world, 0, part.len(), 1, &Info::new())?;
        begin(&win, what)?;
        data.put(&win, other, data.len())?;
        drop(win);
        world.barrier()?;
        let mut found = vec![0; part.len()];
        part.load(0, &mut found);
        ensure(found.iter().all(|&byte| byte == 7), &format!("the put of an epoch of {what} is complete"))?;
        world.barrier()?;
    }
    Ok(())
}

/// MPI-4.1 §12.2.5: free within an epoch is an error at the caller alone; the window and the epoch
/// remain.
/// Shows W2, E2.
pub(crate) fn free_within_an_epoch(world: &Job) -> Outcome {
    let (me, last) = (world.rank(), world.size() - 1);
    let block = Block::words(8);
    for win in each_flavor(world, block)? {
        step(format!("{:?}", win.flavor()));
        let refused = |what: &str| {
            let error = win.free().err().ok_or(format!("free within {what} was not refused"))?;
            same(&format!("free within {what}: {error}"), &error.class(), &Class::RmaSync)
        };
        win.lock_all(Assert::NONE)?;
        refused("lock_all")?;
        win.unlock_all()?;
        if me == last {
            // At one rank alone, while the others run other calls.
            win.lock(Lock::Exclusive, me, Assert::NONE)?;
            refused("lock")?;
            win.unlock(me)?;
            win.post(&[], Assert::NONE)?;
            refused("post")?;
            win.wait()?;
            win.start(&[], Assert::NONE)?;
            refused("start")?;
            win.complete()?;
        }
        world.barrier()?;
        win.fence(Assert::NONE)?;
        if win.size() > 0 {
            let byte = [5u8];
            let done = Block::words(1);
            done.store(0, &byte);
            done.put(&win, me, 1)?;
            refused("a fence epoch with operations")?;
        }
        win.fence(Assert::NOSUCCEED)?;
        win.free()?;
        same("free twice", &win.free().err().map(|error| error.class()), &Some(Class::RmaSync))?;
    }
    Ok(())
}

/// MPI-4.1 §12.2.5: free returns after all ranks have called it, so that their earlier puts are
/// complete; attached memory is detached.
/// Shows W2.
pub(crate) fn free_waits(world: &Job) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let (block, win) = (Block::words(4), RawWindow::create_dynamic(world, &Info::new())?);
    block.attach(&win, 0, 32)?;
    let next = (me + 1) % size;
    let theirs = gathered(world, block.address(0))?[next];
    if me == 0 {
        // The other ranks are in free by then, or enter it later; both are correct.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    win.lock_all(Assert::NONE)?;
    memory::put(&win, next, theirs + 8, &(me as u64 + 50).to_ne_bytes())?;
    win.unlock_all()?;
    win.free()?;
    same("put before free", &block.word(8), &((me + size - 1) % size + 50).try_into()?)?;
    let again = RawWindow::create_dynamic(world, &Info::new())?;
    block.attach(&again, 0, 32)?;
    again.free()?;
    same("attach to a freed window", &block.attach(&again, 0, 8).is_err(), &true)?;
    Ok(())
}

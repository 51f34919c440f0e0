//! The rules of both models in epochs as closures, at any number of ranks: the effect of each call
//! that rules 5 and 6 name, and the state without such a call.

use transom::{Info, Job, Lock, Model, Window, ops};
use transom_harness::{Outcome, same, step};

/// A window of each model, over the library's memory and over the user's.
fn windows(world: &Job) -> Result<Vec<(bool, Window<u64>)>, transom::Error> {
    let mut all = Vec::new();
    for model in ["unified", "separate"] {
        let info = Info::new().with("transom_model", model);
        all.push((model == "separate", Window::allocate_with(world, 8, &info)?));
        all.push((model == "separate", Window::create_with(world, vec![0; 8], &info)?));
    }
    for (separate, win) in &all {
        assert_eq!(win.model() == Model::Separate, *separate);
    }
    Ok(all)
}

/// The last rank's first element as this rank sees it, by a get.
fn seen_by_get(win: &Window<u64>, target: usize) -> transom::Result<u64> {
    let mut value = [0];
    win.lock_all(|epoch| epoch.scope(|part| part.get(target, 0, &mut value)))?;
    Ok(value[0])
}

/// After a store the owner synchronizes by each call that rule 5 names, or by none.
/// Shows M1, M2.
pub(crate) fn stores(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let others: Vec<usize> = (0..world.size()).filter(|&rank| rank != target).collect();
    for (separate, win) in windows(world)? {
        let ways = ["nothing", "sync", "unlock", "unlock_all", "fence", "post"];
        for (value, way) in (1..).zip(ways) {
            step(format!("{way}, separate: {separate}"));
            // All ranks have entered a barrier since the previous value was read.
            world.barrier()?;
            if world.rank() == target {
                win.store(0, &[value])?;
            }
            match way {
                "sync" => win.sync(),
                "unlock" if world.rank() == target => win.lock(Lock::Shared, target, |_| Ok(()))?,
                "unlock_all" if world.rank() == target => win.lock_all(|_| Ok(()))?,
                "fence" => win.fence(|_| Ok(()))?,
                "post" if world.rank() == target => win.post(&others).and_then(|()| win.wait())?,
                "post" => win.start(&[target], |_| Ok(()))?,
                _ => {}
            }
            world.barrier()?;
            // The target itself would synchronize by its own lock_all; a job of one rank has no
            // other reader.
            if world.rank() != target {
                let stale = separate && way == "nothing";
                same(way, &seen_by_get(&win, target)?, &if stale { 0 } else { value })?;
            }
            world.barrier()?;
        }
        win.free()?;
    }
    Ok(())
}

/// After a put by another rank the target loads at once, and after each call that rule 6 names.
/// Shows M1, M2.
pub(crate) fn puts(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let others: Vec<usize> = (0..world.size()).filter(|&rank| rank != target).collect();
    for (separate, win) in windows(world)? {
        let mut known = 0;
        for (value, way) in (1..).zip(["sync", "lock", "lock_all", "fence", "wait"]) {
            step(format!("{way}, separate: {separate}"));
            world.barrier()?;
            let put = |epoch: &transom::Access<'_, '_, u64>| epoch.put_value(target, 0, value);
            match (way, world.rank()) {
                ("fence", _) => win.fence(|epoch| if world.rank() == 0 { put(epoch) } else { Ok(()) })?,
                ("wait", rank) if rank == target && !others.is_empty() => {
                    win.post(&others)?;
                    win.wait()?;
                }
                ("wait", rank) if rank != target => {
                    win.start(&[target], |epoch| if rank == 0 { put(epoch) } else { Ok(()) })?;
                }
                (_, 0) if target != 0 => win.lock(Lock::Exclusive, target, |epoch| put(epoch))?,
                _ => {}
            }
            world.barrier()?;
            if world.rank() == target && target > 0 {
                let mut found = [0];
                win.load(0, &mut found)?;
                let at_once = matches!(way, "fence" | "wait") || !separate;
                same(&format!("{way}: at once"), &found[0], &if at_once { value } else { known })?;
                match way {
                    "sync" => win.sync(),
                    "lock" => win.lock(Lock::Shared, target, |_| Ok(()))?,
                    "lock_all" => win.lock_all(|_| Ok(()))?,
                    _ => {}
                }
                win.load(0, &mut found)?;
                same(&format!("{way}: after it"), &found[0], &value)?;
                known = value;
            }
            world.barrier()?;
        }
        win.free()?;
    }
    Ok(())
}

/// Shows M2.
pub(crate) fn both(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    for (_, win) in windows(world)? {
        win.store(4, &[40, 50, 60, 70])?;
        win.fence(|epoch| {
            epoch.put(next, 0, &[1u64, 2, 3, 4])?;
            epoch.accumulate(next, 7, &[5u64], ops::Sum)
        })?;
        let mut found = [0; 8];
        win.load(0, &mut found)?;
        same("stored here, put and added by another", &found, &[1, 2, 3, 4, 40, 50, 60, 75])?;
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

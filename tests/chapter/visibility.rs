//! Examples 11.6 to 11.12 (numbers of MPI-3.1): visibility under both memory models. Where MPI does
//! not guarantee that a new value is visible, the separate model of this library shows the old one.
//! Process A is rank 0; process B is rank 1, whose part has X.

use transom::{Info, Job, Lock, Window};
use transom_harness::{Outcome, same, step};

/// Runs a body under both models.
fn both(world: &Job, body: impl Fn(&Window<u64>, bool) -> Outcome) -> Outcome {
    for model in ["unified", "separate"] {
        step(model);
        let win = Window::<u64>::allocate_with(world, 1, &Info::new().with("transom_model", model))?;
        body(&win, model == "separate")?;
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

fn loaded(win: &Window<u64>) -> transom::Result<u64> {
    let mut x = [0];
    win.load(0, &mut x)?;
    Ok(x[0])
}

fn got(win: &Window<u64>) -> transom::Result<u64> {
    win.lock(Lock::Exclusive, 1, |epoch| {
        let mut x = [0];
        epoch.scope(|part| part.get(1, 0, &mut x))?;
        Ok(x[0])
    })
}

/// B stores X between lock and unlock of its own part; after a barrier the get of A sees it.
/// Shows M5, M1, M2.
pub(crate) fn store_between_locks(world: &Job) -> Outcome {
    both(world, |win, _| {
        if world.rank() == 1 {
            win.lock(Lock::Exclusive, 1, |_| win.store(0, &[7]))?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            same("X", &got(win)?, &7)?;
        }
        Ok(())
    })
}

/// B stores X without a synchronization and enters a barrier with A: in the separate model A sees
/// the old X.
/// Shows M5, M1, M2.
pub(crate) fn store_before_a_barrier(world: &Job) -> Outcome {
    both(world, |win, separate| {
        if world.rank() == 1 {
            win.store(0, &[7])?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            same("X", &got(win)?, &if separate { 0 } else { 7 })?;
        }
        Ok(())
    })
}

/// A puts X under a lock; B locks its own part before it loads.
/// Shows M5, M1, M2.
pub(crate) fn load_between_locks(world: &Job) -> Outcome {
    both(world, |win, _| {
        if world.rank() == 0 {
            win.lock(Lock::Exclusive, 1, |epoch| epoch.put_value(1, 0, 7u64))?;
        }
        world.barrier()?;
        if world.rank() == 1 {
            same("X", &win.lock(Lock::Exclusive, 1, |_| loaded(win))?, &7)?;
        }
        Ok(())
    })
}

/// B opens its lock_all before A's put and loads after a barrier: only unified memory shows the new
/// X.
/// Shows M5, M1, M2.
pub(crate) fn load_after_a_barrier(world: &Job) -> Outcome {
    both(world, |win, separate| {
        win.lock_all(|epoch| {
            world.barrier()?;
            if world.rank() == 0 {
                epoch.put_value(1, 0, 7u64)?;
                epoch.flush(1)?;
            }
            world.barrier()?;
            if world.rank() == 1 {
                assert_eq!(loaded(win)?, if separate { 0 } else { 7 }, "without a synchronization");
                epoch.sync();
                assert_eq!(loaded(win)?, 7, "after sync");
            }
            Ok(())
        })?;
        Ok(())
    })
}

/// B stores X, then locks. A lock does not publish stores, so the get of A while B holds its shared
/// lock sees the old X.
/// Shows M5, M2.
pub(crate) fn store_before_a_lock(world: &Job) -> Outcome {
    both(world, |win, separate| {
        if world.rank() == 1 {
            win.store(0, &[7])?;
        }
        win.lock(Lock::Shared, 1, |epoch| {
            world.barrier()?;
            if world.rank() == 0 {
                let mut x = [0];
                epoch.scope(|part| part.get(1, 0, &mut x))?;
                assert_eq!(x[0], if separate { 0 } else { 7 });
            }
            world.barrier()
        })?;
        world.barrier()?;
        if world.rank() == 0 {
            same("X after B's unlock", &got(win)?, &7)?;
        }
        Ok(())
    })
}

/// B stores X and notifies; locks of B by C and A do not synchronize B.
/// Shows M5, M2.
pub(crate) fn store_and_anothers_lock(world: &Job) -> Outcome {
    both(world, |win, separate| {
        if world.rank() == 1 {
            win.store(0, &[7])?;
        }
        world.barrier()?;
        if world.rank() == 2 {
            win.lock(Lock::Exclusive, 1, |_| Ok(()))?;
        }
        world.barrier()?;
        if world.rank() == 0 {
            same("X", &got(win)?, &if separate { 0 } else { 7 })?;
        }
        world.barrier()?;
        if world.rank() == 1 {
            win.sync();
        }
        world.barrier()?;
        if world.rank() == 0 {
            same("X after B's sync", &got(win)?, &7)?;
        }
        Ok(())
    })
}

/// A has completed its put, which does not reach B's private copy before B's wait.
/// Shows M5, M2, S1.
pub(crate) fn load_within_an_exposure(world: &Job) -> Outcome {
    both(world, |win, separate| {
        if world.rank() == 0 {
            win.start(&[1], |epoch| epoch.put_value(1, 0, 7u64))?;
            world.barrier()?;
            return Ok(());
        }
        win.post(&[0])?;
        world.barrier()?;
        same("X before wait", &loaded(win)?, &if separate { 0 } else { 7 })?;
        win.wait()?;
        same("X after wait", &loaded(win)?, &7)
    })
}

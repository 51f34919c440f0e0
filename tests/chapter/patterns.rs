//! Common patterns beyond the chapter's examples: plain loads of data that others put, windows of
//! one node that all ranks load and store, and a flag that announces data.

use transom::{Assert, Class, Info, Job, Lock, Window};
use transom_harness::{Outcome, one_node, same, step};

/// A shared window where the ranks share a node; elsewhere its refusal is checked.
fn shared(world: &Job, len: usize) -> Result<Option<Window<u64>>, Box<dyn std::error::Error>> {
    let together = one_node(world)?;
    match Window::allocate_shared(world, len) {
        Ok(win) if together => Ok(Some(win)),
        Err(error) if !together && error.class() == Class::RmaShared => Ok(None),
        other => Err(format!("ranks of one node: {together}, and {:?}", other.err()).into()),
    }
}

/// The origin puts and flushes. The target opens an epoch, synchronizes and loads: under both
/// models it sees the data.
/// Shows M5, M1, M2, S3.
pub(crate) fn plain_loads_after_a_put(world: &Job) -> Outcome {
    for model in ["unified", "separate"] {
        step(model);
        let win = Window::<u64>::allocate_with(world, 64, &Info::new().with("transom_model", model))?;
        for turn in 1..20u64 {
            let values = [turn; 64];
            if world.rank() == 0 {
                win.lock_all(|epoch| {
                    epoch.put(world.size() - 1, 0, &values)?;
                    epoch.flush(world.size() - 1)
                })?;
            }
            world.barrier()?;
            win.lock_all(|epoch| {
                epoch.sync();
                let mut found = [0; 64];
                win.load(0, &mut found)?;
                assert_eq!(found, if world.rank() + 1 == world.size() { values } else { [0; 64] });
                Ok(())
            })?;
            world.barrier()?;
        }
        win.free()?;
    }
    Ok(())
}

/// A writer stores and synchronizes, then enters a barrier; after the barrier a reader synchronizes
/// and loads.
/// Shows M5, M1, W5.
/// Route: shm.
pub(crate) fn store_sync_barrier_sync_load(world: &Job) -> Outcome {
    let Some(win) = shared(world, 4)? else { return Ok(()) };
    let (next, before) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    win.lock_all(|epoch| {
        for turn in 1..200u64 {
            win.store_to(next, 0, &[turn, world.rank() as u64, turn, turn])?;
            epoch.sync();
            world.barrier()?;
            epoch.sync();
            let mut found = [0; 4];
            win.load(0, &mut found)?;
            assert_eq!(found, [turn, before as u64, turn, turn]);
            world.barrier()?;
        }
        Ok(())
    })?;
    Ok(win.free()?)
}

/// One rank has all the memory and initializes it under an exclusive lock; all ranks load it under
/// shared locks with NOCHECK.
/// Shows M5, W1, W5, S4.
/// Route: shm.
pub(crate) fn one_rank_initializes_for_the_node(world: &Job) -> Outcome {
    const LEN: usize = 10_000;
    let Some(win) = shared(world, if world.rank() == 0 { LEN } else { 0 })? else { return Ok(()) };
    same("all the memory", &win.shared_query(transom::PROC_NULL)?.size(), &(LEN * 8))?;
    if world.rank() == 0 {
        win.lock_with(Lock::Exclusive, 0, Assert::NOCHECK, |_| {
            win.store(0, &(0..LEN as u64).map(|at| at * at).collect::<Vec<_>>())
        })?;
    }
    world.barrier()?;
    let sum = win.lock_with(Lock::Shared, 0, Assert::NOCHECK, |epoch| {
        epoch.sync();
        let mut all = vec![0; LEN];
        win.load_from(0, 0, &mut all)?;
        Ok(all.iter().sum::<u64>())
    })?;
    same("the sum of what all see", &sum, &(0..LEN as u64).map(|at| at * at).sum())?;
    world.barrier()?;
    Ok(win.free()?)
}

/// A rank puts data, flushes, then sets a flag by an atomic. A rank that sees the flag sees the
/// data, in each turn and in both directions.
/// Shows M5, M1, M3, S3.
pub(crate) fn a_flag_tells_of_data(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 33)?;
    let (me, other) = (world.rank(), 1 - world.rank());
    win.lock_all(|epoch| {
        for turn in 1..60u64 {
            step(format!("turn {turn}"));
            let values = [turn * 10 + me as u64; 32];
            epoch.scope(|part| part.put(other, 1, &values))?;
            epoch.swap(other, 0, turn)?;
            while epoch.fetch_value(me, 0)? < turn {
                std::thread::yield_now();
            }
            let mut found = [0; 32];
            epoch.scope(|part| part.get(me, 1, &mut found))?;
            assert_eq!(found, [turn * 10 + other as u64; 32]);
            // The other rank may overwrite the data only after this rank has read it.
            world.barrier()?;
        }
        Ok(())
    })?;
    Ok(win.free()?)
}

//! The calls that make an owner's stores public (MPI-4.1 §12.7 rule 5), and the calls that do not.

use transom::{Assert, Job, Lock};
use transom_harness::{Outcome, ensure, same};

use super::{OWNER, Stage, staged};

/// MPI-4.1 §12.7 rule 5: fence, post, unlock, unlock_all and sync publish the owner's stores;
/// without one of them the stores are public in the unified model only.
/// Shows M1, M2.
pub(crate) fn stores_become_public(world: &Job) -> Outcome {
    staged(world, |stage| {
        passive(stage, "nothing", true, &|stage, value| {
            stage.store(0, value);
            Ok(())
        })?;
        passive(stage, "sync", false, &|stage, value| {
            stage.store(0, value);
            stage.win.sync();
            Ok(())
        })?;
        passive(stage, "unlock", false, &|stage, value| {
            stage.win.lock(Lock::Exclusive, OWNER, Assert::NONE)?;
            stage.store(0, value);
            stage.win.unlock(OWNER)
        })?;
        passive(stage, "unlock of another rank", false, &|stage, value| {
            stage.win.lock(Lock::Exclusive, 0, Assert::NONE)?;
            stage.store(0, value);
            stage.win.unlock(0)
        })?;
        passive(stage, "unlock_all", false, &|stage, value| {
            stage.win.lock_all(Assert::NONE)?;
            stage.store(0, value);
            stage.win.unlock_all()
        })?;
        let value = stage.next()?;
        let mut seen = 0;
        if stage.owner() {
            stage.store(0, value);
            stage.win.post(&[0], Assert::NONE)?;
            stage.win.wait()?;
        } else {
            stage.win.start(&[OWNER], Assert::NONE)?;
            stage.get(OWNER, 0, &mut seen)?;
            stage.win.complete()?;
            same("after post", &seen, &value)?;
        }
        let value = stage.next()?;
        if stage.owner() {
            stage.store(0, value);
        }
        stage.win.fence(Assert::NONE)?;
        if !stage.owner() {
            stage.get(OWNER, 0, &mut seen)?;
        }
        stage.win.fence(Assert::NOSUCCEED)?;
        ensure(stage.owner() || seen == value, "after a fence the store is public")
    })
}

/// The owner runs `acts`. After a barrier the other rank gets the public value, which is the new
/// value, or, if `stale`, the previous value under the separate model.
fn passive(
    stage: &mut Stage<'_>,
    what: &str,
    stale: bool,
    acts: &dyn Fn(&Stage<'_>, u64) -> transom::Result<()>,
) -> Outcome {
    let value = stage.next()?;
    let before = if stage.owner() { 0 } else { stage.seen(OWNER, 0)? };
    stage.world.barrier()?;
    if stage.owner() {
        acts(stage, value)?;
    }
    stage.world.barrier()?;
    if !stage.owner() {
        let expected = if stale { stage.either(value, before) } else { value };
        same(&format!("public after the owner's store and {what}"), &stage.seen(OWNER, 0)?, &expected)?;
    }
    Ok(stage.world.barrier()?)
}

/// MPI-4.1 §12.7 rule 5, Example 11.10 of MPI-3.1: lock, lock_all, flush, start, complete and wait
/// do not publish.
/// Shows M1, M2.
pub(crate) fn calls_that_do_not_publish_stores(world: &Job) -> Outcome {
    staged(world, |stage| {
        for all in [false, true] {
            let value = stage.next()?;
            let before = if stage.owner() { 0 } else { stage.seen(OWNER, 0)? };
            stage.world.barrier()?;
            if stage.owner() {
                stage.store(0, value);
                match all {
                    false => stage.win.lock(Lock::Shared, OWNER, Assert::NONE)?,
                    true => stage.win.lock_all(Assert::NONE)?,
                }
                stage.win.flush(OWNER)?;
                stage.win.flush_all()?;
                stage.win.flush_local_all()?;
            }
            stage.world.barrier()?;
            if !stage.owner() {
                let what = if all { "public after lock_all and flush" } else { "public after lock and flush" };
                same(what, &stage.seen(OWNER, 0)?, &stage.either(value, before))?;
            }
            stage.world.barrier()?;
            if stage.owner() {
                if all { stage.win.unlock_all()? } else { stage.win.unlock(OWNER)? }
            }
            stage.world.barrier()?;
            ensure(stage.owner() || stage.seen(OWNER, 0)? == value, "and it is public after the unlock")?;
        }
        let value = stage.next()?;
        let before = if stage.owner() { 0 } else { stage.seen(OWNER, 0)? };
        stage.world.barrier()?;
        if stage.owner() {
            stage.win.post(&[0], Assert::NONE)?;
            stage.store(0, value);
            stage.win.wait()?;
            stage.win.start(&[0], Assert::NONE)?;
            stage.win.complete()?;
        } else {
            stage.win.start(&[OWNER], Assert::NONE)?;
            stage.win.complete()?;
            stage.win.post(&[OWNER], Assert::NONE)?;
            stage.win.wait()?;
        }
        stage.world.barrier()?;
        if !stage.owner() {
            let expected = stage.either(value, before);
            same("public after wait, start and complete", &stage.seen(OWNER, 0)?, &expected)?;
        }
        Ok(stage.world.barrier()?)
    })
}

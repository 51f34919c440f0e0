//! The calls that make an owner's stores public (MPI-4.1 §12.7 rule 5), and the calls that do not.

use transom::{Assert, Job, Lock};
use transom_harness::{Outcome, ensure, same};

use super::{Fixture, OWNER, under_both_models};

/// MPI-4.1 §12.7 rule 5: fence, post, unlock, unlock_all and sync publish the owner's stores;
/// without one of them the stores are public in the unified model only.
/// Shows M1, M2.
pub(crate) fn stores_become_public(world: &Job) -> Outcome {
    under_both_models(world, |fixture| {
        passive(fixture, "nothing", true, &|fixture, value| {
            fixture.store(0, value);
            Ok(())
        })?;
        passive(fixture, "sync", false, &|fixture, value| {
            fixture.store(0, value);
            fixture.win.sync();
            Ok(())
        })?;
        passive(fixture, "unlock", false, &|fixture, value| {
            fixture.win.lock(Lock::Exclusive, OWNER, Assert::NONE)?;
            fixture.store(0, value);
            fixture.win.unlock(OWNER)
        })?;
        passive(fixture, "unlock of another rank", false, &|fixture, value| {
            fixture.win.lock(Lock::Exclusive, 0, Assert::NONE)?;
            fixture.store(0, value);
            fixture.win.unlock(0)
        })?;
        passive(fixture, "unlock_all", false, &|fixture, value| {
            fixture.win.lock_all(Assert::NONE)?;
            fixture.store(0, value);
            fixture.win.unlock_all()
        })?;
        // The fence waits for nobody, so the ranks may call it at different times.
        if !fixture.is_owner() {
            fixture.win.fence(Assert::NOPRECEDE | Assert::NOSUCCEED)?;
        }
        passive(fixture, "a fence that waits for nobody", false, &|fixture, value| {
            fixture.store(0, value);
            fixture.win.fence(Assert::NOPRECEDE | Assert::NOSUCCEED)
        })?;
        let value = fixture.next_turn()?;
        let mut seen = 0;
        if fixture.is_owner() {
            fixture.store(0, value);
            fixture.win.post(&[0], Assert::NONE)?;
            fixture.win.wait()?;
        } else {
            fixture.win.start(&[OWNER], Assert::NONE)?;
            fixture.get(OWNER, 0, &mut seen)?;
            fixture.win.complete()?;
            same("after post", &seen, &value)?;
        }
        let value = fixture.next_turn()?;
        if fixture.is_owner() {
            fixture.store(0, value);
        }
        fixture.win.fence(Assert::NONE)?;
        if !fixture.is_owner() {
            fixture.get(OWNER, 0, &mut seen)?;
        }
        fixture.win.fence(Assert::NOSUCCEED)?;
        ensure(fixture.is_owner() || seen == value, "after a fence the store is public")
    })
}

/// The owner runs `acts`. After a barrier the other rank gets the public value, which is the new
/// value, or, if `stale`, the previous value under the separate model.
fn passive(
    fixture: &mut Fixture<'_>,
    what: &str,
    stale: bool,
    acts: &dyn Fn(&Fixture<'_>, u64) -> transom::Result<()>,
) -> Outcome {
    let value = fixture.next_turn()?;
    let before = if fixture.is_owner() { 0 } else { fixture.get_now(OWNER, 0)? };
    fixture.world.barrier()?;
    if fixture.is_owner() {
        acts(fixture, value)?;
    }
    fixture.world.barrier()?;
    if !fixture.is_owner() {
        let expected = if stale { fixture.by_model(value, before) } else { value };
        same(&format!("public after the owner's store and {what}"), &fixture.get_now(OWNER, 0)?, &expected)?;
    }
    Ok(fixture.world.barrier()?)
}

/// MPI-4.1 §12.7 rule 5, Example 11.10 of MPI-3.1: lock, lock_all, flush, start, complete and wait
/// do not publish.
/// Shows M1, M2.
pub(crate) fn calls_that_do_not_publish_stores(world: &Job) -> Outcome {
    under_both_models(world, |fixture| {
        for all in [false, true] {
            let value = fixture.next_turn()?;
            let before = if fixture.is_owner() { 0 } else { fixture.get_now(OWNER, 0)? };
            fixture.world.barrier()?;
            if fixture.is_owner() {
                fixture.store(0, value);
                match all {
                    false => fixture.win.lock(Lock::Shared, OWNER, Assert::NONE)?,
                    true => fixture.win.lock_all(Assert::NONE)?,
                }
                fixture.win.flush(OWNER)?;
                fixture.win.flush_all()?;
                fixture.win.flush_local_all()?;
            }
            fixture.world.barrier()?;
            if !fixture.is_owner() {
                let what = if all { "public after lock_all and flush" } else { "public after lock and flush" };
                same(what, &fixture.get_now(OWNER, 0)?, &fixture.by_model(value, before))?;
            }
            fixture.world.barrier()?;
            if fixture.is_owner() {
                if all { fixture.win.unlock_all()? } else { fixture.win.unlock(OWNER)? }
            }
            fixture.world.barrier()?;
            ensure(fixture.is_owner() || fixture.get_now(OWNER, 0)? == value, "and it is public after the unlock")?;
        }
        let value = fixture.next_turn()?;
        let before = if fixture.is_owner() { 0 } else { fixture.get_now(OWNER, 0)? };
        fixture.world.barrier()?;
        if fixture.is_owner() {
            fixture.win.post(&[0], Assert::NONE)?;
            fixture.store(0, value);
            fixture.win.wait()?;
            fixture.win.start(&[0], Assert::NONE)?;
            fixture.win.complete()?;
        } else {
            fixture.win.start(&[OWNER], Assert::NONE)?;
            fixture.win.complete()?;
            fixture.win.post(&[OWNER], Assert::NONE)?;
            fixture.win.wait()?;
        }
        fixture.world.barrier()?;
        if !fixture.is_owner() {
            let expected = fixture.by_model(value, before);
            same("public after wait, start and complete", &fixture.get_now(OWNER, 0)?, &expected)?;
        }
        Ok(fixture.world.barrier()?)
    })
}

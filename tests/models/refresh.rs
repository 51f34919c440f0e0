//! The calls that bring puts and accumulates of others into the private copy (MPI-4.1 §12.7
//! rule 6), and the calls that do not.

use transom::{Assert, Job, Lock, Op, RawWindow};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same};

use super::{Fixture, OWNER, under_both_models};

/// MPI-4.1 §12.7 rule 6: fence, wait, lock, lock_all and sync bring puts and accumulates of others
/// into the private copy; without one of them they arrive in the unified model only.
/// Shows M1, M2.
pub(crate) fn puts_become_private(world: &Job) -> Outcome {
    under_both_models(world, |fixture| {
        type Refresh = fn(&RawWindow) -> transom::Result<()>;
        let ways: [(&str, Refresh, Refresh); 6] = [
            (
                "sync",
                |win| {
                    win.sync();
                    Ok(())
                },
                |_| Ok(()),
            ),
            ("lock", |win| win.lock(Lock::Shared, OWNER, Assert::NONE), |win| win.unlock(OWNER)),
            ("lock of another rank", |win| win.lock(Lock::Exclusive, 0, Assert::NONE), |win| win.unlock(0)),
            ("lock_all", |win| win.lock_all(Assert::NONE), |win| win.unlock_all()),
            ("lock_all without a check", |win| win.lock_all(Assert::NOCHECK), |win| win.unlock_all()),
            // The fence waits for nobody, so the other rank may call it later.
            ("a fence that waits for nobody", |win| win.fence(Assert::NOPRECEDE | Assert::NOSUCCEED), |_| Ok(())),
        ];
        for (what, refresh, end) in ways {
            for accumulate in [false, true] {
                let value = fixture.next_turn()?;
                let before = fixture.load(0);
                fixture.world.barrier()?;
                match (fixture.is_owner(), accumulate) {
                    (true, _) => {}
                    (false, false) => fixture.put_now(OWNER, 0, value)?,
                    (false, true) => {
                        fixture.win.lock_all(Assert::NONE)?;
                        fetch(&fixture.win, OWNER, 0, Op::Replace, value)?;
                        fixture.win.unlock_all()?;
                    }
                }
                fixture.world.barrier()?;
                if fixture.is_owner() {
                    same("private before any call", &fixture.load(0), &fixture.by_model(value, before))?;
                    refresh(&fixture.win)?;
                    same(&format!("private after {what}"), &fixture.load(0), &value)?;
                    end(&fixture.win)?;
                } else if what == "a fence that waits for nobody" {
                    refresh(&fixture.win)?;
                }
            }
        }
        active(fixture)
    })
}

/// The rule for wait, test and fence.
fn active(fixture: &mut Fixture<'_>) -> Outcome {
    for test in [false, true] {
        let value = fixture.next_turn()?;
        if fixture.is_owner() {
            fixture.win.post(&[0], Assert::NONE)?;
            if test {
                while !fixture.win.test()? {
                    std::thread::yield_now();
                }
            } else {
                fixture.win.wait()?;
            }
            same("private after the exposure epoch", &fixture.load(0), &value)?;
        } else {
            fixture.win.start(&[OWNER], Assert::NONE)?;
            fixture.put(OWNER, 0, &value)?;
            fixture.win.complete()?;
        }
    }
    let value = fixture.next_turn()?;
    fixture.win.fence(Assert::NONE)?;
    if !fixture.is_owner() {
        fixture.put(OWNER, 0, &value)?;
    }
    fixture.win.fence(Assert::NOSUCCEED)?;
    ensure(!fixture.is_owner() || fixture.load(0) == value, "private after a fence")
}

/// MPI-4.1 §12.7 rule 6: unlock, unlock_all, flush and post do not refresh the private copy.
/// Shows M1, M2.
pub(crate) fn calls_that_do_not_refresh_the_private_copy(world: &Job) -> Outcome {
    under_both_models(world, |fixture| {
        for (what, all) in [("unlock", false), ("unlock_all", true)] {
            let value = fixture.next_turn()?;
            let before = fixture.load(0);
            if fixture.is_owner() {
                // The epoch must end after the put has arrived, and so begin before it.
                match all {
                    false => fixture.win.lock(Lock::Shared, OWNER, Assert::NONE)?,
                    true => fixture.win.lock_all(Assert::NONE)?,
                }
            }
            fixture.world.barrier()?;
            if !fixture.is_owner() {
                fixture.put_now(OWNER, 0, value)?;
            }
            fixture.world.barrier()?;
            if fixture.is_owner() {
                fixture.win.flush_all()?;
                same("private after flush_all", &fixture.load(0), &fixture.by_model(value, before))?;
                if all {
                    fixture.win.unlock_all()?;
                } else {
                    fixture.win.unlock(OWNER)?;
                }
                same(&format!("private after {what}"), &fixture.load(0), &fixture.by_model(value, before))?;
                fixture.win.sync();
                same("private after sync", &fixture.load(0), &value)?;
            }
        }
        let value = fixture.next_turn()?;
        let before = fixture.load(0);
        fixture.world.barrier()?;
        if fixture.is_owner() {
            fixture.world.barrier()?;
            fixture.win.post(&[0], Assert::NONE)?;
            same("private after post", &fixture.load(0), &fixture.by_model(value, before))?;
            fixture.win.wait()?;
            same("private after wait", &fixture.load(0), &value)?;
        } else {
            fixture.put_now(OWNER, 0, value)?;
            fixture.world.barrier()?;
            fixture.win.start(&[OWNER], Assert::NONE)?;
            fixture.win.complete()?;
        }
        Ok(fixture.world.barrier()?)
    })
}

//! The calls that bring puts and accumulates of others into the private copy (MPI-4.1 §12.7
//! rule 6), and the calls that do not.

use transom::{Assert, Job, Lock, Op, RawWindow};
use transom_harness::{Outcome, ensure, same};

use super::{OWNER, Stage, fetch, staged};

/// MPI-4.1 §12.7 rule 6: fence, wait, lock, lock_all and sync bring puts and accumulates of others
/// into the private copy; without one of them they arrive in the unified model only.
/// Shows M1, M2.
pub(crate) fn puts_become_private(world: &Job) -> Outcome {
    staged(world, |stage| {
        type Refresh = fn(&RawWindow) -> transom::Result<()>;
        let ways: [(&str, Refresh, Refresh); 5] = [
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
        ];
        for (what, refresh, end) in ways {
            for accumulate in [false, true] {
                let value = stage.next()?;
                let before = stage.load(0);
                stage.world.barrier()?;
                match (stage.owner(), accumulate) {
                    (true, _) => {}
                    (false, false) => stage.put_now(OWNER, 0, value)?,
                    (false, true) => {
                        stage.win.lock_all(Assert::NONE)?;
                        fetch(&stage.win, OWNER, 0, Op::Replace, value)?;
                        stage.win.unlock_all()?;
                    }
                }
                stage.world.barrier()?;
                if stage.owner() {
                    same("private before any call", &stage.load(0), &stage.either(value, before))?;
                    refresh(&stage.win)?;
                    same(&format!("private after {what}"), &stage.load(0), &value)?;
                    end(&stage.win)?;
                }
            }
        }
        active(stage)
    })
}

/// The rule for wait, test and fence.
fn active(stage: &mut Stage<'_>) -> Outcome {
    for test in [false, true] {
        let value = stage.next()?;
        if stage.owner() {
            stage.win.post(&[0], Assert::NONE)?;
            if test {
                while !stage.win.test()? {
                    std::thread::yield_now();
                }
            } else {
                stage.win.wait()?;
            }
            same("private after the exposure epoch", &stage.load(0), &value)?;
        } else {
            stage.win.start(&[OWNER], Assert::NONE)?;
            stage.put(OWNER, 0, &value)?;
            stage.win.complete()?;
        }
    }
    let value = stage.next()?;
    stage.win.fence(Assert::NONE)?;
    if !stage.owner() {
        stage.put(OWNER, 0, &value)?;
    }
    stage.win.fence(Assert::NOSUCCEED)?;
    ensure(!stage.owner() || stage.load(0) == value, "private after a fence")
}

/// MPI-4.1 §12.7 rule 6: unlock, unlock_all, flush and post do not refresh the private copy.
/// Shows M1, M2.
pub(crate) fn calls_that_do_not_refresh_the_private_copy(world: &Job) -> Outcome {
    staged(world, |stage| {
        for (what, all) in [("unlock", false), ("unlock_all", true)] {
            let value = stage.next()?;
            let before = stage.load(0);
            if stage.owner() {
                // The epoch must end after the put has arrived, and so begin before it.
                match all {
                    false => stage.win.lock(Lock::Shared, OWNER, Assert::NONE)?,
                    true => stage.win.lock_all(Assert::NONE)?,
                }
            }
            stage.world.barrier()?;
            if !stage.owner() {
                stage.put_now(OWNER, 0, value)?;
            }
            stage.world.barrier()?;
            if stage.owner() {
                stage.win.flush_all()?;
                same("private after flush_all", &stage.load(0), &stage.either(value, before))?;
                if all {
                    stage.win.unlock_all()?;
                } else {
                    stage.win.unlock(OWNER)?;
                }
                same(&format!("private after {what}"), &stage.load(0), &stage.either(value, before))?;
                stage.win.sync();
                same("private after sync", &stage.load(0), &value)?;
            }
        }
        let value = stage.next()?;
        let before = stage.load(0);
        stage.world.barrier()?;
        if stage.owner() {
            stage.world.barrier()?;
            stage.win.post(&[0], Assert::NONE)?;
            same("private after post", &stage.load(0), &stage.either(value, before))?;
            stage.win.wait()?;
            same("private after wait", &stage.load(0), &value)?;
        } else {
            stage.put_now(OWNER, 0, value)?;
            stage.world.barrier()?;
            stage.win.start(&[OWNER], Assert::NONE)?;
            stage.win.complete()?;
        }
        Ok(stage.world.barrier()?)
    })
}

//! Programs whose assertions are false (MPI-4.1 §12.5.5), and the same programs with true ones.

use transom::{Assert, Info, RawWindow};

use super::{Case, Job, Lock, Result, Window};

/// A program and the assertion that a report names, with both calls and places; none if all
/// assertions are true.
const fn asserts(name: &'static str, body: fn(&Job) -> Result<()>, reported: &'static [&'static str]) -> Case {
    Case { name, ranks: 2, body, reported, reports: if reported.is_empty() { 0 } else { 1 } }
}

const NO_PUT: &str = "with MPI_MODE_NOPUT no process puts or accumulates into the part";
const NO_LOCK: &str = "while a lock is held with MPI_MODE_NOCHECK, no other process holds or requests";
const PAIRED: &str = "MPI_MODE_NOCHECK is given by a start and by each matching post, or by none";
const COLLECTIVE: &str = "MPI_MODE_NOPRECEDE and MPI_MODE_NOSUCCEED are each given by all processes";

pub(super) const MISUSES: &[Case] = &[
    asserts(
        "a_put_in_spite_of_noput",
        |world| put_to(world, true),
        &[
            "transom: false assertion about window 1 at rank 0:",
            "  rank 0: post with MPI_MODE_NOPUT, checker::misuse::put_to",
            "  rank 1: put of bytes 8..16, checker::misuse::put_to",
            NO_PUT,
        ],
    ),
    asserts("a_put_behind_a_post_with_noput", |world| put_to(world, false), &[]),
    asserts(
        "an_exclusive_lock_beside_one_without_check",
        |world| locked(world, Assert::NOCHECK),
        &[
            "transom: false assertion about window 1 at rank 0:",
            "  rank 0: exclusive lock with MPI_MODE_NOCHECK, checker::misuse::locked",
            "  rank 1: lock_all, checker::misuse::locked",
            NO_LOCK,
        ],
    ),
    asserts("an_exclusive_lock_behind_another", |world| locked(world, Assert::NONE), &[]),
    asserts(
        "a_start_with_nocheck_and_a_post_without",
        |world| started(world, Assert::NONE),
        &["  rank 0: post, checker::misuse::started", "  rank 1: start with MPI_MODE_NOCHECK, checker::misuse", PAIRED],
    ),
    asserts("a_start_and_a_post_with_nocheck", |world| started(world, Assert::NOCHECK), &[]),
    asserts(
        "a_fence_with_noprecede_at_one_rank",
        |world| fenced(world, Assert::NONE),
        &[
            "transom: false assertion at fences of window 1:",
            "  rank 0: fence, checker::misuse::fenced",
            "  rank 1: fence with MPI_MODE_NOPRECEDE, checker::misuse::fenced",
            COLLECTIVE,
        ],
    ),
    asserts("fences_with_noprecede", |world| fenced(world, Assert::NOPRECEDE), &[]),
];

/// A program that hangs, because `start` waits for the notice of a post that sends none.
pub(super) const UNNOTIFIED: Case =
    asserts("a_post_with_nocheck_and_a_start_without", unnotified, &["  rank 0: post with MPI_MODE_NOCHECK, ", PAIRED]);

/// Rank 0 asserts NOPUT at the first of two posts. Rank 1 puts in the first epoch or in the second.
fn put_to(world: &Job, in_first: bool) -> Result<()> {
    let win = Window::<u64>::allocate(world, 2)?;
    for puts in [in_first, !in_first] {
        if world.rank() == 1 {
            win.start(&[0], |epoch| if puts { epoch.put_value(0, 1, 7) } else { Ok(()) })?;
        } else {
            win.post_with(&[1], if puts == in_first { Assert::NOPUT } else { Assert::NONE })?;
            win.wait()?;
        }
    }
    win.free()
}

/// Rank 0 holds a lock of its part. With NOCHECK rank 1 can take one too.
fn locked(world: &Job, assert: Assert) -> Result<()> {
    let win = Window::<u64>::allocate(world, 2)?;
    let meets = assert == Assert::NOCHECK;
    if world.rank() == 0 {
        win.lock_with(Lock::Exclusive, 0, assert, |_| {
            world.barrier()?;
            if meets { world.barrier() } else { Ok(()) }
        })?;
    } else {
        world.barrier()?;
        win.lock_all(|_| if meets { world.barrier() } else { Ok(()) })?;
    }
    win.free()
}

/// Rank 1 starts with NOCHECK behind the post of rank 0. Two epochs without assertions follow: the
/// notice of a post must not open a later epoch.
fn started(world: &Job, of_post: Assert) -> Result<()> {
    let win = Window::<u64>::allocate(world, 2)?;
    if world.rank() == 0 {
        win.post_with(&[1], of_post)?;
        world.barrier()?;
        win.wait()?;
        for turn in 0..2 {
            std::thread::sleep(std::time::Duration::from_millis(30));
            win.store(1, &[turn])?;
            win.post(&[1])?;
            win.wait()?;
        }
        return win.free();
    }
    world.barrier()?;
    win.start_with(&[0], Assert::NOCHECK, |epoch| epoch.put_value(0, 0, 7))?;
    for turn in 0..2 {
        let mut seen = [9];
        win.start(&[0], |epoch| epoch.get(0, 1, &mut seen))?;
        assert_eq!(seen, [turn], "the epoch has waited for its post");
    }
    win.free()
}

fn unnotified(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 2)?;
    if world.rank() == 0 {
        win.post_with(&[1], Assert::NOCHECK)?;
        win.wait()?;
    } else {
        win.start(&[0], |epoch| epoch.put_value(0, 0, 7))?;
    }
    win.free()
}

/// The fences differ in NOPRECEDE, or in assertions that need not agree.
fn fenced(world: &Job, of_first: Assert) -> Result<()> {
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    let own = if world.rank() == 0 { of_first } else { Assert::NOPRECEDE | Assert::NOPUT };
    win.fence(own)?;
    win.fence(Assert::NOSUCCEED)?;
    win.free()
}

//! No starvation (MPI-4.1 §12.5.3, requirement S2): other ranks lock without pause until rank 0,
//! which they might starve, has had its turns.

use std::time::Duration;

use transom::{Job, Lock, LockAllEpoch, Window, ops};
use transom_harness::{Outcome, ensure, step};

/// The turns that rank 0 must get.
const TURNS: u64 = 10;

/// Locks of another rank since rank 0's last turn at which a rank counts as starving: many more
/// than a rank takes while rank 0 is not scheduled.
const MANY: u64 = 2_000_000;
/// The same for locks that are held for [`HELD`].
const MANY_LONG: u64 = 2000;
const HELD: Duration = Duration::from_millis(5);

/// Rank 0 takes its turns by `one`, which counts them in a word. All others repeat `stream`, which
/// returns this word, until it returns the last turn. A rank that has locked `many` times since the
/// last turn fails.
fn starve(
    world: &Job,
    many: u64,
    one: fn(&Window<u64>) -> transom::Result<()>,
    stream: fn(&Window<u64>) -> transom::Result<u64>,
) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    // In a window of its own, at rank 0: the number of the others' locks.
    let locks = Window::<u64>::allocate(world, 1)?;
    stream(&win)?;
    world.barrier()?;
    let since_last_turn = locks.lock_all(|locks| {
        if world.rank() == 0 {
            return take_turns(locks, world.size() as u64 - 1, || one(&win)).map(|()| 0);
        }
        lock_until_last_turn(many, || {
            locks.accumulate(0, 0, &[1], ops::Sum)?;
            stream(&win)
        })
    })?;
    ensure(since_last_turn < many, &format!("no rank starves while another one locks {many} times"))?;
    world.barrier()?;
    locks.free()?;
    Ok(win.free()?)
}

/// Rank 0's turns. Between two turns the `others` have taken as many locks as there are others.
fn take_turns(
    locks: &LockAllEpoch<'_, '_, u64>,
    others: u64,
    one: impl Fn() -> transom::Result<()>,
) -> transom::Result<()> {
    for turn in 0..TURNS {
        step(format!("before turn {turn}, until others have locked"));
        let before = locks.fetch_value(0, 0)?;
        while locks.fetch_value(0, 0)? < before + others {
            std::thread::yield_now();
        }
        step(format!("turn {turn}"));
        one()?;
    }
    Ok(())
}

/// Repeats `stream` until rank 0 has had its last turn, or until `many` locks after an earlier one.
/// Returns the number of this rank's locks since rank 0's last turn.
fn lock_until_last_turn(many: u64, stream: impl Fn() -> transom::Result<u64>) -> transom::Result<u64> {
    let (mut turns, mut since) = (0, 0);
    while turns < TURNS && since < many {
        let found = stream()?;
        since += 1;
        if found > turns {
            (turns, since) = (found, 0);
            step(format!("locks after turn {turns} of rank 0"));
        }
    }
    Ok(since)
}

fn write(win: &Window<u64>) -> transom::Result<()> {
    win.lock(Lock::Exclusive, 1, |epoch| {
        let seen = epoch.fetch_value(1, 0)?;
        epoch.put_value(1, 0, seen + 1)
    })
}

fn read(win: &Window<u64>) -> transom::Result<u64> {
    win.lock(Lock::Shared, 1, |epoch| {
        let seen = epoch.fetch_value(1, 0)?;
        std::thread::yield_now();
        Ok(seen)
    })
}

fn alone(win: &Window<u64>) -> transom::Result<u64> {
    win.lock(Lock::Exclusive, 1, |epoch| epoch.fetch_value(1, 0))
}

/// A writer that holds the lock nearly all the time.
fn long(win: &Window<u64>) -> transom::Result<u64> {
    win.lock(Lock::Exclusive, 1, |epoch| {
        std::thread::sleep(HELD);
        epoch.fetch_value(1, 0)
    })
}

/// A writer gets the lock beside one that unlocks it and at once locks it again.
/// Shows S2, S6.
pub(crate) fn writers_among_themselves(world: &Job) -> Outcome {
    starve(world, MANY_LONG, write, long)
}

/// A writer gets the lock while readers request it without pause.
/// Shows S2, S6.
pub(crate) fn writers(world: &Job) -> Outcome {
    starve(world, MANY, write, read)
}

/// A reader gets the lock while writers request it without pause.
/// Shows S2, S6.
pub(crate) fn readers(world: &Job) -> Outcome {
    starve(world, MANY, |win| win.lock(Lock::Shared, 1, |epoch| epoch.fetch_add(1, 0, 1u64)).map(drop), alone)
}

/// `lock_all` gets its locks while writers request theirs without pause, and a writer gets its lock
/// while other ranks call `lock_all` without pause.
/// Shows S2, S6.
pub(crate) fn holders_of_all(world: &Job) -> Outcome {
    starve(world, MANY, |win| win.lock_all(|epoch| epoch.fetch_add(1, 0, 1u64)).map(drop), alone)?;
    starve(world, MANY, write, |win| win.lock_all(|epoch| epoch.fetch_value(1, 0)))
}

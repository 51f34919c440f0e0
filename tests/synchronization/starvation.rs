//! No starvation (MPI-4.1 §12.5.3, requirement S2): other ranks lock without pause until rank 0,
//! which they might starve, has had its turns. A test fails by the watchdog's time limit.

use std::time::Duration;

use transom::{Job, Lock, Window};
use transom_harness::{Outcome, step};

/// The turns that rank 0 must get.
const TURNS: u64 = 10;

/// Rank 0 takes its turns by `one`, which counts them in a word. All others repeat `stream` until
/// it returns the last turn.
fn starve(
    world: &Job,
    one: fn(&Window<u64>) -> transom::Result<()>,
    stream: fn(&Window<u64>) -> transom::Result<u64>,
) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    stream(&win)?;
    world.barrier()?;
    if world.rank() == 0 {
        for turn in 0..TURNS {
            step(format!("turn {turn}"));
            one(&win)?;
        }
    } else {
        step("the stream");
        while stream(&win)? < TURNS {}
    }
    world.barrier()?;
    Ok(win.free()?)
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
        std::thread::sleep(Duration::from_millis(5));
        epoch.fetch_value(1, 0)
    })
}

/// A writer gets the lock beside one that unlocks it and at once locks it again.
/// Shows S2, S6.
pub(crate) fn writers_among_themselves(world: &Job) -> Outcome {
    starve(world, write, long)
}

/// A writer gets the lock while readers request it without pause.
/// Shows S2, S6.
pub(crate) fn writers(world: &Job) -> Outcome {
    starve(world, write, read)
}

/// A reader gets the lock while writers request it without pause.
/// Shows S2, S6.
pub(crate) fn readers(world: &Job) -> Outcome {
    starve(world, |win| win.lock(Lock::Shared, 1, |epoch| epoch.fetch_add(1, 0, 1u64)).map(drop), alone)
}

/// `lock_all` gets its locks while writers request theirs without pause, and a writer gets its lock
/// while other ranks call `lock_all` without pause.
/// Shows S2, S6.
pub(crate) fn holders_of_all(world: &Job) -> Outcome {
    starve(world, |win| win.lock_all(|epoch| epoch.fetch_add(1, 0, 1u64)).map(drop), alone)?;
    starve(world, write, |win| win.lock_all(|epoch| epoch.fetch_value(1, 0)))
}

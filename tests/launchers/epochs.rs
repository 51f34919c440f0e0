//! Each kind of epoch once, among any number of ranks, with data that shows the epoch's guarantee.

use transom::{Job, Lock, Window};
use transom_harness::Outcome;

/// The number of ranks after its own to which each rank puts: all others where ranks are few.
const PARTNERS: usize = 3;

fn targets(world: &Job) -> Vec<usize> {
    let size = world.size();
    (1..size.min(PARTNERS + 1)).map(|ahead| (world.rank() + ahead) % size).collect()
}

fn origins(world: &Job) -> Vec<usize> {
    let size = world.size();
    (1..size.min(PARTNERS + 1)).map(|behind| (world.rank() + size - behind) % size).collect()
}

fn of_rank(rank: usize) -> u64 {
    rank as u64 + 1
}

/// A window with one word for each rank; after `put` has run everywhere, each rank finds the words
/// of its origins and no other.
fn exchange(world: &Job, put: impl FnOnce(&Window<u64>) -> transom::Result<()>) -> Outcome {
    let win = Window::<u64>::allocate(world, world.size())?;
    put(&win)?;
    world.barrier()?;
    win.sync();
    let mut found = vec![0; world.size()];
    win.load(0, &mut found)?;
    let mut expected = vec![0; world.size()];
    for origin in origins(world) {
        expected[origin] = of_rank(origin);
    }
    if found != expected {
        return Err(format!("rank {} found {found:?} instead of {expected:?}", world.rank()).into());
    }
    Ok(win.free()?)
}

pub(super) fn fence(world: &Job) -> Outcome {
    let me = world.rank();
    exchange(world, |win| {
        win.fence(|epoch| targets(world).into_iter().try_for_each(|to| epoch.put_value(to, me, of_rank(me))))
    })
}

pub(super) fn post_start(world: &Job) -> Outcome {
    let (me, targets) = (world.rank(), targets(world));
    exchange(world, |win| {
        win.post(&origins(world))?;
        win.start(&targets, |epoch| targets.iter().try_for_each(|&to| epoch.put_value(to, me, of_rank(me))))?;
        win.wait()
    })
}

/// A counter that is read and written without atomics: only the lock separates the increments.
pub(super) fn lock(world: &Job) -> Outcome {
    const TURNS: u64 = 5;
    let win = Window::<u64>::allocate(world, 1)?;
    for _ in 0..TURNS {
        win.lock(Lock::Exclusive, 0, |epoch| {
            let seen = epoch.fetch_value(0, 0)?;
            epoch.put_value(0, 0, seen + 1)
        })?;
    }
    world.barrier()?;
    let counted = win.lock(Lock::Shared, 0, |epoch| epoch.fetch_value(0, 0))?;
    if counted != TURNS * world.size() as u64 {
        return Err(format!("{} turns of {} ranks counted {counted}", TURNS, world.size()).into());
    }
    world.barrier()?;
    Ok(win.free()?)
}

/// Flushed data is there for a rank that is notified by another operation.
pub(super) fn lock_all(world: &Job) -> Outcome {
    let me = world.rank();
    let next = (me + 1) % world.size();
    let win = Window::<u64>::allocate(world, 2)?;
    win.lock_all(|epoch| {
        epoch.put_value(next, 0, of_rank(me))?;
        epoch.flush(next)?;
        epoch.fetch_add(next, 1, 1)?;
        while epoch.fetch_value(me, 1)? == 0 {
            std::thread::yield_now();
        }
        let before = (me + world.size() - 1) % world.size();
        match epoch.fetch_value(me, 0)? {
            found if found == of_rank(before) => Ok(()),
            found => panic!("rank {me} was notified and found {found}"),
        }
    })?;
    Ok(win.free()?)
}

//! What ranks do under a launcher: each kind of epoch once, with data that shows it, and the ways in which jobs fail.

use std::error::Error;
use std::time::Duration;

use transom::bootstrap::{Bootstrap, MAX_GATHERED, detect};
use transom::{Job, Lock, Window};

pub(super) type Done = Result<(), Box<dyn Error>>;

/// What a failing rank says, and with which status it ends.
pub(super) const REASON: &str = "the answer is too large";
pub(super) const STATUS: u8 = 42;

/// Longer than any of this takes on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs the body `name` as a rank.
pub(super) fn run(name: &str) -> Done {
    std::thread::spawn(|| {
        std::thread::sleep(WATCHDOG);
        eprintln!("watchdog: this rank did not end within {WATCHDOG:?}");
        std::process::abort();
    });
    match name {
        "fence" => job(fence),
        "post_start" => job(post_start),
        "lock" => job(lock),
        "lock_all" => job(lock_all),
        "fail" => job(fail),
        "values" => values(detect()?.as_mut()),
        "abort" => abort(detect()?.as_mut()),
        other => Err(format!("no body is called {other:?}").into()),
    }
}

fn job(body: fn(&Job) -> Done) -> Done {
    let world = transom::init()?;
    println!("joined as rank {} of {}", world.rank(), world.size());
    if let Err(error) = body(&world) {
        // Without a window that was lost, leaving would wait for the others, who may wait for this one.
        std::mem::forget(world);
        return Err(error);
    }
    Ok(world.finalize()?)
}

/// A window of one word for each rank; `put` is done where all are, and every rank then finds what `expected` says of each.
fn exchange(world: &Job, put: impl FnOnce(&Window<u64>) -> transom::Result<()>, expected: fn(usize) -> u64) -> Done {
    let win = Window::<u64>::allocate(world, world.size())?;
    put(&win)?;
    world.barrier()?;
    win.sync();
    let mut found = vec![0; world.size()];
    win.load(0, &mut found)?;
    let expected: Vec<u64> = (0..world.size()).map(expected).collect();
    if found != expected {
        return Err(format!("rank {} found {found:?} instead of {expected:?}", world.rank()).into());
    }
    Ok(win.free()?)
}

fn of_rank(rank: usize) -> u64 {
    rank as u64 + 1
}

/// Every rank puts to every rank.
fn fence(world: &Job) -> Done {
    let me = world.rank();
    let all = 0..world.size();
    exchange(
        world,
        |win| win.fence(|epoch| all.clone().try_for_each(|to| epoch.put_value(to, me as u64, of_rank(me)))),
        of_rank,
    )
}

/// The same among groups of all.
fn post_start(world: &Job) -> Done {
    let me = world.rank();
    let all: Vec<usize> = (0..world.size()).collect();
    let put = |win: &Window<u64>| {
        win.post(&all)?;
        win.start(&all, |epoch| all.iter().try_for_each(|&to| epoch.put_value(to, me as u64, of_rank(me))))?;
        win.wait()
    };
    exchange(world, put, of_rank)
}

/// A counter that is read and written, not added to: only a lock keeps the turns apart.
fn lock(world: &Job) -> Done {
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

/// What was flushed is there for whoever is told by another operation.
fn lock_all(world: &Job) -> Done {
    let me = world.rank();
    let next = (me + 1) % world.size();
    let win = Window::<u64>::allocate(world, 2)?;
    win.lock_all(|epoch| {
        epoch.put_value(next, 0, of_rank(me))?;
        epoch.flush(next)?;
        epoch.fetch_add(next, 1, 1)?;
        while epoch.fetch_value(me, 1)? == 0 {}
        let before = (me + world.size() - 1) % world.size();
        match epoch.fetch_value(me, 0)? {
            found if found == of_rank(before) => Ok(()),
            found => panic!("rank {me} was told and found {found}"),
        }
    })?;
    Ok(win.free()?)
}

/// One rank ends with an error while the others wait for it.
fn fail(world: &Job) -> Done {
    world.barrier()?;
    if world.rank() == 1 {
        return Err(REASON.into());
    }
    Ok(world.barrier()?)
}

fn abort(boot: &mut dyn Bootstrap) -> Done {
    boot.barrier()?;
    if boot.rank() == 1 {
        boot.abort(STATUS.into(), REASON)?;
        return Err("aborted".into());
    }
    // The launcher ends it.
    std::thread::sleep(WATCHDOG);
    Ok(())
}

/// The store of the launcher: any bytes, of any length; a key that nobody wrote; a key written twice.
fn values(boot: &mut dyn Bootstrap) -> Done {
    let (me, size) = (boot.rank(), boot.size());
    boot.put(&format!("k{me}"), &[u8::try_from(me)?, 0, b' ', b'\n'])?;
    boot.put(&format!("empty{me}"), b"")?;
    boot.barrier()?;
    for rank in 0..size {
        assert_eq!(boot.get(rank, &format!("k{rank}"))?, Some(vec![u8::try_from(rank)?, 0, b' ', b'\n']));
        assert_eq!(boot.get(rank, &format!("empty{rank}"))?, Some(Vec::new()));
        assert_eq!(boot.get(rank, "nobody")?, None);
    }
    assert!(boot.put(&format!("k{me}"), b"x").is_err());
    // Nothing, one piece and its neighbour, the greatest.
    let edge = boot.value_limit().min(MAX_GATHERED) - 4;
    let length = |rank: usize| [0, edge, edge + 1, MAX_GATHERED][rank % 4];
    let value = |rank: usize| vec![u8::try_from(rank + 1).unwrap_or(u8::MAX); length(rank)];
    assert!(boot.allgather("lengths", &value(me))?.into_iter().eq((0..size).map(value)));
    println!("joined as rank {me} of {size}");
    Ok(boot.finalize()?)
}

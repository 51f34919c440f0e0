//! More notices to one rank than its message ring has room for (MPI-4.1 §12.5.2): `post` waits for
//! no other rank, whatever that rank does.

use std::time::{Duration, Instant};

use transom::{Assert, Info, Job, Op, RawWindow};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same, step};

use crate::word;

/// With 16 ranks 7 posts to a window find no free word and become messages: 168 in all, and a ring
/// has room for 128.
const WINDOWS: usize = 24;
/// Time after which a waiting rank is taken to hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn windows(world: &Job) -> transom::Result<Vec<RawWindow>> {
    (0..WINDOWS).map(|_| RawWindow::allocate(world, 8, 8, &Info::new())).collect()
}

/// All ranks but 0 expose all windows to rank 0.
fn post(world: &Job, windows: &[RawWindow]) -> transom::Result<()> {
    if world.rank() == 0 { Ok(()) } else { windows.iter().try_for_each(|win| win.post(&[0], Assert::NONE)) }
}

/// Rank 0 accesses the exposed windows of all others; the others only post and wait.
fn access(world: &Job, windows: &[RawWindow], value: u64) -> Outcome {
    if world.rank() > 0 {
        return Ok(());
    }
    let others: Vec<usize> = (1..world.size()).collect();
    for win in windows {
        win.start(&others, Assert::NONE)?;
        others.iter().try_for_each(|&to| fetch(win, to, 0, Op::Replace, value).map(drop))?;
        win.complete()?;
    }
    Ok(())
}

fn wait(world: &Job, windows: &[RawWindow], value: u64) -> Outcome {
    for win in windows.iter().filter(|_| world.rank() > 0) {
        win.wait()?;
        same("what rank 0 put", &word(win, 0), &value)?;
    }
    Ok(())
}

/// MPI-4.1 §12.5.2: all other ranks post while rank 0 sleeps in a barrier, which they enter after
/// their posts. They sleep in the next barrier while rank 0 awaits the posts.
/// Shows S1.
pub(crate) fn in_a_barrier(world: &Job) -> Outcome {
    let windows = windows(world)?;
    for turn in 1..=3 {
        step(format!("posts of turn {turn}"));
        post(world, &windows)?;
        step(format!("barrier of turn {turn}"));
        world.barrier()?;
        step(format!("access of turn {turn}"));
        access(world, &windows, turn)?;
        world.barrier()?;
        wait(world, &windows, turn)?;
        world.barrier()?;
    }
    Ok(windows.iter().try_for_each(RawWindow::free)?)
}

/// Waits without a call that makes progress until the word has reached `value`.
fn compute_until(win: &RawWindow, value: u64, what: &str) -> Outcome {
    step(what);
    let start = Instant::now();
    while word(win, 0) < value {
        ensure(start.elapsed() < PATIENCE, what)?;
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// MPI-4.1 §12.5.2, §12.7.3: rank 0 computes until all others have posted. Then the others compute
/// until rank 0 has ended its access epochs, for which it needs their posts.
/// Shows S1, S5.
pub(crate) fn of_a_computing_rank(world: &Job) -> Outcome {
    let windows = windows(world)?;
    let flag = RawWindow::allocate(world, 8, 8, &Info::new())?;
    let others = world.size() - 1;
    flag.lock_all(Assert::NONE)?;
    for turn in 1..=3 {
        step(format!("posts of turn {turn}"));
        post(world, &windows)?;
        if world.rank() == 0 {
            compute_until(&flag, turn * others as u64, "the posts of all others")?;
        } else {
            fetch(&flag, 0, 0, Op::Sum, 1)?;
        }
        access(world, &windows, turn)?;
        if world.rank() == 0 {
            (1..=others).try_for_each(|to| fetch(&flag, to, 0, Op::Replace, turn).map(drop))?;
        } else {
            compute_until(&flag, turn, "the access epochs of rank 0")?;
        }
        wait(world, &windows, turn)?;
        world.barrier()?;
    }
    flag.unlock_all()?;
    flag.free()?;
    Ok(windows.iter().try_for_each(RawWindow::free)?)
}

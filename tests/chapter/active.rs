//! Examples 11.4, 11.5 and 11.13 to 11.17, figures 11.6 to 11.8 (numbers of MPI-3.1): active target
//! synchronization, and which call waits for which.

use std::time::Duration;

use transom::{Job, Lock, RawWindow, Window};
use transom_harness::{Outcome, ensure, same, step};

/// Rank 0 puts to two targets in one epoch; each target exposes its part to rank 0.
/// Shows M5, S1.
pub(crate) fn start_put_complete(world: &Job) -> Outcome {
    let win = Window::<u32>::allocate(world, 2)?;
    match world.rank() {
        0 => win.start(&[1, 2], |epoch| {
            epoch.put_value(1, 0, 11u32)?;
            epoch.put_value(2, 1, 22u32)
        })?,
        _ => win.post(&[0]).and_then(|()| win.wait())?,
    }
    let mut found = [0; 2];
    win.load(0, &mut found)?;
    same("what was put", &found, &[[0, 0], [11, 0], [0, 22]][world.rank()])?;
    Ok(win.free()?)
}

/// Shows M5, S2.
pub(crate) fn lock_put_unlock(world: &Job) -> Outcome {
    let win = Window::<u32>::allocate(world, 1)?;
    if world.rank() == 0 {
        win.lock(Lock::Exclusive, 1, |epoch| epoch.put_value(1, 0, 5u32))?;
    }
    world.barrier()?;
    win.sync();
    let mut found = [0];
    win.load(0, &mut found)?;
    same("what was put", &found[0], &if world.rank() == 1 { 5 } else { 0 })?;
    world.barrier()?;
    Ok(win.free()?)
}

/// A chain of cells, each of which becomes the mean of its neighbours; the ends of a rank's part
/// come from the neighbouring ranks.
struct Chain {
    left: usize,
    right: usize,
    cells: Vec<f64>,
}

/// Cells of each rank, without the two that its neighbours put.
const CELLS: usize = 20;
const TURNS: usize = 12;

impl Chain {
    fn new(world: &Job) -> Chain {
        let (me, size) = (world.rank(), world.size());
        let mut cells: Vec<f64> = (0..CELLS).map(|at| (me * CELLS + at) as f64).collect();
        cells.insert(0, 0.0);
        cells.push(0.0);
        Chain { left: (me + size - 1) % size, right: (me + 1) % size, cells }
    }

    fn update(&mut self) {
        let old = self.cells.clone();
        (1..=CELLS).for_each(|at| self.cells[at] = (old[at - 1] + old[at + 1]) / 2.0);
    }

    /// Computes the whole ring at one rank; returns this rank's part.
    fn expected(world: &Job) -> Vec<f64> {
        let mut ring: Vec<f64> = (0..CELLS * world.size()).map(|at| at as f64).collect();
        let len = ring.len();
        for _ in 0..TURNS {
            let old = ring.clone();
            (0..len).for_each(|at| ring[at] = (old[(at + len - 1) % len] + old[(at + 1) % len]) / 2.0);
        }
        ring[world.rank() * CELLS..(world.rank() + 1) * CELLS].to_vec()
    }

    /// Copies the cells that the neighbours put.
    fn borders(&mut self, win: &Window<f64>) -> transom::Result<()> {
        let mut put = [0.0; 2];
        win.load(0, &mut put)?;
        (self.cells[0], self.cells[CELLS + 1]) = (put[0], put[1]);
        Ok(())
    }

    fn put(&self, epoch: &transom::Access<'_, '_, f64>) -> transom::Result<()> {
        epoch.put_value(self.left, 1, self.cells[1])?;
        epoch.put_value(self.right, 0, self.cells[CELLS])
    }
}

/// Example 11.13, and 11.14, which computes between the fences.
/// Shows M5, S1.
pub(crate) fn phases_by_fences(world: &Job) -> Outcome {
    let (win, mut chain) = (Window::<f64>::allocate(world, 2)?, Chain::new(world));
    for _ in 0..TURNS {
        win.fence(|epoch| {
            chain.put(epoch)?;
            // The computation of 11.14.
            std::hint::black_box(chain.cells[2..CELLS].iter().sum::<f64>());
            Ok(())
        })?;
        chain.borders(&win)?;
        chain.update();
        // The neighbours make their next puts after this rank has used these cells.
        world.barrier()?;
    }
    same("the chain", &chain.cells[1..=CELLS].to_vec(), &Chain::expected(world))?;
    Ok(win.free()?)
}

/// Example 11.15, and 11.16, which computes between start and wait.
/// Shows M5, S1.
pub(crate) fn phases_by_posts(world: &Job) -> Outcome {
    let (win, mut chain) = (Window::<f64>::allocate(world, 2)?, Chain::new(world));
    let mut group = vec![chain.left, chain.right];
    group.dedup();
    for turn in 0..TURNS {
        step(format!("turn {turn}"));
        win.post(&group)?;
        win.start(&group, |epoch| chain.put(epoch))?;
        // The computation of 11.16.
        std::hint::black_box(chain.cells[2..CELLS].iter().sum::<f64>());
        win.wait()?;
        chain.borders(&win)?;
        chain.update();
    }
    same("the chain", &chain.cells[1..=CELLS].to_vec(), &Chain::expected(world))?;
    Ok(win.free()?)
}

/// Example 11.17: two windows take turns, one exposed while the other's values are computed.
/// Shows M5, S1, W7.
pub(crate) fn double_buffers(world: &Job) -> Outcome {
    let windows = [Window::<u64>::allocate(world, 1)?, Window::<u64>::allocate(world, 1)?];
    let (left, right) = ((world.rank() + world.size() - 1) % world.size(), (world.rank() + 1) % world.size());
    windows[0].post(&[left])?;
    for turn in 0..10u64 {
        step(format!("turn {turn}"));
        let (now, next) = (&windows[usize::from(turn % 2 == 1)], &windows[usize::from(turn % 2 == 0)]);
        if turn < 9 {
            next.post(&[left])?;
        }
        now.start(&[right], |epoch| epoch.put_value(right, 0, turn * 100 + world.rank() as u64))?;
        now.wait()?;
        let mut found = [0];
        now.load(0, &mut found)?;
        same("from the left", &found[0], &(turn * 100 + left as u64))?;
    }
    let [first, second] = windows;
    first.free()?;
    Ok(second.free()?)
}

/// Figure 11.6: both ranks post, start, put, complete and wait; no rank waits for ever.
/// Shows M5, S1.
pub(crate) fn symmetric_exchange(world: &Job) -> Outcome {
    let (win, other) = (Window::<u64>::allocate(world, 1)?, 1 - world.rank());
    for turn in 1..50u64 {
        step(format!("turn {turn}"));
        win.post(&[other])?;
        win.start(&[other], |epoch| epoch.put_value(other, 0, turn))?;
        win.wait()?;
        let mut found = [0];
        win.load(0, &mut found)?;
        same("from the other", &found[0], &turn)?;
    }
    Ok(win.free()?)
}

/// Figure 11.7: the target's wait does not end before the origin's complete; the program of the
/// figure would deadlock because of it.
/// Shows M5, S1.
pub(crate) fn wait_waits_for_complete(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 8, 8, &transom::Info::new())?;
    let flag = Window::<u32>::allocate(world, 1)?;
    if world.rank() == 0 {
        win.start(&[1], transom::Assert::NONE)?;
        // The figure's receive before complete: the rank waits for a word of the other rank.
        flag.lock_all(|epoch| {
            while epoch.fetch_value(0, 0)? == 0 {
                std::thread::yield_now();
            }
            Ok(())
        })?;
        win.complete()?;
    } else {
        win.post(&[0], transom::Assert::NONE)?;
        let mut ended = false;
        for _ in 0..50 {
            ended |= win.test()?;
            std::thread::sleep(Duration::from_micros(200));
        }
        ensure(!ended, "the exposure ended before the origin completed")?;
        flag.lock_all(|epoch| epoch.swap(0, 0, 1u32).map(drop))?;
        win.wait()?;
    }
    win.free()?;
    Ok(flag.free()?)
}

/// Figure 11.8: complete ends before the target has called wait; wait does not end before the
/// origin's complete.
/// Shows M5, S1.
pub(crate) fn complete_does_not_wait(world: &Job) -> Outcome {
    let win = Window::<u64>::allocate(world, 1)?;
    let flag = Window::<u32>::allocate(world, 1)?;
    if world.rank() == 0 {
        win.start(&[1], |epoch| epoch.put_value(1, 0, 8u64))?;
        flag.lock_all(|epoch| epoch.swap(1, 0, 1u32).map(drop))?;
    } else {
        win.post(&[0])?;
        // The figure's receive before wait.
        flag.lock_all(|epoch| {
            while epoch.fetch_value(1, 0)? == 0 {
                std::thread::yield_now();
            }
            Ok(())
        })?;
        win.wait()?;
        let mut found = [0];
        win.load(0, &mut found)?;
        same("what was put", &found[0], &8)?;
    }
    world.barrier()?;
    flag.free()?;
    Ok(win.free()?)
}

//! A long wait for operations in flight holds back operations that begin meanwhile, so that it
//! ends: several such waits at once, and the operations that they hold back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transom::{Assert, At, BasicType, Datatype, Info, Lock, RawWindow, Window};
use transom_fabric::sim::SimAmo;

use super::simulated::{Rank, peer, run, same};
use super::{answered_late, await_at_least};

/// Long enough for a wait to hold operations back, with much to spare.
const LONG: Duration = Duration::from_millis(400);

/// Ranks 1 and 2, which take no messages at first.
#[derive(Default)]
struct Stopped {
    /// The flush of rank 1 has returned.
    is_flushed: AtomicBool,
    /// Rank 2 takes messages again.
    is_over: AtomicBool,
}

// Relaxed throughout: the flags publish no other data.
impl Stopped {
    fn begin(&self, world: &Rank) {
        [1, 2].into_iter().for_each(|rank| world.net().stop_messages_to(peer(rank)));
    }

    /// Rank 1 takes messages again after a while, and rank 2 a while after the flush of rank 1.
    fn end(&self, world: &Rank) {
        std::thread::sleep(LONG);
        world.net().resume_messages_to(peer(1));
        await_at_least(|| self.is_flushed.load(Ordering::Relaxed).into(), 1);
        std::thread::sleep(LONG);
        self.is_over.store(true, Ordering::Relaxed);
        world.net().resume_messages_to(peer(2));
    }

    /// Wakes waiting threads again and again, by answers of rank 3.
    fn wake(&self, win: &Window<u64>) -> transom::Result<()> {
        win.lock(Lock::Shared, 3, |epoch| {
            while !self.is_over.load(Ordering::Relaxed) {
                epoch.fetch_add(3, 0, 1)?;
            }
            Ok(())
        })
    }

    /// Runs `body`, which returns whether the call was held back, while the ranks are stopped.
    fn beside(
        &self,
        world: &Rank,
        other: &Window<u64>,
        body: impl FnOnce() -> transom::Result<bool>,
    ) -> transom::Result<()> {
        std::thread::scope(|threads| {
            threads.spawn(|| self.end(world));
            let wakes = threads.spawn(|| self.wake(other));
            let is_held_back = body();
            wakes.join().expect("no thread panics")?;
            same("the call waits for the flush of all targets", &is_held_back?, &true).expect("it was held back");
            Ok(())
        })
    }
}

/// One thread flushes all targets and another one flushes rank 1. Both flushes take long, and the
/// flush of rank 1 ends first. A put to rank 1 then still waits for the flush of all targets.
/// Regression: the end of one flush released the operations that another one held back.
/// Shows S2.
#[test]
fn the_end_of_a_wait_releases_no_operation_that_another_one_holds_back() {
    run(4, &answered_late(SimAmo::None), |world: &Rank| {
        let [win, other] = [Window::<u64>::allocate(world, 4)?, Window::<u64>::allocate(world, 4)?];
        world.barrier()?;
        if world.rank() == 0 {
            let blocks = Datatype::vector(2, 1, 2, &Datatype::basic(BasicType::Uint64))?;
            let stopped = Stopped::default();
            win.lock_all(|epoch| {
                let put = |rank: usize| epoch.put_items(&[4, 9, 4], 1, &blocks, At::new(rank, 0, 1, &blocks));
                stopped.begin(world);
                put(1).and(put(2))?;
                world.step("puts after the flush of rank 1");
                std::thread::scope(|threads| {
                    let flushes_all = threads.spawn(|| epoch.flush_all());
                    stopped.beside(world, &other, || {
                        epoch.flush(1)?;
                        stopped.is_flushed.store(true, Ordering::Relaxed);
                        epoch.put_value(1, 3, 7).map(|()| stopped.is_over.load(Ordering::Relaxed))
                    })?;
                    flushes_all.join().expect("no thread panics")
                })
            })?;
        }
        world.barrier()?;
        let mut found = [0; 4];
        win.load(0, &mut found)?;
        same("the puts", &found, &[[0; 4], [4, 0, 4, 7], [4, 0, 4, 0], [0; 4]][world.rank()])?;
        world.barrier()?;
        other.free()?;
        Ok(win.free()?)
    });
}

/// A flush of all targets waits for the release of the lock of rank 2. The release of another lock,
/// for which the flush would have to wait too, is held back. Regression: it was not, so that the
/// flush could wait for ever while other threads locked and unlocked.
/// Shows S2.
#[test]
fn the_release_of_a_lock_is_held_back() {
    run(4, &answered_late(SimAmo::None), |world: &Rank| {
        let win = RawWindow::allocate(world, 32, 8, &Info::new())?;
        let other = Window::<u64>::allocate(world, 4)?;
        world.barrier()?;
        if world.rank() == 0 {
            [3, 2].into_iter().try_for_each(|rank| win.lock(Lock::Shared, rank, Assert::NONE))?;
            let stopped = Stopped::default();
            stopped.begin(world);
            win.unlock(2)?;
            world.step("releases a lock");
            std::thread::scope(|threads| {
                let flushes_all = threads.spawn(|| win.flush_all());
                stopped.beside(world, &other, || {
                    std::thread::sleep(LONG);
                    win.unlock(3).map(|()| stopped.is_over.load(Ordering::Relaxed))
                })?;
                flushes_all.join().expect("no thread panics")
            })?;
        }
        world.barrier()?;
        other.free()?;
        Ok(win.free()?)
    });
}

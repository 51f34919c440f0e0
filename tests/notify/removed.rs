//! Counters that `set_num_notify` removes while threads wait for them.

use std::time::Duration;

use transom::{Class, Job, Notice, Window};
use transom_harness::{Outcome, step};

/// Threads wait for counters that another thread's `set_num_notify` removes: the waits fail. A wait
/// for a counter that stays goes on. Regression: the first two never ended.
pub(crate) fn meanwhile(world: &Job) -> Outcome {
    let next = (world.rank() + 1) % world.size();
    let win = Window::<u64>::allocate(world, 1)?;
    for turn in 0..10 {
        step(format!("turn {turn}"));
        win.set_num_notify(4)?;
        std::thread::scope(|threads| {
            let gone = threads.spawn(|| win.notices().wait(3, 1));
            let one_gone = threads.spawn(|| win.notices().wait_any(&[(0, 2), (2, 1)]).map(drop));
            let stays = threads.spawn(|| win.notices().wait(0, 1));
            // The waits begin before, and in some turns sleep.
            std::thread::sleep(Duration::from_millis(5 * turn));
            win.set_num_notify(1)?;
            for ended in [gone, one_gone].map(|thread| thread.join().expect("no thread panics")) {
                assert_eq!(ended.expect_err("the counter was removed").class(), Class::RmaNotification);
            }
            win.lock_all(|epoch| epoch.put_notify(next, 0, &[1], Notice(0)))?;
            stays.join().expect("no thread panics")
        })?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

//! Programs whose ranks wait for each other for ever, and one that is only slow.

use std::time::Duration;

use super::{Case, Job, Lock, Result, Window};

/// Longer than the time limit of the job.
const LONG: Duration = Duration::from_secs(60);

const fn stuck(name: &'static str, body: fn(&Job) -> Result<()>, reported: &'static [&'static str]) -> Case {
    Case { name, ranks: 2, body, reported, reports: 0 }
}

pub(super) const STUCK: &[Case] = &[
    stuck(
        "a_fence_that_one_rank_does_not_call",
        fence_of_one,
        &[
            "  rank 0: fence of window 1, checker::waits::fence_of_one",
            "  rank 1: barrier of the job, checker::waits::",
        ],
    ),
    stuck(
        "groups_of_start_without_a_post",
        groups_without_post,
        &["  rank 0: start of window 1, waits for rank 1, ", "  rank 1: start of window 1, waits for rank 0, "],
    ),
    stuck(
        "a_post_to_a_rank_that_does_not_start",
        post_without_start,
        &["  rank 0: wait of window 1, waits for rank 1, ", "  rank 1: barrier of the job, "],
    ),
    stuck(
        "locks_in_opposite_orders",
        opposite_locks,
        &[
            "  rank 0: lock, exclusive, of window 1 at rank 1, waits for rank 1, which holds a lock, ",
            "  rank 1: lock, exclusive, of window 1 at rank 0, waits for rank 0, which holds a lock, ",
        ],
    ),
    stuck(
        "a_notice_that_does_not_come",
        notice_of_none,
        &["  rank 0: wait for a notice of window 1, ", "  rank 1: barrier of the job, "],
    ),
];

/// Programs of which only ranks 0 and 1 wait.
pub(super) const CIRCLES: &[Case] = &[
    Case {
        ranks: 3,
        ..stuck(
            "locks_in_opposite_orders_beside_a_rank_that_computes",
            opposite_locks,
            &[
                "  rank 0: lock, exclusive, of window 1 at rank 1, waits for rank 1, which holds a lock, ",
                "  rank 1: lock, exclusive, of window 1 at rank 0, waits for rank 0, which holds a lock, ",
            ],
        )
    },
    Case {
        ranks: 3,
        ..stuck(
            "a_post_under_a_lock_beside_a_rank_that_computes",
            post_under_lock,
            &[
                "  rank 0: wait of window 2, waits for rank 1, ",
                "  rank 1: lock, shared, of window 1 at rank 2, waits for rank 0, which holds a lock, ",
            ],
        )
    },
];

/// A program whose ranks wait for longer than the time after which a deadlock is reported.
pub(super) const SLOW: Case = stuck("a_rank_that_computes_for_long", computes, &[]);

fn fence_of_one(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 1)?;
    if world.rank() == 0 {
        win.fence(|_| Ok(()))?;
    }
    world.barrier()
}

fn groups_without_post(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 1)?;
    let peer = 1 - world.rank();
    win.start(&[peer], |epoch| epoch.put_value(peer, 0, 1))?;
    win.free()
}

fn post_without_start(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 1)?;
    if world.rank() == 0 {
        win.post(&[1])?;
        win.wait()?;
    }
    world.barrier()
}

fn opposite_locks(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 1)?;
    if world.rank() == 2 {
        world.barrier()?;
        std::thread::sleep(LONG);
        return Ok(());
    }
    let (first, second) = (world.rank(), 1 - world.rank());
    win.lock(Lock::Exclusive, first, |_| {
        world.barrier()?;
        win.lock(Lock::Exclusive, second, |epoch| epoch.put_value(second, 0, 1))
    })?;
    win.free()
}

fn post_under_lock(world: &Job) -> Result<()> {
    let (locked, posted) = (Window::<u64>::allocate(world, 1)?, Window::<u64>::allocate(world, 1)?);
    match world.rank() {
        0 => locked.lock(Lock::Exclusive, 2, |_| {
            world.barrier()?;
            posted.post(&[1])?;
            posted.wait()
        }),
        1 => {
            world.barrier()?;
            locked.lock(Lock::Shared, 2, |_| posted.start(&[0], |_| Ok(())))
        }
        _ => {
            world.barrier()?;
            std::thread::sleep(LONG);
            Ok(())
        }
    }
}

fn notice_of_none(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 1)?;
    win.set_num_notify(1)?;
    if world.rank() == 0 {
        win.lock_all(|_| win.notices().wait(0, 1))?;
    }
    world.barrier()
}

fn computes(world: &Job) -> Result<()> {
    let win = Window::<u64>::allocate(world, 1)?;
    if world.rank() == 0 {
        std::thread::sleep(Duration::from_secs(3));
    }
    win.fence(|_| Ok(()))?;
    win.free()
}

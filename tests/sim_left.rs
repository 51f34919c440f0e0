//! Collective calls that fail at one rank, because a message to another rank can't be sent: the
//! ranks that wait for the failed one get an error, and do not wait for ever.
//!
//! Route: sim.
//!
//! Shows E1.

use std::sync::{Arc, Barrier};

use simulated::{Rank, calm, peer, run_on, same};
use transom::{ErrorKind, JobError, Window};

mod simulated;

/// The rank to which messages fail.
const TARGET: usize = 0;

/// Fails the messages to [`TARGET`] after the first `sent`, while all ranks make `call`. Returns
/// whether this rank's call succeeded when all calls have returned and messages are sent again.
fn broken<R>(world: &Rank, met: &Barrier, sent: u32, call: impl FnOnce() -> transom::Result<R>) -> transom::Result<R> {
    if world.rank() == TARGET {
        world.net().break_connection_after(peer(TARGET), sent);
    }
    met.wait();
    world.step(format!("a call in which {sent} messages arrive"));
    let called = call();
    met.wait();
    if world.rank() == TARGET {
        world.net().mend_connection_to(peer(TARGET));
    }
    met.wait();
    called
}

/// Whether the error says that another rank has left the call.
fn is_left(error: &transom::Error) -> bool {
    matches!(error.kind(), ErrorKind::Job(JobError::Left { .. }))
}

/// The first message to the target fails in the first round, so that no rank passes. Later messages
/// fail in later rounds at the latest. The next barrier is not affected.
fn every_barrier_ends(nodes: Option<usize>, ranks: usize) {
    let met = Arc::new(Barrier::new(ranks));
    run_on(nodes, ranks, &calm(), move |world| {
        let all: Vec<usize> = (0..ranks).collect();
        let team = world.subset(&all)?;
        for sent in 0..ranks.ilog2() {
            let passed = broken(world, &met, sent, || world.barrier());
            let of_team = broken(world, &met, sent, || team.barrier());
            if sent == 0 {
                same("the outcomes", &[passed.is_ok(), of_team.is_ok()], &[false; 2])?;
                if world.rank() == TARGET {
                    same("the target's error", &passed.map_err(|error| is_left(&error)), &Err(true))?;
                }
            }
            world.step("the next barriers");
            world.barrier()?;
            team.barrier()?;
        }
        Ok(())
    });
}

#[test]
fn barriers_of_3_ranks_end() {
    every_barrier_ends(None, 3);
}

#[test]
fn barriers_of_5_ranks_end() {
    every_barrier_ends(None, 5);
}

#[test]
fn barriers_of_two_nodes_end() {
    every_barrier_ends(Some(2), 5);
}

/// `set_num_notify` has two barriers. Ranks that pass the first one wait in the second one for the
/// ranks that have failed in the first one.
#[test]
fn a_rank_that_has_left_is_missed_in_later_barriers_of_the_call() {
    let met = Arc::new(Barrier::new(4));
    run_on(None, 4, &calm(), move |world| {
        let win = Window::<u64>::allocate(world, 1)?;
        let set = broken(world, &met, 1, || win.set_num_notify(1));
        same("whether there are counters", &set.is_ok(), &false)?;
        // The ranks may differ in the number of barriers now, and in the outcomes of the fences.
        world.step("the next fences");
        for _ in 0..2 {
            drop(win.fence(|_| Ok(())));
        }
        met.wait();
        Ok(())
    });
}

/// Ranks that have passed the barrier of the creation have the window.
#[test]
fn a_rank_that_has_left_the_creation_is_missed_in_the_window() {
    let met = Arc::new(Barrier::new(4));
    run_on(None, 4, &calm(), move |world| match broken(world, &met, 1, || Window::<u64>::allocate(world, 1)) {
        Ok(win) => same("the fence", &win.fence(|_| Ok(())).map_err(|error| is_left(&error)), &Err(true)),
        Err(_) => Ok(()),
    });
}

//! A delayed lock is taken, and the operations that waited for it can't be sent.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use transom_fabric::Peer;
use transom_fabric::sim::{SimAmo, SimNet, SimOptions};

use super::super::lock::Lock;
use super::super::target::Hold;
use crate::bootstrap::local::Board;
use crate::error::Result;
use crate::job::Job;
use crate::ops::Sum;
use crate::window::{Assert, Window};

/// Time limit, sufficient on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// The request that carries the operations finds the target without the bias. Rank 0 then takes the
/// lock by its words, and can't send the operations. The call that takes the lock fails, and so
/// does each call that waits for one of these operations, as a call of another thread may. Later
/// operations have the lock.
fn operations_are_lost(world: &Job, net: &SimNet) -> Result<()> {
    let win = Window::<u64>::allocate(world, 2)?;
    world.barrier()?;
    let add = |place: usize| win.lock(Lock::Exclusive, 1, |epoch| epoch.accumulate(1, place, &[1], Sum));
    if world.rank() == 0 {
        (0..64).try_for_each(|_| add(0))?;
    }
    world.barrier()?;
    if world.rank() == 1 {
        win.lock_all(|_| Ok(()))?;
        // The release is complete too, so rank 0 has no further answers to send.
        win.lock_all_with(Assert::NOCHECK, |epoch| epoch.flush_all())?;
    }
    world.barrier()?;
    if world.rank() == 0 {
        win.lock(Lock::Exclusive, 1, |epoch| {
            let parts = &win.core.parts;
            let target = parts.known(1).expect("contacted before");
            epoch.accumulate(1, 1, &[1], Sum)?;
            assert_eq!(target.hold(), Hold::Delayed);
            // The request, and one change of the lock's word.
            net.break_connection_after(Peer(1), 2);
            let taken = epoch.flush(1);
            net.mend_connection_to(Peer(1));
            assert!(taken.is_err() && target.hold() == Hold::Exclusive, "{taken:?}, {:?}", target.hold());
            assert!(parts.need_lock(target).is_err(), "the operation was not performed");
            epoch.accumulate(1, 0, &[1], Sum)
        })?;
        add(0)?;
    }
    world.barrier()?;
    let mut found = [0; 2];
    win.load(0, &mut found)?;
    assert_eq!(found, if world.rank() == 1 { [66, 0] } else { [0; 2] });
    win.free()
}

/// Regression: a call of another thread returned without an error and without the result of its
/// operation.
/// Shows E1.
#[test]
fn a_call_fails_if_its_operation_is_lost_after_the_lock_was_taken() {
    let options = SimOptions { amo: SimAmo::None, again_one_in: 0, message_max: 1024, ..SimOptions::default() };
    let (net, board) = (SimNet::new(2, options), Board::new(2));
    let (ends, ended) = channel();
    for rank in 0..2u32 {
        let (net, boot, ends) = (Arc::clone(&net), Box::new(board.rank(rank as usize)), ends.clone());
        thread::spawn(move || {
            let world = Job::simulated(net.domain(Peer(rank)).expect("a rank"), boot).expect("a job");
            let outcome = operations_are_lost(&world, &net);
            ends.send(outcome.and_then(|()| world.finalize())).expect("the test waits");
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(LIMIT).expect("both ranks end").expect("no failure");
    }
}

//! Waiting for a rank of the node while a net is open too (MPI-4.1 §12.5.2).

use std::time::Duration;

use transom::{Assert, Info, Job, Op, RawWindow};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same, step};

const ROUNDS: u64 = 2_000;
/// The delay of one of two ranks: longer than the other rank polls, shorter than its sleep.
const LATE: Duration = Duration::from_micros(300);

/// Two ranks of each node enter a common epoch late in turn. The notices of a post and of a
/// completion end the other rank's sleep; few sleeps last to their limit after the notice has
/// arrived.
/// Shows S1.
pub(crate) fn notices_end_sleeps(world: &Job) -> Outcome {
    let me = world.rank();
    let node = world.node_ranks();
    same("ranks of this node", &node.len(), &2)?;
    ensure(world.net().is_some(), "a net is open")?;
    let peer = node[usize::from(node[0] == me)];
    let win = RawWindow::allocate(world, 8, 8, &Info::new())?;
    win.fence(Assert::NOPRECEDE | Assert::NOSUCCEED)?;
    let before = world.late_wakes();
    for round in 1..=ROUNDS {
        step(format!("round {round}"));
        if (round % 2 == 0) == (me < peer) {
            std::thread::sleep(LATE);
        }
        win.post(&[peer], Assert::NONE)?;
        win.start(&[peer], Assert::NONE)?;
        fetch(&win, peer, 0, Op::Replace, round)?;
        win.complete()?;
        win.wait()?;
        same("what the neighbour put", &crate::word(&win, 0), &round)?;
    }
    let late = world.late_wakes() - before;
    win.free()?;
    ensure(late <= ROUNDS / 20, &format!("few of {ROUNDS} rounds slept past a notice: {late}"))
}

//! Waiting for a rank of the node while a net is open too (MPI-4.1 §12.5.2).

use std::time::Duration;

use transom::{Assert, Info, Job, Op, RawWindow};
use transom_harness::word::fetch;
use transom_harness::{Outcome, ensure, same, step};

const ROUNDS: u64 = 2_000;
const BATCH: u64 = 400;
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
    // A busy machine delays sleepers: the best of some batches counts.
    let (mut before, mut least) = (world.late_wakes(), u64::MAX);
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
        if round % BATCH == 0 {
            let now = world.late_wakes();
            least = least.min(now - before);
            before = now;
        }
    }
    win.free()?;
    ensure(least <= BATCH / 20, &format!("few of {BATCH} rounds slept past a notice: {least}"))
}

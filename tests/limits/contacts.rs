//! A rank without address space can't map the job block of another rank, so its first contact
//! fails within a collective call. The ranks that wait for it get an error.

use rustix::process::Resource;
use transom::{Job, Window};
use transom_harness::{Outcome, ensure, same, step};

use super::{Limited, mapped};

/// The rank whose contact fails. It is not the leader, whose memory all ranks map at the start.
const VICTIM: usize = 1;

/// Makes `call` while the victim can map no more memory.
fn limited<R>(world: &Job, call: impl FnOnce() -> transom::Result<R>) -> std::io::Result<transom::Result<R>> {
    let limit = if world.rank() == VICTIM { Some(Limited::to(Resource::As, mapped()?)?) } else { None };
    let called = call();
    drop(limit);
    if let Err(error) = &called {
        eprintln!("rank {}: {error:#}", world.rank());
    }
    Ok(called)
}

/// Whether a rank fails in a dissemination barrier in which the victim sends no signal from round
/// `round` on.
fn fails(rank: usize, ranks: usize, round: usize) -> bool {
    // Of each rank the first round in which it sends no signal.
    let mut silent = vec![usize::MAX; ranks];
    silent[VICTIM] = round;
    for now in 0..ranks.next_power_of_two().trailing_zeros() as usize {
        for receiver in 0..ranks {
            let sender = (receiver + ranks - (1 << now)) % ranks;
            if silent[sender] <= now && silent[receiver] > now {
                silent[receiver] = now + 1;
            }
        }
    }
    silent[rank] < usize::MAX
}

/// A contact of the victim with each of the partners of the rounds before `round`.
fn meet(world: &Job, round: usize) -> Outcome {
    for earlier in 0..round {
        let partner = (VICTIM + (1 << earlier)) % world.size();
        if ![VICTIM, partner].contains(&world.rank()) {
            continue;
        }
        let pair = world.subset(&[VICTIM, partner])?;
        let win = Window::<u64>::allocate(&pair, 1)?;
        win.lock_all(|epoch| epoch.put_value(1 - pair.rank(), 0, 7))?;
        win.free()?;
    }
    Ok(())
}

/// The victim's contact with its partner of round `ROUND` fails. The next barrier succeeds.
pub(super) fn barrier<const ROUND: usize>(world: &Job) -> Outcome {
    meet(world, ROUND)?;
    step("the limited barrier");
    let passed = limited(world, || world.barrier())?;
    same("whether the barrier fails", &passed.is_err(), &fails(world.rank(), world.size(), ROUND))?;
    step("the next barrier");
    Ok(world.barrier()?)
}

/// Signals of a subset are messages, and the first one to a rank maps the rank's ring.
pub(super) fn barrier_of_subset(world: &Job) -> Outcome {
    let team = world.subset(&(0..world.size()).collect::<Vec<_>>())?;
    step("the limited barrier");
    let passed = limited(world, || team.barrier())?;
    same("whether the barrier fails", &passed.is_err(), &true)?;
    step("the next barrier");
    Ok(team.barrier()?)
}

pub(super) fn creation(world: &Job) -> Outcome {
    step("the limited creation");
    let made = limited(world, || Window::<u64>::allocate(world, 1))?;
    ensure(made.is_err(), "a rank has a window that another one has not")?;
    step("the next creation");
    let win = Window::<u64>::allocate(world, 1)?;
    win.fence(|epoch| epoch.put_value((world.rank() + 1) % world.size(), 0, 7))?;
    win.fence(|_| Ok(()))?;
    Ok(win.free()?)
}

/// The window does not fit, and the victim's contact in the second round of the first barrier
/// fails. Ranks that pass this barrier wait for the victim in the barriers that find the failed
/// rank. The job's next barrier fails, because the ranks differ in the number of barriers.
pub(super) fn large_creation(world: &Job) -> Outcome {
    meet(world, 1)?;
    step("the limited creation");
    let made = limited(world, || Window::<u64>::allocate(world, (64 << 20) / 8))?;
    ensure(made.is_err(), "a rank has a window that another one has not")
}

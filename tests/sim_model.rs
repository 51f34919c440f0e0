//! The formulas by which `transom-perf model` predicts large jobs equal the remote operations that
//! calls post on the simulated net, for 2 to 512 ranks. Counts only, no times.
//!
//! Route: sim.

use counts::{Call, launcher_requests, shape};
use simulated::{Outcome, Rank, cost, run, same};
use transom::{Assert, Info, Lock, RawWindow};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimCounters, SimOptions};

#[path = "../perf/src/model/counts.rs"]
#[allow(dead_code)]
mod counts;
mod simulated;

const SIZES: [usize; 9] = [2, 3, 5, 8, 13, 32, 100, 256, 512];

/// The result of the formula for a call.
fn expected(call: Call, ranks: usize) -> SimCounters {
    let (amos, messages) = shape(call, ranks as u64).operations();
    SimCounters { amos, messages, ..SimCounters::default() }
}

/// A rank posts as many operations in a call as the formula says.
fn holds(what: &str, world: &Rank, call: Call, body: impl FnOnce() -> transom::Result<()>) -> Outcome {
    world.step(what);
    same(what, &cost(world, body)?, &expected(call, world.size()))
}

fn collective(world: &Rank) -> Outcome {
    let mut made = None;
    holds("creation", world, Call::Creation, || {
        made = Some(RawWindow::allocate(world, 64, 8, &Info::new())?);
        Ok(())
    })?;
    let win = made.ok_or("no window")?;
    holds("first fence", world, Call::Fence, || win.fence(Assert::NONE))?;
    holds("fence", world, Call::Fence, || win.fence(Assert::NOSUCCEED))?;
    holds("free", world, Call::Creation, || win.free())
}

/// One rank counts while the others wait for it, so that its count has no answers to others.
fn locks(world: &Rank) -> Outcome {
    let (first, last) = (0, world.size() - 1);
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    if world.rank() == 1 {
        // First contact reads directories.
        for rank in [first, last] {
            win.lock(Lock::Shared, rank, Assert::NONE)?;
            win.unlock(rank)?;
        }
        let lock = |kind, rank| move |win: &RawWindow| win.lock(kind, rank, Assert::NONE);
        holds("lock_all", world, Call::LockAll, || win.lock_all(Assert::NONE))?;
        holds("flush_all", world, Call::Local, || win.flush_all())?;
        holds("unlock_all", world, Call::LockAll, || win.unlock_all())?;
        holds("lock shared", world, Call::LockShared, || lock(Lock::Shared, first)(&win))?;
        holds("unlock shared", world, Call::LockShared, || win.unlock(first))?;
        holds("lock exclusive", world, Call::LockExclusive, || lock(Lock::Exclusive, first)(&win))?;
        if last > 1 {
            holds("a further lock", world, Call::LockFurther, || lock(Lock::Exclusive, last)(&win))?;
            holds("unlock of one of two", world, Call::LockFurther, || win.unlock(last))?;
        }
        holds("unlock of the last", world, Call::LockExclusive, || win.unlock(first))?;
    }
    world.barrier()?;
    Ok(win.free()?)
}

fn groups(world: &Rank) -> Outcome {
    let (me, size) = (world.rank(), world.size());
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    for members in [1, 2, 7].into_iter().filter(|&members| members < size) {
        let targets: Vec<usize> = (1..=members).map(|step| (me + step) % size).collect();
        let origins: Vec<usize> = (1..=members).map(|step| (me + size - step) % size).collect();
        // First contact reads directories.
        for &rank in &targets {
            win.lock(Lock::Shared, rank, Assert::NONE)?;
            win.unlock(rank)?;
        }
        world.barrier()?;
        let call = Call::Post(members as u64);
        holds("post", world, call, || win.post(&origins, Assert::NONE))?;
        holds("start", world, Call::Local, || win.start(&targets, Assert::NONE))?;
        holds("complete", world, call, || win.complete())?;
        holds("wait", world, Call::Local, || win.wait())?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// The net keeps the order of a rank's operations, as queue pairs do: without that order a release
/// may arrive after the request for the next lock, which then needs another operation.
fn at_every_size(body: fn(&Rank) -> Outcome) {
    for ranks in SIZES {
        let amo = SimAmo::All(Coherence::DeviceOnly);
        run(ranks, &SimOptions { amo, reorder: false, ..SimOptions::default() }, body);
    }
}

/// Shows S3.
#[test]
fn collective_calls_cost_what_the_model_says() {
    at_every_size(collective);
}

/// Shows S2, S3.
#[test]
fn locks_cost_what_the_model_says() {
    at_every_size(locks);
}

/// Shows S3.
#[test]
fn groups_cost_what_the_model_says() {
    at_every_size(groups);
}

/// Shows S1.
#[test]
fn a_start_costs_at_most_what_the_model_says() {
    at_every_size(|world| {
        let (found, most) = (world.requests.requests() as u64, launcher_requests(world.size() as u64));
        same(&format!("{found} requests are within {most}"), &(found <= most), &true)
    });
}

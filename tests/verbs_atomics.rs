//! The reason why a window has one atomicity actor: a device's atomics and a CPU's are not atomic
//! with each other. The all-pairs test passes with either actor alone; ranks that mix them lose
//! updates. Needs an RDMA device, as in the machine of `ci/rdma-vm`.
//!
//! Route: verbs.

use std::process::ExitCode;

use pairs::{Context, Invariant, Setup, pairs_of};
use support::byte_window::ByteWindow;
use transom::ops::{Replace, Sum};
use transom::{Actor, BasicType, Flavor, Info, Job, Lock, Op, Window};
use transom_harness::{Outcome, Test, ensure, same, step};

#[path = "atomicity/family.rs"]
mod family;
#[path = "atomicity/pairs.rs"]
mod pairs;
mod support;

/// Ranks act in turn as if on two nodes: shared memory within them, the device between them.
const TWO_NODES: &[(&str, &str)] = &[("TRANSOM_TRANSPORTS", "verbs,shm"), ("TRANSOM_TEST_NODES", "2")];

static TESTS: &[Test] = &[
    Test::new("all_pairs_by_the_device", &[2], by_the_device),
    Test::new("all_pairs_by_the_cpu", &[2], by_the_cpu),
    Test::new("mixed_actors_are_caught", &[2], mixed).failing_with("the sum of both: Ok("),
    Test::new("several_ranks_a_node", &[4], on_two_nodes).with_env(TWO_NODES),
];

/// Attempts with mixed actors: one suffices where device and CPU work at the same time.
const ROUNDS: u64 = 50;

fn main() -> ExitCode {
    transom_harness::main_on_device(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

fn sums(world: &Job, info: &Info) -> Outcome {
    ensure(world.net().is_some_and(|net| net.starts_with("verbs")), "the net is verbs")?;
    let setup = Setup { flavor: Flavor::Create, info: info.clone(), len: 20, turns: 24 };
    pairs_of::<i64, _>(context(world), &setup, Invariant::Sum, Sum, i64::wrapping_add)
}

fn swaps(world: &Job, info: &Info) -> Outcome {
    let setup = Setup { flavor: Flavor::Create, info: info.clone(), len: 20, turns: 24 };
    pairs_of::<i64, _>(context(world), &setup, Invariant::Replace, Replace, |_, new| new)
}

fn context(world: &Job) -> Context<'_> {
    Context { world, step: &|what| step(what) }
}

/// Shows M3, T4.
fn by_the_device(world: &Job) -> Outcome {
    same("the actor", &world.actor(), &Actor::Nic)?;
    sums(world, &Info::new())?;
    swaps(world, &Info::new())?;
    together(world, one_actor(world, "nic")?, 2)
}

/// All origins of two nodes work on the same words by the device, those of the target's node
/// through its loopback. Locks of all of them exclude each other.
/// Shows M3, S2, T4, T7.
fn on_two_nodes(world: &Job) -> Outcome {
    same("the actor", &world.actor(), &Actor::Nic)?;
    same("ranks of the node", &world.node_ranks().len(), &2)?;
    for flavor in [Flavor::Allocate, Flavor::Create] {
        let setup = Setup { flavor, info: Info::new(), len: 6, turns: 6 };
        pairs_of::<i64, _>(context(world), &setup, Invariant::Sum, Sum, i64::wrapping_add)?;
        pairs_of(context(world), &setup, Invariant::Replace, Replace, |_, new: i64| new)?;
    }
    const TURNS: u64 = 20;
    let win = Window::<u64>::allocate(world, 1)?;
    for turn in 0..TURNS {
        step(format!("lock {turn}"));
        win.lock(Lock::Exclusive, 1, |epoch| {
            let mut seen = [0];
            epoch.scope(|win| win.get(1, 0, &mut seen))?;
            epoch.put_value(1, 0, seen[0] + 1)
        })?;
    }
    world.barrier()?;
    same("increments", &win.lock_all(|epoch| epoch.fetch_value(1, 0))?, &(TURNS * 4))?;
    world.barrier()?;
    let node = world.subset(&world.node_ranks())?;
    same("the actor within a node", &node.actor(), &Actor::Cpu)?;
    Ok(win.free()?)
}

/// Shows M3, T4.
fn by_the_cpu(world: &Job) -> Outcome {
    let info = Info::new().with("transom_atomics", "cpu");
    sums(world, &info)?;
    swaps(world, &info)?;
    together(world, one_actor(world, "cpu")?, 2)
}

/// The effect of mixing actors on additions that each actor alone gets right. The first round with
/// a wrong sum ends the job, as it must.
/// Shows M3.
fn mixed(world: &Job) -> Outcome {
    together(world, ByteWindow::of_two_actors(world, 8)?, ROUNDS)
}

fn one_actor(world: &Job, actor: &str) -> Outcome<ByteWindow> {
    let win = ByteWindow::new(world, Flavor::Create, 8, &Info::new().with("transom_atomics", actor))?;
    win.ok_or_else(|| "a created window needs no shared memory".into())
}

/// While rank 0 adds to a word of rank 1, rank 1 adds to that word without pause, and no update is
/// lost. A CPU adds some thousand times as often, so that some of its updates fall between a
/// device's load and its store.
fn together(world: &Job, win: ByteWindow, most: u64) -> Outcome {
    const ADDS: u64 = 100;
    let rounds = Window::<u64>::allocate(world, 1)?;
    let add = || win.fetch(&1u64.to_ne_bytes(), BasicType::Uint64, 1, 0, Op::Sum).map(drop);
    let mut own = 0;
    for round in 1..=most {
        step(format!("round {round}"));
        if world.rank() == 0 {
            (0..ADDS).try_for_each(|_| add())?;
            rounds.lock_all(|epoch| epoch.put_value(1, 0, round))?;
        } else {
            let burst = if win.raw().actor() == Actor::Cpu { 1000 } else { 10 };
            while rounds.lock_all(|epoch| epoch.fetch_value(1, 0))? < round {
                (0..burst).try_for_each(|_| add())?;
                own += burst;
            }
            let sum = <[u8; 8]>::try_from(win.read(1, 0, 8)?).map(u64::from_ne_bytes);
            same("the sum of both", &sum, &Ok(round * ADDS + own))?;
        }
        world.barrier()?;
    }
    rounds.free()?;
    Ok(win.free()?)
}

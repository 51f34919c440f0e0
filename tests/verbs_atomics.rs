//! Why a window has one atomicity actor (DESIGN §3): a device's atomics and a CPU's do not know of each other. The all-pairs test passes
//! with either of them; ranks that mix them lose updates. Needs an RDMA device, as in the machine of `ci/rdma-vm`.
//!
//! Route: verbs.

use std::process::ExitCode;

use pairs::{Meaning, Mode, Setup, Stage, all_pairs};
use support::part::Part;
use transom::ops::{Replace, Sum};
use transom::{Actor, BasicType, Flavor, Info, Job, Op, Window};
use transom_harness::{Outcome, Test, ensure, same, step};

#[path = "atomicity/family.rs"]
mod family;
#[path = "atomicity/pairs.rs"]
mod pairs;
mod support;

const fn test(name: &'static str, fails: Option<&'static str>, body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks: &[2], env: &[], fails, body }
}

static TESTS: &[Test] = &[
    test("all_pairs_by_the_device", None, by_the_device),
    test("all_pairs_by_the_cpu", None, by_the_cpu),
    test("mixed_actors_are_caught", Some("the sum of two actors"), mixed),
];

/// What the mixed ones get at most: one is enough wherever device and CPU work at the same time.
const ROUNDS: u64 = 50;

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

fn sums(world: &Job, info: &Info) -> Outcome {
    ensure(world.net().is_some_and(|net| net.starts_with("verbs")), "the net is verbs")?;
    let setup = Setup { flavor: Flavor::Create, info: info.clone(), len: 20, turns: 24 };
    all_pairs::<i64, _>(stage(world), &setup, &Mode { op: Sum, combine: i64::wrapping_add, meaning: Meaning::Sum })
}

fn swaps(world: &Job, info: &Info) -> Outcome {
    let setup = Setup { flavor: Flavor::Create, info: info.clone(), len: 20, turns: 24 };
    all_pairs::<i64, _>(stage(world), &setup, &Mode { op: Replace, combine: |_, new| new, meaning: Meaning::Replace })
}

fn stage(world: &Job) -> Stage<'_> {
    Stage { world, step: &|what| step(what) }
}

/// Shows M3, T4.
fn by_the_device(world: &Job) -> Outcome {
    same("the actor", &world.actor(), &Actor::Nic)?;
    sums(world, &Info::new())?;
    swaps(world, &Info::new())
}

/// Shows M3, T4.
fn by_the_cpu(world: &Job) -> Outcome {
    let info = Info::new().with("transom_atomics", "cpu");
    sums(world, &info)?;
    swaps(world, &info)
}

/// DESIGN §3: what mixing them does. While one rank adds by the device, the target adds by its CPU without a pause, so that some of its
/// updates fall between the device's load and its store. The first round whose sum is wrong ends the job, as it must.
/// Shows M3.
fn mixed(world: &Job) -> Outcome {
    const ADDS: u64 = 100;
    let (part, rounds) = (Part::of_two_actors(world, 8)?, Window::<u64>::allocate(world, 1)?);
    let add = || part.fetch(&1u64.to_ne_bytes(), BasicType::Uint64, 1, 0, Op::Sum).map(drop);
    let mut by_cpu = 0;
    for round in 1..=ROUNDS {
        step(format!("round {round}"));
        if world.rank() == 0 {
            (0..ADDS).try_for_each(|_| add())?;
            rounds.lock_all(|epoch| epoch.put_value(1, 0, round))?;
        } else {
            while rounds.lock_all(|epoch| epoch.fetch_value(1, 0))? < round {
                (0..1000).try_for_each(|_| add())?;
                by_cpu += 1000;
            }
            let sum = u64::from_ne_bytes(part.read(1, 0, 8)?.try_into().unwrap_or_default());
            same("the sum of two actors", &sum, &(round * ADDS + by_cpu))?;
        }
        world.barrier()?;
    }
    rounds.free()?;
    Ok(part.free()?)
}

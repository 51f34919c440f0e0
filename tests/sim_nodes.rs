//! Several ranks a node on simulated nets, whose atomics are not atomic with the CPU's unless the
//! net says so. All origins work on the same words, from the target's node and from others.
//!
//! Route: sim, shm.

use order::{order_of_bytes, program_order, reads_in_order, sums_without_order};
use pairs::{Context, Invariant, Setup, pairs_of};
use simulated::{Outcome, Rank, cost, nets, run_on, same};
use transom::ops::{Max, Replace, Sum};
use transom::{Actor, Flavor, Info, Lock, Window};
use transom_fabric::Coherence;
use transom_fabric::sim::{SimAmo, SimCounters, SimOptions};

#[path = "atomicity/family.rs"]
mod family;
#[path = "atomicity/order.rs"]
mod order;
#[path = "atomicity/pairs.rs"]
mod pairs;
mod simulated;
mod support;

const AMOS: [SimAmo; 4] = [
    SimAmo::All(Coherence::DeviceOnly),
    SimAmo::Only64(Coherence::DeviceOnly),
    SimAmo::All(Coherence::WithCpu),
    SimAmo::Only64(Coherence::WithCpu),
];

fn with(amo: SimAmo) -> SimOptions {
    SimOptions { amo, ..SimOptions::default() }
}

/// Runs `body` on 2 nodes with 2 ranks each, on all nets whose targets are served while they
/// compute, with every kind of memory.
fn everywhere(body: fn(Context<'_>, Flavor, &Info) -> Outcome) {
    const FLAVORS: [Flavor; 3] = [Flavor::Allocate, Flavor::Create, Flavor::Dynamic];
    for (index, options) in nets().enumerate() {
        let amo = AMOS[index % AMOS.len()];
        let granularity = if index % 5 == 0 { "8" } else { "0" };
        let info = Info::new().with("mpi_accumulate_granularity", granularity);
        run_on(Some(2), 4, &SimOptions { amo, ..options }, move |rank: &Rank| {
            let step = |what| rank.step(what);
            body(Context { world: rank, step: &step }, FLAVORS[index / 2 % FLAVORS.len()], &info)
        });
    }
}

fn setup(flavor: Flavor, info: &Info) -> Setup {
    Setup { flavor, info: info.clone(), len: 9, turns: 4 }
}

/// MPI-4.1 §12.3.4, §12.7.1: types that the net may perform, and one that it never performs.
/// Shows M3, O1, O2, T7.
#[test]
fn all_pairs_are_exact() {
    everywhere(|context, flavor, info| {
        pairs_of::<i64, _>(context, &setup(flavor, info), Invariant::Sum, Sum, i64::wrapping_add)?;
        pairs_of::<i64, _>(context, &setup(flavor, info), Invariant::Max, Max, i64::max)?;
        pairs_of::<i32, _>(context, &setup(flavor, info), Invariant::Replace, Replace, |_, new| new)?;
        pairs_of::<f64, _>(context, &setup(flavor, info), Invariant::Sum, Sum, |a, b| a + b)
    });
}

/// MPI-4.1 §12.7.2.
/// Shows M4.
#[test]
fn one_origins_order_is_kept() {
    everywhere(|context, flavor, info| {
        order_of_bytes::<i64>(context, flavor, 5, info)?;
        if flavor == Flavor::Dynamic {
            return Ok(());
        }
        sums_without_order::<i64>(context, flavor, 9, info)?;
        program_order::<i64>(context, flavor, 5, info)?;
        program_order::<i32>(context, flavor, 5, info)?;
        reads_in_order::<i64>(context, flavor, info)
    });
}

/// The actor follows the window's ranks and the net: the CPU on one node, the device for all where
/// it is not atomic with the CPU, and both where it is.
/// Shows T5, T7.
#[test]
fn the_actor_follows_the_windows_ranks() {
    for (amo, across) in AMOS.into_iter().zip([Actor::Nic, Actor::Nic, Actor::Both, Actor::Both]) {
        run_on(Some(2), 4, &with(amo), move |world| {
            let win = Window::<u64>::allocate(world, 1)?;
            same("across nodes", &(world.actor(), win.actor()), &(across, across))?;
            win.free()?;
            let node = world.subset(&world.node_ranks())?;
            same("ranks of the node", &node.size(), &2)?;
            let win = Window::<u64>::allocate(&node, 1)?;
            same("within a node", &(node.actor(), win.actor()), &(Actor::Cpu, Actor::Cpu))?;
            win.free()?;
            let win = Window::<u64>::allocate_with(world, 1, &Info::new().with("transom_atomics", "cpu"))?;
            same("by the hint", &win.actor(), &Actor::Cpu)?;
            win.free()?;
            let win = Window::<u64>::allocate_with(&node, 1, &Info::new().with("transom_atomics", "nic"))?;
            same("by the hint, on one node", &win.actor(), &Actor::Nic)?;
            let sum = win.lock_all(|epoch| epoch.fetch_add(1, 0, 1))?;
            same("its values", &(sum < 2), &true)?;
            Ok(win.free()?)
        });
    }
}

/// Regression: parts that no net accesses were registered with it. A device then pinned all their
/// pages at the creation, which failed at the limit of locked memory.
/// Shows T1, T7.
#[test]
fn a_window_of_one_node_is_not_registered_with_the_net() {
    run_on(Some(2), 4, &with(SimAmo::All(Coherence::DeviceOnly)), |world| {
        // Parts of up to 16 MiB are registered as origin buffers of other windows.
        const LONG: usize = (16 << 20) / 8 + 1;
        let node = world.subset(&world.node_ranks())?;
        let before = world.regions();
        let win = Window::<u64>::allocate(&node, LONG)?;
        let shared = Window::<u64>::allocate_shared(&node, LONG)?;
        same("regions of the net", &world.regions(), &before)?;
        let by_device = Window::<u64>::allocate_with(&node, 1, &Info::new().with("transom_atomics", "nic"))?;
        let across = Window::<u64>::allocate(world, 8)?;
        same("with windows that the net accesses", &world.regions().iter().sum(), &(before.iter().sum::<usize>() + 2))?;
        across.free()?;
        by_device.free()?;
        shared.free()?;
        Ok(win.free()?)
    });
}

/// Windows over one node use the CPU's atomics and locks: no operation is posted to the net.
/// Shows T1, S2, T7.
#[test]
fn a_window_of_one_node_posts_nothing() {
    run_on(Some(2), 4, &with(SimAmo::All(Coherence::DeviceOnly)), |world| {
        let node = world.subset(&world.node_ranks())?;
        let win = Window::<u64>::allocate(&node, 8)?;
        let other = 1 - node.rank();
        let posted = cost(world, || win.lock(Lock::Exclusive, other, |epoch| epoch.fetch_add(other, 0, 1).map(drop)))?;
        same("operations of the net", &posted, &SimCounters::default())?;
        Ok(win.free()?)
    });
}

/// Increments under exclusive locks, from the target's node and the other one, are never lost:
/// locks of all ranks are changed by one actor.
/// Shows S2.
#[test]
fn exclusive_locks_exclude_ranks_of_all_nodes() {
    const TURNS: u64 = 12;
    for (index, options) in nets().enumerate() {
        let options = SimOptions { amo: AMOS[index % AMOS.len()], ..options };
        run_on(Some(2), 4, &options, |world| {
            let win = Window::<u64>::allocate(world, 1)?;
            for turn in 0..TURNS {
                let target = usize::try_from(turn)? % 2;
                world.step(format!("turn {turn}"));
                win.lock(Lock::Exclusive, target, |epoch| {
                    let mut seen = [0];
                    epoch.scope(|part| part.get(target, 0, &mut seen))?;
                    epoch.put_value(target, 0, seen[0] + 1)
                })?;
            }
            world.barrier()?;
            let sum = win.lock_all(|epoch| Ok(epoch.fetch_value(0, 0)? + epoch.fetch_value(1, 0)?))?;
            same("increments", &sum, &(TURNS * 4))?;
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

/// After first contact atomics and locks are no messages, with 2 and with 4 ranks a node.
/// Shows S5.
#[test]
fn atomics_and_locks_are_no_messages() {
    for (amo, per_node) in AMOS.into_iter().flat_map(|amo| [(amo, 2), (amo, 4)]) {
        run_on(Some(2), 2 * per_node, &with(amo), move |world| {
            let win = Window::<u64>::allocate(world, 8)?;
            let round = || -> transom::Result<()> {
                for rank in 0..world.size() {
                    world.step(format!("rank {rank}"));
                    win.lock(Lock::Exclusive, rank, |epoch| {
                        epoch.put_value(rank, 1, 7)?;
                        epoch.flush(rank)?;
                        let mut seen = [0];
                        epoch.scope(|part| part.get(rank, 1, &mut seen))?;
                        epoch.accumulate(rank, 2, &[3], Sum)?;
                        epoch.compare_and_swap(rank, 3, 0, 1)?;
                        epoch.fetch_add(rank, 0, 1).map(drop)
                    })?;
                    win.lock(Lock::Shared, rank, |epoch| epoch.fetch_value(rank, 0).map(drop))?;
                }
                win.lock_all(|epoch| epoch.flush_all())
            };
            round()?;
            world.barrier()?;
            same("messages", &cost(world, round)?.messages, &0)?;
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

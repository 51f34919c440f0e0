//! Several ranks a node on simulated nets, whose atomics are not atomic with the CPU's unless the
//! net says so. All origins work on the same words, from the target's node and from others.
//!
//! Route: sim, shm.

use order::{order_of_bytes, program_order, reads_in_order, sums_without_order};
use pairs::{Context, Invariant, Setup, pairs_of};
use simulated::{Outcome, Rank, complete_all, cost, nets, run_on, same};
use transom::ops::{Max, Replace, Sum};
use transom::{Actor, Assert, Flavor, Info, Lock, RawWindow, Window};
use transom_fabric::sim::{SimAmo, SimCounters, SimDelivery, SimOptions};
use transom_fabric::{Coherence, Immediates};

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

/// A program of puts, gets, atomics, locks, groups and fences, between all pairs of ranks.
fn whole_round(world: &Rank, win: &Window<u64>) -> transom::Result<()> {
    let others: Vec<usize> = (0..world.size()).filter(|&rank| rank != world.rank()).collect();
    let at = 4 + world.rank();
    for &rank in &others {
        world.step(format!("lock of rank {rank}"));
        win.lock(Lock::Exclusive, rank, |epoch| {
            epoch.fetch_add(rank, 0, 1)?;
            epoch.put_value(rank, at, 1)?;
            epoch.fetch_value(rank, at).map(drop)
        })?;
    }
    for turn in 0..3 {
        world.step(format!("groups, turn {turn}"));
        win.post(&others)?;
        win.start(&others, |epoch| {
            let mut seen = vec![0; others.len()];
            let get = |(&rank, seen)| epoch.scope(|part| part.get(rank, at, std::slice::from_mut(seen)));
            others.iter().zip(&mut seen).try_for_each(get)?;
            others.iter().try_for_each(|&rank| epoch.put_value(rank, at, 2 + turn))
        })?;
        win.wait()?;
        world.step(format!("fences, turn {turn}"));
        win.fence(|epoch| others.iter().try_for_each(|&rank| epoch.fetch_add(rank, 1, 1).map(drop)))?;
        win.fence(|epoch| epoch.put_value(others[0], at, 5))?;
    }
    Ok(())
}

/// Where puts carry immediates, such a program sends no message after first contact, with 2 and
/// with 4 ranks a node.
/// Shows S1, S5.
#[test]
fn a_program_of_all_calls_sends_no_message() {
    for (index, (amo, per_node)) in AMOS.into_iter().flat_map(|amo| [(amo, 2), (amo, 4)]).enumerate() {
        let ordered = index % 3 != 1;
        let delivery =
            SimDelivery { immediates: Immediates::ALL, ordered, holds: index % 2 == 0, ..SimDelivery::default() };
        run_on(Some(2), 2 * per_node, &SimOptions { delivery, ..with(amo) }, move |world| {
            let win = Window::<u64>::allocate(world, 16)?;
            whole_round(world, &win)?;
            world.barrier()?;
            same("messages", &cost(world, || whole_round(world, &win))?.messages, &0)?;
            world.barrier()?;
            let sums = win.lock_all(|epoch| Ok([epoch.fetch_value(0, 0)?, epoch.fetch_value(0, 1)?]))?;
            let others = world.size() as u64 - 1;
            same("additions", &sums, &[2 * others, 6 * others])?;
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

/// Costs of uncontended locks of `target`, in atomics of the net: `each` on the target's word, and
/// one on the word at the window's first rank, which is of the other node.
fn locks_of(world: &Rank, win: &RawWindow, target: usize, each: u64) -> Outcome {
    world.step(format!("locks of rank {target}"));
    let amos = |amos| SimCounters { amos, ..SimCounters::default() };
    let lock = |kind| cost(world, || win.lock(kind, target, Assert::NONE));
    let unlock = || cost(world, || win.unlock(target));
    // First contact.
    lock(Lock::Shared)?;
    unlock()?;
    win.lock_all(Assert::NONE)?;
    win.unlock_all()?;
    complete_all(win)?;
    same("lock shared", &lock(Lock::Shared)?, &amos(each))?;
    same("unlock shared", &unlock()?, &amos(each))?;
    complete_all(win)?;
    same("the first exclusive lock", &lock(Lock::Exclusive)?, &amos(each + 1))?;
    same("its unlock", &unlock()?, &amos(each + 1))?;
    complete_all(win)?;
    same("lock_all", &cost(world, || win.lock_all(Assert::NONE))?, &amos(1))?;
    same("unlock_all", &cost(world, || win.unlock_all())?, &amos(1))?;
    for _ in 0..64 {
        lock(Lock::Exclusive)?;
        unlock()?;
    }
    complete_all(win)?;
    same("an exclusive lock by the bias", &lock(Lock::Exclusive)?, &amos(each))?;
    same("its unlock", &unlock()?, &amos(each))?;
    Ok(complete_all(win)?)
}

/// The table of docs/protocols.md holds with 1 to 16 ranks a node. Between nodes a lock costs one
/// or two atomics of the device. Within a node the device's atomics change the same words through
/// its loopback, unless they are atomic with the CPU's, which then change the words.
/// Shows S2, S3.
#[test]
fn locks_cost_the_tables_numbers_with_many_ranks_a_node() {
    for per_node in [1, 2, 4, 8, 16] {
        for (coherence, within) in [(Coherence::DeviceOnly, 1), (Coherence::WithCpu, 0)] {
            run_on(Some(2), 2 * per_node, &with(SimAmo::All(coherence)), move |world| {
                // Ranks are dealt to the nodes in turn, so rank 0 is of the other node, and the
                // last one of this node. Each target has a window whose bias nobody has had.
                let last = (world.size() - 1, within);
                for (target, each) in [(0, 1), (world.size() - 2, 1), last].into_iter().take(per_node + 1) {
                    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
                    // The others wait, so that no lock is held.
                    if world.rank() == 1 && target != 1 {
                        locks_of(world, &win, target, each)?;
                    }
                    world.barrier()?;
                    win.free()?;
                }
                Ok(())
            });
        }
    }
}

/// Where the device performs all atomics, puts and gets of ranks of a node are still loads and
/// stores.
/// Shows T7.
#[test]
fn puts_and_gets_within_a_node_post_nothing() {
    for amo in AMOS {
        run_on(Some(2), 4, &with(amo), |world| {
            let win = Window::<u64>::allocate(world, 8)?;
            // The other rank of the node.
            let other = (world.rank() + 2) % 4;
            win.lock_all(|epoch| {
                let transfer = || {
                    let mut seen = [0];
                    epoch.put_value(other, 1, 7)?;
                    epoch.scope(|part| part.put(other, 2, &[8, 9]))?;
                    epoch.flush(other)?;
                    epoch.scope(|part| part.get(other, 1, &mut seen))
                };
                transfer()?;
                Ok(same("operations of the net", &cost(world, transfer)?, &SimCounters::default()))
            })??;
            world.barrier()?;
            Ok(win.free()?)
        });
    }
}

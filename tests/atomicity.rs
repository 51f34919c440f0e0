//! The accumulate family from all ranks at once (MPI-4.1 §12.7.1, §12.7.2). Every function is exact
//! against every other one on the same elements, elements are never torn, and the accumulates of
//! one origin keep their order. On simulated nets: tests/sim_atomicity.rs.

use std::process::ExitCode;

use family::CheckedElement;
use hammer::Workload;
use order::{order_of_bytes, program_order, reads_in_order, sums_without_order};
use pairs::{Context, Invariant, Setup, pairs_of};
use support::byte_window::{FLAVORS, disciplines};
use transom::ops::{Max, MaxLoc, Min, MinLoc, Reduction, Replace, Sum};
use transom::reduce::DoubleInt;
use transom::{Actor, Complex, Flavor, Info, Job, Route};
use transom_harness::{Outcome, Test, same, step};

#[path = "atomicity/arrays.rs"]
mod arrays;
#[path = "atomicity/family.rs"]
mod family;
#[path = "atomicity/hammer.rs"]
mod hammer;
#[path = "atomicity/misaligned.rs"]
mod misaligned;
#[path = "atomicity/order.rs"]
mod order;
#[path = "atomicity/pairs.rs"]
mod pairs;
mod support;

static TESTS: &[Test] = &[
    Test::new("all_pairs_of_i64", &[1, 2, 4, 16], pairs_i64),
    Test::new("all_pairs_of_i32", &[2, 7], pairs_i32),
    Test::new("all_pairs_of_u8", &[2, 7], pairs_u8),
    Test::new("all_pairs_of_f64", &[2, 4], pairs_f64),
    Test::new("all_pairs_of_complex", &[2, 4], pairs_complex),
    Test::new("all_pairs_of_double_int", &[2, 7], pairs_double_int),
    Test::new("extremes_of_all_pairs", &[2, 7], extremes),
    Test::new("arrays_are_exact", &[2, 5], arrays_are_exact),
    Test::new("arrays_by_the_net", &[4], arrays_by_the_net).with_env(TWO_NODES),
    Test::new("hammered_elements_are_exact", &[2, 4], hammered),
    Test::new("single_elements_are_exact_beside_long_accumulates", &[1, 2, 16], single_beside_long),
    Test::new("misaligned_elements_are_exact", &[1, 2, 4], misaligned_elements),
    Test::new("one_origins_order_is_kept", &[1, 2, 4], order),
    Test::new("without_order_sums_are_exact", &[1, 2, 5], without_order),
];

/// Ranks act in turn as if on two nodes. A net with atomics performs all of them, also within a
/// node.
const TWO_NODES: &[(&str, &str)] = &[
    ("TRANSOM_TRANSPORTS", "shm,ofi"),
    ("TRANSOM_PROVIDER", "tcp;ofi_rxm"),
    ("TRANSOM_ATOMICS", "nic"),
    ("TRANSOM_TEST_NODES", "2"),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

fn context(world: &Job) -> Context<'_> {
    Context { world, step: &|what| step(what) }
}

/// Elements of a large operation: it crosses a lock block for elements of 8 bytes.
const LEN: usize = 600;

/// Windows of each flavor with each atomicity discipline for elements of `size` bytes; a subset
/// where many ranks share few cores.
fn windows(world: &Job, size: usize) -> Vec<(Flavor, Info)> {
    // Elements of other sizes are atomic by stripe locks, under all hints.
    let all =
        if matches!(size, 4 | 8) { disciplines(world) } else { FLAVORS.map(|flavor| (flavor, Info::new())).into() };
    let every = match world.size() {
        0..5 => 1,
        5..9 => 3,
        _ => 5,
    };
    all.into_iter().step_by(every).collect()
}

/// Elements of a "many" operation. Fewer with the net's atomics, which execute one element each.
fn many(world: &Job, info: &Info) -> usize {
    let by_net = info.get("transom_atomics").map_or(world.actor() != Actor::Cpu, |actor| actor == "nic");
    if by_net { 20 } else { LEN }
}

fn run<T: CheckedElement, R: Reduction<T> + Copy>(
    world: &Job,
    invariant: Invariant,
    op: R,
    combine: fn(T, T) -> T,
) -> Outcome {
    for (flavor, info) in windows(world, size_of::<T>()) {
        let setup = Setup { flavor, len: many(world, &info), info, turns: 8 };
        pairs_of(context(world), &setup, invariant, op, combine)?;
    }
    Ok(())
}

/// MPI-4.1 §12.3.4, §12.7.1: sums and swaps by all functions, from local and remote origins, on one
/// and on many elements.
/// Shows M3, O1, O2.
fn pairs_i64(world: &Job) -> Outcome {
    run::<i64, _>(world, Invariant::Sum, Sum, i64::wrapping_add)?;
    run::<i64, _>(world, Invariant::Replace, Replace, |_, new| new)
}

/// The test for `i64`, with elements of half the width.
/// Shows M3, O1, O2.
fn pairs_i32(world: &Job) -> Outcome {
    run::<i32, _>(world, Invariant::Sum, Sum, i32::wrapping_add)?;
    run::<i32, _>(world, Invariant::Replace, Replace, |_, new| new)
}

/// Elements that share an aligned word with other elements.
/// Shows M3, O1, O2.
fn pairs_u8(world: &Job) -> Outcome {
    run::<u8, _>(world, Invariant::Sum, Sum, u8::wrapping_add)?;
    run::<u8, _>(world, Invariant::Replace, Replace, |_, new| new)
}

/// No CPU and no net has an atomic addition for this type.
/// Shows M3, O1, O2.
fn pairs_f64(world: &Job) -> Outcome {
    run::<f64, _>(world, Invariant::Sum, Sum, |a, b| a + b)?;
    run::<f64, _>(world, Invariant::Replace, Replace, |_, new| new)
}

/// 16 bytes, wider than any CPU atomic in use here: real and imaginary part always match.
/// Shows M3, O1, O2.
fn pairs_complex(world: &Job) -> Outcome {
    run::<Complex<f64>, _>(world, Invariant::Sum, Sum, |a, b| a + b)?;
    run::<Complex<f64>, _>(world, Invariant::Replace, Replace, |_, new| new)
}

/// Pairs of a value and an index, whose two members always match.
/// Shows M3, O1, O2.
fn pairs_double_int(world: &Job) -> Outcome {
    run::<DoubleInt, _>(world, Invariant::Max, MaxLoc, |old, new| if new.value() > old.value() { new } else { old })?;
    run::<DoubleInt, _>(world, Invariant::Min, MinLoc, |old, new| if new.value() < old.value() { new } else { old })?;
    run::<DoubleInt, _>(world, Invariant::Replace, Replace, |_, new| new)
}

/// The largest and the smallest of all operands remain, and values change monotonically until then.
/// Shows M3, O1, O2.
fn extremes(world: &Job) -> Outcome {
    run::<i64, _>(world, Invariant::Max, Max, i64::max)?;
    run::<i32, _>(world, Invariant::Min, Min, i32::min)?;
    run::<u8, _>(world, Invariant::Max, Max, u8::max)?;
    run::<f64, _>(world, Invariant::Min, Min, f64::min)
}

/// Arrays by operations for which devices have no atomic, more elements than share round trips, and
/// elements that overlap.
/// Shows M3, M4, O1, O2.
fn arrays_are_exact(world: &Job) -> Outcome {
    for (flavor, info) in &windows(world, size_of::<i64>()) {
        arrays::sums_and_bits(context(world), (*flavor, info), 150)?;
        arrays::repeated_locations(context(world), *flavor)?;
    }
    Ok(())
}

/// The net lacks maxima and bits. More elements than share round trips are combined at once, by
/// ranks of the target's node and by others.
/// Shows M3, M4, O1, O2.
/// Route: mixed.
fn arrays_by_the_net(world: &Job) -> Outcome {
    same("the actor", &world.actor(), &Actor::Nic)?;
    for flavor in [Flavor::Allocate, Flavor::Create] {
        arrays::sums_and_bits(context(world), (flavor, &Info::new()), 150)?;
        arrays::repeated_locations(context(world), flavor)?;
        let setup = Setup { flavor, info: Info::new(), len: 70, turns: 4 };
        pairs_of::<i64, _>(context(world), &setup, Invariant::Max, Max, i64::max)?;
        pairs_of::<i64, _>(context(world), &setup, Invariant::Sum, Sum, i64::wrapping_add)?;
    }
    Ok(())
}

/// MPI-4.1 §12.3.4: all functions on a type use one atomicity discipline, for any number of
/// elements.
/// Shows M3, O1, O2.
fn hammered(world: &Job) -> Outcome {
    let routes = (0..world.size()).map(|rank| world.route(rank)).collect::<Result<Vec<_>, _>>()?;
    for (flavor, info) in &windows(world, size_of::<i64>()) {
        let turns = match flavor {
            _ if routes.contains(&Route::Net) => 30,
            Flavor::Allocate | Flavor::Shared => 1000,
            // By cross-memory attach, or by messages.
            _ => 200,
        };
        let workload = Workload { flavor: *flavor, info, turns };
        hammer::sums::<i64>(context(world), workload, i64::wrapping_add)?;
        hammer::sums::<i32>(context(world), workload, i32::wrapping_add)?;
        hammer::sums::<u8>(context(world), workload, u8::wrapping_add)?;
        hammer::sums::<f64>(context(world), workload, |a, b| a + b)?;
        hammer::swaps::<i64>(context(world), workload)?;
        hammer::swaps::<i32>(context(world), workload)?;
        hammer::swaps::<Complex<f64>>(context(world), workload)?;
        hammer::whole_elements(context(world), workload)?;
    }
    Ok(())
}

/// MPI-4.1 §12.7.1: single elements by the CPU's atomics, and vector code over many.
/// Shows M3, O1, O2.
fn single_beside_long(world: &Job) -> Outcome {
    let routes = (0..world.size()).map(|rank| world.route(rank)).collect::<Result<Vec<_>, _>>()?;
    for (flavor, info) in &windows(world, size_of::<i64>()) {
        let turns = match flavor {
            _ if routes.contains(&Route::Net) => 120,
            Flavor::Allocate | Flavor::Shared => 20_000 / world.size(),
            _ => 4000 / world.size(),
        };
        let workload = Workload { flavor: *flavor, info, turns };
        hammer::sums_beside_long_accumulates::<i64>(context(world), workload, i64::wrapping_add)?;
        hammer::sums_beside_long_accumulates::<i32>(context(world), workload, i32::wrapping_add)?;
        hammer::sums_beside_long_accumulates::<f64>(context(world), workload, |a, b| a + b)?;
    }
    Ok(())
}

/// Integers that atomics change where they are aligned, and floats, which always take the lock.
/// Shows M3, O1, O2.
fn misaligned_elements(world: &Job) -> Outcome {
    let routes = (0..world.size()).map(|rank| world.route(rank)).collect::<Result<Vec<_>, _>>()?;
    for (flavor, info) in &windows(world, size_of::<i64>()) {
        let turns = match flavor {
            _ if routes.contains(&Route::Net) => 30,
            Flavor::Allocate | Flavor::Shared => 2000,
            _ => 200,
        };
        misaligned::sums::<i64>(context(world), (*flavor, info), turns, i64::wrapping_add)?;
        misaligned::sums::<i32>(context(world), (*flavor, info), turns, i32::wrapping_add)?;
        misaligned::sums::<f64>(context(world), (*flavor, info), turns, |a, b| a + b)?;
    }
    Ok(())
}

/// Runs `body` on typed windows of each flavor.
fn on_typed_windows(world: &Job, body: impl Fn(Flavor, usize, &Info) -> Outcome) -> Outcome {
    let all = windows(world, size_of::<i64>());
    all.iter()
        .filter(|window| window.0 != Flavor::Dynamic)
        .try_for_each(|(flavor, info)| body(*flavor, many(world, info), info))
}

/// MPI-4.1 §12.7.2: `rar`, `raw`, `war`, `waw` by default.
/// Shows M4, O1.
fn order(world: &Job) -> Outcome {
    on_typed_windows(world, |flavor, many, info| {
        program_order::<i64>(context(world), flavor, many, info)?;
        program_order::<i32>(context(world), flavor, 5, info)?;
        program_order::<u8>(context(world), flavor, 5, info)?;
        program_order::<f64>(context(world), flavor, 5, info)?;
        program_order::<Complex<f64>>(context(world), flavor, many, info)?;
        reads_in_order::<i64>(context(world), flavor, info)?;
        reads_in_order::<f64>(context(world), flavor, info)
    })?;
    for (flavor, info) in windows(world, size_of::<i64>()) {
        order_of_bytes::<i64>(context(world), flavor, many(world, &info), &info)?;
        order_of_bytes::<u8>(context(world), flavor, many(world, &info), &info)?;
    }
    Ok(())
}

/// MPI-4.1 §12.7.2: `accumulate_ordering=none`.
/// Shows M4, W6.
fn without_order(world: &Job) -> Outcome {
    on_typed_windows(world, |flavor, many, info| {
        sums_without_order::<i64>(context(world), flavor, many, info)?;
        sums_without_order::<u8>(context(world), flavor, many, info)?;
        sums_without_order::<Complex<f64>>(context(world), flavor, many, info)
    })
}

//! The accumulate family from all ranks at once on simulated nets, with the net as atomicity actor
//! and without. The bodies are those of tests/atomicity.rs; the nets delay, reorder, refuse and
//! tear operations.
//!
//! Route: sim.

use order::{order_of_bytes, program_order, reads_in_order, sums_without_order};
use pairs::{Context, Invariant, Setup, pairs_of};
use simulated::{Outcome, Rank, nets, run, same};
use support::byte_window::ByteWindow;
use transom::ops::{Max, MaxLoc, Min, Replace, Sum};
use transom::reduce::DoubleInt;
use transom::{BasicType, Complex, Flavor, Info, Op};

#[path = "atomicity/arrays.rs"]
mod arrays;
#[path = "atomicity/family.rs"]
mod family;
#[path = "atomicity/misaligned.rs"]
mod misaligned;
#[path = "atomicity/order.rs"]
mod order;
#[path = "atomicity/pairs.rs"]
mod pairs;
mod simulated;
mod support;

/// Runs `body` on all nets, with windows of `flavors` in turn and both granularities.
fn everywhere(ranks: usize, flavors: &'static [Flavor], body: fn(Context<'_>, Flavor, &Info) -> Outcome) {
    for (index, options) in nets().enumerate() {
        let granularity = if index % 5 == 0 { "8" } else { "0" };
        let info = Info::new().with("mpi_accumulate_granularity", granularity);
        run(ranks, &options, move |rank: &Rank| {
            let step = |what| rank.step(what);
            body(Context { world: rank, step: &step }, flavors[index % flavors.len()], &info)
        });
    }
}

const TYPED: &[Flavor] = &[Flavor::Allocate, Flavor::Create];
const ALL: &[Flavor] = &[Flavor::Allocate, Flavor::Create, Flavor::Dynamic];

fn setup(flavor: Flavor, info: &Info) -> Setup {
    Setup { flavor, info: info.clone(), len: 21, turns: 8 }
}

/// The address of an element, not its offset in the window, decides whether the net performs it.
/// Shows O4.
#[test]
fn created_windows_may_begin_anywhere() {
    for options in nets() {
        run(2, &options, |world| {
            let (win, one) = (ByteWindow::skewed(world, 64, 4)?, 1u64.to_ne_bytes());
            for at in [8, 20] {
                win.fetch(&one, BasicType::Uint64, 1, at, Op::Sum)?;
                world.barrier()?;
                same("the sum", &win.read(1, at, 8)?, &2u64.to_ne_bytes().to_vec())?;
                world.barrier()?;
            }
            Ok(win.free()?)
        });
    }
}

/// MPI-4.1 §12.3.4, §12.7.1: types that the net may perform itself.
/// Shows M3, O1, O2.
#[test]
fn all_pairs_of_words_are_exact() {
    everywhere(3, ALL, |context, flavor, info| {
        pairs_of::<i64, _>(context, &setup(flavor, info), Invariant::Sum, Sum, i64::wrapping_add)?;
        pairs_of::<i32, _>(context, &setup(flavor, info), Invariant::Replace, Replace, |_, new| new)
    });
}

/// Types that no net performs: bytes, floats, complex numbers.
/// Shows M3, O1, O2.
#[test]
fn all_pairs_of_other_types_are_exact() {
    everywhere(3, ALL, |context, flavor, info| {
        pairs_of::<u8, _>(context, &setup(flavor, info), Invariant::Replace, Replace, |_, new| new)?;
        pairs_of::<f64, _>(context, &setup(flavor, info), Invariant::Sum, Sum, |a, b| a + b)?;
        pairs_of::<Complex<f64>, _>(context, &setup(flavor, info), Invariant::Sum, Sum, |a, b| a + b)
    });
}

/// MAX, MIN, and pairs with an index; on a net these are compare-and-swap loops.
/// Shows M3, O1, O2.
#[test]
fn all_pairs_of_extremes_are_exact() {
    everywhere(2, ALL, |context, flavor, info| {
        pairs_of::<i64, _>(context, &setup(flavor, info), Invariant::Max, Max, i64::max)?;
        pairs_of::<i32, _>(context, &setup(flavor, info), Invariant::Min, Min, i32::min)?;
        let larger = |old: DoubleInt, new: DoubleInt| if new.value() > old.value() { new } else { old };
        pairs_of::<DoubleInt, _>(context, &setup(flavor, info), Invariant::Max, MaxLoc, larger)
    });
}

/// Arrays by operations for which a net may have no atomic, some hundred elements at a time, and
/// elements that overlap.
/// Shows M3, M4, O1, O2.
#[test]
fn arrays_are_exact() {
    everywhere(3, ALL, |context, flavor, info| {
        arrays::sums_and_bits(context, (flavor, info), 150)?;
        arrays::repeated_locations(context, flavor)
    });
}

/// Misaligned elements, which no net's atomics change, beside aligned ones, which they do.
/// Shows M3, O1, O2.
#[test]
fn misaligned_elements_are_exact() {
    everywhere(3, ALL, |context, flavor, info| {
        misaligned::sums::<i64>(context, (flavor, info), 21, i64::wrapping_add)?;
        misaligned::sums::<i32>(context, (flavor, info), 21, i32::wrapping_add)?;
        misaligned::sums::<f64>(context, (flavor, info), 21, |a, b| a + b)
    });
}

/// MPI-4.1 §12.7.2: `rar`, `raw`, `war`, `waw`, on nets that reorder messages.
/// Shows M4.
#[test]
fn one_origins_order_is_kept() {
    everywhere(3, TYPED, |context, flavor, info| {
        program_order::<i64>(context, flavor, 9, info)?;
        program_order::<i32>(context, flavor, 9, info)?;
        program_order::<Complex<f64>>(context, flavor, 9, info)?;
        reads_in_order::<i64>(context, flavor, info)?;
        reads_in_order::<f64>(context, flavor, info)
    });
}

/// The test through the byte-level window.
/// Shows M4.
#[test]
fn one_origins_order_is_kept_by_bytes() {
    everywhere(3, ALL, |context, flavor, info| {
        order_of_bytes::<i64>(context, flavor, 9, info)?;
        order_of_bytes::<i32>(context, flavor, 9, info)?;
        order_of_bytes::<f64>(context, flavor, 9, info)
    });
}

/// MPI-4.1 §12.7.2: `accumulate_ordering=none`.
/// Shows M4.
#[test]
fn without_order_sums_are_exact() {
    everywhere(3, TYPED, |context, flavor, info| {
        sums_without_order::<i64>(context, flavor, 21, info)?;
        sums_without_order::<u8>(context, flavor, 21, info)?;
        sums_without_order::<f64>(context, flavor, 21, info)
    });
}

//! Derived layouts at both ends. Put, get and accumulate move the same bytes as a model that moves
//! single elements, on every route and in windows of every flavor. A layout that overlaps or
//! reaches outside the window is refused and writes nothing. tests/sim_layouts.rs counts the
//! messages.

use std::process::ExitCode;

use mapped_type::{MappedType, Rng, overlaps, span};
use support::byte_window::{ByteWindow, FLAVORS, Shape, class, targets};
use support::model::{combined, mixed};
use transom::datatype::Order;
use transom::{BasicType, Class, Datatype, Flavor, Info, Job, Op, Result};
use transom_harness::{Outcome, Test, ensure, same, step};

#[path = "layouts/bounds.rs"]
mod bounds;
#[path = "layouts/halos.rs"]
mod halos;
#[path = "layouts/mapped_type.rs"]
mod mapped_type;
#[path = "layouts/scattered.rs"]
mod scattered;
mod support;

static TESTS: &[Test] = &[
    Test::new("every_constructor_with_every_other", &[1, 2], constructors),
    Test::new("random_layouts_at_both_ends", &[1, 2], random),
    Test::new("random_layouts_of_mixed_types", &[1, 2], random_mixed),
    Test::new("long_layouts_of_several_messages", &[1, 2], long),
    Test::new("entries_of_the_target_do_not_overlap", &[1, 2], bounds::overlaps),
    Test::new("signatures_must_match", &[1, 2], bounds::signatures),
    Test::new("true_spans_are_checked", &[1, 2], bounds::spans),
    Test::new("absurd_spans_are_errors", &[1, 2], bounds::absurd),
    Test::new("halos_of_a_plane", &[1, 2, 4], halos::plane),
    Test::new("faces_of_a_cube", &[1, 2, 3], halos::cube),
    Test::new("sums_on_scattered_elements", &[1, 2, 4], scattered::sums),
    Test::new("accumulates_of_wrong_items", &[1, 2], scattered::refused),
    // Shows T2.
    // Route: shm.
    Test::new("random_layouts_without_cross_memory_attach", &[2], random).with_env(&[("TRANSOM_CMA", "n")]),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// Bytes of each rank's part of the window.
const BYTES: usize = 8192;

/// The offset in the part at which layouts begin, so that negative offsets stay inside.
fn begin(win: &ByteWindow) -> usize {
    win.bytes() / 2
}

/// Runs `body` at rank 0 with windows of every flavor, each with a number of its own.
fn on_every_window(world: &Job, bytes: usize, body: impl Fn(&ByteWindow, usize, u64) -> Outcome) -> Outcome {
    for (index, flavor) in FLAVORS.into_iter().enumerate() {
        step(format!("{flavor:?}"));
        let Some(win) = ByteWindow::new(world, flavor, bytes, &Info::new())? else {
            ensure(flavor == Flavor::Shared, "only shared windows need one node")?;
            continue;
        };
        if world.rank() == 0 {
            for target in targets(world) {
                body(&win, target, index as u64)?;
            }
        }
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

/// A count of items of a datatype.
type Side<'a> = (&'a MappedType, usize);

/// Moves elements with a layout at each side, there and back, and accumulates where all elements
/// have one type.
fn check_transfers(
    win: &ByteWindow,
    target: usize,
    (ours, count): Side<'_>,
    (theirs, other): Side<'_>,
    seed: u64,
) -> Outcome {
    let (from, to) = (ours.items(count), theirs.items(other));
    same("the test's own types", &from.iter().map(|it| it.1).collect::<Vec<_>>(), &to.iter().map(|it| it.1).collect())?;
    let (low, end) = span(&from);
    let zero = usize::try_from(-low.min(0))? + 8;
    let origin = pattern(zero + usize::try_from(end.max(0))? + 8, seed);
    let (bytes, begin) = (win.bytes(), begin(win));
    let before = pattern(bytes, seed + 1);
    let mine = |at: i64, len: usize| index(zero, at)..index(zero, at) + len;
    let there = |at: i64, len: usize| index(begin, at)..index(begin, at) + len;
    let (shape, to_shape) = (Shape { zero, count, ty: &ours.ty }, Shape::new(other, &theirs.ty));

    let back = |held: &[u8]| {
        let (mut found, mut whole) = (vec![0x3c; origin.len()], vec![0x3c; origin.len()]);
        win.get(&mut found, shape, target, begin, to_shape)?;
        for (&(a, ty), &(b, _)) in from.iter().zip(&to) {
            whole[mine(a, ty.size())].copy_from_slice(&held[there(b, ty.size())]);
        }
        ensure(found == whole, "the origin after a get")
    };
    let (low, end) = span(&to);
    let is_inside = low >= -i64::try_from(begin)? && end <= i64::try_from(bytes - begin)?;

    win.write(target, 0, &before)?;
    let put = win.put(&origin, shape, target, begin, to_shape);
    if overlaps(&to) {
        same("entries that overlap", &class(put), &Some(Class::Type))?;
        ensure(win.read(target, 0, bytes)? == before, "refused, and nothing written")?;
        return if is_inside && !overlaps(&from) { back(&before) } else { Ok(()) };
    }
    if !is_inside {
        same("entries outside", &class(put), &Some(Class::RmaRange))?;
        return ensure(win.read(target, 0, bytes)? == before, "refused, and nothing written");
    }
    put?;
    let mut expected = before.clone();
    for (&(a, ty), &(b, _)) in from.iter().zip(&to) {
        expected[there(b, ty.size())].copy_from_slice(&origin[mine(a, ty.size())]);
    }
    ensure(win.read(target, 0, bytes)? == expected, "the target after a put")?;
    if overlaps(&from) {
        return Ok(());
    }
    back(&expected)?;
    let Some(ty) = ours.ty.uniform() else { return Ok(()) };
    check_accumulates(win, target, (&origin, shape, &from, zero), (&expected, to_shape, &to), ty)
}

/// The same layouts for `accumulate` and `get_accumulate`. The elements have arbitrary bits, so the
/// operations are those on bits and integers.
fn check_accumulates(
    win: &ByteWindow,
    target: usize,
    (origin, shape, from, zero): (&[u8], Shape<'_>, &[(i64, BasicType)], usize),
    (before, to_shape, to): (&[u8], Shape<'_>, &[(i64, BasicType)]),
    ty: BasicType,
) -> Outcome {
    let op = match ty {
        BasicType::Byte => Op::Bxor,
        BasicType::Int64 | BasicType::Uint16 | BasicType::Int32 => Op::Sum,
        _ => Op::Replace,
    };
    let (size, begin, basic) = (ty.size(), begin(win), Datatype::basic(ty));
    // The target's elements at the end, after the first of two accumulates, and at the end in the
    // origin's places.
    let (mut now, mut once, mut spread) = (before.to_vec(), Vec::new(), vec![0x3c; origin.len()]);
    let padding = vec![0x77; ty.extent() - size];
    for (&(a, _), &(b, _)) in from.iter().zip(to) {
        let (a, b) = (index(zero, a), index(begin, b));
        let operand = &origin[a..a + size];
        let first = combined(op, ty, &now[b..b + size], operand);
        let second = combined(op, ty, &first, operand);
        now[b..b + size].copy_from_slice(&second);
        spread[a..a + size].copy_from_slice(&second);
        once.extend([first, padding.clone()].concat());
    }
    let there = (target, begin, to_shape);
    let (mut row, mut back) = (vec![0x77; once.len()], vec![0x3c; origin.len()]);
    win.accumulate((origin, shape), there, op)?;
    win.get_accumulate((origin, shape), (&mut row, Shape::new(from.len(), &basic)), there, op)?;
    ensure(row == once, "the values from before, in a row")?;
    win.get_accumulate((origin, shape), (&mut back, shape), there, Op::NoOp)?;
    ensure(back == spread, "the values in the places of the origin")?;
    ensure(win.read(target, 0, win.bytes())? == now, "the target after two accumulates")
}

/// Bytes that depend on the seed.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).flat_map(|word| mixed(seed << 32 | word).to_ne_bytes());
    words.take(len).collect()
}

fn index(zero: usize, at: i64) -> usize {
    zero.checked_add_signed(isize::try_from(at).expect("small")).expect("inside")
}

/// Twelve elements, by each constructor.
fn layouts_of_twelve(ty: BasicType) -> Result<Vec<(&'static str, MappedType, usize)>> {
    let one = MappedType::basic(ty);
    let size = isize::try_from(ty.size()).expect("small");
    Ok(vec![
        ("elements", one.clone(), 12),
        ("contiguous", one.contiguous(4)?, 3),
        ("vector", one.vector(3, 4, 7)?, 1),
        ("vector backwards", one.vector(6, 2, -3)?, 1),
        ("hvector", one.hvector(4, 3, 5 * size)?, 1),
        ("hvector backwards", one.hvector(12, 1, -2 * size)?, 1),
        ("indexed", one.indexed(&[(5, 9), (3, 0), (4, -5)])?, 1),
        ("hindexed", one.hindexed(&[(1, 0), (10, 3 * size), (1, -2 * size)])?, 1),
        ("indexed_block", one.indexed_block(3, &[12, 0, 4, 8])?, 1),
        ("structure", MappedType::structure(&[(7, 0, one.clone()), (5, 9 * size, one.clone())])?, 1),
        ("subarray", one.subarray(&[(5, 3, 1), (6, 4, 2)], Order::C)?, 1),
        ("subarray of Fortran", one.subarray(&[(4, 2, 1), (3, 2, 0), (4, 3, 1)], Order::Fortran)?, 1),
        ("resized", one.vector(2, 1, 2)?.resized(0, 4 * size)?, 6),
        ("resized backwards", one.contiguous(2)?.resized(0, -3 * size)?, 6),
        ("interleaved", one.vector(2, 1, 3)?.resized(0, size)?.contiguous(3)?.resized(0, 7 * size)?, 2),
        ("nested", one.vector(2, 1, 2)?.vector(3, 2, 3)?, 1),
    ])
}

/// Each constructor of MPI-4.1 §5.1 at the origin with each one at the target.
/// Shows O5, O1, O6.
fn constructors(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, seed| {
        for ty in [BasicType::Int64, BasicType::Uint16, BasicType::Byte, BasicType::Complex64] {
            let all = layouts_of_twelve(ty)?;
            for ((ours, origin, count), (theirs, there, other)) in
                all.iter().flat_map(|ours| all.iter().map(move |theirs| (ours, theirs)))
            {
                let what = format!("{ours} to {theirs} of {ty} at rank {target}");
                step(&what);
                check_transfers(win, target, (origin, *count), (there, *other), seed)
                    .map_err(|it| format!("{what}: {it}"))?;
            }
        }
        Ok(())
    })
}

/// A series of random pairs. A failure names the seed, and `TRANSOM_TEST_SEED` runs that pair
/// alone.
fn seeds(
    win: &ByteWindow,
    target: usize,
    (flavor, count): (u64, u64),
    pair: impl Fn(&mut Rng) -> Result<[(MappedType, usize); 2]>,
) -> Outcome {
    let wanted: Option<u64> = std::env::var("TRANSOM_TEST_SEED").ok().map(|seed| seed.parse()).transpose()?;
    let seeds = wanted.map_or(flavor * 1000..flavor * 1000 + count, |seed| seed..seed + 1);
    for seed in seeds {
        let [ours, theirs] = pair(&mut Rng::new(seed))?;
        let what = || format!("TRANSOM_TEST_SEED={seed} at rank {target}: {ours:?} to {theirs:?}");
        step(format!("seed {seed}"));
        check_transfers(win, target, (&ours.0, ours.1), (&theirs.0, theirs.1), seed)
            .map_err(|error| format!("{error}\n{}", what()))?;
    }
    Ok(())
}

/// Layouts of one basic type, nested up to three times.
/// Shows O5, O1.
fn random(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, flavor| {
        seeds(win, target, (flavor, 300), |rng| {
            let types = [BasicType::Byte, BasicType::Uint16, BasicType::Int32, BasicType::Int64, BasicType::DoubleInt];
            let one = MappedType::basic(types[rng.below(types.len())]);
            let n = [1, 6, 12, 24, 36][rng.below(5)];
            let mut side = || -> Result<(MappedType, usize)> {
                let count = [1, 1, 2, 3][rng.below(4)];
                let count = if n % count == 0 { count } else { 1 };
                Ok((rng.layout(n / count, &one, 3)?, count))
            };
            Ok([side()?, side()?])
        })
    })
}

/// Layouts of a structure with several types, whose members have other offsets at each side.
/// Shows O5, O1.
fn random_mixed(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |win, target, flavor| {
        seeds(win, target, (flavor, 300), |rng| {
            let mut side = || -> Result<(MappedType, usize)> {
                let members = [(2, BasicType::Int32), (1, BasicType::Float64), (3, BasicType::Uint8)];
                let mut places = [0, 10, 20];
                places.rotate_left(rng.below(3));
                let part = |(&(count, ty), at): (&(usize, BasicType), isize)| (count, at, MappedType::basic(ty));
                let parts: Vec<_> = members.iter().zip(places).map(part).collect();
                Ok((rng.layout(12, &MappedType::structure(&parts)?, 1)?, 1))
            };
            Ok([side()?, side()?])
        })
    })
}

/// More data, and more blocks, than a message holds.
/// Shows O5, O1.
fn long(world: &Job) -> Outcome {
    on_every_window(world, 1 << 20, |win, target, flavor| {
        seeds(win, target, (flavor, 4), |rng| {
            let one = MappedType::basic([BasicType::Int32, BasicType::Int64][rng.below(2)]);
            Ok([(rng.layout(5040, &one, 2)?, 1), (rng.layout(5040, &one, 2)?, 1)])
        })
    })
}

//! The accumulate family, one origin at a time. Every type with every operation runs in windows of
//! every flavor and is compared with a model that shares no code with the library. Calls that MPI
//! does not allow fail and have no effect. Atomicity among origins: tests/atomicity.rs.

use std::process::ExitCode;

use support::byte_window::{ByteWindow, Shape, disciplines, targets};
use support::model::{all_combined, elements, equal, with_padding};
use transom::{Actor, BasicType, Datatype, Flavor, Job, Op};
use transom_harness::{Outcome, Test, ensure, same, step};

#[path = "accumulate/edges.rs"]
mod edges;
#[path = "accumulate/refused.rs"]
mod refused;
mod support;
#[path = "accumulate/typed.rs"]
mod typed;

static TESTS: &[Test] = &[
    Test::new("every_type_with_every_operation", &[1, 2], every_operation),
    Test::new("compare_and_swap_on_all_its_types", &[1, 2], compare_and_swap),
    Test::new("long_accumulates_cross_blocks_of_stripes", &[1, 2], long_accumulates),
    Test::new("undefined_pairs_change_no_memory", &[1, 2], refused::illegal_pairs),
    Test::new("mismatched_types_change_no_memory", &[1, 2], refused::unfitting_types),
    Test::new("misaligned_elements_with_every_operation", &[1, 2], misaligned),
    Test::new("no_elements_and_proc_null_have_no_effect", &[1, 2], edges::no_elements),
    Test::new("displacements_past_two_gibibytes", &[1, 2], edges::far_displacements),
    Test::new("typed_operations_on_proc_null_and_oneself", &[1, 2], typed::proc_null),
    Test::new("typed_operations_agree_with_the_model", &[1, 2], typed::every_function),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// Runs `body` on windows of every flavor and atomicity discipline.
fn on_every_window(world: &Job, bytes: usize, body: impl Fn(&Job, &ByteWindow, &str) -> Outcome) -> Outcome {
    for (flavor, info) in disciplines(world) {
        let what = format!("{flavor:?} {info:?}");
        step(&what);
        let Some(win) = ByteWindow::new(world, flavor, bytes, &info)? else {
            ensure(flavor == Flavor::Shared, &what)?;
            continue;
        };
        if world.rank() == 0 {
            body(world, &win, &what)?;
        }
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

/// One call of the accumulate family on `count` elements; all its results are checked.
struct Case<'a> {
    win: &'a ByteWindow,
    target: usize,
    offset: usize,
    ty: BasicType,
    op: Op,
    seed: u64,
}

/// The functions of the family that take any operation.
#[derive(Clone, Copy, Debug)]
enum Function {
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    Raccumulate,
    RgetAccumulate,
}

const FUNCTIONS: [Function; 5] = [
    Function::Accumulate,
    Function::GetAccumulate,
    Function::FetchAndOp,
    Function::Raccumulate,
    Function::RgetAccumulate,
];

impl Case<'_> {
    /// Puts elements, applies the call to them, and checks the elements, the fetched values, and
    /// the bytes beside the elements.
    fn check(&self, function: Function, count: usize) -> Outcome {
        let &Case { win, target, offset, ty, op, seed } = self;
        let len = count * ty.extent();
        let (before, operand) = (elements(ty, count, seed), elements(ty, count, seed + 1));
        let guarded = [&[0xa5; 16][..], &before, &[0x5a; 16]].concat();
        win.write(target, offset - 16, &guarded)?;
        let basic = Datatype::basic(ty);
        let shape = Shape::new(count, &basic);
        let mut old = vec![0x77; len];
        let mut expected_old = with_padding(ty, before.clone(), 0x77);
        match function {
            Function::Accumulate => win.accumulate((&operand, shape), (target, offset, shape), op)?,
            Function::Raccumulate => win.raccumulate((&operand, shape), (target, offset, shape), op)?,
            Function::GetAccumulate => {
                win.get_accumulate((&operand, shape), (&mut old, shape), (target, offset, shape), op)?;
            }
            Function::RgetAccumulate => {
                win.rget_accumulate((&operand, shape), (&mut old, shape), (target, offset, shape), op)?;
            }
            Function::FetchAndOp => {
                old = win.fetch(&operand, ty, target, offset, op)?;
                expected_old = with_padding(ty, expected_old, 0xee);
            }
        }
        let after = win.read(target, offset - 16, len + 32)?;
        let expected = all_combined(op, ty, &before, &operand);
        let what = || format!("{function:?} {op} of {count} {ty} at {offset} of rank {target}, seed {seed}");
        let inner = &after[16..16 + len];
        ensure(equal(ty, inner, &expected), &format!("{}: {inner:x?} instead of {expected:x?}", what()))?;
        ensure(
            after[..16] == guarded[..16] && after[16 + len..] == guarded[16 + len..],
            &format!("{}: beside", what()),
        )?;
        if !matches!(function, Function::Accumulate | Function::Raccumulate) {
            let wrong = || format!("{}: old {old:x?} instead of {expected_old:x?}", what());
            ensure(equal(ty, &old, &expected_old), &wrong())?;
        }
        Ok(())
    }
}

/// MPI-4.1 §12.3.4: every operation on every type for which MPI defines it, by every function.
/// Shows O1, O2, O3, O4, O6, W1.
fn every_operation(world: &Job) -> Outcome {
    on_every_window(world, 512, |world, win, what| {
        let mut seed = 0;
        for (ty, op) in BasicType::ALL.into_iter().flat_map(|ty| Op::ALL.map(|op| (ty, op))) {
            if !op.allows(ty) {
                continue;
            }
            step(format!("{what} {op} {ty}"));
            for (target, function) in targets(world).into_iter().flat_map(|rank| FUNCTIONS.map(|it| (rank, it))) {
                let count = if matches!(function, Function::FetchAndOp) { 1 } else { 7 };
                seed += 2;
                // Not a multiple of any number larger than the type's alignment.
                let offset = 64 + ty.align();
                Case { win, target, offset, ty, op, seed }.check(function, count)?;
            }
        }
        Ok(())
    })
}

/// MPI-4.1 §12.3.4: compare-and-swap stores only where it finds the expected value; neighbouring
/// elements stay unchanged.
/// Shows O1, O3, O4, O6.
fn compare_and_swap(world: &Job) -> Outcome {
    on_every_window(world, 256, |world, win, what| {
        for ty in BasicType::ALL.into_iter().filter(|&ty| Op::allows_compare_and_swap(ty)) {
            for target in targets(world) {
                step(format!("{what} {ty} rank {target}"));
                swaps(win, ty, (target, 64 + ty.size()))?;
            }
        }
        Ok(())
    })
}

/// Compare-and-swaps of one element that store and that do not.
fn swaps(win: &ByteWindow, ty: BasicType, (target, at): (usize, usize)) -> Outcome {
    let size = ty.size();
    let first = vec![0x81; size];
    let (second, third) = (vec![0xfe; size], vec![0x03; size]);
    win.write(target, 0, &[0x44; 256])?;
    win.write(target, at, &first)?;
    let nearly = [&first[..size - 1], &[0x80]].concat();
    for (new, expected, old, now) in [
        (&second, &nearly, &first, &first),
        (&second, &first, &first, &second),
        (&third, &first, &second, &second),
        (&third, &second, &second, &third),
    ] {
        let found = win.swap(new, expected, ty, target, at)?;
        ensure(found == *old, &format!("{ty}: old {found:x?} instead of {old:x?}"))?;
        let mut whole = vec![0x44; 256];
        whole[at..at + size].copy_from_slice(now);
        ensure(win.read(target, 0, 256)? == whole, &format!("{ty}: not {now:x?}, or elements beside"))?;
    }
    Ok(())
}

/// MPI requires no alignment of elements at the target: packed structures, and shared windows after
/// a part of odd size, have misaligned ones.
/// Shows O1, O2, O3, O4, O6, W1.
fn misaligned(world: &Job) -> Outcome {
    on_every_window(world, 512, |world, win, what| {
        let mut seed = 1;
        for (ty, op) in BasicType::ALL.into_iter().flat_map(|ty| Op::ALL.map(|op| (ty, op))) {
            if ty.align() == 1 || !op.allows(ty) {
                continue;
            }
            step(format!("{what} {op} {ty}"));
            for (target, function) in targets(world).into_iter().flat_map(|rank| FUNCTIONS.map(|it| (rank, it))) {
                let most = if matches!(function, Function::FetchAndOp) { 1 } else { 7 };
                for (offset, count) in [(65, most), (64 + ty.align() / 2, 1)] {
                    seed += 2;
                    Case { win, target, offset, ty, op, seed }.check(function, count)?;
                }
            }
        }
        for ty in BasicType::ALL.into_iter().filter(|&ty| Op::allows_compare_and_swap(ty)) {
            for target in targets(world) {
                step(format!("{what} swap of {ty} rank {target}"));
                swaps(win, ty, (target, 65))?;
            }
        }
        ragged(world, win)
    })?;
    skewed(world)
}

/// One type with an aligned and a misaligned element.
fn ragged(world: &Job, win: &ByteWindow) -> Outcome {
    for ty in [BasicType::Int32, BasicType::Uint64, BasicType::Float64, BasicType::LongInt] {
        let (size, extent, basic) = (ty.size(), ty.extent(), Datatype::basic(ty));
        let two = Shape::new(2, &basic);
        let ragged = Datatype::hvector(2, 1, isize::try_from(size + 1)?, &basic)?;
        for target in targets(world) {
            step(format!("ragged {ty} rank {target}"));
            let (before, operand) = (elements(ty, 2, 3), elements(ty, 2, 4));
            let op = if Op::Sum.allows(ty) { Op::Sum } else { Op::MaxLoc };
            let spread =
                |both: &[u8]| [&[0x11; 16], &both[..size], &[0x22], &both[extent..extent + size], &[0x33; 16]].concat();
            win.write(target, 0, &spread(&before))?;
            let mut old = vec![0x77; 2 * extent];
            let to = (target, 16, Shape::new(1, &ragged));
            win.get_accumulate((&operand, two), (&mut old, two), to, op)?;
            let expected = with_padding(ty, before.clone(), 0x77);
            ensure(old == expected, &format!("{ty}: old {old:x?} instead of {expected:x?}"))?;
            let (found, all) = (win.read(target, 0, 33 + 2 * size)?, all_combined(op, ty, &before, &operand));
            ensure(found == spread(&all), &format!("{ty}: {found:x?} instead of {all:x?}"))?;
        }
    }
    Ok(())
}

/// A created window may begin anywhere.
fn skewed(world: &Job) -> Outcome {
    let win = ByteWindow::skewed(world, 64, 4)?;
    let (target, one) = (world.size() - 1, 1u64.to_ne_bytes());
    for at in [8, 20] {
        win.fetch(&one, BasicType::Uint64, target, at, Op::Sum)?;
        world.barrier()?;
        same("the sum", &win.read(target, at, 8)?, &(world.size() as u64).to_ne_bytes().to_vec())?;
        world.barrier()?;
    }
    Ok(win.free()?)
}

/// Large accumulates are executed in blocks of 4 KiB; an element that crosses a block boundary is
/// atomic too.
/// Shows O1, O4.
fn long_accumulates(world: &Job) -> Outcome {
    use BasicType::{Complex64, DoubleInt, Float64, Int32, Int64, ShortInt, Uint8};
    on_every_window(world, 40_000, |world, win, what| {
        // The net executes single elements and has no blocks.
        let most = if win.raw().actor() != Actor::Cpu { 600 } else { 14_000 };
        for (ty, op) in [
            (Uint8, Op::Bxor),
            (Int32, Op::Sum),
            (Int64, Op::Max),
            (Float64, Op::Sum),
            (Complex64, Op::Prod),
            (DoubleInt, Op::MinLoc),
            (ShortInt, Op::MaxLoc),
            (Complex64, Op::Replace),
        ] {
            for (target, bytes) in targets(world).into_iter().flat_map(|rank| [(rank, most.min(4096)), (rank, most)]) {
                step(format!("{what} {op} {ty} {bytes} bytes rank {target}"));
                let count = bytes / ty.extent();
                for (function, offset) in [(Function::Accumulate, 4096 - 24), (Function::GetAccumulate, 5000)] {
                    Case { win, target, offset, ty, op, seed: offset as u64 }.check(function, count)?;
                }
            }
        }
        Ok(())
    })
}

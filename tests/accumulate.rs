//! The accumulate family on every type with every operation that MPI defines on it (§11.3.4), against what Rust computes:
//! one element and many, with and without the values from before, by each discipline of atomicity, on each flavor of window.

use std::process::ExitCode;

use transom::ops::{self, Reduction};
use transom::reduce::{DoubleInt, FloatInt, Logical, LongInt, RawByte, ShortInt, TwoInt};
use transom::{
    Assert, At, BasicType, Class, Complex, Datatype, Element, Info, Items, Job, Op, PROC_NULL, RawWindow, Window,
};
use transom_harness::{Outcome, Test, ensure, same, step};

const fn test(name: &'static str, ranks: &'static [usize], body: fn(&Job) -> Outcome) -> Test {
    Test { name, ranks, env: &[], body }
}

const TESTS: &[Test] = &[
    test("integers_have_all_their_operations", &[1, 2], integers),
    test("floats_and_complex_numbers", &[1, 2], floats),
    test("logical_bytes_and_pairs", &[1, 2], others),
    test("pairs_that_mpi_does_not_define_are_refused", &[1, 2], illegal),
    test("nobody_nothing_and_oneself", &[1, 2], nobody),
];

fn main() -> ExitCode {
    transom_harness::main(env!("CARGO_BIN_EXE_transom-run"), TESTS)
}

/// Elements of a window: several blocks of 4 KiB for types of 8 bytes and more.
const LEN: usize = 1100;

/// Rank 0 works on the last rank's part: `model` says what becomes of an element and an operand.
fn try_op<T: Element + PartialEq + std::fmt::Debug, R: Reduction<T> + Copy + std::fmt::Debug>(
    world: &Job,
    op: R,
    make: impl Fn(usize) -> T,
    model: impl Fn(T, T) -> T,
) -> Outcome {
    let target = world.size() - 1;
    let before: Vec<T> = (0..LEN).map(&make).collect();
    let operands: Vec<T> = (0..LEN).map(|index| make(index * 7 + 3)).collect();
    for elements in [false, true] {
        step(format!("{op:?} on {:?}, by elements: {elements}", T::TYPE));
        let info = Info::new().with("mpi_accumulate_granularity", if elements { "8" } else { "0" });
        let win = match elements {
            true => Window::create_with(world, before.clone(), &info)?,
            false => Window::allocate_with(world, LEN, &info)?,
        };
        win.store(0, &before)?;
        win.sync();
        world.barrier()?;
        let expected: Vec<T> = before.iter().zip(&operands).map(|(&a, &b)| model(a, b)).collect();
        if world.rank() == 0 {
            let mut old = [<T as bytemuck::Zeroable>::zeroed(); LEN];
            win.lock_all(|epoch| {
                epoch.get_accumulate(target, 0, &operands[..LEN - 1], &mut old[..LEN - 1], op)?;
                epoch.flush(target)?;
                let last = epoch.fetch_and_op(target, LEN as u64 - 1, operands[LEN - 1], op)?;
                assert_eq!(last, before[LEN - 1], "{op:?}: the value from before");
                Ok(())
            })?;
            same(&format!("{op:?}: the values from before"), &old[..LEN - 1].to_vec(), &before[..LEN - 1].to_vec())?;
        }
        world.barrier()?;
        win.sync();
        let mut found = vec![<T as bytemuck::Zeroable>::zeroed(); LEN];
        win.load(0, &mut found)?;
        let wanted = if world.rank() == target { &expected } else { &before };
        ensure(found == *wanted, &format!("{op:?} on {:?}: what is there", T::TYPE))?;
        world.barrier()?;
        if world.rank() == 0 {
            win.lock_all(|epoch| epoch.accumulate(target, 0, &operands, op))?;
        }
        world.barrier()?;
        win.sync();
        win.load(0, &mut found)?;
        let twice: Vec<T> = expected.iter().zip(&operands).map(|(&a, &b)| model(a, b)).collect();
        let wanted = if world.rank() == target { &twice } else { &before };
        ensure(found == *wanted, &format!("{op:?} on {:?}, again: what is there", T::TYPE))?;
        world.barrier()?;
        win.free()?;
    }
    Ok(())
}

macro_rules! of_integer {
    ($world:expr, $($int:ty)*) => {$({
        let make = |index: usize| (index as $int).wrapping_mul(37).wrapping_sub(11);
        let truth = |holds: bool| <$int>::from(holds);
        try_op::<$int, _>($world, ops::Max, make, |a, b| a.max(b))?;
        try_op::<$int, _>($world, ops::Min, make, |a, b| a.min(b))?;
        try_op::<$int, _>($world, ops::Sum, make, <$int>::wrapping_add)?;
        try_op::<$int, _>($world, ops::Prod, make, <$int>::wrapping_mul)?;
        try_op::<$int, _>($world, ops::Land, make, |a, b| truth(a != 0 && b != 0))?;
        try_op::<$int, _>($world, ops::Lor, make, |a, b| truth(a != 0 || b != 0))?;
        try_op::<$int, _>($world, ops::Lxor, make, |a, b| truth((a != 0) != (b != 0)))?;
        try_op::<$int, _>($world, ops::Band, make, |a, b| a & b)?;
        try_op::<$int, _>($world, ops::Bor, make, |a, b| a | b)?;
        try_op::<$int, _>($world, ops::Bxor, make, |a, b| a ^ b)?;
        try_op::<$int, _>($world, ops::Replace, make, |_, b| b)?;
        try_op::<$int, _>($world, ops::NoOp, make, |a, _| a)?;
    })*};
}

/// Shows O1, O3, O4.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // whatever bits come
fn integers(world: &Job) -> Outcome {
    of_integer!(world, i8 i16 i32 i64 u8 u16 u32 u64);
    Ok(())
}

macro_rules! of_float {
    ($world:expr, $($float:ty)*) => {$({
        let make = |index: usize| (index % 500) as $float * 0.5 - 100.0;
        try_op::<$float, _>($world, ops::Max, make, <$float>::max)?;
        try_op::<$float, _>($world, ops::Min, make, <$float>::min)?;
        try_op::<$float, _>($world, ops::Sum, make, |a, b| a + b)?;
        try_op::<$float, _>($world, ops::Prod, make, |a, b| a * b)?;
        try_op::<$float, _>($world, ops::Replace, make, |_, b| b)?;
        try_op::<$float, _>($world, ops::NoOp, make, |a, _| a)?;
        let make = |index: usize| Complex::new(make(index), make(index + 1));
        try_op::<Complex<$float>, _>($world, ops::Sum, make, |a, b| a + b)?;
        try_op::<Complex<$float>, _>($world, ops::Prod, make, |a, b| a * b)?;
        try_op::<Complex<$float>, _>($world, ops::Replace, make, |_, b| b)?;
        try_op::<Complex<$float>, _>($world, ops::NoOp, make, |a, _| a)?;
    })*};
}

/// Shows O3, O4.
fn floats(world: &Job) -> Outcome {
    of_float!(world, f32 f64);
    Ok(())
}

macro_rules! of_pair {
    ($world:expr, $($pair:ident $value:ty,)*) => {$({
        let make = |index: usize| $pair::new((index % 5) as $value, index as i32 % 9);
        // The larger or smaller value, and of equal ones the smaller index.
        let first = |a: $pair, b: $pair| a.value() == b.value() && a.index() <= b.index();
        try_op::<$pair, _>($world, ops::MaxLoc, make, |a, b| if first(a, b) || a.value() > b.value() { a } else { b })?;
        try_op::<$pair, _>($world, ops::MinLoc, make, |a, b| if first(a, b) || a.value() < b.value() { a } else { b })?;
        try_op::<$pair, _>($world, ops::Replace, make, |_, b| b)?;
        try_op::<$pair, _>($world, ops::NoOp, make, |a, _| a)?;
    })*};
}

/// Shows O3, O4.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // small numbers
fn others(world: &Job) -> Outcome {
    let truth = |index: usize| Logical::from(index.is_multiple_of(3));
    try_op::<Logical, _>(world, ops::Land, truth, |a, b| Logical::from(a.is_true() && b.is_true()))?;
    try_op::<Logical, _>(world, ops::Lor, truth, |a, b| Logical::from(a.is_true() || b.is_true()))?;
    try_op::<Logical, _>(world, ops::Lxor, truth, |a, b| Logical::from(a.is_true() != b.is_true()))?;
    let byte = |index: usize| RawByte((index % 251) as u8);
    try_op::<RawByte, _>(world, ops::Band, byte, |a, b| RawByte(a.0 & b.0))?;
    try_op::<RawByte, _>(world, ops::Bor, byte, |a, b| RawByte(a.0 | b.0))?;
    try_op::<RawByte, _>(world, ops::Bxor, byte, |a, b| RawByte(a.0 ^ b.0))?;
    of_pair!(world, FloatInt f32, DoubleInt f64, LongInt i64, TwoInt i32, ShortInt i16,);
    Ok(())
}

/// Every pair of operation and type by the byte-level window: what `allows` says no to is an error, and nothing changes.
/// Shows O3, E1.
fn illegal(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 64, 1, &Info::new())?;
    let target = world.size() - 1;
    let (ones, mut old) = ([1u8; 16], [0u8; 16]);
    win.lock_all(Assert::NONE)?;
    for (op, ty) in Op::ALL.iter().flat_map(|&op| BasicType::ALL.iter().map(move |&ty| (op, ty))) {
        step(format!("{op} on {ty}"));
        let size = ty.size();
        let fetched = win.fetch_and_op(&ones[..size], &mut old[..size], ty, target, 32, op);
        same(&format!("{op} on {ty}"), &fetched.is_ok(), &op.allows(ty))?;
        if let Err(error) = fetched {
            same("the class", &error.class(), &Class::Op)?;
        }
    }
    for ty in BasicType::ALL {
        let size = ty.size();
        let swapped = win.compare_and_swap(&ones[..size], &ones[..size], &mut old[..size], ty, target, 48);
        same(&format!("compare-and-swap on {ty}"), &swapped.is_ok(), &Op::allows_compare_and_swap(ty))?;
    }
    let short = win.fetch_and_op(&ones[..4], &mut old[..4], BasicType::Int64, target, 0, Op::Sum);
    same("4 bytes of 8", &short.map_err(|error| error.class()), &Err(Class::Count))?;
    let beside = win.fetch_and_op(&ones[..8], &mut old[..8], BasicType::Int64, target, 4, Op::Sum);
    same("a misaligned element", &beside.map_err(|error| error.class()), &Err(Class::Type))?;
    win.unlock_all()?;
    world.barrier()?;
    let mut untouched = [1; 32];
    win.load(0, &mut untouched);
    same("what no operation named", &untouched, &[0; 32])?;
    Ok(win.free()?)
}

/// Counts of 0, nobody, and the own part.
/// Shows O6, O1.
fn nobody(world: &Job) -> Outcome {
    let win = Window::<i32>::allocate(world, 8)?;
    let (ones, mut old, none) = ([1; 8], [5; 8], [0i32; 0]);
    win.lock_all(|epoch| {
        epoch.put(PROC_NULL, 1 << 60, &ones)?;
        epoch.accumulate(PROC_NULL, 0, &ones, ops::Sum)?;
        epoch.get_accumulate(PROC_NULL, 0, &ones, &mut old, ops::Sum)?;
        assert_eq!(epoch.fetch_add(PROC_NULL, 0, 1)?, 0);
        assert_eq!(epoch.compare_and_swap(PROC_NULL, 0, 0, 1)?, 0);
        epoch.accumulate(world.rank(), 8, &none, ops::Sum)?;
        epoch.put(world.rank(), 8, &none)?;
        epoch.accumulate(world.rank(), 0, &ones, ops::Sum)?;
        epoch.flush(PROC_NULL)
    })?;
    same("nobody's values", &old, &[5; 8])?;
    let ty = Datatype::basic(BasicType::Int32);
    let raw = RawWindow::allocate(world, 8, 4, &Info::new())?;
    raw.lock_all(Assert::NONE)?;
    ensure(raw.rput_to_nobody(&ones, &ty)?, "a request to nobody is complete")?;
    raw.unlock_all()?;
    world.barrier()?;
    raw.free()?;
    let mut mine = [0; 8];
    win.load(0, &mut mine)?;
    same("the own part", &mine, &[1; 8])?;
    world.barrier()?;
    Ok(win.free()?)
}

/// A request-based put to nobody; whether its request is complete at once.
trait ToNobody {
    fn rput_to_nobody(&self, from: &[i32], ty: &Datatype) -> transom::Result<bool>;
}

impl ToNobody for RawWindow {
    #[allow(unsafe_code)]
    fn rput_to_nobody(&self, from: &[i32], ty: &Datatype) -> transom::Result<bool> {
        let items = Items::of(from.as_ptr().cast(), from.len(), ty);
        // SAFETY: the slice outlives the operation, which is complete when this returns.
        let mut request = unsafe { self.rput(items, At::new(PROC_NULL, 0, from.len(), ty)) }?;
        request.test()
    }
}

//! The typed interface against the model of the byte-level one, for small operations and operations
//! of several blocks.

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};
use transom::ops::{self, Reduction};
use transom::{Complex, Element, Info, Job, PROC_NULL, Window};
use transom_harness::{Outcome, ensure, same, step};

use crate::support::model::{all_combined, combined, elements, equal, with_padding};

/// Elements of a long operation: several blocks of 4 KiB for types of 8 bytes and more.
const LONG: usize = 1100;
/// The displacement of the first element.
const FIRST: usize = 2;

fn fresh<T: Element>(len: usize, seed: u64) -> Vec<T> {
    let mut all = vec![T::zeroed(); len];
    cast_slice_mut(&mut all).copy_from_slice(&with_padding(T::TYPE, elements(T::TYPE, len, seed), 0));
    all
}

/// Every function of the typed interface on elements `T`, on windows of both atomicity disciplines.
fn typed_one<T: Element, R: Reduction<T> + Copy>(world: &Job, op: R) -> Outcome {
    for (len, by_elements) in [(5, false), (LONG, false), (LONG, true)] {
        step(format!("typed {} on {len} of {}, by elements: {by_elements}", R::OP, T::TYPE));
        let info = Info::new().with("mpi_accumulate_granularity", if by_elements { "8" } else { "0" });
        let win = match by_elements {
            true => Window::create_with(world, vec![T::zeroed(); len + 3], &info)?,
            false => Window::allocate_with(world, len + 3, &info)?,
        };
        if world.rank() == 0 {
            all_functions(&win, world.size() - 1, len, op)?;
        }
        world.barrier()?;
        if world.rank() != world.size() - 1 {
            let mut untouched = fresh::<T>(len + 3, 1);
            win.load(0, &mut untouched)?;
            ensure(untouched.iter().all(|it| bytes_of(it).iter().all(|&byte| byte == 0)), "the part of no target")?;
        }
        win.free()?;
    }
    Ok(())
}

fn all_functions<T: Element, R: Reduction<T> + Copy>(win: &Window<T>, target: usize, len: usize, op: R) -> Outcome {
    let (before, operand) = (fresh::<T>(len, 1), fresh::<T>(len, 2));
    let (mut old, mut atomic, mut found) = (fresh::<T>(len, 3), fresh::<T>(len, 4), fresh::<T>(len + 3, 5));
    let (first, last) = (FIRST, FIRST + len - 1);
    let mut started = T::zeroed();
    let (fetched, requested) = win.lock_all(|epoch| {
        epoch.put(target, first, &before)?;
        epoch.flush(target)?;
        epoch.scope(|part| part.accumulate(target, first, &operand, op))?;
        epoch.scope(|part| part.get_accumulate(target, first, &operand, &mut old, op))?;
        epoch.scope(|part| part.get_atomic(target, first, &mut atomic))?;
        let fetched = epoch.fetch_and_op(target, last, operand[0], op)?;
        epoch.scope(|part| part.start_fetch_and_op(target, last, operand[1], &mut started, op))?;
        epoch.raccumulate(target, first, &operand, op)?.wait()?;
        let requested = epoch.rget_accumulate_owned(target, first, &operand, before.clone(), op)?.wait()?;
        epoch.scope(|part| part.get(target, 0, &mut found))?;
        Ok((fetched, requested))
    })?;
    let all = |old: &[u8]| all_combined(R::OP, T::TYPE, old, cast_slice(&operand));
    let one = |old: &[u8], operand: &T| combined(R::OP, T::TYPE, old, bytes_of(operand));
    let alike = |what: &str, found: &[T], expected: &[u8]| {
        ensure(equal(T::TYPE, cast_slice(found), expected), &format!("{what}: {} on {} of {}", R::OP, len, T::TYPE))
    };
    let (once, last) = (all(cast_slice(&before)), (len - 1) * size_of::<T>()..);
    let mut now = all(&once);
    alike("get_accumulate", &old, &once)?;
    alike("get_atomic", &atomic, &now)?;
    alike("fetch_and_op", &[fetched], &now[last.clone()])?;
    let next = one(&now[last.clone()], &operand[0]);
    alike("start_fetch_and_op", &[started], &next)?;
    now[last].copy_from_slice(&one(&next, &operand[1]));
    now = all(&now);
    alike("rget_accumulate", &requested, &now)?;
    alike("at the end", &found[FIRST..FIRST + len], &all(&now))?;
    let beside = [&found[..FIRST], &found[FIRST + len..]].concat();
    ensure(cast_slice::<T, u8>(&beside).iter().all(|&byte| byte == 0), "elements beside")
}

/// The typed interface compiles for every pair that MPI defines, with the results of the model.
/// Shows O1, O2, O3, O4, A1.
pub(crate) fn every_function(world: &Job) -> Outcome {
    macro_rules! each {
        ($([$($op:ident)*] $($ty:ty),*;)*) => {$( each!(@types [$($op)*] $($ty),*); )*};
        (@types $ops:tt $($ty:ty),*) => {$( each!(@ops $ops $ty); )*};
        (@ops [$($op:ident)*] $ty:ty) => {$( typed_one::<$ty, _>(world, ops::$op)?; )*};
    }
    use transom::reduce::{DoubleInt, FloatInt, Logical, LongInt, RawByte, ShortInt, TwoInt};
    each! {
        [Max Min Sum Prod Replace NoOp] i8, i16, i32, i64, u8, u16, u32, u64, f32, f64;
        [Land Lor Lxor Band Bor Bxor] i8, i16, i32, i64, u8, u16, u32, u64;
        [Sum Prod Replace NoOp] Complex<f32>, Complex<f64>;
        [Land Lor Lxor Replace NoOp] Logical;
        [Band Bor Bxor Replace NoOp] RawByte;
        [MaxLoc MinLoc Replace NoOp] FloatInt, DoubleInt, LongInt, TwoInt, ShortInt;
    }
    Ok(())
}

/// MPI-4.1 §12.3: operations on MPI_PROC_NULL have no effect at any displacement; operations
/// without elements are legal past the end of a part; operations on oneself work.
/// Shows O6, O1.
pub(crate) fn proc_null(world: &Job) -> Outcome {
    let win = Window::<i32>::allocate(world, 8)?;
    let (ones, mut old, none) = ([1; 8], [5; 8], [0i32; 0]);
    let me = world.rank();
    win.lock_all(|epoch| {
        epoch.put(PROC_NULL, 1 << 60, &ones)?;
        epoch.accumulate(PROC_NULL, 0, &ones, ops::Sum)?;
        epoch.get_accumulate(PROC_NULL, 0, &ones, &mut old, ops::Sum)?;
        assert!(epoch.raccumulate(PROC_NULL, 0, &ones, ops::Sum)?.test()?, "a request to PROC_NULL is complete");
        assert_eq!(epoch.fetch_add(PROC_NULL, 0, 1)?, 0, "the value of PROC_NULL");
        assert_eq!(epoch.compare_and_swap(PROC_NULL, 0, 0, 1)?, 0, "the value of PROC_NULL");
        epoch.accumulate(me, 8, &none, ops::Sum)?;
        epoch.put(me, 8, &none)?;
        epoch.accumulate(me, 0, &ones, ops::Sum)?;
        epoch.flush(PROC_NULL)
    })?;
    same("the value of PROC_NULL", &old, &[5; 8])?;
    let mut mine = [0; 8];
    win.load(0, &mut mine)?;
    same("the own part", &mine, &[1; 8])?;
    world.barrier()?;
    Ok(win.free()?)
}

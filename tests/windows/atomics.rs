//! Atomics: tickets, compare-and-swap, each operation on each integer type, elements as numbers.

#![allow(unsafe_code)]

use transom::ops::{Reduction, Swappable};
use transom::{Assert, BasicType, Class, CompareSwap, Info, Job, Op, RawWindow, Window, ops};
use transom_harness::{Outcome, ensure, same, step};

/// `fetch_and_op` of a byte-level window on a value in a register.
pub(crate) fn fetch(
    win: &RawWindow,
    target: usize,
    at: u64,
    op: Op,
    ty: BasicType,
    operand: u64,
) -> transom::Result<u64> {
    let mut old = [0; 8];
    win.fetch_and_op(&operand.to_le_bytes()[..ty.size()], &mut old[..ty.size()], ty, target, at, op)?;
    Ok(u64::from_le_bytes(old))
}

/// `compare_and_swap` of a byte-level window on values in registers.
fn swap(win: &RawWindow, target: usize, at: u64, ty: BasicType, expected: u64, new: u64) -> transom::Result<u64> {
    let mut old = [0; 8];
    let (expected, new) = (expected.to_le_bytes(), new.to_le_bytes());
    let size = ty.size();
    let values = CompareSwap { expected: &expected[..size], new: &new[..size] };
    win.compare_and_swap(values, &mut old[..size], ty, target, at)?;
    Ok(u64::from_le_bytes(old))
}

fn tickets_of<T: Swappable + Ord>(world: &Job, one: T, turns: usize, index: impl Fn(T) -> usize) -> Outcome
where
    ops::Sum: Reduction<T>,
{
    for create in [false, true] {
        let zero = <T as bytemuck::Zeroable>::zeroed();
        let win = if create { Window::create(world, vec![zero; 4])? } else { Window::<T>::allocate(world, 4)? };
        let mut mine =
            win.lock_all(|epoch| (0..turns).map(|_| epoch.fetch_add(0, 3, one)).collect::<Result<Vec<_>, _>>())?;
        world.barrier()?;
        ensure(mine.is_sorted(), "one origin's tickets grow")?;
        let taken = Window::<u8>::allocate(world, turns * world.size())?;
        taken.lock_all(|epoch| mine.drain(..).try_for_each(|ticket| epoch.put_value(0, index(ticket), 1u8)))?;
        world.barrier()?;
        if world.rank() == 0 {
            let mut seen = vec![0; turns * world.size()];
            taken.load(0, &mut seen)?;
            ensure(seen.iter().all(|&count| count == 1), "every ticket was given out")?;
        }
        taken.free()?;
        win.free()?;
    }
    Ok(())
}

/// MPI-4.1 §12.3.4, §12.7.1: fetch-and-op is atomic per element among all origins, including the
/// target.
/// Shows O1, M3.
pub(crate) fn tickets(world: &Job) -> Outcome {
    step("64 bits");
    tickets_of::<u64>(world, 1, 500, |ticket| usize::try_from(ticket).unwrap_or(usize::MAX))?;
    step("32 bits, signed");
    tickets_of::<i32>(world, 1, 200, |ticket| usize::try_from(ticket).unwrap_or(usize::MAX))
}

/// MPI-4.1 §12.3.4: no increment by compare-and-swap is lost.
/// Shows O1, M3.
pub(crate) fn compare_and_swap(world: &Job) -> Outcome {
    let win = Window::<i64>::allocate(world, 1)?;
    let turns = 200;
    win.lock_all(|epoch| {
        let mut seen = 0;
        for turn in 0..turns {
            loop {
                step(format!("increment {turn}"));
                let found = epoch.compare_and_swap(0, 0, seen, seen + 1)?;
                let done = found == seen;
                seen = if done { seen + 1 } else { found };
                if done {
                    break;
                }
            }
        }
        Ok(())
    })?;
    world.barrier()?;
    let total = win.lock_all(|epoch| epoch.fetch_value(0, 0))?;
    same("increments", &total, &(turns * world.size() as i64))?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.3.4: SUM, REPLACE and NO_OP on each integer type; sums wrap.
/// Shows O1.
pub(crate) fn integer_operations(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let win = RawWindow::allocate(world, 64, 4, &Info::new())?;
    if world.rank() == 0 {
        win.lock_all(Assert::NONE)?;
        for (int, at, top) in [(BasicType::Int32, 1, u64::from(u32::MAX)), (BasicType::Int64, 2, u64::MAX)] {
            let op = |op, value| fetch(&win, target, at, op, int, value);
            same("replace", &op(Op::Replace, top)?, &0)?;
            same("read", &op(Op::NoOp, 5)?, &top)?;
            same("sum", &op(Op::Sum, 3)?, &top)?;
            same("wrapped", &op(Op::NoOp, 0)?, &2)?;
            same("swap refused", &swap(&win, target, at, int, 9, 10)?, &2)?;
            same("swap", &swap(&win, target, at, int, 2, 10)?, &2)?;
            same("swapped", &op(Op::Replace, 0)?, &10)?;
        }
        win.unlock_all()?;
    }
    world.barrier()?;
    let mut bytes = [1; 64];
    win.load(0, &mut bytes);
    same("all is back to zero, and nothing else was touched", &bytes, &[0; 64])?;
    let mut started = [0u32; 2];
    let typed = Window::<u32>::allocate(world, 2)?;
    typed.lock_all(|epoch| {
        let [first, second] = &mut started;
        epoch.start_fetch_and_op(world.rank(), 1, 6, first, ops::Sum)?;
        epoch.flush(world.rank())?;
        epoch.start_fetch_and_op(world.rank(), 1, 6, second, ops::Sum)
    })?;
    same("started ones", &started, &[0, 6])?;
    typed.free()?;
    Ok(win.free()?)
}

/// The byte-level window's short forms: requests on runs of bytes, and one element as a number.
/// Shows O1, O2, O3, O6.
pub(crate) fn bytes_and_numbers(world: &Job) -> Outcome {
    let (me, size) = (world.rank() as u64, world.size());
    let next = (world.rank() + 1) % size;
    let win = RawWindow::allocate(world, 64, 8, &Info::new())?;
    win.lock_all(Assert::NONE)?;
    let mine = (me * 1000 + 7).to_ne_bytes();
    let mut back = [0u8; 8];
    // SAFETY: `mine` and `back` live until the end of the function, past the end of the epoch.
    unsafe {
        win.rput(mine.as_ptr(), 8, next, 2)?.wait()?;
        win.flush(next)?;
        win.rget(back.as_mut_ptr(), 8, next, 2)?.wait()?;
    }
    same("what was put", &back, &mine)?;
    for _ in 0..10 {
        win.fetch_value(3, BasicType::Int64, 0, 0, Op::Sum)?;
        win.fetch_value(5, BasicType::Int32, 0, 1, Op::Sum)?;
        win.fetch_value(u64::from(u16::MAX), BasicType::Uint16, 0, 3, Op::Sum)?;
    }
    world.barrier()?;
    let read = |ty, at| win.fetch_value(0, ty, 0, at, Op::NoOp);
    same("the sum of 64 bits", &read(BasicType::Int64, 0)?, &(30 * size as u64))?;
    same("the sum of 32 bits", &read(BasicType::Int32, 1)?, &(50 * size as u64))?;
    same("the sum of 16 bits, which wraps", &read(BasicType::Uint16, 3)?, &(65536 - 10 * size as u64))?;
    same("the value of PROC_NULL", &win.fetch_value(1, BasicType::Int64, transom::PROC_NULL, 0, Op::Sum)?, &0)?;
    let class = |outcome: transom::Result<u64>| outcome.err().map(|error| error.class());
    same("of 16 bytes", &class(win.fetch_value(0, BasicType::Complex64, 0, 0, Op::Sum)), &Some(Class::Type))?;
    same("bits of a real", &class(win.fetch_value(0, BasicType::Float64, 0, 0, Op::Band)), &Some(Class::Op))?;
    win.unlock_all()?;
    same("outside an epoch", &class(win.fetch_value(0, BasicType::Int64, 0, 0, Op::Sum)), &Some(Class::RmaSync))?;
    world.barrier()?;
    Ok(win.free()?)
}

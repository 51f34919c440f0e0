//! Refused calls: accesses outside the window, creations that fail, and calls outside of epochs.

#![allow(unsafe_code)]

use transom::{Assert, BasicType, Class, Info, Job, Op, RawWindow, Window, ops};
use transom_harness::{Outcome, ensure, same};

use super::atomics::fetch;
use super::puts_reach_the_next_rank;

/// The error names rank, displacement, length and limit; the target is unchanged.
/// Shows O7, E1.
pub(crate) fn refusals(world: &Job) -> Outcome {
    let target = world.size() - 1;
    let win = Window::<u64>::allocate(world, 10)?;
    let data = [u64::MAX; 4];
    let mut back = [5u64; 4];
    win.lock_all(|epoch| {
        let outside = |error: Option<transom::Error>, length: usize, at: usize| {
            let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
            let parts =
                [format!("{length} bytes"), format!("displacement {at}"), format!("rank {target}"), "80 bytes".into()];
            ensure(error.is_some_and(|error| error.class() == Class::RmaRange), &format!("at {at}: {text}"))?;
            ensure(parts.iter().all(|part| text.contains(part)), &text)
        };
        let check = || -> Outcome {
            for at in [7, 10, 1 << 40, usize::MAX / 8, usize::MAX] {
                outside(epoch.put(target, at, &data).err(), 32, at)?;
                outside(epoch.fetch_add(target, at.max(10), 1u64).err(), 8, at.max(10))?;
            }
            for at in [0, 10, 11, 1 << 40, usize::MAX] {
                epoch.put(target, at, &[])?;
                epoch.accumulate(target, at, &[], ops::Sum)?;
            }
            let unknown = epoch.put(world.size(), 0, &data).err();
            let text = unknown.as_ref().map(ToString::to_string).unwrap_or_default();
            ensure(unknown.is_some_and(|error| error.class() == Class::Rank), "an unknown rank")?;
            ensure(text.contains(&format!("rank {}", world.size())), &text)
        };
        let checked = check();
        same("get outside", &epoch.scope(|part| part.get(target, 8, &mut back)).is_err(), &true)
            .and(checked)
            .map_err(|error| panic!("{error}"))
    })?;
    same("the get's buffer", &back, &[5; 4])?;
    world.barrier()?;
    let mut mine = [1; 10];
    win.load(0, &mut mine)?;
    same("the window", &mine, &[0; 10])?;
    Ok(win.free()?)
}

/// The outcome of creation is collective too: no rank waits for one that did not get the window.
/// Shows E1.
pub(crate) fn failed_creation(world: &Job) -> Outcome {
    let last = world.rank() == world.size() - 1;
    let bad_unit = RawWindow::allocate(world, 64, u32::from(!last), &Info::new()).err();
    ensure(
        bad_unit.as_ref().is_some_and(|error| !last || error.class() == Class::Disp),
        &format!("unit: {bad_unit:?}"),
    )?;
    let too_long = Window::<u64>::allocate(world, if last { 1 << 45 } else { 8 }).err();
    ensure(
        too_long.as_ref().is_some_and(|error| !last || error.class() == Class::Size),
        &format!("size: {too_long:?}"),
    )?;
    puts_reach_the_next_rank(world)
}

/// Misuse is an error at the call, and the window keeps working.
/// Shows E2.
pub(crate) fn epochs(world: &Job) -> Outcome {
    let win = RawWindow::allocate(world, 8, 1, &Info::new())?;
    let byte = [9u8];
    let sync = |what: &str, outcome: transom::Result<()>| {
        ensure(outcome.is_err_and(|error| error.class() == Class::RmaSync), what)
    };
    // SAFETY: `byte` lives until the end of the function; each epoch ends before.
    let put = || unsafe { win.put(byte.as_ptr(), 1, 0, 3) };
    sync("put outside an epoch", put())?;
    sync("flush outside an epoch", win.flush(0))?;
    sync("flush_all outside an epoch", win.flush_all())?;
    sync("unlock_all without lock_all", win.unlock_all())?;
    sync("fetch_and_op outside an epoch", fetch(&win, 0, 0, Op::Sum, BasicType::Int32, 1).map(drop))?;
    win.lock_all(Assert::NONE)?;
    sync("lock_all twice", win.lock_all(Assert::NONE))?;
    sync("a fence within lock_all", win.fence(Assert::NONE))?;
    win.unlock_all()?;
    win.fence(Assert::NONE)?;
    put()?;
    sync("lock_all within a fence epoch", win.lock_all(Assert::NONE))?;
    sync("a flush within a fence epoch", win.flush_local(0))?;
    sync("free within a fence epoch", win.free())?;
    win.fence(Assert::NOSUCCEED)?;
    sync("put after the last fence", put())?;
    win.lock_all(Assert::NONE)?;
    sync("free within lock_all", win.free())?;
    win.unlock_all()?;
    if world.rank() == 0 {
        let mut mine = [0; 8];
        win.load(0, &mut mine);
        same("only the legal put arrived", &mine, &[0, 0, 0, 9, 0, 0, 0, 0])?;
    }
    win.free()?;
    sync("lock_all after free", win.lock_all(Assert::NONE))?;
    sync("free after free", win.free())?;
    let typed = Window::<u8>::allocate(world, 1)?;
    let nested = typed.lock_all(|_| typed.lock_all(|_| Ok(())));
    sync("lock_all within lock_all", nested)?;
    Ok(typed.free()?)
}

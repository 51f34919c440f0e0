//! Code shared by the benchmarks: the number of iterations, the window, and the loop within epochs.

use transom::{Job, LockAllEpoch, RmaElem, SharedPart, Window};

use crate::measure::{Batch, Counts, Times, alternate};
use crate::options::{Creation, Options, Synchronization};
use crate::outcome::Outcome;
use crate::pattern;

/// OSU's counts: fewer for long messages, and a tenth where each iteration is a window of
/// operations.
pub(crate) fn counts(options: &Options, size: usize) -> Counts {
    let (iterations, skip) = if size <= 8192 { (10_000, 100) } else { (1000, 10) };
    let share = if options.test.is_bandwidth() { 10 } else { 1 };
    let (iterations, skip) = (options.iterations.unwrap_or(iterations / share), options.skip.unwrap_or(skip / share));
    Counts { iterations, skip, apart: false }
}

pub(crate) fn window<T: RmaElem>(world: &Job, options: &Options, len: usize) -> Outcome<Window<T>> {
    Ok(match options.creation {
        Creation::Allocate => Window::allocate(world, len)?,
        Creation::Shared => Window::allocate_shared(world, len)?,
        Creation::Create => Window::create(world, vec![T::zeroed(); len])?,
    })
}

/// A window of `size` bytes, and a buffer of them. The pattern of `turn` is where the transfers
/// begin: in rank 0's buffer for puts, in rank 1's part for gets. Collective.
pub(crate) fn window_with_pattern(
    world: &Job,
    options: &Options,
    (size, turn): (usize, usize),
    gets: bool,
) -> Outcome<(Window<u8>, Vec<u8>)> {
    let win = window(world, options, size)?;
    let mut buffer = vec![0; size];
    if world.rank() == usize::from(gets) {
        pattern::fill(&mut buffer, turn);
    }
    if gets && world.rank() == 1 {
        win.store(0, &buffer)?;
    }
    world.barrier()?;
    Ok((win, buffer))
}

/// Measures the operation and the floor through the public interface, within one epoch of
/// `lock_all` or with an epoch for each operation.
pub(crate) fn in_epochs<'w, T: RmaElem>(
    options: &Options,
    win: &'w Window<T>,
    counts: Counts,
    floor: Option<&mut Batch<'_>>,
    mut operation: impl FnMut(&LockAllEpoch<'_, 'w, T>) -> transom::Result<()>,
) -> Outcome<(Times, Option<Times>)> {
    if options.synchronization == Synchronization::LockAll {
        let mut batch = |count| Ok((0..count).try_for_each(|_| win.lock_all(|epoch| operation(epoch)))?);
        return alternate(counts, &mut batch, floor);
    }
    win.lock_all(|epoch| {
        let mut batch = |count| Ok((0..count).try_for_each(|_| operation(epoch))?);
        Ok(alternate(counts, &mut batch, floor))
    })?
}

/// Measures the operation on rank 1's part with [`in_epochs`]. The floor is `stores`, which gets
/// the part and a number of iterations, if the part is mapped and the options ask for floors.
pub(crate) fn against_stores<'w, T: RmaElem>(
    options: &Options,
    win: &'w Window<T>,
    counts: Counts,
    mut stores: impl FnMut(&SharedPart, usize),
    operation: impl FnMut(&LockAllEpoch<'_, 'w, T>) -> transom::Result<()>,
) -> Outcome<(Times, Option<Times>)> {
    let part = win.shared_query(1).ok().filter(|_| options.vs_floor);
    let mut floor = part.map(|part| {
        move |count: usize| {
            stores(&part, count);
            Ok(())
        }
    });
    in_epochs(options, win, counts, floor.as_mut().map(|floor| floor as &mut Batch<'_>), operation)
}

pub(crate) fn complete<T: RmaElem>(options: &Options, epoch: &LockAllEpoch<'_, '_, T>) -> transom::Result<()> {
    match options.synchronization {
        Synchronization::Flush => epoch.flush(1),
        Synchronization::FlushLocal => epoch.flush_local(1),
        Synchronization::LockAll => Ok(()),
    }
}

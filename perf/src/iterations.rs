//! Code shared by the benchmarks: the number of iterations, the window, and the loop within epochs.

use transom::{Job, LockAllEpoch, RmaElem, Window};

use crate::measure::{Batch, Counts, Times, alternate};
use crate::options::{Creation, Options, Synchronization};
use crate::outcome::Outcome;

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
        Creation::Create => Window::create(world, vec![T::zeroed(); len])?,
    })
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

pub(crate) fn complete<T: RmaElem>(options: &Options, epoch: &LockAllEpoch<'_, '_, T>) -> transom::Result<()> {
    match options.synchronization {
        Synchronization::Flush => epoch.flush(1),
        Synchronization::FlushLocal => epoch.flush_local(1),
        Synchronization::LockAll => Ok(()),
    }
}

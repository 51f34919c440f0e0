//! Synchronization: fences, post-start-complete-wait, and locks, compared with flags and atomics on
//! mapped memory.

use std::time::{Duration, Instant};

use transom::{Job, Lock, Window};

use crate::floor::Floor;
use crate::iterations::{counts, window};
use crate::kinds::Test;
use crate::measure::{Times, alternate};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;
use crate::rounds::{alternate_rounds, per_round};

/// Times of computing that `fences_after_gaps` measures by default, and those before.
const GAPS: usize = 300;
const WARM_UP: usize = 20;

/// Fences with one put of 8 bytes to each other, compared with barriers of two flags, or of two
/// writes that signal their arrival. Both ranks run the same rounds.
pub(crate) fn fence(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    let mut turn = 0u64;
    let each = per_round(options);
    let peer = if world.rank() < 2 { 1 - world.rank() } else { world.rank() };
    let floor = floor.filter(|_| world.size() == 2);
    let rounds = win.fence(|epoch| {
        let fences = || {
            (0..each).try_for_each(|_| {
                turn += 1;
                epoch.put_value(peer, 0, turn)?;
                epoch.fence()
            })
        };
        let bare = || floor.map_or(Ok(()), |floor| floor.together(Test::FenceLatency, each));
        alternate_rounds(fences, || Ok(()), bare)
    })?;
    let shown = floor.is_some_and(|floor| floor.has(Test::FenceLatency));
    let row = rounds.row(each, shown)?;
    let mut last = [0];
    win.load(0, &mut last)?;
    if options.check && world.size() == 2 && last[0] != turn {
        return Err(format!("the last put was {}, not {turn}", last[0]).into());
    }
    win.free()?;
    Ok((world.rank() == 0).then_some(row))
}

/// Two fences with one put of 8 bytes after each time of computing, `Options::gap`. Both ranks make
/// the same number.
pub(crate) fn fences_after_gaps(
    world: &Job,
    options: &Options,
    show: &mut dyn FnMut(&Options, Option<Row>) -> Outcome<()>,
) -> Outcome<()> {
    let win = window::<u64>(world, options, 1)?;
    let gap = Duration::from_micros(options.gap.unwrap_or(0));
    let peer = if world.rank() < 2 { 1 - world.rank() } else { world.rank() };
    let mut times = [Vec::new(), Vec::new()];
    win.fence(|epoch| {
        (0..WARM_UP + options.iterations.unwrap_or(GAPS)).try_for_each(|turn| {
            let start = Instant::now();
            while start.elapsed() < gap {
                std::hint::spin_loop();
            }
            times.iter_mut().try_for_each(|times| {
                let start = Instant::now();
                epoch.put_value(peer, 0, turn as u64)?;
                epoch.fence()?;
                times.extend((turn >= WARM_UP).then(|| start.elapsed()));
                Ok(())
            })
        })
    })?;
    win.free()?;
    for (what, times) in ["fence after computing", "fence after a fence"].iter().zip(&times) {
        let row = Row { what: Some((*what).into()), ..Row::new(8, Times::of_durations(times, 1), None) };
        show(options, (world.rank() == 0).then_some(row))?;
    }
    Ok(())
}

/// Exposure epochs of rank 1 in which rank 0 puts 8 bytes, compared with two flags. Both ranks run
/// the same rounds.
pub(crate) fn pscw(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    let each = per_round(options);
    let mut turn = 0u64;
    world.barrier()?;
    let epochs = || {
        (0..each).try_for_each(|_| {
            turn += 1;
            match world.rank() {
                0 => win.start(&[1], |epoch| epoch.put_value(1, 0, turn)),
                1 => win.post(&[0]).and_then(|()| win.wait()),
                _ => Ok(()),
            }
        })
    };
    let bare = || floor.map_or(Ok(()), |floor| floor.together(Test::Pscw, each));
    let shown = floor.is_some_and(|floor| floor.has(Test::Pscw));
    let row = alternate_rounds(epochs, || Ok(()), bare)?.row(each, shown)?;
    let mut last = [0];
    win.load(0, &mut last)?;
    if options.check && world.rank() == 1 && last[0] != turn {
        return Err(format!("the last put was {}, not {turn}", last[0]).into());
    }
    win.free()?;
    Ok((world.rank() == 0).then_some(row))
}

/// Uncontended locks, one row for each kind.
pub(crate) fn locks(
    world: &Job,
    options: &Options,
    floor: Option<&Floor>,
    show: &mut dyn FnMut(&Options, Option<Row>) -> Outcome<()>,
) -> Outcome<()> {
    let win = window::<u64>(world, options, 1)?;
    type Epoch<'w> = &'w mut dyn FnMut(&Window<u64>) -> transom::Result<()>;
    let kinds: [(&str, Epoch<'_>); 3] = [
        ("lock and unlock, exclusive", &mut |win| win.lock(Lock::Exclusive, 1, |_| Ok(()))),
        ("lock and unlock, shared", &mut |win| win.lock(Lock::Shared, 1, |_| Ok(()))),
        ("lock_all and unlock_all", &mut |win| win.lock_all(|_| Ok(()))),
    ];
    for (what, epoch) in kinds {
        world.barrier()?;
        if world.rank() == 0 {
            let mut batch = |count: usize| -> Outcome<()> { Ok((0..count).try_for_each(|_| epoch(&win))?) };
            let mut bare = Floor::batches(floor, options, 8);
            let (library, floor) = alternate(counts(options, 8), &mut batch, bare.as_deref_mut())?;
            show(options, Some(Row { what: Some(what.into()), ..Row::new(8, library, floor) }))?;
        }
    }
    world.barrier()?;
    Ok(win.free()?)
}

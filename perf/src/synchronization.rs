//! Synchronization: fences, post-start-complete-wait, and locks, compared with flags and atomics on
//! mapped memory.

use std::time::Instant;

use transom::{Job, Lock, Window};

use crate::floor::Floor;
use crate::iterations::{counts, window};
use crate::kinds::Test;
use crate::measure::{Batch, Times, alternate};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::Row;

/// The number of rounds. It is fixed, because with a time budget the two ranks could choose
/// different numbers.
pub(crate) const ROUNDS: usize = 15;

/// Fences with one put of 8 bytes to each other, compared with barriers of two flags, or of two
/// writes that signal their arrival. Both ranks run the same rounds.
pub(crate) fn fence(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    let mut turn = 0u64;
    let fences = std::cell::RefCell::new(&mut turn);
    let each = per_round(options);
    let peer = if world.rank() < 2 { 1 - world.rank() } else { world.rank() };
    let (mut times, mut failed) = ((Vec::new(), Vec::new()), None);
    win.fence(|epoch| {
        for round in 0..=ROUNDS {
            let start = Instant::now();
            for _ in 0..each {
                **fences.borrow_mut() += 1;
                epoch.put_value(peer, 0, **fences.borrow())?;
                epoch.fence()?;
            }
            let library = start.elapsed();
            let start = Instant::now();
            if let Some(floor) = floor.filter(|_| world.size() == 2) {
                // The other rank fails with this one, since each waits for the other.
                if let Err(error) = floor.together(Test::FenceLatency, each) {
                    failed = Some(error);
                    break;
                }
            }
            // The first round warms up.
            if round > 0 {
                times.0.push(library);
                times.1.push(start.elapsed());
            }
        }
        Ok(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let mut last = [0];
    win.load(0, &mut last)?;
    if options.check && world.size() == 2 && last[0] != turn {
        return Err(format!("the last put was {}, not {turn}", last[0]).into());
    }
    win.free()?;
    let shown = floor.is_some_and(|floor| floor.has(Test::FenceLatency)) && world.size() == 2;
    let bare = shown.then(|| Times::of_durations(&times.1, each));
    Ok((world.rank() == 0).then(|| Row::new(8, Times::of_durations(&times.0, each), bare)))
}

/// Exposure epochs of rank 1 in which rank 0 puts 8 bytes, compared with two flags. Both ranks run
/// the same rounds.
pub(crate) fn pscw(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    let each = per_round(options);
    let mut turn = 0u64;
    let mut times = (Vec::new(), Vec::new());
    world.barrier()?;
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for _ in 0..each {
            turn += 1;
            match world.rank() {
                0 => win.start(&[1], |epoch| epoch.put_value(1, 0, turn))?,
                1 => win.post(&[0]).and_then(|()| win.wait())?,
                _ => {}
            }
        }
        let library = start.elapsed();
        let start = Instant::now();
        if let Some(floor) = floor {
            floor.together(Test::Pscw, each)?;
        }
        if round > 0 {
            times.0.push(library);
            times.1.push(start.elapsed());
        }
    }
    let mut last = [0];
    win.load(0, &mut last)?;
    if options.check && world.rank() == 1 && last[0] != turn {
        return Err(format!("the last put was {}, not {turn}", last[0]).into());
    }
    win.free()?;
    let shown = floor.is_some_and(|floor| floor.has(Test::Pscw));
    let bare = shown.then(|| Times::of_durations(&times.1, each));
    Ok((world.rank() == 0).then(|| Row::new(8, Times::of_durations(&times.0, each), bare)))
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
            let mut bare =
                floor.filter(|floor| floor.has(Test::Lock)).map(|floor| move |count| floor.batch(options, 8, count));
            let bare = bare.as_mut().map(|bare| bare as &mut Batch<'_>);
            let (library, floor) = alternate(counts(options, 8), &mut batch, bare)?;
            show(options, Some(Row { what: Some(what.into()), ..Row::new(8, library, floor) }))?;
        }
    }
    world.barrier()?;
    Ok(win.free()?)
}

pub(crate) fn per_round(options: &Options) -> usize {
    options.iterations.unwrap_or(3000).div_ceil(ROUNDS)
}

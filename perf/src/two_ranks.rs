//! Tests between two ranks: latency and bandwidth of puts and gets, latency of atomics, and the
//! table of the floor. Other modules have the further tests.

use transom::{Job, LockAllEpoch, Window};

use crate::floor::Floor;
use crate::iterations::{complete, counts, in_epochs, window, window_with_pattern};
use crate::kinds::Test;
use crate::measure::{Counts, alternate};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::pattern;
use crate::perftest::Perftest;
use crate::report::{self, Row};
use crate::{accumulate, notified, requests, strided_put, synchronization};

/// Runs the requested test; returns whether all data was right.
pub(crate) fn run(world: &Job, options: &Options) -> Outcome<bool> {
    let sizes = options.sizes();
    let room = sizes.last().copied().unwrap_or(8).max(64);
    let floor = if options.vs_floor || options.test == Test::Floor {
        Floor::open(world, options.test, room, flight(options))?
    } else {
        None
    };
    let mut perftest = if options.vs_floor { Perftest::find(world, options)? } else { None };
    if world.rank() == 0 {
        let apart = options.vs_floor && floor.as_ref().is_some_and(|floor| floor.disturbs() && floor.has(options.test));
        let alternates = matches!(options.test, Test::FenceLatency | Test::NotifyPingpong);
        report::header(options, world, perftest.as_ref(), apart && !alternates)?;
    }
    let mut rows = Vec::new();
    let mut show = |options: &Options, row: Option<Row>| -> Outcome<()> {
        if let Some(row) = row {
            report::line(options, &row)?;
            rows.push(row);
        }
        Ok(())
    };
    match options.test {
        Test::Floor => floors(world, options, floor.as_ref(), &mut show)?,
        Test::FenceLatency if options.gap.is_some() => synchronization::fences_after_gaps(world, options, &mut show)?,
        Test::FenceLatency => show(options, synchronization::fence(world, options, floor.as_ref())?)?,
        Test::Pscw => show(options, synchronization::pscw(world, options, floor.as_ref())?)?,
        Test::NotifyPingpong => notified::pingpong(world, options, floor.as_ref(), &mut show)?,
        Test::Lock => synchronization::locks(world, options, floor.as_ref(), &mut show)?,
        Test::FopLatency | Test::CasLatency => {
            let row = atomic(world, options, floor.as_ref())?;
            show(options, with_perftest(perftest.as_mut(), row, 8)?)?;
        }
        _ => {
            for (turn, size) in sizes.into_iter().enumerate() {
                let floor = floor.as_ref();
                let row = match options.test {
                    Test::Accumulate => accumulate::measure(world, options, size)?,
                    Test::StridedPut => strided_put::measure(world, options, size)?,
                    Test::RequestPut | Test::RequestGet => requests::measure(world, options, size, turn)?,
                    _ => copy(world, options, floor, size, turn)?,
                };
                show(options, with_perftest(perftest.as_mut(), row, size)?)?;
            }
        }
    }
    if world.rank() == 0 {
        report::json(options, world, &rows)?;
        report::draw(options, &rows)?;
    }
    Ok(true)
}

/// The row with perftest's result, if there is one; ranks 0 and 1 call it.
fn with_perftest(perftest: Option<&mut Perftest>, row: Option<Row>, size: usize) -> Outcome<Option<Row>> {
    let perftest = perftest.map(|perftest| perftest.run(size)).transpose()?.flatten();
    Ok(row.map(|row| Row { perftest, ..row }))
}

/// Number of gets in flight, which have a separate buffer each.
fn flight(options: &Options) -> usize {
    if matches!(options.test, Test::GetBw | Test::Floor) { options.window } else { 1 }
}

/// Measures puts or gets of one size. Returns the row at the origin.
fn copy(world: &Job, options: &Options, floor: Option<&Floor>, size: usize, turn: usize) -> Outcome<Option<Row>> {
    let gets = matches!(options.test, Test::GetLatency | Test::GetBw);
    let (win, mut buffer) = window_with_pattern(world, options, (size, turn), gets)?;
    let row = if world.rank() == 0 {
        let row = origin(options, floor, &win, &mut buffer, gets)?;
        if options.check && gets {
            pattern::verify("get", &buffer, turn)?;
        }
        Some(row)
    } else {
        None
    };
    world.barrier()?;
    if options.check && !gets && world.rank() == 1 {
        win.load(0, &mut buffer)?;
        pattern::verify("put", &buffer, turn)?;
    }
    win.free()?;
    Ok(row)
}

fn origin(options: &Options, floor: Option<&Floor>, win: &Window<u8>, buffer: &mut [u8], gets: bool) -> Outcome<Row> {
    let size = buffer.len();
    let flight = if options.test.is_bandwidth() { options.window } else { 1 };
    let counts = Counts { apart: floor.is_some_and(Floor::disturbs), ..counts(options, size) };
    let mut bare = Floor::batches(floor, options, size);
    let bare = bare.as_deref_mut();
    // Gets in flight have a buffer each, as they must in a program.
    let mut more: Vec<Vec<u8>> = (1..flight).map(|_| vec![0; size]).collect();
    let (library, floor) = if gets {
        // A scope borrows the buffers, and its end completes them.
        let get = |epoch: &LockAllEpoch<'_, '_, u8>| {
            epoch.scope(|part| {
                part.get(1, 0, &mut *buffer)?;
                more.iter_mut().try_for_each(|buffer| part.get(1, 0, buffer))
            })
        };
        in_epochs(options, win, counts, bare, get)?
    } else {
        let source = &*buffer;
        in_epochs(options, win, counts, bare, |epoch| {
            (0..flight).try_for_each(|_| epoch.put(1, 0, source))?;
            complete(options, epoch)
        })?
    };
    Ok(Row::new(size, library, floor))
}

/// Fetch-and-add or compare-and-swap of one word.
fn atomic(world: &Job, options: &Options, floor: Option<&Floor>) -> Outcome<Option<Row>> {
    let win = window::<u64>(world, options, 1)?;
    world.barrier()?;
    let mut done = 0u64;
    let row = if world.rank() == 0 {
        let mut bare = Floor::batches(floor, options, 8);
        let swaps = options.test == Test::CasLatency;
        let operation = |epoch: &LockAllEpoch<'_, '_, u64>| {
            let old =
                if swaps { epoch.compare_and_swap(1, 0, done, done + 1)? } else { epoch.fetch_add(1, 0, 1u64)? };
            // One compare and no branch that is taken: part of what any user of the result does.
            assert!(old == done, "rank 1's word was {old} before operation {done}");
            done += 1;
            Ok(())
        };
        let counts = Counts { apart: floor.is_some_and(Floor::disturbs), ..counts(options, 8) };
        let (library, floor) = in_epochs(options, &win, counts, bare.as_deref_mut(), operation)?;
        Some(Row::new(8, library, floor))
    } else {
        None
    };
    world.barrier()?;
    if options.check && world.rank() == 0 {
        let last = win.lock_all(|epoch| epoch.fetch_value(1, 0))?;
        if last != done {
            return Err(format!("rank 1's word is {last} after {done} operations").into());
        }
    }
    world.barrier()?;
    win.free()?;
    Ok(row)
}

/// The floor's own table: each bare operation for each size.
fn floors(
    world: &Job,
    options: &Options,
    floor: Option<&Floor>,
    show: &mut dyn FnMut(&Options, Option<Row>) -> Outcome<()>,
) -> Outcome<()> {
    for test in [Test::PutLatency, Test::GetLatency, Test::FopLatency, Test::CasLatency, Test::PutBw, Test::GetBw] {
        let options =
            Options { test, vs_floor: false, sizes: options.sizes.filter(|_| !test.is_word()), ..options.clone() };
        for size in options.sizes() {
            world.barrier()?;
            if let Some(floor) = floor.filter(|floor| world.rank() == 0 && floor.has(test)) {
                let mut batch = |count| floor.batch(&options, size, count);
                let (times, _) = alternate(counts(&options, size), &mut batch, None)?;
                let unit = if test.is_bandwidth() { "MB/s" } else { "us" };
                let what = Some(format!("bare {}, {unit}", test.name()));
                show(&options, Some(Row { what, ..Row::new(size, times, None) }))?;
            }
            world.barrier()?;
        }
    }
    Ok(())
}

//! Passive targets: every operation while the target computes for a second and makes no call,
//! compared with a target that waits in a barrier.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use transom::{Job, Window};

use crate::iterations::window;
use crate::options::{Creation, Options};
use crate::outcome::Outcome;
use crate::report;

/// How long the target computes.
const COMPUTE: Duration = Duration::from_secs(1);
/// An operation that waits for the computing target takes longer than this.
const LATE: Duration = Duration::from_millis(100);
/// Words of the long put.
const LONG: usize = 8192;
/// Where each operation works, in words.
const SHORT_AT: usize = 0;
const ADD_AT: usize = 1;
const SWAP_AT: usize = 2;
const LONG_AT: usize = 8;

/// The operations, in order.
const OPERATIONS: [&str; 5] = ["put 8 B", "put 64 KiB", "get 64 B", "fetch_and_op", "compare_and_swap"];

/// Runs both flavors; returns whether no operation waited for the target.
pub(crate) fn run(world: &Job, options: &Options) -> Outcome<bool> {
    let mut passive = true;
    if world.rank() == 0 {
        report::header(&Options { vs_floor: false, ..options.clone() }, world, None, false)?;
        let mut out = crate::output::output();
        writeln!(out, "# Target computes {} s without a call; times in us", COMPUTE.as_secs())?;
        writeln!(
            out,
            "{:<10}{:<20}{:>20}{:>20}{:>10}",
            "# Window", "Operation", "Computing target", "Waiting target", "Passive"
        )?;
    }
    for creation in [Creation::Allocate, Creation::Create] {
        let win = window::<u64>(world, &Options { creation, ..options.clone() }, LONG_AT + LONG)?;
        // First contact is not part of the measurement.
        if world.rank() == 0 {
            operations(&win, 0)?;
        }
        world.barrier()?;
        let computing = turn(world, &win, 1, true)?;
        let waiting = turn(world, &win, 2, false)?;
        for ((name, computing), waiting) in OPERATIONS.iter().zip(computing).zip(waiting) {
            let on_time = computing < LATE;
            passive &= on_time;
            let (busy, idle) = (computing.as_secs_f64() * 1e6, waiting.as_secs_f64() * 1e6);
            let word = if on_time { "yes" } else { "NO" };
            let flavor = format!("{creation:?}").to_lowercase();
            writeln!(crate::output::output(), "{flavor:<10}{name:<20}{busy:>20.2}{idle:>20.2}{word:>10}")?;
        }
        win.free()?;
    }
    Ok(passive)
}

/// Runs one turn. Returns the times of the operations at the origin, and none at other ranks.
fn turn(world: &Job, win: &Window<u64>, value: u64, compute: bool) -> Outcome<Vec<Duration>> {
    world.barrier()?;
    let times = match world.rank() {
        0 => {
            // The target is computing by now.
            std::thread::sleep(COMPUTE / 10);
            operations(win, value)?
        }
        1 if compute => {
            let start = Instant::now();
            let mut sum = 0u64;
            while start.elapsed() < COMPUTE {
                sum = (0..10_000u64).fold(sum, |sum, i| black_box(sum.wrapping_mul(31).wrapping_add(i)));
            }
            // This rank has made no call yet, and the data that the origin completed must have
            // arrived.
            arrived(win, value)?;
            Vec::new()
        }
        _ => Vec::new(),
    };
    world.barrier()?;
    Ok(times)
}

/// Fails where the origin's data is not in this rank's memory.
fn arrived(win: &Window<u64>, value: u64) -> Outcome<()> {
    let mut words = vec![0; LONG_AT + LONG];
    win.load(0, &mut words)?;
    let long = words[LONG_AT..].iter().all(|&word| word == value);
    let short = [SHORT_AT, ADD_AT, SWAP_AT].map(|at| words[at]);
    // The atomics have counted once in each turn, including first contact.
    if long && short == [value, value + 1, value + 1] {
        return Ok(());
    }
    Err(format!(
        "after computing, the target has {short:?} and a long put that is {}",
        if long { "whole" } else { "not whole" }
    )
    .into())
}

/// Each operation and its completion, timed.
fn operations(win: &Window<u64>, value: u64) -> Outcome<Vec<Duration>> {
    let long = vec![value; LONG];
    let mut back = [0u64; 8];
    let mut times = Vec::new();
    let mut swapped = 0;
    win.lock_all(|epoch| {
        let mut timed = |operation: &mut dyn FnMut() -> transom::Result<()>| {
            let start = Instant::now();
            operation()?;
            times.push(start.elapsed());
            Ok::<_, transom::Error>(())
        };
        timed(&mut || epoch.put_value(1, SHORT_AT, value).and_then(|()| epoch.flush(1)))?;
        timed(&mut || epoch.put(1, LONG_AT, &long).and_then(|()| epoch.flush(1)))?;
        timed(&mut || epoch.scope(|part| part.get(1, LONG_AT, &mut back)))?;
        timed(&mut || epoch.fetch_add(1, ADD_AT, 1u64).map(drop))?;
        timed(&mut || {
            swapped = epoch.compare_and_swap(1, SWAP_AT, value, value + 1)?;
            Ok(())
        })
    })?;
    if back != [value; 8] || swapped != value {
        return Err(format!("the get returned {back:?} and the swap {swapped}, instead of {value}").into());
    }
    Ok(times)
}

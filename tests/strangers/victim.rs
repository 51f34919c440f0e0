//! A rank whose job puts, gets and adds until a stop request, and checks each value. A part of its
//! window is never accessed.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use transom::{Job, Window};

use super::print_flushed;

/// The first words of the window, which no rank accesses.
const QUIET: usize = 64;
/// The words for puts, for additions, and for rank 0's signal to stop.
const PUT: usize = QUIET;
const SUM: usize = QUIET + 8;
const OVER: usize = QUIET + 9;
/// The value of the words that no rank accesses.
const PATTERN: u64 = 0x5AFE_5AFE_5AFE_5AFE;

/// A rank that stops when the file `stop` exists.
pub(crate) fn main(stop: &str) -> ExitCode {
    let done = transom::init().map_err(Box::<dyn Error>::from).and_then(|world| {
        // A rank that got an error can't leave the job collectively.
        work(&world, Path::new(stop)).inspect_err(|_| std::mem::forget(world.clone()))?;
        Ok(world.finalize()?)
    });
    match done {
        Ok(()) => {
            print_flushed("unharmed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("harmed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(world: &Job, stop: &Path) -> Result<(), Box<dyn Error>> {
    let (me, size) = (world.rank(), world.size());
    let win = Window::<u64>::allocate(world, OVER + 1)?;
    win.store(0, &[PATTERN; QUIET])?;
    world.barrier()?;
    print_flushed(&format!("ready {}", std::process::id()));
    let mut rounds = 0;
    loop {
        rounds += 1;
        let over = me == 0 && stop.exists();
        let next = (me + 1) % size;
        let mut quiet = [0; QUIET];
        win.lock_all(|epoch| {
            epoch.put_value(next, PUT, rounds)?;
            epoch.fetch_add(0, SUM, 1)?;
            for rank in (0..size).filter(|_| over) {
                epoch.put_value(rank, OVER, 1)?;
            }
            epoch.get(next, 0, &mut quiet)
        })?;
        if quiet != [PATTERN; QUIET] {
            return Err(format!("round {rounds}: rank {next} has {quiet:x?}").into());
        }
        world.barrier()?;
        win.sync();
        let mut mine = [0; OVER + 1];
        win.load(0, &mut mine)?;
        if mine[..QUIET] != [PATTERN; QUIET] || mine[PUT] != rounds {
            return Err(format!("round {rounds}: this rank has {mine:x?}").into());
        }
        if me == 0 && mine[SUM] != rounds * size as u64 {
            return Err(format!("round {rounds} of {size} ranks: a sum of {}", mine[SUM]).into());
        }
        world.barrier()?;
        if mine[OVER] != 0 {
            return Ok(win.free()?);
        }
    }
}

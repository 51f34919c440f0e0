//! Heat in two dimensions: Jacobi's five-point stencil, with rows distributed over the ranks and
//! halos exchanged by puts between fences.
//!
//! `transom-run -n 4 target/release/examples/stencil [N [STEPS]]`: an N x N plate (default 128)
//! with a hot upper edge, and STEPS steps (default 200). Rank 0 gets all rows and compares them,
//! bit by bit, with a serial run.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::{Job, Window};

/// One step for one row of `n` cells between its neighbours.
fn relax(above: &[f64], row: &[f64], below: &[f64], out: &mut [f64]) {
    let n = row.len();
    out[0] = row[0];
    out[n - 1] = row[n - 1];
    for x in 1..n - 1 {
        out[x] = 0.25 * (above[x] + below[x] + row[x - 1] + row[x + 1]);
    }
}

/// The initial plate: 100 at the upper edge, else 0.
fn initial(n: usize, row: usize) -> Vec<f64> {
    vec![if row == 0 { 100.0 } else { 0.0 }; n]
}

/// The whole computation by one process.
fn serial(n: usize, steps: usize) -> Vec<f64> {
    let mut plate: Vec<f64> = (0..n).flat_map(|row| initial(n, row)).collect();
    let mut next = plate.clone();
    for _ in 0..steps {
        for row in 1..n - 1 {
            let (above, at, below) = ((row - 1) * n, row * n, (row + 1) * n);
            relax(&plate[above..at], &plate[at..below], &plate[below..below + n], &mut next[at..below]);
        }
        std::mem::swap(&mut plate, &mut next);
    }
    plate
}

/// The rows of a rank: from the first one to the end (exclusive).
fn rows(rank: usize, size: usize, n: usize) -> (usize, usize) {
    (n * rank / size, n * (rank + 1) / size)
}

/// The rank that holds a row.
fn owner(row: usize, size: usize, n: usize) -> usize {
    (0..size).find(|&rank| (rows(rank, size, n).0..rows(rank, size, n).1).contains(&row)).unwrap_or(0)
}

/// Computes this rank's rows. The window has two halo rows: the one above the first row, and the
/// one below the last.
fn compute(world: &Job, n: usize, steps: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let (rank, size) = (world.rank(), world.size());
    let (first, last) = rows(rank, size, n);
    let mine = last - first;
    let halo = Window::<f64>::allocate(world, 2 * n)?;
    let mut plate: Vec<f64> = (first..last).flat_map(|row| initial(n, row)).collect();
    let mut next = plate.clone();
    let mut edges = vec![0.0; 2 * n];
    let terminal = std::io::stderr().is_terminal() || std::env::var_os("TRANSOM_STDERR_IS_TERMINAL").is_some();
    // Rank 0 reports progress: on a terminal each second, else every 5 seconds.
    let mut next_word = Instant::now() + Duration::from_secs(2);
    halo.fence(|epoch| {
        for step in 0..steps {
            if mine > 0 {
                epoch.scope(|part| {
                    if first > 0 {
                        part.put(owner(first - 1, size, n), n, &plate[..n])?;
                    }
                    if last < n {
                        part.put(owner(last, size, n), 0, &plate[(mine - 1) * n..])?;
                    }
                    Ok(())
                })?;
            }
            epoch.fence()?;
            halo.load(0, &mut edges)?;
            // The halos have been read: neighbours may write the next step's from here on.
            epoch.fence()?;
            for row in (0..mine).filter(|row| (1..n - 1).contains(&(first + row))) {
                let at = row * n;
                let above = if row == 0 { &edges[..n] } else { &plate[at - n..at] };
                let below = if row + 1 == mine { &edges[n..] } else { &plate[at + n..at + 2 * n] };
                relax(above, &plate[at..at + n], below, &mut next[at..at + n]);
            }
            std::mem::swap(&mut plate, &mut next);
            if rank == 0 && Instant::now() >= next_word {
                let (end, pause) = if terminal { ('\r', 1) } else { ('\n', 5) };
                next_word = Instant::now() + Duration::from_secs(pause);
                eprint!("step {step} of {steps}{end}");
            }
        }
        Ok(())
    })?;
    halo.free()?;
    Ok(plate)
}

/// All rows at rank 0, by gets.
fn gather(world: &Job, n: usize, mine: &[f64]) -> Result<Vec<f64>, Box<dyn Error>> {
    let win = Window::<f64>::allocate(world, mine.len())?;
    win.store(0, mine)?;
    world.barrier()?;
    let mut plate = vec![0.0; if world.rank() == 0 { n * n } else { 0 }];
    if world.rank() == 0 {
        win.lock_all(|epoch| {
            let mut rest = plate.as_mut_slice();
            for rank in 0..world.size() {
                let (first, last) = rows(rank, world.size(), n);
                let (part, after) = rest.split_at_mut((last - first) * n);
                epoch.get(rank, 0, part)?;
                rest = after;
            }
            Ok(())
        })?;
    }
    win.free()?;
    Ok(plate)
}

fn run() -> Result<bool, Box<dyn Error>> {
    let mut args = std::env::args_os().map(|text| text.to_string_lossy().into_owned()).skip(1);
    let n: usize = args.next().map_or(Ok(128), |text| text.parse())?;
    let steps: usize = args.next().map_or(Ok(200), |text| text.parse())?;
    if !(3..=100_000).contains(&n) {
        return Err(format!("N is {n}; it is 3 to 100000").into());
    }
    let world = transom::init()?;
    world.barrier()?;
    let begin = Instant::now();
    let mine = compute(&world, n, steps)?;
    let seconds = begin.elapsed().as_secs_f64();
    let plate = gather(&world, n, &mine)?;
    if world.rank() != 0 {
        return Ok(true);
    }
    let passed = plate.iter().map(|cell| cell.to_bits()).eq(serial(n, steps).iter().map(|cell| cell.to_bits()));
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} ranks, {n} x {n} cells, {steps} steps in {seconds:.3} s", world.size())?;
    writeln!(out, "checksum {:.12e}", plate.iter().sum::<f64>())?;
    writeln!(out, "Verification: {}", if passed { "passed" } else { "FAILED" })?;
    Ok(passed)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("stencil: {error:#}");
            ExitCode::FAILURE
        }
    }
}

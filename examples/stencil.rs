//! Heat in two dimensions: Jacobi's five-point stencil, with rows distributed over the ranks and
//! halos exchanged by puts: between fences, within post/start/complete/wait epochs, with notices,
//! or followed by an atomic.
//!
//! `transom-run -n 4 target/release/examples/stencil [N [STEPS [fence|pscw|notify|atomic]]]`: an
//! N x N plate (default 128) with a hot upper edge, and STEPS steps (default 200). Rank 0 gets all
//! rows and compares them, bit by bit, with a serial run.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::{Access, Job, Notice, Window};

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

/// The exchange of edge rows between neighbours.
#[derive(Clone, Copy)]
enum Exchange {
    /// Puts between fences, for which all ranks wait.
    Fence,
    /// Post, start, complete and wait, among neighbours.
    Pscw,
    /// Puts with a notice: a rank waits only for the rows that it needs.
    Notify,
    /// Puts, a flush, and then an atomic on a word of the neighbour.
    Atomic,
}

/// This rank's rows, and the halo rows above the first and below the last.
struct Rows {
    n: usize,
    first: usize,
    last: usize,
    plate: Vec<f64>,
    next: Vec<f64>,
    edges: Vec<f64>,
    /// The ranks of the rows above and below.
    above: Option<usize>,
    below: Option<usize>,
    progress: Option<Progress>,
}

impl Rows {
    fn new(world: &Job, n: usize) -> Rows {
        let (rank, size) = (world.rank(), world.size());
        let (first, last) = rows(rank, size, n);
        let plate: Vec<f64> = (first..last).flat_map(|row| initial(n, row)).collect();
        Rows {
            n,
            first,
            last,
            next: plate.clone(),
            edges: vec![0.0; 2 * n],
            above: (first > 0 && first < last).then(|| owner(first - 1, size, n)),
            below: (last < n && first < last).then(|| owner(last, size, n)),
            plate,
            progress: (rank == 0).then(Progress::new),
        }
    }

    fn neighbours(&self) -> Vec<usize> {
        self.above.into_iter().chain(self.below).collect()
    }

    fn top(&self) -> &[f64] {
        &self.plate[..self.n]
    }

    fn bottom(&self) -> &[f64] {
        &self.plate[self.plate.len() - self.n..]
    }

    /// Puts the rows at the edges into the halos of the neighbours.
    fn put<'part>(&'part self, part: &Access<'part, '_, f64>) -> transom::Result<()> {
        self.above.map_or(Ok(()), |rank| part.put(rank, self.n, self.top()))?;
        self.below.map_or(Ok(()), |rank| part.put(rank, 0, self.bottom()))
    }

    /// One step, with the halos that have arrived.
    fn relax(&mut self, step: usize, steps: usize) {
        let (n, mine) = (self.n, self.last - self.first);
        for row in (0..mine).filter(|row| (1..n - 1).contains(&(self.first + row))) {
            let at = row * n;
            let above = if row == 0 { &self.edges[..n] } else { &self.plate[at - n..at] };
            let below = if row + 1 == mine { &self.edges[n..] } else { &self.plate[at + n..at + 2 * n] };
            relax(above, &self.plate[at..at + n], below, &mut self.next[at..at + n]);
        }
        std::mem::swap(&mut self.plate, &mut self.next);
        if let Some(progress) = &mut self.progress {
            progress.report(step, steps);
        }
    }

    fn fences(&mut self, halo: &Window<f64>, steps: usize) -> transom::Result<()> {
        halo.fence(|epoch| {
            for step in 0..steps {
                epoch.scope(|part| self.put(part))?;
                epoch.fence()?;
                halo.load(0, &mut self.edges)?;
                // The halos have been read: neighbours may write the next step's from here on.
                epoch.fence()?;
                self.relax(step, steps);
            }
            Ok(())
        })
    }

    fn pscw(&mut self, halo: &Window<f64>, steps: usize) -> transom::Result<()> {
        let neighbours = self.neighbours();
        for step in 0..steps {
            // The halos have been read: neighbours may write the next step's from here on.
            halo.post(&neighbours)?;
            halo.start(&neighbours, |epoch| self.put(epoch))?;
            halo.wait()?;
            halo.load(0, &mut self.edges)?;
            self.relax(step, steps);
        }
        Ok(())
    }

    /// Even and odd steps use different pairs of halos. A neighbour reuses a pair two steps later,
    /// after it has received this rank's rows of the step between; this rank puts those rows only
    /// after it has read the pair. So no halo is overwritten before it is read.
    fn notices(&mut self, halo: &Window<f64>, steps: usize) -> transom::Result<()> {
        const FROM_ABOVE: usize = 0;
        const FROM_BELOW: usize = 1;
        let n = self.n;
        halo.set_num_notify(2)?;
        halo.lock_all(|epoch| {
            for step in 0..steps {
                let (pair, count) = (step % 2 * 2 * n, step as u64 + 1);
                epoch.scope(|part| {
                    let (up, down) = (Notice(FROM_BELOW), Notice(FROM_ABOVE));
                    self.above.map_or(Ok(()), |rank| part.put_notify(rank, pair + n, self.top(), up))?;
                    self.below.map_or(Ok(()), |rank| part.put_notify(rank, pair, self.bottom(), down))
                })?;
                self.above.map_or(Ok(()), |_| halo.notices().wait(FROM_ABOVE, count))?;
                self.below.map_or(Ok(()), |_| halo.notices().wait(FROM_BELOW, count))?;
                halo.load(pair, &mut self.edges)?;
                self.relax(step, steps);
            }
            Ok(())
        })
    }
}

/// The exchange by atomics.
impl Rows {
    /// The pairs of halos alternate as in `notices`. A word of each rank counts the rows that have
    /// come from above, another one those from below.
    fn atomics(&mut self, world: &Job, halo: &Window<f64>, steps: usize) -> transom::Result<()> {
        const FROM_ABOVE: usize = 0;
        const FROM_BELOW: usize = 1;
        let (n, me) = (self.n, world.rank());
        let arrived = Window::<u64>::allocate(world, 2)?;
        halo.lock_all(|epoch| {
            arrived.lock_all(|counts| {
                for step in 0..steps {
                    let (pair, count) = (step % 2 * 2 * n, step as u64 + 1);
                    // The end of the scope completes the puts at the neighbours.
                    epoch.scope(|part| {
                        self.above.map_or(Ok(()), |rank| part.put(rank, pair + n, self.top()))?;
                        self.below.map_or(Ok(()), |rank| part.put(rank, pair, self.bottom()))
                    })?;
                    self.above.map_or(Ok(0), |rank| counts.fetch_add(rank, FROM_BELOW, 1))?;
                    self.below.map_or(Ok(0), |rank| counts.fetch_add(rank, FROM_ABOVE, 1))?;
                    for (neighbour, word) in [(self.above, FROM_ABOVE), (self.below, FROM_BELOW)] {
                        while neighbour.is_some() && counts.fetch_value(me, word)? < count {
                            std::thread::yield_now();
                        }
                    }
                    halo.load(pair, &mut self.edges)?;
                    self.relax(step, steps);
                }
                Ok(())
            })
        })?;
        arrived.free()
    }
}

/// Progress output of rank 0: on a terminal each second, else every 5 seconds.
struct Progress {
    is_terminal: bool,
    next: Instant,
}

impl Progress {
    fn new() -> Progress {
        let is_terminal = std::io::stderr().is_terminal() || std::env::var_os("TRANSOM_STDERR_IS_TERMINAL").is_some();
        Progress { is_terminal, next: Instant::now() + Duration::from_secs(2) }
    }

    fn report(&mut self, step: usize, steps: usize) {
        if Instant::now() >= self.next {
            let (end, pause) = if self.is_terminal { ('\r', 1) } else { ('\n', 5) };
            self.next = Instant::now() + Duration::from_secs(pause);
            eprint!("step {step} of {steps}{end}");
        }
    }
}

/// Computes this rank's rows. The window has two pairs of halo rows: those above the first row, and
/// those below the last. Notices and atomics use the second pair too.
fn compute(world: &Job, n: usize, steps: usize, exchange: Exchange) -> transom::Result<Vec<f64>> {
    let halo = Window::<f64>::allocate(world, 4 * n)?;
    let mut rows = Rows::new(world, n);
    match exchange {
        Exchange::Fence => rows.fences(&halo, steps)?,
        Exchange::Pscw => rows.pscw(&halo, steps)?,
        Exchange::Notify => rows.notices(&halo, steps)?,
        Exchange::Atomic => rows.atomics(world, &halo, steps)?,
    }
    world.barrier()?;
    halo.free()?;
    Ok(rows.plate)
}

/// All rows at rank 0, by gets.
fn gather(world: &Job, n: usize, mine: &[f64]) -> Result<Vec<f64>, Box<dyn Error>> {
    let win = Window::<f64>::allocate(world, mine.len())?;
    win.store(0, mine)?;
    win.sync();
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
    let number =
        |name: &str, text: String| text.parse::<usize>().map_err(|error| format!("{name} is {text:?}: {error}"));
    let n = args.next().map_or(Ok(128), |text| number("N", text))?;
    let steps = args.next().map_or(Ok(200), |text| number("STEPS", text))?;
    let (name, exchange) = match args.next().as_deref() {
        None | Some("fence") => ("fence", Exchange::Fence),
        Some("pscw") => ("pscw", Exchange::Pscw),
        Some("notify") => ("notify", Exchange::Notify),
        Some("atomic") => ("atomic", Exchange::Atomic),
        Some(other) => return Err(format!("{other} is not fence, pscw, notify or atomic").into()),
    };
    if !(3..=100_000).contains(&n) {
        return Err(format!("N is {n}, but must be 3 to 100000").into());
    }
    let world = transom::init()?;
    world.barrier()?;
    let begin = Instant::now();
    let mine = compute(&world, n, steps, exchange)?;
    let seconds = begin.elapsed().as_secs_f64();
    let plate = gather(&world, n, &mine)?;
    if world.rank() != 0 {
        return Ok(true);
    }
    let passed = plate.iter().map(|cell| cell.to_bits()).eq(serial(n, steps).iter().map(|cell| cell.to_bits()));
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} ranks, {n} x {n} cells, {steps} steps by {name} in {seconds:.3} s", world.size())?;
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

//! RandomAccess of the HPC Challenge (GUPS): XOR updates at random locations of a table distributed
//! over all ranks.
//!
//! `transom-run -n 4 target/release/examples/gups [LOG2_TABLE]`: a table of 2^LOG2_TABLE words
//! (default 18; over a net 12), and 4 updates per word from the benchmark's own stream. An update
//! is a compare-and-swap loop, so that none is lost. The verification compares every word with a
//! serial run, and then repeats all updates, which must restore every word to its index. The
//! benchmark's rule allows 1 % of errors; here there must be none.

use std::cell::Cell;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use transom::{Job, LockAllEpoch, Window};

/// The stream's polynomial (HPCC RandomAccess, `POLY`).
const POLY: u64 = 7;
/// The stream's period (`PERIOD`).
const PERIOD: i64 = 1_317_624_576_693_539_401;

/// The next number of the stream.
fn next(ran: u64) -> u64 {
    (ran << 1) ^ if ran.cast_signed() < 0 { POLY } else { 0 }
}

/// The stream's number `n` (`HPCC_starts`), found by repeated squaring, so that each rank begins at
/// its own part.
fn start(n: i64) -> u64 {
    let n = n.rem_euclid(PERIOD);
    if n == 0 {
        return 1;
    }
    // m2[i] is the stream after 2 * i steps.
    let mut m2 = [0u64; 64];
    let mut value = 1;
    for slot in &mut m2 {
        *slot = value;
        value = next(next(value));
    }
    let mut ran = 2u64;
    for bit in (0..n.ilog2()).rev() {
        ran = m2.iter().enumerate().filter(|(i, _)| ran >> i & 1 == 1).fold(0, |sum, (_, word)| sum ^ word);
        if n >> bit & 1 == 1 {
            ran = next(ran);
        }
    }
    ran
}

/// The table: words spread over the ranks in blocks.
struct Table<'j> {
    world: &'j Job,
    words: u64,
    block: u64,
    win: Window<u64>,
}

impl Table<'_> {
    /// The rank and displacement of a word.
    fn place(&self, word: u64) -> (usize, usize) {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        (index(word / self.block), index(word % self.block))
    }

    /// Performs this rank's share of the updates; returns their number.
    fn update(&self, epoch: &LockAllEpoch<'_, '_, u64>, show: &Progress) -> Result<u64, transom::Error> {
        let (all, size, me) = (4 * self.words, self.world.size() as u64, self.world.rank() as u64);
        let (first, last) = (all * me / size, all * (me + 1) / size);
        let mut ran = start(first.cast_signed());
        for done in first..last {
            ran = next(ran);
            let (rank, at) = self.place(ran & (self.words - 1));
            let mut seen = epoch.fetch_value(rank, at)?;
            loop {
                let found = epoch.compare_and_swap(rank, at, seen, seen ^ ran)?;
                if found == seen {
                    break;
                }
                seen = found;
            }
            if (done - first).is_multiple_of(64) {
                show.at(done - first, last - first);
            }
        }
        Ok(last - first)
    }

    /// The words of this rank after all updates, computed by one process: the result of XOR does
    /// not depend on the order.
    fn serial(&self, mine: &[u64]) -> Vec<u64> {
        let mut words = mine.to_vec();
        let mut ran = start(0);
        for _ in 0..4 * self.words {
            ran = next(ran);
            let (rank, at) = self.place(ran & (self.words - 1));
            if rank == self.world.rank()
                && let Some(word) = words.get_mut(at)
            {
                *word ^= ran;
            }
        }
        words
    }

    /// The number of words of this rank that differ from the expected ones.
    fn errors(&self, expected: &[u64]) -> Result<u64, transom::Error> {
        let mut mine = vec![0; self.win.len()];
        self.win.sync(); // the loads see the updates of all ranks
        self.win.load(0, &mut mine)?;
        Ok(mine.iter().zip(expected).filter(|(word, expected)| word != expected).count() as u64)
    }
}

/// Progress output of rank 0: on a terminal a line that changes each second, else a line every 5
/// seconds.
struct Progress {
    terminal: bool,
    shown: bool,
    next: Cell<Instant>,
}

impl Progress {
    fn new(world: &Job) -> Progress {
        let terminal = std::io::stderr().is_terminal() || std::env::var_os("TRANSOM_STDERR_IS_TERMINAL").is_some();
        let next = Cell::new(Instant::now() + Duration::from_secs(2));
        Progress { terminal, shown: world.rank() == 0, next }
    }

    fn at(&self, done: u64, all: u64) {
        if !self.shown || Instant::now() < self.next.get() {
            return;
        }
        let (end, pause) = if self.terminal { ('\r', 1) } else { ('\n', 5) };
        self.next.set(Instant::now() + Duration::from_secs(pause));
        eprint!("{:3} % of {all} updates{end}", done * 100 / all.max(1));
        // A failure to show progress is no failure of the run.
        let _ = std::io::stderr().flush();
    }
}

/// The default size of the table, for a run of some seconds: over a net an update takes a thousand
/// times as long. All ranks must use the same size.
fn usual(world: &Job) -> u32 {
    if world.net().is_some() { 12 } else { 18 }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let argument = std::env::args_os().nth(1).map(|text| text.to_string_lossy().into_owned());
    let number = |text: String| text.parse::<u32>().map_err(|error| format!("LOG2_TABLE is {text:?}: {error}"));
    let argument = argument.map(number).transpose()?;
    if let Some(log2) = argument.filter(|log2| !(1..=40).contains(log2)) {
        return Err(format!("LOG2_TABLE is {log2}, but must be 1 to 40").into());
    }
    let world = transom::init()?;
    let log2 = argument.unwrap_or_else(|| usual(&world));
    let words = 1u64 << log2;
    let block = words.div_ceil(world.size() as u64);
    let first = (block * world.rank() as u64).min(words);
    let mine: Vec<u64> = (first..(first + block).min(words)).collect();
    let table = Table { world: &world, words, block, win: Window::allocate(&world, mine.len())? };
    table.win.store(0, &mine)?;
    table.win.sync();
    world.barrier()?;

    let show = Progress::new(&world);
    let begin = Instant::now();
    table.win.lock_all(|epoch| table.update(epoch, &show))?;
    world.barrier()?;
    let seconds = begin.elapsed().as_secs_f64();
    let wrong = table.errors(&table.serial(&mine))?;
    world.barrier()?;
    table.win.lock_all(|epoch| table.update(epoch, &show))?;
    world.barrier()?;

    let sums = Window::<u64>::allocate(&world, 2)?;
    sums.lock_all(|epoch| epoch.fetch_add(0, 0, table.errors(&mine)?).and(epoch.fetch_add(0, 1, wrong)))?;
    world.barrier()?;
    let mut total = [0; 2];
    sums.lock_all(|epoch| epoch.scope(|part| part.get(0, 0, &mut total)))?;
    sums.free()?;
    table.win.free()?;
    let [errors, wrong] = total;
    let passed = errors == 0 && wrong == 0;
    if world.rank() == 0 {
        let updates = 4 * words;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} ranks, table of 2^{log2} words, {updates} updates in {seconds:.3} s", world.size())?;
        #[allow(clippy::cast_precision_loss)] // a rate to read
        writeln!(out, "{:.6} GUPS", updates as f64 / seconds / 1e9)?;
        writeln!(out, "{wrong} words differ from a serial run, {errors} are not back after repeating all updates")?;
        writeln!(out, "Verification: {}", if passed { "passed" } else { "FAILED" })?;
    }
    Ok(passed)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gups: {error:#}");
            ExitCode::FAILURE
        }
    }
}

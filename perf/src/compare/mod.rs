//! `transom-perf compare`: a plain MPI program on each installed MPI, with transom's interposition
//! library and without, in turns. Owns the command line and the outputs; calls no window, and is no
//! rank of a job.

mod answers;
mod bars;
mod hosts;
mod job;
mod launch;
mod plan;
mod plot;
mod ratios;
mod table;
mod turns;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::outcome::Outcome;
use crate::output::{output, parsed};
use answers::Answer;
use hosts::Host;
use launch::Bench;
use plan::Line;
use ratios::Ratio;
use turns::{Setting, measured};

/// Runs a benchmark of plain MPI calls on each installed MPI, alternately with transom's
/// interposition library (libtransom_mpi.so, by LD_PRELOAD) and without. Prints a table of times
/// with their ratios, then 36 cases in which the target computes. With -n the benchmark measures
/// many ranks at once.
///
/// The program first builds a missing interposition library if cargo and the sources are installed;
/// otherwise it measures the MPI without the library, and prints the command that builds the
/// library.
///
/// On each cell an MPI with the library and without takes turns of about a millisecond: 6 in each
/// of 3 rounds, or 2 if an operation takes long. Both jobs exist at the same time, and the ranks of
/// the waiting job sleep. Before each turn, half a millisecond of rounds, and at least one round,
/// is not measured (with `--quick` at most as many rounds as the turn has). Each round starts new
/// jobs. If there is a CPU for each rank, a rank is bound to a CPU of its own.
///
/// A time is the median of all turns. A turn's ratio to its neighbour in time is the time with
/// transom divided by the time without transom; for rates and bandwidths it is the inverse. The
/// table has the median of these ratios, so that a machine whose speed changes between turns does
/// not change a cell's ratio. Below 1, transom is faster. A ratio with the mark ~ is unsteady: the
/// upper quartile is more than 1.25 times the lower one. Such a cell does not count as slower. The
/// cell of a job that hangs, crashes or has wrong data has a word instead of a time.
///
/// A time with the mark ! is too short: a flush or an unlock has returned before the data of its
/// put had arrived at a target that computed. The summary leaves out cells in which the MPI without
/// transom does so. With transom it is an error.
#[derive(Clone, Debug, Parser)]
#[command(name = "transom-perf compare", bin_name = "transom-perf compare", version)]
pub(crate) struct Options {
    /// An MPI by its compiler and its launcher; may be given several times. By default those found
    /// under the names mpicc.mpich, mpicc.openmpi and so on, else mpicc.
    #[arg(long = "mpi", value_name = "NAME=MPICC,MPIEXEC", value_parser = hosts::named)]
    mpis: Vec<Host>,
    /// The interposition library of an MPI; may be given several times. By default
    /// libtransom_mpi.so in TARGET/mpi/NAME/release, PREFIX/lib/transom/NAME or
    /// TARGET/mpi/NAME/debug. PREFIX is the parent of this program's folder. TARGET is PREFIX if
    /// cargo built the program there, else the folder target of the sources, else ./target. If none
    /// of these files exists, the program builds the library in TARGET/mpi/NAME.
    #[arg(long = "library", value_name = "NAME=PATH", value_parser = hosts::library)]
    libraries: Vec<(String, PathBuf)>,
    /// Measure cells in which N ranks work at once, instead of the table and the cases of two
    /// ranks: contended words and locks, rates and bandwidths of all ranks, updates of a table,
    /// fences after a put (`fence_all`), rings, computing during a put (`overlap`), and the
    /// creation of windows.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    ranks: Option<u16>,
    /// The routes between the ranks.
    #[arg(long = "transport", value_enum, value_delimiter = ',', default_values_t = [Transport::Shm, Transport::Tcp])]
    transports: Vec<Transport>,
    /// Write a plot of latency and bandwidth between two ranks to a file.
    #[arg(long, value_name = "FILE", conflicts_with = "ranks")]
    svg: Option<PathBuf>,
    /// Write a plot of ratios to a file: of allocated and created windows at a flush, or of all
    /// cells of -n.
    #[arg(long, value_name = "FILE")]
    bars: Option<PathBuf>,
    /// Write all results to a file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure a part in less than a minute: one round instead of 3 and shorter turns, so that
    /// small differences mean little; 32 cells instead of 440 (two sizes, allocated and created
    /// windows, flush and fence); and 6 cases instead of 36. Cells that have not run within the
    /// time are marked as skipped.
    #[arg(long)]
    quick: bool,
    /// Build no interposition library; measure an MPI whose library is missing without the library.
    #[arg(long)]
    no_build: bool,
}

/// The route between the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    /// The MPI's default between ranks of one machine.
    Shm,
    /// Sockets, also between ranks of one machine.
    Tcp,
}

impl Transport {
    /// Its name on the command line.
    fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
        }
    }
}

/// An MPI, with the library or without: a column of the table.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Column {
    /// The MPI's name.
    pub(crate) host: String,
    /// Whether transom serves its windows.
    pub(crate) with: bool,
    /// The answer of each line of the plan.
    pub(crate) answers: Vec<Answer>,
    /// Whether a flush or an unlock of the line has returned before the data had arrived.
    pub(crate) early: Vec<bool>,
    /// With transom: the ratio of each line to the column before.
    pub(crate) ratios: Vec<Option<Ratio>>,
}

impl Column {
    /// Its name in texts.
    fn name(&self) -> String {
        format!("{}{}", self.host, if self.with { "+transom" } else { "" })
    }
}

/// Results over one transport.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Part {
    pub(crate) transport: Transport,
    pub(crate) lines: Vec<Line>,
    /// Each MPI without the library, then with it where there is one.
    pub(crate) columns: Vec<Column>,
}

/// The main function of this subcommand; `args` are those from its name on.
pub(crate) fn main(args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let options: Options = match parsed("transom-perf compare", args) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("transom-perf compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The time limit of the measurements of a quick run.
const QUICK: Duration = Duration::from_secs(50);

/// The time of all parts together.
struct Clock {
    end: Instant,
    /// Parts that have not begun.
    left: usize,
}

impl Clock {
    /// The time limit of a part that begins now: twice its share of the remaining time, since most
    /// parts need less, and at most all of it.
    fn deadline(&mut self) -> Instant {
        let (now, left) = (Instant::now(), u32::try_from(self.left).unwrap_or(u32::MAX).max(1));
        self.left = self.left.saturating_sub(1);
        let rest = self.end.saturating_duration_since(now);
        now + rest.min(rest * 2 / left)
    }
}

/// Runs all plans. Returns whether something was measured, all requested libraries were built, and
/// no data was wrong with transom.
fn run(options: &Options) -> Outcome<bool> {
    let mut hosts = if options.mpis.is_empty() { hosts::found() } else { options.mpis.clone() };
    if hosts.is_empty() {
        return Err("no MPI was found (mpicc.mpich, mpicc.openmpi, mpicc); --mpi NAME=MPICC,MPIEXEC names one".into());
    }
    for host in &mut hosts {
        host.find_library(&options.libraries)?;
    }
    let ranks = options.ranks.map(usize::from);
    let bench = Bench::build(&hosts, ranks.unwrap_or(2), options.quick)?;
    let mut all_built = true;
    for host in hosts.iter_mut().filter(|_| !options.no_build) {
        all_built &= host.build_library();
    }
    let mut out = output();
    table::head(&mut out, &hosts, ranks, options.quick)?;
    let (cells, grid) = match (ranks, options.quick) {
        (Some(_), quick) => (plan::cells_of_all_ranks(quick), Vec::new()),
        (None, true) => (plan::cells(true), plan::sample()),
        (None, false) => (plan::cells(false), plan::grid()),
    };
    let count = (1 + usize::from(!grid.is_empty())) * options.transports.len();
    let mut clock = options.quick.then(|| Clock { end: Instant::now() + QUICK, left: count });
    let mut setting =
        |transport, lines| Setting { bench: &bench, transport, lines, deadline: clock.as_mut().map(Clock::deadline) };
    let mut parts = Vec::new();
    for &transport in &options.transports {
        let part = measured(setting(transport, &cells), &hosts, if options.quick { 1 } else { 3 })?;
        table::cells(&mut out, &part)?;
        parts.push(part);
        if !grid.is_empty() {
            let part = measured(setting(transport, &grid), &hosts, 1)?;
            table::grid(&mut out, &part)?;
            parts.push(part);
        }
    }
    out.flush()?;
    if let Some(file) = &options.svg {
        std::fs::write(file, plot::svg(&parts))?;
    }
    if let Some(file) = &options.bars {
        std::fs::write(file, bars::svg(&parts))?;
    }
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_vec_pretty(&parts)?)?;
    }
    let columns = parts.iter().flat_map(|part| &part.columns);
    let any = columns.clone().flat_map(|column| &column.answers).any(Answer::is_measured);
    let mut with = columns.filter(|column| column.with);
    let wrong = with.any(|column| column.answers.contains(&Answer::Wrong) || column.early.contains(&true));
    Ok(any && !wrong && all_built)
}

/// Shows the current work on a terminal.
fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("{what:<78}\r");
    }
}

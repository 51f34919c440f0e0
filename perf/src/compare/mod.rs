//! `transom-perf compare`: a plain MPI program on each installed MPI, with transom's interposition
//! library and without, alternately within one run. Owns the command line and the order of the
//! runs; calls no window, and is no rank of a job.

mod answers;
mod bars;
mod hosts;
mod launch;
mod plan;
mod plot;
mod table;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::outcome::Outcome;
use crate::output::{output, parsed};
use answers::{Answer, combined};
use hosts::Host;
use launch::{Bench, Planned};
use plan::Line;

/// Runs a benchmark of plain MPI calls on each installed MPI, alternately with transom's
/// interposition library (libtransom_mpi.so, by LD_PRELOAD) and without. Prints a table of times
/// with their ratios, then 36 cases in which the target computes. With -n the benchmark measures
/// many ranks at once.
///
/// The program first builds a missing interposition library if cargo and the sources are installed;
/// otherwise it measures the MPI without the library, and prints the command that builds the
/// library.
///
/// A time is the best of all rounds. A ratio is the time with transom divided by the time without
/// transom; for rates and bandwidths it is the inverse. Below 1, transom is faster. The cell of a
/// run that hangs, crashes or has wrong data has a mark.
#[derive(Clone, Debug, Parser)]
#[command(name = "transom-perf compare", bin_name = "transom-perf compare", version)]
pub(crate) struct Options {
    /// An MPI by its compiler and its launcher; may be given several times. By default those found
    /// under the names mpicc.mpich, mpicc.openmpi and so on, else mpicc.
    #[arg(long = "mpi", value_name = "NAME=MPICC,MPIEXEC", value_parser = hosts::named)]
    mpis: Vec<Host>,
    /// The interposition library of an MPI; may be given several times. By default
    /// libtransom_mpi.so in mpi/NAME/release, lib/transom/NAME or mpi/NAME/debug, relative to the
    /// parent of this program's folder. If none of these files exists, the program builds the
    /// library in mpi/NAME.
    #[arg(long = "library", value_name = "NAME=PATH", value_parser = hosts::library)]
    libraries: Vec<(String, PathBuf)>,
    /// Measure cells in which N ranks work at once, instead of the table and the cases of two
    /// ranks: contended words and locks, rates and bandwidths of all ranks, updates of a table,
    /// fences, rings, and the creation of windows.
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
    /// Measure a part in less than a minute: one round instead of 3, so that small differences mean
    /// little; 32 cells instead of 440 (two sizes, allocated and created windows, flush and fence);
    /// and 6 cases instead of 36. Cells that have not run within the time are marked as skipped.
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
    let mut bench = Bench::build(&hosts, ranks.unwrap_or(2), options.quick)?;
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
    if options.quick {
        let columns: usize = hosts.iter().map(|host| 1 + usize::from(host.library.is_some())).sum();
        bench.limit(QUICK, (1 + usize::from(!grid.is_empty())) * columns * options.transports.len());
    }
    let mut parts = Vec::new();
    for &transport in &options.transports {
        let part = measured(&bench, &hosts, transport, &cells, if options.quick { 1 } else { 3 })?;
        table::cells(&mut out, &part)?;
        parts.push(part);
        if !grid.is_empty() {
            let part = measured(&bench, &hosts, transport, &grid, 1)?;
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
    let wrong =
        columns.filter(|column| column.with).flat_map(|column| &column.answers).any(|one| *one == Answer::Wrong);
    Ok(any && !wrong && all_built)
}

/// Shows the current work on a terminal.
fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("{what:<78}\r");
    }
}

/// All columns of a plan; the rounds of the columns alternate.
fn measured(bench: &Bench, hosts: &[Host], transport: Transport, lines: &[Line], rounds: usize) -> Outcome<Part> {
    let mut columns: Vec<(Column, Vec<Vec<Answer>>)> = Vec::new();
    for host in hosts {
        columns.push((Column { host: host.name.clone(), with: false, answers: Vec::new() }, Vec::new()));
        if host.library.is_some() {
            columns.push((Column { host: host.name.clone(), with: true, answers: Vec::new() }, Vec::new()));
        }
    }
    for round in 0..rounds {
        let mut begun = 0;
        for (column, answers) in &mut columns {
            begun += usize::from(!column.with);
            let host = &hosts[begun - 1];
            progress(&format!(
                "{}, {} lines, round {} of {rounds}: {}",
                transport.name(),
                lines.len(),
                round + 1,
                column.name()
            ));
            let library = if column.with { host.library.as_deref() } else { None };
            let plan = Planned { host, program: begun - 1, library, transport, lines };
            answers.push(bench.run(&plan, answers.last())?);
        }
    }
    let columns =
        columns.into_iter().map(|(column, answers)| Column { answers: combined(lines, &answers), ..column }).collect();
    Ok(Part { transport, lines: lines.to_vec(), columns })
}

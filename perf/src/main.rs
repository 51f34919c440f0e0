//! `transom-perf`: measures windows between two ranks and among many, and in the same run the bare
//! operations of the machine.
//!
//! Tables have the form of the OSU benchmarks. Without a launcher the program starts itself as the
//! ranks of a job; under a launcher it is one rank. `two_ranks` has the tests between two ranks:
//! rank 0 is the origin, rank 1 the target, and further ranks wait. `ranks` has the tests in which
//! all ranks take part. `compare` runs a separate benchmark of plain MPI calls on each installed
//! MPI; `model` computes times.

mod accumulate;
mod chart;
mod compare;
mod floor;
mod grid;
mod iterations;
mod kinds;
mod measure;
mod model;
mod notified;
mod options;
mod outcome;
mod output;
mod passive;
mod pattern;
mod perftest;
mod picture;
mod ranks;
mod report;
mod requests;
mod rounds;
mod strided_put;
mod sweep;
mod synchronization;
mod two_ranks;

use std::error::Error;
use std::process::ExitCode;

use transom_launch as launch;

use kinds::Test;
use options::Options;
use outcome::Outcome;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == "compare") {
        return compare::main(arguments);
    }
    if arguments.peek().is_some_and(|first| first == "model") {
        return model::main(arguments);
    }
    let options: Options = match output::parsed("transom-perf", std::env::args_os()) {
        Ok(options) => options,
        Err(status) => return status,
    };
    if !transom::bootstrap::is_launched() {
        return if options.picture.counts.is_empty() { start_ranks(&options) } else { sweep::main(&options) };
    }
    match rank(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("transom-perf: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Starts this program again as the ranks of a job.
fn start_ranks(options: &Options) -> ExitCode {
    let outcome = std::env::current_exe().map_err(Into::into).and_then(|program| {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        let job = launch::Job::new(program, options.ranks).args(arguments);
        job.run().map_err(Box::<dyn Error>::from)
    });
    match outcome {
        Ok(outcome) => ExitCode::from(outcome.status()),
        Err(error) => {
            eprintln!("transom-perf: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The work of each rank; returns whether all data was right.
fn rank(options: &Options) -> Outcome<bool> {
    options.check()?;
    if !options.picture.counts.is_empty() {
        return Err("--ranks starts the ranks itself; leave out the launcher".into());
    }
    let world = transom::init()?;
    if world.size() < 2 {
        return Err(format!(
            "the test {} needs at least two ranks, an origin and a target, but the job has {}; start the job with more \
             ranks (-n 2)",
            options.test.name(),
            world.size()
        )
        .into());
    }
    let fine = match options.test {
        Test::Passive if options.grid => grid::run(&world, options)?,
        Test::Passive => passive::run(&world, options)?,
        test if test.is_of_all_ranks() => ranks::run(&world, options)?,
        _ => two_ranks::run(&world, options)?,
    };
    world.finalize()?;
    Ok(fine)
}

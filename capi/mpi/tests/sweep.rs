//! The sweeps: generated, numbered cases, which run under each MPI on this machine with the library
//! and without. The outcomes must be equal, or `programs/sweep-differences.txt` has a row with the
//! reason for the difference. `ci/sweep --help` explains how to run more cases, or single ones.
#![allow(clippy::print_stdout)]

use std::ops::RangeInclusive;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

#[path = "programs/cases.rs"]
mod cases;
#[path = "programs/differences.rs"]
mod differences;
#[path = "programs/hosts.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod hosts;
#[path = "programs/running.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod running;

use cases::Outcomes;
use differences::{Judge, Table};
use hosts::{Host, Language};
use running::Run;

/// One of the programs that generate cases.
struct Sweep {
    name: &'static str,
    /// The number of cases of the default form and of the full form.
    quick: usize,
    full: usize,
    /// Whether all cases are correct programs, so that every outcome other than `ok` needs a row.
    is_legal: bool,
    /// Which of the form's numbers of ranks the sweep uses.
    ranks: RangeInclusive<usize>,
}

const ANY: RangeInclusive<usize> = 1..=4;

static SWEEPS: [Sweep; 6] = [
    Sweep { name: "data", quick: 2700, full: 16_200, is_legal: true, ranks: ANY },
    Sweep { name: "objects", quick: 630, full: 630, is_legal: false, ranks: ANY },
    Sweep { name: "calls", quick: 600, full: 9000, is_legal: false, ranks: ANY },
    Sweep { name: "threads", quick: 40, full: 400, is_legal: true, ranks: ANY },
    Sweep { name: "large", quick: 42, full: 166, is_legal: true, ranks: 2..=2 },
    // Each case ends its job, so each needs a new one.
    Sweep { name: "fatal", quick: 8, full: 24, is_legal: false, ranks: 2..=2 },
];

/// The value of `TRANSOM_TEST_SWEEP`.
struct Form {
    name: &'static str,
    /// Every case, under every MPI, also with four ranks.
    is_full: bool,
    /// Whether the form is for the newer MPIs, those that Debian does not have.
    is_for_new: bool,
    ranks: &'static [usize],
    /// The settings for the library.
    env: &'static [(&'static str, &'static str)],
}

const QUICK: Form = Form { name: "quick", is_full: false, is_for_new: false, ranks: &[1, 2, 3], env: &[] };

static FORMS: [Form; 5] = [
    QUICK,
    Form { name: "new", is_for_new: true, ranks: &[1, 2], ..QUICK },
    Form { name: "full", is_full: true, ranks: &[1, 2, 3, 4], ..QUICK },
    Form { name: "tcp", ranks: &[2, 3], env: &[("TRANSOM_TRANSPORTS", "^shm")], ..QUICK },
    Form { name: "nodes", ranks: &[2, 4], env: &[("TRANSOM_TEST_NODES", "2")], ..QUICK },
];

/// Hosts are slow if ranks share cores, and the newer MPIs are many: then one case in this many
/// runs.
const CROWDED: usize = 7;

/// Time limit in seconds of a job without cases.
const LIMIT_OF_NOTHING: u32 = 120;

fn main() -> ExitCode {
    let form_name = std::env::var("TRANSOM_TEST_SWEEP").unwrap_or_else(|_| "quick".into());
    let Some(form) = FORMS.iter().find(|form| form.name == form_name) else {
        let names: Vec<_> = FORMS.iter().map(|form| form.name).collect();
        println!("TRANSOM_TEST_SWEEP={form_name}: the value must be one of {}", names.join(", "));
        return ExitCode::from(2);
    };
    let hosts = hosts::all().into_iter().filter(|host| form.is_full || host.is_old != form.is_for_new);
    let trials = hosts.flat_map(|host| trials(host, form)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(host: &'static Host, form: &'static Form) -> Vec<Trial> {
    if !host.is_here() {
        let name = format!("{}::{}::not_installed", form.name, host.name);
        return vec![Trial::test(name, || Ok(())).with_ignored_flag(true)];
    }
    let trial = |sweep: &'static Sweep| {
        Trial::test(format!("{}::{}::{}", form.name, host.name, sweep.name), move || {
            swept(host, sweep, form);
            Ok(())
        })
    };
    SWEEPS.iter().map(trial).collect()
}

/// Runs the cases of one sweep under one MPI, with and without the library, and checks them against
/// the table.
fn swept(host: &'static Host, sweep: &Sweep, form: &Form) {
    let program = host.program(&format!("sweep_{}", sweep.name), Language::C);
    let table = Table::read();
    let cases = cases::listed(&program, if form.is_full { sweep.full } else { sweep.quick });
    let mut judge = Judge::new(&table, host.name, sweep.is_legal);
    for &ranks in form.ranks.iter().filter(|ranks| sweep.ranks.contains(ranks)) {
        let is_sample = form.is_for_new || ranks > 2 && !form.is_full;
        let step = if is_sample { CROWDED } else { 1 };
        // Over sockets the MPI serves shared windows itself, so it crashes with the library as well
        // as without.
        let is_hosts = |case: &str| !form.env.is_empty() && case.contains(" shared");
        let crashes = |case: &str| is_hosts(case) && !judge.asks_host(case);
        let every = (0..cases.len()).step_by(step);
        let numbers: Vec<usize> = every.filter(|&number| !crashes(&cases[number])).collect();
        let run = || Run::of(host, program.clone(), ranks);
        let serve = || form.env.iter().fold(run().served(), |run, &(name, value)| run.with(name, value));
        joins(serve());
        let kept = numbers.iter().copied().filter(|&number| judge.asks_host(&cases[number])).collect::<Vec<_>>();
        let alone = Outcomes::of(run, &kept);
        let served = Outcomes::of(serve, &numbers);
        judge.compare(ranks, &cases, &numbers, (&alone, &served), is_hosts);
    }
    println!("{}", judge.summary());
    judge.conclude(sweep.name, form.name == QUICK.name);
}

/// Fails unless the library serves a job. Otherwise the sweep would compare the outcomes of the MPI
/// alone with themselves.
fn joins(run: Run) {
    let no_case = vec!["run".to_owned(), "1-0".to_owned()];
    let output = run.info().given(no_case, LIMIT_OF_NOTHING).output();
    let printed = running::printed(&output);
    assert!(output.status.success() && printed.contains("are served by transom"), "{}\n{printed}", output.status);
}

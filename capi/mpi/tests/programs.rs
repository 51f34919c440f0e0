//! MPI programs in C, C++ and Fortran, unchanged, with their windows served by `libtransom_mpi.so` and without it, under each MPI that is
//! here. Each program verifies itself and prints a line for each check. The library is built for each MPI by its own compiler.
//! What is not installed is ignored by name.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

#[path = "programs/hosts.rs"]
mod hosts;
#[path = "programs/running.rs"]
mod running;

use hosts::{Host, Language};
use running::{Run, refused, verified};

/// A program.
struct Program {
    /// Its file's name.
    name: &'static str,
    language: Language,
    /// Whether it runs over two nodes too.
    nodes: bool,
    alone: Alone,
}

/// Which hosts run a program by themselves, without failures of theirs.
#[derive(PartialEq, Eq)]
enum Alone {
    All,
    /// Not MPICH 4.0 and Open MPI 4.1.
    New,
    None,
}

const fn c(name: &'static str) -> Program {
    Program { name, language: Language::C, nodes: false, alone: Alone::All }
}

/// All but those that ask for something of their own.
static PROGRAMS: [Program; 14] = [
    Program { nodes: true, ..c("kinds") },
    Program { nodes: true, alone: Alone::New, ..c("operations") },
    Program { nodes: true, alone: Alone::New, ..c("memory") },
    c("types"),
    Program { nodes: true, alone: Alone::New, ..c("requests") },
    c("errors"),
    Program { alone: Alone::New, ..c("groups") },
    Program { nodes: true, alone: Alone::New, ..c("threads") },
    Program { nodes: true, ..c("progress") },
    Program { nodes: true, alone: Alone::None, ..c("passive") },
    c("large"),
    Program { language: Language::Cpp, ..c("objects") },
    Program { language: Language::Fortran, ..c("old") },
    Program { language: Language::Fortran, ..c("modern") },
];

fn main() -> ExitCode {
    let trials = hosts::all().into_iter().flat_map(trials).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A way to run each program.
type Way = (&'static str, fn(&'static Host, &Program));

/// Something asked of each host once.
type Named = (&'static str, fn(&'static Host));

const WAYS: [Way; 3] = [("served", served), ("alone", alone), ("two_nodes", two_nodes)];

const ONCE: [Named; 7] = [
    ("two_and_three_ranks", two_and_three_ranks),
    ("memory_of_fortran_is_mapped", memory_of_fortran),
    ("switched_off", switched_off),
    ("a_job_that_cannot_start", refused_start),
    ("a_failure_has_its_reason", failure),
    ("one_line_of_warning", warning),
    ("spawned_processes", spawned),
];

fn trials(host: &'static Host) -> Vec<Trial> {
    let name = host.name;
    if !host.is_here() {
        return vec![trial(format!("{name}::not_installed"), || ()).with_ignored_flag(true)];
    }
    let mut trials = Vec::new();
    for program in &PROGRAMS {
        if !host.compiles(program.language) {
            trials.push(trial(format!("{name}::{}::no_compiler", program.name), || ()).with_ignored_flag(true));
            continue;
        }
        for (way, run) in WAYS.iter().filter(|(way, _)| is_asked(host, program, way)) {
            trials.push(trial(format!("{name}::{}::{way}", program.name), || run(host, program)));
        }
    }
    let once = ONCE.iter().filter(|(what, _)| host.spawns || *what != "spawned_processes");
    trials.extend(once.map(|(what, run)| trial(format!("{name}::{what}"), || run(host))));
    trials
}

/// What a program does is the same without the library, where the host can do it.
fn is_asked(host: &Host, program: &Program, way: &str) -> bool {
    match way {
        "alone" if host.is_old => host.is_tried_alone && program.alone == Alone::All,
        "alone" => host.is_tried_alone && program.alone != Alone::None,
        "two_nodes" => program.nodes && host.is_old,
        _ => true,
    }
}

/// Shows W1, W4, W5, W6, W7, O1, O2, O3, O4, O5, O6, S1, S2, S3, S4, S5, E1.
/// Route: shm.
fn served(host: &'static Host, program: &Program) {
    verified(&Run::of(host, host.program(program.name, program.language), 4).served().told(), true);
}

/// Hosts poll: more ranks than cores would take long.
fn alone(host: &'static Host, program: &Program) {
    verified(&Run::of(host, host.program(program.name, program.language), 2), false);
}

/// Shows W1, O1, O2, S1, S2, S3, S5.
/// Route: mixed.
fn two_nodes(host: &'static Host, program: &Program) {
    let run = Run::of(host, host.program(program.name, program.language), 4).served().told();
    let said = verified(&run.with("TRANSOM_TEST_NODES", "2"), true);
    // Between nodes a target that waits in the host is served by the host's own looks, where it lets others look.
    assert_eq!(said.contains("looks after transom's traffic"), host.name.starts_with("open_mpi"), "{said}");
}

/// Shows W1, S1, S2, S3.
/// Route: shm.
fn two_and_three_ranks(host: &'static Host) {
    for ranks in [2, 3] {
        verified(&Run::of(host, host.program("kinds", Language::C), ranks).served(), false);
    }
}

/// Hosts' ways from Fortran to `MPI_Alloc_mem` lead to the library: the one window over such memory is mapped.
/// Shows T1.
/// Route: shm.
fn memory_of_fortran(host: &'static Host) {
    let programs = [("old", false), ("modern", true)].into_iter().filter(|_| host.compiles(Language::Fortran));
    for (name, only) in programs {
        let said = verified(&Run::of(host, host.program(name, Language::Fortran), 2).served().told(), true);
        let windows: Vec<_> = said.lines().filter(|line| line.contains("window Create of 2 ranks")).collect();
        let mapped = windows.iter().filter(|line| !line.contains("not all mapped")).count();
        assert_eq!((windows.len(), mapped), (if only { 1 } else { 2 }, 1), "{said}");
    }
}

fn switched_off(host: &'static Host) {
    let run = Run::of(host, host.program("kinds", Language::C), 2).served().told().with("TRANSOM_MPI", "off");
    verified(&run, false);
}

/// The host serves all windows, and one rank says why.
/// Shows E1.
/// Route: program.
fn refused_start(host: &'static Host) {
    let run = Run::of(host, host.program("kinds", Language::C), 2).served().told().with("TRANSOM_ATOMICS", "gpu");
    let said = verified(&run, false);
    assert_eq!(said.matches("windows are served by the MPI itself: TRANSOM_ATOMICS=gpu").count(), 1, "{said}");
}

/// Shows E1.
/// Route: shm.
fn failure(host: &'static Host) {
    let run = Run::of(host, host.program("fatal", Language::C), 2).served();
    refused(&run, "put: no access epoch is open");
}

/// Two nodes on one machine share memory by the host, but not by transom.
/// Shows T5.
/// Route: mixed.
fn warning(host: &'static Host) {
    let run = Run::of(host, host.program("groups", Language::C), 4).served().with("TRANSOM_TEST_NODES", "2");
    let said = verified(&run, false);
    let warnings = said.lines().filter(|line| line.contains("a window is served by the MPI itself")).count();
    assert_eq!(warnings, 1, "{said}");
}

/// Shows T5.
/// Route: shm.
fn spawned(host: &'static Host) {
    let said = verified(&Run::of(host, host.program("spawned", Language::C), 2).served().told(), true);
    assert!(said.contains("some of its ranks are not of MPI_COMM_WORLD"), "{said}");
}

fn trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

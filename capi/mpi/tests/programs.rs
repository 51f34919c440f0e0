//! MPI programs in C, C++ and Fortran, unchanged, with their windows served by `libtransom_mpi.so` and without it, under each MPI that is
//! here. Each program verifies itself and prints a line for each check. The library is built for each MPI by its own compiler.
//! What is not installed is ignored by name.
//!
//! Route: program.
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
    /// Whether MPICH 4.0 and Open MPI 4.1 run it by themselves, without failures of theirs.
    sound: bool,
}

const fn c(name: &'static str) -> Program {
    Program { name, language: Language::C, nodes: false, sound: true }
}

/// Shows W1, W4, W5, W6, W7, O1, O2, O3, O4, O5, O6, S1, S2, S3, S4, E1.
const PROGRAMS: [Program; 12] = [
    Program { nodes: true, ..c("kinds") },
    Program { nodes: true, sound: false, ..c("operations") },
    c("types"),
    Program { nodes: true, sound: false, ..c("requests") },
    c("errors"),
    Program { sound: false, ..c("groups") },
    Program { nodes: true, sound: false, ..c("threads") },
    Program { nodes: true, ..c("progress") },
    c("large"),
    Program { language: Language::Cpp, ..c("objects") },
    Program { language: Language::Fortran, ..c("old") },
    Program { language: Language::Fortran, ..c("modern") },
];

fn main() -> ExitCode {
    let trials = hosts::all().into_iter().flat_map(trials).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(host: &'static Host) -> Vec<Trial> {
    let name = host.name;
    if !host.is_here() {
        return vec![trial(format!("{name}::not_installed"), || ()).with_ignored_flag(true)];
    }
    let mut trials = Vec::new();
    for Program { name: program, language, nodes, sound } in PROGRAMS {
        if !host.compiles(language) {
            trials.push(trial(format!("{name}::{program}::no_compiler"), || ()).with_ignored_flag(true));
            continue;
        }
        let program_of = move || host.program(program, language);
        trials.push(trial(format!("{name}::{program}::served"), move || {
            verified(&Run::of(host, program_of(), 4).served().told(), true);
        }));
        // What a program does is the same without the library. Hosts poll, and more ranks than cores would take long.
        if host.is_tried_alone && (sound || !host.is_old) {
            trials.push(trial(format!("{name}::{program}::alone"), move || {
                verified(&Run::of(host, program_of(), 2), false);
            }));
        }
        if nodes && host.is_old {
            trials.push(trial(format!("{name}::{program}::two_nodes"), move || {
                verified(&Run::of(host, program_of(), 4).served().told().with("TRANSOM_TEST_NODES", "2"), true);
            }));
        }
    }
    trials.extend(others(host));
    trials
}

/// What is asked of a host once.
fn others(host: &'static Host) -> Vec<Trial> {
    let name = host.name;
    let mut trials = vec![
        trial(format!("{name}::two_and_three_ranks"), move || {
            for ranks in [2, 3] {
                verified(&Run::of(host, host.program("kinds", Language::C), ranks).served(), false);
            }
        }),
        trial(format!("{name}::off"), move || {
            let run = Run::of(host, host.program("kinds", Language::C), 2).served().told().with("TRANSOM_MPI", "off");
            verified(&run, false);
        }),
        trial(format!("{name}::a_failure_ends_the_program_with_its_reason"), move || {
            let run = Run::of(host, host.program("fatal", Language::C), 2).served();
            refused(&run, "put: no access epoch is open");
        }),
        trial(format!("{name}::a_window_of_the_hosts_gets_one_line_of_warning"), move || {
            // Two nodes on one machine share memory by the host, but not by transom.
            let run = Run::of(host, host.program("groups", Language::C), 4).served().with("TRANSOM_TEST_NODES", "2");
            let said = verified(&run, false);
            let warnings = said.lines().filter(|line| line.contains("a window is served by the MPI itself")).count();
            assert_eq!(warnings, 1, "{said}");
        }),
    ];
    if host.spawns {
        trials.push(trial(format!("{name}::spawned_processes"), move || {
            let said = verified(&Run::of(host, host.program("spawned", Language::C), 2).served().told(), true);
            assert!(said.contains("some of its ranks are not of MPI_COMM_WORLD"), "{said}");
        }));
    }
    trials
}

fn trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

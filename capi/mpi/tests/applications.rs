//! Libraries that are built on MPI's windows, as Debian and PyPI distribute them: ARMCI-MPI, the
//! communication layer of Global Arrays and NWChem; the star forests of PETSc with windows
//! (`-sf_type window`); and mpi4py. A program for each library runs on transom's windows over
//! shared memory, over sockets, and over two nodes, and compares the results with a model.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

#[path = "programs/hosts.rs"]
#[allow(dead_code, reason = "the other test programs use the rest")]
mod hosts;
#[path = "programs/running.rs"]
#[allow(dead_code, reason = "the other test programs use the rest")]
mod running;

use hosts::Host;
use running::{Run, verified};

/// A variable with its value, or nothing.
type Setting = Option<(&'static str, &'static str)>;

/// The routes: a name, and the setting that selects the route.
static ROUTES: [(&str, Setting); 3] =
    [("shm", None), ("tcp", Some(("TRANSOM_TRANSPORTS", "^shm"))), ("nodes", Some(("TRANSOM_TEST_NODES", "2")))];

/// The ways in which ARMCI-MPI transfers noncontiguous data.
static ARMCI_METHODS: [[(&str, &str); 2]; 4] = [
    [("ARMCI_STRIDED_METHOD", "DIRECT"), ("ARMCI_IOV_METHOD", "DIRECT")],
    [("ARMCI_STRIDED_METHOD", "IOV"), ("ARMCI_IOV_METHOD", "BATCHED")],
    [("ARMCI_STRIDED_METHOD", "IOV"), ("ARMCI_IOV_METHOD", "CONSRV")],
    [("ARMCI_USE_WIN_ALLOCATE", "0"), ("ARMCI_USE_ALLOC_SHM", "0")],
];

/// The synchronizations of PETSc's windows.
static PETSC_SYNCS: [&str; 3] = ["fence", "active", "lock"];

fn main() -> ExitCode {
    let trials = hosts::all().into_iter().flat_map(trials).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(host: &'static Host) -> Vec<Trial> {
    let mut trials = Vec::new();
    for route in &ROUTES {
        let mut add = |library: &str, is_here: bool, test: fn(&'static Host, &'static Setting)| {
            let is_missing = !is_here || !host.is_here();
            let state = if is_missing { "::not_installed" } else { "" };
            let name = format!("{library}::{}::{}{state}", host.name, route.0);
            let trial = Trial::test(name, move || {
                test(host, &route.1);
                Ok(())
            });
            trials.push(trial.with_ignored_flag(is_missing));
        };
        // Debian builds the libraries for its own MPIs, and mpi4py contains modules for two.
        if host.is_old {
            add("armci", armci_library(host).is_some(), armci);
        }
        if host.name == "open_mpi" {
            add("petsc", petsc_flags().is_some(), petsc);
        }
        if ["open_mpi", "mpich_5"].contains(&host.name) {
            add("mpi4py", has_mpi4py(), mpi4py);
        }
    }
    trials
}

fn by_route(run: Run, route: &'static Setting) -> Run {
    let run = run.served().info();
    match route {
        Some((name, value)) => run.with(name, *value),
        None => run,
    }
}

/// The library of ARMCI-MPI for a host.
fn armci_library(host: &Host) -> Option<String> {
    let name = format!("libarmci-{}.a", host.family());
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|path| path.starts_with('/'))
}

/// The flags of the compiler for PETSc, by pkg-config.
fn petsc_flags() -> Option<Vec<String>> {
    let output = Command::new("pkg-config").args(["--cflags", "--libs", "PETSc"]).output().ok()?;
    let flags = String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect();
    output.status.success().then_some(flags)
}

fn has_mpi4py() -> bool {
    Command::new("python3").args(["-c", "import mpi4py, numpy"]).output().is_ok_and(|it| it.status.success())
}

fn source(name: &str) -> String {
    Host::source(&format!("../applications/{name}"))
}

fn armci(host: &'static Host, route: &'static Setting) {
    let library = armci_library(host).expect("it is here");
    let program = host.built("armci", &[&source("armci.c"), &library]);
    for method in &ARMCI_METHODS {
        let run = by_route(Run::of(host, program.clone(), 4), route);
        verified(&method.iter().fold(run, |run, (name, value)| run.with(name, *value)), true);
    }
}

fn petsc(host: &'static Host, route: &'static Setting) {
    let (flags, source) = (petsc_flags().expect("it is here"), source("petsc.c"));
    let arguments: Vec<_> = std::iter::once(source.as_str()).chain(flags.iter().map(String::as_str)).collect();
    let program = host.built("petsc", &arguments);
    for sync in PETSC_SYNCS {
        let options = ["-sf_type", "window", "-sf_window_sync", sync].map(str::to_owned);
        verified(&by_route(Run::of(host, program.clone(), 4).given(options.into(), 300), route), true);
    }
}

fn mpi4py(host: &'static Host, route: &'static Setting) {
    let run = Run::of(host, "python3".into(), 3).given(vec![source("mpi4py_windows.py")], 300);
    let run = run.with("LD_LIBRARY_PATH", host.libraries()).with("MPI4PY_MPIABI", host.family());
    verified(&by_route(run, route), true);
}

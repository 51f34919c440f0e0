//! Builds the benchmark with each MPI's compiler, and starts its jobs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::Transport;
use super::hosts::Host;
use super::job::{Job, end_all};
use crate::outcome::Outcome;

/// The benchmark, which is built where it runs.
const SOURCES: [(&str, &str); 5] = [
    ("bench.h", include_str!("../../mpi/bench.h")),
    ("main.c", include_str!("../../mpi/main.c")),
    ("cells.c", include_str!("../../mpi/cells.c")),
    ("grid.c", include_str!("../../mpi/grid.c")),
    ("ranks.c", include_str!("../../mpi/ranks.c")),
];

/// When a signal ends this program, removes the folder, ends the jobs, and then lets the signal end
/// the program.
fn clean_on_signal(folder: PathBuf) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for signal in &mut signals {
            let _no_more_start = end_all();
            let _ = std::fs::remove_dir_all(&folder);
            // It fails only for unknown signals, which these are not.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// An MPI with its benchmark, with the library or without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'h> {
    pub(crate) host: &'h Host,
    /// The number of the MPI among those for which the benchmark was built.
    pub(crate) number: usize,
    /// The interposition library to preload.
    pub(crate) library: Option<&'h Path>,
}

/// The benchmark, built for each MPI, in a folder that is removed with this value.
pub(crate) struct Bench {
    folder: PathBuf,
    programs: Vec<PathBuf>,
    ranks: usize,
    /// The benchmark's arguments BUDGET_US LEAST_MS MOST_MS LIMIT_S.
    numbers: [&'static str; 4],
    /// The number of jobs so far.
    jobs: AtomicUsize,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // If the folder can't be removed, it remains among the temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    /// Builds the benchmark with the compiler of each MPI, for jobs of `ranks` ranks.
    pub(crate) fn build(hosts: &[Host], ranks: usize, quick: bool) -> Outcome<Bench> {
        let folder = std::env::temp_dir().join(format!("transom-compare-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        clean_on_signal(folder.clone())?;
        let numbers = if quick { ["2000", "30", "150", "4"] } else { ["6000", "300", "1000", "25"] };
        let mut bench = Bench { folder, programs: Vec::new(), ranks, numbers, jobs: AtomicUsize::new(0) };
        for (name, text) in SOURCES {
            std::fs::write(bench.folder.join(name), text)?;
        }
        for host in hosts {
            let program = bench.folder.join(format!("bench-{}", bench.programs.len()));
            let mut compiler = Command::new(&host.mpicc);
            compiler.args(["-O2", "-std=gnu99", "-o"]).arg(&program).args(["main.c", "cells.c", "grid.c", "ranks.c"]);
            let output = compiler.current_dir(&bench.folder).stdin(Stdio::null()).output();
            let output = output.map_err(|error| format!("{}: {error}", host.mpicc))?;
            if !output.status.success() {
                return Err(format!("{}: {}", host.mpicc, String::from_utf8_lossy(&output.stderr).trim()).into());
            }
            bench.programs.push(program);
        }
        Ok(bench)
    }

    /// Starts a job.
    pub(super) fn start(&self, program: Program<'_>, transport: Transport) -> Outcome<Job> {
        let Program { host, number, library } = program;
        // Relaxed: it only distinguishes the folders of jobs.
        let folder = self.folder.join(format!("job-{}", self.jobs.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new(&host.mpiexec);
        command.args(["-n", &self.ranks.to_string()]).envs(host.environment(transport, library.is_some()));
        if transport == Transport::Shm {
            command.env_remove("TRANSOM_TRANSPORTS");
        }
        // The program is started by env, so that the launcher itself runs without the library.
        if let Some(library) = library {
            command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
        }
        command.arg(&self.programs[number]).arg(&folder).args(self.numbers);
        Job::start(folder, self.ranks, &mut command)
    }

    /// A benchmark whose launchers are scripts.
    #[cfg(test)]
    pub(super) fn of_scripts(folder: PathBuf) -> Bench {
        Bench { folder, programs: vec!["bench".into()], ranks: 2, numbers: ["1"; 4], jobs: AtomicUsize::new(0) }
    }
}

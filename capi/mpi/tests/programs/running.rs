//! Runs a program under an MPI's launcher with a time limit, and checks its output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::hosts::Host;

/// Time limit of a program in seconds, sufficient on a busy machine.
const LIMIT: u32 = 300;

/// A run of a program.
pub(crate) struct Run {
    host: &'static Host,
    program: PathBuf,
    arguments: Vec<String>,
    ranks: usize,
    limit: u32,
    env: Vec<(&'static str, OsString)>,
}

impl Run {
    /// A run with `ranks` ranks, without the library.
    pub(crate) fn of(host: &'static Host, program: PathBuf, ranks: usize) -> Run {
        Run { host, program, arguments: Vec::new(), ranks, limit: LIMIT, env: Vec::new() }
    }

    /// The same run with the library.
    pub(crate) fn served(self) -> Run {
        let library = self.host.library();
        self.with("LD_PRELOAD", library)
    }

    /// The same run with the library and its log.
    pub(crate) fn info(self) -> Run {
        self.with("TRANSOM_INFO", "1")
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Run {
        self.env.push((name, value.into()));
        self
    }

    /// The same run with arguments for the program and a time limit in seconds.
    #[allow(dead_code, reason = "each test program uses its part of this module")]
    pub(crate) fn given(mut self, arguments: Vec<String>, limit: u32) -> Run {
        self.arguments = arguments;
        self.limit = limit;
        self
    }

    pub(crate) fn output(&self) -> Output {
        let mut command = Command::new("timeout");
        // The programs' watchdogs know the limit by `TEST_LIMIT`.
        command.args(["--verbose", "--kill-after=5", &self.limit.to_string()]).arg("env");
        // The library is preloaded for the launcher and all its processes, as users do, but not for
        // `timeout`.
        let variables = self.env.iter().map(|(name, value)| {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(value);
            variable
        });
        command.args(variables);
        command.args(self.host.launcher()).args(["-n", &self.ranks.to_string()]).arg(&self.program);
        command.args(&self.arguments);
        command.envs(self.host.env.iter().copied()).env("TEST_LIMIT", self.limit.to_string()).stdin(Stdio::null());
        command.output().expect("coreutils' timeout starts")
    }
}

/// Fails unless all checks of the program hold; returns its output. `reports`: whether the library
/// must report that it serves windows.
pub(crate) fn verified(run: &Run, reports: bool) -> String {
    let output = run.output();
    let printed = printed(&output);
    assert!(output.status.success(), "{}\n{printed}", output.status);
    assert!(printed.lines().any(|line| line.starts_with("ok ")), "no check was made\n{printed}");
    assert!(!printed.contains("not ok "), "{printed}");
    assert_eq!(printed.contains("are served by transom"), reports, "{printed}");
    printed
}

/// Fails unless the program fails with an output that contains `words`; returns the output.
pub(crate) fn refused(run: &Run, words: &str) -> String {
    let mut output = run.output();
    // The launcher of MPICH 5.0.2 sometimes hangs after MPI_Abort has ended the ranks, also without
    // the library.
    for _ in 0..2 {
        if output.status.code() == Some(124) && printed(&output).contains("Abort(") {
            output = run.output();
        }
    }
    let printed = printed(&output);
    assert!(!output.status.success() && output.status.code() != Some(124), "{}\n{printed}", output.status);
    assert!(!printed.contains("watchdog: rank "), "it hung:\n{printed}");
    assert!(printed.contains(words) && !printed.contains("not ok "), "{printed}");
    printed
}

/// Runs a command that must succeed.
pub(crate) fn done(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, printed(&output));
}

pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

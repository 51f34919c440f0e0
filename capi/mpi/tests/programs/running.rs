//! Runs a program under an MPI's launcher, with a limit, and judges what it printed.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::hosts::Host;

/// How long a program may take, in seconds: longer than any needs on a busy machine.
const LIMIT: &str = "100";

/// A run of a program.
pub(crate) struct Run {
    host: &'static Host,
    program: PathBuf,
    ranks: usize,
    env: Vec<(&'static str, String)>,
}

impl Run {
    /// A run with so many ranks, without the library.
    pub(crate) fn of(host: &'static Host, program: PathBuf, ranks: usize) -> Run {
        Run { host, program, ranks, env: Vec::new() }
    }

    /// With the library.
    pub(crate) fn served(self) -> Run {
        let library = self.host.library().to_string_lossy().into_owned();
        self.with("LD_PRELOAD", library)
    }

    /// With the library saying what it does.
    pub(crate) fn told(self) -> Run {
        self.with("TRANSOM_INFO", "1")
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Run {
        self.env.push((name, value.into()));
        self
    }

    fn output(&self) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--verbose", "--kill-after=5", LIMIT]).arg("env");
        // For the launcher and all that it starts, as users do it; not for what holds the limit.
        command.args(self.env.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(self.host.launcher()).args(["-n", &self.ranks.to_string()]).arg(&self.program);
        command.envs(self.host.env.iter().copied()).stdin(Stdio::null());
        command.output().expect("coreutils' timeout starts")
    }
}

/// The program's checks all hold; what it said. `tells`: the library says that it serves windows, or, where it is not there or off, does
/// not.
pub(crate) fn verified(run: &Run, tells: bool) -> String {
    let output = run.output();
    let said = said(&output);
    assert!(output.status.success(), "{}\n{said}", output.status);
    assert!(said.lines().any(|line| line.starts_with("ok ")), "no check was made\n{said}");
    assert!(!said.contains("not ok "), "{said}");
    assert_eq!(said.contains("are served by transom"), tells, "{said}");
    said
}

/// The program ends in failure, with these words.
pub(crate) fn refused(run: &Run, words: &str) {
    let output = run.output();
    let said = said(&output);
    assert!(!output.status.success() && output.status.code() != Some(124), "{}\n{said}", output.status);
    assert!(said.contains(words) && !said.contains("not ok "), "{said}");
}

/// Runs a command that is to succeed.
pub(crate) fn done(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

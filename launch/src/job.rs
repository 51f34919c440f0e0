//! A job to be started: its program, ranks, machines and limits.

use std::ffi::OsString;
use std::time::Duration;

use crate::hosts::Host;

/// How ranks are bound to CPUs, among those that the launcher itself may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bind {
    /// Each rank on a CPU of its own where there is one for every rank; unbound otherwise. CPUs to
    /// which another launcher of this machine has bound ranks are not used.
    #[default]
    Auto,
    /// Rank `i` on CPU `i` modulo the number of CPUs.
    Core,
    /// On any CPU that the system chooses.
    None,
}

/// A job to be started: a program, and its number of ranks.
///
/// The environment of each rank has `PMI_FD` (on another machine `PMI_PORT`, `PMI_ID` and a
/// secret), `PMI_RANK`, `PMI_SIZE` and `TRANSOM_LAUNCHER=transom-run`, and
/// `TRANSOM_STDERR_IS_TERMINAL=1` where this process's standard error is a terminal. Rank 0 reads
/// this process's standard input; the other ranks have none.
#[derive(Debug, Clone)]
pub struct Job {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) size: usize,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) tag_output: bool,
    pub(crate) bind: Bind,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    /// Other machines of the job, the agent that reaches them, and the launcher to start there.
    pub(crate) hosts: Vec<Host>,
    pub(crate) agent: OsString,
    pub(crate) launcher: OsString,
    /// In the part of a job that a launcher on another machine controls: the address of that
    /// launcher, and the secret.
    pub(crate) rendezvous: Option<(String, String)>,
}

impl Job {
    /// A job of `size` ranks of `program`, which is a path, or a name to look up in `PATH`.
    pub fn new(program: impl Into<OsString>, size: usize) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            size,
            env: Vec::new(),
            tag_output: false,
            bind: Bind::Auto,
            timeout: None,
            grace: Duration::ZERO,
            hosts: Vec::new(),
            agent: OsString::new(),
            launcher: OsString::new(),
            rendezvous: None,
        }
    }

    /// Distributes the ranks over the machines `hosts`, filling one machine after the other. The
    /// command that starts a program on a machine consists of the words of `agent`, in which
    /// `{host}` stands for the machine's name; without `{host}` the name follows the words (as with
    /// `ssh`). The agent starts `launcher` with the option [`REMOTE`](crate::REMOTE):
    /// `transom-run`, or a program that then calls [`serve_remote`](crate::serve_remote). Ranks
    /// start in this process's working directory, with its variables `TRANSOM_...` and `FI_...` and
    /// those of [`Job::env`]; the agent determines the rest of their environment. The ranks have no
    /// standard input, and reach this process by `PMI_PORT` and `PMI_ID` at one of its addresses,
    /// with a secret that their launchers get through the agent.
    #[must_use]
    pub fn on(mut self, hosts: Vec<Host>, agent: impl Into<OsString>, launcher: impl Into<OsString>) -> Self {
        self.hosts = hosts;
        self.agent = agent.into();
        self.launcher = launcher.into();
        self
    }

    /// Adds arguments for the program.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the environment of all ranks. The variables that the launcher sets (see
    /// [`Job`]) cannot be changed.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Whether `[rank] ` precedes each line of the ranks' output; off by default.
    #[must_use]
    pub fn tag_output(mut self, tag: bool) -> Self {
        self.tag_output = tag;
        self
    }

    /// How ranks are bound; [`Bind::Auto`] by default.
    #[must_use]
    pub fn bind(mut self, bind: Bind) -> Self {
        self.bind = bind;
        self
    }

    /// Ends the job after this time; by default a job may run forever.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The time for the other ranks to end by themselves after a rank has failed; by default they
    /// are ended at once.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

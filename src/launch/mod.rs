//! Starts the ranks of a job, on this machine or on several, and sees it to its end: the builder [`Job`] and what became of it. The
//! program `transom-run` is a command line over this; programs that start their own ranks use it directly. It knows
//! nothing of windows or transports.

mod bind;
#[allow(unsafe_code)]
mod guard;
mod hosts;
mod machines;
mod output;
mod ranks;
mod remote;
mod server;
mod signals;
mod stdin;
mod supervise;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use hosts::{Host, REMOTE};
pub use remote::serve as serve_remote;

/// Whether ranks are bound to CPUs, out of those that the launcher itself may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bind {
    /// Rank `i` on CPU `i` where there is a CPU for every rank; unbound otherwise.
    #[default]
    Auto,
    /// Rank `i` on CPU `i` modulo the number of CPUs.
    Core,
    /// Wherever the system puts them.
    None,
}

/// A job to be started: a program, and how many ranks of it.
///
/// Each rank gets `PMI_FD` (on another machine `PMI_PORT`, `PMI_ID` and a secret), `PMI_RANK`, `PMI_SIZE` and
/// `TRANSOM_LAUNCHER=transom-run` in its environment, and
/// `TRANSOM_STDERR_IS_TERMINAL=1` where this process's standard error is a terminal. Rank 0 reads this process's standard
/// input; the others read nothing.
#[derive(Debug, Clone)]
pub struct Job {
    program: OsString,
    args: Vec<OsString>,
    size: usize,
    env: Vec<(OsString, OsString)>,
    tag_output: bool,
    bind: Bind,
    timeout: Option<Duration>,
    grace: Duration,
    /// The machines, where they are others; how they are reached, and what is started there.
    hosts: Vec<Host>,
    agent: String,
    launcher: OsString,
    /// Of the part of a job that this machine starts for another: where its launcher is, and what strangers do not know.
    meeting: Option<(String, String)>,
}

impl Job {
    /// A job of `size` ranks of `program`, which is a path, or a name to be found in `PATH`.
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
            agent: String::new(),
            launcher: OsString::new(),
            meeting: None,
        }
    }

    /// Puts the ranks onto `hosts`, filling each in turn. Each is reached by the words of `agent`, `{host}` in them standing for its
    /// name, else with the name after them (`ssh`); what they start there is `launcher` with the option [`REMOTE`]: `transom-run`, or a
    /// program that calls [`serve_remote`] then. Ranks start in this process's folder, with its variables `TRANSOM_...` and `FI_...`
    /// and those of [`Job::env`]; what else they have is up to the agent, and none of them has an input. They find
    /// this process by `PMI_PORT` and `PMI_ID` at one of its addresses, with a secret that their launchers got through the agent.
    #[must_use]
    pub fn on(mut self, hosts: Vec<Host>, agent: impl Into<String>, launcher: impl Into<OsString>) -> Self {
        self.hosts = hosts;
        self.agent = agent.into();
        self.launcher = launcher.into();
        self
    }

    /// Adds arguments of the program.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the environment of all ranks. The launcher's own (see [`Job`]) cannot be changed.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Whether `[rank] ` stands before each line of the ranks' output; off by default.
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

    /// Ends the job after this time; without it, a job may run forever.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// How long the others have to end by themselves once a rank has failed; they are told to end at once by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts the ranks, serves and watches them, and returns when no process of the job is left. Output goes to this
    /// process's standard output and error, and so do messages about a failure, so what else writes there should be
    /// flushed before.
    ///
    /// Of a job [`on`](Job::on) several machines the same holds; one that does not answer for 6 s is lost.
    ///
    /// While it runs, SIGINT, SIGTERM and SIGHUP of this process end the job instead of the process (they do nothing
    /// afterwards), and orphaned descendants become children of this process. Descendants that leave the ranks' process
    /// group or session are beyond its reach.
    ///
    /// # Errors
    /// A job that could not be started; what happens after the start is in the [`Outcome`].
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        if self.size == 0 {
            return Err(LaunchError::NoRanks);
        }
        supervise::run(self)
    }
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All ranks exited with status 0.
    Success,
    /// A rank failed; the first one that was seen to, or between machines one that was killed before. The others were ended.
    RankFailed {
        /// The rank.
        rank: usize,
        /// Its process number.
        pid: i32,
        /// What became of it.
        failure: Failure,
    },
    /// A machine's part of the job ended before its ranks.
    HostLost {
        /// The machine.
        host: String,
        /// The status that says why: of what reaches the machine, or of what could not be started there.
        status: u8,
    },
    /// A signal asked the launcher to end the job.
    Signalled(i32),
    /// The time given by [`Job::timeout`] was over.
    TimedOut,
    /// The reader of the launcher's standard output went away.
    OutputClosed,
}

impl Outcome {
    /// The exit status that says the same: 0; the status of the failed rank; 128 and the number of the signal that ended
    /// it or the launcher; 124 for a timeout; 141 (SIGPIPE) for a closed output.
    #[must_use]
    pub fn status(&self) -> u8 {
        let after_signal = |signal: i32| u8::try_from(128 + signal).unwrap_or(255);
        match self {
            Self::Success => 0,
            Self::RankFailed { failure, .. } => match failure {
                Failure::Exit(code) | Failure::Abort { code, .. } => status_of(*code),
                Failure::Signal { signal, .. } => after_signal(*signal),
                Failure::NotFinalized | Failure::LeftBarrier { .. } | Failure::NotPmi => 1,
            },
            Self::HostLost { status, .. } => (*status).max(1),
            Self::Signalled(signal) => after_signal(*signal),
            Self::TimedOut => 124,
            Self::OutputClosed => after_signal(signal_hook::consts::SIGPIPE),
        }
    }
}

/// A failure has a status other than 0, whatever a program gave.
fn status_of(code: i32) -> u8 {
    u8::try_from(code & 0xff).unwrap_or(1).max(1)
}

/// What became of a rank that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It exited with this status, which is not 0.
    Exit(i32),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether there is a core dump.
        core: bool,
    },
    /// It asked for the end of the job.
    Abort {
        /// The status that it asked for.
        code: i32,
        /// The reason that it gave; may be empty.
        why: String,
    },
    /// It joined the job, and exited with status 0 without leaving it.
    NotFinalized,
    /// It ended or left the job in good order while another rank waits for it in a barrier.
    LeftBarrier {
        /// One that waits.
        waiting: usize,
    },
    /// It wrote something endless to its PMI socket.
    NotPmi,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exited with status {code}"),
            Self::Signal { signal, core } => {
                let dump = if *core { ", core dumped" } else { "" };
                write!(f, "was killed by signal {signal} ({}{dump})", signals::name(*signal))
            }
            Self::Abort { code, why } if why.is_empty() => {
                write!(f, "aborted the job with status {code}")
            }
            Self::Abort { code, why } => write!(f, "aborted the job with status {code}: {why}"),
            Self::NotFinalized => write!(f, "exited with status 0 after joining the job, without finalizing"),
            Self::LeftBarrier { waiting } => {
                write!(f, "left the job while rank {waiting} waits for it in a barrier")
            }
            Self::NotPmi => write!(f, "wrote something other than PMI-1 to its socket"),
        }
    }
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A job of 0 ranks was asked for.
    #[error("a job has at least 1 rank, and 0 were asked for")]
    NoRanks,
    /// More ranks than this process may hold descriptors for.
    #[error("{size} ranks need {needed} descriptors in the launcher, and the hard limit is {limit} (ulimit -Hn)")]
    TooManyRanks {
        /// The number of ranks.
        size: usize,
        /// The descriptors that they need.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The program cannot be executed.
    #[error("cannot start {}: {source}", program.display())]
    Program {
        /// The program as it was given.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The machines have no room for all ranks.
    #[error("{size} ranks on machines with room for {room}; --host a:2,b:2 gives each of them two")]
    NoRoom {
        /// The number of ranks.
        size: usize,
        /// The sum of the machines' slots.
        room: usize,
    },
    /// What is to reach a machine cannot be executed.
    #[error("cannot start the agent {agent:?}: {source}")]
    Agent {
        /// The agent as it was given.
        agent: String,
        /// The system's error.
        source: io::Error,
    },
    /// On another machine: the folder of the job is not there.
    #[error("cannot go to the folder of the job, {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// On another machine: the launcher can't be reached.
    #[error("the launcher can't be reached from here: {tried}")]
    Unmet {
        /// Each of its addresses, and what the system said.
        tried: String,
    },
    /// The CPUs to bind to are unknown.
    #[error("ranks were to be bound, but the system does not tell which CPUs may be used")]
    NoCpus,
    /// A system call of the launcher failed.
    #[error("the launcher failed ({doing}): {source}")]
    Io {
        /// What it was about.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit status that says the same, as shells have it: 127 for a program that is not there, 126 for one that
    /// cannot be executed, 1 otherwise.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Program { source, .. } | Self::Agent { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                127
            }
            Self::Program { .. } | Self::Agent { .. } => 126,
            _ => 1,
        }
    }
}

/// For `map_err`: a failed system call that was about `doing`.
fn io_error<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |source| LaunchError::Io { doing, source: source.into() }
}

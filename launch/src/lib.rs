//! Starts the ranks of a job, on one or several machines, and watches the job until its end: the
//! builder [`Job`] and the [`Outcome`]. The program `transom-run` is a command line for this
//! library; programs that start their own ranks use it directly. Independent of windows and
//! transports.

mod bind;
#[cfg(feature = "cli")]
pub mod command_line;
mod door;
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
    program: OsString,
    args: Vec<OsString>,
    size: usize,
    env: Vec<(OsString, OsString)>,
    tag_output: bool,
    bind: Bind,
    timeout: Option<Duration>,
    grace: Duration,
    /// Other machines of the job, the agent that reaches them, and the launcher to start there.
    hosts: Vec<Host>,
    agent: OsString,
    launcher: OsString,
    /// In the part of a job that runs for another machine's launcher: that launcher's address, and
    /// the secret.
    meeting: Option<(String, String)>,
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
            meeting: None,
        }
    }

    /// Places the ranks on `hosts`, filling each in turn. A host is reached by the words of
    /// `agent`, in which `{host}` stands for the host's name; without `{host}` the name follows the
    /// words (`ssh`). The agent starts `launcher` with the option [`REMOTE`]: `transom-run`, or a
    /// program that then calls [`serve_remote`]. Ranks start in this process's working directory,
    /// with its variables `TRANSOM_...` and `FI_...` and those of [`Job::env`]; the agent
    /// determines the rest of their environment. They have no standard input. They reach this
    /// process by `PMI_PORT` and `PMI_ID` at one of its addresses, with a secret that their
    /// launchers got through the agent.
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

    /// How long the other ranks may take to end by themselves after a rank has failed; by default
    /// they are ended at once.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts the ranks, serves and watches them, and returns when no process of the job is left.
    /// Output and messages about failures go to this process's standard output and error, so the
    /// caller should flush its own buffers before.
    ///
    /// A machine of a job [`on`](Job::on) several machines that does not answer for 6 s counts as
    /// lost.
    ///
    /// During the run, SIGINT, SIGTERM and SIGHUP to this process end the job instead of the
    /// process (they have no effect afterwards), and orphaned descendants become children of this
    /// process. Descendants that leave the ranks' process group or session are out of its control.
    ///
    /// # Errors
    /// The job could not be started; later failures are in the [`Outcome`].
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        if self.size == 0 {
            return Err(LaunchError::NoRanks);
        }
        supervise::run(self)
    }
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All ranks exited with status 0.
    Success,
    /// A rank failed: the first in the order of detection, or between machines a rank that was
    /// killed before. The others were ended.
    RankFailed {
        /// The rank.
        rank: usize,
        /// Its process number.
        pid: i32,
        /// The rank's failure.
        failure: Failure,
    },
    /// A machine's part of the job ended before its ranks.
    HostLost {
        /// The machine.
        host: String,
        /// The status that gives the reason: that of the agent, or of the launcher there that could
        /// not start its ranks.
        status: u8,
    },
    /// A signal asked the launcher to end the job.
    Signalled(i32),
    /// The time limit of [`Job::timeout`] has passed.
    TimedOut,
    /// The reader of the launcher's standard output closed it.
    OutputClosed,
    /// The launcher's standard output can't be written, with the reason, such as a full disk.
    OutputFailed(String),
}

impl Outcome {
    /// The corresponding exit status: 0; the status of the failed rank; 128 and the number of the
    /// signal that ended it or the launcher; 124 for a timeout; 141 (SIGPIPE) for a closed output,
    /// 1 for an output that fails.
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
            Self::OutputFailed(_) => 1,
            Self::OutputClosed => after_signal(signal_hook::consts::SIGPIPE),
        }
    }
}

/// A failure has a status other than 0, for any code of the program.
fn status_of(code: i32) -> u8 {
    u8::try_from(code & 0xff).unwrap_or(1).max(1)
}

/// The failure of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The rank exited with this status, which is not 0.
    Exit(i32),
    /// A signal ended the rank.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether there is a core dump.
        core: bool,
    },
    /// The rank asked for the end of the job.
    Abort {
        /// The requested status.
        code: i32,
        /// The reason; may be empty.
        why: String,
    },
    /// The rank joined the job, and exited with status 0 without leaving it.
    NotFinalized,
    /// The rank ended or left the job in good order while another rank waits for it in a barrier.
    LeftBarrier {
        /// A waiting rank.
        waiting: usize,
    },
    /// The rank sent a line without end to its PMI socket.
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

/// The reason why a job could not be started.
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
    #[error("cannot start {}", program.display())]
    Program {
        /// The program, as given.
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
    /// The agent of a machine cannot be executed.
    #[error("cannot start the agent {agent:?}")]
    Agent {
        /// The agent, as given.
        agent: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// On another machine: the job's working directory does not exist.
    #[error("cannot go to the folder of the job, {}", folder.display())]
    Folder {
        /// The directory.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// On another machine: the launcher can't be reached.
    #[error("the launcher can't be reached from here: {tried}")]
    Unmet {
        /// Each address with the system's error.
        tried: String,
    },
    /// The CPUs for binding are unknown.
    #[error("ranks were to be bound, but the system does not tell which CPUs may be used")]
    NoCpus,
    /// A system call of the launcher failed.
    #[error("the launcher failed ({doing})")]
    Io {
        /// The action.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl LaunchError {
    /// The corresponding exit status by the shells' convention: 127 for a program that does not
    /// exist, 126 for one that cannot be executed, 1 otherwise.
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

/// For `map_err`: a failed system call during `doing`.
fn io_error<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |source| LaunchError::Io { doing, source: source.into() }
}

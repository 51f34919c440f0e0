//! The end of a job, and the reasons why a job could not be started.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::signals;

/// The wait status for a process that other code of this program has reaped: exit status 1, because
/// the process may have failed.
pub(super) const UNKNOWN: i32 = 1 << 8;

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All ranks exited with status 0.
    Success,
    /// A rank failed: the first rank whose failure was detected, or, on several machines, a rank
    /// whose death by a signal was reported later. The other ranks were ended.
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
    /// The time limit of [`Job::timeout`](crate::Job::timeout) has passed.
    TimedOut,
    /// The reader of the launcher's standard output closed it.
    OutputClosed,
    /// The launcher's standard output can't be written, with the reason, such as a full disk.
    OutputFailed(String),
}

impl Outcome {
    /// The corresponding exit status: 0; the status of the failed rank, or 1 if it exited with 0;
    /// the status of a lost machine's agent; 128 and the number of the signal that ended the rank
    /// or the launcher; 124 for a timeout; 141 (SIGPIPE) for a closed output, 1 for an output that
    /// fails.
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
    /// The rank sent an endless line to its PMI socket.
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
            Self::NotPmi => write!(
                f,
                "sent an endless line to the launcher, which is no PMI-1: does the program write to the descriptor of \
                 PMI_FD?"
            ),
        }
    }
}

/// The reason why a job could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A job of 0 ranks was asked for.
    #[error("a job has at least 1 rank, not 0")]
    NoRanks,
    /// More ranks than this process may hold descriptors for.
    #[error("{size} ranks need {needed} file descriptors in the launcher, and its hard limit is {limit} (ulimit -Hn)")]
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
    #[error(
        "the job has {size} ranks, but its machines have room for {room}; --host a:2,b:2 puts two ranks on each of the \
         machines a and b"
    )]
    NoRoom {
        /// The number of ranks.
        size: usize,
        /// The sum of the machines' slots.
        room: usize,
    },
    /// The agent of a machine cannot be executed.
    #[error("cannot start the launch agent {agent:?}")]
    Agent {
        /// The agent, as given.
        agent: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// On another machine: the job's working directory does not exist.
    #[error("cannot change to the working directory of the job, {}", folder.display())]
    Folder {
        /// The directory.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// On another machine: the launcher can't be reached.
    #[error("the launcher can't be reached from this machine: {tried}")]
    Unmet {
        /// Each address with the system's error.
        tried: String,
    },
    /// The CPUs for binding are unknown.
    #[error("--bind core: the system does not report the CPUs that this process may use; leave the option out")]
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
pub(crate) fn io_error<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |source| LaunchError::Io { doing, source: source.into() }
}

//! Errors of a rank that joins its job. Independent of the implementations.

use std::io;

/// An error of libpmix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PmixError {
    status: Option<i32>,
    text: String,
}

impl PmixError {
    /// The number that libpmix returned; `None` where the library is missing, or its answer has
    /// another type.
    pub fn status(&self) -> Option<i32> {
        self.status
    }
}

impl From<transom_pmix::Error> for PmixError {
    fn from(error: transom_pmix::Error) -> PmixError {
        let status = match &error {
            transom_pmix::Error::Failed { status, .. } => Some(*status),
            _ => None,
        };
        PmixError { status, text: error.to_string() }
    }
}

/// Why a rank could not find or talk to its job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The environment is that of a launcher whose protocol this version does not speak.
    #[error(
        "this process was started by {launcher} ({evidence}), which gave it no connection to the other ranks: neither PMI_FD of PMI-1 \
         nor PMIX_NAMESPACE of PMIx; {advice}"
    )]
    UnsupportedLauncher {
        /// The launcher, as identified by the environment.
        launcher: &'static str,
        /// The variables that identify it, with their values.
        evidence: String,
        /// Advice to the user.
        advice: &'static str,
    },
    /// A request to a launcher that speaks PMIx failed.
    #[error("a request to the PMIx launcher that started this process ({evidence}) failed")]
    Pmix {
        /// The variables that identify it, with their values.
        evidence: String,
        /// libpmix's error.
        source: PmixError,
    },
    /// Two sources contradict each other on the number of ranks.
    #[error(
        "{first}, but {second}: were the variables of one launcher passed on to processes of another launcher? {advice}"
    )]
    Contradiction {
        /// The statement of the first source.
        first: String,
        /// The statement of the second source.
        second: String,
        /// Advice to the user.
        advice: &'static str,
    },
    /// A launcher's variable is missing or invalid.
    #[error("the launcher's variable {variable} is {found}: {why}")]
    Environment {
        /// The variable's name.
        variable: &'static str,
        /// Its value in quotes, or `not set`.
        found: String,
        /// The problem with the value.
        why: String,
    },
    /// The descriptor in `PMI_FD` cannot be used.
    #[error("PMI_FD={fd} cannot be used: {why}")]
    Descriptor {
        /// The number in `PMI_FD`.
        fd: i32,
        /// The problem with the descriptor.
        why: String,
    },
    /// The launcher can't be reached at `PMI_PORT`.
    #[error("the launcher can't be reached at PMI_PORT={port}")]
    Unreachable {
        /// The value of `PMI_PORT`.
        port: String,
        /// The system's error.
        source: io::Error,
    },
    /// The launcher sent no answer within the time limit.
    #[error(
        "the launcher did not answer within {seconds} s ({during}); does it speak PMI-1, as transom-run, the mpiexec of \
         MPICH (Hydra) and srun --mpi=pmi2 do?"
    )]
    NoAnswer {
        /// How long this rank waited, in seconds.
        seconds: u64,
        /// The command that was not answered.
        during: &'static str,
    },
    /// The launcher closed the connection.
    #[error("the launcher closed the connection during {during}; it has ended, or is ending this job")]
    Closed {
        /// The command that was not answered.
        during: &'static str,
    },
    /// A rank has ended while others wait for it.
    #[error("rank {rank} has ended, so that no barrier of the job can complete ({during})")]
    RankEnded {
        /// The command that can't be answered.
        during: &'static str,
        /// The rank.
        rank: usize,
    },
    /// A system call on the connection failed.
    #[error("communication with the launcher failed ({during})")]
    Io {
        /// The command that failed.
        during: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The launcher's answer violates PMI-1.
    #[error("the launcher answered {during} with {answer:?}: {why}")]
    Protocol {
        /// The command that was sent.
        during: &'static str,
        /// The received line.
        answer: String,
        /// The problem with the answer.
        why: String,
    },
    /// A key that not every implementation accepts.
    #[error("the key {key:?} cannot be used: {why}")]
    BadKey {
        /// The key.
        key: String,
        /// The problem with the key.
        why: String,
    },
    /// A key that was put before.
    #[error("the key {key:?} was put before; a key is written once in the life of a job")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value beyond the limit.
    #[error("the value of {key:?} has {length} bytes, the limit is {limit}")]
    TooLong {
        /// The key, or the name of the allgather.
        key: String,
        /// The value's length, in bytes.
        length: usize,
        /// The greatest length, in bytes.
        limit: usize,
    },
    /// A rank took part in an allgather's barrier without a value.
    #[error("rank {rank} put nothing under {key:?} before the barrier; do all ranks gather under the same names?")]
    Missing {
        /// The rank whose value is missing.
        rank: usize,
        /// The key that has no value.
        key: String,
    },
    /// A value that this library did not put.
    #[error("the value under {key:?} is malformed: {why}")]
    Malformed {
        /// The key.
        key: String,
        /// The problem with the value.
        why: String,
    },
    /// A call of the program's own bootstrap ([`Job::with_bootstrap`](crate::Job::with_bootstrap))
    /// failed.
    #[error("the bootstrap of the program failed during {during}: {why}")]
    Host {
        /// The call.
        during: &'static str,
        /// The reason.
        why: String,
    },
    /// A call after `finalize`.
    #[error("{during} can't be called, because this rank has left the job (finalize or abort)")]
    Finalized {
        /// The call.
        during: &'static str,
    },
}

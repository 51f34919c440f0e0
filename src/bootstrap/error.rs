//! What can go wrong while a rank finds its job, in words. It knows nothing of how the implementations work.

use std::io;

/// Why a rank could not find or talk to its job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The environment is that of a launcher whose protocol this version does not speak.
    #[error(
        "this process was started by {launcher} ({evidence}), which gave it no way to the others: neither PMI_FD of PMI-1 \
         nor PMIX_NAMESPACE of PMIx; {advice}"
    )]
    UnsupportedLauncher {
        /// The launcher, as far as the environment tells.
        launcher: &'static str,
        /// The variables that say so, with their values.
        evidence: String,
        /// What the user can do.
        advice: &'static str,
    },
    /// A launcher that speaks PMIx and did not do what it was asked.
    #[error("asking the PMIx launcher that started this process ({evidence}) failed: {source}")]
    Pmix {
        /// The variables that say so, with their values.
        evidence: String,
        /// What libpmix said.
        source: transom_pmix::Error,
    },
    /// Two sources that differ on how many ranks the job has.
    #[error("{first} but {second}: were the variables of one launcher passed on to another's processes? {advice}")]
    Contradiction {
        /// What one says.
        first: String,
        /// What the other says.
        second: String,
        /// What the user can do.
        advice: &'static str,
    },
    /// A variable of the launcher is missing or makes no sense.
    #[error("the launcher's variable {variable} is {found}: {why}")]
    Environment {
        /// The variable's name.
        variable: &'static str,
        /// Its value in quotes, or `not set`.
        found: String,
        /// What is wrong with it.
        why: String,
    },
    /// The descriptor in `PMI_FD` cannot be used.
    #[error("PMI_FD={fd} cannot be used: {why}")]
    Descriptor {
        /// The number in `PMI_FD`.
        fd: i32,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody listens where `PMI_PORT` says.
    #[error("the launcher can't be reached at PMI_PORT={port}: {source}")]
    Unreachable {
        /// The value of `PMI_PORT`.
        port: String,
        /// The system's error.
        source: io::Error,
    },
    /// Nothing came back on `PMI_FD`.
    #[error(
        "the launcher did not answer on PMI_FD within {seconds} s ({during}); is it one that speaks PMI-1, such as \
         transom-run, the mpiexec of MPICH (Hydra), or srun --mpi=pmi2?"
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
    /// A rank has ended, for which the others wait.
    #[error("rank {rank} has ended, so that the ranks of the job can't meet any more ({during})")]
    RankEnded {
        /// The command that can't be answered.
        during: &'static str,
        /// The rank.
        rank: usize,
    },
    /// A system call on the connection failed.
    #[error("talking to the launcher ({during}) failed: {source}")]
    Io {
        /// The command that failed.
        during: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The launcher said something that PMI-1 does not allow here.
    #[error("the launcher answered {during} with {answer:?}: {why}")]
    Protocol {
        /// The command that was sent.
        during: &'static str,
        /// The line that came back.
        answer: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key that not every implementation can hold.
    #[error("the key {key:?} cannot be used: {why}")]
    BadKey {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key that was put already.
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
    /// A rank that took part in an allgather's barrier but put nothing there.
    #[error("rank {rank} put nothing under {key:?} before the barrier; do all ranks gather under the same names?")]
    Missing {
        /// The rank whose value is missing.
        rank: usize,
        /// The key that has no value.
        key: String,
    },
    /// Something other than what the other side put.
    #[error("the value under {key:?} is malformed: {why}")]
    Malformed {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The program that joined the ranks by itself ([`Job::with_bootstrap`](crate::Job::with_bootstrap)) could not pass something on.
    #[error("the program's own way to the other ranks failed during {during}: {why}")]
    Host {
        /// The call.
        during: &'static str,
        /// What was wrong.
        why: String,
    },
    /// A call after `finalize`.
    #[error("{during} after this rank left the job (finalize or abort)")]
    Finalized {
        /// The call.
        during: &'static str,
    },
}

//! Why ranks can't form a job, or lose their agreement, and why a value of a variable is illegal.

use std::io;

use crate::error::{AtomicsError, NetName, SharedSettings};

/// Why the ranks can't work together: the reason in [`ErrorKind::Job`](crate::ErrorKind::Job).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No rank, or more ranks than 32 bits can number.
    #[error("the job has {ranks} ranks; possible are 1 to 2^32 - 1")]
    NumberOfRanks {
        /// The number of ranks.
        ranks: usize,
    },
    /// Ranks have different versions of the library.
    #[error("the ranks differ in their version: rank {rank} has {theirs}; rank {own_rank} has {own}")]
    VersionsDiffer {
        /// A rank that differs.
        rank: usize,
        /// Its version.
        theirs: String,
        /// This rank.
        own_rank: usize,
        /// The version of this rank.
        own: &'static str,
    },
    /// Ranks differ in settings that must be equal at all ranks.
    #[error("the ranks differ in their settings: rank {rank} has {theirs}; rank {own_rank} has {own}")]
    SettingsDiffer {
        /// A rank that differs.
        rank: usize,
        /// Its settings.
        theirs: SharedSettings,
        /// This rank.
        own_rank: usize,
        /// The settings of this rank.
        own: SharedSettings,
    },
    /// A rank could not create its counters of notified operations.
    #[error(
        "window {window:x}: a rank could not make its counters, or requested too many, so no rank has new counters"
    )]
    NoCounters {
        /// The window's number in the job.
        window: u64,
    },
    /// Ranks opened different nets.
    #[error(
        "rank {rank} uses the net {theirs}, but rank {own_rank} uses {own}; set TRANSOM_PROVIDER and the FI_ variables to \
         the same values at all ranks"
    )]
    NetsDiffer {
        /// A rank that differs.
        rank: usize,
        /// Its net.
        theirs: Box<NetName>,
        /// This rank.
        own_rank: usize,
        /// The net of this rank.
        own: Box<NetName>,
    },
    /// The published data of a rank can't be decoded.
    #[error("rank {rank} sent data that this version can't decode; do all ranks run the same program?")]
    Unreadable {
        /// The rank.
        rank: usize,
    },
    /// The settings require atomics by the device, which can't perform them.
    #[error(transparent)]
    Atomics(#[from] AtomicsError),
    /// A net is needed, and no transport provides one.
    #[error("a net is needed, and neither verbs nor libfabric can be used")]
    NoNet,
    /// The limit of open files is too low for a net over sockets.
    #[error(
        "rank {rank} needs at least {least} file descriptors for {ranks} ranks over sockets, and {all} after contact with \
         all of them; its limit of open files (RLIMIT_NOFILE) is {limit}, the hard limit {}: raise the limit (ulimit -n \
         {all}), or start fewer ranks that do not share memory",
        hard.map_or_else(|| "none".into(), |hard| hard.to_string())
    )]
    Descriptors {
        /// This rank.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
        /// The descriptors that the rank needs to start.
        least: u64,
        /// The descriptors that it needs after contact with all ranks.
        all: u64,
        /// The soft limit.
        limit: u64,
        /// The hard limit, if there is one.
        hard: Option<u64>,
    },
    /// The job block of a rank of the node can't be mapped.
    #[error("the job block of rank {rank}, which is on this node, can't be mapped")]
    BlockUnmapped {
        /// The rank.
        rank: usize,
    },
    /// Two windows of a process got the same number.
    #[error("window {window:x}: another window of this process has the same number; create the window again")]
    SameNumber {
        /// The number.
        window: u64,
    },
    /// The closure of `Job::subset_agreed` returned no number.
    #[error("subset_agreed: `agree` returned no number for the new subset")]
    NoAgreement,
    /// A rank could not create its part of a window, so that no rank has the window.
    #[error("window {window:x}: rank {rank} could not create its part, so no rank has the window")]
    PartFailed {
        /// The window's number in the job.
        window: u64,
        /// The lowest rank that failed, as a rank of the whole job.
        rank: usize,
    },
    /// A rank has left a collective call with an error, so that the call can't succeed here.
    #[error(
        "rank {rank} has left a collective call {}, which therefore fails here too; the error at rank {rank} has the \
         cause",
        window.map_or_else(|| "of the job or subset".into(), |window| format!("on window {window:x}"))
    )]
    Left {
        /// The rank that was awaited, as a rank of the whole job. It may have left because of a
        /// further rank.
        rank: usize,
        /// The window's number in the job; `None` for a barrier of the job or of a subset, and for
        /// the creation of a window.
        window: Option<u64>,
    },
    /// An earlier collective call has failed so that ranks may have left it in different barriers.
    #[error(
        "an earlier collective call {} has failed at some ranks after others had gone on, so that the ranks no longer \
         agree on the next one; {}, or end the program",
        window.map_or_else(|| "of these ranks".into(), |window| format!("on window {window:x}")),
        window.map_or("continue with a new subset of these ranks", |_| "continue with a new window")
    )]
    OutOfStep {
        /// The window's number in the job; `None` for the job or a subset.
        window: Option<u64>,
    },
    /// The part that a rank published is not within the shared segment.
    #[error("the part that rank {rank} published is outside the memory of the shared window")]
    PartOutside {
        /// The rank.
        rank: usize,
    },
    /// A call in an epoch of `lock` whose lock could not be taken.
    #[error(
        "the lock of rank {rank} could not be taken, as an earlier call has reported; end the epoch, and lock again"
    )]
    NotLocked {
        /// The rank.
        rank: usize,
    },
    /// The call's operation waited for a lock. A call of another thread tried to take the lock for
    /// both operations, and failed.
    #[error(
        "operations that waited for the lock of rank {rank} failed; a call of another thread has returned the cause"
    )]
    NotPerformed {
        /// The rank.
        rank: usize,
    },
    /// The operation of a request that owns a buffer failed, and an earlier call has returned the
    /// cause.
    #[error("the operation of the request failed, as an earlier call has reported; its buffer has no data")]
    Failed,
    /// The control words of a mapped target are not mapped.
    #[error("the memory of rank {rank} is mapped, but its control words are not")]
    WordsUnmapped {
        /// The rank.
        rank: usize,
    },
    /// The conflict checker has reported conflicting accesses or false assertions, with
    /// `TRANSOM_CHECK`.
    #[error("the conflict checker has made reports; pairs of places in the program: {found}")]
    Conflicts {
        /// The number of pairs of places in the program.
        found: u64,
    },
}

/// Why the value of a variable or of a hint is illegal, with the legal values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Not one of the words.
    #[error("the value must be {}", choices(.0))]
    NotOneOf(&'static [&'static str]),
    /// Not a list of the words, nor `none`.
    #[error("the value must be none, or a list of {}", listed(.0, "and"))]
    NotListOf(&'static [&'static str]),
    /// Not a whole number.
    #[error("the value must be a whole number")]
    NotInteger,
    /// Not a size of memory, which may have a suffix.
    #[error("the value must be a number of bytes, optionally with k, m or g")]
    NotSize,
    /// Not a power of two, or a larger one than is allowed.
    #[error("the value must be a power of two, at most 2^{most}")]
    NotPowerOfTwo {
        /// The largest exponent.
        most: u32,
    },
    /// Not a number of seconds, or outside of the bounds.
    #[error("the value must be a number of seconds, {least} to {most}")]
    NotSeconds {
        /// The fewest seconds.
        least: u64,
        /// The most seconds.
        most: u64,
    },
    /// Not a number, or outside of the bounds.
    #[error("the value must be a number, {least} to {most}")]
    NotNumber {
        /// The smallest.
        least: u16,
        /// The largest.
        most: u16,
    },
    /// Not a number of nodes.
    #[error("the value must be a number of nodes")]
    NotNodes,
    /// The file that the variable names can't be read.
    #[error("the file can't be read: {0}")]
    NotReadable(String),
    /// Not UTF-8.
    #[error("the value is not UTF-8")]
    NotUtf8,
    /// A transport that does not exist.
    #[error("the value must be a list of the transports shm, verbs and ofi")]
    UnknownTransport,
    /// All transports are excluded.
    #[error("the list excludes all transports")]
    NoTransport,
    /// No interface that is up is in the list.
    #[error("no interface in the list is up; the interfaces that are up are {}", .0.join(", "))]
    NoInterface(
        /// The interfaces that are up.
        Vec<String>,
    ),
    /// The system does not list its interfaces.
    #[error("the system does not list its network interfaces: {0}")]
    Interfaces(io::Error),
}

/// The words of a choice: `y or n`, `auto, cpu or nic`.
fn choices(words: &[&str]) -> String {
    listed(words, "or")
}

fn listed(words: &[&str], last: &str) -> String {
    match words {
        [most @ .., one, other] => {
            most.iter().map(|word| format!("{word}, ")).collect::<String>() + &format!("{one} {last} {other}")
        }
        few => few.concat(),
    }
}

/// Why a rank of another machine can't be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnreachableError {
    /// The rank did not answer the first connection.
    #[error("no answer within {seconds} s")]
    NoAnswer {
        /// The time limit for the answer, in seconds.
        seconds: u64,
    },
    /// The rank answered before, and no longer answers.
    #[error("the rank has stopped answering")]
    Silent,
    /// The connection was refused.
    #[error("{0}: the rank's process has ended, or a firewall refuses the connection")]
    Refused(io::Error),
    /// The kernel could not connect.
    #[error("{0}")]
    System(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_values_name_the_legal_ones() {
        for (error, words) in [
            (SettingError::NotOneOf(&["y", "n"]), "the value must be y or n"),
            (SettingError::NotOneOf(&["auto", "cpu", "nic"]), "the value must be auto, cpu or nic"),
            (SettingError::NotListOf(&["rar", "raw", "war"]), "the value must be none, or a list of rar, raw and war"),
            (SettingError::NotPowerOfTwo { most: 30 }, "the value must be a power of two, at most 2^30"),
            (
                SettingError::NoInterface(vec!["lo=127.0.0.1/8".into()]),
                "no interface in the list is up; the interfaces that are up are lo=127.0.0.1/8",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}

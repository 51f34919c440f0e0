//! The one error type of the library: MPI's classes, and what was wrong in words and numbers. Knows no transport.

use std::net::IpAddr;

use transom_fabric::{FabricError, Fault};

use crate::bootstrap::BootstrapError;

/// The MPI error class of an [`Error`] (MPI §11.6), for callers that branch on it and for the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// `MPI_ERR_WIN`: the window as such. Never given: a window that does not exist is no value.
    Win,
    /// `MPI_ERR_BASE`: the memory handed to `create`.
    Base,
    /// `MPI_ERR_SIZE`: a size that can't be had.
    Size,
    /// `MPI_ERR_DISP`: a displacement or displacement unit.
    Disp,
    /// `MPI_ERR_RANK`: no such rank.
    Rank,
    /// `MPI_ERR_TYPE`: a type, or its alignment at the target.
    Type,
    /// `MPI_ERR_COUNT`: a count that can't be.
    Count,
    /// `MPI_ERR_OP`: an operation that is not defined on the type.
    Op,
    /// `MPI_ERR_LOCKTYPE`: a lock on a window whose hints say that it has none.
    LockType,
    /// `MPI_ERR_ASSERT`: assertions that contradict each other or do not belong to the call.
    Assert,
    /// `MPI_ERR_ARG`: another argument that can't be.
    Arg,
    /// `MPI_ERR_RMA_CONFLICT`: accesses that conflict. Never given: they are not looked for.
    RmaConflict,
    /// `MPI_ERR_RMA_ATTACH`: memory that can't be attached to a dynamic window, or none to detach.
    RmaAttach,
    /// `MPI_ERR_RMA_SHARED`: memory that can't be shared, or that load and store do not reach.
    RmaShared,
    /// `MPI_ERR_RMA_FLAVOR`: a window of another flavor is needed.
    RmaFlavor,
    /// `MPI_ERR_RMA_RANGE`: outside the target's part, or of what it has attached.
    RmaRange,
    /// `MPI_ERR_RMA_SYNC`: a call in the wrong epoch.
    RmaSync,
    /// `MPI_ERR_INFO_VALUE`: a hint or a `TRANSOM_` variable with a value that it can't have.
    InfoValue,
    /// `MPI_ERR_OTHER`: the job, a transport, or a peer.
    Other,
}

/// What went wrong, with the numbers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An operation reaches outside the target's window; nothing was accessed.
    #[error(
        "{call}: {length} bytes at displacement {displacement} (unit {unit}) are outside the window of rank {rank}, \
         which has {limit} bytes"
    )]
    Range {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// The displacement, in the target's units.
        displacement: u64,
        /// The target's displacement unit in bytes.
        unit: u32,
        /// The length of the access in bytes.
        length: usize,
        /// The size of the target's window in bytes.
        limit: u64,
    },
    /// No such rank.
    #[error("{call}: there is no rank {rank}; the job's ranks are 0 to {}", size - 1)]
    Rank {
        /// The call.
        call: &'static str,
        /// The rank that was asked for.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
    /// An atomic at a place that is not a multiple of its width; nothing was accessed.
    #[error(
        "{call}: displacement {displacement} (unit {unit}) at rank {rank} is not aligned to the {width} bytes of the \
         atomic's type; the window there has {limit} bytes"
    )]
    Misaligned {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// The displacement, in the target's units.
        displacement: u64,
        /// The target's displacement unit in bytes.
        unit: u32,
        /// The width of the atomic in bytes.
        width: usize,
        /// The size of the target's window in bytes.
        limit: u64,
    },
    /// A call in an epoch where MPI does not allow it; nothing was done.
    #[error("{call}: {reason}")]
    Epoch {
        /// The call.
        call: &'static str,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// A length that is not that of the other side, or an argument that can't be.
    #[error("{call}: {reason}")]
    Argument {
        /// The class that MPI gives it.
        class: Class,
        /// The call.
        call: &'static str,
        /// What is wrong, with its numbers.
        reason: String,
    },
    /// A `TRANSOM_` variable with a value that it can't have.
    #[error("{name}={value}: {reason}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        reason: String,
    },
    /// The ranks can't work together as they are.
    #[error("{0}")]
    Job(String),
    /// The launcher, or the exchange of addresses through it.
    #[error("starting: {0}")]
    Bootstrap(#[from] BootstrapError),
    /// A transport.
    #[error("{0}")]
    Transport(#[from] FabricError),
    /// The target would not execute an operation: it reaches memory that is not of the window there.
    #[error("refused by {0}")]
    Refused(Fault),
    /// Processes of ranks have ended, and this rank waited, for them or for others that may wait for them.
    #[error("rank{} {} on {host} died", if ranks.len() > 1 { "s" } else { "" }, listed(ranks))]
    RankDied {
        /// The ranks, as the whole job counts, in the order in which this one saw it: the first may have been the reason of the others.
        /// At least one.
        ranks: Vec<usize>,
        /// The name of their machine, or of their machines.
        host: String,
    },
    /// A rank of another machine does not answer, and this rank waited, for it or for others that may wait for it: its machine is
    /// gone, or the network between.
    #[error("rank {rank} on {host} can't be reached at {at} from {from}: {reason}")]
    RankUnreachable {
        /// The rank, as the whole job counts; the first of those that do not answer.
        rank: usize,
        /// The name of its machine.
        host: String,
        /// Its address.
        at: IpAddr,
        /// The interface of this rank, as `name=address/prefix`.
        from: String,
        /// What the system said.
        reason: String,
    },
    /// A peer that is gone.
    #[error("{0}")]
    Peer(#[from] Fault),
}

fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An error of this library. One word wide, so that the calls that return it stay cheap.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

/// The result of this library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The MPI class.
    pub fn class(&self) -> Class {
        match &*self.0 {
            ErrorKind::Range { .. } | ErrorKind::Refused(_) => Class::RmaRange,
            ErrorKind::Rank { .. } => Class::Rank,
            ErrorKind::Misaligned { .. } => Class::Type,
            ErrorKind::Epoch { .. } => Class::RmaSync,
            ErrorKind::Argument { class, .. } => *class,
            ErrorKind::Setting { .. } => Class::InfoValue,
            ErrorKind::Job(_)
            | ErrorKind::Bootstrap(_)
            | ErrorKind::Transport(_)
            | ErrorKind::RankDied { .. }
            | ErrorKind::RankUnreachable { .. }
            | ErrorKind::Peer(_) => Class::Other,
        }
    }

    #[cold]
    pub(crate) fn argument(class: Class, call: &'static str, reason: impl Into<String>) -> Error {
        ErrorKind::Argument { class, call, reason: reason.into() }.into()
    }
}

impl<E: Into<ErrorKind>> From<E> for Error {
    #[cold]
    fn from(kind: E) -> Error {
        Error(Box::new(kind.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows E1.
    #[test]
    fn a_range_error_names_rank_displacement_length_and_limit() {
        let error: Error =
            ErrorKind::Range { call: "put", rank: 3, displacement: 70, unit: 8, length: 16, limit: 512 }.into();
        assert_eq!(error.class(), Class::RmaRange);
        assert_eq!(
            error.to_string(),
            "put: 16 bytes at displacement 70 (unit 8) are outside the window of rank 3, which has 512 bytes"
        );
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}

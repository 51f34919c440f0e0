//! The error type of the library: MPI's classes, and a description in words and numbers. Knows no
//! transport.

use std::fmt;
use std::net::IpAddr;

use transom_fabric::{FabricError, Fault};

use crate::bootstrap::BootstrapError;
pub use agreement::{NetName, SharedSettings};
pub use argument::{ArgumentError, AtomicsError, Side};
pub use job::{JobError, SettingError, UnreachableError};
pub use refusal::Refusal;
pub use transom_fabric::Reason as TransportReason;
pub use transport::TransportError;

mod agreement;
mod argument;
mod job;
mod refusal;
mod transport;

/// The MPI error class of an [`Error`] (MPI-4.1 §12.6), for callers that branch on it and for the C
/// interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// `MPI_ERR_WIN`: an invalid window handle. Never returned: in Rust a handle is always valid.
    Win,
    /// `MPI_ERR_BASE`: an invalid base address in a call of `create`.
    Base,
    /// `MPI_ERR_SIZE`: a size that can't be allocated.
    Size,
    /// `MPI_ERR_DISP`: an invalid displacement or displacement unit.
    Disp,
    /// `MPI_ERR_RANK`: no such rank.
    Rank,
    /// `MPI_ERR_TYPE`: a type that does not fit the operation or the other side.
    Type,
    /// `MPI_ERR_COUNT`: an invalid count.
    Count,
    /// `MPI_ERR_OP`: an operation that is not defined on the type.
    Op,
    /// `MPI_ERR_LOCKTYPE`: a lock on a window whose hints exclude locks.
    LockType,
    /// `MPI_ERR_ASSERT`: an assertion that MPI does not define for the call, or a fence with
    /// NOPRECEDE after operations.
    Assert,
    /// `MPI_ERR_ARG`: another invalid argument.
    Arg,
    /// `MPI_ERR_RMA_CONFLICT`: conflicting accesses. Never returned: the conflict checker
    /// ([`book::checking`](crate::book::checking)) prints its reports.
    RmaConflict,
    /// `MPI_ERR_RMA_ATTACH`: memory that can't be attached to a dynamic window, or a region to
    /// detach that is not attached.
    RmaAttach,
    /// `MPI_ERR_RMA_SHARED`: memory that can't be shared, or that this process can't load and
    /// store.
    RmaShared,
    /// `MPI_ERR_RMA_FLAVOR`: the call requires a window of another flavor.
    RmaFlavor,
    /// `MPI_ERR_RMA_RANGE`: an access outside of the target's part, or of its attached regions.
    RmaRange,
    /// `MPI_ERR_RMA_SYNC`: a call in the wrong epoch.
    RmaSync,
    /// `MPI_ERR_RMA_NOTIFICATION`, of the MPI Forum's draft of RMA notification: a counter that the
    /// target does not have.
    RmaNotification,
    /// `MPI_ERR_INFO_VALUE`: a hint or a `TRANSOM_` variable with an illegal value.
    InfoValue,
    /// `MPI_ERR_OTHER`: a failure of the job, a transport, or a peer.
    Other,
}

impl Class {
    /// The classes of MPI-4.1: all except [`Class::RmaNotification`]. [`Class::Other`] is the last.
    pub const ALL: [Class; 19] = [
        Class::Win,
        Class::Base,
        Class::Size,
        Class::Disp,
        Class::Rank,
        Class::Type,
        Class::Count,
        Class::Op,
        Class::LockType,
        Class::Assert,
        Class::Arg,
        Class::RmaConflict,
        Class::RmaAttach,
        Class::RmaShared,
        Class::RmaFlavor,
        Class::RmaRange,
        Class::RmaSync,
        Class::InfoValue,
        Class::Other,
    ];
}

/// The kind of a failure, with its numbers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An operation reaches outside of the target's part of the window. No memory was accessed.
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
        /// The size of the target's part in bytes.
        limit: u64,
    },
    /// A rank has no counter of that index. No memory was accessed.
    #[error("{call}: rank {rank} has no counter {index}: it has {number} counters; set_num_notify sets their number")]
    Notification {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// The counter's index.
        index: usize,
        /// The number of counters of the target.
        number: usize,
    },
    /// The rank does not exist.
    #[error("{call}: there is no rank {rank}; the ranks are 0 to {}", size - 1)]
    Rank {
        /// The call.
        call: &'static str,
        /// The rank in the call.
        rank: usize,
        /// The number of ranks.
        size: usize,
    },
    /// A call in an epoch in which MPI does not allow it. The call had no effect.
    #[error("{call}{}: {reason}", target.map(|rank| format!(" at rank {rank}")).unwrap_or_default())]
    Epoch {
        /// The call.
        call: &'static str,
        /// The target, if the call has one.
        target: Option<usize>,
        /// The rule that the call breaks.
        reason: &'static str,
    },
    /// A length that differs from that of the other side, or an invalid argument.
    #[error("{call}: {reason}")]
    Argument {
        /// The MPI class.
        class: Class,
        /// The call.
        call: &'static str,
        /// The reason, with its numbers.
        reason: ArgumentError,
    },
    /// A `TRANSOM_` variable with an illegal value.
    #[error("{name}={value}: {reason}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// The value.
        value: String,
        /// The legal values.
        reason: SettingError,
    },
    /// A hint that must be equal at all ranks of a window differs between them. No rank has the
    /// window.
    #[error("window {window:x}: {hint} differs among the ranks, which must give equal values; no rank has the window")]
    Differs {
        /// The key.
        hint: &'static str,
        /// The window's number in the job.
        window: u64,
    },
    /// A rank has as many windows as a process can have, so no rank has the new window.
    #[error(
        "window {window:x}: the process of a rank has reached the limit of {limit} windows; no rank has the new window"
    )]
    TooManyWindows {
        /// The window's number in the job.
        window: u64,
        /// The most windows that a process can have at once.
        limit: usize,
    },
    /// The memory of a window is not available.
    #[error("{call}: {bytes} bytes are not available at rank {rank}")]
    Memory {
        /// The call.
        call: &'static str,
        /// The rank that lacks the memory, as a rank of the whole job.
        rank: usize,
        /// The size in bytes.
        bytes: usize,
        /// The reason.
        source: TransportError,
    },
    /// The ranks can't form a job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job was started before in this process.
    #[error("this process has started a job before; a process can start only one")]
    AlreadyStarted,
    /// Ranks need a net to reach each other, and it can't be opened.
    #[error("ranks {first} and {second} do not share memory, so a net is needed, and no net can be opened")]
    Net {
        /// A rank.
        first: usize,
        /// The lowest rank that does not share memory with `first`.
        second: usize,
        /// The transport's error.
        source: TransportError,
    },
    /// A rank has freed the window.
    #[error("rank {rank} has no window {window:x}; was it freed there?")]
    NoWindow {
        /// The rank.
        rank: usize,
        /// The window's number in the job.
        window: u64,
    },
    /// The launcher, or the exchange of data through it, failed: when the job starts, or at its
    /// end.
    #[error("the launcher, or the exchange of data through it, failed")]
    Bootstrap(#[from] BootstrapError),
    /// A transport failed.
    #[error(transparent)]
    Transport(TransportError),
    /// The target refused an operation, for example on memory outside of its part.
    #[error("rank {rank} refused the operation: {reason}")]
    Refused {
        /// The target, as a rank of the whole job.
        rank: usize,
        /// The target's reason.
        reason: Refusal,
    },
    /// Processes of ranks have ended while this rank waited for them, or for ranks that may wait
    /// for them.
    #[error("rank{} {} on {host} died", if ranks.len() > 1 { "s" } else { "" }, listed(ranks))]
    RankDied {
        /// The ranks, as ranks of the whole job, in the order in which this rank detected their
        /// ends: the first death may have caused the others. At least one.
        ranks: Vec<usize>,
        /// The name of the ranks' machine, or of their machines.
        host: String,
    },
    /// A rank of another machine does not answer while this rank waits for it, or for ranks that
    /// may wait for it. The machine, or the network to it, is down.
    #[error("rank {rank} on {host} can't be reached at {at} from {from}: {reason}")]
    RankUnreachable {
        /// The first rank that does not answer, as a rank of the whole job.
        rank: usize,
        /// The name of the rank's machine.
        host: String,
        /// The rank's address.
        at: IpAddr,
        /// The interface of this rank, as `name=address/prefix`.
        from: String,
        /// The reason.
        reason: UnreachableError,
    },
    /// A peer has ended, or an operation at it failed.
    #[error("an operation at rank {rank}{} failed", place.as_ref().map_or_else(String::new, |place| format!(" ({place})")))]
    Peer {
        /// The rank, as a rank of the whole job.
        rank: usize,
        /// The rank's machine and address, if the machine is known to be another one.
        place: Option<String>,
        /// The transport's observation.
        source: TransportError,
    },
}

impl From<FabricError> for ErrorKind {
    fn from(error: FabricError) -> ErrorKind {
        match error {
            FabricError::Broken(fault) => fault.into(),
            other => ErrorKind::Transport(other.into()),
        }
    }
}

impl From<Fault> for ErrorKind {
    fn from(fault: Fault) -> ErrorKind {
        ErrorKind::Peer { rank: fault.peer.index(), place: None, source: fault.cause.into() }
    }
}

fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An error of this library. It is one word wide, so that the calls that return it stay cheap.
///
/// It displays its own message; with `{:#}` also the messages of its sources, separated by colons.
/// The debug form has all messages and the MPI class, because Rust prints the debug form of an
/// error that `main` returns. [`Error::kind`] returns the data.
pub struct Error(Box<ErrorKind>);

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        transom_fabric::write_sources(self, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#} (MPI error class {:?})", self.class())
    }
}

/// The result of this library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The kind of the failure, with its numbers.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The error of a call in the wrong epoch, with the call's target. Other errors are unchanged.
    #[cold]
    pub(crate) fn at_rank(mut self, rank: usize) -> Error {
        if let ErrorKind::Epoch { target, .. } = &mut *self.0 {
            *target = Some(rank);
        }
        self
    }

    /// The lost rank, as a rank of the whole job: the rank that has died, that can't be reached, or
    /// at which the network could not perform an operation. If several ranks have died, the first
    /// of them. `None` if the error has another reason, for example if the target has refused an
    /// operation. Operations on other ranks go on.
    pub fn lost_rank(&self) -> Option<usize> {
        match self.kind() {
            ErrorKind::RankDied { ranks, .. } => ranks.first().copied(),
            ErrorKind::RankUnreachable { rank, .. } | ErrorKind::Peer { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    /// Whether this is the loss of a rank that can't be reached.
    pub(crate) fn is_unreachable(&self, wanted: usize) -> bool {
        match self.kind() {
            ErrorKind::RankUnreachable { rank, .. } | ErrorKind::Peer { rank, .. } => *rank == wanted,
            _ => false,
        }
    }

    /// The MPI class.
    pub fn class(&self) -> Class {
        match &*self.0 {
            ErrorKind::Range { .. } => Class::RmaRange,
            ErrorKind::Refused { reason, .. } => reason.class(),
            ErrorKind::Notification { .. } => Class::RmaNotification,
            ErrorKind::Rank { .. } => Class::Rank,
            ErrorKind::Memory { .. } => Class::Size,
            ErrorKind::Epoch { .. } => Class::RmaSync,
            ErrorKind::Argument { class, .. } => *class,
            ErrorKind::Setting { .. } | ErrorKind::Differs { .. } => Class::InfoValue,
            ErrorKind::TooManyWindows { .. }
            | ErrorKind::Job(_)
            | ErrorKind::AlreadyStarted
            | ErrorKind::Net { .. }
            | ErrorKind::NoWindow { .. }
            | ErrorKind::Bootstrap(_)
            | ErrorKind::Transport(_)
            | ErrorKind::RankDied { .. }
            | ErrorKind::RankUnreachable { .. }
            | ErrorKind::Peer { .. } => Class::Other,
        }
    }

    #[cold]
    pub(crate) fn argument(class: Class, call: &'static str, reason: impl Into<ArgumentError>) -> Error {
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
    use std::error::Error as _;
    use std::io;

    use rustix::io::Errno;
    use transom_fabric::{Cause, Peer};

    use super::*;

    /// The chain of a failed system call ends with the system's error.
    /// Shows E1.
    #[test]
    fn a_transport_failure_ends_with_the_error_of_the_system() {
        let inner = FabricError::failed("mmap", Errno::NOMEM);
        let error: Error = FabricError::failed("allocating 64 bytes", inner).into();
        assert_eq!(error.to_string(), "allocating 64 bytes failed");
        let ErrorKind::Transport(action) = error.kind() else { panic!("{error:?}") };
        let last = error.source().and_then(|part| part.source()).expect("mmap and its answer");
        let last = last.downcast_ref::<io::Error>().expect("an error of the system");
        assert_eq!(last.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(action.system().map(io::Error::kind), Some(io::ErrorKind::OutOfMemory));
        assert_eq!(format!("{error:#}"), format!("allocating 64 bytes failed: mmap failed: {last}"));
        assert_eq!(format!("{error:?}"), format!("{error:#} (MPI error class Other)"));
    }

    /// A library's number survives.
    #[test]
    fn a_librarys_code_is_data() {
        let cause = Cause::library("libfabric", -111, "Connection refused (-111)", 111);
        let error: Error = Fault::new(Peer(3), cause).into();
        let ErrorKind::Peer { rank: 3, place: None, source } = error.kind() else { panic!("{error:?}") };
        assert!(matches!(source, TransportError::Library { library: "libfabric", code: -111, .. }), "{source:?}");
        assert_eq!(format!("{error:#}"), "an operation at rank 3 failed: Connection refused (-111)");
        assert_eq!(error.lost_rank(), Some(3));
    }

    #[test]
    fn errors_go_between_threads() {
        fn check<T: std::error::Error + Send + Sync + 'static>() {}
        check::<Error>();
        check::<ErrorKind>();
        check::<TransportError>();
        check::<BootstrapError>();
    }

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
        assert_eq!(format!("{error:?}"), format!("{error} (MPI error class RmaRange)"));
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}

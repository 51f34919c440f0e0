//! Failures of transports in types of this crate: an action, the party that refused it, and the
//! party's code.

use std::error::Error;
use std::{fmt, io};

use transom_fabric::{Cause, FabricError, Reason};

use crate::error::Refusal;

/// Why a transport failed: the content of [`ErrorKind::Transport`](crate::ErrorKind::Transport),
/// which displays this type's message and has its sources, and the source of
/// [`ErrorKind::Peer`](crate::ErrorKind::Peer). If the system refused a call, the chain of sources
/// ends with its `io::Error`.
#[derive(Debug)]
#[non_exhaustive]
pub enum TransportError {
    /// An action failed, or a transport is not available.
    Action {
        /// The failure, with the action and its numbers.
        what: String,
        /// The reason.
        reason: Box<TransportError>,
    },
    /// The operating system refused a call.
    System(io::Error),
    /// A library refused a call.
    Library {
        /// The library, for example `libfabric`.
        library: &'static str,
        /// Its number for the failure.
        code: i64,
        /// Its text for the number.
        text: String,
    },
    /// The setup of this machine lacks a library, a device, a right or a setting.
    Setup {
        /// The missing components of all tried transports, with hints for their installation.
        text: String,
    },
    /// The transport itself refused.
    Refused(Reason),
    /// A rank can't use verbs, and `TRANSOM_TRANSPORTS` excludes libfabric.
    OfiExcluded {
        /// The rank.
        rank: usize,
        /// Why the rank can't use verbs, as it reported to the other ranks.
        reason: String,
    },
    /// `TRANSOM_TRANSPORTS` excludes all nets.
    NetsExcluded,
    /// More memory than the machine, or the control group of the process, has left.
    OutOfMemory {
        /// The bytes that are still available.
        available: u64,
    },
    /// The size, rounded up to the alignment, exceeds the address space.
    SizeOverflow,
    /// The peer refused to execute an operation.
    Answer(Refusal),
}

impl TransportError {
    /// The error of the operating system at the end of the chain, if the system refused.
    pub fn system(&self) -> Option<&io::Error> {
        match self {
            TransportError::Action { reason, .. } => reason.system(),
            TransportError::System(error) => Some(error),
            _ => None,
        }
    }

    fn action(what: impl fmt::Display, reason: Cause) -> TransportError {
        TransportError::Action { what: what.to_string(), reason: Box::new(reason.into()) }
    }
}

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            TransportError::Action { reason, .. } => match &**reason {
                TransportError::System(error) => Some(error),
                reason => Some(reason),
            },
            _ => None,
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportError::Action { what: text, .. }
            | TransportError::Library { text, .. }
            | TransportError::Setup { text } => f.write_str(text)?,
            TransportError::System(error) => write!(f, "{error}")?,
            TransportError::Refused(reason) => write!(f, "{reason}")?,
            TransportError::OfiExcluded { rank, reason } => {
                write!(f, "rank {rank}: {reason}, and TRANSOM_TRANSPORTS excludes ofi")?;
            }
            TransportError::NetsExcluded => f.write_str("TRANSOM_TRANSPORTS excludes verbs and ofi")?,
            TransportError::OutOfMemory { available } => write!(f, "{available} bytes of memory are available")?,
            TransportError::SizeOverflow => {
                f.write_str("the size, rounded up to the alignment, exceeds the address space")?;
            }
            TransportError::Answer(refusal) => write!(f, "{refusal}")?,
        }
        transom_fabric::write_sources(self, f)
    }
}

impl From<Cause> for TransportError {
    fn from(cause: Cause) -> TransportError {
        match cause {
            Cause::System(errno) => TransportError::System(errno.into()),
            Cause::Library { library, code, text } => TransportError::Library { library, code, text },
            Cause::Within(error) => (*error).into(),
            Cause::Limited { resource, limit, cause } => {
                let what = Cause::limit_text(resource, limit);
                TransportError::action(what, *cause)
            }
            Cause::Io(kind) => TransportError::System(kind.into()),
            Cause::Refused(reason) => TransportError::Refused(reason),
            Cause::Setup(text) => TransportError::Setup { text },
            Cause::Answer(words) => TransportError::Answer(Refusal::of_words(words)),
        }
    }
}

impl From<FabricError> for TransportError {
    fn from(error: FabricError) -> TransportError {
        match error {
            FabricError::Unavailable { transport, cause } => {
                TransportError::action(format_args!("{transport} is not available"), cause)
            }
            FabricError::Failed { what, cause } => TransportError::action(format_args!("{what} failed"), cause),
            FabricError::Broken(fault) => {
                TransportError::action(format_args!("reaching {} failed", fault.peer), fault.cause)
            }
        }
    }
}

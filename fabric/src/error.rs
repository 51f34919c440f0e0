//! The one error type of the transports, and what a broken peer looks like.

use rustix::process::{Resource, getrlimit};

use crate::Peer;

/// Why a transport could not do what it was asked. It names the peer where one is concerned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The transport does not exist on this machine: a library, device or right is missing.
    #[error("{transport} is not available: {reason}")]
    Unavailable {
        /// Which transport.
        transport: &'static str,
        /// What is missing, and how to get it.
        reason: String,
    },
    /// A call of the operating system or of the provider's library failed.
    #[error("{what}: {reason}")]
    Failed {
        /// What was being done, with its numbers.
        what: String,
        /// What the system answered.
        reason: String,
    },
    /// A peer can't be reached, or is gone.
    #[error(transparent)]
    Broken(#[from] Fault),
}

impl FabricError {
    /// A failed call: what was being done and what the system answered.
    pub fn failed(what: impl Into<String>, reason: impl std::fmt::Display) -> FabricError {
        FabricError::Failed { what: what.into(), reason: reason.to_string() }
    }

    /// Memory that could not be registered, for which most devices lock it: the reason is often the limit of that.
    pub fn unregistered(what: impl Into<String>, reason: impl std::fmt::Display) -> FabricError {
        let limit = getrlimit(Resource::Memlock).current;
        let limit = limit.map_or_else(|| "unlimited".into(), |bytes| format!("{bytes} bytes"));
        let reason = format!("{reason}; the limit of locked memory (RLIMIT_MEMLOCK, ulimit -l) is {limit}");
        FabricError::failed(what, reason)
    }
}

/// A peer that can't be reached any more, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{peer}: {reason}")]
pub struct Fault {
    /// The peer.
    pub peer: Peer,
    /// What the transport saw.
    pub reason: String,
}

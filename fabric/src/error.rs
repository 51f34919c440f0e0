//! The one error type of the transports, and the fault of a broken peer.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::Peer;

/// The reason why a transport failed. It names the peer where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The transport does not exist on this machine: a library, device or right is missing.
    #[error("{transport} is not available: {reason}")]
    Unavailable {
        /// The transport's name.
        transport: &'static str,
        /// The missing part, and how to get it.
        reason: String,
    },
    /// A call of the operating system or of the provider's library failed.
    #[error("{what}: {reason}")]
    Failed {
        /// The action, with its numbers.
        what: String,
        /// The system's answer.
        reason: String,
    },
    /// A peer can't be reached, or is gone.
    #[error(transparent)]
    Broken(#[from] Fault),
}

impl FabricError {
    /// A failed call: the action and the system's answer.
    pub fn failed(what: impl Into<String>, reason: impl std::fmt::Display) -> FabricError {
        FabricError::Failed { what: what.into(), reason: reason.to_string() }
    }

    /// Memory that could not be registered. Most devices lock registered memory, so the reason is
    /// often the limit of locked memory.
    pub fn unregistered(what: impl Into<String>, reason: impl std::fmt::Display) -> FabricError {
        let limit = getrlimit(Resource::Memlock).current;
        let limit = limit.map_or_else(|| "unlimited".into(), |bytes| format!("{bytes} bytes"));
        let reason = format!("{reason}; the limit of locked memory (RLIMIT_MEMLOCK, ulimit -l) is {limit}");
        FabricError::failed(what, reason)
    }
}

/// A library's reason for a failed call, with the limit of open files where that is the cause.
pub fn with_limit(reason: impl std::fmt::Display, errno: i32) -> String {
    if ![Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()].contains(&errno) {
        return reason.to_string();
    }
    let limit = getrlimit(Resource::Nofile).current.map_or_else(|| "none".into(), |limit| limit.to_string());
    format!("{reason}; the limit of open files (RLIMIT_NOFILE, ulimit -n) is {limit}")
}

/// A peer that can't be reached any more, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{peer}: {reason}")]
pub struct Fault {
    /// The peer.
    pub peer: Peer,
    /// The transport's observation.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_name_the_limit() {
        assert_eq!(with_limit("refused", Errno::CONNREFUSED.raw_os_error()), "refused");
        let said = with_limit("Too many open files", Errno::MFILE.raw_os_error());
        assert!(said.starts_with("Too many open files; the limit of open files (RLIMIT_NOFILE"), "{said}");
    }
}

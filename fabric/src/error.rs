//! The one error type of the transports, the fault of an unreachable peer, and the causes of both.
//! `{}` displays the error alone, and `{:#}` also displays its sources.

use std::error::Error;
use std::{fmt, io};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::{Peer, Reason};

/// The failure of a transport. The enum and [`Cause`] are exhaustive, so that translations by the
/// crates above cover each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricError {
    /// The transport does not exist on this machine: a library, device or right is missing.
    Unavailable {
        /// The transport's name.
        transport: &'static str,
        /// The missing part, and how to get it.
        cause: Cause,
    },
    /// A call of the operating system or of the provider's library failed.
    Failed {
        /// The action, with its numbers.
        what: String,
        /// The answer.
        cause: Cause,
    },
    /// A peer can't be reached, or has ended.
    Broken(Fault),
}

/// The cause of a failure, by the party that reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel's error number.
    System(Errno),
    /// An error of a network library.
    Library {
        /// The library's name.
        library: &'static str,
        /// The library's number for the error.
        code: i64,
        /// The library's text for the error.
        text: String,
    },
    /// A limit of the process is the probable reason.
    Limited {
        /// The resource, and where its limit is set.
        resource: &'static str,
        /// The limit; `None` where there is none.
        limit: Option<u64>,
        /// The answer of the system or the library.
        cause: Box<Cause>,
    },
    /// An error of the standard library that has no error number of the kernel.
    Io(io::ErrorKind),
    /// A rule of the transport itself.
    Refused(Reason),
    /// The setup of this machine: a library, device, right or setting is missing. The text is for
    /// administrators, and covers all transports that were tried.
    Setup(String),
    /// The peer's answer, which the layer above decodes.
    Answer([u64; 4]),
    /// The error of a step of the action.
    Within(Box<FabricError>),
}

/// The failure of a peer: it has become unreachable, or has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The peer.
    pub peer: Peer,
    /// The cause that the transport has observed.
    pub cause: Cause,
}

impl FabricError {
    /// A failed call: the action and the answer.
    pub fn failed(what: impl Into<String>, cause: impl Into<Cause>) -> FabricError {
        FabricError::Failed { what: what.into(), cause: cause.into() }
    }

    /// A transport that this machine lacks.
    pub fn unavailable(transport: &'static str, cause: impl Into<Cause>) -> FabricError {
        FabricError::Unavailable { transport, cause: cause.into() }
    }

    /// Memory that could not be registered. Most devices lock registered memory, so the cause is
    /// often the limit of locked memory.
    pub fn unregistered(what: impl Into<String>, cause: impl Into<Cause>) -> FabricError {
        let resource = "locked memory in bytes (RLIMIT_MEMLOCK, ulimit -l)";
        let limit = getrlimit(Resource::Memlock).current;
        FabricError::failed(what, Cause::Limited { resource, limit, cause: Box::new(cause.into()) })
    }
}

impl Cause {
    /// An error of a library. `errno` is `code` as an error number of the kernel. If it means too
    /// many open files, the result names the limit of open files.
    pub fn library(library: &'static str, code: i64, text: impl Into<String>, errno: i32) -> Cause {
        let cause = Cause::Library { library, code, text: text.into() };
        if ![Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()].contains(&errno) {
            return cause;
        }
        let resource = "open files (RLIMIT_NOFILE, ulimit -n)";
        Cause::Limited { resource, limit: getrlimit(Resource::Nofile).current, cause: Box::new(cause) }
    }

    /// The text of [`Cause::Limited`], without that of its source.
    pub fn limit_text(resource: &str, limit: Option<u64>) -> String {
        match limit {
            Some(limit) => format!("the limit of {resource} is {limit}"),
            None => format!("there is no limit of {resource}"),
        }
    }
}

impl Fault {
    /// A fault of `peer`.
    pub fn new(peer: Peer, cause: impl Into<Cause>) -> Fault {
        Fault { peer, cause: cause.into() }
    }
}

impl Error for FabricError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FabricError::Unavailable { cause, .. } | FabricError::Failed { cause, .. } => Some(cause),
            FabricError::Broken(fault) => fault.source(),
        }
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Cause::Limited { cause, .. } => Some(cause),
            // Displayed as the text of the error, so the next layer is the source of the error.
            Cause::Within(error) => error.source(),
            Cause::System(_)
            | Cause::Library { .. }
            | Cause::Io(_)
            | Cause::Refused(_)
            | Cause::Setup(_)
            | Cause::Answer(_) => None,
        }
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricError::Unavailable { transport, .. } => write!(f, "{transport} is not available")?,
            FabricError::Failed { what, .. } => f.write_str(what)?,
            FabricError::Broken(fault) => write!(f, "{}", fault.peer)?,
        }
        write_sources(self, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::System(errno) => write!(f, "{}", io::Error::from(*errno))?,
            Cause::Library { text, .. } => f.write_str(text)?,
            Cause::Limited { resource, limit, .. } => f.write_str(&Cause::limit_text(resource, *limit))?,
            Cause::Io(kind) => write!(f, "{kind}")?,
            Cause::Refused(reason) => write!(f, "{reason}")?,
            Cause::Setup(text) => f.write_str(text)?,
            Cause::Answer(words) => write!(f, "the peer's answer {words:?}")?,
            Cause::Within(error) => write!(f, "{error}")?,
        }
        write_sources(self, f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.peer)?;
        write_sources(self, f)
    }
}

/// Writes the sources of an error, each after a colon, if the alternate form is requested.
///
/// # Errors
/// Those of the formatter.
pub fn write_sources(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut next = error.source().filter(|_| f.alternate());
    while let Some(layer) = next {
        write!(f, ": {layer}")?;
        next = layer.source();
    }
    Ok(())
}

impl From<Fault> for FabricError {
    fn from(fault: Fault) -> FabricError {
        FabricError::Broken(fault)
    }
}

impl From<FabricError> for Cause {
    fn from(error: FabricError) -> Cause {
        Cause::Within(Box::new(error))
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Cause {
        Cause::System(errno)
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Cause {
        Errno::from_io_error(&error).map_or_else(|| Cause::Io(error.kind()), Cause::System)
    }
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Cause {
        Cause::Refused(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_too_many_open_files_names_the_limit() {
        let refused = Cause::library("libfabric", -111, "refused", Errno::CONNREFUSED.raw_os_error());
        assert_eq!(format!("{refused:#}"), "refused");
        let cause = Cause::library("libfabric", -24, "Too many open files", Errno::MFILE.raw_os_error());
        assert!(cause.to_string().starts_with("the limit of open files (RLIMIT_NOFILE, ulimit -n) is"), "{cause}");
        assert!(format!("{cause:#}").ends_with(": Too many open files"), "{cause:#}");
    }

    #[test]
    fn each_layer_is_displayed_once() {
        let inner = FabricError::failed("fstat of the heap", Errno::NOMEM);
        let error = FabricError::failed("a connection to rank 3", inner);
        let mut layers = vec![error.to_string()];
        let mut next = error.source();
        while let Some(layer) = next {
            layers.push(layer.to_string());
            next = layer.source();
        }
        let nomem = io::Error::from(Errno::NOMEM).to_string();
        assert_eq!(layers, ["a connection to rank 3", "fstat of the heap", &*nomem]);
        assert_eq!(format!("{error:#}"), layers.join(": "));
        let fault = Fault::new(Peer(2), Reason::Died);
        assert_eq!(format!("{:#}", FabricError::from(fault)), "rank 2: the rank's process has ended");
    }
}

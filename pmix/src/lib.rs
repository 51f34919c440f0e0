//! libpmix as the way to a launcher that speaks PMIx: Open MPI's `mpirun`, PRRTE's `prterun`,
//! `srun --mpi=pmix`.
//!
//! The library is opened at run time, so that programs start without it. Only a small part is used:
//! a key-value store of byte strings by rank, a fence that distributes earlier puts, and the ways
//! to leave. Independent of its callers; libpmix reads the environment, this crate does not.

#[allow(unsafe_code)]
mod client;
#[allow(unsafe_code)]
mod library;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

pub use client::Client;
pub use library::SONAME;

/// The version string of the installed libpmix. No launcher is contacted.
///
/// # Errors
/// `Unavailable`, with instructions to install it.
pub fn version() -> Result<String, Error> {
    library::Library::open(SONAME).map(|library| library.version())
}

/// The reason why a call of libpmix failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library is not installed, or lacks a function.
    #[error(
        "there is no other way to it than libpmix: {reason}; on Debian: apt-get install libpmix2, elsewhere name its folder in \
         LD_LIBRARY_PATH"
    )]
    Unavailable {
        /// The loader's message.
        reason: String,
    },
    /// A function returned an error.
    #[error("{during} failed: {text} ({status})")]
    Failed {
        /// The function.
        during: &'static str,
        /// The returned number.
        status: i32,
        /// The number as PMIx's text.
        text: String,
    },
    /// A value does not have the requested type.
    #[error("the value of {key:?} has PMIx's type {found}, not {expected}")]
    Type {
        /// The key.
        key: String,
        /// Its value's type.
        found: u16,
        /// The requested type.
        expected: u16,
    },
}

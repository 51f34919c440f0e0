//! libpmix as the way to a launcher that speaks PMIx: Open MPI's `mpirun`, PRRTE's `prterun`, `srun --mpi=pmix`.
//!
//! The library is opened at run time, so that programs start where it is missing. What is used is little:
//! a key-value store of byte strings by rank, a fence that spreads what was put before it, and how to leave.
//! Knows nothing of who asks, and reads no variable itself: libpmix does.

#[allow(unsafe_code)]
mod client;
#[allow(unsafe_code)]
mod library;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

pub use client::Client;
pub use library::SONAME;

/// What the installed libpmix says that it is. It asks no launcher.
///
/// # Errors
/// `Unavailable`, with how to get it.
pub fn version() -> Result<String, Error> {
    library::Library::open(SONAME).map(|library| library.version())
}

/// Why libpmix did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library is not installed, or lacks a function.
    #[error(
        "there is no other way to it than libpmix: {reason}; on Debian: apt-get install libpmix2, elsewhere name its folder in \
         LD_LIBRARY_PATH"
    )]
    Unavailable {
        /// What the loader said.
        reason: String,
    },
    /// A function answered with an error.
    #[error("{during} failed: {text} ({status})")]
    Failed {
        /// The function.
        during: &'static str,
        /// The number that it answered.
        status: i32,
        /// The number in PMIx's words.
        text: String,
    },
    /// A value of another type than asked for.
    #[error("the value of {key:?} has PMIx's type {found}, not {expected}")]
    Type {
        /// The key.
        key: String,
        /// Its value's type.
        found: u16,
        /// The type that it should have.
        expected: u16,
    },
}

//! Why a call of libpmix failed.

/// The reason why a call of libpmix failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library is not installed, or lacks a function.
    #[error(
        "libpmix, which connects a process to a PMIx launcher, can't be loaded: {reason}; on Debian: apt-get install \
         libpmix2, elsewhere name the folder of libpmix in LD_LIBRARY_PATH"
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
    #[error("the value of {key:?} has PMIx type {found}, and type {expected} is needed")]
    Type {
        /// The key.
        key: String,
        /// Its value's type.
        found: u16,
        /// The requested type.
        expected: u16,
    },
}

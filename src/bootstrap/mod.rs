//! The start of a rank: its number in the job, and the exchange of a few bytes with the other ranks
//! before a transport exists. Contains the [`Bootstrap`] trait, its implementations, and the choice
//! among them. Knows the environments of launchers; independent of windows, transports and memory.

#[doc(hidden)]
pub mod counted;
mod detect;
mod error;
pub(crate) mod fields;
mod gather;
#[allow(unsafe_code)]
mod inherited;
pub(crate) mod lines;
#[doc(hidden)]
pub mod local;
mod mapping;
pub mod pmi1;
pub mod pmix;
pub mod solo;

pub use detect::{detect, is_launched};
pub use error::{BootstrapError, PmixError};
pub use gather::MAX_GATHERED;
pub(crate) use gather::gather;

use std::fmt::Debug;

/// A rank's connection to the starter of the job: its place in the job, a key-value store that all
/// ranks share, a barrier, and the two ways to leave.
///
/// A key is written only once in a job's life, by one rank; this rule is common to PMI-1 and PMIx.
/// Every rank can get a value after the barrier that follows the put.
pub trait Bootstrap: Send + Debug {
    /// This rank, from 0 to `size() - 1`.
    fn rank(&self) -> usize;

    /// The number of ranks in the job, at least 1.
    fn size(&self) -> usize;

    /// The longest value of [`put`](Self::put) in bytes, equal at all ranks.
    fn value_limit(&self) -> usize;

    /// The ranks of this rank's machine as claimed by the launcher, itself included, ascending. A
    /// caller that relies on the claim must verify it. All ranks of a machine get the same answer,
    /// or only themselves.
    ///
    /// # Errors
    /// The launcher is gone.
    fn neighbours(&mut self) -> Result<Vec<usize>, BootstrapError> {
        Ok(vec![self.rank()])
    }

    /// Puts `value` under `key`, for gets by other ranks after the next barrier. Keys are 1 to 63
    /// printable ASCII characters without space or `=`.
    ///
    /// # Errors
    /// A malformed key or one that was put before, a value longer than
    /// [`value_limit`](Self::value_limit), a launcher that is gone.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError>;

    /// Waits until every rank of the job has arrived. Collective.
    ///
    /// # Errors
    /// A launcher that is gone, or a connection that is finalized.
    fn barrier(&mut self) -> Result<(), BootstrapError>;

    /// The value that rank `from` put under `key` before the last barrier; `None` if the rank put
    /// none.
    ///
    /// # Errors
    /// A value that was not put through this trait, a launcher that is gone.
    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError>;

    /// Leaves the job in good order. Every later call except `rank` and `size` is an error. A
    /// launcher treats a rank that exits without this call as failed.
    ///
    /// # Errors
    /// A launcher that is gone.
    fn finalize(&mut self) -> Result<(), BootstrapError>;

    /// Asks the launcher to end all ranks and to exit with `code` (1 where `code` is 0 modulo 256),
    /// with the reason `why`. The call returns, so that the caller can end its own process.
    ///
    /// # Errors
    /// A launcher that is gone.
    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError>;

    /// Returns the values of all ranks, by rank, to every rank. Collective. Takes O(log p) puts,
    /// barriers and gets at each rank, and one more request for each further fragment of
    /// [`value_limit`](Self::value_limit) bytes of the compressed values. Values have up to
    /// [`MAX_GATHERED`] bytes and may differ in length. `name` (1 to 40 characters of a key) is
    /// used once in the life of a job: the keys made from it cannot be written again.
    ///
    /// # Errors
    /// Those of `put`, `barrier` and `get`, a value that is too long, a rank that put no value
    /// under `name`.
    fn allgather(&mut self, name: &str, value: &[u8]) -> Result<Vec<Vec<u8>>, BootstrapError> {
        gather(self, name, value)?.all(self)
    }
}

/// The longest key in bytes; PMI-1's `keylen_max` of 64 counts a terminating zero.
pub(crate) const MAX_KEY: usize = 63;

/// Whether `key` may be used with every implementation.
fn check_key(key: &str) -> Result<(), BootstrapError> {
    let bad = |why: String| BootstrapError::BadKey { key: key.to_owned(), why };
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(bad(format!("a key has 1 to {MAX_KEY} bytes, and this one has {}", key.len())));
    }
    match key.chars().find(|c| !c.is_ascii_graphic() || *c == '=') {
        Some(c) => {
            Err(bad(format!("the character {c:?} is not allowed; a key is printable ASCII without space and '='")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_KEY, check_key};

    #[test]
    fn keys_of_every_implementation() {
        for key in ["a", "card.0.1", "A-b_c/(1)", &"k".repeat(MAX_KEY)] {
            assert!(check_key(key).is_ok(), "{key}");
        }
        for key in ["", "a b", "a=b", "ä", "a\n", &"k".repeat(MAX_KEY + 1)] {
            assert!(check_key(key).is_err(), "{key:?}");
        }
    }
}

//! libpmix as the way to a launcher that speaks PMIx: Open MPI's `mpirun`, PRRTE's `prterun`,
//! `srun --mpi=pmix`.
//!
//! The library is opened at run time, so that programs start without it. Only a small part is used:
//! a key-value store of byte strings by rank, a fence that distributes earlier puts, and the ways
//! to leave. Independent of its callers; libpmix reads the environment, this crate does not.

#[allow(unsafe_code)]
mod client;
mod error;
#[allow(unsafe_code)]
mod library;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

pub use client::Client;
pub use error::Error;
pub use library::{SONAME, version};

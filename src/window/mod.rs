//! Windows: memory of each rank that the others access (MPI §11.2).
//!
//! [`Window`] is the typed, safe form with epochs as closures; [`RawWindow`] the byte-level form with explicit calls.
//! Both are thin: [`core::Core`] holds a window's parts and does the operations.

mod access;
pub(crate) mod core;
mod create;
mod element;
#[allow(unsafe_code)]
mod raw;
mod target;
#[allow(unsafe_code)]
mod typed;

pub use access::{Access, FenceEpoch, LockAllEpoch};
pub use element::{RmaElem, RmaInt};
pub use raw::{Fence, IntType, Op, RawWindow};
pub use target::Flavor;
pub use typed::Window;

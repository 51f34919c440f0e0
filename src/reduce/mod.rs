//! The computation of accumulates: the predefined types and operations, the table of allowed pairs,
//! and the loops that apply operations to bytes. Must not know windows, epochs, transports, or
//! concurrent accesses to memory: callers provide atomicity and order.
//!
//! An accumulate, `fetch_and_op` or compare-and-swap works on elements of one predefined type,
//! named by [`BasicType`], by one predefined operation, named by [`Op`]; [`Op::allows`] is the
//! table of pairs that MPI defines. In typed code an element implements [`Element`], the operations
//! are the types of [`ops`], and a pair outside the table does not compile.
//!
//! The table is in MPI-4.1 §6.9.2, MAXLOC and MINLOC are in §6.9.4, REPLACE and NO_OP in §12.3.4.
//! This module defines the cases that MPI leaves open:
//! - Sums and products of integers wrap.
//! - MAX and MIN of floats do not depend on the order of the operands: NaN wins against every
//!   number, and -0 is smaller than +0. Of two NaN values the target keeps its own.
//! - MAXLOC treats NaN as the largest value, and MINLOC as the smallest. Two NaN are equal, and so
//!   are zeros of either sign. Both move whole elements; of two with equal value and index the
//!   target keeps its own.
//! - Any nonzero element is true to LAND, LOR and LXOR; their result is 1 or 0.
//! - The bits of a NaN that is the result of a sum or product are unspecified.

mod compare_swap;
mod elements;
#[doc(hidden)]
pub mod foreign;
pub(crate) mod kernel;
mod op;
pub mod ops;
#[cfg(test)]
mod tests;
mod types;

pub use compare_swap::CompareSwap;
pub use elements::{DoubleInt, Element, FloatInt, Logical, LongInt, RawByte, ShortInt, TwoInt};
pub use op::Op;
pub use types::BasicType;

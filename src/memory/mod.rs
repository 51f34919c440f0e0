//! The effect of operations on memory, independent of the transport. Origins on mapped memory and
//! targets of messages share this code, so that both have the same effect.
//!
//! | module | owns |
//! |---|---|
//! | `accumulate` | atomic accumulates; `scattered`: on pieces that are not contiguous; `in_memory`: with operands in memory that peers write |
//! | `attached` | the attached regions of a dynamic window |
//! | `layout` | the layouts of both sides of an operation |

pub(crate) mod accumulate;
pub(crate) mod attached;
pub(crate) mod layout;

//! The effect of operations on memory, independent of the transport. Origins on mapped memory and
//! targets of messages share this code, so that both have the same effect.
//!
//! | module | owns |
//! |---|---|
//! | `accumulate` | atomic accumulates; in `scattered` those on pieces that are not contiguous |
//! | `attached` | the attached regions of a dynamic window |
//! | `layout` | the layouts of both sides of an operation |

pub(crate) mod accumulate;
pub(crate) mod attached;
pub(crate) mod layout;

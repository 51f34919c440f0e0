//! The effect of operations on memory, independent of the transport: atomic accumulates, and the
//! layouts of both sides. Origins on mapped memory and targets of messages share this code, so that
//! both have the same effect.

pub(crate) mod accumulate;
pub(crate) mod attached;
pub(crate) mod layout;

//! The effect of operations on memory, apart from the way to it: atomic accumulates, and the
//! layouts of their sides. Origins on mapped memory and targets of messages share this code, so
//! that both have the same effect.

pub(crate) mod accumulate;
pub(crate) mod attached;
pub(crate) mod layout;

//! The effect of operations on memory, apart from the way to it: atomic accumulates, and cursors
//! that walk several layouts together. Origins on mapped memory and targets of messages share this
//! code, so that both have the same effect.

pub(crate) mod accumulate;
pub(crate) mod attached;
pub(crate) mod layout;
pub(crate) mod stream;

//! Synchronization protocols, written once over remote words and messages.

pub(crate) mod barrier;

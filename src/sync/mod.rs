//! Synchronization protocols, written once over remote words and messages.

pub(crate) mod barrier;
pub(crate) mod counters;
pub(crate) mod lock;
pub(crate) mod notices;
pub(crate) mod stripe;
pub(crate) mod words;

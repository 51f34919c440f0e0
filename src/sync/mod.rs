//! Synchronization between ranks, below windows. `words` and `counters` say where the words of a
//! window lie. `barrier`, `lock` and `pscw_words` are protocols over such words or over messages,
//! and know neither epochs nor transports. `stripe` makes accumulates atomic.

pub(crate) mod barrier;
pub(crate) mod counters;
pub(crate) mod lock;
pub(crate) mod pscw_words;
pub(crate) mod stripe;
pub(crate) mod words;

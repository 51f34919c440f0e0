//! What operations do to memory, apart from how they reach it: accumulates that are atomic for each element, and the cursors
//! that walk several layouts at once. Used by origins on mapped memory and by targets on messages, so that both
//! do the same (DESIGN §3).

pub(crate) mod accumulate;
pub(crate) mod attached;
pub(crate) mod layout;
pub(crate) mod stream;

//! Windows: memory of each rank that the others access (MPI-4.1 §12.2).
//!
//! [`Window`] is the typed, safe form with epochs as closures; [`RawWindow`] is the byte-level form
//! with explicit calls. Both are thin: operations are methods of [`parts::Parts`], synchronization
//! calls are methods of [`core::Core`].

// Parts and targets, from the creation of a window to its end.
mod active_hints;
mod agreement;
mod allocation;
mod available_memory;
mod create;
mod dynamic;
mod keys;
mod model;
mod own;
mod parts;
mod permit;
mod segment;
mod shared;
mod target;
mod targets;

// Operations: what puts, gets and accumulates have in common, and those on mapped memory.
mod accumulate;
mod accumulate_mapped;
mod collective;
mod compare_swap_bytes;
mod layouts;
mod start_atomics;
mod transfer;

// Operations by posts, by the kernel's copies, and by messages.
mod accumulate_net;
mod kernel_copies;
mod packing;
mod posted;
mod staged;

// Notified operations, and requests.
mod notices;
mod notify;
mod request;
mod shortcut;
mod thresholds;

// Synchronization: epochs, locks, flushes.
pub(crate) mod core;
mod delayed_lock;
mod drain;
mod epoch_state;
mod flush;
mod lock;
mod lock_words;
mod pscw;

// The conflict checker.
mod checked;
mod lent;
mod unreported;

// Typed and raw calls.
mod access;
mod access_notify;
mod element;
mod epochs;
mod passive;
#[allow(unsafe_code)]
mod raw;
#[allow(unsafe_code)]
mod typed;

pub use access::Access;
pub use allocation::Allocation;
pub use element::RmaElem;
pub use epochs::{FenceEpoch, LockAllEpoch, LockEpoch, StartEpoch};
pub use lock::Lock;
pub use notices::{Notice, Notices};
pub use passive::Passive;
pub use raw::{Assert, At, Items, RawWindow};
pub use request::{AnyRequest, BufferRequest, Request};
pub use shared::SharedPart;
pub use typed::Window;
pub use unreported::Unreported;

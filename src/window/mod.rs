//! Windows: memory of each rank that the others access (MPI-4.1 §12.2).
//!
//! [`Window`] is the typed, safe form with epochs as closures; [`RawWindow`] is the byte-level form
//! with explicit calls. Both are thin: operations are methods of [`parts::Parts`], synchronization
//! calls are methods of [`core::Core`].

mod access;
mod access_notify;
mod accumulate;
mod accumulate_mapped;
mod accumulate_net;
mod active_hints;
mod agreement;
mod allocation;
mod available_memory;
mod checked;
mod collective;
mod compare_swap_bytes;
mod completion;
mod completions;
pub(crate) mod core;
mod create;
mod delayed_lock;
mod drain;
mod dynamic;
mod element;
mod epoch_state;
mod epochs;
mod kernel_copies;
mod keys;
mod layouts;
mod lent;
mod lock;
mod lock_words;
mod model;
mod notices;
mod notify;
mod own;
mod packing;
mod parts;
mod permit;
mod posted;
mod pscw;
#[allow(unsafe_code)]
mod raw;
mod request;
mod segment;
mod shared;
mod shortcut;
mod staged;
mod start_atomics;
mod target;
mod targets;
mod thresholds;
mod transfer;
#[allow(unsafe_code)]
mod typed;

pub use access::{Access, Passive};
pub use allocation::Allocation;
pub use completions::Completions;
pub use element::RmaElem;
pub use epochs::{FenceEpoch, LockAllEpoch, LockEpoch, StartEpoch};
pub use lock::Lock;
pub use notices::{Notice, Notices};
pub use raw::{Assert, At, Items, RawWindow};
pub use request::{AnyRequest, BufferRequest, Request};
pub use shared::SharedPart;
pub use typed::Window;

//! The transport contract: the interface between windows and the backends that carry their
//! operations. Independent of MPI.
//!
//! A backend implements three traits: [`Domain`] (an opened device or provider of this process),
//! [`Region`] (memory that peers may access) and [`Port`] (the access to the peers: puts, gets,
//! atomics, messages, progress). Epochs, displacement units, window kinds and errors of MPI belong
//! to the layer above; sockets, queues and mappings belong to the backends.
//!
//! - **A post** answers [`Post::Done`], [`Post::Pending`], [`Post::Again`] or [`Post::Broken`], and
//!   never blocks.
//! - **Completion** is counted by a [`Tally`], the number of outstanding operations, which the
//!   backend lowers when the *target* has the data.
//! - **A missing capability** of a region is `None` ([`Region::amo`], [`Port::direct`]). One of a
//!   whole port is in [`Limits`], for example [`Limits::immediates`].
//! - **Memory that others may write** is a [`Memory`], never a `&[u8]`.
//!
//! [`sim`] implements the contract inside one process and behaves as badly as the contract allows.
//! Every protocol is tested there first.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("transom runs on Linux, on x86-64 and AArch64 only");

mod amo;
pub mod backoff;
mod busy_locations;
#[allow(unsafe_code)]
mod combine;
#[allow(unsafe_code)]
mod contract;
#[allow(unsafe_code)]
mod copy;
pub mod devices;
pub mod diagnostics;
mod error;
mod failures;
pub mod gate;
mod keys;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod peer_map;
#[allow(unsafe_code)]
mod places;
mod reason;
#[allow(unsafe_code)]
mod row;
pub mod secret;
pub mod share;
pub mod sim;
mod streams;
mod tally;
pub mod threads;
mod wake;

pub use amo::{Amo, AmoKind, Coherence, Width};
pub use busy_locations::{BusyLocations, PostingThread};
pub use contract::{Awaited, Domain, Handler, Immediate, Immediates, Limits, Port, Region, RegionKey};
pub use copy::is_close_behind;
pub use error::{Cause, FabricError, Fault, write_sources};
pub use failures::Failure;
pub use keys::{KeyChoice, KeyRange, Keys};
pub use memory::{Blocks, Memory, Span, WeakMemory};
pub use peer_map::{Keyed, PeerMap};
pub use places::Places;
pub use reason::Reason;
pub use row::{Row, Word};
pub use streams::{above_streams, fill_streams};
pub use tally::{Post, Tally, TallyRef};
pub use wake::{Slept, Wake};

/// A process of the job, by its rank in the job, 0-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

impl Peer {
    /// The rank as an index into a slice.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

//! The simulated net, an adversarial backend: ranks are threads of one process, and the network
//! between them behaves as badly as the contract allows. This module owns the options, the counters
//! and the ways to break ranks; it must not know any protocol of the layers above.
//!
//! A posted operation is invisible at the target until a later [`crate::Port::progress`] applies
//! it, piece by piece and in any order relative to all other operations. A zero-copy put reads its
//! origin buffer only then, a get fills its buffer with `0xA5` first, completions come a step after
//! the application, messages overtake each other, and any post may answer [`crate::Post::Again`]. A
//! seed reproduces a run of a single thread exactly.

#[allow(unsafe_code)]
mod apply;
mod domain;
mod faults;
mod flight;
mod net;
mod state;

use std::time::Duration;

use crate::{AmoKind, Coherence, Immediates, KeyChoice, KeyRange, Limits, Width};

pub use apply::SimPort;
pub use domain::{SimDomain, SimRegion, SimRemote};
pub use net::SimNet;

/// The atomics that a net performs on regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimAmo {
    /// Every kind at both widths.
    All(Coherence),
    /// All but replace, on 64-bit words only: RDMA verbs.
    Only64(Coherence),
    /// None.
    None,
}

impl SimAmo {
    /// The answer of [`crate::Region::amo`].
    pub fn coherence(self, kind: AmoKind, width: Width) -> Option<Coherence> {
        match (self, width) {
            (SimAmo::All(coherence), _) => Some(coherence),
            (SimAmo::Only64(coherence), Width::W64) if kind != AmoKind::Replace => Some(coherence),
            _ => None,
        }
    }
}

/// The behaviour of a net. The default is hostile, with small limits, so that callers must cut long
/// transfers.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Largest number of progress steps for which a piece, a completion or a message is in flight.
    pub delay: u32,
    /// One post in `again_one_in` answers `Again`; 0: none does. 1 is not allowed, because no post
    /// would ever be accepted.
    pub again_one_in: u32,
    /// One post in `done_one_in` is complete when the call returns and answers `Done`, where
    /// `passive_target` allows it; 0: none is.
    pub done_one_in: u32,
    /// Operations and messages overtake each other, and long ones are applied in several pieces.
    pub reorder: bool,
    /// A piece may end inside an aligned word. `false`: aligned 8-byte words appear whole.
    pub tear_words: bool,
    /// Whether the progress of any rank may apply an operation. `false`: only that of the target.
    pub passive_target: bool,
    /// The longest inline put, in bytes.
    pub inline_max: usize,
    /// The longest packed put and the longest scattered get, in bytes.
    pub packed_max: usize,
    /// The [`Limits::copied_max`] that the port reports; the simulator itself copies nothing.
    pub copied_max: usize,
    /// The longest zero-copy put and the longest get, in bytes.
    pub transfer_max: usize,
    /// The most parts of a list.
    pub list_max: usize,
    /// The longest message, in bytes.
    pub message_max: usize,
    /// The delivery and the order of messages and operations.
    pub delivery: SimDelivery,
    /// The atomics of regions.
    pub amo: SimAmo,
    /// The number of regions, and their keys.
    pub regions: SimRegions,
}

/// The delivery of messages by a net, the order that it keeps between messages, atomics and puts,
/// and the operations that ranks hold back.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimDelivery {
    /// The most messages that wait for a receiver; further sends answer `Again`. `None`: no limit.
    pub most: Option<usize>,
    /// The most messages of a sender that are in flight. Receivers share these slots
    /// ([`crate::share`]), and messages to a rank that takes none stay in flight. `None`: no limit.
    pub slots: Option<usize>,
    /// A message waits for the earlier puts of its sender to the receiver.
    pub ordered: bool,
    /// The [`Limits::gathers`] that the port reports.
    pub gathers: bool,
    /// The [`Limits::combines`] that the port reports where `gathers` is false.
    pub combines: bool,
    /// An atomic waits for the puts that its origin posted to the same rank before.
    pub amos_ordered: bool,
    /// An atomic waits for the atomics that its origin posted to the same rank before.
    pub amos_in_order: bool,
    /// The [`Limits::immediates`] that ports report.
    pub immediates: Immediates,
    /// The only rank whose port has no [`crate::Port::put_immediate`] on a net with immediates.
    pub without_immediates: Option<u32>,
    /// The [`Limits::answers_wait`] that the port reports.
    pub answers_wait: Duration,
    /// A rank holds back its newest operation until it posts another one, calls
    /// [`crate::Port::release`], or makes progress, as over verbs. A put with an immediate is not
    /// held back.
    pub holds: bool,
}

/// The registration of memory with a net.
#[derive(Clone, Copy, Debug)]
pub struct SimRegions {
    /// The most regions of a rank at a time, as on devices with a limit; `None`: no limit.
    pub most: Option<usize>,
    /// The keys of regions.
    pub keys: KeyRange,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            seed: 0,
            delay: 3,
            again_one_in: 8,
            done_one_in: 8,
            reorder: true,
            tear_words: true,
            passive_target: true,
            inline_max: 24,
            packed_max: 100,
            copied_max: 0,
            transfer_max: 1000,
            list_max: 3,
            message_max: 128,
            delivery: SimDelivery::default(),
            amo: SimAmo::All(Coherence::WithCpu),
            regions: SimRegions { most: None, keys: KeyRange::PLENTY },
        }
    }
}

impl SimOptions {
    /// A net within the limits that libfabric's provider `cxi` documents (man fi_cxi), as the
    /// libfabric backend uses it. The device alone performs atomics. Atomics have one element and
    /// are not atomic with the CPU's. Operations are not ordered. Targets are served while they
    /// compute. Keys of regions are small numbers, which are reused; 100 of them are fast. An
    /// inline put has at most 192 bytes.
    pub fn like_cxi() -> SimOptions {
        SimOptions {
            inline_max: 192,
            packed_max: 4096,
            transfer_max: 1 << 30,
            list_max: 1,
            message_max: 16376,
            amo: SimAmo::All(Coherence::DeviceOnly),
            regions: SimRegions { most: None, keys: KeyRange { fast: 100, end: 1 << 32, choice: KeyChoice::Reused } },
            ..SimOptions::default()
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            inline_max: self.inline_max,
            packed_max: self.packed_max,
            copied_max: self.copied_max,
            transfer_max: self.transfer_max,
            list_max: self.list_max,
            message_max: self.message_max,
            passive_target: self.passive_target,
            ordered: self.delivery.ordered,
            gathers: self.delivery.gathers,
            combines: self.delivery.gathers || self.delivery.combines,
            amos_ordered: self.delivery.amos_ordered,
            amos_in_order: self.delivery.amos_in_order,
            immediates: self.delivery.immediates,
            answers_wait: self.delivery.answers_wait,
        }
    }
}

/// Accepted posts of a rank. Posts answered with `Again` or `Broken` do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Puts of all kinds: inline, packed, zero-copy and lists.
    pub puts: u64,
    /// Gets.
    pub gets: u64,
    /// Atomics.
    pub amos: u64,
    /// Messages.
    pub messages: u64,
    /// Messages, atomics and puts with an immediate that were posted while data of earlier puts of
    /// their origin to the same target was in flight, on a net that keeps this order.
    pub behind: u64,
    /// Bytes of all operations and messages; an atomic counts its width.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;

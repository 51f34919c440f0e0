//! The adversarial backend: ranks are threads of one process, and the network between them does its worst within the
//! contract. It owns the options, the counters and the way to break things; it must not know any protocol above it.
//!
//! What is posted is invisible at the target until some later [`crate::Port::progress`] applies it: piece by piece, in any order
//! relative to everything else. A zero-copy put reads its origin buffer only then, a get fills its buffer with `0xA5`
//! first, completions come a step after the application, messages overtake each other, and any post may answer
//! [`crate::Post::Again`]. What a single thread does is reproduced exactly by the same seed.

#[allow(unsafe_code)]
mod apply;
mod domain;
mod flight;
mod net;

use crate::{AmoKind, Coherence, KeyRange, Limits, Width};

pub use apply::SimPort;
pub use domain::{SimDomain, SimRegion, SimRemote};
pub use net::SimNet;

/// Which atomics a net's regions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimAmo {
    /// Every kind at both widths.
    All(Coherence),
    /// All but replacing, on 64-bit words only, as devices of RDMA verbs have them.
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

/// How a net behaves. The default is hostile, with small limits, so that callers must cut what they send.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The most steps of progress for which a piece, a completion or a message stays in flight.
    pub delay: u32,
    /// One post in so many answers `Again`; 0: none does. 1 is not allowed: nothing would ever be accepted.
    pub again_one_in: u32,
    /// One post in so many that may (see `passive_target`) is complete when the call returns and answers `Done`; 0: none is.
    pub done_one_in: u32,
    /// Operations and messages overtake each other, and long ones are applied in several pieces.
    pub reorder: bool,
    /// A piece may end inside an aligned word. `false`: aligned 8-byte words appear whole.
    pub tear_words: bool,
    /// Whose progress applies an operation: that of the origin and of anybody (`true`), or that of the target only.
    pub passive_target: bool,
    /// The longest inline put, in bytes.
    pub inline_max: usize,
    /// The longest packed put and the longest scattered get, in bytes.
    pub packed_max: usize,
    /// What the port says that it copies; it never does.
    pub copied_max: usize,
    /// The longest zero-copy put and the longest get, in bytes.
    pub transfer_max: usize,
    /// How many parts a list has at most.
    pub list_max: usize,
    /// The longest message, in bytes.
    pub message_max: usize,
    /// How many messages may wait for a rank before those who send to it are told `Again`.
    pub mailbox: Option<usize>,
    /// Which atomics there are.
    pub amo: SimAmo,
    /// How many regions a rank may have at a time, as on devices that count them.
    pub max_regions: Option<usize>,
    /// Which keys regions get.
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
            mailbox: None,
            amo: SimAmo::All(Coherence::WithCpu),
            max_regions: None,
            keys: KeyRange::PLENTY,
        }
    }
}

impl SimOptions {
    /// A net within the limits that libfabric's provider `cxi` documents (man fi_cxi), as the backend for libfabric serves it: the device
    /// alone performs atomics, of one element, which are not atomic with the CPU's; nothing is ordered; targets are served while they
    /// compute; regions have small numbers as keys, used again, of which 100 are the fast ones; inline are 192 bytes.
    pub fn like_cxi() -> SimOptions {
        SimOptions {
            inline_max: 192,
            packed_max: 4096,
            transfer_max: 1 << 30,
            list_max: 1,
            message_max: 16376,
            amo: SimAmo::All(Coherence::DeviceOnly),
            keys: KeyRange { fast: 100, end: 1 << 32, reused: true },
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
        }
    }
}

/// What a rank has posted so far. What was answered `Again` or `Broken` does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Puts of all three shapes.
    pub puts: u64,
    /// Gets.
    pub gets: u64,
    /// Atomics.
    pub amos: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of all of them together; an atomic counts its width.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;

//! The clocks that a rank learns when one of the host's requests is complete, for the conflict
//! checker. `messages` keeps them with the request, and merges them.

use std::ffi::c_int;

/// Sender or receiver, tag, and number of the communicator. The messages of a stream are received
/// in the order in which they are sent.
pub(super) type Stream = (usize, c_int, u64);

/// The clocks that this rank learns when a request is complete.
#[derive(Clone, Debug)]
pub(super) enum Learns {
    /// No clock of another rank. With a stream: each start of this persistent request sends a
    /// message of the stream.
    Send(Option<Stream>),
    /// The clock with which the receiver began to receive this message.
    Synchronous(Stream),
    Receive(Receive),
    /// The clocks with which these ranks entered a collective call.
    Collective {
        group: u64,
        turn: u64,
        ranks: Vec<usize>,
    },
    /// As `Collective`, or as `Any` if `turn` is 0. The communicator that the call stores at the
    /// address `out` gets the number `number`.
    Duplicate {
        out: usize,
        number: u64,
        group: u64,
        turn: u64,
        ranks: Vec<usize>,
    },
    /// The clocks that all ranks have released.
    Any,
}

/// A receive. Without a source or tag, it takes a message of any source or tag.
#[derive(Clone, Debug)]
pub(super) struct Receive {
    pub(super) source: Option<usize>,
    /// The ranks of the communicator, if the source is any of them.
    pub(super) sources: Vec<usize>,
    pub(super) tag: Option<c_int>,
    pub(super) group: u64,
}

impl Learns {
    /// Whether the host may return such a request as one that is complete from the start.
    pub(super) fn may_complete_at_once(&self) -> bool {
        matches!(self, Learns::Send(_) | Learns::Synchronous(_) | Learns::Collective { .. })
    }
}

impl Receive {
    pub(super) fn may_match(&self, rank: usize, tag: c_int, group: u64) -> bool {
        self.group == group
            && self.source.is_none_or(|source| source == rank)
            && self.tag.is_none_or(|its_tag| its_tag == tag)
    }

    /// Whether the source and the tag are known.
    pub(super) fn is_named(&self) -> bool {
        self.source.is_some() && self.tag.is_some()
    }
}

//! Why a transport itself refuses: one variant for each rule, with its numbers.

use std::time::Duration;

/// Why a transport refuses an operation, a connection or memory by its own rules, without an error
/// of the system or of a library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The peer published no address of a transport that this job has opened.
    #[error("no transport of this job reaches it")]
    NoTransport,
    /// The transport was not opened in this job.
    #[error("it was not opened in this job")]
    NotOpened,
    /// The peer was not connected before the call.
    #[error("it was not connected")]
    NotConnected,
    /// The connection to the peer broke before.
    #[error("its connection is broken")]
    BrokenConnection,
    /// The peer's process has ended.
    #[error("its process has ended")]
    Died,
    /// The peer's machine, or the network to it, does not answer.
    #[error("it can't be reached")]
    Unreachable,
    /// A message to the peer could not be sent. The call that sent it returned the cause.
    #[error("the message with the request could not be sent")]
    NotSent,
    /// A range that is not inside a peer's region.
    #[error("{length} bytes at {at} of a region of {limit} bytes")]
    Outside {
        /// The first byte.
        at: u64,
        /// The number of bytes.
        length: u64,
        /// The size of the region.
        limit: u64,
    },
    /// More bytes than one post or message takes.
    #[error("{length} bytes; one post takes at most {limit}")]
    TooLong {
        /// The number of bytes.
        length: usize,
        /// The most bytes.
        limit: usize,
    },
    /// More parts than one post takes.
    #[error("a list of {parts} parts; one post takes at most {limit}")]
    TooManyParts {
        /// The number of parts.
        parts: usize,
        /// The most parts.
        limit: usize,
    },
    /// The peer's address is of another transport, or of another version.
    #[error("{length} bytes that are not an address of this transport")]
    ForeignAddress {
        /// The length of the address.
        length: usize,
    },
    /// The key of a region is of another transport, or of another peer.
    #[error("the key is not one of the peer for this transport")]
    ForeignKey,
    /// The region is no longer registered.
    #[error("the region is not registered any more")]
    NotRegistered,
    /// The device can't register further regions.
    #[error("it has {regions} regions already, which is the limit")]
    NoRegion {
        /// The regions that it has.
        regions: usize,
    },
    /// The provider has no free key for memory.
    #[error("all keys that the provider has are in use")]
    NoKey,
    /// The heap has no free range of the length.
    #[error("no range of that length is free; {free} bytes are, in pieces")]
    Fragmented {
        /// The free bytes.
        free: u64,
    },
    /// The limit on the size of files is too low for a heap.
    #[error("RLIMIT_FSIZE allows files of {limit} bytes")]
    FileSize {
        /// The limit.
        limit: u64,
    },
    /// The heap, or the rank of a simulated net, has a domain already.
    #[error("it has a domain already")]
    Opened,
    /// The header of the heap has no room for the ring of messages.
    #[error("its header is too short for a ring")]
    NoRing,
    /// A peer beyond those that the transport can number.
    #[error("ranks are below {limit}")]
    RankLimit {
        /// The first rank that it can't number.
        limit: u32,
    },
    /// The ports of two ranks are of different link layers.
    #[error("one of the ports is InfiniBand, the other one Ethernet")]
    LinkLayers,
    /// The device does not perform the atomic, or no processor does on memory that is not mapped.
    #[error("no such atomic of {width} bytes reaches that memory")]
    NoAtomic {
        /// The width of the atomic in bytes.
        width: usize,
    },
    /// The peer does not take part in the handshake of a connection.
    #[error("it answered none of {requests} requests for a connection in {limit:?}")]
    NoAnswer {
        /// The requests.
        requests: u32,
        /// The time.
        limit: Duration,
    },
    /// An operation of a probe did not complete in time.
    #[error("nothing completed in {limit:?}")]
    Timeout {
        /// The time.
        limit: Duration,
    },
}

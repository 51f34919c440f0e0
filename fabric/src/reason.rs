//! The reasons for which a transport itself refuses: one variant for each rule, with its numbers.

use std::time::Duration;

/// A rule of a transport by which it refuses an operation, a connection or memory, without an error
/// of the system or of a library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The peer published no address of a transport that this job has opened.
    #[error("none of the transports that this job has opened reaches the rank")]
    NoTransport,
    /// The transport was not opened in this job.
    #[error("this job has not opened the transport")]
    NotOpened,
    /// The peer was not connected before the call.
    #[error("there is no connection to the rank")]
    NotConnected,
    /// The connection to the peer is broken.
    #[error("the connection to the rank is broken")]
    BrokenConnection,
    /// The peer's process has ended.
    #[error("the rank's process has ended")]
    Died,
    /// The peer's machine, or the network to it, does not answer.
    #[error("the rank can't be reached")]
    Unreachable,
    /// A message to the peer could not be sent. The call that sent it returned the cause.
    #[error("the message with the request could not be sent")]
    NotSent,
    /// A range that is not inside a peer's region.
    #[error("{length} bytes at offset {at} are outside the region, which has {limit} bytes")]
    Outside {
        /// The first byte.
        at: u64,
        /// The number of bytes.
        length: u64,
        /// The size of the region.
        limit: u64,
    },
    /// More bytes than one post or message takes.
    #[error("the operation has {length} bytes; one post takes at most {limit}")]
    TooLong {
        /// The number of bytes.
        length: usize,
        /// The most bytes.
        limit: usize,
    },
    /// More parts than one post takes.
    #[error("the list has {parts} parts; one post takes at most {limit}")]
    TooManyParts {
        /// The number of parts.
        parts: usize,
        /// The most parts.
        limit: usize,
    },
    /// The peer's address is of another transport, or of another version.
    #[error("the rank's address, of {length} bytes, is not an address of this transport")]
    ForeignAddress {
        /// The length of the address.
        length: usize,
    },
    /// The key of a region is of another transport, or of another peer.
    #[error("the region's key does not belong to this rank and transport")]
    ForeignKey,
    /// The region is no longer registered.
    #[error("the region is no longer registered")]
    NotRegistered,
    /// The device can't register further regions.
    #[error("the device's limit of {regions} regions is reached")]
    NoRegion {
        /// The regions that it has.
        regions: usize,
    },
    /// The provider has no free key for memory.
    #[error("all keys of the provider are in use")]
    NoKey,
    /// The heap has no free range of the length.
    #[error("the heap has {free} free bytes, but no free range of that length")]
    Fragmented {
        /// The free bytes.
        free: u64,
    },
    /// The limit on the size of files is too low for a heap.
    #[error("the limit of the size of files (RLIMIT_FSIZE) is {limit} bytes")]
    FileSize {
        /// The limit.
        limit: u64,
    },
    /// The heap, or the rank of a simulated net, has a domain already.
    #[error("a domain of this rank is open already")]
    Opened,
    /// The header of the heap has no room for the ring of messages.
    #[error("the heap's header is too short for a message ring")]
    NoRing,
    /// A peer beyond those that the transport can number.
    #[error("the transport supports only ranks below {limit}")]
    RankLimit {
        /// The first rank that it can't number.
        limit: u32,
    },
    /// The ports of two ranks are of different link layers.
    #[error("the port of one rank is InfiniBand, and the port of the other rank is Ethernet")]
    LinkLayers,
    /// The device does not perform the atomic, and this CPU can't because the memory is not mapped.
    #[error("neither the device nor this CPU can perform the atomic of {width} bytes on that memory")]
    NoAtomic {
        /// The width of the atomic in bytes.
        width: usize,
    },
    /// The transport's puts carry no number for the target's handler.
    #[error("the transport has no put with immediate data")]
    NoImmediates,
    /// The peer does not take part in the handshake of a connection.
    #[error(
        "the rank answered none of {requests} requests for a connection within {limit:?}; if packets do not pass \
         between the devices of both ranks, name others in TRANSOM_NET_DEVICES, or exclude verbs by \
         TRANSOM_TRANSPORTS=^verbs"
    )]
    NoAnswer {
        /// The requests.
        requests: u32,
        /// The time.
        limit: Duration,
    },
    /// An operation of a probe did not complete in time.
    #[error("no operation completed within {limit:?}")]
    Timeout {
        /// The time.
        limit: Duration,
    },
}

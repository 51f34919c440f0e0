//! The three traits of a backend. They are cut below MPI: bytes, offsets, peers and counts.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Amo, AmoKind, Coherence, FabricError, Fault, Memory, Peer, Post, Span, TallyRef, Width};

/// What peers need to reach a region: opaque to all but the backend that wrote it. Plain words, so that it can be
/// kept in shared memory and read by an RDMA read. All zero means "no region".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionKey(pub [u64; 4]);

/// What a port can take, in bytes, decided when it is opened.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest [`Port::put_inline`].
    pub inline_max: usize,
    /// The longest [`Port::put_packed`] and [`Port::get_scattered`].
    pub packed_max: usize,
    /// The longest [`Port::put`] and [`Port::get`] whose bytes go through a buffer of the port all the same, so that one
    /// packed put of several costs no copy more; at most `packed_max`.
    pub copied_max: usize,
    /// The longest single [`Port::put`] or [`Port::get`]; callers cut longer ones.
    pub transfer_max: usize,
    /// How many parts [`Port::put_list`] and [`Port::get_list`] take as one operation: 1 where that is no gain.
    pub list_max: usize,
    /// The longest message.
    pub message_max: usize,
    /// Puts, gets and atomics on this port's regions complete while its process makes no call (shown by a probe,
    /// not by what a provider says of itself). `false`: somebody must call [`Port::progress`] at the target.
    pub passive_target: bool,
}

/// An opened device or provider of this process.
pub trait Domain: Send + Sync + Debug + 'static {
    /// Memory that peers may access through this domain.
    type Region: Region;
    /// The way to the peers.
    type Port: Port;

    /// The port: one for each domain.
    fn port(&self) -> &Self::Port;

    /// Lets peers access `memory`, which stays as long as the region does.
    ///
    /// # Errors
    /// The system's or provider's refusal, with the length and address that were asked for.
    fn register(&self, memory: &Memory) -> Result<Self::Region, FabricError>;
}

/// Memory that peers may access. Dropping it ends their access; the caller has made sure that none is under way.
pub trait Region: Send + Sync + Debug + 'static {
    /// What peers hand to [`Port::import`].
    fn key(&self) -> RegionKey;

    /// Whether peers can perform this atomic on the region, and with what else it is atomic.
    fn amo(&self, kind: AmoKind, width: Width) -> Option<Coherence>;
}

/// Takes what arrives. Called inside [`Port::progress`], from any thread that makes progress; it must not block
/// and not call `progress`, but it may post (and must keep what is answered [`Post::Again`] for later).
pub trait Handler {
    /// A message from `from`. The bytes are valid during the call only.
    fn message(&self, from: Peer, bytes: &[u8]);
}

/// The way to the peers. All methods may be called from several threads at once.
///
/// Nothing is ordered: neither two operations to one target nor a message after a put, unless the caller waited for
/// the first one's [`Tally`](crate::Tally). A count that falls means: *the target has it* (any process that then looks sees it), and
/// the origin's buffer is free again.
///
/// Offsets and lengths are bytes within the remote region, checked by the caller against the window's size; backends
/// check them against the region again where that costs nothing.
pub trait Port: Send + Sync + Debug + 'static {
    /// A peer's region, ready for use.
    type Remote: Send + Sync + Debug + 'static;

    /// What this port takes.
    fn limits(&self) -> &Limits;

    /// What peers hand to [`Port::connect`]; at most 256 bytes.
    fn address(&self) -> Vec<u8>;

    /// Makes a peer reachable. Doing it again for the same peer changes nothing.
    ///
    /// # Errors
    /// The peer can't be reached, with the reason; for shared memory: its memory can't be mapped here.
    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError>;

    /// A region of a connected peer, from the key that the peer published.
    ///
    /// # Errors
    /// The key is not one of this backend, the peer is not connected, or the system refuses.
    fn import(&self, peer: Peer, key: &RegionKey) -> Result<Self::Remote, FabricError>;

    /// The region as memory of this process, where load and store reach it.
    fn direct<'r>(&self, remote: &'r Self::Remote) -> Option<&'r Memory>;

    /// Whether an atomic on this region can be posted from here, and with what else it is atomic.
    fn amo_on(&self, remote: &Self::Remote, kind: AmoKind, width: Width) -> Option<Coherence>;

    /// Puts at most [`Limits::inline_max`] bytes, which are copied before this returns.
    fn put_inline(&self, to: &Self::Remote, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post;

    /// Puts `len` bytes, at most [`Limits::packed_max`], which `fill` writes straight into the send buffer. `fill` is
    /// called at most once; where the answer is [`Post::Again`] or [`Post::Broken`] after it was, what it wrote is gone.
    fn put_packed(
        &self,
        to: &Self::Remote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post;

    /// Puts the bytes of `from` without copying them, at most [`Limits::transfer_max`].
    ///
    /// # Safety
    /// `from` is readable, and nobody writes it, until the tally is idle or the answer is other than `Pending`.
    unsafe fn put(&self, to: &Self::Remote, offset: u64, from: Span, tally: &TallyRef) -> Post;

    /// Gets bytes into `into`, at most [`Limits::transfer_max`].
    ///
    /// # Safety
    /// `into` is writable, and nobody else reads or writes it, until the tally is idle or the answer is other than `Pending`.
    unsafe fn get(&self, from: &Self::Remote, offset: u64, into: Span, tally: &TallyRef) -> Post;

    /// Puts the parts of `from` one after another to one place, without copying them: at most [`Limits::list_max`] parts and
    /// [`Limits::transfer_max`] bytes.
    ///
    /// # Safety
    /// As for [`Port::put`], for each part.
    unsafe fn put_list(&self, to: &Self::Remote, offset: u64, from: &[Span], tally: &TallyRef) -> Post;

    /// Gets into the parts of `into` one after another, within the limits of [`Port::put_list`].
    ///
    /// # Safety
    /// As for [`Port::get`], for each part; no two overlap.
    unsafe fn get_list(&self, from: &Self::Remote, offset: u64, into: &[Span], tally: &TallyRef) -> Post;

    /// Gets as many bytes as `into` has, at most [`Limits::packed_max`], into its parts one after another, by way of a buffer of the port.
    ///
    /// # Safety
    /// As for [`Port::get`], for each part; no two overlap.
    unsafe fn get_scattered(&self, from: &Self::Remote, offset: u64, into: &[Span], tally: &TallyRef) -> Post;

    /// Performs an atomic at the target and brings the value from before it into `into`, whose length is the atomic's
    /// width (or 0: the value is not wanted). `offset` is a multiple of the width. Call it only where [`Port::amo_on`] says `Some`.
    ///
    /// # Safety
    /// As for [`Port::get`].
    unsafe fn amo(&self, on: &Self::Remote, offset: u64, amo: Amo, into: Span, tally: &TallyRef) -> Post;

    /// Sends a message of at most [`Limits::message_max`] bytes, copied before this returns. It arrives once; not
    /// necessarily in order. Answers `Done`, `Again` or `Broken`.
    fn send(&self, to: Peer, message: &[u8]) -> Post;

    /// Takes completions and messages, without blocking; how many there were. While another thread is inside it may
    /// do nothing and answer 0.
    ///
    /// # Errors
    /// The transport as a whole is broken. What concerns one operation goes to its tally instead.
    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError>;

    /// The first peer that waits in vain: a message to it was lost, or it can't be connected. It stays.
    fn lost(&self) -> Option<Fault> {
        None
    }

    /// Sleeps until `progress` may find something, [`Port::wake`] is called, or `limit` has passed. It may return early.
    fn wait(&self, limit: Duration);

    /// Ends a [`Port::wait`] of another thread, or the next one.
    fn wake(&self);
}

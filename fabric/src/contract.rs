//! The three traits of a backend, below MPI: bytes, offsets, peers and counts.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::{Amo, AmoKind, Coherence, FabricError, Fault, Memory, Peer, Post, Reason, Span, TallyRef, Width};

/// The words by which peers reach a region. Only the backend that wrote the words interprets them.
/// They are plain words, so that a key can be kept in shared memory and read by RDMA. All zero
/// means "no region".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionKey(pub [u64; 4]);

/// The limits and properties of a port, fixed when it is opened. Limits are in bytes, except
/// [`Limits::list_max`], which counts parts. The flags are properties that a port has or lacks.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest [`Port::put_inline`].
    pub inline_max: usize,
    /// The longest [`Port::put_packed`] and [`Port::get_scattered`].
    pub packed_max: usize,
    /// The longest [`Port::put`] and [`Port::get`] that the port copies through an internal buffer,
    /// so that packing several puts into one adds no copy; at most `packed_max`.
    pub copied_max: usize,
    /// The longest single [`Port::put`] or [`Port::get`]; callers cut longer ones.
    pub transfer_max: usize,
    /// The most parts that [`Port::put_list`] and [`Port::get_list`] take as one operation; 1 where
    /// lists are no faster.
    pub list_max: usize,
    /// The longest message.
    pub message_max: usize,
    /// Puts, gets and atomics on this port's regions complete while its process makes no call
    /// (shown by a probe, not taken from a provider's attributes). `false`: the target must call
    /// [`Port::progress`].
    pub passive_target: bool,
    /// A message arrives only when its target has the data of all puts that this process had posted
    /// to that target before. Once one of these puts has failed, messages to the target are
    /// refused. Gets and atomics keep no order.
    pub ordered: bool,
    /// Several small puts cost less if the caller gathers them in one message: the target's CPU
    /// performs puts anyway, when it receives their data.
    pub gathers: bool,
    /// Accumulates that the target's CPU performs may share messages, and long ones may put their
    /// operands into memory of the target. Ports with [`Limits::gathers`] have this property too.
    pub combines: bool,
    /// An atomic is performed only when its target has the data of all puts that this process had
    /// posted to that target before.
    pub amos_ordered: bool,
    /// Atomics of this process on one location of a peer are performed in the order of their posts.
    pub amos_in_order: bool,
    /// The immediates that puts can carry ([`Port::put_immediate`]).
    pub immediates: Immediates,
    /// The longest time for which an answer to a message may wait for a message in the other
    /// direction that can carry the answer: about the time that it takes to send the answer. Zero:
    /// answers do not wait.
    pub answers_wait: Duration,
}

/// The events for which a call polls or sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Completions of this process's operations, among others.
    Completions,
    /// Only messages, immediates, and changes of this process's memory by peers.
    Arrivals,
}

/// The number that a put carries to the target's handler, below [`Immediate::LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate(u32);

impl Immediate {
    /// The first number that is no immediate. The transport uses the highest of a device's 32 bits.
    pub const LIMIT: u32 = 1 << 31;

    /// The number as an immediate; `None` from [`Immediate::LIMIT`] on.
    pub fn new(number: u32) -> Option<Immediate> {
        (number < Immediate::LIMIT).then_some(Immediate(number))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The immediates that the puts of a port can carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Immediates {
    /// The number of bits of an immediate; 0: the port has no [`Port::put_immediate`].
    pub bits: u32,
    /// An immediate follows earlier puts to its target of at most this many bytes each. Longer ones
    /// may arrive after it.
    pub follow: usize,
}

impl Immediates {
    /// The port has no [`Port::put_immediate`].
    pub const NONE: Immediates = Immediates { bits: 0, follow: 0 };

    /// All immediates, which follow all puts.
    pub const ALL: Immediates = Immediates { bits: Immediate::LIMIT.trailing_zeros(), follow: usize::MAX };

    /// Whether the port has [`Port::put_immediate`].
    #[inline]
    pub fn any(self) -> bool {
        self.bits > 0
    }

    /// Whether puts can carry this number.
    #[inline]
    pub fn fit(self, immediate: Immediate) -> bool {
        self.any() && u64::from(immediate.0) < 1 << self.bits
    }
}

/// An opened device or provider of this process.
pub trait Domain: Send + Sync + Debug + 'static {
    /// Memory that peers may access through this domain.
    type Region: Region;
    /// The access to the peers.
    type Port: Port;

    /// The port: one for each domain.
    fn port(&self) -> &Self::Port;

    /// Gives peers access to `memory`, which is valid as long as the region.
    ///
    /// # Errors
    /// The refusal of the system or provider, with the length and address.
    fn register(&self, memory: &Memory) -> Result<Self::Region, FabricError>;
}

/// Memory that peers may access. The drop ends the access; the caller has ensured that no access is
/// in flight.
pub trait Region: Send + Sync + Debug + 'static {
    /// The key, which peers pass to [`Port::import`].
    fn key(&self) -> RegionKey;

    /// The atomics with which this atomic on the region is atomic; `None` if peers can't perform
    /// it.
    fn amo(&self, kind: AmoKind, width: Width) -> Option<Coherence>;

    /// Leaves the region registered for ever, because peers may still use its key. Buffers of this
    /// rank no longer use the registration, because the program may map other memory at the
    /// region's addresses.
    fn leak(self)
    where
        Self: Sized,
    {
        std::mem::forget(self);
    }
}

/// Receives messages. [`Port::progress`] calls the handler, from any thread that makes progress. A
/// handler must neither block nor call `progress`. A handler may post. It must not repeat a post
/// that is answered [`Post::Again`], but queue the post until after its return.
pub trait Handler {
    /// A message from `from`. The bytes are valid during the call only.
    fn message(&self, from: Peer, bytes: &[u8]);

    /// The number of a [`Port::put_immediate`] of `from`, whose bytes have arrived.
    fn immediate(&self, from: Peer, immediate: Immediate) {
        let _ = (from, immediate);
    }
}

/// The access to the peers. All methods may be called from several threads at the same time.
///
/// Nothing is ordered: neither two operations to one target nor a message after a put. There are
/// four exceptions:
///
/// - The caller has waited for the [`Tally`](crate::Tally) of the first operation.
/// - The first operations are puts, and the port's limits have [`Limits::ordered`] for a message
///   after them, or [`Limits::amos_ordered`] for an atomic.
/// - The first operations are puts of at most [`Immediates::follow`] bytes each, and the second one
///   is [`Port::put_immediate`].
/// - Both are atomics on one location, and the port's limits have [`Limits::amos_in_order`].
///
/// When the count of a tally falls, the target has the data of the operation, the data is visible
/// to every process that reads it afterwards, and the origin's buffer may be used again.
///
/// Offsets and lengths are bytes within the remote region, checked by the caller against the
/// window's size; backends check them against the region again where the check is free.
pub trait Port: Send + Sync + Debug + 'static {
    /// A peer's region, ready for use.
    type Remote: Send + Sync + Debug + 'static;

    /// The port's limits.
    fn limits(&self) -> &Limits;

    /// The address, which peers pass to [`Port::connect`]; at most 4096 bytes.
    fn address(&self) -> Vec<u8>;

    /// Makes a peer reachable. Idempotent.
    ///
    /// # Errors
    /// The peer can't be reached, with the reason; for shared memory: its memory can't be mapped
    /// here.
    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError>;

    /// Makes a region of a connected peer ready for use, by the key that the peer published.
    ///
    /// # Errors
    /// The key is not one of this backend, the peer is not connected, or the system refuses.
    fn import(&self, peer: Peer, key: &RegionKey) -> Result<Self::Remote, FabricError>;

    /// The region as memory of this process, where load and store reach it.
    fn direct<'r>(&self, remote: &'r Self::Remote) -> Option<&'r Memory>;

    /// The atomics with which this atomic on a peer's region is atomic; `None` if it can't be
    /// posted.
    fn amo_on(&self, remote: &Self::Remote, kind: AmoKind, width: Width) -> Option<Coherence>;

    /// Puts at most [`Limits::inline_max`] bytes, which are copied before this returns.
    fn put_inline(&self, to: &Self::Remote, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post;

    /// Puts `len` bytes, at most [`Limits::packed_max`], which `fill` writes straight into the send
    /// buffer. `fill` is called at most once; its bytes are discarded where the answer is
    /// [`Post::Again`] or [`Post::Broken`].
    fn put_packed(
        &self,
        to: &Self::Remote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post;

    /// Puts bytes, at most [`Limits::packed_max`] and possibly none, which are copied before this
    /// returns. The target's handler gets `immediate` ([`Handler::immediate`]) once the target has
    /// these bytes and those of the puts of at most [`Immediates::follow`] bytes that this process
    /// had posted to the target before. A port refuses an immediate of more than
    /// [`Immediates::bits`] bits. The count of the tally does not fall before [`Port::settle`]
    /// finds the immediate at the target.
    fn put_immediate(
        &self,
        to: &Self::Remote,
        offset: u64,
        bytes: &[u8],
        immediate: Immediate,
        tally: &TallyRef,
    ) -> Post;

    /// Puts the bytes of `from` without copying them, at most [`Limits::transfer_max`].
    ///
    /// # Safety
    /// `from` is readable and not written until the tally is idle or the result is not `Pending`.
    unsafe fn put(&self, to: &Self::Remote, offset: u64, from: Span, tally: &TallyRef) -> Post;

    /// Gets bytes into `into`, at most [`Limits::transfer_max`].
    ///
    /// # Safety
    /// `into` is writable and not accessed otherwise until the tally is idle or the result is not
    /// `Pending`.
    unsafe fn get(&self, from: &Self::Remote, offset: u64, into: Span, tally: &TallyRef) -> Post;

    /// Puts the parts of `from` one after another to one location, without copying them: at most
    /// [`Limits::list_max`] parts and [`Limits::transfer_max`] bytes.
    ///
    /// # Safety
    /// As for [`Port::put`], for each part.
    unsafe fn put_list(&self, to: &Self::Remote, offset: u64, from: &[Span], tally: &TallyRef) -> Post;

    /// Gets into the parts of `into` one after another, within the limits of [`Port::put_list`].
    ///
    /// # Safety
    /// As for [`Port::get`], for each part; no two overlap.
    unsafe fn get_list(&self, from: &Self::Remote, offset: u64, into: &[Span], tally: &TallyRef) -> Post;

    /// Gets into the parts of `into` one after another, through a buffer of the port: at most
    /// [`Limits::packed_max`] bytes in all.
    ///
    /// # Safety
    /// As for [`Port::get`], for each part; no two overlap.
    unsafe fn get_scattered(&self, from: &Self::Remote, offset: u64, into: &[Span], tally: &TallyRef) -> Post;

    /// Performs an atomic at the target and stores the previous value in `into`, whose length is
    /// the atomic's width, or 0 if the value is not needed. The address at the target is a multiple
    /// of the width. Requires that [`Port::amo_on`] gives `Some`.
    ///
    /// # Safety
    /// As for [`Port::get`].
    unsafe fn amo(&self, on: &Self::Remote, offset: u64, amo: Amo, into: Span, tally: &TallyRef) -> Post;

    /// Posts the requests to the peer that the port holds back until the next request.
    /// [`Port::progress`] does so for all peers.
    fn release(&self, to: &Self::Remote) {
        let _ = to;
    }

    /// Sends a message of at most [`Limits::message_max`] bytes, copied before this returns. It
    /// arrives once, in no particular order. Answers `Done`, `Again` or `Broken`.
    fn send(&self, to: Peer, message: &[u8]) -> Post;

    /// Processes completions and messages, without blocking, and returns their number. It may
    /// return 0 without progress while another thread makes progress.
    ///
    /// # Errors
    /// The transport as a whole is broken. A failure of one operation is recorded in the
    /// operation's tally.
    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError>;

    /// [`Port::progress`] for a caller that awaits messages, immediates or changes of memory by
    /// peers, and no completion of this process's operations. The port may leave completions to
    /// the next call of `progress`, and need not ask the device for them before.
    ///
    /// # Errors
    /// As for [`Port::progress`].
    fn progress_arrivals(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        self.progress(handler)
    }

    /// Passes all immediates that have arrived to the handler, and waits until other threads have
    /// passed those that they are taking. On return the handler has got all of them.
    ///
    /// # Errors
    /// As for [`Port::progress`].
    fn settle(&self, handler: &impl Handler) -> Result<(), FabricError>;

    /// The first peer that has become unreachable: a message to it was lost, or the connection
    /// can't be made. Once a peer is returned, the answer does not change.
    fn lost(&self) -> Option<Fault> {
        None
    }

    /// Ends the connection to a peer, which has died or become unreachable by the failure detector.
    /// Operations in flight to the peer fail, and later posts answer `Broken`. A transport that
    /// learns of deaths soon enough by itself does nothing.
    fn lose(&self, peer: Peer, reason: Reason) {
        let _ = (peer, reason);
    }

    /// Sleeps until `progress_arrivals` may find an event, [`Port::wake`] is called, or `limit` has
    /// passed. The call may return early.
    fn wait(&self, limit: Duration);

    /// Like [`Port::wait`], but the sleep also ends when `other` is readable. Returns false if
    /// `limit` has passed instead. A port that sleeps on no descriptor ignores `other`. The call
    /// sleeps only if `still_idle` returns true. `still_idle` is called after the sleep was
    /// announced: a change by another thread that calls [`Port::wake`] afterwards is seen by
    /// `still_idle`, or ends the sleep. Completions end the sleep if they are `awaited`, also those
    /// of operations that another thread posts meanwhile; otherwise they may leave it to its limit.
    fn wait_with_descriptor(
        &self,
        limit: Duration,
        awaited: Awaited,
        other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool;

    /// Ends the [`Port::wait`] of all threads; if no thread waits, the next one.
    fn wake(&self);

    /// A counter that changes when threads of this process post operations: a progress thread that
    /// polls at that time contends with them for the provider's locks. Always zero if posts take no
    /// lock that polling takes.
    fn posts(&self) -> u32 {
        0
    }
}

//! The port: puts, gets, atomics and messages to the peers of this node. The CPU accesses mapped
//! memory. The kernel copies other memory (`process`). Messages go through rings. Each operation is
//! complete on return. Must not know windows.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use transom_fabric::{
    Amo, AmoKind, Awaited, Cause, Coherence, FabricError, Fault, Handler, Immediate, Immediates, Limits, Memory, Peer,
    PeerMap, Port, Post, Reason, RegionKey, Span, TallyRef, Width, diagnostics,
};

use crate::cma::slice_of_mut;
use crate::contact::Contact;
use crate::doorbell::{self, Doorbell};
use crate::heap::Heap;
use crate::node::{self, Address};
use crate::regions::{Key, Kind, Regions, owner_check};
use crate::remote::{PIECES, Route, ShmRemote, byte};
use crate::ring::{self, MESSAGE_MAX, SharedRing};
use crate::spare::Spare;
use crate::xpmem::Xpmem;

/// The longest packed put, which is built on the stack.
const PACKED_MAX: usize = 4096;
/// Packed puts up to this long use a smaller piece of the stack, which costs less to clear.
const PACKED_SMALL: usize = 512;

/// The shared-memory port of this process.
#[derive(Debug)]
pub struct ShmPort {
    me: Peer,
    address: Address,
    limits: Limits,
    contacts: PeerMap<(Peer, Contact)>,
    spare: Spare,
    ring: SharedRing,
    /// Held by the one thread that takes messages.
    inbox: Mutex<Box<[u8; MESSAGE_MAX]>>,
    /// A [`Port::wake`] that no wait has answered yet.
    woken: AtomicBool,
    /// The number of threads that sleep on descriptors ([`ShmPort::wait_on_descriptors`]).
    descriptor_sleepers: Mutex<u32>,
    /// Whether the lack of a pipe was reported.
    no_pipe_reported: Once,
    regions: Arc<Regions>,
    /// The mapping of user memory, or the reason why there is none.
    xpmem: Result<&'static Xpmem, String>,
    /// The first peer's memory that could not be mapped although both ends have XPMEM.
    unmapped: OnceLock<String>,
}

/// Parts one after another as pieces, each with its offset.
fn consecutive_pieces(offset: u64, parts: &[Span]) -> impl Iterator<Item = (u64, Span)> {
    parts.iter().scan(offset, |at, part| {
        *at += part.len() as u64;
        Some((*at - part.len() as u64, *part))
    })
}

impl ShmPort {
    pub(crate) fn new(
        heap: &Arc<Heap>,
        me: Peer,
        regions: Arc<Regions>,
        xpmem: Result<&'static Xpmem, String>,
    ) -> Result<ShmPort, FabricError> {
        let address = Address::of(heap, xpmem.as_ref().map_or(0, |xpmem| xpmem.segment()));
        let ring = SharedRing::in_header(heap.header(), address.pid)
            .ok_or_else(|| FabricError::failed("opening shared memory", Reason::NoRing))?;
        let port = ShmPort {
            me,
            address,
            limits: Limits {
                inline_max: PACKED_MAX,
                packed_max: PACKED_MAX,
                copied_max: 0,
                transfer_max: 1 << 30,
                list_max: PIECES,
                message_max: MESSAGE_MAX,
                passive_target: true,
                ordered: false,
                gathers: false,
                combines: false,
                amos_ordered: false,
                amos_in_order: false,
                immediates: Immediates::NONE,
                answers_wait: Duration::ZERO,
            },
            contacts: PeerMap::new(),
            spare: Spare::new(Arc::clone(heap)),
            ring,
            inbox: Mutex::new(Box::new([0; MESSAGE_MAX])),
            woken: AtomicBool::new(false),
            no_pipe_reported: Once::new(),
            descriptor_sleepers: Mutex::new(0),
            regions,
            xpmem,
            unmapped: OnceLock::new(),
        };
        port.connect(me, &port.address())?;
        Ok(port)
    }

    /// Sleeps as [`Port::wait`] does if `still_idle` returns true after the sleep was announced.
    /// `still_idle` sees all stores of a peer before the peer's [`wake_peer`](ShmPort::wake_peer).
    /// A [`Port::wake`] that comes before the sleep is left to the thread that calls
    /// [`Port::wait`].
    pub fn wait_while(&self, limit: Duration, still_idle: impl FnOnce() -> bool) {
        ring::sleep(&self.ring, Some(limit), still_idle);
    }

    /// Reports once that sleeps on a net do not end by notices within the node.
    #[cold]
    fn report_no_pipe(&self, error: &io::Error) {
        self.no_pipe_reported.call_once(|| {
            let what = "without a pipe, notices of ranks of the node do not wake this rank from a sleep on the net; \
                        opening the pipe failed, and is tried again";
            diagnostics::warn("transom::shm", &format!("{}: {what}: {error}", self.me));
        });
    }

    /// Announces a sleep and calls `sleep` if `still_idle` returns true, as in
    /// [`wait_while`](ShmPort::wait_while), for a sleep on descriptors of a net. The descriptor
    /// that `sleep` gets becomes readable when a peer ends the sleep; `None` while the system gives
    /// none.
    pub fn wait_on_descriptors(&self, still_idle: impl FnOnce() -> bool, sleep: impl FnOnce(Option<BorrowedFd<'_>>)) {
        let pipe = match self.ring.own_pipe() {
            Ok(pipe) => pipe,
            Err(error) => {
                self.report_no_pipe(&error);
                return sleep(None);
            }
        };
        {
            let mut sleepers = self.descriptor_sleepers();
            // The pipe remains readable until all threads that a peer has woken have left.
            if *sleepers > 0 && ring::have_pipe_sleeps_ended(&self.ring) {
                return;
            }
            *sleepers += 1;
            ring::announce_pipe_sleep(&self.ring);
        }
        if ring::may_sleep(&self.ring, still_idle) {
            sleep(Some(pipe.as_fd()));
        }
        let mut sleepers = self.descriptor_sleepers();
        *sleepers -= 1;
        if *sleepers == 0 {
            ring::withdraw_pipe_sleep(&self.ring);
            pipe.drain();
        }
    }

    fn descriptor_sleepers(&self) -> MutexGuard<'_, u32> {
        self.descriptor_sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the sleeps of this process's threads, which then check what they wait for.
    pub fn end_sleeps(&self) {
        ring::wake_sleepers(&self.ring);
    }

    /// Ends the sleep of a connected peer, whose threads then check what they wait for. The caller
    /// has changed a word of the peer before, by a sequentially consistent read-modify-write
    /// operation.
    #[inline]
    pub fn wake_peer(&self, peer: Peer) {
        if let Ok(contact) = self.contact(peer) {
            doorbell::wake_sleepers_after_rmw(&contact.ring);
        }
    }

    /// The doorbell of a connected peer.
    pub fn doorbell(&self, peer: Peer) -> Option<Doorbell> {
        Doorbell::of(&self.contact(peer).ok()?.ring)
    }

    /// Whether user memory of peers is mapped, by the XPMEM module.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn maps_user_memory(&self) -> Result<(), &str> {
        self.xpmem.as_ref().map(|_| ()).map_err(String::as_str)
    }

    /// The first reason why user memory could not be mapped although both processes have XPMEM.
    pub fn unmapped(&self) -> Option<&str> {
        self.unmapped.get().map(String::as_str)
    }

    /// Maps `len` bytes of user memory of a connected peer, from the peer's `address` on. `None`
    /// where this process can't map them.
    pub fn user_memory(&self, peer: Peer, address: u64, len: u64) -> Option<Memory> {
        let xpmem = *self.xpmem.as_ref().ok()?;
        let contact = self.contact(peer).ok().filter(|contact| contact.address.segment != 0)?;
        let memory = contact.user_memory(xpmem, peer, address, len);
        memory.map_err(|reason| self.unmapped.get_or_init(|| reason)).ok()
    }

    /// Maps a region of a connected peer that is outside of the peer's heap. `None` where this
    /// process can't map it, and for the region of all addresses.
    pub fn user_region(&self, peer: Peer, key: &RegionKey) -> Option<Memory> {
        let parts = Key::unpack(key).filter(|parts| parts.kind == Kind::UserMemory && parts.len < u64::MAX)?;
        let token = self.contact(peer).ok()?.address.token;
        if parts.owner != owner_check(token) {
            return None;
        }
        self.user_memory(peer, parts.at, parts.len)
    }

    /// The bytes at these addresses of this process, if they are mapped from the heap of a
    /// connected peer. The result keeps the mapping, but not the peer's memory.
    pub fn mapped_from_peer(&self, span: Span) -> Option<Memory> {
        self.in_heap_of_peer(span).map(|found| found.memory)
    }

    /// Where in the heap of a connected peer the bytes at these addresses of this process lie.
    pub(crate) fn in_heap_of_peer(&self, span: Span) -> Option<InHeapOfPeer> {
        self.contacts.values().filter(|(peer, _)| *peer != self.me).find_map(|(peer, contact)| {
            let (offset, memory) = contact.mapped_at(span)?;
            Some(InHeapOfPeer { peer: *peer, owner: owner_check(contact.address.token), offset, memory })
        })
    }

    /// [`Port::import`] of a region, in a dedicated mapping if it is in a heap: advice to the
    /// kernel, such as [`advise_huge`](crate::advise_huge), then concerns no other region.
    ///
    /// # Errors
    /// As for [`Port::import`].
    pub fn import_dedicated(&self, peer: Peer, key: &RegionKey) -> Result<ShmRemote, FabricError> {
        self.open(peer, key, true)
    }

    fn open(&self, peer: Peer, key: &RegionKey, dedicated: bool) -> Result<ShmRemote, FabricError> {
        let refused = |cause: Cause| FabricError::failed(format!("importing a region of {peer}"), cause);
        let parts = Key::unpack(key).ok_or_else(|| refused(Reason::ForeignKey.into()))?;
        let from = match parts.kind {
            Kind::MappedFrom(owner) => owner,
            Kind::Mapped | Kind::UserMemory => peer,
        };
        let contact = self.contact(from)?;
        if parts.owner != owner_check(contact.address.token) {
            return Err(refused(Reason::ForeignKey.into()));
        }
        let mut amo = parts.amo();
        let route = if from == self.me && from == peer {
            let own = self.regions.find(&parts);
            Route::Memory(own.ok_or_else(|| refused(Reason::NotRegistered.into()))?)
        } else if parts.kind != Kind::UserMemory {
            Route::Memory(contact.map(parts.at, parts.len, dedicated, &self.spare).map_err(refused)?)
        } else if let Some(memory) = self.user_region(peer, key) {
            amo = Some(Coherence::WithCpu);
            Route::Memory(memory)
        } else {
            let process = contact.process().map_err(Cause::Setup).map_err(refused)?;
            Route::Attached(process.range(parts.at, parts.len))
        };
        Ok(ShmRemote { peer, amo, route })
    }

    fn contact(&self, peer: Peer) -> Result<&Contact, Fault> {
        let contact = self.contacts.get(peer).map(|(_, contact)| contact);
        contact.ok_or_else(|| Fault::new(peer, Reason::NotConnected))
    }
}

/// Memory of this process that is mapped from the heap of a peer.
pub(crate) struct InHeapOfPeer {
    peer: Peer,
    /// The check of the heap's owner, as in [`Key::owner`].
    owner: u32,
    offset: u64,
    memory: Memory,
}

impl InHeapOfPeer {
    /// The key by which other ranks of the node map the memory from the peer's heap.
    pub(crate) fn key(&self) -> Key {
        let len = self.memory.len() as u64;
        Key { kind: Kind::MappedFrom(self.peer), at: self.offset, len, owner: self.owner, generation: 0 }
    }
}

impl Port for ShmPort {
    type Remote = ShmRemote;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.address.to_bytes()
    }

    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        let open = || {
            let address = Address::from_bytes(address)?;
            Ok((peer, Contact::open(address, &self.address, &self.spare)?))
        };
        self.contacts
            .get_or_try_insert(peer, open)
            .map(|_| ())
            .map_err(|reason: String| node::not_on_this_node(&format!("{peer}: {reason}")))
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<ShmRemote, FabricError> {
        self.open(peer, key, false)
    }

    #[inline]
    fn direct<'r>(&self, remote: &'r ShmRemote) -> Option<&'r Memory> {
        match &remote.route {
            Route::Memory(memory) => Some(memory),
            Route::Attached(_) => None,
        }
    }

    #[inline]
    fn amo_on(&self, remote: &ShmRemote, _kind: AmoKind, _width: Width) -> Option<Coherence> {
        remote.amo
    }

    #[inline]
    fn put_inline(&self, to: &ShmRemote, offset: u64, bytes: &[u8], _tally: &TallyRef) -> Post {
        // SAFETY: `bytes` is borrowed for the call.
        unsafe { to.put(offset, Span::of(bytes)) }
    }

    fn put_packed(
        &self,
        to: &ShmRemote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post {
        assert!(len <= PACKED_MAX, "{len} bytes packed, at most {PACKED_MAX}");
        if let Err(outside) = to.holds(offset, len) {
            return to.broken(offset, len, "putting", outside);
        }
        let mut small = [0; PACKED_SMALL];
        if let Some(bytes) = small.get_mut(..len) {
            fill(bytes);
            return self.put_inline(to, offset, bytes, tally);
        }
        let mut large = [0; PACKED_MAX];
        fill(&mut large[..len]);
        self.put_inline(to, offset, &large[..len], tally)
    }

    #[inline]
    fn put_immediate(&self, to: &ShmRemote, offset: u64, bytes: &[u8], _: Immediate, _: &TallyRef) -> Post {
        to.broken(offset, bytes.len(), "putting", Reason::NoImmediates)
    }

    unsafe fn put(&self, to: &ShmRemote, offset: u64, from: Span, _tally: &TallyRef) -> Post {
        // SAFETY: `from` is readable and not written until this returns (the contract of `put`).
        unsafe { to.put(offset, from) }
    }

    #[inline]
    unsafe fn get(&self, from: &ShmRemote, offset: u64, into: Span, _tally: &TallyRef) -> Post {
        // SAFETY: `into` is writable and not accessed otherwise until this returns (the contract of
        // `get`).
        unsafe { from.get(offset, into) }
    }

    unsafe fn put_list(&self, to: &ShmRemote, offset: u64, from: &[Span], _tally: &TallyRef) -> Post {
        // SAFETY: each part is readable and not written until this returns (the contract of
        // `put_list`).
        unsafe { to.put_pieces(consecutive_pieces(offset, from)) }
    }

    unsafe fn get_list(&self, from: &ShmRemote, offset: u64, into: &[Span], _tally: &TallyRef) -> Post {
        // SAFETY: each part is writable and not accessed otherwise until this returns (the contract
        // of `get_list`).
        unsafe { from.get_pieces(consecutive_pieces(offset, into)) }
    }

    unsafe fn get_scattered(&self, from: &ShmRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        // SAFETY: the caller's promise, which `get_list` requires too.
        unsafe { self.get_list(from, offset, into, tally) }
    }

    #[inline]
    unsafe fn amo(&self, on: &ShmRemote, offset: u64, amo: Amo, into: Span, _tally: &TallyRef) -> Post {
        let (Route::Memory(memory), Some(_)) = (&on.route, on.amo) else {
            let reason = Reason::NoAtomic { width: amo.width.bytes() };
            return on.broken(offset, amo.width.bytes(), "an atomic on", reason);
        };
        let before = memory.amo(byte(offset), amo);
        if !into.is_empty() {
            // SAFETY: `into` is writable and not accessed otherwise until this returns (the
            // contract of `amo`).
            let result = unsafe { slice_of_mut(into) };
            match amo.width {
                Width::W64 => result.copy_from_slice(&before.to_ne_bytes()),
                #[allow(clippy::cast_possible_truncation)]
                // the width says that the low half is the value
                Width::W32 => result.copy_from_slice(&(before as u32).to_ne_bytes()),
            }
        }
        Post::Done
    }

    fn send(&self, to: Peer, message: &[u8]) -> Post {
        match self.contact(to) {
            Ok(contact) if ring::send(&contact.ring, self.me.0, message) => Post::Done,
            Ok(_) => Post::Again,
            Err(fault) => Post::Broken(Box::new(fault)),
        }
    }

    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        let mut inbox = match self.inbox.try_lock() {
            Ok(inbox) => inbox,
            Err(TryLockError::WouldBlock) => return Ok(0),
            // A handler panicked: its message is consumed, and the ring is intact.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        };
        let mut taken = 0;
        // At most as many as the ring holds, so that a flood of messages does not keep the caller
        // from its work.
        while taken < ring::COUNT
            && let Some((sender, length)) = ring::receive(&self.ring, &mut inbox[..])
        {
            handler.message(Peer(sender), &inbox[..length]);
            taken += 1;
        }
        Ok(taken)
    }

    fn settle(&self, _: &impl Handler) -> Result<(), FabricError> {
        Ok(())
    }

    fn wait(&self, limit: Duration) {
        self.wait_with_descriptor(limit, Awaited::Arrivals, None, || true);
    }

    fn wait_with_descriptor(
        &self,
        limit: Duration,
        _: Awaited,
        _other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool {
        // SeqCst, twice: pairs with the store in `wake`, between the fences of `may_sleep` and
        // `wake_sleepers`.
        self.wait_while(limit, || !self.woken.load(Ordering::SeqCst) && still_idle());
        // The exchange reads a `true` of `wake`, so what the waker stored before is visible here.
        self.woken.swap(false, Ordering::SeqCst);
        true
    }

    fn wake(&self) {
        // SeqCst: pairs with the load in `wait_with_descriptor`.
        self.woken.store(true, Ordering::SeqCst);
        ring::wake_sleepers(&self.ring);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! The contract's posts: checks of ranges, routes to peers, the slot and tally of each operation.
//! `posting` calls the library, `progress` handles completions.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use transom_fabric::{
    Amo, AmoKind, Awaited, Coherence, FabricError, Fault, Handler, Immediate, Immediates, Limits, Memory, Peer,
    PeerMap, Port, Post, Reason, RegionKey, Span, TallyRef, Width,
};

use crate::atomics::Atomics;
use crate::endpoint::{Endpoint, Registration};
use crate::notices::{Line, Table};
use crate::offer::Offer;
use crate::opened::{EAGER, MESSAGE, Open, PACKED, Pool, PortSettings};
use crate::posting::{Begun, LIST, RESULT, vector};
use crate::progress::Progress;
use crate::remote::{OfiRemote, TAG, inside, outside};
use crate::slots::{HEADER, Local, Purpose, Slot};
use crate::{rules, sys};

/// Longest address of a provider, in bytes: `lnx` joins those of the providers that it links.
const ADDRESS: usize = 4096 - HEAD;
/// Length of the words before the provider's address: a token, and a [`Table`].
const HEAD: usize = 32;
/// Shortest transfer, in bytes, that takes several packets of a connection within a machine.
const LONG: usize = 65536;
/// How long an answer may wait for a message to the same peer, where each message costs system
/// calls at both sides.
const ANSWERS_WAIT: Duration = Duration::from_micros(20);

/// The access to the peers through libfabric.
#[derive(Debug)]
pub struct OfiPort {
    open: Arc<Open>,
    peers: PeerMap<(Peer, Destination)>,
    limits: Limits,
    atomics: Atomics,
    /// This process's rank, which is part of each message.
    me: Peer,
    progress: Progress,
    /// Changes with the operations and messages that are posted (`Port::posts`).
    posts: AtomicU32,
    /// Each operation in flight whose buffer was registered for it holds a clone, so the strong
    /// count is one more than the number of these operations.
    registered: Arc<()>,
}

/// A caller's buffer for one operation: the handling after the operation, the bytes to transfer,
/// and their descriptor.
type Lent = (Local, Span, *mut c_void);

/// A peer as the destination of operations and messages: the handle of its address, and the token
/// that messages to it contain.
#[derive(Clone, Copy, Debug)]
struct Destination {
    address: sys::fi_addr_t,
    token: u64,
}

impl OfiPort {
    /// The port of an endpoint with a completion queue of `entries`.
    pub(crate) fn new(
        endpoint: Endpoint,
        atomics: Atomics,
        entries: usize,
        settings: &PortSettings,
    ) -> Result<OfiPort, FabricError> {
        let offer = Offer::of(endpoint.info());
        let in_one_stream = rules::of(&endpoint.info().provider()).order != 0;
        let transfer_max = offer.transfer.min(1 << 30);
        let mut limits = Limits {
            inline_max: PACKED,
            packed_max: PACKED,
            copied_max: if endpoint.registering().local { PACKED } else { 0 },
            transfer_max,
            // If each part has to be registered, a list is no faster than single operations.
            list_max: if endpoint.registering().local { 1 } else { offer.list.clamp(1, LIST) },
            message_max: if in_one_stream { MESSAGE } else { EAGER }.min(offer.transfer) - HEADER,
            passive_target: settings.passive,
            ordered: in_one_stream && offer.sends_follow_writes(),
            // With automatic progress the provider's thread performs puts, but messages also wait
            // for this library's progress thread.
            gathers: in_one_stream && !settings.passive,
            combines: in_one_stream && !settings.passive,
            amos_ordered: false,
            amos_in_order: false,
            immediates: Immediates::NONE,
            answers_wait: if in_one_stream && !settings.passive { ANSWERS_WAIT } else { Duration::ZERO },
        };
        let open = Open::new(endpoint, &offer)?;
        let progress = Progress::new(Arc::clone(&open), settings.rank, settings.ranks, entries)?;
        if let Some(notices) = progress.notices() {
            limits.immediates = notices.immediates(offer.follow, transfer_max);
        }
        let (peers, posts, registered) = (PeerMap::new(), AtomicU32::new(0), Arc::new(()));
        Ok(OfiPort { open, peers, limits, atomics, me: settings.rank, progress, posts, registered })
    }

    /// The open endpoint, which regions keep.
    pub(crate) fn open(&self) -> &Arc<Open> {
        &self.open
    }

    /// The atomics that the provider performs.
    pub(crate) fn atomics(&self) -> Atomics {
        self.atomics
    }

    /// Counts a post, so that the progress thread sees that this thread posts.
    #[inline]
    fn note_post(&self) {
        // Relaxed, and no atomic addition: the progress thread only looks for changes. If two
        // threads post at the same time, one of their additions may be lost, which does not matter.
        self.posts.store(self.posts.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline]
    fn address_of(&self, peer: Peer) -> Option<sys::fi_addr_t> {
        self.peers.get(peer).map(|(_, destination)| destination.address)
    }

    /// Takes a slot for an operation and counts the operation. Returns the slot and the peer's
    /// address. The caller then posts the operation and calls [`OfiPort::posted`].
    #[inline]
    fn begin(&self, remote: Peer, tally: &TallyRef, local: Local) -> Result<Begun<'_>, Post> {
        let Some(address) = self.address_of(remote) else { return Err(unconnected(remote)) };
        let purpose = Purpose { peer: remote, tally: Some(tally.clone()), local };
        let Some(slot) = self.open.operations.take(purpose) else { return Err(Post::Again) };
        tally.begin();
        self.note_post();
        Ok((slot, address))
    }

    /// Looks for new connections that the kernel paces, before a transfer that is long enough to be
    /// paced.
    #[inline]
    fn look_before(&self, len: usize) {
        if len >= LONG
            && let Some(pacing) = self.progress.pacing()
        {
            pacing.look();
        }
    }

    /// The answer of a post after [`OfiPort::begin`], by libfabric's status.
    #[inline]
    fn posted(&self, remote: Peer, tally: &TallyRef, slot: &Slot, status: isize) -> Post {
        if status == 0 {
            return Post::Pending;
        }
        self.open.operations.give_back(slot, false);
        tally.finish();
        self.refused(remote, status)
    }

    #[cold]
    fn refused(&self, peer: Peer, status: isize) -> Post {
        if -status == sys::FI_EAGAIN {
            return Post::Again;
        }
        Post::Broken(Box::new(Fault::new(peer, self.open.endpoint.library().strerror(status))))
    }

    /// Posts an operation on a list of the caller's buffers by `post`. Lists are used only if
    /// buffers need no registration.
    fn list(
        &self,
        remote: &OfiRemote,
        offset: u64,
        parts: &[Span],
        tally: &TallyRef,
        post: impl FnOnce(&[sys::iovec], &mut [*mut c_void], Begun<'_>) -> isize,
    ) -> Post {
        let len = parts.iter().map(|part| part.len()).sum();
        if !inside(offset, len, remote.len) {
            return outside(remote, offset, len);
        }
        let (count, most) = (parts.len(), self.limits.list_max);
        if count > most {
            let reason = Reason::TooManyParts { parts: count, limit: most };
            return Post::Broken(Box::new(Fault::new(remote.peer, reason)));
        }
        if len == 0 {
            return Post::Done;
        }
        let (mut vectors, mut descriptors) = ([vector(Span::EMPTY); LIST], [std::ptr::null_mut(); LIST]);
        let mut count = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            vectors[count] = vector(*part);
            count += 1;
        }
        let begun = match self.begin(remote.peer, tally, Local::Nothing) {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        let status = post(&vectors[..count], &mut descriptors[..count], begun);
        self.posted(remote.peer, tally, begun.0, status)
    }

    /// Reads `len` bytes into a slot's buffer; `local` gives their destination.
    fn fetch(&self, from: &OfiRemote, offset: u64, len: usize, local: Local, tally: &TallyRef) -> Post {
        let (slot, address) = match self.begin(from.peer, tally, local) {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        let place = Span::from_raw(slot.buffer(), len);
        let status = self.open.read(from, offset, place, self.open.descriptor(Pool::Operations), (slot, address));
        self.posted(from.peer, tally, slot, status)
    }

    /// Reads how many notices a peer has taken, if many may be unread. A read that can't be posted
    /// now is repeated by the next notice to the peer.
    #[inline]
    fn read_taken(&self, line: &Arc<Line>) {
        if line.begins_read() {
            self.read_word(line);
        }
    }

    #[inline(never)]
    fn read_word(&self, line: &Arc<Line>) {
        let (word, peer) = (&line.word, line.word.peer);
        let Some(address) = self.address_of(peer) else { return line.read(None) };
        let purpose = Purpose { peer, tally: None, local: Local::Taken(Arc::clone(line)) };
        let Some(slot) = self.open.operations.take(purpose) else { return line.read(None) };
        let place = Span::from_raw(slot.buffer(), 8);
        let status = self.open.read(word, 0, place, self.open.descriptor(Pool::Operations), (slot, address));
        if status == 0 {
            return;
        }
        // The failure ends the read (`Local::Taken`).
        self.open.operations.give_back(slot, false);
        if let Post::Broken(fault) = self.refused(peer, status) {
            line.fail(*fault);
        }
    }

    /// The answer to a notified put without share: the fault of the last read of the word, or
    /// `Again` while the word is read.
    #[cold]
    fn without_share(&self, line: &Arc<Line>) -> Post {
        if let Some(fault) = line.take_fault() {
            return Post::Broken(Box::new(fault));
        }
        self.read_taken(line);
        Post::Again
    }

    /// Whether this number of bytes is copied through the slot's buffer: the provider requires
    /// registered origin buffers, and the bytes fit.
    fn is_copied(&self, len: usize) -> bool {
        len <= self.limits.copied_max
    }

    /// Prepares a caller's buffer for one operation. If the provider requires registered origin
    /// buffers, `register` registers it.
    fn lend(
        &self,
        peer: Peer,
        own: Span,
        register: impl FnOnce(&Endpoint) -> Result<(Registration, Span), FabricError>,
    ) -> Result<Lent, Post> {
        if !self.open.registers_origins() {
            return Ok((Local::Nothing, own, std::ptr::null_mut()));
        }
        // Each attempt at a post would register and deregister, by two system calls.
        if !self.open.operations.has_free(peer) {
            return Err(Post::Again);
        }
        // Also read before the registration, because the last of the others may end meanwhile.
        let has_others = self.has_registered();
        match register(&self.open.endpoint) {
            Ok((registered, bytes)) => {
                let descriptor = registered.descriptor();
                Ok((Local::Registered(registered, Arc::clone(&self.registered)), bytes, descriptor))
            }
            // The memory that a process may lock is limited, and the end of another operation frees
            // some.
            Err(_) if has_others || self.has_registered() => Err(Post::Again),
            Err(error) => Err(Post::Broken(Box::new(Fault::new(peer, error)))),
        }
    }

    /// Whether an operation is in flight whose bytes were registered for it.
    fn has_registered(&self) -> bool {
        Arc::strong_count(&self.registered) > 1
    }
}

#[cold]
fn unconnected(peer: Peer) -> Post {
    Post::Broken(Box::new(Fault::new(peer, Reason::NotConnected)))
}

impl Port for OfiPort {
    type Remote = OfiRemote;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        let name = self.open.endpoint.name().unwrap_or_default();
        let addresses = self.open.endpoint.registering().addresses;
        let table = self.progress.notices().map(|notices| notices.table(addresses)).unwrap_or_default();
        [self.progress.token(), table.key, table.base, table.share]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(name)
            .collect()
    }

    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        let Some((head, name)) =
            address.split_first_chunk::<HEAD>().filter(|(_, name)| (1..=ADDRESS).contains(&name.len()))
        else {
            let reason = Reason::ForeignAddress { length: address.len() };
            return Err(FabricError::failed(format!("connecting to {peer}"), reason));
        };
        let words = head.as_chunks::<8>().0;
        let [token, key, base, share] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        let destination = |address| (peer, Destination { address, token });
        self.open.sends.meet(peer);
        self.open.operations.meet(peer);
        if let Some(notices) = self.progress.notices() {
            notices.meet(peer, Table { key, base, share });
        }
        if let Some(pacing) = self.progress.pacing() {
            pacing.expect(name);
        }
        self.peers.get_or_try_insert(peer, || self.open.endpoint.insert(name).map(destination))?;
        Ok(())
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<OfiRemote, FabricError> {
        let [tag, key, base, len] = key.0;
        if tag != TAG {
            return Err(FabricError::failed(format!("importing a region of {peer}"), Reason::ForeignKey));
        }
        if self.address_of(peer).is_none() {
            return Err(FabricError::failed(format!("importing a region of {peer}"), Reason::NotConnected));
        }
        Ok(OfiRemote { peer, key, base, len })
    }

    fn direct<'r>(&self, _remote: &'r OfiRemote) -> Option<&'r Memory> {
        None
    }

    fn amo_on(&self, _remote: &OfiRemote, kind: AmoKind, width: Width) -> Option<Coherence> {
        self.atomics.coherence(kind, width)
    }

    fn put_inline(&self, to: &OfiRemote, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post {
        self.put_packed(to, offset, bytes.len(), |buffer| buffer.copy_from_slice(bytes), tally)
    }

    fn put_packed(
        &self,
        to: &OfiRemote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post {
        if len > self.limits.packed_max || !inside(offset, len, to.len) {
            return outside(to, offset, len);
        }
        if len == 0 {
            fill(&mut []);
            return Post::Done;
        }
        let (slot, address) = match self.begin(to.peer, tally, Local::Nothing) {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        // SAFETY: the slot was just taken, so its buffer is ours until the post; `len` is within
        // it.
        fill(unsafe { std::slice::from_raw_parts_mut(slot.buffer(), len) });
        let from = [vector(Span::from_raw(slot.buffer(), len))];
        let descriptors = &mut [self.open.descriptor(Pool::Operations)];
        let status = self.open.write(to, offset, &from, descriptors, (slot, address));
        self.posted(to.peer, tally, slot, status)
    }

    fn put_immediate(&self, to: &OfiRemote, offset: u64, bytes: &[u8], immediate: Immediate, tally: &TallyRef) -> Post {
        let Some(notices) = self.progress.notices() else {
            return Post::Broken(Box::new(Fault::new(to.peer, Reason::NoImmediates)));
        };
        if !self.limits.immediates.fit(immediate) {
            return Post::Broken(Box::new(Fault::new(to.peer, Reason::NoImmediates)));
        }
        if bytes.len() > self.limits.packed_max || !inside(offset, bytes.len(), to.len) {
            return outside(to, offset, bytes.len());
        }
        let Some(line) = notices.line(to.peer) else {
            return Post::Broken(Box::new(Fault::new(to.peer, Reason::NoImmediates)));
        };
        if !line.take() {
            return self.without_share(line);
        }
        let (slot, address) = match self.begin(to.peer, tally, Local::Notice) {
            Ok(begun) => begun,
            Err(answer) => {
                line.put_back();
                return answer;
            }
        };
        // SAFETY: the slot was just taken, so its buffer is ours until the post, and has room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.buffer(), bytes.len()) };
        let data = notices.data(immediate);
        let status = self.open.write_with_data(to, offset, bytes.len(), data, (slot, address));
        if status != 0 {
            line.put_back();
        }
        self.read_taken(line);
        self.posted(to.peer, tally, slot, status)
    }

    unsafe fn put(&self, to: &OfiRemote, offset: u64, from: Span, tally: &TallyRef) -> Post {
        if !inside(offset, from.len(), to.len) {
            return outside(to, offset, from.len());
        }
        if from.is_empty() {
            return Post::Done;
        }
        if self.is_copied(from.len()) {
            // SAFETY: the caller promised that the bytes are readable and not written meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), from.len()) };
            return self.put_inline(to, offset, bytes, tally);
        }
        self.look_before(from.len());
        // SAFETY: the caller promised that its bytes stay until the tally falls. The slot keeps the
        // registration and drops it before the tally falls.
        let lent = self.lend(to.peer, from, |endpoint| unsafe { endpoint.register_source(from) });
        let (local, from, descriptor) = match lent {
            Ok(lent) => lent,
            Err(answer) => return answer,
        };
        let begun = match self.begin(to.peer, tally, local) {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        let status = self.open.write(to, offset, &[vector(from)], &mut [descriptor], begun);
        self.posted(to.peer, tally, begun.0, status)
    }

    unsafe fn get(&self, from: &OfiRemote, offset: u64, into: Span, tally: &TallyRef) -> Post {
        if !inside(offset, into.len(), from.len) {
            return outside(from, offset, into.len());
        }
        if into.is_empty() {
            return Post::Done;
        }
        if self.is_copied(into.len()) {
            return self.fetch(from, offset, into.len(), Local::Result(0, into), tally);
        }
        self.look_before(into.len());
        let lent = self.lend(from.peer, into, |endpoint| {
            // SAFETY: as in `put`.
            Ok((unsafe { endpoint.register_destination(into) }?, into))
        });
        let (local, into, descriptor) = match lent {
            Ok(lent) => lent,
            Err(answer) => return answer,
        };
        let begun = match self.begin(from.peer, tally, local) {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        let status = self.open.read(from, offset, into, descriptor, begun);
        self.posted(from.peer, tally, begun.0, status)
    }

    unsafe fn put_list(&self, to: &OfiRemote, offset: u64, from: &[Span], tally: &TallyRef) -> Post {
        if let [one] = from {
            // SAFETY: the caller's promise.
            return unsafe { self.put(to, offset, *one, tally) };
        }
        self.list(to, offset, from, tally, |own, descriptors, begun| {
            self.open.write(to, offset, own, descriptors, begun)
        })
    }

    unsafe fn get_list(&self, from: &OfiRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        if let [one] = into {
            // SAFETY: the caller's promise.
            return unsafe { self.get(from, offset, *one, tally) };
        }
        self.list(from, offset, into, tally, |own, descriptors, begun| {
            self.open.read_all(from, offset, own, descriptors, begun)
        })
    }

    unsafe fn get_scattered(&self, from: &OfiRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        let len = into.iter().map(|part| part.len()).sum();
        if len > self.limits.packed_max || !inside(offset, len, from.len) {
            return outside(from, offset, len);
        }
        if len == 0 {
            return Post::Done;
        }
        self.fetch(from, offset, len, Local::Scattered(into.into()), tally)
    }

    unsafe fn amo(&self, on: &OfiRemote, offset: u64, amo: Amo, into: Span, tally: &TallyRef) -> Post {
        if !inside(offset, amo.width.bytes(), on.len) || self.amo_on(on, amo.kind, amo.width).is_none() {
            return outside(on, offset, amo.width.bytes());
        }
        let result = into.slice(0, into.len().min(amo.width.bytes())).unwrap_or(Span::EMPTY);
        let local = Local::Result(RESULT, result);
        let begun = match self.begin(on.peer, tally, local) {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        let status = self.open.perform(on, offset, amo, begun);
        self.posted(on.peer, tally, begun.0, status)
    }

    fn send(&self, to: Peer, message: &[u8]) -> Post {
        let Some(&(_, Destination { address, token })) = self.peers.get(to) else { return unconnected(to) };
        if message.len() > self.limits.message_max {
            let reason = Reason::TooLong { length: message.len(), limit: self.limits.message_max };
            return Post::Broken(Box::new(Fault::new(to, reason)));
        }
        // The provider would send the message by a new connection, without the puts that failed on
        // the old one.
        if self.limits.ordered
            && let Some(fault) = self.open.sends.failure(to)
        {
            return Post::Broken(Box::new(fault.clone()));
        }
        let Some(slot) = self.open.sends.take(to) else { return Post::Again };
        self.note_post();
        let head = [u64::from(self.me.0).to_le_bytes(), token.to_le_bytes()];
        let status = self.open.send(head, message, (slot, address));
        if status == 0 {
            return Post::Done;
        }
        self.open.sends.give_back(slot);
        self.refused(to, status)
    }

    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        self.progress.poll(handler)
    }

    fn settle(&self, handler: &impl Handler) -> Result<(), FabricError> {
        self.progress.settle(handler)
    }

    fn lost(&self) -> Option<Fault> {
        self.progress.lost().cloned()
    }

    fn wait(&self, limit: Duration) {
        self.progress.wait(limit, None, || true);
    }

    fn wait_with_descriptor(
        &self,
        limit: Duration,
        _: Awaited,
        other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool {
        self.progress.wait(limit, other, still_idle)
    }

    fn wake(&self) {
        self.progress.wake();
    }
    fn posts(&self) -> u32 {
        // Relaxed: see `note_post`.
        self.posts.load(Ordering::Relaxed)
    }
}

//! Posting and completing: each put is a write with delivery complete, each get a read, each atomic
//! a fetching atomic.
//!
//! Every operation takes a slot and gives it back with its completion. The provider locks its own
//! objects (FI_THREAD_SAFE), so the port has no lock.

use std::ffi::c_void;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use transom_fabric::{
    Amo, AmoKind, Coherence, FabricError, Fault, Handler, Limits, Peer, PeerMap, Port, Post, RegionKey, Span, TallyRef,
    Width, secret,
};

use crate::domain::{Assembly, Atomics, TAG, datatype, operation};
use crate::endpoint::{Endpoint, Registration};
use crate::offer::Offer;
use crate::slots::{HEADER, Local, Purpose, Slot, Slots};
use crate::strangers::Strangers;
use crate::sys;

/// Most operations in flight.
const OPERATIONS: u32 = 1024;
/// Longest inline or packed put, in bytes.
const PACKED: usize = 4096;
/// Most outgoing messages in flight.
const SENDS: u32 = 128;
/// Most messages that arrive before `progress` takes them; with their buffers some 3 MiB.
const RECEIVES: u32 = 192;
/// Longest message in bytes, with its header. Longer ones leave the eager protocol of
/// `tcp;ofi_rxm`.
const MESSAGE: usize = 16384;
/// Completions read by one call.
const BATCH: usize = 32;
/// Longest address of a provider, in bytes.
const ADDRESS: usize = 256 - 8;
/// Length of a wait where no descriptor reports arrivals.
const NAP: Duration = Duration::from_micros(200);

/// The way to the peers through libfabric.
#[derive(Debug)]
pub struct OfiPort {
    open: Arc<Open>,
    peers: PeerMap<(Peer, Way)>,
    limits: Limits,
    atomics: Atomics,
    /// This process's rank, which each message carries.
    me: Peer,
    /// The token that messages to this process must carry. Peers get it with the address, through
    /// the launcher; other processes can't.
    token: u64,
    strangers: Strangers,
    wake: OwnedFd,
    /// The first peer to which a message could not be delivered.
    lost: OnceLock<Fault>,
}

/// The route to a peer: its address, and the token that messages to it carry.
#[derive(Clone, Copy, Debug)]
struct Way {
    address: sys::fi_addr_t,
    token: u64,
}

/// The endpoint and its buffers. Regions keep it, so that no memory that the provider uses is
/// freed. Fields drop in order: registrations, then the endpoint with the operations in flight,
/// then the buffers.
#[derive(Debug)]
pub(crate) struct Open {
    /// Registrations of the pools' memory in the order of [`Pool`], where the provider requires
    /// registered origin buffers.
    local: Option<[Registration; 3]>,
    pub(crate) endpoint: Endpoint,
    operations: Slots,
    sends: Slots,
    receives: Slots,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.operations.abandon();
    }
}

/// The owner of a buffer's memory.
#[derive(Clone, Copy, Debug)]
enum Pool {
    Operations,
    Sends,
    Receives,
}

/// The record of an operation to post, and its peer's address.
type Posted<'s> = (&'s Slot, sys::fi_addr_t);

/// A peer's region. It holds no address, which is the same for all regions of a peer, because
/// windows keep a remote for each target.
#[derive(Debug)]
pub struct OfiRemote {
    peer: Peer,
    key: u64,
    base: u64,
    len: u64,
}

impl OfiRemote {
    /// The range of the remote region from `offset` on, with the length of `own`.
    #[inline(always)]
    fn part(&self, offset: u64, own: &[sys::iovec]) -> sys::fi_rma_iov {
        sys::fi_rma_iov { addr: self.base + offset, len: own.iter().map(|part| part.iov_len).sum(), key: self.key }
    }
}

impl OfiPort {
    pub(crate) fn new(endpoint: Endpoint, atomics: Atomics, how: &Assembly) -> Result<OfiPort, FabricError> {
        let offer = Offer::of(endpoint.info());
        let limits = Limits {
            inline_max: PACKED,
            packed_max: PACKED,
            copied_max: if endpoint.registering().local { PACKED } else { 0 },
            transfer_max: offer.transfer.min(1 << 30),
            // Lists are no faster where each part would have to be registered.
            list_max: if endpoint.registering().local { 1 } else { offer.list.clamp(1, LIST) },
            message_max: MESSAGE.min(offer.transfer) - HEADER,
            passive_target: how.passive,
        };
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| FabricError::failed("eventfd", error))?;
        let operations = Slots::new(OPERATIONS, PACKED);
        let most = u32::try_from(offer.receives).unwrap_or(RECEIVES).clamp(1, RECEIVES);
        let (sends, receives) = (Slots::new(SENDS, MESSAGE), Slots::new(most, MESSAGE));
        let local = match endpoint.registering().local {
            false => None,
            true => {
                Some([register(&endpoint, &operations)?, register(&endpoint, &sends)?, register(&endpoint, &receives)?])
            }
        };
        let open = Arc::new(Open { local, endpoint, operations, sends, receives });
        let port = OfiPort {
            open,
            peers: PeerMap::new(),
            limits,
            atomics,
            me: how.rank,
            token: secret::word()?,
            strangers: Strangers::new(how.rank),
            wake,
            lost: OnceLock::new(),
        };
        for slot in port.open.receives.all() {
            port.post_receive(slot)?;
        }
        Ok(port)
    }

    pub(crate) fn open(&self) -> &Arc<Open> {
        &self.open
    }

    pub(crate) fn atomics(&self) -> Atomics {
        self.atomics
    }

    fn descriptor(&self, pool: Pool) -> *mut c_void {
        self.open.local.as_ref().map_or(std::ptr::null_mut(), |pools| pools[pool as usize].descriptor())
    }

    fn post_receive(&self, slot: &Slot) -> Result<(), FabricError> {
        loop {
            // SAFETY: the slot's buffer and context belong to the provider until the completion;
            // the pool lives as long as the endpoint is open (see Drop).
            let status = unsafe {
                let receive = (*(*self.open.endpoint.ep).msg).recv.expect("recv");
                receive(
                    self.open.endpoint.ep,
                    slot.buffer().cast(),
                    MESSAGE,
                    self.descriptor(Pool::Receives),
                    u64::MAX,
                    slot.context(),
                )
            };
            match -status {
                0 => return Ok(()),
                sys::FI_EAGAIN => std::thread::yield_now(),
                _ => return Err(FabricError::failed("fi_recv", self.open.endpoint.library().strerror(status))),
            }
        }
    }

    #[inline]
    fn address_of(&self, peer: Peer) -> Option<sys::fi_addr_t> {
        self.peers.get(peer).map(|(_, way)| way.address)
    }

    /// Takes a slot, counts the operation and posts it by `post`, which gets the slot and the
    /// peer's address and returns libfabric's status.
    #[inline]
    fn operate(
        &self,
        remote: Peer,
        tally: &TallyRef,
        local: Local,
        post: impl FnOnce(&Slot, sys::fi_addr_t) -> isize,
    ) -> Post {
        let Some(address) = self.address_of(remote) else { return unconnected(remote) };
        let purpose = Purpose { peer: remote, tally: Some(tally.clone()), local };
        let Some(slot) = self.open.operations.take(purpose) else { return Post::Again };
        tally.begin();
        let status = post(slot, address);
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
        Post::Broken(Box::new(Fault { peer, reason: self.open.endpoint.library().strerror(status) }))
    }

    /// Writes with delivery complete: the completion means that the target has the data (man
    /// fi_rma, fi_endpoint).
    #[inline]
    fn write(&self, to: &OfiRemote, offset: u64, from: Span, descriptor: *mut c_void, posted: Posted<'_>) -> isize {
        self.write_all(to, offset, &[vector(from)], &mut [descriptor], posted)
    }

    /// Writes bytes from several places, each with its descriptor, with delivery complete.
    #[inline(always)]
    fn write_all(
        &self,
        to: &OfiRemote,
        offset: u64,
        from: &[sys::iovec],
        descriptors: &mut [*mut c_void],
        (slot, address): Posted<'_>,
    ) -> isize {
        let target = to.part(offset, from);
        let message = message(from, descriptors, &target, slot, address);
        // SAFETY: the vectors live over the call, which copies them (man fi_rma). The source's
        // bytes stay until the completion: a slot's because it is in flight, the caller's by its
        // promise.
        unsafe {
            let write = (*(*self.open.endpoint.ep).rma).writemsg.expect("writemsg");
            write(self.open.endpoint.ep, &raw const message, sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION)
        }
    }

    /// Reads into several places of the caller.
    fn read_all(
        &self,
        from: &OfiRemote,
        offset: u64,
        into: &[sys::iovec],
        descriptors: &mut [*mut c_void],
        (slot, address): Posted<'_>,
    ) -> isize {
        let source = from.part(offset, into);
        let message = message(into, descriptors, &source, slot, address);
        // SAFETY: the vectors live over the call, which copies them; the caller's places stay by
        // its promise.
        unsafe {
            let read = (*(*self.open.endpoint.ep).rma).readmsg.expect("readmsg");
            read(self.open.endpoint.ep, &raw const message, sys::FI_COMPLETION)
        }
    }

    /// Posts a list of the caller's bytes by `post`: several parts, which need no registration.
    fn list(
        &self,
        remote: &OfiRemote,
        offset: u64,
        parts: &[Span],
        tally: &TallyRef,
        post: impl FnOnce(&[sys::iovec], &mut [*mut c_void], Posted<'_>) -> isize,
    ) -> Post {
        let len = parts.iter().map(|part| part.len()).sum();
        if !inside(offset, len, remote.len) {
            return outside(remote, offset, len);
        }
        let (count, most) = (parts.len(), self.limits.list_max);
        if count > most {
            let reason = format!("a list of {count} parts; at most {most}");
            return Post::Broken(Box::new(Fault { peer: remote.peer, reason }));
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
        self.operate(remote.peer, tally, Local::Nothing, |slot, address| {
            post(&vectors[..count], &mut descriptors[..count], (slot, address))
        })
    }

    /// Reads into the slot's buffer or the caller's place.
    #[inline]
    fn read(
        &self,
        from: &OfiRemote,
        offset: u64,
        into: Span,
        descriptor: *mut c_void,
        (slot, address): Posted<'_>,
    ) -> isize {
        // SAFETY: the slot is in flight until the completion; the caller's place stays by its
        // promise.
        unsafe {
            let read = (*(*self.open.endpoint.ep).rma).read.expect("read");
            let (at, len) = (into.as_ptr().cast(), into.len());
            let (remote, context) = (from.base + offset, slot.context());
            read(self.open.endpoint.ep, at, len, descriptor, address, remote, from.key, context)
        }
    }

    /// Reads `len` bytes into a slot's buffer; `local` gives their destination.
    fn fetch(&self, from: &OfiRemote, offset: u64, len: usize, local: Local, tally: &TallyRef) -> Post {
        self.operate(from.peer, tally, local, |slot, address| {
            let place = Span::from_raw(slot.buffer(), len);
            self.read(from, offset, place, self.descriptor(Pool::Operations), (slot, address))
        })
    }

    /// Whether bytes are copied through the slot's buffer: the provider requires registered origin
    /// buffers and the bytes fit.
    fn is_copied(&self, len: usize) -> bool {
        len <= self.limits.copied_max
    }

    /// Registers a caller's bytes for one operation, where the provider requires it.
    fn lend(&self, peer: Peer, own: Span) -> Result<(Local, *mut c_void), Post> {
        if self.open.local.is_none() {
            return Ok((Local::Nothing, std::ptr::null_mut()));
        }
        // SAFETY: the caller of `put` or `get` promised that its bytes stay until the tally falls.
        // The slot keeps the registration and drops it before the tally falls.
        let registered = unsafe { self.open.endpoint.register(own.as_ptr(), own.len()) };
        let registered =
            registered.map_err(|error| Post::Broken(Box::new(Fault { peer, reason: error.to_string() })))?;
        let descriptor = registered.descriptor();
        Ok((Local::Registered(registered), descriptor))
    }

    /// Performs an atomic with delivery complete: without it a device may complete before the
    /// target's processes can see the effect.
    fn perform(&self, on: &OfiRemote, offset: u64, amo: Amo, (slot, address): Posted<'_>) -> isize {
        let (ep, flags) = (self.open.endpoint.ep, sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION);
        let mut descriptors = [self.descriptor(Pool::Operations); 3];
        let [operands, compares, results] = descriptors.each_mut().map(std::ptr::from_mut);
        let at = |place| sys::fi_ioc { addr: slot.buffer().wrapping_add(place).cast(), count: 1 };
        let (operand, compare, mut result) = (at(0), at(COMPARE), at(RESULT));
        let target = sys::fi_rma_ioc { addr: on.base + offset, count: 1, key: on.key };
        let message = sys::fi_msg_atomic {
            msg_iov: &raw const operand,
            desc: operands,
            iov_count: 1,
            addr: address,
            rma_iov: &raw const target,
            rma_iov_count: 1,
            datatype: datatype(amo.width),
            op: operation(amo.kind),
            context: slot.context(),
            data: 0,
        };
        // SAFETY: the vectors live over the call (man fi_atomic: they are copied); the slot's
        // buffer, aligned to 8, holds operand, comparand and result until the completion.
        unsafe {
            store(operand.addr.cast(), amo.width, amo.operand);
            store(compare.addr.cast(), amo.width, amo.compare);
            let (table, result) = ((*ep).atomic, &raw mut result);
            if amo.kind == AmoKind::CompareSwap {
                let swap = (*table).compwritemsg.expect("compwritemsg");
                return swap(ep, &raw const message, &raw const compare, compares, 1, result, results, 1, flags);
            }
            let fetch = (*table).readwritemsg.expect("readwritemsg");
            fetch(ep, &raw const message, result, results, 1, flags)
        }
    }

    /// Sleeps on descriptors beside the wake descriptor; false where the limit passed.
    fn sleep(&self, others: [Option<BorrowedFd<'_>>; 2], limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).ok();
        let wake = self.wake.as_fd();
        // In the place of one that is absent the wake descriptor is there again.
        let [first, second] = others.map(|other| other.unwrap_or(wake));
        let mut fds = [wake, first, second].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // An interrupted poll returns early, which the contract allows.
        let Ok(ready) = rustix::event::poll(&mut fds, limit.as_ref()) else { return true };
        if !fds[0].revents().is_empty() {
            // The read finds nothing where another thread took the wake.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        ready > 0
    }

    fn completed(&self, entry: &sys::fi_cq_msg_entry, handler: &impl Handler) -> Result<(), FabricError> {
        if let Some(slot) = self.open.receives.of_context(entry.op_context) {
            self.arrived(slot, entry.len, handler);
            return self.post_receive(slot);
        }
        if let Some(slot) = self.open.operations.of_context(entry.op_context) {
            if let Some(Purpose { tally: Some(tally), local, .. }) = self.open.operations.give_back(slot, true) {
                local.end();
                tally.finish();
            }
        } else if let Some(slot) = self.open.sends.of_context(entry.op_context) {
            self.open.sends.give_back(slot, false);
        }
        Ok(())
    }

    fn arrived(&self, slot: &Slot, len: usize, handler: &impl Handler) {
        // SAFETY: the receive is complete and is not posted again before this returns, so the
        // buffer has no other user.
        let bytes = unsafe { std::slice::from_raw_parts(slot.buffer(), len.min(MESSAGE)) };
        match heading(bytes) {
            Some((from, token, message)) if token == self.token => handler.message(from, message),
            _ => self.strangers.refused(),
        }
    }

    /// Takes one error completion.
    fn failed(&self) -> Result<(), FabricError> {
        // SAFETY: an all-zero entry is valid (integers and null pointers), and offers no buffer for
        // error data.
        let mut entry: sys::fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: an open queue; the entry is larger than any version writes.
        let status = unsafe {
            let read = (*(*self.open.endpoint.cq).ops).readerr.expect("readerr");
            read(self.open.endpoint.cq, &raw mut entry, 0)
        };
        if status != 1 {
            return Ok(());
        }
        let reason = self.open.endpoint.library().strerror(entry.err as isize);
        match self
            .open
            .operations
            .of_context(entry.op_context)
            .and_then(|slot| self.open.operations.give_back(slot, false))
        {
            Some(Purpose { peer, tally: Some(tally), local }) => {
                local.end();
                tally.fail(&Fault { peer, reason });
                return Ok(());
            }
            // Every operation has a tally.
            Some(_) => return Ok(()),
            None => {}
        }
        if let Some(slot) = self.open.sends.of_context(entry.op_context) {
            if let Some(Purpose { peer, .. }) = self.open.sends.give_back(slot, false) {
                // Only the first fault is kept.
                let _ = self.lost.set(Fault { peer, reason });
            }
            return Ok(());
        }
        match self.open.receives.of_context(entry.op_context) {
            Some(slot) => self.post_receive(slot),
            None => Err(FabricError::failed("an operation that nobody posted", reason)),
        }
    }
}

/// The sender that a message names, its token, and the rest.
fn heading(bytes: &[u8]) -> Option<(Peer, u64, &[u8])> {
    let (rank, rest) = bytes.split_first_chunk::<8>()?;
    let (token, message) = rest.split_first_chunk()?;
    let rank = u32::try_from(u64::from_le_bytes(*rank)).ok()?;
    Some((Peer(rank), u64::from_le_bytes(*token), message))
}

/// Most parts of a list.
const LIST: usize = 8;

fn vector(bytes: Span) -> sys::iovec {
    sys::iovec { iov_base: bytes.as_ptr().cast(), iov_len: bytes.len() }
}

/// The argument of libfabric's message calls, which points to the parts.
#[inline(always)]
fn message(
    own: &[sys::iovec],
    descriptors: &mut [*mut c_void],
    remote: &sys::fi_rma_iov,
    slot: &Slot,
    address: sys::fi_addr_t,
) -> sys::fi_msg_rma {
    sys::fi_msg_rma {
        msg_iov: own.as_ptr(),
        desc: descriptors.as_mut_ptr(),
        iov_count: own.len(),
        addr: address,
        rma_iov: remote,
        rma_iov_count: 1,
        context: slot.context(),
        data: 0,
    }
}

/// Offsets in an atomic's buffer: comparand and result; the operand is at 0.
const COMPARE: usize = 8;
const RESULT: usize = 16;

fn register(endpoint: &Endpoint, slots: &Slots) -> Result<Registration, FabricError> {
    let (at, len) = slots.buffers();
    // SAFETY: the pool and its registration are fields of one `Open`, whose drop closes the
    // registration first.
    unsafe { endpoint.register(at, len) }
}

/// Whether `[offset, offset + len)` is inside a region of `limit` bytes.
fn inside(offset: u64, len: usize, limit: u64) -> bool {
    offset.checked_add(len as u64).is_some_and(|end| end <= limit)
}

#[cold]
fn unconnected(peer: Peer) -> Post {
    Post::Broken(Box::new(Fault { peer, reason: "it was not connected".into() }))
}

#[cold]
fn outside(remote: &OfiRemote, offset: u64, len: usize) -> Post {
    let reason = format!("{len} bytes at {offset} of a region of {} bytes", remote.len);
    Post::Broken(Box::new(Fault { peer: remote.peer, reason }))
}

impl Port for OfiPort {
    type Remote = OfiRemote;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        let name = self.open.endpoint.name().unwrap_or_default();
        [&self.token.to_le_bytes()[..], &name].concat()
    }

    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        let Some((token, name)) = address.split_first_chunk().filter(|(_, name)| (1..=ADDRESS).contains(&name.len()))
        else {
            return Err(FabricError::failed(format!("connecting to {peer}"), "an address that is none"));
        };
        let token = u64::from_le_bytes(*token);
        let way = |address| (peer, Way { address, token });
        self.peers.get_or_try_insert(peer, || self.open.endpoint.insert(name).map(way))?;
        Ok(())
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<OfiRemote, FabricError> {
        let [tag, key, base, len] = key.0;
        if tag != TAG {
            return Err(FabricError::failed(format!("a region of {peer}"), "its key is none of libfabric's"));
        }
        if self.address_of(peer).is_none() {
            return Err(FabricError::failed(format!("a region of {peer}"), "it was not connected"));
        }
        Ok(OfiRemote { peer, key, base, len })
    }

    fn direct<'r>(&self, _remote: &'r OfiRemote) -> Option<&'r transom_fabric::Memory> {
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
        self.operate(to.peer, tally, Local::Nothing, |slot, address| {
            // SAFETY: the slot was just taken, so its buffer is ours until the post; `len` is
            // within it.
            fill(unsafe { std::slice::from_raw_parts_mut(slot.buffer(), len) });
            let from = Span::from_raw(slot.buffer(), len);
            self.write(to, offset, from, self.descriptor(Pool::Operations), (slot, address))
        })
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
        let (local, descriptor) = match self.lend(to.peer, from) {
            Ok(lent) => lent,
            Err(broken) => return broken,
        };
        self.operate(to.peer, tally, local, |slot, address| self.write(to, offset, from, descriptor, (slot, address)))
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
        let (local, descriptor) = match self.lend(from.peer, into) {
            Ok(lent) => lent,
            Err(broken) => return broken,
        };
        self.operate(from.peer, tally, local, |slot, address| {
            self.read(from, offset, into, descriptor, (slot, address))
        })
    }

    unsafe fn put_list(&self, to: &OfiRemote, offset: u64, from: &[Span], tally: &TallyRef) -> Post {
        if let [one] = from {
            // SAFETY: the caller's promise.
            return unsafe { self.put(to, offset, *one, tally) };
        }
        self.list(to, offset, from, tally, |own, descriptors, posted| {
            self.write_all(to, offset, own, descriptors, posted)
        })
    }

    unsafe fn get_list(&self, from: &OfiRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        if let [one] = into {
            // SAFETY: the caller's promise.
            return unsafe { self.get(from, offset, *one, tally) };
        }
        self.list(from, offset, into, tally, |own, descriptors, posted| {
            self.read_all(from, offset, own, descriptors, posted)
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
        self.operate(on.peer, tally, local, |slot, address| self.perform(on, offset, amo, (slot, address)))
    }

    fn send(&self, to: Peer, message: &[u8]) -> Post {
        let Some(&(_, Way { address, token })) = self.peers.get(to) else { return unconnected(to) };
        if message.len() > self.limits.message_max {
            let reason = format!("a message of {} bytes; at most {}", message.len(), self.limits.message_max);
            return Post::Broken(Box::new(Fault { peer: to, reason }));
        }
        let purpose = Purpose { peer: to, tally: None, local: Local::Nothing };
        let Some(slot) = self.open.sends.take(purpose) else { return Post::Again };
        let head = [u64::from(self.me.0).to_le_bytes(), token.to_le_bytes()];
        // SAFETY: the slot was just taken; header and message fit its buffer.
        let status = unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr().cast(), slot.buffer(), HEADER);
            std::ptr::copy_nonoverlapping(message.as_ptr(), slot.buffer().add(HEADER), message.len());
            let send = (*(*self.open.endpoint.ep).msg).send.expect("send");
            let (at, len) = (slot.buffer().cast(), HEADER + message.len());
            send(self.open.endpoint.ep, at, len, self.descriptor(Pool::Sends), address, slot.context())
        };
        if status == 0 {
            return Post::Done;
        }
        self.open.sends.give_back(slot, false);
        self.refused(to, status)
    }

    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        let empty = sys::fi_cq_msg_entry { op_context: std::ptr::null_mut(), flags: 0, len: 0 };
        let mut entries = [empty; BATCH];
        // SAFETY: an open queue of this format, room for BATCH entries.
        let status = unsafe {
            let read = (*(*self.open.endpoint.cq).ops).read.expect("read");
            read(self.open.endpoint.cq, entries.as_mut_ptr().cast(), BATCH)
        };
        match usize::try_from(status) {
            Ok(count) => {
                let mut outcome = Ok(());
                for entry in &entries[..count.min(BATCH)] {
                    // Each completion is processed, also after an error, because the queue reports
                    // it once.
                    outcome = outcome.and(self.completed(entry, handler));
                }
                outcome.map(|()| count)
            }
            Err(_) if -status == sys::FI_EAGAIN => Ok(0),
            Err(_) if -status == sys::FI_EAVAIL => self.failed().map(|()| 1),
            Err(_) => Err(FabricError::failed("fi_cq_read", self.open.endpoint.library().strerror(status))),
        }
    }

    fn lost(&self) -> Option<Fault> {
        self.lost.get().cloned()
    }

    fn wait(&self, limit: Duration) {
        self.wait_beside(limit, None);
    }

    fn wait_beside(&self, limit: Duration, other: Option<BorrowedFd<'_>>) -> bool {
        match self.open.endpoint.wait_fd() {
            Some(queue) if self.open.endpoint.may_sleep() => self.sleep([Some(queue), other], limit),
            Some(_) => true,
            None => self.sleep([None, other], limit.min(NAP)),
        }
    }

    fn wake(&self) {
        // The write fails only where 2^64 - 2 wakes are pending, and then the descriptor is
        // readable.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Stores a value at its width.
///
/// # Safety
/// `at` has 8 writable bytes.
unsafe fn store(at: *mut u8, width: Width, value: u64) {
    #[allow(clippy::cast_possible_truncation)] // the width says that the low half is the value
    match width {
        // SAFETY: the caller's promise; unaligned stores have no further requirement.
        Width::W32 => unsafe { at.cast::<u32>().write_unaligned(value as u32) },
        // SAFETY: the caller's promise; unaligned stores have no further requirement.
        Width::W64 => unsafe { at.cast::<u64>().write_unaligned(value) },
    }
}

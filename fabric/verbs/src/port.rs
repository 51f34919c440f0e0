//! The contract's posts. Each is one work request: a put is a write, a get a read, an atomic a
//! fetch-and-add or compare-and-swap, a message a send. `progress` handles completions.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use transom_fabric::{
    Amo, AmoKind, Awaited, Cause, Coherence, FabricError, Fault, Handler, Immediate, Immediates, Limits, Memory, Peer,
    Port, Post, Reason, RegionKey, Span, TallyRef, Width,
};

use crate::address::Address;
use crate::connections::Connections;
use crate::credits::Credit;
use crate::device::{Device, Registration};
use crate::inbox::MESSAGE;
use crate::link::{Link, Refused};
use crate::opened::Open;
use crate::pool::{Block, Pools};
use crate::queue::Events;
use crate::registrations::Registrations;
use crate::remote::{TAG, VerbsRemote, coherence};
use crate::resources::Local;
use crate::sending::{Bytes, INLINE, LIST, Posted, Posting, Request};
use crate::sys;
use crate::wr_id::REFUSED;

/// The access to the peers through libibverbs.
#[derive(Debug)]
pub struct VerbsPort {
    open: Open,
    limits: Limits,
    /// Most inline bytes of a request.
    inline: usize,
    me: Peer,
    /// Each request in flight whose buffer was registered for it holds a clone, so the strong count
    /// is one more than the number of these requests.
    registered: Arc<()>,
}

impl VerbsPort {
    /// The port of rank `me`. A request has at most `inline` inline bytes, or `list` parts.
    pub(crate) fn new(open: Open, inline: usize, list: usize, me: Peer) -> Result<VerbsPort, FabricError> {
        let transfer_max = (open.device.port_attributes.max_msg_sz as usize).min(1 << 30);
        let limits = Limits {
            inline_max: Pools::SMALL,
            packed_max: Pools::LARGE,
            // All lengths that fit a buffer. With on-demand paging only small ones: the copy of
            // others costs more than a page fault.
            copied_max: if open.implicit_odp.is_some() { Pools::SMALL } else { Pools::LARGE },
            transfer_max,
            list_max: list,
            message_max: MESSAGE,
            // Opening a connection needs the target's process. The device serves operations alone.
            passive_target: false,
            // A responder executes the writes, atomics and sends of a queue pair in their order
            // (InfiniBand Architecture Specification, volume 1, "Ordering of work requests"). All
            // requests to a peer go by one queue pair in the order of their posts, and a held one
            // before the next. A request that fails moves the queue pair to the error state.
            ordered: true,
            gathers: false,
            combines: true,
            amos_ordered: true,
            amos_in_order: true,
            immediates: Immediates::ALL,
            answers_wait: Duration::ZERO,
        };
        Ok(VerbsPort { open, limits, inline: inline.min(INLINE as usize), me, registered: Arc::new(()) })
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.open.device
    }

    /// The registrations of this process's memory.
    pub(crate) fn registrations(&self) -> &Arc<Registrations<Registration>> {
        &self.open.registrations
    }

    /// The requests posted to a peer so far.
    pub fn posted(&self, to: Peer) -> Posted {
        self.open.connections.link(to).map(|link| link.posted()).unwrap_or_default()
    }

    /// The number of registrations of origin buffers so far.
    pub fn buffers_registered(&self) -> u64 {
        self.open.registrations.registered()
    }

    /// Whether the connection to a peer is being opened.
    #[cfg(test)]
    pub(crate) fn is_opening(&self, to: Peer) -> bool {
        self.open.connections.link(to).is_some_and(|link| link.is_opening())
    }

    /// Bytes of a request that are copied now: into the request, or into a buffer of the pools.
    /// `None`: no buffer is free.
    fn copied<'b>(&self, bytes: &'b [u8]) -> Option<(Bytes<'b>, Local)> {
        if bytes.len() <= self.inline {
            return Some((Bytes::Inline(bytes), Local::Nothing));
        }
        let pools = &self.open.resources.pools;
        let block = pools.take(bytes.len())?;
        // SAFETY: the buffer was just taken, so it has no other user, and has room for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pools.buffer(block), bytes.len()) };
        Some((Bytes::Element(pools.element(block, bytes.len())), Local::Block(block, Span::EMPTY)))
    }

    /// Posts a put with immediate data for which the receiver has posted a receive.
    fn put_with_credit(
        &self,
        to: &VerbsRemote,
        offset: u64,
        bytes: &[u8],
        immediate: Immediate,
        credit: Credit,
        tally: &TallyRef,
    ) -> Post {
        let len = bytes.len();
        let Some((bytes, local)) = self.copied(bytes) else { return Post::Again };
        let immediate = (immediate.number() | if credit.was_refused { REFUSED } else { 0 }).to_be();
        let (opcode, target) = (sys::IBV_WR_RDMA_WRITE_WITH_IMM, sys::Target { rdma: to.at(offset) });
        // Posted at once: the target may wait for it. Without bytes it is signaled, because calls
        // then wait for earlier puts. A target that computes only renews credit that runs out.
        let posting = Posting::of(len, if len == 0 { Posting::Signaled } else { Posting::Unsignaled });
        let solicited = credit.wakes_receiver();
        self.push(&to.link, Request { opcode, target, immediate, solicited, bytes, posting, tally: Some(tally), local })
    }

    /// Posts a message for which the receiver has posted a receive. `was_refused`: see [`REFUSED`].
    fn send_with_credit(&self, link: &Link, message: &[u8], was_refused: bool) -> Post {
        let Some((bytes, local)) = self.copied(message) else { return Post::Again };
        let immediate = (self.me.0 | if was_refused { REFUSED } else { 0 }).to_be();
        let (opcode, target) = (sys::IBV_WR_SEND_WITH_IMM, sys::Target { rdma: sys::Rdma { remote_addr: 0, rkey: 0 } });
        self.push(
            link,
            Request {
                opcode,
                target,
                immediate,
                solicited: true,
                bytes,
                posting: Posting::Signaled,
                tally: None,
                local,
            },
        )
    }

    /// Refuses a message for lack of credit. The next message tells the receiver, and this process
    /// sleeps only briefly until there is credit.
    #[cold]
    fn refuse(&self, link: &Link) -> Post {
        if link.is_broken() {
            return Post::Broken(Box::new(link.fault()));
        }
        if link.credits.refuse() {
            self.open.resources.flow.refuse(link.peer());
        }
        Post::Again
    }

    #[cfg(test)]
    pub(crate) fn flow(&self) -> &crate::credits::Flow {
        &self.open.resources.flow
    }

    /// The number of receives for messages.
    pub(crate) fn receives(&self) -> u32 {
        self.open.inbox.len()
    }

    /// The connections of this process.
    pub(crate) fn connections(&self) -> &Connections {
        &self.open.connections
    }

    /// Hands a request to its link.
    fn push(&self, link: &Link, request: Request<'_>) -> Post {
        match link.push(request, &self.open.resources) {
            Ok(()) => Post::Pending,
            Err(Refused::Again) => Post::Again,
            Err(Refused::Broken) => Post::Broken(Box::new(link.fault())),
        }
    }

    /// The longest put whose bytes are inline in the work request (`max_inline_data` in verbs).
    #[inline]
    pub fn max_inline_data(&self) -> usize {
        self.inline
    }

    /// Puts 1 to [`VerbsPort::max_inline_data`] bytes, inline in the work request, if the
    /// connection is open and has room. Returns whether it did; otherwise the call has no effect.
    #[inline(always)]
    pub fn try_put_inline(&self, to: &VerbsRemote, offset: u64, bytes: &[u8], tally: &TallyRef) -> bool {
        to.link.push_inline(|| to.at(offset), bytes, tally, &self.open.resources)
    }

    /// Puts bytes that are not inline in the request.
    ///
    /// # Safety
    /// Bytes that are copied are readable over the call; for others the rules of [`Port::put`]
    /// hold.
    #[inline(never)]
    unsafe fn put_long(&self, to: &VerbsRemote, offset: u64, from: Span, tally: &TallyRef) -> Post {
        if from.is_empty() {
            return Post::Done;
        }
        if !self.is_copied(from.len()) {
            // SAFETY: the caller's promise.
            return unsafe { self.transfer(sys::IBV_WR_RDMA_WRITE, to, offset, &[from], tally) };
        }
        // SAFETY: the caller promises that `from` is readable; `to` is a buffer of that length with
        // no other user.
        let fill = |to: *mut u8| unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        self.put_block(to, offset, from.len(), fill, tally)
    }

    /// Puts the bytes that `fill` writes into a buffer of `len` bytes.
    fn put_block(
        &self,
        to: &VerbsRemote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(*mut u8),
        tally: &TallyRef,
    ) -> Post {
        // Checked before the copy, which would be repeated with the post.
        if to.link.is_opening() {
            return Post::Again;
        }
        let Some(block) = self.open.resources.pools.take(len) else { return Post::Again };
        fill(self.open.resources.pools.buffer(block));
        let bytes = Bytes::Element(self.open.resources.pools.element(block, len));
        let (opcode, target, tally) = (sys::IBV_WR_RDMA_WRITE, sys::Target { rdma: to.at(offset) }, Some(tally));
        let (posting, local) = (Posting::of(len, Posting::Held), Local::Block(block, Span::EMPTY));
        self.push(&to.link, Request { opcode, target, immediate: 0, solicited: false, bytes, posting, tally, local })
    }

    /// Reads or writes the caller's bytes, in 1 to [`LIST`] parts, none of which is empty.
    ///
    /// # Safety
    /// As for [`Port::put`] or [`Port::get`], for each part.
    unsafe fn transfer(&self, opcode: u32, to: &VerbsRemote, offset: u64, own: &[Span], tally: &TallyRef) -> Post {
        // Checked before memory is registered, because the caller repeats the post until there is
        // room.
        if to.link.is_opening() || to.link.is_full() {
            return Post::Again;
        }
        let mut list = [sys::ibv_sge { addr: 0, length: 0, lkey: 0 }; LIST as usize];
        for (element, own) in list.iter_mut().zip(own) {
            #[allow(clippy::cast_possible_truncation)] // at most `transfer_max`
            let (addr, length) = (own.as_ptr() as u64, own.len() as u32);
            *element =
                sys::ibv_sge { addr, length, lkey: self.open.implicit_odp.as_ref().map_or(0, Registration::local_key) };
        }
        let list = &mut list[..own.len()];
        // Read before the registration, because the last other registered transfer may end
        // meanwhile.
        let has_others = self.has_registered();
        let local = match self.open.implicit_odp {
            Some(_) => Local::Nothing,
            // SAFETY: the caller's promise.
            None => match unsafe { self.lend(own, opcode == sys::IBV_WR_RDMA_READ) } {
                Ok(lent) => {
                    list.iter_mut().zip(&lent).for_each(|(element, own)| element.lkey = own.local_key());
                    Local::Registered(lent, Arc::clone(&self.registered))
                }
                // The memory that a process may lock is limited, and the end of another transfer
                // frees some.
                Err(_) if has_others || self.has_registered() => return Post::Again,
                Err(error) => return broken(to.link.peer(), error),
            },
        };
        let (bytes, target, tally) = (Bytes::List(list), sys::Target { rdma: to.at(offset) }, Some(tally));
        self.push(
            &to.link,
            Request { opcode, target, immediate: 0, solicited: false, bytes, posting: Posting::Signaled, tally, local },
        )
    }

    /// Whether a request is in flight whose bytes were registered for it.
    fn has_registered(&self) -> bool {
        Arc::strong_count(&self.registered) > 1
    }

    /// Registrations of the caller's bytes.
    ///
    /// # Safety
    /// The bytes are valid until the tally falls. The record ends its use of the registrations
    /// before that. Kept ones end when the memory is unmapped (`registrations`).
    unsafe fn lend(&self, own: &[Span], written: bool) -> Result<Box<[Arc<Registration>]>, FabricError> {
        let one = |own: &Span| {
            let base = own.as_ptr();
            let register = |range: &Range<usize>| {
                // SAFETY: the caller's promise, for the range of these bytes.
                let writable = unsafe { self.open.device.register_local(base, range.len(), true) };
                match writable {
                    Ok(registration) => Ok((registration, true)),
                    Err(error) if written => Err(error),
                    // SAFETY: as above.
                    Err(_) => unsafe { self.open.device.register_local(base, range.len(), false) }
                        .map(|registration| (registration, false)),
                }
            };
            self.open.registrations.get_or_register(base.addr()..base.addr() + own.len(), register)
        };
        own.iter().map(one).collect()
    }

    /// Reads or writes the non-empty parts of a list, by [`VerbsPort::transfer`].
    ///
    /// # Safety
    /// As for [`VerbsPort::transfer`].
    unsafe fn transfer_list(&self, opcode: u32, to: &VerbsRemote, offset: u64, own: &[Span], tally: &TallyRef) -> Post {
        let (mut parts, mut count, mut len) = ([Span::EMPTY; LIST as usize], 0, 0);
        if own.len() > self.limits.list_max {
            return broken(to.link.peer(), Reason::TooManyParts { parts: own.len(), limit: self.limits.list_max });
        }
        for part in own.iter().filter(|part| !part.is_empty()) {
            (parts[count], count, len) = (*part, count + 1, len + part.len());
        }
        match count {
            0 => Post::Done,
            _ if len > self.limits.transfer_max => too_long(to, len, self.limits.transfer_max),
            // SAFETY: the caller's promise.
            _ => unsafe { self.transfer(opcode, to, offset, &parts[..count], tally) },
        }
    }

    /// Whether this number of bytes is copied through a buffer of the pools.
    fn is_copied(&self, len: usize) -> bool {
        len <= self.limits.copied_max
    }

    /// Reads `len` bytes into a buffer of the pools. `local` gives their destination.
    fn get_block(
        &self,
        from: &VerbsRemote,
        offset: u64,
        len: usize,
        local: impl FnOnce(Block) -> Local,
        tally: &TallyRef,
    ) -> Post {
        let Some(block) = self.open.resources.pools.take(len) else { return Post::Again };
        let bytes = Bytes::Element(self.open.resources.pools.element(block, len));
        let (opcode, target, tally) = (sys::IBV_WR_RDMA_READ, sys::Target { rdma: from.at(offset) }, Some(tally));
        let (posting, local) = (Posting::of(len, Posting::Held), local(block));
        self.push(&from.link, Request { opcode, target, immediate: 0, solicited: false, bytes, posting, tally, local })
    }
}

#[cold]
fn broken(peer: Peer, reason: impl Into<Cause>) -> Post {
    Post::Broken(Box::new(Fault::new(peer, reason)))
}

#[cold]
fn too_long(to: &VerbsRemote, len: usize, most: usize) -> Post {
    broken(to.link.peer(), Reason::TooLong { length: len, limit: most })
}

impl Port for VerbsPort {
    type Remote = VerbsRemote;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.open.connections.address().encode()
    }

    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        let address = Address::decode(address).ok_or_else(|| {
            let reason = Reason::ForeignAddress { length: address.len() };
            FabricError::failed(format!("connecting to {peer}"), reason)
        })?;
        self.open.connections.connect(peer, &address, &self.open.resources)
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<VerbsRemote, FabricError> {
        let [tag, base, _, key] = key.0;
        let refused = |reason| FabricError::failed(format!("importing a region of {peer}"), reason);
        let key = u32::try_from(key).ok().filter(|_| tag == TAG);
        let key = key.ok_or_else(|| refused(Reason::ForeignKey))?;
        let link = self.open.connections.link(peer).ok_or_else(|| refused(Reason::NotConnected))?;
        Ok(VerbsRemote { link: Arc::clone(link), base, key })
    }

    fn direct<'r>(&self, _remote: &'r VerbsRemote) -> Option<&'r Memory> {
        None
    }

    fn amo_on(&self, _remote: &VerbsRemote, kind: AmoKind, width: Width) -> Option<Coherence> {
        coherence(&self.open.device, kind, width)
    }

    fn put_inline(&self, to: &VerbsRemote, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post {
        if (1..=self.inline).contains(&bytes.len()) {
            let target = sys::Target { rdma: to.at(offset) };
            let (opcode, tally, bytes, local) =
                (sys::IBV_WR_RDMA_WRITE, Some(tally), Bytes::Inline(bytes), Local::Nothing);
            return self.push(
                &to.link,
                Request { opcode, target, immediate: 0, solicited: false, bytes, posting: Posting::Held, tally, local },
            );
        }
        if bytes.len() > self.limits.inline_max {
            return too_long(to, bytes.len(), self.limits.inline_max);
        }
        // SAFETY: bytes of this length are copied before the call returns.
        unsafe { self.put_long(to, offset, Span::of(bytes), tally) }
    }

    fn put_packed(
        &self,
        to: &VerbsRemote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post {
        if len <= self.inline {
            let mut bytes = [0; INLINE as usize];
            fill(&mut bytes[..len]);
            return self.put_inline(to, offset, &bytes[..len], tally);
        }
        if len > self.limits.packed_max {
            return too_long(to, len, self.limits.packed_max);
        }
        // SAFETY: `to` is a buffer of `put_block` of that length with no other user.
        let fill = |to: *mut u8| fill(unsafe { std::slice::from_raw_parts_mut(to, len) });
        self.put_block(to, offset, len, fill, tally)
    }

    fn put_immediate(
        &self,
        to: &VerbsRemote,
        offset: u64,
        bytes: &[u8],
        immediate: Immediate,
        tally: &TallyRef,
    ) -> Post {
        if bytes.len() > self.limits.packed_max {
            return too_long(to, bytes.len(), self.limits.packed_max);
        }
        // Checked before the copy, which would be repeated with the post.
        if to.link.is_opening() || to.link.is_full() {
            return Post::Again;
        }
        let Some(credit) = to.link.credits.take() else { return self.refuse(&to.link) };
        let answer = self.put_with_credit(to, offset, bytes, immediate, credit, tally);
        if !matches!(answer, Post::Pending) {
            to.link.credits.put_back(credit);
        }
        answer
    }

    unsafe fn put(&self, to: &VerbsRemote, offset: u64, from: Span, tally: &TallyRef) -> Post {
        if from.len() <= self.inline {
            // SAFETY: the caller promised that the bytes are readable and not written meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), from.len()) };
            return self.put_inline(to, offset, bytes, tally);
        }
        // SAFETY: the caller's promise.
        unsafe { self.put_long(to, offset, from, tally) }
    }

    unsafe fn get(&self, from: &VerbsRemote, offset: u64, into: Span, tally: &TallyRef) -> Post {
        if into.is_empty() {
            return Post::Done;
        }
        if !self.is_copied(into.len()) {
            // SAFETY: the caller's promise.
            return unsafe { self.transfer(sys::IBV_WR_RDMA_READ, from, offset, &[into], tally) };
        }
        self.get_block(from, offset, into.len(), |block| Local::Block(block, into), tally)
    }

    unsafe fn put_list(&self, to: &VerbsRemote, offset: u64, from: &[Span], tally: &TallyRef) -> Post {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_list(sys::IBV_WR_RDMA_WRITE, to, offset, from, tally) }
    }

    unsafe fn get_list(&self, from: &VerbsRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_list(sys::IBV_WR_RDMA_READ, from, offset, into, tally) }
    }

    unsafe fn get_scattered(&self, from: &VerbsRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        let len = into.iter().map(|part| part.len()).sum();
        if len == 0 {
            return Post::Done;
        }
        if len > self.limits.packed_max {
            return too_long(from, len, self.limits.packed_max);
        }
        if from.link.is_opening() {
            return Post::Again;
        }
        self.get_block(from, offset, len, |block| Local::Scattered(block, into.into()), tally)
    }

    unsafe fn amo(&self, on: &VerbsRemote, offset: u64, amo: Amo, into: Span, tally: &TallyRef) -> Post {
        if self.amo_on(on, amo.kind, amo.width).is_none() {
            return broken(on.link.peer(), Reason::NoAtomic { width: amo.width.bytes() });
        }
        let (opcode, compare_add) = match amo.kind {
            AmoKind::CompareSwap => (sys::IBV_WR_ATOMIC_CMP_AND_SWP, amo.compare),
            AmoKind::Read => (sys::IBV_WR_ATOMIC_FETCH_AND_ADD, 0),
            // `amo_on` refuses `Replace`.
            AmoKind::Sum | AmoKind::Replace => (sys::IBV_WR_ATOMIC_FETCH_AND_ADD, amo.operand),
        };
        let remote_addr = on.base + offset;
        let target = sys::Target { atomic: sys::Atomic { remote_addr, compare_add, swap: amo.operand, rkey: on.key } };
        let Some(block) = self.open.resources.pools.take(amo.width.bytes()) else { return Post::Again };
        let bytes = Bytes::Element(self.open.resources.pools.element(block, amo.width.bytes()));
        let result = into.slice(0, into.len().min(amo.width.bytes())).unwrap_or(Span::EMPTY);
        let (tally, local) = (Some(tally), Local::Block(block, result));
        self.push(
            &on.link,
            Request { opcode, target, immediate: 0, solicited: false, bytes, posting: Posting::Held, tally, local },
        )
    }

    fn release(&self, to: &VerbsRemote) {
        to.link.release(&self.open.resources);
    }

    fn send(&self, to: Peer, message: &[u8]) -> Post {
        let Some(link) = self.open.connections.link(to) else { return broken(to, Reason::NotConnected) };
        if message.len() > self.limits.message_max {
            return broken(to, Reason::TooLong { length: message.len(), limit: self.limits.message_max });
        }
        if link.is_opening() {
            return Post::Again;
        }
        let Some(credit) = link.credits.take() else { return self.refuse(link) };
        match self.send_with_credit(link, message, credit.was_refused) {
            Post::Pending => Post::Done,
            answer => {
                link.credits.put_back(credit);
                if matches!(answer, Post::Again) {
                    self.open.resources.await_room();
                }
                answer
            }
        }
    }

    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        self.open.request_completions();
        self.open.progress(handler)
    }

    fn progress_arrivals(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        // Unsignaled puts may have the buffers for which a message waits.
        if self.open.resources.awaits_room() {
            self.open.request_completions();
        }
        self.open.progress(handler)
    }

    fn settle(&self, handler: &impl Handler) -> Result<(), FabricError> {
        self.open.settle(handler)
    }

    fn lost(&self) -> Option<Fault> {
        self.open.resources.lost().cloned()
    }

    fn wait(&self, limit: Duration) {
        self.open.sleep(limit, Events::Solicited, Awaited::Arrivals, None, || true);
    }

    fn wait_with_descriptor(
        &self,
        limit: Duration,
        awaited: Awaited,
        other: Option<BorrowedFd<'_>>,
        still_idle: impl FnOnce() -> bool,
    ) -> bool {
        self.open.sleep(limit, Events::All, awaited, other, still_idle)
    }

    fn lose(&self, peer: Peer, reason: Reason) {
        if let Some(link) = self.open.connections.link(peer) {
            link.give_up(reason, &self.open.resources);
        }
    }

    fn wake(&self) {
        self.open.resources.wake.end_sleeps();
    }
}

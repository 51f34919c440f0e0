//! The contract's posts: each put a write, each get a read, each atomic a fetch-and-add or compare-and-swap, each message a
//! send, of one work request. What completes is `progress`'s business.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use transom_fabric::{
    Amo, AmoKind, Coherence, FabricError, Fault, Handler, Limits, Memory, Peer, Port, Post, RegionKey, Span, TallyRef,
    Width,
};

use crate::address::Address;
use crate::contacts::Contacts;
use crate::device::{Device, Registration};
use crate::domain::{TAG, coherence};
use crate::link::{Bytes, INLINE, Link, Posted, Pushed, Request};
use crate::pool::{Pool, Pools};
use crate::progress::Taken;
use crate::queue::{Queue, Receives};
use crate::stock::{Local, Record, Stock};
use crate::sys;

/// The bytes of a message.
pub(crate) const MESSAGE: usize = Pools::MIDDLE;
/// Messages that can arrive before anybody takes them; more wait at their senders.
pub(crate) const MESSAGES: u32 = 128;
/// Links with a held request that are remembered; further ones hold none.
const HOLDERS: usize = 1024;

/// The way to the peers through libibverbs.
#[derive(Debug)]
pub struct VerbsPort {
    // Dropped in order: queue pairs first, then the receives that they share, then the memory that both used.
    pub(crate) contacts: Contacts,
    pub(crate) receives: Arc<Receives>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) messages: Pool,
    pub(crate) stock: Stock,
    /// All memory of the process, where the device takes page faults.
    everything: Option<Registration>,
    pub(crate) device: Arc<Device>,
    /// Peers whose links hold a request.
    pub(crate) holders: ArrayQueue<Peer>,
    pub(crate) taken: Mutex<Taken>,
    pub(crate) wake: OwnedFd,
    /// Why the device as a whole is broken.
    pub(crate) trouble: OnceLock<String>,
    limits: Limits,
    /// Bytes that a request carries itself.
    inline: usize,
    me: Peer,
}

/// A peer's region.
#[derive(Debug)]
pub struct VerbsRemote {
    peer: Peer,
    key: u32,
    base: u64,
    len: u64,
}

/// What a port is made from.
pub(crate) struct Parts {
    pub(crate) contacts: Contacts,
    pub(crate) receives: Arc<Receives>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) messages: Pool,
    pub(crate) stock: Stock,
    pub(crate) everything: Option<Registration>,
    pub(crate) device: Arc<Device>,
    pub(crate) wake: OwnedFd,
    pub(crate) inline: usize,
    pub(crate) me: Peer,
}

impl VerbsPort {
    pub(crate) fn new(parts: Parts) -> Result<VerbsPort, FabricError> {
        let Parts { contacts, receives, queue, messages, stock, everything, device, wake, inline, me } = parts;
        let limits = Limits {
            inline_max: Pools::SMALL,
            packed_max: Pools::LARGE,
            transfer_max: (device.port_attributes.max_msg_sz as usize).min(1 << 30),
            message_max: MESSAGE,
            // The device serves puts, gets and atomics by itself. But a connection takes the target's process once.
            passive_target: false,
        };
        let port = VerbsPort {
            contacts,
            receives,
            queue,
            messages,
            stock,
            everything,
            device,
            holders: ArrayQueue::new(HOLDERS),
            taken: Mutex::default(),
            wake,
            trouble: OnceLock::new(),
            limits,
            inline: inline.min(INLINE as usize),
            me,
        };
        while let Some(buffer) = port.messages.take() {
            port.expect_message(buffer)?;
        }
        Ok(port)
    }

    /// What was posted to a peer so far.
    pub fn posted(&self, to: Peer) -> Posted {
        self.contacts.link(to).map(Link::posted).unwrap_or_default()
    }

    /// Hands a request to its link.
    #[inline(always)]
    fn push(&self, peer: Peer, link: &Link, request: Request<'_>) -> Post {
        match link.push(request, &self.stock) {
            Pushed::Accepted => {}
            Pushed::Held => {
                if self.holders.push(peer).is_err() {
                    link.release(&self.stock);
                }
            }
            Pushed::Again => return Post::Again,
            Pushed::Broken => return Post::Broken(Box::new(link.fault())),
        }
        Post::Pending
    }

    /// The link for a request of `len` bytes at `offset`; or what to answer at once.
    #[inline]
    fn route(&self, to: &VerbsRemote, offset: u64, len: usize) -> Result<&Link, Post> {
        if offset.checked_add(len as u64).is_none_or(|end| end > to.len) {
            return Err(outside(to, offset, len));
        }
        if len == 0 {
            return Err(Post::Done);
        }
        match self.contacts.link(to.peer) {
            // Before anything is copied for nothing.
            Some(link) if link.is_opening() => Err(Post::Again),
            Some(link) => Ok(link),
            None => Err(stranger(to.peer)),
        }
    }

    /// Puts what `fill` writes into a buffer of `len` bytes.
    fn put_block(
        &self,
        to: &VerbsRemote,
        link: &Link,
        offset: u64,
        len: usize,
        fill: impl FnOnce(*mut u8),
        tally: &TallyRef,
    ) -> Post {
        let Some(block) = self.stock.pools.take(len) else { return Post::Again };
        fill(self.stock.pools.buffer(block));
        let bytes = Bytes::Element(self.stock.pools.element(block, len));
        let record = Record { tally: Some(tally.clone()), local: Local::Block(block), result: Span::EMPTY };
        let hold = len <= Pools::SMALL;
        let target = to.at(offset);
        self.push(to.peer, link, Request { opcode: sys::IBV_WR_RDMA_WRITE, target, immediate: 0, bytes, hold, record })
    }

    /// Reads or writes the caller's own bytes.
    fn transfer(&self, opcode: u32, to: &VerbsRemote, link: &Link, offset: u64, own: Span, tally: &TallyRef) -> Post {
        let (key, local) = match &self.everything {
            Some(all) => (all.local_key(), Local::Nothing),
            None => {
                // SAFETY: the caller of `put` or `get` promised that its bytes stay until the tally falls, which it does
                // after the registration, which the record has, is dropped.
                let own =
                    unsafe { self.device.register_local(own.as_ptr(), own.len(), opcode == sys::IBV_WR_RDMA_READ) };
                match own {
                    Ok(own) => (own.local_key(), Local::Registered(own)),
                    Err(error) => {
                        return Post::Broken(Box::new(Fault { peer: to.peer, reason: error.to_string() }));
                    }
                }
            }
        };
        #[allow(clippy::cast_possible_truncation)] // at most `transfer_max`
        let element = sys::ibv_sge { addr: own.as_ptr() as u64, length: own.len() as u32, lkey: key };
        let record = Record { tally: Some(tally.clone()), local, result: Span::EMPTY };
        let (bytes, target) = (Bytes::Element(element), to.at(offset));
        self.push(to.peer, link, Request { opcode, target, immediate: 0, bytes, hold: false, record })
    }

    /// Whether bytes go through a buffer of the pools: always where they fit one, unless the device reaches them anyway and
    /// a copy costs more than a page fault would.
    fn is_copied(&self, len: usize) -> bool {
        len <= if self.everything.is_some() { Pools::SMALL } else { Pools::LARGE }
    }
}

impl VerbsRemote {
    fn at(&self, offset: u64) -> sys::Target {
        sys::Target { rdma: sys::Rdma { remote_addr: self.base + offset, rkey: self.key } }
    }
}

#[cold]
fn outside(remote: &VerbsRemote, offset: u64, len: usize) -> Post {
    let reason = format!("{len} bytes at {offset} of a region of {} bytes", remote.len);
    Post::Broken(Box::new(Fault { peer: remote.peer, reason }))
}

#[cold]
fn stranger(peer: Peer) -> Post {
    Post::Broken(Box::new(Fault { peer, reason: "it was not connected".into() }))
}

impl Port for VerbsPort {
    type Remote = VerbsRemote;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Vec<u8> {
        self.contacts.address().encode()
    }

    fn connect(&self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        let address = Address::decode(address)
            .ok_or_else(|| FabricError::failed(format!("connecting to {peer}"), "an address that is none of verbs'"))?;
        self.contacts.connect(peer, &address, &self.stock)
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<VerbsRemote, FabricError> {
        let [tag, base, len, key] = key.0;
        let refused = |reason| FabricError::failed(format!("a region of {peer}"), reason);
        let key = u32::try_from(key).ok().filter(|_| tag == TAG);
        let key = key.ok_or_else(|| refused("its key is none of verbs'"))?;
        self.contacts.link(peer).ok_or_else(|| refused("it was not connected"))?;
        Ok(VerbsRemote { peer, key, base, len })
    }

    fn direct<'r>(&self, _remote: &'r VerbsRemote) -> Option<&'r Memory> {
        None
    }

    fn amo_on(&self, remote: &VerbsRemote, kind: AmoKind, width: Width) -> Option<Coherence> {
        coherence(&self.device, remote.base, kind, width)
    }

    #[inline]
    fn put_inline(&self, to: &VerbsRemote, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post {
        let link = match self.route(to, offset, bytes.len()) {
            Ok(link) => link,
            Err(answer) => return answer,
        };
        if bytes.len() > self.inline {
            if bytes.len() > self.limits.inline_max {
                return outside(to, offset, bytes.len());
            }
            // SAFETY: `fill` is given a buffer of that length, which nobody else has.
            let fill = |to: *mut u8| unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            return self.put_block(to, link, offset, bytes.len(), fill, tally);
        }
        let record = Record { tally: Some(tally.clone()), local: Local::Nothing, result: Span::EMPTY };
        let (bytes, target) = (Bytes::Inline(bytes), to.at(offset));
        let opcode = sys::IBV_WR_RDMA_WRITE;
        self.push(to.peer, link, Request { opcode, target, immediate: 0, bytes, hold: true, record })
    }

    fn put_packed(
        &self,
        to: &VerbsRemote,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Post {
        let link = match self.route(to, offset, len) {
            Ok(link) => link,
            Err(Post::Done) => {
                fill(&mut []);
                return Post::Done;
            }
            Err(answer) => return answer,
        };
        if len <= self.inline {
            let mut bytes = [0; INLINE as usize];
            fill(&mut bytes[..len]);
            return self.put_inline(to, offset, &bytes[..len], tally);
        }
        if len > self.limits.packed_max {
            return outside(to, offset, len);
        }
        // SAFETY: `put_block` gives a buffer of that length, which nobody else has.
        let fill = |to: *mut u8| fill(unsafe { std::slice::from_raw_parts_mut(to, len) });
        self.put_block(to, link, offset, len, fill, tally)
    }

    unsafe fn put(&self, to: &VerbsRemote, offset: u64, from: Span, tally: &TallyRef) -> Post {
        if from.len() <= self.inline {
            // SAFETY: the caller promised that the bytes are readable and that nobody writes them meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), from.len()) };
            return self.put_inline(to, offset, bytes, tally);
        }
        let link = match self.route(to, offset, from.len()) {
            Ok(link) => link,
            Err(answer) => return answer,
        };
        if !self.is_copied(from.len()) {
            return self.transfer(sys::IBV_WR_RDMA_WRITE, to, link, offset, from, tally);
        }
        // SAFETY: the caller's promise; `fill` is given a buffer of that length, which nobody else has.
        let fill = |to: *mut u8| unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        self.put_block(to, link, offset, from.len(), fill, tally)
    }

    unsafe fn get(&self, from: &VerbsRemote, offset: u64, into: Span, tally: &TallyRef) -> Post {
        let link = match self.route(from, offset, into.len()) {
            Ok(link) => link,
            Err(answer) => return answer,
        };
        if !self.is_copied(into.len()) {
            return self.transfer(sys::IBV_WR_RDMA_READ, from, link, offset, into, tally);
        }
        let Some(block) = self.stock.pools.take(into.len()) else { return Post::Again };
        let bytes = Bytes::Element(self.stock.pools.element(block, into.len()));
        let record = Record { tally: Some(tally.clone()), local: Local::Block(block), result: into };
        let (opcode, target) = (sys::IBV_WR_RDMA_READ, from.at(offset));
        let hold = into.len() <= Pools::SMALL;
        self.push(from.peer, link, Request { opcode, target, immediate: 0, bytes, hold, record })
    }

    unsafe fn amo(&self, on: &VerbsRemote, offset: u64, amo: Amo, into: Span, tally: &TallyRef) -> Post {
        let link = match self.route(on, offset, amo.width.bytes()) {
            Ok(link) if self.amo_on(on, amo.kind, amo.width).is_some() => link,
            Ok(_) => return outside(on, offset, amo.width.bytes()),
            Err(answer) => return answer,
        };
        let (opcode, compare_add) = match amo.kind {
            AmoKind::CompareSwap => (sys::IBV_WR_ATOMIC_CMP_AND_SWP, amo.compare),
            AmoKind::Read => (sys::IBV_WR_ATOMIC_FETCH_AND_ADD, 0),
            // `amo_on` says no to `Replace`.
            AmoKind::Sum | AmoKind::Replace => (sys::IBV_WR_ATOMIC_FETCH_AND_ADD, amo.operand),
        };
        let remote_addr = on.base + offset;
        let target = sys::Target { atomic: sys::Atomic { remote_addr, compare_add, swap: amo.operand, rkey: on.key } };
        let Some(block) = self.stock.pools.take(amo.width.bytes()) else { return Post::Again };
        let bytes = Bytes::Element(self.stock.pools.element(block, amo.width.bytes()));
        let result = into.slice(0, into.len().min(amo.width.bytes())).unwrap_or(Span::EMPTY);
        let record = Record { tally: Some(tally.clone()), local: Local::Block(block), result };
        self.push(on.peer, link, Request { opcode, target, immediate: 0, bytes, hold: true, record })
    }

    fn send(&self, to: Peer, message: &[u8]) -> Post {
        let Some(link) = self.contacts.link(to) else { return stranger(to) };
        if message.len() > self.limits.message_max {
            let reason = format!("a message of {} bytes; at most {}", message.len(), self.limits.message_max);
            return Post::Broken(Box::new(Fault { peer: to, reason }));
        }
        if link.is_opening() {
            return Post::Again;
        }
        let (bytes, local) = if message.len() <= self.inline {
            (Bytes::Inline(message), Local::Nothing)
        } else {
            let Some(block) = self.stock.pools.take(message.len()) else { return Post::Again };
            // SAFETY: the buffer was just taken, and has room for the message.
            unsafe {
                std::ptr::copy_nonoverlapping(message.as_ptr(), self.stock.pools.buffer(block), message.len());
            }
            (Bytes::Element(self.stock.pools.element(block, message.len())), Local::Block(block))
        };
        let record = Record { tally: None, local, result: Span::EMPTY };
        let (opcode, immediate) = (sys::IBV_WR_SEND_WITH_IMM, self.me.0.to_be());
        let target = sys::Target { rdma: sys::Rdma { remote_addr: 0, rkey: 0 } };
        match self.push(to, link, Request { opcode, target, immediate, bytes, hold: false, record }) {
            Post::Pending => Post::Done,
            answer => answer,
        }
    }

    fn progress(&self, handler: &impl Handler) -> Result<usize, FabricError> {
        self.take_all(handler)
    }

    fn wait(&self, limit: Duration) {
        self.sleep(limit);
    }

    fn wake(&self) {
        // It can only refuse where 2^64 - 2 wakes wait, and then it is readable anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

//! The way to the peers of this node: copies and atomics on mapped memory, cross-memory attach,
//! messages by rings. Knows nothing of windows; what it is asked is done when it answers.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use transom_fabric::{
    Amo, AmoKind, Coherence, FabricError, Fault, Handler, Limits, Memory, Peer, PeerMap, Port, Post, RegionKey, Span,
    TallyRef, Width,
};

use crate::cma;
use crate::contact::Contact;
use crate::domain::{Key, Kind, Regions, owner_check};
use crate::heap::Heap;
use crate::node::{self, Address};
use crate::remote::{PIECES, Route, ShmRemote, byte, slice_of, slice_of_mut};
use crate::ring::{self, MESSAGE_MAX};
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
    ring: ring::Shared,
    /// Held by the one thread that takes messages.
    inbox: Mutex<Box<[u8; MESSAGE_MAX]>>,
    /// A [`Port::wake`] that no wait has answered yet.
    woken: AtomicBool,
    /// How many threads sleep elsewhere.
    elsewhere: Mutex<u32>,
    regions: Arc<Regions>,
    /// What maps user memory, or why nothing does.
    xpmem: Result<&'static Xpmem, String>,
    /// The first peer's memory that could not be mapped although both ends have XPMEM.
    unmapped: OnceLock<String>,
}

/// Parts one after another as pieces, each with its offset.
fn one_after_another(offset: u64, parts: &[Span]) -> impl Iterator<Item = (u64, Span)> {
    parts.iter().scan(offset, |at, part| {
        *at += part.len() as u64;
        Some((*at - part.len() as u64, *part))
    })
}

impl ShmPort {
    pub(crate) fn new(
        heap: &Heap,
        me: Peer,
        regions: Arc<Regions>,
        xpmem: Result<&'static Xpmem, String>,
    ) -> Result<ShmPort, FabricError> {
        let address = Address::of(heap, xpmem.as_ref().map_or(0, |xpmem| xpmem.segment()));
        let ring = ring::Shared::in_header(heap.header(), address.pid)
            .ok_or_else(|| FabricError::failed("opening shared memory", "no room for the ring"))?;
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
            },
            contacts: PeerMap::new(),
            ring,
            inbox: Mutex::new(Box::new([0; MESSAGE_MAX])),
            woken: AtomicBool::new(false),
            elsewhere: Mutex::new(0),
            regions,
            xpmem,
            unmapped: OnceLock::new(),
        };
        port.connect(me, &port.address())?;
        Ok(port)
    }

    /// [`Port::wait`], where `stay` says so once the sleep was announced: what a peer has stored
    /// before its [`knock`](ShmPort::knock) is seen by it.
    pub fn wait_while(&self, limit: Duration, stay: impl FnOnce() -> bool) {
        // SeqCst, twice: pairs with the store in `wake`, beside the fences of `sleep` and `knock`
        // between which it lies.
        let stay = || !self.woken.load(Ordering::SeqCst) && stay();
        ring::sleep(&self.ring, Some(limit), stay);
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Calls `sleep` where `stay` says so, as in [`wait_while`](ShmPort::wait_while), for a sleep
    /// on other descriptors: what ends a wait makes the one that `sleep` is given readable. `None`
    /// where the system has none to give.
    pub fn wait_elsewhere(&self, stay: impl FnOnce() -> bool, sleep: impl FnOnce(Option<BorrowedFd<'_>>)) {
        let Some(pipe) = self.ring.own_pipe() else { return sleep(None) };
        {
            let mut inside = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
            // The pipe stays readable until all whom a knock called back have left.
            if *inside > 0 && ring::is_called_back(&self.ring) {
                return;
            }
            *inside += 1;
            ring::go_elsewhere(&self.ring);
        }
        if ring::still(&self.ring, stay) {
            sleep(Some(pipe.as_fd()));
        }
        let mut inside = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        *inside -= 1;
        if *inside == 0 {
            ring::come_back(&self.ring);
            pipe.empty();
        }
    }

    /// Ends a sleep of a connected peer, which finds by itself what for.
    pub fn knock(&self, peer: Peer) {
        if let Ok(contact) = self.contact(peer) {
            ring::knock(&contact.ring);
        }
    }

    /// Whether user memory of peers is mapped, by the XPMEM module.
    ///
    /// # Errors
    /// Why not.
    pub fn maps_user_memory(&self) -> Result<(), &str> {
        self.xpmem.as_ref().map(|_| ()).map_err(String::as_str)
    }

    /// Why user memory could not be mapped that should have been, the first time.
    pub fn unmapped(&self) -> Option<&str> {
        self.unmapped.get().map(String::as_str)
    }

    /// User memory of a connected peer, from an address of its on, mapped; `None` where it can't
    /// be.
    pub fn user_memory(&self, peer: Peer, address: u64, len: u64) -> Option<Memory> {
        let xpmem = *self.xpmem.as_ref().ok()?;
        let contact = self.contact(peer).ok().filter(|contact| contact.address.segment != 0)?;
        let memory = contact.user_memory(xpmem, peer, address, len);
        memory.map_err(|reason| self.unmapped.get_or_init(|| reason)).ok()
    }

    /// A region of a connected peer that is not of its heap, mapped; `None` where it can't be, and
    /// for all of its addresses.
    pub fn user_region(&self, peer: Peer, key: &RegionKey) -> Option<Memory> {
        let parts = Key::unpack(key).filter(|parts| parts.kind == Kind::Foreign && parts.len < u64::MAX)?;
        let token = self.contact(peer).ok()?.address.token;
        if parts.owner != owner_check(token) {
            return None;
        }
        self.user_memory(peer, parts.at, parts.len)
    }

    fn contact(&self, peer: Peer) -> Result<&Contact, Fault> {
        let contact = self.contacts.get(peer).map(|(_, contact)| contact);
        contact.ok_or_else(|| Fault { peer, reason: "not connected over shared memory".into() })
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
            Ok((peer, Contact::open(address, &self.address)?))
        };
        self.contacts
            .get_or_try_insert(peer, open)
            .map(|_| ())
            .map_err(|reason: String| node::not_here(&format!("{peer}: {reason}")))
    }

    fn import(&self, peer: Peer, key: &RegionKey) -> Result<ShmRemote, FabricError> {
        let refused = |reason: String| FabricError::failed(format!("importing a region of {peer}"), reason);
        let contact = self.contact(peer)?;
        let parts = Key::unpack(key)
            .filter(|parts| parts.owner == owner_check(contact.address.token))
            .ok_or_else(|| refused(format!("{key:x?} is not a key of its shared memory")))?;
        let mut amo = parts.amo();
        let route = if peer == self.me {
            let own = self.regions.find(&parts);
            Route::Memory(own.ok_or_else(|| refused("it is not registered any more".into()))?)
        } else if parts.kind == Kind::Mapped {
            Route::Memory(contact.map(parts.at, parts.len).map_err(refused)?)
        } else if let Some(memory) = self.user_region(peer, key) {
            amo = Some(Coherence::WithCpu);
            Route::Memory(memory)
        } else {
            contact.attach().map_err(refused)?;
            Route::Attached { pid: contact.address.pid, address: parts.at, len: parts.len }
        };
        Ok(ShmRemote { peer, amo, route })
    }

    #[inline]
    fn direct<'r>(&self, remote: &'r ShmRemote) -> Option<&'r Memory> {
        match &remote.route {
            Route::Memory(memory) => Some(memory),
            Route::Attached { .. } => None,
        }
    }

    #[inline]
    fn amo_on(&self, remote: &ShmRemote, _kind: AmoKind, _width: Width) -> Option<Coherence> {
        remote.amo
    }

    #[inline]
    fn put_inline(&self, to: &ShmRemote, offset: u64, bytes: &[u8], _tally: &TallyRef) -> Post {
        to.transfer(
            offset,
            Span::of(bytes),
            "putting",
            |memory, at| memory.write(at, bytes),
            |remote| cma::write_from(remote, bytes),
        )
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
            return to.broken(offset, len, "putting", &outside);
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
    unsafe fn put(&self, to: &ShmRemote, offset: u64, from: Span, _tally: &TallyRef) -> Post {
        to.transfer(
            offset,
            from,
            "putting",
            |memory, at| {
                // SAFETY: `from` is readable and nobody writes it until this returns (the contract
                // of `put`).
                memory.write(at, unsafe { slice_of(from) });
            },
            // SAFETY: as above.
            |remote| unsafe { cma::write(remote, from) },
        )
    }

    #[inline]
    unsafe fn get(&self, from: &ShmRemote, offset: u64, into: Span, _tally: &TallyRef) -> Post {
        from.transfer(
            offset,
            into,
            "getting",
            |memory, at| {
                // SAFETY: `into` is writable and nobody else touches it until this returns (the
                // contract of `get`).
                memory.read(at, unsafe { slice_of_mut(into) });
            },
            // SAFETY: as above.
            |remote| unsafe { cma::read(remote, into) },
        )
    }

    unsafe fn put_list(&self, to: &ShmRemote, offset: u64, from: &[Span], _tally: &TallyRef) -> Post {
        // SAFETY: each part is readable and nobody writes it until this returns (the contract of
        // `put_list`).
        unsafe { to.put_pieces(one_after_another(offset, from)) }
    }

    unsafe fn get_list(&self, from: &ShmRemote, offset: u64, into: &[Span], _tally: &TallyRef) -> Post {
        // SAFETY: each part is writable and nobody else touches it until this returns (the contract
        // of `get_list`).
        unsafe { from.get_pieces(one_after_another(offset, into)) }
    }

    unsafe fn get_scattered(&self, from: &ShmRemote, offset: u64, into: &[Span], tally: &TallyRef) -> Post {
        // SAFETY: the same contract.
        unsafe { self.get_list(from, offset, into, tally) }
    }

    #[inline]
    unsafe fn amo(&self, on: &ShmRemote, offset: u64, amo: Amo, into: Span, _tally: &TallyRef) -> Post {
        let (Route::Memory(memory), Some(_)) = (&on.route, on.amo) else {
            let reason = "no atomic reaches memory that is not of the heap";
            return on.broken(offset, amo.width.bytes(), "an atomic on", &reason);
        };
        let before = memory.amo(byte(offset), amo);
        if !into.is_empty() {
            // SAFETY: `into` is writable and nobody else touches it until this returns (the
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
            // A handler panicked: the message that it had is gone, the ring is whole.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        };
        let mut taken = 0;
        // At most one ring full, so that a flood of messages does not keep the caller from its own
        // work.
        while taken < ring::COUNT
            && let Some((sender, length)) = ring::receive(&self.ring, &mut inbox[..])
        {
            handler.message(Peer(sender), &inbox[..length]);
            taken += 1;
        }
        Ok(taken)
    }

    fn wait(&self, limit: Duration) {
        self.wait_while(limit, || true);
    }

    fn wake(&self) {
        // SeqCst: pairs with the load in `wait`.
        self.woken.store(true, Ordering::SeqCst);
        ring::knock(&self.ring);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{HeapOptions, ShmDomain};
    use std::cell::RefCell;
    use std::thread;
    use std::time::Instant;
    use transom_fabric::{Domain as _, Region as _, Tally};

    const LONG: Duration = Duration::from_secs(20);

    fn domain(rank: u32) -> Arc<ShmDomain> {
        let heap = Heap::create(HeapOptions::default()).expect("a heap");
        ShmDomain::new(heap, Peer(rank)).expect("a domain")
    }

    /// Two domains in one process: `/proc/self` and cross-memory attach to oneself work as for
    /// another process.
    fn pair() -> (Arc<ShmDomain>, Arc<ShmDomain>) {
        let (a, b) = (domain(0), domain(1));
        a.port().connect(Peer(1), &b.port().address()).expect("b");
        b.port().connect(Peer(0), &a.port().address()).expect("a");
        (a, b)
    }

    fn get(port: &ShmPort, from: &ShmRemote, offset: u64, len: usize) -> Result<Vec<u8>, Post> {
        let mut bytes = vec![0; len];
        // SAFETY: `bytes` is this function's own.
        match unsafe { port.get(from, offset, Span::of_mut(&mut bytes), &Tally::new()) } {
            Post::Done => Ok(bytes),
            other => Err(other),
        }
    }

    fn amo(port: &ShmPort, on: &ShmRemote, offset: u64, amo: Amo) -> Result<u64, Post> {
        let mut before = [0; 8];
        // SAFETY: `before` is this function's own.
        match unsafe { port.amo(on, offset, amo, Span::of_mut(&mut before), &Tally::new()) } {
            Post::Done => Ok(u64::from_ne_bytes(before)),
            other => Err(other),
        }
    }

    fn reason(post: &Post) -> String {
        match post {
            Post::Broken(fault) => fault.to_string(),
            other => panic!("{other:?} is not broken"),
        }
    }

    struct Collect(RefCell<Vec<(Peer, Vec<u8>)>>);

    impl Handler for Collect {
        fn message(&self, from: Peer, bytes: &[u8]) {
            self.0.borrow_mut().push((from, bytes.to_vec()));
        }
    }

    /// More pieces than one system call takes, some of no bytes; what is outside, or not mapped
    /// there, is told and named.
    #[test]
    fn pieces_go_where_they_belong_by_either_way() {
        let (a, b) = pair();
        let user = Memory::private(40_000);
        let heap = b.heap().allocate(40_000).expect("40000 bytes");
        for memory in [&user, &heap] {
            let region = b.register(memory).expect("a region");
            let remote = a.port().import(Peer(1), &region.key()).expect("imported");
            let offset = |piece: usize| (piece * 200) as u64;
            let bytes: Vec<u8> = (0..251).cycle().take(150 * 7).collect();
            let from = bytes.chunks(7).enumerate().map(|(piece, part)| (offset(piece), Span::of(&part[..piece % 8])));
            // SAFETY: `bytes` lives and nobody writes it.
            assert!(matches!(unsafe { remote.put_pieces(from) }, Post::Done));
            let mut seen = vec![0; bytes.len()];
            let into = seen.chunks_mut(7).enumerate().map(|(piece, part)| (offset(piece), Span::of_mut(part)));
            // SAFETY: `seen` is this function's own.
            assert!(matches!(unsafe { remote.get_pieces(into) }, Post::Done));
            for (piece, (put, seen)) in bytes.chunks(7).zip(seen.chunks(7)).enumerate() {
                let len = piece % 8;
                assert_eq!((&seen[..len], &seen[len..]), (&put[..len], &vec![0; 7 - len][..]), "piece {piece}");
            }
        }
        let region = b.register(&user).expect("a region");
        let remote = a.port().import(Peer(1), &region.key()).expect("imported");
        // SAFETY: the bytes are constants.
        let outside = unsafe { remote.put_pieces([(0, Span::of(b"in")), (39_999, Span::of(b"out"))]) };
        assert!(reason(&outside).contains("3 bytes at 39999 of a region of 40000 bytes"), "{outside:?}");
        let all = a.port().import(Peer(1), &b.register_addresses().key()).expect("imported");
        // SAFETY: as above.
        let nowhere = unsafe { all.put_pieces([(16, Span::of(b"no page is here"))]) };
        assert!(reason(&nowhere).contains("15 bytes at address 0x10 of process"), "{nowhere:?}");
    }

    /// Shows T1.
    #[test]
    fn mapped_memory_is_put_got_and_changed_atomically() {
        let (a, b) = pair();
        let block = b.heap().allocate(10_000).expect("10000 bytes");
        let part = block.slice(5_000, 4_000).expect("inside");
        let region = b.register(&part).expect("a region");
        let remote = a.port().import(Peer(1), &region.key()).expect("imported");
        let coherence = region.amo(AmoKind::Sum, Width::W64);
        assert_eq!(coherence, Some(Coherence::WithCpu));
        assert_eq!(a.port().amo_on(&remote, AmoKind::Sum, Width::W64), coherence);
        assert_eq!(a.port().direct(&remote).map(Memory::len), Some(4_000));
        for len in [0usize, 1, 8, 512, 513, 3_000] {
            let fill = |bytes: &mut [u8]| bytes.fill(len.to_le_bytes()[0] | 1);
            let post = a.port().put_packed(&remote, 16, len, fill, &Tally::new());
            assert!(matches!(post, Post::Done));
            let mut seen = vec![0; len];
            part.read(16, &mut seen);
            assert_eq!(seen, vec![len.to_le_bytes()[0] | 1; len]);
            assert_eq!(get(a.port(), &remote, 16, len).expect("done"), seen);
        }
        let add = Amo::new(AmoKind::Sum, Width::W64, 5);
        assert_eq!(amo(a.port(), &remote, 0, add).expect("done"), 0);
        assert_eq!(amo(b.port(), &own(&b, &region), 0, add).expect("done"), 5);
        assert_eq!(part.word64(0).load(Ordering::Relaxed), 10);
    }

    fn own(domain: &ShmDomain, region: &crate::ShmRegion) -> ShmRemote {
        let remote = domain.port().import(domain.port().me, &region.key());
        remote.expect("one's own region")
    }

    #[test]
    fn ones_own_region_is_not_mapped_again() {
        let a = domain(0);
        let block = a.heap().allocate(64).expect("64 bytes");
        for memory in [&block, &Memory::private(64)] {
            let region = a.register(memory).expect("a region");
            let remote = own(&a, &region);
            let direct = a.port().direct(&remote).expect("memory");
            assert_eq!(direct.as_ptr(), memory.as_ptr());
        }
        let key = a.register(&block).expect("dropped at once").key();
        let gone = a.port().import(Peer(0), &key).expect_err("gone");
        assert!(gone.to_string().contains("not registered"), "{gone}");
    }

    /// Shows T2.
    #[test]
    fn foreign_memory_is_reached_by_attach_and_checked() {
        let (a, b) = pair();
        let memory = Memory::private(1 << 16);
        let region = b.register(&memory).expect("a region");
        assert_eq!(region.amo(AmoKind::Read, Width::W64), None);
        let remote = a.port().import(Peer(1), &region.key()).expect("attached");
        assert!(a.port().direct(&remote).is_none());
        let sent: Vec<u8> = (0..200).collect();
        let post = a.port().put_inline(&remote, 60_001, &sent, &Tally::new());
        assert!(matches!(post, Post::Done), "{post:?}");
        assert_eq!(get(a.port(), &remote, 60_001, 200).expect("done"), sent);
        let outside = a.port().put_inline(&remote, 65_500, &sent, &Tally::new());
        assert!(reason(&outside).contains("200 bytes at 65500 of a region of 65536 bytes"));
        let refused = amo(a.port(), &remote, 0, Amo::new(AmoKind::Read, Width::W64, 0));
        assert!(reason(&refused.expect_err("none")).contains("rank 1"));
        let mut key = region.key();
        key.0[1] = 4096;
        let nowhere = a.port().import(Peer(1), &key).expect("found out at use");
        let fault = reason(&get(a.port(), &nowhere, 0, 8).expect_err("EFAULT"));
        assert!(fault.contains("rank 1") && fault.contains("8 bytes at address 0x1000"), "{fault}");
    }

    #[test]
    fn keys_and_addresses_that_do_not_fit_are_refused() {
        let (a, b) = pair();
        let c = domain(2);
        let region = c.register(&c.heap().allocate(8).expect("8 bytes")).expect("a region");
        for key in [region.key(), RegionKey::default(), RegionKey([1, 2, 3, 4])] {
            let error = a.port().import(Peer(1), &key).expect_err("not rank 1's");
            assert!(error.to_string().contains("rank 1"), "{error}");
        }
        let error = a.port().import(Peer(2), &region.key()).expect_err("unknown");
        assert!(error.to_string().contains("not connected"), "{error}");
        let mut beyond = b.register(&Memory::private(0)).expect("empty").key();
        beyond.0[1] = b.heap().capacity() - 8;
        beyond.0[2] = 16;
        assert!(a.port().import(Peer(1), &beyond).is_err());
        for (byte, what) in [(32, "token"), (8, "another machine")] {
            let mut address = c.port().address();
            address[byte] ^= 1;
            let error = a.port().connect(Peer(2), &address).expect_err("refused");
            assert!(error.to_string().contains(what), "{error}");
        }
        a.port().connect(Peer(2), &c.port().address()).expect("tried again");
        assert!(ShmDomain::new(Arc::clone(c.heap()), Peer(3)).is_err());
    }

    /// Shows W3, T1.
    #[test]
    fn four_gib_are_sparse_and_reached_past_32_bits() {
        let (a, b) = pair();
        let block = b.heap().allocate((4 << 30) + 4096).expect("address room");
        let region = b.register(&block).expect("a region");
        let remote = a.port().import(Peer(1), &region.key()).expect("imported");
        let far = (1u64 << 32) + 8;
        let post = a.port().put_inline(&remote, far, &[9; 8], &Tally::new());
        assert!(matches!(post, Post::Done));
        let mut seen = [0; 8];
        block.read(byte(far), &mut seen);
        assert_eq!(seen, [9; 8]);
        assert!(b.heap().resident().expect("fstat") < 4 << 20);
    }

    /// 100 windows made and freed 100 times; other tests of this process may hold some mappings,
    /// not hundreds.
    #[test]
    fn windows_leave_nothing_behind() {
        let (a, b) = pair();
        let lines = || std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
        let files = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = (lines(), files(), b.heap().resident().expect("fstat"));
        for _ in 0..100 {
            let windows: Vec<_> = (0..100)
                .map(|_| {
                    let region = b.register(&b.heap().allocate(64).expect("64 bytes")).expect("a region");
                    let remote = a.port().import(Peer(1), &region.key()).expect("imported");
                    (region, remote)
                })
                .collect();
            assert_eq!(windows.len(), 100);
        }
        assert_eq!(b.heap().resident().expect("fstat"), before.2);
        assert!(lines() < before.0 + 100, "{} mappings, {} before", lines(), before.0);
        assert!(files() < before.1 + 50, "{} files, {} before", files(), before.1);
    }

    #[test]
    fn messages_arrive_and_end_a_wait() {
        let (a, b) = pair();
        let receiver = Arc::clone(&b);
        let waiter = thread::spawn(move || {
            let inbox = Collect(RefCell::default());
            let deadline = Instant::now() + LONG;
            while inbox.0.borrow().len() < 2 && Instant::now() < deadline {
                if receiver.port().progress(&inbox).expect("no failure") == 0 {
                    receiver.port().wait(LONG);
                }
            }
            inbox.0.into_inner()
        });
        assert!(matches!(a.port().send(Peer(1), b"over"), Post::Done));
        assert!(matches!(b.port().send(Peer(1), &[7; MESSAGE_MAX]), Post::Done));
        assert!(reason(&a.port().send(Peer(9), b"x")).contains("rank 9"));
        let mut arrived = waiter.join().expect("no panic");
        arrived.sort_unstable_by_key(|(from, _)| *from);
        let expected = [(Peer(0), b"over".to_vec()), (Peer(1), vec![7; MESSAGE_MAX])];
        assert_eq!(arrived, expected);
    }

    #[test]
    fn a_wake_ends_this_wait_or_the_next() {
        let a = domain(0);
        let start = Instant::now();
        a.port().wake();
        a.port().wait(LONG);
        let waker = Arc::clone(&a);
        let other = thread::spawn(move || waker.port().wake());
        a.port().wait(LONG);
        other.join().expect("no panic");
        assert!(start.elapsed() < LONG, "a wait ran to its limit");
    }
}

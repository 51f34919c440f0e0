//! Tests of the port: mapped and user memory, keys, messages and waits, between two domains of one
//! process.

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
        Post::Broken(fault) => format!("{fault:#}"),
        other => panic!("{other:?} is not broken"),
    }
}

struct Collect(RefCell<Vec<(Peer, Vec<u8>)>>);

impl Handler for Collect {
    fn message(&self, from: Peer, bytes: &[u8]) {
        self.0.borrow_mut().push((from, bytes.to_vec()));
    }
}

/// More pieces than one system call takes, some of no bytes; the error names a piece that is
/// outside or not mapped.
#[test]
fn pieces_reach_their_offsets_mapped_or_by_attach() {
    let (a, b) = pair();
    let user = Memory::private(40_000);
    let heap = b.heap().allocate(40_000).expect("40000 bytes");
    for memory in [&user, &heap] {
        let region = b.register(memory).expect("a region");
        let remote = a.port().import(Peer(1), &region.key()).expect("imported");
        let offset = |piece: usize| (piece * 200) as u64;
        let bytes: Vec<u8> = (0..251).cycle().take(150 * 7).collect();
        let from = bytes.chunks(7).enumerate().map(|(piece, part)| (offset(piece), Span::of(&part[..piece % 8])));
        // SAFETY: `bytes` is live and not written.
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
    assert!(
        reason(&outside).contains("3 bytes at offset 39999 are outside the region, which has 40000 bytes"),
        "{outside:?}"
    );
    let all = a.port().import(Peer(1), &b.register_addresses().key()).expect("imported");
    // SAFETY: the bytes are constants.
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

/// Shows W5, T1.
#[test]
fn memory_of_a_peers_heap_is_mapped_from_there() {
    let (a, b) = pair();
    let c = domain(2);
    for (rank, domain) in [(0, &a), (1, &b)] {
        c.port().connect(Peer(rank), &domain.port().address()).expect("connected");
        domain.port().connect(Peer(2), &c.port().address()).expect("connected");
    }
    let block = a.heap().allocate(10_000).expect("10000 bytes");
    let segment = b.port().import(Peer(0), &a.register(&block).expect("a region").key()).expect("imported");
    let part = b.port().direct(&segment).and_then(|memory| memory.slice(5_000, 4_000)).expect("mapped");
    let promised = b.port().mapped_from_peer(part.span()).expect("in the heap of a");
    assert_eq!((promised.as_ptr(), promised.len()), (part.as_ptr(), 4_000));
    let region = b.register(&promised).expect("a region");
    assert!(crate::is_mapped(&region.key()));
    assert_eq!(crate::heap_owner(&region.key()), Some(Peer(0)));
    assert_eq!(region.amo(AmoKind::Sum, Width::W64), Some(Coherence::WithCpu));
    let add = Amo::new(AmoKind::Sum, Width::W64, 5);
    for (turn, domain) in [&a, &b, &c].into_iter().enumerate() {
        let remote = domain.port().import(Peer(1), &region.key()).expect("imported");
        assert_eq!(amo(domain.port(), &remote, 8, add).expect("done"), 5 * turn as u64);
    }
    assert_eq!(block.word64(5_008).load(Ordering::Relaxed), 15);
    let mut key = region.key();
    key.0[3] ^= 1;
    let foreign = c.port().import(Peer(1), &key).expect_err("not of this heap");
    assert!(format!("{foreign:#}").contains("rank 1"), "{foreign:#}");
    assert!(b.port().mapped_from_peer(Span::from_raw(part.span().as_ptr(), 0)).is_none(), "no bytes");
    assert!(b.port().mapped_from_peer(Memory::private(64).span()).is_none(), "other memory");
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
    assert!(format!("{gone:#}").contains("no longer registered"), "{gone:#}");
}

/// Regression: a child that ended by `exit`, whose destructors free memory, emptied the parent's.
#[test]
fn a_child_of_fork_empties_no_memory_of_its_parent() {
    let heap = Heap::create(HeapOptions::default()).expect("a heap");
    let block = heap.allocate(4096).expect("4096 bytes");
    block.write(0, &[7; 4096]);
    // SAFETY: the child only drops its copy of the block, and ends in any case.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(20) };
        drop(block);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: waits for the child of this test.
    assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
    let mut bytes = [0; 4096];
    block.read(0, &mut bytes);
    assert!(bytes == [7; 4096]);
}

/// Shows T2.
#[test]
fn user_memory_is_reached_by_attach_and_checked() {
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
    assert!(reason(&outside).contains("200 bytes at offset 65500 are outside the region, which has 65536 bytes"));
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
        assert!(format!("{error:#}").contains("rank 1"), "{error:#}");
    }
    let error = a.port().import(Peer(2), &region.key()).expect_err("unknown");
    assert!(format!("{error:#}").contains("no connection"), "{error:#}");
    let mut beyond = b.register(&Memory::private(0)).expect("empty").key();
    beyond.0[1] = b.heap().capacity() - 8;
    beyond.0[2] = 16;
    assert!(a.port().import(Peer(1), &beyond).is_err());
    for (byte, what) in [(32, "token"), (8, "another machine")] {
        let mut address = c.port().address();
        address[byte] ^= 1;
        let error = a.port().connect(Peer(2), &address).expect_err("refused");
        assert!(format!("{error:#}").contains(what), "{error:#}");
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
fn dropped_regions_leave_no_mapping_or_descriptor() {
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

/// Regression: another thread's short sleep took the wake of the progress thread, which then slept
/// to its limit.
#[test]
fn a_wake_before_a_wait_is_not_taken_by_another_threads_sleep() {
    let a = domain(0);
    let start = Instant::now();
    a.port().wake();
    a.port().wait_while(Duration::from_millis(1), || true);
    a.port().wait(LONG);
    assert!(start.elapsed() < LONG, "the wait ran to its limit");
}

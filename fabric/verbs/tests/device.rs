//! Properties that the tests of the contract can't check: the number of work requests and
//! completions of operations, service by an idle target, the memory of a peer, and reports about
//! peers that have ended. They need an RDMA device, as the virtual machine of `ci/rdma-vm` has: run
//! them there with `--ignored`.
//!
//! Route: verbs.

#![allow(unsafe_code)]

use std::io::{PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use transom_fabric::{Domain, Fault, Handler, Memory, Peer, Port, Post, Reason, Region, Span, Tally, TallyRef};
use transom_verbs::{Posted, VerbsDomain, VerbsOptions, VerbsRegion, VerbsRemote};

/// After this a test is taken to hang.
const LIMIT: Duration = Duration::from_secs(180);

struct Nobody;

impl Handler for Nobody {
    fn message(&self, _from: Peer, _bytes: &[u8]) {}
}

/// Counts messages.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Handler for Counter {
    fn message(&self, _from: Peer, _bytes: &[u8]) {
        // Relaxed: a count of the thread that reads it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn open(rank: u32) -> Arc<VerbsDomain> {
    open_with(rank, Duration::from_secs(2))
}

fn open_with(rank: u32, silence: Duration) -> Arc<VerbsDomain> {
    let options = VerbsOptions { rank: Peer(rank), silence, ..VerbsOptions::default() };
    VerbsDomain::open(&options).expect("a device")
}

/// Makes progress on these until `done`.
fn until(domains: &[&VerbsDomain], what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        for domain in domains {
            domain.port().progress(&Nobody).expect("progress");
        }
        assert!(start.elapsed() < LIMIT, "{what} takes too long");
        std::thread::yield_now();
    }
}

/// Puts 8 bytes once the link is there.
fn put(domain: &VerbsDomain, to: &VerbsRemote, offset: u64, tally: &TallyRef) -> Post {
    domain.port().put_inline(to, offset, &[7; 8], tally)
}

/// Connects two domains, and shows the second one's memory to the first.
fn connect(origin: &VerbsDomain, target: &VerbsDomain, rank: u32, memory: &Memory) -> (VerbsRegion, VerbsRemote) {
    let region = target.register(memory).expect("memory can be locked");
    origin.port().connect(Peer(rank), &target.port().address()).expect("a queue pair");
    let remote = origin.port().import(Peer(rank), &region.key()).expect("connected");
    let tally = Tally::new();
    until(&[origin, target], "connecting", || !matches!(put(origin, &remote, 0, &tally), Post::Again));
    until(&[origin], "the first put", || tally.settled());
    (region, remote)
}

/// "One work request per contiguous put, and one signaled completion per flush of many puts."
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn many_puts_and_a_flush_are_as_many_requests_and_one_completion() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(8 << 10);
    let (_region, remote) = connect(&origin, &target, 1, &memory);
    // 1000 do not fit the queue: whenever it is full, progress makes room and releases what is
    // held.
    for (puts, completions) in [(1, 1..=1), (2, 1..=1), (30, 1..=1), (1000, 1000 / 32..=1000 / 8)] {
        let before = origin.port().posted(Peer(1));
        let tally = Tally::new();
        for at in 0..puts {
            until(&[&origin], "room", || !matches!(put(&origin, &remote, at * 8, &tally), Post::Again));
        }
        until(&[&origin], "the flush", || tally.settled());
        let Posted { requests, signaled } = origin.port().posted(Peer(1));
        assert_eq!(requests - before.requests, puts);
        assert!(
            completions.contains(&(signaled - before.signaled)),
            "{puts} puts: {} signaled",
            signaled - before.signaled
        );
        assert_eq!(memory_at(&memory, usize::try_from(puts * 8 - 8).expect("inside")), [7; 8]);
    }
}

/// A held request is posted by `release`, and reaches its target without further calls.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn a_released_request_completes_without_progress() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(64);
    let (_region, remote) = connect(&origin, &target, 1, &memory);
    let tally = Tally::new();
    let before = origin.port().posted(Peer(1)).requests;
    let posted = || origin.port().posted(Peer(1)).requests - before;
    assert!(matches!(put(&origin, &remote, 40, &tally), Post::Pending));
    assert!(matches!(put(&origin, &remote, 8, &tally), Post::Pending));
    assert_eq!(posted(), 1, "the newest request is held");
    origin.port().release(&remote);
    assert_eq!(posted(), 2);
    until(&[&target], "the puts", || memory_at(&memory, 8) == [7; 8]);
    assert_eq!(memory_at(&memory, 40), [7; 8]);
    until(&[&origin], "completion", || tally.settled());
}

fn memory_at(memory: &Memory, at: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    memory.read(at, &mut bytes);
    bytes
}

/// Puts a whole mapping to the target, once there is room, and completes the put.
fn put_all(origin: &VerbsDomain, remote: &VerbsRemote, from: &Mapping) {
    let tally = Tally::new();
    let post = || {
        // SAFETY: the mapping stays until the tally falls, below.
        let post = unsafe { origin.port().put(remote, 0, Span::from_raw(from.0, LONG), &tally) };
        assert!(!matches!(post, Post::Broken(_)), "{post:?}");
        !matches!(post, Post::Again)
    };
    until(&[origin], "room", post);
    until(&[origin], "a long put", || tally.idle());
    assert_eq!(tally.fault(), None);
}

/// More bytes than the port copies.
const LONG: usize = 1 << 20;

/// Private memory of [`LONG`] bytes.
struct Mapping(*mut u8);

impl Mapping {
    /// Memory at `base`, where nothing may be mapped, or anywhere if `base` is null. It is filled
    /// with a byte.
    fn new(base: *mut u8, byte: u8) -> Mapping {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let flags = if base.is_null() { flags } else { flags | MapFlags::FIXED_NOREPLACE };
        // SAFETY: no mapping is replaced, and the bytes are new.
        unsafe {
            let base = mmap_anonymous(base.cast(), LONG, protection, flags).expect("memory").cast::<u8>();
            base.write_bytes(byte, LONG);
            Mapping(base)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the test's own mapping, which no operation uses any more.
        unsafe { munmap(self.0.cast(), LONG) }.expect("mapped");
    }
}

/// A long buffer is registered once, and again after it was unmapped and other memory was mapped at
/// its address.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn long_buffers_stay_registered_as_long_as_they_are_mapped() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(LONG);
    let (region, remote) = connect(&origin, &target, 1, &memory);
    let registered = || origin.port().buffers_registered();
    // The kernel maps nothing here by itself.
    let mut base = std::ptr::without_provenance_mut(1 << 42);
    for byte in 1..=10 {
        let mapping = Mapping::new(base, byte);
        base = mapping.0;
        for _ in 0..5 {
            put_all(&origin, &remote, &mapping);
        }
        assert_eq!((memory_at(&memory, 0), memory_at(&memory, LONG - 8)), ([byte; 8], [byte; 8]));
        assert_eq!(registered(), u64::from(byte));
    }
    // Buffers inside a region have the region's registration.
    let own = Mapping::new(std::ptr::null_mut(), 77);
    // SAFETY: the mapping outlives the region.
    let shown = unsafe { Memory::new(NonNull::new(own.0).expect("mapped"), LONG, None) };
    let own_region = origin.register(&shown).expect("memory can be locked");
    put_all(&origin, &remote, &own);
    assert_eq!((memory_at(&memory, 8), registered()), ([77; 8], 10));
    drop((own_region, region));
}

/// A child of `fork` shares the pages of a kept buffer until one of both writes. The device reads
/// the parent's pages, and a change of the parent's mapping ends, although the child keeps the
/// descriptors of the cache.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn a_kept_registration_survives_a_fork() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(LONG);
    let (_region, remote) = connect(&origin, &target, 1, &memory);
    let mapping = Mapping::new(std::ptr::null_mut(), 1);
    put_all(&origin, &remote, &mapping);
    let (child, end) = fork_writing(&mapping, 2);
    // SAFETY: the mapping is this test's, and no operation uses it.
    unsafe { mapping.0.write_bytes(3, LONG) };
    put_all(&origin, &remote, &mapping);
    assert_eq!((memory_at(&memory, 0), memory_at(&memory, LONG - 8)), ([3; 8], [3; 8]), "the parent's bytes");
    assert_eq!(origin.port().buffers_registered(), 1, "the registration is kept");
    // Each of these waits until the cache has read the kernel's report.
    let base = mapping.0;
    drop(mapping);
    let again = Mapping::new(base, 4);
    put_all(&origin, &remote, &again);
    assert_eq!((memory_at(&memory, LONG - 8), origin.port().buffers_registered()), ([4; 8], 2));
    // The reader of the reports ends with the domain, and the child has its descriptor still.
    drop((remote, origin));
    drop(again);
    drop(end);
    let status = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).expect("a child");
    assert_eq!(status.and_then(|(_, status)| status.exit_status()), Some(0), "the child saw its own bytes");
}

/// A child that writes this byte to its copy of a mapping, and waits until the pipe's end is
/// dropped. It exits with 0 if its bytes are then the same. Returns once it has written.
fn fork_writing(mapping: &Mapping, byte: u8) -> (rustix::process::Pid, PipeWriter) {
    let (mut written, mut tells) = std::io::pipe().expect("a pipe");
    let (mut waits, end) = std::io::pipe().expect("a pipe");
    // SAFETY: the child calls only functions that allocate nothing and take no lock: writes to its
    // memory, `read`, `write` and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child's copy of the mapping; the descriptors are open.
        unsafe {
            libc::close(end.as_raw_fd());
            mapping.0.write_bytes(byte, LONG);
            let told = tells.write(&[0]).is_ok();
            let ended = waits.read(&mut [0]).is_ok();
            let same = (0..LONG).all(|at| mapping.0.add(at).read_volatile() == byte);
            libc::_exit(i32::from(!(told && ended && same)));
        }
    }
    drop((waits, tells));
    assert_eq!(written.read(&mut [0]).expect("the child's byte"), 1, "the child has written");
    (rustix::process::Pid::from_raw(child).expect("a child"), end)
}

/// Without room for kept registrations each transfer registers its buffer.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn long_buffers_are_registered_each_time_where_none_may_stay() {
    let options = VerbsOptions { rank: Peer(0), registered_max: 0, ..VerbsOptions::default() };
    let (origin, target) = (VerbsDomain::open(&options).expect("a device"), open(1));
    let memory = Memory::private(LONG);
    let (_region, remote) = connect(&origin, &target, 1, &memory);
    let mapping = Mapping::new(std::ptr::null_mut(), 5);
    for puts in 1..=3 {
        put_all(&origin, &remote, &mapping);
        assert_eq!(origin.port().buffers_registered(), puts);
    }
    assert_eq!(memory_at(&memory, LONG - 8), [5; 8]);
}

/// A target that makes no call after it was connected is reached.
///
/// Shows S5.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn an_idle_target_is_served() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(64);
    let (_region, remote) = connect(&origin, &target, 1, &memory);
    let tally = Tally::new();
    assert!(matches!(put(&origin, &remote, 40, &tally), Post::Pending));
    until(&[&origin], "a put", || tally.settled());
    assert_eq!(memory_at(&memory, 40), [7; 8]);
}

/// A peer whose process has ended: operations in flight fail with an error, later posts are
/// refused, and other peers are not affected.
///
/// Shows E3.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn a_dead_peer_fails_its_operations_and_no_others() {
    let (origin, gone, other) = (open(0), open(1), open(2));
    let memory = Memory::private(64);
    let (region, lost) = connect(&origin, &gone, 1, &memory);
    let (_other_region, remote) = connect(&origin, &other, 2, &memory);
    drop(region);
    drop(gone);
    let (tally, well) = (Tally::new(), Tally::new());
    for at in 0..5 {
        assert!(matches!(put(&origin, &lost, at * 8, &tally), Post::Pending));
        assert!(matches!(put(&origin, &remote, at * 8, &well), Post::Pending));
    }
    until(&[&origin], "puts to a peer that lives", || well.idle());
    assert!(well.settled());
    until(&[&origin], "the end of silence", || tally.idle());
    let fault = tally.fault().expect("the peer has ended");
    assert_eq!(fault.peer, Peer(1));
    assert!(fault.cause.to_string().contains("completion status"), "{fault}");
    assert!(matches!(put(&origin, &lost, 0, &tally), Post::Broken(later) if *later == fault));
    assert!(matches!(origin.port().send(Peer(1), b"anybody?"), Post::Broken(_)));
    assert!(matches!(put(&origin, &remote, 0, &well), Post::Pending));
    until(&[&origin], "one more put", || well.settled());
}

/// A peer whose death the failure detector knows: operations in flight fail before the silence is
/// over.
///
/// Shows E3.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn operations_to_a_peer_that_is_known_to_be_dead_fail_at_once() {
    let (origin, gone, other) = (open_with(0, Duration::from_secs(600)), open(1), open(2));
    let memory = Memory::private(64);
    let (region, lost) = connect(&origin, &gone, 1, &memory);
    let (_other_region, remote) = connect(&origin, &other, 2, &memory);
    drop((region, gone));
    let (tally, well) = (Tally::new(), Tally::new());
    assert!(matches!(put(&origin, &lost, 0, &tally), Post::Pending));
    assert!(matches!(put(&origin, &lost, 8, &tally), Post::Pending));
    origin.port().lose(Peer(1), Reason::Died);
    until(&[&origin], "operations to a dead peer", || tally.idle());
    assert_eq!(tally.fault(), Some(Fault::new(Peer(1), Reason::Died)));
    assert!(matches!(put(&origin, &lost, 0, &tally), Post::Broken(_)));
    assert!(matches!(put(&origin, &remote, 0, &well), Post::Pending));
    until(&[&origin], "a put to another", || well.settled());
}

/// The connection to a running peer is given up after the first of two puts was acknowledged: both
/// puts end.
///
/// Shows E3.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn acknowledged_operations_end_when_a_peer_is_given_up() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(64);
    let (_region, remote) = connect(&origin, &target, 1, &memory);
    let tally = Tally::new();
    assert!(matches!(put(&origin, &remote, 0, &tally), Post::Pending));
    assert!(matches!(put(&origin, &remote, 8, &tally), Post::Pending));
    std::thread::sleep(Duration::from_millis(100));
    origin.port().lose(Peer(1), Reason::Died);
    until(&[&origin], "operations that were acknowledged", || tally.idle());
    assert_eq!(tally.fault(), Some(Fault::new(Peer(1), Reason::Died)));
}

/// A message that was accepted, and whose receiver has ended: no tally counts the message, so the
/// port reports the failure, at every call.
///
/// Shows E3.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn a_message_to_a_dead_peer_is_reported() {
    let (origin, gone, other) = (open(0), open(1), open(2));
    let memory = Memory::private(64);
    let (region, lost) = connect(&origin, &gone, 1, &memory);
    let (_other_region, remote) = connect(&origin, &other, 2, &memory);
    assert!(matches!(origin.port().send(Peer(1), b"anybody?"), Post::Done));
    let after = Tally::new();
    assert!(matches!(put(&origin, &lost, 0, &after), Post::Pending));
    until(&[&origin, &gone], "the put after a message", || after.settled());
    drop((region, gone));
    assert!(origin.port().lost().is_none());
    assert!(matches!(origin.port().send(Peer(1), b"nobody?"), Post::Done));
    until(&[&origin, &other], "the end of silence", || origin.port().lost().is_some());
    let fault = origin.port().lost().expect("just seen");
    assert_eq!(fault.peer, Peer(1));
    assert!(fault.cause.to_string().contains("completion status"), "{fault}");
    let tally = Tally::new();
    assert!(matches!(put(&origin, &remote, 0, &tally), Post::Pending));
    until(&[&origin], "a put to another", || tally.settled());
    assert_eq!(origin.port().lost(), Some(fault));
}

/// A deregistered region: the target's device refuses, and the connection breaks.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn the_device_refuses_a_deregistered_region() {
    let (origin, target) = (open(0), open(1));
    let memory = Memory::private(64);
    let (region, remote) = connect(&origin, &target, 1, &memory);
    drop(region);
    let tally = Tally::new();
    assert!(matches!(put(&origin, &remote, 8, &tally), Post::Pending));
    until(&[&origin], "the refusal", || tally.idle());
    assert!(tally.fault().is_some_and(|fault| fault.cause.to_string().contains("access")), "{:?}", tally.fault());
    assert_eq!(memory_at(&memory, 8), [0; 8]);
}

/// A connection request without an answer ends.
///
/// Shows E3.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn a_peer_that_never_answers_is_reported() {
    let hasty = VerbsOptions { patience: Duration::from_millis(300), ..VerbsOptions::default() };
    let (origin, gone) = (VerbsDomain::open(&hasty).expect("a device"), open(1));
    let memory = Memory::private(64);
    let address = gone.port().address();
    let key = gone.register(&memory).expect("memory can be locked").key();
    drop(gone);
    origin.port().connect(Peer(1), &address).expect("its device is there");
    let remote = origin.port().import(Peer(1), &key).expect("a key");
    let tally = Tally::new();
    assert!(matches!(put(&origin, &remote, 0, &tally), Post::Again));
    let mut answer = Post::Again;
    until(&[&origin], "the end of patience", || {
        answer = put(&origin, &remote, 0, &tally);
        !matches!(answer, Post::Again)
    });
    let Post::Broken(fault) = answer else { panic!("{answer:?}") };
    assert!(fault.cause.to_string().contains("answered none of"), "{fault}");
    assert!(tally.settled(), "nothing was counted");
}

/// The bytes of this process's mappings of the device, such as queues.
fn mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let lines = maps.lines().filter(|line| line.contains("/dev/infiniband/"));
    let hex = |text: &str| usize::from_str_radix(text, 16).expect("an address");
    lines.filter_map(|line| line.split_once(' ')?.0.split_once('-')).map(|(from, to)| hex(to) - hex(from)).sum()
}

/// A connected peer takes less than 32 KiB; a peer without contact takes no memory.
///
/// Shows T6.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn a_peer_costs_less_than_32_kib() {
    const PEERS: u32 = 16;
    let (origin, target) = (open(0), open(1));
    let before = mapped();
    // All peers are one process, which answers only as the first peer. A queue pair exists as soon
    // as it is requested.
    for rank in 1..=PEERS {
        origin.port().connect(Peer(rank), &target.port().address()).expect("a queue pair");
    }
    let queues = (mapped() - before) / PEERS as usize;
    assert!(queues > 0, "queues are mapped");
    let own = VerbsDomain::bytes_per_peer();
    assert!(queues + own < 32 << 10, "{queues} bytes of queues and {own} of records");
}

/// A counter of the devices since their start.
fn counted(counter: &str) -> u64 {
    let devices = std::fs::read_dir("/sys/class/infiniband").expect("devices").flatten();
    let each = devices.map(|device| device.path().join("ports/1/hw_counters").join(counter));
    each.map(|path| std::fs::read_to_string(path).expect("a counter").trim().parse::<u64>().expect("a number")).sum()
}

/// The packets that the devices have sent so far.
fn packets() -> u64 {
    counted("sent_pkts")
}

/// 64 ranks send 64 messages each to one rank, which is slow: every message finds a posted receive,
/// so the device refuses none (receiver not ready).
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn messages_of_64_ranks_find_posted_receives() {
    const EACH: u32 = 64;
    let domains: Vec<_> = (0..=64).map(open).collect();
    let (target, origins) = domains.split_first().expect("65");
    for origin in origins {
        origin.port().connect(Peer(0), &target.port().address()).expect("a queue pair");
    }
    let (refused, arrived) = (counted("send_rnr_err"), Counter::default());
    let mut left = vec![EACH; origins.len()];
    let start = Instant::now();
    while arrived.0.load(Ordering::Relaxed) < (EACH as usize) * origins.len() {
        for (origin, left) in origins.iter().zip(&mut left) {
            while *left > 0 && matches!(origin.port().send(Peer(0), &left.to_ne_bytes()), Post::Done) {
                *left -= 1;
            }
            origin.port().progress(&Nobody).expect("progress");
        }
        target.port().progress(&arrived).expect("progress");
        assert!(start.elapsed() < LIMIT, "{} messages arrived", arrived.0.load(Ordering::Relaxed));
        std::thread::yield_now();
    }
    assert_eq!(counted("send_rnr_err") - refused, 0, "refused messages");
}

/// All ranks connect at the same time, so the two hellos of each pair cross. The number of hellos
/// that are repeated because answers are late does not grow with the number of ranks.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn connecting_64_ranks_sends_few_packets() {
    const RANKS: u32 = 64;
    let domains: Vec<_> = (0..RANKS).map(open).collect();
    let memory: Vec<_> = domains.iter().map(|_| Memory::private(8 * RANKS as usize)).collect();
    let regions: Vec<_> = domains
        .iter()
        .zip(&memory)
        .map(|(domain, memory)| domain.register(memory).expect("memory can be locked"))
        .collect();
    let before = packets();
    let mut left: Vec<(usize, usize, VerbsRemote)> = Vec::new();
    for (me, domain) in domains.iter().enumerate() {
        for (other, target) in domains.iter().enumerate() {
            let peer = Peer(u32::try_from(other).expect("few"));
            domain.port().connect(peer, &target.port().address()).expect("a queue pair");
            left.push((me, other, domain.port().import(peer, &regions[other].key()).expect("connected")));
        }
    }
    let (all, tally) = (domains.iter().map(Arc::as_ref).collect::<Vec<_>>(), Tally::new());
    until(&all, "connecting all to all", || {
        left.retain(|(me, _, to)| matches!(put(&domains[*me], to, 8 * *me as u64, &tally), Post::Again));
        left.is_empty()
    });
    until(&all, "a put of each to each", || tally.settled());
    let sent = packets() - before;
    for (rank, memory) in memory.iter().enumerate() {
        assert!((0..RANKS as usize).all(|from| memory_at(memory, 8 * from) == [7; 8]), "at rank {rank}");
    }
    let connections = u64::from(RANKS * (RANKS + 1) / 2);
    // Two hellos with an answer each, and at each end a put with its acknowledgement: 8; the rest
    // for what a busy machine repeats.
    assert!(sent <= 32 * connections, "{sent} packets for {connections} connections");
}

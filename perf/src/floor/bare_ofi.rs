//! The floor between nodes: bare libfabric calls on an endpoint of the same provider, with a polled
//! completion queue.
//!
//! The target polls, like a plain program that waits for its peer: during traffic a separate thread
//! polls the completion queue, so that the times contain no wake-up. The thread uses the core of
//! the target's main thread, which sleeps in the library's barrier. Without traffic the thread
//! sleeps on the queue's descriptor. Its polling would take a core from the library, so all rounds
//! of the library come before the floor's first operation, which wakes the thread.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use transom::Job;
use transom_fabric::{Domain, Memory, Peer, Region};
use transom_ofi::endpoint::Endpoint;
use transom_ofi::{Carrying, OfiDomain, OfiOptions, OfiRegion, PassiveProbe, sys};

use crate::kinds::Test;
use crate::outcome::Outcome;

/// Polling time of the target's thread after each wake-up. Writes to memory make no entry in its
/// queue, so the thread polls for a fixed time, over which the cost of a wake-up is spread.
const ATTENTIVE: Duration = Duration::from_millis(1);
/// Longest sleep before the thread checks whether it must end.
const NAP: Duration = Duration::from_millis(100);
/// Operations in flight at once.
const MOST: usize = 32;
/// Time limit of a bare operation.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// An endpoint in addition to the library's, through which the other rank's memory is reached.
pub(crate) struct BareOfi {
    rank: Peer,
    buffer: Memory,
    /// The buffer's registration, which some providers require.
    own: OfiRegion,
    /// The contexts of operations in flight: some providers write to them (`FI_CONTEXT2`).
    contexts: Box<[UnsafeCell<[u64; 8]>]>,
    address: sys::fi_addr_t,
    key: u64,
    base: u64,
    atomics: bool,
    /// Closed before the other fields are dropped.
    _server: Option<Server>,
    _target: Memory,
    _region: OfiRegion,
    // Dropped after the region.
    domain: Arc<OfiDomain>,
}

/// The thread that polls the target's queue.
struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BareOfi {
    /// With `serve` a thread polls the queue from now on: this rank is the target and makes no
    /// calls in other threads.
    pub(super) fn open(
        world: &Job,
        room: usize,
        flight: usize,
        serve: bool,
        exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>,
    ) -> Outcome<BareOfi> {
        let provider = crate::options::filled("TRANSOM_PROVIDER");
        let (rank, source) = (Peer(u32::try_from(world.rank())?), Some(world.source()));
        let passive = PassiveProbe::Known(true);
        let carrying = Carrying::Known(false);
        let options = OfiOptions { provider, passive, rank, source, carrying, ..OfiOptions::default() };
        let domain = OfiDomain::open(&options)?;
        let target = Memory::private(room.max(64));
        let region = domain.register(&target)?;
        let mut own: Vec<u8> = region.key().0.iter().flat_map(|word| word.to_le_bytes()).collect();
        own.extend(domain.endpoint().name()?);
        let theirs = exchange(&own)?;
        let (key, address) = theirs.split_at_checked(32).ok_or("the address that the other rank sent is too short")?;
        let words = key.as_chunks::<8>().0;
        let address = domain.endpoint().insert(address)?;
        let atomics = domain.endpoint().claims_atomic(sys::FI_UINT64, sys::FI_SUM, false);
        let server = serve.then(|| Server::start(&domain)).transpose()?;
        let buffer = Memory::private(room.max(64) * flight);
        Ok(BareOfi {
            rank,
            _server: server,
            own: domain.register(&buffer)?,
            contexts: (0..=MOST).map(|_| UnsafeCell::new([0; 8])).collect(),
            buffer,
            address,
            key: u64::from_le_bytes(words[1]),
            base: u64::from_le_bytes(words[2]),
            atomics,
            _target: target,
            _region: region,
            domain,
        })
    }

    pub(super) fn has_atomics(&self) -> bool {
        self.atomics
    }

    /// Whether a write can make an entry in the target's queue. `cxi` refuses such writes.
    pub(super) fn tells_of_writes(&self) -> bool {
        self.domain.endpoint().info().provider() != "cxi"
    }

    /// Performs the operation `count` times; in the bandwidth tests with a window of operations in
    /// flight.
    pub(super) fn batch(&self, test: Test, size: usize, window: usize, count: usize) -> Outcome<()> {
        let window = if test.is_bandwidth() { window } else { 1 };
        for _ in 0..count {
            let (mut posted, mut done) = (0, 0);
            let mut idle = None;
            while done < window {
                let mut taken = 0;
                if posted < window {
                    match -self.post(test, size, posted) {
                        0 => posted += 1,
                        // Providers connect only while the queue is read.
                        sys::FI_EAGAIN => taken = self.poll()?,
                        error => return Err(self.domain.endpoint().library().strerror(error).into()),
                    }
                }
                if posted == window || posted - done - taken >= MOST {
                    taken += self.poll()?;
                }
                done += taken;
                in_time(&mut idle, taken > 0)?;
            }
        }
        Ok(())
    }

    /// Posts operation number `posted` of a window; returns libfabric's result.
    fn post(&self, test: Test, size: usize, posted: usize) -> isize {
        let turn = if test == Test::GetBw { posted } else { 0 };
        assert!((turn + 1) * size <= self.buffer.len(), "room for {size} bytes");
        let endpoint: &Endpoint = self.domain.endpoint();
        let (ep, local) = (endpoint.ep, self.buffer.as_ptr());
        let (own, context) = (self.own.descriptor(), self.context(posted));
        // SAFETY: the endpoint is open; the buffers live as long as `self`, and `batch` takes every
        // completion before it returns.
        unsafe {
            match test {
                Test::GetLatency | Test::GetBw => {
                    let read = (*(*ep).rma).read.expect("read");
                    let into = local.add(turn * size).cast();
                    read(ep, into, size, own, self.address, self.base, self.key, context)
                }
                Test::FopLatency => {
                    let fetch = (*(*ep).atomic).readwrite.expect("readwrite");
                    let (operand, result) = (local.cast(), local.add(8).cast());
                    let (kind, sum) = (sys::FI_UINT64, sys::FI_SUM);
                    let (to, at, key) = (self.address, self.base, self.key);
                    fetch(ep, operand, 1, own, result, own, to, at, key, kind, sum, context)
                }
                Test::CasLatency => {
                    let swap = (*(*ep).atomic).compwrite.expect("compwrite");
                    let (operand, compare, result) = (local.cast(), local.add(16).cast(), local.add(8).cast());
                    let (kind, op) = (sys::FI_UINT64, sys::FI_CSWAP);
                    let (to, at, key) = (self.address, self.base, self.key);
                    swap(ep, operand, 1, own, compare, own, result, own, to, at, key, kind, op, context)
                }
                _ => self.write(size, sys::FI_DELIVERY_COMPLETE | sys::FI_COMPLETION, posted),
            }
        }
    }

    /// Takes part in `count` bare barriers of two ranks: one round of dissemination, which includes
    /// the put.
    pub(super) fn barriers(&self, count: usize) -> Outcome<()> {
        self.notify(count, false)
    }

    /// Takes part in `count` round trips: rank 1 answers each write of rank 0 by a write.
    pub(super) fn pingpong(&self, count: usize) -> Outcome<()> {
        self.notify(count, self.rank == Peer(1))
    }

    /// Writes 8 bytes to the other rank, which adds an entry to the other's queue, and takes the
    /// entry of the other's write, `count` times. A rank that answers takes the entry first.
    fn notify(&self, count: usize, answers: bool) -> Outcome<()> {
        let endpoint = self.domain.endpoint();
        // Arrivals: a peer can be one round ahead.
        let mut arrived = 0;
        for turn in 1..=count {
            let mut idle = None;
            let (mut posted, mut left) = (false, false);
            while !(posted && left && arrived >= turn) {
                if !posted && (!answers || arrived >= turn) {
                    match -self.write(8, sys::FI_REMOTE_CQ_DATA | sys::FI_COMPLETION, turn) {
                        0 => posted = true,
                        sys::FI_EAGAIN => {}
                        error => return Err(endpoint.library().strerror(error).into()),
                    }
                }
                let mut entries = [EMPTY; 32];
                let taken = self.read(&mut entries)?;
                for entry in &entries[..taken] {
                    if entry.flags & sys::FI_REMOTE_CQ_DATA != 0 { arrived += 1 } else { left = true }
                }
                in_time(&mut idle, taken > 0)?;
            }
        }
        Ok(())
    }

    /// Writes as operation number `posted`; returns libfabric's result.
    fn write(&self, size: usize, flags: u64, posted: usize) -> isize {
        let endpoint: &Endpoint = self.domain.endpoint();
        let mut own = self.own.descriptor();
        let source = sys::iovec { iov_base: self.buffer.as_ptr().cast(), iov_len: size };
        let target = sys::fi_rma_iov { addr: self.base, len: size, key: self.key };
        let message = sys::fi_msg_rma {
            msg_iov: &raw const source,
            desc: &raw mut own,
            iov_count: 1,
            addr: self.address,
            rma_iov: &raw const target,
            rma_iov_count: 1,
            context: self.context(posted),
            data: 0,
        };
        // SAFETY: the endpoint is open; the vectors live over the call, the buffer lives as long as
        // `self`, and the poster takes every completion before it returns.
        unsafe {
            let write = (*(*endpoint.ep).rma).writemsg.expect("writemsg");
            write(endpoint.ep, &raw const message, flags)
        }
    }

    /// The context of operation number `posted`. At most [`MOST`] and one more are in flight, and a
    /// context is used again only when all earlier ones may have been.
    fn context(&self, posted: usize) -> *mut c_void {
        self.contexts[posted % self.contexts.len()].get().cast()
    }

    /// Takes completions; returns their number.
    fn poll(&self) -> Outcome<usize> {
        self.read(&mut [EMPTY; 32])
    }

    fn read(&self, entries: &mut [sys::fi_cq_msg_entry]) -> Outcome<usize> {
        read(self.domain.endpoint(), entries)
    }
}

/// Fails if nothing has completed for [`TIME_LIMIT`]. `moved`: an operation has completed since the
/// last call. `idle`: the time since which none has.
fn in_time(idle: &mut Option<Instant>, moved: bool) -> Outcome<()> {
    if moved {
        *idle = None;
        return Ok(());
    }
    match idle.get_or_insert_with(Instant::now).elapsed() > TIME_LIMIT {
        true => Err(format!("bare libfabric: no operation completed within {TIME_LIMIT:?}").into()),
        false => Ok(()),
    }
}

const EMPTY: sys::fi_cq_msg_entry = sys::fi_cq_msg_entry { op_context: std::ptr::null_mut(), flags: 0, len: 0 };

/// Takes completions into `entries`; returns their number.
fn read(endpoint: &Endpoint, entries: &mut [sys::fi_cq_msg_entry]) -> Outcome<usize> {
    // SAFETY: the queue is open and has this format, and there is room for as many entries.
    let status = unsafe {
        let read = (*(*endpoint.cq).ops).read.expect("read");
        read(endpoint.cq, entries.as_mut_ptr().cast(), entries.len())
    };
    match usize::try_from(status) {
        Ok(count) => Ok(count),
        Err(_) if -status == sys::FI_EAGAIN => Ok(0),
        Err(_) => Err(format!("bare libfabric: {}", endpoint.library().strerror(status)).into()),
    }
}

impl Server {
    fn start(domain: &Arc<OfiDomain>) -> Outcome<Server> {
        let stop = Arc::new(AtomicBool::new(false));
        let (domain, stopped) = (Arc::clone(domain), Arc::clone(&stop));
        let serve = move || {
            // Relaxed: the flag only requests the end.
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = attend(domain.endpoint()) {
                    // The origin will wait in vain and end by its own limit; the reason is known
                    // here.
                    eprintln!("transom-perf: the floor's target: {error:#}");
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("floor".into()).spawn(serve)?;
        Ok(Server { stop, thread: Some(thread) })
    }
}

/// Sleeps until there is traffic, then polls while there may be more.
fn attend(endpoint: &Endpoint) -> Outcome<()> {
    if let Some(queue) = endpoint.wait_fd().filter(|_| endpoint.may_sleep() == Some(true)) {
        let limit = Timespec::try_from(NAP)?;
        // An interrupted sleep is a short sleep.
        let woken = rustix::event::poll(&mut [PollFd::new(&queue, PollFlags::IN)], Some(&limit));
        if woken == Ok(0) {
            // Without traffic one poll is sufficient.
            return read(endpoint, &mut [EMPTY; 32]).map(drop);
        }
    }
    let start = Instant::now();
    while start.elapsed() < ATTENTIVE {
        for _ in 0..64 {
            read(endpoint, &mut [EMPTY; 32])?;
        }
    }
    Ok(())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

//! The floor on RDMA devices: bare verbs calls on a separate connection between the same two
//! processes, with a polled completion queue. The target makes no calls, because its device
//! performs the operations, except in round trips of writes with immediate data: these arrive in
//! its queue.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transom::Job;
use transom_fabric::{Memory, Peer};
use transom_verbs::bare::BarePair;
use transom_verbs::{VerbsOptions, sys};

use crate::kinds::Test;
use crate::outcome::Outcome;

/// Requests in flight at once.
const DEPTH: usize = 64;
/// One in this many requests is signaled, so that the queue has room again before it is full; the
/// last one is signaled too.
const SIGNAL_EVERY: usize = 16;

/// Posted receives for writes with immediate data. Of these at most one is in flight each way.
const RECEIVES: u32 = 16;
/// Polls between two looks at the clock.
const POLLS: u32 = 1024;

/// Time limit of a round trip.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A connection in addition to the library's, through which the other rank's memory is reached.
pub(crate) struct BareVerbs {
    rank: Peer,
    /// Round trips so far.
    turns: Cell<u64>,
    /// The last of this rank's writes in round trips that is known to be complete.
    complete: Cell<u64>,
    pair: BarePair,
    /// The other rank's memory, and its key.
    base: u64,
    key: u32,
    /// Offset of this rank's buffers in its memory, after the part that the other rank reaches.
    buffers: usize,
}

impl BareVerbs {
    /// Usable once both ranks have opened it.
    pub(super) fn open(
        world: &Job,
        room: usize,
        flight: usize,
        exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>,
    ) -> Outcome<BareVerbs> {
        let devices = crate::options::filled("TRANSOM_NET_DEVICES");
        let (rank, paths) = (Peer(u32::try_from(world.rank())?), world.rdma_paths());
        let options = VerbsOptions { devices, rank, paths, ..VerbsOptions::default() };
        let room = room.max(64);
        let memory = Memory::private(room + room * flight);
        let pair = BarePair::open(&options, u32::try_from(DEPTH)?, RECEIVES, &memory)?;
        (0..RECEIVES).try_for_each(|_| pair.post_receive())?;
        let mut own = (memory.as_ptr() as u64).to_le_bytes().to_vec();
        own.extend(pair.remote_key().to_le_bytes());
        own.extend(pair.address());
        let theirs = exchange(&own)?;
        let short = || "the address that the other rank sent is too short";
        let (base, theirs) = theirs.split_first_chunk().ok_or_else(short)?;
        let (key, address) = theirs.split_first_chunk().ok_or_else(short)?;
        pair.connect(address)?;
        let (base, key) = (u64::from_le_bytes(*base), u32::from_le_bytes(*key));
        let (turns, complete) = Default::default();
        Ok(BareVerbs { rank: options.rank, turns, complete, pair, base, key, buffers: room })
    }

    pub(super) fn has_atomics(&self) -> bool {
        self.pair.has_atomics()
    }

    /// Performs the operation `count` times; in the bandwidth tests with a window of operations in
    /// flight.
    pub(super) fn batch(&self, test: Test, size: usize, window: usize, count: usize) -> Outcome<()> {
        let window = if test.is_bandwidth() { window } else { 1 };
        for _ in 0..count {
            let (mut posted, mut done) = (0, 0);
            while done < window {
                while posted < window && posted - done < DEPTH {
                    let turn = posted;
                    posted += 1;
                    let signaled = posted == window || posted.is_multiple_of(SIGNAL_EVERY);
                    self.post(test, size, turn, signaled.then_some(posted))?;
                }
                done = self.poll()?.unwrap_or(done);
            }
        }
        Ok(())
    }

    /// Takes part in `count` round trips: rank 1 answers each write with immediate data of rank 0
    /// by such a write. Only one in [`SIGNAL_EVERY`] writes is signaled.
    pub(super) fn pingpong(&self, count: usize) -> Outcome<()> {
        let own = self.pair.memory().word64(self.buffers);
        for _ in 0..count {
            let turn = self.turns.get() + 1;
            self.turns.set(turn);
            if self.rank == Peer(1) {
                self.arrival(turn)?;
            }
            // Relaxed: the post orders the word for the device.
            own.store(turn, Ordering::Relaxed);
            let is_signaled = turn.is_multiple_of(SIGNAL_EVERY as u64);
            self.post(Test::NotifyPingpong, 8, 0, is_signaled.then_some(usize::try_from(turn)?))?;
            if self.rank == Peer(0) {
                self.arrival(turn)?;
            }
            while turn - self.complete.get() >= (DEPTH - SIGNAL_EVERY) as u64 {
                if let Some(complete) = self.poll()? {
                    self.complete.set(complete as u64);
                }
            }
        }
        Ok(())
    }

    /// Takes completions until the other rank's write number `turn` has arrived, and posts its
    /// receive again.
    fn arrival(&self, turn: u64) -> Outcome<()> {
        let start = Instant::now();
        for polls in 1u32.. {
            let mut entries = [sys::ibv_wc::default(); 4];
            let count = self.pair.poll(&mut entries)?;
            let mut arrived = false;
            for entry in &entries[..count] {
                if entry.opcode == sys::IBV_WC_RECV_RDMA_WITH_IMM {
                    self.pair.post_receive()?;
                    arrived = true;
                } else {
                    self.complete.set(entry.wr_id);
                }
            }
            if arrived {
                // Relaxed: no other data is read after the word.
                let found = self.pair.memory().word64(0).load(Ordering::Relaxed);
                return (found == turn).then_some(()).ok_or(format!("bare round {turn}: found {found}").into());
            }
            if polls.is_multiple_of(POLLS) && start.elapsed() > TIME_LIMIT {
                break;
            }
        }
        Err(format!("bare round {turn}: no answer of the other rank within {TIME_LIMIT:?}").into())
    }

    /// Posts operation number `turn` of those in flight; a signaled one carries the number of
    /// operations that are then complete.
    fn post(&self, test: Test, size: usize, turn: usize, completes: Option<usize>) -> Outcome<()> {
        let turn = if test == Test::GetBw { turn } else { 0 };
        let at = self.buffers + turn * size;
        assert!(at + size <= self.pair.memory().len() && size <= self.buffers, "room for {size} bytes");
        let rdma = sys::Target { rdma: sys::Rdma { remote_addr: self.base, rkey: self.key } };
        let atomic = |compare_add, swap| sys::Target {
            atomic: sys::Atomic { remote_addr: self.base, compare_add, swap, rkey: self.key },
        };
        let (opcode, wr) = match test {
            Test::GetLatency | Test::GetBw => (sys::IBV_WR_RDMA_READ, rdma),
            Test::FopLatency => (sys::IBV_WR_ATOMIC_FETCH_AND_ADD, atomic(1, 0)),
            Test::CasLatency => (sys::IBV_WR_ATOMIC_CMP_AND_SWP, atomic(0, 0)),
            Test::NotifyPingpong => (sys::IBV_WR_RDMA_WRITE_WITH_IMM, rdma),
            _ => (sys::IBV_WR_RDMA_WRITE, rdma),
        };
        let is_write = matches!(opcode, sys::IBV_WR_RDMA_WRITE | sys::IBV_WR_RDMA_WRITE_WITH_IMM);
        let inline = is_write && size <= self.pair.inline();
        let signaled = if completes.is_some() { sys::IBV_SEND_SIGNALED } else { 0 };
        let mut element = sys::ibv_sge {
            addr: self.pair.memory().as_ptr() as u64 + at as u64,
            length: u32::try_from(size)?,
            lkey: self.pair.local_key(),
        };
        let mut request = sys::ibv_send_wr {
            wr_id: completes.unwrap_or(0) as u64,
            next: std::ptr::null_mut(),
            sg_list: &raw mut element,
            num_sge: 1,
            opcode,
            send_flags: signaled | if inline { sys::IBV_SEND_INLINE } else { 0 },
            imm_data: 0,
            wr,
            rest: [0; 7],
        };
        // SAFETY: the bytes are in the pair's memory (asserted), which only the pair uses, and
        // which lives as long as the pair.
        Ok(unsafe { self.pair.post(&mut request) }?)
    }

    /// Polls for completions; returns the number of complete operations, `None` without a
    /// completion.
    fn poll(&self) -> Outcome<Option<usize>> {
        let mut entries = [sys::ibv_wc::default(); 4];
        let count = self.pair.poll(&mut entries)?;
        entries[..count].last().map(|entry| Ok(usize::try_from(entry.wr_id)?)).transpose()
    }
}

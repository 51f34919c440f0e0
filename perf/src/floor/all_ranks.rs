//! The floor of tests of many ranks within a node: the memory of every rank is mapped at all ranks,
//! and operations are those of a program without a library: copies, atomic instructions, spin locks
//! and flags.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use transom::Job;

use super::allgather;
use super::mapped::Parts;
use crate::outcome::Outcome;

/// Offsets in each block, on separate cache lines: a word, a lock, the flags of a ring, the flags
/// of barriers, the data.
const WORD: usize = 0;
const LOCK: usize = 128;
const READY: usize = 256;
const DONE: usize = 384;
const BARRIER: usize = 512;
const DATA: usize = 4096;
/// Number of polls before a waiting rank yields its core, which the awaited rank may need.
const SPINS: usize = 2000;

/// One block of memory for each rank.
pub(crate) struct AllRanks {
    parts: Parts,
    me: usize,
    room: usize,
    /// Number of barriers and of rounds of the ring so far, equal at all ranks.
    turns: Cell<u64>,
}

impl AllRanks {
    /// Opens blocks with `room` bytes of data. Collective; `None` unless all ranks share a node.
    pub(crate) fn open(world: &Job, room: usize) -> Outcome<Option<AllRanks>> {
        if world.node_ranks().len() < world.size() {
            return Ok(None);
        }
        let parts = Parts::open(world.rank(), DATA + room.max(64), |mine| allgather(world, world.size(), mine))?;
        world.barrier()?;
        Ok(Some(AllRanks { parts, me: world.rank(), room, turns: Cell::new(0) }))
    }

    pub(crate) fn ranks(&self) -> usize {
        self.parts.memory.len()
    }

    /// A word of a rank, alone on its cache line.
    pub(crate) fn word(&self, rank: usize) -> &AtomicU64 {
        self.parts.memory[rank].word64(WORD)
    }

    /// Word number `index` of a rank's data.
    pub(crate) fn data_word(&self, rank: usize, index: usize) -> &AtomicU64 {
        self.parts.memory[rank].word64(DATA + 8 * index)
    }

    /// Copies words to the data of a rank, from word `at` on.
    pub(crate) fn copy_to(&self, rank: usize, at: usize, from: &[u64]) {
        let to = self.data(rank, at, size_of_val(from));
        // SAFETY: the target has as many bytes (`data`) and lives as long as `self`; the source is
        // a live slice, which does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(black_box(from.as_ptr().cast::<u8>()), to, size_of_val(from)) };
    }

    /// Copies words from the beginning of the data of a rank.
    pub(crate) fn copy_from(&self, rank: usize, to: &mut [u64]) {
        let from = self.data(rank, 0, size_of_val(to));
        // SAFETY: as in `copy_to`, in the other direction.
        unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), black_box(to.as_mut_ptr().cast()), size_of_val(to)) };
    }

    fn data(&self, rank: usize, at: usize, len: usize) -> *mut u8 {
        let memory = &self.parts.memory[rank];
        assert!(8 * at + len <= self.room.max(64), "room for {len} bytes from word {at} on");
        memory.as_ptr().wrapping_add(DATA + 8 * at)
    }

    /// Runs `body` under the spin lock of a rank.
    pub(crate) fn locked(&self, rank: usize, body: impl FnOnce()) {
        let lock = self.parts.memory[rank].word64(LOCK);
        // Acquire pairs with the Release of the last holder. Relaxed: the load only avoids swaps of
        // a taken lock.
        while lock.swap(1, Ordering::Acquire) != 0 {
            until(|| lock.load(Ordering::Relaxed) == 0);
        }
        body();
        lock.store(0, Ordering::Release);
    }

    /// Adds 1 to eight doubles of a rank's data under its spin lock.
    pub(crate) fn add_doubles(&self, rank: usize) {
        self.locked(rank, || {
            for index in 0..8 {
                let word = self.data_word(rank, index);
                // Relaxed: the lock orders the accesses.
                let sum = f64::from_bits(word.load(Ordering::Relaxed)) + 1.0;
                word.store(sum.to_bits(), Ordering::Relaxed);
            }
        });
    }

    /// A dissemination barrier of flags.
    pub(crate) fn barrier(&self) {
        let (ranks, turn) = (self.ranks(), self.turn());
        let mut step = 1;
        let mut at = BARRIER;
        while step < ranks {
            self.signal((self.me + step) % ranks, at, turn);
            self.await_signal(at, turn);
            (step, at) = (2 * step, at + 128);
        }
    }

    /// Sets a flag at the left neighbour when this rank is ready, stores a word at the right
    /// neighbour after the right neighbour has set its flag, and waits for the word of the left
    /// one.
    pub(crate) fn ring(&self) {
        let (ranks, turn) = (self.ranks(), self.turn());
        let (left, right) = ((self.me + ranks - 1) % ranks, (self.me + 1) % ranks);
        self.signal(left, READY, turn);
        self.await_signal(READY, turn);
        // Relaxed: the following store to a flag orders it.
        self.word(right).store(turn, Ordering::Relaxed);
        self.signal(right, DONE, turn);
        self.await_signal(DONE, turn);
    }

    /// Sets a flag at the right neighbour, and waits for the flag of the left one.
    pub(crate) fn pass(&self) {
        let turn = self.turn();
        self.signal((self.me + 1) % self.ranks(), DONE, turn);
        self.await_signal(DONE, turn);
    }

    fn turn(&self) -> u64 {
        self.turns.set(self.turns.get() + 1);
        self.turns.get()
    }

    fn signal(&self, rank: usize, at: usize, turn: u64) {
        // Release pairs with the Acquire of `await_signal`.
        self.parts.memory[rank].word64(at).store(turn, Ordering::Release);
    }

    fn await_signal(&self, at: usize, turn: u64) {
        let own = self.parts.memory[self.me].word64(at);
        until(|| own.load(Ordering::Acquire) >= turn);
    }
}

fn until(holds: impl Fn() -> bool) {
    let mut tries = 0;
    while !holds() {
        tries += 1;
        if tries % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

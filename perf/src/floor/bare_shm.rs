//! The floor within a node: copies, atomic instructions and two flags on the other process's mapped
//! memory.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use transom_fabric::Memory;

use super::mapped::Mapped;
use crate::kinds::Test;
use crate::outcome::Outcome;

/// Offsets in a rank's memory: the flag that the other rank sets, the word of the atomics, and the
/// data.
const FLAG: usize = 128;
const WORD: usize = 256;
const DATA: usize = 4096;

/// Memory of both ranks, each mapped at the other.
pub(crate) struct BareShm {
    memory: Mapped,
    buffer: Memory,
    rank: usize,
    turns: AtomicU32,
}

impl BareShm {
    pub(super) fn open(
        rank: usize,
        room: usize,
        flight: usize,
        exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>,
    ) -> Outcome<BareShm> {
        let memory = Mapped::open(rank, DATA + room, exchange)?;
        Ok(BareShm { memory, buffer: Memory::private(room * flight), rank, turns: AtomicU32::new(0) })
    }

    /// Performs the operation `count` times.
    pub(super) fn batch(&self, test: Test, size: usize, window: usize, count: usize) {
        let word = self.memory.theirs.word64(WORD);
        match test {
            Test::FopLatency => (0..count).for_each(|_| {
                black_box(word.fetch_add(1, Ordering::SeqCst));
            }),
            Test::CasLatency => (0..count).for_each(|_| {
                let found = word.load(Ordering::Relaxed);
                // No other process uses the word, so it always succeeds; the value is the result of
                // the measurement.
                let _ = black_box(word.compare_exchange(found, found + 1, Ordering::SeqCst, Ordering::SeqCst));
            }),
            Test::FenceLatency => self.barriers(count),
            Test::Pscw => self.turns(count),
            Test::Lock => (0..count).for_each(|_| {
                word.fetch_add(1, Ordering::SeqCst);
                black_box(word.fetch_sub(1, Ordering::SeqCst));
            }),
            Test::GetLatency => self.copies(true, size, 1, count),
            Test::GetBw => self.copies(true, size, window, count),
            Test::PutBw => self.copies(false, size, window, count),
            _ => self.copies(false, size, 1, count),
        }
    }

    /// `memcpy` of a length that the compiler does not know, as in a program: `flight` copies,
    /// `count` times. As in the library's tests, puts have one source and each get has its own
    /// buffer.
    fn copies(&self, from_there: bool, size: usize, flight: usize, count: usize) {
        let room = if from_there { size * flight } else { size };
        assert!(room <= self.buffer.len() && size <= self.memory.theirs.len() - DATA, "room for {size} bytes");
        let (here, there) = (self.buffer.as_ptr(), self.memory.theirs.as_ptr().wrapping_add(DATA));
        for _ in 0..count {
            for turn in 0..flight {
                let (from, to) = if from_there { (there, here.wrapping_add(turn * size)) } else { (here, there) };
                // SAFETY: both ranges have `size` bytes (asserted), live as long as `self`, and
                // don't overlap; no Rust reference to either exists.
                unsafe { std::ptr::copy_nonoverlapping(black_box(from.cast_const()), black_box(to), black_box(size)) };
            }
        }
    }

    /// Barriers of two flags: a store of 8 bytes, a store to the peer's flag, and a poll of this
    /// rank's flag.
    pub(crate) fn barriers(&self, count: usize) {
        let (flag, own) = (self.memory.theirs.word32(FLAG), self.memory.mine.word32(FLAG));
        for _ in 0..count {
            // Relaxed: both sides count alike; the flags order the data.
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
            self.memory.theirs.word64(WORD).store(u64::from(turn), Ordering::Relaxed);
            // Release and Acquire: each store of a flag pairs with the peer's load of it, as in any
            // barrier.
            flag.store(turn, Ordering::Release);
            poll(own, turn);
        }
    }

    /// Rank 1 signals that it is ready; rank 0 stores 8 bytes and signals; rank 1 waits for that
    /// signal.
    pub(crate) fn turns(&self, count: usize) {
        let (flag, own) = (self.memory.theirs.word32(FLAG), self.memory.mine.word32(FLAG));
        for _ in 0..count {
            // Relaxed, Release and Acquire: as in `barriers`.
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
            if self.rank == 0 {
                poll(own, turn);
                self.memory.theirs.word64(WORD).store(u64::from(turn), Ordering::Relaxed);
                flag.store(turn, Ordering::Release);
            } else {
                flag.store(turn, Ordering::Release);
                poll(own, turn);
            }
        }
    }

    /// Round trips: rank 0 stores 8 bytes and a flag; rank 1 waits for the flag, and stores 8 bytes
    /// and a flag in return.
    pub(crate) fn pingpong(&self, count: usize) {
        let (flag, own) = (self.memory.theirs.word32(FLAG), self.memory.mine.word32(FLAG));
        for _ in 0..count {
            // Relaxed, Release and Acquire: as in `barriers`.
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
            if self.rank == 1 {
                poll(own, turn);
            }
            self.memory.theirs.word64(WORD).store(u64::from(turn), Ordering::Relaxed);
            flag.store(turn, Ordering::Release);
            if self.rank == 0 {
                poll(own, turn);
            }
        }
    }
}

/// Polls this rank's flag until the peer has stored `turn` or more.
fn poll(own: &AtomicU32, turn: u32) {
    // Acquire: pairs with the Release of the peer's store.
    while own.load(Ordering::Acquire) < turn {
        std::hint::spin_loop();
    }
}

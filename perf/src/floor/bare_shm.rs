//! The floor within a node: the other process's memory mapped here, a copy, a locked instruction, two flags.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use transom_fabric::{Domain, Memory, Peer, Port, Region, RegionKey};
use transom_shm::{Heap, HeapOptions, ShmDomain};

use crate::Outcome;
use crate::options::Test;

/// Where the flags and the atomics' word are; data begins behind them.
const FLAG: usize = 128;
const WORD: usize = 256;
const DATA: usize = 4096;

/// Memory of both ranks, each mapped at the other.
pub(crate) struct BareShm {
    mine: Memory,
    theirs: Memory,
    buffer: Memory,
    turns: AtomicU32,
    _keeps: (<ShmDomain as Domain>::Region, Arc<ShmDomain>),
}

impl BareShm {
    pub(super) fn open(
        rank: usize,
        room: usize,
        flight: usize,
        exchange: impl Fn(&[u8]) -> Outcome<Vec<u8>>,
    ) -> Outcome<BareShm> {
        let me = Peer(u32::try_from(rank)?);
        let heap = Heap::create(HeapOptions::default())?;
        let domain = ShmDomain::new(Arc::clone(&heap), me)?;
        let mine = heap.allocate(DATA + room)?;
        let region = domain.register(&mine)?;
        let mut card: Vec<u8> = region.key().0.iter().flat_map(|word| word.to_le_bytes()).collect();
        card.extend(domain.port().address());
        let card = exchange(&card)?;
        let (key, address) = card.split_at_checked(32).ok_or("the other rank's card is too short")?;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let other = Peer(1 - me.0);
        domain.port().connect(other, address)?;
        let remote = domain.port().import(other, &RegionKey(words))?;
        let theirs = domain.port().direct(&remote).ok_or("the other rank's memory is not mapped")?.clone();
        let buffer = Memory::private(room * flight);
        Ok(BareShm { mine, theirs, buffer, turns: AtomicU32::new(0), _keeps: (region, domain) })
    }

    /// Does the operation `count` times.
    pub(super) fn batch(&self, test: Test, size: usize, window: usize, count: usize) {
        let word = self.theirs.word64(WORD);
        match test {
            Test::FopLatency => (0..count).for_each(|_| {
                black_box(word.fetch_add(1, Ordering::SeqCst));
            }),
            Test::CasLatency => (0..count).for_each(|_| {
                let found = word.load(Ordering::Relaxed);
                // Alone on the word, it always succeeds; the value is what is measured.
                let _ = black_box(word.compare_exchange(found, found + 1, Ordering::SeqCst, Ordering::SeqCst));
            }),
            Test::FenceLatency => self.barriers(count),
            Test::GetLatency => self.copies(true, size, 1, count),
            Test::GetBw => self.copies(true, size, window, count),
            Test::PutBw => self.copies(false, size, window, count),
            Test::PutLatency | Test::Passive | Test::Floor => self.copies(false, size, 1, count),
        }
    }

    /// `memcpy` of a length that the compiler does not know, as a program would do it: `flight` of them, `count` times.
    /// Like the library's tests, puts have one source, and gets a buffer each.
    fn copies(&self, from_there: bool, size: usize, flight: usize, count: usize) {
        let room = if from_there { size * flight } else { size };
        assert!(room <= self.buffer.len() && size <= self.theirs.len() - DATA, "room for {size} bytes");
        let (here, there) = (self.buffer.as_ptr(), self.theirs.as_ptr().wrapping_add(DATA));
        for _ in 0..count {
            for turn in 0..flight {
                let (from, to) = if from_there { (there, here.wrapping_add(turn * size)) } else { (here, there) };
                // SAFETY: both ranges have `size` bytes (asserted), are there as long as `self`, and don't overlap; no
                // Rust reference to either exists.
                unsafe { std::ptr::copy_nonoverlapping(black_box(from.cast_const()), black_box(to), black_box(size)) };
            }
        }
    }

    /// A store of 8 bytes, then a flag there and a look at the own one: two-flag barriers.
    pub(crate) fn barriers(&self, count: usize) {
        let (flag, own) = (self.theirs.word32(FLAG), self.mine.word32(FLAG));
        for _ in 0..count {
            // Relaxed: both sides count alike; the flags order what matters.
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
            self.theirs.word64(WORD).store(u64::from(turn), Ordering::Relaxed);
            // Release and Acquire: as a barrier needs them.
            flag.store(turn, Ordering::Release);
            while own.load(Ordering::Acquire) < turn {
                std::hint::spin_loop();
            }
        }
    }
}

//! One operation in flight: its remaining pieces, and their application to the target's memory.
//! Independent of queues, ranks and progress.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::apply::Lent;
use crate::{Amo, Coherence, Immediate, Memory, Peer, TallyRef, Width};

/// Random numbers from the seed (SplitMix64, Steele et al., OOPSLA 2014).
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap_or(0) % bound
    }

    /// True once in `n` on average; never for 0.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        n != 0 && self.next().is_multiple_of(u64::from(n))
    }

    /// A number of steps from 0 to `most`.
    pub(super) fn steps(&mut self, most: u32) -> u32 {
        u32::try_from(self.next() % (u64::from(most) + 1)).unwrap_or(most)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The source of a put's bytes.
pub(super) enum Source {
    /// Copied at the post.
    Copied(Vec<u8>),
    /// In the origin's buffer, which is read as late as possible.
    Lent(Lent),
}

/// The effect at the target.
pub(super) enum Work {
    /// A put, with its immediate.
    Put(Source, Option<Immediate>),
    Get(Lent),
    Amo(Amo, Coherence, Lent),
}

/// An operation in flight.
pub(super) struct Flight {
    pub(super) origin: Peer,
    pub(super) target: Peer,
    pub(super) region: u64,
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) work: Work,
    /// Ranges of the operation's bytes that are not applied yet; the last one is the next.
    pub(super) pieces: Vec<Range<usize>>,
    /// Steps of progress until the next piece is applied.
    pub(super) left: u32,
    pub(super) tally: TallyRef,
    /// The operation's number among all posts of the net.
    pub(super) stamp: u64,
}

impl Flight {
    /// The put's immediate.
    pub(super) fn immediate(&self) -> Option<Immediate> {
        match self.work {
            Work::Put(_, immediate) => immediate,
            Work::Get(_) | Work::Amo(..) => None,
        }
    }

    /// Applies the next piece. The operation's range lies inside `memory`, as the net has checked.
    pub(super) fn apply_piece(&mut self, memory: &Memory) {
        let Some(piece) = self.pieces.pop() else {
            return;
        };
        let at = self.offset + piece.start;
        match &self.work {
            Work::Put(Source::Copied(bytes), _) => memory.write(at, &bytes[piece]),
            Work::Put(Source::Lent(from), _) => memory.write(at, &from.read(piece)),
            Work::Get(into) => {
                let mut bytes = vec![0; piece.len()];
                memory.read(at, &mut bytes);
                into.write(piece.start, &bytes);
            }
            Work::Amo(amo, Coherence::WithCpu, into) => {
                into.write_value(memory.amo(at, *amo), amo.width);
            }
            Work::Amo(amo, Coherence::DeviceOnly, into) => {
                into.write_value(device_amo(memory, at, *amo), amo.width);
            }
        }
    }
}

/// Performs an atomic as a device does: not atomically with the CPU's, and slow enough for tests to
/// notice. The net's lock makes it atomic with the device atomics of other ranks.
fn device_amo(memory: &Memory, at: usize, amo: Amo) -> u64 {
    // Relaxed: the operation's tally orders the data; see `Tally::finish`.
    match amo.width {
        Width::W64 => {
            let old = memory.word64(at).load(Ordering::Relaxed);
            std::thread::yield_now();
            memory.word64(at).store(amo.apply(old), Ordering::Relaxed);
            old
        }
        Width::W32 => {
            let old = memory.word32(at).load(Ordering::Relaxed);
            std::thread::yield_now();
            // `apply` truncates to the width, so the conversion can't fail.
            let new = u32::try_from(amo.apply(u64::from(old))).unwrap_or(old);
            memory.word32(at).store(new, Ordering::Relaxed);
            u64::from(old)
        }
    }
}

/// Cuts `len` bytes into up to three pieces, in random order. With `aligned_from`, the address of
/// the first byte at the target, all cuts are between aligned words.
pub(super) fn cut(rng: &mut Rng, len: usize, aligned_from: Option<usize>) -> Vec<Range<usize>> {
    let mut cuts = vec![0, len];
    for _ in 0..rng.below(3) {
        let mut at = rng.below(len + 1);
        if let Some(from) = aligned_from {
            at = at.saturating_sub((from + at) % 8);
        }
        cuts.push(at);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut pieces: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    rng.shuffle(&mut pieces);
    pieces
}

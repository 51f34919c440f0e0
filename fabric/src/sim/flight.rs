//! One operation under way: what is left of it, and its application to the target's memory piece by piece. Knows nothing
//! of queues, ranks or who makes progress.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::apply::Lent;
use crate::{Amo, Coherence, Memory, Peer, TallyRef, Width};

/// Chance, from the seed (SplitMix64, Steele et al., OOPSLA 2014).
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
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

/// Where a put's bytes are.
pub(super) enum Source {
    /// Copied when it was posted.
    Copied(Vec<u8>),
    /// In the origin's buffer, to be read as late as possible.
    Lent(Lent),
}

/// What is to be done at the target.
pub(super) enum Work {
    Put(Source),
    Get(Lent),
    Amo(Amo, Coherence, Lent),
}

/// An operation under way.
pub(super) struct Flight {
    pub(super) origin: Peer,
    pub(super) target: Peer,
    pub(super) region: u64,
    pub(super) offset: usize,
    pub(super) work: Work,
    /// What is not applied yet, as ranges of the operation's bytes; the last is the next.
    pub(super) pieces: Vec<Range<usize>>,
    /// Steps until the next piece is applied.
    pub(super) left: u32,
    pub(super) tally: TallyRef,
}

impl Flight {
    /// Applies the next piece. The range of the whole operation is inside `memory`.
    pub(super) fn apply_piece(&mut self, memory: &Memory) {
        let Some(piece) = self.pieces.pop() else {
            return;
        };
        let at = self.offset + piece.start;
        match &self.work {
            Work::Put(Source::Copied(bytes)) => memory.write(at, &bytes[piece]),
            Work::Put(Source::Lent(from)) => memory.write(at, &from.read(piece)),
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

/// An atomic as a device performs it: not atomic with the CPU's, and slow enough for that to be noticed. The net's lock
/// makes it atomic with those of other ranks.
fn device_amo(memory: &Memory, at: usize, amo: Amo) -> u64 {
    // Relaxed: the tally of the operation orders what it brought; see `Tally::finish`.
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
            // `apply` cuts to the width, so that the conversion can't fail.
            let new = u32::try_from(amo.apply(u64::from(old))).unwrap_or(old);
            memory.word32(at).store(new, Ordering::Relaxed);
            u64::from(old)
        }
    }
}

/// Cuts `len` bytes into up to three pieces in any order. `aligned_from`: the target's address, at whose aligned words only
/// cuts are made.
pub(super) fn cut(chance: &mut Chance, len: usize, aligned_from: Option<usize>) -> Vec<Range<usize>> {
    let mut cuts = vec![0, len];
    for _ in 0..chance.below(3) {
        let mut at = chance.below(len + 1);
        if let Some(from) = aligned_from {
            at = at.saturating_sub((from + at) % 8);
        }
        cuts.push(at);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut pieces: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    chance.shuffle(&mut pieces);
    pieces
}

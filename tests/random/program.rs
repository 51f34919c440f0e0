//! A program as data, and how a seed becomes one.

/// Elements of a rank's part, in order: blocks that one rank writes in a phase, and those that all may accumulate on.
pub(crate) const BLOCKS: usize = 6;
/// Elements of a block.
pub(crate) const BLOCK: usize = 9;
/// Elements for fetching sums, for swaps, for maxima, for exclusive or; and of the vector.
pub(crate) const COUNTERS: usize = 2;
pub(crate) const CHAINS: usize = 2;
pub(crate) const PEAKS: usize = 2;
pub(crate) const BITS: usize = 2;
pub(crate) const VECTOR: usize = 40;

pub(crate) const COUNTER_AT: usize = BLOCKS * BLOCK;
pub(crate) const CHAIN_AT: usize = COUNTER_AT + COUNTERS;
pub(crate) const PEAK_AT: usize = CHAIN_AT + CHAINS;
pub(crate) const BIT_AT: usize = PEAK_AT + PEAKS;
pub(crate) const VECTOR_AT: usize = BIT_AT + BITS;
/// The element that ranks change by reading and writing it, under exclusive locks.
pub(crate) const LOCKED_AT: usize = VECTOR_AT + VECTOR;
/// Elements of a part.
pub(crate) const LEN: usize = LOCKED_AT + 1;

/// How a phase synchronizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Fence,
    /// Every rank exposes its part to all others, and accesses theirs.
    Pscw,
    LockAll,
    /// Each target in turn, shared.
    Shared,
    /// Each target in turn, exclusively.
    Exclusive,
}

/// One operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Writes a whole block with values from `value` on; `strided`: from every other element of the origin's buffer.
    Put {
        target: usize,
        block: usize,
        value: u64,
        strided: bool,
    },
    /// The owner stores its own block, in phases that allow it.
    Store {
        block: usize,
        value: u64,
    },
    /// Reads a block that nobody writes in the phase.
    Get {
        target: usize,
        block: usize,
        request: bool,
    },
    /// Writes a block, flushes where the epoch has flushes, and reads it back.
    PutGet {
        target: usize,
        block: usize,
        value: u64,
    },
    /// Fetches and adds.
    Count {
        target: usize,
        counter: usize,
        operand: u64,
    },
    /// Replaces by a value that nobody else uses, by fetch-and-op or within a get-accumulate.
    Swap {
        target: usize,
        chain: usize,
        value: u64,
        long: bool,
    },
    /// Compare-and-swap to a value that nobody else uses, from what it saw last.
    Compare {
        target: usize,
        chain: usize,
        value: u64,
    },
    Peak {
        target: usize,
        peak: usize,
        operand: u64,
    },
    Bits {
        target: usize,
        bit: usize,
        operand: u64,
    },
    /// Adds 1 to elements of the vector.
    Vector {
        target: usize,
        first: usize,
        len: usize,
        fetch: bool,
    },
    /// Adds 1 by a get and a put, which only an exclusive lock makes one step.
    Bump {
        target: usize,
    },
    /// Completes what was started to the target, where the epoch has flushes.
    Flush {
        target: usize,
    },
}

/// A phase: one epoch of all ranks, and what each does in it.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) sync: Sync,
    pub(crate) acts: Vec<Vec<Act>>,
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) ranks: usize,
    /// 0 allocate, 1 create, 2 by elements, 3 without order.
    pub(crate) window: u64,
    pub(crate) phases: Vec<Phase>,
}

/// A generator of our own, so that a seed means the same everywhere and for ever (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or(0)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

impl Program {
    /// The program of a seed.
    pub(crate) fn new(seed: u64, ranks: usize) -> Program {
        let mut random = Random(seed);
        let window = random.next() % 4;
        let mut unique = 1u64 << 32;
        let phases = (0..3 + random.below(4)).map(|_| phase(&mut random, ranks, &mut unique)).collect();
        Program { seed, ranks, window, phases }
    }

    /// How many operations it has.
    pub(crate) fn len(&self) -> usize {
        self.phases.iter().flat_map(|phase| &phase.acts).map(Vec::len).sum()
    }

    /// Smaller programs that might fail too: without a phase, or without half of a rank's operations, or one.
    pub(crate) fn smaller(&self) -> Vec<Program> {
        let mut all = Vec::new();
        for index in 0..self.phases.len() {
            let mut less = self.clone();
            less.phases.remove(index);
            all.push(less);
        }
        for (index, phase) in self.phases.iter().enumerate() {
            for (rank, acts) in phase.acts.iter().enumerate() {
                let half = acts.len() / 2;
                for keep in [0..half, half..acts.len()] {
                    if acts.len() > 1 || (acts.len() == 1 && keep.is_empty()) {
                        let mut less = self.clone();
                        less.phases[index].acts[rank] = acts[keep].to_vec();
                        all.push(less);
                    }
                }
            }
        }
        all.retain(|less| less.len() < self.len() || less.phases.len() < self.phases.len());
        all
    }
}

fn phase(random: &mut Random, ranks: usize, unique: &mut u64) -> Phase {
    let kinds = [Sync::Fence, Sync::Pscw, Sync::LockAll, Sync::LockAll, Sync::Shared, Sync::Exclusive];
    // A rank that is alone has nobody to post to.
    let sync = Some(kinds[random.below(6)]).filter(|&sync| ranks > 1 || sync != Sync::Pscw).unwrap_or(Sync::Fence);
    // Who may write each block of each rank in this phase; `None`: everybody may read it.
    let writers: Vec<Vec<Option<usize>>> =
        (0..ranks).map(|_| (0..BLOCKS).map(|_| (!random.one_in(3)).then(|| random.below(ranks))).collect()).collect();
    let acts = (0..ranks)
        .map(|me| (0..random.below(14)).map(|_| act(random, me, ranks, sync, &writers, unique)).collect())
        .collect();
    Phase { sync, acts }
}

fn act(
    random: &mut Random,
    me: usize,
    ranks: usize,
    sync: Sync,
    writers: &[Vec<Option<usize>>],
    unique: &mut u64,
) -> Act {
    // An epoch of post and start is with the others; other epochs reach this rank's own part too.
    let target = match sync {
        Sync::Pscw => (me + 1 + random.below(ranks - 1)) % ranks,
        _ => random.below(ranks),
    };
    *unique += 1000;
    let value = *unique;
    let block = random.below(BLOCKS);
    match random.below(12) {
        0..4 => match writers[target][block] {
            Some(writer) if writer == me && target == me && random.one_in(2) => Act::Store { block, value },
            Some(writer) if writer == me && random.one_in(2) => Act::PutGet { target, block, value },
            Some(writer) if writer == me => Act::Put { target, block, value, strided: random.one_in(3) },
            Some(_) => Act::Flush { target },
            None => Act::Get { target, block, request: random.one_in(2) },
        },
        4 | 5 => Act::Count { target, counter: random.below(COUNTERS), operand: 1 + random.next() % 1000 },
        6 => Act::Swap { target, chain: random.below(CHAINS), value, long: random.one_in(2) },
        7 => Act::Compare { target, chain: random.below(CHAINS), value },
        8 => Act::Peak { target, peak: random.below(PEAKS), operand: random.next() % 1_000_000 },
        9 => Act::Bits { target, bit: random.below(BITS), operand: random.next() },
        10 => {
            let first = random.below(VECTOR - 1);
            Act::Vector { target, first, len: 1 + random.below(VECTOR - first), fetch: random.one_in(2) }
        }
        _ if sync == Sync::Exclusive => Act::Bump { target },
        _ => Act::Flush { target },
    }
}

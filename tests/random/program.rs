//! A program as data, and the generation of a program from a seed.

use transom::{BasicType, Datatype};

/// Elements of a rank's part, in order: blocks that one rank writes in a phase, and blocks on which
/// all may accumulate.
pub(crate) const BLOCKS: usize = 6;
/// Elements of a block, which has more bytes than some nets take at once.
pub(crate) const BLOCK: usize = 19;
/// Elements for fetching sums, swaps, maxima and exclusive or; and those of the vector.
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
/// The element that ranks read and write under exclusive locks.
pub(crate) const LOCKED_AT: usize = VECTOR_AT + VECTOR;
/// Elements that one rank replaces in a phase, some of them by one operation.
pub(crate) const LASTS: usize = 2;
pub(crate) const LAST_AT: usize = LOCKED_AT + 1;
/// Elements that one rank writes together in a phase, under shared locks.
pub(crate) const MARKS: usize = 64;
pub(crate) const MARK_AT: usize = LAST_AT + LASTS;
/// Elements of a part.
pub(crate) const LEN: usize = MARK_AT + MARKS;
/// The number of times that an act replaces an element of [`LASTS`].
pub(crate) const REPLACED: u64 = 4;

/// The synchronization of a phase: the same at all ranks, or a different one at each rank if all
/// are passive-target epochs.
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

impl Sync {
    /// Whether the stores that owners made before the phase are visible in it. Such stores must not
    /// touch data that the phase accesses.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Sync::Fence | Sync::Pscw)
    }
}

/// The layout of a block at both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    /// In every other element of the origin's buffer.
    Spread,
    /// From its last element to its first, at both sides.
    Turned,
}

/// The items of a block in the origin's buffer with their type, and the block's type in the window.
pub(crate) fn layouts(shape: Shape) -> transom::Result<(usize, Datatype, Datatype)> {
    let element = Datatype::basic(BasicType::Uint64);
    let block = Datatype::contiguous(BLOCK, &element)?;
    let turned = || {
        let places: Vec<(usize, isize)> = (0..BLOCK.cast_signed()).rev().map(|at| (1, at)).collect();
        Datatype::indexed(&places, &element)
    };
    Ok(match shape {
        Shape::Plain => (BLOCK, element, block),
        Shape::Spread => (1, Datatype::vector(BLOCK, 1, 2, &element)?, block),
        Shape::Turned => (1, turned()?, turned()?),
    })
}

/// The effect of a notified operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Writes a whole block with values from `value` on.
    Put { block: usize, value: u64, shape: Shape },
    /// Reads a block that no rank writes in the phase.
    Get { block: usize },
    /// Adds 1 to elements of the vector.
    Vector { first: usize, len: usize, fetch: bool },
    /// Puts no elements.
    Nothing,
}

impl Work {
    /// The first element at the target.
    pub(crate) fn at(self) -> usize {
        match self {
            Work::Put { block, .. } | Work::Get { block } => block * BLOCK,
            Work::Vector { first, .. } => VECTOR_AT + first,
            Work::Nothing => 0,
        }
    }
}

/// One operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Writes a whole block with values from `value` on.
    Put { target: usize, block: usize, value: u64, shape: Shape },
    /// The owner stores its own block before the epoch: any block in an active epoch, else one that
    /// no other rank writes.
    Store { block: usize, value: u64 },
    /// Reads a block that no rank writes in the epoch; `request`: in the request-based form.
    Get { target: usize, block: usize, shape: Shape, request: bool },
    /// Writes a block, flushes where the epoch has flushes, and reads it back.
    PutGet { target: usize, block: usize, value: u64 },
    /// Fetches and adds.
    Count { target: usize, counter: usize, operand: u64 },
    /// Replaces by a unique value, by fetch-and-op or within a get-accumulate.
    Swap { target: usize, chain: usize, value: u64, long: bool },
    /// Compare-and-swap to a unique value, from the value that it saw last.
    Compare { target: usize, chain: usize, value: u64 },
    /// Accumulates by `Op::Max`.
    Peak { target: usize, peak: usize, operand: u64 },
    /// Fetches and combines by `Op::Bxor`.
    Bits { target: usize, bit: usize, operand: u64 },
    /// Adds 1 to elements of the vector.
    Vector { target: usize, first: usize, len: usize, fetch: bool },
    /// Adds 1 by a get and a put, which only an exclusive lock makes atomic; complete at the next
    /// flush or at the end.
    Bump { target: usize },
    /// Writes the elements of shared epochs; complete at the next flush or at the end.
    Mark { target: usize, value: u64 },
    /// Reads several times the elements that only holders of the other kind of lock change.
    Steady { target: usize, first: usize, len: usize },
    /// Replaces an element by [`REPLACED`] values from `value` on; the last one remains
    /// (MPI-4.1 §12.7.2).
    Last { target: usize, last: usize, value: u64 },
    /// Completes the operations on the target, where the epoch has flushes.
    Flush { target: usize },
    /// An operation that adds 1 to a counter of the target; `request`: in the request-based form.
    Notified { target: usize, notice: usize, request: bool, work: Work },
    /// Waits within the epoch for the notices of all acts that precede this one, at any rank, by
    /// their place in their rank's list. All ranks' acts then complete in the order of their
    /// places.
    Await { target: usize, notice: usize },
}

impl Act {
    /// The target rank.
    pub(crate) fn target(&self) -> Option<usize> {
        match *self {
            Act::Put { target, .. }
            | Act::Get { target, .. }
            | Act::PutGet { target, .. }
            | Act::Count { target, .. }
            | Act::Swap { target, .. }
            | Act::Compare { target, .. }
            | Act::Peak { target, .. }
            | Act::Bits { target, .. }
            | Act::Vector { target, .. }
            | Act::Bump { target }
            | Act::Steady { target, .. }
            | Act::Mark { target, .. }
            | Act::Last { target, .. }
            | Act::Notified { target, .. }
            | Act::Await { target, .. }
            | Act::Flush { target } => Some(target),
            Act::Store { .. } => None,
        }
    }
}

/// A phase: one epoch of each rank, and its acts.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) syncs: Vec<Sync>,
    pub(crate) acts: Vec<Vec<Act>>,
    /// Ranks that begin the phase later than others.
    pub(crate) late: Vec<bool>,
    /// Whether each act is a passive epoch of its own.
    pub(crate) single: bool,
    /// The number of counters of notified operations of each rank.
    pub(crate) numbers: Vec<usize>,
    /// Whether the ranks set these numbers anew, which zeroes the counters, even if none differs.
    pub(crate) renews: bool,
    /// Whether each rank fetches and zeroes its counters after the phase.
    pub(crate) resets: bool,
}

/// The window whose accumulates are unordered.
pub(crate) const UNORDERED: u64 = 3;

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) ranks: usize,
    /// The kind of window: 0 allocated, 1 created, 2 with element granularity, [`UNORDERED`].
    pub(crate) window: u64,
    /// Whether the window is a byte-level one, whose kind 1 is a dynamic window.
    pub(crate) raw: bool,
    pub(crate) phases: Vec<Phase>,
}

/// SplitMix64, which no dependency can change: a seed always means the same program.
struct Rng(u64);

impl Rng {
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
        let mut random = Rng(seed);
        let (window, raw, of_phases) = (random.next() % 4, random.one_in(2), random.below(4));
        let mut unique = 1u64 << 32;
        let mut numbers = Vec::new();
        let mut of_phase = || {
            let renews = numbers.is_empty() || random.one_in(3);
            if renews {
                numbers = (0..ranks).map(|_| [1, 2, 3, 0, 4096][random.below(5)]).collect();
            }
            let phase = phase(&mut random, &numbers, window == UNORDERED, &mut unique);
            Phase { renews, ..phase }
        };
        let phases = (0..3 + of_phases).map(|_| of_phase()).collect();
        Program { seed, ranks, window, raw, phases }
    }

    /// The number of operations.
    pub(crate) fn len(&self) -> usize {
        self.phases.iter().flat_map(|phase| &phase.acts).map(Vec::len).sum()
    }

    /// Smaller programs that might fail too: without a phase, or without one or half of a rank's
    /// operations.
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

fn phase(random: &mut Rng, numbers: &[usize], unordered: bool, unique: &mut u64) -> Phase {
    let ranks = numbers.len();
    let passive = [Sync::LockAll, Sync::Shared, Sync::Exclusive];
    let syncs = match random.below(10) {
        0 | 1 => vec![Sync::Fence; ranks],
        // A job of one rank has no other rank to post to.
        2 | 3 if ranks > 1 => vec![Sync::Pscw; ranks],
        4 => vec![passive[random.below(3)]; ranks],
        5 | 6 => vec![Sync::LockAll; ranks],
        _ => (0..ranks).map(|_| passive[random.below(3)]).collect(),
    };
    // The writer of each block of each rank in this phase; `None`: every rank may read the block.
    let writers: Vec<Vec<Option<usize>>> =
        (0..ranks).map(|_| (0..BLOCKS).map(|_| (!random.one_in(3)).then(|| random.below(ranks))).collect()).collect();
    // The distance between a rank and the rank whose elements it alone replaces, or writes under
    // shared locks.
    let turn = random.below(ranks);
    // Some passive phases concern one rank, whose lock many ranks request.
    let hot = Some(random.below(ranks)).filter(|_| random.one_in(2) && !syncs[0].is_active());
    let waits = syncs.iter().all(|&sync| sync == Sync::LockAll);
    let mut of = |me: usize, sync: Sync| {
        let mut generator =
            ActGenerator { me, sync, writers: &writers, unordered, turn, hot, numbers, waits, written: Vec::new() };
        (0..random.below(14)).map(|_| generator.act(random, unique)).collect()
    };
    let acts = syncs.iter().enumerate().map(|(me, &sync)| of(me, sync)).collect();
    let late = (0..ranks).map(|_| random.one_in(6)).collect();
    let single = hot.is_some() || random.one_in(4);
    Phase { syncs, acts, late, single, numbers: numbers.to_vec(), renews: false, resets: random.one_in(3) }
}

/// Generates the acts of a rank in a phase.
struct ActGenerator<'p> {
    me: usize,
    sync: Sync,
    writers: &'p [Vec<Option<usize>>],
    unordered: bool,
    /// The distance to the rank whose elements this rank alone replaces.
    turn: usize,
    /// The rank on which all acts of the phase are.
    hot: Option<usize>,
    /// The number of counters of each rank.
    numbers: &'p [usize],
    /// Whether acts may wait for other ranks: no lock of the phase excludes another.
    waits: bool,
    /// Blocks that the rank puts, each once: puts of an epoch are unordered.
    written: Vec<(usize, usize)>,
}

impl ActGenerator<'_> {
    fn act(&mut self, random: &mut Rng, unique: &mut u64) -> Act {
        let ActGenerator { me, sync, .. } = *self;
        let ranks = self.numbers.len();
        // An epoch of post and start is with other ranks; other epochs reach this rank's own part
        // too.
        let target = match sync {
            Sync::Pscw => (me + 1 + random.below(ranks - 1)) % ranks,
            _ => self.hot.unwrap_or_else(|| random.below(ranks)),
        };
        *unique += 1000;
        let value = *unique;
        match random.below(18) {
            _ if self.waits && random.one_in(3) => self.notified(random, target, value),
            _ if self.hot.is_some() && !random.one_in(3) => self.locked_or_stored(random, target, value),
            0..4 => self.block(random, target, value),
            4 | 5 => Act::Count { target, counter: random.below(COUNTERS), operand: 1 + random.next() % 1000 },
            6 => Act::Swap { target, chain: random.below(CHAINS), value, long: random.one_in(2) },
            7 => Act::Compare { target, chain: random.below(CHAINS), value },
            8 => Act::Peak { target, peak: random.below(PEAKS), operand: random.next() % 1_000_000 },
            9 => Act::Bits { target, bit: random.below(BITS), operand: random.next() },
            10 => {
                let first = random.below(VECTOR - 1);
                Act::Vector { target, first, len: 1 + random.below(VECTOR - first), fetch: random.one_in(2) }
            }
            11 if !self.unordered && (sync != Sync::Pscw || self.turn > 0) => {
                Act::Last { target: (me + self.turn) % ranks, last: random.below(LASTS), value }
            }
            12 | 13 => self.locked_or_stored(random, target, value),
            14..17 => self.notified(random, target, value),
            _ => Act::Flush { target },
        }
    }

    /// Acts that need locks: changes by the holders of one kind of lock, and reads by the holders
    /// of the other kind. Otherwise stores that other ranks see later.
    fn locked_or_stored(&self, random: &mut Rng, target: usize, value: u64) -> Act {
        let marked = (self.me + self.turn) % self.numbers.len();
        match (self.sync, random.one_in(2)) {
            (Sync::Fence | Sync::Pscw, _) => Act::Store { block: random.below(BLOCKS), value },
            (Sync::Exclusive, true) => Act::Bump { target },
            (Sync::Exclusive, false) => Act::Steady { target, first: MARK_AT, len: MARKS },
            (_, true) if self.hot.is_none_or(|hot| hot == marked) => Act::Mark { target: marked, value },
            _ => Act::Steady { target, first: LOCKED_AT, len: 1 },
        }
    }

    /// An operation with a notice, or a wait for notices.
    fn notified(&mut self, random: &mut Rng, target: usize, value: u64) -> Act {
        let waits = self.waits && random.one_in(3);
        let target = if waits { self.me } else { target };
        if self.sync.is_active() || self.numbers[target] == 0 {
            return Act::Flush { target };
        }
        let last = self.numbers[target] - 1;
        let notice = [0, 1, last][random.below(3)].min(last);
        if waits {
            return Act::Await { target, notice };
        }
        let block = random.below(BLOCKS);
        let shape = [Shape::Plain, Shape::Spread, Shape::Turned][random.below(3)];
        let work = match self.writers[target][block] {
            _ if random.one_in(4) => {
                let first = random.below(VECTOR - 1);
                Work::Vector { first, len: 1 + random.below(VECTOR - first), fetch: random.one_in(2) }
            }
            None => Work::Get { block },
            Some(writer) if writer == self.me && !self.written.contains(&(target, block)) => {
                self.written.push((target, block));
                Work::Put { block, value, shape }
            }
            Some(_) => Work::Nothing,
        };
        Act::Notified { target, notice, request: random.one_in(2), work }
    }

    /// Acts on a block of the target.
    fn block(&mut self, random: &mut Rng, target: usize, value: u64) -> Act {
        let block = random.below(BLOCKS);
        let shape = [Shape::Plain, Shape::Plain, Shape::Spread, Shape::Turned][random.below(4)];
        let mine = Some(self.me);
        match self.writers[target][block] {
            None => Act::Get { target, block, shape, request: random.one_in(2) },
            writer if writer != mine => Act::Flush { target },
            _ if target == self.me && random.one_in(2) => Act::Store { block, value },
            _ if self.written.contains(&(target, block)) => Act::Flush { target },
            _ => {
                self.written.push((target, block));
                match random.one_in(2) {
                    true => Act::PutGet { target, block, value },
                    false => Act::Put { target, block, value, shape },
                }
            }
        }
    }
}

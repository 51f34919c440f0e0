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
pub(crate) const MAXIMA: usize = 2;
pub(crate) const XORS: usize = 2;
pub(crate) const VECTOR: usize = 40;

pub(crate) const COUNTER_AT: usize = BLOCKS * BLOCK;
pub(crate) const CHAIN_AT: usize = COUNTER_AT + COUNTERS;
pub(crate) const MAXIMA_AT: usize = CHAIN_AT + CHAINS;
pub(crate) const XORS_AT: usize = MAXIMA_AT + MAXIMA;
pub(crate) const VECTOR_AT: usize = XORS_AT + XORS;
/// The element that ranks read and write under exclusive locks.
pub(crate) const LOCKED_AT: usize = VECTOR_AT + VECTOR;
/// Elements that one rank replaces in a phase, some of them by one operation.
pub(crate) const REPLACED: usize = 2;
pub(crate) const REPLACED_AT: usize = LOCKED_AT + 1;
/// Elements that one rank writes together in a phase, under shared locks.
pub(crate) const SHARED: usize = 64;
pub(crate) const SHARED_AT: usize = REPLACED_AT + REPLACED;
/// Elements of a part.
pub(crate) const LEN: usize = SHARED_AT + SHARED;
/// The number of times that a step replaces an element of [`REPLACED`].
pub(crate) const REPLACEMENTS: u64 = 4;

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
pub(crate) enum Effect {
    /// Writes a whole block with values from `value` on.
    Put { block: usize, value: u64, shape: Shape },
    /// Reads a block that no rank writes in the phase.
    Get { block: usize },
    /// Adds 1 to elements of the vector.
    AddVector { first: usize, len: usize, fetch: bool },
    /// Puts no elements.
    Nothing,
}

impl Effect {
    /// The first element at the target.
    pub(crate) fn at(self) -> usize {
        match self {
            Effect::Put { block, .. } | Effect::Get { block } => block * BLOCK,
            Effect::AddVector { first, .. } => VECTOR_AT + first,
            Effect::Nothing => 0,
        }
    }
}

/// One operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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
    FetchAdd { target: usize, counter: usize, operand: u64 },
    /// Replaces by a unique value, by fetch-and-op or within a get-accumulate.
    Swap { target: usize, chain: usize, value: u64, long: bool },
    /// Compare-and-swap to a unique value, from the value that it saw last.
    CompareSwap { target: usize, chain: usize, value: u64 },
    /// Accumulates by `Op::Max`.
    Maximum { target: usize, maximum: usize, operand: u64 },
    /// Fetches and combines by `Op::Bxor`.
    FetchXor { target: usize, element: usize, operand: u64 },
    /// Adds 1 to elements of the vector.
    AddVector { target: usize, first: usize, len: usize, fetch: bool },
    /// Adds 1 by a get and a put, which only an exclusive lock makes atomic; complete at the next
    /// flush or at the end.
    AddByGetAndPut { target: usize },
    /// Writes the elements of shared epochs; complete at the next flush or at the end.
    PutShared { target: usize, value: u64 },
    /// Reads several times the elements that only holders of the other kind of lock change.
    ReadRepeatedly { target: usize, first: usize, len: usize },
    /// Replaces an element by [`REPLACEMENTS`] values from `value` on; the last one remains
    /// (MPI-4.1 §12.7.2).
    ReplaceRepeatedly { target: usize, element: usize, value: u64 },
    /// Completes the operations on the target, where the epoch has flushes.
    Flush { target: usize },
    /// An operation that adds 1 to a counter of the target; `request`: in the request-based form.
    Notified { target: usize, notice: usize, request: bool, effect: Effect },
    /// Waits within the epoch for the notices of all steps that precede this one, at any rank, by
    /// their place in their rank's list. All ranks' steps then complete in the order of their
    /// places.
    Await { target: usize, notice: usize },
}

impl Step {
    /// The target rank.
    pub(crate) fn target(&self) -> Option<usize> {
        match *self {
            Step::Put { target, .. }
            | Step::Get { target, .. }
            | Step::PutGet { target, .. }
            | Step::FetchAdd { target, .. }
            | Step::Swap { target, .. }
            | Step::CompareSwap { target, .. }
            | Step::Maximum { target, .. }
            | Step::FetchXor { target, .. }
            | Step::AddVector { target, .. }
            | Step::AddByGetAndPut { target }
            | Step::ReadRepeatedly { target, .. }
            | Step::PutShared { target, .. }
            | Step::ReplaceRepeatedly { target, .. }
            | Step::Notified { target, .. }
            | Step::Await { target, .. }
            | Step::Flush { target } => Some(target),
            Step::Store { .. } => None,
        }
    }
}

/// A phase: one epoch of each rank, and its steps.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) syncs: Vec<Sync>,
    pub(crate) steps: Vec<Vec<Step>>,
    /// Ranks that begin the phase later than others.
    pub(crate) late: Vec<bool>,
    /// Whether each step is a passive epoch of its own.
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
        self.phases.iter().flat_map(|phase| &phase.steps).map(Vec::len).sum()
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
            for (rank, steps) in phase.steps.iter().enumerate() {
                let half = steps.len() / 2;
                for keep in [0..half, half..steps.len()] {
                    if steps.len() > 1 || (steps.len() == 1 && keep.is_empty()) {
                        let mut less = self.clone();
                        less.phases[index].steps[rank] = steps[keep].to_vec();
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
            StepGenerator { me, sync, writers: &writers, unordered, turn, hot, numbers, waits, written: Vec::new() };
        (0..random.below(14)).map(|_| generator.step(random, unique)).collect()
    };
    let steps = syncs.iter().enumerate().map(|(me, &sync)| of(me, sync)).collect();
    let late = (0..ranks).map(|_| random.one_in(6)).collect();
    let single = hot.is_some() || random.one_in(4);
    Phase { syncs, steps, late, single, numbers: numbers.to_vec(), renews: false, resets: random.one_in(3) }
}

/// Generates the steps of a rank in a phase.
struct StepGenerator<'p> {
    me: usize,
    sync: Sync,
    writers: &'p [Vec<Option<usize>>],
    unordered: bool,
    /// The distance to the rank whose elements this rank alone replaces.
    turn: usize,
    /// The rank on which all steps of the phase are.
    hot: Option<usize>,
    /// The number of counters of each rank.
    numbers: &'p [usize],
    /// Whether steps may wait for other ranks: no lock of the phase excludes another.
    waits: bool,
    /// Blocks that the rank puts, each once: puts of an epoch are unordered.
    written: Vec<(usize, usize)>,
}

impl StepGenerator<'_> {
    fn step(&mut self, random: &mut Rng, unique: &mut u64) -> Step {
        let StepGenerator { me, sync, .. } = *self;
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
            4 | 5 => Step::FetchAdd { target, counter: random.below(COUNTERS), operand: 1 + random.next() % 1000 },
            6 => Step::Swap { target, chain: random.below(CHAINS), value, long: random.one_in(2) },
            7 => Step::CompareSwap { target, chain: random.below(CHAINS), value },
            8 => Step::Maximum { target, maximum: random.below(MAXIMA), operand: random.next() % 1_000_000 },
            9 => Step::FetchXor { target, element: random.below(XORS), operand: random.next() },
            10 => {
                let first = random.below(VECTOR - 1);
                Step::AddVector { target, first, len: 1 + random.below(VECTOR - first), fetch: random.one_in(2) }
            }
            11 if !self.unordered && (sync != Sync::Pscw || self.turn > 0) => {
                Step::ReplaceRepeatedly { target: (me + self.turn) % ranks, element: random.below(REPLACED), value }
            }
            12 | 13 => self.locked_or_stored(random, target, value),
            14..17 => self.notified(random, target, value),
            _ => Step::Flush { target },
        }
    }

    /// Steps that need locks: changes by the holders of one kind of lock, and reads by the holders
    /// of the other kind. Otherwise stores that other ranks see later.
    fn locked_or_stored(&self, random: &mut Rng, target: usize, value: u64) -> Step {
        // The target whose elements for shared locks this rank alone writes in the phase.
        let sole_writer_of = (self.me + self.turn) % self.numbers.len();
        match (self.sync, random.one_in(2)) {
            (Sync::Fence | Sync::Pscw, _) => Step::Store { block: random.below(BLOCKS), value },
            (Sync::Exclusive, true) => Step::AddByGetAndPut { target },
            (Sync::Exclusive, false) => Step::ReadRepeatedly { target, first: SHARED_AT, len: SHARED },
            (_, true) if self.hot.is_none_or(|hot| hot == sole_writer_of) => {
                Step::PutShared { target: sole_writer_of, value }
            }
            _ => Step::ReadRepeatedly { target, first: LOCKED_AT, len: 1 },
        }
    }

    /// An operation with a notice, or a wait for notices.
    fn notified(&mut self, random: &mut Rng, target: usize, value: u64) -> Step {
        let waits = self.waits && random.one_in(3);
        let target = if waits { self.me } else { target };
        if self.sync.is_active() || self.numbers[target] == 0 {
            return Step::Flush { target };
        }
        let last = self.numbers[target] - 1;
        let notice = [0, 1, last][random.below(3)].min(last);
        if waits {
            return Step::Await { target, notice };
        }
        let block = random.below(BLOCKS);
        let shape = [Shape::Plain, Shape::Spread, Shape::Turned][random.below(3)];
        let effect = match self.writers[target][block] {
            _ if random.one_in(4) => {
                let first = random.below(VECTOR - 1);
                Effect::AddVector { first, len: 1 + random.below(VECTOR - first), fetch: random.one_in(2) }
            }
            None => Effect::Get { block },
            Some(writer) if writer == self.me && !self.written.contains(&(target, block)) => {
                self.written.push((target, block));
                Effect::Put { block, value, shape }
            }
            Some(_) => Effect::Nothing,
        };
        Step::Notified { target, notice, request: random.one_in(2), effect }
    }

    /// Steps on a block of the target.
    fn block(&mut self, random: &mut Rng, target: usize, value: u64) -> Step {
        let block = random.below(BLOCKS);
        let shape = [Shape::Plain, Shape::Plain, Shape::Spread, Shape::Turned][random.below(4)];
        let mine = Some(self.me);
        match self.writers[target][block] {
            None => Step::Get { target, block, shape, request: random.one_in(2) },
            writer if writer != mine => Step::Flush { target },
            _ if target == self.me && random.one_in(2) => Step::Store { block, value },
            _ if self.written.contains(&(target, block)) => Step::Flush { target },
            _ => {
                self.written.push((target, block));
                match random.one_in(2) {
                    true => Step::PutGet { target, block, value },
                    false => Step::Put { target, block, value, shape },
                }
            }
        }
    }
}

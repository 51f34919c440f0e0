//! Executes a program at a rank and checks the rank's own values; the first rank checks the values
//! that all ranks saw together.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use transom::{Job, Notice, Notices, Op, Window};
pub(crate) use transom_harness::Outcome;

use super::notified::Counters;
use super::oracle::{Parts, Seen, check_seen};
use super::program::{
    BLOCK, CHAIN_AT, COUNTER_AT, Effect, LEN, LOCKED_AT, MAXIMA_AT, Phase, Program, REPLACED_AT, REPLACEMENTS, SHARED,
    SHARED_AT, Shape, Step, Sync, VECTOR_AT, XORS_AT,
};
use super::raw::Raw;
use super::typed::Typed;

/// Values that a rank expects, and values that it has seen.
pub(super) struct Rank {
    me: usize,
    parts: Parts,
    seen: Vec<Seen>,
    /// Elements that other ranks do not change during this epoch, by target.
    steady: BTreeMap<usize, Vec<u64>>,
    counters: Counters,
    wrong: Option<String>,
}

/// A window as programs use it, byte-level or typed.
pub(super) trait ProgramWindow {
    fn load(&self, into: &mut [u64]) -> transom::Result<()>;
    fn store(&self, first: usize, from: &[u64]) -> transom::Result<()>;
    fn sync(&self);
    fn notices(&self) -> Notices<'_>;
    fn num_notify(&self, rank: usize) -> transom::Result<usize>;
    /// Collective.
    fn set_num_notify(&self, number: usize) -> transom::Result<()>;

    /// Opens the phase's epoch of this rank, runs its steps, and ends it. Buffers are lent for the
    /// whole epoch, so that only flushes and the end complete the operations that use them.
    fn epoch(&self, job: &Job, phase: &Phase, rank: &mut Rank, lent: &mut [Vec<u64>]) -> transom::Result<()>;
    fn free(self) -> transom::Result<()>;
}

/// A step, and the buffers that it lends.
pub(super) type Lent<'p, 'env> = (&'p Step, &'env mut [u64]);

/// All steps of a rank.
pub(super) fn every<'p, 'env>(phase: &'p Phase, me: usize, lent: &'env mut [Vec<u64>]) -> Vec<Lent<'p, 'env>> {
    phase.steps[me].iter().zip(lent.iter_mut().map(Vec::as_mut_slice)).collect()
}

/// The steps of a rank's passive-target epochs, with the target of each epoch that has one.
pub(super) fn epochs<'p, 'env>(
    phase: &'p Phase,
    me: usize,
    lent: &'env mut [Vec<u64>],
) -> Vec<(usize, Vec<Lent<'p, 'env>>)> {
    let ranks = phase.steps.len();
    let operations = every(phase, me, lent).into_iter().filter_map(|one| Some((one.0.target()?, one)));
    if phase.single {
        return operations.map(|(target, one)| (target, vec![one])).collect();
    }
    let by_target = phase.syncs[me] != Sync::LockAll;
    let mut epochs: Vec<(usize, Vec<Lent<'_, '_>>)> =
        (0..ranks).map(|step| ((me + step) % ranks, Vec::new())).collect();
    for (target, one) in operations {
        epochs[if by_target { (target + ranks - me) % ranks } else { 0 }].1.push(one);
    }
    epochs.truncate(if by_target { ranks } else { 1 });
    epochs
}

/// The operations of an open epoch, on elements.
pub(super) trait Epoch<'env> {
    /// Whether the epoch can complete operations before it ends.
    fn completes(&self) -> bool;
    fn put(&self, target: usize, at: usize, from: &'env [u64], shape: Shape) -> transom::Result<()>;
    fn get(&self, target: usize, at: usize, into: &'env mut [u64], shape: Shape) -> transom::Result<()>;
    fn accumulate(&self, target: usize, at: usize, from: &'env [u64], op: Op) -> transom::Result<()>;
    fn fetch(&self, target: usize, at: usize, operand: u64, op: Op) -> transom::Result<u64>;
    fn compare_and_swap(&self, target: usize, at: usize, expected: u64, new: u64) -> transom::Result<u64>;

    /// A flush of the target, where the epoch has any.
    fn flush(&self, target: usize) -> transom::Result<()>;
    /// A put of contiguous elements.
    fn put_plain(&self, target: usize, at: usize, from: &'env [u64]) -> transom::Result<()>;
    /// The same put, complete on return where the epoch has flushes, else at its end.
    fn put_now(&self, target: usize, at: usize, from: &'env [u64]) -> transom::Result<()>;
    /// A get that is complete on return; request-based if the epoch permits it and `request` is
    /// set. Only for epochs with flushes.
    fn read(&self, target: usize, at: usize, into: &mut [u64], request: bool) -> transom::Result<()>;
    /// A `get_accumulate` that is complete on return, as for `get`.
    fn exchange(&self, target: usize, at: usize, from: &[u64], old: &mut [u64], op: Op) -> transom::Result<()>;
    /// An operation with a notice, complete on return if `request` is set. Only for passive epochs.
    fn notified(
        &self,
        target: usize,
        notice: Notice,
        request: bool,
        effect: Effect,
        lent: &'env mut [u64],
    ) -> transom::Result<()>;
}

/// Executes the program with the other ranks. `step` is called with this rank's position.
///
/// # Errors
/// A violation of the memory model or of the program, or an error of the library.
pub(crate) fn execute(job: &Job, program: &Program, step: &dyn Fn(String)) -> Outcome {
    match program.raw {
        true => phases(job, program, step, Raw::new(job, program.window)?),
        false => phases(job, program, step, Typed::new(job, program.window)?),
    }
}

fn phases(job: &Job, program: &Program, step: &dyn Fn(String), win: impl ProgramWindow) -> Outcome {
    let mut rank = Rank {
        me: job.rank(),
        parts: Parts::new(job.size()),
        seen: Vec::new(),
        steady: BTreeMap::new(),
        counters: Counters::default(),
        wrong: None,
    };
    let mut outcome = Ok(());
    for (number, phase) in program.phases.iter().enumerate() {
        step(format!("seed {:#x}, phase {number}, {:?}", program.seed, phase.syncs[rank.me]));
        rank.parts.stored(phase);
        rank.counters.begin(&win, phase, rank.me)?;
        rank.phase(job, &win, phase)?;
        if !phase.syncs[rank.me].is_active() {
            rank.notices(job, &win, phase, program.seed.wrapping_add(number as u64))?;
        }
        rank.parts.after(phase);
        let mut found = vec![0; LEN];
        win.load(&mut found)?;
        let checked = rank.wrong.take().map_or_else(|| rank.parts.check(job.rank(), &found), Err);
        outcome = outcome.and(checked.map_err(|why| format!("after phase {number}, {:?}: {why}", phase.syncs)));
        job.barrier()?;
    }
    step(format!("seed {:#x}, the end", program.seed));
    let together = rank.gather(job, &win, program);
    win.free()?;
    outcome.map_err(Box::<dyn Error>::from).and(together)
}

impl Rank {
    fn phase(&mut self, job: &Job, win: &impl ProgramWindow, phase: &Phase) -> transom::Result<()> {
        let steps = &phase.steps[self.me];
        if phase.late[self.me] {
            // Meanwhile ranks that do not wait for this one continue.
            std::thread::sleep(Duration::from_micros(300));
        }
        for step in steps {
            if let Step::Store { block, value } = *step {
                win.store(block * BLOCK, &values(value))?;
            }
        }
        let mut lent: Vec<Vec<u64>> = steps.iter().map(buffer).collect();
        if let Err(error) = win.epoch(job, phase, self, &mut lent) {
            // Operations in flight may still use the buffers.
            std::mem::forget(lent);
            return Err(error);
        }
        for (step, lent) in steps.iter().zip(&lent) {
            if let Step::Get { target, block, shape, request: false } = *step {
                let expected = laid(self.parts.block(target, block), shape);
                self.expect("read", step, lent, &expected);
            }
            if let Step::Notified { target, effect: Effect::Get { block }, .. } = *step {
                let expected = self.parts.block(target, block).to_vec();
                self.expect("read", step, lent, &expected);
            }
        }
        Ok(())
    }

    /// After the epochs of a passive phase: waits for all notices of the phase, with the data that
    /// they announce, then for all ranks. `kind` chooses how.
    fn notices(&mut self, job: &Job, win: &impl ProgramWindow, phase: &Phase, kind: u64) -> transom::Result<()> {
        let wrong = self.counters.wait(win, self.parts.of(self.me), kind)?;
        self.wrong = self.wrong.take().or(wrong);
        // Data that other ranks have read may be overwritten as soon as their notices have arrived.
        let read = self.counters.only_read(phase, self.me);
        read.iter().try_for_each(|block| win.store(block * BLOCK, &[u64::MAX; BLOCK]))?;
        job.barrier()?;
        win.sync();
        read.iter().try_for_each(|&block| win.store(block * BLOCK, self.parts.block(self.me, block)))?;
        let wrong = self.counters.end(win, phase)?;
        self.wrong = self.wrong.take().or(wrong);
        Ok(())
    }

    fn expect(&mut self, what: &str, step: &Step, found: &[u64], expected: &[u64]) {
        if found != expected && self.wrong.is_none() {
            self.wrong = Some(format!("rank {}: {step:?} {what} {found:?} instead of {expected:?}", self.me));
        }
    }

    fn saw(&mut self, target: usize, element: usize, new: u64, old: u64, changed: bool) {
        let (target, element) = (target as u64, element as u64);
        self.seen.push(Seen { target, element, new, old, changed: u64::from(changed) });
    }

    /// Runs the steps of an epoch.
    pub(super) fn run_steps<'env>(
        &mut self,
        win: &impl ProgramWindow,
        epoch: &impl Epoch<'env>,
        steps: Vec<Lent<'_, 'env>>,
    ) -> transom::Result<()> {
        self.steady.clear();
        steps.into_iter().try_for_each(|(step, lent)| match *step {
            Step::Await { .. } => {
                let wrong = self.counters.wait_within(win, self.parts.of(self.me))?;
                self.wrong = self.wrong.take().or(wrong);
                Ok(())
            }
            Step::Notified { target, notice, request, effect } => {
                epoch.notified(target, Notice(notice), request, effect, lent)
            }
            _ => self.run_step(epoch, step, lent),
        })
    }

    fn run_step<'env>(&mut self, epoch: &impl Epoch<'env>, step: &Step, lent: &'env mut [u64]) -> transom::Result<()> {
        match *step {
            Step::Put { target, block, shape, .. } => epoch.put(target, block * BLOCK, lent, shape),
            Step::PutGet { target, block, value } => {
                epoch.put_now(target, block * BLOCK, lent)?;
                self.read(epoch, step, target, block * BLOCK, &values(value))
            }
            Step::Get { target, block, request: true, .. } => {
                let expected = self.parts.block(target, block).to_vec();
                self.read(epoch, step, target, block * BLOCK, &expected)
            }
            Step::Get { target, block, shape, .. } => epoch.get(target, block * BLOCK, lent, shape),
            Step::FetchAdd { target, counter, operand } => {
                let at = COUNTER_AT + counter;
                let old = epoch.fetch(target, at, operand, Op::Sum)?;
                self.saw(target, at, operand, old, true);
                Ok(())
            }
            Step::Swap { target, chain, value, long } => {
                let (at, mut old) = (CHAIN_AT + chain, [0]);
                match long && epoch.completes() {
                    true => epoch.exchange(target, at, &[value], &mut old, Op::Replace)?,
                    false => old[0] = epoch.fetch(target, at, value, Op::Replace)?,
                }
                self.saw(target, at, value, old[0], true);
                Ok(())
            }
            Step::CompareSwap { target, chain, value } => {
                let at = CHAIN_AT + chain;
                let last = self.seen.iter().rev().find(|one| one.target == target as u64 && one.element == at as u64);
                let expected = last.map_or(0, |one| if one.changed == 1 { one.new } else { one.old });
                let old = epoch.compare_and_swap(target, at, expected, value)?;
                self.saw(target, at, value, old, old == expected);
                Ok(())
            }
            Step::Maximum { target, maximum, .. } => epoch.accumulate(target, MAXIMA_AT + maximum, lent, Op::Max),
            Step::FetchXor { target, element, operand } => {
                epoch.fetch(target, XORS_AT + element, operand, Op::Bxor).map(drop)
            }
            Step::AddVector { target, first, len, fetch } if fetch && epoch.completes() => {
                epoch.exchange(target, VECTOR_AT + first, &vec![1; len], &mut vec![0; len], Op::Sum)
            }
            Step::AddVector { target, first, .. } => epoch.accumulate(target, VECTOR_AT + first, lent, Op::Sum),
            // The flushes complete earlier puts of the epoch to the same location.
            Step::AddByGetAndPut { target } => {
                epoch.flush(target)?;
                epoch.read(target, LOCKED_AT, lent, false)?;
                lent[0] += 1;
                epoch.put_plain(target, LOCKED_AT, lent)
            }
            Step::PutShared { target, .. } => {
                epoch.flush(target)?;
                epoch.put_plain(target, SHARED_AT, lent)
            }
            Step::ReadRepeatedly { target, first, len } => {
                self.read_repeatedly(epoch, step, target, first..first + len)
            }
            Step::ReplaceRepeatedly { target, element, .. } => {
                let at = REPLACED_AT + element;
                lent.chunks(1).try_for_each(|value| epoch.accumulate(target, at, value, Op::Replace))
            }
            Step::Flush { target } => epoch.flush(target),
            Step::Store { .. } | Step::Notified { .. } | Step::Await { .. } => Ok(()),
        }
    }

    /// Reads elements several times. They have their values of this epoch's first read.
    fn read_repeatedly<'env>(
        &mut self,
        epoch: &impl Epoch<'env>,
        step: &Step,
        target: usize,
        elements: Range<usize>,
    ) -> transom::Result<()> {
        for request in [false, true, false, true, false] {
            let mut found = vec![0; elements.len()];
            epoch.read(target, elements.start, &mut found, request)?;
            let before = self.steady.entry(target).or_insert_with(|| found.clone()).clone();
            self.expect("read", step, &found, &before);
        }
        Ok(())
    }

    /// Reads the expected values, where the epoch completes a get.
    fn read<'env>(
        &mut self,
        epoch: &impl Epoch<'env>,
        step: &Step,
        target: usize,
        at: usize,
        expected: &[u64],
    ) -> transom::Result<()> {
        if epoch.completes() {
            let mut found = vec![0; expected.len()];
            epoch.read(target, at, &mut found, matches!(step, Step::Get { .. }))?;
            self.expect("read", step, &found, expected);
        }
        Ok(())
    }

    /// Sends the values that all ranks saw to the first rank, through a separate window; the first
    /// rank checks them.
    fn gather(&self, job: &Job, win: &impl ProgramWindow, program: &Program) -> Outcome {
        const WORDS: usize = 5;
        let most = program.len() + 1;
        let mut mine = vec![0u64; 1 + most * WORDS + LEN];
        mine[0] = self.seen.len() as u64;
        for (at, one) in self.seen.iter().enumerate() {
            let words = [one.target, one.element, one.new, one.old, one.changed];
            mine[1 + at * WORDS..1 + (at + 1) * WORDS].copy_from_slice(&words);
        }
        win.load(&mut mine[1 + most * WORDS..])?;
        let len = if job.rank() == 0 { mine.len() * job.size() } else { 0 };
        let all = Window::<u64>::allocate(job, len)?;
        all.fence(|epoch| epoch.put(0, mine.len() * job.rank(), &mine))?;
        let mut states = vec![0; len];
        all.load(0, &mut states)?;
        all.free()?;
        if job.rank() > 0 {
            return Ok(());
        }
        let (mut seen, mut ends) = (Vec::new(), Vec::new());
        for words in states.chunks_exact(mine.len()) {
            let count = usize::try_from(words[0])?;
            let one = |words: &[u64]| Seen {
                target: words[0],
                element: words[1],
                new: words[2],
                old: words[3],
                changed: words[4],
            };
            seen.push(words[1..].chunks_exact(WORDS).take(count).map(one).collect());
            ends.push(words[1 + most * WORDS..].to_vec());
        }
        Ok(check_seen(program, &seen, &ends)?)
    }
}

pub(super) fn values(value: u64) -> [u64; BLOCK] {
    std::array::from_fn(|index| value + index as u64)
}

/// The buffers that a step lends to its epoch: operands, or space for results.
fn buffer(step: &Step) -> Vec<u64> {
    match *step {
        Step::Put { value, shape, .. } | Step::Notified { effect: Effect::Put { value, shape, .. }, .. } => {
            laid(&values(value), shape)
        }
        Step::PutGet { value, .. } => values(value).to_vec(),
        Step::Get { shape, .. } => laid(&[0; BLOCK], shape),
        Step::Maximum { operand, .. } => vec![operand],
        Step::AddVector { len, .. } | Step::Notified { effect: Effect::AddVector { len, .. }, .. } => vec![1; len],
        Step::Notified { effect: Effect::Get { .. }, .. } => vec![0; BLOCK],
        Step::AddByGetAndPut { .. } => vec![0],
        Step::PutShared { value, .. } => vec![value; SHARED],
        Step::ReplaceRepeatedly { value, .. } => (value..value + REPLACEMENTS).collect(),
        _ => Vec::new(),
    }
}

/// A block in the layout of the origin's buffer.
fn laid(block: &[u64], shape: Shape) -> Vec<u64> {
    match shape {
        Shape::Spread => block.iter().flat_map(|&value| [value, 0]).take(2 * BLOCK - 1).collect(),
        Shape::Plain | Shape::Turned => block.to_vec(),
    }
}

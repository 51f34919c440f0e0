//! Executes a program at a rank and checks the rank's own values; the first rank checks the values
//! that all ranks saw together.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use transom::{Job, Notice, Notices, Op, Window};
pub(crate) use transom_harness::Outcome;

use super::notified::Counters;
use super::oracle::{Parts, Seen, check_seen};
use super::program::{
    Act, BIT_AT, BLOCK, CHAIN_AT, COUNTER_AT, LAST_AT, LEN, LOCKED_AT, MARK_AT, MARKS, PEAK_AT, Phase, Program,
    REPLACED, Shape, Sync, VECTOR_AT, Work,
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

    /// Opens the phase's epoch of this rank, runs its acts, and ends it. Buffers are lent for the
    /// whole epoch, so that only flushes and the end complete the operations that use them.
    fn epoch(&self, job: &Job, phase: &Phase, rank: &mut Rank, lent: &mut [Vec<u64>]) -> transom::Result<()>;
    fn free(self) -> transom::Result<()>;
}

/// An act, and the buffers that it lends.
pub(super) type Lent<'p, 'env> = (&'p Act, &'env mut [u64]);

/// All acts of a rank.
pub(super) fn every<'p, 'env>(phase: &'p Phase, me: usize, lent: &'env mut [Vec<u64>]) -> Vec<Lent<'p, 'env>> {
    phase.acts[me].iter().zip(lent.iter_mut().map(Vec::as_mut_slice)).collect()
}

/// The acts of a rank's passive-target epochs, with the target of each epoch that has one.
pub(super) fn epochs<'p, 'env>(
    phase: &'p Phase,
    me: usize,
    lent: &'env mut [Vec<u64>],
) -> Vec<(usize, Vec<Lent<'p, 'env>>)> {
    let ranks = phase.acts.len();
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
        work: Work,
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
        let acts = &phase.acts[self.me];
        if phase.late[self.me] {
            // Meanwhile ranks that do not wait for this one continue.
            std::thread::sleep(Duration::from_micros(300));
        }
        for act in acts {
            if let Act::Store { block, value } = *act {
                win.store(block * BLOCK, &values(value))?;
            }
        }
        let mut lent: Vec<Vec<u64>> = acts.iter().map(buffer).collect();
        if let Err(error) = win.epoch(job, phase, self, &mut lent) {
            // Operations in flight may still use the buffers.
            std::mem::forget(lent);
            return Err(error);
        }
        for (act, lent) in acts.iter().zip(&lent) {
            if let Act::Get { target, block, shape, request: false } = *act {
                let expected = laid(self.parts.block(target, block), shape);
                self.expect("read", act, lent, &expected);
            }
            if let Act::Notified { target, work: Work::Get { block }, .. } = *act {
                let expected = self.parts.block(target, block).to_vec();
                self.expect("read", act, lent, &expected);
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

    fn expect(&mut self, what: &str, act: &Act, found: &[u64], expected: &[u64]) {
        if found != expected && self.wrong.is_none() {
            self.wrong = Some(format!("rank {}: {act:?} {what} {found:?} instead of {expected:?}", self.me));
        }
    }

    fn saw(&mut self, target: usize, element: usize, new: u64, old: u64, changed: bool) {
        let (target, element) = (target as u64, element as u64);
        self.seen.push(Seen { target, element, new, old, changed: u64::from(changed) });
    }

    /// Runs the acts of an epoch.
    pub(super) fn acts<'env>(
        &mut self,
        win: &impl ProgramWindow,
        epoch: &impl Epoch<'env>,
        acts: Vec<Lent<'_, 'env>>,
    ) -> transom::Result<()> {
        self.steady.clear();
        acts.into_iter().try_for_each(|(act, lent)| match *act {
            Act::Await { .. } => {
                let wrong = self.counters.wait_within(win, self.parts.of(self.me))?;
                self.wrong = self.wrong.take().or(wrong);
                Ok(())
            }
            Act::Notified { target, notice, request, work } => {
                epoch.notified(target, Notice(notice), request, work, lent)
            }
            _ => self.act(epoch, act, lent),
        })
    }

    fn act<'env>(&mut self, epoch: &impl Epoch<'env>, act: &Act, lent: &'env mut [u64]) -> transom::Result<()> {
        match *act {
            Act::Put { target, block, shape, .. } => epoch.put(target, block * BLOCK, lent, shape),
            Act::PutGet { target, block, value } => {
                epoch.put_now(target, block * BLOCK, lent)?;
                self.read(epoch, act, target, block * BLOCK, &values(value))
            }
            Act::Get { target, block, request: true, .. } => {
                let expected = self.parts.block(target, block).to_vec();
                self.read(epoch, act, target, block * BLOCK, &expected)
            }
            Act::Get { target, block, shape, .. } => epoch.get(target, block * BLOCK, lent, shape),
            Act::Count { target, counter, operand } => {
                let at = COUNTER_AT + counter;
                let old = epoch.fetch(target, at, operand, Op::Sum)?;
                self.saw(target, at, operand, old, true);
                Ok(())
            }
            Act::Swap { target, chain, value, long } => {
                let (at, mut old) = (CHAIN_AT + chain, [0]);
                match long && epoch.completes() {
                    true => epoch.exchange(target, at, &[value], &mut old, Op::Replace)?,
                    false => old[0] = epoch.fetch(target, at, value, Op::Replace)?,
                }
                self.saw(target, at, value, old[0], true);
                Ok(())
            }
            Act::Compare { target, chain, value } => {
                let at = CHAIN_AT + chain;
                let last = self.seen.iter().rev().find(|one| one.target == target as u64 && one.element == at as u64);
                let expected = last.map_or(0, |one| if one.changed == 1 { one.new } else { one.old });
                let old = epoch.compare_and_swap(target, at, expected, value)?;
                self.saw(target, at, value, old, old == expected);
                Ok(())
            }
            Act::Peak { target, peak, .. } => epoch.accumulate(target, PEAK_AT + peak, lent, Op::Max),
            Act::Bits { target, bit, operand } => epoch.fetch(target, BIT_AT + bit, operand, Op::Bxor).map(drop),
            Act::Vector { target, first, len, fetch } if fetch && epoch.completes() => {
                epoch.exchange(target, VECTOR_AT + first, &vec![1; len], &mut vec![0; len], Op::Sum)
            }
            Act::Vector { target, first, .. } => epoch.accumulate(target, VECTOR_AT + first, lent, Op::Sum),
            // The flushes complete earlier puts of the epoch to the same location.
            Act::Bump { target } => {
                epoch.flush(target)?;
                epoch.read(target, LOCKED_AT, lent, false)?;
                lent[0] += 1;
                epoch.put_plain(target, LOCKED_AT, lent)
            }
            Act::Mark { target, .. } => {
                epoch.flush(target)?;
                epoch.put_plain(target, MARK_AT, lent)
            }
            Act::Steady { target, first, len } => {
                for request in [false, true, false, true, false] {
                    let mut found = vec![0; len];
                    epoch.read(target, first, &mut found, request)?;
                    let before = self.steady.entry(target).or_insert_with(|| found.clone()).clone();
                    self.expect("read", act, &found, &before);
                }
                Ok(())
            }
            Act::Last { target, last, .. } => {
                let at = LAST_AT + last;
                lent.chunks(1).try_for_each(|value| epoch.accumulate(target, at, value, Op::Replace))
            }
            Act::Flush { target } => epoch.flush(target),
            Act::Store { .. } | Act::Notified { .. } | Act::Await { .. } => Ok(()),
        }
    }

    /// Reads the expected values, where the epoch completes a get.
    fn read<'env>(
        &mut self,
        epoch: &impl Epoch<'env>,
        act: &Act,
        target: usize,
        at: usize,
        expected: &[u64],
    ) -> transom::Result<()> {
        if epoch.completes() {
            let mut found = vec![0; expected.len()];
            epoch.read(target, at, &mut found, matches!(act, Act::Get { .. }))?;
            self.expect("read", act, &found, expected);
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

/// The buffers that an act lends to its epoch: operands, or space for results.
fn buffer(act: &Act) -> Vec<u64> {
    match *act {
        Act::Put { value, shape, .. } | Act::Notified { work: Work::Put { value, shape, .. }, .. } => {
            laid(&values(value), shape)
        }
        Act::PutGet { value, .. } => values(value).to_vec(),
        Act::Get { shape, .. } => laid(&[0; BLOCK], shape),
        Act::Peak { operand, .. } => vec![operand],
        Act::Vector { len, .. } | Act::Notified { work: Work::Vector { len, .. }, .. } => vec![1; len],
        Act::Notified { work: Work::Get { .. }, .. } => vec![0; BLOCK],
        Act::Bump { .. } => vec![0],
        Act::Mark { value, .. } => vec![value; MARKS],
        Act::Last { value, .. } => (value..value + REPLACED).collect(),
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

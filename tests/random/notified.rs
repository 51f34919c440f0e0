//! The counters of notified operations in programs (the MPI Forum's draft of RMA notification): the
//! values that the counters must have, and the data that must have arrived by then. Notified
//! operations have no order. A counter that has increased by `k` therefore shows only that at least
//! `k` of the operations that increment it are complete.

use std::collections::{BTreeMap, VecDeque};

use transom::Request;

use super::program::{BLOCK, Effect, LEN, Phase, Step, VECTOR_AT};
use super::run::{ProgramWindow, values};

/// The counters as a rank expects them.
#[derive(Default)]
pub(super) struct Counters {
    /// The number of counters of each rank.
    numbers: Vec<usize>,
    /// The values of own counters before the phase that are not 0.
    before: BTreeMap<usize, u64>,
    /// The phase's operations that raise each own counter.
    raised: BTreeMap<usize, Vec<Effect>>,
    /// The waits within the phase's epochs: the counter, and its increase at which the wait ends.
    waits: VecDeque<(usize, u64)>,
}

/// The counters of a rank, each with the operations that raise it and that come before the place
/// `end` in their rank's list.
fn raised(phase: &Phase, rank: usize, end: usize) -> BTreeMap<usize, Vec<Effect>> {
    let mut all: BTreeMap<usize, Vec<Effect>> = BTreeMap::new();
    for step in phase.steps.iter().flat_map(|steps| steps.iter().take(end)) {
        match *step {
            Step::Notified { target, notice, effect, .. } if target == rank => {
                all.entry(notice).or_default().push(effect);
            }
            _ => {}
        }
    }
    all
}

impl Counters {
    /// Called before a phase. Sets the numbers of counters if the program does, and compares the
    /// numbers of all ranks.
    pub(super) fn begin(
        &mut self,
        win: &impl ProgramWindow,
        phase: &Phase,
        me: usize,
    ) -> Result<(), Box<dyn std::error::Error>> {
        if phase.renews || self.numbers != phase.numbers {
            win.set_num_notify(phase.numbers[me])?;
            self.numbers.clone_from(&phase.numbers);
            self.before.clear();
        }
        for (rank, &number) in self.numbers.iter().enumerate() {
            let reported = win.num_notify(rank)?;
            if reported != number {
                return Err(format!("rank {rank} has {number} counters, but num_notify reports {reported}").into());
            }
        }
        self.raised = raised(phase, me, usize::MAX);
        let steps = phase.steps[me].iter().enumerate();
        let waits = steps.filter_map(|(place, step)| match *step {
            Step::Await { notice, .. } => {
                Some((notice, raised(phase, me, place).get(&notice).map_or(0, |all| all.len() as u64)))
            }
            _ => None,
        });
        self.waits = waits.collect();
        Ok(())
    }

    /// The value of a counter before the phase.
    fn before(&self, notice: usize) -> u64 {
        self.before.get(&notice).copied().unwrap_or(0)
    }

    /// Performs the next wait of an epoch; returns a description of a failure. `part` is the rank's
    /// own part before the phase.
    pub(super) fn wait_within(&mut self, win: &impl ProgramWindow, part: &[u64]) -> transom::Result<Option<String>> {
        let Some((notice, moved)) = self.waits.pop_front() else { return Ok(None) };
        win.notices().wait(notice, self.before(notice) + moved)?;
        self.compared(win, part, notice)
    }

    /// Waits for all notices of the phase, in one of several ways; returns a description of a
    /// failure.
    pub(super) fn wait(&self, win: &impl ProgramWindow, part: &[u64], kind: u64) -> transom::Result<Option<String>> {
        let notices = win.notices();
        let end = |(&notice, effects): (&usize, &Vec<Effect>)| (notice, self.before(notice) + effects.len() as u64);
        let mut left: Vec<(usize, u64)> = self.raised.iter().map(end).collect();
        match kind % 4 {
            0 => left.iter().try_for_each(|&(notice, value)| notices.wait(notice, value))?,
            1 => {
                let requests = left.iter().map(|&(notice, value)| notices.request(notice, value));
                Request::wait_all(&mut requests.collect::<transom::Result<Vec<_>>>()?)?;
            }
            2 => {
                while !left.is_empty() {
                    left.remove(notices.wait_any(&left)?);
                }
            }
            _ => {
                for (notice, value) in left {
                    while !notices.try_wait(notice, value)? {
                        std::thread::yield_now();
                    }
                }
            }
        }
        for &notice in self.raised.keys() {
            let wrong = self.compared(win, part, notice)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    /// Reads a counter, then compares the rank's own part with it.
    fn compared(&self, win: &impl ProgramWindow, part: &[u64], notice: usize) -> transom::Result<Option<String>> {
        let effects = self.raised.get(&notice).map_or(&[][..], Vec::as_slice);
        let moved = win.notices().value(notice)? - self.before(notice);
        win.sync();
        let mut found = vec![0; LEN];
        win.load(&mut found)?;
        let incomplete: Vec<&Effect> =
            effects.iter().filter(|&&effect| !may_be_complete(effect, part, &found)).collect();
        let all = effects.len() as u64;
        if moved > all || incomplete.len() as u64 > all - moved || (moved == all && lacks(effects, part, &found)) {
            let text = format!("counter {notice} has moved by {moved} of {all}, and incomplete are {incomplete:?}");
            return Ok(Some(format!("{text}; of {effects:?}; the part was {part:?} and is {found:?}")));
        }
        Ok(None)
    }

    /// This rank's blocks that ranks read by notified gets and that have no other accesses.
    pub(super) fn only_read(&self, phase: &Phase, me: usize) -> Vec<usize> {
        let mut blocks: Vec<usize> = Vec::new();
        let mut others: Vec<usize> = Vec::new();
        for (rank, step) in
            phase.steps.iter().enumerate().flat_map(|(rank, steps)| steps.iter().map(move |step| (rank, step)))
        {
            match *step {
                Step::Notified { target, effect: Effect::Get { block }, .. } if target == me => blocks.push(block),
                Step::Put { target, block, .. }
                | Step::Get { target, block, .. }
                | Step::PutGet { target, block, .. }
                | Step::Notified { target, effect: Effect::Put { block, .. }, .. }
                    if target == me =>
                {
                    others.push(block);
                }
                Step::Store { block, .. } if rank == me => others.push(block),
                _ => {}
            }
        }
        blocks.retain(|block| !others.contains(block));
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Called after all ranks' epochs: each counter has increased by the number of its operations.
    /// Fetches and zeroes the counters if the program does.
    pub(super) fn end(&mut self, win: &impl ProgramWindow, phase: &Phase) -> transom::Result<Option<String>> {
        for (&notice, effects) in &self.raised {
            *self.before.entry(notice).or_default() += effects.len() as u64;
        }
        let mut wrong = None;
        for (&notice, &expected) in &self.before {
            let notices = win.notices();
            let found = if phase.resets { notices.reset(notice)? } else { notices.value(notice)? };
            if found != expected {
                wrong = Some(format!("counter {notice} has {found}, where {expected} operations notified"));
            }
        }
        if phase.resets {
            self.before.clear();
        }
        Ok(wrong)
    }
}

/// Whether the operation may be complete, to judge by the memory.
fn may_be_complete(effect: Effect, part: &[u64], found: &[u64]) -> bool {
    match effect {
        Effect::Put { block, value, .. } => found[block * BLOCK..][..BLOCK] == values(value),
        Effect::AddVector { first, len, .. } => {
            (VECTOR_AT + first..VECTOR_AT + first + len).all(|at| found[at] > part[at])
        }
        Effect::Get { .. } | Effect::Nothing => true,
    }
}

/// Whether an element lacks one of the additions.
fn lacks(effects: &[Effect], part: &[u64], found: &[u64]) -> bool {
    let mut least = part.to_vec();
    for effect in effects {
        if let Effect::AddVector { first, len, .. } = *effect {
            least[VECTOR_AT + first..][..len].iter_mut().for_each(|element| *element += 1);
        }
    }
    least.iter().zip(found).skip(VECTOR_AT).take(super::program::VECTOR).any(|(least, found)| found < least)
}

//! Values that memory may hold after a program, and that its ranks may have seen. They are computed
//! from the program alone. For locations on which several ranks operate concurrently, they are
//! computed from the values that all these ranks saw.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{
    BLOCK, CHAIN_AT, CHAINS, COUNTER_AT, Effect, LEN, LOCKED_AT, MAXIMA_AT, Phase, Program, REPLACED_AT, REPLACEMENTS,
    SHARED, SHARED_AT, Step, VECTOR_AT, XORS_AT,
};

/// The record of a fetching operation: the target, the element, the operand or new value, the
/// previous value, and whether it changed the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) target: u64,
    pub(crate) element: u64,
    pub(crate) new: u64,
    pub(crate) old: u64,
    pub(crate) changed: u64,
}

/// Each rank's steps of a phase, in its order.
fn steps(phase: &Phase) -> impl Iterator<Item = (usize, &Step)> {
    phase.steps.iter().enumerate().flat_map(|(me, steps)| steps.iter().map(move |step| (me, step)))
}

/// The parts of all ranks, as known before each phase's epochs and after them.
#[derive(Clone, Debug)]
pub(crate) struct Parts(Vec<Vec<u64>>);

impl Parts {
    pub(crate) fn new(ranks: usize) -> Parts {
        Parts(vec![vec![0; LEN]; ranks])
    }

    /// A rank's part.
    pub(crate) fn of(&self, rank: usize) -> &[u64] {
        &self.0[rank]
    }

    /// A block's current value.
    pub(crate) fn block(&self, target: usize, block: usize) -> &[u64] {
        &self.0[target][block * BLOCK..(block + 1) * BLOCK]
    }

    /// Applies the stores of owners before they open the phase's epochs.
    pub(crate) fn stored(&mut self, phase: &Phase) {
        for (me, step) in steps(phase) {
            if let Step::Store { block, value } = *step {
                self.write(me, block, value);
            }
        }
    }

    /// Applies the phase's epochs to all elements but the chains, whose final value depends on the
    /// last writer.
    pub(crate) fn after(&mut self, phase: &Phase) {
        for (_, step) in steps(phase) {
            match *step {
                Step::Put { target, block, value, .. }
                | Step::PutGet { target, block, value }
                | Step::Notified { target, effect: Effect::Put { block, value, .. }, .. } => {
                    self.write(target, block, value);
                }
                Step::FetchAdd { target, counter, operand } => self.0[target][COUNTER_AT + counter] += operand,
                Step::Maximum { target, maximum, operand } => {
                    let element = &mut self.0[target][MAXIMA_AT + maximum];
                    *element = (*element).max(operand);
                }
                Step::FetchXor { target, element, operand } => self.0[target][XORS_AT + element] ^= operand,
                Step::AddVector { target, first, len, .. }
                | Step::Notified { target, effect: Effect::AddVector { first, len, .. }, .. } => {
                    self.0[target][VECTOR_AT + first..][..len].iter_mut().for_each(|element| *element += 1);
                }
                Step::AddByGetAndPut { target } => self.0[target][LOCKED_AT] += 1,
                Step::ReplaceRepeatedly { target, element, value } => {
                    self.0[target][REPLACED_AT + element] = value + REPLACEMENTS - 1;
                }
                Step::PutShared { target, value } => self.0[target][SHARED_AT..][..SHARED].fill(value),
                Step::Store { .. }
                | Step::Get { .. }
                | Step::ReadRepeatedly { .. }
                | Step::Flush { .. }
                | Step::Notified { .. }
                | Step::Await { .. }
                | Step::Swap { .. }
                | Step::CompareSwap { .. } => {}
            }
        }
    }

    fn write(&mut self, target: usize, block: usize, value: u64) {
        for (index, element) in self.0[target][block * BLOCK..(block + 1) * BLOCK].iter_mut().enumerate() {
            *element = value + index as u64;
        }
    }

    /// Fails where a rank's part has an impossible value.
    pub(crate) fn check(&self, rank: usize, found: &[u64]) -> Result<(), String> {
        let chains = CHAIN_AT..CHAIN_AT + CHAINS;
        for (at, (found, expected)) in found.iter().zip(&self.0[rank]).enumerate() {
            if found != expected && !chains.contains(&at) {
                return Err(format!("rank {rank} has {found} at element {at}, where {expected} must be"));
            }
        }
        Ok(())
    }
}

/// Fails where the values that all ranks saw, each in its own order, permit no serial order of the
/// operations on some element.
pub(crate) fn check_seen(program: &Program, seen: &[Vec<Seen>], ends: &[Vec<u64>]) -> Result<(), String> {
    let mut elements: BTreeMap<(u64, u64), Vec<Seen>> = BTreeMap::new();
    for one in seen.iter().flatten() {
        elements.entry((one.target, one.element)).or_default().push(*one);
    }
    for ((target, element), all) in elements {
        let at = usize::try_from(element).map_err(|error| error.to_string())?;
        let end = ends[usize::try_from(target).map_err(|error| error.to_string())?][at];
        let checked = if (CHAIN_AT..CHAIN_AT + CHAINS).contains(&at) { chain(&all, end) } else { sums(&all, end) };
        checked.map_err(|why| format!("element {element} of rank {target}: {why} (window {})", program.window))?;
    }
    // Additions of one rank to one element happen in program order: each sees more than the
    // previous one.
    for (rank, mine) in seen.iter().enumerate() {
        let mut last: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let counters = COUNTER_AT as u64..CHAIN_AT as u64;
        for one in mine.iter().filter(|one| counters.contains(&one.element)) {
            let before = last.insert((one.target, one.element), one.old);
            if before.is_some_and(|before| before >= one.old) {
                return Err(format!("rank {rank} saw {} after {before:?} on element {}", one.old, one.element));
            }
        }
    }
    Ok(())
}

/// Fetched sums: in the order of the fetched values, each value is the sum of all operands before
/// it.
fn sums(all: &[Seen], end: u64) -> Result<(), String> {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|one| one.old);
    let mut sum = 0;
    for one in sorted {
        if one.old != sum {
            return Err(format!("an addition of {} saw {}, where {sum} was next", one.new, one.old));
        }
        sum += one.new;
    }
    if sum == end { Ok(()) } else { Err(format!("it ends with {end}, the additions make {sum}")) }
}

/// Swaps of unique values: from 0 on each value is replaced once, up to the last.
fn chain(all: &[Seen], end: u64) -> Result<(), String> {
    let changed: Vec<&Seen> = all.iter().filter(|one| one.changed == 1).collect();
    let next: BTreeMap<u64, u64> = changed.iter().map(|one| (one.old, one.new)).collect();
    if next.len() != changed.len() {
        return Err("a value was replaced twice".into());
    }
    let (mut value, mut visited) = (0, BTreeSet::from([0]));
    while let Some(&then) = next.get(&value) {
        if !visited.insert(then) {
            return Err(format!("the value {then} was seen twice"));
        }
        value = then;
    }
    if visited.len() != changed.len() + 1 {
        return Err(format!("{} swaps, of which {} follow each other", changed.len(), visited.len() - 1));
    }
    if let Some(one) = all.iter().find(|one| !visited.contains(&one.old)) {
        return Err(format!("{} was seen, which no operation stored", one.old));
    }
    if value == end { Ok(()) } else { Err(format!("it ends with {end}, the last swap stored {value}")) }
}

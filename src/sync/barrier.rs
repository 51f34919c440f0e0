//! The dissemination barrier (Hensgen, Finkel and Manber, 1988). In round k, rank r of p ranks
//! signals rank r + 2^k and waits for the signal of rank r - 2^k, both modulo p. Each rank sends
//! ceil(log2 p) signals, and no rank has a special role. Independent of the transport of signals.

use std::cell::OnceCell;

use crate::error::Result;

/// The slots that barriers of `ranks` ranks use: one for each round, of even and of odd barriers.
pub(crate) const fn slots(ranks: usize) -> usize {
    2 * ranks.next_power_of_two().trailing_zeros() as usize
}

/// The transport of a barrier's signals. Each (slot, receiver) has one sender, so that a signal is
/// a plain store of a number that only grows. A slot is a round of the even or of the odd barriers.
/// A sender can be one barrier ahead of its receiver, never two, so the value of a slot is not
/// overwritten before it was read.
pub(crate) trait Signals {
    /// Stores `value` in the slot at `peer`.
    fn raise(&self, peer: usize, slot: usize, value: u32) -> Result<()>;

    /// Waits until this rank's slot, which `peer` writes, has reached `value`; returns the slot's
    /// value.
    fn await_from(&self, peer: usize, slot: usize, value: u32) -> Result<u32>;
}

/// The rank that gets the first signal of `me` in a barrier of `size` ranks.
pub(crate) fn first(me: usize, size: usize) -> usize {
    if me + 1 == size { 0 } else { me + 1 }
}

/// The signals of a barrier whose first signal may be sent before this rank's operations are
/// complete.
pub(crate) struct EarlyFirstSignal<S, A, F> {
    signals: S,
    first: A,
    complete: F,
    /// Set before the second step of the barrier.
    outcome: OnceCell<Result<()>>,
}

/// How the first signal of a barrier is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstSignal {
    /// It was sent in the message of operations.
    WithOperations,
    /// It is sent without a wait; the net delivers it after the operations.
    AtOnce,
    /// It is sent when the operations are complete.
    AfterCompletion,
}

impl<S, A: Fn(usize, u32) -> FirstSignal, F: Fn() -> Result<()>> EarlyFirstSignal<S, A, F> {
    /// `first` gets the slot and the value of the first signal, sends it with operations if it can,
    /// and says how it is sent; `complete` waits for the operations before the other steps of the
    /// barrier.
    pub(crate) fn new(signals: S, first: A, complete: F) -> EarlyFirstSignal<S, A, F> {
        EarlyFirstSignal { signals, first, complete, outcome: OnceCell::new() }
    }

    /// Waits for the operations, unless the barrier has waited for them. Returns their result.
    pub(crate) fn complete(mut self) -> Result<()> {
        self.outcome.take().unwrap_or_else(self.complete)
    }
}

impl<S: Signals, A: Fn(usize, u32) -> FirstSignal, F: Fn() -> Result<()>> Signals for EarlyFirstSignal<S, A, F> {
    fn raise(&self, peer: usize, slot: usize, value: u32) -> Result<()> {
        if self.outcome.get().is_none() {
            match (self.first)(slot, value) {
                FirstSignal::WithOperations => return Ok(()),
                FirstSignal::AtOnce => {}
                FirstSignal::AfterCompletion => drop(self.outcome.get_or_init(&self.complete)),
            }
        }
        self.signals.raise(peer, slot, value)
    }

    fn await_from(&self, peer: usize, slot: usize, value: u32) -> Result<u32> {
        // The first wait comes after the first signal.
        self.outcome.get_or_init(&self.complete);
        self.signals.await_from(peer, slot, value)
    }
}

/// The bits that a rank may send to all others in a barrier.
pub(crate) const BITS: u32 = (1 << 13) - 1;

/// Passes the barrier `number` of `size` ranks; returns the union of the bits that ranks send
/// (`bits`).
#[inline]
pub(crate) fn dissemination(me: usize, size: usize, number: u32, bits: u32, signals: &impl Signals) -> Result<u32> {
    let counter = value_of(number);
    let (mut distance, mut slot, mut any) = (1, usize::from(number & 1 == 1), bits & BITS);
    while distance < size {
        let (to, from) = (me + distance, me + size - distance);
        signals.raise(if to < size { to } else { to - size }, slot, counter | any)?;
        any |= signals.await_from(if from < size { from } else { from - size }, slot, counter)? & BITS;
        distance *= 2;
        slot += 2;
    }
    Ok(any)
}

/// The bits of a slot: a barrier's number, and below it the bits that ranks send ([`BITS`]).
const COUNTER: u32 = 0x7fff_ffff;

/// The value of a slot in the barrier of this number, without bits of a rank.
#[inline]
pub(crate) fn value_of(number: u32) -> u32 {
    number.wrapping_mul(BITS + 1) & COUNTER
}

/// The number of a value's barrier, as far as values hold it; `None` if the value has bits of a
/// rank.
#[inline]
pub(crate) fn number_of(value: u32) -> Option<u32> {
    (value & BITS == 0).then_some(value >> BITS.count_ones())
}

/// Whether the counter `seen` has reached `value`; both wrap at 31 bits.
pub(crate) fn reached(seen: u32, value: u32) -> bool {
    seen.wrapping_sub(value) & COUNTER < 0x4000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// Records the peers of rank 0.
    #[derive(Default)]
    struct Record(RefCell<Vec<(usize, usize)>>);

    impl Signals for Record {
        fn raise(&self, peer: usize, _slot: usize, _value: u32) -> Result<()> {
            self.0.borrow_mut().push((peer, usize::MAX));
            Ok(())
        }
        fn await_from(&self, peer: usize, _slot: usize, value: u32) -> Result<u32> {
            if let Some(last) = self.0.borrow_mut().last_mut() {
                last.1 = peer;
            }
            Ok(value)
        }
    }

    fn partners(me: usize, size: usize) -> Vec<(usize, usize)> {
        let record = Record::default();
        dissemination(me, size, 1, 0, &record).expect("recording can't fail");
        record.0.into_inner()
    }

    #[test]
    fn a_barrier_takes_log2_signals_and_includes_every_rank() {
        for size in 1..=130 {
            // The arrivals that each rank knows of, round by round.
            let mut known: Vec<BTreeSet<usize>> = (0..size).map(|rank| BTreeSet::from([rank])).collect();
            let rounds = partners(0, size).len();
            assert_eq!(rounds, size.next_power_of_two().trailing_zeros() as usize, "rounds at {size} ranks");
            for round in 0..rounds {
                let before = known.clone();
                for (me, knows) in known.iter_mut().enumerate() {
                    let (to, from) = partners(me, size)[round];
                    assert_eq!(partners(to, size)[round].1, me, "{me} signals {to}, who waits for another");
                    knows.extend(&before[from]);
                }
            }
            assert!(known.iter().all(|knows| knows.len() == size), "{size} ranks");
        }
    }

    #[test]
    fn counters_wrap_at_31_bits() {
        assert!(reached(5, 5) && reached(6, 5) && !reached(4, 5));
        assert!(reached(0, 0x7fff_ffff) && !reached(0x7fff_ffff, 0));
    }
}

//! Failures that no call has reported yet: one table for all tallies, because there are many
//! tallies and few failures. In this module a number identifies each tally.

use std::collections::{BTreeMap, BTreeSet};

use crate::Fault;

/// The reason why an operation did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer has become unreachable.
    Broken(Fault),
    /// The peer is alive and refused to execute the operation.
    Refused(Fault),
}

/// A failure, and the tallies that may report it: the operation's own, and its parents. A failure
/// is reported once.
#[derive(Debug)]
struct Waiting {
    reporters: Vec<usize>,
    failure: Failure,
}

/// All failures that no call has reported.
#[derive(Debug)]
pub(crate) struct Failures {
    /// By number, in the order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// The failures that each tally may report.
    of: BTreeMap<usize, BTreeSet<u64>>,
    /// The tallies of which an operation has failed.
    own: BTreeMap<usize, u64>,
}

impl Failures {
    pub(crate) const fn new() -> Failures {
        Failures { waiting: BTreeMap::new(), next: 0, of: BTreeMap::new(), own: BTreeMap::new() }
    }

    /// Stores a failure of an operation whose tally is the first of `reporters`, unless this tally
    /// already has a failure: the first failure names the cause. Returns whether the failure was
    /// stored.
    pub(crate) fn keep(&mut self, reporters: Vec<usize>, failure: &Failure) -> bool {
        let number = self.next;
        let Some(&own) = reporters.first().filter(|own| !self.own.contains_key(own)) else { return false };
        self.next += 1;
        self.own.insert(own, number);
        for &reporter in &reporters {
            self.of.entry(reporter).or_default().insert(number);
        }
        self.waiting.insert(number, Waiting { reporters, failure: failure.clone() });
        true
    }

    /// Whether a tally has a failure to report.
    pub(crate) fn has(&self, tally: usize) -> bool {
        self.of.contains_key(&tally)
    }

    /// The first failure that a tally may report.
    pub(crate) fn first(&self, tally: usize) -> Option<&Failure> {
        self.of.get(&tally)?.first().and_then(|number| self.waiting.get(number)).map(|one| &one.failure)
    }

    /// Takes the first failure that a tally may report; the tally's other failures count as
    /// reported with it.
    pub(crate) fn take(&mut self, tally: usize) -> Option<Failure> {
        let first = self.first(tally).cloned();
        for number in self.of.remove(&tally).unwrap_or_default() {
            let Some(waiting) = self.waiting.remove(&number) else { continue };
            for reporter in waiting.reporters {
                self.untie(reporter, number);
            }
        }
        first
    }

    /// Removes a dropped tally; its parents still report its failures.
    pub(crate) fn forget(&mut self, tally: usize) {
        for number in self.of.remove(&tally).unwrap_or_default() {
            if let Some(one) = self.waiting.get_mut(&number) {
                one.reporters.retain(|&reporter| reporter != tally);
                if one.reporters.is_empty() {
                    self.waiting.remove(&number);
                }
            }
        }
        self.own.remove(&tally);
    }

    fn untie(&mut self, reporter: usize, number: u64) {
        if let Some(numbers) = self.of.get_mut(&reporter) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.of.remove(&reporter);
            }
        }
        if self.own.get(&reporter) == Some(&number) {
            self.own.remove(&reporter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    fn failure(peer: u32) -> Failure {
        Failure::Refused(Fault::new(Peer(peer), crate::Reason::Died))
    }

    #[test]
    fn reported_and_dropped_failures_leave_no_entry() {
        let mut all = Failures::new();
        assert!(
            all.keep(vec![1, 10], &failure(1))
                && !all.keep(vec![1, 10], &failure(2))
                && all.keep(vec![2, 10], &failure(3))
        );
        all.forget(1);
        assert!(all.keep(vec![1, 10], &failure(4)), "another tally at the same place");
        assert_eq!(all.take(2), Some(failure(3)));
        assert_eq!(all.take(10), Some(failure(1)));
        assert!(!all.has(1) && all.first(1).is_none() && all.take(10).is_none());
        assert!(all.keep(vec![5], &failure(5)));
        all.forget(5);
        assert!(all.waiting.is_empty() && all.of.is_empty() && all.own.is_empty(), "{all:?}");
    }
}

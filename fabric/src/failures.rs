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

/// A failure, and the tallies that may report it: the operation's own tally, and its parents. One
/// of them reports the failure, once.
#[derive(Debug)]
struct Unreported {
    reporters: Vec<usize>,
    failure: Failure,
}

/// All failures that no call has reported.
#[derive(Debug)]
pub(crate) struct Failures {
    /// The failures by number, in the order of arrival.
    unreported: BTreeMap<u64, Unreported>,
    /// The number of the next failure.
    next: u64,
    /// The numbers of the failures that each tally may report.
    by_tally: BTreeMap<usize, BTreeSet<u64>>,
    /// For each tally of which an operation has failed: the number of that failure.
    own_failures: BTreeMap<usize, u64>,
}

impl Failures {
    pub(crate) const fn new() -> Failures {
        Failures { unreported: BTreeMap::new(), next: 0, by_tally: BTreeMap::new(), own_failures: BTreeMap::new() }
    }

    /// Stores a failure of an operation. `reporters` are the operation's tally, and then its
    /// parents. If an earlier operation of that tally has failed, only the earlier failure is kept,
    /// because it is the cause. Returns whether the failure was stored.
    pub(crate) fn keep(&mut self, reporters: Vec<usize>, failure: &Failure) -> bool {
        let number = self.next;
        let Some(&own) = reporters.first().filter(|own| !self.own_failures.contains_key(own)) else { return false };
        self.next += 1;
        self.own_failures.insert(own, number);
        for &reporter in &reporters {
            self.by_tally.entry(reporter).or_default().insert(number);
        }
        self.unreported.insert(number, Unreported { reporters, failure: failure.clone() });
        true
    }

    /// Whether a tally has a failure to report.
    pub(crate) fn has(&self, tally: usize) -> bool {
        self.by_tally.contains_key(&tally)
    }

    /// The first failure that a tally may report.
    pub(crate) fn first(&self, tally: usize) -> Option<&Failure> {
        self.by_tally.get(&tally)?.first().and_then(|number| self.unreported.get(number)).map(|one| &one.failure)
    }

    /// Takes the first failure that a tally may report; the tally's other failures count as
    /// reported with it.
    pub(crate) fn take(&mut self, tally: usize) -> Option<Failure> {
        let first = self.first(tally).cloned();
        for number in self.by_tally.remove(&tally).unwrap_or_default() {
            let Some(unreported) = self.unreported.remove(&number) else { continue };
            for reporter in unreported.reporters {
                self.remove_reporter(reporter, number);
            }
        }
        first
    }

    /// Removes a dropped tally; its parents still report its failures.
    pub(crate) fn forget(&mut self, tally: usize) {
        for number in self.by_tally.remove(&tally).unwrap_or_default() {
            if let Some(one) = self.unreported.get_mut(&number) {
                one.reporters.retain(|&reporter| reporter != tally);
                if one.reporters.is_empty() {
                    self.unreported.remove(&number);
                }
            }
        }
        self.own_failures.remove(&tally);
    }

    /// Removes a tally from the reporters of a failure.
    fn remove_reporter(&mut self, reporter: usize, number: u64) {
        if let Some(numbers) = self.by_tally.get_mut(&reporter) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_tally.remove(&reporter);
            }
        }
        if self.own_failures.get(&reporter) == Some(&number) {
            self.own_failures.remove(&reporter);
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
        assert!(all.unreported.is_empty() && all.by_tally.is_empty() && all.own_failures.is_empty(), "{all:?}");
    }
}

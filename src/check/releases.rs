//! The releases of this rank, as ThreadSanitizer sees them. A program that polls by operations
//! makes very many releases. An operation whose origin knows only an old release may still conflict
//! with what this rank has done since. Releases by operations are therefore forgotten first.

use std::collections::BTreeMap;

use super::sanitizer::Mark;

/// Maximum number of releases with marks. A release without a mark counts as the next one that has
/// a mark.
const MOST: usize = 4096;

/// The cause of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Synchronization,
    /// An operation on a window, or its end.
    Operation,
}

/// For each release, by number: a mark of all that this rank's threads did before.
#[derive(Debug)]
pub(super) struct Releases<M = Mark> {
    marks: BTreeMap<u64, (M, By)>,
}

impl<M> Releases<M> {
    pub(super) const fn new() -> Releases<M> {
        Releases { marks: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, number: u64, mark: M, by: By) {
        self.marks.insert(number, (mark, by));
        if self.marks.len() > MOST {
            self.thin(|by| by == By::Operation);
            // If most are synchronizations, this was not enough.
            if self.marks.len() > MOST / 8 * 7 {
                self.thin(|_| true);
            }
        }
    }

    /// The mark of a release, or if it is gone, of the next one. `None` for number 0.
    pub(super) fn mark_of(&self, number: u64) -> Option<&M> {
        if number == 0 {
            return None;
        }
        let (_, found) = self.marks.range(number..).next().or_else(|| self.marks.last_key_value())?;
        Some(&found.0)
    }

    /// The marks from a release on.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = &M> {
        self.marks.range(number..).map(|(_, (mark, _))| mark)
    }

    /// Removes every second mark of the older half, of those whose causes are `removable`.
    fn thin(&mut self, removable: impl Fn(By) -> bool) {
        let (mut place, mut removables) = (0, 0);
        let older = self.marks.len() / 2;
        self.marks.retain(|_, (_, by)| {
            place += 1;
            removables += usize::from(removable(*by));
            place > older || !removable(*by) || removables % 2 == 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synchronization_is_distinguished_from_very_many_later_operations() {
        let mut releases = Releases::new();
        let by = |number: u64| if number.is_multiple_of(1000) { By::Synchronization } else { By::Operation };
        for number in 1..100_000 {
            releases.add(number, number, by(number));
            assert!(releases.marks.len() <= MOST);
        }
        let found = [0, 1000, 42_000, 99_998].map(|number| releases.mark_of(number).copied());
        assert_eq!(found, [None, Some(1000), Some(42_000), Some(99_998)]);
        assert!(releases.mark_of(1001).is_some_and(|&mark| mark > 1000), "not an earlier one");
        assert_eq!(releases.from(99_990).count(), 10);
    }

    #[test]
    fn very_many_synchronizations_are_thinned() {
        let mut releases = Releases::new();
        for number in 1..100_000u64 {
            releases.add(number, number, By::Synchronization);
            assert!(releases.marks.len() <= MOST);
        }
        for number in [1, 50, 5000, 98_500] {
            assert!(releases.mark_of(number).is_some_and(|&mark| mark >= number), "{number}");
        }
        assert_eq!(releases.mark_of(99_000), Some(&99_000));
    }
}

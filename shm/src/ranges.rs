//! The allocator of a heap's pages: first fit over the free ranges, adjacent ranges joined.
//! Arithmetic only: must not know memory.

use std::collections::BTreeMap;

/// The free page ranges, by their first page. No two ranges are adjacent.
#[derive(Debug)]
pub(crate) struct Ranges {
    free: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Pages `[first, end)` are free.
    pub(crate) fn new(first: u64, end: u64) -> Ranges {
        let free = (first < end).then(|| (first, end - first));
        Ranges { free: free.into_iter().collect() }
    }

    /// Takes `pages` (at least 1) from the first range that has them. Returns the first page.
    pub(crate) fn take(&mut self, pages: u64) -> Option<u64> {
        assert!(pages > 0, "a range of no pages has no place");
        let (&first, &found) = self.free.iter().find(|&(_, &free)| free >= pages)?;
        self.free.remove(&first);
        if found > pages {
            self.free.insert(first + pages, found - pages);
        }
        Some(first)
    }

    /// Returns pages of [`Ranges::take`], and joins them to adjacent ranges.
    pub(crate) fn give(&mut self, first: u64, pages: u64) {
        let (mut start, mut end) = (first, first + pages);
        if let Some((&before, &length)) = self.free.range(..start).next_back() {
            assert!(before + length <= start, "page {start} was free already");
            if before + length == start {
                self.free.remove(&before);
                start = before;
            }
        }
        if let Some((&after, &length)) = self.free.range(first..).next() {
            assert!(end <= after, "page {after} was free already");
            if after == end {
                self.free.remove(&after);
                end = after + length;
            }
        }
        self.free.insert(start, end - start);
    }

    /// The number of free pages.
    pub(crate) fn free_pages(&self) -> u64 {
        self.free.values().sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: u64 = 64;

    proptest! {
        /// Against a bitmap: taken ranges were free and first-fit, and free ranges are maximal.
        #[test]
        fn it_agrees_with_a_bitmap(steps in proptest::collection::vec((any::<bool>(), 1u64..12), 1..200)) {
            let mut ranges = Ranges::new(1, END);
            let mut used = vec![true];
            used.resize(64, false);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, pages) in steps {
                if take {
                    let want = usize::try_from(pages).expect("small");
                    let fit = used.windows(want).position(|run| run.iter().all(|u| !u));
                    let got = ranges.take(pages);
                    prop_assert_eq!(got, fit.map(|at| at as u64));
                    if let Some(at) = fit {
                        used[at..at + want].fill(true);
                        held.push((at as u64, pages));
                    }
                } else if !held.is_empty() {
                    let turn = usize::try_from(pages).expect("small") % held.len();
                    let (at, pages) = held.swap_remove(turn);
                    ranges.give(at, pages);
                    let (at, pages) = (usize::try_from(at).expect("small"), usize::try_from(pages).expect("small"));
                    used[at..at + pages].fill(false);
                }
                let runs = used.chunk_by(|a, b| a == b).filter(|run| !run[0]).count();
                prop_assert_eq!(ranges.free.len(), runs);
                prop_assert_eq!(ranges.free_pages(), used.iter().filter(|u| !**u).count() as u64);
            }
            for (at, pages) in held {
                ranges.give(at, pages);
            }
            prop_assert_eq!(ranges.free, BTreeMap::from([(1, END - 1)]));
        }
    }

    #[test]
    #[should_panic(expected = "was free already")]
    fn returning_pages_twice_is_detected() {
        let mut ranges = Ranges::new(0, 4);
        let first = ranges.take(2).expect("four are free");
        ranges.give(first, 2);
        ranges.give(first, 2);
    }
}

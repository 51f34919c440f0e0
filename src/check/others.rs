//! The operations of other ranks on this rank's memory, as ThreadSanitizer sees them.
//!
//! Let `known` be the number of this rank's releases of which the origin of an operation knew. The
//! operation is ordered after these releases, and after each operation with an equal or smaller
//! `known`. This order includes the true order: an operation that precedes another one has an equal
//! or smaller `known`. Most operations are reported in the order of `known`, and share a fiber. An
//! operation that is reported after one with a larger `known` gets a separate fiber, which is
//! ordered after fewer releases.

use std::collections::BTreeMap;

use super::sanitizer::{Fiber, Mark, Sanitizer};

/// Maximum number of fibers for operations that come later.
const MOST_LATE: usize = 64;
/// Maximum number of marks of earlier operations.
const MOST_MARKS: usize = 4096;

/// The fibers of other ranks' operations.
#[derive(Debug)]
pub(super) struct Others {
    /// The fiber of most operations, and the largest number of releases of which an origin knew.
    fiber: Fiber,
    most: u64,
    /// Creates the fibers of late operations. ThreadSanitizer orders a new fiber after its creator,
    /// so this fiber makes no access and acquires nothing.
    maker: Fiber,
    /// Key: a number of releases below `most`. Value: a mark behind the fiber's operations whose
    /// origins knew of at most this number.
    earlier: BTreeMap<u64, Mark>,
    /// Key: a number of releases. Value: the fiber of the operations that were reported late and
    /// whose origins knew of this number, and a mark behind them.
    late: BTreeMap<u64, (Fiber, Mark)>,
}

impl Others {
    pub(super) fn new(sanitizer: &Sanitizer) -> Others {
        let (fiber, maker) = (sanitizer.fiber(), sanitizer.fiber());
        Others { fiber, most: 0, maker, earlier: BTreeMap::new(), late: BTreeMap::new() }
    }

    /// Makes the accesses of an operation whose origin knew of `known` releases of this rank, on
    /// the fiber of the operation.
    pub(super) fn operate(&mut self, sanitizer: &Sanitizer, known: u64, name: &str, access: impl FnOnce()) {
        let Some(number) = self.late(sanitizer, known) else {
            self.advance(sanitizer, known);
            sanitizer.name_fiber(self.fiber, name);
            return sanitizer.on(self.fiber, access);
        };
        let Some((fiber, mark)) = self.late.get(&number) else { return };
        sanitizer.name_fiber(*fiber, name);
        sanitizer.on(*fiber, || {
            let earlier = self.earlier.range(..=known).next_back().or_else(|| self.earlier.first_key_value());
            earlier.into_iter().for_each(|(_, mark)| sanitizer.acquire(mark));
            self.late.range(..=known).for_each(|(_, (_, mark))| sanitizer.acquire(mark));
            access();
            sanitizer.release(mark);
        });
        sanitizer.on(self.fiber, || sanitizer.acquire(mark));
    }

    /// The key in `late` for an operation that needs a fiber of its own. If there are too many, the
    /// fiber of operations whose origins knew less. `None`: the operation needs none.
    fn late(&mut self, sanitizer: &Sanitizer, known: u64) -> Option<u64> {
        if known >= self.most {
            return None;
        }
        // The fiber with key 0, which is ordered after no release, always exists: each late
        // operation then finds a fiber whose key is at most its number.
        for number in [0, known] {
            if number == 0 || self.late.len() < MOST_LATE {
                self.late.entry(number).or_insert_with(|| (sanitizer.fiber_by(self.maker), Mark::default()));
            }
        }
        self.late.range(..=known).next_back().map(|(&number, _)| number)
    }

    /// The next operation of the first fiber knows of `known` releases.
    fn advance(&mut self, sanitizer: &Sanitizer, known: u64) {
        if known > self.most {
            let mark = Mark::default();
            sanitizer.on(self.fiber, || sanitizer.release(&mark));
            self.earlier.insert(self.most, mark);
            self.most = known;
        }
        if self.earlier.len() > MOST_MARKS {
            self.earlier.pop_first();
        }
    }
}

//! Runs: ranges of buffers that operations in flight only read. A use of a buffer joins a run if it
//! has the run's window, member, call and place, and overlaps or touches the run's range. Such a
//! use needs no record, so a program that repeats an operation without completing it needs no more
//! memory. Reads do not conflict with each other. A use that writes its buffer is compared with all
//! runs. A use that reads joins no run in three cases: it may overlap a buffer that an operation in
//! flight writes, its operation ends alone, or there is no room. Such a use is recorded like a
//! written buffer (`lent`), and compared with the records.

use std::ops::Range;

use super::lent::BufferUse;
use super::rules::Kind;
use super::shadow::Access;

/// Maximum number of runs of a process.
const MOST: usize = 32;

/// The first and the last byte, of none.
const NO_BYTES: (u64, u64) = (u64::MAX, 0);

/// The uses of adjacent bytes by operations that end together.
#[derive(Debug)]
struct Run {
    window: u64,
    member: usize,
    /// The use of a buffer that is not written.
    kind: Kind,
    place: u32,
    range: Range<u64>,
}

/// The runs, and the bytes of other uses.
#[derive(Debug)]
pub(super) struct Runs {
    list: Vec<Run>,
    /// The run that the last use has joined.
    last: usize,
    /// The number of uses in flight that write their buffers, and the range from the first to the
    /// last byte of all that began since this number was last 0.
    written: u64,
    hull: (u64, u64),
}

impl Run {
    /// Whether the run is of the operations of `it`, and `range` overlaps or touches it.
    #[inline]
    fn is_joined_by(&self, it: &BufferUse, kind: Kind, range: &Range<u64>) -> bool {
        range.start <= self.range.end
            && self.range.start <= range.end
            && (self.window, self.member, self.place) == (it.window, it.member, it.place.number)
            && self.kind == kind
    }
}

impl Runs {
    pub(super) fn new() -> Runs {
        Runs { list: Vec::with_capacity(MOST), last: 0, written: 0, hull: NO_BYTES }
    }

    /// Adds the use of a buffer that is only read. Returns false if it has to be recorded instead.
    #[inline]
    pub(super) fn add(&mut self, it: &BufferUse, range: Range<u64>) -> bool {
        if it.is_alone || (self.written > 0 && range.start < self.hull.1 && self.hull.0 < range.end) {
            return false;
        }
        let kind = it.kind.buffer(false);
        let joined = match self.list.get(self.last) {
            Some(run) if run.is_joined_by(it, kind, &range) => Some(self.last),
            _ => self.list.iter().position(|run| run.is_joined_by(it, kind, &range)),
        };
        match joined {
            Some(index) => {
                let run = &mut self.list[index].range;
                *run = run.start.min(range.start)..run.end.max(range.end);
                self.last = index;
            }
            None if self.list.len() < MOST => {
                self.last = self.list.len();
                self.list.push(Run { window: it.window, member: it.member, kind, place: it.place.number, range });
            }
            None => return false,
        }
        true
    }

    /// A use that writes `range` begins. Returns the runs that it overlaps.
    pub(super) fn writes(&mut self, range: &Range<u64>, rank: usize) -> Vec<Access> {
        self.written += 1;
        self.hull = (self.hull.0.min(range.start), self.hull.1.max(range.end));
        let overlaps = |run: &&Run| run.range.start < range.end && range.start < run.range.end;
        let access = |Run { kind, place, range, .. }: &Run| Access {
            start: range.start,
            end: range.end,
            kind: *kind,
            origin: rank,
            place: *place,
        };
        self.list.iter().filter(overlaps).map(access).collect()
    }

    /// Uses that write their buffers have ended.
    pub(super) fn have_written(&mut self, uses: u64) {
        self.written = self.written.saturating_sub(uses);
        if self.written == 0 {
            self.hull = NO_BYTES;
        }
    }

    /// The operations on a member, or on all members, are complete at the origin.
    pub(super) fn end(&mut self, window: u64, member: Option<usize>) {
        if !self.list.is_empty() {
            self.list.retain(|run| run.window != window || member.is_some_and(|member| member != run.member));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::place::Place;

    fn used(window: u64, member: usize, place: u32) -> BufferUse {
        BufferUse {
            window,
            member,
            operation: 1,
            is_alone: false,
            kind: Kind::Put,
            place: Place { number: place, address: 0 },
        }
    }

    fn ranges(runs: &Runs) -> Vec<(u64, u64)> {
        runs.list.iter().map(|run| (run.range.start, run.range.end)).collect()
    }

    /// Shows E5.
    #[test]
    fn uses_of_adjacent_bytes_are_one_run() {
        let mut runs = Runs::new();
        let it = used(1, 0, 1);
        assert!((0..1000).all(|turn| runs.add(&it, 8 * (turn % 10)..8 * (turn % 10) + 8)));
        assert_eq!(ranges(&runs), [(0, 80)]);
        assert!(runs.add(&it, 88..96) && runs.add(&used(1, 1, 1), 0..8) && runs.add(&used(1, 0, 2), 0..8));
        assert_eq!(ranges(&runs), [(0, 80), (88, 96), (0, 8), (0, 8)], "apart, of another member, of another place");
        runs.end(2, None);
        runs.end(1, Some(0));
        assert_eq!(ranges(&runs), [(0, 8)], "the run of member 1");
        runs.end(1, None);
        assert_eq!(ranges(&runs), []);
    }

    /// Shows E5.
    #[test]
    fn no_use_joins_a_run_where_an_operation_writes() {
        let mut runs = Runs::new();
        let it = used(1, 0, 1);
        assert!(runs.add(&it, 0..8) && runs.add(&it, 32..40));
        assert_eq!(runs.writes(&(8..32), 3), [], "between the runs");
        let found = runs.writes(&(36..48), 3);
        assert_eq!(found, [Access { start: 32, end: 40, kind: Kind::Put.buffer(false), origin: 3, place: 1 }]);
        assert!(!runs.add(&it, 8..16) && !runs.add(&it, 40..48), "the uses may overlap written bytes");
        assert!(runs.add(&it, 48..56), "bytes behind those that are written");
        runs.have_written(1);
        assert!(!runs.add(&it, 8..16));
        runs.have_written(1);
        assert!(runs.add(&it, 8..16), "no operation writes any more");
    }

    /// Shows E5.
    #[test]
    fn runs_are_few_and_requests_have_none() {
        let mut runs = Runs::new();
        let it = used(1, 0, 1);
        assert!(!runs.add(&BufferUse { is_alone: true, ..it }, 0..8), "it ends before the others");
        let added = (0..1000).filter(|turn| runs.add(&it, 16 * turn..16 * turn + 8)).count();
        assert_eq!((added, runs.list.len()), (MOST, MOST));
        assert!(runs.add(&it, 8..16), "it joins");
    }
}

//! The releases of this rank.
//!
//! A release passes on the accesses that are complete. An accumulate or a small put passes on what
//! its rank has done before, because another rank may find the value and continue. If no access of
//! the rank has become complete since its last release, the operation passes on the clock as it is:
//! a rank that knows of the last release knows the same. Accesses in flight do not count, because
//! no rank takes them for complete before a later release.

use std::sync::atomic::Ordering;

use super::Checker;
use super::clock::Clock;
use super::exclusive::Holder;
use super::releases::By;
use super::shadow::Shadow;

impl Checker {
    /// Counts a release of this rank, and returns its clock.
    #[inline]
    pub(crate) fn release(&self) -> Holder<'_, Clock> {
        self.release_as(By::Synchronization)
    }

    /// [`Checker::release`] by an atomic or another operation, which a program may repeat very
    /// often while it waits.
    #[inline]
    pub(crate) fn release_by_operation(&self) -> Holder<'_, Clock> {
        self.release_as(By::Operation)
    }

    /// [`Checker::release_by_operation`] by a flush, which completes all operations of this rank on
    /// a part that end at a flush. `None` if there are none: `takes` says so, and is called with
    /// the clock's lock. A thread whose operations the flush of another thread completes therefore
    /// waits until their end is known.
    pub(crate) fn release_of_flush(&self, part: Shadow<'_>, takes: impl FnOnce() -> bool) -> Option<Holder<'_, Clock>> {
        self.learn_polled();
        let clock = self.clock();
        takes().then(|| self.release_with(clock, By::Operation, |number| part.flushes(self.rank, number)))
    }

    /// [`Checker::release_by_operation`] if the rank has done something since its last release,
    /// else only the clock.
    #[inline]
    pub(crate) fn release_news(&self) -> Holder<'_, Clock> {
        // ThreadSanitizer has to be told what this rank's threads did before. Relaxed: what another
        // thread does meanwhile is not ordered before the operation.
        if self.fibers.is_some() || self.known.news.load(Ordering::Relaxed) {
            self.release_by_operation()
        } else {
            self.clock()
        }
    }

    /// An access of this rank has become complete: its record has the number of the rank's releases
    /// so far. Called after the record is written, so that the next release is later than the
    /// record.
    #[inline]
    pub(crate) fn has_done(&self) {
        self.known.news.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn release_as(&self, by: By) -> Holder<'_, Clock> {
        self.learn_polled();
        self.release_with(self.clock(), by, |_| ())
    }

    /// Counts a release, and calls `first` with its number before it is visible.
    #[inline]
    fn release_with<'c>(&'c self, mut clock: Holder<'c, Clock>, by: By, first: impl FnOnce(u64)) -> Holder<'c, Clock> {
        // Before the number changes: an access whose record has the new number is news again.
        self.known.news.store(false, Ordering::Relaxed);
        clock.advance(self.rank);
        first(clock.of(self.rank));
        if let Some(fibers) = &self.fibers {
            fibers.release(clock.of(self.rank), by);
        }
        // Release: pairs with the Acquire of a rank that merges all releases. Behind the mark, for
        // which this rank's other threads look when that rank has performed an operation.
        self.own().releases().store(clock.of(self.rank), Ordering::Release);
        clock
    }

    /// The number of this rank's releases.
    #[inline]
    pub(crate) fn released(&self) -> u64 {
        // Acquire: pairs with the Release above, so that a later `has_done` is not lost.
        self.own().releases().load(Ordering::Acquire)
    }
}

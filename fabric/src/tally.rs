//! Completion by counting: how many operations are outstanding, and what a post answers.
//!
//! A [`Tally`] belongs to one target of one window. Its parent counts the whole window, so that a flush of all
//! targets looks at one number and a flush of one target at another; neither walks a list.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Fault;

/// What a post answers. It never blocks.
#[derive(Debug)]
#[must_use]
pub enum Post {
    /// Complete already, at the origin and at the target: nothing was counted.
    Done,
    /// Accepted and counted by the tally that was given; the count falls when the target has it.
    Pending,
    /// Not accepted, nothing happened: make progress, then post again.
    Again,
    /// Not accepted: the peer can't be reached.
    Broken(Box<Fault>),
}

/// Why an operation did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer can't be reached any more.
    Broken(Fault),
    /// The peer is well, and would not execute it.
    Refused(Fault),
}

/// The bit of a tally's state that says that an operation failed. In one word with the count, so that a flush looks once.
const FAILED: u64 = 1 << 63;

/// Counts operations that were posted and are not complete at the target yet.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many are outstanding, and [`FAILED`].
    state: AtomicU64,
    parent: Option<Arc<Tally>>,
    failure: Mutex<Told>,
}

/// The failure that waits to be told, with its number, and the number up to which failures were told here.
#[derive(Debug, Default)]
struct Told {
    failure: Option<(u64, Failure)>,
    until: u64,
}

/// Failures of this process are numbered from 1, so that a tally and those above it know the same one.
static FAILURES: AtomicU64 = AtomicU64::new(1);

impl Tally {
    /// A tally that stands alone, or the parent of others.
    pub fn new() -> Arc<Tally> {
        Arc::new(Tally::default())
    }

    /// A tally whose operations count in `parent` as well.
    pub fn within(parent: &Arc<Tally>) -> Arc<Tally> {
        Arc::new(Tally { parent: Some(Arc::clone(parent)), ..Tally::default() })
    }

    /// Counts one operation. For backends: before the operation is handed over, so that its completion can't come first.
    #[inline]
    pub fn begin(&self) {
        // Relaxed: the thread that flushes is the one that posted, or was ordered after it by the program.
        self.state.fetch_add(1, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.begin();
        }
    }

    /// Takes one operation off: the target has it, results of gets and atomics are in place. For backends.
    #[inline]
    pub fn finish(&self) {
        // Release: pairs with the Acquire in `idle`, so that what the completion brought is visible after a flush.
        self.state.fetch_sub(1, Ordering::Release);
        if let Some(parent) = &self.parent {
            parent.finish();
        }
    }

    /// Takes one operation off that will never complete, since its peer is gone. The first failure is kept, here and in the parent.
    pub fn fail(&self, fault: &Fault) {
        self.record(&Failure::Broken(fault.clone()));
        self.finish();
    }

    /// Takes one operation off that its peer would not execute. The first failure is kept, here and in the parent.
    pub fn refuse(&self, fault: &Fault) {
        self.record(&Failure::Refused(fault.clone()));
        self.finish();
    }

    fn record(&self, failure: &Failure) {
        // Relaxed: only has to be another number each time.
        let number = FAILURES.fetch_add(1, Ordering::Relaxed);
        for tally in self.upwards() {
            // A later failure adds nothing while one waits to be told: the first one names it.
            tally.told().failure.get_or_insert_with(|| (number, failure.clone()));
            // Release: pairs with the Acquire in `has_failed` and `settled`.
            tally.state.fetch_or(FAILED, Ordering::Release);
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This tally, its parent, and so on.
    fn upwards(&self) -> impl Iterator<Item = &Tally> {
        std::iter::successors(Some(self), |tally| tally.parent.as_deref())
    }

    /// Whether nothing is outstanding. After `true`, what the completed operations wrote is visible.
    #[inline]
    pub fn idle(&self) -> bool {
        self.outstanding() == 0
    }

    /// How many operations are outstanding.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        // Acquire: pairs with the Release in `finish`.
        self.state.load(Ordering::Acquire) & !FAILED
    }

    /// Whether nothing is outstanding, and no failure waits to be taken.
    #[inline]
    pub fn settled(&self) -> bool {
        // Acquire: pairs with the Release in `finish` and `record`.
        self.state.load(Ordering::Acquire) == 0
    }

    /// Whether an operation of this tally failed and nobody took the failure yet.
    #[inline]
    pub fn has_failed(&self) -> bool {
        // Acquire: pairs with the Release in `record`.
        self.state.load(Ordering::Acquire) & FAILED != 0
    }

    /// The first failure that was not told yet: by this tally or one above it, which then will not tell it again.
    pub fn take_failure(&self) -> Option<Failure> {
        let mut told = self.told();
        // Relaxed: the failure itself is under the lock.
        self.state.fetch_and(!FAILED, Ordering::Relaxed);
        let (number, failure) = told.failure.take()?;
        told.until = told.until.max(number);
        drop(told);
        let mut news = true;
        for above in self.upwards().skip(1) {
            let mut told = above.told();
            news &= told.until < number;
            if told.failure.as_ref().is_some_and(|(waits, _)| *waits == number) {
                told.failure = None;
                above.state.fetch_and(!FAILED, Ordering::Relaxed);
            }
        }
        news.then_some(failure)
    }

    /// The first fault that an operation of this tally met and nobody took yet.
    pub fn fault(&self) -> Option<Fault> {
        self.told().failure.as_ref().map(|(_, Failure::Broken(fault) | Failure::Refused(fault))| fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    #[test]
    fn a_child_counts_in_its_parent() {
        let window = Tally::new();
        let (a, b) = (Tally::within(&window), Tally::within(&window));
        a.begin();
        b.begin();
        a.finish();
        assert!(a.idle());
        assert!(!b.idle());
        assert_eq!(window.outstanding(), 1);
        b.fail(&Fault { peer: Peer(3), reason: "gone".into() });
        assert!(window.idle() && !window.settled(), "a failure waits");
        assert_eq!(window.fault().map(|f| f.peer), Some(Peer(3)));
        assert!(a.fault().is_none() && b.has_failed() && !a.has_failed());
        let fault = Fault { peer: Peer(3), reason: "gone".into() };
        assert_eq!(window.take_failure(), Some(Failure::Broken(fault.clone())));
        assert!(window.take_failure().is_none() && !window.has_failed() && window.settled(), "told once");
        assert!(b.take_failure().is_none(), "told by its parent before");
        a.begin();
        a.refuse(&fault);
        assert_eq!(a.take_failure(), Some(Failure::Refused(fault)));
        assert!(window.take_failure().is_none() && !window.has_failed(), "told by its child before");
    }
}

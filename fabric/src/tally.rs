//! Completion by counting: the number of outstanding operations, and the answers of a post.
//!
//! A [`Tally`] counts the operations on one target of one window, or the operation of one request.
//! Each operation also counts in the tally's parent: the parent of a request's tally is the tally
//! of the target, whose parent is the tally of the window. A flush of all targets thus reads one
//! number, a flush of one target reads another, and neither walks a list.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Fault;
use crate::failures::{Failure, Failures};

/// The answer of a post, which never blocks.
#[derive(Debug)]
#[must_use]
pub enum Post {
    /// Complete at origin and target on return; the tally does not count it.
    Done,
    /// Accepted and counted by the tally; the count falls when the target has the data.
    Pending,
    /// Not accepted, without effect: make progress, then post again.
    Again,
    /// Not accepted: the peer can't be reached.
    Broken(Box<Fault>),
}

/// A tally that operations in flight share. The `Arc` has no weak count, because every target of
/// every window has a tally.
pub type TallyRef = triomphe::Arc<Tally>;

/// Bit of a tally's state: an operation failed. The bit shares a word with the count, so that a
/// flush loads one word.
const FAILED: u64 = 1 << 63;
/// Bit of a tally's state: an operation has failed at some time, so [`UNREPORTED`] may have entries
/// for the tally.
const EVER_FAILED: u64 = 1 << 62;

/// Bit of a tally's state: an operation other than a put was counted, so the outstanding operations
/// may not all be puts.
const MIXED: u64 = 1 << 61;

/// Bit of a tally's state: the next operation will probably be followed by others before its
/// completion is awaited. Set by [`Tally::follow`].
const FOLLOWED: u64 = 1 << 60;

/// Counts operations that were posted and are not complete at the target.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of outstanding operations, with the bits [`FAILED`], [`EVER_FAILED`], [`MIXED`]
    /// and [`FOLLOWED`].
    state: AtomicU64,
    parent: Option<TallyRef>,
}

/// Failures of all tallies that no call has reported yet.
static UNREPORTED: Mutex<Failures> = Mutex::new(Failures::new());

impl Tally {
    /// A tally without a parent, which may become the parent of others.
    #[allow(clippy::new_ret_no_self)] // a tally is always shared
    pub fn new() -> TallyRef {
        TallyRef::new(Tally::default())
    }

    /// A tally whose operations also count in `parent`.
    pub fn within(parent: &TallyRef) -> TallyRef {
        TallyRef::new(Tally { state: AtomicU64::new(0), parent: Some(parent.clone()) })
    }

    /// Counts one operation. Backends call it before they post the operation, so that the
    /// completion can't precede the count.
    #[inline]
    pub fn begin(&self) {
        // Relaxed: the thread that flushes is the one that posted, or was ordered after it by the
        // program.
        self.state.fetch_add(1, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.begin();
        }
    }

    /// Subtracts one operation that is complete: the target has the data, and the results of gets
    /// and atomics are in place. For backends.
    #[inline]
    pub fn finish(&self) {
        // Release: pairs with the Acquire in `idle`, so that a flush makes the data of the
        // operation visible.
        self.state.fetch_sub(1, Ordering::Release);
        if let Some(parent) = &self.parent {
            parent.finish();
        }
    }

    /// Subtracts one operation that will never complete, because the peer has ended. The tally and
    /// its parent keep the first failure.
    pub fn fail(&self, fault: &Fault) {
        self.record(&Failure::Broken(fault.clone()));
        self.finish();
    }

    /// Subtracts one operation that the peer refused to execute. The tally and its parent keep the
    /// first failure.
    pub fn refuse(&self, fault: &Fault) {
        self.record(&Failure::Refused(fault.clone()));
        self.finish();
    }

    /// Notes that an operation other than a put was counted, here and in the parents.
    #[inline]
    pub fn mix(&self) {
        // Relaxed: the reading thread has posted, or the program has ordered it after the posting
        // thread.
        for tally in self.upwards().filter(|tally| tally.state.load(Ordering::Relaxed) & MIXED == 0) {
            tally.state.fetch_or(MIXED, Ordering::Relaxed);
        }
    }

    /// Clears the mark of operations other than puts if no operation is outstanding.
    pub fn unmix(&self) {
        let counted = |state: u64| state & !(FAILED | EVER_FAILED | MIXED | FOLLOWED) != 0;
        // Relaxed: as in `mix`.
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            (state & MIXED != 0 && !counted(state)).then_some(state & !MIXED)
        });
    }

    /// Whether all outstanding operations are puts.
    #[inline]
    pub fn only_puts(&self) -> bool {
        // Relaxed: as in `mix`.
        self.state.load(Ordering::Relaxed) & MIXED == 0
    }

    /// Notes whether an operation was followed by another one before its completion was awaited.
    /// The note is a hint for the next operations: the caller need not note every operation.
    #[inline]
    pub fn follow(&self, followed: bool) {
        // Relaxed: a hint, which orders no other access.
        if (self.state.load(Ordering::Relaxed) & FOLLOWED != 0) == followed {
            return;
        }
        match followed {
            true => self.state.fetch_or(FOLLOWED, Ordering::Relaxed),
            false => self.state.fetch_and(!FOLLOWED, Ordering::Relaxed),
        };
    }

    /// Whether operations are outstanding, or will probably follow the next operation.
    #[inline]
    pub fn is_busy(&self) -> bool {
        // Acquire: as in `outstanding`.
        self.state.load(Ordering::Acquire) & !(FAILED | EVER_FAILED | MIXED) != 0
    }

    /// Whether an operation of this tally has failed, even if the failure was reported.
    pub fn has_ever_failed(&self) -> bool {
        // Acquire: pairs with the Release in `record`.
        self.state.load(Ordering::Acquire) & EVER_FAILED != 0
    }

    fn record(&self, failure: &Failure) {
        // The lock is held until the marks are set: a call that takes the failure clears them.
        let mut unreported = unreported();
        if unreported.keep(self.upwards().map(Tally::key).collect(), failure) {
            // Release: pairs with the Acquire in `has_failed` and `settled`.
            for tally in self.upwards() {
                tally.state.fetch_or(FAILED | EVER_FAILED, Ordering::Release);
            }
        }
    }

    /// The tally's number in [`UNREPORTED`]: its address, which is unique while the tally lives;
    /// drop removes the entry.
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// This tally, its parent, and so on.
    fn upwards(&self) -> impl Iterator<Item = &Tally> {
        std::iter::successors(Some(self), |tally| tally.parent.as_deref())
    }

    /// Whether `outer` is this tally or a parent of it, so that `outer` counts this tally's
    /// operations too.
    pub fn is_within(&self, outer: &Tally) -> bool {
        self.upwards().any(|tally| std::ptr::eq(tally, outer))
    }

    /// Whether no operation is outstanding. After `true`, all data that the completed operations
    /// wrote is visible.
    #[inline]
    pub fn idle(&self) -> bool {
        self.outstanding() == 0
    }

    /// The number of outstanding operations.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        // Acquire: pairs with the Release in `finish`.
        self.state.load(Ordering::Acquire) & !(FAILED | EVER_FAILED | MIXED | FOLLOWED)
    }

    /// Whether no operation is outstanding and no failure waits to be reported.
    #[inline]
    pub fn settled(&self) -> bool {
        // Acquire: pairs with the Release in `finish` and `record`.
        self.state.load(Ordering::Acquire) & !(EVER_FAILED | MIXED | FOLLOWED) == 0
    }

    /// Whether an operation of this tally failed and the failure has not been reported.
    #[inline]
    pub fn has_failed(&self) -> bool {
        // Acquire: pairs with the Release in `record`.
        self.state.load(Ordering::Acquire) & FAILED != 0
    }

    /// The first failure that has not been reported. All other failures of this tally count as
    /// reported with it: neither the parent nor a child reports them again, and both keep their
    /// remaining failures.
    #[inline]
    pub fn take_failure(&self) -> Option<Failure> {
        if self.has_failed() { self.take_recorded() } else { None }
    }

    #[cold]
    fn take_recorded(&self) -> Option<Failure> {
        let mut unreported = unreported();
        let first = unreported.take(self.key());
        for tally in self.upwards().filter(|tally| !unreported.has(tally.key())) {
            // Relaxed: the failures themselves are under the lock.
            tally.state.fetch_and(!FAILED, Ordering::Relaxed);
        }
        first
    }

    /// Whether the first failure that has not been reported is a refusal.
    pub fn is_refused(&self) -> bool {
        matches!(unreported().first(self.key()), Some(Failure::Refused(_)))
    }

    /// Clears the mark of a failure if no failure of this tally is left to report, because a parent
    /// has reported them.
    pub fn forget_reported(&self) {
        let unreported = unreported();
        if !unreported.has(self.key()) {
            // Relaxed: the failures themselves are under the lock.
            self.state.fetch_and(!FAILED, Ordering::Relaxed);
        }
    }

    /// The fault of the first failure that has not been reported.
    pub fn fault(&self) -> Option<Fault> {
        let unreported = unreported();
        let (Failure::Broken(fault) | Failure::Refused(fault)) = unreported.first(self.key())?;
        Some(fault.clone())
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if *self.state.get_mut() & EVER_FAILED != 0 {
            unreported().forget(self.key());
        }
    }
}

fn unreported() -> MutexGuard<'static, Failures> {
    UNREPORTED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;
    use crate::Reason;

    #[test]
    fn a_tally_that_expects_operations_is_idle() {
        let (window, fault) = (Tally::new(), Fault::new(Peer(1), Reason::Died));
        let tally = Tally::within(&window);
        tally.follow(true);
        assert!(tally.is_busy() && tally.idle() && tally.settled() && tally.only_puts() && !window.is_busy());
        tally.begin();
        tally.mix();
        tally.unmix();
        assert!(!tally.only_puts() && tally.outstanding() == 1);
        tally.fail(&fault);
        assert!(tally.idle() && !tally.settled() && tally.take_failure().is_some());
        tally.unmix();
        assert!(tally.settled() && tally.only_puts() && tally.is_busy());
        tally.follow(false);
        assert!(!tally.is_busy());
    }

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
        b.fail(&Fault::new(Peer(3), Reason::Died));
        assert!(window.idle() && !window.settled(), "a failure waits");
        assert_eq!(window.fault().map(|f| f.peer), Some(Peer(3)));
        assert!(a.fault().is_none() && b.has_failed() && !a.has_failed());
        let fault = Fault::new(Peer(3), Reason::Died);
        assert_eq!(window.take_failure(), Some(Failure::Broken(fault.clone())));
        assert!(window.take_failure().is_none() && !window.has_failed() && window.settled(), "reported once");
        assert!(b.take_failure().is_none(), "its parent has reported it");
        a.begin();
        a.refuse(&fault);
        assert_eq!(a.take_failure(), Some(Failure::Refused(fault)));
        assert!(window.take_failure().is_none() && !window.has_failed(), "its child has reported it");
    }

    /// A get with a request also marks the parents, until their counts are zero and the marks are
    /// cleared.
    #[test]
    fn puts_are_distinguished_from_other_operations() {
        let window = Tally::new();
        let (a, b) = (Tally::within(&window), Tally::within(&window));
        let request = Tally::within(&a);
        b.begin();
        assert!(a.only_puts() && b.only_puts() && window.only_puts());
        request.begin();
        request.mix();
        assert!(!a.only_puts() && !window.only_puts() && b.only_puts());
        assert_eq!((a.outstanding(), window.outstanding()), (1, 2));
        a.unmix();
        assert!(!a.only_puts(), "the get is in flight");
        request.finish();
        assert!(a.idle() && a.settled() && !a.only_puts());
        a.unmix();
        window.unmix();
        assert!(a.only_puts() && !window.only_puts(), "a put of the window is in flight");
        b.fail(&Fault::new(Peer(3), Reason::Died));
        window.unmix();
        assert!(window.only_puts() && window.has_failed());
    }

    /// A failure reported by one child leaves the failures of the others unreported, in the parent
    /// too.
    #[test]
    fn failures_of_several_children_are_each_reported() {
        let window = Tally::new();
        let (a, b) = (Tally::within(&window), Tally::within(&window));
        let (first, second) = (Tally::within(&a), Tally::within(&a));
        let fault = |peer| Fault::new(Peer(peer), Reason::Died);
        let refuse = |tally: &Tally, peer| {
            tally.begin();
            tally.refuse(&fault(peer));
        };
        refuse(&a, 1);
        refuse(&b, 2);
        refuse(&a, 3);
        assert_eq!(a.take_failure(), Some(Failure::Refused(fault(1))), "of its own the first");
        assert_eq!(window.take_failure(), Some(Failure::Refused(fault(2))));
        assert!(
            a.take_failure().is_none() && b.take_failure().is_none() && window.settled(),
            "all failures are reported"
        );
        refuse(&first, 4);
        refuse(&second, 5);
        assert_eq!(first.take_failure(), Some(Failure::Refused(fault(4))));
        assert!(a.has_failed() && window.has_failed());
        assert_eq!(a.take_failure(), Some(Failure::Refused(fault(5))));
        assert!(second.take_failure().is_none() && window.settled(), "the parent has reported it");
        refuse(&second, 6);
        assert_eq!(
            second.take_failure(),
            Some(Failure::Refused(fault(6))),
            "a new failure after one that the parent reported"
        );
        assert!(a.settled() && window.settled());
        refuse(&first, 7);
        refuse(&a, 8);
        assert_eq!(first.take_failure(), Some(Failure::Refused(fault(7))));
        assert_eq!(window.take_failure(), Some(Failure::Refused(fault(8))), "its own beside one from below");
        refuse(&first, 9);
        drop(first);
        assert_eq!(a.take_failure(), Some(Failure::Refused(fault(9))), "of a tally that is gone");
        assert!(window.settled());
    }
}

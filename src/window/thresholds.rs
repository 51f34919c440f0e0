//! Requests that are complete when a counter of notified operations has reached a value. A reset
//! zeroes the counter. It therefore marks the requests whose value the counter had reached, so that
//! a later test still finds them complete.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The value for which a request waits.
#[derive(Debug)]
pub(crate) struct Threshold {
    pub(super) index: usize,
    pub(super) value: u64,
    state: AtomicU8,
}

/// The value is not reached yet, and no reset has concerned the threshold.
const OPEN: u8 = 0;
/// A thread has seen the value reached.
const REACHED: u8 = 1;
/// The counter was removed before it reached the value.
const REMOVED: u8 = 2;
/// The value was reached before a reset.
const BEFORE_RESET: u8 = 3;
/// The window was freed before the value was reached.
const FREED: u8 = 4;

impl Threshold {
    /// Whether the wait is over: the value was reached, the counter was removed, or the window was
    /// freed.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        // Acquire: pairs with the Release in `end`, so that the counted data is visible.
        self.state.load(Ordering::Acquire) != OPEN
    }

    /// Whether the counter was removed before it had reached the value.
    pub(super) fn is_removed(&self) -> bool {
        self.state.load(Ordering::Acquire) == REMOVED
    }

    /// Whether the window was freed before the counter had reached the value.
    pub(super) fn is_freed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FREED
    }

    /// Whether a reset has found that the counter had reached the value.
    pub(super) fn is_before_reset(&self) -> bool {
        self.state.load(Ordering::Acquire) == BEFORE_RESET
    }

    /// Records that the counter has reached the value, which a reset may hide from now on.
    pub(super) fn reach(&self) {
        self.end(REACHED);
    }

    fn end(&self, state: u8) {
        // Release: pairs with the Acquire in `has_ended`. A threshold ends once.
        let _ = self.state.compare_exchange(OPEN, state, Ordering::Release, Ordering::Relaxed);
    }
}

/// The thresholds of a window's counters that have requests.
#[derive(Debug, Default)]
pub(super) struct Thresholds {
    /// Whether there may be one, so that resets usually take no lock.
    any: AtomicBool,
    list: Mutex<Vec<Weak<Threshold>>>,
}

impl Thresholds {
    pub(super) fn add(&self, index: usize, value: u64) -> Arc<Threshold> {
        let new = Arc::new(Threshold { index, value, state: AtomicU8::new(OPEN) });
        let mut list = self.lock();
        if list.len() == list.capacity() {
            list.retain(|known| known.strong_count() > 0);
        }
        list.push(Arc::downgrade(&new));
        // SeqCst: a thread that sees the request and then resets the counter sees this too.
        self.any.store(true, Ordering::SeqCst);
        new
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Threshold>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests may wait.
    pub(super) fn may_wait(&self) -> bool {
        // SeqCst: as in `add`.
        self.any.load(Ordering::SeqCst)
    }

    /// Zeroes counter `index` by `reset`, which returns its last value, and ends the thresholds
    /// that this value has reached.
    #[inline]
    pub(super) fn reset(&self, index: usize, reset: impl FnOnce() -> u64) -> u64 {
        if !self.may_wait() {
            return reset();
        }
        // A request that is made after the reset is not in the list yet.
        let mut list = self.lock();
        let value = reset();
        self.end(&mut list, |threshold| (threshold.index == index && value >= threshold.value).then_some(BEFORE_RESET));
        value
    }

    /// Ends the thresholds before all counters are zeroed, and only the first `number` are kept.
    /// `value`: the value of a counter.
    pub(super) fn reset_all(&self, number: usize, value: impl Fn(usize) -> u64) {
        if self.may_wait() {
            self.end(&mut self.lock(), |threshold| match value(threshold.index) >= threshold.value {
                true => Some(BEFORE_RESET),
                false => (threshold.index >= number).then_some(REMOVED),
            });
        }
    }

    /// Ends all thresholds, because the window is freed. `value`: the value of a counter.
    pub(super) fn free(&self, value: impl Fn(usize) -> u64) {
        if self.may_wait() {
            let state = |threshold: &Threshold| match value(threshold.index) >= threshold.value {
                true => REACHED,
                false => FREED,
            };
            self.end(&mut self.lock(), |threshold| Some(state(threshold)));
        }
    }

    #[cold]
    fn end(&self, list: &mut Vec<Weak<Threshold>>, state: impl Fn(&Threshold) -> Option<u8>) {
        list.retain(|known| known.strong_count() > 0);
        for threshold in list.iter().filter_map(Weak::upgrade) {
            if let Some(state) = state(&threshold) {
                threshold.end(state);
            }
        }
        self.any.store(!list.is_empty(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_ends_the_thresholds_that_were_reached() {
        let all = Thresholds::default();
        let [low, high, other] = [(0, 3), (0, 4), (1, 1)].map(|(index, value)| all.add(index, value));
        assert_eq!(all.reset(0, || 3), 3);
        assert!(low.has_ended() && !low.is_removed() && !high.has_ended() && !other.has_ended());
        all.reset_all(1, |index| if index == 0 { 4 } else { 0 });
        assert!(high.has_ended() && !high.is_removed() && other.is_removed());
        drop((low, high, other));
        all.reset(0, || 1);
        assert!(!all.may_wait(), "no request is left");
    }

    #[test]
    fn no_threshold_waits_for_a_window_that_is_freed() {
        let all = Thresholds::default();
        let [reached, not] = [3, 4].map(|value| all.add(0, value));
        all.free(|_| 3);
        assert!(reached.has_ended() && !reached.is_freed() && not.is_freed());
    }
}

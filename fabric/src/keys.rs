//! The keys of regions where the process chooses them, and small ones are better or few: each is the lowest that is free,
//! and goes back when its region is gone. Knows nothing of what a key opens.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The keys of one endpoint. Where they are plenty none is used twice, so that a stale one opens nothing.
#[derive(Debug)]
pub struct Keys {
    range: KeyRange,
    state: Mutex<State>,
}

/// Which keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Regions whose keys are below it are the provider's fast ones.
    pub fast: u64,
    /// The first number that is no key.
    pub end: u64,
    /// Keys are too few to be used once.
    pub reused: bool,
}

#[derive(Debug)]
struct State {
    /// Given back, and to be used again.
    free: BTreeSet<u64>,
    /// The lowest that were never given out: below `fast`, and from there on.
    next: [u64; 2],
}

impl KeyRange {
    /// All numbers, each used once.
    pub const PLENTY: KeyRange = KeyRange { fast: 0, end: u64::MAX, reused: false };
}

impl Keys {
    /// All keys of a range, free.
    pub fn new(range: KeyRange) -> Keys {
        Keys { range, state: Mutex::new(State { free: BTreeSet::new(), next: [0, range.fast] }) }
    }

    /// A key: a fast one while there is one. `None`: all are in use.
    pub fn take(&self) -> Option<u64> {
        let fast = self.take_within(0, self.range.fast);
        fast.or_else(|| self.take_standard())
    }

    /// A key that is none of the fast ones, which a provider may have fewer of than it has keys for.
    pub fn take_standard(&self) -> Option<u64> {
        self.take_within(1, self.range.end)
    }

    /// The lowest free key of one kind, which ends at `end`.
    fn take_within(&self, kind: usize, end: u64) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = if kind == 0 { 0 } else { self.range.fast };
        if let Some(key) = state.free.range(begin..end).next().copied() {
            state.free.remove(&key);
            return Some(key);
        }
        let key = state.next[kind];
        (key < end).then(|| {
            state.next[kind] += 1;
            key
        })
    }

    /// Takes back the key of a region that is gone.
    pub fn give_back(&self, key: u64) {
        if self.range.reused {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).free.insert(key);
        }
    }

    /// Whether a key is one of the fast ones.
    pub fn is_fast(&self, key: u64) -> bool {
        key < self.range.fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_keys_come_first_and_again_when_they_are_free() {
        let keys = Keys::new(KeyRange { fast: 2, end: 5, reused: true });
        assert_eq!([(); 6].map(|()| keys.take()), [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
        keys.give_back(3);
        keys.give_back(1);
        assert_eq!(keys.take_standard(), Some(3));
        assert_eq!(keys.take_standard(), None);
        assert_eq!([keys.take(), keys.take()], [Some(1), None]);
        assert!(keys.is_fast(1) && !keys.is_fast(2));
    }

    #[test]
    fn plenty_are_used_once() {
        let keys = Keys::new(KeyRange::PLENTY);
        let first = keys.take().expect("plenty");
        keys.give_back(first);
        assert_ne!(keys.take(), Some(first));
    }
}

//! The choice of keys of regions, for providers that let the process choose them. Long keys are
//! random, so that a process without the key can't access the region. Short keys, and keys of
//! providers that prefer small ones, are the lowest free numbers. Independent of the regions.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::{FabricError, Reason, secret};

/// Issues the keys of an endpoint, and takes them back.
#[derive(Debug)]
pub struct Keys {
    range: KeyRange,
    state: Mutex<State>,
}

/// The range of keys, and the choice among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that is not fast: keys below it select the provider's fast regions.
    pub fast: u64,
    /// The first number that is not a key.
    pub end: u64,
    /// The choice of a new key.
    pub choice: KeyChoice,
}

/// The choice of a region's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// 63 random bits: neither a stale nor a guessed key gives access.
    Secret,
    /// The lowest key that was never used: a stale key gives no access.
    Once,
    /// The lowest free key: there are too few to use each only once.
    Reused,
}

#[derive(Debug)]
struct State {
    /// Returned keys, free for reuse.
    free: BTreeSet<u64>,
    /// The lowest keys that were never issued: below `fast`, and from `fast` on.
    next: [u64; 2],
}

impl KeyRange {
    /// All 64-bit numbers, each used once.
    pub const PLENTY: KeyRange = KeyRange { fast: 0, end: u64::MAX, choice: KeyChoice::Once };
    /// Random numbers of 63 bits: providers may give the highest bit a meaning.
    pub const SECRET: KeyRange = KeyRange { fast: 0, end: 1 << 63, choice: KeyChoice::Secret };
}

impl Keys {
    /// All keys of a range, free.
    pub fn new(range: KeyRange) -> Keys {
        Keys { range, state: Mutex::new(State { free: BTreeSet::new(), next: [0, range.fast] }) }
    }

    /// Issues a key: a fast one while one is free.
    ///
    /// # Errors
    /// All keys are in use, or the kernel gives no random numbers.
    pub fn take(&self) -> Result<u64, FabricError> {
        match self.take_within(0, self.range.fast) {
            Some(fast) => Ok(fast),
            None => self.take_standard(),
        }
    }

    /// Issues a key that is not fast: a provider may support fewer fast regions than it has fast
    /// keys.
    ///
    /// # Errors
    /// Those of [`Keys::take`].
    pub fn take_standard(&self) -> Result<u64, FabricError> {
        if self.range.choice == KeyChoice::Secret {
            return Ok(secret::word()? % self.range.end);
        }
        let used_up = || FabricError::failed("a key for memory", Reason::NoKey);
        self.take_within(1, self.range.end).ok_or_else(used_up)
    }

    /// The lowest free key of a kind, below `end`. `kind` is 0 for fast keys and 1 for others.
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

    /// Returns the key of a dropped region.
    pub fn give_back(&self, key: u64) {
        if self.range.choice == KeyChoice::Reused {
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
    fn fast_keys_are_issued_first_and_reused() {
        let keys = Keys::new(KeyRange { fast: 2, end: 5, choice: KeyChoice::Reused });
        let taken = [(); 6].map(|()| keys.take().ok());
        assert_eq!(taken, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
        keys.give_back(3);
        keys.give_back(1);
        assert_eq!(keys.take_standard().ok(), Some(3));
        assert!(keys.take_standard().is_err());
        assert_eq!([keys.take().ok(), keys.take().ok()], [Some(1), None]);
        assert!(keys.is_fast(1) && !keys.is_fast(2));
    }

    #[test]
    fn long_keys_are_never_reused() {
        let keys = Keys::new(KeyRange::PLENTY);
        let first = keys.take().expect("plenty");
        keys.give_back(first);
        assert_ne!(keys.take().ok(), Some(first));
    }

    /// Each of the 63 bits is set in some of 64 keys and clear in others, and all keys differ: a
    /// counter, or a random word of fewer bits, fails this test.
    #[test]
    fn secret_keys_are_random_in_all_bits() {
        let keys = Keys::new(KeyRange::SECRET);
        let taken: BTreeSet<u64> = (0..64).map(|_| keys.take().expect("random numbers")).collect();
        assert_eq!(taken.len(), 64);
        let set = taken.iter().fold(0, |all, key| all | key);
        let clear = taken.iter().fold(0, |all, key| all | !key);
        assert_eq!((set, clear), (u64::MAX >> 1, u64::MAX));
        taken.iter().for_each(|&key| keys.give_back(key));
        assert!(!taken.contains(&keys.take().expect("random numbers")), "none is used again");
    }
}

//! A map from the host's handles to what is kept for them. Readers take no lock: every operation on a window asks it. It knows
//! nothing of what it keeps.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::host::Key;

/// How many places a map has; at most half of them are used.
const PLACES: usize = 8192;
const BITS: u32 = PLACES.trailing_zeros();

/// Handles and what is kept for each. Memory of a value ends when its handle is removed, so that whoever uses it must not race
/// with the end of the handle, as MPI demands of programs.
pub(crate) struct Handles<T> {
    keys: [AtomicUsize; PLACES],
    values: [AtomicPtr<T>; PLACES],
    /// How many places are or were used; held while the map changes.
    used: Mutex<usize>,
}

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles {
            keys: [const { AtomicUsize::new(0) }; PLACES],
            values: [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES],
            used: Mutex::new(0),
        }
    }

    /// What is kept for a handle.
    #[inline]
    pub(crate) fn get(&self, handle: impl Key) -> Option<&'static T> {
        let key = handle.key();
        let mut place = first(key);
        loop {
            // Acquire: pairs with the Release in `insert`, as does the one below: the value is whole.
            let found = self.keys[place].load(Ordering::Acquire);
            if found == key {
                let value = self.values[place].load(Ordering::Acquire);
                if !value.is_null() {
                    // SAFETY: it came from a box in `insert`. It lives until `remove`, which does not race with the handle's users.
                    return unsafe { value.as_ref() };
                }
            }
            if found == 0 {
                return None;
            }
            place = (place + 1) % PLACES;
        }
    }

    /// Keeps `value` for a handle; what is kept, which is what somebody else kept meanwhile where that came first. The value again
    /// where the map is full.
    pub(crate) fn insert(&self, handle: impl Key, value: T) -> Result<&'static T, T> {
        let key = handle.key();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut place, mut dead) = (first(key), None);
        // Relaxed, here and below: only this function and `remove` write, under the mutex.
        let fresh = loop {
            let found = self.keys[place].load(Ordering::Relaxed);
            let value = self.values[place].load(Ordering::Relaxed);
            if found == key && !value.is_null() {
                // SAFETY: as in `get`.
                return Ok(unsafe { &*value });
            }
            if found != 0 && value.is_null() {
                dead.get_or_insert(place);
            }
            if found == 0 {
                break place;
            }
            place = (place + 1) % PLACES;
        };
        if dead.is_none() {
            if *used >= PLACES / 2 {
                return Err(value);
            }
            *used += 1;
        }
        let place = dead.unwrap_or(fresh);
        let value = Box::into_raw(Box::new(value));
        // Release both: pair with the Acquire loads in `get`. Nobody looks for this handle yet.
        self.keys[place].store(key, Ordering::Release);
        self.values[place].store(value, Ordering::Release);
        // SAFETY: it was boxed just now.
        Ok(unsafe { &*value })
    }

    /// Ends what is kept for a handle, if anything is.
    pub(crate) fn remove(&self, handle: impl Key) {
        let key = handle.key();
        let _used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = first(key);
        loop {
            match self.keys[place].load(Ordering::Relaxed) {
                0 => return,
                found if found == key && !self.values[place].load(Ordering::Relaxed).is_null() => break,
                _ => place = (place + 1) % PLACES,
            }
        }
        // Relaxed: whoever used the handle has ended, as MPI demands, and was ordered by that. The key stays: chains go over it.
        let value = self.values[place].swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !value.is_null() {
            // SAFETY: it came from a box in `insert`, and nobody else has taken it.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

/// Where the search for a key begins: neighbours in handles, or in addresses, come apart.
#[inline]
fn first(key: usize) -> usize {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - BITS)
}

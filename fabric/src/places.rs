//! A table of values by small numbers, their *places*. Values are added and removed seldom; an
//! arriving number looks its value up.
//!
//! **Readers take no lock.** A place has one word: whether a value is present, and the number of
//! readers. A reader counts itself in, uses the value if it is present, and counts itself out. A
//! removal first marks the value as absent, and takes the value when the last reader has left.

use std::fmt;
use std::sync::OnceLock;

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    thread::yield_now,
};
#[cfg(not(loom))]
use std::{
    cell::UnsafeCell,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    thread::yield_now,
};

/// The places of a block, which is allocated when the first of them is used.
const BLOCK: usize = if cfg!(loom) { 1 } else { 64 };
const BLOCKS: usize = if cfg!(loom) { 1 } else { 32 };

/// The bit of a place's word that says that a value is present. The other bits count readers.
const PRESENT: u32 = 1 << 31;

/// A table of at most [`Places::MOST`] values.
pub struct Places<T> {
    blocks: [OnceLock<Box<[Place<T>]>>; BLOCKS],
    /// The places that have values. Held while a value is added or removed.
    used: Mutex<Vec<bool>>,
}

struct Place<T> {
    /// [`PRESENT`], and the number of readers.
    state: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: a value is lent to several threads at a time (`T: Sync`), and added by one thread and
// removed or dropped by another (`T: Send`).
unsafe impl<T: Send + Sync> Sync for Places<T> {}
// SAFETY: as for `Sync`.
unsafe impl<T: Send> Send for Places<T> {}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Places { blocks: [const { OnceLock::new() }; BLOCKS], used: Mutex::new(Vec::new()) }
    }
}

impl<T> fmt::Debug for Places<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("values", &self.used().iter().filter(|used| **used).count()).finish()
    }
}

impl<T> Places<T> {
    /// The most values.
    pub const MOST: usize = BLOCK * BLOCKS;

    /// Adds a value; returns its place, which is the lowest free one, or `None` if all are used.
    pub fn add(&self, value: T) -> Option<usize> {
        let mut used = self.used();
        let free = used.iter().position(|used| !used).unwrap_or(used.len());
        if free == Self::MOST {
            return None;
        }
        let block = self.blocks[free / BLOCK].get_or_init(|| (0..BLOCK).map(|_| Place::<T>::empty()).collect());
        let place = &block[free % BLOCK];
        // SAFETY: the place has no value, so that no reader uses the cell, and the lock excludes
        // other additions and removals.
        unsafe { place.set(Some(value)) };
        // Release: pairs with the Acquire of a reader.
        place.state.fetch_or(PRESENT, Ordering::Release);
        match used.get_mut(free) {
            Some(used) => *used = true,
            None => used.push(true),
        }
        Some(free)
    }

    /// Removes the value of a place, and waits until no thread reads it.
    pub fn remove(&self, at: usize) -> Option<T> {
        let mut used = self.used();
        let place = self.place(at)?;
        let is_used = used.get_mut(at)?;
        if !std::mem::take(is_used) {
            return None;
        }
        place.state.fetch_and(!PRESENT, Ordering::Relaxed);
        // Acquire: pairs with the Release of the readers that have left.
        while place.state.load(Ordering::Acquire) != 0 {
            yield_now();
        }
        // SAFETY: readers that come now find no value, those from before have left, and the lock
        // excludes other additions and removals.
        unsafe { place.set(None) }
    }

    /// Calls `read` with the value of a place, if there is one. `read` must not remove it.
    #[inline]
    pub fn read<R>(&self, at: usize, read: impl FnOnce(&T) -> R) -> Option<R> {
        /// Counts a reader out, also when `read` panics.
        struct Reading<'p>(&'p AtomicU32);
        impl Drop for Reading<'_> {
            #[inline]
            fn drop(&mut self) {
                // Release: pairs with the Acquire in `remove`.
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        let place = self.place(at)?;
        // Acquire: pairs with the Release in `add`.
        let before = place.state.fetch_add(1, Ordering::Acquire);
        let _reading = Reading(&place.state);
        if before & PRESENT == 0 {
            return None;
        }
        // SAFETY: the value was present when this reader was counted, so that it is neither changed
        // nor removed before the reader is counted out.
        unsafe { place.get(read) }
    }

    fn place(&self, at: usize) -> Option<&Place<T>> {
        self.blocks.get(at / BLOCK)?.get()?.get(at % BLOCK)
    }

    fn used(&self) -> MutexGuard<'_, Vec<bool>> {
        self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> Place<T> {
    fn empty() -> Place<T> {
        Place { state: AtomicU32::new(0), value: UnsafeCell::new(None) }
    }

    /// Replaces the value.
    ///
    /// # Safety
    /// No other thread uses the cell.
    unsafe fn set(&self, value: Option<T>) -> Option<T> {
        #[cfg(loom)]
        let place = self.value.get_mut();
        // SAFETY: the caller's promise.
        #[cfg(loom)]
        return std::mem::replace(unsafe { place.deref() }, value);
        // SAFETY: the caller's promise.
        #[cfg(not(loom))]
        return std::mem::replace(unsafe { &mut *self.value.get() }, value);
    }

    /// Calls `read` with the value.
    ///
    /// # Safety
    /// No thread changes the cell during the call.
    #[inline]
    unsafe fn get<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        #[cfg(loom)]
        let place = self.value.get();
        // SAFETY: the caller's promise.
        #[cfg(loom)]
        return unsafe { place.deref() }.as_ref().map(read);
        // SAFETY: the caller's promise.
        #[cfg(not(loom))]
        return unsafe { &*self.value.get() }.as_ref().map(read);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_place_is_used_first() {
        let places = Places::default();
        assert_eq!((0..130).map(|value| places.add(value)).collect::<Vec<_>>(), (0..130).map(Some).collect::<Vec<_>>());
        assert_eq!((places.read(129, |value| *value), places.read(130, |value| *value)), (Some(129), None));
        assert_eq!([places.remove(70), places.remove(70), places.remove(5000)], [Some(70), None, None]);
        assert_eq!(
            (places.read(70, |value| *value), places.add(7), places.read(70, |value| *value)),
            (None, Some(70), Some(7))
        );
    }

    #[test]
    fn the_number_of_values_is_limited() {
        let places = Places::default();
        assert_eq!((0..Places::<()>::MOST).filter(|_| places.add(()).is_some()).count(), Places::<()>::MOST);
        assert_eq!((places.add(()), places.remove(3), places.add(())), (None, Some(()), Some(3)));
    }

    /// Threads read a place whose value is added and removed: each value is whole.
    #[test]
    fn values_are_whole_while_they_are_replaced() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 5000 };
        let (places, value) = (Places::default(), |round: u64| vec![round; 3]);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < ROUNDS {
                        if let Some(read) = places.read(0, Vec::clone) {
                            assert!(read.len() == 3 && read[0] >= last && read == value(read[0]), "{read:?}");
                            last = read[0];
                        }
                    }
                });
            }
            for round in 1..=ROUNDS {
                assert_eq!(places.add(value(round)), Some(0));
                if round < ROUNDS {
                    assert_eq!(places.remove(0), Some(value(round)));
                }
            }
        });
    }

    #[test]
    fn a_reader_that_panics_is_counted_out() {
        let places = Places::default();
        places.add(1);
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| places.read(0, |_| panic!("a reader"))));
        assert!(read.is_err() && places.remove(0) == Some(1));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A reader finds the old value, the new one, or none, and never uses a cell that changes.
    #[test]
    fn loom_readers_exclude_changes() {
        loom::model(|| {
            let places = Arc::new(Places::default());
            assert_eq!(places.add(1), Some(0));
            let reader = {
                let places = Arc::clone(&places);
                thread::spawn(move || assert!(matches!(places.read(0, |value| *value), None | Some(1 | 2))))
            };
            assert_eq!((places.remove(0), places.add(2)), (Some(1), Some(0)));
            reader.join().expect("the reader ends");
            assert_eq!(places.read(0, |value| *value), Some(2));
        });
    }

    #[test]
    fn loom_two_readers_both_leave_before_a_removal() {
        loom::model(|| {
            let places = Arc::new(Places::default());
            assert_eq!(places.add(1), Some(0));
            let readers = [0, 1].map(|_| {
                let places = Arc::clone(&places);
                thread::spawn(move || assert!(matches!(places.read(0, |value| *value), None | Some(1))))
            });
            assert_eq!(places.remove(0), Some(1));
            readers.into_iter().for_each(|reader| reader.join().expect("the reader ends"));
        });
    }
}

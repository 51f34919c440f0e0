//! A map from the host's handles to values. Readers take no lock, because every operation on a
//! window reads the map. The table must not know its values.
//!
//! Handles are in tables with linear probing, at most half full. When a table is full, a larger one
//! is added, and tables are never freed. Writers take turns. A search without a lock finds a handle
//! that was inserted before and not removed, because of three rules:
//!
//! - The key of a place is written after its value, so that a reader who sees the key sees the
//!   value.
//! - From the first place of a live handle's search to its own place, no place is empty. This holds
//!   at the insertion, and a removal leaves a *tombstone*. A tombstone becomes empty again only if
//!   the next place is empty, so that no live handle's search passes it. Without this reuse,
//!   handles that come and go would use up all places.
//! - A removed key is overwritten, so that a search for a handle that the host has reused finds
//!   nothing.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::host::Key;

/// The number of places of the first table. Each further table has four times as many.
const PLACES: usize = 8192;
const GROWTH: usize = 4;
/// The greatest number of tables: for 5 million handles at the same time.
const TABLES: usize = 6;

/// Keys that no handle has: of a place that was never used or may be reused, and of a place that a
/// search passes over.
const EMPTY: usize = 0;
const TOMBSTONE: usize = usize::MAX;

/// A map from handles to values. A value is freed when its handle is removed. Its users must not
/// race with the end of the handle, as MPI demands of programs.
pub(crate) struct Handles<T> {
    first: [Place<T>; PLACES],
    further: [OnceLock<Box<[Place<T>]>>; TABLES - 1],
    /// The number of places of each table that are not empty. The lock is held while the map
    /// changes.
    used: Mutex<[usize; TABLES]>,
}

struct Place<T> {
    key: AtomicUsize,
    value: AtomicPtr<T>,
}

impl<T> Place<T> {
    const fn new() -> Place<T> {
        Place { key: AtomicUsize::new(EMPTY), value: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles {
            first: [const { Place::new() }; PLACES],
            further: [const { OnceLock::new() }; TABLES - 1],
            used: Mutex::new([0; TABLES]),
        }
    }

    /// The value of a handle.
    #[inline]
    pub(crate) fn get(&self, handle: impl Key) -> Option<&'static T> {
        let key = handle.key();
        match search(&self.first, key) {
            Ok(place) => value_of(&self.first[place]),
            Err(_) => self.get_further(key),
        }
    }

    /// Whether the handle has a value for which `is_it`. Other threads may end the value meanwhile.
    pub(crate) fn has(&self, handle: impl Key, is_it: impl FnOnce(&T) -> bool) -> bool
    where
        T: 'static,
    {
        // The lock keeps the value.
        let _used = self.changing();
        self.get(handle).is_some_and(is_it)
    }

    #[cold]
    fn get_further(&self, key: usize) -> Option<&'static T> {
        let tables = self.further.iter().map_while(OnceLock::get);
        tables.filter_map(|table| value_of(&table[search(table, key).ok()?])).next()
    }

    /// Inserts `value` for a handle that has none. Returns the value in the map, which is another
    /// thread's value if that thread was first. If the map is full, returns `value` as the error.
    pub(crate) fn insert(&self, handle: impl Key, value: T) -> Result<&'static T, T> {
        let mut used = self.changing();
        match self.place_of(handle.key()).and_then(|(table, place)| value_of(&self.table(table)?[place])) {
            Some(kept) => Ok(kept),
            None => self.put(&mut used, handle.key(), value),
        }
    }

    /// Inserts `value` for a handle. The owner of the handle's previous value ends this value by
    /// [`Handles::remove`]. If the map is full, returns `value` as the error. A handle that was
    /// reserved always has room.
    pub(crate) fn replace(&self, handle: impl Key, value: T) -> Result<&'static T, T> {
        let mut used = self.changing();
        self.clear(&mut used, handle.key());
        self.put(&mut used, handle.key(), value)
    }

    /// Keeps a place for the value that [`Handles::replace`] will insert for a handle. The previous
    /// value of the handle remains its owner's. Returns whether the map has room.
    pub(crate) fn reserve(&self, handle: impl Key) -> bool {
        let mut used = self.changing();
        self.clear(&mut used, handle.key());
        let place = self.place_for(&mut used, handle.key());
        // Relaxed: the place has no value.
        place.inspect(|place| place.key.store(handle.key(), Ordering::Relaxed)).is_some()
    }

    /// Removes a handle without ending its value, which its owner keeps.
    pub(crate) fn forget(&self, handle: impl Key) {
        self.clear(&mut self.changing(), handle.key());
    }

    /// Ends the value of a handle, if it has one.
    pub(crate) fn end(&self, handle: impl Key) {
        let mut used = self.changing();
        let value = self.clear(&mut used, handle.key());
        // SAFETY: the value came from a box in `put`. Its users have ended, as MPI demands, and no
        // other thread has taken it. `has` reads it only under the lock.
        drop(value.map(|value| unsafe { Box::from_raw(value) }));
    }

    /// Ends `kept`, a value of this map, and removes it from the handle unless the handle has
    /// another value by now.
    ///
    /// # Safety
    /// The value has no users any more, and is ended once.
    pub(crate) unsafe fn remove(&self, handle: impl Key, kept: &'static T) {
        let mut used = self.changing();
        let here = self.place_of(handle.key()).and_then(|(table, place)| value_of(&self.table(table)?[place]));
        if here.is_some_and(|here| std::ptr::eq(here, kept)) {
            self.clear(&mut used, handle.key());
        }
        // SAFETY: the value came from a box in `put`; the caller's promise.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(kept).cast_mut()) });
    }

    fn changing(&self) -> MutexGuard<'_, [usize; TABLES]> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self, number: usize) -> Option<&[Place<T>]> {
        if number == 0 { Some(&self.first) } else { self.further.get(number - 1)?.get().map(|table| &**table) }
    }

    /// The table and the place of a key.
    fn place_of(&self, key: usize) -> Option<(usize, usize)> {
        (0..TABLES).find_map(|number| Some((number, search(self.table(number)?, key).ok()?)))
    }

    /// A free place for a key that is not in the map; `None` if the map is full. The caller writes
    /// the key.
    fn place_for(&self, used: &mut [usize; TABLES], key: usize) -> Option<&Place<T>> {
        (0..TABLES).find_map(|number| {
            let size = PLACES * GROWTH.pow(u32::try_from(number).ok()?);
            if number > 0 {
                self.further[number - 1].get_or_init(|| (0..size).map(|_| Place::new()).collect());
            }
            let table = self.table(number)?;
            let place = search(table, key).err()?;
            let fresh = table[place].key.load(Ordering::Relaxed) == EMPTY;
            if fresh && used[number] >= size / 2 {
                return None;
            }
            used[number] += usize::from(fresh);
            Some(&table[place])
        })
    }

    /// Inserts a key that is not in the map, with a value.
    fn put(&self, used: &mut [usize; TABLES], key: usize, value: T) -> Result<&'static T, T> {
        let Some(place) = self.place_for(used, key) else { return Err(value) };
        let value = Box::into_raw(Box::new(value));
        place.value.store(value, Ordering::Relaxed);
        // Release: pairs with the Acquire in `search`: the value is complete.
        place.key.store(key, Ordering::Release);
        // SAFETY: the value was boxed just now.
        Ok(unsafe { &*value })
    }

    /// Removes a key from the map and returns its value.
    fn clear(&self, used: &mut [usize; TABLES], key: usize) -> Option<*mut T> {
        let (number, mut place) = self.place_of(key)?;
        let table = self.table(number)?;
        // Relaxed, all: a thread that searches for the key after this has learned of the handle by
        // something that orders its search.
        table[place].key.store(TOMBSTONE, Ordering::Relaxed);
        let value = table[place].value.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if table[(place + 1) % table.len()].key.load(Ordering::Relaxed) == EMPTY {
            while table[place].key.load(Ordering::Relaxed) == TOMBSTONE {
                table[place].key.store(EMPTY, Ordering::Relaxed);
                used[number] -= 1;
                place = (place + table.len() - 1) % table.len();
            }
        }
        (!value.is_null()).then_some(value)
    }
}

/// The place of a key, or the first place at which it could be inserted.
#[inline(always)]
fn search<T>(table: &[Place<T>], key: usize) -> Result<usize, usize> {
    let mut place = first(table.len(), key);
    let mut tombstone = None;
    loop {
        // Acquire: pairs with the Release in `put`.
        match table[place].key.load(Ordering::Acquire) {
            found if found == key => return Ok(place),
            EMPTY => return Err(tombstone.unwrap_or(place)),
            TOMBSTONE if tombstone.is_none() => tombstone = Some(place),
            _ => {}
        }
        place = (place + 1) & (table.len() - 1);
    }
}

#[inline(always)]
fn value_of<T>(place: &Place<T>) -> Option<&'static T> {
    // SAFETY: the value came from a box in `put`. It lives until the handle is removed, which does
    // not race with the handle's users.
    unsafe { place.value.load(Ordering::Relaxed).as_ref() }
}

/// The start of the search for a key. It separates handles or addresses that are close together.
#[inline(always)]
fn first(places: usize, key: usize) -> usize {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - places.trailing_zeros())
}

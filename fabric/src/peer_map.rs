//! A map from peers to what is known of them: written once per peer at first contact, read on every operation.
//!
//! Reading takes no lock and writes nothing: load the table, mask the rank, compare. Ranks are their own hash, so that a
//! job smaller than the table is an array. Memory grows with the peers *touched*, not with the job (REQUIREMENTS T6).

use std::fmt;
use std::marker::PhantomData;

#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicPtr, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicPtr, Ordering},
};

use crate::Peer;

const FIRST_SLOTS: usize = 16;

/// Peers and their values. Values are never moved, replaced or removed before the map is dropped.
pub struct PeerMap<T> {
    table: AtomicPtr<Table<T>>,
    writer: Mutex<Writer<T>>,
    _owns: PhantomData<Box<Entry<T>>>,
}

struct Entry<T> {
    peer: Peer,
    value: T,
}

struct Table<T> {
    slots: Box<[AtomicPtr<Entry<T>>]>,
}

/// What only the thread that inserts sees. All pointers come from `Box::into_raw`.
struct Writer<T> {
    entries: Vec<*mut Entry<T>>,
    tables: Vec<*mut Table<T>>,
}

// SAFETY: the map hands out `&T` to any thread and drops `T` where it is dropped itself: both are fine for Send + Sync values.
unsafe impl<T: Send + Sync> Send for PeerMap<T> {}
// SAFETY: as above; the writer's pointers are used under its mutex only.
unsafe impl<T: Send + Sync> Sync for PeerMap<T> {}

impl<T> Default for PeerMap<T> {
    fn default() -> Self {
        PeerMap::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for PeerMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerMap").field("peers", &self.len()).finish()
    }
}

impl<T> PeerMap<T> {
    /// An empty map.
    pub fn new() -> PeerMap<T> {
        let table = Box::into_raw(Box::new(Table::with_slots(FIRST_SLOTS)));
        PeerMap {
            table: AtomicPtr::new(table),
            writer: Mutex::new(Writer { entries: Vec::new(), tables: vec![table] }),
            _owns: PhantomData,
        }
    }

    /// What is known of `peer`.
    #[inline]
    pub fn get(&self, peer: Peer) -> Option<&T> {
        // Acquire: pairs with the Release in `insert`, so that the table's slots are there.
        // SAFETY: tables are freed only when the map is dropped.
        let table = unsafe { &*self.table.load(Ordering::Acquire) };
        let mask = table.slots.len() - 1;
        let mut at = peer.index() & mask;
        loop {
            // Acquire: pairs with the Release in `place`, so that the entry is whole.
            let entry = table.slots[at].load(Ordering::Acquire);
            if entry.is_null() {
                return None;
            }
            // SAFETY: entries are freed only when the map is dropped, and never written after they were placed.
            let entry = unsafe { &*entry };
            if entry.peer == peer {
                return Some(&entry.value);
            }
            at = (at + 1) & mask;
        }
    }

    /// What is known of `peer`; made by `make` if it is the first contact. `make` runs at most once per peer at a
    /// time, with other first contacts waiting; it must not use this map.
    ///
    /// # Errors
    /// Those of `make`; then the peer stays unknown.
    pub fn get_or_try_insert<E>(&self, peer: Peer, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(known) = self.get(peer) {
            return Ok(known);
        }
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = self.get(peer) {
            return Ok(known);
        }
        let entry = Box::into_raw(Box::new(Entry { peer, value: make()? }));
        self.insert(&mut writer, entry);
        // SAFETY: the entry was just made, and lives until the map is dropped.
        Ok(unsafe { &(*entry).value })
    }

    /// How many peers are known.
    pub fn len(&self) -> usize {
        self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).entries.len()
    }

    /// Whether no peer is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn insert(&self, writer: &mut Writer<T>, entry: *mut Entry<T>) {
        writer.entries.push(entry);
        // Relaxed: only the writer, which holds the mutex, replaces the table.
        // SAFETY: tables are freed only when the map is dropped.
        let table = unsafe { &*self.table.load(Ordering::Relaxed) };
        if writer.entries.len() * 2 <= table.slots.len() {
            return table.place(entry);
        }
        let larger = Table::with_slots(table.slots.len() * 2);
        for &entry in &writer.entries {
            larger.place(entry);
        }
        let larger = Box::into_raw(Box::new(larger));
        writer.tables.push(larger);
        // Release: pairs with the Acquire in `get`.
        self.table.store(larger, Ordering::Release);
    }
}

impl<T> Table<T> {
    fn with_slots(slots: usize) -> Table<T> {
        Table { slots: (0..slots).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect() }
    }

    /// Puts an entry into the first free slot from its rank's; there always is one, since tables are at most half full.
    fn place(&self, entry: *mut Entry<T>) {
        let mask = self.slots.len() - 1;
        // SAFETY: entries are freed only when the map is dropped.
        let mut at = unsafe { (*entry).peer.index() } & mask;
        // Relaxed: only the writer places entries.
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = (at + 1) & mask;
        }
        // Release: pairs with the Acquire in `get`.
        self.slots[at].store(entry, Ordering::Release);
    }
}

impl<T> Drop for PeerMap<T> {
    fn drop(&mut self) {
        let writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for &entry in &writer.entries {
            // SAFETY: from `Box::into_raw`, freed once; nobody borrows from the map any more.
            drop(unsafe { Box::from_raw(entry) });
        }
        for &table in &writer.tables {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn insert(map: &PeerMap<u32>, rank: u32) -> u32 {
        *map.get_or_try_insert(Peer(rank), || Ok::<_, Infallible>(rank * 10)).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn peers_that_share_a_slot_are_told_apart() {
        let map = PeerMap::new();
        for rank in [0, 16, 32, 1, 1_000_000, 15, 31] {
            assert_eq!(map.get(Peer(rank)), None);
            assert_eq!(insert(&map, rank), rank * 10);
        }
        for rank in [0, 16, 32, 1, 1_000_000, 15, 31] {
            assert_eq!(map.get(Peer(rank)), Some(&(rank * 10)));
        }
        assert_eq!(map.get(Peer(48)), None);
    }

    #[test]
    fn it_grows_and_keeps_addresses() {
        let map = PeerMap::new();
        insert(&map, 7);
        let before = std::ptr::from_ref(map.get(Peer(7)).expect("inserted"));
        for rank in 0..1000 {
            insert(&map, rank);
        }
        assert_eq!(map.len(), 1000);
        assert!((0..1000).all(|rank| map.get(Peer(rank)) == Some(&(rank * 10))));
        assert_eq!(std::ptr::from_ref(map.get(Peer(7)).expect("inserted")), before);
    }

    #[test]
    fn a_failed_first_contact_can_be_tried_again() {
        let map = PeerMap::new();
        assert_eq!(map.get_or_try_insert(Peer(1), || Err("down")), Err("down"));
        assert!(map.is_empty());
        assert_eq!(insert(&map, 1), 10);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn loom_readers_see_whole_entries_or_none() {
        loom::model(|| {
            let map = Arc::new(PeerMap::new());
            let writer = {
                let map = Arc::clone(&map);
                thread::spawn(move || {
                    let made = map.get_or_try_insert(Peer(3), || Ok::<_, ()>(30));
                    assert_eq!(made, Ok(&30));
                })
            };
            let seen = map.get(Peer(3)).copied();
            assert!(matches!(seen, None | Some(30)));
            let made = map.get_or_try_insert(Peer(3), || Ok::<_, ()>(30)).copied();
            assert_eq!(made, Ok(30));
            writer.join().expect("the writer ends");
        });
    }
}

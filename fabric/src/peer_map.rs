//! A map from peers to the state kept for them: written once per peer at first contact, read on
//! every operation.
//!
//! A lookup takes no lock and stores nothing: it loads the table, masks the rank and compares. The
//! table is a hash table with linear probing in which each rank is its own hash, so that a job
//! smaller than the table is an array. Ranks at equal distances, such as one rank of each node,
//! would share few slots of a full table: the table then grows until they are [`NEAR`] their slots.
//! Memory grows with the peers *touched*, not with the job (requirement T6).

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
/// The number of slots that a lookup passes before that of its peer, unless the table is sparse.
const NEAR: usize = 4;
/// A table grows to at most this number of slots for each peer so that peers are near.
const SPARSEST: usize = 16;

/// A value of the map, which holds its own key.
pub trait Keyed {
    /// The peer, which never changes.
    fn peer(&self) -> Peer;
}

/// A value that does not contain its peer, paired with the peer.
impl<T> Keyed for (Peer, T) {
    #[inline]
    fn peer(&self) -> Peer {
        self.0
    }
}

/// A map from peers to values, which are never moved, replaced or removed before the map is
/// dropped.
pub struct PeerMap<T> {
    table: AtomicPtr<Table<T>>,
    writer: Mutex<Writer<T>>,
    _owns: PhantomData<Box<T>>,
}

/// A table of peers, whose pointers come from `Box::into_raw`.
struct Table<T> {
    /// A power of two.
    slots: Box<[AtomicPtr<T>]>,
    /// The number of slots minus one.
    mask: usize,
}

/// State of insertion, under the mutex.
struct Writer<T> {
    peers: usize,
    /// From `Box::into_raw`; the last table is the map's current one.
    tables: Vec<*mut Table<T>>,
}

// SAFETY: the map hands out `&T` to any thread, which `T: Sync` allows, and drops `T` where it is
// dropped itself, which `T: Send` allows.
unsafe impl<T: Send + Sync> Send for PeerMap<T> {}
// SAFETY: as for `Send`; the writer's pointers are used under its mutex only.
unsafe impl<T: Send + Sync> Sync for PeerMap<T> {}

impl<T: Keyed> Default for PeerMap<T> {
    fn default() -> Self {
        PeerMap::new()
    }
}

impl<T: Keyed> fmt::Debug for PeerMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerMap").field("peers", &self.len()).finish()
    }
}

impl<T: Keyed> PeerMap<T> {
    /// An empty map.
    pub fn new() -> PeerMap<T> {
        let table = Box::into_raw(Box::new(Table::with_slots(FIRST_SLOTS)));
        PeerMap {
            table: AtomicPtr::new(table),
            writer: Mutex::new(Writer { peers: 0, tables: vec![table] }),
            _owns: PhantomData,
        }
    }

    /// The value of `peer`.
    #[inline]
    pub fn get(&self, peer: Peer) -> Option<&T> {
        // Acquire: pairs with the Release in `insert`, so that the table's slots are initialized.
        // SAFETY: tables are freed only when the map is dropped.
        let table = unsafe { &*self.table.load(Ordering::Acquire) };
        let mut at = peer.index() & table.mask;
        loop {
            // Acquire: pairs with the Release in `place`, so that the entry is initialized.
            // SAFETY: `at` is masked, so it is below the number of slots.
            let entry = unsafe { table.slots.get_unchecked(at) }.load(Ordering::Acquire);
            if entry.is_null() {
                return None;
            }
            // SAFETY: values are freed only when the map is dropped, and not written after they
            // were placed.
            let value = unsafe { &*entry };
            if value.peer() == peer {
                return Some(value);
            }
            at = (at + 1) & table.mask;
        }
    }

    /// The value of `peer`, made by `make` at first contact. At most one `make` runs at a time, and
    /// other first contacts wait; `make` must not use this map.
    ///
    /// # Errors
    /// Those of `make`; the peer then remains unknown.
    pub fn get_or_try_insert<E>(&self, peer: Peer, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(known) = self.get(peer) {
            return Ok(known);
        }
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = self.get(peer) {
            return Ok(known);
        }
        let value = make()?;
        assert_eq!(value.peer(), peer, "a value of another peer");
        let value = Box::into_raw(Box::new(value));
        self.insert(&mut writer, value);
        // SAFETY: the value was just made, and lives until the map is dropped.
        Ok(unsafe { &*value })
    }

    /// The number of known peers.
    pub fn len(&self) -> usize {
        self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).peers
    }

    /// Whether no peer is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values, in no order; a concurrent insertion may be missing.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        // Acquire: as in `get`.
        // SAFETY: as in `get`.
        let table = unsafe { &*self.table.load(Ordering::Acquire) };
        // SAFETY: as in `get`.
        table.slots.iter().filter_map(|slot| unsafe { slot.load(Ordering::Acquire).as_ref() })
    }

    fn insert(&self, writer: &mut Writer<T>, value: *mut T) {
        writer.peers += 1;
        // Relaxed: only the writer, which holds the mutex, replaces the table.
        // SAFETY: tables are freed only when the map is dropped.
        let table = unsafe { &*self.table.load(Ordering::Relaxed) };
        // The load factor is seven eighths: dense ranks do not collide before the table wraps.
        let has_room = writer.peers * 8 <= table.slots.len() * 7;
        let most = SPARSEST * writer.peers;
        // SAFETY: as below; the value was just made.
        let is_near = || table.distance(unsafe { (*value).peer() }) <= NEAR;
        if has_room && (table.slots.len() * 2 > most || is_near()) {
            table.place(value);
            return;
        }
        let mut slots = table.slots.len();
        let larger = loop {
            slots *= 2;
            let larger = Table::with_slots(slots);
            // Relaxed: only the writer places values.
            let all = table.slots.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|value| !value.is_null());
            let farthest = all.chain([value]).map(|value| larger.place(value)).max();
            if farthest <= Some(NEAR) || slots * 2 > most {
                break larger;
            }
        };
        let larger = Box::into_raw(Box::new(larger));
        writer.tables.push(larger);
        // Release: pairs with the Acquire in `get`.
        self.table.store(larger, Ordering::Release);
    }
}

impl<T> Table<T> {
    fn with_slots(slots: usize) -> Table<T> {
        assert!(slots.is_power_of_two());
        Table { slots: (0..slots).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(), mask: slots - 1 }
    }
}

impl<T: Keyed> Table<T> {
    /// Puts a value into the first free slot from that of its rank on; returns the distance. A slot
    /// is always free, because tables never get full.
    fn place(&self, value: *mut T) -> usize {
        // SAFETY: values are freed only when the map is dropped.
        let peer = unsafe { (*value).peer() };
        let distance = self.distance(peer);
        // Release: pairs with the Acquire in `get`.
        self.slots[(peer.index() + distance) & self.mask].store(value, Ordering::Release);
        distance
    }

    /// The number of slots from that of an unknown peer to the first free one.
    fn distance(&self, peer: Peer) -> usize {
        // Relaxed: only the writer places values.
        let is_free = |at: usize| self.slots[at & self.mask].load(Ordering::Relaxed).is_null();
        (0..self.slots.len()).take_while(|step| !is_free(peer.index() + step)).count()
    }
}

impl<T> Drop for PeerMap<T> {
    fn drop(&mut self) {
        let writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (index, &table) in writer.tables.iter().enumerate() {
            // SAFETY: the pointer is from `Box::into_raw` and freed once; drop has the only
            // reference to the map.
            let table = unsafe { Box::from_raw(table) };
            // The last table has all values; earlier tables hold a part of the same pointers.
            let values = if index + 1 == writer.tables.len() { &table.slots[..] } else { &[] };
            for value in values.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|value| !value.is_null()) {
                // SAFETY: the pointer is from `Box::into_raw`, and only the last table's values are
                // freed, each once.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn insert(map: &PeerMap<(Peer, u32)>, rank: u32) -> u32 {
        let made = map.get_or_try_insert(Peer(rank), || Ok::<_, Infallible>((Peer(rank), rank * 10)));
        made.unwrap_or_else(|never| match never {}).1
    }

    #[test]
    fn peers_that_share_a_slot_are_distinguished() {
        let map = PeerMap::new();
        for rank in [0, 16, 32, 1, 1_000_000, 15, 31] {
            assert_eq!(map.get(Peer(rank)), None);
            assert_eq!(insert(&map, rank), rank * 10);
        }
        for rank in [0, 16, 32, 1, 1_000_000, 15, 31] {
            assert_eq!(map.get(Peer(rank)), Some(&(Peer(rank), rank * 10)));
        }
        assert_eq!(map.get(Peer(48)), None);
    }

    /// Regression: ranks at equal distances, such as one of each node, shared few slots, and a
    /// lookup passed hundreds of others.
    #[test]
    fn ranks_at_equal_distances_are_near_their_slots() {
        for stride in [1, 3, 16, 48, 64, 96, 128] {
            let map = PeerMap::new();
            let peers: Vec<_> = (0..512).map(|nth| nth * stride).collect();
            for (nth, &rank) in peers.iter().enumerate() {
                insert(&map, rank);
                // SAFETY: the map lives.
                let table = unsafe { &*map.table.load(Ordering::Relaxed) };
                assert!(table.slots.len() <= (SPARSEST * (nth + 1)).max(FIRST_SLOTS), "{stride}");
            }
            // SAFETY: as above.
            let table = unsafe { &*map.table.load(Ordering::Relaxed) };
            let at = |rank| {
                table.slots.iter().position(|slot| {
                    // SAFETY: as above.
                    unsafe { slot.load(Ordering::Relaxed).as_ref() }.is_some_and(|value| value.0 == Peer(rank))
                })
            };
            let passed = |rank| (at(rank).expect("inserted").wrapping_sub(rank as usize)) & table.mask;
            let farthest = peers.iter().map(|&rank| passed(rank)).max();
            assert!(farthest <= Some(2 * NEAR), "{stride}: {farthest:?} slots");
            assert!(stride > 1 || farthest == Some(0) && table.slots.len() == 1024, "dense ranks are an array");
        }
    }

    #[test]
    fn it_grows_and_keeps_addresses() {
        let map = PeerMap::new();
        insert(&map, 7);
        let before = std::ptr::from_ref(map.get(Peer(7)).expect("inserted"));
        for rank in 0..1000 {
            insert(&map, rank);
        }
        assert_eq!((map.len(), map.values().count()), (1000, 1000));
        assert!((0..1000).all(|rank| map.get(Peer(rank)) == Some(&(Peer(rank), rank * 10))));
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
                    let made = map.get_or_try_insert(Peer(3), || Ok::<_, ()>((Peer(3), 30)));
                    assert_eq!(made, Ok(&(Peer(3), 30)));
                })
            };
            let seen = map.get(Peer(3)).map(|(_, value)| *value);
            assert!(matches!(seen, None | Some(30)));
            let made = map.get_or_try_insert(Peer(3), || Ok::<_, ()>((Peer(3), 30))).copied();
            assert_eq!(made, Ok((Peer(3), 30)));
            writer.join().expect("the writer ends");
        });
    }
}

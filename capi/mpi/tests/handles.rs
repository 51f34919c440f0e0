//! The map of handles in the interposition library (`capi/mpi/src/handles.rs`), without a host.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

#[allow(dead_code, unsafe_code)]
#[path = "../src/handles.rs"]
mod handles;

/// The host's side of the map: handles are numbers.
mod host {
    pub(crate) trait Key: Copy {
        fn key(self) -> usize;
    }

    impl Key for usize {
        fn key(self) -> usize {
            self
        }
    }
}

use handles::Handles;

/// The next number of a sequence without repetitions, whose numbers resemble addresses of objects.
fn next(state: &mut usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 8 << 4 | 8
}

fn put(map: &Handles<usize>, key: usize) {
    assert_eq!(map.insert(key, key + 1), Ok(&(key + 1)));
}

/// Shows W1.
#[test]
fn places_are_used_again_however_many_handles_come_and_go() {
    static MAP: Handles<usize> = Handles::new();
    let (mut state, mut live) = (1, BTreeMap::new());
    for step in 0..400_000usize {
        let key = next(&mut state);
        put(&MAP, key);
        live.insert(step * 7919 % 100_003, key).into_iter().for_each(|old| MAP.end(old));
        if live.len() > 50 {
            let (_, old) = live.pop_first().expect("not empty");
            MAP.end(old);
            assert_eq!(MAP.get(old), None);
        }
        if step % 1000 == 0 {
            assert!(live.values().all(|&key| MAP.get(key) == Some(&(key + 1))));
        }
    }
}

/// Shows W1.
#[test]
fn more_handles_than_the_first_table_has_places() {
    static MAP: Handles<usize> = Handles::new();
    let mut state = 7;
    let keys: Vec<usize> = (0..50_000).map(|_| next(&mut state)).collect();
    keys.iter().for_each(|&key| put(&MAP, key));
    assert!(keys.iter().all(|&key| MAP.get(key) == Some(&(key + 1))));
    let (gone, kept): (Vec<_>, Vec<_>) = keys.iter().partition(|&key| key % 3 == 0);
    gone.iter().for_each(|&key| MAP.end(key));
    assert!(gone.iter().all(|&key| MAP.get(key).is_none()));
    assert!(kept.iter().all(|&key| MAP.get(key) == Some(&(key + 1))));
    gone.iter().for_each(|&key| put(&MAP, key));
    assert!(keys.iter().all(|&key| MAP.get(key) == Some(&(key + 1))));
}

/// A second insertion keeps the first value; only `replace` changes it.
/// Shows W1.
#[test]
fn a_handle_has_one_value() {
    static MAP: Handles<usize> = Handles::new();
    let first = MAP.insert(16, 1).expect("room");
    assert_eq!(MAP.insert(16, 2), Ok(&1));
    assert_eq!(MAP.replace(16, 3), Ok(&3));
    assert_eq!((MAP.get(16), *first), (Some(&3), 1), "the replaced value is its owner's");
    MAP.forget(16);
    assert_eq!(MAP.get(16), None);
    MAP.end(16);
    assert_eq!(MAP.insert(16, 4), Ok(&4));
}

/// A reserved handle has no value, and always has room for one, also in a full table.
/// Shows W1.
#[test]
fn a_reserved_handle_has_room() {
    static MAP: Handles<usize> = Handles::new();
    let (mut state, mut reserved) = (5, Vec::new());
    for number in 0..5000 {
        let key = next(&mut state);
        put(&MAP, key);
        if number % 50 == 0 {
            reserved.push(next(&mut state));
            assert!(reserved.last().is_some_and(|&key| MAP.reserve(key)));
        }
    }
    assert!(reserved.iter().all(|&key| MAP.get(key).is_none()));
    let (given_up, kept) = reserved.split_at(50);
    given_up.iter().for_each(|&key| MAP.forget(key));
    kept.iter().for_each(|&key| assert_eq!(MAP.replace(key, key), Ok(&key)));
    assert!(given_up.iter().all(|&key| MAP.get(key).is_none()));
    assert!(kept.iter().all(|&key| MAP.get(key) == Some(&key)));
    let live = MAP.insert(16, 1).expect("room");
    assert!(MAP.reserve(16), "the previous value is its owner's");
    assert_eq!((MAP.get(16), *live), (None, 1));
}

/// While handles are added and removed, readers always find the remaining handles and never absent
/// ones.
/// Shows W1.
#[test]
fn readers_beside_writers_find_what_stays() {
    static MAP: Handles<usize> = Handles::new();
    static OVER: AtomicBool = AtomicBool::new(false);
    let mut state = 3;
    let kept: Vec<usize> = (0..3000).map(|_| next(&mut state)).collect();
    let never: Vec<usize> = (0..3000).map(|_| next(&mut state)).collect();
    kept.iter().for_each(|&key| put(&MAP, key));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !OVER.load(Ordering::Relaxed) {
                    assert!(kept.iter().all(|&key| MAP.get(key) == Some(&(key + 1))));
                    assert!(never.iter().all(|&key| MAP.get(key).is_none()));
                }
            });
        }
        for _ in 0..100_000 {
            let key = next(&mut state);
            put(&MAP, key);
            MAP.end(key);
        }
        OVER.store(true, Ordering::Relaxed);
    });
}

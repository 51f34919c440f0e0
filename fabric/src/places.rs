//! The locations of a window that have atomics in flight, for nets that keep no order: an operation
//! waits for an earlier one on the same location. Each bit represents many locations. Any number of
//! threads may post at the same time. Knows no window and no port.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bits for locations; the bits above count the threads that are posting.
const BITS: u32 = 56;
const PLACES: u64 = (1 << BITS) - 1;
const POSTER: u64 = 1 << BITS;
const POSTERS: u64 = CLEARING - POSTER;
/// One thread clears the bits; other threads wait for it.
const CLEARING: u64 = 1 << 63;

/// The locations with operations in flight.
#[derive(Debug, Default)]
pub struct Places(AtomicU64);

/// A thread that is posting on a location. A tally counts the operation before the value is
/// dropped.
#[derive(Debug)]
pub struct Posting<'p> {
    places: &'p Places,
    busy: bool,
}

impl Places {
    /// Sets the bit of the 4 bytes at `at`. `idle` returns whether no posted operation is in
    /// flight; if it returns true, all older bits are cleared.
    #[inline]
    pub fn begin(&self, at: u64, idle: impl Fn() -> bool) -> Posting<'_> {
        let bit = bit(at);
        // Relaxed: the exchanges below decide.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & CLEARING != 0 || seen & POSTERS == POSTERS {
                pause();
                seen = self.0.load(Ordering::Relaxed);
                continue;
            }
            let clear = seen & POSTERS == 0 && seen & PLACES != 0 && idle();
            let next = if clear { seen | CLEARING } else { (seen | bit) + POSTER };
            // Acquire: pairs with the Release in `drop`. A thread that clears the bits then sees
            // the tally counts of each earlier poster.
            match self.0.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let noted = if clear { self.clear(seen, bit, &idle) } else { seen };
                    return Posting { places: self, busy: noted & bit != 0 };
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Clears the bits if still no operation is in flight: no thread is posting, and none begins to
    /// post meanwhile. Returns the bits that remain set.
    fn clear(&self, seen: u64, bit: u64, idle: impl Fn() -> bool) -> u64 {
        let kept = if idle() { 0 } else { seen & PLACES };
        // Release: pairs with the Acquire in `begin`, as in `drop`.
        self.0.store((kept | bit) + POSTER, Ordering::Release);
        kept
    }
}

impl Posting<'_> {
    /// Whether an earlier operation on the location may be in flight.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Drop for Posting<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `begin`.
        self.places.0.fetch_sub(POSTER, Ordering::Release);
    }
}

/// The bit of a location.
#[inline]
fn bit(at: u64) -> u64 {
    let mixed = (at >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    1 << ((mixed * u64::from(BITS)) >> 32)
}

fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn notes_stay_while_anything_is_in_flight() {
        let places = Places::default();
        assert!(!places.begin(0, || false).is_busy());
        assert!(places.begin(0, || false).is_busy() && !places.begin(800, || false).is_busy());
        assert!(places.begin(800, || false).is_busy());
        assert!(!places.begin(800, || true).is_busy(), "idle: all notes go");
        assert!(places.begin(800, || false).is_busy() && !places.begin(0, || false).is_busy());
    }

    #[test]
    fn a_posting_thread_prevents_the_removal_of_notes() {
        let places = Places::default();
        let posting = places.begin(0, || true);
        assert!(!places.begin(800, || true).is_busy());
        assert!(places.begin(0, || true).is_busy(), "it may not be counted yet");
        drop(posting);
        assert!(!places.begin(0, || true).is_busy());
    }

    #[test]
    fn neighbouring_places_have_different_bits() {
        let bits: std::collections::BTreeSet<u64> = (0..32).map(|word| bit(8 * word)).collect();
        assert!(bits.len() >= 20 && bits.iter().all(|bit| bit & PLACES == *bit), "{bits:?}");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// One thread's operation never completes. The next operation on its location must find it,
    /// whatever bits another thread, whose operations all complete, sets and clears meanwhile.
    #[test]
    fn loom_notes_of_what_is_in_flight_stay() {
        let mut model = loom::model::Builder::new();
        // All interleavings take minutes; bugs of two threads need few preemptions.
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((Places::default(), AtomicU64::new(0)));
            let post = |shared: &(Places, AtomicU64), at| {
                let posting = shared.0.begin(at, || shared.1.load(Ordering::Acquire) == 0);
                shared.1.fetch_add(1, Ordering::Relaxed);
                posting.is_busy()
            };
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for _ in 0..2 {
                        post(&shared, 800);
                        shared.1.fetch_sub(1, Ordering::Release);
                    }
                })
            };
            post(&shared, 0);
            assert!(post(&shared, 0), "the first operation on the place is in flight");
            other.join().expect("the other thread ends");
        });
    }
}

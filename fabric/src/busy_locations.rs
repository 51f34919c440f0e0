//! The locations of a target that have atomics in flight, as a Bloom filter of one word and one
//! hash. On nets that keep no order, an operation waits for an earlier one on the same location, or
//! on one with the same bit. Any number of threads may post at the same time. Knows no window and
//! no port.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bits for locations.
const BITS: u32 = 56;
/// The bits of locations.
const LOCATIONS: u64 = (1 << BITS) - 1;
/// One thread that is posting; the bits above those of locations count these threads.
const POSTER: u64 = 1 << BITS;
/// The bits that count the threads that are posting.
const POSTERS: u64 = CLEARING - POSTER;
/// Bit: a thread clears the bits of locations, and the other threads wait for this thread.
const CLEARING: u64 = 1 << 63;

/// The locations that may have operations in flight.
#[derive(Debug, Default)]
pub struct BusyLocations(AtomicU64);

/// A thread that is posting an operation on a location. The operation must be counted by a tally
/// before this value is dropped.
#[derive(Debug)]
pub struct PostingThread<'p> {
    locations: &'p BusyLocations,
    busy: bool,
}

impl BusyLocations {
    /// Sets the bit of the 4 bytes at `at`. `idle` returns whether no counted operation is in
    /// flight; if so, and if no other thread is posting, all older bits are cleared.
    #[inline]
    pub fn begin(&self, at: u64, idle: impl Fn() -> bool) -> PostingThread<'_> {
        let bit = bit(at);
        // Relaxed: the exchanges below decide.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & CLEARING != 0 || seen & POSTERS == POSTERS {
                pause();
                seen = self.0.load(Ordering::Relaxed);
                continue;
            }
            let clear = seen & POSTERS == 0 && seen & LOCATIONS != 0 && idle();
            let next = if clear { seen | CLEARING } else { (seen | bit) + POSTER };
            // Acquire: pairs with the Release in `drop`. A thread that clears the bits then sees
            // the tally counts of each earlier poster.
            match self.0.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let noted = if clear { self.clear(seen, bit, &idle) } else { seen };
                    return PostingThread { locations: self, busy: noted & bit != 0 };
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Whether an operation that this thread has posted before may be in flight on one of the
    /// locations.
    pub fn has_any(&self, locations: impl Iterator<Item = u64>) -> bool {
        let bits = locations.fold(0, |bits, at| bits | bit(at));
        // Relaxed: this thread's own bits, and those of threads that the program has ordered
        // before, are there until their operations are complete.
        self.0.load(Ordering::Relaxed) & bits != 0
    }

    /// Clears the bits that were `seen`, if still no operation is in flight, and sets `bit`. No
    /// other thread is posting, and none begins to post meanwhile. Returns the bits that were kept.
    fn clear(&self, seen: u64, bit: u64, idle: impl Fn() -> bool) -> u64 {
        let kept = if idle() { 0 } else { seen & LOCATIONS };
        // Release: pairs with the Acquire in `begin`, as in `drop`.
        self.0.store((kept | bit) + POSTER, Ordering::Release);
        kept
    }
}

impl PostingThread<'_> {
    /// Whether an earlier operation on the location may be in flight.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Drop for PostingThread<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `begin`.
        self.locations.0.fetch_sub(POSTER, Ordering::Release);
    }
}

/// The bit of a location, by a multiplicative hash.
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
        let locations = BusyLocations::default();
        assert!(!locations.begin(0, || false).is_busy());
        assert!(locations.begin(0, || false).is_busy() && !locations.begin(800, || false).is_busy());
        assert!(locations.begin(800, || false).is_busy());
        assert!(!locations.begin(800, || true).is_busy(), "idle: all notes go");
        assert!(locations.begin(800, || false).is_busy() && !locations.begin(0, || false).is_busy());
    }

    #[test]
    fn a_query_finds_notes_and_leaves_none() {
        let locations = BusyLocations::default();
        drop(locations.begin(0, || false));
        assert!(locations.has_any([800, 0].into_iter()) && !locations.has_any([800].into_iter()));
        assert!(!locations.begin(800, || false).is_busy());
    }

    #[test]
    fn a_posting_thread_prevents_the_removal_of_notes() {
        let locations = BusyLocations::default();
        let posting = locations.begin(0, || true);
        assert!(!locations.begin(800, || true).is_busy());
        assert!(locations.begin(0, || true).is_busy(), "it may not be counted yet");
        drop(posting);
        assert!(!locations.begin(0, || true).is_busy());
    }

    #[test]
    fn neighbouring_places_have_different_bits() {
        let bits: std::collections::BTreeSet<u64> = (0..32).map(|word| bit(8 * word)).collect();
        assert!(bits.len() >= 20 && bits.iter().all(|bit| bit & LOCATIONS == *bit), "{bits:?}");
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
            let shared = Arc::new((BusyLocations::default(), AtomicU64::new(0)));
            let post = |shared: &(BusyLocations, AtomicU64), at| {
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

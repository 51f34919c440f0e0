//! Locks over stripes of a rank's part, which make accumulates atomic for each element: every
//! execution of an accumulate takes the lock of its block, for one element as for vector code over
//! the whole block. A lock word lies in shared memory and costs an uncontended operation one locked
//! instruction. It holds the process number of its holder, so that a waiter takes over the lock of
//! a process that died. Elements are stored whole, so only the dead rank's own accumulate stays
//! unfinished. Knows no types.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::words::{LINE, STRIPE_LOCKS, STRIPES, Words};
use crate::failures;

/// Bytes of a block, which one lock covers.
pub(crate) const BLOCK: usize = 4096;

const FREE: u32 = 0;
/// Number of looks before the waiter yields, and before it sleeps.
const SPINS: u32 = 64;
const YIELDED: u32 = 128;
/// Number of sleeps between checks whether the holder lives.
const PATIENCE: u32 = 256;

/// Bit of a held lock, beside the process number in the word.
const HELD: u32 = 1 << 31;

/// This process's number; 0 before [`introduce`]. No waiter takes over a lock with number 0.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Locks that this process takes from now on have its number.
pub(crate) fn introduce() {
    // Relaxed: a lock that was taken earlier just has no number.
    OWN.store(std::process::id(), Ordering::Relaxed);
}

/// A held lock; dropping it unlocks.
pub(crate) struct Held<'m>(&'m AtomicU32);

/// Locks the block of byte `at` of the part; `words` are the part's control words.
#[inline]
pub(crate) fn lock(words: Words<'_>, at: usize) -> Held<'_> {
    try_lock(words, at).unwrap_or_else(|| wait(word(words, at)))
}

/// Locks all blocks of the byte ranges that begin at `places`. All holders of several locks take
/// them in the same order, so that no cycle of waiters arises.
pub(crate) fn lock_all(
    words: Words<'_>,
    places: impl IntoIterator<Item = (usize, usize)>,
) -> [Option<Held<'_>>; STRIPES] {
    let mut touched = [false; STRIPES];
    for (at, len) in places.into_iter().filter(|(_, len)| *len > 0) {
        let (first, last) = (at / BLOCK, (at + (len - 1)) / BLOCK);
        (first..=last).take(STRIPES).for_each(|block| touched[block % STRIPES] = true);
    }
    std::array::from_fn(|stripe| touched[stripe].then(|| lock(words, stripe * BLOCK)))
}

/// [`lock`] without waiting: `None` where the lock is held.
#[inline(always)]
pub(crate) fn try_lock(words: Words<'_>, at: usize) -> Option<Held<'_>> {
    let word = word(words, at);
    // Acquire: pairs with the Release in `drop`: the previous holder's writes are visible.
    match word.compare_exchange(FREE, own(), Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Some(Held(word)),
        Err(_) => None,
    }
}

/// The word of a lock that this process holds. No branch: it is on the path of every accumulate.
#[inline(always)]
fn own() -> u32 {
    OWN.load(Ordering::Relaxed) | HELD
}

#[inline(always)]
fn word(words: Words<'_>, at: usize) -> &AtomicU32 {
    words.word32(STRIPE_LOCKS + at / BLOCK % STRIPES * LINE)
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `lock` and `wait`.
        self.0.store(FREE, Ordering::Release);
    }
}

#[cold]
fn wait(word: &AtomicU32) -> Held<'_> {
    let mut looks = 0u32;
    loop {
        // Relaxed: only looks; the exchange orders.
        let holder = word.load(Ordering::Relaxed);
        let free =
            holder == FREE || looks > YIELDED && looks.is_multiple_of(PATIENCE) && failures::has_ended(holder & !HELD);
        if free && word.compare_exchange(holder, own(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Held(word);
        }
        looks = looks.checked_add(1).unwrap_or(YIELDED);
        match looks {
            ..SPINS => std::hint::spin_loop(),
            SPINS..YIELDED => std::thread::yield_now(),
            // The holder was descheduled, or is in system calls (cross-memory attach): its work
            // takes some hundred nanoseconds, or some ten microseconds.
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Memory;

    use super::*;

    #[test]
    fn blocks_of_a_stripe_exclude_each_other_and_others_do_not() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let held = lock(words, 5);
        let other = lock(words, BLOCK);
        drop(other);
        let count = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _held = lock(words, BLOCK * STRIPES + 1);
                count.load(Ordering::Relaxed)
            });
            std::thread::sleep(Duration::from_millis(5));
            count.store(1, Ordering::Relaxed);
            drop(held);
            assert_eq!(waiter.join().expect("no panic"), 1, "it came in before the holder went");
        });
    }

    #[test]
    fn many_places_lock_each_of_their_blocks_once() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let locked = || (0..STRIPES).filter(|stripe| try_lock(words, stripe * BLOCK).is_none()).collect::<Vec<_>>();
        for (places, wanted) in [
            (&[(5, 0)][..], &[][..]),
            (&[(BLOCK - 1, 1)], &[0]),
            (&[(BLOCK - 1, 2)], &[0, 1]),
            (&[(9 * BLOCK, 1), (BLOCK, 8), (7 * BLOCK, 2 * BLOCK)], &[0, 1, 7]),
            (&[(3, 100 * BLOCK)], &[0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            let held = lock_all(words, places.iter().copied());
            assert_eq!(locked(), wanted, "{places:?}");
            drop(held);
            assert_eq!(locked(), [0; 0], "after {places:?}");
        }
    }

    /// Whether or not its parent has waited for the dead process.
    /// Shows E3.
    #[test]
    fn what_the_dead_hold_is_taken_over() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let mut dead = [0; 2].map(|_| std::process::Command::new("true").spawn().expect("true"));
        dead[0].wait().expect("it ends");
        for child in &dead {
            word(words, 0).store(child.id() | HELD, Ordering::Relaxed);
            drop(lock(words, 0));
            assert_eq!(word(words, 0).load(Ordering::Relaxed), FREE);
        }
        dead[1].wait().expect("it ends");
    }

    #[test]
    fn nothing_is_lost_under_contention() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        let data = Memory::private(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let _held = lock(words, 0);
                        let mut value = [0; 8];
                        data.read(0, &mut value);
                        data.write(0, &(u64::from_ne_bytes(value) + 1).to_ne_bytes());
                    }
                });
            }
        });
        let mut value = [0; 8];
        data.read(0, &mut value);
        assert_eq!(u64::from_ne_bytes(value), 8000);
    }
}

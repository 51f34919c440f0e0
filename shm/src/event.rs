//! Event counts in shared memory (Reed and Kanodia): one process advances the count, and others
//! wait until it reaches a number. Barriers consist of such words.
//!
//! The low 31 bits are a counter that only grows (and wraps); the top bit is set while a thread
//! sleeps. An increment is one locked instruction, and a system call only if a thread sleeps. Must
//! not know the meaning of the counts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::word::Word32;

/// The bit that means that a thread sleeps on the word.
pub const WAITING: u32 = 1 << 31;

/// The bits of the counter.
pub const COUNTER: u32 = WAITING - 1;

/// Number of polls of the word between two reads of the clock and two calls of `idle`.
const POLLS: u32 = 16;

/// Time for which a waiter polls the word before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinBudget {
    spin: Duration,
    yields: u32,
}

impl SpinBudget {
    /// Sleeps at once.
    pub const NONE: SpinBudget = SpinBudget { spin: Duration::ZERO, yields: 0 };

    /// The budget for `ranks` processes of this node on `cpus` processors that they may use
    /// *together* (not the one processor that a bound rank has for itself). If each process has its
    /// own processor, the budget is 20 us, as much as several sleeps and wakes cost. If processes
    /// share processors, the budget is one `sched_yield`.
    pub const fn choose(ranks: usize, cpus: usize) -> SpinBudget {
        if ranks <= cpus {
            SpinBudget { spin: Duration::from_micros(20), yields: 0 }
        } else {
            SpinBudget { spin: Duration::ZERO, yields: 1 }
        }
    }

    /// The time for which a waiter polls.
    pub const fn spin(&self) -> Duration {
        self.spin
    }
}

/// Sets the counter to `n` (modulo 2^31) and wakes the sleepers. One process at a time sets a word,
/// only forward, and to less than 2^30 beyond the number of any waiter. A waiter that finds `n`
/// reached sees all earlier stores of the caller.
#[inline]
pub fn signal(word: &AtomicU32, n: u32) {
    signal_on(word, n);
}

/// Whether the counter has reached `n`: it equals `n`, or is less than 2^30 beyond `n` (modulo
/// 2^31). After `true`, earlier stores of the signaller are visible.
#[inline]
pub fn reached(word: &AtomicU32, n: u32) -> bool {
    // Acquire: pairs with the Release in `signal_on`.
    is_reached(word.load(Ordering::Acquire), n)
}

/// Waits until the counter has reached `n` or `limit` has passed (`Duration::MAX`: no limit).
/// Returns whether the counter has reached `n`. Polls the word for `spin`, calls `idle` between
/// polls, then sleeps. `idle` is not called during a sleep, and never if `spin` is
/// [`SpinBudget::NONE`]: a caller with other work gives a short `limit`, does the work after each
/// call, and calls again. Any number of threads of any process may wait for one word.
#[inline]
pub fn wait(word: &AtomicU32, n: u32, spin: SpinBudget, limit: Duration, mut idle: impl FnMut()) -> bool {
    reached(word, n) || wait_on(word, n, spin, limit, &mut idle)
}

#[inline]
fn is_reached(value: u32, n: u32) -> bool {
    value.wrapping_sub(n) & COUNTER < WAITING / 2
}

#[inline]
fn signal_on(word: &impl Word32, n: u32) {
    // Release: pairs with the Acquire loads of waiters. No wake-up is lost: the swap and a waiter's
    // compare-and-swap change one word, so either the swap sees WAITING, or the waiter's exchange
    // fails.
    if word.swap(n & COUNTER, Ordering::Release) & WAITING != 0 {
        word.wake_all();
    }
}

fn wait_on(word: &impl Word32, n: u32, spin: SpinBudget, limit: Duration, idle: &mut dyn FnMut()) -> bool {
    if spin_on(word, n, spin, limit, idle) {
        return true;
    }
    let deadline = Instant::now().checked_add(limit);
    loop {
        // Acquire: pairs with the Release in `signal_on`.
        let value = word.load(Ordering::Acquire);
        if is_reached(value, n) {
            return true;
        }
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        let asleep = value | WAITING;
        // Relaxed: only announces; the order of changes to one word is sufficient (see
        // `signal_on`).
        if value == asleep || word.compare_exchange(value, asleep, Ordering::Relaxed).is_ok() {
            word.sleep(asleep, left);
        }
    }
}

fn spin_on(word: &impl Word32, n: u32, budget: SpinBudget, limit: Duration, idle: &mut dyn FnMut()) -> bool {
    // Acquire, here and below: pairs with the Release in `signal_on`.
    let seen = || is_reached(word.load(Ordering::Acquire), n);
    let spin = budget.spin.min(limit);
    if !spin.is_zero() {
        let start = Instant::now();
        loop {
            for _ in 0..POLLS {
                if seen() {
                    return true;
                }
                std::hint::spin_loop();
            }
            idle();
            if start.elapsed() >= spin {
                break;
            }
        }
    }
    for _ in 0..budget.yields {
        idle();
        rustix::thread::sched_yield();
        if seen() {
            return true;
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn reached_wraps() {
        let word = AtomicU32::new(5);
        assert!(reached(&word, 5) && reached(&word, 4) && !reached(&word, 6));
        word.store(2 | WAITING, Ordering::Relaxed);
        assert!(reached(&word, COUNTER), "2 is 3 past the last value");
        assert!(!reached(&word, 3));
        signal(&word, COUNTER + 4);
        assert_eq!(word.load(Ordering::Relaxed), 3, "wrapped, no thread waits");
    }

    #[test]
    fn a_wait_ends_at_its_limit() {
        let word = AtomicU32::new(0);
        let mut idled = 0;
        let budget = SpinBudget::choose(1, 1);
        let limit = Duration::from_millis(5);
        assert!(!wait(&word, 1, budget, limit, || idled += 1));
        assert!(idled > 0);
        assert_eq!(word.load(Ordering::Relaxed), WAITING);
        signal(&word, 1);
        assert_eq!(word.load(Ordering::Relaxed), 1);
        assert!(wait(&word, 1, SpinBudget::NONE, Duration::ZERO, || ()));
    }

    #[test]
    fn several_sleepers_are_woken_at_their_numbers() {
        let word = Arc::new(AtomicU32::new(0));
        let sleepers: Vec<_> = (1..=4)
            .map(|n| {
                let word = Arc::clone(&word);
                thread::spawn(move || wait(&word, n, SpinBudget::NONE, LONG, || ()))
            })
            .collect();
        for n in 1..=4 {
            // Until a thread sleeps, or all have left: threads that wait for a later number sleep
            // again.
            let deadline = Instant::now() + LONG;
            while word.load(Ordering::Relaxed) & WAITING == 0 && Instant::now() < deadline {
                thread::yield_now();
            }
            signal(&word, n);
        }
        for sleeper in sleepers {
            assert!(sleeper.join().expect("no panic"));
        }
    }

    #[test]
    fn two_threads_signal_each_other_in_turn() {
        for budget in [SpinBudget::NONE, SpinBudget::choose(2, 2), SpinBudget::choose(2, 1)] {
            let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let theirs = Arc::clone(&words);
            let other = thread::spawn(move || {
                (1..=500).all(|n| {
                    let arrived = wait(&theirs[0], n, budget, LONG, || ());
                    signal(&theirs[1], n);
                    arrived
                })
            });
            for n in 1..=500 {
                signal(&words[0], n);
                assert!(wait(&words[1], n, budget, LONG, || ()), "round {n}");
            }
            assert!(other.join().expect("no panic"));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::word::model::ModelFutex;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as ModelU32;
    use loom::thread;

    /// A lost wake-up is a model that stops with a thread asleep, which loom reports as a deadlock.
    #[test]
    fn loom_no_signal_is_missed_by_a_sleeper() {
        loom::model(|| {
            let shared = Arc::new((ModelFutex::new(), ModelU32::new(0)));
            let sleeper = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (word, data) = &*shared;
                    assert!(wait_on(word, 2, SpinBudget::NONE, Duration::MAX, &mut || ()));
                    assert_eq!(data.load(Ordering::Relaxed), 7);
                })
            };
            let (word, data) = &*shared;
            signal_on(word, 1);
            data.store(7, Ordering::Relaxed);
            signal_on(word, 2);
            sleeper.join().expect("the sleeper ends");
        });
    }

    #[test]
    fn loom_two_sleepers_are_both_woken() {
        loom::model(|| {
            let word = Arc::new(ModelFutex::new());
            let sleepers: Vec<_> = (0..2)
                .map(|_| {
                    let word = Arc::clone(&word);
                    thread::spawn(move || {
                        assert!(wait_on(&*word, 1, SpinBudget::NONE, Duration::MAX, &mut || ()));
                    })
                })
                .collect();
            signal_on(&*word, 1);
            for sleeper in sleepers {
                sleeper.join().expect("the sleeper ends");
            }
        });
    }
}

//! A spinlock for values that a thread uses for a few nanoseconds. The release is a plain store,
//! because an atomic exchange would cost as much as the work of most holders. A waiting thread
//! spins, then yields.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Attempts before the waiter yields.
const SPINS: u32 = 64;

/// A value that one thread at a time can use.
#[derive(Default)]
pub(crate) struct Exclusive<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time uses the value, as with a mutex.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// The right to use the value. Like a `&mut T`, it may be shared between threads only if `T` may.
pub(crate) struct Holder<'v, T>(&'v Exclusive<T>, PhantomData<&'v mut T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Holder<'_, T> {
        // Acquire: pairs with the Release of the previous holder.
        while self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        Holder(self, PhantomData)
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            if !self.is_taken.load(Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exclusive")
    }
}

impl<T> Deref for Holder<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one holder, whose reference ends before the holder does.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Holder<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the holder is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Holder<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next holder.
        self.0.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        const ROUNDS: u32 = if cfg!(miri) { 50 } else { 50_000 };
        let sum = Exclusive::new(0);
        std::thread::scope(|scope| {
            (0..3).for_each(|_| {
                scope.spawn(|| (0..ROUNDS).for_each(|_| *sum.lock() += 1));
            });
        });
        assert_eq!(*sum.lock(), 3 * ROUNDS);
    }
}

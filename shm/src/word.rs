//! Atomic words in shared memory, and sleeps on them by futex. Algorithms use them through traits,
//! so that loom's atomics can replace them in models. Must not know the meaning of the words.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::fence;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::fence;

/// A 32-bit word that threads of any process can sleep on.
pub(crate) trait Word32 {
    fn load(&self, order: Ordering) -> u32;
    fn swap(&self, value: u32, order: Ordering) -> u32;
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32;
    fn fetch_and(&self, bits: u32, order: Ordering) -> u32;
    /// `Ok` if the word had the value `current` and now has `new`; else the word's value. Relaxed
    /// on failure.
    fn compare_exchange(&self, current: u32, new: u32, success: Ordering) -> Result<u32, u32>;
    /// Sleeps while the word holds `expected`, at most `limit` (`None`: for ever). The sleep may
    /// end early.
    fn sleep(&self, expected: u32, limit: Option<Duration>);
    /// Wakes all threads that sleep on the word.
    fn wake_all(&self);
}

/// A 64-bit word.
pub(crate) trait Word64 {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    /// As [`Word32::compare_exchange`].
    fn compare_exchange(&self, current: u64, new: u64, success: Ordering) -> Result<u64, u64>;
}

impl Word32 for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }

    #[inline]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        AtomicU32::swap(self, value, order)
    }

    #[inline]
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        AtomicU32::fetch_or(self, bits, order)
    }

    #[inline]
    fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
        AtomicU32::fetch_and(self, bits, order)
    }

    #[inline]
    fn compare_exchange(&self, current: u32, new: u32, success: Ordering) -> Result<u32, u32> {
        AtomicU32::compare_exchange(self, current, new, success, Ordering::Relaxed)
    }

    fn sleep(&self, expected: u32, limit: Option<Duration>) {
        // A limit beyond the range of the system's clock is no limit.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // After every outcome (woken, value changed, timed out, interrupted) the caller checks
        // again. The word is shared between processes, therefore not PRIVATE.
        let _ = futex::wait(self, Flags::empty(), expected, limit.as_ref());
    }

    #[cold]
    fn wake_all(&self) {
        const ALL: u32 = i32::MAX.cast_unsigned();
        // Waking fails only for an address that is not mapped, and `self` is.
        let _ = futex::wake(self, Flags::empty(), ALL);
    }
}

impl Word64 for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[inline]
    fn compare_exchange(&self, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        AtomicU64::compare_exchange(self, current, new, success, Ordering::Relaxed)
    }
}

/// The words of the loom models: its atomics, and a futex made of a mutex and a condition variable.
#[cfg(all(test, loom))]
pub(crate) mod model {
    use super::{Duration, Ordering, Word32, Word64};
    use loom::sync::atomic::{AtomicU32, AtomicU64};
    use loom::sync::{Condvar, Mutex};

    #[derive(Debug)]
    pub(crate) struct ModelFutex {
        value: AtomicU32,
        bucket: Mutex<()>,
        sleepers: Condvar,
    }

    impl ModelFutex {
        pub(crate) fn new() -> ModelFutex {
            ModelFutex { value: AtomicU32::new(0), bucket: Mutex::new(()), sleepers: Condvar::new() }
        }
    }

    impl Word32 for ModelFutex {
        fn load(&self, order: Ordering) -> u32 {
            self.value.load(order)
        }

        fn swap(&self, value: u32, order: Ordering) -> u32 {
            self.value.swap(value, order)
        }

        fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
            self.value.fetch_or(bits, order)
        }

        fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
            self.value.fetch_and(bits, order)
        }

        fn compare_exchange(&self, current: u32, new: u32, success: Ordering) -> Result<u32, u32> {
            self.value.compare_exchange(current, new, success, Ordering::Relaxed)
        }

        fn sleep(&self, expected: u32, limit: Option<Duration>) {
            assert_eq!(limit, None, "the model has no clock");
            let bucket = self.bucket.lock().expect("no model thread panics");
            // The kernel compares under the bucket's lock and reads the last value; so does a
            // read-modify-write.
            let unchanged = self.value.compare_exchange(expected, expected, Ordering::Relaxed, Ordering::Relaxed);
            if unchanged.is_ok() {
                drop(self.sleepers.wait(bucket).expect("no model thread panics"));
            }
        }

        fn wake_all(&self) {
            let _bucket = self.bucket.lock().expect("no model thread panics");
            self.sleepers.notify_all();
        }
    }

    impl Word64 for AtomicU64 {
        fn load(&self, order: Ordering) -> u64 {
            AtomicU64::load(self, order)
        }

        fn store(&self, value: u64, order: Ordering) {
            AtomicU64::store(self, value, order);
        }

        fn compare_exchange(&self, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
            AtomicU64::compare_exchange(self, current, new, success, Ordering::Relaxed)
        }
    }
}

//! Rows of atomic words in memory that others write. The bounds and the alignment of all words of a
//! row are checked once, when the row is made. An access checks only the index.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::Memory;
use crate::memory::misaligned;

/// `COUNT` words of type `W`, each `STRIDE` bytes after the one before.
#[derive(Clone)]
pub struct Row<W, const STRIDE: usize, const COUNT: usize> {
    /// The memory from the first word to the end of the last one.
    memory: Memory,
    _words: PhantomData<W>,
}

impl<W, const STRIDE: usize, const COUNT: usize> fmt::Debug for Row<W, STRIDE, COUNT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({COUNT} words in {:?})", self.memory)
    }
}

/// An atomic word of a row.
pub trait Word: Sized {
    /// The word at `place`.
    ///
    /// # Safety
    /// The word at `place` is aligned, and valid for `'a`; other accesses to it are atomic.
    unsafe fn at<'a>(place: *mut u8) -> &'a Self;
}

impl Word for AtomicU32 {
    #[inline]
    unsafe fn at<'a>(place: *mut u8) -> &'a AtomicU32 {
        // SAFETY: the caller's promise.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }
}

impl Word for AtomicU64 {
    #[inline]
    unsafe fn at<'a>(place: *mut u8) -> &'a AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }
}

impl<W: Word, const STRIDE: usize, const COUNT: usize> Row<W, STRIDE, COUNT> {
    /// The length from the first word to the end of the last one.
    const BYTES: usize = {
        assert!(STRIDE >= size_of::<W>() && STRIDE.is_multiple_of(align_of::<W>()), "words are aligned and apart");
        STRIDE * (COUNT - 1) + size_of::<W>()
    };

    /// The words from byte `at` on; `None` where not all are inside the memory, or aligned.
    pub fn of(memory: &Memory, at: usize) -> Option<Self> {
        let memory = memory.slice(at, Self::BYTES)?;
        memory.as_ptr().cast::<W>().is_aligned().then_some(Row { memory, _words: PhantomData })
    }

    /// A word by its index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&W> {
        // SAFETY: the memory has the words up to `COUNT` (`of`), and lives as long as `self`; the
        // first one is aligned (`of`), and so are the others by `STRIDE`. Others access them by
        // atomics.
        (index < COUNT).then(|| unsafe { W::at(self.memory.as_ptr().add(index * STRIDE)) })
    }
}

impl Memory {
    /// The `COUNT` words from byte `at` on, as [`Memory::word64`].
    ///
    /// # Panics
    /// If they are not inside, or not aligned.
    #[inline]
    pub fn words64<const COUNT: usize>(&self, at: usize) -> &[AtomicU64; COUNT] {
        let words = self.pointer(at, 8 * COUNT).cast::<[AtomicU64; COUNT]>();
        if !words.is_aligned() {
            misaligned(64, words.addr());
        }
        // SAFETY: the words are inside, aligned, and alive as long as `self`; other processes
        // access them by atomics.
        unsafe { &*words }
    }

    /// The `count` words from byte `at` on, as [`Memory::word64`].
    ///
    /// # Panics
    /// If they are not inside, or not aligned.
    #[inline]
    pub fn all_words64(&self, at: usize, count: usize) -> &[AtomicU64] {
        let words = self.pointer(at, count.saturating_mul(8)).cast::<AtomicU64>();
        if !words.is_aligned() {
            misaligned(64, words.addr());
        }
        // SAFETY: the words are inside, aligned, and alive as long as `self`; other processes
        // access them by atomics.
        unsafe { std::slice::from_raw_parts(words, count) }
    }

    /// Prefetches the cache line of byte `at` for writing, if the CPU can. Atomics between this
    /// call and the write do not wait for the line.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        let place = self.pointer(at, 1);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch changes nothing and fails at no address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(place.cast_const().cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = place;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn words_of_a_row_are_those_of_the_memory() {
        let memory = Memory::private(72);
        let row = Row::<AtomicU64, 16, 4>::of(&memory, 8).expect("inside");
        for index in 0..4 {
            row.get(index).expect("a word").store(index as u64 + 1, Ordering::Relaxed);
        }
        assert!(row.get(4).is_none() && row.get(usize::MAX).is_none());
        assert_eq!([8, 24, 40, 56].map(|at| memory.word64(at).load(Ordering::Relaxed)), [1, 2, 3, 4]);
    }

    #[test]
    fn words_are_inside() {
        let memory = Memory::private(72);
        memory.word64(64).store(7, Ordering::Relaxed);
        let words = memory.all_words64(8, 8);
        assert_eq!((words.len(), words[7].load(Ordering::Relaxed)), (8, 7));
        for (at, count) in [(16, 8), (4, 1), (0, usize::MAX)] {
            let words = AssertUnwindSafe(|| memory.all_words64(at, count).len());
            assert!(std::panic::catch_unwind(words).is_err(), "{at} {count}");
        }
    }

    #[test]
    fn rows_outside_or_misaligned_are_refused() {
        let memory = Memory::private(64);
        assert!(Row::<AtomicU64, 64, 1>::of(&memory, 56).is_some());
        assert!(Row::<AtomicU64, 64, 1>::of(&memory, 64).is_none());
        assert!(Row::<AtomicU64, 64, 2>::of(&memory, 0).is_none());
        assert!(Row::<AtomicU32, 4, 2>::of(&memory, 60).is_none());
        assert!(Row::<AtomicU32, 4, 1>::of(&memory, 2).is_none());
        assert!(Row::<AtomicU32, 4, 1>::of(&memory, usize::MAX).is_none());
    }
}

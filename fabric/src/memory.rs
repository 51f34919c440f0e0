//! Memory that other processes may read and write at any time. Only this module, `row`, `copy` and
//! `combine` access the bytes.
//!
//! The bytes are accessed by copies through raw pointers, and by atomics on aligned words. No
//! reference to plain bytes exists. The bytes are valid as long as their [`Memory`] exists.

use std::any::Any;
use std::fmt;
use std::hint::black_box;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::combine;
use crate::copy::copy;
use crate::{Amo, AmoKind, Width};

/// A range of this process's memory: pointer and length, without the right to access the bytes. A
/// port gets the span of an origin's buffer, whose owner promises to keep the buffer valid.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    base: *mut u8,
    len: usize,
}

// SAFETY: a Span gives no access by itself; the unsafe functions that take one state the
// requirements.
unsafe impl Send for Span {}
// SAFETY: as for `Send`: a shared Span gives no access either.
unsafe impl Sync for Span {}

impl Span {
    /// The empty span: no bytes.
    pub const EMPTY: Span = Span { base: NonNull::<u8>::dangling().as_ptr(), len: 0 };

    /// A span over bytes that are only read.
    #[inline]
    pub fn of(bytes: &[u8]) -> Span {
        Span { base: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }

    /// A span over bytes that are written.
    #[inline]
    pub fn of_mut(bytes: &mut [u8]) -> Span {
        Span { base: bytes.as_mut_ptr(), len: bytes.len() }
    }

    /// A span from its parts.
    #[inline]
    pub const fn from_raw(base: *mut u8, len: usize) -> Span {
        Span { base, len }
    }

    /// The first byte's address.
    #[inline]
    pub const fn as_ptr(self) -> *mut u8 {
        self.base
    }

    /// The length in bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether the span has no bytes.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The part `[at, at + len)`; `None` where it is not inside the span.
    #[inline]
    pub fn slice(self, at: usize, len: usize) -> Option<Span> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| Span { base: self.base.wrapping_add(at), len })
    }
}

/// Memory with a stable address, which others may read and write at any time.
#[derive(Clone)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    /// A thin pointer, because some values hold many parts of memory and should stay small.
    owner: Option<Arc<Owner>>,
}

/// The value that keeps memory alive until it is dropped.
struct Owner(#[allow(dead_code)] Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

/// A [`Memory`] that does not keep its bytes alive, as `std::sync::Weak`.
#[derive(Clone, Debug)]
pub struct WeakMemory {
    place: Span,
    owner: Weak<Owner>,
}

// SAFETY: every access is a raw copy or an atomic, which any thread may do; the owner is Send +
// Sync.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`: raw copies and atomics are allowed from several threads at the same time.
unsafe impl Sync for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({:p}, {} bytes)", self.base, self.len)
    }
}

impl Memory {
    /// Memory at `base`, kept alive by `owner`.
    ///
    /// # Safety
    /// `[base, base + len)` is readable and writable for as long as `owner` lives (for `None`: as
    /// long as any clone of the result). No Rust reference to the bytes exists while others may
    /// write them.
    pub unsafe fn new(base: NonNull<u8>, len: usize, owner: Option<Arc<dyn Any + Send + Sync>>) -> Memory {
        Memory { base, len, owner: owner.map(|owner| Arc::new(Owner(owner))) }
    }

    /// Zeroed memory of this process alone, aligned to 8 bytes. The kernel supplies its pages at
    /// first touch.
    pub fn private(len: usize) -> Memory {
        let mut words = vec![0u64; len.div_ceil(8)];
        let base = NonNull::new(words.as_mut_ptr().cast::<u8>()).unwrap_or(NonNull::dangling());
        // SAFETY: only the owner's drop accesses the vector again, so its memory is valid and no
        // reference to its elements exists; moving a vector does not move its elements.
        unsafe { Memory::new(base, len, Some(Arc::new(words))) }
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address in this process.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The whole as a [`Span`].
    #[inline]
    pub fn span(&self) -> Span {
        Span { base: self.base.as_ptr(), len: self.len }
    }

    /// The part `[at, at + len)`, which keeps the whole alive; `None` where it is not inside.
    pub fn slice(&self, at: usize, len: usize) -> Option<Memory> {
        let part = self.span().slice(at, len)?;
        Some(Memory { base: NonNull::new(part.base)?, len, owner: self.owner.clone() })
    }

    /// Joins parts with consecutive addresses into one memory, which keeps all of them alive;
    /// `None` where the addresses are not consecutive.
    pub fn joined(parts: Vec<Memory>) -> Option<Memory> {
        let first = parts.first()?.base.as_ptr().expose_provenance();
        let mut len = 0;
        for part in &parts {
            if part.base.as_ptr().expose_provenance() != first + len {
                return None;
            }
            len += part.len;
        }
        let base = NonNull::new(std::ptr::with_exposed_provenance_mut(first))?;
        // SAFETY: each part is readable and writable as long as it lives, and the result keeps them
        // all; their addresses are consecutive (above), and the pointers to all of them are
        // exposed.
        Some(unsafe { Memory::new(base, len, Some(Arc::new(parts))) })
    }

    /// This memory without keeping it alive; `None` if it has no owner.
    pub fn downgrade(&self) -> Option<WeakMemory> {
        let owner = Arc::downgrade(self.owner.as_ref()?);
        Some(WeakMemory { place: self.span(), owner })
    }

    /// The pointer to the `len` bytes at `at`.
    ///
    /// # Panics
    /// If the range is not inside.
    #[inline]
    pub(crate) fn pointer(&self, at: usize, len: usize) -> *mut u8 {
        if len > self.len || at > self.len - len {
            outside(at, len, self.len);
        }
        // SAFETY: `at` is inside the memory, which the owner keeps alive.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Stores `bytes` at `at`. 4 and 8 bytes at an aligned location are one store.
    ///
    /// # Panics
    /// If the range is not inside. Callers check ranges before, to report errors in their own
    /// terms.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.pointer(at, bytes.len());
        if let Ok(word) = <[u8; 8]>::try_from(bytes) {
            // SAFETY: 8 bytes at `to` are inside (`pointer`); an unaligned store has no other
            // requirement.
            return unsafe { to.cast::<u64>().write_unaligned(u64::from_ne_bytes(word)) };
        }
        if let Ok(word) = <[u8; 4]>::try_from(bytes) {
            // SAFETY: 4 bytes at `to` are inside (`pointer`); an unaligned store has no other
            // requirement.
            return unsafe { to.cast::<u32>().write_unaligned(u32::from_ne_bytes(word)) };
        }
        // SAFETY: the source is a live slice; the target is inside (`pointer`). They may not
        // overlap as Rust objects, since no reference to this memory exists.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Loads `bytes.len()` bytes from `at`. 4 and 8 bytes at an aligned location are one load.
    ///
    /// # Panics
    /// As for [`Memory::write`].
    #[inline]
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        let from = self.pointer(at, bytes.len());
        if let Ok(word) = <&mut [u8; 8]>::try_from(&mut *bytes) {
            // SAFETY: 8 bytes at `from` are inside (`pointer`).
            *word = unsafe { from.cast::<u64>().read_unaligned() }.to_ne_bytes();
            return;
        }
        if let Ok(word) = <&mut [u8; 4]>::try_from(&mut *bytes) {
            // SAFETY: 4 bytes at `from` are inside (`pointer`).
            *word = unsafe { from.cast::<u32>().read_unaligned() }.to_ne_bytes();
            return;
        }
        // SAFETY: the source is inside (`pointer`); the target is a live slice, which no reference
        // to this memory overlaps.
        unsafe { copy(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Replaces each `T` in the `operand.len()` bytes from `at` on by `function` of this `T` and of
    /// the `T` at the same offset in `operand`. The bytes may have any alignment. Not atomic: the
    /// caller excludes other accesses, or accepts a race.
    ///
    /// # Panics
    /// As for [`Memory::write`].
    #[inline]
    pub fn combine<T: bytemuck::Pod>(&self, at: usize, operand: &[u8], function: impl Fn(T, T) -> T) {
        let to = self.pointer(at, operand.len());
        // SAFETY: both have `operand.len()` bytes (`pointer`). No reference to this memory exists,
        // so the operand is other memory.
        unsafe { combine::combine(to, operand.as_ptr(), operand.len(), function) }
    }

    /// As [`Memory::combine`], with operands in `other`. If they overlap the elements, the result
    /// is not defined.
    ///
    /// # Panics
    /// As for [`Memory::write`] on one of the two memories.
    #[inline]
    pub fn combine_with<T>(&self, at: usize, other: &Memory, operands: Range<usize>, function: impl Fn(T, T) -> T)
    where
        T: bytemuck::Pod,
    {
        let (to, from) = (self.pointer(at, operands.len()), other.pointer(operands.start, operands.len()));
        // SAFETY: both have these bytes (`pointer`), which are accessed by raw pointers only.
        unsafe { combine::combine(to, from, operands.len(), function) }
    }

    /// Copies equal blocks between `ours` and this memory, with one check for all blocks: into this
    /// memory if `WRITE`, else out of it. `at` is the first block's offset in this memory. Strides
    /// are bytes from one block to the next and may be negative. Returns false, without a copy, if
    /// a block is not inside this memory.
    ///
    /// # Safety
    /// During the call every block of `ours` is readable, and not written by others, where `WRITE`;
    /// else it is writable, and not accessed by others.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // addresses have the width of isize
    pub unsafe fn copy_blocks<const WRITE: bool>(&self, at: i64, stride: i64, ours: Blocks) -> bool {
        let Blocks { base, stride: step, len, count } = ours;
        if count == 0 || len == 0 {
            return true;
        }
        let way = i64::try_from(count - 1).ok().and_then(|steps| steps.checked_mul(stride));
        let Some(last) = way.and_then(|way| at.checked_add(way)) else { return false };
        if at.min(last) < 0 || len > self.len || at.max(last).cast_unsigned() > (self.len - len) as u64 {
            return false;
        }
        let theirs = self.base.as_ptr().wrapping_offset(at as isize);
        // SAFETY: the first and the last block are inside this memory, so all are, for either sign
        // of the stride; the caller promises the same of `ours`. Both pointers stay within their
        // blocks.
        unsafe {
            match len {
                4 => copy_words::<WRITE, u32>(theirs, stride, base, step, count),
                8 => copy_words::<WRITE, u64>(theirs, stride, base, step, count),
                16 => copy_words::<WRITE, u128>(theirs, stride, base, step, count),
                _ => {
                    let (mut there, mut here) = (theirs, base);
                    for _ in 0..count {
                        let (from, to) = if WRITE { (here, there) } else { (there, here) };
                        copy(from, to, len);
                        (there, here) = (there.wrapping_offset(stride as isize), here.wrapping_offset(step as isize));
                    }
                }
            }
        }
        true
    }

    /// The aligned 32-bit word at byte `at`.
    ///
    /// # Panics
    /// If it is not inside, or not aligned.
    #[inline]
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        let word = self.pointer(at, 4).cast::<u32>();
        if !word.is_aligned() {
            misaligned(32, word.addr());
        }
        // SAFETY: the word is inside, aligned, and alive as long as `self`; other processes access
        // it by atomics.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// The aligned 64-bit word at byte `at`.
    ///
    /// # Panics
    /// If it is not inside, or not aligned.
    #[inline]
    pub fn word64(&self, at: usize) -> &AtomicU64 {
        let word = self.pointer(at, 8).cast::<u64>();
        if !word.is_aligned() {
            misaligned(64, word.addr());
        }
        // SAFETY: the word is inside, aligned, and alive as long as `self`; other processes access
        // it by atomics.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Performs an atomic on the word at byte `at`, by this CPU, and returns the previous value.
    /// Sequentially consistent: one total order with all other CPU atomics of the node.
    ///
    /// # Panics
    /// As for [`Memory::word64`].
    #[inline]
    pub fn amo(&self, at: usize, amo: Amo) -> u64 {
        match amo.width {
            Width::W64 => amo64(self.word64(at), amo),
            #[allow(clippy::cast_possible_truncation)]
            // with this width the low half is the value
            Width::W32 => u64::from(amo32(self.word32(at), amo.kind, amo.operand as u32, amo.compare as u32)),
        }
    }
}

impl WeakMemory {
    /// The memory, if it still exists.
    pub fn upgrade(&self) -> Option<Memory> {
        let owner = self.owner.upgrade()?;
        Some(Memory { base: NonNull::new(self.place.base)?, len: self.place.len, owner: Some(owner) })
    }
}

/// Panics about a range. Out of line, so that the hot path need not lay out the message's numbers
/// in memory.
#[cold]
#[inline(never)]
fn outside(at: usize, len: usize, of: usize) -> ! {
    panic!("{len} bytes at {at} of {of} bytes");
}

#[cold]
#[inline(never)]
pub(crate) fn misaligned(bits: usize, at: usize) -> ! {
    panic!("a {bits}-bit word at the misaligned address {at:#x}");
}

/// Equal blocks of this process's memory at equal distances, for [`Memory::copy_blocks`].
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// The first byte of the first block.
    pub base: *mut u8,
    /// Bytes from one block to the next.
    pub stride: i64,
    /// Bytes of a block.
    pub len: usize,
    /// The number of blocks.
    pub count: usize,
}

/// Copies blocks of the size of `W`, each by one load and one store.
///
/// # Safety
/// All blocks of both sides are inside memory that may be read or written, as
/// [`Memory::copy_blocks`] says.
#[inline]
#[allow(clippy::cast_possible_truncation)] // addresses have the width of isize
unsafe fn copy_words<const WRITE: bool, W: Copy>(there: *mut u8, stride: i64, here: *mut u8, step: i64, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        // A distance that the compiler knows halves the number of the loop's instructions.
        if step == size_of::<W>() as i64 {
            copy_words_unrolled::<WRITE, W>(
                there,
                stride as isize,
                here,
                size_of::<W>() as isize,
                |steps| steps,
                count,
            );
        } else {
            copy_words_unrolled::<WRITE, W>(there, stride as isize, here, step as isize, black_box, count);
        }
    }
}

/// [`copy_words`] by a loop unrolled by four, at distances that are computed before the loop.
/// Without `black_box` the compiler would compute each distance by an addition to the previous one,
/// so that each block would wait for the previous block. `opaque` applies `black_box` to the
/// distances of this process's blocks too, unless they are constants.
///
/// # Safety
/// As for [`copy_words`].
#[inline(always)]
unsafe fn copy_words_unrolled<const WRITE: bool, W: Copy>(
    mut there: *mut u8,
    stride: isize,
    mut here: *mut u8,
    step: isize,
    opaque: impl Fn([isize; 3]) -> [isize; 3],
    mut left: usize,
) {
    let multiples = |by: isize| [2, 3, 4].map(|times: isize| by.wrapping_mul(times));
    let ([stride_2, stride_3, stride_4], [step_2, step_3, step_4]) =
        (black_box(multiples(stride)), opaque(multiples(step)));
    // SAFETY: the caller's promise.
    let load = |at: *mut u8| unsafe { at.cast::<W>().read_unaligned() };
    // SAFETY: the caller's promise.
    let store = |at: *mut u8, word: W| unsafe { at.cast::<W>().write_unaligned(word) };
    while left >= 4 {
        let theirs =
            [there, there.wrapping_offset(stride), there.wrapping_offset(stride_2), there.wrapping_offset(stride_3)];
        let ours = [here, here.wrapping_offset(step), here.wrapping_offset(step_2), here.wrapping_offset(step_3)];
        let (from, to) = if WRITE { (ours, theirs) } else { (theirs, ours) };
        let words = [load(from[0]), load(from[1]), load(from[2]), load(from[3])];
        for (to, word) in to.into_iter().zip(words) {
            store(to, word);
        }
        (there, here) = (there.wrapping_offset(stride_4), here.wrapping_offset(step_4));
        left -= 4;
    }
    for _ in 0..left {
        let (from, to) = if WRITE { (here, there) } else { (there, here) };
        store(to, load(from));
        (there, here) = (there.wrapping_offset(stride), here.wrapping_offset(step));
    }
}

#[inline]
fn amo64(word: &AtomicU64, amo: Amo) -> u64 {
    // SeqCst: MPI's accumulate family on different locations of a target is observed in one order
    // (ordering `rar,raw,war,waw`).
    match amo.kind {
        AmoKind::Sum => word.fetch_add(amo.operand, Ordering::SeqCst),
        AmoKind::Replace => word.swap(amo.operand, Ordering::SeqCst),
        AmoKind::Read => word.load(Ordering::SeqCst),
        AmoKind::CompareSwap => word
            .compare_exchange(amo.compare, amo.operand, Ordering::SeqCst, Ordering::SeqCst)
            .unwrap_or_else(|found| found),
    }
}

#[inline]
fn amo32(word: &AtomicU32, kind: AmoKind, operand: u32, compare: u32) -> u32 {
    // SeqCst: as in `amo64`.
    match kind {
        AmoKind::Sum => word.fetch_add(operand, Ordering::SeqCst),
        AmoKind::Replace => word.swap(operand, Ordering::SeqCst),
        AmoKind::Read => word.load(Ordering::SeqCst),
        AmoKind::CompareSwap => {
            word.compare_exchange(compare, operand, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|found| found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::PIECE;

    /// Copies of several pieces.
    #[test]
    fn write_and_read_long_lengths() {
        for len in [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 5] {
            let memory = Memory::private(len + 8);
            let bytes: Vec<u8> = (0..251).cycle().take(len).collect();
            memory.write(3, &bytes);
            let mut seen = vec![0; len + 8];
            memory.read(0, &mut seen);
            assert_eq!((&seen[..3], &seen[3..len + 3], &seen[len + 3..]), (&[0; 3][..], &bytes[..], &[0; 5][..]));
        }
    }

    #[test]
    fn write_and_read_every_small_length() {
        let memory = Memory::private(64);
        for len in 0..33u8 {
            let source: Vec<u8> = (1..=len).collect();
            memory.write(7, &source);
            let mut back = vec![0; usize::from(len)];
            memory.read(7, &mut back);
            assert_eq!(back, source);
        }
    }

    #[test]
    fn the_cpu_does_what_apply_says() {
        let memory = Memory::private(16);
        for width in [Width::W32, Width::W64] {
            for kind in AmoKind::ALL {
                for (old, operand, compare) in [(5, 7, 5), (5, 7, 6), (u64::MAX, 2, u64::MAX)] {
                    memory.word64(8).store(old, Ordering::Relaxed);
                    let amo = Amo { kind, width, operand, compare: width.truncate(compare) };
                    assert_eq!(memory.amo(8, amo), width.truncate(old), "{amo:?}");
                    let now = width.truncate(memory.word64(8).load(Ordering::Relaxed));
                    assert_eq!(now, amo.apply(old), "{amo:?} on {old}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_copied_both_ways_at_any_stride() {
        for len in [1usize, 3, 4, 8, 16, 20] {
            let memory = Memory::private(400);
            let mut source: Vec<u8> = (1..=100).collect();
            let ours = Blocks { base: source.as_mut_ptr(), stride: len as i64, len, count: 5 };
            // SAFETY: 5 blocks of at most 20 bytes of the vector.
            assert!(unsafe { memory.copy_blocks::<true>(300, -50, ours) });
            for block in 0..5 {
                let mut seen = vec![0; len];
                memory.read(300 - block * 50, &mut seen);
                assert_eq!(seen, source[block * len..(block + 1) * len], "block {block} of {len} bytes");
            }
            let mut back = vec![0u8; 100];
            let last = back.as_mut_ptr().wrapping_add(4 * len);
            // SAFETY: 5 blocks of the vector, the last one first.
            assert!(unsafe {
                memory.copy_blocks::<false>(100, 50, Blocks { base: last, stride: -(len as i64), len, count: 5 })
            });
            assert_eq!(back[..5 * len], source[..5 * len]);
        }
    }

    #[test]
    fn blocks_outside_are_refused_and_nothing_is_copied() {
        let memory = Memory::private(64);
        for (at, stride, count) in [(16, -9, 3), (48, 9, 2), (-1, 8, 1), (57, 0, 1), (0, i64::MAX, 3), (i64::MAX, 8, 2)]
        {
            let mut ours = [7u8; 24];
            let blocks = Blocks { base: ours.as_mut_ptr(), stride: 8, len: 8, count };
            // SAFETY: at most 3 blocks of the array.
            assert!(!unsafe { memory.copy_blocks::<true>(at, stride, blocks) }, "{count} at {at} by {stride}");
            let mut all = [1; 64];
            memory.read(0, &mut all);
            assert_eq!(all, [0; 64]);
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes at 9 of 16 bytes")]
    fn a_range_outside_is_refused() {
        Memory::private(16).write(9, &[0; 8]);
    }

    #[test]
    fn slices_stay_inside_and_keep_the_whole() {
        let part = {
            let whole = Memory::private(32);
            whole.word64(16).store(9, Ordering::Relaxed);
            assert!(whole.slice(17, 16).is_none());
            assert!(whole.slice(usize::MAX, 2).is_none());
            whole.slice(16, 16).expect("inside")
        };
        assert_eq!(part.word64(0).load(Ordering::Relaxed), 9);
    }
}

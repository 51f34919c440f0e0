//! The accumulate family on memory that this process reaches by load and store. Each element is
//! changed atomically with respect to all callers on the same memory: under the stripes' locks,
//! under which large operations run vector code; or by CPU atomics, if the window was created with
//! element granularity. In a window a type has one of the two disciplines, never both.
//!
//! Integers of 32 and 64 bits also use the gates of the stripes. While a gate is open, an operation
//! on a few elements changes each of them by one atomic, without the lock; vector code first closes
//! the gate. Other types always take the lock, and so do elements at misaligned addresses, under
//! both disciplines: the CPU's atomics need aligned words. MPI defines nothing where elements
//! overlap in part.

mod in_memory;
mod scattered;

use std::sync::atomic::{Ordering, fence};

use transom_fabric::gate::Visit;
use transom_fabric::{Amo, AmoKind, Memory, Width};

use crate::reduce::kernel::{Elements, combine_elsewhere, combine_one};
use crate::reduce::{BasicType, CompareSwap, Op};
use crate::sync::stripe::{self, BLOCK, Visitor};
use crate::sync::words::Words;

/// Memory, with the discipline that makes accumulates on it atomic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicMemory<'a> {
    pub(crate) memory: &'a Memory,
    /// The control words of the part that the memory belongs to.
    pub(crate) words: Words<'a>,
    /// The words in which this rank records that it bypasses a stripe's lock.
    pub(crate) visitor: &'a Visitor,
    /// Whether CPU atomics, instead of the stripes' locks, make accumulates on aligned words of 4
    /// and 8 bytes atomic.
    pub(crate) per_element: bool,
    /// The offset of the memory in the part. Stripes are counted from the beginning of the part.
    pub(crate) base: usize,
}

/// Space for a block and for an element that crosses its end; aligned for every type.
#[repr(align(16))]
struct Scratch<const N: usize>([u8; N]);

/// Accumulates up to this many bytes use a small scratch, which costs less to clear.
const SMALL: usize = 256;
const LARGE: usize = BLOCK + 32;

/// Maximum number of words that an accumulate changes one by one while the gate is open. A longer
/// accumulate closes the gate.
const FEW: usize = 8;

/// The receiver of previous values: the offset within the operation, and the bytes.
pub(crate) type Old<'o> = &'o mut dyn FnMut(usize, &[u8]);

impl<'a> AtomicMemory<'a> {
    #[inline]
    fn lock(&self, at: usize) -> stripe::Held<'a> {
        stripe::lock(self.words, self.base + at)
    }

    #[inline]
    fn by_atomics(&self, ty: BasicType) -> bool {
        self.per_element && matches!(ty.size(), 4 | 8) && ty.align() == ty.size()
    }

    /// Whether an element at byte `at` is at a multiple of its alignment. All processes that map
    /// the memory agree, because mappings begin at pages.
    #[inline]
    fn is_aligned(&self, at: usize, ty: BasicType) -> bool {
        (self.memory.as_ptr().addr() + at).is_multiple_of(ty.align())
    }

    /// Combines one aligned element of at most 8 bytes and returns its previous value. Values are
    /// in the low bytes.
    // Always inlined, like its callers. Paths that call functions are separate, so that they take
    // no registers here.
    #[inline(always)]
    pub(crate) fn one(&self, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        if self.by_atomics(ty) {
            return self.one_by_atomics(at, op, ty, operand);
        }
        if let Some(held) = stripe::try_lock(self.words, self.base + at) {
            return self.one_locked(&held, at, op, ty, operand);
        }
        if let Some(_visit) = self.pass(at, ty) {
            return self.atomic(at, op, ty, operand);
        }
        (*self).one_contended(at, op, ty, operand)
    }

    /// Bypasses the lock for an operation by one atomic on an element of type `ty`, if the gate is
    /// open.
    // Always inlined, so that operation and type are constants up to the CPU's atomic: the shorter
    // the path, the more atomics in a row find the cache line still in their CPU.
    #[inline(always)]
    fn pass(&self, at: usize, ty: BasicType) -> Option<Visit<'a>> {
        if is_word(ty) { stripe::pass(self.words, self.base + at, *self.visitor) } else { None }
    }

    /// [`AtomicMemory::one`] at any alignment.
    #[inline]
    pub(crate) fn one_anywhere(&self, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        match self.is_aligned(at, ty) {
            true => self.one(at, op, ty, operand),
            false => self.one_locked(&self.lock(at), at, op, ty, operand),
        }
    }

    /// Slow path of [`AtomicMemory::one`]: the lock was held, and its gate was not open.
    // `self` by value, so that the hot path need not store the `AtomicMemory` in memory.
    #[inline(never)]
    fn one_contended(self, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        if !is_word(ty) {
            return self.one_locked(&self.lock(at), at, op, ty, operand);
        }
        let mut held = self.lock(at);
        let old = self.atomic(at, op, ty, operand);
        stripe::count_one(&mut held, self.words, self.base + at, *self.visitor);
        old
    }

    #[inline(always)]
    fn one_locked(&self, _held: &stripe::Held<'_>, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        let old = load(self.memory, at, ty.size());
        acquire_value();
        if !matches!(op, Op::NoOp) {
            store(self.memory, at, ty.size(), combine_one(op, ty, old, operand));
        }
        old
    }

    /// Compares and swaps an aligned element, and returns its previous value.
    #[inline]
    pub(crate) fn swap(&self, at: usize, ty: BasicType, values: CompareSwap<u64>) -> u64 {
        if self.by_atomics(ty) {
            return self.memory.amo(at, compare_swap(width(ty), values));
        }
        if let Some(held) = stripe::try_lock(self.words, self.base + at) {
            return self.swap_locked(&held, at, ty, values);
        }
        if let Some(_visit) = self.pass(at, ty) {
            return self.memory.amo(at, compare_swap(width(ty), values));
        }
        (*self).swap_contended(at, ty, values)
    }

    /// [`AtomicMemory::swap`] at any alignment.
    #[inline]
    pub(crate) fn swap_anywhere(&self, at: usize, ty: BasicType, values: CompareSwap<u64>) -> u64 {
        match self.is_aligned(at, ty) {
            true => self.swap(at, ty, values),
            false => self.swap_locked(&self.lock(at), at, ty, values),
        }
    }

    #[inline(always)]
    fn swap_locked(&self, _held: &stripe::Held<'_>, at: usize, ty: BasicType, values: CompareSwap<u64>) -> u64 {
        let old = load(self.memory, at, ty.size());
        acquire_value();
        if old == truncate(values.expected, ty.size()) {
            store(self.memory, at, ty.size(), values.new);
        }
        old
    }

    #[inline(never)]
    fn swap_contended(self, at: usize, ty: BasicType, values: CompareSwap<u64>) -> u64 {
        if !is_word(ty) {
            return self.swap_locked(&self.lock(at), at, ty, values);
        }
        let mut held = self.lock(at);
        let old = self.memory.amo(at, compare_swap(width(ty), values));
        stripe::count_one(&mut held, self.words, self.base + at, *self.visitor);
        old
    }

    /// [`AtomicMemory::swap`] of an element of any size, as bytes.
    pub(crate) fn swap_bytes(&self, at: usize, values: CompareSwap<&[u8]>, old: &mut [u8]) {
        let _held = self.lock(at);
        self.memory.read(at, old);
        acquire_value();
        if old == values.expected {
            self.memory.write(at, values.new);
        }
    }

    #[cold]
    fn one_by_atomics(self, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        if is_word(ty) { self.atomic(at, op, ty, operand) } else { self.atomic_by_swaps(at, op, ty, operand) }
    }

    /// Combines an integer by one of the CPU's atomics.
    #[inline(always)]
    fn atomic(&self, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        let kind = match op {
            Op::Sum => AmoKind::Sum,
            Op::Replace => AmoKind::Replace,
            Op::NoOp => AmoKind::Read,
            _ => return (*self).atomic_by_swaps(at, op, ty, operand),
        };
        self.memory.amo(at, Amo::new(kind, width(ty), operand))
    }

    /// Combines an element of 4 or 8 bytes by compare-and-swap.
    #[inline(never)]
    fn atomic_by_swaps(self, at: usize, op: Op, ty: BasicType, operand: u64) -> u64 {
        let width = width(ty);
        // Relaxed: a guess, which the compare-and-swap verifies.
        let mut old = match width {
            Width::W32 => u64::from(self.memory.word32(at).load(Ordering::Relaxed)),
            Width::W64 => self.memory.word64(at).load(Ordering::Relaxed),
        };
        loop {
            let new = match op {
                Op::NoOp => old,
                Op::Replace => operand,
                _ => combine_one(op, ty, old, operand),
            };
            let found = self.memory.amo(at, Amo::compare_swap(width, old, new));
            if found == old {
                return old;
            }
            old = found;
        }
    }

    /// Combines whole elements with `operand`, block by block, at any alignment; passes the
    /// previous values to `old`.
    pub(crate) fn many(&self, at: usize, op: Op, ty: BasicType, operand: Operand<'_>, old: Option<Old<'_>>) {
        let aligned = self.is_aligned(at, ty);
        if aligned && (self.by_atomics(ty) || self.passes(at, ty, operand.len())) {
            return self.one_by_one(at, op, ty, operand, old);
        }
        let many = Many { op, ty, visited: aligned && is_word(ty) };
        if let (Operand::Bytes(bytes), None) = (operand, &old) {
            return self.in_place(at, many, bytes);
        }
        if operand.len() <= SMALL {
            self.blocks(at, many, operand, old, &mut Scratch([0; SMALL]).0);
        } else {
            self.blocks(at, many, operand, old, &mut Scratch([0; LARGE]).0);
        }
    }

    /// Whether `len` bytes of elements are combined one by one, past an open gate, although the
    /// window has stripes. This is done for a few words.
    #[inline]
    fn passes(&self, at: usize, ty: BasicType, len: usize) -> bool {
        is_word(ty) && len <= FEW * ty.size() && stripe::is_open(self.words, self.base + at)
    }

    /// Locks the block of byte `at` for `len` bytes of elements, so that no other thread or process
    /// operates on the same elements.
    #[inline]
    fn lock_many(&self, at: usize, many: Many, len: usize) -> stripe::Held<'a> {
        let mut held = self.lock(at);
        if many.visited {
            stripe::exclude_visits(&mut held, self.words, self.base + at, *self.visitor);
            if len > FEW * many.ty.size() {
                stripe::end_row(&held, self.words, self.base + at);
            }
        }
        held
    }

    /// The end of a block of `len` bytes that begins at `from`. An element that crosses the end of
    /// the stripe's block belongs to the block in which it begins.
    fn block(&self, from: usize, len: usize, size: usize) -> usize {
        let left = BLOCK - (self.base + from) % BLOCK;
        // Avoids the division where possible, because it costs as much as a lock.
        if len <= left {
            len
        } else if size.is_power_of_two() {
            ((left + size - 1) & !(size - 1)).min(len)
        } else {
            left.next_multiple_of(size).min(len)
        }
    }

    /// Combines in the memory itself, without previous values.
    fn in_place(&self, at: usize, many: Many, operand: &[u8]) {
        let mut done = 0;
        while done < operand.len() {
            let part = self.block(at + done, operand.len() - done, many.ty.size());
            let _held = self.lock_many(at + done, many, operand.len());
            self.block_in_place(at + done, many, &operand[done..done + part]);
            done += part;
        }
    }

    #[inline]
    fn block_in_place(&self, at: usize, Many { op, ty, .. }: Many, operand: &[u8]) {
        match op {
            Op::NoOp => {}
            Op::Replace => self.memory.write(at, operand),
            _ => combine_elsewhere(op, ty, InMemory { memory: self.memory, at, operand }),
        }
    }

    /// Combines by way of `scratch`, after the previous values were passed on.
    fn blocks(&self, at: usize, many: Many, operand: Operand<'_>, mut old: Option<Old<'_>>, scratch: &mut [u8]) {
        let (mut done, len) = (0, operand.len());
        while done < len {
            let from = at + done;
            let part = self.block(from, len - done, many.ty.size());
            let scratch = &mut scratch[..part];
            let _held = self.lock_many(from, many, len);
            if let Some(old) = &mut old {
                self.memory.read(from, scratch);
                old(done, scratch);
            }
            if let Operand::Bytes(bytes) = operand {
                self.block_in_place(from, many, &bytes[done..done + part]);
            }
            done += part;
        }
    }

    #[inline(never)]
    fn one_by_one(&self, at: usize, op: Op, ty: BasicType, operand: Operand<'_>, mut old: Option<Old<'_>>) {
        let size = ty.size();
        for done in (0..operand.len()).step_by(size) {
            let value = match operand {
                Operand::Bytes(bytes) => value(&bytes[done..done + size]),
                Operand::Nothing(_) => 0,
            };
            let before = self.one(at + done, op, ty, value);
            if let Some(old) = &mut old {
                old(done, bytes_of(&before.to_ne_bytes(), size));
            }
        }
    }
}

/// An operation under locks: its function, its type, and whether operations on single elements may
/// bypass the lock.
#[derive(Clone, Copy)]
struct Many {
    op: Op,
    ty: BasicType,
    visited: bool,
}

/// Elements of memory that others may access too, from byte `at` on, and their operands.
struct InMemory<'a> {
    memory: &'a Memory,
    at: usize,
    operand: &'a [u8],
}

impl Elements for InMemory<'_> {
    #[inline]
    fn combine<T: bytemuck::Pod>(self, function: impl Fn(T, T) -> T) {
        self.memory.combine(self.at, self.operand, function);
    }
}

/// The operands of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand<'a> {
    Bytes(&'a [u8]),
    /// No operands (`MPI_NO_OP`), for this number of bytes.
    Nothing(usize),
}

impl Operand<'_> {
    fn len(&self) -> usize {
        match self {
            Operand::Bytes(bytes) => bytes.len(),
            Operand::Nothing(len) => *len,
        }
    }
}

/// Whether an element is an integer that the CPU's atomics change.
#[inline(always)]
pub(crate) const fn is_word(ty: BasicType) -> bool {
    use BasicType::{Int32, Int64, Uint32, Uint64};
    matches!(ty, Int32 | Int64 | Uint32 | Uint64)
}

/// The atomic that compares and swaps an element of that width.
fn compare_swap(width: Width, values: CompareSwap<u64>) -> Amo {
    Amo::compare_swap(width, values.expected, values.new)
}

/// The width of an element of 4 or 8 bytes.
fn width(ty: BasicType) -> Width {
    if ty.size() == 4 { Width::W32 } else { Width::W64 }
}

/// A register's low bytes, as the machine stores them.
pub(crate) fn bytes_of(register: &[u8; 8], size: usize) -> &[u8] {
    let from = if cfg!(target_endian = "big") { 8 - size } else { 0 };
    &register[from..from + size]
}

/// The value of at most 8 bytes, in the low bytes of a register.
#[inline]
pub(crate) fn value(bytes: &[u8]) -> u64 {
    if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        return u64::from_ne_bytes(word);
    }
    if let Ok(word) = <[u8; 4]>::try_from(bytes) {
        return u64::from(u32::from_ne_bytes(word));
    }
    match *bytes {
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a] => u64::from(a),
        _ => 0,
    }
}

/// The low `size` bytes.
#[inline]
pub(crate) const fn truncate(value: u64, size: usize) -> u64 {
    if size >= 8 { value } else { value & ((1 << (size * 8)) - 1) }
}

/// Orders what a program does with an element's value after the load of the value, which another
/// rank may have stored by a put. The processor keeps loads in order on x86-64.
#[inline(always)]
fn acquire_value() {
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::Acquire);
    }
}

#[inline]
fn load(memory: &Memory, at: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    match size {
        8 => memory.read(at, &mut bytes),
        4 => memory.read(at, &mut bytes[..4]),
        2 => memory.read(at, &mut bytes[..2]),
        _ => memory.read(at, &mut bytes[..1]),
    }
    match size {
        8 => u64::from_ne_bytes(bytes),
        4 => u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        2 => u64::from(u16::from_ne_bytes([bytes[0], bytes[1]])),
        _ => u64::from(bytes[0]),
    }
}

#[inline]
fn store(memory: &Memory, at: usize, size: usize, value: u64) {
    let bytes = value.to_ne_bytes();
    match size {
        8 => memory.write(at, &bytes),
        4 => memory.write(at, bytes_of(&bytes, 4)),
        2 => memory.write(at, bytes_of(&bytes, 2)),
        _ => memory.write(at, bytes_of(&bytes, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memories() -> (Memory, Memory) {
        (Memory::private(3 * BLOCK), Memory::private(crate::sync::words::bytes(1)))
    }

    fn atomic<'m>(memory: &'m Memory, words: &'m Memory, per_element: bool) -> AtomicMemory<'m> {
        AtomicMemory { memory, words: Words::at(words, 0), visitor: &Visitor::NONE, per_element, base: 0 }
    }

    /// All disciplines give equal results for every count, across blocks too.
    #[test]
    fn small_and_large_and_both_disciplines_agree() {
        for per_element in [false, true] {
            let (memory, words) = memories();
            let atomic = atomic(&memory, &words, per_element);
            let operand: Vec<u8> = (0..1000u64).flat_map(u64::to_ne_bytes).collect();
            let mut before = Vec::new();
            let mut old = |at: usize, bytes: &[u8]| {
                assert_eq!(at, before.len(), "old values come in order");
                before.extend_from_slice(bytes);
            };
            atomic.many(8, Op::Sum, BasicType::Uint64, Operand::Bytes(&operand), None);
            atomic.many(8, Op::Sum, BasicType::Uint64, Operand::Bytes(&operand), Some(&mut old));
            assert_eq!(before, operand, "the first round's sums");
            for index in [0usize, 1, 510, 511, 512, 999] {
                let now = atomic.one(8 + index * 8, Op::NoOp, BasicType::Uint64, 0);
                assert_eq!(now, 2 * index as u64);
            }
            assert_eq!(atomic.one(8008, Op::NoOp, BasicType::Uint64, 0), 0, "the element behind");
            let nothing = Operand::Nothing(16);
            let mut seen = Vec::new();
            atomic.many(16, Op::NoOp, BasicType::Uint64, nothing, Some(&mut |_, bytes| seen.extend_from_slice(bytes)));
            assert_eq!(seen, [2u64.to_ne_bytes(), 4u64.to_ne_bytes()].concat());
        }
    }

    /// Pairs of 12 bytes follow each other without padding, and cross the end of a stripe's block.
    #[test]
    fn pairs_have_no_padding() {
        let (memory, words) = memories();
        let atomic = atomic(&memory, &words, false);
        let pair = |value: i64, index: u32| [&value.to_ne_bytes()[..], &index.to_ne_bytes()].concat();
        let target = [pair(1, 10), pair(9, 20), vec![0xaa; 4]].concat();
        let operand = [pair(5, 30), pair(5, 40)].concat();
        for (op, second) in [(Op::MaxLoc, pair(9, 20)), (Op::Replace, pair(5, 40))] {
            let at = BLOCK - 16;
            memory.write(at, &target);
            let mut before = Vec::new();
            let mut old = |_: usize, bytes: &[u8]| before.extend_from_slice(bytes);
            atomic.many(at, op, BasicType::LongInt, Operand::Bytes(&operand), Some(&mut old));
            let mut after = [0; 28];
            memory.read(at, &mut after);
            assert_eq!(after.as_slice(), [pair(5, 30), second, vec![0xaa; 4]].concat(), "{op}");
            assert_eq!(before, target[..24], "{op}");
        }
    }

    #[test]
    fn neighbouring_elements_are_unchanged() {
        let types = [BasicType::Int8, BasicType::Uint16, BasicType::Int32, BasicType::Uint64];
        for (ty, per_element) in types.into_iter().flat_map(|ty| [(ty, false), (ty, true)]) {
            let (memory, words) = memories();
            let atomic = atomic(&memory, &words, per_element);
            let at = 16;
            assert_eq!(atomic.one(at, Op::Sum, ty, truncate(u64::MAX, ty.size())), 0);
            assert_eq!(atomic.one(at, Op::Sum, ty, 3), truncate(u64::MAX, ty.size()));
            assert_eq!(atomic.swap(at, ty, CompareSwap { expected: 2, new: 9 }), 2);
            assert_eq!(atomic.swap(at, ty, CompareSwap { expected: 2, new: 7 }), 9, "not swapped");
            let mut all = [1; 32];
            memory.read(0, &mut all);
            assert!(all.iter().enumerate().all(|(i, &byte)| (byte == 0) != (i == 16)), "{ty:?}: {all:?}");
        }
    }
}

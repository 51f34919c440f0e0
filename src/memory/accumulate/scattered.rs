//! Accumulates on pieces that lie apart, such as a column of a matrix.

use super::{AtomicMemory, Many, Operand, is_word};
use crate::reduce::{BasicType, Op};
use crate::sync::stripe::{self, BLOCK};

/// An accumulate on pieces that lie apart. It keeps the lock of a block for the next pieces of the
/// block, because a lock costs more than a short piece.
pub(crate) struct ScatteredAccumulate<'a> {
    atomic: AtomicMemory<'a>,
    many: Many,
    /// The bytes of all pieces.
    len: usize,
    /// The block of the previous piece, with its lock.
    held: Option<(usize, stripe::Held<'a>)>,
}

impl ScatteredAccumulate<'_> {
    /// Combines a piece of whole elements.
    #[inline]
    pub(crate) fn combine(&mut self, at: usize, operand: &[u8]) {
        let (atomic, Many { op, ty, .. }) = (self.atomic, self.many);
        let from = atomic.base + at;
        let block = from / BLOCK;
        let is_inside = from % BLOCK + operand.len() <= BLOCK;
        if !is_inside || self.held.as_ref().is_none_or(|(held, _)| *held != block) {
            // Blocks that share a stripe share its lock.
            self.held = None;
            if !is_inside || atomic.is_aligned(at, ty) && atomic.passes(at, ty, operand.len()) {
                return atomic.many(at, op, ty, Operand::Bytes(operand), None);
            }
            self.held = Some((block, atomic.lock_many(at, self.many, self.len)));
        }
        atomic.block_in_place(at, self.many, operand);
    }
}

impl<'a> AtomicMemory<'a> {
    /// Begins an accumulate on pieces that lie apart, of `len` bytes in all and without previous
    /// values. `None` where the elements are combined without stripes.
    pub(crate) fn accumulate_scattered(&self, op: Op, ty: BasicType, len: usize) -> Option<ScatteredAccumulate<'a>> {
        let many = Many { op, ty, visited: is_word(ty) };
        (!self.by_atomics(ty)).then(|| ScatteredAccumulate { atomic: *self, many, len, held: None })
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Memory;

    use super::*;
    use crate::sync::stripe::Visitor;
    use crate::sync::words::{self, Words};

    fn atomic<'m>(memory: &'m Memory, words: &'m Memory) -> AtomicMemory<'m> {
        AtomicMemory { memory, words: Words::at(words, 0), visitor: &Visitor::NONE, per_element: false, base: 16 }
    }

    /// Pieces of every length and distance, some of which cross the end of a block, give the result
    /// of an accumulate on each piece.
    #[test]
    fn pieces_are_combined_as_accumulates_of_their_own() {
        let operand: Vec<u8> = (1..=1200u32).flat_map(u32::to_ne_bytes).collect();
        for (ty, op) in [(BasicType::Uint32, Op::Sum), (BasicType::Int16, Op::Max), (BasicType::Float32, Op::Replace)] {
            for (len, stride, first) in [(4, 8, 0), (4, 8, 2), (8, 4096, 4080), (24, 32, 3), (4096, 5000, 0), (4, 4, 0)]
            {
                let [one, other] = [(); 2].map(|()| Memory::private(8 * BLOCK));
                let words = Memory::private(words::bytes(1));
                let count = (operand.len() / len).min((8 * BLOCK - first - len) / stride);
                let mut scattered =
                    atomic(&one, &words).accumulate_scattered(op, ty, count * len).expect("the type has no padding");
                for (piece, operand) in operand.chunks_exact(len).take(count).enumerate() {
                    scattered.combine(first + piece * stride, operand);
                }
                drop(scattered);
                for (piece, operand) in operand.chunks_exact(len).take(count).enumerate() {
                    atomic(&other, &words).many(first + piece * stride, op, ty, Operand::Bytes(operand), None);
                }
                let [one, other] = [one, other].map(|memory| {
                    let mut bytes = vec![0; 8 * BLOCK];
                    memory.read(0, &mut bytes);
                    bytes
                });
                assert_eq!(one, other, "{op} of {ty}, {len} bytes every {stride}, from {first}");
            }
        }
    }

    /// Threads that combine columns, rows and single elements of a matrix: no sum is lost.
    #[test]
    fn pieces_are_atomic_with_all_other_accumulates() {
        const SIDE: usize = 64;
        const TURNS: u64 = if cfg!(miri) { 2 } else { 200 };
        let (memory, words) = (Memory::private(8 * SIDE * SIDE), Memory::private(words::bytes(1)));
        let ones: Vec<u8> = [1u64; SIDE].iter().flat_map(|one| one.to_ne_bytes()).collect();
        let ty = BasicType::Uint64;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (memory, words, ones) = (&memory, &words, &ones);
                scope.spawn(move || {
                    let atomic = atomic(memory, words);
                    for _ in 0..TURNS {
                        for line in 0..SIDE {
                            let column = |row: usize| 8 * (row * SIDE + line);
                            match thread % 4 {
                                0 | 1 => {
                                    let mut scattered =
                                        atomic.accumulate_scattered(Op::Sum, ty, 8 * SIDE).expect("no padding");
                                    ones.chunks(8)
                                        .enumerate()
                                        .for_each(|(row, one)| scattered.combine(column(row), one));
                                }
                                2 => atomic.many(8 * SIDE * line, Op::Sum, ty, Operand::Bytes(ones), None),
                                _ => (0..SIDE).for_each(|row| _ = atomic.one(column(row), Op::Sum, ty, 1)),
                            }
                        }
                    }
                });
            }
        });
        for at in (0..8 * SIDE * SIDE).step_by(8) {
            assert_eq!(atomic(&memory, &words).one(at, Op::NoOp, ty, 0), 4 * TURNS, "byte {at}");
        }
    }
}

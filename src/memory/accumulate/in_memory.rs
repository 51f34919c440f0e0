//! Accumulates whose operands are in memory that other processes reach too, such as a staging area.

use std::ops::Range;

use bytemuck::Pod;
use transom_fabric::Memory;

use super::{AtomicMemory, Many, is_word};
use crate::reduce::kernel::{Elements, combine_elsewhere};
use crate::reduce::{BasicType, Op};

/// Elements of one memory, and their operands in another one.
struct Between<'a> {
    memory: &'a Memory,
    at: usize,
    operands: &'a Memory,
    range: Range<usize>,
}

impl Elements for Between<'_> {
    #[inline]
    fn combine<T: Pod>(self, function: impl Fn(T, T) -> T) {
        self.memory.combine_with(self.at, self.operands, self.range, function);
    }
}

impl AtomicMemory<'_> {
    /// Combines elements with all of `operands`, which are whole elements, without a copy of them.
    /// Returns false, without an effect, where elements are combined one by one, and for
    /// `MPI_REPLACE` and `MPI_NO_OP`.
    pub(crate) fn combine_in_memory(&self, at: usize, op: Op, ty: BasicType, operands: &Memory) -> bool {
        let (len, aligned) = (operands.len(), self.is_aligned(at, ty));
        let one_by_one = aligned && (self.by_atomics(ty) || self.passes(at, ty, len));
        if one_by_one || matches!(op, Op::Replace | Op::NoOp) {
            return false;
        }
        let many = Many { op, ty, visited: aligned && is_word(ty) };
        let mut done = 0;
        while done < len {
            let part = self.block(at + done, len - done, ty.size());
            let _held = self.lock_many(at + done, many, len);
            let between = Between { memory: self.memory, at: at + done, operands, range: done..done + part };
            combine_elsewhere(op, ty, between);
            done += part;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::accumulate::Operand;
    use crate::sync::stripe::{BLOCK, Visitor};
    use crate::sync::words::{self, Words};

    fn atomic<'m>(memory: &'m Memory, words: &'m Memory, per_element: bool) -> AtomicMemory<'m> {
        AtomicMemory { memory, words: Words::at(words, 0), visitor: &Visitor::NONE, per_element, base: 16 }
    }

    /// Operands in memory give the result of operands in a buffer, at any alignment and across the
    /// ends of blocks; what is combined one by one is left to the caller.
    #[test]
    fn operands_in_memory_and_in_a_buffer_agree() {
        let bytes: Vec<u8> = (0..=250u8).cycle().step_by(7).take(2 * BLOCK).collect();
        let words = Memory::private(words::bytes(1));
        for (ty, op) in [(BasicType::Uint32, Op::Sum), (BasicType::Int16, Op::Max), (BasicType::LongInt, Op::MinLoc)] {
            for (at, len) in [(0, 0), (0, 12), (4, 24), (BLOCK - 20, 12), (1, 6000), (40, 2 * BLOCK - 8)] {
                let len = len / ty.size() * ty.size();
                let [one, other, operands] = [3 * BLOCK, 3 * BLOCK, len].map(Memory::private);
                for memory in [&one, &other] {
                    memory.write(0, &bytes);
                }
                operands.write(0, &bytes[..len]);
                atomic(&one, &words, false).many(at, op, ty, Operand::Bytes(&bytes[..len]), None);
                assert!(atomic(&other, &words, false).combine_in_memory(at, op, ty, &operands), "{op} of {ty} at {at}");
                let [one, other] = [one, other].map(|memory| {
                    let mut all = vec![0; memory.len()];
                    memory.read(0, &mut all);
                    all
                });
                assert_eq!(one, other, "{op} of {len} bytes of {ty} at {at}");
            }
        }
        let [memory, operands] = [(); 2].map(|()| Memory::private(64));
        operands.write(0, &[1; 64]);
        assert!(
            !atomic(&memory, &words, true).combine_in_memory(0, Op::Sum, BasicType::Uint64, &operands),
            "by atomics"
        );
        assert!(
            !atomic(&memory, &words, false).combine_in_memory(0, Op::Replace, BasicType::Int16, &operands),
            "a copy"
        );
        let mut all = [0; 64];
        memory.read(0, &mut all);
        assert_eq!(all, [0; 64], "no effect");
    }
}

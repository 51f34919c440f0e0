//! Accumulates on memory that this CPU reaches by load and store (MPI-4.1 §12.3.4), with layouts at
//! all sides.

use std::sync::atomic::{Ordering, fence};

use super::accumulate::Accumulate;
use super::parts::index;
use super::transfer::Outgoing;
use crate::datatype::Run;
use crate::memory::accumulate::{AtomicMemory, Operand};

/// Accumulates on memory that this CPU reaches.
pub(super) fn local(atomic: &AtomicMemory<'_>, at: i64, it: &Accumulate<'_>) {
    match &it.from {
        Some(operands) if it.into.is_none() && !it.to.is_contiguous() => scattered(atomic, at, it, operands),
        _ => each_piece(atomic, at, it),
    }
    // The locks order accumulates among each other. The fence orders later loads and stores after
    // the accumulates.
    fence(Ordering::AcqRel);
}

fn each_piece(atomic: &AtomicMemory<'_>, at: i64, it: &Accumulate<'_>) {
    for ([theirs, from, into], len) in it.pieces() {
        one_piece(atomic, index((at + theirs).cast_unsigned()), it, from, into, len);
    }
}

/// Accumulates on separate pieces. Consecutive pieces of a block share one acquisition of the
/// block's lock.
fn scattered(atomic: &AtomicMemory<'_>, at: i64, it: &Accumulate<'_>, operands: &Outgoing<'_>) {
    let Some(mut scattered) = atomic.accumulate_scattered(it.op, it.ty, it.to.len()) else {
        return each_piece(atomic, at, it);
    };
    let mut runs = it.to.beside(&operands.layout);
    while let Some(Run { at: [mut theirs, mut from], length, count, strides }) = runs.next_run() {
        for _ in 0..count {
            scattered.combine(index((at + theirs).cast_unsigned()), operands.part(from, length).bytes());
            (theirs, from) = (theirs.wrapping_add(strides[0]), from.wrapping_add(strides[1]));
        }
    }
}

pub(super) fn one_piece(atomic: &AtomicMemory<'_>, at: usize, it: &Accumulate<'_>, from: i64, into: i64, len: usize) {
    let operand = it.from.as_ref().map(|side| side.part(from, len));
    let operand = operand.as_ref().map_or(Operand::Nothing(len), |part| Operand::Bytes(part.bytes()));
    match &it.into {
        None => atomic.many(at, it.op, it.ty, operand, None),
        Some(side) => {
            let mut old = |done: usize, bytes: &[u8]| {
                side.part(into + i64::try_from(done).unwrap_or(i64::MAX), bytes.len()).fill_from(bytes);
            };
            atomic.many(at, it.op, it.ty, operand, Some(&mut old));
        }
    }
}

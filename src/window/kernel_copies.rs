//! User memory of another process of the node that is not mapped here. The kernel copies such
//! memory synchronously, by cross-memory attach or through `/proc/PID/mem` (`shm/src/process.rs`),
//! so an operation is complete on return. Accumulates read, combine and write back under the locks
//! that make every accumulate on the memory atomic (`sync::stripe`); the target takes no part in
//! any operation.

use transom_fabric::Post;

use super::accumulate::{Accumulate, MAX_ELEMENT_BYTES};
use super::parts::{Parts, index};
use super::target::Target;
use super::transfer::{Incoming, Outgoing};
use crate::buffers::{Sink, Source, scoped};
use crate::error::Result;
use crate::job::JobCore;
use crate::memory::accumulate::{bytes_of, is_word};
use crate::memory::layout::Layout;
use crate::reduce::kernel::combine;
use crate::reduce::{BasicType, CompareSwap, Op};
use crate::sync::stripe;
use crate::sync::words::Words;
use crate::transport::{self, ProcessMemory};

/// Maximum bytes of an accumulate that are read, combined and written together.
const BYTES: usize = 64 << 10;
/// Maximum pieces of an accumulate that are read, combined and written together.
const PIECES: usize = 64;

/// Longest accumulate of one piece that allocates no memory, in bytes.
const MAX_STACK_BYTES: usize = 64;

/// Minimum number of pieces that are read together with the bytes between them.
const MIN_CLOSE_PIECES: usize = 4;
/// Longest gap between two pieces that are read together, in bytes.
const MAX_GAP_BYTES: u64 = 2 << 10;
/// Longest span of pieces that are read together, in bytes.
const MAX_SPAN_BYTES: u64 = 64 << 10;

/// A piece that is read from offset `at` of the target.
struct Fill {
    at: u64,
    into: Sink,
}

/// A piece that is written to offset `at` of the target.
struct Store {
    at: u64,
    from: Source,
}

/// Memory of another process that the kernel copies, and the job, which explains failures of the
/// copies.
#[derive(Clone, Copy)]
pub(super) struct CopiedByKernel<'t> {
    job: &'t JobCore,
    memory: &'t ProcessMemory,
}

/// Memory that the kernel copies, with the words that make accumulates on it atomic.
pub(super) struct CopiedUnderLock<'t> {
    memory: CopiedByKernel<'t>,
    words: Words<'t>,
    /// Whether the memory between pieces is mapped too.
    is_whole: bool,
}

/// A piece of an accumulate: its beginning at the target, in the origin and in the result, and its
/// length.
#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    from: i64,
    into: i64,
    len: usize,
}

impl<'t> CopiedByKernel<'t> {
    pub(super) fn of(job: &'t JobCore, memory: &'t ProcessMemory) -> CopiedByKernel<'t> {
        CopiedByKernel { job, memory }
    }

    /// Puts contiguous bytes at `at`.
    pub(super) fn put_bytes(self, at: u64, from: Source) -> Result<()> {
        self.write([Store { at, from }].into_iter())
    }

    /// Gets contiguous bytes at `at`.
    pub(super) fn get_bytes(self, at: u64, into: Sink) -> Result<()> {
        self.read([Fill { at, into }].into_iter())
    }

    pub(super) fn put(self, at: i64, from: &Outgoing<'_>, to: &Layout<'_>) -> Result<()> {
        let pieces = to.beside(&from.layout);
        self.write(pieces.map(|([theirs, ours], len)| {
            let at = (at + theirs).cast_unsigned();
            Store { at, from: from.part(ours, len) }
        }))
    }

    pub(super) fn get(self, at: i64, into: &Incoming<'_>, from: &Layout<'_>) -> Result<()> {
        self.read(incoming(at, into, from))
    }

    /// [`CopiedByKernel::get`] from memory that is mapped between the pieces too.
    pub(super) fn get_together(self, at: i64, into: &Incoming<'_>, from: &Layout<'_>) -> Result<()> {
        self.read_together(incoming(at, into, from))
    }

    /// Reads pieces of memory that is mapped between them too. Pieces that lie close together are
    /// read with the bytes between them, because the kernel takes about as long for a small piece
    /// as for a page.
    fn read_together(self, pieces: impl Iterator<Item = Fill>) -> Result<()> {
        let (mut close, mut others, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            if !close.is_empty() && !follows(&close, piece.at, piece.into.len()) {
                self.read_close(&mut close, &mut others, &mut scratch)?;
            }
            close.push(piece);
        }
        self.read_close(&mut close, &mut others, &mut scratch)?;
        self.read(others.into_iter())
    }

    /// Reads pieces that lie close together, by way of `scratch`. If there are fewer than
    /// [`MIN_CLOSE_PIECES`], moves them to `others` instead.
    fn read_close(self, close: &mut Vec<Fill>, others: &mut Vec<Fill>, scratch: &mut Vec<u8>) -> Result<()> {
        if close.len() < MIN_CLOSE_PIECES {
            others.append(close);
            return if others.len() < PIECES { Ok(()) } else { self.read(others.drain(..)) };
        }
        let (start, end) = range(close);
        scratch.resize(index(end - start), 0);
        scoped(|| (), |scope| self.get_bytes(start, scope.sink(scratch)))?;
        for Fill { at, into } in close.drain(..) {
            into.fill_from(&scratch[index(at - start)..]);
        }
        Ok(())
    }

    fn write(self, pieces: impl Iterator<Item = Store>) -> Result<()> {
        self.ended(transport::put_pieces(self.memory, pieces.map(|Store { at, from }| (at, from))))
    }

    fn read(self, pieces: impl Iterator<Item = Fill>) -> Result<()> {
        self.ended(transport::get_pieces(self.memory, pieces.map(|Fill { at, into }| (at, into))))
    }

    fn ended(self, answer: Post) -> Result<()> {
        match answer {
            Post::Broken(fault) => Err(self.job.progress.explained(*fault)),
            Post::Done | Post::Pending | Post::Again => Ok(()),
        }
    }
}

impl<'t> CopiedUnderLock<'t> {
    /// The target, if the kernel copies its elements for accumulates: this process maps the
    /// target's control words, but not its memory. Locks make accumulates on all types atomic,
    /// because the kernel performs no atomics. `None` in windows that change elements by CPU
    /// atomics, which only the target's CPU can perform.
    pub(super) fn of(parts: &'t Parts, target: &'t Target) -> Option<CopiedUnderLock<'t>> {
        let memory = target.reach.memory_of_kernel_copies().filter(|_| !parts.hints.per_element)?;
        let is_whole = !target.reach.is_dynamic();
        Some(CopiedUnderLock { memory: CopiedByKernel::of(&parts.job, memory), words: target.words(parts)?, is_whole })
    }

    pub(super) fn accumulate(&self, at: i64, it: &Accumulate<'_>) -> Result<()> {
        let most = BYTES / it.ty.size() * it.ty.size();
        let mut pieces = it.pieces();
        let mut next = |left| {
            let ([theirs, from, into], len) = pieces.next_at_most(left)?;
            Some(Piece { at: (at + theirs).cast_unsigned(), from, into, len })
        };
        let Some(first) = next(most) else { return Ok(()) };
        let together = if it.to.overlaps_itself() { 1 } else { PIECES };
        let mut second = None;
        if first.len <= MAX_STACK_BYTES {
            second = next(most - first.len);
            if second.is_none() {
                return self.combine(it, &[first], &mut [0; MAX_STACK_BYTES][..first.len]);
            }
        }
        let mut taken = [Some(first), second].into_iter().flatten();
        loop {
            let (mut hand, mut bytes) = (Vec::new(), 0);
            while hand.len() < together
                && let Some(piece) = taken.next().or_else(|| next(most - bytes))
            {
                bytes += piece.len;
                hand.push(piece);
            }
            if hand.is_empty() {
                return Ok(());
            }
            self.combine(it, &hand, &mut vec![0; bytes])?;
        }
    }

    /// Combines pieces in one read and one write. `scratch` has room for the bytes of all.
    fn combine(&self, it: &Accumulate<'_>, pieces: &[Piece], scratch: &mut [u8]) -> Result<()> {
        let alone = is_word(it.ty).then_some(self.memory.job.block.visitor);
        let _held = stripe::lock_all(self.words, pieces.iter().map(|piece| (index(piece.at), piece.len)), alone);
        if it.into.is_some() || !matches!(it.op, Op::Replace | Op::NoOp) {
            self.read(pieces, scratch)?;
        }
        let mut done = 0;
        for piece in pieces {
            let scratch = &mut scratch[done..done + piece.len];
            if let Some(into) = &it.into {
                into.part(piece.into, piece.len).fill_from(scratch);
            }
            if let Some(from) = &it.from {
                combine(it.op, it.ty, scratch, from.part(piece.from, piece.len).bytes());
            }
            done += piece.len;
        }
        if it.op == Op::NoOp { Ok(()) } else { self.write(pieces, scratch) }
    }

    /// Compares and swaps an element. The previous value is stored in `into`.
    pub(super) fn swap(&self, at: u64, ty: BasicType, values: CompareSwap<u64>, into: Sink) -> Result<()> {
        let values = values.map(u64::to_ne_bytes);
        self.swap_bytes(at, values.as_ref().map(|word| bytes_of(word, ty.size())), into)
    }

    /// [`CopiedUnderLock::swap`] for elements of any size, as bytes.
    pub(super) fn swap_bytes(
        &self,
        at: u64,
        CompareSwap { expected, new }: CompareSwap<&[u8]>,
        into: Sink,
    ) -> Result<()> {
        let piece = [Piece { at, from: 0, into: 0, len: new.len() }];
        let mut scratch = [0; MAX_ELEMENT_BYTES];
        let scratch = &mut scratch[..new.len()];
        let mut held = stripe::lock(self.words, index(at));
        stripe::exclude_visits(&mut held, self.words, index(at), self.memory.job.block.visitor);
        self.read(&piece, scratch)?;
        into.fill_from(scratch);
        if scratch == expected { self.write(&piece, new) } else { Ok(()) }
    }

    /// Reads the pieces into `bytes`, one after the other.
    fn read(&self, pieces: &[Piece], bytes: &mut [u8]) -> Result<()> {
        scoped(
            || (),
            |scope| {
                let into = scope.sink(bytes);
                let places = placed(pieces).map(|(piece, at)| Fill { at: piece.at, into: into.part(at, piece.len) });
                if self.is_whole && pieces.len() >= MIN_CLOSE_PIECES {
                    self.memory.read_together(places)
                } else {
                    self.memory.read(places)
                }
            },
        )
    }

    /// Writes the pieces from `bytes`, in which they are contiguous.
    fn write(&self, pieces: &[Piece], bytes: &[u8]) -> Result<()> {
        scoped(
            || (),
            |scope| {
                let from = scope.source(bytes);
                self.memory
                    .write(placed(pieces).map(|(piece, at)| Store { at: piece.at, from: from.part(at, piece.len) }))
            },
        )
    }
}

/// The pieces of a get.
fn incoming<'a>(at: i64, into: &'a Incoming<'a>, from: &'a Layout<'a>) -> impl Iterator<Item = Fill> + 'a {
    let pieces = from.beside(&into.layout);
    pieces.map(move |([theirs, ours], len)| Fill { at: (at + theirs).cast_unsigned(), into: into.part(ours, len) })
}

/// The first offset of pieces that follow each other, and the end of the last one.
fn range(close: &[Fill]) -> (u64, u64) {
    let start = close.first().map_or(0, |first| first.at);
    (start, close.last().map_or(start, |last| last.at + last.into.len() as u64))
}

/// Whether a piece of `len` bytes at `offset` is read together with the pieces before it.
fn follows(close: &[Fill], offset: u64, len: usize) -> bool {
    let (start, end) = range(close);
    offset >= end && offset - end <= MAX_GAP_BYTES && offset - start + len as u64 <= MAX_SPAN_BYTES
}

/// Each piece with its offset in a buffer in which the pieces are contiguous.
fn placed(pieces: &[Piece]) -> impl Iterator<Item = (&Piece, usize)> {
    pieces.iter().scan(0, |end, piece| {
        let at = *end;
        *end += piece.len;
        Some((piece, at))
    })
}

//! Puts and gets on an imported region of a peer. The CPU copies mapped memory. The kernel copies
//! other memory, many contiguous pieces in one system call.

use std::io;

use transom_fabric::{Cause, Coherence, FabricError, Fault, Memory, Peer, Post, Reason, Span};

use crate::cma::{Vector, slice_of, slice_of_mut};
use crate::process::Range;

/// The most pieces that one system call moves, which fit on the stack. The kernel takes 1024.
pub(crate) const PIECES: usize = 64;

/// A region of a peer on this node.
#[derive(Debug)]
pub struct ShmRemote {
    pub(crate) peer: Peer,
    pub(crate) amo: Option<Coherence>,
    pub(crate) route: Route,
}

#[derive(Debug)]
pub(crate) enum Route {
    /// Accessed by load and store.
    Memory(Memory),
    /// User memory of another process, which the kernel copies.
    Attached(Range),
}

impl ShmRemote {
    /// Puts `from` at `offset`, completely before it returns.
    ///
    /// # Safety
    /// `from` is readable, and no thread writes it, until this returns.
    #[inline]
    pub(crate) unsafe fn put(&self, offset: u64, from: Span) -> Post {
        self.transfer(
            offset,
            from,
            "putting",
            // SAFETY: the caller's promise.
            |memory, at| memory.write(at, unsafe { slice_of(from) }),
            // SAFETY: the caller's promise.
            |range| unsafe { range.write(offset, from) },
        )
    }

    /// Gets `into` from `offset`, completely before it returns.
    ///
    /// # Safety
    /// `into` is writable, and nothing else accesses it, until this returns.
    #[inline]
    pub(crate) unsafe fn get(&self, offset: u64, into: Span) -> Post {
        self.transfer(
            offset,
            into,
            "getting",
            // SAFETY: the caller's promise.
            |memory, at| memory.read(at, unsafe { slice_of_mut(into) }),
            // SAFETY: the caller's promise.
            |range| unsafe { range.read(offset, into) },
        )
    }

    /// Puts each of `pieces` at its offset, completely before it returns. After a failure, earlier
    /// pieces may have been put.
    ///
    /// # Safety
    /// The pieces are readable, and no thread writes them, until this returns.
    pub unsafe fn put_pieces(&self, pieces: impl IntoIterator<Item = (u64, Span)>) -> Post {
        let mut pieces = pieces.into_iter();
        let Some(first) = pieces.next() else { return Post::Done };
        // SAFETY: the caller's promise.
        let Some(second) = pieces.next() else { return unsafe { self.put(first.0, first.1) } };
        self.each_piece(
            "putting",
            [first, second].into_iter().chain(pieces),
            // SAFETY: the caller's promise.
            |memory, at, from| memory.write(at, unsafe { slice_of(from) }),
            // SAFETY: the caller's promise.
            |vector, pid| unsafe { vector.write(pid) },
        )
    }

    /// Gets each of `pieces` from its offset, completely before it returns. After a failure,
    /// earlier pieces may have been filled.
    ///
    /// # Safety
    /// The pieces are writable, and nothing else accesses them, until this returns.
    pub unsafe fn get_pieces(&self, pieces: impl IntoIterator<Item = (u64, Span)>) -> Post {
        let mut pieces = pieces.into_iter();
        let Some(first) = pieces.next() else { return Post::Done };
        // SAFETY: the caller's promise.
        let Some(second) = pieces.next() else { return unsafe { self.get(first.0, first.1) } };
        self.each_piece(
            "getting",
            [first, second].into_iter().chain(pieces),
            // SAFETY: the caller's promise.
            |memory, at, into| memory.read(at, unsafe { slice_of_mut(into) }),
            // SAFETY: the caller's promise.
            |vector, pid| unsafe { vector.read(pid) },
        )
    }

    fn each_piece(
        &self,
        doing: &str,
        mut pieces: impl Iterator<Item = (u64, Span)>,
        mapped: impl Fn(&Memory, usize, Span),
        attached: impl Fn(&mut Vector<PIECES>, i32) -> io::Result<()>,
    ) -> Post {
        let mut vector = Vector::new();
        let (mut first, mut bytes) = (None, 0);
        loop {
            let piece = pieces.next();
            if let (Route::Attached(range), true) = (&self.route, piece.is_none() || vector.is_full()) {
                if let Err(error) = attached(&mut vector, range.pid()) {
                    return self.broken(first.unwrap_or(0), bytes, doing, error);
                }
                (first, bytes) = (None, 0);
            }
            let Some((offset, span)) = piece else { return Post::Done };
            match &self.route {
                Route::Memory(memory) => mapped(memory, byte(offset), span),
                Route::Attached(range) => {
                    if let Err(outside) = range.holds(offset, span.len()) {
                        return self.broken(offset, span.len(), doing, outside);
                    }
                    vector.push(span, range.address(offset));
                    first.get_or_insert(offset);
                    bytes += span.len();
                }
            }
        }
    }

    /// Checks that `len` bytes at `offset` are inside the region, if the kernel copies the bytes:
    /// the kernel does not know the region's bounds. Mapped memory checks its own bounds.
    pub(crate) fn holds(&self, offset: u64, len: usize) -> Result<(), Reason> {
        match &self.route {
            Route::Memory(_) => Ok(()),
            Route::Attached(range) => range.holds(offset, len),
        }
    }

    pub(crate) fn broken(&self, at: u64, len: usize, doing: &str, cause: impl Into<Cause>) -> Post {
        let what = match &self.route {
            Route::Memory(memory) => format!("{doing} {len} bytes at {at} of {memory:?}"),
            Route::Attached(range) => {
                format!("{doing} {len} bytes at address {:#x} of process {}", range.address(at), range.pid())
            }
        };
        Post::Broken(Box::new(Fault::new(self.peer, FabricError::failed(what, cause))))
    }

    /// Moves bytes to or from the region: `mapped` copies them, `attached` has the kernel copy
    /// them.
    #[inline]
    fn transfer(
        &self,
        offset: u64,
        span: Span,
        doing: &str,
        mapped: impl FnOnce(&Memory, usize),
        attached: impl FnOnce(&Range) -> io::Result<()>,
    ) -> Post {
        let range = match &self.route {
            Route::Memory(memory) => {
                mapped(memory, byte(offset));
                return Post::Done;
            }
            Route::Attached(range) => range,
        };
        if let Err(outside) = range.holds(offset, span.len()) {
            return self.broken(offset, span.len(), doing, outside);
        }
        match attached(range) {
            Ok(()) => Post::Done,
            Err(error) => self.broken(offset, span.len(), doing, error),
        }
    }
}

/// A checked offset as an index. Every offset inside mapped memory fits; other offsets fail the
/// memory's own check.
#[inline]
pub(crate) fn byte(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

//! A region of a peer on this node, and copies to and from it: in mapped memory, or by cross-memory
//! attach, which moves many pieces in one system call.

use std::io;

use transom_fabric::{Cause, Coherence, FabricError, Fault, Memory, Peer, Post, Reason, Span};

use crate::cma::{self, Vector};
use crate::contact::part_of;

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
    /// User memory of another process, accessed by cross-memory attach.
    Attached { pid: i32, address: u64, len: u64 },
}

impl ShmRemote {
    /// Puts each of `pieces` at its offset, completely before it returns. After a failure, earlier
    /// pieces may have been put.
    ///
    /// # Safety
    /// The pieces are readable, and no thread writes them, until this returns.
    pub unsafe fn put_pieces(&self, pieces: impl IntoIterator<Item = (u64, Span)>) -> Post {
        self.each_piece(
            "putting",
            pieces,
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
        self.each_piece(
            "getting",
            pieces,
            // SAFETY: the caller's promise.
            |memory, at, into| memory.read(at, unsafe { slice_of_mut(into) }),
            // SAFETY: the caller's promise.
            |vector, pid| unsafe { vector.read(pid) },
        )
    }

    fn each_piece(
        &self,
        doing: &str,
        pieces: impl IntoIterator<Item = (u64, Span)>,
        mapped: impl Fn(&Memory, usize, Span),
        attached: impl Fn(&mut Vector<PIECES>, i32) -> io::Result<()>,
    ) -> Post {
        let mut vector = Vector::new();
        let (mut first, mut bytes) = (None, 0);
        let mut pieces = pieces.into_iter();
        loop {
            let piece = pieces.next();
            if let (Route::Attached { pid, .. }, true) = (&self.route, piece.is_none() || vector.is_full()) {
                if let Err(error) = attached(&mut vector, *pid) {
                    return self.broken(first.unwrap_or(0), bytes, doing, error);
                }
                (first, bytes) = (None, 0);
            }
            let Some((offset, span)) = piece else { return Post::Done };
            match &self.route {
                Route::Memory(memory) => mapped(memory, byte(offset), span),
                Route::Attached { address, len, .. } => {
                    if let Err(outside) = part_of(*len, offset, span.len()) {
                        return self.broken(offset, span.len(), doing, outside);
                    }
                    vector.push(span, address.wrapping_add(offset));
                    first.get_or_insert(offset);
                    bytes += span.len();
                }
            }
        }
    }

    /// Checks that `len` bytes at `offset` are inside an attached region, whose bounds the kernel
    /// does not know. Mapped memory checks its own bounds.
    pub(crate) fn holds(&self, offset: u64, len: usize) -> Result<(), Reason> {
        match self.route {
            Route::Memory(_) => Ok(()),
            Route::Attached { len: limit, .. } => part_of(limit, offset, len),
        }
    }

    pub(crate) fn broken(&self, at: u64, len: usize, doing: &str, cause: impl Into<Cause>) -> Post {
        let what = match &self.route {
            Route::Memory(memory) => format!("{doing} {len} bytes at {at} of {memory:?}"),
            Route::Attached { pid, address, .. } => {
                let address = address.wrapping_add(at);
                format!("{doing} {len} bytes at address {address:#x} of process {pid}")
            }
        };
        Post::Broken(Box::new(Fault::new(self.peer, FabricError::failed(what, cause))))
    }

    /// Moves bytes to or from the region: `mapped` copies them, `attached` calls the kernel.
    #[inline]
    pub(crate) fn transfer(
        &self,
        offset: u64,
        span: Span,
        doing: &str,
        mapped: impl FnOnce(&Memory, usize),
        attached: impl FnOnce(cma::Remote) -> io::Result<()>,
    ) -> Post {
        let (pid, address, len) = match &self.route {
            Route::Memory(memory) => {
                mapped(memory, byte(offset));
                return Post::Done;
            }
            Route::Attached { pid, address, len } => (*pid, *address, *len),
        };
        if let Err(outside) = part_of(len, offset, span.len()) {
            return self.broken(offset, span.len(), doing, outside);
        }
        let remote = cma::Remote { pid, address: address.wrapping_add(offset) };
        match attached(remote) {
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

/// # Safety
/// The span is readable, and no thread writes it, for `'a`.
#[inline]
pub(crate) unsafe fn slice_of<'a>(span: Span) -> &'a [u8] {
    if span.is_empty() {
        return &[];
    }
    // SAFETY: readable and unwritten (caller); not null, since it has bytes.
    unsafe { std::slice::from_raw_parts(span.as_ptr(), span.len()) }
}

/// # Safety
/// The span is writable, and not accessed otherwise, for `'a`.
#[inline]
pub(crate) unsafe fn slice_of_mut<'a>(span: Span) -> &'a mut [u8] {
    if span.is_empty() {
        return &mut [];
    }
    // SAFETY: writable and exclusive (caller); not null, since it has bytes.
    unsafe { std::slice::from_raw_parts_mut(span.as_ptr(), span.len()) }
}

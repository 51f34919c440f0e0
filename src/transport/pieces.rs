//! Transfers of several contiguous pieces by cross-memory attach, each at a separate offset.

use transom_fabric::Post;

use super::ProcessMemory;
use crate::buffers::{Lent, Sink, Source};

/// Puts each piece at its offset before the call returns.
pub(crate) fn put_pieces(to: &ProcessMemory, pieces: impl IntoIterator<Item = (u64, Source)>) -> Post {
    // SAFETY: the bytes of a `Source` stay readable, and unwritten, until the call returns: the
    // invariant of `Source`.
    unsafe { to.put_pieces(pieces.into_iter().map(|(offset, from)| (offset, from.span()))) }
}

/// Gets each piece from its offset before the call returns.
pub(crate) fn get_pieces(from: &ProcessMemory, pieces: impl IntoIterator<Item = (u64, Sink)>) -> Post {
    // SAFETY: the bytes of a `Sink` stay writable, and are not accessed otherwise, until the call
    // returns: the invariant of `Sink`.
    unsafe { from.get_pieces(pieces.into_iter().map(|(offset, into)| (offset, into.span()))) }
}

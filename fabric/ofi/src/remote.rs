//! A peer's region: its address, its key, and the check of ranges.

use transom_fabric::{Fault, Peer, Post, Reason};

use crate::sys;

/// Tag of this backend's keys.
pub(crate) const TAG: u64 = u64::from_le_bytes(*b"ofi rgn1");

/// A peer's region. Small, because windows keep a remote for each target: the peer's address, which
/// all regions of the peer share, is stored elsewhere, and the structure is packed, so that the tag
/// of an enum around it shares a word with the peer.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub struct OfiRemote {
    pub(crate) peer: Peer,
    pub(crate) key: u64,
    pub(crate) base: u64,
    pub(crate) len: u64,
}

impl OfiRemote {
    /// The range of the remote region from `offset` on, with the length of `own`.
    #[inline(always)]
    pub(crate) fn part(&self, offset: u64, own: &[sys::iovec]) -> sys::fi_rma_iov {
        sys::fi_rma_iov { addr: self.base + offset, len: own.iter().map(|part| part.iov_len).sum(), key: self.key }
    }
}

/// Whether `[offset, offset + len)` is inside a region of `limit` bytes.
pub(crate) fn inside(offset: u64, len: usize, limit: u64) -> bool {
    offset.checked_add(len as u64).is_some_and(|end| end <= limit)
}

/// The refusal of a range that is not inside the region.
#[cold]
pub(crate) fn outside(remote: &OfiRemote, offset: u64, len: usize) -> Post {
    let OfiRemote { peer, len: limit, .. } = *remote;
    let reason = Reason::Outside { at: offset, length: len as u64, limit };
    Post::Broken(Box::new(Fault::new(peer, reason)))
}

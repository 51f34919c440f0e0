//! The mapped pieces of a peer's heap. All windows share them, so the number of mappings of a
//! process grows with the number of its peers, not with the number of its windows. Must not know
//! blocks.
//!
//! A piece is address space; only touched pages take memory. Pieces double in length towards the
//! end of a heap, so a heap has few of them. They take up to twice the address space of the heap's
//! used part, and six times if blocks lie across all borders. A piece is unmapped with the last
//! range in it.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use transom_fabric::{Memory, Span};

use crate::mapping::{self, Mapping};

/// The length of the first piece in bytes, a multiple of all page sizes.
const FIRST: u64 = 16 << 20;

/// The pieces of one heap that are mapped.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Where the blocks of the heap begin and end. The header is in no piece: a fault on a page of
    /// a block would also map the header's pages beside it, which exist from the start.
    blocks: Range<u64>,
    mapped: Mutex<Vec<Piece>>,
}

/// The offset of a piece in the heap, and its mapping.
type Piece = (Range<u64>, Weak<Mapping>);

impl Pieces {
    /// No piece of a heap with such blocks.
    pub(crate) fn new(blocks: Range<u64>) -> Pieces {
        Pieces { blocks, mapped: Mutex::default() }
    }

    /// The bytes `range` of the heap, which must be inside it. `file` is the heap's memfd. No page
    /// is touched: the kernel would allocate a page that the owner has not touched on the NUMA node
    /// of this process, and most peers of a job are contacted for a few words.
    ///
    /// # Errors
    /// The error of `mmap`: ENOMEM if address space or mappings are exhausted.
    pub(crate) fn map(&self, file: impl AsFd, range: &Range<u64>) -> Result<Memory, Errno> {
        if range.is_empty() {
            return Ok(mapping::empty());
        }
        // Limited address space is for ranges in use. A process that can map no whole piece can
        // perhaps map the range.
        if self.blocks.start <= range.start
            && getrlimit(Resource::As).current.is_none()
            && let Ok(memory) = self.shared(file.as_fd(), range)
        {
            return Ok(memory);
        }
        map_dedicated(file.as_fd(), range)
    }

    /// The bytes `range` of the heap, if they are in a mapped piece.
    pub(crate) fn mapped(&self, range: &Range<u64>) -> Option<Memory> {
        let pieces = self.pieces();
        let (start, mapping) = around(&pieces, range)?;
        drop(pieces);
        part(&mapping, start, range).ok()
    }

    /// The bytes at these addresses of this process, if they are in a mapped piece, and their
    /// offset in the heap. `None` for no bytes.
    pub(crate) fn at(&self, span: Span) -> Option<(u64, Memory)> {
        if span.is_empty() {
            return None;
        }
        let address = span.as_ptr().addr();
        let pieces = self.pieces();
        pieces.iter().find_map(|(piece, mapping)| {
            let mapping = mapping.upgrade()?;
            let start = piece.start + address.checked_sub(mapping.address())? as u64;
            let range = start..start.checked_add(span.len() as u64)?;
            if range.end > piece.end {
                return None;
            }
            Some((range.start, mapping.second_part(bytes(range.start - piece.start).ok()?, span.len())))
        })
    }

    /// A part of a piece, which is mapped if it is not yet.
    fn shared(&self, file: BorrowedFd<'_>, range: &Range<u64>) -> Result<Memory, Errno> {
        let mut pieces = self.pieces();
        let (start, mapping) = match around(&pieces, range) {
            Some(found) => found,
            None => {
                let piece = piece_around(range, &self.blocks);
                let mapping = Arc::new(Mapping::sparse(file, piece.start, bytes(piece.end - piece.start)?)?);
                pieces.retain(|(_, piece)| piece.strong_count() > 0);
                pieces.push((piece.clone(), Arc::downgrade(&mapping)));
                (piece.start, mapping)
            }
        };
        drop(pieces);
        part(&mapping, start, range)
    }

    fn pieces(&self) -> MutexGuard<'_, Vec<Piece>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mapped piece around a range, and the offset in the heap where it begins.
fn around(pieces: &[Piece], range: &Range<u64>) -> Option<(u64, Arc<Mapping>)> {
    let around = |piece: &Range<u64>| piece.start <= range.start && range.end <= piece.end;
    pieces.iter().filter(|(piece, _)| around(piece)).find_map(|(at, piece)| Some((at.start, piece.upgrade()?)))
}

/// A range in a piece that begins at `start`.
fn part(mapping: &Arc<Mapping>, start: u64, range: &Range<u64>) -> Result<Memory, Errno> {
    Ok(mapping.part(bytes(range.start - start)?, bytes(range.end - range.start)?))
}

/// The range in a mapping of its own, so that advice to the kernel concerns no other range.
///
/// # Errors
/// As for [`Pieces::map`].
pub(crate) fn map_dedicated(file: BorrowedFd<'_>, range: &Range<u64>) -> Result<Memory, Errno> {
    if range.is_empty() {
        return Ok(mapping::empty());
    }
    let page = rustix::param::page_size() as u64;
    let first = range.start / page * page;
    let whole = bytes((range.end - first).next_multiple_of(page))?;
    let memory = Mapping::new(file, first, whole)?.into_memory(whole, ());
    memory.slice(bytes(range.start - first)?, bytes(range.end - range.start)?).ok_or(Errno::NOMEM)
}

/// The piece in which a range of a heap's blocks lies: from a power of two to the next one, or from
/// the first block if a piece would end within the range.
fn piece_around(range: &Range<u64>, blocks: &Range<u64>) -> Range<u64> {
    let capacity = blocks.end;
    let start: u64 = if range.start < FIRST { 0 } else { 1 << range.start.ilog2() };
    let end = range.end.checked_next_power_of_two().unwrap_or(capacity).clamp(FIRST, capacity.max(FIRST));
    let fits = start == 0 || end <= start.saturating_mul(2);
    Range { start: if fits { start.max(blocks.start) } else { blocks.start }, end: end.min(capacity) }
}

fn bytes(number: u64) -> Result<usize, Errno> {
    usize::try_from(number).map_err(|_| Errno::NOMEM)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_double_and_ranges_across_borders_share_one() {
        let of = |range: Range<u64>| piece_around(&(range.start * MIB..range.end * MIB), &(MIB..1000 * MIB));
        for (range, piece) in [
            (1..2, 1..16),
            (15..16, 1..16),
            (16..17, 16..32),
            (15..17, 1..32),
            (31..33, 1..64),
            (40..64, 32..64),
            (520..1000, 512..1000),
            (500..520, 1..1000),
        ] {
            assert_eq!(of(range.clone()), piece.start * MIB..piece.end * MIB, "{range:?}");
        }
        assert_eq!(piece_around(&(4100..4200), &(4096..MIB)), 4096..MIB, "a small heap");
    }

    proptest! {
        /// Every range is in its piece, and all ranges of a heap of 16 TiB have few pieces.
        #[test]
        fn few_pieces_hold_all_ranges(ranges in proptest::collection::vec((0u32..44, any::<u64>(), 1u64..1 << 42), 200)) {
            let blocks = 40_960..(1 << 44) + 300_000;
            let mut pieces = Vec::new();
            for (shift, start, len) in ranges {
                let start = blocks.start + start % (1 << shift);
                let range = start..(start + len).min(blocks.end);
                let piece = piece_around(&range, &blocks);
                prop_assert!(piece.start <= range.start && range.end <= piece.end);
                prop_assert!(blocks.start <= piece.start && piece.end <= blocks.end);
                pieces.push((piece.start, piece.end));
            }
            pieces.sort_unstable();
            pieces.dedup();
            prop_assert!(pieces.len() <= 2 * 21, "{pieces:?}");
        }
    }
}

//! The job block of this rank: the words of the job's barrier, the marks of the collective calls
//! that this rank has left, the directory of its windows, and the windows' control words. Other
//! ranks map it, or reach it through the net.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use transom_fabric::Memory;

use super::left;
use crate::check::Checker;
use crate::directory::{self, Part, Slot};
use crate::error::{Error, ErrorKind, JobError, Result};
use crate::sync::stripe::Visitor;
use crate::sync::words::{self, LINE, Words};

/// The offset of the visit words (`sync::stripe`) in the job block: one cache line for each of the
/// first [`VISITORS`] ranks of the node. The words of the job's barrier are before it.
const VISITS: usize = 4096;
/// The number of ranks of a node that have a line for visits. Further ranks take locks instead.
const VISITORS: usize = 256;
/// The offset of the marks of the collective calls that this rank has left (`left`).
pub(super) const LEFT: usize = VISITS + VISITORS * LINE;
/// The offset of the directory in the job block.
const DIRECTORY: usize = LEFT + left::BYTES;
/// The offset of the windows' control words, in the order of the directory's slots.
const WORDS: usize = DIRECTORY + directory::SLOTS * directory::SLOT_BYTES;

/// This rank's job block.
pub(crate) struct Block {
    rank: usize,
    memory: Memory,
    /// The position of this rank's visits in the job blocks of the node.
    pub(crate) visitor: Visitor,
    /// The size of one window's control words in bytes.
    words_len: usize,
    /// The conflict checker, where it is on. Its data for other ranks follows the block.
    pub(crate) checker: Option<Checker>,
    /// The identifiers of this process's windows in the directory. The lock is held while the
    /// directory changes.
    directory: Mutex<HashSet<u64>>,
    /// The number of marks that were stored.
    pub(super) left: AtomicUsize,
}

impl Block {
    /// The block of `rank` in a job of `ranks` ranks.
    pub(super) fn new(rank: usize, ranks: usize, memory: Memory, visitor: Visitor, checker: Option<Checker>) -> Block {
        let (words_len, left) = (words::bytes(ranks), AtomicUsize::new(0));
        Block { rank, memory, visitor, words_len, checker, directory: Mutex::default(), left }
    }

    /// The whole block.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The control words of this rank's part that is published at `place`.
    #[inline]
    pub(crate) fn words(&self, place: usize) -> Words<'_> {
        Words::at(&self.memory, self.words_at(place))
    }

    /// The words of the job's barrier.
    pub(super) fn barrier_words(&self) -> Words<'_> {
        Words::at(&self.memory, 0)
    }

    /// The part of window `id` that this rank published, and its slot in the directory.
    pub(super) fn find(&self, id: u64) -> Option<(Part, usize)> {
        directory::find(id, |place| slot(&self.memory, place))
    }

    /// Publishes this rank's part of window `id` and zeroes its control words. Returns the slot in
    /// the directory and the words.
    pub(crate) fn publish(&self, id: u64, part: &Part) -> Result<(usize, Memory)> {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if directory.contains(&id) {
            // Identifiers of subsets' windows are hashes of 63 bits. With as many windows as a
            // process can have, they collide by chance in one of 2^42 jobs.
            return Err(JobError::SameNumber { window: id }.into());
        }
        let place = directory::free_place(&self.memory, DIRECTORY, id)
            .ok_or(ErrorKind::TooManyWindows { window: id, limit: directory::SLOTS })?;
        let (at, len) = (self.words_at(place), self.words_len);
        let words = self.memory.slice(at, len).ok_or_else(|| missing(self.rank, id))?;
        words.write(0, &vec![0; len]);
        directory::publish(&self.memory, DIRECTORY, place, id, part);
        directory.insert(id);
        Ok((place, words))
    }

    /// Publishes a changed part again, while no peer reads it.
    pub(crate) fn republish(&self, place: usize, id: u64, part: &Part) {
        directory::update(&self.memory, DIRECTORY, place, id, part);
    }

    /// Removes a published part.
    pub(crate) fn retract(&self, place: usize) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let [id, ..] = directory::load(&self.memory, DIRECTORY, place);
        directory::retract(&self.memory, DIRECTORY, place);
        directory.remove(&id);
    }

    /// The offset in a job block of the control words of the window at `place`.
    #[inline]
    pub(crate) fn words_at(&self, place: usize) -> usize {
        WORDS + place * self.words_len
    }
}

/// The position of the visits of rank number `index` among the `ranks` ranks of a node. `may_pass`:
/// whether the kernels of all these ranks have the memory barrier that gates need.
pub(super) fn visitor(index: usize, ranks: usize, may_pass: bool) -> Visitor {
    let lines = ranks.min(VISITORS);
    Visitor::new(VISITS, lines, (may_pass && index < lines).then_some(index))
}

/// A slot of the directory in a block.
pub(super) fn slot(block: &Memory, place: usize) -> Slot {
    directory::load(block, DIRECTORY, place)
}

/// The offset of a slot of the directory in a block.
pub(super) fn slot_at(place: usize) -> u64 {
    (DIRECTORY + place * directory::SLOT_BYTES) as u64
}

/// The size in bytes of a job block in a job of `ranks` ranks.
pub(crate) fn block_bytes(ranks: usize) -> usize {
    WORDS + directory::SLOTS * words::bytes(ranks)
}

#[cold]
pub(super) fn missing(rank: usize, id: u64) -> Error {
    ErrorKind::NoWindow { rank, window: id }.into()
}

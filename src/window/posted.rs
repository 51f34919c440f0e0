//! Operations that are contiguous at the target, on memory that the net reaches. Each is posted in
//! as few transfers as the port allows. If the port refuses a post because it is busy, the job
//! makes progress and the post is repeated. Knows no window.

use transom_fabric::{Immediate, TallyRef};

use super::transfer::{Incoming, Outgoing};
use crate::buffers::{Lent, Scattered, Sink, Source};
use crate::datatype::Pieces;
use crate::error::Result;
use crate::job::JobCore;
use crate::transport::NetMemory;

/// Blocks below this length are packed into one transfer. Longer blocks are transferred in place,
/// unless the port copies them in any case.
pub(super) const BLOCK_BY_ITSELF: usize = 1024;
/// Maximum number of destinations of one get. A list of blocks of 8 bytes is then twice as long as
/// the data.
const PLACES: usize = 2048;

/// Memory that the net reaches, and the job that makes progress while the port is busy.
#[derive(Clone, Copy)]
pub(super) struct Posted<'t> {
    job: &'t JobCore,
    memory: &'t NetMemory,
}

impl<'t> Posted<'t> {
    #[inline]
    pub(super) fn of(job: &'t JobCore, memory: &'t NetMemory) -> Posted<'t> {
        Posted { job, memory }
    }

    /// Whether blocks of `block` bytes at the origin are packed into one put: short blocks, and
    /// blocks that the port copies in any case.
    pub(super) fn packs(self, block: usize) -> bool {
        block < BLOCK_BY_ITSELF || block <= self.memory.limits().copied_max
    }

    /// Posts a put of bytes that are contiguous at both sides.
    #[inline]
    pub(super) fn put(self, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        if from.len() > self.memory.limits().transfer_max {
            return self.put_cut(at, from, tally);
        }
        // A put of no bytes posts no request.
        while from.len() > 0 && !self.job.taken(self.memory.put(at, from, tally))? {}
        Ok(())
    }

    /// Posts a put of at most [`Limits::packed_max`](transom_fabric::Limits::packed_max) bytes,
    /// possibly none, which carries a number to the target.
    pub(super) fn put_immediate(self, at: u64, bytes: &[u8], immediate: Immediate, tally: &TallyRef) -> Result<()> {
        while !self.job.taken(self.memory.put_immediate(at, bytes, immediate, tally))? {}
        Ok(())
    }

    /// Posts a put that is longer than one transfer.
    #[cold]
    fn put_cut(self, at: u64, from: Source, tally: &TallyRef) -> Result<()> {
        let most = self.part_of(from.len());
        (0..from.len()).step_by(most).try_for_each(|done| {
            let part = from.part(done, most);
            while !self.job.taken(self.memory.put(at + done as u64, part, tally))? {}
            Ok(())
        })
    }

    /// Posts a get of bytes that are contiguous at both sides.
    pub(super) fn get(self, at: u64, into: &Sink, tally: &TallyRef) -> Result<()> {
        if into.len() > self.memory.limits().transfer_max {
            return self.get_cut(at, into, tally);
        }
        while into.len() > 0 && !self.job.taken(self.memory.get(at, into, tally))? {}
        Ok(())
    }

    /// Posts a get that is longer than one transfer.
    #[cold]
    fn get_cut(self, at: u64, into: &Sink, tally: &TallyRef) -> Result<()> {
        let most = self.part_of(into.len());
        (0..into.len()).step_by(most).try_for_each(|done| {
            let part = into.part(done, most);
            while !self.job.taken(self.memory.get(at + done as u64, &part, tally))? {}
            Ok(())
        })
    }

    /// The length of the equal fragments of a transfer of `len` bytes.
    fn part_of(self, len: usize) -> usize {
        let most = self.memory.limits().transfer_max;
        // Whole cache lines, so that no element is in two fragments.
        len.div_ceil(len.div_ceil(most)).next_multiple_of(64).min(most)
    }

    /// Puts small blocks of the origin into one run of the target, gathered in the send buffer.
    pub(super) fn put_packed(self, at: u64, from: &Outgoing<'_>, tally: &TallyRef) -> Result<()> {
        let most = self.memory.limits().packed_max;
        let (mut pieces, mut at, mut left) = (from.layout.pieces(), at, from.layout.len());
        while left > 0 {
            let len = left.min(most);
            // Each attempt begins with a new cursor, because a refused post may have advanced its
            // own.
            let post = || {
                let mut pieces = pieces.clone();
                let fill = |buffer: &mut [u8]| {
                    let mut done = 0;
                    while let Some((ours, len)) = pieces.next_at_most(buffer.len() - done) {
                        buffer[done..done + len].copy_from_slice(from.part(ours, len).bytes());
                        done += len;
                    }
                };
                self.memory.put_packed(at, len, fill, tally)
            };
            while !self.job.taken(post())? {}
            let mut skip = len;
            while let Some((_, len)) = pieces.next_at_most(skip) {
                skip -= len;
            }
            at += len as u64;
            left -= len;
        }
        Ok(())
    }

    /// Puts long blocks of the origin into one run of the target, in one operation for as many
    /// blocks as the port takes.
    pub(super) fn put_listed(self, at: u64, from: &Outgoing<'_>, tally: &TallyRef) -> Result<()> {
        Group::listed(self.memory).each(
            from.layout.pieces(),
            |ours, len| from.part(ours, len),
            |done, blocks| {
                while !self.job.taken(self.memory.put_list(at + done, blocks, tally))? {}
                Ok(())
            },
        )
    }

    /// Gets one run of the target into many blocks of the origin, through the port's buffers.
    pub(super) fn get_scattered(self, at: u64, into: &Incoming<'_>, tally: &TallyRef) -> Result<()> {
        let group = Group { bytes: self.memory.limits().packed_max, parts: PLACES };
        group.each(
            into.layout.pieces(),
            |ours, len| into.part(ours, len),
            |done, places| {
                while !self.job.taken(self.memory.get_scattered(at + done, places, tally))? {}
                Ok(())
            },
        )
    }

    /// Gets one run of the target into long blocks of the origin, in one operation for as many
    /// blocks as the port takes.
    pub(super) fn get_listed(self, at: u64, into: &Incoming<'_>, tally: &TallyRef) -> Result<()> {
        Group::listed(self.memory).each(
            into.layout.pieces(),
            |ours, len| into.part(ours, len),
            |done, places| {
                while !self.job.taken(self.memory.get_list(at + done, places, tally))? {}
                Ok(())
            },
        )
    }
}

/// Limits of one post of several buffers.
#[derive(Clone, Copy, Debug)]
struct Group {
    bytes: usize,
    parts: usize,
}

impl Group {
    /// The limits of a list.
    fn listed(memory: &NetMemory) -> Group {
        let limits = memory.limits();
        Group { bytes: limits.transfer_max, parts: limits.list_max }
    }

    /// Collects pieces of the origin's side in groups; `part` gives the buffer of a piece. Calls
    /// `post` for each group, with the number of bytes before the group.
    fn each<S: Lent>(
        self,
        mut pieces: Pieces<'_>,
        part: impl Fn(i64, usize) -> S,
        mut post: impl FnMut(u64, &Scattered<S>) -> Result<()>,
    ) -> Result<()> {
        let (mut done, mut parts) = (0, Scattered::new());
        loop {
            let room = if parts.count() < self.parts { self.bytes - parts.len() } else { 0 };
            if let Some((ours, len)) = pieces.next_at_most(room) {
                parts.add(part(ours, len));
                continue;
            }
            if parts.len() == 0 {
                return Ok(());
            }
            post(done, &parts)?;
            done += parts.len() as u64;
            parts.clear();
        }
    }
}

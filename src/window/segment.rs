//! Parts before they are published, and the segment in which the parts of a shared window are
//! adjacent (MPI-4.1 §12.2.3): each rank announces the size of its part, the first rank allocates
//! memory for all parts, and the other ranks map this memory.

use transom_fabric::{Memory, RegionKey};

use super::available_memory::aligned;
use crate::directory::Part;
use crate::error::{ArgumentError, Class, Error, Result};
use crate::hints::Hints;
use crate::job::{Job, peer};
use crate::transport::{self, Wire};

/// A part before it is published.
pub(super) struct Draft {
    pub(super) hints: Hints,
    pub(super) memory: Memory,
    pub(super) shared: Option<Share>,
}

/// Additional data of a part in a contiguous shared segment.
pub(super) struct Share {
    pub(super) segment: Memory,
    /// The offset of the part in the segment.
    pub(super) offset: u64,
    /// At the first rank: the region by which the others map the segment.
    pub(super) region: Option<transport::ShmRegion>,
    pub(super) place: usize,
    pub(super) words: Memory,
}

/// A part of a contiguous shared window whose size is published and whose memory does not exist
/// yet.
pub(super) struct Announced {
    job: Job,
    id: u64,
    pub(super) place: usize,
    words: Memory,
    part: Part,
    hints: Hints,
}

impl Announced {
    pub(super) fn publish(job: &Job, id: u64, size: usize, unit: u32, hints: Hints) -> Result<Announced> {
        let part = Part { size: size as u64, unit, ..Part::default() };
        let (place, words) = job.core().block.publish(id, &part)?;
        Ok(Announced { job: job.clone(), id, place, words, part, hints })
    }

    /// The sum of the sizes of the parts before a member's part, in bytes. `member` may be the
    /// number of members: the sum is then that of all parts.
    fn before(&self, member: usize) -> Result<usize> {
        let total = (0..member).try_fold(0u64, |sum, member| {
            let (Part { size, .. }, _) = self.job.core().lookup(self.job.team().rank(member), self.id)?;
            let reason = ArgumentError::PartsOverflow { rank: member, size, before: sum };
            sum.checked_add(size).ok_or_else(|| Error::argument(Class::Size, "allocate_shared", reason))
        })?;
        Ok(usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// At the first rank: memory for all parts, published.
    pub(super) fn segment(mut self) -> Result<(Announced, Option<(Memory, transport::ShmRegion)>)> {
        if self.job.rank() != 0 {
            return Ok((self, None));
        }
        let job = self.job.core();
        // No page is touched yet.
        let memory = aligned(job, "allocate_shared", self.before(self.job.size())?, &self.hints, Wire::reserve)?;
        let Some(region) = job.wire.register_shm(&memory)? else { return Ok((self, None)) };
        self.part.shm = transport::shm_key(&region);
        job.block.republish(self.place, self.id, &self.part);
        Ok((self, Some((memory, region))))
    }

    /// The part, once the segment is published.
    pub(super) fn draft(self, own: Option<(Memory, transport::ShmRegion)>) -> Result<Draft> {
        let job = self.job.core();
        let first = self.job.team().rank(0);
        let (segment, region) = match own {
            Some((memory, region)) => (memory, Some(region)),
            None => {
                let (part, _) = job.lookup(first, self.id)?;
                let segment = match part.shm == RegionKey::default() {
                    true => Some(Memory::private(0)),
                    false => {
                        job.link(first)?;
                        let advised = self.hints.huge_pages.is_some();
                        let import = if advised { Wire::import_dedicated } else { Wire::import_shm };
                        import(&job.wire, peer(first), &part.shm)?.mapped()
                    }
                };
                let reason = ArgumentError::SegmentUnmapped { rank: 0 };
                (segment.ok_or_else(|| Error::argument(Class::RmaShared, "allocate_shared", reason))?, None)
            }
        };
        let at = self.before(self.job.rank())?;
        let memory = segment.slice(at, usize::try_from(self.part.size).unwrap_or(usize::MAX));
        let reason = ArgumentError::SegmentShort { at, size: self.part.size, limit: segment.len() };
        let memory = memory.ok_or_else(|| Error::argument(Class::RmaShared, "allocate_shared", reason))?;
        if self.hints.huge_pages.is_some() {
            // The page faults of a rank follow the advice for the rank's own mapping. A kernel
            // without huge pages refuses the advice.
            let _ = transport::advise_huge(&segment);
        }
        // The rank in whose part a page begins touches the page first, so that the page is on that
        // rank's NUMA node. If one rank's part is the whole segment of several ranks, the others
        // are likely to use it, so the pages of a long segment are left to the first touch by the
        // program.
        let is_shared_out = memory.len() < segment.len() || self.job.size() == 1;
        if job.wire.populates(segment.len(), is_shared_out) {
            transport::touch(&memory)?;
        }
        let share = Share { segment, offset: at as u64, region, place: self.place, words: self.words };
        Ok(Draft { hints: self.hints, memory, shared: Some(share) })
    }
}

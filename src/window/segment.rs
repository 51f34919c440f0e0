//! Parts before they are published, and the segment in which those of a shared window lie one after the other (MPI §11.2.3): each
//! rank announces its size, the first one makes memory for all, and the others map it.

use transom_fabric::{Memory, RegionKey};

use super::create::allocated;
use crate::directory::Part;
use crate::error::{Class, Error, Result};
use crate::hints::Hints;
use crate::job::{Job, peer};
use crate::wire::{self, Lane};

/// A part before it is published.
pub(super) struct Draft {
    pub(super) hints: Hints,
    pub(super) memory: Memory,
    pub(super) shared: Option<Share>,
}

/// What a part of a contiguous shared segment has more.
pub(super) struct Share {
    pub(super) segment: Memory,
    /// Where the part begins in the segment.
    pub(super) offset: u64,
    /// At the first rank: what lets the others map it.
    pub(super) region: Option<wire::ShmRegion>,
    pub(super) place: usize,
    pub(super) words: Memory,
}

/// A part of a contiguous shared window while its size is published and its memory is not there.
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
        let (place, words) = job.core().publish(id, &part)?;
        Ok(Announced { job: job.clone(), id, place, words, part, hints })
    }

    /// The bytes of the parts before a member's, all parts' for the number of members.
    fn before(&self, member: usize) -> Result<usize> {
        let total = (0..member).try_fold(0u64, |sum, member| {
            let (part, _) = self.job.core().lookup(self.job.team().rank(member), self.id)?;
            let refused = || Error::argument(Class::Size, "allocate_shared", "the parts' sizes overflow together");
            sum.checked_add(part.size).ok_or_else(refused)
        })?;
        Ok(usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// At the first rank: memory for all parts, published.
    pub(super) fn segment(mut self) -> Result<(Announced, Option<(Memory, wire::ShmRegion)>)> {
        if self.job.rank() != 0 {
            return Ok((self, None));
        }
        let job = self.job.core();
        let memory = allocated(job, "allocate_shared", self.before(self.job.size())?, &self.hints)?;
        let Some(region) = job.wire.register_shm(&memory)? else { return Ok((self, None)) };
        self.part.shm = wire::shm_key(&region);
        job.republish(self.place, self.id, &self.part);
        Ok((self, Some((memory, region))))
    }

    /// The part, once the segment is published.
    pub(super) fn draft(self, own: Option<(Memory, wire::ShmRegion)>) -> Result<Draft> {
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
                        job.wire.import(Lane::Shm, peer(first), &part.shm)?.memory().cloned()
                    }
                };
                let refused = || Error::argument(Class::RmaShared, "allocate_shared", "the segment can't be mapped");
                (segment.ok_or_else(refused)?, None)
            }
        };
        let at = self.before(self.job.rank())?;
        let memory = segment.slice(at, usize::try_from(self.part.size).unwrap_or(usize::MAX));
        let missing = || Error::argument(Class::RmaShared, "allocate_shared", "the segment is shorter than its parts");
        let memory = memory.ok_or_else(missing)?;
        let share = Share { segment, offset: at as u64, region, place: self.place, words: self.words };
        Ok(Draft { hints: self.hints, memory, shared: Some(share) })
    }
}

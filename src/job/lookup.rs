//! The search for a rank's part of a window in the rank's directory, at first contact.

use transom_fabric::Tally;

use super::block::{self, missing};
use super::{JobCore, Link};
use crate::buffers;
use crate::directory::{self, Part, SLOT_BYTES, Slot};
use crate::error::Result;
use crate::transport::NetMemory;

/// The most slots that a get reads: windows whose slots collide are close to each other.
const AT_ONCE: usize = 16;

impl JobCore {
    /// The part of window `id` that `rank` published, and its slot in the directory.
    pub(crate) fn lookup(&self, rank: usize, id: u64) -> Result<(Part, usize)> {
        if rank == self.rank {
            return self.block.find(id).ok_or_else(|| missing(rank, id));
        }
        let found = match &**self.link(rank)? {
            Link::Shm(block) => directory::find(id, |place| block::slot(block, place)),
            Link::Net(block) => self.fetch_part(block, id)?,
        };
        found.ok_or_else(|| missing(rank, id))
    }

    fn fetch_part(&self, block: &NetMemory, id: u64) -> Result<Option<(Part, usize)>> {
        let most = (block.limits().transfer_max / SLOT_BYTES).clamp(1, AT_ONCE);
        for range in directory::ranges(id, most) {
            let mut slots = [Slot::default(); AT_ONCE];
            let slots = &mut slots[..range.len()];
            self.fetch_slots(block, range.start, slots)?;
            let mut decoded = range.zip(&*slots).filter_map(|(place, slot)| Some((Part::decode(slot, id)?, place)));
            if let Some(found) = decoded.next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Gets the slots from `place` on.
    fn fetch_slots(&self, block: &NetMemory, place: usize, slots: &mut [Slot]) -> Result<()> {
        let tally = Tally::new();
        let at = block::slot_at(place);
        let posted = buffers::scoped(
            || self.finish(&tally),
            |scope| {
                let sink = scope.sink(bytemuck::cast_slice_mut(slots));
                while !self.taken(block.get(at, &sink, &tally))? {}
                Ok(())
            },
        );
        posted.and_then(|()| self.progress.complete(&tally))
    }
}

//! The shortcut of notified puts to a rank whose part and counters this CPU maps: one table entry
//! with the addresses of the part, the counters and the doorbell. The first notified put to the
//! rank makes the entry.

use std::sync::atomic::{AtomicU64, Ordering};

use transom_fabric::{Keyed, Memory, Peer, Row};

use super::parts::index as offset;
use super::target::{Reach, Target};
use crate::job::peer;
use crate::sync::counters::{self, MAX_COUNTERS};
use crate::sync::words::LINE;
use crate::transport::Doorbell;

/// The number of counters, then the counters' words for CPUs.
type Counts = Row<AtomicU64, LINE, { 1 + MAX_COUNTERS }>;

/// Data, counters and doorbell of a rank of this node.
#[derive(Debug)]
pub(super) struct Shortcut {
    /// The rank in the window's group.
    rank: u32,
    unit: u32,
    size: u64,
    data: Memory,
    counts: Counts,
    doorbell: Doorbell,
}

const _: () = assert!(size_of::<Shortcut>() <= 88);

impl Keyed for Shortcut {
    #[inline]
    fn peer(&self) -> Peer {
        Peer(self.rank)
    }
}

impl Shortcut {
    /// The shortcut to a target, whose counters are `counts`; `None` where this CPU does not map
    /// both.
    pub(super) fn to(target: &Target, counts: &Target, doorbell: Doorbell) -> Option<Shortcut> {
        let (Reach::Mapped(data, _), Reach::Mapped(counts, _)) = (&target.reach, &counts.reach) else { return None };
        Some(Shortcut {
            rank: peer(target.rank()).0,
            unit: target.unit,
            size: target.size,
            data: data.clone(),
            counts: Counts::of(counts, counters::NUMBER)?,
            doorbell,
        })
    }

    /// Stores the data and adds one to a counter; `None`, with no effect, where the range is not
    /// inside of the part or there is no such counter. Returns whether the rank may sleep.
    #[inline(always)]
    pub(super) fn put(&self, displacement: u64, from: &[u8], index: usize) -> Option<bool> {
        let at = displacement.checked_mul(u64::from(self.unit))?;
        if at.checked_add(from.len() as u64)? > self.size {
            return None;
        }
        // Relaxed: the number changes between two barriers.
        if index as u64 >= self.counts.get(0)?.load(Ordering::Relaxed) {
            return None;
        }
        // No overflow: the index is below the number.
        let word = self.counts.get(index.wrapping_add(1))?;
        self.data.write(offset(at), from);
        // SeqCst: required by `Doorbell::has_sleepers`. It has the Release of `counters::raise`.
        word.fetch_add(1, Ordering::SeqCst);
        Some(self.doorbell.has_sleepers())
    }
}

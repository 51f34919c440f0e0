//! Puts that carry notices: what the entry of such a put says, and when a provider has such puts.
//! Plain data.

use std::ffi::c_int;

use transom_fabric::{Immediate, Immediates, Peer};

use crate::queues::Events;

/// Puts that carry a notice to the target: writes with remote CQ data (man fi_rma), which add an
/// entry to the target's completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// The data of an entry.
    pub(crate) entry: Entry,
    /// The first version of libfabric whose provider has such writes. Earlier versions state a size
    /// of the data too, but refuse each write (libfabric issue 12754).
    pub(crate) from: u32,
    /// The variable by which the user permits such writes, whose cost other operations bear;
    /// `None`: they need no permission.
    pub(crate) if_on: Option<&'static str>,
    /// The registration modes that such writes require.
    pub(crate) mr_modes: &'static [c_int],
    /// The queue through which the entries pass on their way to the completion queue, if there is
    /// one.
    pub(crate) events: Option<Events>,
}

/// The data of an entry: the origin above the number. Its variants are its lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Few origins, and numbers that name all counters (`src/messages/counted.rs`), but no signals
    /// of fences.
    Four = 4,
    /// All origins and numbers.
    Eight = 8,
}

impl Entry {
    /// The bytes of the data.
    pub(crate) fn bytes(self) -> usize {
        self as usize
    }

    /// The number of bits of a number that entries have room for.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Entry::Four => 23,
            Entry::Eight => Immediates::ALL.bits,
        }
    }

    /// The place of the origin's lowest bit.
    fn origin(self) -> u32 {
        match self {
            Entry::Four => self.bits(),
            Entry::Eight => 32,
        }
    }

    /// Whether the data can name so many origins.
    pub(crate) fn names(self, ranks: usize) -> bool {
        self == Entry::Eight || ranks <= 1 << (32 - self.origin())
    }

    /// The data of an origin's number.
    pub(crate) fn data(self, origin: Peer, immediate: Immediate) -> u64 {
        u64::from(origin.0) << self.origin() | u64::from(immediate.number())
    }

    /// The origin and the number of data; `None` for data that no rank sends.
    pub(crate) fn parsed(self, data: u64) -> Option<(Peer, Immediate)> {
        let number = data & ((1 << self.origin()) - 1);
        let origin = u32::try_from(data >> self.origin()).ok()?;
        Some((Peer(origin), Immediate::new(u32::try_from(number).ok()?)?))
    }
}

/// Whether puts carry notices, so that the port has `Limits::immediates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrying {
    /// Puts carry notices if the provider's rules say so, the user permits it, the queues have
    /// room, and a probe succeeds.
    ByRules,
    /// The decision of rank 0. If puts are to carry notices and can't do so here, opening fails,
    /// because ranks must not differ.
    Known(bool),
    /// Like [`Carrying::ByRules`], but also for providers whose rules have no such puts, and
    /// without the user's permission. For tests.
    Tried,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rules, sys};

    /// Man fi_psm3, `FI_PSM3_TAG_LAYOUT`: 4 bytes of remote CQ data, if the caller requests them.
    /// They name as many origins as have a share in the queue, and any counter. Shows T3.
    #[test]
    fn puts_carry_notices_of_four_bytes_over_psm3() {
        let psm3 = rules::of("psm3");
        assert!(psm3.carries(Carrying::ByRules, sys::version(1, 12), |_: &str| None));
        let hints: Vec<_> = psm3.hints("psm3", None, psm3.progress, true).collect();
        let plain = psm3.hints("psm3", None, psm3.progress, false);
        assert_eq!((hints[0].data, hints[0].order, hints[0].mr_mode), (4, sys::FI_ORDER_RMA_WAW, psm3.mr_modes[0]));
        assert!(hints.iter().skip_while(|hints| hints.data != 0).copied().eq(plain), "else as without");
        assert_eq!(psm3.room_for_notices(|_: &str| None), 4096);
        let entry = psm3.entry();
        assert!(entry.names(512) && !entry.names(513) && Entry::Eight.names(usize::MAX));
        for (origin, number) in [(0, 0), (511, 0), (0, (1 << 23) - 1), (511, (1 << 23) - 1), (77, 4097)] {
            let (origin, number) = (Peer(origin), Immediate::new(number).expect("in range"));
            assert_eq!(entry.parsed(entry.data(origin, number)), Some((origin, number)));
            assert!(entry.data(origin, number) <= u64::from(u32::MAX));
            assert_eq!(Entry::Eight.parsed(Entry::Eight.data(origin, number)), Some((origin, number)));
        }
        assert_eq!(Entry::Eight.parsed(u64::MAX), None, "no immediate");
    }
}

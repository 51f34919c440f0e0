//! The clocks with which a rank has begun to receive messages of another library (an MPI). A
//! synchronous send is complete only when its receive has begun, so the sender then knows all that
//! the receiver did before the receive. Receives that may match the same message share a clock.
//! Other receives may share it too, because a hash selects the clock.

use transom_fabric::Memory;

use super::clock::{Clock, Slot, slot_bytes};

/// The number of clocks.
const SLOTS: usize = 64;

/// The receives of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receives<'m> {
    pub(super) memory: &'m Memory,
    pub(super) base: usize,
    pub(super) ranks: usize,
}

/// Messages that a receive may match: from a rank or any, with a tag or any, of a group. `None` if
/// that is not known.
pub(crate) type Matching = Option<(Option<usize>, Option<i32>, u64)>;

/// The bytes of the receives of a rank in a job of `ranks` ranks.
pub(super) const fn bytes(ranks: usize) -> usize {
    SLOTS * slot_bytes(ranks)
}

impl<'m> Receives<'m> {
    fn slot(&self, matching: Matching) -> Slot<'m> {
        let index = matching.map_or(0, |(source, tag, group)| {
            let source = source.map_or(0, |rank| rank as u64 + 1);
            let tag = tag.map_or(0, |tag| u64::from(tag.cast_unsigned()) + 1);
            let mixed = (source << 40 ^ tag << 8 ^ group).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            1 + usize::try_from(mixed).unwrap_or(0) % (SLOTS - 1)
        });
        Slot { memory: self.memory, at: self.base + index * slot_bytes(self.ranks) }
    }

    /// Stores the clock with which a receive begins.
    pub(crate) fn begin(&self, matching: Matching, clock: &Clock) {
        clock.teach(self.slot(matching));
    }

    /// Learns from the receives that may have matched a message.
    pub(crate) fn learn(&self, source: usize, tag: i32, group: u64, clock: &mut Clock) {
        for source in [Some(source), None] {
            for tag in [Some(tag), None] {
                clock.learn(self.slot(Some((source, tag, group))));
            }
        }
        clock.learn(self.slot(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_learns_of_the_receives_that_may_match_its_message() {
        let memory = Memory::private(64 + bytes(2));
        let receives = Receives { memory: &memory, base: 64, ranks: 2 };
        let mut clock = Clock::new(2);
        let learned = |source, tag| {
            let mut clock = Clock::new(2);
            receives.learn(source, tag, 1, &mut clock);
            clock.of(0)
        };
        let receive = [Some((Some(1), Some(5), 1)), Some((None, Some(6), 1)), None];
        for (matching, expected) in receive.into_iter().zip([[1, 0], [1, 2], [3, 3]]) {
            clock.advance(0);
            receives.begin(matching, &clock);
            assert_eq!([learned(1, 5), learned(1, 6)], expected);
        }
    }
}

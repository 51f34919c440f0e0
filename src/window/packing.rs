//! Puts and gets as messages that the target's CPU executes: small scattered blocks, and operations
//! that can't be posted, packed into as few messages as possible.

use transom_fabric::{Fault, TallyRef};

use super::core::Core;
use super::target::Target;
use super::transfer::{From, Into};
use crate::buffers::Sink;
use crate::datatype::Strip;
use crate::error::Result;
use crate::job::peer;
use crate::memory::layout::Layout;
use crate::memory::stream::Stream;
use crate::messages::{Landing, MAX_STRIPS, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use crate::transport::Lane;

impl Core {
    /// Puts by messages that carry the data and its offsets.
    pub(super) fn scatter(
        &self,
        target: &Target,
        at: i64,
        from: &From<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let (mut ours, mut theirs) = (Stream::new(from.layout.pieces()), Stream::new(to.pieces()));
        let mut batch = Batch::new(self.message_max(target), 1);
        loop {
            let len = ours.left().min(theirs.left());
            let room = batch.room(len, true);
            if len > 0 && room > 0 {
                let len = len.min(room);
                batch.add(at + theirs.take(len), len);
                batch.data.extend_from_slice(from.part(ours.take(len), len).bytes());
                continue;
            }
            if !batch.is_empty() {
                let request = Request::Scatter { strips: std::mem::take(&mut batch.strips), data: &batch.data };
                self.ask(target, 0, request, Landing::Nowhere, tally)?;
                batch.clear();
            }
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// Gets by messages that list the blocks; the replies carry the data.
    pub(super) fn gather(
        &self,
        target: &Target,
        at: i64,
        into: &Into<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let (mut ours, mut theirs) = (Stream::new(into.layout.pieces()), Stream::new(from.pieces()));
        let mut batch = Batch::new(self.message_max(target), 1);
        loop {
            let len = ours.left().min(theirs.left());
            let room = batch.room(len, false);
            if len > 0 && room > 0 {
                let len = len.min(room);
                batch.add(at + theirs.take(len), len);
                batch.landing.push(into.part(ours.take(len), len));
                continue;
            }
            if !batch.is_empty() {
                let request = Request::Gather { strips: std::mem::take(&mut batch.strips) };
                self.ask(target, 0, request, Landing::Pieces(std::mem::take(&mut batch.landing)), tally)?;
                batch.clear();
            }
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// Sends a request that the target's CPU executes.
    pub(super) fn ask(
        &self,
        target: &Target,
        order: u64,
        request: Request<'_>,
        into: Landing,
        tally: &TallyRef,
    ) -> Result<()> {
        let rank = self.team.rank(target.rank());
        let (token, message) = self.job.messages.request(peer(rank), self.id, order, request, into, tally);
        self.job.send(rank, &message).inspect_err(|error| {
            let fault = Fault { peer: peer(rank), reason: error.to_string() };
            self.job.messages.fail(token, &fault);
        })
    }

    /// The longest message to a target.
    pub(super) fn message_max(&self, target: &Target) -> usize {
        self.job.wire.message_max(self.job.lane(self.team.rank(target.rank())).unwrap_or(Lane::Net))
    }
}

/// A request while it is filled: the strips at the target, their data, and the destinations of the
/// reply.
pub(super) struct Batch {
    pub(super) strips: Vec<Strip>,
    pub(super) data: Vec<u8>,
    pub(super) landing: Vec<Sink>,
    bytes: usize,
    message_max: usize,
    /// Pieces are cut at multiples of it.
    unit: usize,
}

impl Batch {
    pub(super) fn new(message_max: usize, unit: usize) -> Batch {
        Batch { strips: Vec::new(), data: Vec::new(), landing: Vec::new(), bytes: 0, message_max, unit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes of the data that are in it.
    pub(super) fn clear(&mut self) {
        self.strips.clear();
        self.data.clear();
        self.landing.clear();
        self.bytes = 0;
    }

    /// The bytes of a piece that still fit into request and reply; `carries`: the request carries
    /// the data.
    pub(super) fn room(&self, piece: usize, carries: bool) -> usize {
        if self.strips.len() >= MAX_STRIPS {
            return 0;
        }
        let fixed = OVERHEAD + STRIP * (self.strips.len() + 1) + if carries { self.bytes } else { 0 };
        let there = self.message_max.saturating_sub(fixed);
        let back = self.message_max.saturating_sub(REPLY_OVERHEAD + self.bytes);
        let there = if carries || there == 0 { there } else { usize::MAX };
        let room = there.min(back).min(piece);
        room / self.unit * self.unit
    }

    /// Adds a block of the target; it extends the last strip where it continues that strip.
    pub(super) fn add(&mut self, at: i64, len: usize) {
        self.bytes += len;
        if let Some(last) = self.strips.last_mut() {
            if last.count == 1 && last.offset + last.block as i64 == at {
                last.block += len;
                return;
            }
            let stride = if last.count == 1 { at.wrapping_sub(last.offset) } else { last.stride };
            if last.block == len && stride != len as i64 && last.offset + last.count as i64 * stride == at {
                last.stride = stride;
                last.count += 1;
                return;
            }
        }
        self.strips.push(Strip::one(at, len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_describes_what_is_regular_in_one_strip() {
        let mut batch = Batch::new(1000, 1);
        (0..10).for_each(|index| batch.add(index * 24, 8));
        assert_eq!(batch.strips, [Strip { offset: 0, block: 8, count: 10, stride: 24 }]);
        batch.add(500, 8);
        batch.add(508, 20);
        assert_eq!(batch.strips[1..], [Strip::one(500, 28)]);
        batch.clear();
        (0..3).rev().for_each(|index| batch.add(index * 8, 8));
        assert_eq!(batch.strips, [Strip { offset: 16, block: 8, count: 3, stride: -8 }]);
    }

    #[test]
    fn a_batch_never_exceeds_a_message_either_way() {
        let mut batch = Batch::new(200, 8);
        let mut sent = 0;
        for index in 0.. {
            let len = batch.room(64, true);
            if len == 0 {
                break;
            }
            assert!(len.is_multiple_of(8));
            batch.add(index * 1000, len);
            sent += len;
            assert!(OVERHEAD + STRIP * batch.strips.len() + sent <= 200 && sent + REPLY_OVERHEAD <= 200);
        }
        assert!(sent > 0);
        let gather = Batch::new(200, 1);
        assert_eq!(gather.room(usize::MAX, false), 200 - REPLY_OVERHEAD);
    }
}

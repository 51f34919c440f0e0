//! Puts and gets as messages that the target's CPU executes. Small scattered blocks, and operations
//! that can't be posted, are packed into as few messages as possible.

use transom_fabric::{Fault, Post, Reason, TallyRef};

use super::parts::Parts;
use super::target::{Reach, Target, Unmapped};
use super::transfer::{Incoming, MAX_IN_FLIGHT, Outgoing, may_combine};
use crate::buffers::Sink;
use crate::datatype::{Strip, Walk};
use crate::error::Result;
use crate::job::peer;
use crate::memory::layout::{Layout, walk_sides};
use crate::messages::{
    Blocks, FEW_STRIPS, MAX_PACKED, MAX_STRIPS, OVERHEAD, PACKED_COUNT, PACKED_MOST, REPLY_OVERHEAD, ReplyDestination,
    Request, STRIP, Small, What, packed_len, reuse_buffer,
};
use crate::transport::{Lane, Net};

/// A wait searches for requests without a reply after each such number of polls.
const TURNS_BETWEEN_SEARCHES: u32 = 16;
/// The poll of the first search: the first poll alone often brings the awaited reply.
const FIRST_SEARCH: u32 = 2;
/// The most replies with data that the origins of a window together may await from one target.
const MAX_REPLIES_OF_ALL: u64 = 8192;
/// The least number of these for an origin: enough to keep a busy target busy.
const MIN_REPLIES: u64 = 8;

/// The most replies with data that one of `ranks` origins awaits from a target.
fn max_replies(ranks: usize) -> u64 {
    (MAX_REPLIES_OF_ALL / (ranks as u64).max(1)).clamp(MIN_REPLIES, MAX_IN_FLIGHT)
}

impl Parts {
    /// Puts by messages that carry the data and its offsets.
    pub(super) fn scatter(
        &self,
        target: &Target,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let shares = self.blocks_share(target, to.len())?;
        let mut builder = RequestBuilder::new(self.message_max(target), 1);
        let mut pieces = walk_sides(to, Some(&from.layout), None);
        while builder.fill(&mut pieces, at, Some(from), None) {
            if shares && builder.has_all(to) && self.keep_blocks(target, What::Put, &builder, tally)? {
                return Ok(());
            }
            let request = Request::Scatter { strips: (&builder.strips).into(), data: (&builder.data).into() };
            self.ask(target, request, ReplyDestination::Nowhere, tally)?;
        }
        Ok(())
    }

    /// Gets by messages that list the blocks; the replies carry the data.
    pub(super) fn gather(
        &self,
        target: &Target,
        at: i64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<()> {
        let shares = self.blocks_share(target, from.len())?;
        let mut builder = RequestBuilder::new(self.message_max(target), 1);
        let mut pieces = walk_sides(from, None, Some(&into.layout));
        while builder.fill(&mut pieces, at, None, Some(into)) {
            if shares && builder.has_all(from) && self.keep_blocks(target, What::Get, &builder, tally)? {
                return Ok(());
            }
            let destination = builder.destination();
            let request = Request::Gather { strips: (&builder.strips).into() };
            self.bound_replies(target)?;
            self.ask(target, request, destination, tally)?;
        }
        Ok(())
    }

    /// Whether a put or get of `len` bytes, whose blocks the target's CPU copies, may share a
    /// message with other operations.
    fn blocks_share(&self, target: &Target, len: usize) -> Result<bool> {
        let Reach::Unmapped(Unmapped::Posted(memory)) = &target.reach else { return Ok(false) };
        Ok(memory.gathers() && may_combine(target, len, self) && !self.travels(target, len)?)
    }

    /// Keeps the operation of a request for a message with others, and returns whether it was kept.
    pub(super) fn keep_blocks(
        &self,
        target: &Target,
        what: What,
        request: &RequestBuilder,
        tally: &TallyRef,
    ) -> Result<bool> {
        let RequestBuilder { strips, data, destination, message_max, .. } = request;
        let small = Small::Blocks(Blocks { what, strips, data, into: destination });
        self.gather_small::<false>(target, 0, small, *message_max, tally)
    }

    /// Waits until few operations are in flight to a target. Called before a request whose reply
    /// carries data: a target keeps the replies that its net does not take at once, and the replies
    /// to many ranks could exceed its memory.
    pub(super) fn bound_replies(&self, target: &Target) -> Result<()> {
        // Operations that wait for a delayed lock are not in flight.
        if target.is_delayed() { Ok(()) } else { self.await_few(target, max_replies(self.team.size)) }
    }

    /// Waits until at most `most` of the requests that were made to a target before this call still
    /// lack a reply. Operations that other threads begin meanwhile do not extend the wait.
    pub(super) fn await_few(&self, target: &Target, most: u64) -> Result<()> {
        let is_ahead = || target.tally.outstanding() > most;
        if !is_ahead() {
            return Ok(());
        }
        let (to, messages) = (peer(self.team.rank(target.rank())), &self.job.messages);
        let end = messages.next_token();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut failed, mut turns) = (0, 0u32);
        // A search visits the requests to all ranks, so it is seldom repeated.
        while is_ahead() {
            turns = turns.wrapping_add(1);
            if turns % TURNS_BETWEEN_SEARCHES == FIRST_SEARCH && !messages.waits_for_more(to, end, most) {
                return Ok(());
            }
            self.job.pause_before_retry(&mut failed)?;
        }
        Ok(())
    }

    /// Sends a request, which the target's CPU executes, as a separate message or in the message of
    /// a delayed lock.
    pub(super) fn ask(
        &self,
        target: &Target,
        request: Request<'_>,
        into: ReplyDestination,
        tally: &TallyRef,
    ) -> Result<()> {
        if !target.awaits_use() || self.use_taken(target)? {
            return self.send(target, &request, into, tally);
        }
        match self.keep(target, request, into, tally)? {
            None => Ok(()),
            Some((request, into)) => self.send(target, &request, into, tally),
        }
    }

    /// Sends a request that the target's CPU executes.
    pub(super) fn send(
        &self,
        target: &Target,
        request: &Request<'_>,
        into: ReplyDestination,
        tally: &TallyRef,
    ) -> Result<()> {
        let (rank, token, message) = self.message(target, request, into, tally);
        let sent = self.job.send(rank, &message).inspect_err(|_| {
            // This call reports the failure.
            self.job.messages.unsent(peer(rank), token, &message, None);
            self.send_deferred();
        });
        reuse_buffer(message);
        sent
    }

    /// Sends a request of an operation of an earlier call, as [`Parts::send`]. After the loss of a
    /// rank, which may be another one, progress sends the request. After another failure the tally
    /// records that the request was not sent.
    ///
    /// # Errors
    /// The failure that the tally records.
    pub(super) fn send_earlier(
        &self,
        target: &Target,
        request: &Request<'_>,
        into: ReplyDestination,
        tally: &TallyRef,
    ) -> Result<()> {
        let (rank, token, message) = self.message(target, request, into, tally);
        let (to, messages) = (peer(rank), &self.job.messages);
        match self.job.send(rank, &message) {
            Err(error) if error.lost_rank().is_some() => {
                messages.defer(to, message, Some(token));
                Ok(())
            }
            sent => sent.inspect_err(|_| {
                messages.unsent(to, token, &message, Some(&Fault::new(to, Reason::NotSent)));
                self.send_deferred();
            }),
        }
    }

    /// The message of a request that the target's CPU executes, with the target's rank in the job
    /// and the request's token.
    fn message(
        &self,
        target: &Target,
        request: &Request<'_>,
        into: ReplyDestination,
        tally: &TallyRef,
    ) -> (usize, u64, Vec<u8>) {
        let (rank, messages) = (self.team.rank(target.rank()), &self.job.messages);
        let mut order = 0;
        if request.is_ordered() {
            order = match self.job.wire.net().is_some_and(Net::combines) {
                // The accumulates are those of earlier calls.
                true => messages.number(
                    (peer(rank), self.id),
                    || self.next_order(target),
                    |token, message| self.send_kept(rank, token, message),
                ),
                false => self.next_order(target),
            };
        }
        let (token, message) = match request {
            Request::Notify { .. } => messages.notify(peer(rank), self.id, request, tally, self.message_max(target)),
            _ => messages.request(peer(rank), self.id, order, request, into, tally),
        };
        (rank, token, message)
    }

    /// Sends a request of operations of earlier calls. If the target takes no message now, progress
    /// sends the request later. A failure of this call, such as the loss of another rank, is no
    /// failure of these operations.
    fn send_kept(&self, rank: usize, token: u64, message: &[u8]) {
        let messages = &self.job.messages;
        match self.job.wire.send(peer(rank), message) {
            Post::Done | Post::Pending => {}
            Post::Again => messages.defer(peer(rank), message.to_vec(), Some(token)),
            Post::Broken(fault) => {
                messages.unsent(peer(rank), token, message, Some(&fault));
                self.send_deferred();
            }
        }
    }

    /// Sends the parts of a failed message that the target needs. A progress thread sends those
    /// that this call can't send.
    #[cold]
    fn send_deferred(&self) {
        // The first failure is reported.
        drop(self.job.progress.poll_and_leave());
    }

    /// The longest message to a target.
    pub(super) fn message_max(&self, target: &Target) -> usize {
        self.job.wire.message_max(self.job.lane(self.team.rank(target.rank())).unwrap_or(Lane::Net))
    }
}

/// A request while it is filled: the strips at the target, their data, and the destinations of the
/// reply.
pub(super) struct RequestBuilder {
    pub(super) strips: Vec<Strip>,
    pub(super) data: Vec<u8>,
    destination: Vec<Sink>,
    /// The bytes of all strips but the last in a packed list.
    packed: usize,
    bytes: usize,
    message_max: usize,
    /// Pieces are cut at multiples of this number of bytes.
    unit: usize,
}

impl RequestBuilder {
    pub(super) fn new(message_max: usize, unit: usize) -> RequestBuilder {
        RequestBuilder {
            strips: Vec::new(),
            data: Vec::new(),
            destination: Vec::new(),
            packed: 0,
            bytes: 0,
            message_max,
            unit,
        }
    }

    /// Begins a new request, and adds pieces until it is full or the pieces end; false where none
    /// was left. `at` is the offset of the target's side.
    pub(super) fn fill(
        &mut self,
        pieces: &mut Walk<'_, 3>,
        at: i64,
        from: Option<&Outgoing<'_>>,
        into: Option<&Incoming<'_>>,
    ) -> bool {
        self.strips.clear();
        self.data.clear();
        self.destination.clear();
        (self.packed, self.bytes) = (0, 0);
        while let Some(([theirs, ours, result], len)) = pieces.next_at_most(self.room(from.is_some())) {
            self.add(at + theirs, len);
            if let Some(from) = from {
                self.data.extend_from_slice(from.part(ours, len).bytes());
            }
            if let Some(into) = into {
                let part = into.part(result, len);
                let apart = match self.destination.last_mut() {
                    Some(last) => last.joined(part),
                    None => Some(part),
                };
                self.destination.extend(apart);
            }
        }
        self.bytes > 0
    }

    /// Whether the request has all bytes of the target's side.
    pub(super) fn has_all(&self, of: &Layout<'_>) -> bool {
        self.bytes == of.len()
    }

    /// The destinations of the reply.
    pub(super) fn destination(&mut self) -> ReplyDestination {
        match self.destination.is_empty() {
            true => ReplyDestination::Nowhere,
            false => ReplyDestination::Pieces(std::mem::take(&mut self.destination)),
        }
    }

    /// The bytes that still fit into request and reply; `carries`: the request contains the data.
    fn room(&self, carries: bool) -> usize {
        if self.strips.len() >= MAX_PACKED {
            return 0;
        }
        let fixed = OVERHEAD + self.list_most() + if carries { self.bytes } else { 0 };
        let there = self.message_max.saturating_sub(fixed);
        let back = self.message_max.saturating_sub(REPLY_OVERHEAD + self.bytes);
        let there = if carries || there == 0 { there } else { usize::MAX };
        there.min(back) / self.unit * self.unit
    }

    /// Upper bound of the bytes of the list of strips with one more strip, or with a longer last
    /// one.
    fn list_most(&self) -> usize {
        let count = self.strips.len() + 1;
        let packed = PACKED_COUNT + self.packed + 2 * PACKED_MOST;
        match count {
            0..=FEW_STRIPS => STRIP * count,
            // Without a further strip the list stays unpacked, which may be longer.
            _ if count == FEW_STRIPS + 1 => packed.min(STRIP * count).max(STRIP * FEW_STRIPS),
            _ if count <= MAX_STRIPS => packed.min(STRIP * count),
            _ => packed,
        }
    }

    /// Adds a block of the target; it extends the last strip where it continues that strip.
    fn add(&mut self, at: i64, len: usize) {
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
        if let Some((last, before)) = self.strips.split_last() {
            self.packed += packed_len(before.last(), last);
        }
        self.strips.push(Strip::one(at, len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::encoded_len;

    #[test]
    fn a_request_describes_equal_blocks_by_one_strip() {
        let mut builder = RequestBuilder::new(1000, 1);
        (0..10).for_each(|index| builder.add(index * 24, 8));
        assert_eq!(builder.strips, [Strip { offset: 0, block: 8, count: 10, stride: 24 }]);
        builder.add(500, 8);
        builder.add(508, 20);
        assert_eq!(builder.strips[1..], [Strip::one(500, 28)]);
        let mut builder = RequestBuilder::new(1000, 1);
        (0..3).rev().for_each(|index| builder.add(index * 8, 8));
        assert_eq!(builder.strips, [Strip { offset: 16, block: 8, count: 3, stride: -8 }]);
    }

    /// Blocks at equal distances, near ones in no order, and distant ones.
    #[test]
    fn a_request_and_its_reply_fit_messages() {
        let places: [fn(i64) -> i64; 3] =
            [|index| index * 1000, |index| index * 1000 + index % 3 * 64, |index| index % 2 * (1 << 60) + index * 1000];
        for (place, most, block) in
            places.iter().flat_map(|&place| [(place, 200, 64), (place, 16384, 8), (place, 4096, 24)])
        {
            let mut builder = RequestBuilder::new(most, 8);
            let mut sent = 0;
            for index in 0.. {
                let len = builder.room(true).min(block);
                if len == 0 {
                    break;
                }
                assert!(len.is_multiple_of(8));
                builder.add(place(index), len);
                sent += len;
                let request = Request::Scatter { strips: (&builder.strips).into(), data: vec![0; sent].into() };
                assert!(encoded_len(&request) <= most && sent + REPLY_OVERHEAD <= most);
            }
            assert!(sent > 0);
        }
        // Regression: the message was longer than allowed if the last of exactly as many strips as
        // are never packed grew, by a long block or by further ones at equal distances.
        for (short, step, most) in
            (0..24).flat_map(|short| [(short, 1000, 16384), (short, 1016, 16384), (short, 1016, 2048)])
        {
            let (mut builder, mut sent) = (RequestBuilder::new(most, 1), 0);
            for index in 0i64.. {
                let place = if index < short { index * 16 + index * index % 7 } else { 1000 + (index - short) * step };
                let len = builder.room(true).min(if index < short { 1 } else { 1000 });
                if len == 0 {
                    break;
                }
                builder.add(place, len);
                sent += len;
                let request = Request::Scatter { strips: (&builder.strips).into(), data: vec![0; sent].into() };
                assert!(encoded_len(&request) <= most, "{short} short blocks, then every {step} bytes");
            }
        }
        // 1,000 blocks of 8 bytes in no regular order are one message.
        let mut builder = RequestBuilder::new(16384, 1);
        for index in 0..1000 {
            assert!(builder.room(true) >= 8, "block {index}");
            builder.add(index * 56 + index % 3 * 8, 8);
        }
        let gather = RequestBuilder::new(200, 1);
        assert_eq!(gather.room(false), 200 - REPLY_OVERHEAD);
    }

    /// All origins together await a bounded number of replies, and each may await some.
    #[test]
    fn origins_share_the_replies_of_a_target() {
        assert_eq!([1, 128, 129, 512, 1024, 1 << 20].map(max_replies), [64, 64, 63, 16, 8, 8]);
    }
}

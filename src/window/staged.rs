//! Long operations over nets on which the target's CPU takes part, through a staging area of the
//! target (`messages::staging`): accumulates (`Limits::combines`), and over sockets puts and gets
//! on dynamic windows (`Limits::gathers`). The origin puts the operands into the area, one staged
//! piece after the other, and a short request for each piece has the target combine or copy it.
//! Several staged pieces are in flight at the same time. Fetched bytes replace the operands in the
//! area, and the origin gets them from there.

use std::collections::VecDeque;

use transom_fabric::{Tally, TallyRef};

use super::accumulate::Accumulate;
use super::parts::Parts;
use super::posted::Posted;
use super::target::{Reach, Target, Unmapped};
use super::transfer::{Incoming, Outgoing};
use crate::buffers::{Sink, Source};
use crate::error::Result;
use crate::job::{Claim, Staging};
use crate::memory::layout::Layout;
use crate::messages::{PIECE, Piece, ReplyDestination, Request};
use crate::reduce::{BasicType, Op};

/// Accumulates of at most this many messages are sent as messages. On a dynamic window several
/// messages need a further request, which checks the whole access before them.
const MAX_MESSAGES_BEFORE_STAGING: usize = 2;
const MAX_MESSAGES_BY_ADDRESS: usize = 1;

/// A long operation that is contiguous at both sides.
struct Long<'a> {
    from: Option<&'a Source>,
    /// The destination of fetched bytes.
    into: Option<&'a Sink>,
    len: usize,
    /// The operation and type of an accumulate; `None` for a copy.
    combine: Option<(Op, BasicType)>,
}

/// A staged piece whose fetched bytes this rank has not yet got.
struct Owed<'j> {
    claim: Claim<'j>,
    into: Sink,
}

impl Long<'_> {
    /// Bytes of a full staged piece: whole elements, and whole transfers of at most `limit` bytes.
    fn piece(&self, limit: usize) -> usize {
        let most = if limit < PIECE { PIECE / limit * limit } else { PIECE };
        self.combine.map_or(most, |(_, ty)| most / ty.size() * ty.size())
    }

    /// The request for a staged piece.
    fn request(&self, piece: Piece) -> Request<'static> {
        let fetch = self.into.is_some();
        match self.combine {
            Some((op, ty)) => Request::Staged { op, ty, fetch, piece },
            None => Request::Copy { fetch, piece },
        }
    }
}

impl Parts {
    /// Performs an accumulate through a staging area. Returns false, without an effect, if the
    /// accumulate is short or not contiguous at a side, or if the target has no area for this
    /// process. `tally` counts the puts that read the operands.
    pub(super) fn accumulate_staged(
        &self,
        target: &Target,
        at: i64,
        it: &Accumulate<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        if it.contiguous().is_none() {
            return Ok(false);
        }
        let from = it.from.as_ref().map(|from| &from.bytes);
        let into = it.into.as_ref().map(|into| &into.bytes);
        let long = Long { from, into, len: it.to.len(), combine: Some((it.op, it.ty)) };
        self.long_staged(target, at, &long, tally)
    }

    /// Performs a put on a dynamic window through a staging area; returns false like
    /// [`Parts::accumulate_staged`].
    pub(super) fn put_staged(
        &self,
        target: &Target,
        at: i64,
        from: &Outgoing<'_>,
        to: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        if !(from.layout.is_contiguous() && from.low == 0 && to.is_contiguous()) {
            return Ok(false);
        }
        let long = Long { from: Some(&from.bytes), into: None, len: to.len(), combine: None };
        self.long_staged(target, at, &long, tally)
    }

    /// Performs a get on a dynamic window through a staging area; returns false like
    /// [`Parts::accumulate_staged`].
    pub(super) fn get_staged(
        &self,
        target: &Target,
        at: i64,
        into: &Incoming<'_>,
        from: &Layout<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        if !(into.layout.is_contiguous() && into.low == 0 && from.is_contiguous()) {
            return Ok(false);
        }
        let long = Long { from: None, into: Some(&into.bytes), len: from.len(), combine: None };
        self.long_staged(target, at, &long, tally)
    }

    /// The staging area of a target for an operation of `len` bytes, if such operations use one.
    /// `combines`: the operation is an accumulate.
    pub(super) fn area(&self, target: &Target, len: usize, combines: bool) -> Result<Option<&Staging>> {
        let rank = self.team.rank(target.rank());
        let (by_net, few) = match &target.reach {
            // On windows that are not dynamic, puts and gets are posted instead.
            Reach::Unmapped(Unmapped::Posted(memory)) => (memory.limits().combines, MAX_MESSAGES_BEFORE_STAGING),
            Reach::Unmapped(Unmapped::Dynamic(None)) => {
                let by_net = if combines { self.combines_by_address(target) } else { self.gathers_by_address(target) };
                (by_net, MAX_MESSAGES_BY_ADDRESS)
            }
            Reach::Mapped(..) | Reach::Unmapped(_) => return Ok(None),
        };
        if by_net && len > few * self.message_max(target) { self.job.staging(self.id, rank) } else { Ok(None) }
    }

    fn long_staged(&self, target: &Target, at: i64, long: &Long<'_>, tally: &TallyRef) -> Result<bool> {
        let Some(area) = self.area(target, long.len, long.combine.is_some())? else { return Ok(false) };
        // Such an operation is too long for the message of a delayed lock, so `travels` takes the
        // lock now.
        self.travels(target, long.len)?;
        self.stage(target, at, long, area, tally).map(|()| true)
    }

    fn stage(&self, target: &Target, at: i64, long: &Long<'_>, area: &Staging, tally: &TallyRef) -> Result<()> {
        let (most, mut owed) = (long.piece(area.memory().limits().transfer_max), VecDeque::new());
        for done in (0..long.len).step_by(most) {
            let size = most.min(long.len - done);
            let claim = self.claim(area, tally, &mut owed)?;
            let (from, after) = ((claim.piece * PIECE) as u64, long.len - done - size);
            if let Some(operands) = long.from {
                self.fill(area, &claim, operands.part(done, size))?;
            }
            let (before, at) = (done as u64, at.cast_unsigned() + done as u64);
            let request = long.request(Piece { at, from, len: size as u64, before, after: after as u64 });
            self.send(target, &request, ReplyDestination::Nowhere, &claim.tally)?;
            // Without fetched bytes the claim ends. The request holds the piece until the answer.
            if let Some(into) = long.into {
                owed.push_back(Owed { claim, into: into.part(done, size) });
            }
        }
        let mut outcome = Ok(());
        for one in owed {
            outcome = outcome.and(self.get_owed(area, one));
        }
        outcome
    }

    /// Puts the operands of a piece. A message that is sent afterwards finds them at the target.
    fn fill(&self, area: &Staging, claim: &Claim<'_>, operands: Source) -> Result<()> {
        let (memory, at) = (Posted::of(&self.job, area.memory()), (claim.piece * PIECE) as u64);
        if area.memory().limits().ordered {
            return memory.put(at, operands, &claim.tally);
        }
        let own = Tally::within(&claim.tally);
        memory.put(at, operands, &own)?;
        self.job.progress.complete(&own)
    }

    /// Claims a free piece of an area. Ends this operation's claims before it waits for claims of
    /// other threads.
    fn claim<'j>(&'j self, area: &Staging, tally: &TallyRef, owed: &mut VecDeque<Owed<'j>>) -> Result<Claim<'j>> {
        loop {
            if let Some(claim) = area.claim(tally, &self.job.progress) {
                return Ok(claim);
            }
            match owed.pop_front() {
                Some(one) => self.get_owed(area, one)?,
                None => self.job.progress.until(|| area.has_free())?,
            }
        }
    }

    /// Waits until the target has performed a piece, then gets the fetched bytes.
    fn get_owed(&self, area: &Staging, Owed { claim, into }: Owed<'_>) -> Result<()> {
        self.job.progress.until(|| claim.tally.outstanding() <= 1)?;
        if claim.tally.has_failed() {
            // The failure is in the tally.
            return Ok(());
        }
        Posted::of(&self.job, area.memory()).get((claim.piece * PIECE) as u64, &into, &claim.tally)
    }
}

//! Long accumulates over nets on which the target's CPU takes part: the operands are put into a
//! staging area of the target, piece by piece, and a short request for each piece has the target
//! combine it (`messages::staging`). Several pieces of an area are in flight at the same time. The
//! target replaces the operands in the area by the previous values, and the origin gets them from
//! there.

use std::collections::VecDeque;

use transom_fabric::{Tally, TallyRef};

use super::accumulate::Accumulate;
use super::parts::Parts;
use super::posted::Posted;
use super::target::{Reach, Target, Unmapped};
use crate::buffers::Sink;
use crate::error::Result;
use crate::job::{Claim, Staging};
use crate::messages::{Combined, Landing, PIECE, Request};

/// Accumulates of at most as many messages are sent as messages.
const FEW: usize = 2;

/// A piece whose previous values this rank has not yet got.
struct Owed {
    claim: Claim,
    into: Sink,
}

impl Parts {
    /// Performs an accumulate through a staging area. Returns false, without an effect, if the
    /// accumulate is short or not contiguous at a side, or if the target has no area for this
    /// process. The operands are not read after the return.
    pub(super) fn accumulate_staged(
        &self,
        target: &Target,
        at: i64,
        it: &Accumulate<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        let Reach::Unmapped(Unmapped::Posted(memory)) = &target.reach else { return Ok(false) };
        let len = it.to.len();
        if !memory.gathers() || len <= FEW * memory.limits().message_max {
            return Ok(false);
        }
        let Some(all) = it.contiguous() else { return Ok(false) };
        let Some(area) = self.job.staging(self.id, self.team.rank(target.rank()))? else { return Ok(false) };
        // Such an operation is too long for the message of a wanted lock, so the lock is held now.
        self.travels(target, len)?;
        let puts = Tally::within(tally);
        let mut done = self.stage(target, at, (it, &all), (area, memory.limits().ordered), (tally, &puts));
        done = done.and(self.job.progress.complete(&puts));
        if done.is_err() {
            // The source must not be read after the return.
            self.job.finish(&puts);
        }
        done.map(|()| true)
    }

    fn stage(
        &self,
        target: &Target,
        at: i64,
        (it, all): (&Accumulate<'_>, &Combined<'_>),
        (area, ordered): (&Staging, bool),
        (tally, puts): (&TallyRef, &TallyRef),
    ) -> Result<()> {
        let Combined { op, ty, len, .. } = *all;
        let fetch = all.into.is_some();
        let most = PIECE / ty.size() * ty.size();
        let mut owed = VecDeque::new();
        for done in (0..len).step_by(most) {
            let size = most.min(len - done);
            let claim = self.claim(area, tally, &mut owed)?;
            let from = (claim.piece * PIECE) as u64;
            if let Some(operands) = &it.from {
                let operands = operands.bytes.part(done, size);
                Posted::of(&self.job, area.memory()).put(from, operands, puts)?;
                if !ordered {
                    self.job.progress.complete(puts)?;
                }
            }
            let at = at.cast_unsigned() + done as u64;
            let request = Request::Staged { op, ty, fetch, at, from, len: size as u64 };
            self.send(target, &request, Landing::Nowhere, &claim.tally)?;
            // Without previous values the claim ends. The request holds the piece until the answer.
            if let Some(into) = all.into {
                owed.push_back(Owed { claim, into: into.part(done, size) });
            }
        }
        let mut outcome = Ok(());
        for one in owed {
            outcome = outcome.and(self.get_staged(area, one));
        }
        outcome
    }

    /// Claims a free piece of an area. Ends this operation's claims before it waits for claims of
    /// other threads.
    fn claim(&self, area: &Staging, tally: &TallyRef, owed: &mut VecDeque<Owed>) -> Result<Claim> {
        loop {
            if let Some(claim) = area.claim(tally) {
                return Ok(claim);
            }
            match owed.pop_front() {
                Some(one) => self.get_staged(area, one)?,
                None => self.job.progress.until(|| area.has_free())?,
            }
        }
    }

    /// Waits until a piece is combined, then gets its previous values.
    fn get_staged(&self, area: &Staging, Owed { claim, into }: Owed) -> Result<()> {
        self.job.progress.until(|| claim.tally.outstanding() <= 1)?;
        if claim.tally.has_failed() {
            // The failure is in the tally.
            return Ok(());
        }
        Posted::of(&self.job, area.memory()).get((claim.piece * PIECE) as u64, &into, &claim.tally)
    }
}

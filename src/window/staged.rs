//! Long accumulates over nets on which the target's CPU takes part: the operands are put into a
//! staging area of the target, piece by piece, and a short request for each piece has the target
//! combine it (`messages::staging`). The pieces of an area are in flight at the same time. Previous
//! values take the place of the operands in the area, and are got from there.

use std::collections::VecDeque;

use transom_fabric::{Tally, TallyRef};

use super::accumulate::Accumulate;
use super::core::Core;
use super::posted::Posted;
use super::target::{Far, Reach, Target};
use crate::buffers::Sink;
use crate::error::Result;
use crate::job::Staging;
use crate::messages::{Combined, Landing, PIECE, Request};

/// Accumulates of at most as many messages are sent as messages.
const FEW: usize = 2;

/// A piece whose previous values are still to be got.
struct Owed {
    piece: usize,
    tally: TallyRef,
    into: Sink,
}

impl Core {
    /// Performs an accumulate through a staging area if it is long, contiguous at all sides, and
    /// the target has an area for this process; whether it did. The operands are not read after the
    /// return.
    pub(super) fn accumulate_staged(
        &self,
        target: &Target,
        at: i64,
        it: &Accumulate<'_>,
        tally: &TallyRef,
    ) -> Result<bool> {
        let Reach::Far(Far::Posted(memory)) = &target.reach else { return Ok(false) };
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
            let (piece, own) = self.claim(area, tally, &mut owed)?;
            let from = (piece * PIECE) as u64;
            let send = || {
                if let Some(operands) = &it.from {
                    let operands = operands.bytes.part(done, size);
                    Posted::of(&self.job, area.memory()).put(from, operands, puts)?;
                    if !ordered {
                        self.job.progress.complete(puts)?;
                    }
                }
                let at = at.cast_unsigned() + done as u64;
                let request = Request::Staged { op, ty, fetch, at, from, len: size as u64 };
                self.send(target, &request, Landing::Nowhere, &own)
            };
            let sent = send();
            match all.into {
                Some(into) if sent.is_ok() => owed.push_back(Owed { piece, tally: own, into: into.part(done, size) }),
                // The claim ends; the request holds the piece until the answer.
                _ => own.finish(),
            }
            if sent.is_err() {
                owed.into_iter().for_each(|it: Owed| it.tally.finish());
                return sent;
            }
        }
        let mut outcome = Ok(());
        for one in owed {
            outcome = outcome.and(self.get_staged(area, one));
        }
        outcome
    }

    /// A free piece of an area, and the tally that counts what is done with it. The claim counts as
    /// one operation. Own claims end before this waits for those of other threads.
    fn claim(&self, area: &Staging, tally: &TallyRef, owed: &mut VecDeque<Owed>) -> Result<(usize, TallyRef)> {
        loop {
            if let Some(claimed) = area.claim(tally) {
                return Ok(claimed);
            }
            match owed.pop_front() {
                Some(one) => self.get_staged(area, one)?,
                None => self.job.progress.until(|| area.has_free())?,
            }
        }
    }

    /// Waits until a piece is combined, then gets its previous values. The claim of the piece ends.
    fn get_staged(&self, area: &Staging, Owed { piece, tally, into }: Owed) -> Result<()> {
        let combined = self.job.progress.until(|| tally.outstanding() <= 1);
        let got = match combined {
            Ok(()) if !tally.has_failed() => {
                Posted::of(&self.job, area.memory()).get((piece * PIECE) as u64, &into, &tally)
            }
            // The failure is in the tally.
            other => other,
        };
        tally.finish();
        got
    }
}

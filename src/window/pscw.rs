//! Generalized active target synchronization (MPI-4.1 §12.5.2). `post` notifies each origin. An
//! origin waits for the notice only at its first operation on the target, or at `complete`.
//! `complete` notifies each target, and `wait` counts these notices. `complete` sends the notice
//! when the operations on the target are complete. It sends the notice earlier in two cases: the
//! net delivers the notice after the puts, or the message of the operations contains the notice
//! ([`Parts::close`]). A notice is one atomic on a word of the receiving rank within a node, and
//! one message or one put with an immediate otherwise. A window keeps only the groups themselves,
//! and no state for each rank.
//!
//! `complete` does not wait for the answer to a message that contains the notice, unless the answer
//! brings data or may be a refusal. The operations are complete at the origin, because the message
//! has their data, and the target's `wait` completes them at the target. The next epoch to the
//! target begins after this `wait`.
//!
//! A target counts the notices of `complete`, whatever their origins. A notice is therefore never
//! sent before the target's post. If the wait for the post fails, the epoch of the origin ends, and
//! the origin's progress sends the notice when the post arrives ([`Exposed::skip_post`]).
//!
//! [`Exposed::skip_post`]: crate::messages::Exposed::skip_post

use std::sync::atomic::Ordering;

use super::core::Core;
use super::epoch_state::misused;
use super::parts::Parts;
use super::target::{Hold, Target};
use crate::epoch::{Access, Call, Exposure};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::job::{Notified, PROC_NULL, peer};
use crate::messages::{Close, End, Messages, Posted, PscwNotice, named};
use crate::sync::pscw_words;
use crate::sync::words::Words;
use crate::transport::Lane;

/// The number of polls of a net before `test` returns false. The program may know from a message of
/// its own that all origins have completed. Their notices are then at this rank, but a poll may
/// receive only a part of what has arrived.
const POLLS_OF_TEST: u32 = 8;

impl Core {
    /// Exposes this rank's part to `origins` (`MPI_WIN_POST`) without waiting. `check` is false
    /// under `MPI_MODE_NOCHECK`, which both sides must give.
    pub(crate) fn post(&self, origins: &[usize], check: bool) -> Result<()> {
        let own = match self.epochs.state().0 {
            Access::Lock => self.parts.target("post", self.parts.team.me)?.is_some_and(|own| own.hold() != Hold::None),
            Access::LockAll => true,
            _ => false,
        };
        let change = self.epochs.change("post", Call::Post { own_locked: own })?;
        self.check_group("post", origins)?;
        // An unreachable origin fails the call before the call has changed anything.
        for &rank in origins {
            self.reach(rank)?;
        }
        self.parts.own.publish();
        // Relaxed: the change of the epoch word below orders it for a thread that waits.
        self.epochs.origins.store(u32::try_from(origins.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.epochs.apply(change)?;
        self.parts.posts(origins);
        if !check {
            return Ok(());
        }
        let mut outcome = Ok(());
        for &origin in origins {
            let notified = self.notify(origin, PscwNotice::Posted);
            if matches!(notified, Notified::Failed(_)) {
                // The epoch is open to the other origins. `wait` waits for those.
                self.epochs.origins.fetch_sub(1, Ordering::Relaxed);
            }
            outcome = outcome.and(notified.outcome());
        }
        outcome
    }

    /// Opens an access epoch to `targets` (`MPI_WIN_START`) without waiting: the first operation on
    /// a target waits for the target's post.
    pub(crate) fn start(&self, targets: &[usize], check: bool) -> Result<()> {
        self.epochs.check("start", Call::Start)?;
        self.check_group("start", targets)?;
        // An unreachable target fails the call before the call has changed anything.
        for &rank in targets {
            self.parts.target("start", rank)?;
        }
        self.epochs.step("start", Call::Start)?;
        for target in targets.iter().filter_map(|&rank| self.parts.known(rank)) {
            target.set_hold(if check { Hold::Started } else { Hold::Open });
        }
        *self.epochs.group_of_start() = Some(targets.iter().map(|&rank| number(rank)).collect());
        self.parts.starts(targets, check);
        if !check {
            // A target may have posted without NOCHECK, and sent a notice. The notice is consumed
            // here, because it must not count for a later epoch.
            for &rank in targets {
                if self.parts.own.exposed.sees_post(number(rank)) == Some(Posted::InWords) {
                    self.parts.own.exposed.take_post(number(rank));
                }
            }
        }
        // With NOCHECK the targets have posted.
        if check { Ok(()) } else { targets.iter().try_for_each(|&rank| self.parts.post_arrived(rank)) }
    }

    /// Completes the epoch's operations at origin and target, and notifies the targets
    /// (`MPI_WIN_COMPLETE`). The wait may depend on a call of another thread, such as `post`. The
    /// epoch therefore remains open until the wait is over, and the thread that took the group ends
    /// the epoch.
    pub(crate) fn complete(&self) -> Result<()> {
        self.complete_by(Parts::flush_all)
    }

    /// [`Core::complete`] at the end of a closure's epoch.
    pub(super) fn complete_lent(&self) -> Result<()> {
        self.complete_by(Parts::flush_lent)
    }

    fn complete_by(&self, flush: fn(&Parts) -> Result<()>) -> Result<()> {
        self.epochs.check("complete", Call::Complete)?;
        let Some(targets) = self.epochs.group_of_start().take() else {
            return Err(misused("complete", "another thread completes this epoch (MPI-4.1 §12.5.2)"));
        };
        let (mut outcome, mut closes) = (Ok(()), false);
        for target in targets.iter().filter_map(|&rank| self.parts.known(rank as usize)) {
            if !matches!(target.hold(), Hold::Open | Hold::Posted) {
                continue;
            }
            self.parts.completes(target.rank());
            match self.parts.close(target, End::Completed) {
                Close::Sent => {
                    closes = true;
                    self.forget_post(target);
                }
                Close::Nothing if target.orders_messages(&self.parts) => {
                    outcome = outcome.and(self.complete_at(target, Ok(())));
                }
                Close::Nothing | Close::Apart => {}
            }
        }
        if closes {
            outcome = outcome.and(self.parts.send_closing());
        }
        outcome = outcome.and(flush(&self.parts));
        // Targets that have posted are notified first, so that a late one does not delay them.
        let mut late = Vec::new();
        // `start` has contacted all targets.
        for target in targets.iter().filter_map(|&rank| self.parts.known(rank as usize)) {
            target.tally.unmix();
            match target.hold() {
                Hold::None => {}
                Hold::Started if targets.len() > 1 && !self.has_posted(target) => late.push(target),
                // The target's post belongs to this epoch even if the epoch had no operation on the
                // target.
                Hold::Started => outcome = outcome.and(self.complete_at(target, self.await_post(target))),
                _ => outcome = outcome.and(self.complete_at(target, Ok(()))),
            }
        }
        outcome = outcome.and(self.complete_late(late));
        self.epochs.step("complete", Call::Complete).and(outcome)
    }

    /// Ends the epoch at one target after the wait for its post.
    fn complete_at(&self, target: &Target, posted: Result<()>) -> Result<()> {
        self.parts.completes(target.rank());
        if target.hold() == Hold::Started && !self.skip_post(target) {
            // The target is notified when its post arrives.
            target.set_hold(Hold::None);
            return posted;
        }
        let notified = self.notify(target.rank(), PscwNotice::Completed).outcome();
        self.forget_post(target);
        posted.and(notified)
    }

    /// Consumes the post of a target for which the wait has failed: the post is for no later epoch.
    /// Returns whether it had come.
    #[cold]
    fn skip_post(&self, target: &Target) -> bool {
        self.expect_late_notices();
        self.parts.own.exposed.skip_post(number(target.rank()), number(self.parts.team.me))
    }

    /// A wait for notices has failed.
    #[cold]
    fn expect_late_notices(&self) {
        self.parts.job.messages.expect_late_notices(self.parts.id);
    }

    /// The epoch at a target is over. The post is consumed after the notice, which the target
    /// awaits.
    fn forget_post(&self, target: &Target) {
        let hold = target.hold();
        target.set_hold(Hold::None);
        if hold == Hold::Posted {
            // A later post adds to the word.
            self.parts.own.exposed.take_post(number(target.rank()));
        }
    }

    /// Ends the epoch at targets that had not posted, in the order of their posts.
    fn complete_late(&self, mut late: Vec<&Target>) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(first) = late.first() {
            let is_any_open = || late.iter().any(|target| self.has_posted(target));
            let waited =
                self.parts.waits("start", Some(first.rank()), || self.parts.job.progress.until_changed(is_any_open));
            // After a failure the epoch ends at all targets.
            let has_failed = waited.is_err();
            outcome = outcome.and(waited);
            for target in late.extract_if(.., |target| has_failed || self.has_posted(target)) {
                let posted = if has_failed { Ok(()) } else { self.await_post(target) };
                outcome = outcome.and(self.complete_at(target, posted));
            }
        }
        outcome
    }

    /// Ends the exposure epoch after all origins have completed (`MPI_WIN_WAIT`).
    pub(crate) fn wait(&self) -> Result<()> {
        self.epochs.check("wait", Call::Wait)?;
        let origins = self.epochs.origins.load(Ordering::Relaxed);
        // `test` in another thread may end the epoch, which is reported as an error.
        let is_over = || self.parts.own.exposed.take_completions(origins) || self.epochs.state().1 == Exposure::Closed;
        let origin = self.parts.single_origin();
        let waited = self.parts.waits("wait", origin, || self.parts.job.progress.until_changed(is_over));
        waited.inspect_err(|_| self.expect_late_notices())?;
        self.exposure_ended("wait")
    }

    /// Ends the exposure epoch if all origins have completed. Returns whether they have
    /// (`MPI_WIN_TEST`).
    pub(crate) fn test(&self) -> Result<bool> {
        self.epochs.check("test", Call::Wait)?;
        let failed = |_: &Error| self.expect_late_notices();
        let polls = if self.parts.job.wire.net().is_some() { POLLS_OF_TEST } else { 1 };
        let mut done = false;
        for _ in 0..polls {
            self.parts.job.progress.poll_and_leave().inspect_err(failed)?;
            done = self.parts.own.exposed.take_completions(self.epochs.origins.load(Ordering::Relaxed));
            if done {
                break;
            }
        }
        if done {
            self.exposure_ended("test")?;
        } else {
            self.parts.job.progress.look().inspect_err(failed)?;
        }
        Ok(done)
    }

    fn exposure_ended(&self, call: &'static str) -> Result<()> {
        self.epochs.step(call, Call::Wait)?;
        self.parts.own.refresh();
        self.parts.completes_arrived()
    }

    /// Waits until a target of `start` has posted. One of several threads that operate on the
    /// target records it for all.
    pub(super) fn await_post(&self, target: &Target) -> Result<()> {
        let is_open = || self.has_posted(target);
        self.parts.waits("start", Some(target.rank()), || self.parts.job.progress.until_changed(is_open))?;
        self.parts.post_arrived(target.rank())
    }

    /// Whether a target of `start` has posted.
    fn has_posted(&self, target: &Target) -> bool {
        if target.hold() == Hold::Started {
            match self.parts.own.exposed.sees_post(number(target.rank())) {
                None => return false,
                Some(Posted::InWords) => target.set_hold(Hold::Posted),
                Some(Posted::ByMessage) => target.set_hold(Hold::Open),
            }
        }
        true
    }

    fn notify(&self, rank: usize, notice: PscwNotice) -> Notified {
        if rank == self.parts.team.me {
            if self.parts.own.exposed.notice(number(rank), notice).is_some() {
                self.parts.own.exposed.completed();
            }
            self.parts.wake_rank(rank);
            return Notified::Sent;
        }
        if let Some(words) = self.words_near(rank) {
            let taken = match notice {
                PscwNotice::Posted => pscw_words::post(words, number(self.parts.team.me)),
                PscwNotice::Completed => {
                    pscw_words::complete(words);
                    true
                }
            };
            if taken {
                self.parts.wake_rank(rank);
                return Notified::Sent;
            }
        }
        let me = number(self.parts.team.me);
        // First contact gives the slot by which an immediate names the window at this origin.
        let target = match self.parts.known(rank) {
            None if self.parts.job.signals_by_immediates() => self.parts.target("post", rank).ok().flatten(),
            known => known,
        };
        let named = target.and_then(Target::named);
        let immediate = named.and_then(|place| named::notice(place, me, notice));
        let to = self.parts.team.rank(rank);
        let mut message = Messages::notice(self.parts.id, me, notice);
        if immediate.is_none() {
            message = self.parts.job.messages.behind_answers(peer(to), message);
        }
        self.parts.job.notify(to, message, immediate, notice)
    }

    /// Makes a rank reachable, which need not be a target yet.
    fn reach(&self, rank: usize) -> Result<()> {
        if rank != self.parts.team.me && self.parts.known(rank).is_none() {
            self.parts.job.wire.reach(peer(self.parts.team.rank(rank)))?;
        }
        Ok(())
    }

    /// The control words of a rank of this node. Only CPUs of the node change the words of notices,
    /// also if the device performs the window's atomics. A rank without words is notified by
    /// message, which fails if the rank can't be contacted.
    #[inline]
    fn words_near(&self, rank: usize) -> Option<Words<'_>> {
        match self.parts.known(rank) {
            Some(target) => target.words(&self.parts),
            None if self.parts.job.lane(self.parts.team.rank(rank)) == Some(Lane::Shm) => {
                self.parts.target("post", rank).ok()??.words(&self.parts)
            }
            None => None,
        }
    }

    fn check_group(&self, call: &'static str, group: &[usize]) -> Result<()> {
        for &rank in group {
            if rank == PROC_NULL {
                return Err(Error::argument(Class::Rank, call, ArgumentError::ProcNull));
            }
            crate::job::check_rank(&self.parts.team, call, rank)?;
        }
        match listed_twice(group) {
            Some(rank) => Err(Error::argument(Class::Rank, call, ArgumentError::ListedTwice(rank))),
            None => Ok(()),
        }
    }
}

/// The longest group whose ranks are compared in pairs, without a sorted copy.
const COMPARED: usize = 16;

/// A rank that a group has twice.
fn listed_twice(group: &[usize]) -> Option<usize> {
    if group.len() <= COMPARED {
        return (1..group.len()).find(|&index| group[..index].contains(&group[index])).map(|index| group[index]);
    }
    let mut sorted = group.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// A member's number in a notice: windows have fewer than 2^32 ranks.
#[allow(clippy::cast_possible_truncation)]
fn number(member: usize) -> u32 {
    member as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_a_group_has_twice_is_found_in_short_and_long_groups() {
        for len in [0, 1, 2, COMPARED, COMPARED + 1, 3 * COMPARED] {
            let group: Vec<usize> = (0..len).rev().collect();
            assert_eq!(listed_twice(&group), None, "{len} different ranks");
            for &rank in &group {
                let mut group = group.clone();
                group.insert(len / 2, rank);
                assert_eq!(listed_twice(&group), Some(rank), "{len} ranks and one again");
            }
        }
    }
}

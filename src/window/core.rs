//! A window at one rank: its parts, on which operations work ([`Parts`]), and its epochs. The
//! protocols of synchronization are in `lock`, `pscw` and here (fence).

use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{Ordering, fence};

use super::epoch_state::EpochState;
use super::parts::Parts;
use super::target::Target;
use crate::epoch::Access;
use crate::error::Result;
use crate::job::{BarrierWords, Cause, Turn, Way};
use crate::messages::{Close, End};
use crate::sync::barrier::{self, FirstSignal, Signals};
use crate::sync::words::{self, Words};
use crate::transport::Lane;

/// Number of the first barrier of a window before which a fence contacts the ranks that it signals.
/// First contact does not pay for a window with one or two fences.
const FENCE_WITH_CONTACT: u32 = 4;

/// One rank's side of a window. `parts` is the first field, so that hot paths that use both the
/// parts and the epochs keep one address.
#[repr(C)]
pub(crate) struct Core {
    pub(crate) parts: Parts,
    pub(crate) epochs: EpochState,
    /// Whether all parts of the node's ranks are mapped by the other ranks of the node.
    pub(super) mapped: bool,
    /// A weak reference to this value, for values that keep the window.
    pub(super) this: Weak<Core>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

impl Core {
    /// Completes the operations of this rank, then passes a barrier of the window's ranks (MPI-4.1
    /// §12.5.1).
    #[inline]
    pub(crate) fn fence(&self) -> Result<()> {
        self.fence_by(Parts::flush_all)
    }

    /// [`Core::fence`] with NOPRECEDE and NOSUCCEED, which does not wait for other ranks. In the
    /// separate model the call updates both copies (MPI-4.1 §12.7 rules 5 and 6).
    pub(crate) fn fence_alone(&self) -> Result<()> {
        let flushed = self.parts.flush_all();
        self.parts.own.publish();
        self.parts.own.refresh();
        flushed
    }

    /// [`Core::fence`] at the end of a closure's epoch.
    pub(super) fn last_fence(&self) -> Result<()> {
        self.fence_by(Parts::flush_lent)
    }

    #[inline(always)]
    fn fence_by(&self, flush: fn(&Parts) -> Result<()>) -> Result<()> {
        // The window's count is read before the first target's, and a completion lowers a target's
        // count before the window's. If the two are equal, no other target has operations in
        // flight.
        let outstanding = self.parts.targets.tally.outstanding();
        if outstanding != 0 && self.may_signal_first(outstanding) {
            return self.fence_behind(flush);
        }
        let flushed = flush(&self.parts);
        if outstanding != 0 {
            self.unmix_first();
        }
        self.parts.own.publish();
        self.parts.meet_at_fence(|| {
            let turn = self.next_turn(0);
            self.contact_signaled(turn);
            self.disseminate(0, turn, &self.signals(turn, |member| self.words_for_fence(member)))
        })?;
        self.parts.own.refresh();
        flushed
    }

    fn words_for_fence(&self, member: usize) -> Result<Option<Words<'_>>> {
        match self.parts.target("fence", member) {
            Ok(target) => Ok(target.and_then(|target| target.words(&self.parts))),
            // A rank that can't map the member's part still signals it: the others wait for that.
            Err(error) => {
                let job = &self.parts.job;
                let what = format!("a fence reaches rank {} without its part: {error:#}", self.parts.team.rank(member));
                job.warn_once(Cause::Unmapped, &what);
                self.words_in_block(member)
            }
        }
    }

    /// The control words of a member that was not contacted, in its job block; `None` where only
    /// messages reach them.
    fn words_in_block(&self, member: usize) -> Result<Option<Words<'_>>> {
        let rank = self.parts.team.rank(member);
        let (_, place) = self.parts.job.lookup(rank, self.parts.id)?;
        let block = self.parts.job.link(rank)?.block();
        Ok(block.map(|block| Words::at(block, self.parts.job.block.words_at(place))))
    }

    /// The receiver of the first signal of this rank's barriers, if first contact has been made.
    fn first(&self) -> Option<&Target> {
        self.parts.known(self.parts.first())
    }

    /// Whether the first signal of a fence may be sent before the operations in flight are
    /// complete. All of them must be to the receiver of the signal. Either the net must deliver the
    /// signal after them, or all of them must be in a single kept message, which then carries the
    /// signal. `outstanding`: the window's count.
    #[cold]
    fn may_signal_first(&self, outstanding: u64) -> bool {
        self.first().is_some_and(|first| {
            first.tally.outstanding() == outstanding
                && (first.orders_messages(&self.parts)
                    || outstanding == 1 && self.parts.job.messages.keeps_for(&first.tally))
        })
    }

    /// Lets messages to the first receiver count as ordered again, if nothing is in flight to it:
    /// clears the mark of operations other than puts.
    #[cold]
    fn unmix_first(&self) {
        if let Some(first) = self.first() {
            first.tally.unmix();
        }
    }

    /// [`Core::fence`] whose first signal is ordered after the operations in flight, or sent in
    /// their message. The operations are complete before the second signal, because its receiver
    /// may signal further ranks, whose operations are not ordered after those of this rank.
    #[cold]
    fn fence_behind(&self, flush: fn(&Parts) -> Result<()>) -> Result<()> {
        self.parts.fences();
        // The first signal precedes the memory fence of `flush`. Ranks that get this signal, or a
        // later signal that depends on it, must see this rank's stores to mapped memory.
        fence(Ordering::AcqRel);
        self.parts.own.publish();
        let turn = self.next_turn(0);
        self.contact_signaled(turn);
        let signals = self.signals(turn, |member| self.words_for_fence(member));
        let complete = || {
            let flushed = flush(&self.parts);
            // What gets have stored in this rank's part is public before the next signal.
            self.parts.own.publish();
            flushed
        };
        let signals =
            barrier::EarlyFirstSignal::new(signals, |slot, value| self.signal_with_operations(slot, value), complete);
        let passed = self.disseminate(0, turn, &signals);
        let flushed = signals.complete();
        self.unmix_first();
        passed?;
        self.parts.own.refresh();
        flushed
    }

    /// Sends the first signal of a fence in the message of the operations that are kept for its
    /// receiver, if there is one such message.
    fn signal_with_operations(&self, slot: usize, value: u32) -> FirstSignal {
        let Some(first) = self.first() else { return FirstSignal::AtOnce };
        #[allow(clippy::cast_possible_truncation)] // slots are below 64
        let end = End::Signal { slot: slot as u32, value };
        match self.parts.close(first, end) {
            Close::Sent => FirstSignal::WithOperations,
            Close::Nothing if first.orders_messages(&self.parts) => FirstSignal::AtOnce,
            Close::Nothing | Close::Apart => FirstSignal::AfterCompletion,
        }
    }

    /// A barrier without first contacts: the words of a target that was never contacted are found
    /// through its job block.
    pub(crate) fn barrier(&self) -> Result<()> {
        self.barrier_with_bits(0).map(drop)
    }

    /// [`Core::barrier`] that returns the union of the bits that ranks send.
    pub(crate) fn barrier_with_bits(&self, bits: u32) -> Result<u32> {
        self.parts.meet("collective call", || self.barrier_after(0, bits))
    }

    /// [`Core::barrier`] that follows another one of the same collective call.
    pub(super) fn second_barrier(&self) -> Result<()> {
        self.parts.meet("collective call", || self.barrier_after(1, 0)).map(drop)
    }

    /// A barrier that the conflict checker does not see. `earlier`: the number of barriers of the
    /// same collective call before it.
    pub(super) fn barrier_after(&self, earlier: u32, bits: u32) -> Result<u32> {
        let turn = self.next_turn(earlier);
        let signals = self.signals(turn, |member| match self.parts.known(member) {
            Some(target) => Ok(target.words(&self.parts)),
            None => self.words_in_block(member),
        });
        self.disseminate(bits, turn, &signals)
    }

    /// The signals of a barrier of the window's ranks, with the control words of the ranks of this
    /// node.
    #[inline]
    fn signals<'w>(&'w self, turn: Turn, words: impl Fn(usize) -> Result<Option<Words<'w>>> + 'w) -> impl Signals {
        let theirs = move |member: usize| match self.parts.job.lane(self.parts.team.rank(member)) {
            Some(Lane::Net) => Ok(self.way_to(member)),
            _ => Ok(words(member)?.map_or(Way::Message, |words| Way::Words(words.from(words::FENCE)))),
        };
        let mine = Some(Words::at(&self.parts.own.words, words::FENCE));
        BarrierWords { job: &self.parts.job, team: &self.parts.team, key: self.parts.id, turn, mine, theirs }
    }

    /// How a member of another node is signaled. A member that was never contacted gets messages.
    fn way_to(&self, member: usize) -> Way<'_> {
        self.parts.known(member).and_then(Target::named).map_or(Way::Message, Way::Immediate)
    }

    /// Contacts the members of other nodes that this rank signals in fences, so that immediates
    /// replace the messages. Each fence calls this, but only few fences make contact, and none of
    /// the first.
    #[inline]
    fn contact_signaled(&self, turn: Turn) {
        // A power of two lies among the last numbers. Other barriers of the window count too, so a
        // fence may never have a certain number.
        let before = (turn.number.saturating_sub(FENCE_WITH_CONTACT)).max(1);
        let is_due = turn.number >= FENCE_WITH_CONTACT && before.ilog2() != turn.number.ilog2();
        if is_due && self.parts.job.signals_by_immediates() {
            self.contact_now();
        }
    }

    #[cold]
    fn contact_now(&self) {
        let (me, size) = (self.parts.team.me, self.parts.team.size);
        for distance in std::iter::successors(Some(1), |distance| Some(2 * distance)).take_while(|&at| at < size) {
            let member = (me + distance) % size;
            if self.parts.job.lane(self.parts.team.rank(member)) == Some(Lane::Net) {
                // Without a contact the signals are messages, which report the failure.
                drop(self.parts.target("fence", member));
            }
        }
    }

    /// The next barrier, which `earlier` barriers of the same collective call precede.
    #[inline]
    fn next_turn(&self, earlier: u32) -> Turn {
        let number = self.epochs.fences.next();
        Turn { first: number.wrapping_sub(earlier), number }
    }

    #[inline]
    fn disseminate(&self, bits: u32, turn: Turn, signals: &impl Signals) -> Result<u32> {
        let (Parts { team, job, id, .. }, fences) = (&self.parts, &self.epochs.fences);
        fences.check(Some(*id))?;
        let passed = barrier::dissemination(team.me, team.size, turn.number, bits, signals);
        passed.inspect_err(|_| {
            job.messages.expect_late_notices(*id);
            job.leave_barrier(*id, turn, fences);
        })
    }

    /// Whether operations were started since the last fence.
    pub(crate) fn in_fence_epoch(&self) -> bool {
        matches!(self.epochs.state().0, Access::FirstOperation | Access::Fence)
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }
}

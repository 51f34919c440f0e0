//! The conflict checker's part in a job (`check`): whether it is on, and its clocks at barriers.

use std::sync::atomic::Ordering;

use transom_fabric::{Memory, diagnostics};

use super::block::block_bytes;
use super::cards::Card;
use super::{Job, JobCore, Team};
use crate::check::{self, Area, Awaited, Checker, Clock, Flight, Matching, Sending, ShowBuffers, Slot, Stream, Wait};
use crate::environment::Settings;
use crate::error::{JobError, Result};

/// Maximum number of readings of all ranks' counts after the first one, until two consecutive
/// readings agree.
const READINGS: usize = 8;

/// The bytes of a job block in a job of `ranks` ranks, with the checker's area if it is on.
pub(super) fn bytes(settings: &Settings, ranks: usize) -> usize {
    if settings.check.on { base(ranks) + check::area_bytes(ranks) } else { block_bytes(ranks) }
}

/// The offset of the checker's area in a job block.
fn base(ranks: usize) -> usize {
    block_bytes(ranks).next_multiple_of(64)
}

/// Turns the checker off where it does not see all synchronization.
pub(super) fn restrict(settings: &mut Settings, rank: usize, watched: bool) {
    if settings.check.on && !watched {
        settings.check.on = false;
        if rank == 0 {
            let what = "TRANSOM_CHECK has no effect: another library connects the ranks, whose messages the checker does not see";
            diagnostics::warn("transom::check", &what);
        }
    }
}

/// The checker of a rank, if the user asks for it and all ranks share memory.
pub(super) fn checker(
    settings: &Settings,
    rank: usize,
    nodes: &[usize],
    cards: &[Card],
    block: &Memory,
) -> Option<Checker> {
    if !settings.check.on {
        return None;
    }
    // ThreadSanitizer sees the loads by which its own rank polls. Without it at every rank, the
    // other ranks would not know of these loads.
    let sanitized = cards.iter().filter(|card| card.has_sanitizer).count();
    if rank == 0 && (1..cards.len()).contains(&sanitized) {
        let what = format!(
            "TRANSOM_CHECK does not use ThreadSanitizer, because only {sanitized} of {} ranks have it",
            cards.len()
        );
        diagnostics::warn("transom::check", &what);
    }
    let watches = sanitized == cards.len();
    let one_node = settings.shm && nodes.iter().all(|&node| node == nodes[rank]);
    if !one_node && rank == 0 {
        let what = "TRANSOM_CHECK has no effect: the checker needs ranks that share memory on one node";
        diagnostics::warn("transom::check", &what);
    }
    one_node.then(|| Checker::new((rank, nodes.len()), (block, base(nodes.len())), watches, &settings.check))
}

impl JobCore {
    /// The area of a rank for the checker.
    pub(crate) fn area(&self, checker: &'_ Checker, rank: usize) -> Result<Area<'_>> {
        let block = if rank == self.rank { Some(self.block.memory()) } else { self.link(rank)?.block() };
        block.map(|block| checker.area(block)).ok_or_else(|| JobError::WordsUnmapped { rank }.into())
    }

    /// Performs a barrier of a team. Each member then has the clocks that all members had before
    /// it.
    pub(super) fn meet<R>(&self, team: &Team, turn: u32, barrier: impl FnOnce() -> Result<R>) -> Result<R> {
        let Some(checker) = &self.block.checker else { return barrier() };
        checker.release().store(checker.own().barrier(turn));
        let passed = self
            .waits(&Wait { call: "barrier of the job", window: None, awaited: Awaited::Meeting(team.size) }, barrier)?;
        let mut met = Clock::new(self.size);
        for member in (0..team.size).filter(|&member| member != team.me) {
            met.learn(self.area(checker, team.rank(member))?.barrier(turn));
        }
        self.meets(met, checker.own().barrier(turn), team.size);
        Ok(passed)
    }

    /// Makes a call that waits for other ranks. A report of a deadlock names the call.
    pub(crate) fn waits<R>(&self, wait: &Wait<'_>, call: impl FnOnce() -> R) -> R {
        match self.waiting() {
            Some((checker, first)) => checker.waits(first, wait, call),
            None => call(),
        }
    }

    /// The checker, and the area of rank 0.
    pub(crate) fn waiting(&self) -> Option<(&Checker, Area<'_>)> {
        let checker = self.block.checker.as_ref()?;
        Some((checker, self.area(checker, 0).ok()?))
    }

    /// Merges the clocks that all ranks have released so far into this rank's clock.
    pub(super) fn learn_all(&self) -> Result<()> {
        let Some(checker) = &self.block.checker else { return Ok(()) };
        // Acquire: pairs with the Release of the rank.
        let releases = |rank| Ok(self.area(checker, rank)?.releases().load(Ordering::Acquire));
        let read = || (0..self.size).map(releases).collect::<Result<Vec<u64>>>();
        // One reading finds the counts at different times. It may have a release of a rank, and
        // lack releases of other ranks of which the releasing rank knew.
        let mut all = read()?;
        for _ in 0..READINGS {
            let before = std::mem::replace(&mut all, read()?);
            if before == all {
                break;
            }
        }
        // The merged clock has this rank's own releases too: those of another thread may have come
        // back with a message.
        self.learns(|clock| clock.join(&all));
        Ok(())
    }

    /// Releases this rank's clock with a message of another library.
    pub(super) fn sends(&self, stream: Stream) -> Option<Sending> {
        let sending = self.block.checker.as_ref()?.sends(stream);
        if sending.is_none() {
            self.mixes();
        }
        sending
    }

    /// Merges the clock of a message that `rank` sent. Before this message, at least `least` and at
    /// most `most` messages of the stream are not received yet; if the two differ, merges the
    /// clocks of all messages that it may be. If the message has no clock, merges the clocks that
    /// all ranks have released. `takes`: the message is received, not only probed.
    pub(super) fn receives(
        &self,
        rank: usize,
        stream: Stream,
        (least, most): (usize, usize),
        takes: bool,
    ) -> Result<()> {
        let Some(checker) = &self.block.checker else { return Ok(()) };
        // Acquire: pairs with the Release in `mixes` of a rank that called it before it sent this
        // message.
        let is_mixed = self.area(checker, 0)?.mixed().load(Ordering::Acquire) != 0;
        let sent = self.area(checker, rank)?.message_clocks();
        let clocks = sent.read(stream, least, most);
        // The clocks of a stream grow. If this takes the clock of an earlier message, the receiver
        // of that message finds a later clock in its place.
        let found = if takes { sent.take(stream, least).is_some() } else { !clocks.is_empty() };
        if found && !is_mixed {
            self.learns(|known| clocks.iter().for_each(|clock| known.join(clock)));
            return Ok(());
        }
        self.learn_all()
    }

    /// Releases this rank's clock at the beginning of a receive of another library.
    pub(super) fn begins_to_receive(&self, matching: Matching) {
        if let Some(checker) = &self.block.checker {
            let clock = checker.release();
            checker.own().receives().begin(matching, &clock);
        }
    }

    /// Merges the clock that `rank` had when it began to receive a message of this rank.
    pub(super) fn was_received(&self, rank: usize, tag: i32, group: u64) -> Result<()> {
        let Some(checker) = &self.block.checker else { return Ok(()) };
        let receives = self.area(checker, rank)?.receives();
        self.learns(|clock| receives.learn(self.rank, tag, group, clock));
        Ok(())
    }

    /// Releases this rank's clock at the beginning of a collective call of another library.
    pub(super) fn enters(&self, group: u64, turn: u64) {
        if let Some(checker) = &self.block.checker {
            let clock = checker.release();
            checker.own().collective_clocks().enter(group, turn, &clock);
        }
    }

    /// Merges the clocks that `ranks` had when they entered a collective call.
    pub(super) fn has_met(&self, ranks: &[usize], group: u64, turn: u64) -> Result<()> {
        let Some(checker) = &self.block.checker else { return Ok(()) };
        let mut met = Clock::new(self.size);
        // What this rank has done itself is no news to its threads. If it alone makes the call,
        // another thread may have entered the call.
        let others = ranks.iter().filter(|&&rank| rank != self.rank || ranks.len() == 1);
        for &rank in others {
            match self.area(checker, rank)?.collective_clocks().clock_at(group, turn) {
                Some(clock) => met.join(&clock),
                // The clock with which the rank entered is no longer stored.
                None => return self.learn_all(),
            }
        }
        self.learns(|clock| clock.join(met.counts()));
        Ok(())
    }

    /// Records that from now on messages may have no clock.
    pub(super) fn mixes(&self) {
        if let Some(checker) = &self.block.checker
            && let Ok(first) = self.area(checker, 0)
        {
            first.mixed().store(1, Ordering::Release);
        }
    }

    /// Merges the clocks of `ranks` ranks that have met: those of the others, and this rank's own.
    pub(crate) fn meets(&self, others: Clock, own: Slot<'_>, ranks: usize) {
        let (back, mut met) = (others.of(self.rank), others);
        met.learn(own);
        self.learns_by(Some(back), |clock| {
            if ranks == self.size { clock.join_common(met.counts()) } else { clock.join(met.counts()) }
        });
    }

    /// Changes this rank's clock by `learn`, if the checker is on.
    #[inline]
    pub(crate) fn learns(&self, learn: impl FnOnce(&mut Clock)) {
        self.learns_by(None, learn);
    }

    /// [`JobCore::learns`]. `back`: as for [`Checker::learn`].
    #[inline]
    pub(super) fn learns_by(&self, back: Option<u64>, learn: impl FnOnce(&mut Clock)) {
        if let Some(checker) = &self.block.checker {
            checker.learn(learn, back, |rank, place| self.area(checker, rank).ok()?.text(place));
        }
    }

    /// At rank 0: reports the number of conflicts, if there were any. Fails if the user has
    /// requested that (`TRANSOM_CHECK=fail`).
    pub(super) fn summarize(&self) -> Result<()> {
        let found = self.block.checker.as_ref().filter(|_| self.rank == 0).map_or(0, |checker| checker.own().noted());
        if found == 0 {
            return Ok(());
        }
        if self.settings.check.fails {
            return Err(JobError::Conflicts { found }.into());
        }
        diagnostics::print_requested(&format!("transom: {}", JobError::Conflicts { found }));
        Ok(())
    }
}

/// Bytes that a call of another library uses until it is complete.
#[doc(hidden)]
#[derive(Debug)]
pub struct CheckedBuffers(Flight);

/// Calls by which another library (an MPI) reports its messages and collective calls to the
/// checker.
impl Job {
    /// Sets the function that a thread calls before the checker counts its operations as complete.
    /// The pause lets unordered calls of other threads come first.
    #[doc(hidden)]
    pub fn checker_pauses_by(pause: fn()) {
        check::pause_by(pause);
    }

    /// Releases this rank's clock with a message to `rank`, which a call begins to send. Messages
    /// with one tag and group to a rank are received in the order in which they are sent. The
    /// caller passes the result to [`Job::checker_has_sent`] when the call has returned.
    #[doc(hidden)]
    pub fn checker_sends(&self, rank: usize, tag: i32, group: u64) -> Option<Sending> {
        self.core().sends(Stream { to: rank, tag, group })
    }

    /// See [`Job::checker_sends`].
    #[doc(hidden)]
    pub fn checker_has_sent(&self, sending: Sending) {
        if let Some(checker) = &self.core().block.checker {
            checker.has_sent(sending);
        }
    }

    /// Merges the clock of a message of `rank`. `ahead` has the least and the largest number of
    /// messages before it that may not be received yet. `takes` is false if the message was only
    /// probed.
    ///
    /// # Errors
    /// As for [`Job::checker_learns_all`].
    #[doc(hidden)]
    pub fn checker_receives(
        &self,
        rank: usize,
        (tag, group): (i32, u64),
        ahead: (usize, usize),
        takes: bool,
    ) -> Result<()> {
        let core = self.core();
        core.receives(rank, Stream { to: core.rank, tag, group }, ahead, takes)
    }

    /// Records that from now on a message may come whose clock is unknown. Ranks that receive
    /// messages then learn all that any rank has released.
    #[doc(hidden)]
    pub fn checker_loses_clocks(&self) {
        self.core().mixes();
    }

    /// Releases this rank's clock at the beginning of a receive: from a rank or any, with a tag or
    /// any, of a group. `None` if these are not known.
    #[doc(hidden)]
    pub fn checker_begins_to_receive(&self, matching: Option<(Option<usize>, Option<i32>, u64)>) {
        self.core().begins_to_receive(matching);
    }

    /// Merges the clock that `rank` had when it began to receive a message of this rank.
    ///
    /// # Errors
    /// As for [`Job::checker_learns_all`].
    #[doc(hidden)]
    pub fn checker_was_received(&self, rank: usize, tag: i32, group: u64) -> Result<()> {
        self.core().was_received(rank, tag, group)
    }

    /// Releases this rank's clock at the beginning of a collective call. `group` is the number of
    /// the group of its ranks, and `turn` the number of the call in that group.
    #[doc(hidden)]
    pub fn checker_enters(&self, group: u64, turn: u64) {
        self.core().enters(group, turn);
    }

    /// Merges the clocks that `ranks` had when they entered a collective call.
    ///
    /// # Errors
    /// As for [`Job::checker_learns_all`].
    #[doc(hidden)]
    pub fn checker_has_met(&self, ranks: &[usize], group: u64, turn: u64) -> Result<()> {
        self.core().has_met(ranks, group, turn)
    }

    /// Sets the function that gets the buffers of operations: address, length, and whether the
    /// operation writes them. The function returns the uses of window memory.
    #[doc(hidden)]
    pub fn checker_shows_buffers_to(show: ShowBuffers) {
        check::show_buffers_to(show);
    }

    /// Records that another library reports the program's atomic loads and stores of window memory.
    #[doc(hidden)]
    pub fn checker_sees_atomics(&self) {
        if let Some(checker) = &self.core().block.checker {
            checker.sees_atomics();
        }
    }

    /// The program's thread gets memory that the library has allocated, or gives it back.
    #[doc(hidden)]
    pub fn checker_memory(&self, begins: bool) {
        if let Some(checker) = &self.core().block.checker {
            checker.memory(begins);
        }
    }

    /// Whether the checker reports the accesses of calls to ThreadSanitizer.
    #[doc(hidden)]
    pub fn checker_watches(&self) -> bool {
        self.core().block.checker.as_ref().is_some_and(Checker::watches)
    }

    /// Reports to ThreadSanitizer that a call accesses buffers. Each is an address, a length, and
    /// whether the bytes are written.
    #[doc(hidden)]
    pub fn checker_uses(&self, buffers: &[(usize, usize, bool)]) {
        if let Some(checker) = &self.core().block.checker {
            checker.uses(buffers);
        }
    }

    /// [`Job::checker_uses`] for accesses that last until [`Job::checker_returns`].
    #[doc(hidden)]
    pub fn checker_borrows(&self, name: &str, buffers: &[(usize, usize, bool)]) -> Option<CheckedBuffers> {
        self.core().block.checker.as_ref()?.borrows(name, buffers).map(CheckedBuffers)
    }

    /// See [`Job::checker_borrows`].
    #[doc(hidden)]
    pub fn checker_returns(&self, borrowed: CheckedBuffers) {
        if let Some(checker) = &self.core().block.checker {
            checker.returns(borrowed.0);
        }
    }
}

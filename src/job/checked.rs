//! The conflict checker's part in a job (`check`): whether it is on, and its clocks at barriers.

use std::sync::atomic::Ordering;

use transom_fabric::{Memory, diagnostics};

use super::block::block_bytes;
use super::{JobCore, Team};
use crate::check::{self, Area, Checker, Clock, Wait};
use crate::environment::Settings;
use crate::error::{JobError, Result};

/// The bytes of a job block in a job of `ranks` ranks, with what the checker needs.
pub(super) fn bytes(settings: &Settings, ranks: usize) -> usize {
    if settings.check.on { base(ranks) + check::area_bytes(ranks) } else { block_bytes(ranks) }
}

/// Where the checker's area begins.
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
pub(super) fn checker(settings: &Settings, rank: usize, nodes: &[usize], block: &Memory) -> Option<Checker> {
    if !settings.check.on {
        return None;
    }
    let one_node = settings.shm && nodes.iter().all(|&node| node == nodes[rank]);
    if !one_node && rank == 0 {
        let what = "TRANSOM_CHECK has no effect: the checker needs ranks that share memory on one node";
        diagnostics::warn("transom::check", &what);
    }
    one_node.then(|| Checker::new(rank, nodes.len(), block, base(nodes.len()), &settings.check))
}

impl JobCore {
    /// The area of a rank for the checker.
    pub(crate) fn area(&self, checker: &'_ Checker, rank: usize) -> Result<Area<'_>> {
        let block = if rank == self.rank { Some(self.block.memory()) } else { self.link(rank)?.block() };
        block.map(|block| checker.area(block)).ok_or_else(|| JobError::WordsUnmapped { rank }.into())
    }

    /// Passes a barrier of a team, after which each member knows what all have done before.
    pub(super) fn meet<R>(&self, team: &Team, turn: u32, barrier: impl FnOnce() -> Result<R>) -> Result<R> {
        let Some(checker) = &self.block.checker else { return barrier() };
        checker.release().store(checker.own().barrier(turn));
        let passed =
            self.waits(&Wait { call: "barrier of the job", window: None, peer: None, is_collective: true }, barrier)?;
        let mut met = Clock::new(self.size);
        for member in 0..team.size {
            met.learn(self.area(checker, team.rank(member))?.barrier(turn));
        }
        self.meets(&met, team.size);
        Ok(passed)
    }

    /// Makes a call that waits for other ranks, which a report of a deadlock names.
    pub(crate) fn waits<R>(&self, wait: &Wait<'_>, call: impl FnOnce() -> R) -> R {
        match self.waiting() {
            Some((checker, first)) => checker.waits(first, wait, call),
            None => call(),
        }
    }

    /// The checker, and the area of rank 0.
    pub(super) fn waiting(&self) -> Option<(&Checker, Area<'_>)> {
        let checker = self.block.checker.as_ref()?;
        Some((checker, self.area(checker, 0).ok()?))
    }

    /// Learns all that any rank has released so far.
    pub(super) fn learn_all(&self) -> Result<()> {
        let Some(checker) = &self.block.checker else { return Ok(()) };
        for rank in 0..self.size {
            // Acquire: pairs with the Release of the rank.
            let releases = self.area(checker, rank)?.releases().load(Ordering::Acquire);
            checker.clock().learn_of(rank, releases);
        }
        self.learns(|_| ());
        Ok(())
    }

    /// Counts a release that goes with a message of another library.
    pub(super) fn sends(&self, rank: usize, tag: i32) {
        let Some(checker) = &self.block.checker else { return };
        let clock = checker.release();
        if !checker.own().letters().send(rank, tag, &clock) {
            self.mixes();
        }
    }

    /// Learns what came with a message; all that any rank has released if that is not known.
    pub(super) fn receives(&self, rank: usize, tag: i32) -> Result<()> {
        let Some(checker) = &self.block.checker else { return Ok(()) };
        // Acquire: pairs with the Release of a rank that mixed before it sent this message.
        let is_mixed = self.area(checker, 0)?.mixed().load(Ordering::Acquire) != 0;
        let letter = self.area(checker, rank)?.letters().take(self.rank, tag);
        match letter.filter(|_| !is_mixed) {
            Some(clock) => self.learns(|known| known.join(&clock)),
            None => self.learn_all()?,
        }
        Ok(())
    }

    /// From now on messages travel whose clocks do not.
    pub(super) fn mixes(&self) {
        if let Some(checker) = &self.block.checker
            && let Ok(first) = self.area(checker, 0)
        {
            first.mixed().store(1, Ordering::Release);
        }
    }

    /// Learns what `ranks` ranks that have met know together.
    pub(crate) fn meets(&self, met: &Clock, ranks: usize) {
        self.learns(
            |clock| {
                if ranks == self.size { clock.join_common(met.counts()) } else { clock.join(met.counts()) }
            },
        );
    }

    /// Learns by `learn`, where the checker is on.
    pub(crate) fn learns(&self, learn: impl FnOnce(&mut Clock)) {
        if let Some(checker) = &self.block.checker {
            checker.learn(learn, |rank, place| self.area(checker, rank).ok()?.text(place));
        }
    }

    /// At rank 0: says how many conflicts the checker found, if there were any. Fails if the user
    /// wants it.
    pub(super) fn summarize(&self) -> Result<()> {
        let found = self.block.checker.as_ref().filter(|_| self.rank == 0).map_or(0, |checker| checker.own().noted());
        if found == 0 {
            return Ok(());
        }
        if self.settings.check.fails {
            return Err(JobError::Conflicts { found }.into());
        }
        diagnostics::answer(&format!("transom: {}", JobError::Conflicts { found }));
        Ok(())
    }
}

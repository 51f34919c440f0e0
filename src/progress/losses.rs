//! Ranks that are lost: waiting calls look for ranks that have died or can't be reached, end the
//! operations on them, and report them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use transom_fabric::{Fault, Peer, Reason};

use super::{POLLS_BETWEEN_CHECKS, Progress};
use crate::error::{Error, ErrorKind, Result};

/// Number of flushes that have waited after which one checks whether all ranks live.
const WAITS_BETWEEN_LOOKS: u32 = 1024;
/// Maximum time from the closing of a dying process's sockets, which its peers notice first, to the
/// end of the process.
const DYING: Duration = Duration::from_millis(800);

impl Progress {
    /// Checks that all ranks live and can be reached, and warns if this rank can't be reached.
    /// Waiting calls use it; the check is cheap.
    ///
    /// # Errors
    /// `RankDied` or `RankUnreachable`, or the transport's reason. Operations that wait for a reply
    /// of that rank have failed then.
    pub(crate) fn look(&self) -> Result<()> {
        if let Some(descriptors) = &self.descriptors {
            descriptors.look();
        }
        self.fail_requests_to_lost(self.detector.look(Duration::ZERO))?;
        self.look_for_lost()
    }

    /// Ends the detection of deaths, because ranks may end in good order from now on.
    pub(crate) fn detect_no_more(&self) {
        self.detector.retire();
    }

    /// Whether no rank is known to have died or to be unreachable.
    ///
    /// # Errors
    /// `RankDied` or `RankUnreachable`, as an earlier call may have reported.
    pub(crate) fn known_deaths(&self) -> Result<()> {
        Ok(self.detector.known()?)
    }

    /// The ranks that are known to have died or to be unreachable.
    pub(crate) fn lost(&self) -> Vec<usize> {
        let faults = self.faults();
        let mut lost = self.detector.lost();
        lost.extend(faults.iter().flatten().map(|fault| fault.peer.index()));
        lost
    }

    /// Whether a rank is known to be on a machine that no longer answers.
    pub(crate) fn is_silent(&self, rank: usize) -> bool {
        self.detector.is_silent(rank)
    }

    /// The ranks that the net, the messages and the notices have lost.
    fn faults(&self) -> [Option<Fault>; 3] {
        let of_notices = if self.notices.has_failed() { self.notices.fault() } else { None };
        [self.wire.lost(), self.messages.lost(), of_notices]
    }

    /// Fails if the net, the messages or the notices have lost a rank. The first failure waits for
    /// the rank's death, and later ones do not: the caller may poll for the answers of other ranks.
    fn look_for_lost(&self) -> Result<()> {
        let lost = self.faults();
        lost.iter().flatten().for_each(|fault| self.give_up(fault));
        let mut faults = lost.into_iter().zip(&self.explained);
        let Some((fault, explained)) = faults.find_map(|(fault, explained)| Some((fault?, explained))) else {
            return Ok(());
        };
        // The detector keeps a death that it finds, and the next look reports it.
        explained.call_once(|| drop(self.detector.look(DYING)));
        self.fail_requests_to_lost(self.detector.look(Duration::ZERO))?;
        Err(self.unexplained(fault))
    }

    /// Counts a repeated post. Returns whether it is time to [`look`](Progress::look) although
    /// events of other ranks arrive.
    pub(crate) fn count_repeat(&self) -> bool {
        // Relaxed: a count.
        self.repeats.fetch_add(1, Ordering::Relaxed) % POLLS_BETWEEN_CHECKS == POLLS_BETWEEN_CHECKS - 1
    }

    /// [`look`](Progress::look) at one of [`WAITS_BETWEEN_LOOKS`] calls. A program may wait for a
    /// value of a dead rank by gets from another rank, whose flushes are too short to look.
    pub(crate) fn look_between(&self) -> Result<()> {
        // Relaxed: a count.
        let waits = self.waits.fetch_add(1, Ordering::Relaxed);
        if waits % WAITS_BETWEEN_LOOKS == WAITS_BETWEEN_LOOKS - 1 { self.look() } else { Ok(()) }
    }

    /// Ends a wait that has called [`look`](Progress::look): an awaited event has come.
    pub(crate) fn progressed(&self) {
        if let Some(descriptors) = &self.descriptors {
            descriptors.progressed();
        }
    }

    /// A transport's error, or the death that caused it, perhaps of another rank than the error
    /// names.
    pub(crate) fn explained(&self, fault: Fault) -> Error {
        self.or_death(self.unexplained(fault))
    }

    /// A transport's error.
    fn unexplained(&self, fault: Fault) -> Error {
        let rank = fault.peer.index();
        let place = self.detector.place(rank).map(str::to_owned);
        ErrorKind::Peer { rank, place, source: fault.cause.into() }.into()
    }

    /// The error of an operation on a rank, or the death that caused it.
    pub(crate) fn or_death(&self, error: Error) -> Error {
        self.fail_requests_to_lost(self.detector.look(DYING)).err().unwrap_or(error)
    }

    /// Ends the operations in flight to all ranks that have died or can't be reached. The error
    /// names the dead, or else the first rank that can't be reached.
    fn fail_requests_to_lost(&self, look: std::result::Result<(), ErrorKind>) -> Result<()> {
        look.map_err(|error| {
            let dead = if let ErrorKind::RankDied { ranks, .. } = &error { ranks.as_slice() } else { &[] };
            let dead = dead.iter().map(|&rank| (rank, Reason::Died));
            let silent = self.detector.all_silent().into_iter().map(|rank| (rank, Reason::Unreachable));
            for (rank, reason) in dead.chain(silent) {
                let Ok(peer) = u32::try_from(rank).map(Peer) else { continue };
                self.wire.lose(peer, reason.clone());
                self.give_up(&Fault::new(peer, reason));
            }
            error.into()
        })
    }

    /// Fails the requests to a peer that is lost. Other calls may wait for them.
    fn give_up(&self, fault: &Fault) {
        if self.messages.give_up(fault) {
            self.end_sleeps();
        }
    }
}

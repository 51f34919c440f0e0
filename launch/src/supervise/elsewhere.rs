//! Applies the reports of other machines to the job. A report by the `transom-run` of another
//! machine has the same effect as the event of a process of this machine.

use std::ops::Range;
use std::process::ExitStatus;

use signal_hook::consts::{SIGABRT, SIGPIPE, SIGTERM};

use super::super::machines::Event;
use super::super::{Failure, Outcome};
use super::{Ending, Supervisor, intervals};

impl Supervisor {
    /// Handles the reports of other machines.
    pub(super) fn on_machines(&mut self) {
        let Some(machines) = &mut self.machines else { return };
        for event in machines.turn(&mut self.out, &mut self.err) {
            match event {
                Event::Joined { rank, conn } => {
                    self.ranks[rank].pmi = Some(conn);
                    self.on_pmi(rank);
                }
                Event::Started { rank, pid } => self.ranks[rank].pid = pid,
                Event::Ended { rank, status } => {
                    self.ranks[rank].exit = Some(status);
                    self.has_ended(rank, status);
                }
                Event::Failed { host, status, why } => {
                    let text = format!("{host}: {why}");
                    self.end(Outcome::HostLost { host, status }, Some(&text));
                }
                Event::AgentEnded { host, ranks, status } => self.has_left(host, ranks, status),
            }
        }
    }

    /// Whether `failure` is the cause of the failure that was reported first. Between machines the
    /// report of a rank that a signal killed may arrive after the report of a rank that ended
    /// because of this death. Signals that this launcher has sent meanwhile are no cause, nor are
    /// SIGABRT and SIGPIPE, by which ranks end that lost their peers.
    pub(super) fn is_explained_by(&self, failure: &Failure) -> bool {
        let exited = matches!(self.outcome, Some(Outcome::RankFailed { failure: Failure::Exit(_), .. }));
        let alone = matches!(self.ending, Ending::Grace(_) | Ending::Terminating(_));
        let killed = matches!(failure, Failure::Signal { signal, .. } if ![SIGTERM, SIGABRT, SIGPIPE].contains(signal));
        self.machines.is_some() && exited && alone && killed
    }

    /// Handles the end of an agent: its ranks have ended, or no report of them will come.
    fn has_left(&mut self, host: String, ranks: Range<usize>, status: ExitStatus) {
        let lost: Vec<usize> = ranks.filter(|&rank| self.ranks[rank].exit.is_none()).collect();
        for &rank in &lost {
            self.ranks[rank].exit = Some(status);
            self.server.gone(rank);
        }
        if !lost.is_empty() {
            let status = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            let ending = self.ending();
            let text = format!(
                "{host}: the agent ended with status {status} before rank{} {} ended{}{ending}",
                if lost.len() > 1 { "s" } else { "" },
                intervals(&lost),
                if ending.is_empty() { "" } else { "; " }
            );
            self.end(Outcome::HostLost { host, status }, Some(&text));
        }
    }
}

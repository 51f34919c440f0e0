//! Reaps orphans while a job runs. Descendants of ranks whose parents have ended become children of
//! this process (a subreaper), and without a call of waitpid they stay zombies until the job's end.
//! Independent of ranks and machines.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, getpgid, waitpid};

/// The interval of looks for orphans.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// Whether all children of this process belong to the job. Set only by `transom-run`: another
/// program may have children whose statuses it needs.
static OWNS_ALL: AtomicBool = AtomicBool::new(false);

/// Declares that this process has no children but the job's, so that orphans that have left the
/// groups of the job are reaped too.
pub(super) fn own_all_children() {
    // Relaxed: set by the thread that reads it.
    OWNS_ALL.store(true, Ordering::Relaxed);
}

/// When to look for orphans.
#[derive(Debug)]
pub(super) struct Orphans {
    due: Instant,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self { due: Instant::now() + PERIOD }
    }

    /// The time until the next look.
    pub(super) fn due_in(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Reaps the orphans that have ended, if the time has come. `known`: the children that other
    /// code reaps. Those among them that lead a process group have orphans in this group.
    pub(super) fn reap(&mut self, known: impl FnOnce() -> HashSet<Pid>) {
        if self.due_in().is_zero() {
            self.due = Instant::now() + PERIOD;
            // Relaxed: as in `own_all_children`.
            reap_all_but(&known(), OWNS_ALL.load(Ordering::Relaxed));
        }
    }
}

/// Reaps the ended children of this process that are not `known`: those in groups that known ones
/// lead, or `all`.
fn reap_all_but(known: &HashSet<Pid>, all: bool) {
    for child in children().filter(|child| !known.contains(child)) {
        if all || getpgid(Some(child)).is_ok_and(|group| known.contains(&group)) {
            // The only possible error is that other code has reaped the child.
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// The children of this process, as far as the kernel lists them (`CONFIG_PROC_CHILDREN`).
fn children() -> impl Iterator<Item = Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let numbers = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    numbers.filter_map(|number| number.parse().ok().and_then(Pid::from_raw))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::{HashSet, Pid, reap_all_but};

    /// A child that has ended and is not reaped.
    fn ended(group: i32) -> (std::process::Child, Pid) {
        let child = Command::new("sh").args(["-c", "exit 5"]).process_group(group).spawn().unwrap();
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        (child, pid)
    }

    #[test]
    fn only_unknown_children_in_groups_of_the_job_are_reaped() {
        let (mut known, leader) = ended(0);
        let (mut orphan, _) = ended(leader.as_raw_nonzero().get());
        let (mut other, _) = ended(0);
        reap_all_but(&HashSet::from([leader]), false);
        assert!(orphan.wait().is_err(), "reaped");
        for child in [&mut known, &mut other] {
            assert_eq!(child.wait().unwrap().code(), Some(5));
        }
    }
}

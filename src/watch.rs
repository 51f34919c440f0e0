//! Who of the other ranks on this machine still lives (REQUIREMENTS E3). The kernel tells by a descriptor of each process,
//! whatever it died of and whichever way leads to it; whoever waits looks now and then, and nobody else does. All leave the job
//! together, so that a process that has ended has died. Knows nothing of what is waited for.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::ErrorKind;

/// How often waiting ranks look, all of a process together.
const PERIOD: Duration = Duration::from_millis(50);

/// A process as another one of its machine finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// What processes have in common that see each other: the running kernel, and its view of processes. Empty where it does not
    /// tell.
    pub(crate) kernel: String,
    /// The machine's name, for people.
    pub(crate) host: String,
    pub(crate) pid: i32,
    /// When it began, in the kernel's ticks: its number may be another's later. 0 where the kernel does not tell.
    pub(crate) began: u64,
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Process {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let pids = std::fs::read_link("/proc/self/ns/pid");
        let kernel = boot.and_then(|boot| Ok(format!("{} {}", boot.trim(), pids?.display())));
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Process {
            kernel: kernel.unwrap_or_default(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid,
            began: began(pid).unwrap_or_default(),
        }
    }

    /// Whether its number is another process's.
    fn is_another_now(&self) -> bool {
        self.began != 0 && began(self.pid).is_some_and(|now| now != self.began)
    }
}

/// When a process began; `None` where there is none of that number, or the kernel does not tell.
fn began(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may have anything in it, in parentheses: fields from the third on, of which it is the 22nd (proc_pid_stat(5)).
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether the process of this number has ended, waited for or not.
pub(crate) fn has_ended(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(errno) => errno == Errno::SRCH,
        Ok(fd) => {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
        }
    }
}

/// The other ranks of this machine.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    host: String,
    ranks: Vec<(usize, Process)>,
    begun: OnceLock<Instant>,
    /// When to look again, in milliseconds from then.
    next: AtomicU64,
    seen: Mutex<Seen>,
    /// Whether any has died, for who does not look.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    /// Those that live, opened by the first look.
    living: Option<Vec<(usize, OwnedFd)>>,
    /// Those that have died, in the order in which that was seen: the later ones may have died of the first.
    dead: Vec<usize>,
}

impl Watch {
    /// Watches those of `ranks` that the process of `me` is known to see, and that are not it, as those of a simulated job are.
    pub(crate) fn new(me: usize, ranks: &[Process]) -> Watch {
        let own = &ranks[me];
        let seen = |process: &Process| !own.kernel.is_empty() && process.kernel == own.kernel;
        let here = |(_, process): &(usize, &Process)| process.pid != own.pid && seen(process);
        let others = ranks.iter().enumerate().filter(here).map(|(rank, process)| (rank, process.clone()));
        Watch { host: own.host.clone(), ranks: others.collect(), ..Watch::default() }
    }

    /// Whether all live, as far as it was looked; looks when a period has passed, or where it has the `patience` to wait for a death.
    ///
    /// # Errors
    /// `RankDied`, from the first death on, with all that are known.
    pub(crate) fn look(&self, patience: Duration) -> Result<(), ErrorKind> {
        if self.ranks.is_empty() {
            return Ok(());
        }
        let time = self.is_time() || !patience.is_zero();
        // Relaxed: the mutex orders what it stands for.
        if !time && !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if time {
            self.find(&mut seen, patience);
        }
        if seen.dead.is_empty() {
            return Ok(());
        }
        self.any.store(true, Ordering::Relaxed);
        Err(ErrorKind::RankDied { ranks: seen.dead.clone(), host: self.host.clone() })
    }

    /// Whether the period is over; one caller is told so.
    fn is_time(&self) -> bool {
        let now = u64::try_from(self.begun.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX);
        let after = now.saturating_add(u64::try_from(PERIOD.as_millis()).unwrap_or(u64::MAX));
        // Relaxed all: they only say who looks.
        let next = self.next.load(Ordering::Relaxed);
        now >= next && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Moves those that have ended from the living to the dead.
    fn find(&self, seen: &mut Seen, patience: Duration) {
        let Seen { living, dead } = seen;
        let living = living.get_or_insert_with(|| {
            let mut living = Vec::with_capacity(self.ranks.len());
            for (rank, process) in &self.ranks {
                let Some(pid) = Pid::from_raw(process.pid) else { continue };
                match pidfd_open(pid, PidfdFlags::empty()) {
                    Err(Errno::SRCH) => dead.push(*rank),
                    Ok(_) if process.is_another_now() => dead.push(*rank),
                    Ok(fd) => living.push((*rank, fd)),
                    // No descriptors left, or a kernel without them: this one is not watched.
                    Err(_) => {}
                }
            }
            living
        });
        let mut fds: Vec<_> = living.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        // Interrupted: the next look finds them.
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        if poll(&mut fds, Some(&limit)).is_err() {
            return;
        }
        let mut ended = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        living.retain(|&(rank, _)| {
            let over = ended.next().unwrap_or(false);
            if over {
                dead.push(rank);
            }
            !over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> (Child, Process) {
        let child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = i32::try_from(child.id()).expect("a process number");
        (child, Process { pid, began: began(pid).expect("it runs"), ..Process::own() })
    }

    /// Looks until it says so: looks in between give the same answer as the one before.
    fn until_dead(watch: &Watch) -> String {
        loop {
            if let Err(died) = watch.look(Duration::ZERO) {
                return died.to_string();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Shows E3.
    #[test]
    fn a_process_that_ends_is_seen_and_stays_dead() {
        let (mut first, a) = sleeper();
        let (mut second, b) = sleeper();
        let host = a.host.clone();
        let watch = Watch::new(0, &[Process::own(), a, b]);
        watch.look(Duration::ZERO).expect("both live");
        // Not waited for: it stays as a zombie, which is dead enough.
        second.kill().expect("ours");
        let said = until_dead(&watch);
        assert!(said.contains("rank 2") && said.contains(&host), "{said}");
        assert_eq!(watch.look(Duration::ZERO).map_err(|died| died.to_string()), Err(said));
        for child in [&mut first, &mut second] {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    /// One that died before anybody looked, or whose number is another's by now, is found too.
    /// Shows E3.
    #[test]
    fn who_died_before_the_first_look_is_found() {
        let (mut child, mut process) = sleeper();
        process.began += 1;
        let watch = Watch::new(0, &[Process::own(), process.clone()]);
        assert!(until_dead(&watch).contains("rank 1"));
        child.kill().expect("ours");
        child.wait().expect("ours");
        process.began -= 1;
        assert!(until_dead(&Watch::new(0, &[Process::own(), process])).contains("rank 1"));
    }

    /// Processes of other machines, and of any where the kernel does not say which it is, are not looked for among this one's: there
    /// the numbers would be those of nobody.
    #[test]
    fn other_machines_are_not_watched() {
        let nobody = Process { kernel: "another".into(), pid: i32::MAX, ..Process::default() };
        let unknown = Process { kernel: String::new(), ..Process::own() };
        for [own, other] in
            [[Process::own(), nobody.clone()], [unknown.clone(), Process { pid: nobody.pid, ..unknown.clone() }]]
        {
            Watch::new(0, &[own, other]).look(Duration::from_millis(1)).expect("nobody here to die");
        }
    }

    /// Where the kernel does not say when processes began, their descriptors still tell.
    /// Shows E3.
    #[test]
    fn processes_of_unknown_age_are_watched() {
        let (mut child, process) = sleeper();
        let watch = Watch::new(0, &[Process::own(), Process { began: 0, ..process }]);
        watch.look(Duration::from_millis(1)).expect("it lives");
        child.kill().expect("ours");
        assert!(until_dead(&watch).contains("rank 1"));
        child.wait().expect("ours");
    }
}

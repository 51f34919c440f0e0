//! Who of the other ranks still lives (REQUIREMENTS E3). Of those of this machine the kernel tells by a descriptor of each process,
//! of those of others by a connection to each ([`far`]), whatever it died of and whichever way leads to it; whoever waits looks now
//! and then, and nobody else does. All leave the job together, so that a process that has ended has died. Knows nothing of what is
//! waited for.

pub(crate) mod far;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::ErrorKind;
use far::{Fate, Lines, Place};

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

    /// Whether it is a process to `other`: one of its machine, and of its view of processes.
    pub(crate) fn is_seen_by(&self, other: &Process) -> bool {
        !other.kernel.is_empty() && self.kernel == other.kernel
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

/// The other ranks.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    ranks: Vec<(usize, Process)>,
    /// Those of other machines, as this one names them in errors.
    places: Vec<(usize, String)>,
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
    far: Option<Lines>,
    /// Those that have died, with their machines' names, in the order in which that was seen: the later ones may have died of the first.
    dead: Vec<(usize, String)>,
    /// The first one that can't be reached.
    silent: Option<(Place, String, String)>,
}

impl Watch {
    /// Watches those of `ranks` that the process of `me` is known to see, and that are not it, as those of a simulated job are; and
    /// those of other machines that `far` leads to.
    pub(crate) fn new(me: usize, ranks: &[Process], far: Option<Lines>) -> Watch {
        let own = &ranks[me];
        let here = |(_, process): &(usize, &Process)| process.pid != own.pid && process.is_seen_by(own);
        let others = ranks.iter().enumerate().filter(here).map(|(rank, process)| (rank, process.clone()));
        let places = far.iter().flat_map(Lines::told).collect();
        Watch { ranks: others.collect(), places, seen: Mutex::new(Seen { far, ..Seen::default() }), ..Watch::default() }
    }

    /// Where a rank of another machine is, in words.
    pub(crate) fn whereabouts(&self, rank: usize) -> Option<&str> {
        self.places.iter().find(|(known, _)| *known == rank).map(|(_, place)| place.as_str())
    }

    /// Whether all live, as far as it was looked; looks when a period has passed, or where it has the `patience` to wait for a death.
    ///
    /// # Errors
    /// `RankDied`, from the first death on, with all that are known; else `RankUnreachable`.
    pub(crate) fn look(&self, patience: Duration) -> Result<(), ErrorKind> {
        if self.ranks.is_empty() && self.places.is_empty() {
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
        let told = seen.told();
        self.any.store(told.is_err(), Ordering::Relaxed);
        told
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
        if seen.living.is_none() {
            self.open(seen);
        }
        let begun = seen.far.as_mut().map(Lines::extend).unwrap_or_default();
        seen.lose(begun);
        let Seen { living, far, dead, .. } = seen;
        let living = living.get_or_insert_default();
        let mut fds: Vec<_> = living.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        let near = fds.len();
        fds.extend(far.iter().flat_map(Lines::open).map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)));
        // Interrupted: the next look finds them.
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        if poll(&mut fds, Some(&limit)).is_err() {
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = ready[..near].iter().copied();
        living.retain(|&(rank, _)| {
            let over = ended.next().unwrap_or(false);
            if over {
                dead.push((rank, self.host_of(rank)));
            }
            !over
        });
        let lost = far.as_mut().map(|lines| lines.lost(ready[near..].iter().copied())).unwrap_or_default();
        seen.lose(lost);
    }

    /// Opens the descriptors of this machine's ranks.
    fn open(&self, seen: &mut Seen) {
        let mut living = Vec::with_capacity(self.ranks.len());
        for (rank, process) in &self.ranks {
            let Some(pid) = Pid::from_raw(process.pid) else { continue };
            match pidfd_open(pid, PidfdFlags::empty()) {
                Err(Errno::SRCH) => seen.dead.push((*rank, process.host.clone())),
                Ok(_) if process.is_another_now() => seen.dead.push((*rank, process.host.clone())),
                Ok(fd) => living.push((*rank, fd)),
                // No descriptors left, or a kernel without them: this one is not watched.
                Err(_) => {}
            }
        }
        seen.living = Some(living);
    }

    fn host_of(&self, rank: usize) -> String {
        let known = self.ranks.iter().find(|(known, _)| *known == rank);
        known.map(|(_, process)| process.host.clone()).unwrap_or_default()
    }
}

impl Seen {
    fn lose(&mut self, lost: Vec<(Place, Fate)>) {
        for (place, fate) in lost {
            match fate {
                Fate::Died => self.dead.push((place.rank, place.host)),
                Fate::Silent(why) if self.silent.is_none() => {
                    let from = self.far.as_ref().map(|lines| lines.from().to_string()).unwrap_or_default();
                    self.silent = Some((place, from, why));
                }
                Fate::Silent(_) => {}
            }
        }
    }

    fn told(&self) -> Result<(), ErrorKind> {
        if !self.dead.is_empty() {
            let hosts: BTreeSet<&str> = self.dead.iter().map(|(_, host)| host.as_str()).collect();
            let host = hosts.into_iter().collect::<Vec<_>>().join(" and ");
            return Err(ErrorKind::RankDied { ranks: self.dead.iter().map(|&(rank, _)| rank).collect(), host });
        }
        let Some((Place { rank, host, at }, from, reason)) = &self.silent else { return Ok(()) };
        let (from, reason) = (from.clone(), reason.clone());
        Err(ErrorKind::RankUnreachable { rank: *rank, host: host.clone(), at: at.ip(), from, reason })
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
        let watch = Watch::new(0, &[Process::own(), a, b], None);
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
        let watch = Watch::new(0, &[Process::own(), process.clone()], None);
        assert!(until_dead(&watch).contains("rank 1"));
        child.kill().expect("ours");
        child.wait().expect("ours");
        process.began -= 1;
        assert!(until_dead(&Watch::new(0, &[Process::own(), process], None)).contains("rank 1"));
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
            Watch::new(0, &[own, other], None).look(Duration::from_millis(1)).expect("nobody here to die");
        }
    }

    /// Where the kernel does not say when processes began, their descriptors still tell.
    /// Shows E3.
    #[test]
    fn processes_of_unknown_age_are_watched() {
        let (mut child, process) = sleeper();
        let watch = Watch::new(0, &[Process::own(), Process { began: 0, ..process }], None);
        watch.look(Duration::from_millis(1)).expect("it lives");
        child.kill().expect("ours");
        assert!(until_dead(&watch).contains("rank 1"));
        child.wait().expect("ours");
    }
}

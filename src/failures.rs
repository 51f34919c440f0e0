//! Failure detector (requirement E3): it watches ranks of this machine by pidfd, and ranks of other
//! machines by one idle TCP connection each ([`connections`], [`listener`]), on every route and for
//! every cause of death. Only a waiting call checks. All ranks leave the job together, so a process
//! that ends earlier has died; a rank whose windows outlive the job then detects no more deaths.
//! Where the kernel or a container refuses pidfds, each check tests by PID whether the processes
//! exist (kill(2) with signal 0).

mod attempts;
pub(crate) mod connections;
pub(crate) mod listener;
mod polling;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use transom_fabric::above_streams;

use crate::error::ErrorKind;
pub(crate) use attempts::Attempts;
use connections::{Connections, Fate, RemoteRank, Silence};

/// Interval of checks, shared by all waiting threads of a process.
const PERIOD: Duration = Duration::from_millis(50);
/// Number of pidfds that a check opens, and of processes without a pidfd whose files a check reads.
/// Each takes some 10 us, and other ranks of the machine check at the same time. A check that waits
/// for a death takes all.
const OPENED_AT_ONCE: usize = 16;
const READ_AT_ONCE: usize = 8;
/// The pause between two checks of a wait for a loss.
const BETWEEN: Duration = Duration::from_millis(1);

/// A process, as other processes of its machine identify it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// The running kernel and its process namespace, which processes that see each other have in
    /// common. Empty if the kernel does not provide it.
    pub(crate) kernel: String,
    /// The machine's name, for messages.
    pub(crate) host: String,
    pub(crate) pid: i32,
    /// Start time in the kernel's ticks, because its process number may be reused. 0 where the
    /// kernel does not give it.
    pub(crate) began: u64,
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Process {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let pids = std::fs::read_link("/proc/self/ns/pid");
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // Another namespace's `/proc` has other processes under the same numbers.
        let is_own = std::fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&pid.to_string()));
        let kernel = boot.and_then(|boot| Ok(format!("{} {}", boot.trim(), pids?.display()))).ok().filter(|_| is_own);
        Process {
            kernel: kernel.unwrap_or_default(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid,
            began: began(pid).unwrap_or_default(),
        }
    }

    /// Whether `other` can see this process: same machine and same process namespace.
    pub(crate) fn is_seen_by(&self, other: &Process) -> bool {
        !other.kernel.is_empty() && self.kernel == other.kernel
    }

    /// Whether it has ended, and its parent has taken its exit status. Reads no file.
    fn is_reaped(&self) -> bool {
        Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    /// Whether it has ended, as far as the kernel tells without a pidfd.
    fn has_ended(&self) -> bool {
        Pid::from_raw(self.pid).is_some_and(is_gone) || self.was_replaced().unwrap_or(false)
    }

    /// Whether its number now belongs to another process.
    ///
    /// # Errors
    /// No descriptor is free, so the kernel can't be asked.
    fn was_replaced(&self) -> std::io::Result<bool> {
        Ok(self.began != 0 && start_time(self.pid)?.is_some_and(|now| now != self.began))
    }
}

/// The start time of a process; `None` if there is no process of that number, or the kernel does
/// not provide the time.
fn began(pid: i32) -> Option<u64> {
    start_time(pid).unwrap_or_default()
}

/// [`began`].
///
/// # Errors
/// No descriptor is free.
fn start_time(pid: i32) -> std::io::Result<Option<u64>> {
    // The file of the first thread, because emulators of other processors replace the file of the
    // process.
    let stat = match std::fs::read(format!("/proc/{pid}/task/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => return Err(error),
        Err(_) => return Ok(None),
    };
    Ok(field(&stat, 22).and_then(|time| time.parse().ok()))
}

/// A field of a process's status from the third on, by its number in proc_pid_stat(5). These fields
/// follow the name, which is in parentheses and may contain any bytes.
fn field(stat: &[u8], number: usize) -> Option<String> {
    let stat = String::from_utf8_lossy(stat);
    stat.rsplit_once(')').and_then(|(_, fields)| Some(fields.split_whitespace().nth(number - 3)?.to_owned()))
}

/// [`above_streams`] with the error of a system call.
fn above(fd: OwnedFd) -> rustix::io::Result<OwnedFd> {
    above_streams(fd).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
}

/// Whether the process with this number has ended, reaped or not.
pub(crate) fn has_ended(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => true,
        Err(Errno::MFILE | Errno::NFILE) => false,
        Err(_) => is_gone(pid),
        Ok(fd) => {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
        }
    }
}

/// Whether there is no such process, or only the exit status of one.
fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid) == Err(Errno::SRCH) || is_zombie(pid.as_raw_nonzero().get())
}

/// Whether a process has ended and waits for its parent. A process whose first thread alone has
/// ended looks the same but for its other threads.
fn is_zombie(pid: i32) -> bool {
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(usize::MAX, Iterator::count);
    let state = std::fs::read(format!("/proc/{pid}/stat")).ok().and_then(|stat| field(&stat, 3));
    matches!(state.as_deref(), Some("Z" | "X")) && threads() <= 1
}

/// The other ranks, and the failure detector's state.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    ranks: Vec<(usize, Process)>,
    /// Machines of remote ranks, for errors.
    places: Vec<(usize, String)>,
    begun: OnceLock<Instant>,
    /// Time of the next check, in milliseconds since `begun`.
    next: AtomicU64,
    state: Mutex<State>,
    /// Whether any rank has died, readable without the lock.
    any_lost: AtomicBool,
    /// Whether ranks may end in good order from now on, because this rank has left the job.
    retired: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Ranks of this machine that are alive.
    living: Vec<(usize, OwnedFd)>,
    /// Ranks of this machine for which the kernel refuses a pidfd, by their places in
    /// [`Detector::ranks`].
    unopened: Vec<usize>,
    /// The number of ranks in `unopened` whose files were read, of all checks.
    read: usize,
    /// How many of [`Detector::ranks`] are in one of these lists, or have ended. Each check opens
    /// others while descriptors are free.
    opened: usize,
    remote: Option<Connections>,
    /// Ranks that have died, with their machines' names, in the order of detection: later ones may
    /// have died because of the first.
    dead: Vec<(usize, String)>,
    /// The first rank that can't be reached.
    silent: Option<(RemoteRank, String, Silence)>,
    /// All ranks that can't be reached.
    all_silent: BTreeSet<usize>,
}

impl Detector {
    /// Watches the other processes among `ranks` that the process of rank `me` can see, and the
    /// ranks of other machines by `remote`. Ranks of a simulated job are threads of one process,
    /// and are not watched.
    pub(crate) fn new(me: usize, ranks: &[Process], remote: Option<Connections>) -> Detector {
        let own = &ranks[me];
        let here = |(_, process): &(usize, &Process)| process.pid != own.pid && process.is_seen_by(own);
        let others = ranks.iter().enumerate().filter(here).map(|(rank, process)| (rank, process.clone()));
        let places = remote.iter().flat_map(Connections::names).collect();
        Detector {
            ranks: others.collect(),
            places,
            state: Mutex::new(State { remote, ..State::default() }),
            ..Detector::default()
        }
    }

    /// The machine and address of a remote rank, as text.
    pub(crate) fn place(&self, rank: usize) -> Option<&str> {
        self.places.iter().find(|(known, _)| *known == rank).map(|(_, place)| place.as_str())
    }

    /// Whether all ranks were alive at the last check. Checks again if the period has passed, or if
    /// `patience` is not zero: the check then waits that long for a death.
    ///
    /// # Errors
    /// `RankDied` with all known deaths, from the first death on; else `RankUnreachable`.
    pub(crate) fn look(&self, patience: Duration) -> Result<(), ErrorKind> {
        if self.ranks.is_empty() && self.places.is_empty() {
            return Ok(());
        }
        // Relaxed: a check that another thread has begun may still report a death.
        let time = (self.is_time() || !patience.is_zero()) && !self.retired.load(Ordering::Relaxed);
        // Relaxed: the mutex orders the state behind the flag.
        if !time && !self.any_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.state();
        if time {
            self.await_loss(&mut state, patience);
        }
        let outcome = state.outcome();
        self.any_lost.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    }

    /// Ends the detection of deaths: later calls report only those that are known.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether all ranks were alive at the last check, without a new one.
    ///
    /// # Errors
    /// As for [`Detector::look`].
    pub(crate) fn known(&self) -> Result<(), ErrorKind> {
        // Relaxed: as in `look`.
        if !self.any_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.state().outcome()
    }

    /// Whether a rank is known to be unreachable.
    pub(crate) fn is_silent(&self, rank: usize) -> bool {
        // Relaxed: as in `look`.
        self.any_lost.load(Ordering::Relaxed) && self.state().all_silent.contains(&rank)
    }

    /// All ranks that are known to be unreachable.
    pub(crate) fn all_silent(&self) -> Vec<usize> {
        self.state().all_silent.iter().copied().collect()
    }

    /// All ranks that are known to have died or to be unreachable.
    pub(crate) fn lost(&self) -> Vec<usize> {
        // Relaxed: as in `look`.
        if !self.any_lost.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let state = self.state();
        state.dead.iter().map(|&(rank, _)| rank).chain(state.all_silent.iter().copied()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the period has passed; only one caller gets `true`.
    fn is_time(&self) -> bool {
        let now = u64::try_from(self.begun.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX);
        let after = now.saturating_add(u64::try_from(PERIOD.as_millis()).unwrap_or(u64::MAX));
        // Relaxed for all operations: they only select the thread that checks.
        let next = self.next.load(Ordering::Relaxed);
        now >= next && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Checks all ranks, and waits up to `patience` for a first loss.
    fn await_loss(&self, state: &mut State, patience: Duration) {
        let begun = Instant::now();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            // The operation's error has its explanation if a loss is known.
            let patience = if state.outcome().is_err() { Duration::ZERO } else { left };
            self.poll_ranks(state, patience);
            if patience.is_zero() || state.outcome().is_err() {
                return;
            }
            // A connection that was made is an event too.
            std::thread::sleep(BETWEEN.min(left));
        }
    }

    /// Moves the ranks that have ended from the living to the dead.
    fn poll_ranks(&self, state: &mut State, patience: Duration) {
        self.open(state, if patience.is_zero() { OPENED_AT_ONCE } else { usize::MAX });
        self.read(state, if patience.is_zero() { READ_AT_ONCE } else { usize::MAX });
        let begun = state.remote.as_mut().map(Connections::extend).unwrap_or_default();
        state.record(begun);
        let State { living, unopened, remote, dead, .. } = &mut *state;
        // Their deaths end no poll.
        let patience = if unopened.is_empty() { patience } else { patience.min(PERIOD) };
        let mut fds: Vec<_> = living.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        let local = fds.len();
        fds.extend(
            remote.iter().flat_map(Connections::open).map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)),
        );
        polling::poll_all(&mut fds, Some(patience));
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = ready[..local].iter().copied();
        living.retain(|&(rank, _)| {
            let over = ended.next().unwrap_or(false);
            if over {
                dead.push((rank, self.host_of(rank)));
            }
            !over
        });
        let lost =
            remote.as_mut().map(|connections| connections.lost(ready[local..].iter().copied())).unwrap_or_default();
        state.record(lost);
    }

    /// Moves the ranks without a pidfd that have ended to the dead. Reads the files of `most` of
    /// them, in turn, and asks for the number alone of the others.
    fn read(&self, state: &mut State, most: usize) {
        let State { unopened, read, dead, .. } = state;
        let (count, first) = (unopened.len(), *read);
        let mut index = 0;
        unopened.retain(|&place| {
            let (rank, process) = &self.ranks[place];
            let is_due = (index + count - first % count) % count < most;
            let ended = if is_due { process.has_ended() } else { process.is_reaped() };
            if ended {
                dead.push((*rank, process.host.clone()));
            }
            index += 1;
            !ended
        });
        *read = first.wrapping_add(most.min(count));
    }

    /// Opens pidfds for other ranks of this machine that have none yet, at most `most`.
    fn open(&self, state: &mut State, most: usize) {
        for (rank, process) in self.ranks[state.opened..].iter().take(most) {
            let pid = Pid::from_raw(process.pid);
            let opened = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()).and_then(above));
            match opened {
                // The next check tries again.
                Some(Err(Errno::MFILE | Errno::NFILE)) => return,
                Some(Err(Errno::SRCH)) => state.dead.push((*rank, process.host.clone())),
                Some(Ok(fd)) => match process.was_replaced() {
                    Ok(true) => state.dead.push((*rank, process.host.clone())),
                    Ok(false) => state.living.push((*rank, fd)),
                    // The pidfd is the last free descriptor. It is closed, and the next check tries
                    // again.
                    Err(_) => return,
                },
                None | Some(Err(_)) => state.unopened.push(state.opened),
            }
            state.opened += 1;
        }
    }

    fn host_of(&self, rank: usize) -> String {
        let known = self.ranks.iter().find(|(known, _)| *known == rank);
        known.map(|(_, process)| process.host.clone()).unwrap_or_default()
    }
}

impl State {
    fn record(&mut self, lost: Vec<(RemoteRank, Fate)>) {
        for (place, fate) in lost {
            match fate {
                Fate::Died => self.dead.push((place.rank, place.host)),
                Fate::Silent(why) => {
                    self.all_silent.insert(place.rank);
                    if self.silent.is_none() {
                        let from = self.remote.as_ref().map(|known| known.from().to_string()).unwrap_or_default();
                        self.silent = Some((place, from, why));
                    }
                }
            }
        }
    }

    fn outcome(&self) -> Result<(), ErrorKind> {
        if !self.dead.is_empty() {
            let hosts: BTreeSet<&str> = self.dead.iter().map(|(_, host)| host.as_str()).collect();
            let host = hosts.into_iter().collect::<Vec<_>>().join(" and ");
            return Err(ErrorKind::RankDied { ranks: self.dead.iter().map(|&(rank, _)| rank).collect(), host });
        }
        let Some((RemoteRank { rank, host, at, .. }, from, reason)) = &self.silent else { return Ok(()) };
        let (from, reason) = (from.clone(), (*reason).into());
        Err(ErrorKind::RankUnreachable { rank: *rank, host: host.clone(), at: at.ip(), from, reason })
    }
}

#[cfg(test)]
mod tests;

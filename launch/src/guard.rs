//! The guard: a forked process that leads the ranks' process group, and kills the group when the
//! launcher ends for any reason, even by SIGKILL. Independent of ranks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, child_subreaper, getpid, kill_process_group, set_child_subreaper, setpgid, waitpgid,
};

/// Longest time that [`reap_group`] waits for killed processes to be gone.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// A process group that dies with this process. Drop kills and reaps the whole group.
#[derive(Debug)]
pub(super) struct Guard {
    group: Pid,
    /// The write end of the guard's pipe: its end of file means this process's death.
    _alive: OwnedFd,
    was_subreaper: bool,
    ended: bool,
}

impl Guard {
    /// Forks the guard. Processes that are started with `process_group(group)` do not outlive this
    /// process, which reaps orphans among them.
    pub(super) fn start() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let group = fork_guard(&read)?;
        // The guard makes the same call, so that the group exists when either returns. ESRCH and
        // EACCES can't occur: the guard is a child that does not exec and is not reaped.
        setpgid(Some(group), Some(group))?;
        let was_subreaper = child_subreaper()?.is_some();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { group, _alive: write, was_subreaper, ended: false })
    }

    /// The process group's number, which is the guard's process number.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Sends `signal` to all processes of the group. Only SIGKILL ends the guard itself.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.ended {
            // The only possible error is ESRCH, which the guard excludes: alive or not yet reaped,
            // it keeps the group in existence.
            let _ = kill_process_group(self.group, signal);
        }
    }

    /// Kills the remaining group, and reaps the guard and the orphans. Children of this process
    /// that other code reaps must have been reaped before.
    pub(super) fn end(&mut self) {
        if self.ended {
            return;
        }
        self.signal(Signal::KILL);
        self.ended = true;
        reap_group(self.group);
        if !self.was_subreaper {
            let _ = set_child_subreaper(None);
        }
    }
}

/// Reaps the children of this process in a group that was killed.
pub(super) fn reap_group(group: Pid) {
    let limit = Instant::now() + REAP_LIMIT;
    loop {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            // A killed process may take some time to end; inside an uninterruptible system call it
            // may take longer than this limit.
            Ok(None) if Instant::now() < limit => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => break,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

/// Forks a child that runs [`guard_main`], with all its signals blocked.
fn fork_guard(alive: &OwnedFd) -> io::Result<Pid> {
    // SAFETY: `sigset_t` is plain data for which all zeroes is a value; `sigfillset` and
    // `pthread_sigmask` get pointers to two such locals, valid for the calls. Signals are blocked
    // before the fork, so that no handler of this process runs in the child: the child never
    // unblocks them.
    let before = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    // SAFETY: in a process of several threads the child of a fork may only make async-signal-safe
    // calls until it execs or exits. It calls only `guard_main`, which upholds that and never
    // returns.
    let child = unsafe { libc::fork() };
    if child == 0 {
        guard_main(alive.as_raw_fd());
    }
    let error = io::Error::last_os_error();
    // SAFETY: the call above filled `before`; a null pointer declines the old mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    if child < 0 { Err(error) } else { Pid::from_raw(child).ok_or(error) }
}

/// The whole life of the guard: blocks on the pipe until the launcher is gone, then kills its
/// group, itself included. Only async-signal-safe calls: no allocation, no lock, no panic, no
/// destructor.
fn guard_main(alive: libc::c_int) -> ! {
    // SAFETY: all calls are system calls on plain numbers, async-signal-safe (signal-safety(7);
    // prctl and close_range are bare system calls). The name is a literal that ends in a zero.
    // `dup2` and `close_range` close descriptors that no other code of this process uses: only this
    // function runs here. `byte` is a local of the one byte that `read` may write.
    unsafe {
        if libc::setpgid(0, 0) != 0 {
            libc::_exit(1);
        }
        libc::prctl(libc::PR_SET_NAME, c"transom-guard".as_ptr());
        libc::dup2(alive, 0);
        // The guard must close above all the launcher's end of the pipe, and the standard output,
        // whose end other processes wait for.
        if libc::syscall(libc::SYS_close_range, 1_u32, u32::MAX, 0_u32) != 0 {
            let mut fd = 1;
            while fd < 65_536 {
                libc::close(fd);
                fd += 1;
            }
        }
        let mut byte = 0_u8;
        // The pipe is never written: any result but an interruption is the end of file.
        while libc::read(0, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        libc::kill(0, libc::SIGKILL);
        libc::_exit(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Waits until the process has the guard's name, which it takes after the fork. A process that
    /// SIGTERM has ended never takes it.
    fn named(process: libc::pid_t) {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
            let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            assert!(!state.contains(") Z "), "SIGTERM ended the guard");
            if name == "transom-guard\n" {
                return;
            }
            assert!(Instant::now() < limit, "the guard is still named {name}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Shows E4.
    #[test]
    fn ending_kills_the_members_of_the_group_only() {
        let mut guard = Guard::start().unwrap();
        let group = guard.group().as_raw_nonzero().get();
        let mut inside = Command::new("sleep").arg("1000").process_group(group).spawn().unwrap();
        let mut outside = Command::new("sleep").arg("1000").spawn().unwrap();
        guard.signal(rustix::process::Signal::TERM);
        assert_eq!(inside.wait().unwrap().signal(), Some(libc::SIGTERM));
        named(group);
        let mut inside = Command::new("sleep").arg("1000").process_group(group).spawn().unwrap();
        guard.signal(rustix::process::Signal::KILL);
        assert_eq!(inside.wait().unwrap().signal(), Some(libc::SIGKILL));
        guard.end();
        assert!(!std::path::Path::new(&format!("/proc/{group}")).exists());
        assert_eq!(outside.try_wait().unwrap(), None);
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
}

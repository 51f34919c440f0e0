//! The processes of ranks and their connections to the launcher: start, reads, writes, and reaping
//! of one rank. Independent of the job's rules.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpgid, kill_process, kill_process_group,
    pidfd_open, waitid,
};

use super::bind::Bound;
use super::guard::reap_group;
use super::output::{Sink, Splitter, Style};
use crate::job::Job;
use crate::outcome::{LaunchError, UNKNOWN, io_error};
use transom::launching::{LineBuffer, SECRET};

/// Variables by which a rank would take another launcher for its own. They are removed from the
/// environment of ranks.
const LAUNCHER_VARIABLES: [&str; 10] = [
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    SECRET,
    "PMI_SPAWNED",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
];

/// Most consecutive reads of one stream, so that a rank that writes without end does not delay the
/// others.
const MAX_READS: usize = 16;
/// Bytes of one read.
const MAX_READ: usize = 64 * 1024;

/// The bit of a wait status that says that the process has left a core file (wait(2)).
const CORE_DUMPED: i32 = 0x80;

/// One rank, from its start to its end.
#[derive(Debug)]
pub(super) struct Rank {
    /// `None` for a rank of another machine, whose reports fill the fields.
    child: Option<Child>,
    pub(super) pid: Pid,
    /// Readable when the process has ended.
    pub(super) ended: Option<OwnedFd>,
    pub(super) exit: Option<ExitStatus>,
    pub(super) pmi: Option<Conn>,
    pub(super) out: Option<Feed>,
    pub(super) err: Option<Feed>,
}

/// The launcher's end of a rank's PMI connection, or of a connection between two launchers.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) socket: OwnedFd,
    pub(super) lines: LineBuffer,
    unsent: Vec<u8>,
}

/// The launcher's end of the pipe for a rank's output.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) pipe: OwnedFd,
    splitter: Splitter,
}

impl Rank {
    /// Starts rank `number` of `job` in the process group `group`, bound to `cpu` if given.
    pub(super) fn start(job: &Job, number: usize, group: Pid, cpu: Option<usize>) -> Result<Self, LaunchError> {
        let mut command = command(job, number, group);
        let bound = cpu.map(Bound::to).transpose().map_err(io_error("binding to a CPU"))?;
        let (pmi, spawned) = match &job.rendezvous {
            Some((at, secret)) => {
                command.env("PMI_PORT", at).env("PMI_ID", number.to_string()).env(SECRET, secret);
                (None, command.spawn())
            }
            None => {
                let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                    .map_err(io_error("a socket pair"))?;
                command.env("PMI_FD", theirs.as_raw_fd().to_string());
                // Until the spawn, a program that another thread of this process starts would
                // inherit this end too.
                fcntl_setfd(&theirs, FdFlags::empty()).map_err(io_error("a socket"))?;
                (Some(Conn::new(ours).map_err(io_error("a socket"))?), command.spawn())
            }
        };
        drop(bound);
        let mut child = spawned.map_err(|source| LaunchError::Program { program: job.program.clone(), source })?;
        let connected = connect(&mut child, job, number);
        let (pid, ended, out, err) = match connected {
            Ok(parts) => parts,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io_error("watching a rank")(error));
            }
        };
        Ok(Self { child: Some(child), pid, ended: Some(ended), exit: None, pmi, out: Some(out), err: Some(err) })
    }

    /// A rank that another machine starts. Its process number is not known yet.
    pub(super) fn elsewhere() -> Self {
        Self { child: None, pid: Pid::INIT, ended: None, exit: None, pmi: None, out: None, err: None }
    }

    /// Keeps the status if the process has ended. The process stays a zombie until
    /// [`Rank::release`], so that its number can't become another process's. If other code of the
    /// launcher's process has reaped the rank, its status is [`UNKNOWN`].
    pub(super) fn check(&mut self) {
        if self.child.is_none() || self.exit.is_some() {
            return;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(status) => self.exit = status.map(|status| exit_status(&status)),
            Err(Errno::INTR) => {}
            Err(_) => {
                // The number may be another process's now.
                self.child = None;
                self.exit = Some(ExitStatus::from_raw(UNKNOWN));
            }
        }
    }

    /// The process's number until this process reaps it; `None` for a rank of another machine.
    pub(super) fn child(&self) -> Option<Pid> {
        self.child.as_ref().map(|_| self.pid)
    }

    /// Whether a signal ended the process.
    pub(super) fn was_killed(&mut self) -> bool {
        self.check();
        self.exit.is_some_and(|exit| exit.signal().is_some())
    }

    /// Kills what is left of the group that the process leads, if it leads one, and reaps the
    /// process, which must have ended or been killed.
    pub(super) fn release(&mut self, group: Pid) {
        self.signal_outside(group, Signal::KILL);
        let leads = self.child.is_some() && getpgid(Some(self.pid)) == Ok(self.pid);
        if let Some(mut child) = self.child.take() {
            // Only the process's number mattered: its status is known, or nobody needs it.
            let _ = child.wait();
        }
        if leads {
            reap_group(self.pid);
        }
    }

    /// Sends `signal` to the process if it has left `group`, whose members are signalled together.
    /// If the process leads a group of its own, as `timeout` does, the whole group gets the signal,
    /// also after the process has ended: a leader may end before its group.
    pub(super) fn signal_outside(&self, group: Pid, signal: Signal) {
        if self.child.is_none() {
            return;
        }
        // The process is not reaped, so the number is still that of the process and its group.
        let _ = match getpgid(Some(self.pid)) {
            Ok(own) if own == self.pid => kill_process_group(own, signal),
            Ok(own) if own != group => kill_process(self.pid, signal),
            _ => Ok(()),
        };
    }

    /// The rank's end of the launcher's standard input, where it is forwarded.
    pub(super) fn take_stdin(&mut self) -> Option<OwnedFd> {
        self.child.as_mut()?.stdin.take().map(OwnedFd::from)
    }
}

/// The status in the form of the standard library.
fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    let core = if status.dumped() { CORE_DUMPED } else { 0 };
    ExitStatus::from_raw(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code << 8,
        (None, signal) => signal.unwrap_or(0) | core,
    })
}

impl Conn {
    pub(super) fn new(socket: OwnedFd) -> rustix::io::Result<Self> {
        ioctl_fionbio(&socket, true)?;
        Ok(Self { socket, lines: LineBuffer::default(), unsent: Vec::new() })
    }

    /// The descriptor and the events to poll.
    pub(super) fn interest(&self) -> PollFd<'_> {
        let sending = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN | sending)
    }

    /// Reads the available bytes. `false` at the end: the rank has closed the connection, or sends
    /// no lines.
    pub(super) fn receive(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        loop {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((got, _)) => self.lines.push(&bytes[..got]),
                Err(Errno::INTR) => {}
                Err(error) => return error == Errno::AGAIN,
            }
            if self.lines.overflows() || self.lines.has_line() {
                return true;
            }
        }
    }

    /// Sends `text`, now or when the socket has room.
    pub(super) fn send(&mut self, text: &str) {
        self.unsent.extend_from_slice(text.as_bytes());
        self.flush();
    }

    /// Whether bytes wait to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends as much as the socket takes. The death of a rank is detected elsewhere.
    pub(super) fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }
}

impl Feed {
    pub(super) fn new(pipe: OwnedFd, number: usize, style: Style) -> io::Result<Self> {
        ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, splitter: Splitter::new(number, style) })
    }

    /// Moves the rank's available output into `sink` until that is full. `false` at the end of the
    /// stream, after the last part.
    pub(super) fn forward(&mut self, sink: &mut Sink) -> bool {
        self.read(sink, MAX_READS, Sink::is_full)
    }

    /// Moves the content of the pipe into `sink`, even if the sink is full, and ends the feed.
    fn drain(mut self, sink: &mut Sink) {
        let held = rustix::pipe::fcntl_getpipe_size(&self.pipe).unwrap_or(0);
        if self.read(sink, held.div_ceil(MAX_READ) + 1, |_| false) {
            self.splitter.finish(sink);
        }
    }

    /// Reads at most `times` times, until the pipe is empty or `is_enough`. `false` at the end of
    /// the stream.
    fn read(&mut self, sink: &mut Sink, times: usize, is_enough: impl Fn(&Sink) -> bool) -> bool {
        let mut bytes = [0; MAX_READ];
        for _ in 0..times {
            if is_enough(sink) {
                return true;
            }
            match rustix::io::read(&self.pipe, &mut bytes) {
                Ok(0) => {
                    self.splitter.finish(sink);
                    return false;
                }
                Ok(got) => self.splitter.feed(&bytes[..got], sink),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

fn command(job: &Job, number: usize, group: Pid) -> Command {
    let mut command = Command::new(&job.program);
    command.args(&job.args).process_group(group.as_raw_nonzero().get());
    for name in LAUNCHER_VARIABLES {
        command.env_remove(name);
    }
    if io::stderr().is_terminal() {
        command.env("TRANSOM_STDERR_IS_TERMINAL", "1");
    } else {
        command.env_remove("TRANSOM_STDERR_IS_TERMINAL");
    }
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    command.env("PMI_RANK", number.to_string());
    command.env("PMI_SIZE", job.size.to_string());
    command.env("TRANSOM_LAUNCHER", "transom-run");
    // Only a terminal's foreground process group may read it, and the ranks are not in that group,
    // so a terminal is forwarded. Rank 0 reads all other inputs itself, so that it takes no more
    // than it wants.
    command.stdin(match (number, io::stdin().is_terminal()) {
        _ if job.rendezvous.is_some() => Stdio::null(),
        (0, true) => Stdio::piped(),
        (0, false) => Stdio::inherit(),
        _ => Stdio::null(),
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn connect(child: &mut Child, job: &Job, number: usize) -> io::Result<(Pid, OwnedFd, Feed, Feed)> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let style = match (job.tag_output, job.size) {
        (true, _) => Style::Tagged,
        (false, 1) => Style::AsIs,
        (false, _) => Style::Lines,
    };
    let piped = "a pipe was requested above";
    let out = Feed::new(child.stdout.take().expect(piped).into(), number, style)?;
    let err = Feed::new(child.stderr.take().expect(piped).into(), number, style)?;
    Ok((pid, ended, out, err))
}

/// Moves a feed's bytes to `sink`, and drops the feed at its end.
pub(super) fn forward(feed: &mut Option<Feed>, sink: &mut Sink) {
    if feed.as_mut().is_some_and(|feed| !feed.forward(sink)) {
        *feed = None;
    }
}

/// Ends a feed whose writer has ended: moves what its pipe holds to `sink`.
pub(super) fn drain(feed: &mut Option<Feed>, sink: &mut Sink) {
    if let Some(feed) = feed.take() {
        feed.drain(sink);
    }
}

/// Enables keep-alive, so that a connection ends where the other machine vanishes.
pub(super) fn keep_alive(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(2))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(socket, 4)
}

/// [`keep_alive`] also while sent bytes are unacknowledged, when the kernel does not probe. Not for
/// connections to ranks: the kernel would end the connection to a stopped rank whose buffer is
/// full.
pub(super) fn keep_alive_unacknowledged(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_user_timeout(socket, 6000)
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    fn rank_of(command: &mut Command) -> Rank {
        let child = command.spawn().expect("coreutils are installed");
        Rank { pid: Pid::from_child(&child), child: Some(child), ..Rank::elsewhere() }
    }

    #[test]
    fn a_rank_that_other_code_reaps_has_ended() {
        let mut rank = rank_of(&mut Command::new("true"));
        waitpid(Some(rank.pid), WaitOptions::empty()).expect("a child");
        rank.check();
        assert_eq!(rank.exit, Some(ExitStatus::from_raw(UNKNOWN)));
        assert!(rank.child.is_none(), "its number is not used any more");
    }

    #[test]
    fn a_status_is_that_of_the_standard_library() {
        for script in ["exit 3", "kill -KILL $$", "true"] {
            let mut rank = rank_of(Command::new("sh").args(["-c", script]));
            while rank.exit.is_none() {
                rank.check();
                std::thread::yield_now();
            }
            let child = rank.child.as_mut().expect("it is not reaped");
            assert_eq!(rank.exit, child.wait().ok(), "{script}");
        }
    }
}

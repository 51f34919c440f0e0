//! The life of a job: one poll loop that serves PMI, forwards output, watches ranks and signals,
//! and decides when and how the job ends. It owns the job's rules; the mechanisms are in the
//! sibling files.

mod elsewhere;

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::stdio::{stderr, stdout};
use signal_hook::consts::{SIGCONT, SIGINT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;
use transom::launching::cpu_quota;

use super::admission::STRANGERS;
use super::guard::Guard;
use super::machines::Machines;
use super::orphans::Orphans;
use super::output::{Sink, duplicate};
use super::ranks::{Rank, drain, forward};
use super::server::{Replies, Request, Server};
use super::signals::{self, Signals};
use super::stdin::Input;
use crate::bind::{self, Claim, Places};
use crate::descriptors;
use crate::job::{Bind, Job};
use crate::outcome::{Failure, LaunchError, Outcome, io_error};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// Interval of checks whether a terminal has returned to this process group.
const SUSPENDED: Duration = Duration::from_millis(500);

impl Job {
    /// Starts the ranks, serves and watches them, and returns when no process of the job is left.
    /// Output and messages about failures go to this process's standard output and error, so the
    /// caller should flush its own buffers before.
    ///
    /// A machine of a job [`on`](Job::on) several machines that does not answer for 6 s counts as
    /// lost.
    ///
    /// During the run, SIGINT, SIGTERM and SIGHUP to this process end the job instead of the
    /// process. SIGUSR1, SIGUSR2, SIGQUIT, SIGTSTP and SIGCONT are passed on to the ranks, and
    /// SIGTSTP then stops this process too. The handlers stay after the run: from then on these
    /// signals have no effect on the process. Where SIGCHLD was ignored, it also gets a handler, so
    /// from then on this process must wait for all of its children.
    ///
    /// Orphaned descendants of ranks become children of this process. About once a second this call
    /// reaps those that have ended and are in the process groups of the ranks. Descendants that
    /// leave the ranks' process groups are neither signaled nor reaped.
    ///
    /// # Errors
    /// The job could not be started; later failures are in the [`Outcome`].
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        if self.size == 0 {
            return Err(LaunchError::NoRanks);
        }
        run(self)
    }
}

/// Starts `job` and returns when all of its processes are gone.
fn run(job: &Job) -> Result<Outcome, LaunchError> {
    let mut supervisor = Supervisor::start(job)?;
    while supervisor.is_busy() {
        supervisor.turn().map_err(io_error("poll"))?;
    }
    supervisor.finish().map_err(io_error("poll"))
}

/// A running job. Drop kills the remaining processes.
#[derive(Debug)]
struct Supervisor {
    guard: Guard,
    machines: Option<Machines>,
    orphans: Orphans,
    signals: Signals,
    server: Server,
    ranks: Vec<Rank>,
    out: Sink,
    err: Sink,
    input: Input,
    /// End of the job's time limit.
    deadline: Option<Instant>,
    timeout: Duration,
    grace: Duration,
    /// The reason of the job's end, once it is known; the first reason counts.
    outcome: Option<Outcome>,
    ending: Ending,
    /// Whether the launcher ends without writing the rest of the ranks' output, because a second
    /// signal or the time limit has ended the wait for its reader.
    discards_output: bool,
    /// The CPUs to which ranks are bound, if they are bound. While this value lives, other
    /// launchers bind no rank to these CPUs by default.
    places: Option<Places>,
}

/// The stage of the job's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// A rank has failed; the others may end by themselves until this time.
    Grace(Instant),
    /// SIGTERM was sent; SIGKILL follows at this time.
    Terminating(Instant),
    /// SIGKILL was sent; the connections to other machines are closed at this time.
    Killed(Instant),
    /// No process is left. The rest of the output is written, until the job's time limit.
    Over,
}

/// The owner of a descriptor in the poll set.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signal(usize),
    Ended(usize),
    Pmi(usize),
    /// A descriptor of other machines.
    Machines,
    Out(usize),
    Err(usize),
    /// A writable sink; `turn` flushes the sinks in any case.
    Sink,
    Input,
}

impl Supervisor {
    fn start(job: &Job) -> Result<Self, LaunchError> {
        let size = job.size;
        let remote = || descriptors::of_machines(job.hosts.len().min(size), size) + STRANGERS;
        descriptors::raise_limit(size, if job.hosts.is_empty() { descriptors::of_ranks(size) } else { remote() })?;
        let allowed = bind::allowed_cpus();
        if job.bind == Bind::Core && allowed.is_empty() {
            return Err(LaunchError::NoCpus);
        }
        // Other machines bind their ranks themselves.
        let here = if job.hosts.is_empty() { job.bind } else { Bind::None };
        let places = bind::plan(here, job.size, &allowed, cpu_quota(), Claim::of);
        // Best effort: output that this program has buffered before comes first.
        let _ = std::io::stdout().flush();
        let mut supervisor = Self {
            guard: Guard::start().map_err(io_error("forking the guard"))?,
            machines: None,
            orphans: Orphans::new(),
            signals: Signals::watch().map_err(io_error("watching signals"))?,
            server: Server::new(&[job.size], std::process::id()),
            ranks: Vec::with_capacity(job.size),
            out: Sink::new(duplicate(stdout()).map_err(io_error("standard output"))?),
            err: Sink::new(duplicate(stderr()).map_err(io_error("standard error"))?),
            input: Input::new(None),
            deadline: job.timeout.and_then(|limit| Instant::now().checked_add(limit)),
            timeout: job.timeout.unwrap_or_default(),
            grace: job.grace,
            outcome: None,
            ending: Ending::No,
            discards_output: false,
            places,
        };
        if !job.hosts.is_empty() {
            let machines = Machines::start(job)?;
            supervisor.server = Server::new(&machines.sizes(), std::process::id());
            supervisor.machines = Some(machines);
            supervisor.ranks.extend((0..job.size).map(|_| Rank::elsewhere()));
            return Ok(supervisor);
        }
        let group = supervisor.guard.group();
        for number in 0..job.size {
            let cpu = supervisor.places.as_ref().map(|places| places.cpus[number]);
            supervisor.ranks.push(Rank::start(job, number, group, cpu)?);
        }
        supervisor.input = Input::new(supervisor.ranks[0].take_stdin());
        Ok(supervisor)
    }

    /// Whether a rank runs, or another machine still reports.
    fn is_busy(&self) -> bool {
        self.ranks.iter().any(|rank| rank.exit.is_none()) || self.machines.as_ref().is_some_and(Machines::are_running)
    }

    /// Waits for events and handles all of them.
    fn turn(&mut self) -> Result<(), Errno> {
        let mut sources = self.wait()?;
        // Of several ranks that have ended, one that a signal killed comes first: its death is
        // probably the reason why the others ended.
        sources.sort_by_key(|source| matches!(source, Source::Ended(number) if !self.ranks[*number].was_killed()));
        for source in sources {
            match source {
                Source::Signal(index) => self.on_signal(index),
                Source::Ended(number) => self.on_end(number),
                Source::Pmi(number) => self.on_pmi(number),
                Source::Out(number) => forward(&mut self.ranks[number].out, &mut self.out),
                Source::Err(number) => forward(&mut self.ranks[number].err, &mut self.err),
                Source::Input => self.input.forward(),
                Source::Machines | Source::Sink => {}
            }
        }
        self.on_machines();
        self.check_barrier();
        self.check_clock();
        self.reap_orphans();
        self.out.flush();
        self.err.flush();
        match self.out.broken() {
            None => {}
            Some(Errno::PIPE) => self.end(Outcome::OutputClosed, None),
            Some(errno) => {
                let reason = std::io::Error::from(errno).to_string();
                let text = format!("writing to the standard output: {reason}");
                self.end(Outcome::OutputFailed(reason), Some(&text));
                self.err.flush();
            }
        }
        Ok(())
    }

    /// The owners of ready descriptors; empty when a time limit has passed.
    fn wait(&self) -> Result<Vec<Source>, Errno> {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let mut add = |source, fd, flags| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        for (index, fd) in self.signals.fds().enumerate() {
            add(Source::Signal(index), fd, PollFlags::IN);
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            if let Some(ended) = rank.ended.as_ref().filter(|_| rank.exit.is_none()) {
                add(Source::Ended(number), ended.as_fd(), PollFlags::IN);
            }
            if let Some(conn) = &rank.pmi {
                let sending = if conn.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
                add(Source::Pmi(number), conn.socket.as_fd(), PollFlags::IN | sending);
            }
            if let Some(feed) = rank.out.as_ref().filter(|_| !self.out.is_full()) {
                add(Source::Out(number), feed.pipe.as_fd(), PollFlags::IN);
            }
            if let Some(feed) = rank.err.as_ref().filter(|_| !self.err.is_full()) {
                add(Source::Err(number), feed.pipe.as_fd(), PollFlags::IN);
            }
        }
        for sink in [&self.out, &self.err] {
            if !sink.is_empty() {
                add(Source::Sink, sink.as_fd(), PollFlags::OUT);
            }
        }
        if let Some((fd, flags)) = self.input.interest() {
            add(Source::Input, fd, flags);
        }
        let full = self.out.is_full() || self.err.is_full();
        let more = self.machines.iter().flat_map(|machines| machines.fds(full));
        fds.extend(more.inspect(|_| sources.push(Source::Machines)));
        poll_until(&mut fds, self.next_limit())?;
        let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// Time until the next time limit, at which `turn` must run without an event.
    fn next_limit(&self) -> Duration {
        let counts = self.outcome.is_none() || matches!(self.ending, Ending::Grace(_) | Ending::Over);
        let job = self.deadline.filter(|_| counts);
        let grace = match self.ending {
            Ending::Grace(at) | Ending::Terminating(at) => Some(at),
            Ending::Killed(at) => Some(at).filter(|_| self.machines.is_some()),
            Ending::No | Ending::Over => None,
        };
        let now = Instant::now();
        let times = [job, grace].into_iter().flatten().map(|at| at.saturating_duration_since(now));
        times.chain(self.input.is_suspended().then_some(SUSPENDED)).fold(self.orphans.due_in(), Duration::min)
    }

    fn on_signal(&mut self, index: usize) {
        while let Some(signal) = self.signals.take(index) {
            if signals::is_passed_on(signal) {
                self.pass_on(signal);
                continue;
            }
            if matches!(self.ending, Ending::Grace(_)) && signal != SIGINT {
                self.terminate();
                continue;
            }
            if self.outcome.is_some() {
                self.discards_output = true;
                if signal == SIGINT {
                    self.kill();
                }
                continue;
            }
            self.end(Outcome::Signalled(signal), Some(&format!("{}: {}", signals::name(signal), self.ending())));
        }
    }

    /// Passes a signal on to the ranks. SIGTSTP then stops this process, as a shell expects; the
    /// SIGCONT that continues this process is passed on too.
    fn pass_on(&mut self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.signal_all(signal);
        }
        if signal != SIGTSTP {
            return;
        }
        // A SIGCONT that has come already would not end the stop of this process.
        if self.signals.take_of(SIGCONT) {
            self.signal_all(Signal::CONT);
        } else {
            // The only possible error is an unknown signal.
            let _ = emulate_default_handler(signal);
        }
    }

    /// Handles the lines that a rank has sent.
    fn on_pmi(&mut self, number: usize) {
        let Some(conn) = &mut self.ranks[number].pmi else {
            return;
        };
        conn.flush();
        let open = conn.receive();
        if conn.lines.overflows() && !conn.lines.has_line() {
            self.ranks[number].pmi = None;
            self.fail(number, Failure::NotPmi);
            return;
        }
        let mut replies = Replies::new();
        while let Some(line) = self.ranks[number].pmi.as_mut().and_then(|conn| conn.lines.next_line()) {
            if let Request::Abort { code, why } = self.server.line(number, &line, &mut replies) {
                self.fail(number, Failure::Abort { code, why });
            }
        }
        self.reply(replies);
        if !open {
            self.ranks[number].pmi = None;
        }
    }

    fn reply(&mut self, replies: Replies) {
        for (to, text) in replies {
            if let Some(conn) = &mut self.ranks[to].pmi {
                conn.send(&text);
            }
        }
    }

    /// Handles the end of a rank's process: its remaining lines and output first, then its status.
    fn on_end(&mut self, number: usize) {
        self.ranks[number].check();
        if let Some(status) = self.ranks[number].exit {
            self.has_ended(number, status);
        }
    }

    fn has_ended(&mut self, number: usize, status: ExitStatus) {
        self.on_pmi(number);
        forward(&mut self.ranks[number].out, &mut self.out);
        forward(&mut self.ranks[number].err, &mut self.err);
        self.server.gone(number);
        if let Some(failure) = failure_of(status, self.server.is_member(number)) {
            self.fail(number, failure);
        }
    }

    fn check_barrier(&mut self) {
        if let Some((rank, waiting)) = self.server.stuck() {
            self.fail(rank, Failure::LeftBarrier { waiting });
            let replies = self.server.break_barrier(rank);
            self.reply(replies);
        }
    }

    fn check_clock(&mut self) {
        let now = Instant::now();
        if self.outcome.is_none() && self.deadline.is_some_and(|at| at <= now) {
            let text = format!("timeout after {} s: {}", self.timeout.as_secs_f64(), self.ending());
            self.end(Outcome::TimedOut, Some(&text));
        }
        match self.ending {
            Ending::Grace(at) if at <= now || self.deadline.is_some_and(|at| at <= now) => self.terminate(),
            Ending::Terminating(at) if at <= now => self.kill(),
            Ending::Killed(at) if at <= now => self.machines.iter().for_each(Machines::give_up),
            Ending::Over => self.discards_output |= self.deadline.is_some_and(|at| at <= now),
            _ => {}
        }
    }

    fn reap_orphans(&mut self) {
        let Self { orphans, guard, machines, ranks, .. } = self;
        let machines = machines.iter().flat_map(Machines::children);
        orphans.reap(|| ranks.iter().filter_map(Rank::child).chain(machines).chain([guard.group()]).collect());
    }

    fn fail(&mut self, rank: usize, failure: Failure) {
        let explained = self.is_explained_by(&failure);
        if self.outcome.is_some() && !explained {
            return;
        }
        let pid = self.ranks[rank].pid.as_raw_nonzero().get();
        let ending = self.ending();
        let host = self.machines.as_ref().and_then(|machines| machines.host_of(rank));
        let host = host.map(|host| format!(" on {host}")).unwrap_or_default();
        let text =
            format!("rank {rank} (pid {pid}{host}) {failure}{}{ending}", if ending.is_empty() { "" } else { "; " });
        let outcome = Outcome::RankFailed { rank, pid, failure };
        if explained {
            self.err.say(&text);
            self.outcome = Some(outcome);
        } else {
            self.end(outcome, Some(&text));
        }
    }

    /// The ranks about to be ended, as text; empty where none runs.
    fn ending(&self) -> String {
        let running = self.ranks.iter().enumerate().filter(|(_, rank)| rank.exit.is_none());
        let numbers: Vec<usize> = running.map(|(number, _)| number).collect();
        match numbers.as_slice() {
            [] => String::new(),
            [one] => format!("ending rank {one}, which still runs"),
            _ => format!("ending ranks {}, which still run", intervals(&numbers)),
        }
    }

    /// Begins the end of the job. Later calls have no effect.
    fn end(&mut self, outcome: Outcome, text: Option<&str>) {
        if self.outcome.is_some() {
            return;
        }
        if let Some(text) = text {
            self.err.say(text);
        }
        let grace =
            matches!(outcome, Outcome::RankFailed { .. }).then_some(self.grace).filter(|grace| !grace.is_zero());
        self.outcome = Some(outcome);
        match grace.and_then(|grace| Instant::now().checked_add(grace)) {
            Some(at) => self.ending = Ending::Grace(at),
            None => self.terminate(),
        }
    }

    fn terminate(&mut self) {
        self.signal_all(Signal::TERM);
        self.ending = Ending::Terminating(Instant::now() + GRACE);
    }

    fn kill(&mut self) {
        self.ending = Ending::Killed(Instant::now() + GRACE);
        self.signal_all(Signal::KILL);
    }

    fn signal_all(&mut self, signal: Signal) {
        if let Some(machines) = &mut self.machines {
            machines.signal(signal);
        }
        self.guard.signal(signal);
        for rank in &self.ranks {
            rank.signal_outside(self.guard.group(), signal);
        }
    }

    fn release_all(&mut self) {
        let group = self.guard.group();
        self.ranks.iter_mut().for_each(|rank| rank.release(group));
    }

    /// After all ranks have ended: kills their remaining descendants and writes the remaining
    /// output.
    fn finish(mut self) -> Result<Outcome, Errno> {
        self.release_all();
        self.guard.end();
        self.ending = Ending::Over;
        self.machines = None;
        for rank in &mut self.ranks {
            for (feed, sink) in [(&mut rank.out, &mut self.out), (&mut rank.err, &mut self.err)] {
                drain(feed, sink);
            }
            rank.pmi = None;
        }
        self.input = Input::new(None);
        // A slow reader may take its time; a signal, or the job's time limit, ends the wait.
        while !(self.discards_output || self.out.is_empty() && self.err.is_empty()) {
            self.turn()?;
            self.discards_output |= matches!(self.outcome, Some(Outcome::Signalled(_) | Outcome::TimedOut));
        }
        self.out.flush();
        self.err.flush();
        Ok(self.outcome.clone().unwrap_or(Outcome::Success))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if self.ranks.iter().any(|rank| rank.exit.is_none()) {
            self.signal_all(Signal::KILL);
        }
        self.release_all();
    }
}

/// The failure shown by the exit status of a rank, if it is one. `is_member`: the rank has joined
/// the job and not left it.
fn failure_of(status: ExitStatus, is_member: bool) -> Option<Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => is_member.then_some(Failure::NotFinalized),
        (Some(code), _) => Some(Failure::Exit(code)),
        (None, signal) => Some(Failure::Signal { signal: signal.unwrap_or(0), core: status.core_dumped() }),
    }
}

/// `0-2, 5` for `[0, 1, 2, 5]`. The numbers ascend.
fn intervals(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

fn poll_until(fds: &mut [PollFd<'_>], limit: Duration) -> Result<(), Errno> {
    let limit = Timespec::try_from(limit).ok();
    match poll(fds, limit.as_ref()) {
        Err(Errno::INTR) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{ExitStatus, ExitStatusExt, Failure, failure_of, intervals};

    #[test]
    fn numbers_in_words() {
        assert_eq!(intervals(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(intervals(&[3]), "3");
    }

    #[test]
    fn ends_of_a_rank() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(failure_of(exit(0), false), None);
        assert_eq!(failure_of(exit(0), true), Some(Failure::NotFinalized));
        assert_eq!(failure_of(exit(3), true), Some(Failure::Exit(3)));
        assert_eq!(failure_of(ExitStatus::from_raw(9), false), Some(Failure::Signal { signal: 9, core: false }));
    }
}

//! The launcher's view of the other machines of a job. In this crate the *part* of a machine is the
//! `transom-run` there and its ranks, not a part of a window. Owns the agents that start the parts,
//! and the connections over which parts report. Never blocks; the supervisor decides.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::admission::{Admission, Admitted};
use super::guard::Guard;
use super::output::{Sink, Style};
use super::ranks::{Conn, Feed, drain, forward, keep_alive_unacknowledged};
use crate::hosts::{self, Host};
use crate::job::Job;
use crate::order::{Order, Rendezvous};
use crate::outcome::{LaunchError, UNKNOWN, io_error};
use transom::launching::{Words, from_hex};

/// The parts of a job on other machines. Drop kills the agents, and with them the parts.
#[derive(Debug)]
pub(super) struct Machines {
    guard: Guard,
    admission: Admission,
    machines: Vec<Machine>,
    /// The ranks that have connected. When all ranks and machines have, the admission ends.
    joined: BTreeSet<usize>,
    /// The signal that ends the ranks, for parts that connect later.
    signalled: Option<Signal>,
}

#[derive(Debug)]
struct Machine {
    name: String,
    ranks: Range<usize>,
    agent: Child,
    order: Sending,
    ended: OwnedFd,
    agent_ended: bool,
    /// The part has connected to this launcher, and may have disconnected since.
    connected: bool,
    part: Option<Conn>,
    out: Option<Feed>,
    err: Option<Feed>,
}

/// The pipe to the standard input of an agent, through which the order is sent. The pipe stays open
/// as long as the part may run: the part ends at the end of its input.
#[derive(Debug)]
struct Sending {
    pipe: OwnedFd,
    unsent: Vec<u8>,
}

/// An event on another machine.
#[derive(Debug)]
pub(super) enum Event {
    /// A rank has connected and is to be served.
    Joined {
        rank: usize,
        conn: Conn,
    },
    /// A rank has started on its machine with this process number.
    Started {
        rank: usize,
        pid: Pid,
    },
    Ended {
        rank: usize,
        status: ExitStatus,
    },
    /// A machine could not start all of its ranks.
    Failed {
        host: String,
        status: u8,
        why: String,
    },
    /// The agent of a machine has ended, and so has its part.
    AgentEnded {
        host: String,
        ranks: Range<usize>,
        status: ExitStatus,
    },
}

impl Machines {
    /// Starts the agents and sends each its order.
    pub(super) fn start(job: &Job) -> Result<Self, LaunchError> {
        let room = job.hosts.iter().map(|host| host.slots).sum();
        let parts = hosts::place(&job.hosts, job.size).ok_or(LaunchError::NoRoom { size: job.size, room })?;
        let names = job.hosts.iter().zip(&parts).filter(|(_, ranks)| !ranks.is_empty());
        let members = job.size + job.hosts.len();
        let admission = Admission::open(names.map(|(host, _)| host.name.to_string_lossy().into_owned()), members)
            .map_err(io_error("listening for ranks"))?;
        let addresses = admission.addresses().map_err(io_error("listening for ranks"))?;
        let rendezvous = Rendezvous { addresses, secret: admission.secret().to_owned() };
        let guard = Guard::start().map_err(io_error("forking the guard"))?;
        let (joined, signalled) = (BTreeSet::new(), None);
        let mut all = Self { guard, admission, machines: Vec::new(), joined, signalled };
        let folder = std::env::current_dir().map_err(io_error("the folder of this process"))?;
        let mut sent = job.clone();
        sent.env.splice(0..0, passed());
        for (number, (host, ranks)) in
            job.hosts.iter().zip(parts).enumerate().filter(|(_, (_, ranks))| !ranks.is_empty())
        {
            let (rendezvous, folder) = (rendezvous.clone(), folder.clone());
            let order = Order { job: sent.clone(), ranks, host: number, rendezvous, folder };
            let machine = Machine::start(host, &order, all.guard.group())?;
            all.machines.push(machine);
        }
        Ok(all)
    }

    /// The number of ranks of each machine.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.machines.iter().map(|machine| machine.ranks.len()).collect()
    }

    /// The machine of a rank.
    pub(super) fn host_of(&self, rank: usize) -> Option<&str> {
        self.machines.iter().find(|machine| machine.ranks.contains(&rank)).map(|machine| machine.name.as_str())
    }

    /// Whether an agent still runs.
    pub(super) fn are_running(&self) -> bool {
        self.machines.iter().any(|machine| !machine.agent_ended)
    }

    /// The children of this process that serve the machines: the guard and the agents.
    pub(super) fn children(&self) -> impl Iterator<Item = Pid> {
        let agents = self.machines.iter().map(|machine| Pid::from_child(&machine.agent));
        agents.chain([self.guard.group()])
    }

    /// The descriptors to poll. Output is not read while the sinks are full.
    pub(super) fn fds(&self, full: bool) -> Vec<PollFd<'_>> {
        let mut fds: Vec<_> = self.admission.fds().collect();
        for machine in &self.machines {
            if !machine.agent_ended {
                fds.push(PollFd::from_borrowed_fd(machine.ended.as_fd(), PollFlags::IN));
            }
            fds.extend(machine.order.interest());
            fds.extend(machine.part.iter().map(Conn::interest));
            let feeds = [&machine.out, &machine.err].into_iter().flatten().filter(|_| !full);
            fds.extend(feeds.map(|feed| PollFd::from_borrowed_fd(feed.pipe.as_fd(), PollFlags::IN)));
        }
        fds
    }

    /// Handles all arrived bytes.
    pub(super) fn turn(&mut self, out: &mut Sink, err: &mut Sink) -> Vec<Event> {
        let mut events = Vec::new();
        for member in self.admission.turn() {
            self.admit(member, &mut events);
        }
        for machine in &mut self.machines {
            machine.turn(&mut events, out, err);
        }
        events
    }

    /// Sends `signal` to the ranks of all parts.
    pub(super) fn signal(&mut self, signal: Signal) {
        if [Signal::TERM, Signal::KILL].contains(&signal) {
            self.signalled = Some(signal);
        }
        for part in self.machines.iter_mut().filter_map(|machine| machine.part.as_mut()) {
            part.send(&order_to(signal));
        }
    }

    /// Kills the agents, at whose end the parts end.
    pub(super) fn give_up(&self) {
        self.guard.signal(Signal::KILL);
    }

    /// Admits a connection that sent the secret: a rank, or the part of a machine. Any other line
    /// drops it.
    fn admit(&mut self, Admitted { mut conn, line }: Admitted, events: &mut Vec<Event>) {
        let words = Words::new(&line);
        let number = |key| words.get(key).and_then(|number| number.parse::<usize>().ok());
        if let Some(rank) = number("pmiid").filter(|&rank| self.host_of(rank).is_some()) {
            let size: usize = self.sizes().iter().sum();
            conn.send(&format!("cmd=initack rc=0\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n"));
            events.push(Event::Joined { rank, conn });
            self.joined.insert(rank);
        } else if let Some(machine) = number("host").and_then(|host| self.machines.get_mut(host)) {
            if let Some(signal) = self.signalled {
                conn.send(&order_to(signal));
            }
            // Without this option the end of the machine is noticed late, but all else works.
            let _ = keep_alive_unacknowledged(&conn.socket);
            machine.part = Some(conn);
            machine.connected = true;
        }
        let ranks: usize = self.sizes().iter().sum();
        if self.joined.len() == ranks && self.machines.iter().all(|machine| machine.connected) {
            self.admission.close();
        }
    }
}

impl Machine {
    fn start(host: &Host, order: &Order, group: Pid) -> Result<Self, LaunchError> {
        let words = hosts::agent(&order.job.agent, &host.name, &order.job.launcher);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(group.as_raw_nonzero().get());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let agent = order.job.agent.clone();
        let mut child = command.spawn().map_err(|source| LaunchError::Agent { agent, source })?;
        let piped = "a pipe was requested above";
        let input = child.stdin.take().expect(piped).into();
        let sending = Sending::start(input, order.encode()).map_err(io_error("an agent's standard input"))?;
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(io_error("watching an agent"))?;
        // Lines are cut and tagged on the other machine.
        let feed =
            |pipe: OwnedFd| Feed::new(pipe, order.ranks.start, Style::Lines).map_err(io_error("watching an agent"));
        let out = feed(child.stdout.take().expect(piped).into())?;
        let err = feed(child.stderr.take().expect(piped).into())?;
        let (name, ranks) = (host.name.to_string_lossy().into_owned(), order.ranks.clone());
        let (out, err) = (Some(out), Some(err));
        Ok(Self {
            name,
            ranks,
            agent: child,
            order: sending,
            ended,
            agent_ended: false,
            connected: false,
            part: None,
            out,
            err,
        })
    }

    fn turn(&mut self, events: &mut Vec<Event>, out: &mut Sink, err: &mut Sink) {
        let unknown = ExitStatus::from_raw(UNKNOWN);
        // Read before the reports, so that no report can follow the status.
        let status = if self.agent_ended { None } else { self.agent.try_wait().unwrap_or(Some(unknown)) };
        self.order.flush();
        forward(&mut self.out, out);
        forward(&mut self.err, err);
        if let Some(mut part) = self.part.take() {
            part.flush();
            let (open, mut done) = (part.receive(), false);
            while let Some(line) = part.lines.next_line() {
                let words = Words::new(&line);
                // The part waits for the end of the connection, so that no report comes after the
                // agent's end.
                done |= words.get("cmd") == Some("done");
                events.extend(event(&self.name, &self.ranks, words));
            }
            if open && !done {
                self.part = Some(part);
            } else if !done {
                // The machine may have vanished. Its agent does not always notice that.
                let _ = self.agent.kill();
            }
        }
        if let Some(status) = status {
            self.agent_ended = true;
            for (feed, sink) in [(&mut self.out, out), (&mut self.err, err)] {
                drain(feed, sink);
            }
            events.push(Event::AgentEnded { host: self.name.clone(), ranks: self.ranks.clone(), status });
        }
    }
}

impl Sending {
    /// Begins to send `order`. The pipe takes 64 KiB before the agent reads, and `flush` sends the
    /// rest.
    fn start(pipe: OwnedFd, order: String) -> rustix::io::Result<Self> {
        ioctl_fionbio(&pipe, true)?;
        let mut sending = Self { pipe, unsent: order.into_bytes() };
        sending.flush();
        Ok(sending)
    }

    /// The descriptor to poll while bytes are unsent.
    fn interest(&self) -> Option<PollFd<'_>> {
        (!self.unsent.is_empty()).then(|| PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::OUT))
    }

    /// Sends as much as the pipe takes.
    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match rustix::io::write(&self.pipe, &self.unsent) {
                // The copy is cheap enough: a job has only as many orders as machines.
                Ok(sent) => self.unsent = self.unsent.split_off(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // An agent that does not read its order ends, and its end is handled.
                Err(_) => self.unsent = Vec::new(),
            }
        }
    }
}

/// The event of a part's report.
fn event(host: &str, ranks: &Range<usize>, words: Words<'_>) -> Option<Event> {
    let number = |key| words.get(key).and_then(|number| number.parse::<i32>().ok());
    let rank = || number("rank").and_then(|rank| usize::try_from(rank).ok()).filter(|rank| ranks.contains(rank));
    match words.get("cmd")? {
        "started" => Some(Event::Started { rank: rank()?, pid: Pid::from_raw(number("pid")?)? }),
        "ended" => Some(Event::Ended { rank: rank()?, status: ExitStatus::from_raw(number("status")?) }),
        "failed" => {
            let why = words.get("why").and_then(from_hex).unwrap_or_default();
            let status = number("status").and_then(|status| u8::try_from(status).ok()).unwrap_or(1);
            Some(Event::Failed { host: host.to_owned(), status, why: String::from_utf8_lossy(&why).into_owned() })
        }
        _ => None,
    }
}

fn order_to(signal: Signal) -> String {
    format!("cmd=signal number={}\n", signal.as_raw())
}

/// The variables that are passed to other machines by default.
fn passed() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| transom::launching::passes(name)).collect()
}

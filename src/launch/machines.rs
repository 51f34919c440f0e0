//! The launcher's end of a job's parts on other machines: the agents that lead there, who may join by the network, and what the parts
//! tell of their ranks. It never blocks, and decides nothing.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::guard::Guard;
use super::hosts::{self, Host, Meeting, Order};
use super::output::{Sink, Style};
use super::ranks::{Conn, Feed};
use super::supervise::forward;
use super::{Job, LaunchError, io_error, remote};
use crate::bootstrap::wire::{Words, from_hex, to_hex};
use crate::interfaces;

/// As many that have not said who they are may be connected at once.
const STRANGERS: usize = 256;

/// The parts of a job on other machines. Dropping it kills the agents, and with them what they lead to.
#[derive(Debug)]
pub(super) struct Machines {
    guard: Guard,
    listener: TcpListener,
    secret: String,
    strangers: Vec<Conn>,
    machines: Vec<Machine>,
    /// What all were told to do last, for those that join later.
    signalled: Option<Signal>,
}

#[derive(Debug)]
struct Machine {
    name: String,
    ranks: Range<usize>,
    agent: Child,
    /// Its end is that of the part.
    _order: ChildStdin,
    ended: OwnedFd,
    left: bool,
    part: Option<Conn>,
    out: Option<Feed>,
    err: Option<Feed>,
}

/// What happened on other machines.
#[derive(Debug)]
pub(super) enum Event {
    /// A rank has connected to be served.
    Joined {
        rank: usize,
        conn: Conn,
    },
    /// A rank runs there under this number.
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
    /// The agent of a machine is gone, and all that it led to.
    Left {
        host: String,
        ranks: Range<usize>,
        status: ExitStatus,
    },
}

impl Machines {
    /// Starts the agents and gives each its order.
    pub(super) fn start(job: &Job) -> Result<Self, LaunchError> {
        let room = job.hosts.iter().map(|host| host.slots).sum();
        let parts = hosts::place(&job.hosts, job.size).ok_or(LaunchError::NoRoom { size: job.size, room })?;
        let listener = listen().map_err(io_error("listening for ranks"))?;
        let secret = secret().map_err(io_error("/dev/urandom"))?;
        let heads = addresses(&listener).map_err(io_error("listening for ranks"))?;
        let meeting = Meeting { heads, secret: secret.clone() };
        let guard = Guard::start().map_err(io_error("forking the guard"))?;
        let (strangers, signalled) = (Vec::new(), None);
        let mut all = Self { guard, listener, secret, strangers, machines: Vec::new(), signalled };
        let folder = std::env::current_dir().map_err(io_error("the folder of this process"))?;
        let mut sent = job.clone();
        sent.env.splice(0..0, passed());
        for (number, (host, ranks)) in
            job.hosts.iter().zip(parts).enumerate().filter(|(_, (_, ranks))| !ranks.is_empty())
        {
            let (meeting, folder) = (meeting.clone(), folder.clone());
            let order = Order { job: sent.clone(), ranks, host: number, meeting, folder };
            let machine = Machine::start(host, &order, all.guard.group())?;
            all.machines.push(machine);
        }
        Ok(all)
    }

    /// How many ranks each machine has.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.machines.iter().map(|machine| machine.ranks.len()).collect()
    }

    /// The machine of a rank.
    pub(super) fn host_of(&self, rank: usize) -> Option<&str> {
        self.machines.iter().find(|machine| machine.ranks.contains(&rank)).map(|machine| machine.name.as_str())
    }

    /// Whether an agent still runs.
    pub(super) fn are_here(&self) -> bool {
        self.machines.iter().any(|machine| !machine.left)
    }

    /// What to poll. Output is left where it is while it has nowhere to go.
    pub(super) fn fds(&self, full: bool) -> Vec<PollFd<'_>> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        fds.extend(self.strangers.iter().map(Conn::interest));
        for machine in &self.machines {
            if !machine.left {
                fds.push(PollFd::from_borrowed_fd(machine.ended.as_fd(), PollFlags::IN));
            }
            fds.extend(machine.part.iter().map(Conn::interest));
            let feeds = [&machine.out, &machine.err].into_iter().flatten().filter(|_| !full);
            fds.extend(feeds.map(|feed| PollFd::from_borrowed_fd(feed.pipe.as_fd(), PollFlags::IN)));
        }
        fds
    }

    /// Takes all that has arrived.
    pub(super) fn turn(&mut self, out: &mut Sink, err: &mut Sink) -> Vec<Event> {
        let mut events = Vec::new();
        self.accept();
        self.meet_strangers(&mut events);
        for machine in &mut self.machines {
            machine.turn(&mut events, out, err);
        }
        events
    }

    /// Has the ranks of all parts signalled.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.signalled = Some(signal);
        for part in self.machines.iter_mut().filter_map(|machine| machine.part.as_mut()) {
            part.send(&order_to(signal));
        }
    }

    /// Kills the agents: the parts end as they see that.
    pub(super) fn give_up(&self) {
        self.guard.signal(Signal::KILL);
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let socket = OwnedFd::from(stream);
            if let (Ok(()), Ok(conn)) = (remote::keep_alive(&socket), socket.try_clone().map(Conn::new)) {
                self.strangers.extend(conn.ok());
            }
        }
        let surplus = self.strangers.len().saturating_sub(STRANGERS);
        self.strangers.drain(..surplus);
    }

    /// Lets those in that know the secret; who does not, or says something else, is left standing.
    fn meet_strangers(&mut self, events: &mut Vec<Event>) {
        for mut conn in std::mem::take(&mut self.strangers) {
            let open = conn.receive();
            let Some(line) = conn.lines.next_line() else {
                if open && !conn.lines.overflows() {
                    self.strangers.push(conn);
                }
                continue;
            };
            let words = Words::new(&line);
            if !words.get("secret").is_some_and(|told| same(told, &self.secret)) {
                continue;
            }
            let number = |key| words.get(key).and_then(|number| number.parse::<usize>().ok());
            if let Some(rank) = number("pmiid").filter(|&rank| self.host_of(rank).is_some()) {
                let size: usize = self.sizes().iter().sum();
                conn.send(&format!("cmd=initack rc=0\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n"));
                events.push(Event::Joined { rank, conn });
            } else if let Some(machine) = number("host").and_then(|host| self.machines.get_mut(host)) {
                if let Some(signal) = self.signalled {
                    conn.send(&order_to(signal));
                }
                machine.part = Some(conn);
            }
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
        let piped = "asked for above";
        let mut input = child.stdin.take().expect(piped);
        // An agent that does not take it ends, which is seen as that.
        let _ = input.write_all(order.encode().as_bytes());
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(io_error("watching an agent"))?;
        // Lines are cut, and told apart, on the other machine.
        let feed =
            |pipe: OwnedFd| Feed::new(pipe, order.ranks.start, Style::Lines).map_err(io_error("watching an agent"));
        let out = feed(child.stdout.take().expect(piped).into())?;
        let err = feed(child.stderr.take().expect(piped).into())?;
        let (name, ranks) = (host.name.clone(), order.ranks.clone());
        let (out, err) = (Some(out), Some(err));
        Ok(Self { name, ranks, agent: child, _order: input, ended, left: false, part: None, out, err })
    }

    fn turn(&mut self, events: &mut Vec<Event>, out: &mut Sink, err: &mut Sink) {
        // Before what was said, so that nothing is said after it.
        let status = if self.left { None } else { self.agent.try_wait().ok().flatten() };
        forward(&mut self.out, out);
        forward(&mut self.err, err);
        if let Some(mut part) = self.part.take() {
            part.flush();
            let (open, mut done) = (part.receive(), false);
            while let Some(line) = part.lines.next_line() {
                let words = Words::new(&line);
                // It waits for the end of the connection, so that nothing of it comes later than the agent's end.
                done |= words.get("cmd") == Some("done");
                events.extend(event(&self.name, &self.ranks, words));
            }
            if open && !done {
                self.part = Some(part);
            } else if !done {
                // The machine may be gone with it, which its agent need not notice.
                let _ = self.agent.kill();
            }
        }
        if let Some(status) = status {
            self.left = true;
            for (feed, sink) in [(&mut self.out, out), (&mut self.err, err)] {
                if let Some(mut feed) = feed.take() {
                    feed.finish(sink);
                }
            }
            events.push(Event::Left { host: self.name.clone(), ranks: self.ranks.clone(), status });
        }
    }
}

/// What a part tells.
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

fn listen() -> io::Result<TcpListener> {
    let both = (IpAddr::from(Ipv6Addr::UNSPECIFIED), 0);
    let listener = TcpListener::bind(both).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Where other machines may reach the listener, and last where this one does.
fn addresses(listener: &TcpListener) -> io::Result<Vec<SocketAddr>> {
    let at = listener.local_addr()?;
    let known = interfaces::own(None).unwrap_or_default().into_iter().map(|one| one.address);
    let all = known.chain([Ipv4Addr::LOCALHOST.into()]).filter(|address| at.is_ipv6() || address.is_ipv4());
    Ok(all.map(|address| SocketAddr::new(address, at.port())).collect())
}

fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(to_hex(&bytes))
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(told: &str, secret: &str) -> bool {
    told.len() == secret.len() && told.bytes().zip(secret.bytes()).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

/// The variables that go to other machines without being asked for.
fn passed() -> Vec<(OsString, OsString)> {
    let ours = |name: &str| name.starts_with("TRANSOM_") && !crate::settings::FROM_LAUNCHER.contains(&name);
    let passes = |name: &OsString| name.to_str().is_some_and(|name| ours(name) || name.starts_with("FI_"));
    std::env::vars_os().filter(|(name, _)| passes(name)).collect()
}

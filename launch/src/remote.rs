//! A machine's part of a job: `transom-run --remote`, which an agent starts on the machine. It
//! reads its order from standard input, starts the ranks, reports their ends to the launcher,
//! forwards their output, and sends them the signals that the launcher requests. The launcher makes
//! all decisions. When the launcher or the agent has ended, the guard ends the ranks.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::stdio::{stderr, stdin, stdout};

use super::guard::Guard;
use super::orphans::Orphans;
use super::output::{Sink, duplicate};
use super::ranks::{Conn, Rank, drain, forward, keep_alive, keep_alive_unacknowledged};
use crate::bind::{self, Claim, Places};
use crate::order::{Order, Rendezvous};
use crate::outcome::{LaunchError, io_error};
use crate::{descriptors, signals};
use transom::launching::{Words, cpu_quota, to_hex};

/// Time limit of a connection to one address of the launcher.
const PATIENCE: Duration = Duration::from_secs(4);

/// Reads an order from standard input and executes it; returns the exit status.
///
/// # Errors
/// No order arrives, or the launcher can't be reached from here.
pub fn serve() -> Result<u8, LaunchError> {
    let order = Order::read(stdin_of_agent().map_err(io_error("the order"))?).map_err(io_error("the order"))?;
    let (launcher, at) = connect(&order.rendezvous)?;
    signals::keep_statuses_of_children().map_err(io_error("watching signals"))?;
    let mut part = Part {
        guard: Guard::start().map_err(io_error("forking the guard"))?,
        launcher: Conn::new(launcher).map_err(io_error("the launcher's connection"))?,
        first: order.ranks.start,
        ranks: Vec::new(),
        places: None,
        orphans: Orphans::new(),
        out: Sink::new(duplicate(stdout()).map_err(io_error("standard output"))?),
        err: Sink::new(duplicate(stderr()).map_err(io_error("standard error"))?),
    };
    part.launcher.send(&format!("cmd=join host={} secret={}\n", order.host, order.rendezvous.secret));
    if let Err(error) = part.start(order, at) {
        part.launcher.send(&format!(
            "cmd=failed status={} why={}\n",
            error.status(),
            to_hex(transom::diagnostics::chain(&error).as_bytes())
        ));
    }
    part.run().map_err(io_error("poll"))
}

fn stdin_of_agent() -> io::Result<std::fs::File> {
    Ok(duplicate(stdin())?.into())
}

/// Connects to the launcher at the first of its addresses that answers; returns that address too.
fn connect(rendezvous: &Rendezvous) -> Result<(OwnedFd, String), LaunchError> {
    let mut tried = Vec::new();
    for address in &rendezvous.addresses {
        match TcpStream::connect_timeout(address, PATIENCE) {
            Ok(stream) => {
                let stream = stream.into();
                // Without these options the end of the launcher's machine is noticed late, but all
                // else works.
                let _ = keep_alive(&stream).and_then(|()| keep_alive_unacknowledged(&stream));
                return Ok((stream, address.to_string()));
            }
            Err(error) => tried.push(format!("{address}: {error}")),
        }
    }
    Err(LaunchError::Unmet { tried: tried.join("; ") })
}

/// The ranks of this part. Drop kills them.
#[derive(Debug)]
struct Part {
    guard: Guard,
    launcher: Conn,
    first: usize,
    ranks: Vec<Rank>,
    /// The CPUs of the ranks, where they are bound.
    places: Option<Places>,
    orphans: Orphans,
    out: Sink,
    err: Sink,
}

impl Part {
    fn start(&mut self, order: Order, at: String) -> Result<(), LaunchError> {
        let Order { mut job, ranks, rendezvous, folder, .. } = order;
        descriptors::raise_limit(ranks.len(), descriptors::of_ranks(ranks.len()))?;
        std::env::set_current_dir(&folder).map_err(|source| LaunchError::Folder { folder, source })?;
        self.places = bind::plan(job.bind, ranks.len(), &bind::allowed_cpus(), cpu_quota(), Claim::of);
        job.rendezvous = Some((at, rendezvous.secret));
        for rank in ranks {
            let cpu = self.places.as_ref().map(|places| places.cpus[rank - self.first]);
            let started = Rank::start(&job, rank, self.guard.group(), cpu)?;
            let pid = started.pid.as_raw_nonzero();
            self.ranks.push(started);
            self.launcher.send(&format!("cmd=started rank={rank} pid={pid}\n"));
        }
        Ok(())
    }

    /// Serves until the ends of all ranks are reported, or the launcher has ended.
    fn run(mut self) -> Result<u8, Errno> {
        while self.ranks.iter().any(|rank| rank.exit.is_none()) {
            if !self.turn()? {
                return Ok(1);
            }
        }
        self.release_all();
        self.guard.end();
        for rank in &mut self.ranks {
            for (feed, sink) in [(&mut rank.out, &mut self.out), (&mut rank.err, &mut self.err)] {
                drain(feed, sink);
            }
        }
        // The agent may be a slow reader; if it is gone, the write fails and the buffers empty.
        while !(self.out.is_empty() && self.err.is_empty()) {
            if !self.turn()? {
                return Ok(1);
            }
        }
        self.launcher.send("cmd=done\n");
        while self.turn()? {}
        Ok(0)
    }

    /// Waits for events and handles all of them; `false` where launcher or agent is gone.
    fn turn(&mut self) -> Result<bool, Errno> {
        let mut fds = vec![PollFd::from_borrowed_fd(stdin(), PollFlags::IN), self.launcher.interest()];
        let full = self.out.is_full() || self.err.is_full();
        for rank in &self.ranks {
            let feeds = [&rank.out, &rank.err].into_iter().flatten().filter(|_| !full);
            fds.extend(feeds.map(|feed| PollFd::from_borrowed_fd(feed.pipe.as_fd(), PollFlags::IN)));
            let ended = rank.ended.iter().filter(|_| rank.exit.is_none());
            fds.extend(ended.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        }
        let sinks = [&self.out, &self.err].into_iter().filter(|sink| !sink.is_empty());
        fds.extend(sinks.map(|sink| PollFd::from_borrowed_fd(sink.as_fd(), PollFlags::OUT)));
        match poll(&mut fds, self.orphans.due_in().try_into().ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        // No bytes follow an order, so readable input means its end.
        let agent_left = !fds[0].revents().is_empty();
        drop(fds);
        self.launcher.flush();
        let here = self.launcher.receive();
        self.handle_signals();
        self.report_ended_ranks();
        let Self { orphans, guard, ranks, .. } = self;
        orphans.reap(|| ranks.iter().filter_map(Rank::child).chain([guard.group()]).collect());
        self.out.flush();
        self.err.flush();
        Ok(here && !agent_left)
    }

    fn handle_signals(&mut self) {
        while let Some(line) = self.launcher.lines.next_line() {
            let number = Words::new(&line).get("number").and_then(|number| number.parse().ok());
            if let Some(signal) = number.and_then(Signal::from_named_raw) {
                self.guard.signal(signal);
                self.ranks.iter().for_each(|rank| rank.signal_outside(self.guard.group(), signal));
            }
        }
    }

    fn release_all(&mut self) {
        let group = self.guard.group();
        self.ranks.iter_mut().for_each(|rank| rank.release(group));
    }

    fn report_ended_ranks(&mut self) {
        for (at, rank) in self.ranks.iter_mut().enumerate() {
            let ran = rank.exit.is_none();
            rank.check();
            forward(&mut rank.out, &mut self.out);
            forward(&mut rank.err, &mut self.err);
            if let Some(status) = rank.exit.filter(|_| ran) {
                self.launcher.send(&format!("cmd=ended rank={} status={}\n", self.first + at, status.into_raw()));
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.guard.signal(Signal::KILL);
        self.ranks.iter().for_each(|rank| rank.signal_outside(self.guard.group(), Signal::KILL));
        self.release_all();
    }
}

//! The end of a failure detector's connections that shows a process's life: a listener whose
//! connections stay open until the process ends. A thread accepts them and sleeps otherwise, so
//! that they cost no CPU. A rank sends the listener's token and is answered. Connections of
//! strangers are closed after [`PATIENCE`], and earlier if there are many, so that ranks can always
//! connect. Must not know what ranks conclude from a connection.

use std::collections::VecDeque;
use std::io::PipeWriter;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, bind, getsockname, listen, recv, send};
use rustix::process::{Resource, getrlimit};
use transom_fabric::secret;

use super::connections::tcp;

/// The bytes of a listener's token.
const LENGTH: usize = 16;
/// The time that a connection has for its token.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause where the process has no descriptor for a waiting connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The random bytes by which a listener knows the ranks of its job.
pub(crate) type Token = [u8; LENGTH];

/// The listening socket by which others detect this process's death.
#[derive(Debug)]
pub(crate) struct Beacon {
    /// The address to which others connect.
    pub(crate) at: SocketAddr,
    pub(crate) token: Token,
    /// The end of this pipe ends the thread.
    _life: PipeWriter,
}

impl Beacon {
    /// Listens at an address of this machine.
    pub(crate) fn light(address: IpAddr) -> std::io::Result<Beacon> {
        let token = secret::bytes().map_err(std::io::Error::other)?;
        let socket = tcp(address)?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        // As many waiting connections as the kernel allows (net.core.somaxconn).
        listen(&socket, i32::MAX)?;
        let at = SocketAddr::try_from(getsockname(&socket)?)?;
        let (end, life) = std::io::pipe()?;
        let doors = Doors { socket, token, strangers: VecDeque::new(), ranks: Vec::new(), most: most_strangers() };
        let thread = std::thread::Builder::new().name("transom-beacon".into());
        thread.spawn(move || doors.serve(&end.into()))?;
        Ok(Beacon { at, token, _life: life })
    }
}

/// The most connections without a token: few, where the process may have few descriptors.
fn most_strangers() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 16).unwrap_or(usize::MAX).clamp(4, 64)
}

/// The state of the thread that accepts.
struct Doors {
    socket: OwnedFd,
    token: Token,
    /// Connections that have not sent the token, the oldest first.
    strangers: VecDeque<Stranger>,
    /// Connections of ranks, kept until the ranks close them.
    ranks: Vec<OwnedFd>,
    most: usize,
}

struct Stranger {
    socket: OwnedFd,
    since: Instant,
    sent: Vec<u8>,
}

/// The state of a connection.
#[derive(PartialEq, Eq)]
enum Proof {
    /// The token is not complete.
    Missing,
    Given,
    /// The connection is closed, or has sent other data.
    Wrong,
}

impl Doors {
    /// Serves connections until the other end of the pipe is closed.
    fn serve(mut self, end: &OwnedFd) {
        let mut pause = false;
        loop {
            let Some(ready) = self.wait(end, pause) else { return };
            let mut asked = ready.iter().skip(1);
            let strangers = std::mem::take(&mut self.strangers);
            for stranger in strangers {
                self.read_stranger(stranger, *asked.next().unwrap_or(&false));
            }
            self.ranks.retain(|_| !asked.next().unwrap_or(&false));
            pause = !self.accept();
        }
    }

    /// Sleeps until a connection needs service. Returns those that do, the listener first; `None`
    /// at the end of the job. With `pause` the listener is left alone for [`PAUSE`].
    fn wait(&self, end: &OwnedFd, pause: bool) -> Option<Vec<bool>> {
        let oldest = self.strangers.front().map(|stranger| PATIENCE.saturating_sub(stranger.since.elapsed()));
        let limit = if pause { Some(oldest.map_or(PAUSE, |oldest| oldest.min(PAUSE))) } else { oldest };
        let limit = limit.and_then(|limit| Timespec::try_from(limit + Duration::from_millis(1)).ok());
        let listens = if pause { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(end, PollFlags::IN), PollFd::new(&self.socket, listens)];
        fds.extend(self.strangers.iter().map(|stranger| PollFd::new(&stranger.socket, PollFlags::IN)));
        fds.extend(self.ranks.iter().map(|rank| PollFd::from_borrowed_fd(rank.as_fd(), PollFlags::RDHUP)));
        match poll(&mut fds, limit.as_ref()) {
            Err(Errno::INTR | Errno::NOMEM) => Some(Vec::new()),
            Err(_) => None,
            Ok(_) if !fds[0].revents().is_empty() => None,
            Ok(_) => Some(fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect()),
        }
    }

    /// Reads from a connection if it is `ready`, and keeps it, as a rank's or as a stranger's, or
    /// closes it.
    fn read_stranger(&mut self, mut stranger: Stranger, ready: bool) {
        let proof = if ready { stranger.proof(&self.token) } else { Proof::Missing };
        match proof {
            // The answer fits into the buffer of a new connection.
            Proof::Given if send(&stranger.socket, &[1], SendFlags::NOSIGNAL) == Ok(1) => {
                self.ranks.push(stranger.socket);
            }
            Proof::Missing if stranger.since.elapsed() < PATIENCE => self.strangers.push_back(stranger),
            _ => {}
        }
    }

    /// Accepts all waiting connections. Returns `false` where the process has no descriptor for it.
    fn accept(&mut self) -> bool {
        // A flood does not keep the thread from those that were accepted.
        for _ in 0..self.most {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.read_stranger(Stranger { socket, since: Instant::now(), sent: Vec::new() }, true);
                    if self.strangers.len() > self.most {
                        self.strangers.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    if self.strangers.pop_front().is_none() {
                        return false;
                    }
                }
                // The connection failed before it was accepted.
                Err(_) => {}
            }
        }
        true
    }
}

impl Stranger {
    fn proof(&mut self, token: &Token) -> Proof {
        let mut bytes = [0; LENGTH];
        match recv(&self.socket, &mut bytes[self.sent.len()..], RecvFlags::empty()) {
            Ok((_, 0)) => Proof::Wrong,
            Ok((_, count)) => {
                self.sent.extend(&bytes[self.sent.len()..][..count]);
                match &self.sent[..] {
                    sent if sent == token => Proof::Given,
                    sent if sent.len() == LENGTH => Proof::Wrong,
                    _ => Proof::Missing,
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => Proof::Missing,
            Err(_) => Proof::Wrong,
        }
    }
}

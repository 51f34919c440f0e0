//! The listening end of the failure detector between machines. Its connections stay open until the
//! process ends, when its kernel closes them. A thread accepts connections and sleeps otherwise, so
//! that the connections cost no CPU time. A rank sends the listener's token and gets an answer.
//! Connections of strangers are closed after [`IDENTIFICATION_LIMIT`], and earlier if there are
//! many of them, so that ranks can always connect. Independent of the conclusions that ranks draw
//! from a connection.

use std::collections::VecDeque;
use std::io::PipeWriter;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, bind, getsockname, listen, recv, send};
use rustix::process::{Resource, getrlimit};
use transom_fabric::{secret, threads};

use super::above;
use super::connections::tcp;
use super::polling::poll_all;

/// The bytes of a listener's token.
const LENGTH: usize = 16;
/// The time in which a connection must send the token.
const IDENTIFICATION_LIMIT: Duration = Duration::from_secs(2);
/// The pause after an accept that failed because the process has no free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// The random bytes by which a listener recognizes the ranks of its job.
pub(crate) type Token = [u8; LENGTH];

/// The listening socket by which others detect this process's death.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address to which others connect.
    pub(crate) at: SocketAddr,
    pub(crate) token: Token,
    /// The drop of this end of a pipe stops the thread.
    _stop: PipeWriter,
}

impl Listener {
    /// Listens at an address of this machine.
    pub(crate) fn open(address: IpAddr) -> std::io::Result<Listener> {
        let token = secret::bytes().map_err(std::io::Error::other)?;
        let socket = tcp(address)?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        // As many waiting connections as the kernel allows (net.core.somaxconn).
        listen(&socket, i32::MAX)?;
        let at = SocketAddr::try_from(getsockname(&socket)?)?;
        let (end, stop) = std::io::pipe()?;
        let acceptor =
            Acceptor { socket, token, strangers: VecDeque::new(), ranks: Vec::new(), most: most_strangers() };
        threads::spawn("transom-listener", move || acceptor.serve(&end.into()))?;
        Ok(Listener { at, token, _stop: stop })
    }
}

/// The most connections without a token: few, where the process may have few descriptors.
fn most_strangers() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 16).unwrap_or(usize::MAX).clamp(4, 64)
}

/// The state of the thread that accepts connections.
struct Acceptor {
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

/// What a connection has sent so far.
#[derive(PartialEq, Eq)]
enum Received {
    /// A part of the token, or nothing.
    Part,
    Token,
    /// The connection is closed, or has sent other data.
    Other,
}

impl Acceptor {
    /// Serves connections until the other end of the pipe is closed.
    fn serve(mut self, end: &OwnedFd) {
        let mut pause = false;
        loop {
            let Some(ready) = self.wait(end, pause) else { return };
            let mut ready_connections = ready.iter().skip(1);
            let strangers = std::mem::take(&mut self.strangers);
            for stranger in strangers {
                self.read_stranger(stranger, *ready_connections.next().unwrap_or(&false));
            }
            self.ranks.retain(|_| !ready_connections.next().unwrap_or(&false));
            pause = !self.accept();
        }
    }

    /// Sleeps until a connection is ready or has exceeded its time. Returns for each descriptor
    /// whether it is ready, the listener first; `None` at the end of the job. With `pause` no
    /// connection is accepted for [`PAUSE`].
    fn wait(&self, end: &OwnedFd, pause: bool) -> Option<Vec<bool>> {
        let oldest =
            self.strangers.front().map(|stranger| IDENTIFICATION_LIMIT.saturating_sub(stranger.since.elapsed()));
        let limit = if pause { Some(oldest.map_or(PAUSE, |oldest| oldest.min(PAUSE))) } else { oldest };
        let listens = if pause { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(end, PollFlags::IN), PollFd::new(&self.socket, listens)];
        fds.extend(self.strangers.iter().map(|stranger| PollFd::new(&stranger.socket, PollFlags::IN)));
        fds.extend(self.ranks.iter().map(|rank| PollFd::from_borrowed_fd(rank.as_fd(), PollFlags::RDHUP)));
        poll_all(&mut fds, limit.map(|limit| limit + Duration::from_millis(1)));
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        (ready.next() == Some(false)).then(|| ready.collect())
    }

    /// Reads from a connection if it is `ready`. Then keeps it, as the connection of a rank or of a
    /// stranger, or closes it.
    fn read_stranger(&mut self, mut stranger: Stranger, ready: bool) {
        let received = if ready { stranger.received(&self.token) } else { Received::Part };
        match received {
            // The answer fits into the buffer of a new connection.
            Received::Token if send(&stranger.socket, &[1], SendFlags::NOSIGNAL) == Ok(1) => {
                self.ranks.push(stranger.socket);
            }
            Received::Part if stranger.since.elapsed() < IDENTIFICATION_LIMIT => self.strangers.push_back(stranger),
            _ => {}
        }
    }

    /// Accepts all waiting connections. Returns `false` where the process has no descriptor for it.
    fn accept(&mut self) -> bool {
        // Bounded, so that a flood does not keep the thread from the accepted connections.
        for _ in 0..self.most {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).and_then(above) {
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
    fn received(&mut self, token: &Token) -> Received {
        let mut bytes = [0; LENGTH];
        match recv(&self.socket, &mut bytes[self.sent.len()..], RecvFlags::empty()) {
            Ok((_, 0)) => Received::Other,
            Ok((_, count)) => {
                self.sent.extend(&bytes[self.sent.len()..][..count]);
                match &self.sent[..] {
                    sent if sent == token => Received::Token,
                    sent if sent.len() == LENGTH => Received::Other,
                    _ => Received::Part,
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Part,
            Err(_) => Received::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::super::polling::tests::{is_alone, limited};
    use super::{Duration, Listener};
    use crate::interfaces::Interface;

    /// Regression: where the program lowered the limit of descriptors below the number of
    /// connections, the listener ended, and this rank appeared to have died.
    /// Shows E3.
    #[test]
    fn connections_stay_open_under_a_lowered_limit_of_descriptors() {
        if !is_alone("failures::listener::tests::connections_stay_open_under_a_lowered_limit_of_descriptors") {
            return;
        }
        let listener = Listener::open(Interface::loopback().address).expect("a listener");
        let connect = || TcpStream::connect(listener.at).expect("a connection");
        let identified = || {
            let mut stream = connect();
            stream.write_all(&listener.token).and_then(|()| stream.read_exact(&mut [0])).expect("an answer");
            stream
        };
        let mut ranks = [identified(), identified(), identified()];
        let mut stranger = connect();
        limited(2, || {
            // Its byte ends the listener's sleep.
            stranger.write_all(&[0]).expect("a connection");
            std::thread::sleep(Duration::from_millis(300));
        });
        for rank in &mut ranks {
            rank.set_nonblocking(true).expect("a socket");
            let read = rank.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(read, Err(std::io::ErrorKind::WouldBlock), "the connection is closed");
        }
        identified();
    }
}

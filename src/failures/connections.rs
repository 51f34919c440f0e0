//! Failure detector for ranks of other machines: one idle TCP connection for each, to the rank's
//! [`listener`](super::listener). The rank's kernel answers keep-alive probes even if the process
//! is busy, and resets the connection when the process ends. A machine that is down or unreachable
//! answers no probe.
//!
//! The end of a connection means a death only after the listener has answered on it. If it ends
//! before, the rank connects again, because a listener that strangers flood closes connections that
//! are slow to send the token.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with, sockopt,
};

use super::above;
use super::listener::Token;
use crate::error::UnreachableError;
use crate::interfaces::Interface;

/// The default time for which another machine may be silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(6);
/// Interval of the kernel's keep-alive probes, which begin after a third of the silence.
const PROBES: Duration = Duration::from_secs(1);

/// Maximum number of ranks that a rank watches: the ranks that follow it in the job, with one
/// connection each.
const MOST: usize = 256;
/// Maximum number of connections that one check begins.
const AT_ONCE: usize = 16;

/// A rank of another machine, with its address.
#[derive(Clone, Debug)]
pub(crate) struct RemoteRank {
    pub(crate) rank: usize,
    /// The machine's name, for messages.
    pub(crate) host: String,
    pub(crate) at: SocketAddr,
    /// The token of the rank's listener.
    pub(crate) token: Token,
}

/// The fate of a rank.
#[derive(Debug)]
pub(super) enum Fate {
    Died,
    /// The rank can't be reached; the reason.
    Silent(Silence),
}

/// Why a rank can't be reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Silence {
    /// The rank has not answered for this time.
    Never(Duration),
    /// The rank answered before, and no longer answers.
    NoMore,
    /// The kernel's answer.
    System(Errno),
}

impl From<Silence> for UnreachableError {
    fn from(silence: Silence) -> UnreachableError {
        match silence {
            Silence::Never(time) => UnreachableError::NoAnswer { seconds: time.as_secs() },
            Silence::NoMore => UnreachableError::Silent,
            Silence::System(Errno::CONNREFUSED) => UnreachableError::Refused(Errno::CONNREFUSED.into()),
            Silence::System(error) => UnreachableError::System(error.into()),
        }
    }
}

/// The connections to ranks of other machines.
#[derive(Debug)]
pub(crate) struct Connections {
    from: Interface,
    silence: Duration,
    /// Whether the job's net needs the same routes, so that a rank that was never connected counts
    /// as unreachable.
    strict: bool,
    pending: VecDeque<Pending>,
    open: Vec<Connection>,
}

/// A connection that a later check will begin.
#[derive(Debug)]
struct Pending {
    place: RemoteRank,
    /// Whether an earlier connection to this rank was established.
    connected_before: bool,
}

#[derive(Debug)]
struct Connection {
    place: RemoteRank,
    connected_before: bool,
    socket: OwnedFd,
    since: Instant,
    stage: Stage,
}

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// The token is sent.
    TokenSent,
    /// The listener has answered.
    Answered,
}

/// The meaning of an event on a connection.
enum Event {
    Nothing,
    /// The connection ended before the listener's answer.
    Retry,
    Lost(Fate),
}

impl Connections {
    /// The connections from rank `me` to `places` by an interface of this machine, with the allowed
    /// silence.
    pub(crate) fn new(
        me: usize,
        from: Interface,
        silence: Duration,
        strict: bool,
        mut places: Vec<RemoteRank>,
    ) -> Connections {
        places.sort_by_key(|place| (place.rank < me, place.rank));
        places.truncate(MOST);
        let pending = places.into_iter().map(|place| Pending { place, connected_before: false }).collect();
        Connections { from, silence, strict, pending, open: Vec::new() }
    }

    /// Each rank with its machine and address as text.
    pub(super) fn names(&self) -> impl Iterator<Item = (usize, String)> {
        self.pending.iter().map(|Pending { place, .. }| {
            (place.rank, format!("on {} at {}, from {}", place.host, place.at.ip(), self.from))
        })
    }

    pub(super) fn from(&self) -> &Interface {
        &self.from
    }

    /// Begins further connections; returns those that fail at once. While no descriptor or port is
    /// free none begins.
    pub(super) fn extend(&mut self) -> Vec<(RemoteRank, Fate)> {
        self.extend_by(begin)
    }

    fn extend_by(
        &mut self,
        begin: impl Fn(IpAddr, SocketAddr, Duration) -> rustix::io::Result<OwnedFd>,
    ) -> Vec<(RemoteRank, Fate)> {
        let mut lost = Vec::new();
        for _ in 0..AT_ONCE {
            let Some(Pending { place, connected_before }) = self.pending.pop_front() else { break };
            match begin(self.from.address, place.at, self.silence) {
                Ok(socket) => {
                    let (since, stage) = (Instant::now(), Stage::Connecting);
                    self.open.push(Connection { place, connected_before, socket, since, stage });
                }
                Err(error) if is_scarce(error) => {
                    self.pending.push_front(Pending { place, connected_before });
                    break;
                }
                Err(error) if self.strict || connected_before => lost.push((place, refusal(connected_before, error))),
                Err(_) => {}
            }
        }
        lost
    }

    /// The open connections, with the events to poll for.
    pub(super) fn open(&self) -> impl Iterator<Item = (&OwnedFd, PollFlags)> {
        let awaited = |stage| if stage == Stage::Connecting { PollFlags::OUT } else { PollFlags::IN };
        self.open.iter().map(move |connection| (&connection.socket, awaited(connection.stage)))
    }

    /// The open connections that are lost, among those that are `ready`.
    pub(super) fn lost(&mut self, mut ready: impl Iterator<Item = bool>) -> Vec<(RemoteRank, Fate)> {
        let mut lost = Vec::new();
        let (strict, silence) = (self.strict, self.silence);
        self.open.retain_mut(|connection| match connection.event(ready.next().unwrap_or(false), silence) {
            Event::Nothing => true,
            Event::Retry => {
                self.pending.push_back(Pending {
                    place: connection.place.clone(),
                    connected_before: connection.connected_before,
                });
                false
            }
            Event::Lost(fate) => {
                if strict || connection.connected_before {
                    lost.push((connection.place.clone(), fate));
                }
                false
            }
        });
        lost
    }
}

impl Connection {
    fn event(&mut self, ready: bool, silence: Duration) -> Event {
        if !ready {
            let late = self.stage == Stage::Connecting && self.since.elapsed() > silence;
            return if late { Event::Lost(Fate::Silent(Silence::Never(silence))) } else { Event::Nothing };
        }
        match self.stage {
            Stage::Connecting => self.send_token(),
            Stage::TokenSent => self.read_answer(),
            Stage::Answered => Event::Lost(match sockopt::socket_error(&self.socket).unwrap_or_else(Err) {
                Err(error) if is_silence(error) => Fate::Silent(Silence::NoMore),
                _ => Fate::Died,
            }),
        }
    }

    /// The connection is established or refused: sends the token.
    fn send_token(&mut self) -> Event {
        if let Err(error) = sockopt::socket_error(&self.socket).unwrap_or_else(Err) {
            return Event::Lost(refusal(self.connected_before, error));
        }
        self.connected_before = true;
        // The token fits into the buffer of a new connection.
        if send(&self.socket, &self.place.token, SendFlags::NOSIGNAL).is_err() {
            return Event::Retry;
        }
        self.stage = Stage::TokenSent;
        Event::Nothing
    }

    /// Reads the listener's answer, or detects the end of the connection.
    fn read_answer(&mut self) -> Event {
        let mut answer = [0];
        match recv(&self.socket, &mut answer, RecvFlags::empty()) {
            Ok((_, 1)) => {
                self.stage = Stage::Answered;
                Event::Nothing
            }
            Err(Errno::AGAIN | Errno::INTR) => Event::Nothing,
            Err(error) if is_silence(error) => Event::Lost(Fate::Silent(Silence::System(error))),
            // A dead process refuses the next connection.
            _ => Event::Retry,
        }
    }
}

/// The meaning of a failure to connect. The rank has died if its port has no listener, and had one
/// before (`connected_before`).
fn refusal(connected_before: bool, error: Errno) -> Fate {
    if connected_before && error == Errno::CONNREFUSED { Fate::Died } else { Fate::Silent(Silence::System(error)) }
}

/// Whether a descriptor, a port or memory was not free, which says nothing about the other machine.
fn is_scarce(error: Errno) -> bool {
    matches!(
        error,
        Errno::MFILE
            | Errno::NFILE
            | Errno::ADDRINUSE
            | Errno::ADDRNOTAVAIL
            | Errno::AGAIN
            | Errno::NOBUFS
            | Errno::NOMEM
    )
}

/// Whether the error says that the machine does not answer.
fn is_silence(error: Errno) -> bool {
    matches!(error, Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTDOWN)
}

fn begin(from: IpAddr, to: SocketAddr, silence: Duration) -> rustix::io::Result<OwnedFd> {
    let (idle, unanswered) = keep_alive(silence);
    let socket = tcp(to.ip())?;
    if from.is_ipv4() == to.is_ipv4() {
        // Otherwise `bind` takes a port that no other connection can use, and the ports of a
        // machine with many ranks run out. A kernel without the option (before 4.2) takes one.
        let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, idle)?;
    sockopt::set_tcp_keepintvl(&socket, PROBES)?;
    sockopt::set_tcp_keepcnt(&socket, unanswered)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// The idle time before the first keep-alive probe, and the number of unanswered probes that end a
/// connection. The kernel takes at most 127.
fn keep_alive(silence: Duration) -> (Duration, u32) {
    let seconds = silence.as_secs().max(2);
    let unanswered = (seconds - seconds / 3).min(127);
    (Duration::from_secs((seconds - unanswered).max(1)), u32::try_from(unanswered).unwrap_or(1))
}

/// A socket that is closed on exec; otherwise a child of the process would keep it open after the
/// process's death.
pub(super) fn tcp(address: IpAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    above(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::failures::listener::Listener;
    use rustix::event::{PollFd, poll};

    fn listener() -> Listener {
        Listener::open(Interface::loopback().address).expect("a socket")
    }

    fn connections(strict: bool, listeners: &[&Listener]) -> Connections {
        let place = |(rank, listener): (usize, &&Listener)| {
            let (at, token) = (listener.at, listener.token);
            RemoteRank { rank, host: "there".into(), at, token }
        };
        Connections::new(0, Interface::loopback(), SILENCE, strict, listeners.iter().enumerate().map(place).collect())
    }

    /// Waits for an event on the connections; returns the lost ranks.
    fn next(connections: &mut Connections) -> Vec<(RemoteRank, Fate)> {
        let mut lost = connections.extend();
        let mut fds: Vec<_> = connections
            .open()
            .map(|(socket, flags)| PollFd::from_borrowed_fd(rustix::fd::AsFd::as_fd(socket), flags))
            .collect();
        if !fds.is_empty() {
            poll(&mut fds, None).expect("descriptors");
        }
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        lost.extend(connections.lost(ready.into_iter()));
        lost
    }

    /// Whether all connections are answered.
    fn known(connections: &Connections) -> bool {
        connections.pending.is_empty() && connections.open.iter().all(|connection| connection.stage == Stage::Answered)
    }

    /// The kernel shows the end, whatever the process did before.
    /// Shows E3.
    #[test]
    fn the_end_of_a_listening_process_is_detected() {
        let [first, second] = [listener(), listener()];
        let mut connections = connections(true, &[&first, &second]);
        while !known(&connections) {
            assert!(next(&mut connections).is_empty(), "both live");
        }
        drop(second);
        let lost = next(&mut connections);
        assert!(matches!(&lost[..], [(RemoteRank { rank: 1, .. }, Fate::Died)]), "{lost:?}");
        assert_eq!(connections.open.len(), 1);
        drop(first);
    }

    /// A rank whose descriptors are used up gives up no rank, and connects later.
    #[test]
    fn connections_without_a_descriptor_begin_later() {
        let listener = listener();
        for lack in [Errno::MFILE, Errno::NFILE] {
            let mut connections = connections(true, &[&listener]);
            let lost = connections.extend_by(|_, _, _| Err(lack));
            assert!(lost.is_empty() && connections.open.is_empty() && connections.pending.len() == 1);
            assert!(connections.extend().is_empty() && connections.open.len() == 1);
        }
    }

    /// More silent connections than the kernel's backlog takes, or than descriptors last for, do
    /// not keep a rank out, before it connects and after.
    /// Shows E3.
    #[test]
    fn silent_strangers_keep_no_rank_out() {
        let listener = listener();
        let backlog = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
        let most: usize = backlog.trim().parse().expect("a number");
        let flood = |count| {
            let silent = |_| TcpStream::connect_timeout(&listener.at, Duration::from_secs(5)).expect("it accepts");
            // Each connection is kept for a while, so that this process has few at once.
            let mut open = VecDeque::new();
            for number in 0..count {
                open.push_back(silent(number));
                if open.len() > 100 {
                    open.pop_front();
                }
            }
            open
        };
        let before = flood(most + 100);
        let mut connections = connections(true, &[&listener]);
        while !known(&connections) {
            assert!(next(&mut connections).is_empty(), "it lives");
        }
        let after = flood(300);
        let connection = &connections.open[0];
        assert_eq!(recv(&connection.socket, &mut [0], RecvFlags::empty()).map(|(_, count)| count), Err(Errno::AGAIN));
        drop((before, after, listener));
        assert!(matches!(&next(&mut connections)[..], [(_, Fate::Died)]));
    }

    /// A stranger gets no information: a wrong token closes its connection without an answer.
    #[test]
    fn a_wrong_token_is_not_answered() {
        use std::io::{Read, Write};
        let listener = listener();
        let mut stream = TcpStream::connect(listener.at).expect("it accepts");
        stream.write_all(&[0; 16]).expect("a connection");
        assert_eq!(stream.read(&mut [0]).expect("a connection"), 0);
        let mut wrong = connections(true, &[&listener]);
        wrong.pending[0].place.token[0] ^= 1;
        for _ in 0..8 {
            assert!(next(&mut wrong).is_empty(), "it lives");
            assert!(wrong.open.iter().all(|connection| connection.stage != Stage::Answered));
        }
    }

    /// A connection that ended before its answer is begun again; a process that refuses it then has
    /// died.
    /// Shows E3.
    #[test]
    fn a_process_that_refuses_the_second_connection_has_died() {
        let listener = std::net::TcpListener::bind((Interface::loopback().address, 0)).expect("a socket");
        let place =
            RemoteRank { rank: 1, host: "there".into(), at: listener.local_addr().expect("bound"), token: [1; 16] };
        for strict in [true, false] {
            let mut connections = Connections::new(0, Interface::loopback(), SILENCE, strict, vec![place.clone()]);
            let listener = listener.try_clone().expect("a socket");
            assert!(next(&mut connections).is_empty());
            drop(listener.accept().expect("a connection"));
            assert!(next(&mut connections).is_empty() && connections.pending.len() == 1, "it may live");
        }
        let mut connections = Connections::new(0, Interface::loopback(), SILENCE, false, vec![place]);
        assert!(next(&mut connections).is_empty());
        drop(listener);
        let lost = loop {
            match next(&mut connections) {
                lost if lost.is_empty() => {}
                lost => break lost,
            }
        };
        assert!(matches!(&lost[..], [(_, Fate::Died)]), "{lost:?}");
    }

    /// If the net uses other routes, a rank that was never connected does not count as dead.
    /// Shows E3.
    #[test]
    fn a_refusal_is_a_loss_only_if_the_net_uses_the_same_routes() {
        let listener = std::net::TcpListener::bind((Interface::loopback().address, 0)).expect("a socket");
        let gone = listener.local_addr().expect("it is bound");
        drop(listener);
        for strict in [true, false] {
            let place = RemoteRank { rank: 0, host: "there".into(), at: gone, token: [0; 16] };
            let mut connections = Connections::new(0, Interface::loopback(), SILENCE, strict, vec![place]);
            let mut lost = connections.extend();
            if !connections.open.is_empty() {
                lost.extend(next(&mut connections));
            }
            match lost.as_slice() {
                [(_, Fate::Silent(silence))] => {
                    assert!(strict);
                    let why = UnreachableError::from(*silence);
                    assert!(matches!(&why, UnreachableError::Refused(_)), "{why}");
                }
                rest => assert!(!strict && rest.is_empty(), "{rest:?}"),
            }
            assert!(connections.open.is_empty());
        }
    }

    #[test]
    fn probes_cover_the_allowed_silence() {
        let all = |seconds| keep_alive(Duration::from_secs(seconds));
        assert_eq!(all(6), (Duration::from_secs(2), 4));
        assert_eq!(all(2), (Duration::from_secs(1), 2));
        for seconds in [3, 30, 190, 600] {
            let (idle, unanswered) = all(seconds);
            assert_eq!(idle.as_secs() + u64::from(unanswered), seconds);
        }
    }

    #[test]
    fn of_many_ranks_the_following_ones_are_watched() {
        let at = SocketAddr::new(Interface::loopback().address, 1);
        let place = |rank| RemoteRank { rank, host: String::new(), at, token: [0; 16] };
        let connections = Connections::new(
            900,
            Interface::loopback(),
            SILENCE,
            true,
            (0..1000).filter(|&rank| rank != 900).map(place).collect(),
        );
        let watched: Vec<_> = connections.pending.iter().map(|pending| pending.place.rank).collect();
        assert_eq!(watched, (901..1000).chain(0..MOST - 99).collect::<Vec<_>>());
    }
}

//! Failure detector for ranks of other machines: one idle TCP connection for each. A rank listens
//! and never accepts. Its kernel completes the connections of the others, answers keep-alive probes
//! however busy the process is, and resets the connections when the process ends. A machine that is
//! gone, or can't be reached, answers no probe.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with, sockopt};

use crate::error::UnreachableError;
use crate::interfaces::Interface;

/// How long another machine may be silent by default.
pub(crate) const SILENCE: Duration = Duration::from_secs(6);
/// Interval of the kernel's keep-alive probes, which begin after a third of the silence.
const PROBES: Duration = Duration::from_secs(1);

/// Most ranks that a rank watches: those that follow it in the job, with one connection each.
const MOST: usize = 256;
/// Most connections begun by one look.
const AT_ONCE: usize = 16;

/// The listening socket by which others detect this process's death.
#[derive(Debug)]
pub(crate) struct Beacon {
    _socket: OwnedFd,
    /// The address to which others connect.
    pub(crate) at: SocketAddr,
}

/// A rank of another machine, with its address.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    /// The machine's name, for messages.
    pub(crate) host: String,
    pub(crate) at: SocketAddr,
}

/// The fate of a rank.
#[derive(Debug)]
pub(super) enum Fate {
    Died,
    /// It can't be reached; the reason.
    Silent(Silence),
}

/// Why a rank can't be reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Silence {
    /// It did not answer for so long.
    Never(Duration),
    /// It answered before.
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
pub(crate) struct Lines {
    from: Interface,
    silence: Duration,
    /// Whether the job's net needs the same routes, so that a rank that was never connected counts
    /// as unreachable.
    strict: bool,
    later: VecDeque<Place>,
    open: Vec<Line>,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) place: Place,
    pub(super) socket: OwnedFd,
    begun: Instant,
    connected: bool,
}

impl Beacon {
    /// Listens at an address of this machine.
    pub(crate) fn light(address: IpAddr) -> rustix::io::Result<Beacon> {
        let socket = tcp(address)?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        // No connection is accepted, so the backlog must hold all watchers, and strangers beside
        // them: as many as the kernel allows (net.core.somaxconn, 4096 by default).
        listen(&socket, i32::MAX)?;
        let at = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Beacon { _socket: socket, at })
    }
}

impl Lines {
    /// The connections from rank `me` to `places` by an interface of this machine, with the allowed
    /// silence.
    pub(crate) fn new(me: usize, from: Interface, silence: Duration, strict: bool, mut places: Vec<Place>) -> Lines {
        places.sort_by_key(|place| (place.rank < me, place.rank));
        places.truncate(MOST);
        Lines { from, silence, strict, later: places.into(), open: Vec::new() }
    }

    /// Each rank with its machine and address as text.
    pub(super) fn told(&self) -> impl Iterator<Item = (usize, String)> {
        self.later
            .iter()
            .map(|place| (place.rank, format!("on {} at {}, from {}", place.host, place.at.ip(), self.from)))
    }

    pub(super) fn from(&self) -> &Interface {
        &self.from
    }

    /// Begins further connections; returns those that fail at once.
    pub(super) fn extend(&mut self) -> Vec<(Place, Fate)> {
        let mut lost = Vec::new();
        for place in self.later.drain(..self.later.len().min(AT_ONCE)) {
            match begin(self.from.address, place.at, self.silence) {
                Ok(socket) => self.open.push(Line { place, socket, begun: Instant::now(), connected: false }),
                Err(error) if self.strict => lost.push((place, Fate::Silent(Silence::System(error)))),
                Err(_) => {}
            }
        }
        lost
    }

    /// The open connections, with the events to poll for.
    pub(super) fn open(&self) -> impl Iterator<Item = (&OwnedFd, PollFlags)> {
        self.open.iter().map(|line| (&line.socket, if line.connected { PollFlags::IN } else { PollFlags::OUT }))
    }

    /// The open connections that are lost, among those that are `ready`.
    pub(super) fn lost(&mut self, mut ready: impl Iterator<Item = bool>) -> Vec<(Place, Fate)> {
        let mut lost = Vec::new();
        let (strict, silence) = (self.strict, self.silence);
        self.open.retain_mut(|line| {
            let was_connected = line.connected;
            match line.fate(ready.next().unwrap_or(false), silence) {
                None => true,
                Some(fate) => {
                    if strict || was_connected {
                        lost.push((line.place.clone(), fate));
                    }
                    false
                }
            }
        });
        lost
    }
}

impl Line {
    fn fate(&mut self, ready: bool, silence: Duration) -> Option<Fate> {
        if !ready {
            let late = !self.connected && self.begun.elapsed() > silence;
            return late.then_some(Fate::Silent(Silence::Never(silence)));
        }
        let error = sockopt::socket_error(&self.socket).unwrap_or_else(Err).err();
        if std::mem::replace(&mut self.connected, true) {
            return Some(match error {
                Some(Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTDOWN) => {
                    Fate::Silent(Silence::NoMore)
                }
                _ => Fate::Died,
            });
        }
        error.map(|error| Fate::Silent(Silence::System(error)))
    }
}

fn begin(from: IpAddr, to: SocketAddr, silence: Duration) -> rustix::io::Result<OwnedFd> {
    let (idle, unanswered) = keep_alive(silence);
    let socket = tcp(to.ip())?;
    if from.is_ipv4() == to.is_ipv4() {
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
fn tcp(address: IpAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, poll};

    fn lines(strict: bool, at: &[SocketAddr]) -> Lines {
        let place = |(rank, &at)| Place { rank, host: "there".into(), at };
        Lines::new(0, Interface::loopback(), SILENCE, strict, at.iter().enumerate().map(place).collect())
    }

    /// Waits for an event on the connections; returns the lost ranks.
    fn next(lines: &mut Lines) -> Vec<(Place, Fate)> {
        let mut fds: Vec<_> = lines
            .open()
            .map(|(socket, flags)| PollFd::from_borrowed_fd(rustix::fd::AsFd::as_fd(socket), flags))
            .collect();
        poll(&mut fds, None).expect("descriptors");
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        lines.lost(ready.into_iter())
    }

    /// No process accepts the connections; only the kernel answers.
    /// Shows E3.
    #[test]
    fn the_end_of_one_who_listens_is_seen() {
        let beacons = [0, 1].map(|_| Beacon::light(Interface::loopback().address).expect("a socket"));
        let mut lines = lines(true, &beacons.each_ref().map(|beacon| beacon.at));
        assert!(lines.extend().is_empty());
        while lines.open.iter().any(|line| !line.connected) {
            assert!(next(&mut lines).is_empty(), "both live");
        }
        let [first, second] = beacons;
        drop(second);
        let lost = next(&mut lines);
        assert!(matches!(&lost[..], [(Place { rank: 1, .. }, Fate::Died)]), "{lost:?}");
        assert_eq!(lines.open.len(), 1);
        drop(first);
    }

    /// Where the net takes other ways, a rank that was never connected does not count as gone.
    /// Shows E3.
    #[test]
    fn one_who_refuses_is_lost_to_a_net_that_goes_the_same_way() {
        let gone = Beacon::light(Interface::loopback().address).expect("a socket").at;
        for strict in [true, false] {
            let mut lines = lines(strict, &[gone]);
            let mut lost = lines.extend();
            if !lines.open.is_empty() {
                lost.extend(next(&mut lines));
            }
            match lost.as_slice() {
                [(_, Fate::Silent(silence))] => {
                    assert!(strict);
                    let why = UnreachableError::from(*silence);
                    assert!(matches!(&why, UnreachableError::Refused(_)), "{why}");
                }
                rest => assert!(!strict && rest.is_empty(), "{rest:?}"),
            }
            assert!(lines.open.is_empty());
        }
    }

    #[test]
    fn questions_fill_the_silence() {
        let all = |seconds| keep_alive(Duration::from_secs(seconds));
        assert_eq!(all(6), (Duration::from_secs(2), 4));
        assert_eq!(all(2), (Duration::from_secs(1), 2));
        for seconds in [3, 30, 190, 600] {
            let (idle, unanswered) = all(seconds);
            assert_eq!(idle.as_secs() + u64::from(unanswered), seconds);
        }
    }

    #[test]
    fn of_many_those_that_follow_are_watched() {
        let at = SocketAddr::new(Interface::loopback().address, 1);
        let place = |rank| Place { rank, host: String::new(), at };
        let lines = Lines::new(
            900,
            Interface::loopback(),
            SILENCE,
            true,
            (0..1000).filter(|&rank| rank != 900).map(place).collect(),
        );
        let watched: Vec<_> = lines.later.iter().map(|place| place.rank).collect();
        assert_eq!(watched, (901..1000).chain(0..MOST - 99).collect::<Vec<_>>());
    }
}

//! Connections within this machine with little pacing. The congestion control `bbr` sends the
//! packets of a connection at times of its own choice (*pacing*), by timers. Between machines
//! pacing avoids queues. Within one machine it only takes time: puts and gets of 1 MiB took up to
//! twice as long as with `reno`. libfabric gives no access to its sockets, so this module searches
//! for them among the descriptors of the process. Such a search is called a *look*.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{getpeername, getsockname, sockopt};

/// The file that names the congestion control of new connections (man 7 tcp).
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The congestion control of connections within this machine. Unless the administrator forbids it
/// (`tcp_allowed_congestion_control`), every user may choose it.
const UNPACED: &str = "reno";
/// Shortest time from a new address to the next look, in milliseconds. The time between looks
/// doubles, because the provider may connect late.
const FIRST: u64 = 1;
/// Longest time between looks, in milliseconds. Looks never end, because a peer to which this rank
/// sends nothing may connect to it at any time.
const MOST: u64 = 1000;
/// After a look, this many times its duration pass before the next one.
const COST: u64 = 100;

/// The IP address and the port of a socket.
type Name = (IpAddr, u16);

/// The looks for connections of an endpoint within this machine.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// The congestion control of new connections, which paces.
    paced: String,
    /// The address at which the endpoint accepts connections.
    own: Name,
    /// The addresses at which peers accept connections.
    peers: Mutex<HashSet<Name>>,
    begun: Instant,
    /// The earliest time of the next look, in milliseconds since `begun`; `u64::MAX` during a look.
    due: AtomicU64,
    /// The time between the last look and the next one, in milliseconds.
    gap: AtomicU64,
    /// The time before which a new address causes no look, in milliseconds since `begun`.
    rest: AtomicU64,
    /// Whether the kernel has refused the change.
    refused: AtomicBool,
}

impl Pacing {
    /// For the endpoint with this address, in the provider's form; `None` if the kernel does not
    /// pace connections.
    pub(crate) fn new(address: &[u8]) -> Option<Pacing> {
        let paced = default_control().filter(|control| control.starts_with("bbr"))?;
        Some(Pacing::of(paced, socket_name(address)?))
    }

    fn of(paced: String, own: Name) -> Pacing {
        Pacing {
            paced,
            own,
            peers: Mutex::default(),
            begun: Instant::now(),
            due: AtomicU64::new(FIRST),
            gap: AtomicU64::new(FIRST),
            rest: AtomicU64::new(0),
            refused: AtomicBool::new(false),
        }
    }

    /// A connection to the peer with this address may follow.
    pub(crate) fn expect(&self, address: &[u8]) {
        let Some(name) = socket_name(address).filter(|(ip, _)| *ip == self.own.0) else { return };
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        // Relaxed all: they only choose the times of looks.
        self.gap.store(FIRST, Ordering::Relaxed);
        self.due.fetch_min((self.now() + FIRST).max(self.rest.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Changes connections within this machine that were made since the last look, if it is time
    /// for a look.
    #[inline]
    pub(crate) fn look(&self) {
        // Relaxed all here and in `look_now`: they only choose the times of looks.
        let (now, due) = (self.now(), self.due.load(Ordering::Relaxed));
        if now >= due && self.due.compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.look_now(now);
        }
    }

    #[cold]
    fn look_now(&self, began: u64) {
        if self.refused.load(Ordering::Relaxed) {
            return;
        }
        // If the list of descriptors can't be read, the connections stay as they are.
        let _ = self.change_connections();
        let now = self.now();
        let rest = COST * (now - began);
        let gap = self.gap.load(Ordering::Relaxed);
        self.gap.store((2 * gap).min(MOST), Ordering::Relaxed);
        self.rest.store(now + rest, Ordering::Relaxed);
        self.due.store(now + gap.max(rest), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Gives the connections of the endpoint within this machine a congestion control that does not
    /// pace.
    fn change_connections(&self) -> io::Result<()> {
        for entry in std::fs::read_dir("/proc/self/fd")? {
            if let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                self.change_connection(number);
            }
        }
        Ok(())
    }

    fn change_connection(&self, number: RawFd) {
        // SAFETY: the borrow does not close the descriptor, and ends with this function. All calls
        // fail on a number that is not open or not a socket. If another thread closes the number
        // meanwhile, and opens a connection over TCP under it, that connection may get `reno`.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        let is_paced = |control: &String| *control == self.paced;
        if self.is_local_connection(socket).unwrap_or(false)
            && sockopt::tcp_congestion(socket).as_ref().is_ok_and(is_paced)
            && matches!(sockopt::set_tcp_congestion(socket, UNPACED), Err(Errno::PERM | Errno::ACCESS | Errno::NOENT))
        {
            // Relaxed: it only ends the looks.
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a socket is a connection of the endpoint to a peer on this machine: both ends have
    /// the same IP address, and one end is the address at which the endpoint or a peer accepts
    /// connections.
    fn is_local_connection(&self, socket: BorrowedFd<'_>) -> Option<bool> {
        let near = name_of(SocketAddr::try_from(getsockname(socket).ok()?).ok()?);
        let far = name_of(SocketAddr::try_from(getpeername(socket).ok()??).ok()?);
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        Some(near.0 == far.0 && (near == self.own || peers.contains(&far)))
    }
}

/// The congestion control of new connections.
fn default_control() -> Option<String> {
    let text = std::fs::read_to_string(DEFAULT).ok()?;
    Some(text.trim().to_owned())
}

/// The name without the scope of link-local addresses, which providers' addresses lack.
fn name_of(address: SocketAddr) -> Name {
    (address.ip(), address.port())
}

/// The name in a provider's address, a `sockaddr_in` or `sockaddr_in6` (man 3type sockaddr), or
/// `None` for other formats.
fn socket_name(address: &[u8]) -> Option<Name> {
    let (family, rest) = address.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let ip = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
        // The flow information comes first.
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some((ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;

    /// A connection within this machine: the listener's address, and both ends.
    fn connection() -> (SocketAddr, OwnedFd, OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let connected = TcpStream::connect(address).expect("a connection");
        let (accepted, _) = listener.accept().expect("the other end");
        (address, connected.into(), accepted.into())
    }

    /// The form of an address that providers of sockets give.
    fn bytes(address: SocketAddr) -> Vec<u8> {
        let SocketAddr::V4(address) = address else { panic!("an address of IPv4") };
        let family = u16::try_from(libc::AF_INET).expect("a small number");
        [&family.to_ne_bytes()[..], &address.port().to_be_bytes(), &address.ip().octets(), &[0; 8]].concat()
    }

    #[test]
    fn only_connections_of_the_endpoint_and_of_peers_change() {
        let control = |socket: &OwnedFd| sockopt::tcp_congestion(socket.as_fd()).expect("a connection's control");
        let (own, _connected_by_peer, accepted) = connection();
        let (peer, connected, _accepted_by_peer) = connection();
        let (_, foreign, _) = connection();
        let before = control(&foreign);
        let pacing = Pacing::of(before.clone(), name_of(own));
        pacing.expect(&bytes(peer));
        pacing.change_connections().expect("a look");
        let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").expect("a list");
        let is_allowed = allowed.split_whitespace().any(|control| control == UNPACED);
        let expected = if is_allowed { UNPACED } else { &before };
        assert_eq!([control(&accepted), control(&connected)], [expected, expected]);
        assert_eq!(control(&foreign), before, "a connection of the program");
    }

    #[test]
    fn looks_become_rare_until_a_peer_is_new() {
        let pacing = Pacing::of("none".to_owned(), (Ipv4Addr::LOCALHOST.into(), 1));
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let gaps: Vec<u64> = (0..12)
            .map(|_| {
                pacing.due.store(0, Ordering::Relaxed);
                pacing.look();
                read(&pacing.gap)
            })
            .collect();
        assert_eq!(gaps, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]);
        let far = read(&pacing.due);
        assert!(far >= 1000, "{far}");
        pacing.look();
        assert_eq!(read(&pacing.due), far, "a look before its time");
        pacing.rest.store(0, Ordering::Relaxed);
        pacing.expect(&bytes(SocketAddr::from(([127, 0, 0, 1], 2))));
        assert_eq!(read(&pacing.gap), FIRST);
        assert!(read(&pacing.due) < far, "a look soon");
    }

    #[test]
    fn a_new_peer_causes_no_look_during_the_rest_after_a_long_one() {
        let pacing = Pacing::of("none".to_owned(), (Ipv4Addr::LOCALHOST.into(), 1));
        pacing.rest.store(500_000, Ordering::Relaxed);
        pacing.due.store(800_000, Ordering::Relaxed);
        pacing.expect(&bytes(SocketAddr::from(([127, 0, 0, 1], 2))));
        assert_eq!(pacing.due.load(Ordering::Relaxed), 500_000);
        pacing.expect(&bytes(SocketAddr::from(([127, 0, 0, 2], 2))));
        assert_eq!(pacing.peers.lock().expect("no panic").len(), 1, "the address of another machine");
    }

    #[test]
    fn addresses_of_sockets_are_read() {
        let four = SocketAddr::from(([10, 0, 0, 7], 4711));
        assert_eq!(socket_name(&bytes(four)), Some(name_of(four)));
        let ip = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        let family = u16::try_from(libc::AF_INET6).expect("a small number");
        let name = [&family.to_ne_bytes()[..], &4711u16.to_be_bytes(), &[0; 4], &ip.octets(), &[0; 4]].concat();
        assert_eq!(socket_name(&name), Some((ip.into(), 4711)));
        assert_eq!(socket_name(&name[..12]), None, "cut");
        assert_eq!(socket_name(b"fi_addr_psm3://"), None, "another format");
    }
}

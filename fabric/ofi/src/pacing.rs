//! Connections within this machine without the kernel's pacing. The congestion control `bbr` sends
//! the packets of a connection at times of its own choice (*pacing*), by timers. Between machines
//! pacing avoids queues. Within one machine it only takes time: puts and gets of 1 MiB took up to
//! twice as long. libfabric gives no access to its sockets, so this module looks for them among the
//! descriptors of the process.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::net::{getpeername, getsockname, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The file that names the congestion control of new connections (man 7 tcp).
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The congestion control of connections within this machine. Every kernel has it, and lets every
/// user choose it.
const UNPACED: &str = "reno";
/// Time from a new address to the first look, in milliseconds. Each further look follows after
/// twice the time, because the provider may connect late.
const FIRST: u64 = 1;

/// The looks for connections of an endpoint within this machine.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// The congestion control of new connections, which paces.
    paced: String,
    /// The address at which the endpoint accepts connections.
    own: SocketAddr,
    /// The addresses at which peers accept connections.
    peers: Mutex<HashSet<SocketAddr>>,
    begun: Instant,
    /// The time of the next look, in milliseconds since `begun`.
    due: AtomicU64,
    /// The time between the next look and the one after it, in milliseconds.
    gap: AtomicU64,
}

impl Pacing {
    /// For the endpoint with this address, in the provider's form; `None` if the kernel does not
    /// pace connections, or if the address is not an IP socket's.
    pub(crate) fn new(address: &[u8]) -> Option<Pacing> {
        let paced = default_control().filter(|control| control.starts_with("bbr"))?;
        Some(Pacing::of(paced, socket_address(address)?))
    }

    fn of(paced: String, own: SocketAddr) -> Pacing {
        let (begun, due, gap) = (Instant::now(), AtomicU64::new(FIRST), AtomicU64::new(FIRST));
        Pacing { paced, own, peers: Mutex::default(), begun, due, gap }
    }

    /// A connection to the peer with this address may follow.
    pub(crate) fn expect(&self, address: &[u8]) {
        let Some(address) = socket_address(address).filter(|address| address.ip() == self.own.ip()) else { return };
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).insert(address);
        // Relaxed all: they only choose the times of looks.
        self.gap.store(FIRST, Ordering::Relaxed);
        self.due.store(self.now() + FIRST, Ordering::Relaxed);
    }

    /// Ends the pacing of connections within this machine that were made since the last look, if it
    /// is time for a look.
    pub(crate) fn look(&self) {
        let now = self.now();
        // Relaxed all: they only choose the times of looks.
        if now < self.due.load(Ordering::Relaxed) {
            return;
        }
        let gap = self.gap.load(Ordering::Relaxed).saturating_mul(2);
        self.gap.store(gap, Ordering::Relaxed);
        self.due.store(now.saturating_add(gap), Ordering::Relaxed);
        // Without these rights, or without a free descriptor, the connections stay as they are.
        let _ = self.end_pacing();
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Ends the pacing of all connections of the endpoint within this machine.
    fn end_pacing(&self) -> io::Result<()> {
        // A copy of each descriptor, so that the provider may close its own meanwhile.
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let is_socket =
                std::fs::read_link(entry.path()).is_ok_and(|at| at.to_string_lossy().starts_with("socket:"));
            if is_socket && let Ok(socket) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
                self.end_pacing_of(&socket);
            }
        }
        Ok(())
    }

    fn end_pacing_of(&self, socket: &OwnedFd) {
        let is_own = self.is_local_connection(socket).unwrap_or(false);
        if is_own && sockopt::tcp_congestion(socket).is_ok_and(|control| control == self.paced) {
            // Refused: the connection stays as it is.
            let _ = sockopt::set_tcp_congestion(socket, UNPACED);
        }
    }

    /// Whether a socket is a connection of the endpoint to a peer on this machine: both ends have
    /// the same IP address, and one end is the address at which the endpoint or a peer accepts
    /// connections.
    fn is_local_connection(&self, socket: &OwnedFd) -> Option<bool> {
        let near = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
        let far = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        Some(near.ip() == far.ip() && (near == self.own || peers.contains(&far)))
    }
}

/// The congestion control of new connections.
fn default_control() -> Option<String> {
    let text = std::fs::read_to_string(DEFAULT).ok()?;
    Some(text.trim().to_owned())
}

/// The socket address in a provider's address, a `sockaddr_in` or `sockaddr_in6` (man 3type
/// sockaddr), or `None` for other formats.
fn socket_address(address: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = address.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let ip = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
        // The flow information comes first.
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

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
    fn named(address: SocketAddr) -> Vec<u8> {
        let SocketAddr::V4(address) = address else { panic!("an address of IPv4") };
        let family = u16::try_from(libc::AF_INET).expect("a small number");
        [&family.to_ne_bytes()[..], &address.port().to_be_bytes(), &address.ip().octets(), &[0; 8]].concat()
    }

    #[test]
    fn only_connections_of_the_endpoint_and_of_peers_change() {
        let control = |socket: &OwnedFd| sockopt::tcp_congestion(socket).expect("a connection's control");
        let (own, _connected_by_peer, accepted) = connection();
        let (peer, connected, _accepted_by_peer) = connection();
        let (_, foreign, _) = connection();
        let before = control(&foreign);
        let pacing = Pacing::of(before.clone(), own);
        pacing.expect(&named(peer));
        pacing.end_pacing().expect("a look");
        assert_eq!([control(&accepted), control(&connected)], [UNPACED, UNPACED]);
        assert_eq!(control(&foreign), before, "a connection of the program");
    }

    #[test]
    fn looks_become_rare_until_a_peer_is_new() {
        let own = SocketAddr::from(([127, 0, 0, 1], 1));
        let pacing = Pacing::of("none".to_owned(), own);
        let gaps: Vec<u64> = (0..4)
            .map(|_| {
                pacing.due.store(0, Ordering::Relaxed);
                pacing.look();
                pacing.gap.load(Ordering::Relaxed)
            })
            .collect();
        assert_eq!(gaps, [2, 4, 8, 16]);
        let far = pacing.due.load(Ordering::Relaxed);
        pacing.look();
        assert_eq!(pacing.due.load(Ordering::Relaxed), far, "a look before its time");
        pacing.expect(&named(SocketAddr::from(([127, 0, 0, 1], 2))));
        assert_eq!(pacing.gap.load(Ordering::Relaxed), FIRST);
    }

    #[test]
    fn addresses_of_sockets_are_read() {
        let four = SocketAddr::from(([10, 0, 0, 7], 4711));
        assert_eq!(socket_address(&named(four)), Some(four));
        let six = SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 4711));
        let family = u16::try_from(libc::AF_INET6).expect("a small number");
        let octets = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets();
        let name = [&family.to_ne_bytes()[..], &4711u16.to_be_bytes(), &[0; 4], &octets, &[0; 4]].concat();
        assert_eq!(socket_address(&name), Some(six));
        assert_eq!(socket_address(&name[..12]), None, "cut");
        assert_eq!(socket_address(b"fi_addr_psm3://"), None, "another format");
    }
}

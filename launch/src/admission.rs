//! Admission to a job over the network: listeners at the addresses by which this machine reaches
//! the others, and connections that have not sent the job's secret yet. Strangers get no service
//! and no answer. If there are too many connections, or too few descriptors, the oldest silent
//! connection is closed. Independent of ranks and machines.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::ranks::{Conn, keep_alive};
use transom::launching::{INTERFACES, Words, addresses, to_hex};

/// Maximum number of kept connections that have not sent the secret, in addition to those of
/// members of the job.
pub(super) const STRANGERS: usize = 16;
/// Maximum number of connections that are accepted before the accepted ones are read.
const BATCH: usize = STRANGERS / 2;
/// Maximum number of batches in one turn, so that strangers do not delay the launcher's ranks.
const BATCHES: usize = 32;
/// Time limit of all name lookups together.
const LOOKUP: Duration = Duration::from_secs(2);

/// The listeners, and the connections that wait for admission.
#[derive(Debug)]
pub(super) struct Admission {
    listeners: Vec<TcpListener>,
    secret: String,
    strangers: Vec<Conn>,
    /// The number of connections that members of the job make. All of them may be slow to send the
    /// secret, because their processes wait for a core.
    members: usize,
    /// A descriptor in reserve. It is closed for a moment if an accept finds no free descriptor.
    spare: Option<OwnedFd>,
}

/// A connection that sent the secret, with its first line.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) conn: Conn,
    pub(super) line: String,
}

impl Admission {
    /// Listens for processes of the machines with these names, which make `members` connections.
    pub(super) fn open(names: impl Iterator<Item = String>, members: usize) -> io::Result<Admission> {
        let listen = |address| {
            let listener = TcpListener::bind((address, 0))?;
            listener.set_nonblocking(true)?;
            io::Result::Ok(listener)
        };
        let used = listening_addresses(names.map(|name| host_of(&name).to_owned()).collect());
        // A listed address can't be used yet if its interface has just started.
        let (listeners, mut refused) = used.into_iter().map(listen).partition::<Vec<_>, _>(io::Result::is_ok);
        let listeners: Vec<TcpListener> = listeners.into_iter().flatten().collect();
        if let (true, Some(Err(error))) = (listeners.is_empty(), refused.pop()) {
            return Err(error);
        }
        Ok(Admission { listeners, secret: secret()?, strangers: Vec::new(), members, spare: Some(spare()?) })
    }

    /// The secret for admission.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// The listeners' addresses; those that only this machine reaches come last.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = self.listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        addresses.sort_by_key(|address| address.ip().is_loopback());
        Ok(addresses)
    }

    /// The descriptors to poll.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listeners = self.listeners.iter().map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        listeners.chain(self.strangers.iter().map(Conn::interest))
    }

    /// Ends the admission.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        self.strangers.clear();
    }

    /// Reads the arrived lines; returns the connections that sent the secret.
    pub(super) fn turn(&mut self) -> Vec<Admitted> {
        let mut admitted = Vec::new();
        // Each connection is read before it may be closed to make room, so that members of the job
        // are admitted first.
        for _ in 0..BATCHES {
            let more = self.accept_batch() == BATCH;
            self.admit(&mut admitted);
            if !more {
                break;
            }
        }
        admitted
    }

    /// Accepts a batch of connections; returns their number.
    fn accept_batch(&mut self) -> usize {
        let mut count = 0;
        for listener in &self.listeners {
            while count < BATCH {
                match listener.accept() {
                    Ok((stream, _)) => self.strangers.extend(conn(stream)),
                    Err(error) if is_scarce(&error) => {
                        if self.strangers.is_empty() {
                            // The reserve lets one connection be accepted and closed. Otherwise the
                            // poll would report it again and again.
                            drop(self.spare.take());
                            drop(listener.accept());
                            self.spare = spare().ok();
                            break;
                        }
                        drop(self.strangers.remove(0));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // A connection that ended before it was accepted (accept(2)).
                    Err(_) => {}
                }
                count += 1;
            }
        }
        count
    }

    /// Reads the waiting connections and admits those that send the secret. Any other line closes
    /// the connection.
    fn admit(&mut self, admitted: &mut Vec<Admitted>) {
        for mut conn in std::mem::take(&mut self.strangers) {
            let open = conn.receive();
            match conn.lines.next_line() {
                Some(line) if Words::new(&line).get("secret").is_some_and(|given| same(given, &self.secret)) => {
                    admitted.push(Admitted { conn, line });
                }
                None if open && !conn.lines.overflows() => self.strangers.push(conn),
                _ => {}
            }
        }
        let surplus = self.strangers.len().saturating_sub(STRANGERS + self.members);
        self.strangers.drain(..surplus);
    }
}

/// The machine in a name that an agent takes: `user@machine`.
fn host_of(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(_, host)| host)
}

fn conn(stream: TcpStream) -> Option<Conn> {
    let socket = OwnedFd::from(stream);
    keep_alive(&socket).ok()?;
    Conn::new(socket).ok()
}

/// Whether an accept failed for lack of descriptors or memory (accept(2)).
fn is_scarce(error: &io::Error) -> bool {
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| scarce.contains(&errno))
}

/// A descriptor held in reserve.
fn spare() -> io::Result<OwnedFd> {
    std::fs::File::open("/dev/null").map(OwnedFd::from)
}

/// The addresses of this machine at which others reach it: those of the interfaces that the user
/// names; else the source addresses of packets to each machine; where a name can't be resolved, all
/// external addresses.
fn listening_addresses(names: Vec<String>) -> Vec<IpAddr> {
    let named = std::env::var(INTERFACES).ok().filter(|list| !list.is_empty()).map(|list| addresses(Some(&list)));
    let found = named.filter(|found| !found.is_empty()).or_else(|| sources(names));
    let found = found.unwrap_or_else(|| [addresses(None), vec![Ipv4Addr::LOCALHOST.into()]].concat());
    // This machine's own part of the job always reaches one of them.
    if found.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { found }
}

/// The source addresses of packets to these machines, without duplicates; `None` where a name can't
/// be resolved.
fn sources(names: Vec<String>) -> Option<Vec<IpAddr>> {
    let (found, all) = mpsc::channel();
    let (count, until) = (names.len(), Instant::now() + LOOKUP);
    // A resolver may exceed the time limit; its thread then ends by itself.
    std::thread::spawn(move || {
        for name in names {
            if found.send(source(&name)).is_err() {
                break;
            }
        }
    });
    let mut sources = Vec::new();
    for _ in 0..count {
        let address = all.recv_timeout(until.saturating_duration_since(Instant::now())).ok()??;
        if !sources.contains(&address) {
            sources.push(address);
        }
    }
    Some(sources)
}

/// The source address of packets to a machine. No packet is sent.
fn source(name: &str) -> Option<IpAddr> {
    let target = (name, 9).to_socket_addrs().ok()?.next()?;
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(to_hex(&bytes))
}

/// Compares two secrets in constant time.
fn same(given: &str, secret: &str) -> bool {
    given.len() == secret.len()
        && given.bytes().zip(secret.bytes()).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn admission(names: &[&str]) -> Admission {
        Admission::open(names.iter().map(ToString::to_string), 0).expect("a listener")
    }

    /// Members that connect at once, and send the secret only later, are all admitted, although
    /// strangers came before and after them.
    #[test]
    fn slow_members_are_admitted() {
        let members = 40;
        let mut admission = Admission::open(["127.0.0.1".to_owned()].into_iter(), members).expect("a listener");
        let at = admission.addresses().expect("addresses")[0];
        let connect = || TcpStream::connect(at).expect("it listens");
        let _before: Vec<_> = (0..STRANGERS).map(|_| connect()).collect();
        let mut slow: Vec<_> = (0..members).map(|_| connect()).collect();
        assert!(admission.turn().is_empty());
        let _after: Vec<_> = (0..STRANGERS).map(|_| connect()).collect();
        assert!(admission.turn().is_empty());
        let line = format!("cmd=join host=1 secret={}\n", admission.secret());
        slow.iter_mut().for_each(|member| member.write_all(line.as_bytes()).expect("open"));
        assert_eq!(admission.turn().len(), members);
    }

    /// Machines that are reached by one interface are listened for at that interface only.
    #[test]
    fn it_listens_at_the_addresses_that_reach_the_machines() {
        for names in [&["127.0.0.1"][..], &["localhost", "me@127.0.0.3"]] {
            let addresses = admission(names).addresses().expect("addresses");
            assert!(
                !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()),
                "{addresses:?}"
            );
        }
        let addresses = admission(&["127.0.0.1", "no such machine"]).addresses().expect("addresses");
        assert!(addresses.iter().all(|address| !address.ip().is_unspecified()), "{addresses:?}");
        assert!(addresses.last().expect("loopback").ip().is_loopback());
    }

    /// Few of many strangers are kept, and a connection with the secret is admitted past them.
    #[test]
    fn many_strangers_do_not_keep_members_out() {
        let mut admission = admission(&["127.0.0.1"]);
        let at = admission.addresses().expect("addresses")[0];
        let connect = || TcpStream::connect(at).expect("it listens");
        let silent: Vec<_> = (0..100).map(|_| connect()).collect();
        let mut wrong = connect();
        wrong.write_all(b"cmd=join host=0 secret=00\n").expect("open");
        assert!(admission.turn().is_empty());
        assert!(admission.strangers.len() <= STRANGERS, "{}", admission.strangers.len());
        let mut member = connect();
        member.write_all(format!("cmd=join host=7 secret={}\n", admission.secret()).as_bytes()).expect("open");
        let late: Vec<_> = (0..100).map(|_| connect()).collect();
        let admitted = admission.turn();
        assert_eq!(admitted.len(), 1);
        assert!(admitted[0].line.starts_with("cmd=join host=7 "), "{:?}", admitted[0].line);
        drop((silent, wrong, late));
        admission.close();
        // A guard that another test forks meanwhile closes its copy of the listener a moment later.
        let is_refused = |_| {
            std::thread::sleep(Duration::from_millis(5));
            TcpStream::connect(at).is_err()
        };
        assert!((0..1000).any(is_refused), "no socket listens any more");
    }
}

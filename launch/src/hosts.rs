//! The machines of a job: the ranks of each machine, and the command that starts a launcher there.
//! No processes or connections.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::net::Ipv6Addr;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A machine for ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The machine's name, as the agent takes it.
    pub name: OsString,
    /// The number of ranks that it takes.
    pub slots: usize,
}

impl Host {
    /// Parses `a:2,b:2`, or `a,b` with one rank each. An IPv6 address with a number of ranks stands
    /// in brackets: `[fd00::1]:2`.
    ///
    /// # Errors
    /// An empty name, or an invalid number or 0.
    pub fn list(text: &OsStr) -> Result<Vec<Host>, String> {
        let one = |entry: &[u8]| {
            let (name, slots) = parts(entry);
            let slots = str::from_utf8(slots).ok().and_then(|slots| slots.parse().ok());
            // A word that looks like an agent's option is not accepted as a name.
            let slots = slots.filter(|&slots| slots > 0 && !name.is_empty() && !name.starts_with(b"-"));
            slots.map(|slots| Host { name: OsStr::from_bytes(&name).to_owned(), slots }).ok_or_else(|| {
                format!(
                    "{:?} is not HOST or HOST:RANKS with at least one rank; an IPv6 address with a number of ranks \
                     stands in brackets, as [fd00::1]:2",
                    OsStr::from_bytes(entry)
                )
            })
        };
        text.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii).map(one).collect()
    }
}

/// The name in an entry of a list, and the text of its number of ranks. An address may follow a
/// user's name and have a zone: `user@fe80::1%eth0`.
fn parts(entry: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let user = entry.iter().position(|&byte| byte == b'@').map_or(0, |at| at + 1);
    let (user, machine) = entry.split_at(user);
    if let Some(inner) = machine.strip_prefix(b"[")
        && let Some(end) = inner.iter().position(|&byte| byte == b']')
        && is_address(&inner[..end])
    {
        let name = [user, &inner[..end]].concat().into();
        return match &inner[end + 1..] {
            [] => (name, b"1"),
            [b':', slots @ ..] => (name, slots),
            _ => (Cow::default(), b""),
        };
    }
    match entry.iter().rposition(|&byte| byte == b':') {
        Some(at) if !is_address(machine) => (entry[..at].into(), &entry[at + 1..]),
        _ => (entry.into(), b"1"),
    }
}

/// Whether `text` is an IPv6 address, with a zone or without.
fn is_address(text: &[u8]) -> bool {
    let (address, zone) = text.split_at(text.iter().position(|&byte| byte == b'%').unwrap_or(text.len()));
    let is_zone = zone.len() != 1 && !zone.contains(&b':');
    is_zone && str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// The ranks of each machine, in the order of machines and ranks; `None` where the slots are too
/// few.
pub(super) fn place(hosts: &[Host], size: usize) -> Option<Vec<Range<usize>>> {
    let mut next = 0;
    let ranges = hosts.iter().map(|host| {
        let first = next;
        next = size.min(first + host.slots);
        first..next
    });
    let ranges: Vec<_> = ranges.collect();
    (next == size).then_some(ranges)
}

/// The command that starts a machine's ranks of a job: the words of `agent` with `{host}` replaced,
/// or followed by the machine's name; then the launcher there.
pub(super) fn agent(agent: &OsStr, host: &OsStr, launcher: &OsStr) -> Vec<OsString> {
    let given = agent.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut words: Vec<OsString> = given.map(|word| named(word, host)).collect();
    if !has_mark(agent.as_bytes()) {
        words.push(host.into());
    }
    words.extend([launcher.to_owned(), REMOTE.into()]);
    words
}

/// The placeholder for a machine's name in the words of an agent.
const MARK: &[u8] = b"{host}";

fn has_mark(bytes: &[u8]) -> bool {
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// A word in which the machine's name replaces each placeholder.
fn named(word: &[u8], host: &OsStr) -> OsString {
    let (mut name, mut rest) = (Vec::new(), word);
    while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
        name.extend([&rest[..at], host.as_bytes()].concat());
        rest = &rest[at + MARK.len()..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name)
}

/// The option by which `transom-run` executes an order.
pub const REMOTE: &str = "--remote";

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: usize) -> Host {
        Host { name: name.into(), slots }
    }

    #[test]
    fn lists_of_hosts() {
        assert_eq!(Host::list(OsStr::new("a:2, b,c:10")), Ok(vec![host("a", 2), host("b", 1), host("c", 10)]));
        let addresses = Ok(vec![host("fd00::7", 1), host("fd00::7", 2), host("fd00::8", 1)]);
        assert_eq!(Host::list(OsStr::new("fd00::7,[fd00::7]:2,[fd00::8]")), addresses);
        let with_user = Ok(vec![host("u@a", 2), host("u@fd00::7", 1), host("u@fd00::7", 2), host("fe80::1%eth0", 3)]);
        assert_eq!(Host::list(OsStr::new("u@a:2,u@fd00::7,u@[fd00::7]:2,[fe80::1%eth0]:3")), with_user);
        let with_zones = Ok(vec![host("fe80::1%eth0", 2), host("fe80::2%a", 1)]);
        assert_eq!(Host::list(OsStr::new("fe80::1%eth0:2,fe80::2%a")), with_zones);
        for bad in ["", "[fd00::7]2", "u@[fd00::7]2", "[fd00::7]:", "a:0", "a:x", ":2", "a,,b", "-oProxyCommand=x"] {
            assert!(Host::list(OsStr::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ranks_fill_the_hosts_in_their_order() {
        let hosts = [host("a", 2), host("b", 1), host("c", 2)];
        assert_eq!(place(&hosts, 5), Some(vec![0..2, 2..3, 3..5]));
        assert_eq!(place(&hosts, 2), Some(vec![0..2, 2..2, 2..2]));
        assert_eq!(place(&hosts, 6), None);
    }

    #[test]
    fn the_host_replaces_the_placeholder_or_is_appended() {
        let words = |text: &str| agent(OsStr::new(text), OsStr::new("b"), OsStr::new("/bin/transom-run"));
        assert_eq!(words(" ssh  -q "), ["ssh", "-q", "b", "/bin/transom-run", REMOTE]);
        assert_eq!(words("x@{host}/{host}."), ["x@b/b.", "/bin/transom-run", REMOTE]);
        assert_eq!(
            words("ip netns exec {host} nice"),
            ["ip", "netns", "exec", "b", "nice", "/bin/transom-run", REMOTE]
        );
    }
}

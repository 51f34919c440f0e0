//! Assigns ranks to machines, and encodes as text the order by which a machine starts its part. No
//! processes or connections.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::{Bind, Job};
use transom::launching::{from_hex, to_hex};

/// A machine for ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The machine's name, as the agent takes it.
    pub name: OsString,
    /// The number of ranks that it takes.
    pub slots: usize,
}

impl Host {
    /// Parses `a:2,b:2`, or `a,b` with one rank each.
    ///
    /// # Errors
    /// An empty name, or an invalid number or 0.
    pub fn list(text: &OsStr) -> Result<Vec<Host>, String> {
        let one = |entry: &[u8]| {
            let colon = entry.iter().rposition(|&byte| byte == b':');
            let (name, slots) = colon.map_or((entry, &b"1"[..]), |at| (&entry[..at], &entry[at + 1..]));
            let slots = str::from_utf8(slots).ok().and_then(|slots| slots.parse().ok());
            // A word that looks like an agent's option is not accepted as a name.
            let slots = slots.filter(|&slots| slots > 0 && !name.is_empty() && !name.starts_with(b"-"));
            slots
                .map(|slots| Host { name: OsStr::from_bytes(name).to_owned(), slots })
                .ok_or_else(|| format!("{:?} is not HOST or HOST:RANKS", OsStr::from_bytes(entry)))
        };
        text.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii).map(one).collect()
    }
}

/// The ranks of each host, in the order of hosts and ranks; `None` where the slots are too few.
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

/// The command that starts the part of a job on a host: the words of `agent` with `{host}`
/// replaced, or followed by the host's name; then the launcher there.
pub(super) fn agent(agent: &OsStr, host: &OsStr, launcher: &OsStr) -> Vec<OsString> {
    let given = agent.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut words: Vec<OsString> = given.map(|word| named(word, host)).collect();
    if !has_mark(agent.as_bytes()) {
        words.push(host.into());
    }
    words.extend([launcher.to_owned(), REMOTE.into()]);
    words
}

/// The placeholder for a host's name in the words of an agent.
const MARK: &[u8] = b"{host}";

fn has_mark(bytes: &[u8]) -> bool {
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// A word with the host's name in place of each placeholder.
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

/// The way in which ranks on other machines reach the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meeting {
    /// Candidate addresses of the launcher.
    pub(super) heads: Vec<SocketAddr>,
    /// The secret for admission.
    pub(super) secret: String,
}

/// A host's part of a job.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) job: Job,
    pub(super) ranks: Range<usize>,
    /// The index of the host.
    pub(super) host: usize,
    pub(super) meeting: Meeting,
    /// The working directory of the ranks.
    pub(super) folder: PathBuf,
}

impl Order {
    pub(super) fn encode(&self) -> String {
        let Order { job, ranks, host, meeting, folder } = self;
        let hex = |text: &OsStr| format!("x{}", to_hex(text.as_bytes()));
        let mut lines = vec![
            format!("part {} {} {} {host}", job.size, ranks.start, ranks.end),
            format!("secret {}", meeting.secret),
            format!("folder {}", hex(folder.as_os_str())),
            format!("bind {}", job.bind as u8),
            format!("tag {}", u8::from(job.tag_output)),
            format!("program {}", hex(&job.program)),
        ];
        lines.extend(meeting.heads.iter().map(|head| format!("head {head}")));
        lines.extend(job.args.iter().map(|arg| format!("arg {}", hex(arg))));
        lines.extend(job.env.iter().map(|(name, value)| format!("env {} {}", hex(name), hex(value))));
        lines.push("go\n".into());
        lines.join("\n")
    }

    /// Decodes [`Order::encode`].
    pub(super) fn read(input: impl Read) -> io::Result<Order> {
        let mut job = Job::new("", 0);
        let (mut ranks, mut host) = (0..0, 0);
        let mut meeting = Meeting { heads: Vec::new(), secret: String::new() };
        let mut folder = PathBuf::new();
        for line in io::BufReader::new(input).lines() {
            let line = line?;
            let wrong = || io::Error::other(format!("an order that this version can't read: {line:?}"));
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let bytes =
                |text: &str| text.strip_prefix('x').and_then(from_hex).map(OsString::from_vec).ok_or_else(wrong);
            match word {
                "part" => {
                    let numbers: Vec<usize> = rest.split(' ').filter_map(|number| number.parse().ok()).collect();
                    let [size, start, end, number] = numbers[..] else { return Err(wrong()) };
                    (job.size, ranks, host) = (size, start..end, number);
                }
                "secret" => rest.clone_into(&mut meeting.secret),
                "folder" => folder = bytes(rest)?.into(),
                "bind" => {
                    let told = |bind: &Bind| (*bind as u8).to_string() == rest;
                    job.bind = [Bind::Auto, Bind::Core, Bind::None].into_iter().find(told).ok_or_else(wrong)?;
                }
                "tag" => job.tag_output = rest == "1",
                "program" => job.program = bytes(rest)?,
                "head" => meeting.heads.push(rest.parse().map_err(|_| wrong())?),
                "arg" => job.args.push(bytes(rest)?),
                "env" => {
                    let (name, value) = rest.split_once(' ').ok_or_else(wrong)?;
                    job.env.push((bytes(name)?, bytes(value)?));
                }
                "go" => return Ok(Order { job, ranks, host, meeting, folder }),
                _ => return Err(wrong()),
            }
        }
        Err(io::Error::other("the order has no end: the launcher is gone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: usize) -> Host {
        Host { name: name.into(), slots }
    }

    #[test]
    fn lists_of_hosts() {
        assert_eq!(Host::list(OsStr::new("a:2, b,c:10")), Ok(vec![host("a", 2), host("b", 1), host("c", 10)]));
        for bad in ["", "a:0", "a:x", ":2", "a,,b", "-oProxyCommand=x"] {
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
    fn the_agent_is_told_the_host_where_it_wants_it_or_at_its_end() {
        let words = |text: &str| agent(OsStr::new(text), OsStr::new("b"), OsStr::new("/bin/transom-run"));
        assert_eq!(words(" ssh  -q "), ["ssh", "-q", "b", "/bin/transom-run", REMOTE]);
        assert_eq!(words("x@{host}/{host}."), ["x@b/b.", "/bin/transom-run", REMOTE]);
        assert_eq!(
            words("ip netns exec {host} nice"),
            ["ip", "netns", "exec", "b", "nice", "/bin/transom-run", REMOTE]
        );
    }

    #[test]
    fn an_order_comes_back() {
        let args = ["-n", "", "two words\n", "ä"];
        let job = Job::new("/bin/a b", 5).args(args).env("A", "b=c").bind(Bind::Core).tag_output(true);
        let heads = vec!["10.0.0.1:5".parse().expect("an address"), "[fd00::1]:5".parse().expect("an address")];
        let meeting = Meeting { heads, secret: "00ff".into() };
        let order = Order { job, ranks: 2..4, host: 1, meeting: meeting.clone(), folder: "/tmp/x y".into() };
        let text = order.encode();
        let back = Order::read(text.as_bytes()).expect("the same");
        assert_eq!(format!("{back:?}"), format!("{order:?}"));
        assert_eq!(back.meeting, meeting);
        for part in [&text[..text.len() - 3], "nonsense 1\ngo\n", "part 1 2\ngo\n", ""] {
            assert!(Order::read(part.as_bytes()).is_err(), "{part:?}");
        }
    }
}

//! The start order: the text that tells another machine which part of a job to start. This module
//! has no processes or connections.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use transom::launching::{from_hex, to_hex};

use crate::job::{Bind, Job};

/// The data by which ranks on other machines connect to the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendezvous {
    /// Candidate addresses of the launcher.
    pub(super) addresses: Vec<SocketAddr>,
    /// The secret for admission.
    pub(super) secret: String,
}

/// A machine's ranks of a job.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) job: Job,
    pub(super) ranks: Range<usize>,
    /// The index of the machine.
    pub(super) host: usize,
    pub(super) rendezvous: Rendezvous,
    /// The working directory of the ranks.
    pub(super) folder: PathBuf,
}

impl Order {
    pub(super) fn encode(&self) -> String {
        let Order { job, ranks, host, rendezvous, folder } = self;
        let hex = |text: &OsStr| format!("x{}", to_hex(text.as_bytes()));
        let mut lines = vec![
            format!("part {} {} {} {host}", job.size, ranks.start, ranks.end),
            format!("secret {}", rendezvous.secret),
            format!("folder {}", hex(folder.as_os_str())),
            format!("bind {}", job.bind as u8),
            format!("tag {}", u8::from(job.tag_output)),
            format!("program {}", hex(&job.program)),
        ];
        lines.extend(rendezvous.addresses.iter().map(|address| format!("address {address}")));
        lines.extend(job.args.iter().map(|arg| format!("arg {}", hex(arg))));
        lines.extend(job.env.iter().map(|(name, value)| format!("env {} {}", hex(name), hex(value))));
        lines.push("go\n".into());
        lines.join("\n")
    }

    /// Decodes [`Order::encode`].
    pub(super) fn read(input: impl Read) -> io::Result<Order> {
        let mut job = Job::new("", 0);
        let (mut ranks, mut host) = (0..0, 0);
        let mut rendezvous = Rendezvous { addresses: Vec::new(), secret: String::new() };
        let mut folder = PathBuf::new();
        for line in io::BufReader::new(input).lines() {
            let line = line?;
            let wrong = || {
                io::Error::other(format!(
                    "transom-run {} of this machine can't read the line {line:?} of the launcher's order; install the \
                     launcher's version on all machines",
                    env!("CARGO_PKG_VERSION")
                ))
            };
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let bytes =
                |text: &str| text.strip_prefix('x').and_then(from_hex).map(OsString::from_vec).ok_or_else(wrong);
            match word {
                "part" => {
                    let numbers: Vec<usize> = rest.split(' ').filter_map(|number| number.parse().ok()).collect();
                    let [size, start, end, number] = numbers[..] else { return Err(wrong()) };
                    (job.size, ranks, host) = (size, start..end, number);
                }
                "secret" => rest.clone_into(&mut rendezvous.secret),
                "folder" => folder = bytes(rest)?.into(),
                "bind" => {
                    let is_this = |bind: &Bind| (*bind as u8).to_string() == rest;
                    job.bind = [Bind::Auto, Bind::Core, Bind::None].into_iter().find(is_this).ok_or_else(wrong)?;
                }
                "tag" => job.tag_output = rest == "1",
                "program" => job.program = bytes(rest)?,
                "address" => rendezvous.addresses.push(rest.parse().map_err(|_| wrong())?),
                "arg" => job.args.push(bytes(rest)?),
                "env" => {
                    let (name, value) = rest.split_once(' ').ok_or_else(wrong)?;
                    job.env.push((bytes(name)?, bytes(value)?));
                }
                "go" => return Ok(Order { job, ranks, host, rendezvous, folder }),
                _ => return Err(wrong()),
            }
        }
        Err(io::Error::other("the launcher ended before it had sent the whole order"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_round_trip() {
        let args = ["-n", "", "two words\n", "ä"];
        let job = Job::new("/bin/a b", 5).args(args).env("A", "b=c").bind(Bind::Core).tag_output(true);
        let addresses = vec!["10.0.0.1:5".parse().expect("an address"), "[fd00::1]:5".parse().expect("an address")];
        let rendezvous = Rendezvous { addresses, secret: "00ff".into() };
        let order = Order { job, ranks: 2..4, host: 1, rendezvous: rendezvous.clone(), folder: "/tmp/x y".into() };
        let text = order.encode();
        let back = Order::read(text.as_bytes()).expect("the same");
        assert_eq!(format!("{back:?}"), format!("{order:?}"));
        assert_eq!(back.rendezvous, rendezvous);
        for part in [&text[..text.len() - 3], "nonsense 1\ngo\n", "part 1 2\ngo\n", ""] {
            assert!(Order::read(part.as_bytes()).is_err(), "{part:?}");
        }
    }
}

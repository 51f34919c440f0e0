//! A rank's side of PMI-1: commands and answers as lines of text on a socket, one at a time, as
//! spoken by transom-run, Hydra (MPICH) and `srun --mpi=pmi2`. Does not interpret values.

use std::collections::HashSet;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::inherited::adopt_socket;
use super::lines::{LineBuffer, MAX_ACCEPTED, MAX_LINE, Words, from_base64, to_base64, to_hex};
use super::{Bootstrap, BootstrapError, MAX_KEY, check_key, mapping};
use crate::diagnostics;

/// Time limit of the launcher's first answers. Later commands wait for other ranks, without a
/// limit.
const INIT_LIMIT: Duration = Duration::from_secs(30);

/// Time for a launcher to forward the reason of an abort.
const OUTPUT_PAUSE: Duration = Duration::from_millis(300);

/// Longest reason of an abort in characters; at four bytes a character it still fits a line.
const MAX_WHY: usize = 100;

/// Prefix of a value's digits, so that an empty value is not an empty word.
const VALUE_MARK: char = 'x';

/// The variable with the secret that `transom-run` gives to its ranks on other machines.
pub const SECRET: &str = "TRANSOM_PMI_SECRET";

/// A connection to a launcher that speaks PMI-1. Values travel as digits of base 64.
#[derive(Debug)]
pub struct Pmi1 {
    socket: OwnedFd,
    lines: LineBuffer,
    rank: usize,
    size: usize,
    kvsname: String,
    value_limit: usize,
    /// The keys that this rank has put, because Hydra does not report a second put of a key.
    put: HashSet<String>,
    left: bool,
}

impl Pmi1 {
    /// Takes the socket with the number `fd`, which the launcher left open in this process, and
    /// joins the job as `rank` of `size`. The socket is closed on exec from then on. Works once per
    /// process.
    ///
    /// # Errors
    /// A descriptor that is not an open socket, or was taken before; those of [`Pmi1::join`].
    pub fn inherit(fd: i32, rank: usize, size: usize) -> Result<Self, BootstrapError> {
        let socket = adopt_socket(fd).map_err(|error| BootstrapError::Descriptor { fd, why: error.to_string() })?;
        Self::join(socket, rank, size)
    }

    /// Joins the job at the other end of `socket` as `rank` of `size`.
    ///
    /// # Errors
    /// A launcher that does not answer within 30 s, that refuses, or whose answer is not PMI-1.
    pub fn join(socket: OwnedFd, rank: usize, size: usize) -> Result<Self, BootstrapError> {
        let mut pmi = Self::new(socket, rank, size)?;
        pmi.handshake()?;
        Ok(pmi)
    }

    /// Joins the job of the launcher that listens at `port`, `host:port`, as the process with the
    /// launcher's number `id`; the launcher answers with the rank. `secret` is sent if the launcher
    /// requests it.
    ///
    /// # Errors
    /// The launcher can't be reached at `port`; those of [`Pmi1::join`].
    pub fn connect(port: &str, id: usize, secret: Option<&str>) -> Result<Self, BootstrapError> {
        let failed = |source| BootstrapError::Unreachable { port: port.to_owned(), source };
        let mut stream = Err(io::Error::other("the host has no address"));
        for address in port.to_socket_addrs().map_err(failed)? {
            stream = TcpStream::connect_timeout(&address, INIT_LIMIT);
            if stream.is_ok() {
                break;
            }
        }
        let mut pmi = Self::new(stream.map_err(failed)?.into(), 0, 1)?;
        set_tcp_nodelay(&pmi.socket, true).map_err(|error| failed(error.into()))?;
        let secret = secret.map(|secret| format!(" secret={secret}")).unwrap_or_default();
        pmi.ask_ok("initack", &format!("cmd=initack pmiid={id}{secret}\n"), "initack")?;
        pmi.size = pmi.read_number("size")?;
        pmi.rank = pmi.read_number("rank")?;
        pmi.read_number("debug")?;
        if pmi.rank >= pmi.size {
            let answer = format!("rank={} size={}", pmi.rank, pmi.size);
            return Err(protocol("initack", &answer, "there is no such rank"));
        }
        pmi.handshake()?;
        Ok(pmi)
    }

    fn new(socket: OwnedFd, rank: usize, size: usize) -> Result<Self, BootstrapError> {
        ioctl_fionbio(&socket, false).map_err(init_failed)?;
        let (kvsname, lines, put) = (String::new(), LineBuffer::default(), HashSet::new());
        let pmi = Self { socket, lines, rank, size, kvsname, value_limit: 0, put, left: false };
        pmi.limit(Some(INIT_LIMIT))?;
        Ok(pmi)
    }

    /// Sets the time limit of an answer.
    fn limit(&self, limit: Option<Duration>) -> Result<(), BootstrapError> {
        set_socket_timeout(&self.socket, Timeout::Recv, limit).map_err(init_failed)
    }

    /// A number that a launcher with a port sends unasked, after the rank has identified itself.
    fn read_number(&mut self, what: &'static str) -> Result<usize, BootstrapError> {
        let answer = self.read_line("initack")?;
        let words = Words::new(&answer);
        let number = words.get(what).filter(|_| words.get("cmd") == Some("set")).and_then(|number| number.parse().ok());
        number.ok_or_else(|| protocol("initack", &answer, &format!("cmd=set {what}= was expected")))
    }

    /// The text under a key that the launcher itself wrote, such as `PMI_process_mapping`; `None`
    /// where the launcher did not write the key.
    ///
    /// # Errors
    /// Those of [`Bootstrap::get`].
    pub fn get_text(&mut self, key: &str) -> Result<Option<String>, BootstrapError> {
        self.check_open("get")?;
        check_key(key)?;
        let command = format!("cmd=get kvsname={} key={key}\n", self.kvsname);
        let answer = self.ask("get", &command, "get_result")?;
        let words = Words::new(&answer);
        if words.get("rc").is_some_and(|rc| rc != "0") {
            return Ok(None);
        }
        match words.get("value") {
            Some(value) => Ok(Some(value.to_owned())),
            None => Err(protocol("get", &answer, "there is no value")),
        }
    }

    fn handshake(&mut self) -> Result<(), BootstrapError> {
        let answer = self.ask_ok("init", "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")?;
        if Words::new(&answer).get("pmi_version").is_some_and(|version| version != "1") {
            return Err(protocol("init", &answer, "version 1 is needed"));
        }
        let answer = self.ask_ok("get_maxes", "cmd=get_maxes\n", "maxes")?;
        let limit = |name| Words::new(&answer).get(name).and_then(|text| text.parse::<usize>().ok());
        let max = |name| limit(name).ok_or_else(|| protocol("get_maxes", &answer, "a limit is missing"));
        let (keylen, vallen, line) = (max("keylen_max")?, max("vallen_max")?, limit("line_max"));
        if keylen <= MAX_KEY {
            return Err(protocol(
                "get_maxes",
                &answer,
                "keylen_max must be at least 64, for keys of 63 characters and a zero",
            ));
        }
        let answer = self.ask_ok("get_my_kvsname", "cmd=get_my_kvsname\n", "my_kvsname")?;
        let Some(kvsname) = Words::new(&answer).get("kvsname") else {
            return Err(protocol("get_my_kvsname", &answer, "there is no name"));
        };
        kvsname.clone_into(&mut self.kvsname);
        let around = put_line(kvsname, "", "").len() + MAX_KEY;
        let room = match line {
            // Only transom-run announces a line length beyond PMI-1's.
            Some(line) => line.min(MAX_ACCEPTED).saturating_sub(around),
            // The launcher's limit counts a terminating zero.
            None => MAX_LINE.saturating_sub(around).min(vallen.saturating_sub(1)),
        };
        // The mark is followed by four digits for three bytes.
        self.value_limit = room.saturating_sub(1) * 3 / 4;
        if self.value_limit < 16 {
            return Err(protocol("get_maxes", &answer, "line_max leaves no room for a value"));
        }
        self.limit(None)?;
        Ok(())
    }

    fn check_open(&self, during: &'static str) -> Result<(), BootstrapError> {
        if self.left { Err(BootstrapError::Finalized { during }) } else { Ok(()) }
    }

    /// Sends a command and reads its answer, which must be an `expected`.
    fn ask(&mut self, during: &'static str, command: &str, expected: &str) -> Result<String, BootstrapError> {
        self.send(during, command)?;
        let answer = self.read_line(during)?;
        if Words::new(&answer).get("cmd") == Some(expected) {
            Ok(answer)
        } else {
            Err(protocol(during, &answer, &format!("cmd={expected} was expected")))
        }
    }

    /// [`ask`](Self::ask), with an `rc` other than 0 as an error.
    fn ask_ok(&mut self, during: &'static str, command: &str, expected: &str) -> Result<String, BootstrapError> {
        let answer = self.ask(during, command, expected)?;
        let words = Words::new(&answer);
        // Only transom-run reports which rank ended.
        match (words.get("rc"), words.get("ended").and_then(|rank| rank.parse().ok())) {
            (None | Some("0"), _) => Ok(answer),
            (Some(_), Some(rank)) => Err(BootstrapError::RankEnded { during, rank }),
            (Some(_), None) => Err(protocol(during, &answer, "it refused")),
        }
    }

    fn send(&mut self, during: &'static str, command: &str) -> Result<(), BootstrapError> {
        let mut rest = command.as_bytes();
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                    return Err(BootstrapError::Closed { during });
                }
                Err(error) => {
                    return Err(BootstrapError::Io { during, source: error.into() });
                }
            }
        }
        Ok(())
    }

    fn read_line(&mut self, during: &'static str) -> Result<String, BootstrapError> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(line);
            }
            if self.lines.overflows() {
                return Err(protocol(during, "...", "the line does not end"));
            }
            match recv(&self.socket, &mut bytes, RecvFlags::empty()) {
                Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => {
                    return Err(BootstrapError::Closed { during });
                }
                Ok((got, _)) => self.lines.push(&bytes[..got]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    return Err(BootstrapError::NoAnswer { seconds: INIT_LIMIT.as_secs(), during });
                }
                Err(error) => {
                    return Err(BootstrapError::Io { during, source: io::Error::from(error) });
                }
            }
        }
    }
}

impl Bootstrap for Pmi1 {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn value_limit(&self) -> usize {
        self.value_limit
    }

    fn neighbours(&mut self) -> Result<Vec<usize>, BootstrapError> {
        let vector = self.get_text("PMI_process_mapping")?;
        let found = vector.and_then(|text| mapping::of_vector(&text, self.rank, self.size));
        Ok(found.unwrap_or_else(|| vec![self.rank]))
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.check_open("put")?;
        check_key(key)?;
        if value.len() > self.value_limit {
            let (key, length) = (key.to_owned(), value.len());
            return Err(BootstrapError::TooLong { key, length, limit: self.value_limit });
        }
        if !self.put.insert(key.to_owned()) {
            return Err(BootstrapError::DuplicateKey { key: key.to_owned() });
        }
        let value = format!("{VALUE_MARK}{}", to_base64(value));
        let answer = self.ask("put", &put_line(&self.kvsname, key, &value), "put_result")?;
        let words = Words::new(&answer);
        match words.get("rc") {
            None | Some("0") => Ok(()),
            Some(_) if words.get("msg").is_some_and(|text| text.contains("duplicate")) => {
                Err(BootstrapError::DuplicateKey { key: key.to_owned() })
            }
            Some(_) => Err(protocol("put", &answer, "it refused")),
        }
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.check_open("barrier")?;
        self.ask_ok("barrier", "cmd=barrier_in\n", "barrier_out").map(drop)
    }

    fn get(&mut self, _from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let Some(text) = self.get_text(key)? else {
            return Ok(None);
        };
        let malformed = || BootstrapError::Malformed {
            key: key.to_owned(),
            why: format!("{text:?} is not {VALUE_MARK:?} and digits of base 64"),
        };
        text.strip_prefix(VALUE_MARK).and_then(from_base64).map(Some).ok_or_else(malformed)
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.check_open("finalize")?;
        self.left = true;
        self.ask_ok("finalize", "cmd=finalize\n", "finalize_ack")?;
        let _ = shutdown(&self.socket, Shutdown::Both);
        Ok(())
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        self.check_open("abort")?;
        self.left = true;
        // Only transom-run reads the reason; other launchers may reject a word that they do not
        // know.
        if std::env::var_os("TRANSOM_LAUNCHER").is_some() {
            let why: String = why.chars().take(MAX_WHY).collect();
            return self.send("abort", &format!("cmd=abort exitcode={code} why={}\n", to_hex(why.as_bytes())));
        }
        let what = format!("rank {} aborts the job with status {code}: {why}", self.rank);
        diagnostics::error("transom::bootstrap", &what);
        // Hydra drops output that it has not forwarded when the job ends.
        std::thread::sleep(OUTPUT_PAUSE);
        self.send("abort", &format!("cmd=abort exitcode={code}\n"))
    }
}

impl Drop for Pmi1 {
    /// Launchers end the whole job when a rank's connection closes before the rank has left. A
    /// failing rank must be able to print its error first, so the connection is open until the
    /// process ends.
    fn drop(&mut self) {
        if !self.left {
            // Without a free descriptor the connection closes here.
            std::mem::forget(self.socket.try_clone());
        }
    }
}

fn init_failed(error: rustix::io::Errno) -> BootstrapError {
    BootstrapError::Io { during: "init", source: error.into() }
}

fn put_line(kvsname: &str, key: &str, value: &str) -> String {
    format!("cmd=put kvsname={kvsname} key={key} value={value}\n")
}

fn protocol(during: &'static str, answer: &str, why: &str) -> BootstrapError {
    BootstrapError::Protocol { during, answer: answer.to_owned(), why: why.to_owned() }
}

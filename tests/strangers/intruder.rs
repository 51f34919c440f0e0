//! A process outside the job that speaks libfabric to the job's endpoints, through this project's
//! own backend.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_uid};
use transom_fabric::{Domain, Handler, Memory, Peer, Port, Post, RegionKey, Tally, TallyRef};
use transom_ofi::{OfiDomain, OfiOptions, PassiveProbe};

use super::print_flushed;

/// The user `nobody`.
const NOBODY: u32 = 65534;
/// The keys to try.
const KEYS: u64 = 1000;
/// Time limit of one operation.
const OPERATION_LIMIT: Duration = Duration::from_millis(500);
/// Time limit of all operations.
const LIMIT: Duration = Duration::from_secs(40);

/// Runs `what` against the ports.
pub(crate) fn main(what: &str, ports: &[&str]) -> ExitCode {
    if geteuid().is_root() {
        // Before any thread starts, because threads inherit the user.
        set_thread_gid(Gid::from_raw(NOBODY)).expect("root may");
        set_thread_uid(Uid::from_raw(NOBODY)).expect("root may");
    }
    let options = OfiOptions { passive: PassiveProbe::Known(false), rank: Peer(1), ..OfiOptions::default() };
    let intruder = Intruder { domain: OfiDomain::open(&options).expect("libfabric"), begun: Instant::now() };
    for (number, port) in ports.iter().enumerate() {
        let peer = Peer(u32::try_from(number).expect("few ports"));
        let port: u16 = port.parse().expect("a port");
        // A token, which a stranger does not know, and a table of notices, which the port lacks.
        // Then a socket's address (ip(7)).
        let mut address = vec![0; 32];
        address.extend(2u16.to_ne_bytes());
        address.extend(port.to_be_bytes());
        address.extend([127, 0, 0, 1]);
        address.extend([0; 8]);
        intruder.domain.port().connect(peer, &address).expect("an address");
        match what {
            "keys" => intruder.guess_keys(peer),
            _ => intruder.forge_messages(peer),
        }
    }
    ExitCode::SUCCESS
}

struct Intruder {
    domain: Arc<OfiDomain>,
    begun: Instant,
}

struct IgnoreMessages;

impl Handler for IgnoreMessages {
    fn message(&self, _: Peer, _: &[u8]) {}
}

impl Intruder {
    /// Reads, then writes, the first bytes of the region that each key may open.
    fn guess_keys(&self, peer: Peer) {
        let (mut read, mut wrote, mut tried) = (BTreeSet::new(), BTreeSet::new(), 0);
        for key in 0..=KEYS {
            if self.begun.elapsed() > LIMIT {
                break;
            }
            let key_words = RegionKey([u64::from_le_bytes(*b"ofi rgn1"), key, 0, 4096]);
            let Ok(region) = self.domain.port().import(peer, &key_words) else { continue };
            let into = Memory::private(8);
            // SAFETY: the memory is kept until the tally is idle, or else leaked.
            let got = self.operate(|tally| unsafe { self.domain.port().get(&region, 0, into.span(), tally) });
            if !got {
                std::mem::forget(into);
            }
            tried += 1;
            if got {
                read.insert(key);
            }
            if self.operate(|tally| self.domain.port().put_inline(&region, 0, &[0xAA; 64], tally)) {
                wrote.insert(key);
            }
        }
        if !read.is_empty() {
            print_flushed(&format!("read the regions {read:?} of {peer}"));
        }
        if !wrote.is_empty() {
            print_flushed(&format!("wrote the regions {wrote:?} of {peer}"));
        }
        print_flushed(&format!("tried {tried} keys of {peer}"));
    }

    /// Sends messages that would store bytes in each window, by the windows' numbers, and bytes
    /// that are no message.
    fn forge_messages(&self, peer: Peer) {
        let (mut sent, until) = (0, Instant::now() + Duration::from_secs(2));
        for window in (0..16u64).cycle() {
            if Instant::now() > until {
                break;
            }
            // A scatter of one strip: token, window, order, how, strip, data (`messages::codec`).
            let mut scatter = vec![3];
            [0, window, 0].iter().for_each(|word: &u64| scatter.extend(word.to_ne_bytes()));
            scatter.extend([0, 0, 0, 1]);
            [0, 64, 1, 0].iter().for_each(|word: &u64| scatter.extend(word.to_ne_bytes()));
            scatter.extend([0xAA; 64]);
            for message in [&scatter[..], &scatter[..40], &[0xA5; 9000], b""] {
                sent += u32::from(matches!(self.domain.port().send(peer, message), Post::Done));
                let _ = self.domain.port().progress(&IgnoreMessages);
            }
        }
        print_flushed(&format!("sent {sent} messages to {peer}"));
    }

    /// Whether an operation succeeded within the time limit.
    fn operate(&self, post: impl Fn(&TallyRef) -> Post) -> bool {
        let (tally, until) = (Tally::new(), Instant::now() + OPERATION_LIMIT);
        while Instant::now() < until {
            match post(&tally) {
                Post::Again => drop(self.domain.port().progress(&IgnoreMessages)),
                Post::Broken(_) => return false,
                Post::Done => return true,
                Post::Pending => {
                    while Instant::now() < until && !tally.idle() {
                        let _ = self.domain.port().progress(&IgnoreMessages);
                    }
                    return tally.idle() && tally.take_failure().is_none();
                }
            }
        }
        false
    }
}

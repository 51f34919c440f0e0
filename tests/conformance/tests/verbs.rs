//! The contract's tests over libibverbs: all ranks on one port, and, with two devices, ranks that
//! alternate between the devices, so that packets cross a wire. They need an RDMA device, as in the
//! virtual machine of `ci/rdma-vm`: run them there with `--ignored`.
//!
//! Shows T4.
//! Route: verbs.

use std::sync::Arc;

use transom_conformance::{Fixture, Orders, conformance, connect_all, peers, run};
use transom_fabric::{Amo, AmoKind, Domain, Memory, Peer, Tally, Width};
use transom_verbs::{VerbsDomain, VerbsOptions, ports};

/// Ranks use these ports in turn.
struct Verbs(Vec<String>);

/// One port, then all ports.
fn fixtures() -> Vec<Verbs> {
    let usable = ports().into_iter().filter(|info| info.gid.is_ok());
    let all: Vec<_> = usable.map(|info| format!("{}:{}", info.device, info.port)).collect();
    assert!(!all.is_empty(), "no RDMA device: {:?}", ports());
    let mut fixtures = vec![Verbs(all[..1].to_vec())];
    if all.len() > 1 {
        fixtures.push(Verbs(all));
    }
    fixtures
}

impl Fixture for Verbs {
    type Domain = VerbsDomain;

    fn name(&self) -> String {
        format!("verbs on {}", self.0.join(" and "))
    }

    fn open(&self, ranks: usize) -> Vec<Arc<VerbsDomain>> {
        let domains: Vec<_> = peers(ranks)
            .map(|rank| {
                let devices = Some(self.0[rank.index() % self.0.len()].clone());
                let options = VerbsOptions { rank, devices, ..VerbsOptions::default() };
                VerbsDomain::open(&options).expect("a device")
            })
            .collect();
        connect_all(&domains);
        domains
    }

    fn orders(&self) -> Orders {
        Orders { messages: true, atomics: true, atomics_of_a_location: true, immediates: true }
    }

    fn memory(&self, _domain: &VerbsDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

conformance!(ignored: "needs an RDMA device, as in ci/rdma-vm"; super::fixtures());

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 7 % 251).expect("below 251")).collect()
}

/// "One work request per contiguous put, get or 64-bit atomic", of every length, and for three
/// ranges of memory; the target makes no call after it was connected.
///
/// Shows S5.
#[test]
#[ignore = "needs an RDMA device, as in ci/rdma-vm"]
fn every_operation_is_one_request_and_needs_no_call_of_the_target() {
    const LONG: usize = 1 << 20;
    let all = fixtures();
    let fixture = all.last().expect("at least one");
    run(fixture, 2, |rank| {
        let window = rank.window(LONG + 16);
        if rank.me.0 == 0 {
            let (tally, remote) = (Tally::new(), &window.remotes[1]);
            // The first operation finds the connection.
            rank.put(remote, 8, &Memory::private(8), &tally);
            rank.flush(&tally);
        }
        rank.barrier();
        if rank.me.0 == 1 {
            rank.pause();
        }
        rank.barrier();
        if rank.me.0 == 0 {
            let (tally, remote, port) = (Tally::new(), &window.remotes[1], rank.domain().port());
            for len in [8, 48, 49, 4096, 5000, 16 << 10, 128 << 10, (128 << 10) + 1, LONG - 3] {
                let (from, into, old) = (Memory::private(len), Memory::private(len), Memory::private(8));
                from.write(0, &pattern(len));
                let before = port.posted(Peer(1)).requests;
                rank.put(remote, 9, &from, &tally);
                rank.flush(&tally);
                rank.get(remote, 9, &into, &tally);
                rank.flush(&tally);
                rank.amo(remote, 0, Amo::new(AmoKind::Sum, Width::W64, 1), &old, &tally);
                rank.flush(&tally);
                assert_eq!(port.posted(Peer(1)).requests - before, 3, "{len} bytes");
                let mut back = vec![0; len];
                into.read(0, &mut back);
                assert!(back == pattern(len), "{len} bytes");
                let third = len / 3;
                let pieces = [(2 * third, len - 2 * third), (0, third), (third, third)];
                into.write(0, &vec![0; len]);
                rank.put_list(remote, 9, &from, &pieces, &tally);
                rank.flush(&tally);
                rank.get_list(remote, 9, &into, &pieces, &tally);
                rank.flush(&tally);
                assert_eq!(port.posted(Peer(1)).requests - before, 5, "{pieces:?}");
                into.read(0, &mut back);
                assert!(back == pattern(len), "{pieces:?}");
            }
        }
        rank.barrier();
        rank.resume();
    });
}

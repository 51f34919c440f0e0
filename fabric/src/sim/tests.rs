//! Properties of the simulator beyond the contract: it is hostile, reproducible, counted and
//! breakable.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;
use crate::{Amo, Domain, Handler, Memory, Peer, Port, Post, Region, Tally};

struct NoMessages;

impl Handler for NoMessages {
    fn message(&self, from: Peer, bytes: &[u8]) {
        panic!("{} bytes from {from}, which no rank sent", bytes.len());
    }
}

struct Pair {
    net: std::sync::Arc<SimNet>,
    domains: Vec<std::sync::Arc<SimDomain>>,
    memory: Memory,
    remote: SimRemote,
    _region: SimRegion,
}

/// Two ranks: the memory belongs to rank 1, and the remote is for rank 0.
fn pair(options: SimOptions) -> Pair {
    let net = SimNet::new(2, options);
    let domains: Vec<_> = (0..2).map(|rank| net.domain(Peer(rank)).expect("not open yet")).collect();
    for domain in &domains {
        for (rank, peer) in (0..).zip(&domains) {
            let address = peer.port().address();
            domain.port().connect(Peer(rank), &address).expect("its own");
        }
    }
    let memory = Memory::private(512);
    let region = domains[1].register(&memory).expect("no limit");
    let remote = domains[0].port().import(Peer(1), &region.key());
    Pair { net, remote: remote.expect("connected"), domains, memory, _region: region }
}

fn calm() -> SimOptions {
    SimOptions { again_one_in: 0, done_one_in: 0, ..SimOptions::default() }
}

fn finish(port: &SimPort, tally: &Tally) -> usize {
    for call in 1..1000 {
        port.progress(&NoMessages).expect("no rank was killed");
        if tally.idle() {
            return call;
        }
    }
    panic!("{} are outstanding after 1000 calls", tally.outstanding());
}

#[test]
fn a_put_is_invisible_until_progress_and_counted_once() {
    let pair = pair(calm());
    let tally = Tally::new();
    let port = pair.domains[0].port();
    let post = port.put_inline(&pair.remote, 8, &7u64.to_ne_bytes(), &tally);
    assert!(matches!(post, Post::Pending));
    assert_eq!(pair.memory.word64(8).load(Ordering::Relaxed), 0);
    assert!(finish(port, &tally) >= 2, "learned of in a later step");
    assert_eq!(pair.memory.word64(8).load(Ordering::Relaxed), 7);
    let counters = pair.net.counters(Peer(0));
    assert_eq!((counters.puts, counters.bytes), (1, 8));
    assert_eq!(pair.net.counters(Peer(1)), SimCounters::default());
}

#[test]
fn a_seed_reproduces_a_run() {
    let course = |seed| {
        let pair = pair(SimOptions { seed, ..SimOptions::default() });
        let port = pair.domains[0].port();
        let mut seen = Vec::new();
        for value in 0..64u64 {
            let tally = Tally::new();
            let amo = Amo::new(AmoKind::Sum, Width::W64, value);
            let post = port.put_inline(&pair.remote, 8 * value, &amo.operand.to_ne_bytes(), &tally);
            seen.push(match post {
                Post::Again => 1000,
                Post::Done => 2000,
                _ => finish(port, &tally),
            });
        }
        seen
    };
    assert_eq!(course(5), course(5));
    assert_ne!(course(5), course(6));
}

#[test]
fn operations_overtake_each_other() {
    let pair = pair(calm());
    let port = pair.domains[0].port();
    let tallies: Vec<_> = (0..32).map(|_| Tally::new()).collect();
    for (slot, tally) in (0..).zip(&tallies) {
        let post = port.put_inline(&pair.remote, slot, &[1], tally);
        assert!(matches!(post, Post::Pending));
    }
    let mut overtaken = false;
    while tallies.iter().any(|tally| !tally.idle()) {
        port.progress(&NoMessages).expect("no rank was killed");
        overtaken |= tallies.windows(2).any(|two| !two[0].idle() && two[1].idle());
    }
    assert!(overtaken);
}

#[test]
fn an_ordered_net_completes_operations_in_order() {
    let pair = pair(SimOptions { reorder: false, done_one_in: 2, ..calm() });
    let port = pair.domains[0].port();
    let tally = Tally::new();
    let mut pending = 0;
    for value in 1..=64u8 {
        let post = port.put_inline(&pair.remote, 0, &[value], &tally);
        pending += u32::from(matches!(post, Post::Pending));
        assert!(pending == 0 || matches!(post, Post::Pending), "put {value} overtook {pending}");
    }
    assert!(pending > 0);
    finish(port, &tally);
    assert_eq!(pair.memory.word64(0).load(Ordering::Relaxed).to_ne_bytes()[0], 64);
}

#[test]
fn without_passive_progress_only_the_target_applies() {
    let pair = pair(SimOptions { passive_target: false, ..calm() });
    let tally = Tally::new();
    let port = pair.domains[0].port();
    let post = port.put_inline(&pair.remote, 0, &[9], &tally);
    assert!(matches!(post, Post::Pending));
    for _ in 0..100 {
        port.progress(&NoMessages).expect("no rank was killed");
        port.wait(Duration::ZERO);
    }
    assert_eq!(tally.outstanding(), 1);
    for _ in 0..100 {
        pair.domains[1].port().progress(&NoMessages).expect("alive");
    }
    finish(port, &tally);
    assert_eq!(pair.memory.word64(0).load(Ordering::Relaxed).to_ne_bytes()[0], 9);
}

#[test]
fn a_killed_peer_breaks_posts_and_fails_operations_in_flight() {
    let pair = pair(calm());
    let tally = Tally::new();
    let port = pair.domains[0].port();
    let post = port.put_inline(&pair.remote, 0, &[9], &tally);
    assert!(matches!(post, Post::Pending));
    pair.net.kill(Peer(1));
    assert!(tally.idle());
    assert_eq!(tally.fault().map(|fault| fault.peer), Some(Peer(1)));
    match port.put_inline(&pair.remote, 0, &[9], &tally) {
        Post::Broken(fault) => assert_eq!(format!("{fault:#}"), "rank 1: the rank's process has ended"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(port.send(Peer(1), b"?"), Post::Broken(_)));
    assert!(pair.domains[1].port().progress(&NoMessages).is_err());
    port.progress(&NoMessages).expect("rank 0 lives");
}

#[test]
fn regions_are_limited_and_ranges_checked() {
    let regions = SimRegions { most: Some(1), ..calm().regions };
    let pair = pair(SimOptions { regions, ..calm() });
    let refused = pair.domains[1].register(&pair.memory);
    let words = format!("{:#}", refused.expect_err("one is registered"));
    assert!(words.contains("512 bytes") && words.contains("1 regions"), "{words}");
    let (port, tally) = (pair.domains[0].port(), Tally::new());
    match port.put_inline(&pair.remote, 510, &[1; 3], &tally) {
        Post::Broken(fault) => assert!(
            fault.cause.to_string().contains("3 bytes at offset 510 are outside the region, which has 512 bytes")
        ),
        other => panic!("{other:?}"),
    }
    assert!(tally.idle());
}

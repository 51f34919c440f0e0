//! Puts that carry notices over `cxi` of libfabric 2.5: the contract's tests, the bound of unread
//! notices, failures, and ranks that differ.

use std::cell::RefCell;
use std::sync::Arc;

use transom_conformance::{Fixture, Orders, conformance, connect_all, peers};
use transom_fabric::{
    Domain, FabricError, Fault, Handler, Immediate, Memory, Peer, Port, Post, Region, Tally, TallyRef,
};
use transom_ofi::{Carrying, OfiDomain, OfiOptions, OfiPort, OfiRegion, OfiRemote};

use crate::NoMessages;
use crate::stand_in::{self, Data, Reads, with_data, with_reads};

/// `cxi` where the user permits writes with remote CQ data.
struct Cxi;

/// Opens `cxi`, whose writes with data behave like this.
fn open(data: Data, options: OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
    let provider = options.provider.or(Some("cxi".to_owned()));
    with_data(data, || OfiDomain::open_of(&stand_in::library(), &OfiOptions { provider, ..options }))
}

impl Fixture for Cxi {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        "ofi, a stand-in for cxi, whose puts carry notices".to_owned()
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        let carrying = Carrying::Known(true);
        let options = |rank| OfiOptions { rank, ranks, carrying, ..OfiOptions::default() };
        let open = |rank| open(Data::Reported, options(rank)).expect("the stand-in is here");
        let domains: Vec<_> = peers(ranks).map(open).collect();
        connect_all(&domains);
        domains
    }

    fn orders(&self) -> Orders {
        Orders { immediates: true, ..Orders::default() }
    }

    fn memory(&self, _domain: &OfiDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

conformance!([super::Cxi]);

/// Records notices.
#[derive(Default)]
struct Notices(RefCell<Vec<(Peer, u32)>>);

impl Handler for Notices {
    fn message(&self, from: Peer, bytes: &[u8]) {
        panic!("{} bytes from {from}, which no rank sent", bytes.len());
    }

    fn immediate(&self, from: Peer, immediate: Immediate) {
        self.0.borrow_mut().push((from, immediate.number()));
    }
}

impl Notices {
    fn take(&self, target: &OfiPort) -> usize {
        target.settle(self).expect("the queue works");
        self.0.take().len()
    }
}

/// A region of the last rank, to which the other ranks put.
struct Target {
    domains: Vec<Arc<OfiDomain>>,
    region: OfiRegion,
}

impl Target {
    fn among(ranks: usize) -> Target {
        let domains = Cxi.open(ranks);
        let region = domains[ranks - 1].register(&Memory::private(64)).expect("room");
        Target { domains, region }
    }

    fn port(&self) -> &OfiPort {
        self.domains[self.domains.len() - 1].port()
    }

    fn remote(&self, origin: usize) -> OfiRemote {
        let last = u32::try_from(self.domains.len() - 1).expect("few");
        self.domains[origin].port().import(Peer(last), &self.region.key()).expect("connected")
    }
}

/// Posts a notice.
fn put(origin: &OfiPort, to: &OfiRemote, number: usize, tally: &TallyRef) -> Post {
    let number = Immediate::new(u32::try_from(number).expect("few")).expect("a small number");
    origin.put_immediate(to, 0, &[1; 8], number, tally)
}

fn complete(origin: &OfiPort, tally: &TallyRef) {
    while !tally.idle() {
        origin.progress(&NoMessages).expect("the queue works");
    }
}

/// Posts notices over and over, because a read that is in flight may free the share, until none is
/// accepted. Returns their number.
fn fill(origin: &OfiPort, to: &OfiRemote, tally: &TallyRef) -> usize {
    let mut sent = 0;
    for _ in 0..1000 {
        match put(origin, to, sent, tally) {
            Post::Pending => sent += 1,
            Post::Again => assert!(origin.progress(&NoMessages).is_ok()),
            other => panic!("{other:?}"),
        }
    }
    complete(origin, tally);
    sent
}

/// A notice is one write, and no message. A target that reads no completions gets at most its share
/// of notices, and the origin reads, without the target's CPU, how many were taken.
/// Shows T3.
#[test]
fn a_notice_is_one_write_and_their_number_is_bounded() {
    const SHARE: usize = 64;
    let target = Target::among(2);
    let (origin, remote) = (target.domains[0].port(), target.remote(0));
    assert!(target.port().limits().passive_target && origin.limits().immediates);
    let (tally, notices) = (Tally::new(), Notices::default());
    for _ in 0..3 {
        let posts = stand_in::posts(|| assert_eq!(fill(origin, &remote, &tally), SHARE));
        let kinds: Vec<_> = posts.keys().copied().collect();
        assert_eq!((posts["writes with data"], kinds.as_slice()), (SHARE, &["reads", "writes with data"][..]));
        target.port().settle(&notices).expect("the queue works");
        let expected: Vec<_> = (0..64).map(|number| (Peer(0), number)).collect();
        assert_eq!(notices.0.take(), expected);
    }
}

/// Regression: shares were parts of the completion queue, which is longer than the queue of control
/// events. An overflow of the latter ends the target, which reads no queue while it computes.
/// Shows T3.
#[test]
fn several_origins_do_not_overflow_the_queues_of_a_target_that_computes() {
    let (target, tally, notices) = (Target::among(4), Tally::new(), Notices::default());
    for _ in 0..3 {
        let sent: usize = (0..3).map(|rank| fill(target.domains[rank].port(), &target.remote(rank), &tally)).sum();
        assert_eq!((sent, notices.take(target.port())), (3 * 32, 3 * 32), "half of 256, in four shares");
    }
}

/// Without the user's permission, or with so many ranks that a share would be below 4, puts carry
/// no notices.
/// Shows T3.
#[test]
fn notices_need_permission_and_room() {
    let has = |ranks, carrying| {
        let options = OfiOptions { ranks, carrying, ..OfiOptions::default() };
        open(Data::Reported, options).expect("the stand-in is here").port().limits().immediates
    };
    assert!(has(32, Carrying::Tried) && !has(33, Carrying::Tried));
    assert!(!has(2, Carrying::ByRules) && !has(2, Carrying::Known(false)));
}

/// Regression: a job did not use `cxi` if the user had set `FI_CXI_ENABLE_WRITEDATA`, perhaps for
/// another library, and the test of a notice failed: writes with data are refused, the target gets
/// no entry, or gets it after the put is complete, so that a counter could lack complete puts.
/// Shows T3.
#[test]
fn a_failed_test_of_notices_leaves_the_provider() {
    let failures = [
        (Data::Refused, "Invalid argument"),
        (Data::Unreported, "no entry in the target's completion queue"),
        (Data::Late, "came after the origin's completion"),
    ];
    for (data, reason) in failures {
        let open = |carrying| open(data, OfiOptions { carrying, ..OfiOptions::default() });
        let domain = open(Carrying::Tried).expect("cxi without notices");
        assert_eq!((domain.name().as_str(), domain.port().limits().immediates), ("cxi cxi0", false));
        let region = domain.register(&Memory::private(64)).expect("room");
        assert!(region.key().0[1] < 100, "an optimized region, as without the variable");
        let error = format!("{:#}", open(Carrying::Known(true)).expect_err("no notices"));
        assert!(error.contains("probing a write with remote CQ data") && error.contains(reason), "{error}");
    }
}

/// Rank 0 tells the others whether puts carry notices. A rank that can't do so, with an older
/// libfabric or a shorter queue, does not open the provider.
/// Shows T3.
#[test]
fn a_rank_that_cannot_carry_notices_like_rank_0_opens_nothing() {
    let options = |ranks| OfiOptions {
        chosen: Some("cxi".to_owned()),
        passive: transom_ofi::PassiveProbe::Known(true),
        carrying: Carrying::Known(true),
        ranks,
        ..OfiOptions::default()
    };
    let open =
        |minor, ranks| with_data(Data::Reported, || OfiDomain::open_of(&stand_in::library_of(minor), &options(ranks)));
    assert!(open(5, 32).expect("as rank 0").port().limits().immediates);
    for (minor, ranks) in [(4, 2), (5, 33)] {
        let error = format!("{:#}", open(minor, ranks).expect_err("no notices"));
        assert!(error.contains("puts of rank 0 carry notices") && error.contains("FI_UNIVERSE_SIZE"), "{error}");
    }
}

/// The address of a rank without notices says so.
#[test]
fn a_notice_to_a_rank_that_takes_none_is_refused() {
    let open = |rank, carrying| {
        let options = OfiOptions { rank: Peer(rank), carrying, ..OfiOptions::default() };
        open(Data::Reported, options).expect("the stand-in is here")
    };
    let domains = vec![open(0, Carrying::Known(true)), open(1, Carrying::Known(false))];
    connect_all(&domains);
    let region = domains[1].register(&Memory::private(64)).expect("room");
    let remote = domains[0].port().import(Peer(1), &region.key()).expect("connected");
    let answer = put(domains[0].port(), &remote, 1, &Tally::new());
    assert!(matches!(answer, Post::Broken(_)), "{answer:?}");
}

/// Regression: each failed notified put took one of the share for ever. After as many failures as
/// the share, notified puts waited for ever.
#[test]
fn a_failed_notified_put_gives_its_share_back() {
    let (target, notices) = (Target::among(2), Notices::default());
    let (origin, remote) = (target.domains[0].port(), target.remote(0));
    let mut key = target.region.key();
    key.0[1] ^= 1 << 40;
    let wrong = origin.import(Peer(1), &key).expect("connected");
    for failed in 0..200 {
        let tally = Tally::new();
        let answer = put(origin, &wrong, failed, &tally);
        assert!(matches!(answer, Post::Pending), "put {failed}: {answer:?}");
        complete(origin, &tally);
        assert!(tally.fault().is_some(), "there is no such region");
    }
    let tally = Tally::new();
    assert_eq!((fill(origin, &remote, &tally), notices.take(target.port())), (64, 64));
    assert!(tally.fault().is_none());
}

/// Regression: if the number of notices that the target has taken could not be read, notified puts
/// waited for ever. The next read that succeeds ends the failures.
#[test]
fn a_number_of_taken_notices_that_cannot_be_read_is_a_fault() {
    for reads in [Reads::Refused, Reads::Failing] {
        let (target, notices, tally) = (Target::among(2), Notices::default(), Tally::new());
        let (origin, remote) = (target.domains[0].port(), target.remote(0));
        let again = |_| match put(origin, &remote, 0, &tally) {
            Post::Broken(fault) => Some(*fault),
            _ => {
                origin.progress(&NoMessages).expect("the queue works");
                None
            }
        };
        let fault: Fault = with_reads(reads, || (0..1000).find_map(again)).expect("no endless wait");
        assert!(fault.peer == Peer(1) && format!("{fault:#}").contains("Input/output error"), "{reads:?}: {fault:#}");
        complete(origin, &tally);
        assert_eq!(notices.take(target.port()), 64, "the share was used before");
        let sent = (0..1000).filter(|_| again(0).is_none()).count();
        assert!(sent > 900, "{reads:?}: {sent} posts after a read that succeeds");
        complete(origin, &tally);
        assert_eq!(notices.take(target.port()), 64, "{reads:?}");
    }
}

//! Puts that carry notices over `cxi` of libfabric 2.5 and over `psm3`: the contract's tests, the
//! bound of unread notices, failures, and ranks that differ.

use std::cell::RefCell;
use std::sync::Arc;

use transom_conformance::{Fixture, Orders, conformance, connect_all, peers};
use transom_fabric::{
    Domain, FabricError, Fault, Handler, Immediate, Memory, Peer, Port, Post, Region, Tally, TallyRef,
};
use transom_ofi::{Carrying, OfiDomain, OfiOptions, OfiPort, OfiRegion, OfiRemote};

use crate::NoMessages;
use crate::stand_in::{self, Data, Reads, with_data, with_reads};

/// A provider whose puts carry notices, where the user permits them.
#[derive(Clone, Copy)]
struct Carrier {
    name: &'static str,
    /// The bytes of an entry's data.
    data: usize,
    /// The share of one of two ranks.
    share: usize,
    /// The most ranks whose puts carry notices.
    ranks: usize,
}

const CXI: Carrier = Carrier { name: "cxi", data: 8, share: 64, ranks: 32 };
const PSM3: Carrier = Carrier { name: "psm3", data: 4, share: 128, ranks: 512 };

const CARRIERS: [Carrier; 2] = [CXI, PSM3];

impl Carrier {
    /// Opens the provider, whose writes with data behave like this.
    fn open_rank(self, data: Data, options: OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
        let provider = options.provider.or(Some(self.name.to_owned()));
        with_data(data, || OfiDomain::open_of(&stand_in::library(), &OfiOptions { provider, ..options }))
    }
}

impl Fixture for Carrier {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        format!("ofi, a stand-in for {}, whose puts carry notices of {} bytes", self.name, self.data)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        let carrying = Carrying::Known(true);
        let options = |rank| OfiOptions { rank, ranks, carrying, ..OfiOptions::default() };
        let open = |rank| self.open_rank(Data::Reported, options(rank)).expect("the stand-in is here");
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

conformance!(super::CARRIERS);

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

/// A region of the last rank, to which the other ranks put.
struct Target {
    domains: Vec<Arc<OfiDomain>>,
    region: OfiRegion,
    /// The notices that the target has taken.
    notices: Notices,
}

impl Target {
    fn among(ranks: usize, carrier: Carrier) -> Target {
        let domains = carrier.open(ranks);
        let region = domains[ranks - 1].register(&Memory::private(64)).expect("room");
        Target { domains, region, notices: Notices::default() }
    }

    /// Waits for an origin's puts. The target makes calls only if its device needs them.
    fn complete(&self, origin: &OfiPort, tally: &TallyRef) {
        while !tally.idle() {
            origin.progress(&NoMessages).expect("the queue works");
            if !origin.limits().passive_target {
                self.port().progress(&self.notices).expect("the queue works");
            }
        }
    }

    /// Posts notices over and over, because a read that is in flight may free the share, until none
    /// is accepted. Returns their number.
    fn fill(&self, origin: &OfiPort, to: &OfiRemote, tally: &TallyRef) -> usize {
        let mut sent = 0;
        for _ in 0..1000 {
            match put(origin, to, sent, tally) {
                Post::Pending => sent += 1,
                Post::Again => assert!(origin.progress(&NoMessages).is_ok()),
                other => panic!("{other:?}"),
            }
        }
        self.complete(origin, tally);
        sent
    }

    /// The notices that have arrived since the last call.
    fn take(&self) -> Vec<(Peer, u32)> {
        self.port().settle(&self.notices).expect("the queue works");
        self.notices.0.take()
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

/// A notice is one write, and no message. A target that reads no completions gets at most its share
/// of notices, and the origin reads how many were taken.
/// Shows T3.
#[test]
fn a_notice_is_one_write_and_their_number_is_bounded() {
    for carrier in CARRIERS {
        let target = Target::among(2, carrier);
        let (origin, remote) = (target.domains[0].port(), target.remote(0));
        let bits = if carrier.data == 8 { 31 } else { 23 };
        assert_eq!(origin.limits().immediates.bits, bits, "{}", carrier.name);
        let tally = Tally::new();
        // Only a device performs the read of the number of taken notices while the target computes.
        for _ in 0..if origin.limits().passive_target { 3 } else { 1 } {
            let posts = stand_in::posts(|| assert_eq!(target.fill(origin, &remote, &tally), carrier.share));
            let kinds: Vec<_> = posts.keys().copied().collect();
            assert_eq!(
                (posts["writes with data"], kinds.as_slice()),
                (carrier.share, &["reads", "writes with data"][..])
            );
            let expected: Vec<_> = (0..).map(|number| (Peer(0), number)).take(carrier.share).collect();
            assert_eq!(target.take(), expected);
        }
    }
}

/// The entries of `psm3` name the highest counter of the last window, and its 512th rank. Longer
/// puts than the provider orders are known: a notice behind them waits. The device of `cxi` orders
/// all. Shows T3.
#[test]
fn a_notice_of_four_bytes_names_any_counter() {
    let target = Target::among(2, PSM3);
    let (origin, tally, most) = (target.domains[0].port(), Tally::new(), (1 << 23) - 1);
    assert!(matches!(put(origin, &target.remote(0), most, &tally), Post::Pending));
    assert!(matches!(put(origin, &target.remote(0), most + 1, &tally), Post::Broken(_)));
    target.complete(origin, &tally);
    assert_eq!(target.take(), [(Peer(0), (1 << 23) - 1)]);
    let follow = CARRIERS.map(|carrier| carrier.open(2)[0].port().limits().immediates.follow);
    assert_eq!(follow, [usize::MAX, 4096]);
}

/// Regression: shares were parts of the completion queue, which is longer than the queue of control
/// events. An overflow of the latter ends the target, which reads no queue while it computes.
/// Shows T3.
#[test]
fn several_origins_do_not_overflow_the_queues_of_a_target_that_computes() {
    let (target, tally) = (Target::among(4, CXI), Tally::new());
    for _ in 0..3 {
        let fill = |rank: usize| target.fill(target.domains[rank].port(), &target.remote(rank), &tally);
        let sent: usize = (0..3).map(fill).sum();
        assert_eq!((sent, target.take().len()), (3 * 32, 3 * 32), "half of 256, in four shares");
    }
}

/// Without the user's permission, which `psm3` does not need, or with so many ranks that a share
/// would be below 4, puts carry no notices.
/// Shows T3.
#[test]
fn notices_need_permission_and_room() {
    for carrier in CARRIERS {
        let has = |ranks, carrying| {
            let options = OfiOptions { ranks, carrying, ..OfiOptions::default() };
            let domain = carrier.open_rank(Data::Reported, options).expect("the stand-in is here");
            domain.port().limits().immediates.any()
        };
        assert!(has(carrier.ranks, Carrying::Tried) && !has(carrier.ranks + 1, Carrying::Tried), "{}", carrier.name);
        assert_eq!(has(2, Carrying::ByRules), carrier.name == "psm3");
        assert!(!has(2, Carrying::Known(false)));
    }
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
    for (carrier, (data, reason)) in CARRIERS.iter().flat_map(|carrier| failures.map(|failure| (carrier, failure))) {
        let open = |carrying| carrier.open_rank(data, OfiOptions { carrying, ..OfiOptions::default() });
        let domain = open(Carrying::Tried).expect("the provider without notices");
        assert_eq!((domain.provider().as_str(), domain.port().limits().immediates.any()), (carrier.name, false));
        let region = domain.register(&Memory::private(64)).expect("room");
        assert!(carrier.name != "cxi" || region.key().0[1] < 100, "an optimized region, as without the variable");
        let error = format!("{:#}", open(Carrying::Known(true)).expect_err("no notices"));
        assert!(error.contains("probing a write with remote CQ data") && error.contains(reason), "{error}");
    }
}

/// Rank 0 tells the others whether puts carry notices. A rank that can't do so, with an older
/// libfabric or a shorter queue, does not open the provider.
/// Shows T3.
#[test]
fn a_rank_that_cannot_carry_notices_like_rank_0_opens_nothing() {
    let open = |carrier: Carrier, minor, ranks| {
        let options = OfiOptions {
            chosen: Some(carrier.name.to_owned()),
            passive: transom_ofi::PassiveProbe::Known(true),
            carrying: Carrying::Known(true),
            ranks,
            ..OfiOptions::default()
        };
        with_data(Data::Reported, || OfiDomain::open_of(&stand_in::library_of((2, minor)), &options))
    };
    let too_many = CARRIERS.map(|carrier| (carrier, 5, carrier.ranks + 1));
    for carrier in CARRIERS {
        assert!(open(carrier, 5, carrier.ranks).expect("as rank 0").port().limits().immediates.any());
    }
    for (carrier, minor, ranks) in [(CXI, 4, 2)].into_iter().chain(too_many) {
        let error = format!("{:#}", open(carrier, minor, ranks).expect_err("no notices"));
        assert!(error.contains("puts of rank 0 carry notices") && error.contains("FI_UNIVERSE_SIZE"), "{error}");
    }
}

/// The address of a rank without notices says so.
#[test]
fn a_notice_to_a_rank_that_takes_none_is_refused() {
    for carrier in CARRIERS {
        let open = |rank, carrying| {
            let options = OfiOptions { rank: Peer(rank), carrying, ..OfiOptions::default() };
            carrier.open_rank(Data::Reported, options).expect("the stand-in is here")
        };
        let domains = vec![open(0, Carrying::Known(true)), open(1, Carrying::Known(false))];
        connect_all(&domains);
        let region = domains[1].register(&Memory::private(64)).expect("room");
        let remote = domains[0].port().import(Peer(1), &region.key()).expect("connected");
        let answer = put(domains[0].port(), &remote, 1, &Tally::new());
        assert!(matches!(answer, Post::Broken(_)), "{answer:?}");
    }
}

/// Regression: each failed notified put took one of the share for ever. After as many failures as
/// the share, notified puts waited for ever.
#[test]
fn a_failed_notified_put_gives_its_share_back() {
    for carrier in CARRIERS {
        let target = Target::among(2, carrier);
        let (origin, remote) = (target.domains[0].port(), target.remote(0));
        let mut key = target.region.key();
        key.0[1] ^= 1 << 40;
        let wrong = origin.import(Peer(1), &key).expect("connected");
        for failed in 0..200 {
            let tally = Tally::new();
            let answer = put(origin, &wrong, failed, &tally);
            assert!(matches!(answer, Post::Pending), "put {failed}: {answer:?}");
            target.complete(origin, &tally);
            assert!(tally.fault().is_some(), "there is no such region");
        }
        let tally = Tally::new();
        assert_eq!((target.fill(origin, &remote, &tally), target.take().len()), (carrier.share, carrier.share));
        assert!(tally.fault().is_none());
    }
}

/// Regression: if the number of notices that the target has taken could not be read, notified puts
/// waited for ever. The next read that succeeds ends the failures.
#[test]
fn a_number_of_taken_notices_that_cannot_be_read_is_a_fault() {
    for reads in [Reads::Refused, Reads::Failing] {
        let (target, tally) = (Target::among(2, CXI), Tally::new());
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
        target.complete(origin, &tally);
        assert_eq!(target.take().len(), 64, "the share was used before");
        let sent = (0..1000).filter(|_| again(0).is_none()).count();
        assert!(sent > 900, "{reads:?}: {sent} posts after a read that succeeds");
        target.complete(origin, &tally);
        assert_eq!(target.take().len(), 64, "{reads:?}");
    }
}

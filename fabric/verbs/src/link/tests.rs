//! Requests of a connection that breaks, on a device that reports no completion by itself. Each
//! request ends exactly once, in whatever way the connection breaks.

use std::sync::Arc;
use std::time::Duration;

use transom_fabric::{Domain, Handler, Memory, Peer, Port, Post, Reason, Region, Tally, TallyRef};

use crate::address::Grant;
use crate::domain::{VerbsDomain, VerbsOptions, VerbsRegion};
use crate::remote::VerbsRemote;
use crate::standin::{ROOM, Standin};
use crate::sys;

pub(super) struct Nobody;

impl Handler for Nobody {
    fn message(&self, _from: Peer, _bytes: &[u8]) {}
}

pub(super) const PEER: Peer = Peer(1);

/// A domain on a stand-in.
pub(super) fn domain() -> (Arc<VerbsDomain>, &'static Standin) {
    let (device, standin) = Standin::open();
    (VerbsDomain::on(device, &VerbsOptions::default()).expect("a stand-in"), standin)
}

/// An open connection to a peer, which is this process, and a region of the peer.
pub(super) fn connect(domain: &VerbsDomain, peer: Peer) -> (VerbsRegion, VerbsRemote) {
    let region = domain.register(&Memory::private(64)).expect("a stand-in registers all memory");
    domain.port().connect(peer, &domain.port().address()).expect("a queue pair");
    let remote = domain.port().import(peer, &region.key()).expect("connected");
    remote.link.open();
    (region, remote)
}

pub(super) fn put(domain: &VerbsDomain, to: &VerbsRemote, tally: &TallyRef) -> Post {
    domain.port().put_inline(to, 0, &[7; 8], tally)
}

/// Makes as much progress as the end of a broken connection takes.
pub(super) fn progress(domain: &VerbsDomain) {
    for _ in 0..3 {
        domain.port().progress(&Nobody).expect("progress");
    }
}

/// Posts two puts, the second of which is held, and then calls `breaks`: each put fails once.
fn puts_fail(breaks: impl FnOnce(&VerbsDomain, &'static Standin, &VerbsRemote)) {
    let (domain, standin) = domain();
    let (_region, remote) = connect(&domain, PEER);
    let tally = Tally::new();
    assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
    assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
    assert_eq!(standin.state().posted, [(PEER, 0, false)]);
    breaks(&domain, standin, &remote);
    progress(&domain);
    assert_eq!(tally.outstanding(), 0);
    assert_eq!(tally.fault().expect("both failed").peer, PEER);
    assert!(matches!(put(&domain, &remote, &tally), Post::Broken(_)));
    assert_eq!(standin.state().states, [(PEER, sys::IBV_QPS_ERR), (PEER, sys::IBV_QPS_RESET)]);
    // Completions that the device had made before.
    for number in 0..2 {
        standin.complete(PEER, number, number == 0);
    }
    progress(&domain);
    assert_eq!(tally.outstanding(), 0);
}

/// Regression: only a signaled request that could not be posted would have completed the put before
/// it, which waited for ever.
///
/// Shows E3.
#[test]
fn a_refused_post_fails_the_requests_before_it() {
    puts_fail(|domain, standin, remote| {
        standin.state().refuses_posts = true;
        let tally = Tally::new();
        assert!(matches!(put(domain, remote, &tally), Post::Broken(_)));
        assert_eq!(tally.outstanding(), 0);
    });
    puts_fail(|domain, standin, remote| {
        standin.state().refuses_posts = true;
        domain.port().release(remote);
    });
}

/// Shows E3.
#[test]
fn requests_end_where_the_device_reports_no_completion() {
    puts_fail(|domain, _, _| domain.port().lose(PEER, Reason::Died));
    puts_fail(|domain, standin, _| {
        standin.state().refuses_posts = true;
        domain.port().lose(PEER, Reason::Died);
    });
    puts_fail(|domain, standin, _| {
        standin.report(sys::IBV_EVENT_QP_FATAL, PEER);
        domain.port().wait(Duration::from_secs(60));
    });
    puts_fail(|domain, standin, _| {
        standin.complete(PEER, 0, false);
        progress(domain);
    });
}

/// Puts that the device completed before their connection broke are complete, although `progress`
/// takes the completion later.
#[test]
fn completions_before_the_break_count() {
    let (domain, standin) = domain();
    let (_region, remote) = connect(&domain, PEER);
    let (done, lost) = (Tally::new(), Tally::new());
    for tally in [&done, &done, &lost] {
        assert!(matches!(put(&domain, &remote, tally), Post::Pending));
    }
    standin.state().refuses_posts = true;
    standin.complete(PEER, 1, true);
    domain.port().release(&remote);
    progress(&domain);
    assert!(done.settled());
    assert!(lost.idle() && lost.fault().is_some());
}

/// A broken connection gives back the room of its requests in the completion queue, and no more.
#[test]
fn broken_connections_give_their_room_back() {
    let (domain, standin) = domain();
    let tally = Tally::new();
    let full = |peer: u32| {
        let (region, remote) = connect(&domain, Peer(peer));
        for _ in 0..ROOM {
            assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
        }
        assert!(matches!(put(&domain, &remote, &tally), Post::Again));
        (region, remote)
    };
    for peer in 1..9 {
        let (_region, remote) = full(peer);
        standin.state().refuses_posts = peer % 2 == 0;
        match peer % 4 {
            0 | 1 => domain.port().lose(Peer(peer), Reason::Died),
            2 => domain.port().release(&remote),
            _ => standin.complete(Peer(peer), peer % 3, false),
        }
        progress(&domain);
        progress(&domain);
        assert!(tally.idle());
        standin.state().refuses_posts = false;
    }
    full(9);
}

/// Buffers of requests in flight are not returned to their users as long as the device may use
/// them.
#[test]
fn requests_of_a_connection_that_cannot_be_reset_do_not_end() {
    let (domain, standin) = domain();
    let (_region, remote) = connect(&domain, PEER);
    let tally = Tally::new();
    assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
    assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
    standin.state().refuses_resets = true;
    domain.port().lose(PEER, Reason::Died);
    let refused = (0..3).find_map(|_| domain.port().progress(&Nobody).err()).expect("the device is broken");
    assert!(format!("{refused:#}").contains("ibv_modify_qp to RESET"), "{refused:#}");
    assert_eq!(tally.outstanding(), 2);
}

/// A message does not overtake a held put ([`Limits::ordered`](transom_fabric::Limits::ordered)),
/// and is refused once a put before it has failed, also if the put was never posted.
#[test]
fn messages_follow_puts() {
    for posts_fail in [false, true] {
        let (domain, standin) = domain();
        let (_region, remote) = connect(&domain, PEER);
        remote.link.credits.accept(&Grant { limit: 8, ..Grant::default() });
        assert!(domain.port().limits().ordered);
        let (tally, message) = (Tally::new(), || domain.port().send(PEER, &[1; 8]));
        assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
        assert!(standin.state().posted.is_empty(), "held");
        standin.state().refuses_posts = posts_fail;
        if posts_fail {
            assert!(matches!(message(), Post::Broken(_)));
            assert!(standin.state().posted.is_empty());
        } else {
            assert!(matches!(message(), Post::Done));
            assert_eq!(standin.state().posted, [(PEER, 0, false), (PEER, 1, true)]);
            standin.complete(PEER, 0, false);
        }
        progress(&domain);
        assert!(matches!(message(), Post::Broken(_)));
        assert!(tally.idle() && tally.fault().is_some());
    }
}

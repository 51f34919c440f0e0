//! Tests of requests that are posted at once and unsignaled: puts with immediates. Whoever awaits
//! their completions gets them, and a queue never ends with a request that nothing covers.

use std::sync::Arc;
use std::time::Duration;

use transom_fabric::{Awaited, Domain, Immediate, Peer, Port, Post, Reason, Tally, TallyRef};

use super::tests::{Nobody, PEER, connect, domain, progress, put};
use crate::address::Grant;
use crate::domain::{VerbsDomain, VerbsOptions, VerbsRegion};
use crate::remote::VerbsRemote;
use crate::standin::{ROOM, Standin};

/// Messages for which the peer has posted receives.
const CREDIT: u64 = 1 << 20;

/// A domain with room for more requests than a connection takes.
fn large_domain() -> (Arc<VerbsDomain>, &'static Standin) {
    let (device, standin) = Standin::open_large();
    (VerbsDomain::on(device, &VerbsOptions::default()).expect("a stand-in"), standin)
}

/// An open connection with credit.
fn connect_with_credit(domain: &VerbsDomain, peer: Peer) -> (VerbsRegion, VerbsRemote) {
    let (region, remote) = connect(domain, peer);
    remote.link.credits.accept(&Grant { limit: CREDIT, ..Grant::default() });
    (region, remote)
}

fn notify(domain: &VerbsDomain, to: &VerbsRemote, tally: &TallyRef) -> Post {
    domain.port().put_immediate(to, 0, &[7; 8], Immediate::new(1).expect("a small number"), tally)
}

/// Posts puts with immediates, which the port takes.
fn notify_times(count: usize, domain: &VerbsDomain, to: &VerbsRemote, tally: &TallyRef) {
    for nth in 0..count {
        let answer = notify(domain, to, tally);
        assert!(matches!(answer, Post::Pending), "{nth}: {answer:?}");
    }
}

/// Takes the posted requests. Returns for each whether it was signaled.
fn posted(standin: &Standin) -> Vec<bool> {
    std::mem::take(&mut standin.state().posted).into_iter().map(|(_, _, signaled)| signaled).collect()
}

/// Completes the posted requests as the device does: completions report only the signaled ones.
fn complete(standin: &Standin) -> Vec<bool> {
    let posted = std::mem::take(&mut standin.state().posted);
    posted.iter().filter(|posted| posted.2).for_each(|&(peer, number, _)| standin.complete(peer, number, true));
    posted.into_iter().map(|(_, _, signaled)| signaled).collect()
}

fn progress_arrivals(domain: &VerbsDomain) {
    domain.port().progress_arrivals(&Nobody).expect("progress");
}

/// A process that waits only for arrivals signals one of 32 requests.
#[test]
fn puts_that_nobody_awaits_are_unsignaled() {
    let (domain, standin) = large_domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let (tally, mut all) = (Tally::new(), Vec::new());
    for _ in 0..640 {
        notify_times(1, &domain, &remote, &tally);
        all.extend(complete(standin));
        progress_arrivals(&domain);
        assert!(tally.outstanding() < 32);
    }
    // Nothing is known of the first one.
    let signaled: Vec<_> = (0..640).map(|nth| nth % 32 == 0).collect();
    assert_eq!(all, signaled);
    progress(&domain);
    assert_eq!(complete(standin), [true], "an empty request");
    progress(&domain);
    assert!(tally.settled() && posted(standin).is_empty());
}

/// Unsignaled puts complete once a thread awaits completions, by one request without bytes. If the
/// thread awaits as many puts the next time, the last of them is signaled.
#[test]
fn an_empty_request_follows_unsignaled_puts_that_are_awaited() {
    let (domain, standin) = large_domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let tally = Tally::new();
    let runs = |count: usize| {
        notify_times(count, &domain, &remote, &tally);
        progress_arrivals(&domain);
        domain.port().release(&remote);
        domain.port().wait(Duration::ZERO);
        let mut all = complete(standin);
        progress(&domain);
        all.extend(complete(standin));
        progress(&domain);
        assert!(tally.settled() && posted(standin).is_empty());
        all
    };
    assert_eq!(runs(1), [true]);
    assert_eq!(runs(1), [true]);
    assert_eq!(runs(3), [true, false, false, true]);
    assert_eq!(runs(3), [false, false, true]);
    assert_eq!(runs(2), [false, false, true]);
    assert_eq!(runs(2), [false, true]);
    assert_eq!(runs(1), [false, true]);
    assert_eq!(runs(1), [true]);
}

/// A thread that goes to sleep until completions has the device report those of unsignaled puts of
/// other threads. A thread that awaits only arrivals does not.
#[test]
fn a_sleep_until_completions_has_unsignaled_puts_reported() {
    let (domain, standin) = large_domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let tally = Tally::new();
    let sleep = |awaited| domain.port().wait_with_descriptor(Duration::ZERO, awaited, None, || true);
    notify_times(3, &domain, &remote, &tally);
    sleep(Awaited::Arrivals);
    assert_eq!(complete(standin), [true, false, false]);
    sleep(Awaited::Completions);
    assert_eq!(complete(standin), [true], "an empty request");
    progress(&domain);
    assert!(tally.settled() && posted(standin).is_empty());
}

/// Regression: a thread that slept until completions saw those of puts that another thread posted
/// meanwhile only at the end of its sleep. The first of these puts ends the sleep.
#[test]
fn puts_posted_during_a_sleep_until_completions_end_it() {
    let (domain, standin) = large_domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let tally = Tally::new();
    let asleep = |awaited, posts: &dyn Fn()| {
        domain.port().wait_with_descriptor(Duration::ZERO, awaited, None, || {
            posts();
            true
        });
        let all = complete(standin);
        progress(&domain);
        complete(standin);
        progress(&domain);
        assert!(tally.settled() && posted(standin).is_empty());
        all
    };
    let notified = || notify_times(3, &domain, &remote, &tally);
    asleep(Awaited::Arrivals, &notified);
    assert_eq!(asleep(Awaited::Arrivals, &notified), [false, false, true], "as awaited before");
    assert_eq!(asleep(Awaited::Completions, &notified), [true, false, true]);
    let held = || (0..2).for_each(|_| assert!(matches!(put(&domain, &remote, &tally), Post::Pending)));
    assert_eq!(asleep(Awaited::Arrivals, &held), [false], "the second is held");
    assert_eq!(asleep(Awaited::Completions, &held), [true], "the second is held");
}

/// The completion of the empty request covers other requests too, and other requests cover
/// unsignaled puts.
#[test]
fn puts_without_and_with_immediates_cover_each_other() {
    let (domain, standin) = large_domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let tally = Tally::new();
    notify_times(1, &domain, &remote, &tally);
    assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
    notify_times(1, &domain, &remote, &tally);
    assert_eq!(complete(standin), [true, false, false]);
    progress(&domain);
    assert_eq!(complete(standin), [true], "an empty request");
    progress(&domain);
    assert!(tally.settled());
    notify_times(1, &domain, &remote, &tally);
    assert!(matches!(put(&domain, &remote, &tally), Post::Pending));
    progress(&domain);
    assert_eq!(complete(standin), [false, true], "the put");
    progress(&domain);
    assert!(tally.settled() && posted(standin).is_empty());
}

/// A full queue ends with a signaled request.
#[test]
fn a_full_queue_of_puts_with_immediates_empties() {
    let (domain, standin) = large_domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let tally = Tally::new();
    for _ in 0..100 {
        while matches!(notify(&domain, &remote, &tally), Post::Pending) {}
        assert_eq!(tally.outstanding(), 63);
        let all = complete(standin);
        let most = all.split(|&signaled| signaled).map(<[bool]>::len).max();
        assert!(most < Some(32) && all.ends_with(&[true]), "{all:?}");
        progress_arrivals(&domain);
        assert!(tally.settled());
    }
}

/// The completion queue has room for the empty requests of all connections, and gets the room back.
#[test]
fn connections_that_fill_the_completion_queue_complete() {
    let (domain, standin) = domain();
    let all: Vec<_> = (1..=4).map(|peer| connect_with_credit(&domain, Peer(peer))).collect();
    let tally = Tally::new();
    for round in 0..50 {
        let mut count = 0;
        while all.iter().filter(|(_, to)| matches!(notify(&domain, to, &tally), Post::Pending)).count() > 0 {
            count += 1;
            assert!(count <= ROOM, "round {round}");
        }
        assert!(tally.outstanding() >= 4, "round {round}");
        for _ in 0..2 {
            domain.port().progress(&Nobody).expect("progress");
            complete(standin);
        }
        domain.port().progress(&Nobody).expect("progress");
        assert!(tally.settled(), "round {round}: {} puts are left", tally.outstanding());
    }
}

/// Devices report a request that fails, whether or not it is signaled: the puts before it are
/// complete, and the others fail.
#[test]
fn an_unsignaled_put_that_fails_is_reported() {
    let (domain, standin) = domain();
    let (_region, remote) = connect_with_credit(&domain, PEER);
    let tallies = [(); 4].map(|()| Tally::new());
    tallies.iter().for_each(|tally| notify_times(1, &domain, &remote, tally));
    assert_eq!(posted(standin), [true, false, false, false]);
    standin.complete(PEER, 2, false);
    (0..3).for_each(|_| progress_arrivals(&domain));
    let failed = tallies.each_ref().map(|tally| (tally.idle(), tally.has_failed()));
    assert_eq!(failed, [(true, false), (true, false), (true, true), (true, true)]);
    progress(&domain);
    assert!(posted(standin).is_empty(), "nothing follows on a broken connection");
    assert!(matches!(notify(&domain, &remote, &tallies[0]), Post::Broken(_)));
}

/// A connection that breaks with unsignaled puts gives back all of its room.
#[test]
fn broken_connections_with_unsignaled_puts_give_their_room_back() {
    let (domain, standin) = domain();
    for peer in 1..30 {
        let (_region, remote) = connect_with_credit(&domain, Peer(peer));
        let tally = Tally::new();
        notify_times(ROOM as usize - 1, &domain, &remote, &tally);
        assert!(matches!(notify(&domain, &remote, &tally), Post::Again));
        match peer % 3 {
            0 => domain.port().lose(Peer(peer), Reason::Died),
            1 => standin.state().refuses_posts = true,
            _ => standin.complete(Peer(peer), 1, false),
        }
        progress(&domain);
        progress(&domain);
        assert!(tally.idle() && tally.has_failed(), "{peer}");
        standin.state().refuses_posts = false;
    }
}

//! Tests of the order of deferred messages, and of those that can't be sent.

use std::borrow::Cow;
use std::cell::RefCell;

use rustix::io::Errno;
use transom_fabric::Tally;

use super::super::codec;
use super::*;
use crate::messages::{PscwNotice, ReplyDestination, Request};

/// A peer that takes no message delays its own messages alone, which keep their order.
#[test]
fn messages_to_other_peers_pass_those_to_a_full_one() {
    let messages = Messages::default();
    let all = [(1, 10), (2, 20), (1, 11), (3, 30), (2, 21)];
    all.into_iter().for_each(|(to, byte)| messages.defer(Peer(to), vec![byte], None));
    let mut sent = Vec::new();
    let mut send = |is_full: bool| {
        messages.send_deferred(|to, bytes| match to {
            Peer(1) if is_full => Post::Again,
            _ => {
                sent.push(bytes[0]);
                Post::Done
            }
        })
    };
    assert_eq!((send(true), send(false)), (3, 2));
    assert_eq!(sent, [20, 30, 21, 10, 11]);
    assert!(!messages.owes_answers());
}

/// The answers to a burst of requests of one rank are one message, also where messages to other
/// ranks or a notice to this one lie between them.
#[test]
fn queued_answers_to_a_rank_share_a_message() {
    let messages = Messages::default();
    for (to, token) in [(1, 10), (1, 11), (2, 20), (1, 12)] {
        messages.defer_answer(Peer(to), token);
    }
    messages.defer(Peer(1), Messages::notice(7, 0, PscwNotice::Posted), None);
    messages.defer_answer(Peer(1), 13);
    let mut sent = Vec::new();
    let mut send = || {
        messages.send_deferred(|to, bytes| {
            sent.push((to.0, bytes.to_vec()));
            Post::Done
        })
    };
    assert_eq!((send(), send()), (3, 0));
    let lone = Message::Reply { token: 20, bytes: &[] }.encode();
    let all = codec::encode_answers(&[10, 11, 12, 13], &[]);
    assert_eq!(sent, [(1, all), (2, lone), (1, Messages::notice(7, 0, PscwNotice::Posted))]);
    assert!(!messages.owes_answers());
}

/// If the port lacks a resource that all peers share, a call stops after some attempts.
#[test]
fn a_port_that_takes_nothing_is_asked_for_some_peers_only() {
    let messages = Messages::default();
    (0..20).for_each(|to| messages.defer(Peer(to), Vec::new(), None));
    let mut attempts = 0;
    let sent = messages.send_deferred(|_, _| {
        attempts += 1;
        Post::Again
    });
    assert_eq!((sent, attempts, messages.deferred.owed.load(Ordering::Relaxed)), (0, MOST_FULL, 20));
}

/// However many peers take no messages, those to another peer are sent, and all keep their
/// order.
#[test]
fn peers_that_take_no_messages_hold_up_no_other_peer() {
    let messages = Messages::default();
    for byte in 0..2 {
        (0..20).for_each(|to| messages.defer(Peer(to), vec![byte], None));
    }
    let (mut sent, mut attempts) = (Vec::new(), 0);
    while sent.len() < 2 && attempts < 20 {
        attempts += 1;
        messages.send_deferred(|to, bytes| match to {
            Peer(19) => {
                sent.push(bytes[0]);
                Post::Done
            }
            _ => Post::Again,
        });
    }
    assert_eq!(sent, [0, 1], "in {attempts} attempts");
    let mut rest = vec![Vec::new(); 20];
    while messages.owes_answers() {
        messages.send_deferred(|to, bytes| {
            rest[to.index()].push(bytes[0]);
            Post::Done
        });
    }
    assert!(rest[..19].iter().all(|bytes| *bytes == [0, 1]), "{rest:?}");
}

/// An answer to a peer that can't be reached is kept, and sent when the peer can be reached again.
#[test]
fn an_answer_that_can_not_be_sent_is_kept() {
    let messages = Messages::default();
    [(1, 10), (1, 11), (2, 20)].into_iter().for_each(|(to, byte)| messages.defer(Peer(to), vec![byte], None));
    let attempts = RefCell::new(Vec::new());
    let send = |is_lost: bool| {
        messages.send_deferred(|to, bytes| {
            attempts.borrow_mut().push(bytes[0]);
            match to {
                Peer(1) if is_lost => Post::Broken(Box::new(Fault::new(to, Errno::NOMEM))),
                _ => Post::Done,
            }
        })
    };
    assert_eq!((send(true), send(true)), (1, 0));
    assert!(messages.owes(Peer(1), u64::MAX) && !messages.owes(Peer(2), u64::MAX));
    assert!(messages.lost().is_none(), "not yet");
    assert_eq!((send(false), messages.owes_answers()), (2, false));
    assert_eq!(attempts.into_inner(), [10, 20, 10, 10, 11]);
    assert!(messages.lost_for(Duration::ZERO).is_none(), "the peer was reached");
}

/// A wait for deferred messages to a peer is over when those that were there at its beginning are
/// sent.
#[test]
fn later_messages_do_not_extend_a_wait() {
    let messages = Messages::default();
    messages.defer(Peer(1), vec![10], None);
    let end = messages.next_deferred();
    messages.defer(Peer(1), vec![11], None);
    assert!(messages.owes(Peer(1), end));
    let first = |_, bytes: &[u8]| if bytes == [10] { Post::Done } else { Post::Again };
    assert_eq!(messages.send_deferred(first), 1);
    assert!(!messages.owes(Peer(1), end) && messages.owes(Peer(1), messages.next_deferred()));
}

/// A peer that can't be reached for long is lost for good.
#[test]
fn a_peer_to_which_no_answer_can_be_sent_is_lost() {
    let messages = Messages::default();
    messages.defer(Peer(1), vec![1], None);
    let fault = Fault::new(Peer(1), Errno::NOMEM);
    assert_eq!(messages.send_deferred(|_, _| Post::Broken(Box::new(fault.clone()))), 0);
    assert_eq!((messages.lost(), messages.lost_for(Duration::ZERO)), (None, Some(fault.clone())));
    messages.give_up(&fault);
    assert_eq!((messages.owes_answers(), messages.lost()), (false, Some(fault)));
}

/// Time in which nothing was tried is no failure, as after the process was suspended.
#[test]
fn a_pause_between_attempts_ends_no_peer() {
    let messages = Messages::default();
    messages.defer(Peer(1), vec![1], None);
    let fail = || messages.send_deferred(|to, _| Post::Broken(Box::new(Fault::new(to, Errno::NOMEM))));
    fail();
    let past = Instant::now().checked_sub(2 * PATIENCE).expect("the machine runs for longer");
    {
        let mut queue = locked(&messages.deferred.queue);
        let failing = queue.blocked.get_mut(&Peer(1)).and_then(|blocked| blocked.failing.as_mut());
        failing.expect("the first failure").0 = Attempts::begin(past);
    }
    assert!(messages.lost().is_none(), "before the next attempt");
    fail();
    assert!(messages.lost().is_none(), "after it");
    assert!(messages.lost_for(Duration::from_secs(1)).is_some(), "a part of the pause counts");
}

/// A peer may take the message that another thread sends at the moment.
#[test]
fn no_peer_is_lost_while_a_message_to_it_is_sent() {
    let messages = Messages::default();
    messages.defer(Peer(1), vec![1], None);
    messages.send_deferred(|to, _| Post::Broken(Box::new(Fault::new(to, Errno::NOMEM))));
    let sent = messages.send_deferred(|_, _| {
        assert!(messages.lost_for(Duration::ZERO).is_none() && messages.owes(Peer(1), u64::MAX));
        Post::Done
    });
    assert_eq!((sent, messages.lost_for(Duration::ZERO), messages.owes(Peer(1), u64::MAX)), (1, None, false));
}

/// The last message to a peer that took none is a request that can't be sent. Nothing is left for
/// the peer, although messages to another peer wait.
#[test]
fn nothing_is_owed_to_a_peer_after_its_last_request_has_failed() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let request = Request::Scatter { strips: Cow::default(), data: Cow::default() };
    let (token, message) = messages.request(Peer(1), 4, 0, &request, ReplyDestination::Nowhere, &tally);
    messages.defer(Peer(1), message, Some(token));
    messages.defer(Peer(2), vec![2], None);
    messages.send_deferred(|_, _| Post::Again);
    messages.send_deferred(|to, _| match to {
        Peer(1) => Post::Broken(Box::new(Fault::new(to, Errno::NOMEM))),
        _ => Post::Again,
    });
    assert!(tally.idle() && tally.has_failed());
    assert_eq!((messages.owes(Peer(1), u64::MAX), messages.owes(Peer(2), u64::MAX)), (false, true));
}

/// A request with a sequence number that can't be sent fails. The peer gets a request with the
/// number and without an effect, however often that one fails too.
#[test]
fn an_ordered_request_that_can_not_be_sent_leaves_its_number() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let request = Request::Scatter { strips: Cow::default(), data: Cow::default() };
    let (token, message) = messages.request(Peer(1), 4, 7, &request, ReplyDestination::Nowhere, &tally);
    messages.defer(Peer(1), message, Some(token));
    for _ in 0..3 {
        messages.send_deferred(|to, _| Post::Broken(Box::new(Fault::new(to, Errno::NOMEM))));
        assert!(tally.idle() && tally.has_failed() && messages.owes(Peer(1), u64::MAX));
    }
    let mut sent = Vec::new();
    messages.send_deferred(|_, bytes| {
        sent.push(bytes.to_vec());
        Post::Done
    });
    assert!(sent.len() == 1 && !messages.owes_answers());
    let found = Message::decode(&sent[0]);
    assert!(
        matches!(&found, Some(Message::Request { window: 4, order: 7, request: Request::Several { parts }, .. })
            if parts.is_empty()),
        "{found:?}"
    );
}

/// A peer that takes no message is asked once, and its further messages join the first one.
#[test]
fn messages_to_many_blocked_peers_move_once() {
    const PEERS: u32 = 5000;
    let messages = Messages::default();
    for byte in 0..4 {
        (0..PEERS).for_each(|to| messages.defer(Peer(to), vec![byte], None));
    }
    let mut attempts = 0;
    while !locked(&messages.deferred.queue).ready.is_empty() {
        messages.send_deferred(|_, _| {
            attempts += 1;
            Post::Again
        });
    }
    // The last call passes on the further messages, and asks some peers again.
    assert!((PEERS..=PEERS + 4).contains(&attempts), "{attempts} attempts");
    let mut seen = vec![0; PEERS as usize];
    assert_eq!(
        messages.send_deferred(|to, bytes| {
            assert_eq!(bytes[0], seen[to.index()], "{to:?}");
            seen[to.index()] += 1;
            Post::Done
        }),
        4 * PEERS as usize
    );
}

//! What is kept, in which messages it is sent, and what completes and fails it.

use transom_fabric::{Reason, Tally};

use super::super::codec::{OVERHEAD, PART, REPLY_OVERHEAD, STRIP};
use super::*;
use crate::datatype::Strip;

const TO: Towards = Towards { peer: Peer(1), window: 7, member: 4, apart: false, closes: false };

/// An operation without a request.
fn counted(target: &TallyRef) -> Counting<'_> {
    Counting { target, request: None }
}

fn sent(messages: &Messages) -> Vec<(Peer, Vec<u8>)> {
    let mut sent = Vec::new();
    messages.send_deferred(|to, bytes| {
        sent.push((to, bytes.to_vec()));
        Post::Done
    });
    sent
}

#[test]
fn kept_puts_are_one_request_that_their_tally_counts() {
    let (messages, tally) = (Messages::default(), Tally::new());
    messages.end_gathering();
    assert!(sent(&messages).is_empty());
    for (at, bytes) in [(0, &[1u8; 8][..]), (64, &[2; 8]), (72, &[3; 8])] {
        assert_eq!(messages.gather(TO, at, &Small::Put(bytes), 1024, counted(&tally), || 0), Gather::Kept);
    }
    assert_eq!((tally.outstanding(), tally.only_puts()), (1, false));
    messages.end_gathering();
    let request = Request::Scatter {
        strips: vec![Strip::one(0, 8), Strip::one(64, 16)].into(),
        data: [[1; 8], [2; 8], [3; 8]].concat().into(),
    };
    let message = crate::messages::codec::encode_request(&[0, TO.window, 0], &request);
    assert_eq!(sent(&messages), [(TO.peer, message)]);
    assert_eq!(tally.outstanding(), 1, "outstanding until the reply arrives");
    messages.answered(0, Ok(&[]));
    assert!(tally.idle());
}

/// Operations of several blocks share messages with others of their kind. A strip of several blocks
/// neither grows nor becomes a put of the net.
#[test]
fn operations_of_several_blocks_share_messages() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let column = [Strip { offset: 8, block: 8, count: 3, stride: 64 }];
    let blocks = Blocks { what: What::Put, strips: &column, data: &[1; 24], into: &[] };
    let keep = |small, at| messages.gather(TO, at, &small, 1024, counted(&tally), || 0);
    assert_eq!(keep(Small::Blocks(blocks), 0), Gather::Kept);
    messages.post_runs(TO.window, |_, _, _, _| unreachable!("three blocks"));
    assert_eq!(keep(Small::Put(&[2; 8]), 16), Gather::Kept);
    let long = Blocks { data: &[3; 960], ..blocks };
    assert_eq!(keep(Small::Blocks(long), 0), Gather::Full);
    let many = [Strip::one(0, 1); 20];
    assert_eq!(keep(Small::Blocks(Blocks { strips: &many, data: &[4; 20], ..blocks }), 0), Gather::Kept);
    messages.end_gathering();
    let strips = column.into_iter().chain([Strip::one(16, 8)]).chain(many).collect::<Vec<_>>().into();
    let request = Request::Scatter { strips, data: [&[1; 24][..], &[2; 8], &[4; 20]].concat().into() };
    let message = crate::messages::codec::encode_request(&[0, TO.window, 0], &request);
    assert_eq!(sent(&messages), [(TO.peer, message)]);
    let apart = Towards { apart: true, ..TO };
    let alone = messages.gather(apart, 0, &Small::Blocks(blocks), 1024, counted(&tally), || 0);
    assert_eq!(alone, Gather::Refused, "the target checks each operation of a dynamic window");
}

/// Puts with requests share the message of puts without. Each request is complete when the message
/// is answered, and each fails if it fails.
#[test]
fn operations_with_requests_share_messages() {
    let (messages, target) = (Messages::default(), Tally::new());
    let refused = Fault::new(TO.peer, Reason::Died);
    for (token, outcome) in [(0, Ok(&[][..])), (1, Err(refused))] {
        let requests = [Tally::within(&target), Tally::within(&target)];
        for (at, request) in [(0, Some(&requests[0])), (64, None), (128, Some(&requests[1]))] {
            let counting = Counting { target: &target, request };
            assert_eq!(messages.gather(TO, at, &Small::Put(&[1; 8]), 1024, counting, || 0), Gather::Kept);
        }
        messages.post_runs(TO.window, |_, _, _, _| unreachable!("three strips"));
        messages.end_gathering();
        assert_eq!(sent(&messages).len(), 1);
        assert_eq!(requests.each_ref().map(|request| (request.outstanding(), request.only_puts())), [(1, false); 2]);
        let fails = outcome.is_err();
        messages.answered(token, outcome);
        assert!(target.idle() && requests.iter().all(|request| request.idle() && request.has_failed() == fails));
    }
}

/// A single put with a request is not posted by a flush as a put of the target's tally.
#[test]
fn a_kept_put_with_a_request_is_sent_as_a_message() {
    let (messages, target) = (Messages::default(), Tally::new());
    let request = Tally::within(&target);
    let counting = Counting { target: &target, request: Some(&request) };
    assert_eq!(messages.gather(TO, 0, &Small::Put(&[1; 8]), 1024, counting, || 0), Gather::Kept);
    messages.post_runs(TO.window, |_, _, _, _| unreachable!("it would not end the request"));
    messages.give_up(&Fault::new(TO.peer, Reason::Died));
    assert!(target.idle() && request.idle() && request.has_failed());
}

/// Ways in which operations that share a message fail.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Kept,
    InFlight,
    Refused,
}

/// Operations that share a message fail. Each request reports its failure, and the target's tally
/// has a failure left only if some operation has no request. Regression: the tally had one in any
/// case.
#[test]
fn failures_of_operations_that_share_a_message_are_recorded_once() {
    let fault = Fault::new(TO.peer, Reason::Died);
    let ways = [Fails::Kept, Fails::InFlight, Fails::Refused];
    for (way, bare) in ways.into_iter().flat_map(|way| [None, Some(0), Some(2)].map(|bare| (way, bare))) {
        let (messages, window) = (Messages::default(), Tally::new());
        let target = Tally::within(&window);
        let requests = [0; 3].map(|_| Tally::within(&target));
        for (index, (at, request)) in [0, 64, 128].into_iter().zip(&requests).enumerate() {
            let request = (bare != Some(index)).then_some(request);
            let counting = Counting { target: &target, request };
            assert_eq!(messages.gather(TO, at, &Small::Put(&[1; 8]), 1024, counting, || 0), Gather::Kept);
        }
        if !matches!(way, Fails::Kept) {
            messages.end_gathering();
            assert_eq!(sent(&messages).len(), 1);
        }
        match way {
            Fails::Refused => messages.answered(0, Err(fault.clone())),
            _ => assert!(messages.give_up(&fault)),
        }
        assert!(window.idle() && target.idle() && target.has_failed(), "{way:?}");
        for (index, request) in requests.iter().enumerate() {
            assert!(request.idle(), "{way:?}");
            assert_eq!(request.take_failure().is_some(), bare != Some(index), "{way:?}, without a request: {bare:?}");
        }
        assert_eq!(target.take_failure().is_some(), bare.is_some(), "{way:?}, without a request: {bare:?}");
        assert!(target.settled() && window.settled(), "{way:?}");
    }
}

#[test]
fn kept_gets_are_one_request_beside_that_of_puts() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let mut found = [0u8; 24];
    crate::buffers::scoped(
        || (0..2).for_each(|token| messages.answered(token, Ok(&[7; 24]))),
        |scope| {
            let (first, rest) = found.split_at_mut(8);
            for (at, into) in [(0, first), (64, rest)] {
                let into = scope.sink(into);
                assert_eq!(messages.gather(TO, at, &Small::Get(&into), 1024, counted(&tally), || 0), Gather::Kept);
                assert_eq!(
                    messages.gather(TO, at + 512, &Small::Put(&[1; 8]), 1024, counted(&tally), || 0),
                    Gather::Kept
                );
            }
            assert_eq!(tally.outstanding(), 2);
            messages.end_gathering();
            let gather = Request::Gather { strips: vec![Strip::one(0, 8), Strip::one(64, 16)].into() };
            let scatter = Request::Scatter {
                strips: vec![Strip::one(512, 8), Strip::one(576, 8)].into(),
                data: vec![1; 16].into(),
            };
            let encoded = |token, request| crate::messages::codec::encode_request(&[token, TO.window, 0], request);
            assert_eq!(sent(&messages), [(TO.peer, encoded(0, &gather)), (TO.peer, encoded(1, &scatter))]);
        },
    );
    assert!(tally.idle());
    assert_eq!(found, [7; 24]);
}

fn sum(from: &[u8]) -> Small<'_> {
    Small::Combine(Combined { op: Op::Sum, ty: BasicType::Uint64, from, into: None, len: from.len() })
}

/// Kept accumulates that differ only in their offsets are one request; others are requests inside
/// another one. The request gets its sequence number when its first accumulate is kept. Puts have a
/// separate message.
#[test]
fn kept_accumulates_are_one_request_with_one_number() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let order = std::cell::Cell::new(0);
    let next = || {
        order.set(order.get() + 1);
        order.get()
    };
    let combine = |op, fetch, strips: &[Strip], data: &[u8]| Request::Combine {
        op,
        ty: BasicType::Uint64,
        fetch,
        strips: strips.to_vec().into(),
        data: data.to_vec().into(),
    };
    for (at, bytes) in [(0, &[1u8; 8][..]), (8, &[2; 16]), (0, &[3; 8])] {
        assert_eq!(messages.gather(TO, at, &sum(bytes), 1024, counted(&tally), next), Gather::Kept);
    }
    assert_eq!(messages.gather(TO, 0, &Small::Put(&[9; 8]), 1024, counted(&tally), next), Gather::Kept);
    assert_eq!((tally.outstanding(), order.get()), (2, 1));
    messages.end_gathering();
    let data = [&[1u8; 8][..], &[2; 16], &[3; 8]].concat();
    let sums = combine(Op::Sum, false, &[Strip::one(0, 24), Strip::one(0, 8)], &data);
    let puts = Request::Scatter { strips: vec![Strip::one(0, 8)].into(), data: vec![9; 8].into() };
    let encoded = crate::messages::codec::encode_request;
    let expected = [encoded(&[0, TO.window, 1], &sums), encoded(&[1, TO.window, 0], &puts)];
    assert!(sent(&messages).into_iter().map(|(_, message)| message).eq(expected));
    (0..2).for_each(|token| messages.answered(token, Ok(&[])));
    assert!(tally.idle());

    let mut old = [0u8; 8];
    let result = |bytes: &[u8]| crate::messages::carried::answer([Ok(Vec::new()), Ok(bytes.to_vec())].into_iter());
    crate::buffers::scoped(
        || messages.answered(2, Ok(&result(&[5; 8]))),
        |scope| {
            let into = scope.sink(&mut old);
            let (ty, into) = (BasicType::Uint64, Some(&into));
            let read = Small::Combine(Combined { op: Op::NoOp, ty, from: &[], into, len: 8 });
            for small in [sum(&[1; 8]), read] {
                assert_eq!(messages.gather(TO, 0, &small, 1024, counted(&tally), next), Gather::Kept);
            }
            let mut closed = Vec::new();
            let mut close = |to, window| {
                messages.number((to, window), || 0, |token, message| closed.push((token, message.to_vec())));
                closed.len()
            };
            assert_eq!((close(Peer(2), TO.window), close(TO.peer, 8), close(TO.peer, TO.window)), (0, 0, 1));
            let one = &[Strip::one(0, 8)][..];
            let parts = vec![combine(Op::Sum, false, one, &[1; 8]), combine(Op::NoOp, true, one, &[])];
            assert_eq!(closed, [(2, encoded(&[2, TO.window, 2], &Request::Several { parts }))]);
            messages.end_gathering();
            assert!(sent(&messages).is_empty(), "the closed message is the caller's");
        },
    );
    assert_eq!((tally.idle(), old), (true, [5; 8]));
}

/// While the caller sends the kept accumulates before its own ordered request, another thread keeps
/// one. The caller's next accumulate may join it, so its number is later than that of the request.
/// Regression: its number was earlier.
#[test]
fn accumulates_kept_while_a_request_gets_its_number_have_later_numbers() {
    let (messages, tally, order) = (Messages::default(), Tally::new(), std::cell::Cell::new(0));
    let next = || {
        order.set(order.get() + 1);
        order.get()
    };
    let keep = || messages.gather(TO, 0, &sum(&[1; 8]), 1024, counted(&tally), next);
    assert_eq!((keep(), order.get()), (Gather::Kept, 1));
    let mut kept_meanwhile = 0;
    let own = messages.number((TO.peer, TO.window), next, |_, _| {
        assert_eq!(keep(), Gather::Kept);
        kept_meanwhile = order.get();
    });
    assert_eq!((own, kept_meanwhile), (2, 3));
}

#[test]
fn each_target_has_its_own_message() {
    let messages = Messages::default();
    let tallies: Vec<_> = (0..=MAX_KEPT_MESSAGES).map(|_| Tally::new()).collect();
    for turn in 0..3 {
        for (to, tally) in (0..).zip(&tallies) {
            let expected = if (to as usize) < MAX_KEPT_MESSAGES { Gather::Kept } else { Gather::Refused };
            assert_eq!(
                messages.gather(
                    Towards { peer: Peer(to), ..TO },
                    8 * turn,
                    &Small::Put(&[1; 8]),
                    1024,
                    counted(tally),
                    || 0
                ),
                expected
            );
        }
    }
    messages.end_gathering();
    let to: Vec<_> = sent(&messages).into_iter().map(|(to, _)| to.index()).collect();
    assert_eq!(to, (0..MAX_KEPT_MESSAGES).collect::<Vec<_>>());
    assert!(tallies.iter().take(MAX_KEPT_MESSAGES).all(|tally| tally.outstanding() == 1));
    assert!(tallies[MAX_KEPT_MESSAGES].idle());
}

#[test]
fn a_message_of_accumulates_stays_within_its_limits() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let mut results = [[0u8; 8]; 400];
    crate::buffers::scoped(
        || (0..3).for_each(|token| messages.answered(token, Ok(&[]))),
        |scope| {
            let mut buffers = results.iter_mut();
            for (most, differ) in [(200, false), (400, true), (1 << 20, true)] {
                let (mut kept, mut results) = (0, Vec::new());
                loop {
                    results.push(scope.sink(buffers.next().expect("enough")));
                    let (op, into) = (if differ && kept % 2 == 1 { Op::Max } else { Op::Sum }, results.last());
                    let (ty, from) = (BasicType::Uint64, &[0u8; 8][..]);
                    let small = Small::Combine(Combined { op, ty, from, into, len: 8 });
                    if messages.gather(TO, 16 * kept, &small, most, counted(&tally), || 0) != Gather::Kept {
                        break;
                    }
                    kept += 1;
                }
                assert!(kept >= 3, "{kept}");
                messages.end_gathering();
                let long = sent(&messages)[0].1.len();
                assert!(long <= most.min(MOST) && long + PART + STRIP + 8 > most.min(MOST), "{long} of {most}");
                if differ {
                    let answers = (0..kept).map(|_| Ok(vec![0; 8]));
                    let back = REPLY_OVERHEAD + crate::messages::carried::answer(answers).len();
                    assert!(back <= most.min(MOST), "{back} of {most}");
                }
            }
        },
    );
}

#[test]
fn a_message_of_puts_stays_within_its_limits() {
    let (messages, tally) = (Messages::default(), Tally::new());
    assert_eq!(
        messages.gather(TO, 0, &Small::Put(&[0; 8]), OVERHEAD + STRIP + 7, counted(&tally), || 0),
        Gather::Refused
    );
    for (most, apart) in [(200, 16), (1 << 20, 16), (1 << 20, 8)] {
        let mut at = 0;
        while messages.gather(TO, at, &Small::Put(&[0; 8]), most, counted(&tally), || 0) == Gather::Kept {
            at += apart;
        }
        assert!(at >= 3 * apart, "{at}");
        messages.end_gathering();
        let long = sent(&messages)[0].1.len();
        assert!(long <= most.min(MOST), "{long} of {most}");
    }
}

#[test]
fn kept_puts_of_a_dead_peer_fail() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let fault = |peer| Fault::new(Peer(peer), Reason::Died);
    let keep = || assert_eq!(messages.gather(TO, 0, &Small::Put(&[0; 8]), 1024, counted(&tally), || 0), Gather::Kept);
    keep();
    messages.give_up(&fault(2));
    assert!(!tally.idle());
    messages.give_up(&fault(1));
    assert!(tally.idle() && tally.take_failure().is_some());
    keep();
    messages.end_gathering();
    messages.send_deferred(|to, _| Post::Broken(Box::new(Fault::new(to, Reason::Died))));
    assert!(tally.idle() && tally.take_failure().is_some() && !messages.owes_answers());
}

/// What `post` gets of operations that are kept: the rank, the offset, and the length.
fn runs(messages: &Messages, answer: fn(&TallyRef) -> Post) -> Vec<(usize, u64, usize)> {
    let posted = std::cell::RefCell::new(Vec::new());
    messages.post_runs(TO.window, |member, at, run, tally| {
        let len = match run {
            Run::Put(bytes) => bytes.len(),
            Run::Get(buffers) => buffers.iter().map(Sink::len).sum(),
        };
        posted.borrow_mut().push((member, at, len));
        answer(tally)
    });
    posted.into_inner()
}

#[test]
fn a_contiguous_run_is_posted_or_becomes_a_request() {
    let (messages, tally) = (Messages::default(), Tally::new());
    let pending = |tally: &TallyRef| {
        tally.begin();
        Post::Pending
    };
    let keep =
        |to, at| assert_eq!(messages.gather(to, at, &Small::Put(&[1; 8]), 1024, counted(&tally), || 0), Gather::Kept);
    assert!(runs(&messages, pending).is_empty());
    keep(TO, 16);
    keep(TO, 24);
    assert_eq!(runs(&messages, pending), [(TO.member, 16, 16)]);
    assert_eq!((tally.outstanding(), sent(&messages).len()), (1, 0), "the post is counted, the message no more");
    keep(TO, 16);
    keep(TO, 32);
    assert!(runs(&messages, pending).is_empty(), "two runs are a request");
    messages.end_gathering();
    assert_eq!((tally.outstanding(), sent(&messages).len()), (2, 1));
    keep(Towards { window: 8, ..TO }, 0);
    assert!(runs(&messages, pending).is_empty(), "of another window");
    messages.end_gathering();
    keep(TO, 40);
    assert_eq!(runs(&messages, |_| Post::Again), [(TO.member, 40, 8)]);
    assert_eq!((tally.outstanding(), sent(&messages).len()), (4, 2));
    keep(TO, 48);
    runs(&messages, |_| Post::Broken(Box::new(Fault::new(TO.peer, Reason::Died))));
    assert!(tally.outstanding() == 4 && tally.take_failure().is_some());
    assert!(runs(&messages, pending).is_empty(), "nothing is kept");
}

/// Operations that stay apart: adjacent ones keep strips of their own, those that get data are
/// parts of their own, and none is posted by a flush. Request and reply have the lengths that are
/// counted on.
#[test]
fn operations_that_may_be_refused_stay_apart() {
    let to = Towards { apart: true, ..TO };
    let (messages, tally) = (Messages::default(), Tally::new());
    let put = |at| messages.gather(to, at, &Small::Put(&[1; 8]), 1024, counted(&tally), || 0);
    assert_eq!(put(0), Gather::Kept);
    messages.post_runs(to.window, |_, _, _, _| unreachable!("the net does not check addresses"));
    assert_eq!(put(8), Gather::Kept);
    messages.end_gathering();
    let strips = vec![Strip::one(0, 8), Strip::one(8, 8)].into();
    let each = Request::Each(Box::new(Request::Scatter { strips, data: vec![1; 16].into() }));
    let message = crate::messages::codec::encode_request(&[0, to.window, 0], &each);
    assert_eq!(sent(&messages), [(to.peer, message)]);
    messages.answered(0, Ok(&[]));

    let mut found = [[0u8; 8]; 200];
    crate::buffers::scoped(
        || assert!(messages.give_up(&Fault::new(to.peer, Reason::Died)), "the gets were sent"),
        |scope| {
            let mut kept = 0;
            for into in &mut found {
                let into = scope.sink(into);
                match messages.gather(to, 8 * kept, &Small::Get(&into), 1024, counted(&tally), || 0) {
                    Gather::Kept => kept += 1,
                    _ => break,
                }
            }
            assert!((10..100).contains(&kept), "{kept} gets fit");
            messages.end_gathering();
            let [(_, request)] = &sent(&messages)[..] else { panic!("one message") };
            let refused = crate::error::Refusal::NotAttached { address: 8, length: 8 };
            let reply = crate::messages::carried::answer((0..kept).map(|_| Err(refused)));
            assert!(request.len() <= 1024 && reply.len() + REPLY_OVERHEAD <= 1024, "{kept} gets");
        },
    );
    assert!(tally.idle());
}

/// Operations that the end of an epoch may take along are left by polls, and sent by a call that
/// waits for them. Their tally then no longer counts only puts.
#[test]
fn operations_are_kept_for_the_end_of_the_epoch() {
    let to = Towards { closes: true, ..TO };
    let (messages, window) = (Messages::default(), Tally::new());
    let (target, other) = (Tally::within(&window), Tally::within(&window));
    let keep = |small: &Small<'_>, counting| messages.gather(to, 0, small, 1024, counting, || 0);
    assert_eq!(messages.close(&target, End::Completed, 1024, true), Close::Nothing);
    for sent_before in [false, true] {
        assert_eq!(keep(&Small::Put(&[1; 8]), counted(&target)), Gather::Kept);
        messages.end_gathering();
        assert!(sent(&messages).is_empty(), "a poll leaves them");
        assert_eq!((target.outstanding(), target.only_puts(), messages.keeps_for(&target)), (1, true, true));
        assert_eq!(messages.close(&other, End::Completed, 1024, true), Close::Nothing);
        if sent_before {
            messages.end_gathering_in(&window);
        }
        let closed = messages.close(&target, End::Completed, 1024, true);
        assert_eq!(closed, if sent_before { Close::Nothing } else { Close::Sent });
        assert_eq!((sent(&messages).len(), target.only_puts()), (1, false));
        messages.answered(u64::from(sent_before), Ok(&[]));
        assert!(target.idle());
        target.unmix();
    }
}

/// The end of an epoch is a notice of its own if the operations take two messages, if one of them
/// has a request, if there is no room, or if others are in flight that may arrive later.
#[test]
fn operations_that_can_not_take_the_end_along_are_sent_before() {
    let to = Towards { closes: true, ..TO };
    for (case, ordered) in [("two kinds", true), ("a request", true), ("no room", true), ("others", false)] {
        let (messages, target) = (Messages::default(), Tally::new());
        let request = Tally::within(&target);
        assert_eq!(messages.gather(to, 0, &Small::Put(&[1; 8]), 1024, counted(&target), || 0), Gather::Kept);
        let mut most = 1024;
        match case {
            "two kinds" => {
                assert_eq!(messages.gather(to, 64, &sum(&[2; 8]), 1024, counted(&target), || 1), Gather::Kept);
            }
            "a request" => {
                let counting = Counting { target: &target, request: Some(&request) };
                assert_eq!(messages.gather(to, 64, &Small::Put(&[2; 8]), 1024, counting, || 0), Gather::Kept);
            }
            "no room" => most = 40,
            _ => target.begin(),
        }
        assert_eq!(messages.close(&target, End::Completed, most, ordered), Close::Apart, "{case}");
        assert!(sent(&messages).is_empty(), "{case}");
    }
}

//! Messages between stand-ins, which count those that find no posted receive.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transom_fabric::{Domain, Handler, Immediate, Memory, Peer, Port, Post, Reason, Region, Tally, TallyRef};

use super::{Cells, Credits, Flow};
use crate::address::Grant;
use crate::remote::VerbsRemote;
use crate::standin::{Net, Standin};
use crate::sys::{IBV_QPS_RESET, IBV_WR_RDMA_WRITE_WITH_IMM};

/// More rounds than any test needs.
const MANY: usize = 20_000;

/// A rank's received messages, and the answers that it owes.
#[derive(Default)]
struct Inbox {
    seen: RefCell<Vec<(Peer, Vec<u8>)>>,
    owed: RefCell<VecDeque<(Peer, Vec<u8>)>>,
    immediates: RefCell<Vec<(Peer, u32)>>,
}

impl Handler for Inbox {
    fn message(&self, from: Peer, bytes: &[u8]) {
        self.seen.borrow_mut().push((from, bytes.to_vec()));
        if let [b'?', rest @ ..] = bytes {
            self.owed.borrow_mut().push_back((from, [b"!", rest].concat()));
        }
    }

    fn immediate(&self, from: Peer, immediate: Immediate) {
        self.immediates.borrow_mut().push((from, immediate.number()));
    }
}

fn peer(rank: usize) -> Peer {
    Peer(u32::try_from(rank).expect("few ranks"))
}

/// Connects each of `pairs`.
fn connect(net: &mut Net, pairs: &[(usize, usize)]) {
    for &(from, to) in pairs {
        let address = net.domains[to].port().address();
        net.domains[from].port().connect(peer(to), &address).expect("a queue pair");
    }
    // Hellos are repeated after a time.
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        net.carry();
        for domain in &net.domains {
            domain.port().progress(&Inbox::default()).expect("progress");
        }
        let ready = |&(from, to): &(usize, usize)| {
            !net.domains[from].port().is_opening(peer(to)) && !net.domains[to].port().is_opening(peer(from))
        };
        if pairs.iter().all(ready) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("connecting takes too long");
}

/// Whether the port took the message.
fn send(net: &Net, from: usize, to: usize, bytes: &[u8]) -> bool {
    match net.domains[from].port().send(peer(to), bytes) {
        Post::Done => true,
        Post::Again => false,
        other => panic!("{other:?}"),
    }
}

/// The receives of a rank.
fn receives(net: &Net, rank: usize) -> u32 {
    net.domains[rank].port().receives()
}

fn progress(net: &Net, rank: usize, inbox: &Inbox) {
    net.domains[rank].port().progress(inbox).expect("progress");
}

/// Posts puts with immediates from rank 1 to rank 0 until there is no credit. Returns their number.
fn put_immediates(net: &Net, to: &VerbsRemote, tally: &TallyRef) -> u32 {
    let port = net.domains[1].port();
    let put = |number: &u32| {
        let immediate = Immediate::new(*number).expect("a small number");
        let bytes = (*number + 1).to_ne_bytes();
        match port.put_immediate(to, 4 * u64::from(*number), &bytes, immediate, tally) {
            Post::Pending => true,
            Post::Again => false,
            other => panic!("{other:?}"),
        }
    };
    (0..).take_while(put).last().expect("credit for one") + 1
}

/// Two connected ranks, and the memory of rank 0 as rank 1 reaches it.
fn two_ranks() -> (Net, Memory, impl Region, VerbsRemote) {
    let mut net = Net::new(2);
    connect(&mut net, &[(1, 0)]);
    let memory = Memory::private(256);
    let region = net.domains[0].register(&memory).expect("a region");
    let remote = net.domains[1].port().import(peer(0), &region.key()).expect("a region");
    (net, memory, region, remote)
}

/// Immediates take credit, and arrive once with their bytes. The sender wakes the receiver when
/// credit runs out, and not before.
#[test]
fn immediates_take_credit() {
    let (mut net, memory, _region, remote) = two_ranks();
    let (tally, inbox) = (Tally::new(), Inbox::default());
    // In later rounds the queue is full before the credit is used.
    for round in 1..=2 {
        let count = put_immediates(&net, &remote, &tally);
        let solicited: Vec<_> = {
            // An empty request may stand before them.
            let state = net.standins[1].state();
            let all = state.sent.iter().filter(|sent| sent.opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
            all.map(|sent| sent.solicited).collect()
        };
        let expected: Vec<_> = (1..=count).map(|nth| [0, 8].contains(&(count - nth))).collect();
        assert!(count > 8 && solicited == expected, "round {round}: {solicited:?}");
        net.carry();
        assert_eq!((net.not_ready, inbox.immediates.borrow().len()), (0, 0));
        net.domains[0].port().settle(&inbox).expect("progress");
        let came: Vec<_> = (0..count).map(|number| (peer(1), number)).collect();
        assert_eq!(inbox.immediates.take(), came, "round {round}");
        let mut bytes = [0; 4];
        memory.read(4 * (count as usize - 1), &mut bytes);
        assert_eq!(u32::from_ne_bytes(bytes), count);
        net.carry();
        progress(&net, 1, &inbox);
    }
    net.carry();
    progress(&net, 1, &inbox);
    assert!(tally.idle());
}

/// A connection whose messages are taken in time gets a larger window: few limits are written, and
/// no notice wakes the receiver's progress thread.
#[test]
fn notices_that_are_taken_in_time_wake_no_thread() {
    const EACH: u64 = 400;
    let (mut net, _memory, _region, remote) = two_ranks();
    let (tally, inbox, immediate) = (Tally::new(), Inbox::default(), Immediate::new(1).expect("a small number"));
    let mut woken = Vec::new();
    for nth in 0..EACH {
        assert!(matches!(net.domains[1].port().put_immediate(&remote, 0, &[1], immediate, &tally), Post::Pending));
        woken.extend(net.standins[1].state().sent.iter().filter(|sent| sent.solicited).map(|_| nth));
        net.carry();
        progress(&net, 0, &inbox);
        net.carry();
        progress(&net, 1, &inbox);
    }
    assert!(woken.iter().all(|&nth| nth < 16), "{woken:?}");
    let limits = net.domains[0].port().posted(peer(1)).requests;
    assert!((1..=EACH / 14).contains(&limits), "{limits}");
}

/// The progress thread sleeps until solicited completions only. While a limit waits for room, it
/// also wakes when requests of its own have completed.
#[test]
fn a_limit_without_room_is_written_when_there_is_room() {
    let (mut net, memory, region, remote) = two_ranks();
    let (tally, inbox) = (Tally::new(), Inbox::default());
    let back = net.domains[1].register(&memory).expect("a region");
    let back = net.domains[0].port().import(peer(1), &back.key()).expect("a region");
    let port = || net.domains[0].port();
    let sleeps_until_solicited = |net: &Net| {
        net.domains[0].port().wait(Duration::ZERO);
        net.standins[0].state().armed_solicited.take()
    };
    assert_eq!(sleeps_until_solicited(&net), Some(true));
    while matches!(port().put_inline(&back, 0, &[1], &tally), Post::Pending) {}
    let count = put_immediates(&net, &remote, &tally);
    net.carry_from(1);
    progress(&net, 0, &inbox);
    assert_eq!(inbox.immediates.borrow().len(), count as usize);
    assert_eq!(sleeps_until_solicited(&net), Some(false), "the limit waits");
    net.carry();
    progress(&net, 0, &inbox);
    net.carry();
    assert_eq!(sleeps_until_solicited(&net), Some(true), "the limit was written");
    assert!(put_immediates(&net, &remote, &tally) >= count);
    drop(region);
}

/// A progress thread whose message finds no room in the queue wakes when requests of its own have
/// completed, and not only when messages arrive.
#[test]
fn a_message_without_room_is_sent_when_there_is_room() {
    let mut net = Net::new(2);
    connect(&mut net, &[(1, 0)]);
    let (tally, inbox) = (Tally::new(), Inbox::default());
    let region = net.domains[1].register(&Memory::private(8)).expect("memory");
    let remote = net.domains[0].port().import(peer(1), &region.key()).expect("connected");
    let sleeps_until_solicited = |net: &Net| {
        net.domains[0].port().wait(Duration::ZERO);
        net.standins[0].state().armed_solicited.take()
    };
    for _ in 0..3 {
        while matches!(net.domains[0].port().put_inline(&remote, 0, &[1; 8], &tally), Post::Pending) {}
        assert_eq!(sleeps_until_solicited(&net), Some(true), "nothing waits for room");
        assert!(!send(&net, 0, 1, b"text"));
        assert_eq!(sleeps_until_solicited(&net), Some(false), "the message waits for room");
        net.carry();
        progress(&net, 0, &inbox);
        assert_eq!(sleeps_until_solicited(&net), Some(true), "there is room");
        assert!(tally.settled() && send(&net, 0, 1, b"text"));
        net.carry();
        progress(&net, 0, &inbox);
        progress(&net, 1, &inbox);
    }
}

/// Each of `senders` ranks sends 64 messages to one rank as fast as it can, and the target is slow.
fn all_to_one(senders: usize) -> Net {
    const EACH: u8 = 64;
    let (mut net, inbox) = (Net::new(senders + 1), Inbox::default());
    let pairs: Vec<_> = (1..=senders).map(|from| (from, 0)).collect();
    connect(&mut net, &pairs);
    let (mut next, expected) = (vec![0; senders], senders * usize::from(EACH));
    for _ in 0..MANY {
        for (at, next) in next.iter_mut().enumerate() {
            while *next < EACH && send(&net, at + 1, 0, &[*next]) {
                *next += 1;
            }
            progress(&net, at + 1, &Inbox::default());
        }
        net.carry();
        progress(&net, 0, &inbox);
        if inbox.seen.borrow().len() == expected {
            break;
        }
    }
    let mut seen = inbox.seen.take();
    seen.sort();
    let all: Vec<_> = (1..=senders).flat_map(|from| (0..EACH).map(move |at| (peer(from), vec![at]))).collect();
    assert!(seen == all, "{} of {expected} messages arrived", seen.len());
    net
}

/// "64 origins at 64 in flight to one target": each message finds a receive.
#[test]
fn messages_of_many_senders_find_posted_receives() {
    let net = all_to_one(64);
    assert_eq!((net.not_ready, receives(&net, 0)), (0, 192));
}

/// A process with more connections has more receives.
#[test]
fn receives_are_added_for_more_senders() {
    let net = all_to_one(100);
    assert_eq!((net.not_ready, receives(&net, 0)), (0, 192 + 64));
    let told = net.domains[0].resources();
    let expected = ["100 queue pairs of 63 requests", "648 buffers (8 MiB) and 256 receives (4 MiB)"];
    assert!(expected.iter().all(|part| told.contains(part)), "{told}");
    assert!(net.domains[1].resources().contains("1 queue pair of"), "{}", net.domains[1].resources());
}

/// Ranks that are out of credit towards each other go on as soon as they make progress: limits need
/// no credit.
#[test]
fn ranks_that_refuse_each_other_go_on() {
    const EACH: usize = 300;
    let (mut net, inboxes) = (Net::new(2), [Inbox::default(), Inbox::default()]);
    connect(&mut net, &[(0, 1)]);
    let mut sent = [0; 2];
    let (mut rounds, mut refused) = (0, 0);
    while inboxes.iter().any(|inbox| inbox.seen.borrow().len() < EACH) {
        for (from, sent) in sent.iter_mut().enumerate() {
            while *sent < EACH && send(&net, from, 1 - from, b"text") {
                *sent += 1;
            }
            refused += usize::from(*sent < EACH);
        }
        net.carry();
        (0..2).for_each(|rank| progress(&net, rank, &inboxes[rank]));
        rounds += 1;
        assert!(rounds < MANY, "{sent:?}");
    }
    assert_eq!((net.not_ready, sent), (0, [EACH; 2]));
    assert!(refused > 10, "{refused} refusals");
    // Windows grow up to the share of one connection: few rounds for 300 messages.
    assert!(rounds < 40, "{rounds} rounds");
}

/// Requests of all to all, each of which is answered: answers behind requests arrive too.
#[test]
fn answers_behind_requests_arrive() {
    const RANKS: usize = 24;
    const EACH: usize = 20;
    let (mut net, inboxes) = (Net::new(RANKS), std::iter::repeat_with(Inbox::default).take(RANKS).collect::<Vec<_>>());
    let all = || (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to)));
    connect(&mut net, &all().collect::<Vec<_>>());
    let mut left: Vec<_> = all().flat_map(|pair| std::iter::repeat_n(pair, EACH)).collect();
    let expected = 2 * RANKS * EACH;
    for _ in 0..MANY {
        left.retain(|&(from, to)| !send(&net, from, to, b"?text"));
        net.carry();
        for (rank, inbox) in inboxes.iter().enumerate() {
            progress(&net, rank, inbox);
            let owed = inbox.owed.take();
            inbox.owed.borrow_mut().extend(owed.into_iter().filter(|(to, bytes)| !send(&net, rank, to.index(), bytes)));
        }
        if inboxes.iter().all(|inbox| inbox.seen.borrow().len() == expected) {
            break;
        }
    }
    let seen: Vec<_> = inboxes.iter().map(|inbox| inbox.seen.borrow().len()).collect();
    assert_eq!((net.not_ready, seen), (0, vec![expected; RANKS]));
}

/// Requests and answers of two ranks: one write of a limit for at least 14 messages.
#[test]
fn limits_are_few() {
    const EACH: u64 = 400;
    let (mut net, inboxes) = (Net::new(2), [Inbox::default(), Inbox::default()]);
    connect(&mut net, &[(0, 1)]);
    for _ in 0..EACH {
        assert!(send(&net, 0, 1, b"?text"));
        net.carry();
        progress(&net, 1, &inboxes[1]);
        let (to, answer) = inboxes[1].owed.borrow_mut().pop_front().expect("a request");
        assert!(send(&net, 1, to.index(), &answer));
        net.carry();
        progress(&net, 0, &inboxes[0]);
    }
    let limits = [(0, 1), (1, 0)].map(|(from, to)| net.domains[from].port().posted(peer(to)).requests - EACH);
    assert!(limits.iter().all(|&limits| (1..=EACH / 14).contains(&limits)), "{limits:?}");
}

/// A limit that finds the queue full of other requests is written when there is room.
#[test]
fn a_limit_waits_for_room_in_the_queue() {
    let (mut net, inbox) = (Net::new(2), Inbox::default());
    connect(&mut net, &[(0, 1)]);
    let region = net.domains[0].register(&Memory::private(8)).expect("memory");
    let remote = net.domains[1].port().import(Peer(0), &region.key()).expect("connected");
    let tally = Tally::new();
    while matches!(net.domains[1].port().put_inline(&remote, 0, &[1; 8], &tally), Post::Pending) {}
    let puts = tally.outstanding();
    let mut sent = 0;
    while send(&net, 0, 1, b"text") {
        sent += 1;
    }
    // The newest put is held.
    let mut others = std::mem::take(&mut net.standins[1].state().sent);
    net.carry();
    progress(&net, 1, &inbox);
    assert_eq!((inbox.seen.borrow().len(), tally.outstanding()), (sent, puts), "taken, and the queue is full");
    others.append(&mut net.standins[1].state().sent);
    assert_eq!(others.len() as u64, puts, "no limit was written");
    net.standins[1].state().sent = others;
    net.carry();
    progress(&net, 1, &inbox);
    assert!(tally.settled() && !send(&net, 0, 1, b"text"));
    net.carry();
    assert!(send(&net, 0, 1, b"text"));
}

/// The receives that a connection has borrowed are free again when it has ended, and an idle
/// connection returns nothing.
#[test]
fn ended_connections_return_their_receives() {
    let mut net = Net::new(3);
    let free = |net: &Net| net.domains[0].port().flow().free();
    let before = free(&net);
    connect(&mut net, &[(1, 0), (2, 0)]);
    let idle = before - free(&net);
    for _ in 0..20 {
        while send(&net, 1, 0, b"text") {}
        net.carry();
        progress(&net, 0, &Inbox::default());
    }
    let busy = before - free(&net);
    assert!(busy >= before / 2, "{busy} of {before} are borrowed, first {idle}");
    for rank in [1, 2] {
        net.domains[0].port().lose(peer(rank), Reason::Died);
    }
    (0..4).for_each(|_| progress(&net, 0, &Inbox::default()));
    assert_eq!(free(&net), before);
}

/// A message without credit is answered `Broken` when its receiver has died, and no thread goes on
/// waiting for credit.
#[test]
fn no_message_waits_for_credit_of_a_dead_rank() {
    let mut net = Net::new(2);
    connect(&mut net, &[(0, 1)]);
    while send(&net, 0, 1, b"text") {}
    let port = net.domains[0].port();
    assert!(port.flow().has_refused());
    port.lose(Peer(1), Reason::Died);
    assert!(matches!(port.send(Peer(1), b"text"), Post::Broken(_)));
    progress(&net, 0, &Inbox::default());
    assert!(!port.flow().has_refused());
}

/// Rank 0's last message to rank 1 was refused, and credit has arrived since.
fn refused_and_relieved() -> Net {
    let mut net = Net::new(2);
    connect(&mut net, &[(0, 1)]);
    while send(&net, 0, 1, b"text") {}
    net.carry();
    progress(&net, 1, &Inbox::default());
    net.carry();
    progress(&net, 0, &Inbox::default());
    let port = net.domains[0].port();
    let link = port.connections().link(Peer(1)).expect("connected");
    assert!(link.credits.has_any() && !port.flow().has_refused());
    net
}

/// A message that finds credit but no room in the queue does not clear the mark of a refusal, which
/// the next message states.
#[test]
fn a_message_that_is_not_sent_states_no_refusal() {
    let net = refused_and_relieved();
    let region = net.domains[1].register(&Memory::private(8)).expect("memory");
    let port = net.domains[0].port();
    let remote = port.import(Peer(1), &region.key()).expect("connected");
    let tally = Tally::new();
    while matches!(port.put_inline(&remote, 0, &[1; 8], &tally), Post::Pending) {}
    let link = port.connections().link(Peer(1)).expect("connected");
    let credit = link.credits.sent.load(Ordering::Relaxed);
    assert!(!send(&net, 0, 1, b"text"), "the queue is full");
    let after = (link.credits.sent.load(Ordering::Relaxed), link.credits.refused.load(Ordering::Relaxed));
    assert_eq!(after, (credit, true));
}

/// A thread is refused after other threads have taken the new credit, and before one of them has
/// cleared the mark of the earlier refusal. The process then sleeps briefly too.
#[test]
fn a_refusal_after_relief_is_listed() {
    let net = refused_and_relieved();
    let port = net.domains[0].port();
    let link = port.connections().link(Peer(1)).expect("connected");
    link.credits.sent.store(link.credits.cell.own().load(Ordering::Relaxed), Ordering::Relaxed);
    assert!(!send(&net, 0, 1, b"text") && port.flow().has_refused());
}

/// Regression: connections that could not be made counted, and receives were added for them.
#[test]
fn failed_connections_take_no_receives() {
    let mut net = Net::new(2);
    let (before, address) = (receives(&net, 1), net.domains[0].port().address());
    net.standins[1].state().refuses_registrations = true;
    for _ in 0..before {
        net.domains[1].port().connect(peer(0), &address).expect_err("no memory for the credits");
    }
    net.standins[1].state().refuses_registrations = false;
    connect(&mut net, &[(1, 0)]);
    assert_eq!(receives(&net, 1), before);
}

/// Regression: the first failure to answer a hello ended the job.
#[test]
fn a_hello_that_cannot_be_answered_is_answered_later() {
    let mut net = Net::new(2);
    net.standins[1].state().refuses_pairs = true;
    net.domains[0].port().connect(peer(1), &net.domains[1].port().address()).expect("a queue pair");
    for _ in 0..4 {
        net.carry();
        progress(&net, 1, &Inbox::default());
        std::thread::sleep(Duration::from_millis(10));
        progress(&net, 0, &Inbox::default());
    }
    assert!(net.domains[0].port().is_opening(peer(1)));
    net.standins[1].state().refuses_pairs = false;
    connect(&mut net, &[(0, 1)]);
    assert!(net.domains.iter().all(|domain| domain.port().lost().is_none()));
}

/// Regression: the first failure to connect a queue pair ended the job.
#[test]
fn a_queue_pair_that_cannot_be_connected_is_connected_later() {
    let mut net = Net::new(2);
    net.standins[1].state().refuses_connections = true;
    net.domains[0].port().connect(peer(1), &net.domains[1].port().address()).expect("a queue pair");
    for _ in 0..4 {
        net.carry();
        progress(&net, 1, &Inbox::default());
        std::thread::sleep(Duration::from_millis(10));
        progress(&net, 0, &Inbox::default());
    }
    assert!(net.domains[0].port().is_opening(peer(1)));
    assert!(net.standins[1].state().states.contains(&(Peer(0), IBV_QPS_RESET)));
    net.standins[1].state().refuses_connections = false;
    connect(&mut net, &[(0, 1)]);
    assert!(net.domains.iter().all(|domain| domain.port().lost().is_none()));
    assert!(send(&net, 0, 1, b"text") && send(&net, 1, 0, b"text"));
}

/// A thread that sleeps after its message was refused wakes as soon as there is credit, although no
/// completion announces it.
#[test]
fn credit_ends_a_sleep() {
    let mut net = Net::new(2);
    connect(&mut net, &[(0, 1)]);
    while send(&net, 0, 1, b"text") {}
    net.carry();
    progress(&net, 0, &Inbox::default());
    std::thread::scope(|scope| {
        let sleeper = Arc::clone(&net.domains[0]);
        scope.spawn(move || {
            while !matches!(sleeper.port().send(Peer(1), b"text"), Post::Done) {
                sleeper.port().wait(Duration::from_secs(3600));
            }
        });
        progress(&net, 1, &Inbox::default());
        net.carry();
    });
}

/// The share rule, and the return of receives that are needed elsewhere.
#[test]
fn windows_grow_while_receives_are_free_and_shrink_afterwards() {
    let flow = Flow::new(20);
    assert_eq!((flow.borrow(60, 0), flow.free()), (10, 10));
    assert_eq!((flow.borrow(60, 0), flow.free()), (5, 5));
    assert_eq!((flow.borrow(60, 10), flow.free()), (0, 5), "this connection has its share");
    flow.give_back(15);
    let (device, _) = Standin::open();
    let credits = Credits::new(&Cells::new(&device), &flow).expect("a cell");
    let window = |credits: &Credits| credits.account.lock().expect("no panic").window;
    assert_eq!((window(&credits), flow.free()), (6, 15));
    credits.accept(&Grant::default());
    assert!(credits.taken(true, &flow), "5 of 11 are unused");
    assert_eq!((window(&credits), flow.free()), (11, 10));
    flow.free.store(0, Ordering::Relaxed);
    for left in [10, 9, 8, 7, 6, 5, 5] {
        assert!(credits.renew().is_some());
        credits.renewed();
        credits.taken(false, &flow);
        assert_eq!(window(&credits), left);
    }
}

//! Messages that no correct rank sends. Whatever its fields contain, a message is refused or
//! changes only the window, and the target does not panic. Guards around the target's memory must
//! stay unchanged. Targets without one of the checks show that these messages detect the missing
//! check.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};
use transom_fabric::{Amo, AmoKind, Handler, Memory, Peer, RegionKey, Width};

use super::codec::{End, LAST, Message, OVERHEAD};
use super::staging::Piece;
use super::{Atomicity, Exposed, KeyHolder, Messages, Request, Space};
use crate::datatype::Strip;
use crate::memory::attached::{Attached, Opened, Register};
use crate::reduce::{BasicType, Op};
use crate::sync::{counters, words};

const PART: usize = 64;
const GUARD: usize = 64;
/// The counters of each window.
const COUNTERS: usize = 4;
/// The windows of the target.
const PLAIN: u64 = 1;
const DYNAMIC: u64 = 2;

/// A word as an attacker may choose it: small, near a limit, or any.
fn word() -> impl Strategy<Value = u64> {
    let near = |to: u64| (0..9u64).prop_map(move |off| to.wrapping_add(off).wrapping_sub(4));
    prop_oneof![
        4 => 0..=(PART as u64 + 8),
        1 => prop_oneof![near(0), near(1 << 31), near(1 << 32), near(1 << 63)],
        1 => any::<u64>(),
    ]
}

/// Bytes that begin like a message: kind, token, a window that may exist, order, operation, words,
/// and data.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let how = prop_oneof![prop::array::uniform4(0..8u8), prop::array::uniform4(any::<u8>())];
    let window = prop_oneof![8 => Just(PLAIN), 4 => Just(DYNAMIC), 1 => word()];
    let words = prop::collection::vec(word(), 0..10);
    let data = prop::collection::vec(any::<u8>(), 0..80);
    (0..=LAST, word(), window, prop_oneof![Just(0), word()], how, words, data).prop_map(
        |(kind, token, window, order, how, words, data)| {
            let mut bytes = vec![kind];
            [token, window, order].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
            bytes.extend(how);
            words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
            bytes.extend(data);
            bytes
        },
    )
}

/// A change to a correct request.
#[derive(Clone, Debug)]
enum Change {
    /// A word of the operands is replaced.
    Set(prop::sample::Index, u64),
    /// A word of the operands becomes a little smaller or larger.
    Shift(prop::sample::Index, i64),
    /// A byte before the operands gets another value.
    Head(prop::sample::Index, u8),
    /// The message ends earlier.
    Cut(prop::sample::Index),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let operands = bytes.len().saturating_sub(OVERHEAD) / 8;
        let word = |index: &prop::sample::Index| OVERHEAD + 8 * index.index(operands);
        let mut change = |at: usize, to: &dyn Fn(u64) -> u64| {
            if let Some(chunk) = bytes[at..].first_chunk_mut::<8>() {
                *chunk = to(u64::from_ne_bytes(*chunk)).to_ne_bytes();
            }
        };
        match self {
            Change::Set(index, value) if operands > 0 => change(word(index), &|_| *value),
            Change::Shift(index, by) if operands > 0 => change(word(index), &|old| old.wrapping_add_signed(*by)),
            Change::Head(index, value) if !bytes.is_empty() => {
                let at = index.index(bytes.len().min(OVERHEAD));
                bytes[at] = *value;
            }
            Change::Cut(index) if !bytes.is_empty() => bytes.truncate(index.index(bytes.len())),
            _ => {}
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<prop::sample::Index>;
    let change = prop_oneof![
        3 => (at(), word()).prop_map(|(at, value)| Change::Set(at, value)),
        3 => (at(), -9..10i64).prop_map(|(at, by)| Change::Shift(at, by)),
        1 => (at(), 0..=LAST).prop_map(|(at, value)| Change::Head(at, value)),
        1 => at().prop_map(Change::Cut),
    ];
    prop::collection::vec(change, 0..3)
}

/// Strips of elements of `size` bytes within the part.
fn strips(size: usize) -> impl Strategy<Value = Vec<Strip>> {
    let slots = PART / size;
    let strip = (0..slots, 1..=slots, 1..4usize, -3..4i64).prop_map(move |(first, block, count, step)| {
        let block = block.min(slots - first);
        let strip = Strip { offset: (first * size) as i64, block: block * size, count, stride: step * size as i64 };
        let (low, end) = strip.span();
        if low < 0 || end > PART as i64 { Strip::one(strip.offset, strip.block) } else { strip }
    });
    prop::collection::vec(strip, 0..4)
}

fn len(strips: &[Strip]) -> usize {
    strips.iter().map(|strip| strip.block * strip.count).sum()
}

/// A request that a target performs.
fn correct() -> impl Strategy<Value = Request<'static>> {
    let parts = || prop::collection::vec(single().prop_filter("an operation", Request::may_be_carried), 0..4);
    let several = || parts().prop_map(|parts| Request::Several { parts });
    let carry = (any::<bool>(), any::<bool>(), parts()).prop_map(|(exclusive, release, parts)| Request::Carry {
        exclusive,
        release,
        parts,
    });
    let closing = prop_oneof![single().prop_filter("of an epoch", Request::may_close), several()];
    let end = prop_oneof![
        Just(End::Completed),
        (any::<u32>(), any::<u32>()).prop_map(|(slot, value)| End::Signal { slot, value })
    ];
    let closing = (closing, end).prop_map(|(request, end)| Request::Closing { operations: Box::new(request), end });
    prop_oneof![9 => single(), 1 => carry, 1 => several(), 1 => closing]
}

/// A staged piece of whole elements of `size` bytes.
fn piece<S: Strategy<Value = u64>>(size: u64, around: impl Fn() -> S) -> impl Strategy<Value = Piece> {
    let slots = PART as u64 / size;
    (0..slots, 0..=slots, 0..slots, around(), around()).prop_map(move |(at, from, len, before, after)| Piece {
        at: size * at,
        from: size * from,
        len: size * len,
        before,
        after,
    })
}

/// A request that contains no other requests.
fn single() -> impl Strategy<Value = Request<'static>> {
    use BasicType::{Complex64, Float64, Int8, Int32, Uint64};
    let types = prop::sample::select(vec![Int8, Int32, Uint64, Float64]);
    let combine = (types.clone(), prop::sample::select(vec![Op::Sum, Op::Replace, Op::NoOp]), any::<bool>())
        .prop_flat_map(|(ty, op, fetch)| {
            strips(ty.size()).prop_map(move |strips| {
                let data = vec![3; if op == Op::NoOp { 0 } else { len(&strips) }].into();
                Request::Combine { op, ty, fetch, strips: strips.into(), data }
            })
        });
    let swap = (types, 0..PART as u64 / 8, word(), word()).prop_map(|(ty, slot, expected, new)| Request::Swap {
        ty,
        at: 8 * slot,
        expected,
        new,
    });
    let around = || prop::sample::select(vec![0, 8, 16, u64::MAX]);
    let staged = (prop::sample::select(vec![Op::Sum, Op::NoOp]), any::<bool>(), piece(8, around))
        .prop_map(|(op, fetch, piece)| Request::Staged { op, ty: Uint64, fetch, piece });
    let copy = (any::<bool>(), piece(1, around)).prop_map(|(fetch, piece)| Request::Copy { fetch, piece });
    let amo = prop::sample::select(AmoKind::ALL.to_vec());
    let control = (0..4u64, amo, word(), word()).prop_map(|(slot, kind, operand, compare)| Request::Control {
        at: 8 * slot,
        amo: Amo { kind, width: Width::W64, operand, compare },
    });
    prop_oneof![
        strips(1).prop_map(|strips| Request::Scatter { data: vec![7; len(&strips)].into(), strips: strips.into() }),
        (0..COUNTERS as u64, 0..PART, 0..=PART).prop_map(|(index, at, len)| Request::Notify {
            index,
            at: at as i64,
            data: vec![7; len.min(PART - at)].into(),
        }),
        (strips(8), any::<bool>()).prop_map(|(strips, adds)| {
            let data = vec![7; len(&strips)].into();
            Request::Each(Box::new(match adds {
                true => Request::Combine { op: Op::Sum, ty: Uint64, fetch: false, data, strips: strips.into() },
                false => Request::Scatter { data, strips: strips.into() },
            }))
        }),
        strips(1).prop_map(|strips| Request::Gather { strips: strips.into() }),
        strips(1).prop_map(|strips| Request::Check { strips: strips.into() }),
        combine,
        swap,
        staged,
        copy,
        Just(Request::Stage),
        (0..PART as u64 / 16).prop_map(|slot| Request::SwapBytes {
            ty: Complex64,
            at: 16 * slot,
            data: vec![0; 32].into()
        }),
        control,
        (word(), word()).prop_map(|(from, most)| Request::Regions { from, most }),
        (0..PART as u64, 0..=PART as u64).prop_map(|(address, len)| Request::Key { address, len }),
        word().prop_map(|number| Request::Withdraw { number }),
    ]
}

/// A message to a target whose memory's address is known when it is sent.
#[derive(Clone, Debug)]
enum Sent {
    Bytes(Vec<u8>),
    Changed { dynamic: bool, order: u64, request: Request<'static>, changes: Vec<Change> },
}

impl Sent {
    /// The message to a target whose part begins at `address`.
    fn bytes(&self, address: u64) -> Vec<u8> {
        let (dynamic, order, request, changes) = match self {
            Sent::Bytes(bytes) => return bytes.clone(),
            Sent::Changed { dynamic, order, request, changes } => (*dynamic, *order, request.clone(), changes),
        };
        let (window, request) = if dynamic { (DYNAMIC, by_address(request, address)) } else { (PLAIN, request) };
        let mut bytes = Message::Request { token: 5, window, order, request }.encode();
        changes.iter().for_each(|change| change.apply(&mut bytes));
        bytes
    }
}

/// The request with its offsets replaced by addresses.
fn by_address(mut request: Request<'static>, address: u64) -> Request<'static> {
    match &mut request {
        Request::Scatter { strips, .. }
        | Request::Gather { strips }
        | Request::Combine { strips, .. }
        | Request::Check { strips } => {
            let strips: &mut Vec<Strip> = Cow::to_mut(strips);
            strips.iter_mut().for_each(|strip| strip.offset += address.cast_signed());
        }
        Request::Notify { at, .. } => *at += address.cast_signed(),
        Request::Swap { at, .. } | Request::SwapBytes { at, .. } => *at += address,
        Request::Staged { piece, .. } | Request::Copy { piece, .. } => piece.at += address,
        Request::Key { address: at, .. } => *at += address,
        Request::Control { .. } | Request::Regions { .. } | Request::Withdraw { .. } | Request::Stage => {}
        Request::Each(request) | Request::Closing { operations: request, .. } => {
            let one = std::mem::replace(&mut **request, Request::Stage);
            **request = by_address(one, address);
        }
        Request::Carry { parts, .. } | Request::Several { parts } => {
            let there = std::mem::take(parts).into_iter().map(|part| by_address(part, address));
            *parts = there.collect();
        }
    }
    request
}

fn changed() -> impl Strategy<Value = Sent> {
    let order = prop_oneof![2 => Just(0), 1 => 1..5u64];
    (any::<bool>(), order, correct(), changes()).prop_map(|(dynamic, order, request, changes)| Sent::Changed {
        dynamic,
        order,
        request,
        changes,
    })
}

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let one = prop_oneof![
        10 => changed(),
        9 => almost().prop_map(Sent::Bytes),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Sent::Bytes),
    ];
    prop::collection::vec(one, 1..6)
}

/// A holder of no keys.
#[derive(Debug)]
struct NoKeys;

impl KeyHolder for NoKeys {
    fn forget(&self, _: Peer, _: u64) {}
}

/// A target with a window over `part` bytes in the middle of some memory, and a dynamic window with
/// the same bytes attached.
fn target(memory: &Memory, part: usize) -> Messages {
    let (messages, part) = (Messages::default(), memory.slice(GUARD, part).expect("inside"));
    let attached = Arc::new(Attached::default());
    attached.attach(part.clone(), |_| Opened::default()).expect("the first");
    attached.give_by(Register::by(|_| Some((RegionKey([1; 4]), Box::new(())))));
    messages.grant_by(Box::new(|_| {
        Some(super::Area { _keeper: Box::new(()), memory: Memory::private(PART), key: RegionKey([1; 4]) })
    }));
    let _ = messages.areas.key(Peer(7));
    for (key, space) in [(PLAIN, Space::Part(part)), (DYNAMIC, Space::Attached(attached))] {
        let control = Memory::private(words::bytes(4));
        let atomicity = Atomicity::of_words(&control, key == DYNAMIC);
        let exposed = Exposed::new(space, control, atomicity);
        let counted = Memory::private((1 + COUNTERS) * words::LINE);
        counters::set_number(&counted, COUNTERS);
        exposed.count_in(counted);
        if key == DYNAMIC {
            exposed.hold_keys(Arc::new(NoKeys));
        }
        messages.expose(key, Arc::new(exposed));
    }
    messages
}

fn memory() -> (Memory, u64) {
    let memory = Memory::private(GUARD + PART + GUARD);
    memory.write(0, &[0xEE; GUARD]);
    memory.write(GUARD + PART, &[0xEE; GUARD]);
    let address = (memory.as_ptr().addr() + GUARD) as u64;
    (memory, address)
}

/// Sends all messages to a target whose windows have `part` bytes, and checks its answers and
/// guards.
fn stays_within(sent: &[Sent], part: usize) -> TestCaseResult {
    let (memory, address) = memory();
    let target = target(&memory, part);
    for message in sent {
        target.message(Peer(7), &message.bytes(address));
    }
    // Each answer can be decoded, and none belongs to a request of this rank.
    while let Some(answer) = target.take_deferred() {
        prop_assert!(Message::decode(&answer).is_some());
    }
    let mut after = [0; GUARD + PART + GUARD];
    memory.read(0, &mut after);
    prop_assert_eq!(&after[..GUARD], &[0xEE; GUARD]);
    prop_assert_eq!(&after[GUARD + PART..], &[0xEE; GUARD]);
    Ok(())
}

/// The same messages in each run.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_message_changes_memory_outside_the_window(sent in sent()) {
        stays_within(&sent, PART)?;
    }
}

/// Windows that are 8 bytes too long stand for a target without the check of lengths: a guard is
/// overwritten, and the test above would fail.
#[test]
fn a_missing_check_is_detected() {
    let found = runner(20_000).run(&sent(), |sent| stays_within(&sent, PART + 8));
    assert!(found.is_err(), "no message wrote behind the window");
}

/// The generated messages reach the execution and the refusal of each kind of request.
#[test]
fn every_request_is_performed_and_refused() {
    let seen: RefCell<HashMap<&str, [usize; 2]>> = RefCell::default();
    let count = |sent: Vec<Sent>| {
        for message in sent {
            let (memory, address) = memory();
            let (target, bytes) = (target(&memory, PART), message.bytes(address));
            target.message(Peer(7), &bytes);
            if let (Some(Message::Request { request, .. }), Some(answer)) =
                (Message::decode(&bytes), target.take_deferred())
            {
                let refused = matches!(Message::decode(&answer), Some(Message::Refusal { .. }));
                seen.borrow_mut().entry(name(&request)).or_default()[usize::from(refused)] += 1;
            }
        }
        Ok(())
    };
    runner(2000).run(&sent(), count).expect("counting does not fail");
    let seen = seen.into_inner();
    assert!(seen.len() == 18 && seen.values().flatten().all(|&times| times > 0), "{seen:?}");
}

fn name(request: &Request<'_>) -> &'static str {
    match request {
        Request::Scatter { .. } => "scatter",
        Request::Notify { .. } => "notify",
        Request::Gather { .. } => "gather",
        Request::Combine { .. } => "combine",
        Request::Swap { .. } => "swap",
        Request::SwapBytes { .. } => "wide swap",
        Request::Control { .. } => "control",
        Request::Check { .. } => "check",
        Request::Regions { .. } => "regions",
        Request::Carry { .. } => "carry",
        Request::Several { .. } => "several",
        Request::Each(_) => "each",
        Request::Closing { .. } => "closing",
        Request::Key { .. } => "key",
        Request::Withdraw { .. } => "withdraw",
        Request::Stage => "stage",
        Request::Staged { .. } => "staged",
        Request::Copy { .. } => "copy",
    }
}

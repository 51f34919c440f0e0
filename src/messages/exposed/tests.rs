//! Tests of a window as the target of requests.

use std::borrow::Cow;

use super::*;
use crate::memory::attached::Opened;
use transom_fabric::{Amo, AmoKind, Width};

fn exposed(len: usize) -> Exposed {
    let words = Memory::private(words::bytes(4));
    let atomicity = Atomicity::of_words(&words, false);
    Exposed::new(Space::Part(Memory::private(len)), words, atomicity)
}

/// Shows O7, E1.
#[test]
fn accesses_outside_the_part_are_refused_and_write_no_byte() {
    let window = exposed(16);
    let beyond = Strip { offset: 0, block: 4, count: 3, stride: 8 };
    for strips in [vec![Strip::one(9, 8)], vec![Strip::one(-1, 8)], vec![Strip::one(0, 4), Strip::one(13, 4)]] {
        let refused = window.execute(&Request::Scatter { strips: strips.into(), data: (&[1; 8]).into() });
        assert!(refused.is_err(), "{refused:?}");
    }
    let refused = window.execute(&Request::Scatter { strips: (&[beyond]).into(), data: (&[1; 12]).into() });
    assert_eq!(refused, Err(Refusal::Outside { at: 16, length: 4, limit: 16 }));
    let gather = Request::Gather { strips: vec![Strip::one(0, 16)].into() };
    assert_eq!(window.execute(&gather), Ok(vec![0; 16]), "nothing was written");
    let short = Request::Scatter { strips: vec![Strip::one(0, 8)].into(), data: (&[1; 4]).into() };
    assert_eq!(window.execute(&short), Err(Refusal::Lengths { data: 4, target: 8 }));
    let combine = |at, op, ty, data: &'static [u8]| {
        let strips = vec![Strip::one(at, 8)].into();
        Request::Combine { op, ty, fetch: false, strips, data: data.into() }
    };
    for (at, op, ty, data, why) in [
        (8, Op::Max, BasicType::Complex32, &[1u8; 8][..], "not defined"),
        (8, Op::Sum, BasicType::Int64, &[1; 4], "has 4 bytes"),
        (0, Op::Sum, BasicType::DoubleInt, &[1; 8], ""),
    ] {
        let refused = window.execute(&combine(at, op, ty, data)).expect_err("refused").to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(window.execute(&gather), Ok(vec![0; 16]), "nothing was written");
}

#[test]
fn requests_scatter_gather_combine_and_swap() {
    let window = exposed(64);
    let every_other = [Strip { offset: 0, block: 8, count: 4, stride: 16 }];
    let every_other = || Cow::from(&every_other);
    let data: Vec<u8> = [1u64, 2, 3, 4].into_iter().flat_map(u64::to_ne_bytes).collect();
    window.execute(&Request::Scatter { strips: every_other(), data: (&data).into() }).expect("inside");
    let combine = Request::Combine {
        op: Op::Prod,
        ty: BasicType::Uint64,
        fetch: true,
        strips: every_other(),
        data: (&data).into(),
    };
    assert_eq!(window.execute(&combine), Ok(data.clone()));
    let squares: Vec<u8> = [1u64, 4, 9, 16].into_iter().flat_map(u64::to_ne_bytes).collect();
    assert_eq!(window.execute(&Request::Gather { strips: every_other() }), Ok(squares.clone()));
    let read = Request::Combine {
        op: Op::NoOp,
        ty: BasicType::Uint64,
        fetch: true,
        strips: every_other(),
        data: Cow::default(),
    };
    assert_eq!(window.execute(&read), Ok(squares));
    let swap = Request::Swap { ty: BasicType::Uint64, at: 16, expected: 4, new: 5 };
    assert_eq!(window.execute(&swap), Ok(4u64.to_ne_bytes().to_vec()));
    assert_eq!(window.execute(&swap), Ok(5u64.to_ne_bytes().to_vec()));
    let (ones, twos) = ([1u8; 16], [2u8; 16]);
    let wide = |data: &[u8]| Request::SwapBytes { ty: BasicType::Complex64, at: 32, data: data.to_vec().into() };
    let before = window.execute(&Request::Gather { strips: vec![Strip::one(32, 16)].into() }).expect("inside");
    let (found, missed) = ([&before[..], &ones].concat(), [twos, twos].concat());
    assert_eq!(window.execute(&wide(&found)), Ok(before.clone()));
    assert_eq!(window.execute(&wide(&missed)), Ok(ones.to_vec()), "it was swapped");
    assert_eq!(window.execute(&wide(&missed)), Ok(ones.to_vec()), "it was not");
    assert!(window.execute(&wide(&missed[..31])).is_err());
    let add = Request::Control { at: 8, amo: Amo::new(AmoKind::Sum, Width::W64, 3) };
    assert_eq!(window.execute(&add), Ok(0u64.to_ne_bytes().to_vec()));
    assert_eq!(window.execute(&add), Ok(3u64.to_ne_bytes().to_vec()));
    assert!(window.execute(&Request::Control { at: 1 << 40, amo: Amo::new(AmoKind::Read, Width::W64, 0) }).is_err());
}

#[test]
fn attached_regions_are_reached_by_address_until_they_are_detached() {
    let attached = Arc::new(Attached::default());
    let memory = Memory::private(32);
    let address = memory.as_ptr().addr() as u64;
    attached.attach(memory, |_| Opened::default()).expect("the first");
    let words = Memory::private(words::bytes(4));
    let atomicity = Atomicity::of_words(&words, false);
    let window = Exposed::new(Space::Attached(Arc::clone(&attached)), words, atomicity);
    let at = |offset: u64| Cow::Owned(vec![Strip::one((address + offset).cast_signed(), 8)]);
    window.execute(&Request::Scatter { strips: at(24), data: (&[7; 8]).into() }).expect("inside");
    assert_eq!(window.execute(&Request::Gather { strips: at(24) }), Ok(vec![7; 8]));
    let regions: Vec<u8> = [1, address, 32, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    assert_eq!(window.execute(&Request::Regions { from: 0, most: 9 }), Ok(regions));
    for beyond in [Request::Gather { strips: at(25) }, Request::Check { strips: [at(0), at(25)].concat().into() }] {
        assert!(window.execute(&beyond).is_err());
    }
    assert_eq!(window.execute(&Request::Check { strips: [at(0), at(24)].concat().into() }), Ok(Vec::new()));
    drop(attached.detach(address));
    let refused = window.execute(&Request::Gather { strips: at(24) }).expect_err("detached");
    assert_eq!(refused, Refusal::NotAttached { address: address + 24, length: 8 });
}

/// Strip by strip, a request does what it can, and its answer is the first refusal.
#[test]
fn strips_are_refused_one_by_one() {
    let window = exposed(32);
    let strips = || vec![Strip::one(0, 8), Strip::one(28, 8), Strip::one(16, 8), Strip::one(40, 8)].into();
    let data: Vec<u8> = (1..=4u64).flat_map(u64::to_ne_bytes).collect();
    let all = |data: &[u64]| Ok(data.iter().copied().flat_map(u64::to_ne_bytes).collect());
    let gather = Request::Gather { strips: vec![Strip::one(0, 32)].into() };
    let refusal = Err(Refusal::Outside { at: 28, length: 8, limit: 32 });
    let put = Request::Scatter { strips: strips(), data: (&data).into() };
    assert_eq!(window.execute(&Request::Each(Box::new(put))), refusal);
    assert_eq!(window.execute(&gather), all(&[1, 0, 3, 0]));
    let ty = BasicType::Uint64;
    for (op, data, sums) in [(Op::Sum, &data[..], [2, 0, 6, 0]), (Op::NoOp, &[][..], [2, 0, 6, 0])] {
        let combine = Request::Combine { op, ty, fetch: false, strips: strips(), data: data.into() };
        assert_eq!(window.execute(&Request::Each(Box::new(combine))), refusal, "{op}");
        assert_eq!(window.execute(&gather), all(&sums), "{op}");
    }
    let short = Request::Scatter { strips: strips(), data: (&data[..24]).into() };
    assert_eq!(window.execute(&Request::Each(Box::new(short))), Err(Refusal::Lengths { data: 24, target: 32 }));
}

/// Puts on a dynamic window go to their own regions, in whatever order the message has them, also
/// across the border of two adjacent regions.
#[test]
fn strips_find_their_regions_one_by_one() {
    let (attached, whole) = (Arc::new(Attached::default()), Memory::private(64));
    let base = whole.as_ptr().addr() as i64;
    for (from, len) in [(0, 16), (24, 16), (40, 16)] {
        let region = whole.slice(from, len).expect("inside");
        attached.attach(region, |_| Opened::default()).expect("apart from the others");
    }
    let words = Memory::private(words::bytes(4));
    let atomicity = Atomicity::of_words(&words, false);
    let window = Exposed::new(Space::Attached(attached), words, atomicity);
    let offsets = [24, 32, 0, 36, 48, 12, 40, 8, 16, 44];
    let strips: Vec<_> = offsets.map(|at| Strip::one(base + at, 8)).into();
    let data: Vec<u8> = (1..=10).flat_map(|number| [number; 8]).collect();
    let put = Request::Each(Box::new(Request::Scatter { strips: strips.into(), data: data.into() }));
    let refused = window.execute(&put).expect_err("two are partly or wholly between the regions");
    assert_eq!(refused, Refusal::NotAttached { address: (base + 12).cast_unsigned(), length: 8 });
    let mut found = [0; 64];
    whole.read(0, &mut found);
    let pieces = [(3, 8), (8, 8), (0, 8), (1, 8), (2, 4), (4, 4), (7, 4), (10, 8), (5, 4), (0, 8)];
    let expected: Vec<u8> = pieces.into_iter().flat_map(|(number, len)| vec![number; len]).collect();
    assert_eq!(found[..], expected);
}

/// Requests that arrive out of order are executed in their origin's order.
/// Shows M4.
#[test]
fn ordered_requests_wait_for_their_predecessors() {
    let window = exposed(8);
    let mut seen = Vec::new();
    let mut arrives = |from, order: u64, token| {
        let data = order.to_ne_bytes();
        let request = Request::Scatter { strips: Cow::default(), data: (&data).into() };
        window.in_order(Peer(from), order, (token, request), |token, request| {
            let Request::Scatter { data, .. } = request else { panic!("{request:?}") };
            seen.push((token, data[..] == (token % 10).to_ne_bytes()));
        });
    };
    for order in [3, 1, 4, 2, 5] {
        arrives(1, order, 10 + order);
    }
    arrives(2, 1, 21);
    assert_eq!(seen, [11, 12, 13, 14, 15, 21].map(|token| (token, true)));
}

/// A notified put that arrives as a message changes the data and then the count, or neither.
#[test]
fn a_notice_counts_after_its_data_or_not_at_all() {
    let window = exposed(16);
    let notify = |index, at, data: &'static [u8]| window.execute(&Request::Notify { index, at, data: data.into() });
    assert_eq!(notify(0, 0, &[1; 8]), Err(Refusal::NoCounter { index: 0 }));
    let memory = Memory::private(counters::BYTES);
    counters::set_number(&memory, 2);
    window.count_in(memory.clone());
    for (index, at, data) in [(2, 0, &[1u8; 8][..]), (u64::MAX, 0, &[1; 8]), (1, 9, &[1; 8])] {
        assert!(notify(index, at, data).is_err());
    }
    let gather = Request::Gather { strips: vec![Strip::one(0, 16)].into() };
    assert_eq!(window.execute(&gather), Ok(vec![0; 16]), "nothing was written");
    assert_eq!([0, 1].map(|index| counters::sum(&memory, index)), [0, 0], "nothing was counted");
    assert_eq!((notify(1, 8, &[7; 8]), notify(1, 0, &[])), (Ok(Vec::new()), Ok(Vec::new())));
    assert_eq!(window.execute(&gather), Ok([[0; 8], [7; 8]].concat()));
    assert_eq!([0, 1].map(|index| counters::sum(&memory, index)), [0, 2]);
}

#[test]
fn notices_are_counted_and_consumed() {
    let window = exposed(8);
    assert_eq!(window.sees_post(3), None);
    assert_eq!([0; 2].map(|_| window.notice(3, PscwNotice::Posted)), [None; 2]);
    let seen = [3, 4, 3, 3].map(|member| window.sees_post(member));
    assert_eq!(seen, [Some(Posted::ByMessage), None, Some(Posted::ByMessage), None]);
    assert!(pscw_words::post(Words::at(&window.words, 0), 3) && window.sees_post(4).is_none());
    assert_eq!([0; 2].map(|_| window.sees_post(3)), [Some(Posted::InWords); 2], "until it is taken");
    assert!(window.take_post(3) && window.sees_post(3).is_none() && !window.take_post(3));
    assert!(window.notice(1, PscwNotice::Completed).is_none() && !window.take_completions(2));
    assert!(window.notice(1, PscwNotice::Completed).is_none());
    assert!(window.take_completions(2) && window.take_completions(0) && !window.take_completions(1));
}

/// Each post whose epoch has ended before is consumed when it comes. Posts in words and as messages
/// that had come are consumed at once.
#[test]
fn a_skipped_post_is_for_no_later_epoch() {
    let window = exposed(8);
    assert!(pscw_words::post(Words::at(&window.words, 0), 3) && window.notice(3, PscwNotice::Posted).is_none());
    assert_eq!([0; 4].map(|_| window.skip_post(3, 7)), [true, true, false, false]);
    assert!(!pscw_words::post(Words::at(&window.words, 0), 3), "later posts come as messages");
    assert_eq!((window.notice(4, PscwNotice::Posted), window.sees_post(4)), (None, Some(Posted::ByMessage)));
    assert_eq!([0; 3].map(|_| window.notice(3, PscwNotice::Posted)), [Some(7), Some(7), None]);
    assert_eq!([0; 2].map(|_| window.sees_post(3)), [Some(Posted::ByMessage), None]);
}

//! Messages round trip, have the lengths that are counted on, and malformed ones are refused.

use super::*;

#[test]
fn requests_round_trip() {
    let strips = [Strip::one(1 << 40, 4), Strip { offset: -8, block: 4, count: 3, stride: 12 }];
    let strips = || Cow::from(&strips);
    let piece = Piece { at: 1, from: 2, len: u64::MAX, before: 4, after: 5 };
    let combine =
        |fetch| Request::Combine { op: Op::Sum, ty: BasicType::Int8, fetch, strips: strips(), data: (&[5; 16]).into() };
    let requests = [
        Request::Several { parts: vec![combine(true), combine(false)] },
        Request::Several { parts: vec![Request::Each(Box::new(combine(false))), combine(false)] },
        Request::Each(Box::new(Request::Scatter { strips: strips(), data: b"data of strips...".into() })),
        Request::Key { address: 1 << 47, len: u64::MAX },
        Request::Withdraw { number: 3 },
        Request::Stage,
        Request::Staged { op: Op::Sum, ty: BasicType::Int8, fetch: true, piece },
        Request::Copy { fetch: true, piece },
        Request::Copy { fetch: false, piece: Piece { at: u64::MAX, from: 0, len: 3, ..piece } },
        Request::Scatter { strips: strips(), data: b"data of strips...".into() },
        Request::Notify { index: 4095, at: -8, data: b"data".into() },
        Request::Gather { strips: strips() },
        Request::Check { strips: strips() },
        Request::Combine { op: Op::MaxLoc, ty: BasicType::TwoInt, fetch: true, strips: strips(), data: Cow::default() },
        Request::Swap { ty: BasicType::Uint8, at: 3, expected: 1, new: u64::MAX },
        Request::SwapBytes { ty: BasicType::Complex64, at: u64::MAX, data: (&[3; 32]).into() },
        Request::Control { at: 8, amo: Amo::compare_swap(Width::W64, 7, u64::MAX) },
        Request::Control { at: 8, amo: Amo::new(AmoKind::Read, Width::W32, 0) },
        Request::Regions { from: 1000, most: 7 },
        Request::Carry { exclusive: true, release: false, parts: Vec::new() },
        Request::Carry {
            exclusive: false,
            release: true,
            parts: vec![
                Request::Scatter { strips: strips(), data: b"data".into() },
                Request::Swap { ty: BasicType::Uint8, at: 3, expected: 1, new: u64::MAX },
                Request::Gather { strips: strips() },
            ],
        },
    ];
    for request in requests {
        let message = Message::Request { token: 5, window: u64::MAX, order: 9, request: request.clone() };
        assert!(message.encode().len() <= request.most_bytes(), "{request:?}");
        assert_eq!(Message::decode(&message.encode()), Some(message));
        assert_eq!(request.clone().into_owned(), request);
        let part = Request::Carry { exclusive: false, release: true, parts: vec![request.clone()] };
        let message = Message::Request { token: 5, window: 1, order: 0, request: part };
        let bytes = message.encode();
        assert!(!request.may_be_carried() || bytes.len() <= OVERHEAD + request.most_bytes(), "{request:?}");
        let decoded = Message::decode(&bytes);
        assert_eq!(decoded, request.may_be_carried().then_some(message), "a part that is no operation");
    }
    let scatter = Request::Scatter { strips: strips(), data: b"data".into() };
    let several = Request::Several { parts: vec![scatter.clone(), scatter.clone()] };
    let message = Message::Request { token: 5, window: 6, order: 0, request: scatter };
    assert_eq!(message.encode().len(), OVERHEAD + 2 * STRIP + 4);
    let message = Message::Request { token: 5, window: 6, order: 0, request: several };
    assert_eq!(message.encode().len(), OVERHEAD + 2 * (PART + 2 * STRIP + 4));
}

#[test]
fn every_kind_of_atomic_round_trips() {
    for kind in AmoKind::ALL {
        let request = Request::Control { at: 8, amo: Amo::new(kind, Width::W64, 7) };
        let message = Message::Request { token: 5, window: 6, order: 0, request };
        assert_eq!(Message::decode(&message.encode()), Some(message), "{kind:?}");
    }
}

/// The receiver would take the surplus for data.
#[test]
#[should_panic(expected = "at most MAX_PACKED")]
fn a_request_of_too_many_strips_is_not_encoded() {
    encode_request(&[], &Request::Gather { strips: vec![Strip::one(0, 8); packed::MAX_PACKED + 1].into() });
}

/// Lists of every length, with small and with large differences, are within the stated bounds.
#[test]
fn long_lists_of_strips_round_trip() {
    for far in [0, 1 << 61] {
        for count in [1, 8, 9, 254, 255, 256, 3000usize] {
            let at = |index: usize| index as i64 * 40 - if index.is_multiple_of(2) { 0 } else { far };
            let strips: Vec<_> = (0..count).map(|index| Strip::one(at(index), 1 + index % 9)).collect();
            let request = Request::Scatter { strips: strips.into(), data: b"data".into() };
            let message = Message::Request { token: 5, window: 6, order: 0, request };
            let bytes = message.encode();
            let Message::Request { request, .. } = &message else { unreachable!() };
            assert!(bytes.len() <= request.most_bytes());
            assert!(far != 0 || count <= 8 || bytes.len() <= OVERHEAD + 2 + 4 * count + 4);
            assert_eq!(Message::decode(&bytes), Some(message));
        }
    }
}

#[test]
fn messages_without_requests_round_trip() {
    for message in [
        Message::Signal { key: u64::MAX, slot: 63, value: 0x7fff_ffff },
        Message::Notice { window: 1 << 63, member: u32::MAX, notice: PscwNotice::Completed },
        Message::Notice { window: 2, member: 0, notice: PscwNotice::Posted },
        Message::Reply { token: 1, bytes: &[1; 7] },
        Message::Refusal { token: 2, reason: Refusal::Outside { at: -8, length: 8, limit: 16 } },
        Message::Answers { tokens: &[[3; 8]; 3], rest: &[] },
        Message::Answers { tokens: &[[4; 8]], rest: &[REPLY; 20] },
    ] {
        assert_eq!(Message::decode(&message.encode()), Some(message));
    }
    let (tokens, rest) = ([5u64.to_ne_bytes(), u64::MAX.to_ne_bytes()], &[7; 20]);
    let answers = Message::Answers { tokens: &tokens, rest };
    assert_eq!(answers.encode(), encode_answers(&[5, u64::MAX], rest));
    assert_eq!(answers.encode().len(), ANSWERS_OVERHEAD + 16 + 20);
    assert_eq!(Message::Reply { token: 1, bytes: &[] }.encode().len(), REPLY_OVERHEAD);
}

#[test]
fn malformed_messages_are_not_decoded() {
    assert_eq!(Message::decode(&[]), None);
    assert_eq!(Message::decode(&[SCATTER, 0, 0]), None);
    assert_eq!(Message::decode(&[99; 40]), None);
    let cut = Message::Request {
        token: 1,
        window: 1,
        order: 0,
        request: Request::Gather { strips: vec![Strip::one(0, 8)].into() },
    };
    let bytes = cut.encode();
    assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), None, "a strip that is cut");
    let fetches = Request::Combine {
        op: Op::Sum,
        ty: BasicType::Int8,
        fetch: true,
        strips: vec![Strip::one(0, 8)].into(),
        data: (&[1; 8]).into(),
    };
    let bytes = encode_request(&[1; 3], &Request::Each(Box::new(fetches)));
    assert_eq!(Message::decode(&bytes), None, "previous values strip by strip");
    let answers = encode_answers(&[1, 2], &[]);
    assert_eq!(Message::decode(&answers[..answers.len() - 1]), None, "a token that is cut");
    assert_eq!(Message::decode(&words(ANSWERS, &[u64::MAX])), None, "more tokens than there are");
    assert_eq!(Message::decode(&encode_answers(&[1], &answers)), None, "answers behind answers");
}

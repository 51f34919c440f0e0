//! Messages that no correct rank sends. For any content of their fields they are refused or take
//! effect within the window, and nothing panics. Guards around the target's memory must stay
//! unchanged.

use std::sync::Arc;

use proptest::prelude::*;
use transom_fabric::{Handler, Memory, Peer};

use super::codec::Message;
use super::{Exposed, Messages, Space, locked};
use crate::memory::attached::{Attached, Opened};
use crate::sync::words;

const PART: usize = 64;
const GUARD: usize = 64;
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
    (0..14u8, word(), window, prop_oneof![Just(0), word()], how, words, data).prop_map(
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

/// A target with a window over the middle of some memory, and a dynamic window with the same bytes
/// attached.
fn target(memory: &Memory) -> Messages {
    let (messages, part) = (Messages::default(), memory.slice(GUARD, PART).expect("inside"));
    let attached = Arc::new(Attached::default());
    attached.attach(part.clone(), |_| Opened::default()).expect("the first");
    for (key, space) in [(PLAIN, Space::Part(part)), (DYNAMIC, Space::Attached(attached))] {
        let control = Memory::private(words::bytes(4));
        messages.expose(key, Arc::new(Exposed::new(space, control, key == DYNAMIC)));
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_arrives_stays_within_the_window(
        sent in prop::collection::vec(prop_oneof![9 => almost(), 1 => prop::collection::vec(any::<u8>(), 0..200)], 1..6)
    ) {
        let memory = Memory::private(GUARD + PART + GUARD);
        memory.write(0, &[0xEE; GUARD]);
        memory.write(GUARD + PART, &[0xEE; GUARD]);
        let target = target(&memory);
        for bytes in &sent {
            target.message(Peer(7), bytes);
        }
        // Each answer can be decoded, and none belongs to a request of this rank.
        for (_, answer) in locked(&target.deferred).drain(..) {
            prop_assert!(Message::decode(&answer).is_some());
        }
        let mut after = [0; GUARD + PART + GUARD];
        memory.read(0, &mut after);
        prop_assert_eq!(&after[..GUARD], &[0xEE; GUARD]);
        prop_assert_eq!(&after[GUARD + PART..], &[0xEE; GUARD]);
    }
}

//! Immediates that replace short messages: signals of fences, and notices of `post` and `complete`.
//! A put of no bytes carries the immediate. Over verbs this put wakes the progress thread of the
//! receiver only if the sender's credit runs low. The immediate names the window by its slot in the
//! receiver's directory.
//!
//! **No misreading.** A slot names one window at a time. Calls of synchronization that succeed
//! consume all notices of a window before the window is freed. If such a call has failed, a notice
//! may arrive later. The slot is then *retired*: it names no further window, the windows that are
//! published in it get messages, and late notices are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use transom_fabric::{Immediate, Peer};

use super::{Exposed, Messages, PscwNotice, locked};
use crate::sync::barrier;

/// The first number of such an immediate. Smaller numbers are counters (`counted`).
pub(super) const FIRST: u32 = 1 << 30;
const _: () = assert!(FIRST < Immediate::LIMIT);
/// The bits of a number, from the lowest on: a notice's content, the window's slot, and the kind.
const CONTENT: u32 = 17;
const SLOT: u32 = 11;
const KIND: u32 = 2;
const _: () = assert!(1 << (KIND + SLOT + CONTENT) == FIRST);
/// The number of slots that an immediate can name.
pub(crate) const SLOTS: usize = 1 << SLOT;
/// The bits of a barrier's number in the content of a signal, below those of the fence's slot.
const NUMBER: u32 = 11;

/// What an immediate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// The signal in a slot of the fences, and the low bits of the barrier's number.
    Signal { slot: u32, low: u32 },
    /// A notice of a member of the window.
    Notice { member: u32, notice: PscwNotice },
}

/// The windows of this rank that immediates name, by their slots in the directory.
#[derive(Debug, Default)]
pub(super) struct Named(Mutex<HashMap<u32, Slot>>);

#[derive(Debug)]
enum Slot {
    Window(Window),
    Retired,
}

#[derive(Clone, Debug)]
struct Window {
    /// The window's number in the job.
    key: u64,
    exposed: Arc<Exposed>,
    /// Whether notices may arrive after the window was freed.
    may_be_late: bool,
}

/// The immediate that signals a fence; `None` if it has no room for the value, which has bits of
/// the sender in addition to the barrier's number.
pub(crate) fn signal(place: u32, slot: u32, value: u32) -> Option<Immediate> {
    let number = barrier::number_of(value)?;
    of(place, Content::Signal { slot, low: number % (1 << NUMBER) })
}

/// The immediate of a notice of `member`; `None` if it has no room for the member's number.
pub(crate) fn notice(place: u32, member: u32, notice: PscwNotice) -> Option<Immediate> {
    of(place, Content::Notice { member, notice })
}

fn of(place: u32, content: Content) -> Option<Immediate> {
    let (kind, content) = match content {
        Content::Signal { slot, low } => (0, slot << NUMBER | low),
        Content::Notice { member, notice: PscwNotice::Posted } => (1, member),
        Content::Notice { notice: PscwNotice::Completed, .. } => (2, 0),
    };
    let has_room = content < 1 << CONTENT && place < 1 << SLOT;
    Immediate::new(FIRST | kind << (SLOT + CONTENT) | place << CONTENT | content).filter(|_| has_room)
}

/// The window's slot, and what the immediate says; `None` for a number that is none of these.
fn parsed(immediate: Immediate) -> Option<(u32, Content)> {
    let number = immediate.number().checked_sub(FIRST)?;
    let (kind, content) = (number >> (SLOT + CONTENT), number % (1 << CONTENT));
    let content = match kind {
        0 => Content::Signal { slot: content >> NUMBER, low: content % (1 << NUMBER) },
        1 => Content::Notice { member: content, notice: PscwNotice::Posted },
        2 => Content::Notice { member: 0, notice: PscwNotice::Completed },
        _ => return None,
    };
    Some((number >> CONTENT & ((1 << SLOT) - 1), content))
}

/// The signal's value whose number has these low bits and is next to that of `seen`, the last value
/// of the slot. A sender's numbers grow, and it skips numbers only if it can't be reached.
fn widened(low: u32, seen: u32) -> u32 {
    let last = barrier::number_of(seen & !barrier::BITS).unwrap_or(0);
    let ahead = low.wrapping_sub(last) % (1 << NUMBER);
    let behind = if ahead < 1 << (NUMBER - 1) { 0 } else { 1 << NUMBER };
    barrier::value_of(last.wrapping_add(ahead).wrapping_sub(behind))
}

impl Named {
    fn name(&self, place: u32, key: u64, exposed: Arc<Exposed>) -> bool {
        let mut slots = locked(&self.0);
        let is_free = (place as usize) < SLOTS && !matches!(slots.get(&place), Some(Slot::Retired));
        if is_free {
            slots.insert(place, Slot::Window(Window { key, exposed, may_be_late: false }));
        }
        is_free
    }

    /// Ends the name of window `key`, if it has one.
    pub(super) fn forget(&self, key: u64) {
        locked(&self.0).retain(|_, slot| {
            let Slot::Window(window) = slot else { return true };
            if window.key == key && window.may_be_late {
                *slot = Slot::Retired;
                return true;
            }
            window.key != key
        });
    }
}

impl Messages {
    /// Lets immediates name the window `key`, which is published in slot `place` of this rank's
    /// directory. Returns false if they can't, because the slot is retired.
    pub(crate) fn name(&self, place: usize, key: u64, window: Arc<Exposed>) -> bool {
        u32::try_from(place).is_ok_and(|place| self.named.name(place, key, window))
    }

    /// A call of synchronization that consumes notices of window `key` has failed: some of them may
    /// arrive after the window was freed.
    #[cold]
    pub(crate) fn expect_late_notices(&self, key: u64) {
        for slot in locked(&self.named.0).values_mut() {
            if let Slot::Window(window) = slot {
                window.may_be_late |= window.key == key;
            }
        }
    }

    /// Handles an immediate that stands for a message. Returns whether this rank has the window.
    pub(super) fn named_immediate(&self, from: Peer, immediate: Immediate) -> bool {
        let Some((place, content)) = parsed(immediate) else { return false };
        let Window { key, exposed, .. } = match locked(&self.named.0).get(&place) {
            Some(Slot::Window(window)) => window.clone(),
            Some(Slot::Retired) => return true,
            None => return false,
        };
        match content {
            Content::Signal { slot, low } => self.signal_changes(key, slot, |seen| widened(low, seen)),
            Content::Notice { member, notice } => self.noticed(from, (key, &exposed), member, notice),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::{Handler, Memory};

    use super::super::{Atomicity, Posted, Space};
    use super::*;
    use crate::sync::words;

    /// Each content has its number, and none is that of a counter.
    #[test]
    fn immediates_are_parsed_as_they_were_made() {
        let most = (1 << CONTENT) - 1;
        for place in [0, 1, 77, (1 << SLOT) - 1] {
            for (slot, number) in [(0, 1), (5, 2047), (39, 2048), (63, 262_143)] {
                let made = signal(place, slot, barrier::value_of(number)).expect("room");
                assert_eq!(parsed(made), Some((place, Content::Signal { slot, low: number % 2048 })));
                assert!(made.number() >= FIRST);
            }
            for member in [0, 1, most] {
                let made = notice(place, member, PscwNotice::Posted).expect("room");
                assert_eq!(parsed(made), Some((place, Content::Notice { member, notice: PscwNotice::Posted })));
            }
            let made = notice(place, most + 1, PscwNotice::Completed).expect("its member is not sent");
            assert_eq!(parsed(made), Some((place, Content::Notice { member: 0, notice: PscwNotice::Completed })));
        }
        assert_eq!(notice(0, most + 1, PscwNotice::Posted), None, "too many members");
        assert_eq!(signal(0, 0, barrier::value_of(1) | 1), None, "bits of the sender");
        assert_eq!(signal(1 << SLOT, 0, barrier::value_of(1)), None, "too many windows");
        for number in [0, FIRST - 1, u32::MAX >> 1] {
            assert_eq!(parsed(Immediate::new(number).expect("in range")), None, "{number:x}");
        }
    }

    /// A window of three words and its name at place 5.
    fn named(messages: &Messages, key: u64) -> (Arc<Exposed>, bool) {
        let words = Memory::private(words::bytes(4));
        let window = Exposed::new(Space::Part(Memory::private(24)), words.clone(), Atomicity::of_words(&words, false));
        let window = Arc::new(window);
        messages.expose(key, Arc::clone(&window));
        let is_named = messages.name(5, key, Arc::clone(&window));
        (window, is_named)
    }

    fn send(messages: &Messages, immediate: Option<Immediate>) {
        messages.immediate(Peer(1), immediate.expect("room"));
    }

    /// A window that is freed after an error leaves its place to no other window: a notice that
    /// comes late is not that of a new window.
    #[test]
    fn late_notices_concern_no_later_window() {
        let messages = Messages::default();
        for (key, may_come_late) in [(7, false), (8, true), (9, false)] {
            let (window, is_named) = named(&messages, key);
            assert_eq!(is_named, key < 9, "window {key}");
            send(&messages, notice(5, 2, PscwNotice::Posted));
            send(&messages, notice(5, 2, PscwNotice::Completed));
            send(&messages, signal(5, 3, barrier::value_of(2)));
            assert_eq!(window.sees_post(2), is_named.then_some(Posted::ByMessage), "window {key}");
            assert_eq!((window.take_completions(1), window.take_completions(1)), (is_named, false), "window {key}");
            let value = barrier::value_of(2);
            assert_eq!(messages.signalled(key, 3, value), is_named.then_some(value), "window {key}");
            if may_come_late {
                messages.expect_late_notices(key);
            }
            messages.forget(key);
        }
    }

    /// A notice has the effect of the message for which it stands, also after signals by messages.
    #[test]
    fn signals_by_messages_and_immediates_have_one_order() {
        let messages = Messages::default();
        let (_window, _) = named(&messages, 7);
        for number in 1..5000 {
            let value = barrier::value_of(number);
            assert_eq!(messages.signalled(7, 0, value), None, "number {number}");
            match number % 3 {
                0 => messages.message(Peer(1), &Messages::signal(7, 0, value | 1)),
                _ => send(&messages, signal(5, 0, value)),
            }
            assert_eq!(messages.signalled(7, 0, value), Some(value | u32::from(number % 3 == 0)));
        }
    }

    /// The post of an access epoch that is over is answered by a message.
    #[test]
    fn a_skipped_post_is_answered() {
        let messages = Messages::default();
        let (window, _) = named(&messages, 7);
        assert!(!window.skip_post(2, 3) && !messages.owes_answers());
        send(&messages, notice(5, 2, PscwNotice::Posted));
        assert!(messages.owes_answers() && window.sees_post(2).is_none());
    }

    #[test]
    fn a_signal_is_next_to_the_last_one() {
        for last in [0, 1, 2, 1000, 2046, 2047, 2048, 5000, 262_142, 262_143] {
            for ahead in [0, 1, 2, 1023] {
                let next = barrier::value_of(last + ahead);
                let low = barrier::number_of(next).expect("no bits") % (1 << NUMBER);
                assert_eq!(widened(low, barrier::value_of(last)), next, "{ahead} after {last}");
                assert_eq!(widened(low, barrier::value_of(last) | 5), next, "after a value with bits");
            }
            let before = barrier::value_of(last + 262_143);
            let low = barrier::number_of(before).expect("no bits") % (1 << NUMBER);
            assert_eq!(widened(low, barrier::value_of(last)), before, "before {last}");
        }
    }
}

//! Notices of generalized active targets (MPI §11.5.2) between ranks of a node: words of each rank that the others change. One counts
//! who has completed; a few slots hold who has posted and was not seen yet, and who finds none free sends a message instead. So
//! nothing grows with the ranks. Knows nothing of epochs, nor of who sleeps.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::window::words::{COMPLETED, POSTED, POSTED_SLOTS, Words};

/// In a slot: the member that posted, counted from 1, and above it how often; 0 in a free one. Only the member itself takes a slot.
const POST: u64 = 1 << 32;
const MEMBER: u64 = POST - 1;

/// Tells the rank whose words these are that `member` has posted; false where all slots are others'.
pub(crate) fn post(words: Words<'_>, member: u32) -> bool {
    let mine = u64::from(member) + 1;
    // Once more where it was consumed meanwhile, else as the first one.
    slots(words).any(|slot| change(slot, |seen| (seen & MEMBER == mine).then_some(seen + POST)))
        || slots(words).any(|slot| change(slot, |seen| (seen == 0).then_some(mine + POST)))
}

/// Consumes a post of `member` at this rank, if a slot has one.
pub(crate) fn take_post(words: Words<'_>, member: u32) -> bool {
    let theirs = u64::from(member) + 1;
    let rest = |seen: u64| if seen < 2 * POST { 0 } else { seen - POST };
    slots(words).any(|slot| change(slot, |seen| (seen & MEMBER == theirs).then(|| rest(seen))))
}

/// Tells the rank whose words these are that an origin has completed.
pub(crate) fn complete(words: Words<'_>) {
    // Release: pairs with the Acquire in `take_completions`, so that what the origin stored is there.
    words.word64(COMPLETED).fetch_add(1, Ordering::Release);
}

/// Consumes `wanted` completions at this rank, if there are so many.
#[inline]
pub(crate) fn take_completions(words: Words<'_>, wanted: u32) -> bool {
    let word = words.word64(COMPLETED);
    // Acquire: pairs with the Release in `complete`. One thread at a time waits for a window's completions.
    let here = word.load(Ordering::Acquire) >= u64::from(wanted);
    if here {
        // Relaxed: only counts down what was seen.
        word.fetch_sub(u64::from(wanted), Ordering::Relaxed);
    }
    here
}

fn slots(words: Words<'_>) -> impl Iterator<Item = &AtomicU64> {
    (0..POSTED_SLOTS).map(move |slot| words.word64(POSTED + 8 * slot))
}

/// Changes a slot as soon as nobody interferes; false where there is nothing to change it to.
#[inline]
fn change(slot: &AtomicU64, to: impl Fn(u64) -> Option<u64>) -> bool {
    // Release: what the member stored before its post is there for who consumes it, by Acquire. The slots of others do not matter.
    slot.fetch_update(Ordering::AcqRel, Ordering::Relaxed, to).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_fabric::Memory;

    /// Shows S1.
    #[test]
    fn posts_are_consumed_by_their_member_and_completions_together() {
        let memory = Memory::private(crate::window::words::bytes(1));
        let words = Words::at(&memory, 0);
        assert!(!take_post(words, 0));
        let members = 0..u32::try_from(POSTED_SLOTS).expect("few");
        for member in members.clone().chain(members.clone()) {
            assert!(post(words, member), "member {member}");
        }
        assert!(!post(words, members.end), "all slots are others'");
        assert!(take_post(words, 2) && !take_post(words, members.end));
        assert!(!post(words, members.end), "one of two is left");
        assert!(take_post(words, 2) && !take_post(words, 2) && post(words, members.end));
        assert!(take_post(words, members.end) && !take_post(words, members.end));
        complete(words);
        assert!(!take_completions(words, 2));
        complete(words);
        assert!(take_completions(words, 2) && take_completions(words, 0) && !take_completions(words, 1));
    }

    /// Members post and are consumed at once, more of them than slots: each post is consumed once.
    #[test]
    fn no_post_is_lost_or_doubled() {
        let memory = Memory::private(crate::window::words::bytes(1));
        let words = Words::at(&memory, 0);
        let members = u32::try_from(POSTED_SLOTS).expect("few") + 2;
        std::thread::scope(|scope| {
            for member in 0..members {
                scope.spawn(move || {
                    for _ in 0..500 {
                        while !post(words, member) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut left = vec![500; members as usize];
            while left.iter().any(|&left| left > 0) {
                for (member, left) in (0..).zip(&mut left) {
                    *left -= i32::from(take_post(words, member));
                    assert!(*left >= 0, "member {member} has posted 500 times");
                }
            }
        });
        assert!(slots(words).all(|slot| slot.load(Ordering::Relaxed) == 0), "all slots are free again");
    }
}

//! Notices of post and complete (MPI-4.1 §12.5.2) between ranks of a node, in words of the
//! receiving rank. One word counts completions, and only grows. A few slots hold the ranks whose
//! post has not been consumed yet. A rank that finds no free slot sends a message instead, so that
//! the memory does not grow with the number of ranks. A receiver that has to react to each post
//! closes its slots, so that all later posts come as messages. Knows neither epochs nor sleepers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::words::{COMPLETED, POSTED, POSTED_SLOTS, Words};

/// Unit of the count in a slot. The low bits are the member that posted, counted from 1; the count
/// of its posts is above. A free slot is 0. Only the member itself takes a slot.
const POST: u64 = 1 << 32;
const MEMBER: u64 = POST - 1;
/// The bit of a slot that takes no more posts.
const CLOSED: u64 = 1 << 63;

/// Notifies the owner of these words that `member` has posted; false if other members occupy all
/// slots, or the slots are closed.
pub(crate) fn post(words: Words<'_>, member: u32) -> bool {
    let mine = u64::from(member) + 1;
    let added = |seen: u64| (seen & (CLOSED | MEMBER) == mine).then_some(seen + POST);
    let taken = |seen: u64| (seen == 0).then_some(mine + POST);
    let own = own_slot(words, member);
    // The member's own slot is usually free. It is changed without a load before, which would fetch
    // the cache line twice. SeqCst: as in `change`.
    if own.compare_exchange(0, mine + POST, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        return true;
    }
    // Adds to a slot of the member, or takes a free slot. The member's own slot is tried first. The
    // member may then have several slots; their counts add up.
    change(own, |seen| added(seen).or_else(|| taken(seen)))
        || slots(words).any(|slot| change(slot, added))
        || slots(words).any(|slot| change(slot, taken))
}

/// Whether a slot has a post of `member` at this rank, which [`take_post`] then consumes.
#[inline]
pub(crate) fn has_post(words: Words<'_>, member: u32) -> bool {
    let theirs = u64::from(member) + 1;
    // Acquire: pairs with the Release in `change`, so that the member's stores before its post are
    // visible.
    let is_theirs = |slot: &AtomicU64| slot.load(Ordering::Acquire) & MEMBER == theirs;
    is_theirs(own_slot(words, member)) || slots(words).any(is_theirs)
}

/// Consumes a post of `member` at this rank, if a slot has one.
pub(crate) fn take_post(words: Words<'_>, member: u32) -> bool {
    let theirs = u64::from(member) + 1;
    // A slot without posts is free or closed.
    let rest = |seen: u64| match seen - POST {
        ..POST => 0,
        left if left & !MEMBER == CLOSED => CLOSED,
        left => left,
    };
    let less = |seen: u64| (seen & MEMBER == theirs).then(|| rest(seen));
    change(own_slot(words, member), less) || slots(words).any(|slot| change(slot, less))
}

/// Closes the slots of this rank for ever: later posts come as messages. A member that posts
/// meanwhile has changed its slot before, so that [`take_post`] finds the post afterwards.
#[cold]
pub(crate) fn close_slots(words: Words<'_>) {
    for slot in slots(words) {
        // SeqCst: as in `change`.
        slot.fetch_or(CLOSED, Ordering::SeqCst);
    }
}

/// Notifies the owner of these words that an origin has completed.
pub(crate) fn complete(words: Words<'_>) {
    // SeqCst: required by `ShmPort::wake_peer`. It includes Release, which pairs with the Acquire
    // in `completions`, so that the origin's stores are visible.
    words.word64(COMPLETED).fetch_add(1, Ordering::SeqCst);
}

/// The number of completions at this rank since the window was created. Only origins change the
/// word: a change by this rank would take its cache line from the next origin.
#[inline]
pub(crate) fn completions(words: Words<'_>) -> u64 {
    // Acquire: pairs with the Release in `complete`.
    words.word64(COMPLETED).load(Ordering::Acquire)
}

fn slots(words: Words<'_>) -> impl Iterator<Item = &AtomicU64> {
    (0..POSTED_SLOTS).map(move |slot| words.word64(POSTED + 8 * slot))
}

/// The slot that a member tries first.
fn own_slot(words: Words<'_>, member: u32) -> &AtomicU64 {
    words.word64(POSTED + 8 * (member as usize % POSTED_SLOTS))
}

/// Changes a slot to the value of `to`, also after changes by other threads. Returns false if `to`
/// gives no new value.
#[inline]
fn change(slot: &AtomicU64, to: impl Fn(u64) -> Option<u64>) -> bool {
    // SeqCst: required by `ShmPort::wake_peer`. It includes Release and Acquire: the member's
    // stores before its post are visible to the consumer of the post. The slots of others do not
    // matter.
    slot.fetch_update(Ordering::SeqCst, Ordering::Relaxed, to).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_fabric::Memory;

    /// Shows S1.
    #[test]
    fn posts_are_consumed_by_their_member_and_completions_are_counted() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        assert!(!take_post(words, 0));
        let members = 0..u32::try_from(POSTED_SLOTS).expect("few");
        for member in members.clone().chain(members.clone()) {
            assert!(post(words, member) && has_post(words, member), "member {member}");
        }
        assert!(!post(words, members.end), "all slots are others'");
        assert!(take_post(words, 2) && !take_post(words, members.end));
        assert!(!post(words, members.end), "one of two is left");
        assert!(take_post(words, 2) && !take_post(words, 2) && post(words, members.end));
        assert!(has_post(words, members.end) && take_post(words, members.end));
        assert!(!has_post(words, members.end) && !take_post(words, members.end));
        complete(words);
        complete(words);
        assert_eq!(completions(words), 2);
    }

    /// Closed slots take no post. Earlier posts are consumed one by one.
    #[test]
    fn closed_slots_keep_their_posts() {
        let memory = Memory::private(crate::sync::words::bytes(1));
        let words = Words::at(&memory, 0);
        assert!(post(words, 2) && post(words, 2) && post(words, 3));
        close_slots(words);
        assert!((0..5).all(|member| !post(words, member)));
        assert!(take_post(words, 2) && has_post(words, 2) && take_post(words, 2) && !has_post(words, 2));
        assert!(take_post(words, 3) && (0..5).all(|member| !take_post(words, member) && !post(words, member)));
        assert!(slots(words).all(|slot| slot.load(Ordering::Relaxed) == CLOSED));
    }

    /// Members post and are consumed at the same time, more of them than slots: each post is
    /// consumed once.
    #[test]
    fn each_post_is_consumed_once() {
        let memory = Memory::private(crate::sync::words::bytes(1));
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

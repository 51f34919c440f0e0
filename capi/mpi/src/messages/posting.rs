//! Receives in the order in which the program posts them. Threads may post receives at the same
//! time, and then the order of these receives is unknown. A receive is *posted* between the
//! beginning of its call and a later moment: the end of a nonblocking call, or the end of a
//! blocking receive. If the interval of one receive ends before that of another begins, the first
//! one was posted first; otherwise the order is unknown.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use super::learns::{Learns, Receive, Stream};
use super::{Entry, in_flight};

/// The moments between which a receive was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    begun: u64,
    /// The largest number while the call is not over.
    over: u64,
}

thread_local! {
    /// The beginning of the receive that this thread posts; 0 if it posts none.
    static POSTS_SINCE: Cell<u64> = const { Cell::new(0) };
    /// The beginnings of the persistent receives that this thread starts.
    static STARTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Posting {
    /// The present moment.
    pub(super) fn now() -> Posting {
        let now = moment();
        Posting { begun: now, over: now }
    }

    /// A persistent receive that this thread starts now.
    pub(super) fn starts() -> Posting {
        let begun = moment();
        // A thread that ends starts none.
        let _ = STARTS.try_with(|all| all.borrow_mut().push(begun));
        Posting { begun, over: u64::MAX }
    }

    /// Whether this receive was posted before `other`.
    pub(super) fn precedes(self, other: Posting) -> bool {
        self.over < other.begun
    }
}

/// A number that grows.
fn moment() -> u64 {
    static MOMENTS: AtomicU64 = AtomicU64::new(1);
    // Relaxed: threads that the program orders see the moments in this order.
    MOMENTS.fetch_add(1, Ordering::Relaxed)
}

/// This thread begins to post a receive.
pub(super) fn begins(receive: Receive) {
    ends();
    let begun = moment();
    POSTS_SINCE.set(begun);
    let entry = Entry { posting: Posting { begun, over: u64::MAX }, ..Entry::new(Learns::Receive(receive)) };
    in_flight().push(entry);
}

/// The receive that this thread posts, or was posted now.
pub(super) fn of_this_thread() -> Posting {
    match POSTS_SINCE.get() {
        0 => Posting::now(),
        begun => Posting { begun, over: u64::MAX },
    }
}

/// Takes the entry of the receive that this thread posts from `all`. Returns its place and its
/// posting, which is over.
pub(super) fn take(all: &mut Vec<Entry>) -> Option<(usize, Posting)> {
    let begun = Some(POSTS_SINCE.take()).filter(|&begun| begun > 0)?;
    let place = all.iter().position(|entry| entry.posting.begun == begun && entry.posting.over == u64::MAX)?;
    all.remove(place);
    Some((place, Posting { begun, over: moment() }))
}

/// This thread's call that posts receives is over. An entry without a request is left if the call
/// has failed or has received nothing.
pub(super) fn ends() {
    if POSTS_SINCE.get() > 0 {
        take(&mut in_flight());
    }
    let started = STARTS.try_with(RefCell::take).unwrap_or_default();
    if started.is_empty() {
        return;
    }
    let (mut all, over) = (in_flight(), moment());
    for posting in all.iter_mut().map(|entry| &mut entry.posting).filter(|posting| started.contains(&posting.begun)) {
        posting.over = over;
    }
}

/// The least and the largest number of messages of a stream that other receives will take before
/// the receive that was posted at `by`.
pub(super) fn ahead<'e>(
    others: impl Iterator<Item = &'e Entry>,
    by: Posting,
    (rank, tag, group): Stream,
) -> (usize, usize) {
    let (mut least, mut most) = (0, 0);
    for entry in others.filter(|entry| entry.is_active && entry.posting != by && !by.precedes(entry.posting)) {
        let Learns::Receive(receive) = &entry.learns else { continue };
        if receive.may_match(rank, tag, group) {
            most += 1;
            // A receive of any source or tag may take a message of another stream. A receive that
            // the program cancels may take none.
            let takes = receive.is_named() && !entry.is_cancelled;
            least += usize::from(takes && entry.posting.precedes(by));
        }
    }
    (least, most)
}

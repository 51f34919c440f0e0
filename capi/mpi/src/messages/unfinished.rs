//! Requests that the program frees or cancels, and sends and receives that fail. The clocks of
//! messages must stay in step with the messages: a receive that took the clock of an earlier
//! message would not know all that the sender of its own message did.

use transom::Job;

use super::learns::{Learns, Stream};
use super::posting::{Posting, ahead};
use super::{Entry, Name, entries_of, forget, in_flight, job, name_of};
use crate::host::{RequestHandle, constants};

/// Maximum number of receives in flight whose requests were freed.
const MOST_FREED: usize = 1024;

/// The program frees a request. The end of its operation will be unknown, so its buffers count as
/// returned now. A receive still takes a message of its stream, so its entry stays, without a name.
///
/// # Safety
/// The request is readable, or its address is null.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_is_freed(request: *const RequestHandle) {
    if request.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    let name = unsafe { name_of(request) };
    let mut all = in_flight();
    for place in entries_of(&all, name).into_iter().rev() {
        let entry = &mut all[place];
        if !entry.is_active || !matches!(entry.learns, Learns::Receive(_)) {
            forget(&mut all, place);
            continue;
        }
        entry.name = Name { handle: constants().null_request, at: 0 };
        entry.is_freed = true;
        if let (Some(borrowed), Some(job)) = (entry.borrowed.take(), job()) {
            borrowed.returns(&job);
        }
    }
    limit_freed(&mut all);
}

/// Removes the oldest receive whose request was freed if there are too many. Its message, if it
/// comes, puts the clocks out of step with the messages.
fn limit_freed(all: &mut Vec<Entry>) {
    let mut freed = (0..all.len()).filter(|&place| all[place].is_freed);
    if let (Some(oldest), true) = (freed.next(), freed.count() >= MOST_FREED) {
        all.remove(oldest);
        lose_clocks();
    }
}

/// From now on the clocks of messages are uncertain.
pub(super) fn lose_clocks() {
    if let Some(job) = job() {
        job.checker_loses_clocks();
    }
}

/// The program is about to cancel a request. If the host cancels a send, the clock of its message
/// remains, so from now on the clocks of messages are uncertain.
///
/// # Safety
/// The request is readable, or its address is null.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_request_is_cancelled(request: *const RequestHandle) {
    if request.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    let name = unsafe { name_of(request) };
    let mut all = in_flight();
    let places = entries_of(&all, name);
    let is_receive = |place: &usize| matches!(all[*place].learns, Learns::Receive(_));
    if !places.iter().all(is_receive) {
        lose_clocks();
    }
    places.into_iter().for_each(|place| all[place].is_cancelled = true);
}

/// A call for a message has failed. A receive may have taken a message, for example one that was
/// too long. The clock of a message that was not sent remains.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_message_fails() {
    lose_clocks();
}

/// Learns the clock of a message, which was received or, unless `takes` is set, only probed. The
/// receive was posted at `by`.
pub(super) fn receives(job: &Job, all: &mut [Entry], by: Posting, stream: Stream, takes: bool) {
    let (rank, tag, group) = stream;
    let learn = |ahead| {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_receives(rank, (tag, group), ahead, takes));
    };
    let known = ahead(all.iter(), by, stream);
    learn(known);
    if known.0 != known.1 || !takes {
        return;
    }
    // Receives take messages in the order in which they were posted, so earlier receives whose
    // requests were freed have taken theirs.
    let has_taken = |entry: &Entry| {
        let is_freed = entry.is_freed && entry.is_active && !entry.is_cancelled && entry.posting.precedes(by);
        is_freed && matches!(&entry.learns, Learns::Receive(receive) if receive.may_match(rank, tag, group))
    };
    for place in (0..all.len()).rev() {
        if has_taken(&all[place]) {
            learn(ahead(all.iter(), all[place].posting, stream));
            all[place].is_active = false;
        }
    }
}

/// Removes the receives whose requests were freed and that have taken their messages.
pub(super) fn sweep(all: &mut Vec<Entry>) {
    all.retain(|entry| entry.is_active || !entry.is_freed);
}

//! Messages whose calls have not returned. The checker must know them: the host may send the
//! messages of several threads in another order than that of their clocks.

use std::cell::RefCell;
use std::ffi::c_int;

use transom::{Job, Sending};

use super::learns::Stream;
use super::{job, rank_of};

thread_local! {
    /// The messages of the call that this thread makes.
    static SENDING: RefCell<Vec<Sending>> = const { RefCell::new(Vec::new()) };
}

/// This thread's next call sends a message: counts a release and publishes the clock for the
/// receiver.
pub(super) fn begins(job: &Job, (rank, tag, group): Stream) {
    let Some(sending) = job.checker_sends(rank, tag, group) else { return };
    if SENDING.try_with(|all| all.borrow_mut().push(sending)).is_err() {
        // A thread that ends has no list.
        job.checker_has_sent(sending);
    }
}

/// [`begins`] for the calls of C.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_send_begins(rank: c_int, tag: c_int, group: u64) {
    if let Some(job) = job() {
        begins(&job, (rank_of(rank), tag, group));
    }
}

/// This thread's call that sends messages has returned.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_sends_end() {
    let sent = SENDING.try_with(RefCell::take).unwrap_or_default();
    if let Some(job) = job() {
        sent.into_iter().for_each(|sending| job.checker_has_sent(sending));
    }
}

//! The host's functions that order the ranks, as the conflict checker (`TRANSOM_CHECK`) sees them:
//! `host/edges.c` wraps most, `requests` those that also wait for transom.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::host::{Comm, SUCCESS};
use crate::process::{self, Process};

/// The words of a clock, one for each rank of the job; 0 while the checker is off.
static WORDS: AtomicUsize = AtomicUsize::new(0);

/// Starts passing clocks of that many words on; 0 ends it.
pub(crate) fn begin(words: usize) {
    // Relaxed: set at the start and at the end, when no other thread calls.
    WORDS.store(words, Ordering::Relaxed);
    // SAFETY: the host has started, and has not ended.
    unsafe { host_edges_begin(c_int::try_from(words).unwrap_or_default()) };
}

/// Makes a call in which every rank of a communicator waits for all.
pub(crate) fn around_all(comm: Comm, call: impl FnOnce() -> c_int) -> c_int {
    let Some(mut clock) = release() else { return call() };
    let code = call();
    if code == SUCCESS {
        // SAFETY: the clock has the words that `begin` was told.
        unsafe { host_edges_all(comm, clock.as_mut_ptr()) };
    }
    code
}

/// Makes a call that waits for another rank: a message of any.
pub(crate) fn around_any(call: impl FnOnce() -> c_int) -> c_int {
    let watched = release().is_some();
    let code = call();
    learn_all(watched && code == SUCCESS);
    code
}

/// After a call that may have completed requests: whether it has.
#[inline]
pub(crate) fn completed(any: bool) {
    // Relaxed: see `begin`.
    learn_all(any && WORDS.load(Ordering::Relaxed) != 0);
}

/// Counts a release, if the checker is on; returns this rank's clock.
#[inline]
fn release() -> Option<Vec<u64>> {
    // Relaxed: see `begin`.
    if WORDS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    process::get().and_then(Process::job)?.checker_releases()
}

/// Learns all that any rank has released.
#[inline]
fn learn_all(wanted: bool) {
    if wanted {
        transom_edge_learn_all();
    }
}

/// Counts a release and stores this rank's clock.
///
/// # Safety
/// There is room for the words that `begin` was told.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_release(clock: *mut u64) {
    let words = WORDS.load(Ordering::Relaxed);
    // Zeros tell nothing.
    let mut known = release().unwrap_or_default();
    known.resize(words, 0);
    // SAFETY: the caller has room.
    unsafe { std::ptr::copy_nonoverlapping(known.as_ptr(), clock, words) };
}

/// Learns a clock.
///
/// # Safety
/// The clock has the words that `begin` was told.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_edge_learn(clock: *const u64) {
    if let Some(job) = process::get().and_then(Process::job) {
        // SAFETY: as the caller says.
        job.checker_learns(unsafe { std::slice::from_raw_parts(clock, WORDS.load(Ordering::Relaxed)) });
    }
}

/// Learns all that any rank has released.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn transom_edge_learn_all() {
    if let Some(job) = process::get().and_then(Process::job) {
        // Fails only without the other ranks' memory, which a job with the checker has.
        drop(job.checker_learns_all());
    }
}

// SAFETY: the declarations are those of host/edges.c.
unsafe extern "C" {
    fn host_edges_begin(count: c_int);
    fn host_edges_all(comm: Comm, clock: *mut u64);
}

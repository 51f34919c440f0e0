//! The program's own loads, stores and atomics on window memory, for the conflict checker. A
//! program that was compiled with `-fsanitize=thread` calls a function of ThreadSanitizer for each
//! access. This library precedes ThreadSanitizer in the order of symbols, and defines functions of
//! the same names (`accesses/names`). These functions jump to ThreadSanitizer's unless the address
//! is in watched memory; then they also report the access to the checker.
//!
//! In a shared window the loads and stores to all parts are watched, because each process has a
//! separate ThreadSanitizer. In other windows only two kinds of accesses are watched: atomics, by
//! which a program may poll its part; and loads and stores by other ranks, through the address that
//! `MPI_Win_shared_query` returns.

#[allow(unsafe_code)]
mod names;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use transom::{Flavor, Job, PartUse, SharedPart};

use crate::edges;
use crate::process::{self, Process};
use crate::windows::Window;

/// Memory of a window in this process.
#[derive(Clone, Copy)]
struct Watched {
    start: usize,
    end: usize,
    window: &'static Window,
    member: usize,
    /// The address that has the offset 0.
    base: usize,
    /// Whether loads and stores are watched. Atomics always are.
    is_plain: bool,
}

/// The smallest range of addresses that contains all watched memory of a kind. An access outside of
/// the hull needs no search.
struct Hull {
    start: &'static AtomicUsize,
    len: &'static AtomicUsize,
}

/// The hulls of memory whose loads and stores are watched, and of memory whose atomics are watched.
/// Every address is in them until [`watch_nothing`] is called, because the addresses of
/// ThreadSanitizer's functions may still be unknown.
static PLAIN_START: AtomicUsize = AtomicUsize::new(0);
static PLAIN_LEN: AtomicUsize = AtomicUsize::new(usize::MAX);
static ATOMIC_START: AtomicUsize = AtomicUsize::new(0);
static ATOMIC_LEN: AtomicUsize = AtomicUsize::new(usize::MAX);
const PLAIN: Hull = Hull { start: &PLAIN_START, len: &PLAIN_LEN };
const ATOMIC: Hull = Hull { start: &ATOMIC_START, len: &ATOMIC_LEN };

/// Whether the checker uses the accesses that are reported here.
static SEEN: AtomicBool = AtomicBool::new(false);

/// All watched memory. Parts may overlap: several windows may have the same memory.
static WATCHED: RwLock<Vec<Watched>> = RwLock::new(Vec::new());

impl Hull {
    /// Sets the hull of all `ranges`. Relaxed: a thread that accesses the memory of a
    /// new window got its address after the change.
    fn set(&self, ranges: impl Iterator<Item = (usize, usize)>) {
        let hull = ranges.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or_default();
        // Meanwhile every address is in the hull.
        self.len.store(usize::MAX, Ordering::Relaxed);
        self.start.store(hull.0, Ordering::Relaxed);
        self.len.store(hull.1 - hull.0, Ordering::Relaxed);
    }
}

/// Sets both hulls.
fn set_hulls(all: &[Watched]) {
    PLAIN.set(all.iter().filter(|one| one.is_plain).map(|one| (one.start, one.end)));
    ATOMIC.set(all.iter().map(|one| (one.start, one.end)));
}

/// Watches no memory. Called when ThreadSanitizer's functions are known, and at the end of the job.
pub(crate) fn watch_nothing() {
    retain(|_| false);
}

/// Connects the checker, which has been turned on, with the accesses that are reported here.
pub(crate) fn connect_to_checker() {
    let job = process::get().and_then(Process::job);
    if let Some(job) = job.filter(|job| names::are_called() && job.checker_watches()) {
        job.checker_sees_atomics();
        Job::checker_shows_buffers_to(record_buffers);
        // Relaxed: set at the start, before there are windows.
        SEEN.store(true, Ordering::Relaxed);
    }
}

/// Whether accesses of the program are seen.
fn are_watched() -> bool {
    edges::is_on() && SEEN.load(Ordering::Relaxed)
}

fn add(new: impl IntoIterator<Item = Watched>) {
    let mut all = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
    all.extend(new.into_iter().filter(|one| one.start < one.end));
    set_hulls(&all);
}

fn retain(keeps: impl Fn(&Watched) -> bool) {
    let mut all = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(keeps);
    set_hulls(&all);
}

impl Watched {
    fn of(window: &'static Window, part: &SharedPart, is_plain: bool) -> Watched {
        let start = part.base().addr();
        Watched { start, end: start + part.size(), window, member: part.rank(), base: start, is_plain }
    }
}

/// Watches the memory of a new window.
pub(crate) fn watch(window: &'static Window) {
    if !are_watched() {
        return;
    }
    if window.raw.flavor() == Flavor::Shared {
        let members = 0..window.raw.group().len();
        add(members.filter_map(|member| Some(Watched::of(window, &window.raw.shared_query(member).ok()?, true))));
        return;
    }
    let start = window.raw.base().addr();
    let (end, member) = (start + window.raw.size(), window.raw.own_rank());
    add([Watched { start, end, window, member, base: start, is_plain: false }]);
}

/// Watches memory that this rank attaches to a dynamic window, whose offsets are addresses.
pub(crate) fn watch_attached(window: &'static Window, start: usize, size: usize) {
    if are_watched() {
        add([Watched { start, end: start + size, window, member: window.raw.own_rank(), base: 0, is_plain: false }]);
    }
}

/// Watches a part whose address the program has asked for.
pub(crate) fn watch_queried(window: &'static Window, part: &SharedPart) {
    let is_known = |one: &Watched| {
        std::ptr::eq(one.window, window) && (one.member == part.rank() && one.start == part.base().addr())
    };
    let is_own = part.rank() == window.raw.own_rank();
    if are_watched() && !is_own && !WATCHED.read().unwrap_or_else(PoisonError::into_inner).iter().any(is_known) {
        add([Watched::of(window, part, true)]);
    }
}

/// Ends [`watch_attached`].
pub(crate) fn forget_attached(window: &'static Window, start: usize) {
    if are_watched() {
        retain(|one| !std::ptr::eq(one.window, window) || one.start != start);
    }
}

/// A window is being freed.
pub(crate) fn forget(window: &'static Window) {
    if are_watched() {
        retain(|one| !std::ptr::eq(one.window, window));
    }
}

/// Calls `each` for each watched part that has some of the bytes, with the offset and the number of
/// these bytes.
fn find(start: usize, len: usize, mut each: impl FnMut(&Watched, usize, usize)) {
    let end = start.saturating_add(len);
    let all = WATCHED.read().unwrap_or_else(PoisonError::into_inner);
    for one in all.iter().filter(|one| one.start < end && start < one.end) {
        let (first, last) = (start.max(one.start), end.min(one.end));
        each(one, first - one.base, last - first);
    }
}

/// Records that the program loads or stores bytes. `place`: the return address of ThreadSanitizer's
/// function; `None` if a call of the program makes the access.
fn record_access(start: usize, len: usize, written: bool, place: Option<usize>) {
    find(start, len, |one, at, len| {
        if one.is_plain {
            one.window.raw.checker_touches(one.member, (at, len), written, place);
        }
    });
}

/// Records the buffers that a call of the host reads, or those that it writes. `buffers` has the
/// address and length of each buffer, and whether the call writes it.
pub(crate) fn record_buffers_of_call(buffers: &[(usize, usize, bool)], written: bool) {
    // Relaxed: see `Hull::set`.
    if PLAIN.len.load(Ordering::Relaxed) != 0 && edges::is_on() {
        let those = buffers.iter().filter(|buffer| buffer.2 == written);
        those.for_each(|&(start, len, _)| record_access(start, len, written, None));
    }
}

/// Records the origin buffers of an operation on a window, until the operation is complete at the
/// origin.
fn record_buffers(buffers: &[(usize, usize, bool)]) -> Vec<PartUse> {
    let mut parts = Vec::new();
    // Relaxed: see `Hull::set`.
    if PLAIN.len.load(Ordering::Relaxed) != 0 {
        for &(start, len, written) in buffers {
            find(start, len, |one, at, len| {
                let lent = one.is_plain.then(|| one.window.raw.checker_lends(one.member, (at, len), written));
                parts.extend(lent.flatten());
            });
        }
    }
    parts
}

/// The program is about to change a word by an atomic. `reads`: the atomic also reads the word.
/// `compares`: it changes the word only if it reads a certain value.
fn atomic_begins(start: usize, len: usize, reads: bool, compares: bool) {
    find(start, len, |one, at, len| one.window.raw.checker_atomic_begins(one.member, (at, len), reads, compares));
}

/// An atomic on a word is over. `written`: it may have changed the word. `reads`: it has read it.
fn atomic_ends(start: usize, len: usize, written: bool, reads: bool) {
    find(start, len, |one, at, len| one.window.raw.checker_atomic_ends(one.member, (at, len), written, reads));
}

//! The program's own loads, stores and atomics on window memory, for the conflict checker. A
//! program that was compiled with `-fsanitize=thread` calls a function of ThreadSanitizer for each
//! access. This library comes before ThreadSanitizer, and has functions of the same names
//! (`accesses/names`): they jump to ThreadSanitizer's unless the address is in watched memory.
//!
//! In a shared window the loads and stores to all parts are watched, because each process has a
//! separate ThreadSanitizer. In other windows only two kinds of accesses are watched: atomics, by
//! which a program may poll its part; and loads and stores by other ranks, through the address that
//! `MPI_Win_shared_query` returns.

#[allow(unsafe_code)]
mod names;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use transom::{Flavor, Job, SharedPart};

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

/// A range of addresses that has all watched memory of a kind.
struct Hull {
    start: &'static AtomicUsize,
    len: &'static AtomicUsize,
}

/// The hulls of memory whose loads and stores are watched, and of memory whose atomics are. Until
/// [`begin`] every address is in them, because the functions of ThreadSanitizer may not be known.
static PLAIN_START: AtomicUsize = AtomicUsize::new(0);
static PLAIN_LEN: AtomicUsize = AtomicUsize::new(usize::MAX);
static ATOMIC_START: AtomicUsize = AtomicUsize::new(0);
static ATOMIC_LEN: AtomicUsize = AtomicUsize::new(usize::MAX);
const PLAIN: Hull = Hull { start: &PLAIN_START, len: &PLAIN_LEN };
const ATOMIC: Hull = Hull { start: &ATOMIC_START, len: &ATOMIC_LEN };

/// All watched memory. Parts may overlap: several windows may have the same memory.
static WATCHED: RwLock<Vec<Watched>> = RwLock::new(Vec::new());

impl Hull {
    /// Sets the range to one around all `ranges`. Relaxed: a thread that accesses the memory of a
    /// new window got its address after the change.
    fn set(&self, ranges: impl Iterator<Item = (usize, usize)>) {
        let hull = ranges.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or_default();
        // Meanwhile every address is in the hull.
        self.len.store(usize::MAX, Ordering::Relaxed);
        self.start.store(hull.0, Ordering::Relaxed);
        self.len.store(hull.1 - hull.0, Ordering::Relaxed);
    }
}

/// Sets the hulls.
fn show(all: &[Watched]) {
    PLAIN.set(all.iter().filter(|one| one.is_plain).map(|one| (one.start, one.end)));
    ATOMIC.set(all.iter().map(|one| (one.start, one.end)));
}

/// Watches no memory: the functions of ThreadSanitizer are known, or the job has ended.
pub(crate) fn begin() {
    retain(|_| false);
}

/// Connects the checker, which is on now, with the accesses that ThreadSanitizer reports.
pub(crate) fn check() {
    if let Some(job) = process::get().and_then(Process::job).filter(|_| names::are_called()) {
        job.checker_sees_atomics();
        Job::checker_shows_buffers_to(lent);
    }
}

/// Whether accesses of the program are seen.
fn are_watched() -> bool {
    edges::is_on() && names::are_called()
}

fn add(new: impl IntoIterator<Item = Watched>) {
    let mut all = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
    all.extend(new.into_iter().filter(|one| one.start < one.end));
    show(&all);
}

fn retain(keeps: impl Fn(&Watched) -> bool) {
    let mut all = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(keeps);
    show(&all);
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

/// Calls `each` for the parts that have some of the bytes, with the offset and the length of these.
fn find(start: usize, len: usize, mut each: impl FnMut(&Watched, usize, usize)) {
    let end = start.saturating_add(len);
    let all = WATCHED.read().unwrap_or_else(PoisonError::into_inner);
    for one in all.iter().filter(|one| one.start < end && start < one.end) {
        let (first, last) = (start.max(one.start), end.min(one.end));
        each(one, first - one.base, last - first);
    }
}

/// The program loads or stores bytes. `place`: the address to which the access returns; `None` if
/// the program has called a function that makes the access.
fn touched(start: usize, len: usize, written: bool, place: Option<usize>) {
    find(start, len, |one, at, len| {
        if one.is_plain {
            one.window.raw.checker_touches(one.member, (at, len), written, place);
        }
    });
}

/// Records the buffers that a call of the host reads, when the call begins. `buffers` has the
/// address and length of each buffer, and whether the call writes it. Written buffers are left out:
/// the clock of the message that is written into them is not known yet.
pub(crate) fn read(buffers: &[(usize, usize, bool)]) {
    // Relaxed: see `Hull::set`.
    if PLAIN.len.load(Ordering::Relaxed) != 0 && edges::is_on() {
        let read = buffers.iter().filter(|buffer| !buffer.2);
        read.for_each(|&(start, len, _)| touched(start, len, false, None));
    }
}

/// An operation on a window uses the buffers.
fn lent(buffers: &[(usize, usize, bool)]) {
    // Relaxed: see `Hull::set`.
    if PLAIN.len.load(Ordering::Relaxed) != 0 {
        buffers.iter().for_each(|&(start, len, written)| touched(start, len, written, None));
    }
}

/// The program is about to change a word by an atomic.
fn atomic_begins(start: usize, len: usize) {
    find(start, len, |one, at, len| one.window.raw.checker_atomic_begins(one.member, at, len));
}

/// The program has read a word by an atomic.
fn atomic_ends(start: usize, len: usize) {
    find(start, len, |one, at, len| one.window.raw.checker_atomic_ends(one.member, at, len));
}

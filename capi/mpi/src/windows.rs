//! A window: transom's, its proxy at the host, and the data that calls on it need.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use transom::{Actor, Class, Flavor, Model, PROC_NULL, RawWindow};

use crate::errors::{Failure, Outcome};
use crate::groups::Members;
use crate::handles::Handles;
use crate::host::{Group, SUCCESS, Win, constants};
use crate::members;

/// The windows that transom serves, by their proxies.
static WINDOWS: Handles<Window> = Handles::new();
/// The number of values of `Window` of this process.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// The number of the next window.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A window that transom serves.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) raw: RawWindow,
    /// Distinguishes the windows of this process, whose handles the host uses again.
    pub(crate) number: u64,
    /// The window of the host whose handle the program has.
    pub(crate) proxy: Win,
    /// The window's ranks, which the proxy does not have.
    pub(crate) members: Members,
    pub(crate) attributes: Attributes,
    by_cpu: bool,
}

/// The values of the predefined attributes (MPI-4.1 §12.2.6), whose addresses programs get.
#[derive(Debug)]
pub(crate) struct Attributes {
    pub(crate) size: isize,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}

// SAFETY: handles are numbers, or addresses that only the host dereferences.
unsafe impl Send for Win {}
// SAFETY: a handle is a number, or an address that only the host dereferences.
unsafe impl Sync for Win {}

impl Window {
    /// A window with its proxy and the group of its ranks.
    pub(crate) fn new(raw: RawWindow, proxy: Win, members: Members) -> Window {
        let host = constants();
        let flavor = match raw.flavor() {
            Flavor::Create => host.flavor_create,
            Flavor::Dynamic => host.flavor_dynamic,
            Flavor::Shared => host.flavor_shared,
            _ => host.flavor_allocate,
        };
        let attributes = Attributes {
            size: isize::try_from(raw.size()).unwrap_or(isize::MAX),
            unit: c_int::try_from(raw.disp_unit()).unwrap_or(c_int::MAX),
            flavor,
            model: if raw.model() == Model::Separate { host.model_separate } else { host.model_unified },
        };
        let by_cpu = raw.is_mapped() && raw.actor() != Actor::Nic;
        // Relaxed, as in `drop` and `any_exists`: the counts order no other access.
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Window { raw, number, proxy, members, attributes, by_cpu }
    }

    /// Whether CPUs perform all accumulates between ranks of a node, on parts that all of them map.
    #[inline]
    pub(crate) fn is_by_cpu(&self) -> bool {
        self.by_cpu
    }

    /// The members of a group as ranks of the window.
    pub(crate) fn ranks(&self, group: Group) -> Outcome<Vec<usize>> {
        if group == constants().null_group {
            return Err(Failure::null_group());
        }
        let missing = || Failure::new(Class::Rank, "the group has ranks that are not in the window");
        members::translated(group, self.members.group()).ok_or_else(missing)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether transom serves a window of this process.
#[inline]
pub(crate) fn any_exists() -> bool {
    ALIVE.load(Ordering::Relaxed) != 0
}

/// The window with this proxy, if transom serves it.
#[inline]
pub(crate) fn find(proxy: Win) -> Option<&'static Window> {
    WINDOWS.get(proxy)
}

/// Whether transom serves a window with this proxy whose number is `number`. The caller need not
/// have the window.
pub(crate) fn has(proxy: Win, number: u64) -> bool {
    WINDOWS.has(proxy, |window| window.number == number)
}

/// Keeps a place in the map for the window with a proxy, and fails if the map is full. A previous
/// window with the same proxy is being freed by another thread.
pub(crate) fn reserve(proxy: Win) -> Outcome<()> {
    if WINDOWS.reserve(proxy) { Ok(()) } else { Err(full()) }
}

/// Adds a window to the map. It fails only if the window's proxy has no place there.
pub(crate) fn insert(window: Window) -> Outcome<&'static Window> {
    let proxy = window.proxy;
    WINDOWS.replace(proxy, window).map_err(|_| full())
}

fn full() -> Failure {
    Failure::new(Class::Win, "this process has as many windows as transom can serve")
}

/// Removes a handle from the map, because the host has given the handle to a window that the host
/// serves. Another thread may be freeing the window whose proxy had this handle before.
pub(crate) fn forget(handle: Win) {
    WINDOWS.forget(handle);
}

/// Removes and frees a window whose proxy the host has freed.
///
/// # Safety
/// The window has no users any more, and is removed once.
pub(crate) unsafe fn remove(proxy: Win, window: &'static Window) {
    // SAFETY: the caller's promise.
    unsafe { WINDOWS.remove(proxy, window) };
}

/// A target in transom's form.
#[inline]
pub(crate) fn target_rank(target: c_int) -> Outcome<usize> {
    match usize::try_from(target) {
        Ok(rank) => Ok(rank),
        Err(_) if target == constants().proc_null => Ok(PROC_NULL),
        Err(_) => Err(no_rank(target)),
    }
}

/// Success, or the code after the window's error handler was called, for a call on one target. A
/// call on `MPI_PROC_NULL` outside an epoch succeeds, as it does under every host.
#[inline]
pub(crate) fn coded_at(win: Win, target: c_int, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => SUCCESS,
        Err(failure) => raise_at(&failure, win, target),
    }
}

/// [`Failure::raise`] for a call on one target. A target that is not in the window is reported
/// before a missing epoch, as under MPICH, although the hot path tests the epoch first.
#[cold]
pub(crate) fn raise_at(failure: &Failure, win: Win, target: c_int) -> c_int {
    if failure.is_nothing(target) {
        return SUCCESS;
    }
    if failure.is_missing_epoch() && !has_rank(win, target) {
        return no_rank(target).raise(win);
    }
    failure.raise(win)
}

/// Whether a target is a rank of a window of transom.
fn has_rank(win: Win, target: c_int) -> bool {
    let rank = usize::try_from(target).ok();
    let route = find(win).zip(rank).map(|(window, rank)| window.raw.route(rank));
    !matches!(route, Some(Err(error)) if error.class() == Class::Rank)
}

fn no_rank(target: c_int) -> Failure {
    Failure::new(Class::Rank, format!("there is no rank {target} in the window; its ranks are numbered from 0"))
}

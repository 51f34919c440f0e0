//! The calls that complete requests, and the failures of operations with requests. The call that
//! completes a request passes the operation's failure to the error handler of the window (MPI-4.1
//! §12.6). The host does not get it, because it would pass it to the handler of `MPI_COMM_WORLD`.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::errors::Failure;
use crate::host::{RequestHandle, SUCCESS, Win, constants, host_status_error};
use crate::messages::{Done, Watch};
use crate::windows;

/// Failures whose requests the host still has.
static FAILURES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The failed operations whose requests the host has looked at in the current call.
    static FOUND: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// The end of an operation, shared with its request at the host. A program may free the request
/// while the operation is in flight, and some hosts then drop their share at once.
pub(crate) type Kept = Arc<Ending>;

/// The end of an operation on a window.
#[derive(Debug)]
pub(crate) struct Ending {
    win: Win,
    failure: OnceLock<(RequestHandle, Failure)>,
}

// SAFETY: handles are numbers, or addresses that only the host dereferences.
unsafe impl Sync for Ending {}

impl Ending {
    /// That of an operation in flight.
    pub(crate) fn of(win: Win) -> Kept {
        Arc::new(Ending { win, failure: OnceLock::new() })
    }

    /// Records the failure of the operation with this request, once.
    #[cold]
    pub(crate) fn fails(&self, handle: RequestHandle, failure: Failure) {
        if self.failure.set((handle, failure)).is_ok() {
            // Relaxed, as in `Call::of` and `drop`: an estimate, which orders no other access.
            FAILURES.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Calls the error handler of the window, or that of `MPI_COMM_WORLD` if the window is freed.
    /// Returns the code, if the handler returns.
    fn raise(&self) -> c_int {
        let Some((_, failure)) = self.failure.get() else { return SUCCESS };
        if windows::find(self.win).is_some() { failure.raise(self.win) } else { failure.raise_on(constants().world) }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.failure.get().is_some() {
            FAILURES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Called when the host makes the status of a request.
///
/// # Safety
/// `kept` is the share of a request that still exists.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_request_looked_at(kept: *mut c_void) {
    let ending = kept.cast_const().cast::<Ending>();
    // SAFETY: the share lives until `transom_request_gone`.
    if unsafe { (*ending).failure.get().is_none() } {
        return;
    }
    // SAFETY: as above; the count grows by the share that is made.
    let share = unsafe {
        Arc::increment_strong_count(ending);
        Arc::from_raw(ending)
    };
    // The call of a thread that ends passes no failure on.
    let _ = FOUND.try_with(|found| {
        let mut found = found.borrow_mut();
        // The host looks again at each test of a wait.
        if !found.iter().any(|one| Arc::ptr_eq(one, &share)) {
            found.push(share);
        }
    });
}

/// Called at the end of a request.
///
/// # Safety
/// `kept` is the share of a request, and is passed here once.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_request_gone(kept: *mut c_void) {
    // SAFETY: it is the host's share, which is passed here once.
    drop(unsafe { Arc::from_raw(kept.cast_const().cast::<Ending>()) });
}

/// A call that may complete requests.
pub(crate) struct Call {
    /// The requests, as the conflict checker sees them.
    pub(crate) watch: Watch,
    /// The requests before the call, if operations on windows may be among them.
    before: Vec<RequestHandle>,
}

impl Call {
    /// `some_pending`: operations with requests are in flight.
    ///
    /// # Safety
    /// The requests are readable.
    pub(crate) unsafe fn of(watch: Watch, requests: *const RequestHandle, count: c_int, some_pending: bool) -> Call {
        // A thread that ends has no such list any more.
        let _ = FOUND.try_with(|found| found.borrow_mut().clear());
        let count = usize::try_from(count).unwrap_or(0);
        let mut before = Vec::new();
        if count > 0 && !requests.is_null() && (some_pending || FAILURES.load(Ordering::Relaxed) > 0) {
            // SAFETY: as the caller says.
            before.extend_from_slice(unsafe { std::slice::from_raw_parts(requests, count) });
        }
        Call { watch, before }
    }

    /// Whether the request is one of the call's.
    pub(crate) fn has(&self, request: RequestHandle) -> bool {
        self.before.contains(&request)
    }

    /// Ends the call: the host has completed the requests `done`, whose statuses are in this order.
    /// `keeps`: the requests remain. Returns the code of the call, after the handlers of its
    /// failures.
    pub(crate) fn ended(&self, code: c_int, done: Done<'_>, statuses: *mut c_void, keeps: bool) -> c_int {
        self.watch.ended(done, statuses, keeps);
        let failed = FOUND.try_with(RefCell::take).unwrap_or_default();
        if failed.is_empty() {
            return code;
        }
        let places = match done {
            Done::One(index) => vec![index],
            Done::Some(indices) => indices.to_vec(),
            Done::All => (0..).take(self.before.len()).collect(),
        };
        let of_place = |place: c_int| {
            let request = self.before.get(usize::try_from(place).ok()?)?;
            failed.iter().find_map(|one| one.failure.get().filter(|its| its.0 == *request).map(|its| (one, &its.1)))
        };
        let ends: Vec<_> = places.into_iter().map(of_place).collect();
        if let Done::One(_) = done {
            return ends.first().copied().flatten().map_or(code, |(one, _)| one.raise());
        }
        for (nth, end) in (0..).zip(&ends) {
            // The host has set all of them if it reports failures of its own.
            if end.is_some() || code == SUCCESS {
                let code = end.map_or(SUCCESS, |(_, failure)| failure.code());
                // SAFETY: there is a status for each completed request.
                unsafe { host_status_error(statuses, nth, code) };
            }
        }
        let code = if ends.iter().any(Option::is_some) { constants().in_status } else { code };
        for (one, _) in ends.into_iter().flatten() {
            one.raise();
        }
        code
    }
}

//! Calls that complete requests ([`Call`]), and the failures of operations with requests. The call
//! that completes a request passes the operation's failure to the error handler of the window
//! (MPI-4.1 §12.6). The host never sees the failure, because it would call the error handler of
//! `MPI_COMM_WORLD`.
//!
//! The host asks for the status of each generalized request that it completes. This query tells the
//! call which of its failed operations are complete. `MPI_Request_get_status` asks for it too, but
//! completes no request, and therefore reports no failure.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use transom::Request;

use crate::edges;
use crate::errors::Failure;
use crate::host::{RequestHandle, SUCCESS, Win, constants, host_status_error, host_status_size};
use crate::messages::{Done, Watch};
use crate::windows;

/// The number of failed operations whose requests the host still has.
static FAILED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The failed operations whose status the host has queried in this thread's current call.
    static QUERIED: RefCell<Vec<SharedResult>> = const { RefCell::new(Vec::new()) };
}

/// An [`OperationResult`] with two owners: the list of operations in flight, and the host's
/// request. If the program frees the request while the operation is in flight, some hosts drop
/// their reference at once.
pub(crate) type SharedResult = Arc<OperationResult>;

/// The result of an operation with a request.
#[derive(Debug)]
pub(crate) struct OperationResult {
    win: Win,
    /// The window's number, because another window may have the handle later.
    window: Option<u64>,
    /// The host's request, if the operation failed. With the operation's own request, if a flush or
    /// synchronization may report the failure first.
    failed: OnceLock<(RequestHandle, Option<Mutex<Request>>)>,
    /// The failure, once it is known; `None` if another call has reported it.
    failure: OnceLock<Option<Failure>>,
}

// SAFETY: handles are numbers, or addresses that only the host dereferences.
unsafe impl Sync for OperationResult {}

impl OperationResult {
    /// The result of an operation on `win` that is in flight.
    pub(crate) fn in_flight(win: Win) -> SharedResult {
        let window = windows::find(win).map(|window| window.number);
        Arc::new(OperationResult { win, window, failed: OnceLock::new(), failure: OnceLock::new() })
    }

    /// Records the failure of the operation whose request is `handle`.
    #[cold]
    pub(crate) fn set_failure(&self, handle: RequestHandle, failure: Failure) {
        // Set once, as in `set_failed`: an operation ends once.
        let _ = self.failure.set(Some(failure));
        self.count(handle, None);
    }

    /// Records that the operation of `request` failed, whose request at the host is `handle`. The
    /// call that completes the latter reports the failure, unless a flush or synchronization has
    /// reported it before.
    #[cold]
    pub(crate) fn set_failed(&self, handle: RequestHandle, request: Request) {
        self.count(handle, Some(Mutex::new(request)));
    }

    fn count(&self, handle: RequestHandle, request: Option<Mutex<Request>>) {
        if self.failed.set((handle, request)).is_ok() {
            // Relaxed, as in `Call::of` and `drop`: the count orders no other access.
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the operation has failed, and its request at the host is one of those sought.
    fn is_of(&self, is_one: impl Fn(&RequestHandle) -> bool) -> bool {
        self.failed.get().is_some_and(|(handle, _)| is_one(handle))
    }

    /// The failure, which this call reports.
    fn failure(&self) -> Option<&Failure> {
        let (_, request) = self.failed.get()?;
        let taken = || {
            let mut request = request.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
            request.wait().err().map(Failure::from)
        };
        self.failure.get_or_init(taken).as_ref()
    }

    /// Calls the error handler of the window, or the one of `MPI_COMM_WORLD` if the window is
    /// freed. If the handler returns, returns the error code.
    fn raise(&self) -> c_int {
        let Some(failure) = self.failure() else { return SUCCESS };
        let is_served = self.window.is_some_and(|number| windows::has(self.win, number));
        if is_served { failure.raise(self.win) } else { failure.raise_on(constants().world) }
    }
}

impl Drop for OperationResult {
    fn drop(&mut self) {
        if self.failed.get().is_some() {
            FAILED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Called when the host queries the status of a request.
///
/// # Safety
/// `kept` is the host's reference of a request that still exists.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_request_status_queried(kept: *mut c_void) {
    let ending = kept.cast_const().cast::<OperationResult>();
    // SAFETY: the reference lives until `transom_request_freed`.
    if unsafe { (*ending).failed.get().is_none() } {
        return;
    }
    // SAFETY: as above; the count grows by the new reference.
    let share = unsafe {
        Arc::increment_strong_count(ending);
        Arc::from_raw(ending)
    };
    // A thread that is ending has no list, and its call passes no failure on.
    let _ = QUERIED.try_with(|found| {
        let mut found = found.borrow_mut();
        // The host may query the status at each test of a wait.
        if !found.iter().any(|one| Arc::ptr_eq(one, &share)) {
            found.push(share);
        }
    });
}

/// Called when the host frees a request.
///
/// # Safety
/// `kept` is the reference of a request, and is passed here once.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_request_freed(kept: *mut c_void) {
    // SAFETY: it is the host's reference, which is passed here once.
    drop(unsafe { Arc::from_raw(kept.cast_const().cast::<OperationResult>()) });
}

/// Removes the operations of some requests from [`QUERIED`]. A thread that is ending has none.
fn take_queried(requests: &[RequestHandle]) -> Vec<SharedResult> {
    let is_of = |one: &mut SharedResult| one.is_of(|handle| requests.contains(handle));
    QUERIED.try_with(|found| found.borrow_mut().extract_if(.., is_of).collect()).unwrap_or_default()
}

/// Statuses of a call, which the conflict checker reads even if the program ignores them: their
/// memory, and the address for the host. Each call has memory of its own, because the functions of
/// generalized requests may call MPI too.
pub(crate) fn own_statuses(statuses: *mut c_void, count: c_int) -> (Vec<u64>, *mut c_void) {
    let mut own = Vec::new();
    if !edges::is_on() || statuses != constants().status_ignore || count <= 0 {
        return (own, statuses);
    }
    // SAFETY: the call takes nothing.
    let size = unsafe { host_status_size() } * usize::try_from(count).unwrap_or(0);
    own.resize(size.div_ceil(size_of::<u64>()), 0);
    let address = own.as_mut_ptr().cast();
    (own, address)
}

/// Sets an output argument to a value that remains if the host refuses the call's arguments.
///
/// # Safety
/// There is room for the answer, or `out` is null, which the host refuses.
pub(crate) unsafe fn preset(out: *mut c_int, value: c_int) {
    // SAFETY: the caller's promise.
    if let Some(out) = unsafe { out.as_mut() } {
        *out = value;
    }
}

/// The value of an output argument that [`preset`] has set before the call; `otherwise` if `out` is
/// null.
///
/// # Safety
/// As for [`preset`].
pub(crate) unsafe fn answer(out: *const c_int, otherwise: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { out.as_ref() }.copied().unwrap_or(otherwise)
}

/// The completed requests of a call that returns their indices.
///
/// # Safety
/// There are `done` indices, if that is positive.
pub(crate) unsafe fn indices_of<'i>(done: c_int, indices: *const c_int) -> Done<'i> {
    match usize::try_from(done) {
        // SAFETY: as the caller says.
        Ok(count @ 1..) => Done::Some(unsafe { std::slice::from_raw_parts(indices, count) }),
        _ => Done::Some(&[]),
    }
}

/// A call that may complete requests.
pub(crate) struct Call {
    /// The requests, for the conflict checker.
    pub(crate) watch: Watch,
    /// The requests before the call, if operations on windows may be among them.
    before: Vec<RequestHandle>,
}

impl Call {
    /// A call on `count` requests. `has_pending_operations`: operations with requests are in
    /// flight.
    ///
    /// # Safety
    /// The requests are readable.
    pub(crate) unsafe fn of(
        watch: Watch,
        requests: *const RequestHandle,
        count: c_int,
        has_pending_operations: bool,
    ) -> Call {
        let count = usize::try_from(count).unwrap_or(0);
        let mut before = Vec::new();
        if count > 0 && !requests.is_null() && (has_pending_operations || FAILED.load(Ordering::Relaxed) > 0) {
            // SAFETY: as the caller says.
            before.extend_from_slice(unsafe { std::slice::from_raw_parts(requests, count) });
        }
        // Drops failures that an earlier call left for these requests. Other failures may belong to
        // a call in progress that has caused this call: the functions of generalized requests may
        // call MPI too.
        drop(take_queried(&before));
        Call { watch, before }
    }

    /// Whether the request is one of the call's.
    pub(crate) fn has(&self, request: RequestHandle) -> bool {
        self.before.contains(&request)
    }

    /// Ends the call. The host has completed the requests `done`; `statuses` are in the same order.
    /// `keeps`: the call leaves complete requests allocated, and a later call reports the failures
    /// of their operations. Otherwise calls the error handlers of the failed operations. Returns
    /// the code of the call.
    pub(crate) fn ended(&self, code: c_int, done: Done<'_>, statuses: *mut c_void, keeps: bool) -> c_int {
        self.watch.ended(code, done, statuses, keeps);
        let failed = take_queried(&self.before);
        if failed.is_empty() || keeps {
            return code;
        }
        let places = match done {
            Done::One(index) => vec![index],
            Done::Some(indices) => indices.to_vec(),
            Done::All => (0..).take(self.before.len()).collect(),
        };
        let of_place = |place: c_int| {
            let request = self.before.get(usize::try_from(place).ok()?)?;
            let one = failed.iter().find(|one| one.is_of(|handle| handle == request))?;
            Some((one, one.failure()?))
        };
        let ends: Vec<_> = places.into_iter().map(of_place).collect();
        if ends.iter().all(Option::is_none) {
            return code;
        }
        if let Done::One(_) = done {
            return ends.first().copied().flatten().map_or(code, |(one, _)| one.raise());
        }
        for (nth, end) in (0..).zip(&ends) {
            // If the host reports failures of its own, it has set the error of each status.
            if end.is_some() || code == SUCCESS {
                let code = end.map_or(SUCCESS, |(_, failure)| failure.code());
                // SAFETY: there is a status for each completed request.
                unsafe { host_status_error(statuses, nth, code) };
            }
        }
        for (one, _) in ends.into_iter().flatten() {
            one.raise();
        }
        constants().err_in_status
    }
}

//! Requests of request-based operations (MPI-4.1 §12.3.5), and the functions that wait for requests
//! and test them. The requests are requests of the host, so that programs can mix them with the
//! host's others. An operation that is complete when its call returns, as all are on shared memory,
//! gets a complete request. Other operations get generalized requests (MPI-4.1 §13.2). While there
//! are generalized requests, the functions of this module poll the operations in flight: a wait
//! repeats a test of the host. Otherwise a wait is the host's own wait.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom::{Request, Unreported};

use crate::completion::{Call, OperationResult, SharedResult, answer, indices_of, own_statuses, preset};
use crate::errors::{Failure, Outcome};
#[cfg(has_is_complete)]
use crate::host::host_is_complete;
use crate::host::{
    REPORTED, RequestHandle, SUCCESS, Tested, Win, constants, host_Grequest_complete, host_Request_get_status,
    host_Test, host_Testall, host_Testany, host_Testsome, host_Wait, host_Waitall, host_Waitany, host_Waitsome,
    host_request, host_test_in_turn, host_wait_for_rest,
};
#[cfg(has_status_of_several)]
use crate::host::{host_Request_get_status_all, host_Request_get_status_any, host_Request_get_status_some};
use crate::messages::{self, Done, Handles, Watch};
use crate::polls::{Found, Polled};
use crate::{edges, partitioned, polls, process, untold, windows};

/// Operations in flight that have requests.
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
/// The number of operations with requests that are not complete at the host: those in `PENDING`,
/// and those that a thread has taken out of `PENDING` to complete or to poll them.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The number of operations in flight from which on complete operations are swept.
const SWEEP_FROM: usize = 256;

fn pending() -> MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation in flight.
struct Pending {
    request: Request,
    handle: RequestHandle,
    result: SharedResult,
    /// Whether the program has freed the request. No call then waits for it.
    is_freed: bool,
}

/// Begins an operation on a target by `make`, and gives the program its request, or
/// `MPI_REQUEST_NULL` if there is none. Without room for the request nothing is begun.
#[inline]
pub(crate) fn hand_over(
    (win, target): (Win, c_int),
    out: *mut RequestHandle,
    make: impl FnOnce() -> Outcome<Request>,
) -> c_int {
    if out.is_null() {
        return Failure::no_room("a request").raise(win);
    }
    // SAFETY: the caller has room for a handle. Written first, since an error handler may never
    // return.
    unsafe { *out = constants().null_request };
    hand_over_made((win, target), out, make())
}

fn hand_over_made((win, target): (Win, c_int), out: *mut RequestHandle, made: Outcome<Request>) -> c_int {
    let mut request = match made {
        Ok(request) => request,
        Err(failure) if failure.is_nothing(target) => {
            // SAFETY: the caller has room for a handle.
            return unsafe { messages::add_complete(process::completed_request(out), out) };
        }
        Err(failure) => return windows::raise_at(&failure, win, target),
    };
    // For the conflict checker a program knows that the operation is complete only after a wait, so
    // the program gets a request to wait for. `is_known_complete` makes no progress and requests no
    // poll, so that consecutive operations can share a message.
    let is_done = !edges::is_on() && request.is_known_complete() && !request.has_failed();
    let done_at_once = if is_done { request.test() } else { Ok(false) };
    if let Ok(true) = done_at_once {
        return process::completed_request(out);
    }
    let result = OperationResult::in_flight(win);
    let mut handle = constants().null_request;
    let theirs = Arc::into_raw(Arc::clone(&result)).cast_mut();
    // SAFETY: `transom_request_freed` takes the host's reference.
    let code = unsafe { host_request(theirs.cast(), &raw mut handle) };
    if code != SUCCESS {
        return code;
    }
    // SAFETY: the caller has room for a handle.
    unsafe { *out = handle };
    match done_at_once {
        Ok(false) => {
            let mut pending = pending();
            pending.push(Pending { request, handle, result, is_freed: false });
            // Relaxed: a thread that waits for this request got its handle after this.
            COUNT.fetch_add(1, Ordering::Relaxed);
            drop(pending);
            sweep();
        }
        Ok(true) => complete_host_request(handle),
        Err(error) => {
            result.set_failure(handle, error.into());
            complete_host_request(handle);
        }
    }
    SUCCESS
}

/// Completes the requests of complete operations, when the number of operations with requests has
/// doubled since the last sweep. This is necessary because a program may free its requests instead
/// of waiting for them.
fn sweep() {
    static NEXT: AtomicUsize = AtomicUsize::new(SWEEP_FROM);
    // Relaxed, both: an estimate, which orders no other access.
    if COUNT.load(Ordering::Relaxed) >= NEXT.load(Ordering::Relaxed) {
        poll_pending(&Watch::nothing());
        NEXT.store((2 * COUNT.load(Ordering::Relaxed)).max(SWEEP_FROM), Ordering::Relaxed);
    }
}

/// Records the outcome of an operation for the call that completes its request, and completes the
/// request at the host. `polled`: the outcome of the poll. The failure of the operation itself
/// stays with the window, because a flush may come before that call, and then reports it.
fn end_operation(Pending { mut request, handle, result, is_freed }: Pending, polled: transom::Result<bool>) {
    match polled {
        Ok(_) if request.has_failed() => result.set_failed(handle, request),
        polled => {
            let mut completions = Unreported::default();
            if let Err(error) = polled.and_then(|_| request.wait_untold(&mut completions)) {
                result.set_failure(handle, error.into());
            }
            if edges::is_on() && !is_freed {
                untold::add(handle, completions);
            }
        }
    }
    complete_host_request(handle);
}

fn complete_host_request(handle: RequestHandle) {
    // SAFETY: the request is not complete yet.
    unsafe { host_Grequest_complete(handle) };
}

/// The program frees a request, before the host does. A request that waits for a counter may never
/// complete, and no operation needs it, so it ends here and keeps the window's memory no longer.
///
/// # Safety
/// The request is readable, or its address is null.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_request_will_be_freed(request: *const RequestHandle) {
    if request.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    let handle = unsafe { *request };
    if edges::is_on() {
        untold::forget(handle);
    }
    // Relaxed: see `hand_over_made`.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let ended = {
        let mut pending = pending();
        // Programs free young requests.
        let place = pending.iter().rposition(|one| one.handle == handle && !one.is_freed);
        place.into_iter().for_each(|place| pending[place].is_freed = true);
        place.filter(|&place| pending[place].request.awaits_counter()).map(|place| pending.swap_remove(place))
    };
    if ended.is_some() {
        complete_host_request(handle);
        // Release: as in `poll_pending`.
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// Polls the operations in flight, and completes the requests of complete operations. While the
/// conflict checker is on, polls only the operations of `watch`, and those whose requests are
/// freed; [`Watch::ended`] tells the checker which of them the program knows to be complete.
fn poll_pending(watch: &Watch) -> Polled {
    // Relaxed: see `hand_over`.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return Polled::default();
    }
    let watched = watch.handles();
    let is_watched = |one: &Pending| one.is_freed || watched.is_none_or(|all| all.has(one.handle));
    let needs_progress = pending().iter().any(|one| is_watched(one) && !one.request.is_known_complete());
    // Without the lock: progress may wait until the report of a death arrives. One poll makes
    // progress for all operations.
    let mut failure = if needs_progress { process::poll_requests().err() } else { None };
    let (mut completed, mut given_up) = (Vec::new(), Vec::new());
    let mut watched_left = {
        let mut pending = pending();
        let mut place = 0;
        while place < pending.len() {
            let request = &pending[place].request;
            if !is_watched(&pending[place]) {
                place += 1;
            } else if request.is_known_complete() {
                completed.push((pending.swap_remove(place), Ok(true)));
            } else if request.is_given_up() {
                given_up.push(pending.swap_remove(place));
            } else if let Some(error) = failure.take_if(|error| request.ends_by(error)) {
                completed.push((pending.swap_remove(place), Err(error)));
            } else {
                place += 1;
            }
        }
        watched.map(|all| pending.iter().any(|one| !one.is_freed && all.has(one.handle)))
    };
    // An operation that was given up needs a poll of its own, because progress may never complete
    // it.
    for operation in given_up {
        match operation.request.poll() {
            Ok(false) => {
                watched_left = watched_left.map(|left| left || !operation.is_freed);
                pending().push(operation);
            }
            polled => completed.push((operation, polled)),
        }
    }
    let has_completed = !completed.is_empty();
    for (operation, polled) in completed {
        end_operation(operation, polled);
        // Release: pairs with the loads in `call_on`, `poll_pending` and `has_pending`.
        COUNT.fetch_sub(1, Ordering::Release);
    }
    // Acquire: the requests that other threads have taken from `PENDING` are complete once they are
    // not counted.
    let left = watched_left.unwrap_or_else(|| COUNT.load(Ordering::Acquire) > 0);
    Polled { left, completed: has_completed }
}

/// Waits for requests of `watch`. While operations with requests are in flight, or waits alternate
/// with polls of transom, repeats `test`, which returns a code and what it has found. Otherwise
/// calls `wait`, the host's own wait.
pub(crate) fn wait_by(watch: &Watch, wait: impl FnOnce() -> c_int, test: impl FnMut() -> (c_int, Found)) -> c_int {
    polls::alternate(|| poll_pending(watch), test).unwrap_or_else(wait)
}

/// A call that may complete these requests.
///
/// # Safety
/// The requests are readable.
unsafe fn call_on(requests: *const RequestHandle, count: c_int) -> Call {
    let ours = |handles: &Handles| {
        let mut ours: HashSet<_> = untold::among(handles.iter()).into_iter().collect();
        ours.extend(pending().iter().map(|one| one.handle).filter(|&handle| handles.has(handle)));
        ours
    };
    // Acquire: a thread that finds no such operation sees the failures of all that have been
    // completed.
    let has_pending_operations = COUNT.load(Ordering::Acquire) > 0;
    // SAFETY: as the caller says.
    unsafe { Call::of(Watch::of(requests, count, ours), requests, count, has_pending_operations) }
}

/// Whether one of the call's requests may be of an operation that is not complete. Requests that
/// other threads have taken from `PENDING` may be the call's.
fn has_pending(call: &Call) -> bool {
    let pending = pending();
    // Acquire: see `poll_pending`.
    pending.iter().any(|one| call.has(one.handle)) || COUNT.load(Ordering::Acquire) > pending.len()
}

/// Waits for a request.
///
/// # Safety
/// The arguments are those of `MPI_Wait`.
pub(crate) unsafe fn await_one(watch: &Watch, request: *mut RequestHandle, status: *mut c_void) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        let test = || {
            let mut flag = REPORTED;
            (host_Test(request, &raw mut flag, status), Found::end_if(flag != 0))
        };
        wait_by(watch, || host_Wait(request, status), test)
    }
}

#[unsafe(export_name = "PMPI_Wait")]
pub(crate) unsafe extern "C" fn wait(request: *mut RequestHandle, status: *mut c_void) -> c_int {
    // SAFETY: the caller's arguments, as MPI has them; so in all entry points.
    let call = unsafe { call_on(request, 1) };
    let (_own, status) = own_statuses(status, 1);
    // SAFETY: as above.
    let code = unsafe { await_one(&call.watch, request, status) };
    call.ended(code, Done::One(0), status, false)
}

#[unsafe(export_name = "PMPI_Waitall")]
pub(crate) unsafe extern "C" fn waitall(count: c_int, requests: *mut RequestHandle, statuses: *mut c_void) -> c_int {
    let mut flag = 0;
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, statuses) = own_statuses(statuses, count);
    let is_left = || partitioned::are_used() && poll_pending(&call.watch).left && has_pending(&call);
    (0..).take_while(|_| is_left()).for_each(polls::progress_and_pause);
    let (mut room, tested) = (Vec::new(), RefCell::new(Tested::none(count)));
    let is_refused = count < 0 || requests.is_null() || (statuses.is_null() && !constants().status_ignore.is_null());
    // SAFETY: as in `wait`.
    let code = unsafe {
        if partitioned::are_used() || is_refused {
            host_Waitall(count, requests, statuses)
        } else {
            let test = || {
                let mut tested = tested.borrow_mut();
                let tested = tested.with_room(&mut room);
                let before = tested.left();
                let code = host_test_in_turn(count, requests, &raw mut flag, statuses, tested);
                let found = if tested.left() < before { Found::Progress } else { Found::Nothing };
                (code, if flag != 0 { Found::End } else { found })
            };
            let wait = || host_wait_for_rest(count, requests, statuses, &raw const *tested.borrow());
            wait_by(&call.watch, wait, test)
        }
    };
    call.ended(code, Done::All, statuses, false)
}

#[unsafe(export_name = "PMPI_Waitany")]
pub(crate) unsafe extern "C" fn waitany(
    count: c_int,
    requests: *mut RequestHandle,
    index: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(index, constants().undefined) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, status) = own_statuses(status, 1);
    // SAFETY: as in `wait`.
    let code = unsafe {
        let test = || {
            let mut flag = REPORTED;
            match host_Testany(count, requests, index, &raw mut flag, status) {
                // MPICH's MPI_Testany sets no status if there is no active request.
                SUCCESS if ![0, REPORTED].contains(&flag) && answer(index, 0) == constants().undefined => {
                    (host_Waitany(count, requests, index, status), Found::End)
                }
                code => (code, Found::end_if(flag != 0)),
            }
        };
        wait_by(&call.watch, || host_Waitany(count, requests, index, status), test)
    };
    // SAFETY: the host has set the answer, or `preset` has.
    call.ended(code, Done::One(unsafe { answer(index, -1) }), status, false)
}

#[unsafe(export_name = "PMPI_Waitsome")]
pub(crate) unsafe extern "C" fn waitsome(
    count: c_int,
    requests: *mut RequestHandle,
    done: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(done, constants().undefined) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, statuses) = own_statuses(statuses, count);
    // SAFETY: as in `wait`.
    let code = unsafe {
        let test = || {
            preset(done, constants().undefined);
            (host_Testsome(count, requests, done, indices, statuses), Found::end_if(answer(done, 1) != 0))
        };
        wait_by(&call.watch, || host_Waitsome(count, requests, done, indices, statuses), test)
    };
    // SAFETY: the host has set the answer, or `preset` has.
    call.ended(code, unsafe { indices_of(answer(done, 0), indices) }, statuses, false)
}

#[unsafe(export_name = "PMPI_Test")]
pub(crate) unsafe extern "C" fn test(request: *mut RequestHandle, flag: *mut c_int, status: *mut c_void) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(flag, 0) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(request, 1) };
    let (_own, status) = own_statuses(status, 1);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Test(request, flag, status) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(flag, 0) } != 0 {
        return call.ended(code, Done::One(0), status, false);
    }
    polls::found_nothing();
    code
}

#[unsafe(export_name = "PMPI_Testall")]
pub(crate) unsafe extern "C" fn testall(
    count: c_int,
    requests: *mut RequestHandle,
    flag: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(flag, 0) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, statuses) = own_statuses(statuses, count);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Testall(count, requests, flag, statuses) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(flag, 0) } != 0 {
        return call.ended(code, Done::All, statuses, false);
    }
    polls::found_nothing();
    code
}

#[unsafe(export_name = "PMPI_Testany")]
pub(crate) unsafe extern "C" fn testany(
    count: c_int,
    requests: *mut RequestHandle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe {
        preset(flag, 0);
        preset(index, constants().undefined);
    }
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, status) = own_statuses(status, 1);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Testany(count, requests, index, flag, status) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(flag, 0) } != 0 {
        // SAFETY: as above.
        return call.ended(code, Done::One(unsafe { answer(index, -1) }), status, false);
    }
    polls::found_nothing();
    code
}

#[unsafe(export_name = "PMPI_Testsome")]
pub(crate) unsafe extern "C" fn testsome(
    count: c_int,
    requests: *mut RequestHandle,
    done: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(done, constants().undefined) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, statuses) = own_statuses(statuses, count);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Testsome(count, requests, done, indices, statuses) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(done, 1) } == 0 {
        polls::found_nothing();
    }
    // SAFETY: the host has set the answer, or `preset` has.
    call.ended(code, unsafe { indices_of(answer(done, 0), indices) }, statuses, false)
}

#[unsafe(export_name = "PMPI_Request_get_status")]
pub(crate) unsafe extern "C" fn request_get_status(
    request: RequestHandle,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(flag, 0) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(&raw const request, 1) };
    let (_own, status) = own_statuses(status, 1);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Request_get_status(request, flag, status) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(flag, 0) } != 0 {
        return call.ended(code, Done::One(0), status, true);
    }
    polls::found_nothing();
    code
}

/// Whether a request is complete, without a call of the host's progress. The answer has no status,
/// so the conflict checker learns nothing of messages.
#[cfg(has_is_complete)]
#[unsafe(export_name = "PMPIX_Request_is_complete")]
pub(crate) unsafe extern "C" fn request_is_complete(request: RequestHandle) -> c_int {
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(&raw const request, 1) };
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let is_complete = unsafe { host_is_complete(request) };
    if is_complete != 0 && edges::is_on() {
        untold::tell([request], true);
    }
    is_complete
}

#[cfg(has_status_of_several)]
#[unsafe(export_name = "PMPI_Request_get_status_all")]
pub(crate) unsafe extern "C" fn request_get_status_all(
    count: c_int,
    requests: *const RequestHandle,
    flag: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(flag, 0) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, statuses) = own_statuses(statuses, count);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Request_get_status_all(count, requests, flag, statuses) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(flag, 0) } != 0 {
        return call.ended(code, Done::All, statuses, true);
    }
    polls::found_nothing();
    code
}

#[cfg(has_status_of_several)]
#[unsafe(export_name = "PMPI_Request_get_status_any")]
pub(crate) unsafe extern "C" fn request_get_status_any(
    count: c_int,
    requests: *const RequestHandle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe {
        preset(flag, 0);
        preset(index, constants().undefined);
    }
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, status) = own_statuses(status, 1);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Request_get_status_any(count, requests, index, flag, status) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(flag, 0) } != 0 {
        // SAFETY: as above.
        return call.ended(code, Done::One(unsafe { answer(index, -1) }), status, true);
    }
    polls::found_nothing();
    code
}

#[cfg(has_status_of_several)]
#[unsafe(export_name = "PMPI_Request_get_status_some")]
pub(crate) unsafe extern "C" fn request_get_status_some(
    count: c_int,
    requests: *const RequestHandle,
    done: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { preset(done, constants().undefined) };
    // SAFETY: as in `wait`.
    let call = unsafe { call_on(requests, count) };
    let (_own, statuses) = own_statuses(statuses, count);
    poll_pending(&call.watch);
    // SAFETY: as in `wait`.
    let code = unsafe { host_Request_get_status_some(count, requests, done, indices, statuses) };
    // SAFETY: the host has set the answer, or `preset` has.
    if unsafe { answer(done, 1) } == 0 {
        polls::found_nothing();
    }
    // SAFETY: the host has set the answer, or `preset` has.
    call.ended(code, unsafe { indices_of(answer(done, 0), indices) }, statuses, true)
}

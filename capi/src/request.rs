//! Handles of requests. When a call reports a request as complete, the handle becomes NULL.
//! Functions on several requests ignore NULL.

use std::ffi::c_int;

use transom::Request;

use crate::constants::TRANSOM_UNDEFINED;
use crate::error::{Failure, TRANSOM_ERR_ARG, guarded};
use crate::pointers::{array_mut, changed, out};

/// The handle of one operation, by which a program waits for this operation before the end of the
/// epoch. The operation of a request is complete when its buffers may be used again: the data of a
/// get has arrived, and the buffer of a put may be written.
#[derive(Debug)]
pub struct RequestHandle(Option<Request>);

/// A new handle.
pub(crate) fn handle(request: Request) -> *mut RequestHandle {
    Box::into_raw(Box::new(RequestHandle(Some(request))))
}

/// Ends the handle in a slot.
///
/// # Safety
/// The slot has a live handle, or NULL.
unsafe fn end(slot: &mut *mut RequestHandle) {
    let handle = std::mem::replace(slot, std::ptr::null_mut());
    if !handle.is_null() {
        // SAFETY: the caller's promise; no copy of the handle is used afterwards.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// The requests of an array during a call, which takes them out of their handles and puts them back
/// at its end.
struct Taken<'a> {
    slots: &'a mut [*mut RequestHandle],
    /// The index of each request in `slots`.
    places: Vec<usize>,
    requests: Vec<Request>,
}

impl<'a> Taken<'a> {
    /// # Safety
    /// `first` has `count` handles, live ones or NULL.
    unsafe fn new(first: *mut *mut RequestHandle, count: u64) -> Result<Taken<'a>, Failure> {
        // SAFETY: the caller's promise.
        let slots = unsafe { array_mut(first, count, "requests")? };
        let mut taken = Taken { slots, places: Vec::new(), requests: Vec::new() };
        for place in 0..taken.slots.len() {
            // SAFETY: the caller's promise.
            let Some(handle) = (unsafe { taken.slots[place].as_mut() }) else { continue };
            let Some(request) = handle.0.take() else {
                taken.put_back();
                return Err(Failure::new(
                    TRANSOM_ERR_ARG,
                    format!("requests: element {place} is the request of an earlier element"),
                ));
            };
            taken.places.push(place);
            taken.requests.push(request);
        }
        Ok(taken)
    }

    /// Puts the requests back into their handles.
    fn put_back(&mut self) {
        for (place, request) in self.places.drain(..).zip(self.requests.drain(..)) {
            // SAFETY: `new` took it out of this very handle.
            if let Some(handle) = unsafe { self.slots[place].as_mut() } {
                handle.0 = Some(request);
            }
        }
    }

    /// The indices of the requests that are complete, also those that failed.
    fn complete(&self) -> impl Iterator<Item = usize> {
        let complete = |(&place, request): (&usize, &Request)| (!request.is_active()).then_some(place);
        self.places.iter().zip(&self.requests).filter_map(complete)
    }
}

impl Drop for Taken<'_> {
    /// Requests that were reported as complete do not exist any more.
    fn drop(&mut self) {
        for (place, request) in self.places.drain(..).zip(self.requests.drain(..)) {
            let slot = &mut self.slots[place];
            // SAFETY: `new` took it out of this very handle.
            match unsafe { slot.as_mut() } {
                Some(handle) if request.is_active() => handle.0 = Some(request),
                // SAFETY: `new` took the request out of this handle.
                _ => unsafe { end(slot) },
            }
        }
    }
}

/// Waits until the operation is complete; the handle becomes NULL, even if the operation failed.
/// The handle stays valid if the call fails while the operation is in flight, for example because
/// another rank has died. For NULL the call returns immediately.
///
/// # Safety
/// `request` points to a live handle or to NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_wait(request: *mut *mut RequestHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let mut taken = Taken::new(changed(request, "request")?, 1)?;
        Ok(Request::wait_all(&mut taken.requests)?)
    })
}

/// If the operation is complete, sets *done to 1 and the handle to NULL; otherwise sets *done to 0.
/// If the operation failed, the call returns its error and sets the handle to NULL. If the call
/// fails while the operation is in flight, for example because the target can't be reached, the
/// handle stays valid and *done is not set. Makes progress and does not wait. For NULL *done is 1.
///
/// # Safety
/// `request` points to a live handle or to NULL; `done` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_test(request: *mut *mut RequestHandle, done: *mut c_int) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (request, done) = (changed(request, "request")?, out(done, "done")?);
        let mut taken = Taken::new(request, 1)?;
        done.set(c_int::from(taken.requests.first_mut().map_or(Ok(true), Request::test)?));
        Ok(())
    })
}

/// Waits for all requests; all handles become NULL, even if some operations failed, except for
/// those that transom_request_wait would leave valid. The result is the first failure in the order
/// of the array.
///
/// # Safety
/// `requests` has `count` handles, live ones or NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_wait_all(count: u64, requests: *mut *mut RequestHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let mut taken = Taken::new(requests, count)?;
        Ok(Request::wait_all(&mut taken.requests)?)
    })
}

/// Waits for one of the requests, whose handle becomes NULL. *index is set to its index, even if
/// its operation failed. If all handles are NULL, *index is set to TRANSOM_UNDEFINED.
///
/// # Safety
/// `requests` has `count` handles, live ones or NULL; `index` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_wait_any(
    count: u64,
    requests: *mut *mut RequestHandle,
    index: *mut i64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let index = out(index, "index")?;
        let mut taken = Taken::new(requests, count)?;
        let found = Request::wait_any(&mut taken.requests);
        let first = match &found {
            Ok(first) => first.map(|first| taken.places[first]),
            Err(_) => taken.complete().next(),
        };
        index.set(first.and_then(|first| i64::try_from(first).ok()).unwrap_or(TRANSOM_UNDEFINED));
        Ok(found.map(drop)?)
    })
}

/// Waits for at least one of the requests. *done is set to the number of complete ones, including
/// those whose operation failed. Their indices are written to indices, and their handles become
/// NULL. *done is 0 if all handles are NULL.
///
/// # Safety
/// `requests` has `count` handles, live ones or NULL; `indices` has room for as many numbers;
/// `done` points to writable memory.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_wait_some(
    count: u64,
    requests: *mut *mut RequestHandle,
    done: *mut u64,
    indices: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { some(count, requests, done, indices, Request::wait_some) })
}

/// transom_request_wait_some without waiting: *done may be 0.
///
/// # Safety
/// The requirements of transom_request_wait_some.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_test_some(
    count: u64,
    requests: *mut *mut RequestHandle,
    done: *mut u64,
    indices: *mut u64,
) -> c_int {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { some(count, requests, done, indices, Request::test_some) })
}

/// # Safety
/// As for the public calls.
unsafe fn some(
    count: u64,
    requests: *mut *mut RequestHandle,
    done: *mut u64,
    indices: *mut u64,
    ask: impl FnOnce(&mut [Request]) -> transom::Result<Vec<usize>>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promises.
    let (done, indices) = unsafe { (out(done, "done")?, array_mut(indices, count, "indices")?) };
    // SAFETY: the caller's promise.
    let mut taken = unsafe { Taken::new(requests, count)? };
    let found = ask(&mut taken.requests);
    let places: Vec<usize> = match &found {
        Ok(found) => found.iter().map(|&one| taken.places[one]).collect(),
        Err(_) => taken.complete().collect(),
    };
    for (slot, &place) in indices.iter_mut().zip(&places) {
        *slot = place as u64;
    }
    done.set(places.len() as u64);
    Ok(found.map(drop)?)
}

/// Frees a request without waiting; the handle becomes NULL. The end of the epoch still completes
/// the operation.
///
/// # Safety
/// `request` points to a live handle or to NULL.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transom_request_free(request: *mut *mut RequestHandle) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let slot = changed(request, "request")?;
        if slot.is_null() {
            return Err(Failure::new(TRANSOM_ERR_ARG, "request is NULL"));
        }
        end(slot);
        Ok(())
    })
}

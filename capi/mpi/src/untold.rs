//! Requests whose operations are complete at the host, before the program knows it. A program knows
//! of a completion only when a call has returned it: a test of several requests, for example,
//! returns none of them while one is not complete (MPI-4.1 §3.7.5). The conflict checker is told
//! when the program knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom::Unreported;

use crate::host::RequestHandle;

/// The requests that are complete at the host, until a call of the program completes or frees them.
/// A call that keeps complete requests (`MPI_Request_get_status`) leaves no completions.
static COMPLETE: Mutex<Option<HashMap<RequestHandle, Unreported>>> = Mutex::new(None);

fn complete() -> MutexGuard<'static, Option<HashMap<RequestHandle, Unreported>>> {
    COMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a request whose operation is complete.
pub(crate) fn add(handle: RequestHandle, completions: Unreported) {
    complete().get_or_insert_default().insert(handle, completions);
}

/// Those of some requests that are here.
pub(crate) fn among(handles: impl Iterator<Item = RequestHandle>) -> Vec<RequestHandle> {
    let complete = complete();
    let Some(complete) = complete.as_ref() else { return Vec::new() };
    handles.filter(|handle| complete.contains_key(handle)).collect()
}

/// The program frees a request, and knows no more of its completion.
pub(crate) fn forget(handle: RequestHandle) {
    if let Some(complete) = complete().as_mut() {
        complete.remove(&handle);
    }
}

/// A call has told the program that some requests are complete: tells the checker. `keeps`: the
/// requests remain allocated.
pub(crate) fn tell(handles: impl IntoIterator<Item = RequestHandle>, keeps: bool) {
    let mut told = Unreported::default();
    if let Some(complete) = complete().as_mut() {
        for handle in handles {
            let completions = match keeps {
                true => complete.get_mut(&handle).map(std::mem::take),
                false => complete.remove(&handle),
            };
            completions.into_iter().for_each(|completions| told.append(completions));
        }
    }
    // Without the lock: the end of a loan calls the library. Fails only without the other ranks'
    // memory, which a job with the checker has.
    drop(told.tell());
}

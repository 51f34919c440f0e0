//! A stand-in for libfabric between the threads of this process, with the providers of [`model`].
//! It behaves as their manual pages and those of the interface document, and refuses calls that
//! they forbid. It models only documented behaviour: the tests show that the backend relies on
//! documented behaviour alone, not that a device works.
//!
//! Unordered: threads that read a queue perform earlier posts, in random order. A device whose
//! model is passive serves targets that make no call; otherwise the target reads its queue. Regions
//! are usable once they are registered, or, where the mode demands it, once they are bound to an
//! enabled endpoint and enabled. Descriptors of origins' buffers must be those of open regions that
//! hold the buffers. The provider's part of an operation's context is overwritten, and must keep
//! that value until the completion. Operations without delivery complete are refused,
//! because no other completion level is reliable.

#![allow(unsafe_code)]

mod info;
mod model;
mod net;
mod objects;
mod operations;

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

pub(crate) use model::FAST;
use transom_ofi::library::{Functions, Library};

/// Operations in flight of one endpoint.
const IN_FLIGHT: usize = 300;

const EINVAL: c_int = 22;
const ENOSPC: c_int = 28;
const ENODATA: c_int = 61;
const EBUSY: c_int = 16;
pub(crate) const ENOMEM: c_int = 12;
const ENOSYS: c_int = 38;
pub(crate) const EAGAIN: isize = 11;
const EAVAIL: isize = 259;
const EKEYREJECTED: c_int = 129;
const ENOKEY: c_int = 266;
const EIO: c_int = 5;
const ETOOSMALL: c_int = 257;

thread_local! {
    /// Where this thread called `fi_writemsg` last, once [`watch`] was called.
    static CALLED: Cell<Option<Backtrace>> = const { Cell::new(None) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// The error of this thread's next calls of `fi_recv`, and the number of these calls.
    static REFUSED: Cell<(isize, usize)> = const { Cell::new((0, 0)) };
    /// Whether the queues that this thread opens have descriptors.
    static DESCRIBED: Cell<bool> = const { Cell::new(false) };
}

/// Completion queues that `open` opens have a descriptor that never becomes readable, for tests in
/// which another thread takes each completion before a thread that sleeps on the descriptor.
pub(crate) fn describe_queues<T>(open: impl FnOnce() -> T) -> T {
    DESCRIBED.set(true);
    let opened = open();
    DESCRIBED.set(false);
    opened
}

fn describes_queues() -> bool {
    DESCRIBED.get()
}

/// The next `count` calls of `fi_recv` by this thread fail with `error`.
pub(crate) fn refuse_receives(error: isize, count: usize) {
    REFUSED.set((error, count));
}

/// The number of calls of `fi_recv` by this thread that will still fail.
pub(crate) fn refused_receives() -> usize {
    REFUSED.get().1
}

/// The error of this call of `fi_recv`.
fn refusal() -> Option<isize> {
    let (error, count) = REFUSED.get();
    REFUSED.set((error, count.checked_sub(1)?));
    Some(-error)
}

/// The backtrace of the last `fi_writemsg` that `post` calls in this thread.
pub(crate) fn watch(post: impl FnOnce()) -> Option<Backtrace> {
    WATCHED.set(true);
    post();
    WATCHED.set(false);
    CALLED.take()
}

fn observe() {
    if WATCHED.get() {
        CALLED.set(Some(Backtrace::force_capture()));
    }
}

/// The library, as version 2.0.
pub(crate) fn library() -> Arc<Library> {
    let functions = Functions {
        getinfo: info::getinfo,
        freeinfo: info::freeinfo,
        dupinfo: info::dupinfo,
        fabric: objects::fabric,
        strerror,
    };
    // SAFETY: the functions behave as the manual pages say, as far as the backend uses them.
    unsafe { Library::of(2 << 16, functions) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn strerror(error: c_int) -> *const c_char {
    let text = match error {
        EINVAL => c"Invalid argument",
        ENOSPC => c"No space left on device",
        ENOMEM => c"Cannot allocate memory",
        ENODATA => c"No data available",
        EKEYREJECTED => c"Key was rejected by service",
        EIO => c"Input/output error",
        ETOOSMALL => c"Provided buffer is too small",
        _ => c"Unspecified error",
    };
    text.as_ptr()
}

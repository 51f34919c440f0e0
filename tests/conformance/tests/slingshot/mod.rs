//! A stand-in for libfabric with one provider, `cxi`, between the threads of this process. It
//! behaves as man fi_cxi and the manual pages of the interface document, and refuses calls that
//! they forbid. It models only documented behaviour: the tests show that the backend relies on
//! documented behaviour alone, not that a device works.
//!
//! Unordered: any thread that reads a queue performs earlier posts, in random order; the target's
//! calls are not needed. Regions are usable only once they are bound to an enabled endpoint and
//! enabled. They are addressed by offsets, and have keys of 4 bytes; keys below 100 are those of
//! fast regions, of which there are fewer than keys. Operations without delivery complete are
//! refused, because no other completion level is reliable.
//!
//! Another library has the provider `verbs;ofi_rxm`, which requires registered origin buffers, and
//! whose process may lock few regions (`locked`). It reaches regions of `cxi`, and no rank reaches
//! its own.

#![allow(unsafe_code)]

mod info;
mod locked;
mod net;
mod objects;

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use transom_ofi::library::{Functions, GetInfo, Library};

/// Fast regions for which the device has room: fewer than keys.
pub(crate) const FAST: usize = 60;
/// Operations in flight of one endpoint.
const IN_FLIGHT: usize = 300;
/// Bytes of one copy.
const INJECT: usize = 192;
/// The devices, each of them a domain.
pub(crate) const DEVICES: [&str; 2] = ["cxi0", "cxi1"];

const EINVAL: c_int = 22;
const ENOSPC: c_int = 28;
const ENODATA: c_int = 61;
const ENOMEM: c_int = 12;
const EBUSY: c_int = 16;
const ENOSYS: c_int = 38;
const EAGAIN: isize = 11;
const EAVAIL: isize = 259;
const EKEYREJECTED: c_int = 129;
const ENOKEY: c_int = 266;
const EIO: c_int = 5;

thread_local! {
    /// Where this thread called `fi_writemsg` last, once [`watch`] was called.
    static CALLED: Cell<Option<Backtrace>> = const { Cell::new(None) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
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
    library_of(info::getinfo::<false>)
}

/// The library with the provider `verbs;ofi_rxm` in place of `cxi`.
pub(crate) fn library_of_locked() -> Arc<Library> {
    library_of(info::getinfo::<true>)
}

fn library_of(getinfo: GetInfo) -> Arc<Library> {
    let functions =
        Functions { getinfo, freeinfo: info::freeinfo, dupinfo: info::dupinfo, fabric: objects::fabric, strerror };
    // SAFETY: the functions behave as the manual pages say, as far as the backend uses them.
    unsafe { Library::of(2 << 16, functions) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn strerror(error: c_int) -> *const c_char {
    let text = match error {
        EINVAL => c"Invalid argument",
        ENOMEM => c"Cannot allocate memory",
        ENOSPC => c"No space left on device",
        ENODATA => c"No data available",
        EKEYREJECTED => c"Key was rejected by service",
        EIO => c"Input/output error",
        _ => c"Unspecified error",
    };
    text.as_ptr()
}

//! A stand-in for libfabric with one provider, `cxi`, between the threads of this process: it does what man fi_cxi and the interface's manual
//! pages document, and refuses what they rule out. It knows nothing of the device but what is documented, and shows that the
//! backend keeps to that, not that a device works.
//!
//! Unordered: what is posted is done later, in an order of chance, by whoever reads a queue next; the target's calls are not needed. Regions
//! count only once they are bound to an enabled endpoint and enabled, are addressed by offsets, and have keys of 4 bytes, below 100 those
//! of fast regions, of which there are fewer than keys. Only what asks for delivery complete may be relied on, so all else is refused.

#![allow(unsafe_code)]

mod info;
mod net;
mod objects;

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use transom_ofi::library::{Functions, Library};

/// Fast regions that the device has room for: fewer than keys.
pub(crate) const FAST: usize = 60;
/// Operations in flight of one endpoint.
const IN_FLIGHT: usize = 300;
/// What is copied at once.
const INJECT: usize = 192;
/// The devices, each of them a domain.
pub(crate) const DEVICES: [&str; 2] = ["cxi0", "cxi1"];

const EINVAL: c_int = 22;
const ENOSPC: c_int = 28;
const ENODATA: c_int = 61;
const EBUSY: c_int = 16;
const ENOSYS: c_int = 38;
const EAGAIN: isize = 11;
const EAVAIL: isize = 259;
const EKEYREJECTED: c_int = 129;
const ENOKEY: c_int = 266;
const EIO: c_int = 5;

/// The library, as version 2.0.
pub(crate) fn library() -> Arc<Library> {
    let functions = Functions {
        getinfo: info::getinfo,
        freeinfo: info::freeinfo,
        dupinfo: info::dupinfo,
        fabric: objects::fabric,
        strerror,
    };
    // SAFETY: they do what the manual pages say, as far as the backend asks.
    unsafe { Library::of(2 << 16, functions) }
}

/// # Safety
/// Called as libfabric documents it.
unsafe extern "C" fn strerror(error: c_int) -> *const c_char {
    let text = match error {
        EINVAL => c"Invalid argument",
        ENOSPC => c"No space left on device",
        ENODATA => c"No data available",
        EKEYREJECTED => c"Key was rejected by service",
        EIO => c"Input/output error",
        _ => c"Unspecified error",
    };
    text.as_ptr()
}

//! A stand-in for libfabric between the threads of this process, with the providers of [`model`].
//! It behaves as their manual pages and those of the interface document, and refuses calls that
//! they forbid. It models only documented behaviour: the tests show that the backend relies on
//! documented behaviour alone, not that a device works.
//!
//! Unordered, unless an endpoint requests order between writes: threads that read a queue perform
//! earlier posts, in random order. A device whose model is passive serves targets that make no
//! call; otherwise the target reads its queue. Regions are usable once they are registered, or,
//! where the mode demands it, once they are bound to an enabled endpoint and enabled. Descriptors
//! of origins' buffers must be those of open regions that hold the buffers and were registered for
//! such a use. Peers reach only regions that were registered for peers. The provider's part of an
//! operation's context is overwritten, and must keep that value until the completion. Operations
//! without delivery complete are refused, because no other completion level is reliable. A
//! completion queue that overflows ends the process, as does the queue of control events, through
//! which the entries of writes with data pass.

#![allow(unsafe_code)]

mod info;
mod model;
mod net;
mod objects;
mod operations;

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use transom_fabric::Memory;

pub(crate) use model::FAST;
use transom_ofi::library::{Functions, Library};
use transom_ofi::sys;

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
const EFAULT: c_int = 14;
const ETOOSMALL: c_int = 257;

thread_local! {
    /// Where this thread called `fi_writemsg` last, once [`backtrace_of_write`] was called.
    static CALLED: Cell<Option<Backtrace>> = const { Cell::new(None) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// The error of this thread's next calls of `fi_recv`, and the number of these calls.
    static REFUSED: Cell<(isize, usize)> = const { Cell::new((0, 0)) };
    /// The number of error completions that this thread will read first, of unknown operations.
    static STRAY: Cell<usize> = const { Cell::new(0) };
    /// Whether the library that this thread calls is built for memory of devices.
    static FOR_DEVICES: Cell<bool> = const { Cell::new(false) };
    /// Whether the queues that this thread opens have descriptors.
    static DESCRIBED: Cell<bool> = const { Cell::new(false) };
    /// The provider whose domains this thread can't open.
    static CLOSED: Cell<&'static str> = const { Cell::new("") };
    /// The length of the queue that this thread opened last.
    static QUEUE: Cell<usize> = const { Cell::new(0) };
    /// The number of regions that this thread has registered.
    static REGISTRATIONS: Cell<usize> = const { Cell::new(0) };
    /// The behaviour of writes with remote CQ data in the domains that this thread opens.
    static DATA: Cell<Option<Data>> = const { Cell::new(None) };
    /// The behaviour of this thread's reads.
    static READS: Cell<Reads> = const { Cell::new(Reads::Performed) };
    /// The operations and messages that this thread has posted, by kinds.
    static POSTS: RefCell<BTreeMap<&'static str, usize>> = const { RefCell::new(BTreeMap::new()) };
    /// The version of the library that this thread calls.
    static VERSION: Cell<u32> = const { Cell::new(sys::version(2, 5)) };
    /// The most open regions of each domain that this thread opens.
    static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The status of `fi_trywait` in this thread.
    static TRY_WAIT: Cell<c_int> = const { Cell::new(0) };
}

/// A provider is listed, but its domains can't be opened, as `cxi` without the launcher's keys.
pub(crate) fn without_domains<T>(provider: &'static str, open: impl FnOnce() -> T) -> T {
    CLOSED.set(provider);
    let opened = open();
    CLOSED.set("");
    opened
}

/// The process may lock little memory: each domain that `open` opens has at most `regions` regions.
pub(crate) fn with_regions<T>(regions: usize, open: impl FnOnce() -> T) -> T {
    MOST.set(regions);
    let opened = open();
    MOST.set(usize::MAX);
    opened
}

/// Whether the library serves callers of this version of the interface. `fi_getinfo` refuses a
/// version newer than the library. The stand-in also refuses a version whose structures `sys` does
/// not have: 0.0, whose registration modes differ, and versions after 1.17.
fn serves(api: u32) -> bool {
    (sys::version(1, 5)..=sys::version(1, 17).min(VERSION.get())).contains(&api)
}

/// The behaviour of writes with remote CQ data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// They are refused: the user has not set `FI_CXI_ENABLE_WRITEDATA`.
    Refused,
    /// The target has the entry once the write is complete.
    Reported,
    /// The target gets the entry some time after the completion.
    Late,
    /// The write is complete, and the target gets no entry.
    Unreported,
}

/// The behaviour of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Performed,
    /// They are not posted.
    Refused,
    /// They complete with an error.
    Failing,
}

/// Writes with data in the domains that `open` opens behave like this.
pub(crate) fn with_data<T>(data: Data, open: impl FnOnce() -> T) -> T {
    DATA.set(Some(data));
    let opened = open();
    DATA.set(None);
    opened
}

/// Reads that this thread posts during `call` behave like this.
pub(crate) fn with_reads<T>(reads: Reads, call: impl FnOnce() -> T) -> T {
    READS.set(reads);
    let result = call();
    READS.set(Reads::Performed);
    result
}

/// The operations and messages that this thread posts during `call`, by kinds.
pub(crate) fn posts(call: impl FnOnce()) -> BTreeMap<&'static str, usize> {
    POSTS.take();
    call();
    POSTS.take()
}

fn record_post(kind: &'static str) {
    POSTS.with_borrow_mut(|posts| *posts.entry(kind).or_default() += 1);
}

fn is_refused(provider: &CStr) -> bool {
    provider.to_bytes() == CLOSED.get().as_bytes()
}

/// The length of the completion queue that this thread opened last.
pub(crate) fn queue_length() -> usize {
    QUEUE.get()
}

fn record_queue(entries: usize) {
    QUEUE.set(entries);
}

/// The number of regions that this thread has registered so far.
pub(crate) fn registrations() -> usize {
    REGISTRATIONS.get()
}

fn record_registration() {
    REGISTRATIONS.set(REGISTRATIONS.get() + 1);
}

/// `fi_trywait` is a function that fails always, as that of `efa` without an object to wait for.
pub(crate) fn refuse_try_wait<T>(call: impl FnOnce() -> T) -> T {
    TRY_WAIT.set(-EINVAL);
    let result = call();
    TRY_WAIT.set(0);
    result
}

fn status_of_try_wait() -> c_int {
    TRY_WAIT.get()
}

/// Completion queues that `open` opens have a descriptor that never becomes readable, for tests in
/// which another thread takes each completion before a thread that sleeps on the descriptor.
pub(crate) fn describe_queues<T>(open: impl FnOnce() -> T) -> T {
    DESCRIBED.set(true);
    let opened = open();
    DESCRIBED.set(false);
    opened
}

/// The next `count` completions that this thread reads are errors of operations that nobody posted.
pub(crate) fn stray_errors(count: usize) {
    STRAY.set(count);
}

/// The number of such completions that this thread has not read yet.
pub(crate) fn unread_errors() -> usize {
    STRAY.get()
}

/// `opx` offers the modes of a build for memory of devices, which adds `FI_MR_HMEM`.
pub(crate) fn built_for_devices<T>(open: impl FnOnce() -> T) -> T {
    FOR_DEVICES.set(true);
    let opened = open();
    FOR_DEVICES.set(false);
    opened
}

/// Memory of `len` bytes of this value, which the kernel lets this process only read. It stays
/// until the process ends.
pub(crate) fn read_only(len: usize, value: u8) -> Memory {
    let (none, flags) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice, filled before it becomes
    // read-only.
    unsafe {
        let base = libc::mmap(none, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED, "address space");
        base.cast::<u8>().write_bytes(value, len);
        assert_eq!(libc::mprotect(base, len, libc::PROT_READ), 0);
        Memory::new(NonNull::new(base.cast()).expect("mapped"), len, None)
    }
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
pub(crate) fn backtrace_of_write(post: impl FnOnce()) -> Option<Backtrace> {
    WATCHED.set(true);
    post();
    WATCHED.set(false);
    CALLED.take()
}

fn record_write() {
    if WATCHED.get() {
        CALLED.set(Some(Backtrace::force_capture()));
    }
}

/// The library, as version 2.5.
pub(crate) fn library() -> Arc<Library> {
    library_of((2, 5))
}

/// The library, as this version, which this thread calls until it gets another one.
pub(crate) fn library_of((major, minor): (u32, u32)) -> Arc<Library> {
    VERSION.set(sys::version(major, minor));
    let functions = Functions {
        getinfo: info::getinfo,
        freeinfo: info::freeinfo,
        dupinfo: info::dupinfo,
        fabric: objects::fabric,
        strerror,
    };
    // SAFETY: the functions behave as the manual pages say, as far as the backend uses them.
    unsafe { Library::of(sys::version(major, minor), functions) }
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
        EFAULT => c"Bad address",
        ETOOSMALL => c"Provided buffer is too small",
        _ => c"Unspecified error",
    };
    text.as_ptr()
}

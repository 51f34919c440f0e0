//! Uses of memory under a window by its process: map, lock, advise, unmap, fork, wait on a
//! semaphore in it, and let another process access it by system calls. Independent of windows.

#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::os::fd::{FromRawFd as _, OwnedFd};

use transom_harness::Mapping;

/// Whole pages of this process alone; only [`Pages::replace`] unmaps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    base: usize,
    len: usize,
}

impl Pages {
    /// Zeroed pages anywhere.
    pub(crate) fn new(len: usize) -> Result<Pages> {
        map(0, len, 0)
    }

    /// Unmaps the pages and maps zeroed ones at the same addresses. It is one system call, so that
    /// no other thread maps memory there in between.
    pub(crate) fn replace(self) -> Result<Pages> {
        map(self.base, self.len, libc::MAP_FIXED)
    }

    pub(crate) fn at(self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "{offset} of {} bytes", self.len);
        (self.base + offset) as *mut u8
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    pub(crate) fn address(self) -> u64 {
        self.base as u64
    }

    pub(crate) fn fill(self, byte: u8) {
        // SAFETY: mapped and writable; no reference to the bytes exists.
        unsafe { self.at(0).write_bytes(byte, self.len) };
    }

    /// The first byte from `from` on that differs from `byte`, as its offset and value.
    pub(crate) fn other_than(self, byte: u8, from: usize) -> Option<(usize, u8)> {
        // SAFETY: mapped and readable; volatile, since another process may have written it.
        (from..self.len).map(|at| (at, unsafe { self.at(at).read_volatile() })).find(|&(_, found)| found != byte)
    }

    pub(crate) fn lock(self) -> Result<()> {
        // SAFETY: locking changes no content.
        check_errno(unsafe { libc::mlock(self.at(0).cast(), self.len) })
    }

    pub(crate) fn advise(self, advice: i32) -> Result<()> {
        // SAFETY: the advices of the tests change no content of this process.
        check_errno(unsafe { libc::madvise(self.at(0).cast(), self.len, advice) })
    }

    /// The flags of the mapping, as the kernel reports them.
    pub(crate) fn flags(self) -> Result<Vec<String>> {
        Mapping::at(self.base)?.flags()
    }
}

fn map(at: usize, len: usize, flags: i32) -> Result<Pages> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: only the test's own pages are replaced, to which no reference exists.
    let base = unsafe { libc::mmap(at as *mut libc::c_void, len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Pages { base: base.addr(), len }) }
}

fn check_errno(result: i32) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// A semaphore for several processes at the beginning of some pages.
pub(crate) fn make_semaphore(pages: Pages) -> Result<()> {
    // SAFETY: the pages are mapped and aligned, and unused so far.
    check_errno(unsafe { libc::sem_init(pages.at(0).cast(), 1, 0) })
}

/// Waits for the semaphore, some seconds at most.
pub(crate) fn wait_for_semaphore(pages: Pages, seconds: i64) -> Result<()> {
    // SAFETY: zero is a value of all fields.
    let mut until: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the semaphore was initialized there and stays; `until` is this function's own.
    check_errno(unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
        until.tv_sec += seconds;
        libc::sem_timedwait(pages.at(0).cast(), &raw const until)
    })
}

pub(crate) fn post_semaphore(pages: Pages) -> Result<()> {
    // SAFETY: the semaphore was initialized there and stays.
    check_errno(unsafe { libc::sem_post(pages.at(0).cast()) })
}

/// Writes into another process at an address, by one system call.
pub(crate) fn write_other(pid: i32, address: u64, bytes: &[u8]) -> Result<usize> {
    let here = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the call only reads the bytes; the kernel checks the other address.
    let written = unsafe { libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(written).map_err(|_| Error::last_os_error())
}

/// Reads another process at an address, by one system call.
pub(crate) fn read_other(pid: i32, address: u64, into: &mut [u8]) -> Result<usize> {
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the buffer is borrowed for the call; the kernel checks the other address.
    let read = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read).map_err(|_| Error::last_os_error())
}

/// Forks; the child exits with the value of `child`. Returns the child's exit status, 256 if it was
/// killed.
///
/// `child` runs in one thread of a process that had several: it must not allocate, lock or print.
pub(crate) fn forked(child: impl FnOnce() -> u8) -> Result<i32> {
    // SAFETY: the child runs `child`, which does only what a child of a threaded process may, and
    // ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = child();
        // SAFETY: ends the child without the parent's handlers.
        unsafe { libc::_exit(i32::from(status)) };
    }
    if pid < 0 {
        return Err(Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: the status is this function's own.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        return Err(Error::last_os_error());
    }
    Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 256 })
}

/// Runs a function first in each child of `fork`.
pub(crate) fn first_in_children(handler: extern "C" fn()) -> Result<()> {
    // SAFETY: the handler is a function of the test, which is never unloaded.
    let result = unsafe { libc::pthread_atfork(None, None, Some(as_unsafe(handler))) };
    if result == 0 { Ok(()) } else { Err(Error::from_raw_os_error(result)) }
}

fn as_unsafe(handler: extern "C" fn()) -> unsafe extern "C" fn() {
    handler
}

/// A file that may keep pages of the process: an io_uring ring, or plain memory where the kernel
/// has no io_uring.
pub(crate) fn open_ring() -> Result<OwnedFd> {
    let mut parameters = [0u64; 15];
    // SAFETY: the kernel fills 120 bytes, which are this function's own.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    match i32::try_from(fd) {
        // SAFETY: the descriptor is new, and this function owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Ok(rustix::fs::memfd_create("beside", rustix::fs::MemfdFlags::CLOEXEC)?),
    }
}

/// Ignores SIGTERM, which the launcher sends to the remaining ranks before it kills them.
pub(crate) fn ignore_termination() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

/// The minor page faults of this process so far (no device needed).
pub(crate) fn page_faults() -> i64 {
    // SAFETY: zero is a value of all fields, and the structure is this function's own.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage.ru_minflt
    }
}

/// Fills memory at an address of this process: for children, which must not look anything up.
pub(crate) fn fill(address: u64, byte: u8, len: usize) {
    // SAFETY: the callers name pages that they have mapped.
    unsafe { (address as *mut u8).write_bytes(byte, len) };
}

/// A window over some of the pages.
pub(crate) fn window_over(
    job: &transom::Job,
    pages: Pages,
    at: usize,
    len: usize,
) -> transom::Result<transom::RawWindow> {
    // SAFETY: the tests keep the pages as long as peers access them, and hold no reference to their
    // bytes.
    unsafe { transom::RawWindow::create(job, pages.at(at), len, 1, &transom::Info::new()) }
}

/// Accumulates bytes of `from` on items of `target`, or fetches them into `result` too. Complete on
/// return.
pub(crate) fn accumulate(
    win: &transom::RawWindow,
    from: &[u8],
    element: &transom::Datatype,
    result: Option<&mut [u8]>,
    target: transom::At<'_>,
    op: transom::Op,
) -> transom::Result<()> {
    let items = transom::Items::of(from.as_ptr(), from.len(), element);
    // SAFETY: the operation is flushed before the buffers are given back.
    let done = unsafe {
        match result {
            Some(into) => {
                let into = transom::Items::of_mut(into.as_mut_ptr(), into.len(), element);
                win.get_accumulate_items(items, into, target, op)
            }
            None => win.accumulate_items(items, target, op),
        }
    };
    done.and(win.flush(target.rank))
}

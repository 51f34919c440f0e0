//! Pages of this process exchanged for others with the same contents, at the same addresses, while its threads run.
//!
//! `userfaultfd(2)` protects them against writes meanwhile: whoever writes, a thread or the kernel for one, waits until the exchange is
//! over and then writes to the new pages, so that no write is lost. Between the protection and its end nothing here may write to the
//! pages, or it waits for itself: it allocates nothing, takes no lock, lets no signal handler run, and refuses pages of its own
//! stack and of what a thread has for itself.

use std::ops::Range;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::mm::UserfaultfdFlags;
use transom_fabric::Span;

use crate::mapping::Mapping;

/// How far from this thread's own memory pages have to be.
const APART: usize = 256 << 10;

/// What is looked at together: where all of it is zero, nothing is copied, so that untouched memory takes none.
const STEP: usize = 4096;

/// What pages are before they are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Of this process alone, without a file.
    Private,
    /// Of a memfd.
    Shared,
}

/// Replaces `pages`, whole pages that are mapped, by `new`, of the same length, which takes their contents before. `data` tells the next run
/// of them that has contents, from an offset on; it is asked while the pages are protected.
///
/// # Errors
/// Why it can't be done; then nothing has changed.
///
/// # Safety
/// The pages are mapped readable and writable, are not unmapped meanwhile, and nobody but page tables knows which ones they are.
pub(crate) unsafe fn exchange(
    pages: Span,
    kind: Pages,
    new: Mapping,
    mut data: impl FnMut(usize) -> Option<Range<usize>>,
) -> Result<(), String> {
    if own_memory(pages) {
        return Err("they are part of the calling thread's stack".into());
    }
    let to = new.address();
    let fd = Faults::open()?;
    let quiet = Quiet::begin().map_err(|errno| format!("pthread_sigmask: {errno}"))?;
    // SAFETY: the caller's promise; `fd` is this scope's, so that no write waits longer.
    let moved = unsafe { fd.protect(pages, kind) }.and_then(|()| {
        let mut at = 0;
        while let Some(run) = data(at).filter(|run| run.start < pages.len()) {
            let end = run.end.min(pages.len());
            // SAFETY: within both, which have one length; the pages are readable, nobody writes them, and the new ones are nobody's yet.
            unsafe { copy(pages.as_ptr(), to, run.start..end) };
            at = end;
        }
        // SAFETY: the caller's pages, whose contents the new ones have.
        unsafe { new.replace(pages) }
    });
    drop(fd);
    drop(quiet);
    if moved.is_ok() {
        std::mem::forget(new);
    }
    moved.map_err(|errno| format!("exchanging {} bytes of pages: {errno}", pages.len()))
}

/// Copies what is not zero in a range, which begins and ends at whole steps.
///
/// # Safety
/// The range is readable from `from` on, writable from `to` on, and nobody else writes either.
unsafe fn copy(from: *const u8, to: usize, range: Range<usize>) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
    for at in range.step_by(STEP) {
        let mut step = [0u64; STEP / 8];
        // SAFETY: the caller's promise: a page has a whole number of steps.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), step.as_mut_ptr().cast(), STEP) };
        if step.iter().fold(0, |any, word| any | word) != 0 {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(step.as_ptr().cast(), to.add(at), STEP) };
        }
    }
}

/// Whether pages are close to where this thread writes: its stack, and its `errno`.
fn own_memory(pages: Span) -> bool {
    let stack = 0u8;
    // SAFETY: no precondition.
    let errno = unsafe { libc::__errno_location() };
    [std::ptr::from_ref(&stack).addr(), errno.addr()].into_iter().any(|own| {
        let first = pages.as_ptr().addr();
        (first.saturating_sub(APART)..first.saturating_add(pages.len()).saturating_add(APART)).contains(&own)
    })
}

/// Signals kept from this thread until the drop: a handler might write to the pages.
struct Quiet(libc::sigset_t);

impl Quiet {
    fn begin() -> Result<Quiet, Errno> {
        // SAFETY: a set of signals is a plain array of bits.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both are sets of this scope.
        let done = unsafe {
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before)
        };
        if done == 0 { Ok(Quiet(before)) } else { Err(Errno::from_raw_os_error(done)) }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: what `begin` found in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// What waits for faults on protected pages: nobody. Its end ends the protection and lets all go on who have faulted.
struct Faults(OwnedFd);

// linux/userfaultfd.h
const API: u64 = 0xaa;
const FEATURE_WP: u64 = 1;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const MODE_WP: u64 = 2;
const PROTECT: u64 = 1;
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const UFFDIO_WRITEPROTECT: libc::Ioctl = 0xc018_aa06_u32 as libc::Ioctl;
const USERFAULTFD_IOC_NEW: libc::Ioctl = 0xaa00;

impl Faults {
    /// # Errors
    /// The kernel has no such thing, or none for this process that waits for the kernel's own writes too.
    fn open() -> Result<Faults, String> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: it is closed before this module's function returns, and serves no fault but by its end.
        let fd = match unsafe { rustix::mm::userfaultfd(flags) } {
            Ok(fd) => fd,
            Err(errno) => Faults::by_device(errno)?,
        };
        let mut api = [API, FEATURE_WP | FEATURE_WP_SHMEM, 0];
        // SAFETY: struct uffdio_api has three words.
        unsafe { call(&fd, UFFDIO_API, &mut api) }
            .map_err(|errno| format!("userfaultfd can't protect against writes (Linux 5.19 can): {errno}"))?;
        Ok(Faults(fd))
    }

    /// The other way to one, whose permissions an administrator may have opened.
    fn by_device(why: Errno) -> Result<OwnedFd, String> {
        let refused = |device: &dyn std::fmt::Display| {
            format!("userfaultfd: {why}, /dev/userfaultfd: {device} (is vm.unprivileged_userfaultfd 0?)")
        };
        let device = std::fs::File::open("/dev/userfaultfd").map_err(|error| refused(&error))?;
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the call takes flags and gives a new descriptor.
        let fd = unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, flags) };
        if fd < 0 {
            return Err(refused(&std::io::Error::last_os_error()));
        }
        // SAFETY: new, and nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Lets whoever writes to `pages` wait.
    ///
    /// # Safety
    /// As for [`exchange`].
    unsafe fn protect(&self, pages: Span, kind: Pages) -> Result<(), Errno> {
        let (start, len) = (pages.as_ptr().addr() as u64, pages.len() as u64);
        // SAFETY: struct uffdio_register has four words.
        unsafe { call(&self.0, UFFDIO_REGISTER, &mut [start, len, MODE_WP, 0]) }?;
        if kind == Pages::Private {
            // Of these only what is there can be protected; where nobody has written it is the page of zeros from now on.
            // SAFETY: the caller's pages, whose contents stay.
            unsafe { rustix::mm::madvise(pages.as_ptr().cast(), pages.len(), rustix::mm::Advice::LinuxPopulateRead) }?;
        }
        // SAFETY: struct uffdio_writeprotect has three words.
        unsafe { call(&self.0, UFFDIO_WRITEPROTECT, &mut [start, len, PROTECT]) }
    }
}

/// # Safety
/// The request takes a structure of `N` words.
unsafe fn call<const N: usize>(fd: &OwnedFd, request: libc::Ioctl, words: &mut [u64; N]) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request, words.as_mut_ptr()) };
    if done == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;
    use transom_fabric::Memory;

    /// Lets the kernel write bytes of a file into memory; how many.
    pub(crate) fn read_into(file: &impl std::os::fd::AsRawFd, memory: &Memory) -> isize {
        // SAFETY: the memory is there, and nobody holds a reference to its bytes.
        unsafe { libc::read(file.as_raw_fd(), memory.as_ptr().cast(), memory.len()) }
    }

    #[test]
    fn the_stack_of_who_calls_is_refused() {
        let mut here = [0u8; 64];
        let page = here.as_mut_ptr().wrapping_sub(here.as_ptr().addr() % STEP);
        let new = Mapping::private(STEP).expect("a page");
        // SAFETY: refused before anything is done.
        let done = unsafe { exchange(Span::from_raw(page, STEP), Pages::Private, new, |at| Some(at..STEP)) };
        assert!(done.is_err_and(|why| why.contains("stack")));
    }

    #[test]
    fn what_fails_changes_nothing() {
        let old = Mapping::private(4 * STEP).expect("pages");
        let pages = old.into_memory(4 * STEP, ());
        pages.write(0, &[1; 4 * STEP]);
        let shorter = Mapping::private(STEP).expect("a page");
        let none = Span::from_raw(pages.as_ptr().wrapping_add(1), 4 * STEP);
        // SAFETY: the kernel refuses pages that begin within one.
        let done = unsafe { exchange(none, Pages::Private, shorter, |_| None) };
        assert!(done.is_err_and(|why| why.contains("exchanging")));
        let mut seen = [0; 4 * STEP];
        pages.read(0, &mut seen);
        assert_eq!(seen, [1; 4 * STEP]);
        pages.write(0, &[2; 4 * STEP]);
    }
}

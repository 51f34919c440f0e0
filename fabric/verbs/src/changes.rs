//! Reports of the kernel about watched ranges of this process's memory that are unmapped, moved or
//! emptied (userfaultfd(2), ioctl_userfaultfd(2)). Constants and structures have the kernel's names
//! (`linux/userfaultfd.h`). Independent of registrations.
//!
//! A range is watched in the mode for write protection, but no page is ever protected, so no access
//! faults. `munmap`, `mremap` and `madvise` wait until their report is read. The kernel counts a
//! change from before its effect until its report is read; during this time [`Changes::pending`] is
//! true. A reader that finds `pending` false has therefore seen all changes.

use std::io::Error;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// Faults within the kernel are not reported, so the call needs no privilege (Linux 5.11).
const UFFD_USER_MODE_ONLY: u32 = 1;
/// The version of the interface.
const UFFD_API: u64 = 0xaa;
/// The group of the ioctls.
const UFFDIO: u8 = 0xaa;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFD_FEATURE_EVENT_REMAP: u64 = 1 << 2;
const UFFD_FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const UFFD_FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFD_EVENT_REMAP: u8 = 0x14;
const UFFD_EVENT_REMOVE: u8 = 0x15;
const UFFD_EVENT_UNMAP: u8 = 0x16;
/// The length of a report (`struct uffd_msg`): the event in the first byte, numbers from byte 8 on.
const REPORT: usize = 32;

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioWriteprotect {
    start: u64,
    len: u64,
    mode: u64,
}

#[repr(C)]
struct UffdioRange {
    start: u64,
    len: u64,
}

const UFFDIO_API: u32 = opcode::read_write::<UffdioApi>(UFFDIO, 0x3f);
const UFFDIO_REGISTER: u32 = opcode::read_write::<UffdioRegister>(UFFDIO, 0x00);
const UFFDIO_UNREGISTER: u32 = opcode::read::<UffdioRange>(UFFDIO, 0x01);
const UFFDIO_WRITEPROTECT: u32 = opcode::read_write::<UffdioWriteprotect>(UFFDIO, 0x06);

/// The reports on this process's watched ranges.
#[derive(Debug)]
pub(crate) struct Changes(OwnedFd);

impl Changes {
    /// A userfaultfd that watches no range yet.
    ///
    /// # Errors
    /// The kernel is older than 5.15, has no reports for this process, or refuses the call.
    pub(crate) fn open() -> Result<Changes, Error> {
        // Earlier kernels do not count changes that happen at the same time.
        if !is_since(&rustix::system::uname().release().to_string_lossy(), (5, 15)) {
            return Err(Errno::NOSYS.into());
        }
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        let flags = flags | UserfaultfdFlags::from_bits_retain(UFFD_USER_MODE_ONLY);
        // SAFETY: the descriptor stays in this structure, which handles no faults: it never asks
        // for them.
        let fd = unsafe { userfaultfd(flags) }?;
        let events = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
        let mut api = UffdioApi { api: UFFD_API, features: UFFD_FEATURE_PAGEFAULT_FLAG_WP | events, ioctls: 0 };
        // SAFETY: the opcode is that of UFFDIO_API, whose argument has this form.
        unsafe { ioctl(&fd, Updater::<UFFDIO_API, UffdioApi>::new(&mut api)) }?;
        Ok(Changes(fd))
    }

    /// Watches whole pages.
    ///
    /// # Errors
    /// A part of the range is not mapped, or is memory of a kind that is not reported.
    pub(crate) fn watch(&self, pages: &Range<usize>) -> Result<(), Errno> {
        let (start, len) = (pages.start as u64, pages.len() as u64);
        let mut watched = UffdioRegister { start, len, mode: UFFDIO_REGISTER_MODE_WP, ioctls: 0 };
        // SAFETY: the opcode is that of UFFDIO_REGISTER, whose argument has this form. No page is
        // protected, so accesses go on.
        unsafe { ioctl(&self.0, Updater::<UFFDIO_REGISTER, UffdioRegister>::new(&mut watched)) }
    }

    /// Ends the watch of whole pages. The kernel may then merge their mappings again.
    pub(crate) fn unwatch(&self, pages: &Range<usize>) {
        let mut unwatched = UffdioRange { start: pages.start as u64, len: pages.len() as u64 };
        // SAFETY: the opcode is that of UFFDIO_UNREGISTER, whose argument has this form.
        let outcome = unsafe { ioctl(&self.0, Updater::<UFFDIO_UNREGISTER, UffdioRange>::new(&mut unwatched)) };
        // The call fails if a part of the range was unmapped. The kernel has ended the watch of
        // that part itself.
        let _ = outcome;
    }

    /// Whether a change has begun whose report was not read yet.
    pub(crate) fn pending(&self) -> bool {
        let mut nothing = UffdioWriteprotect { start: 0, len: 0, mode: 0 };
        // SAFETY: the opcode is that of UFFDIO_WRITEPROTECT, whose argument has this form. The
        // kernel refuses the empty range, after it has looked for changes.
        let outcome = unsafe { ioctl(&self.0, Updater::<UFFDIO_WRITEPROTECT, UffdioWriteprotect>::new(&mut nothing)) };
        outcome != Err(Errno::INVAL)
    }

    /// Reads the next report, which lets the thread that made the change continue. Returns the one
    /// or two ranges that have changed.
    pub(crate) fn next(&self) -> Option<[Range<usize>; 2]> {
        let mut report = [0; REPORT];
        loop {
            match rustix::io::read(&self.0, &mut report) {
                Ok(REPORT) => {}
                Err(Errno::INTR) => continue,
                _ => return None,
            }
            if let Some(ranges) = ranges(&report) {
                return Some(ranges);
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The ranges that have changed by a report; `None` for reports of other events.
#[allow(clippy::cast_possible_truncation)] // addresses of this process
fn ranges(report: &[u8; REPORT]) -> Option<[Range<usize>; 2]> {
    let number = |at: usize| u64::from_ne_bytes(report[at..at + 8].try_into().unwrap_or_default()) as usize;
    let (first, second, third) = (number(8), number(16), number(24));
    match report[0] {
        // The old address, the new one, and the length.
        UFFD_EVENT_REMAP => Some([first..first.saturating_add(third), second..second.saturating_add(third)]),
        UFFD_EVENT_REMOVE | UFFD_EVENT_UNMAP => Some([first..second, 0..0]),
        _ => None,
    }
}

/// Whether a kernel's release is of this version or a later one.
fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    matches!((numbers.next().flatten(), numbers.next().flatten()), (Some(major), Some(minor)) if (major, minor) >= version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_miss_changes_are_refused() {
        let releases = ["4.18.0-553.el8.x86_64", "5.14.0-427.el9", "5.15.0-rc1", "6.1.0-13-amd64", "6"];
        assert_eq!(releases.map(|release| is_since(release, (5, 15))), [false, false, true, true, false]);
    }

    #[test]
    fn reports_have_the_ranges_that_the_manual_says() {
        let report = |kind: u8, numbers: [u64; 3]| {
            let mut bytes = [0; REPORT];
            bytes[0] = kind;
            for (at, number) in numbers.iter().enumerate() {
                bytes[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_ne_bytes());
            }
            ranges(&bytes)
        };
        assert_eq!(report(UFFD_EVENT_UNMAP, [0x1000, 0x3000, 0]), Some([0x1000..0x3000, 0..0]));
        assert_eq!(report(UFFD_EVENT_REMOVE, [0x1000, 0x3000, 0]), Some([0x1000..0x3000, 0..0]));
        assert_eq!(report(UFFD_EVENT_REMAP, [0x1000, 0x9000, 0x2000]), Some([0x1000..0x3000, 0x9000..0xb000]));
        assert_eq!(report(0x12, [0x1000, 0, 0]), None);
    }
}

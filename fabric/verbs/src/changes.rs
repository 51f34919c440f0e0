//! Reports of the kernel about watched ranges of this process's memory that are unmapped, moved or
//! emptied (userfaultfd(2), ioctl_userfaultfd(2)). Independent of registrations.
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

/// Faults in the kernel are not of interest, so no privilege is needed (Linux 5.11).
const USER_MODE_ONLY: u32 = 1;
/// The version of the interface, and the group of its ioctls.
const API: u64 = 0xaa;
const GROUP: u8 = 0xaa;
const WRITE_PROTECTION: u64 = 1 << 0;
const REMAP: u64 = 1 << 2;
const REMOVE: u64 = 1 << 3;
const UNMAP: u64 = 1 << 6;
const MODE_WRITE_PROTECTION: u64 = 1 << 1;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
/// Bytes of a report: its kind in the first byte, numbers from the eighth on.
const REPORT: usize = 32;

/// `struct uffdio_api`.
#[repr(C)]
struct Offer {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Watched {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct Protected {
    start: u64,
    len: u64,
    mode: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
struct Unwatched {
    start: u64,
    len: u64,
}

const OFFER: u32 = opcode::read_write::<Offer>(GROUP, 0x3f);
const WATCH: u32 = opcode::read_write::<Watched>(GROUP, 0x00);
const UNWATCH: u32 = opcode::read::<Unwatched>(GROUP, 0x01);
const PROTECT: u32 = opcode::read_write::<Protected>(GROUP, 0x06);

/// The reports on this process's watched ranges.
#[derive(Debug)]
pub(crate) struct Changes(OwnedFd);

impl Changes {
    /// Begins without a watched range.
    ///
    /// # Errors
    /// The kernel is older than 5.15, has no reports for this process, or refuses the call.
    pub(crate) fn open() -> Result<Changes, Error> {
        // Earlier kernels do not count changes that happen at the same time.
        if !is_since(&rustix::system::uname().release().to_string_lossy(), (5, 15)) {
            return Err(Errno::NOSYS.into());
        }
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        let flags = flags | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        // SAFETY: the descriptor stays in this structure, which handles no faults: it never asks
        // for them.
        let fd = unsafe { userfaultfd(flags) }?;
        let mut offer = Offer { api: API, features: WRITE_PROTECTION | REMAP | REMOVE | UNMAP, ioctls: 0 };
        // SAFETY: the opcode is that of UFFDIO_API, whose argument has this form.
        unsafe { ioctl(&fd, Updater::<OFFER, Offer>::new(&mut offer)) }?;
        Ok(Changes(fd))
    }

    /// Watches whole pages.
    ///
    /// # Errors
    /// A part of the range is not mapped, or is memory of a kind that is not reported.
    pub(crate) fn watch(&self, pages: &Range<usize>) -> Result<(), Errno> {
        let (start, len) = (pages.start as u64, pages.len() as u64);
        let mut watched = Watched { start, len, mode: MODE_WRITE_PROTECTION, ioctls: 0 };
        // SAFETY: the opcode is that of UFFDIO_REGISTER, whose argument has this form. No page is
        // protected, so accesses go on.
        unsafe { ioctl(&self.0, Updater::<WATCH, Watched>::new(&mut watched)) }
    }

    /// Ends the watch of whole pages. The kernel may then merge their mappings again.
    pub(crate) fn unwatch(&self, pages: &Range<usize>) {
        let mut unwatched = Unwatched { start: pages.start as u64, len: pages.len() as u64 };
        // SAFETY: the opcode is that of UFFDIO_UNREGISTER, whose argument has this form.
        let outcome = unsafe { ioctl(&self.0, Updater::<UNWATCH, Unwatched>::new(&mut unwatched)) };
        // The call fails if bytes of the range were unmapped; the kernel does not watch these.
        let _ = outcome;
    }

    /// Whether a change has begun whose report was not read yet.
    pub(crate) fn pending(&self) -> bool {
        let mut nothing = Protected { start: 0, len: 0, mode: 0 };
        // SAFETY: the opcode is that of UFFDIO_WRITEPROTECT, whose argument has this form. The
        // kernel refuses the empty range, after it has looked for changes.
        let outcome = unsafe { ioctl(&self.0, Updater::<PROTECT, Protected>::new(&mut nothing)) };
        outcome != Err(Errno::INVAL)
    }

    /// The next report, which lets the thread that made the change continue: up to two ranges.
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

/// The ranges that a report says to have changed.
#[allow(clippy::cast_possible_truncation)] // addresses of this process
fn ranges(report: &[u8; REPORT]) -> Option<[Range<usize>; 2]> {
    let number = |at: usize| u64::from_ne_bytes(report[at..at + 8].try_into().unwrap_or_default()) as usize;
    let (first, second, third) = (number(8), number(16), number(24));
    match report[0] {
        // The old address, the new one, and the length.
        EVENT_REMAP => Some([first..first.saturating_add(third), second..second.saturating_add(third)]),
        EVENT_REMOVE | EVENT_UNMAP => Some([first..second, 0..0]),
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
        assert_eq!(report(EVENT_UNMAP, [0x1000, 0x3000, 0]), Some([0x1000..0x3000, 0..0]));
        assert_eq!(report(EVENT_REMOVE, [0x1000, 0x3000, 0]), Some([0x1000..0x3000, 0..0]));
        assert_eq!(report(EVENT_REMAP, [0x1000, 0x9000, 0x2000]), Some([0x1000..0x3000, 0x9000..0xb000]));
        assert_eq!(report(0x12, [0x1000, 0, 0]), None);
    }
}

//! The device of the XPMEM kernel module: numbers and layouts of its calls, as in the header of
//! version 2.7, which clusters have had since 2016. Opened at run time. Must not know the use of
//! the calls.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd as _, BorrowedFd};

pub(super) const DEVICE: &str = "/dev/xpmem";

/// `_IO('x', n)`.
const fn number(n: u8) -> libc::Ioctl {
    ((b'x' as u32) << 8 | n as u32) as libc::Ioctl
}

const MAKE: libc::Ioctl = number(1);
const GET: libc::Ioctl = number(3);
const RELEASE: libc::Ioctl = number(4);
const ATTACH: libc::Ioctl = number(5);
const DETACH: libc::Ioctl = number(6);

/// A permit type: Unix permission bits.
const PERMIT_MODE: i32 = 1;
/// Only permits to read and write can be used for a mapping.
const READ_WRITE: i32 = 2;

#[repr(C)]
struct Make {
    address: u64,
    size: usize,
    permit_type: i32,
    permit: u64,
    segment: i64,
}

#[repr(C)]
struct Get {
    segment: i64,
    flags: i32,
    permit_type: i32,
    permit: u64,
    access: i64,
}

#[repr(C)]
struct Attach {
    access: i64,
    offset: i64,
    size: usize,
    /// The address at which to map, 0 for any; afterwards the address of the mapping.
    address: u64,
    fd: i32,
    flags: i32,
}

/// # Safety
/// `argument` is the structure that the call reads and fills.
unsafe fn call<T>(fd: BorrowedFd<'_>, number: libc::Ioctl, argument: &mut T) -> Result<()> {
    // SAFETY: the caller's promise; the structure is borrowed for the call.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(argument)) };
    if answer == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Lets processes of the same user map all memory of this one.
pub(super) fn make_all(fd: BorrowedFd<'_>) -> Result<i64> {
    let mut make = Make { address: 0, size: usize::MAX, permit_type: PERMIT_MODE, permit: 0o600, segment: 0 };
    // SAFETY: the structure of this call.
    unsafe { call(fd, MAKE, &mut make) }?;
    Ok(make.segment)
}

/// Gets a permit to map memory of the process that made a segment. May be called in a signal
/// handler.
pub(super) fn get(fd: BorrowedFd<'_>, segment: i64) -> Result<i64> {
    let mut get = Get { segment, flags: READ_WRITE, permit_type: PERMIT_MODE, permit: 0, access: 0 };
    // SAFETY: the structure of this call.
    unsafe { call(fd, GET, &mut get) }?;
    Ok(get.access)
}

/// Releases a permit. May be called in a signal handler.
pub(super) fn release(fd: BorrowedFd<'_>, mut access: i64) -> Result<()> {
    // SAFETY: the structure of this call is the permit.
    unsafe { call(fd, RELEASE, &mut access) }
}

/// Maps `size` bytes of the other process, from its address `offset` on, at `address`, replacing
/// the mapping there.
///
/// # Safety
/// The range belongs to the caller, and no thread uses the mapping there.
pub(super) unsafe fn attach(fd: BorrowedFd<'_>, access: i64, offset: u64, size: usize, address: usize) -> Result<()> {
    let offset = i64::try_from(offset).map_err(|_| Error::from_raw_os_error(libc::EINVAL))?;
    let mut attach = Attach { access, offset, size, address: address as u64, fd: fd.as_raw_fd(), flags: 0 };
    // SAFETY: the structure of this call; the caller's promise for the range.
    unsafe { call(fd, ATTACH, &mut attach) }?;
    debug_assert_eq!(attach.address, address as u64, "where it was asked for");
    Ok(())
}

/// Unmaps the memory that was mapped at `address`. May be called in a signal handler.
///
/// # Safety
/// No thread uses the memory any more, or its access waits for the mapping that replaces it.
pub(super) unsafe fn detach(fd: BorrowedFd<'_>, address: usize) -> Result<()> {
    let mut address = address as u64;
    // SAFETY: the structure of this call is the address; the caller's promise for the range.
    unsafe { call(fd, DETACH, &mut address) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// According to the module's header, on 64-bit machines, the only ones that it supports.
    #[test]
    fn structures_have_the_layout_of_the_modules_header() {
        assert_eq!((size_of::<Make>(), size_of::<Get>(), size_of::<Attach>()), (40, 32, 40));
        assert_eq!(std::mem::offset_of!(Make, segment), 32);
        assert_eq!(std::mem::offset_of!(Get, access), 24);
        assert_eq!(std::mem::offset_of!(Attach, address), 24);
        assert_eq!((MAKE, DETACH), (0x7801, 0x7806));
    }
}

//! Cross-memory attach: reads and writes another process's memory by `process_vm_readv(2)` and `process_vm_writev(2)`.
//! Knows nothing of regions; who may be reached is the kernel's decision.

use std::io;

use transom_fabric::Span;

/// A place in another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) pid: i32,
    pub(crate) address: u64,
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Fills `into` from the other process.
///
/// # Errors
/// ESRCH: no such process; EFAULT: not mapped there; EPERM: not allowed.
pub(crate) fn read_into(from: Remote, into: &mut [u8]) -> io::Result<()> {
    // SAFETY: `into` is borrowed for the call.
    unsafe { read(from, Span::of_mut(into)) }
}

/// Writes `bytes` into the other process.
///
/// # Errors
/// As for [`read_into`].
pub(crate) fn write_from(to: Remote, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: `bytes` is borrowed for the call.
    unsafe { write(to, Span::of(bytes)) }
}

/// Fills `into` from the other process.
///
/// # Safety
/// `into` is writable during the call, and nobody else reads or writes it.
///
/// # Errors
/// As for [`read_into`].
pub(crate) unsafe fn read(from: Remote, into: Span) -> io::Result<()> {
    // SAFETY: `into` is writable (caller); the kernel checks the remote side and answers EFAULT.
    unsafe { transfer(libc::process_vm_readv, into, from) }
}

/// Writes the bytes of `from` into the other process.
///
/// # Safety
/// `from` is readable during the call, and nobody writes it.
///
/// # Errors
/// As for [`read_into`].
pub(crate) unsafe fn write(to: Remote, from: Span) -> io::Result<()> {
    // SAFETY: `from` is readable (caller), and this call only reads it; the kernel checks the remote side.
    unsafe { transfer(libc::process_vm_writev, from, to) }
}

/// One call; more where the kernel moved only a part (at most 2 GiB at a time, or up to a page that is not mapped).
///
/// # Safety
/// `local` is what `call` needs: writable for reading, readable for writing.
unsafe fn transfer(call: Call, local: Span, remote: Remote) -> io::Result<()> {
    let mut done = 0;
    while done < local.len() {
        let left = local.len() - done;
        let ours = libc::iovec { iov_base: local.as_ptr().wrapping_add(done).cast(), iov_len: left };
        let at = usize::try_from(remote.address)
            .ok()
            .and_then(|address| address.checked_add(done))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
        let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: left };
        // SAFETY: both vectors live through the call; `ours` is inside `local`, which the caller vouches for; `theirs`
        // is never dereferenced in this process.
        let moved = unsafe { call(remote.pid, &raw const ours, 1, &raw const theirs, 1, 0) };
        match usize::try_from(moved) {
            Ok(0) => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            Ok(moved) => done += moved,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

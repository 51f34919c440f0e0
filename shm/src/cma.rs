//! Cross-memory attach: reads and writes of another process's memory by `process_vm_readv(2)` and
//! `process_vm_writev(2)`. Must not know regions. The kernel decides which processes may be
//! accessed.

use std::io;

use transom_fabric::Span;

/// An address in another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAddress {
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
/// ESRCH: the process does not exist. EFAULT: no memory is mapped there. EPERM: access is not
/// allowed.
pub(crate) fn read_into(from: RemoteAddress, into: &mut [u8]) -> io::Result<()> {
    // SAFETY: `into` is borrowed for the call.
    unsafe { read(from, Span::of_mut(into)) }
}

/// Fills `into` from the other process.
///
/// # Safety
/// `into` is writable, and not accessed otherwise, during the call.
///
/// # Errors
/// As for [`read_into`].
pub(crate) unsafe fn read(from: RemoteAddress, into: Span) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { Vector::of(into, from.address).read(from.pid) }
}

/// Writes the bytes of `from` into the other process.
///
/// # Safety
/// `from` is readable during the call, and no thread writes it.
///
/// # Errors
/// As for [`read_into`].
pub(crate) unsafe fn write(to: RemoteAddress, from: Span) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { Vector::of(from, to.address).write(to.pid) }
}

/// Pieces that one system call moves: each is a range of bytes here and an address in the other
/// process.
pub(crate) struct Vector<const N: usize> {
    ours: [libc::iovec; N],
    theirs: [libc::iovec; N],
    count: usize,
}

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

impl Vector<1> {
    pub(crate) fn of(ours: Span, address: u64) -> Vector<1> {
        let mut vector = Vector::new();
        vector.push(ours, address);
        vector
    }
}

impl<const N: usize> Vector<N> {
    pub(crate) const fn new() -> Vector<N> {
        Vector { ours: [NOTHING; N], theirs: [NOTHING; N], count: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count == N
    }

    /// Adds a piece, unless it has no bytes.
    ///
    /// # Panics
    /// If it is full.
    pub(crate) fn push(&mut self, ours: Span, address: u64) {
        if ours.is_empty() {
            return;
        }
        // An address that does not fit a pointer is not mapped in the other process either, and
        // neither is the last address.
        let there = usize::try_from(address).unwrap_or(usize::MAX);
        self.ours[self.count] = libc::iovec { iov_base: ours.as_ptr().cast(), iov_len: ours.len() };
        self.theirs[self.count] =
            libc::iovec { iov_base: std::ptr::without_provenance_mut(there), iov_len: ours.len() };
        self.count += 1;
    }

    /// Fills all pieces from the other process. The vector is empty afterwards.
    ///
    /// # Safety
    /// The pieces are writable, and not accessed otherwise, during the call.
    ///
    /// # Errors
    /// As for [`read_into`]; some pieces may have been filled.
    pub(crate) unsafe fn read(&mut self, pid: i32) -> io::Result<()> {
        // SAFETY: the pieces of this process are writable (caller).
        unsafe { self.transfer(libc::process_vm_readv, pid) }
    }

    /// Writes all pieces into the other process. The vector is empty afterwards.
    ///
    /// # Safety
    /// The pieces are readable during the call, and no thread writes them.
    ///
    /// # Errors
    /// As for [`read_into`]; some pieces may have been written.
    pub(crate) unsafe fn write(&mut self, pid: i32) -> io::Result<()> {
        // SAFETY: the pieces of this process are readable (caller), and this call only reads them.
        unsafe { self.transfer(libc::process_vm_writev, pid) }
    }

    /// Repeats the system call where the kernel moved only a part: at most 2 GiB at a time, or up
    /// to a page that is not mapped.
    ///
    /// # Safety
    /// The pieces of this process are as `call` needs them: writable for reading, readable for
    /// writing.
    unsafe fn transfer(&mut self, call: Call, pid: i32) -> io::Result<()> {
        let (mut ours, mut theirs) = (&mut self.ours[..self.count], &mut self.theirs[..self.count]);
        self.count = 0;
        while !ours.is_empty() {
            let count = ours.len() as libc::c_ulong;
            // SAFETY: both vectors live through the call. The caller vouches for the pieces of this
            // process, and so for the rest of them. The other process's addresses are never
            // dereferenced in this process, and the kernel answers EFAULT where they are not
            // mapped.
            let moved = unsafe { call(pid, ours.as_ptr(), count, theirs.as_ptr(), count, 0) };
            let mut moved = match usize::try_from(moved) {
                Ok(0) => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
                Ok(moved) => moved,
                Err(_) => return Err(io::Error::last_os_error()),
            };
            while let (Some(here), Some(there)) = (ours.first_mut(), theirs.first_mut()) {
                if moved < here.iov_len {
                    for piece in [here, there] {
                        piece.iov_base = piece.iov_base.wrapping_byte_add(moved);
                        piece.iov_len -= moved;
                    }
                    break;
                }
                moved -= here.iov_len;
                (ours, theirs) = (&mut ours[1..], &mut theirs[1..]);
            }
        }
        Ok(())
    }
}

/// # Safety
/// The span is readable, and no thread writes it, for `'a`.
#[inline]
pub(crate) unsafe fn slice_of<'a>(span: Span) -> &'a [u8] {
    if span.is_empty() {
        return &[];
    }
    // SAFETY: readable and unwritten (caller); not null, since it has bytes.
    unsafe { std::slice::from_raw_parts(span.as_ptr(), span.len()) }
}

/// # Safety
/// The span is writable, and not accessed otherwise, for `'a`.
#[inline]
pub(crate) unsafe fn slice_of_mut<'a>(span: Span) -> &'a mut [u8] {
    if span.is_empty() {
        return &mut [];
    }
    // SAFETY: writable and exclusive (caller); not null, since it has bytes.
    unsafe { std::slice::from_raw_parts_mut(span.as_ptr(), span.len()) }
}

//! Parts of a memfd mapped into this process: the only place that maps and unmaps. Knows nothing of whose they are.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use transom_fabric::{Memory, Span};

/// A shared, readable and writable mapping, unmapped when it is dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is an address range of the process, which any thread may use and unmap.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives no access to the bytes by itself.
unsafe impl Sync for Mapping {}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({:p}, {} bytes)", self.base, self.len)
    }
}

/// Keeps a mapping for its [`Memory`]; fields are dropped in this order: first unmapped, then `_after`.
struct Keep<T> {
    _mapping: Mapping,
    _after: T,
}

impl Mapping {
    /// Maps `[offset, offset + len)` of a memfd that can't shrink (sealed, or the range is the caller's to keep).
    /// `offset` is a multiple of the page size, `len` is not 0.
    ///
    /// # Errors
    /// What `mmap` answers: ENOMEM for want of address space or of mappings.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so that the kernel chooses one that is free and nothing existing is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { base, len })
    }

    /// Memory of this process alone, zeroed.
    ///
    /// # Errors
    /// As for [`Mapping::new`].
    pub(crate) fn private(len: usize) -> Result<Mapping, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as for `new`.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { base, len })
    }

    /// Moves it to where `pages` are, which are unmapped in the same step: at no time is nothing there. Allocates nothing, and calls nothing
    /// of the program's.
    ///
    /// # Errors
    /// What `mremap` answers; then nothing has changed.
    ///
    /// # Safety
    /// The pages, as many bytes as are mapped here, have the same contents, and whoever uses them may use these instead. Where it is
    /// done, the mapping is forgotten, and not dropped.
    pub(crate) unsafe fn replace(&self, pages: Span) -> Result<(), Errno> {
        debug_assert_eq!(pages.len(), self.len, "bytes replaced by others");
        let (old, to) = (self.base.as_ptr().cast(), pages.as_ptr().cast());
        // By the bare system call: UCX, where a program has it, puts a function of its own in the place of libc's, which forgets the
        // last argument, so that the pages go anywhere.
        // SAFETY: this mapping is its own; the pages are the caller's.
        let moved = unsafe { rustix::mm::mremap_fixed(old, self.len, self.len, MremapFlags::MAYMOVE, to) }?;
        debug_assert_eq!(moved.addr(), pages.as_ptr().addr(), "where a mapping was moved");
        Ok(())
    }

    /// Touches every page for writing (`MADV_POPULATE_WRITE`, Linux 5.14; earlier kernels do nothing).
    ///
    /// # Errors
    /// ENOMEM or EFAULT: there is no memory for the pages, and a later store would have been killed by a signal.
    pub(crate) fn populate(&self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping's own; populating changes no content.
        let done = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) };
        match done {
            Err(Errno::INVAL) => Ok(()),
            other => other,
        }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// The first `len` bytes (at most those mapped) as memory that keeps the mapping. `after` is dropped after the
    /// mapping is gone.
    pub(crate) fn into_memory<T: Send + Sync + 'static>(self, len: usize, after: T) -> Memory {
        assert!(len <= self.len, "{len} of {} mapped bytes", self.len);
        let base = self.base;
        let keep = Keep { _mapping: self, _after: after };
        // SAFETY: the range is mapped readable and writable until `keep`, which becomes the owner, is dropped; the
        // memfd is sealed against shrinking, so its pages stay; the address is not handed out but through Memory.
        unsafe { Memory::new(base, len, Some(Arc::new(keep))) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // By libc's function and not the bare system call: libfabric hooks it to forget what it had registered there, and would
        // otherwise write into the old pages when the same addresses are mapped and registered again (man fi_mr, memory monitors).
        // SAFETY: the range was mapped by `new` and is unmapped only here; Memory, the only way to its bytes, keeps
        // this value alive.
        let unmapped = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped == 0, "munmap of {self:?}: {}", std::io::Error::last_os_error());
    }
}

/// Memory of no bytes.
pub(crate) fn empty() -> Memory {
    Memory::private(0)
}

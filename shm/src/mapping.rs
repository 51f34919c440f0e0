//! Mappings of memfds in this process. No other module maps or unmaps memfds. Must not know the
//! owners of the memfds.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munlock};
use transom_fabric::{Cause, FabricError, Memory};

/// A shared, readable and writable mapping, unmapped when it is dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is an address range of the process, which any thread may use and unmap.
unsafe impl Send for Mapping {}
// SAFETY: any thread may use the mapping; `&Mapping` gives no access to the bytes by itself.
unsafe impl Sync for Mapping {}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({:p}, {} bytes)", self.base, self.len)
    }
}

/// Keeps a mapping for its [`Memory`]; fields are dropped in this order: first unmapped, then
/// `_after`.
struct Keep<T> {
    _mapping: Mapping,
    _after: T,
}

impl Mapping {
    /// Maps `[offset, offset + len)` of a memfd that can't shrink: it is sealed, or the caller
    /// keeps the range. `offset` is a multiple of the page size, `len` is not 0.
    ///
    /// # Errors
    /// The error of `mmap`: ENOMEM if address space or mappings are exhausted.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        Mapping::with(fd, offset, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// [`Mapping::new`] of a range in which few pages exist. The kernel allocates no page there by
    /// itself, neither if the program has locked its future memory (mlockall(2)) nor for a core
    /// dump.
    ///
    /// # Errors
    /// As for [`Mapping::new`].
    pub(crate) fn sparse(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, Errno> {
        let mapping = Mapping::with(fd, offset, len, ProtFlags::empty())?;
        let base = mapping.base.as_ptr().cast();
        // Advice: a kernel that refuses it still has the mapping.
        // SAFETY: the range is this mapping's own; neither call changes its contents.
        let _ = unsafe { (munlock(base, len), madvise(base, len, Advice::LinuxDontDump)) };
        // SAFETY: the range is this mapping's own, and no reference to its bytes exists.
        unsafe { mprotect(base, len, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(mapping)
    }

    fn with(fd: BorrowedFd<'_>, offset: u64, len: usize, protection: ProtFlags) -> Result<Mapping, Errno> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: without an address the kernel chooses a free range, so that no existing mapping
        // is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { base, len })
    }

    /// Touches every page for writing (`MADV_POPULATE_WRITE`, Linux 5.14; no effect on earlier
    /// kernels).
    ///
    /// # Errors
    /// ENOMEM or EFAULT: there is no memory for the pages, and a later store would end the process
    /// by a signal.
    pub(crate) fn populate(&self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping's own.
        unsafe { populate(self.base.as_ptr(), self.len) }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// The first `len` bytes, at most those mapped, as memory that keeps the mapping. `after` is
    /// dropped after the mapping has ended.
    pub(crate) fn into_memory<T: Send + Sync + 'static>(self, len: usize, after: T) -> Memory {
        assert!(len <= self.len, "{len} of {} mapped bytes", self.len);
        let base = self.base;
        let keep = Keep { _mapping: self, _after: after };
        // SAFETY: the range is mapped readable and writable until `keep`, which becomes the owner,
        // is dropped. The memfd is sealed against shrinking, so its pages remain. The address is
        // used only through Memory.
        unsafe { Memory::new(base, len, Some(Arc::new(keep))) }
    }

    /// `len` bytes from `at` on, which keep the mapping. Their end removes them from the page
    /// tables.
    pub(crate) fn part(self: &Arc<Mapping>, at: usize, len: usize) -> Memory {
        // SAFETY: the owner has a clone of the mapping.
        unsafe { self.kept_by(at, len, Arc::new(Used { mapping: Arc::clone(self), at, len })) }
    }

    /// [`Mapping::part`] of bytes that another part has, whose end removes them.
    pub(crate) fn second_part(self: &Arc<Mapping>, at: usize, len: usize) -> Memory {
        // SAFETY: the owner is a clone of the mapping.
        unsafe { self.kept_by(at, len, Arc::new(Arc::clone(self))) }
    }

    /// # Safety
    /// `owner` keeps this mapping.
    unsafe fn kept_by<T: Send + Sync + 'static>(&self, at: usize, len: usize, owner: Arc<T>) -> Memory {
        assert!(len <= self.len && at <= self.len - len, "{len} bytes at {at} of {} mapped bytes", self.len);
        // SAFETY: the part begins inside the mapping.
        let base = unsafe { self.base.add(at) };
        // SAFETY: as for `into_memory`: the owner keeps the mapping.
        unsafe { Memory::new(base, len, Some(owner)) }
    }
}

/// A part of a mapping that is in use.
struct Used {
    mapping: Arc<Mapping>,
    at: usize,
    len: usize,
}

impl Drop for Used {
    /// Removes the pages from the page tables, as if the part was unmapped. The pages and their
    /// contents remain; if another part uses them, its next access finds them again.
    fn drop(&mut self) {
        let page = rustix::param::page_size();
        let lead = (self.mapping.base.as_ptr().addr() + self.at) % page;
        let (at, len) = (self.at - lead, (lead + self.len).next_multiple_of(page));
        // By libc's function, as in the drop of a mapping: libfabric must forget its registrations
        // of the range. The owner of the pages may replace them, without a call of this process.
        // SAFETY: the whole pages of a range of this mapping, which begins on a page. The mapping
        // is shared, so no content changes.
        unsafe { libc::madvise(self.mapping.base.as_ptr().add(at).cast(), len, libc::MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // By libc's function, not by a bare system call: libfabric intercepts it to forget its
        // registrations of the range. Otherwise libfabric would write into the old pages when the
        // same addresses are mapped and registered again (man fi_mr, memory monitors).
        // SAFETY: the range was mapped by `new` and is unmapped only here; Memory, the only way to
        // its bytes, keeps this value alive.
        let unmapped = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped == 0, "munmap of {self:?}: {}", std::io::Error::last_os_error());
    }
}

/// # Safety
/// The pages of the range are mapped, shared and writable.
unsafe fn populate(base: *mut u8, len: usize) -> Result<(), Errno> {
    // SAFETY: the caller's promise; populating changes no content.
    match unsafe { madvise(base.cast(), len, Advice::LinuxPopulateWrite) } {
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// Touches the pages that begin in `memory`, which is part of a heap's block or mapped from a
/// peer's. The kernel allocates them on the NUMA node of this process, unless they were touched
/// before.
///
/// # Errors
/// The machine has no memory for the pages.
pub fn touch(memory: &Memory) -> Result<(), FabricError> {
    let page = rustix::param::page_size();
    let skip = memory.as_ptr().addr().wrapping_neg() % page;
    if memory.len() <= skip {
        return Ok(());
    }
    let first = memory.as_ptr().wrapping_add(skip);
    let len = (memory.len() - skip).next_multiple_of(page);
    // SAFETY: each of the pages has bytes of `memory`, whose mapping consists of whole pages,
    // shared and writable.
    let done = unsafe { populate(first, len) };
    done.map_err(|errno| FabricError::failed(format!("touching {} bytes of shared memory", memory.len()), errno))
}

/// Advises the kernel to use huge pages for the pages of `memory`, which is part of a heap's block,
/// or mapped from a peer's block by [`import_dedicated`](crate::ShmPort::import_dedicated).
/// Existing pages may remain small.
///
/// # Errors
/// The kernel has no huge pages, or no room for one more mapping.
pub fn advise_huge(memory: &Memory) -> Result<(), FabricError> {
    if memory.is_empty() {
        return Ok(());
    }
    let page = rustix::param::page_size();
    let lead = memory.as_ptr().addr() % page;
    let (first, len) = (memory.as_ptr().wrapping_sub(lead), (lead + memory.len()).next_multiple_of(page));
    // SAFETY: each of the pages has bytes of `memory`, whose mapping consists of whole pages. The
    // advice changes neither content nor access.
    let advised = unsafe { madvise(first.cast(), len, Advice::LinuxHugepage) };
    advised.map_err(|errno| FabricError::failed(format!("asking for huge pages for {len} bytes"), errno))
}

/// The kernel's answer to `mmap`, with the limit of mappings if it is reached.
pub(crate) fn refusal(errno: Errno) -> Cause {
    let number = |text: String| text.trim().parse::<u64>().ok();
    let limit = || std::fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(number);
    let maps = || std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count() as u64);
    match (errno == Errno::NOMEM).then(limit).flatten() {
        // Other threads map and unmap meanwhile.
        Some(limit) if maps() + 16 >= limit => {
            let resource = "mappings of a process (vm.max_map_count)";
            Cause::Limited { resource, limit: Some(limit), cause: Box::new(errno.into()) }
        }
        _ => errno.into(),
    }
}

/// Memory of no bytes.
pub(crate) fn empty() -> Memory {
    Memory::private(0)
}

//! A rank's heap: a sparse memfd without a name, from which the rank allocates blocks that its
//! peers can map.
//!
//! The first page has the token by which peers verify the heap. The message ring follows in the
//! next pages, and then the blocks. Dropping a block returns its memory to the kernel. Must not
//! know peers or the use of blocks.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use transom_fabric::{Cause, FabricError, Memory, Reason, Span, WeakMemory, above_streams, secret};

use crate::mapping::{self, Mapping};
use crate::ranges::Ranges;
use crate::ring;

/// The name that `/proc/<pid>/fd` shows for a heap.
pub(crate) const NAME: &str = "transom-heap";

/// The first word of every heap.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"transom1");

/// Random bits that only a process that can open the heap can know.
pub(crate) type Token = [u64; 2];

/// The options of a heap.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HeapOptions {
    /// The most bytes of blocks that the heap can hold: address space in the memfd, not memory.
    /// Default 16 TiB, more than a machine has, cut to the process's limit on file sizes
    /// (`RLIMIT_FSIZE`).
    pub capacity: u64,
    /// Blocks up to this many bytes are populated when they are allocated, larger blocks page by
    /// page at the first touch. Default 1 MiB: programs create large windows and touch only a part
    /// of them.
    pub populate_max: usize,
}

impl Default for HeapOptions {
    fn default() -> Self {
        HeapOptions { capacity: 1 << 44, populate_max: 1 << 20 }
    }
}

/// This rank's shared memory. Blocks keep the parts of it that they need, so it may be dropped
/// before them.
#[derive(Debug)]
pub struct Heap {
    core: Arc<Core>,
    header: Memory,
    token: Token,
    populate_max: usize,
    in_domain: AtomicBool,
}

/// The state that blocks need to be returned: the memfd and the list of blocks.
#[derive(Debug)]
struct Core {
    fd: OwnedFd,
    capacity: u64,
    page: u64,
    /// The process that has made the heap.
    owner: Pid,
    list: Mutex<BlockList>,
}

#[derive(Debug)]
struct BlockList {
    free: Ranges,
    /// By their address in this process.
    blocks: BTreeMap<usize, Entry>,
}

/// A listed block.
#[derive(Clone, Debug)]
struct Entry {
    /// The block's offset in the heap.
    offset: u64,
    /// The memory as allocated, which may be shorter than its pages.
    memory: WeakMemory,
    len: usize,
}

/// A range of pages that returns to the heap when it is dropped. The mapping has ended by then.
#[derive(Debug)]
struct Block {
    core: Arc<Core>,
    first: u64,
    pages: u64,
}

impl Heap {
    /// Creates a heap without blocks.
    ///
    /// # Errors
    /// `Unavailable` if the kernel has no memfd; `Failed` if a size or limit prevents it.
    pub fn create(options: HeapOptions) -> Result<Arc<Heap>, FabricError> {
        let page = rustix::param::page_size() as u64;
        let header_len = ring::OFFSET_PAGES * page + ring::BYTES.next_multiple_of(page);
        let capacity = file_size(options.capacity, header_len, page)?;
        let fd = sealed_memfd(capacity)?;
        let header = map_header(fd.as_fd(), header_len)?;
        let token = random_token()?;
        header.write(8, &token[0].to_ne_bytes());
        header.write(16, &token[1].to_ne_bytes());
        header.write(0, &MAGIC.to_ne_bytes());
        let list = BlockList { free: Ranges::new(header_len / page, capacity / page), blocks: BTreeMap::new() };
        Ok(Arc::new(Heap {
            core: Arc::new(Core { fd, capacity, page, owner: getpid(), list: Mutex::new(list) }),
            header,
            token,
            populate_max: options.populate_max,
            in_domain: AtomicBool::new(false),
        }))
    }

    /// Allocates a zeroed block of `len` bytes that begins on a page, mapped here. Its memory
    /// returns to the kernel with the last clone of the Memory.
    ///
    /// # Errors
    /// No range of that length is free, or the kernel has no memory or address space for it. Both
    /// errors name the length and the capacity.
    pub fn allocate(&self, len: usize) -> Result<Memory, FabricError> {
        self.block(len, self.populates(len))
    }

    /// [`Heap::allocate`] of a block that is populated page by page at the first touch, whatever
    /// its length.
    ///
    /// # Errors
    /// As for [`Heap::allocate`].
    pub fn reserve(&self, len: usize) -> Result<Memory, FabricError> {
        self.block(len, false)
    }

    /// Whether [`Heap::allocate`] populates a block of that length at once.
    pub fn populates(&self, len: usize) -> bool {
        len <= self.populate_max
    }

    fn block(&self, len: usize, populate: bool) -> Result<Memory, FabricError> {
        if len == 0 {
            return Ok(mapping::empty());
        }
        let core = &self.core;
        let refused = |reason: Cause| {
            let what = format!("allocating {len} bytes of a heap with a capacity of {} bytes", core.capacity);
            FabricError::failed(what, reason)
        };
        let Some(block) = Core::take(core, len) else {
            let left = core.list().free.free_pages() * core.page;
            return Err(refused(Reason::Fragmented { free: left }.into()));
        };
        // Rounded to pages, a length exceeds the address space only if `len` did, for which no
        // range was free.
        let rounded = len.next_multiple_of(rustix::param::page_size());
        let offset = block.offset();
        let mapping = Mapping::new(core.fd.as_fd(), offset, rounded)
            .map_err(|errno| refused(FabricError::failed("mmap", mapping::refusal(errno)).into()))?;
        if populate && let Err(errno) = mapping.populate() {
            drop(mapping);
            return Err(refused(part("getting pages from the system", errno)));
        }
        let address = mapping.address();
        let memory = mapping.into_memory(len, Listed { address, block });
        if let Some(weak) = memory.downgrade() {
            core.list().blocks.insert(address, Entry { offset, memory: weak, len });
        }
        Ok(memory)
    }

    /// The bytes of `span` as memory that keeps their block. `None` for no bytes, or for bytes that
    /// do not lie in one block of this heap that is in use.
    pub fn part(&self, span: Span) -> Option<Memory> {
        let (inside, _, memory) = self.block_of(span)?;
        memory.slice(inside, span.len())
    }

    /// The offset in the heap of one of its blocks, or of a range in one, in bytes; `None` for
    /// other memory, and for memory of no bytes.
    pub fn offset_of(&self, memory: &Memory) -> Option<u64> {
        let (inside, offset, _) = self.block_of(memory.span())?;
        Some(offset + inside as u64)
    }

    /// The block in use that contains these bytes: their offset in it, its offset in the heap, and
    /// its memory. Between `munmap` and the end of an entry its addresses may be those of a newer
    /// block, which may begin before them, or memory of the program.
    fn block_of(&self, span: Span) -> Option<(usize, u64, Memory)> {
        let address = span.as_ptr().addr();
        let mut end = address + 1;
        loop {
            let (start, entry) = {
                let list = self.core.list();
                list.blocks.range(..end).next_back().map(|(start, entry)| (*start, entry.clone()))?
            };
            // Outside the lock of the list: this may be the last clone, whose drop takes that lock.
            if let Some(memory) = entry.memory.upgrade() {
                let inside = within((start, entry.len), span)?;
                return Some((inside, entry.offset, memory));
            }
            end = start;
        }
    }

    /// The most bytes that the heap can hold, its header included.
    pub fn capacity(&self) -> u64 {
        self.core.capacity
    }

    /// The bytes of memory that the kernel has allocated for the heap, its header included
    /// (`st_blocks`).
    ///
    /// # Errors
    /// The error of `fstat`.
    pub fn resident(&self) -> Result<u64, FabricError> {
        let stat = rustix::fs::fstat(&self.core.fd).map_err(|errno| FabricError::failed("fstat of the heap", errno))?;
        Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
    }

    /// The identity page and the ring, as mapped here.
    pub(crate) fn header(&self) -> &Memory {
        &self.header
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.core.fd.as_fd()
    }

    pub(crate) fn fd_number(&self) -> i32 {
        self.core.fd.as_raw_fd()
    }

    /// Claims the heap for a domain. Returns true to the first caller only: a heap has one ring,
    /// and so one domain that reads it.
    pub(crate) fn claim(&self) -> bool {
        // Relaxed: it publishes no data. Only the first caller matters.
        !self.in_domain.swap(true, Ordering::Relaxed)
    }
}

impl Core {
    fn list(&self) -> MutexGuard<'_, BlockList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes pages for `len` bytes, if a range of them is free.
    fn take(core: &Arc<Core>, len: usize) -> Option<Block> {
        let pages = (len as u64).div_ceil(core.page);
        let first = core.list().free.take(pages)?;
        Some(Block { core: Arc::clone(core), first, pages })
    }
}

impl Block {
    /// The block's offset in the heap.
    fn offset(&self) -> u64 {
        self.first * self.core.page
    }
}

/// The offset of some bytes in a range of `len` bytes that begins at or before them; `None` for no
/// bytes, and for bytes that extend beyond it.
fn within((start, len): (usize, usize), span: Span) -> Option<usize> {
    let inside = span.as_ptr().addr() - start;
    (!span.is_empty() && inside < len && span.len() <= len - inside).then_some(inside)
}

/// A listed block, dropped after its mapping has ended. The drop removes it from the list, then
/// returns it to the heap.
struct Listed {
    address: usize,
    block: Block,
}

impl Drop for Listed {
    fn drop(&mut self) {
        // Between munmap and this line another allocation may have been mapped and listed at the
        // same address. The offset distinguishes its entry.
        let offset = self.block.offset();
        let mut list = self.block.core.list();
        if list.blocks.get(&self.address).is_some_and(|entry| entry.offset == offset) {
            list.blocks.remove(&self.address);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let core = &self.core;
        // A child of `fork` shares the memory, and runs destructors too if it ends by `exit`.
        if getpid() != core.owner {
            return;
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (offset, len) = (self.offset(), self.pages * core.page);
        let punched = rustix::io::retry_on_intr(|| rustix::fs::fallocate(core.fd.as_fd(), punch, offset, len));
        // A range that could not be emptied is not allocated again: its contents would not be zero.
        if punched.is_ok() {
            core.list().free.give(self.first, self.pages);
        }
    }
}

/// The size of the memfd, a multiple of the page size, within the process's limit on file sizes.
fn file_size(capacity: u64, header: u64, page: u64) -> Result<u64, FabricError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    // Above the limit the kernel would send SIGXFSZ instead of returning an error. Offsets of files
    // are signed.
    let most = limit.unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned()) / page * page;
    if most < header + page {
        return Err(FabricError::failed(
            format!("making a heap with a header of {header} bytes"),
            Reason::FileSize { limit: most },
        ));
    }
    let bytes = capacity.min(most - header).next_multiple_of(page);
    Ok((header + bytes).min(most))
}

/// The failure of a step.
fn part(what: &str, errno: Errno) -> Cause {
    FabricError::failed(what, errno).into()
}

/// A memfd of `capacity` bytes, sealed so that its size can't change and no mapping of it ever gets
/// SIGBUS.
fn sealed_memfd(capacity: u64) -> Result<OwnedFd, FabricError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // NOEXEC_SEAL exists since Linux 6.3, and some systems insist on it. Earlier kernels answer
    // EINVAL.
    let fd = match rustix::fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(NAME, flags),
        other => other,
    }
    .map_err(|errno| FabricError::unavailable("shm", part("memfd_create", errno)))?;
    let fd = above_streams(fd).map_err(|error| FabricError::failed("duplicating a descriptor", error))?;
    let what = || format!("making a heap with a capacity of {capacity} bytes");
    rustix::fs::ftruncate(&fd, capacity).map_err(|errno| FabricError::failed(what(), part("ftruncate", errno)))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals).map_err(|errno| FabricError::failed(what(), part("F_ADD_SEALS", errno)))?;
    Ok(fd)
}

fn map_header(fd: BorrowedFd<'_>, len: u64) -> Result<Memory, FabricError> {
    let failed = |errno| FabricError::failed(format!("mapping a heap's header of {len} bytes"), errno);
    let len = usize::try_from(len).map_err(|_| failed(Errno::NOMEM))?;
    let mapping = Mapping::new(fd, 0, len).map_err(failed)?;
    mapping.populate().map_err(failed)?;
    Ok(mapping.into_memory(len, ()))
}

fn random_token() -> Result<Token, FabricError> {
    let bytes: [u8; 16] = secret::bytes()?;
    let (a, b) = bytes.split_at(8);
    let word = |half: &[u8]| half.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    Ok([word(a), word(b)])
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heap(capacity: u64) -> Arc<Heap> {
        let options = HeapOptions { capacity, ..HeapOptions::default() };
        Heap::create(options).expect("a heap")
    }

    fn is_zero(memory: &Memory) -> bool {
        let mut bytes = vec![1; memory.len()];
        memory.read(0, &mut bytes);
        bytes.iter().all(|&byte| byte == 0)
    }

    #[test]
    fn dropped_blocks_return_and_come_back_zeroed() {
        let heap = heap(1 << 30);
        let before = heap.resident().expect("fstat");
        let block = heap.allocate(1 << 20).expect("1 MiB");
        block.write(5 << 17, &[7; 100]);
        let offset = heap.offset_of(&block).expect("a block of the heap");
        assert!(heap.resident().expect("fstat") >= before + (1 << 20));
        let part = block.slice(4096, 10).expect("inside");
        assert_eq!(heap.offset_of(&part), Some(offset + 4096));
        drop(block);
        assert!(heap.resident().expect("fstat") > before, "a part keeps all");
        drop(part);
        assert_eq!(heap.resident().expect("fstat"), before);
        let again = heap.allocate(1 << 20).expect("1 MiB");
        assert_eq!(heap.offset_of(&again), Some(offset));
        assert!(is_zero(&again));
    }

    /// The mapping of a block has ended and its entry has not, and a larger block covers its
    /// addresses.
    #[test]
    fn an_ended_block_hides_no_block_around_it() {
        let heap = heap(1 << 30);
        let block = heap.allocate(1 << 20).expect("1 MiB");
        let (ended, address) = (heap.allocate(4096).expect("a page"), block.as_ptr().addr() + 8192);
        let entry = Entry { offset: 0, memory: ended.downgrade().expect("an owner"), len: 4096 };
        drop(ended);
        heap.core.list().blocks.insert(address, entry);
        let part = block.slice(12288, 10).expect("inside");
        assert_eq!(heap.offset_of(&part), heap.offset_of(&block).map(|offset| offset + 12288));
        assert_eq!(heap.part(part.span()).expect("inside").as_ptr(), part.as_ptr());
    }

    #[test]
    fn no_bytes_and_memory_outside_the_heap_have_no_offset() {
        let heap = heap(1 << 20);
        let empty = heap.allocate(0).expect("legal");
        assert!(empty.is_empty());
        assert_eq!(heap.offset_of(&empty), None);
        assert_eq!(heap.offset_of(&Memory::private(64)), None);
    }

    /// Bytes in one block are found by their address and keep the block. Bytes that extend beyond
    /// the block, or are in a freed block, are not found.
    #[test]
    fn parts_are_found_by_address_and_keep_their_block() {
        let heap = heap(1 << 20);
        let before = heap.resident().expect("fstat");
        let block = heap.allocate(5000).expect("5000 bytes");
        block.write(4990, &[9; 10]);
        let base = block.as_ptr();
        let at = |first: usize, len| Span::from_raw(base.wrapping_add(first), len);
        let part = heap.part(at(4990, 10)).expect("the last bytes");
        assert_eq!(heap.offset_of(&part), heap.offset_of(&block).map(|offset| offset + 4990));
        assert!(heap.part(at(4990, 11)).is_none(), "a byte past its end");
        assert!(heap.part(at(5000, 1)).is_none(), "its last page has more bytes, which belong to no block");
        assert!(heap.part(at(8, 0)).is_none(), "no bytes");
        assert!(heap.part(Memory::private(64).span()).is_none(), "memory outside the heap");
        assert!(heap.part(at(8, usize::MAX)).is_none(), "past all addresses");
        drop(block);
        let mut kept = [0; 10];
        part.read(0, &mut kept);
        assert_eq!(kept, [9; 10]);
        assert!(heap.part(at(0, 5000)).is_some(), "kept by the part");
        drop(part);
        assert!(heap.part(at(0, 8)).is_none(), "gone");
        assert_eq!(heap.resident().expect("fstat"), before);
    }

    #[test]
    fn an_exhausted_heap_names_length_and_capacity() {
        let heap = heap(1 << 20);
        let all = heap.allocate(1 << 20).expect("as much as the capacity");
        let error = format!("{:#}", heap.allocate(1).expect_err("full"));
        assert!(error.contains("allocating 1 bytes"), "{error}");
        assert!(error.contains(&heap.capacity().to_string()), "{error}");
        drop(all);
        let error = format!("{:#}", heap.allocate(usize::MAX).expect_err("too long"));
        assert!(error.contains(&usize::MAX.to_string()), "{error}");
        assert_eq!(heap.allocate(1 << 20).expect("free again").len(), 1 << 20);
    }

    #[test]
    fn blocks_outlive_the_heap() {
        let heap = heap(1 << 20);
        let block = heap.allocate(64).expect("64 bytes");
        drop(heap);
        block.write(8, &[3; 8]);
        let mut back = [0; 8];
        block.read(8, &mut back);
        assert_eq!(back, [3; 8]);
    }

    #[test]
    fn its_size_is_sealed() {
        let heap = heap(1 << 20);
        assert_eq!(rustix::fs::ftruncate(&heap.core.fd, 0), Err(Errno::PERM));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Blocks never overlap, keep their contents, begin zeroed, and all memory returns.
        #[test]
        fn blocks_do_not_overlap(steps in proptest::collection::vec((any::<bool>(), 1usize..40_000), 1..40)) {
            let heap = heap(4 << 20);
            let before = heap.resident().expect("fstat");
            let mut held: Vec<(Memory, u64)> = Vec::new();
            for (number, (take, len)) in (1u64..).zip(steps) {
                if take {
                    let block = heap.allocate(len).expect("40 blocks fit");
                    prop_assert!(is_zero(&block));
                    prop_assert_eq!(block.as_ptr().addr() % rustix::param::page_size(), 0);
                    let fill = vec![number.to_ne_bytes()[0]; len];
                    block.write(0, &fill);
                    held.push((block, number));
                } else if !held.is_empty() {
                    held.swap_remove(len % held.len());
                }
                for (block, number) in &held {
                    let mut bytes = vec![0; block.len()];
                    block.read(0, &mut bytes);
                    prop_assert!(bytes.iter().all(|&byte| byte == number.to_ne_bytes()[0]));
                }
            }
            held.clear();
            prop_assert_eq!(heap.resident().expect("fstat"), before);
        }
    }
}

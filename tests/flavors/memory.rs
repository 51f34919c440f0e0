//! Memory by pointer, and safe wrappers of the byte-level window's unsafe calls. The wrappers
//! uphold the requirements by themselves: blocks are never freed, and an operation is flushed
//! before its buffer is given back. Contains no test.

#![allow(unsafe_code)]

use transom::{Allocation, BasicType, Datatype, Info, Items, Job, Op, RawWindow, Result, SharedPart};

#[allow(unused_imports)] // some programs use one of them
pub(crate) use transom_harness::word::{fetch, swap};

/// Zeroed memory that is leaked, so that peers may write it even after a failure; accessed by
/// pointer only.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    base: *mut u8,
    len: usize,
}

impl Block {
    /// A block of `count` words.
    pub(crate) fn words(count: usize) -> Block {
        let words = vec![0u64; count].leak();
        Block { base: words.as_mut_ptr().cast(), len: count * 8 }
    }

    /// A block of `count` words of the library's memory, which ranks of the node map.
    pub(crate) fn allocated(job: &Job, count: usize) -> Result<Block> {
        let memory = job.alloc_mem(count * 8)?;
        let block = Block { base: memory.as_ptr(), len: memory.len() };
        std::mem::forget(memory);
        Ok(block)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of a byte.
    pub(crate) fn address(&self, at: usize) -> u64 {
        self.at(at, 0).addr() as u64
    }

    fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} of a block of {}", self.len);
        self.base.wrapping_add(at)
    }

    pub(crate) fn load(&self, at: usize, into: &mut [u8]) {
        // SAFETY: within the block, to whose bytes no reference exists; the callers synchronize
        // with its writers.
        unsafe { self.at(at, into.len()).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }

    pub(crate) fn store(&self, at: usize, from: &[u8]) {
        // SAFETY: within the block, to whose bytes no reference exists; the callers synchronize
        // with its writers.
        unsafe { self.at(at, from.len()).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }

    pub(crate) fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// A window over some bytes of the block.
    pub(crate) fn window(&self, job: &Job, at: usize, len: usize, unit: u32, info: &Info) -> Result<RawWindow> {
        // SAFETY: the block is never freed, and no reference to it exists.
        unsafe { RawWindow::create(job, self.at(at, len), len, unit, info) }
    }

    pub(crate) fn attach(&self, win: &RawWindow, at: usize, len: usize) -> Result<()> {
        // SAFETY: the block is never freed, and no reference to it exists.
        unsafe { win.attach(self.at(at, len), len) }
    }

    /// Starts a put of the block's first bytes to the beginning of a part.
    pub(crate) fn put(&self, win: &RawWindow, target: usize, len: usize) -> Result<()> {
        // SAFETY: the block is never freed; the callers store into it only after the epoch.
        unsafe { win.put(self.at(0, len), len, target, 0) }
    }

    pub(crate) fn detach(&self, win: &RawWindow, at: usize) -> Result<()> {
        win.detach(self.at(at, 0))
    }
}

/// A window over some bytes of the library's memory.
pub(crate) fn window_over(
    job: &Job,
    memory: &Allocation,
    at: usize,
    len: usize,
    unit: u32,
    info: &Info,
) -> Result<RawWindow> {
    assert!(at <= memory.len() && len <= memory.len() - at, "inside of it");
    // SAFETY: the window keeps the memory alive, and no reference to it exists.
    unsafe { RawWindow::create(job, memory.as_ptr().wrapping_add(at), len, unit, info) }
}

/// A window over some bytes of this rank's part of another window.
pub(crate) fn window_over_part(job: &Job, win: &RawWindow, at: usize, len: usize) -> Result<RawWindow> {
    assert!(at <= win.size() && len <= win.size() - at, "inside of it");
    // SAFETY: the window keeps the memory alive, and no reference to it exists.
    unsafe { RawWindow::create(job, win.base().wrapping_add(at), len, 1, &Info::new()) }
}

/// A window over a part of a shared window, of whichever rank of the node.
pub(crate) fn window_over_shared(job: &Job, part: &SharedPart) -> Result<RawWindow> {
    // SAFETY: the callers free the shared window last, and no reference to its memory exists.
    unsafe { RawWindow::create(job, part.base(), part.size(), 1, &Info::new()) }
}

/// Attaches a part of a shared window, of whichever rank of the node.
pub(crate) fn attach_shared(win: &RawWindow, part: &SharedPart) -> Result<()> {
    // SAFETY: as for `window_over_shared`.
    unsafe { win.attach(part.base(), part.size()) }
}

/// A window over no memory at a null base.
pub(crate) fn window_over_nothing(job: &Job, size: usize) -> Result<RawWindow> {
    // SAFETY: a null base with a nonzero size is refused.
    unsafe { RawWindow::create(job, std::ptr::null_mut(), size, 8, &Info::new()) }
}

/// A window over more bytes than the address space has.
pub(crate) fn window_beyond_memory(job: &Job, size: usize) -> Result<RawWindow> {
    // SAFETY: no process has these bytes, so the call is refused.
    unsafe { RawWindow::create(job, std::ptr::without_provenance_mut(4096), size, 8, &Info::new()) }
}

/// Attaches more bytes than the address space has.
pub(crate) fn attach_beyond_memory(win: &RawWindow, size: usize) -> Result<()> {
    // SAFETY: no process has these bytes, so the call is refused.
    unsafe { win.attach(std::ptr::without_provenance_mut(4096), size) }
}

/// A put in a passive-target epoch, complete on return; returns the error of the call or of the
/// flush.
pub(crate) fn put(win: &RawWindow, target: usize, at: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: the operation is flushed before the call returns.
    let done = unsafe { win.put(bytes.as_ptr(), bytes.len(), target, at) };
    done.and(win.flush(target))
}

/// A put of words in a layout at the target, complete on return.
pub(crate) fn put_layout(win: &RawWindow, target: usize, at: u64, words: &[u64], to: &Datatype) -> Result<()> {
    let word = Datatype::basic(BasicType::Uint64);
    let from = Items::of(words.as_ptr().cast(), words.len(), &word);
    // SAFETY: the operation is flushed before the call returns.
    let done = unsafe { win.put_items(from, transom::At::new(target, at, 1, to)) };
    done.and(win.flush(target))
}

/// A get, complete on return.
pub(crate) fn get(win: &RawWindow, target: usize, at: u64, into: &mut [u8]) -> Result<()> {
    // SAFETY: the operation is flushed before the call returns.
    let done = unsafe { win.get(into.as_mut_ptr(), into.len(), target, at) };
    done.and(win.flush(target))
}

/// An accumulate of words, complete on return.
pub(crate) fn accumulate(win: &RawWindow, target: usize, at: u64, words: &[u64], op: Op) -> Result<()> {
    let ty = Datatype::basic(BasicType::Uint64);
    let to = transom::At::new(target, at, words.len(), &ty);
    // SAFETY: the operation is flushed before the call returns.
    let done = unsafe { win.accumulate_items(Items::of(words.as_ptr().cast(), words.len(), &ty), to, op) };
    done.and(win.flush(target))
}

/// Two accumulates that replace words, each at its address, complete on return.
pub(crate) fn accumulate_both(
    win: &RawWindow,
    target: usize,
    first: (u64, &[u64]),
    second: (u64, &[u64]),
) -> Result<()> {
    let ty = Datatype::basic(BasicType::Uint64);
    let replace = |(at, words): (u64, &[u64])| {
        let to = transom::At::new(target, at, words.len(), &ty);
        // SAFETY: the operation is flushed before the call returns.
        unsafe { win.accumulate_items(Items::of(words.as_ptr().cast(), words.len(), &ty), to, Op::Replace) }
    };
    let done = replace(first).and_then(|()| replace(second));
    done.and(win.flush(target))
}

/// `get_accumulate` of words, complete on return.
pub(crate) fn get_accumulate(
    win: &RawWindow,
    target: usize,
    at: u64,
    words: &[u64],
    old: &mut [u64],
    op: Op,
) -> Result<()> {
    let ty = Datatype::basic(BasicType::Uint64);
    let to = transom::At::new(target, at, words.len(), &ty);
    let into = Items::of_mut(old.as_mut_ptr().cast(), old.len(), &ty);
    // SAFETY: the operation is flushed before the call returns.
    let done = unsafe { win.get_accumulate_items(Items::of(words.as_ptr().cast(), words.len(), &ty), into, to, op) };
    done.and(win.flush(target))
}

/// Loads a whole part by its address.
pub(crate) fn load_part(part: &SharedPart) -> Vec<u8> {
    let mut bytes = vec![0; part.size()];
    // SAFETY: the part has that length, and the caller holds its window; the callers synchronize
    // with its writers.
    unsafe { part.base().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

/// Stores a whole part by its address.
pub(crate) fn store_part(part: &SharedPart, bytes: &[u8]) {
    assert_eq!(part.size(), bytes.len(), "the whole part");
    // SAFETY: the part has that length, and the caller holds its window; the callers synchronize
    // with its accesses.
    unsafe { part.base().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

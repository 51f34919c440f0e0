//! Memory by pointer and the byte-level window's unsafe calls, as calls that keep their promises by themselves: blocks are
//! never freed, and an operation is flushed before its buffer goes back. Knows no test.

#![allow(unsafe_code)]

use transom::{Allocation, BasicType, Datatype, Info, Items, Job, Op, RawWindow, Result, SharedPart};

/// Zeroed memory that stays to the end of the process, so that peers may write it whatever fails; touched by pointer only.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    base: *mut u8,
    len: usize,
}

impl Block {
    /// So many words.
    pub(crate) fn words(count: usize) -> Block {
        let words = vec![0u64; count].leak();
        Block { base: words.as_mut_ptr().cast(), len: count * 8 }
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
        // SAFETY: within the block, whose bytes have no references; the callers synchronize with who writes.
        unsafe { self.at(at, into.len()).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }

    pub(crate) fn store(&self, at: usize, from: &[u8]) {
        // SAFETY: as for `load`.
        unsafe { self.at(at, from.len()).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }

    pub(crate) fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// A window over some of its bytes.
    pub(crate) fn window(&self, job: &Job, at: usize, len: usize, unit: u32, info: &Info) -> Result<RawWindow> {
        // SAFETY: the block stays, and has no references.
        unsafe { RawWindow::create(job, self.at(at, len), len, unit, info) }
    }

    pub(crate) fn attach(&self, win: &RawWindow, at: usize, len: usize) -> Result<()> {
        // SAFETY: as for `window`.
        unsafe { win.attach(self.at(at, len), len) }
    }

    /// Starts a put of its first bytes to the begin of a part.
    pub(crate) fn put(&self, win: &RawWindow, target: usize, len: usize) -> Result<()> {
        // SAFETY: the block stays; callers store into it when the epoch has ended.
        unsafe { win.put(self.at(0, len), len, target, 0) }
    }

    pub(crate) fn detach(&self, win: &RawWindow, at: usize) -> Result<()> {
        win.detach(self.at(at, 0))
    }
}

/// A window over some bytes of memory of the library.
pub(crate) fn window_over(
    job: &Job,
    memory: &Allocation,
    at: usize,
    len: usize,
    unit: u32,
    info: &Info,
) -> Result<RawWindow> {
    assert!(at <= memory.len() && len <= memory.len() - at, "inside of it");
    // SAFETY: the window keeps the memory, which has no references.
    unsafe { RawWindow::create(job, memory.as_ptr().wrapping_add(at), len, unit, info) }
}

/// A window over some bytes of this rank's part of another.
pub(crate) fn window_over_part(job: &Job, win: &RawWindow, at: usize, len: usize) -> Result<RawWindow> {
    assert!(at <= win.size() && len <= win.size() - at, "inside of it");
    // SAFETY: as for `window_over`.
    unsafe { RawWindow::create(job, win.base().wrapping_add(at), len, 1, &Info::new()) }
}

/// A window over no memory at a null base.
pub(crate) fn window_over_nothing(job: &Job, size: usize) -> Result<RawWindow> {
    // SAFETY: a null base with a size is refused.
    unsafe { RawWindow::create(job, std::ptr::null_mut(), size, 8, &Info::new()) }
}

/// A put in a passive epoch that is complete when this returns; its error is that of the call or of the flush.
pub(crate) fn put(win: &RawWindow, target: usize, at: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: flushed before it returns.
    let done = unsafe { win.put(bytes.as_ptr(), bytes.len(), target, at) };
    done.and(win.flush(target))
}

/// A put of words that go where the layout says, likewise.
pub(crate) fn put_layout(win: &RawWindow, target: usize, at: u64, words: &[u64], to: &Datatype) -> Result<()> {
    let word = Datatype::basic(BasicType::Uint64);
    let from = Items::of(words.as_ptr().cast(), words.len(), &word);
    // SAFETY: flushed before it returns.
    let done = unsafe { win.put_items(from, transom::At::new(target, at, 1, to)) };
    done.and(win.flush(target))
}

/// A get, likewise.
pub(crate) fn get(win: &RawWindow, target: usize, at: u64, into: &mut [u8]) -> Result<()> {
    // SAFETY: flushed before it returns.
    let done = unsafe { win.get(into.as_mut_ptr(), into.len(), target, at) };
    done.and(win.flush(target))
}

/// Accumulates words, likewise.
pub(crate) fn accumulate(win: &RawWindow, target: usize, at: u64, words: &[u64], op: Op) -> Result<()> {
    let ty = Datatype::basic(BasicType::Uint64);
    let to = transom::At::new(target, at, words.len(), &ty);
    // SAFETY: flushed before it returns.
    let done = unsafe { win.accumulate(Items::of(words.as_ptr().cast(), words.len(), &ty), to, op) };
    done.and(win.flush(target))
}

/// `get_accumulate` of words, likewise.
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
    // SAFETY: flushed before it returns.
    let done = unsafe { win.get_accumulate(Items::of(words.as_ptr().cast(), words.len(), &ty), into, to, op) };
    done.and(win.flush(target))
}

/// `fetch_and_op` on a word.
pub(crate) fn fetch(win: &RawWindow, target: usize, at: u64, op: Op, operand: u64) -> Result<u64> {
    let mut old = [0; 8];
    win.fetch_and_op(&operand.to_ne_bytes(), &mut old, BasicType::Uint64, target, at, op)?;
    Ok(u64::from_ne_bytes(old))
}

/// `compare_and_swap` on a word.
pub(crate) fn swap(win: &RawWindow, target: usize, at: u64, expected: u64, new: u64) -> Result<u64> {
    let mut old = [0; 8];
    win.compare_and_swap(&new.to_ne_bytes(), &expected.to_ne_bytes(), &mut old, BasicType::Uint64, target, at)?;
    Ok(u64::from_ne_bytes(old))
}

/// Loads a whole part by its address.
pub(crate) fn load_part(part: &SharedPart) -> Vec<u8> {
    let mut bytes = vec![0; part.size()];
    // SAFETY: the part is as long, and the caller holds its window; callers synchronize with who writes.
    unsafe { part.base().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

/// Stores a whole part by its address.
pub(crate) fn store_part(part: &SharedPart, bytes: &[u8]) {
    assert_eq!(part.size(), bytes.len(), "the whole part");
    // SAFETY: as for `load_part`.
    unsafe { part.base().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

//! ThreadSanitizer, if the program was compiled with it (`-fsanitize=thread`): its fibers and its
//! annotations (`sanitizer/tsan_interface.h`), which the library finds by their names at run time.
//! A fiber stands for an operation that accesses memory of this process while its threads continue.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use transom_fabric::Memory;

use super::rules::Kind;

/// A switch of fibers that orders nothing.
const NO_SYNC: c_uint = 1;
/// `__tsan_memory_order_relaxed`.
const RELAXED: c_int = 0;
/// The bytes of a word, for which the sanitizer remembers a few accesses.
const WORD: usize = 8;

/// The functions of the sanitizer.
#[derive(Debug)]
pub(super) struct Sanitizer {
    current: unsafe extern "C" fn() -> *mut c_void,
    create: unsafe extern "C" fn(c_uint) -> *mut c_void,
    switch: unsafe extern "C" fn(*mut c_void, c_uint),
    name: unsafe extern "C" fn(*mut c_void, *const c_char),
    acquire: unsafe extern "C" fn(*mut c_void),
    release: unsafe extern "C" fn(*mut c_void),
    read: Plain,
    write: Plain,
    enter: unsafe extern "C" fn(*const c_void),
    leave: unsafe extern "C" fn(),
    atomic: Atomic,
    /// The beginning and the end of a range of code whose writes the sanitizer ignores.
    ignore: [unsafe extern "C" fn(*const c_char, c_int); 2],
}

/// The functions for accesses that are not atomic, with the place of the program: to whole words,
/// and to aligned parts of a word, by the binary logarithm of their bytes. The function for words
/// would divide a part into bytes, of which the sanitizer remembers only a few for each word.
#[derive(Debug)]
struct Plain {
    words: unsafe extern "C" fn(*mut c_void, c_ulong, *const c_void),
    parts: [unsafe extern "C" fn(*mut c_void, *const c_void); 3],
}

/// The functions for atomic changes and loads, by the number of bytes.
#[derive(Debug)]
struct Atomic {
    combine8: unsafe extern "C" fn(*mut u64, u64, c_int) -> u64,
    combine4: unsafe extern "C" fn(*mut u32, u32, c_int) -> u32,
    combine1: unsafe extern "C" fn(*mut u8, u8, c_int) -> u8,
    load8: unsafe extern "C" fn(*const u64, c_int) -> u64,
    load4: unsafe extern "C" fn(*const u32, c_int) -> u32,
    load1: unsafe extern "C" fn(*const u8, c_int) -> u8,
}

/// A fiber of the sanitizer, which never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fiber(usize);

/// An object by which the sanitizer orders threads and fibers: a thread that acquires the mark is
/// ordered after all threads that released it before. The box gives the mark a unique address.
#[derive(Debug, Default)]
pub(super) struct Mark(Box<u64>);

/// A use of bytes of this process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Touched<'m> {
    /// Bytes by address.
    Named { address: usize, len: usize, written: bool },
    /// Bytes of a part, as one-sided operations use them: accumulates are atomic. Other accesses to
    /// an aligned word are atomic too, so that a program may poll the word by atomic loads.
    Part { memory: &'m Memory, at: usize, len: usize, kind: Kind },
    /// Bytes of memory that stands for a part: only accumulates are atomic.
    Mirror { memory: &'m Memory, at: usize, len: usize, kind: Kind },
}

impl Sanitizer {
    /// The sanitizer of this process.
    pub(super) fn find() -> Option<&'static Sanitizer> {
        static FOUND: OnceLock<Option<Sanitizer>> = OnceLock::new();
        // SAFETY: the types are those of `sanitizer/tsan_interface.h` and of
        // `sanitizer/tsan_interface_atomic.h`.
        FOUND
            .get_or_init(|| unsafe {
                Some(Sanitizer {
                    current: function(c"__tsan_get_current_fiber")?,
                    create: function(c"__tsan_create_fiber")?,
                    switch: function(c"__tsan_switch_to_fiber")?,
                    name: function(c"__tsan_set_fiber_name")?,
                    acquire: function(c"__tsan_acquire")?,
                    release: function(c"__tsan_release")?,
                    read: Plain {
                        words: function(c"__tsan_read_range_pc")?,
                        parts: [
                            function(c"__tsan_read1_pc")?,
                            function(c"__tsan_read2_pc")?,
                            function(c"__tsan_read4_pc")?,
                        ],
                    },
                    write: Plain {
                        words: function(c"__tsan_write_range_pc")?,
                        parts: [
                            function(c"__tsan_write1_pc")?,
                            function(c"__tsan_write2_pc")?,
                            function(c"__tsan_write4_pc")?,
                        ],
                    },
                    enter: function(c"__tsan_func_entry")?,
                    leave: function(c"__tsan_func_exit")?,
                    atomic: Atomic {
                        combine8: function(c"__tsan_atomic64_fetch_or")?,
                        combine4: function(c"__tsan_atomic32_fetch_or")?,
                        combine1: function(c"__tsan_atomic8_fetch_or")?,
                        load8: function(c"__tsan_atomic64_load")?,
                        load4: function(c"__tsan_atomic32_load")?,
                        load1: function(c"__tsan_atomic8_load")?,
                    },
                    ignore: [function(c"AnnotateIgnoreWritesBegin")?, function(c"AnnotateIgnoreWritesEnd")?],
                })
            })
            .as_ref()
    }

    /// Identifies the calling thread, by the address of its fiber.
    pub(super) fn thread(&self) -> usize {
        // SAFETY: the sanitizer is there, so this thread has a fiber.
        unsafe { (self.current)() }.addr()
    }

    /// A fiber that is ordered after what this thread has done so far.
    pub(super) fn fiber(&self) -> Fiber {
        // SAFETY: the sanitizer allows fibers at any time.
        Fiber(unsafe { (self.create)(0) }.expose_provenance())
    }

    /// A fiber that is ordered after what `maker` has done so far.
    pub(super) fn fiber_by(&self, maker: Fiber) -> Fiber {
        let mut made = maker;
        self.on(maker, || made = self.fiber());
        made
    }

    /// Runs `body` as `fiber`. No other thread runs this fiber at the same time.
    pub(super) fn on(&self, fiber: Fiber, body: impl FnOnce()) {
        struct Back<'s>(&'s Sanitizer, *mut c_void);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                // SAFETY: the fiber of this thread, which is not destroyed while the thread runs.
                unsafe { (self.0.switch)(self.1, NO_SYNC) };
            }
        }
        // SAFETY: as in `thread`; the fiber is one of `Sanitizer::fiber`, and never destroyed.
        let _back = unsafe {
            let own = (self.current)();
            (self.switch)(std::ptr::with_exposed_provenance_mut(fiber.0), NO_SYNC);
            Back(self, own)
        };
        body();
    }

    /// Runs `body`, which allocates or frees memory. The sanitizer ignores its writes.
    pub(super) fn ignoring<R>(&self, body: impl FnOnce() -> R) -> R {
        // SAFETY: the sanitizer reads neither argument. Each beginning has its end, in this thread.
        unsafe { (self.ignore[0])(std::ptr::null(), 0) };
        let done = body();
        // SAFETY: as above.
        unsafe { (self.ignore[1])(std::ptr::null(), 0) };
        done
    }

    /// Names a fiber in reports.
    pub(super) fn name_fiber(&self, fiber: Fiber, name: &str) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: a fiber of `Sanitizer::fiber`; the sanitizer copies the name.
        unsafe { (self.name)(std::ptr::with_exposed_provenance_mut(fiber.0), name.as_ptr()) };
    }

    pub(super) fn acquire(&self, mark: &Mark) {
        // SAFETY: the sanitizer uses the address as a name.
        unsafe { (self.acquire)(mark.address()) };
    }

    pub(super) fn release(&self, mark: &Mark) {
        // SAFETY: as in `acquire`.
        unsafe { (self.release)(mark.address()) };
    }

    /// Reports an access to bytes, made at `place` of the program.
    pub(super) fn access(&self, touched: Touched<'_>, place: usize) {
        match touched {
            Touched::Named { address, len, written } => self.range(address, len, written, place),
            Touched::Part { memory, at, len, kind } | Touched::Mirror { memory, at, len, kind } => {
                let span = memory.span();
                if at.checked_add(len).is_none_or(|end| end > memory.len()) {
                    return;
                }
                let (bytes, reads) = (span.as_ptr().wrapping_add(at), kind.only_reads());
                let is_word = matches!(len, 4 | 8) && bytes.addr().is_multiple_of(len);
                let is_polled = is_word && matches!(touched, Touched::Part { .. });
                if !is_polled && !kind.combines() {
                    return self.range(bytes.addr(), len, !reads, place);
                }
                // SAFETY: the memory has these bytes, writable. Operations on words are atomic too.
                unsafe {
                    (self.enter)(std::ptr::without_provenance(place));
                    self.atomics(bytes, len, reads);
                    (self.leave)();
                }
            }
        }
    }

    fn range(&self, address: usize, len: usize, written: bool, place: usize) {
        let plain = if written { &self.write } else { &self.read };
        let pc = std::ptr::without_provenance(place);
        for (at, size) in pieces(address, len, usize::MAX) {
            let bytes = std::ptr::without_provenance_mut(at);
            // SAFETY: the sanitizer accesses its records of the bytes, not the bytes.
            unsafe {
                match plain.parts.get(size.trailing_zeros() as usize).filter(|_| size < WORD) {
                    Some(part) => part(bytes, pc),
                    None => (plain.words)(bytes, size as c_ulong, pc),
                }
            }
        }
    }

    /// Reports atomic accesses to `len` bytes, in the widest aligned words.
    ///
    /// # Safety
    /// The bytes are mapped and writable.
    unsafe fn atomics(&self, bytes: *mut u8, len: usize, reads: bool) {
        for (at, size) in pieces(bytes.addr(), len, WORD) {
            let at = bytes.with_addr(at);
            // SAFETY: within the bytes, aligned for the word.
            unsafe {
                match (size, reads) {
                    (8, true) => _ = (self.atomic.load8)(at.cast(), RELAXED),
                    (8, false) => _ = (self.atomic.combine8)(at.cast(), 0, RELAXED),
                    (4, true) => _ = (self.atomic.load4)(at.cast(), RELAXED),
                    (4, false) => _ = (self.atomic.combine4)(at.cast(), 0, RELAXED),
                    (_, true) => (0..size).for_each(|byte| _ = (self.atomic.load1)(at.add(byte), RELAXED)),
                    (_, false) => (0..size).for_each(|byte| _ = (self.atomic.combine1)(at.add(byte), 0, RELAXED)),
                }
            }
        }
    }
}

/// Divides `len` bytes at an address into aligned pieces: whole words, at most `most` bytes of them
/// together, and the widest powers of two before and behind them.
fn pieces(address: usize, len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let (mut at, mut left) = (address, len);
    std::iter::from_fn(move || {
        let aligned = 1 << at.trailing_zeros().min(WORD.trailing_zeros());
        let size = match left {
            0 => return None,
            WORD.. if aligned == WORD => (left / WORD * WORD).min(most),
            _ => aligned.min(1 << left.ilog2()),
        };
        let piece = (at, size);
        (at, left) = (at.wrapping_add(size), left - size);
        Some(piece)
    })
}

impl Mark {
    fn address(&self) -> *mut c_void {
        std::ptr::from_ref(&*self.0).cast_mut().cast()
    }
}

/// A function of the process: of the objects after this one if they have it, because this library
/// may have functions of the same names.
///
/// # Safety
/// `F` is the type of the function with that name.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    // SAFETY: the name ends with a zero byte.
    let find = |from| NonNull::new(unsafe { libc::dlsym(from, name.as_ptr()) });
    let found = find(libc::RTLD_NEXT).or_else(|| find(libc::RTLD_DEFAULT))?;
    // SAFETY: the caller's promise.
    Some(unsafe { std::mem::transmute_copy(&found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_cover_the_bytes_once() {
        let all = |address, len, most| pieces(address, len, most).collect::<Vec<_>>();
        assert_eq!(all(0x1004, 4, WORD), [(0x1004, 4)]);
        assert_eq!(all(0x1006, 30, usize::MAX), [(0x1006, 2), (0x1008, 24), (0x1020, 4)]);
        assert_eq!(all(0x1000, 16, WORD), [(0x1000, 8), (0x1008, 8)]);
        assert_eq!(all(0x1001, 7, WORD), [(0x1001, 1), (0x1002, 2), (0x1004, 4)]);
        assert_eq!(all(0x1000, 7, WORD), [(0x1000, 4), (0x1004, 2), (0x1006, 1)]);
        assert!(all(0x1000, 0, WORD).is_empty());
    }
}

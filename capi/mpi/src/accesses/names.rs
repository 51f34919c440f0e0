//! The functions of ThreadSanitizer (`sanitizer/tsan_interface.h`, `tsan_interface_atomic.h`) that
//! compilers call for the accesses of a program, under their names.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{ATOMIC_LEN, ATOMIC_START, PLAIN_LEN, PLAIN_START, atomic_begins, atomic_ends, record_access};

/// `RTLD_DEFAULT`: the first object that has a name. `RTLD_NEXT`: the objects after this one.
const FIRST: *mut c_void = std::ptr::null_mut();
const NEXT: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

// SAFETY: the declaration is that of dlfcn.h.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The address of a function of ThreadSanitizer, cached in `known`. Null if the process has no
/// ThreadSanitizer; then no code calls the functions of this module.
fn find(name: &CStr, known: &AtomicPtr<c_void>) -> *mut c_void {
    // Relaxed: all threads find the same.
    let found = known.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { dlsym(NEXT, name.as_ptr()) };
    known.store(found, Ordering::Relaxed);
    found
}

/// Whether the program's accesses call the functions here: the process has ThreadSanitizer, and it
/// follows this library in the order of symbols.
pub(super) fn are_called() -> bool {
    // SAFETY: the name ends with a zero byte.
    let [first, next] = [FIRST, NEXT].map(|from| unsafe { dlsym(from, c"__tsan_read8".as_ptr()) });
    !next.is_null() && first != next
}

/// Passes a load or store of bytes that may be watched on to ThreadSanitizer, and records it.
///
/// # Safety
/// The program has called a function of ThreadSanitizer for these bytes, which returns to `place`.
unsafe fn report(at: *mut c_void, len: usize, written: bool, place: *const c_void) {
    type Range = unsafe extern "C" fn(*mut c_void, usize, *const c_void);
    static RANGES: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
    const NAMES: [&CStr; 2] = [c"__tsan_read_range_pc", c"__tsan_write_range_pc"];
    let which = usize::from(written);
    let found = find(NAMES[which], &RANGES[which]);
    if !found.is_null() {
        // SAFETY: the function has this type.
        unsafe { std::mem::transmute::<*mut c_void, Range>(found)(at, len, place) };
    }
    record_access(at.addr(), len, written, Some(place.addr()));
}

/// Jumps to ThreadSanitizer's function (`real`), or to `watched` if the first argument is an
/// address in the hull. `watched` gets the return address as its second or third argument.
#[cfg(target_arch = "x86_64")]
macro_rules! unless_watched {
    (second, $($rest:tt)*) => { unless_watched!(@ "mov rsi, [rsp]", $($rest)*) };
    (third, $($rest:tt)*) => { unless_watched!(@ "mov rdx, [rsp]", $($rest)*) };
    (none, $($rest:tt)*) => { unless_watched!(@ "", $($rest)*) };
    (@ $place:literal, $start:path, $len:path, $real:path, $watched:path) => {
        naked_asm!(
            "mov rax, rdi",
            "sub rax, qword ptr [rip + {start}]",
            "cmp rax, qword ptr [rip + {len}]",
            "jb 2f",
            "jmp qword ptr [rip + {real}]",
            "2:",
            $place,
            "jmp {watched}",
            start = sym $start,
            len = sym $len,
            real = sym $real,
            watched = sym $watched,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! unless_watched {
    (second, $($rest:tt)*) => { unless_watched!(@ "mov x1, x30", $($rest)*) };
    (third, $($rest:tt)*) => { unless_watched!(@ "mov x2, x30", $($rest)*) };
    (none, $($rest:tt)*) => { unless_watched!(@ "", $($rest)*) };
    (@ $place:literal, $start:path, $len:path, $real:path, $watched:path) => {
        naked_asm!(
            "adrp x16, {start}",
            "ldr x16, [x16, :lo12:{start}]",
            "sub x16, x0, x16",
            "adrp x17, {len}",
            "ldr x17, [x17, :lo12:{len}]",
            "cmp x16, x17",
            "b.lo 2f",
            "adrp x16, {real}",
            "ldr x16, [x16, :lo12:{real}]",
            "br x16",
            "2:",
            $place,
            "b {watched}",
            start = sym $start,
            len = sym $len,
            real = sym $real,
            watched = sym $watched,
        )
    };
}

/// A name that ends with a zero byte.
const fn name_of(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// Defines a function under a name of ThreadSanitizer. It jumps to ThreadSanitizer's function,
/// whose address is in the variable `$real`, or for watched memory to the function `$watched`.
macro_rules! named {
    ($name:literal, $real:ident, $place:ident $start:ident $len:ident, $watched:item) => {
        const _: () = {
            static $real: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

            $watched

            // SAFETY: the name and the meaning are ThreadSanitizer's. The function is a jump, which
            // leaves the program's arguments in place.
            #[unsafe(export_name = $name)]
            #[unsafe(naked)]
            unsafe extern "C" fn entry() {
                unless_watched!($place, $start, $len, $real, watched)
            }

            extern "C" fn find_it() {
                find(name_of(concat!($name, "\0")), &$real);
            }

            // SAFETY: the section is an array of such functions, which the loader calls once.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static FIND: extern "C" fn() = find_it;
        };
    };
}

/// Loads and stores of some bytes.
macro_rules! plain {
    ($($name:literal $len:literal $written:literal;)*) => {$(
        named! {
            $name, REAL, second PLAIN_START PLAIN_LEN,
            /// # Safety
            /// The program calls it as the function of that name.
            unsafe extern "C" fn watched(at: *mut c_void, place: *const c_void) {
                // SAFETY: the program's call.
                unsafe { report(at, $len, $written, place) };
            }
        }
    )*};
}

/// Loads and stores of a range.
macro_rules! ranges {
    ($($name:literal $written:literal;)*) => {$(
        named! {
            $name, REAL, third PLAIN_START PLAIN_LEN,
            /// # Safety
            /// The program calls it as the function of that name.
            unsafe extern "C" fn watched(at: *mut c_void, len: usize, place: *const c_void) {
                // SAFETY: the program's call.
                unsafe { report(at, len, $written, place) };
            }
        }
    )*};
}

plain! {
    "__tsan_read1" 1 false;
    "__tsan_read2" 2 false;
    "__tsan_read4" 4 false;
    "__tsan_read8" 8 false;
    "__tsan_read16" 16 false;
    "__tsan_write1" 1 true;
    "__tsan_write2" 2 true;
    "__tsan_write4" 4 true;
    "__tsan_write8" 8 true;
    "__tsan_write16" 16 true;
    "__tsan_unaligned_read2" 2 false;
    "__tsan_unaligned_read4" 4 false;
    "__tsan_unaligned_read8" 8 false;
    "__tsan_unaligned_read16" 16 false;
    "__tsan_unaligned_write2" 2 true;
    "__tsan_unaligned_write4" 4 true;
    "__tsan_unaligned_write8" 8 true;
    "__tsan_unaligned_write16" 16 true;
}

ranges! {
    "__tsan_read_range" false;
    "__tsan_write_range" true;
}

/// A word of atomics.
trait Word: Copy + PartialEq {
    /// Loads a word by ThreadSanitizer's function.
    ///
    /// # Safety
    /// The program has called another atomic of ThreadSanitizer for the word.
    unsafe fn load(at: *mut Self, order: c_int) -> Self;
}

macro_rules! words {
    ($($word:ident $name:literal;)*) => {$(
        impl Word for $word {
            unsafe fn load(at: *mut $word, order: c_int) -> $word {
                static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let found = find($name, &REAL);
                // SAFETY: the function has this type, and the word is readable.
                unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut $word, c_int) -> $word>(found)(at, order)
                }
            }
        }
    )*};
}

words! {
    u8 c"__tsan_atomic8_load";
    u16 c"__tsan_atomic16_load";
    u32 c"__tsan_atomic32_load";
    u64 c"__tsan_atomic64_load";
}

/// The value of a word from which a compare-and-swap fails, because it expects another one. The
/// compare-and-swap is then an atomic load, which publishes no clock.
///
/// # Safety
/// As for [`Word::load`].
unsafe fn fails<W: Word>(at: *mut W, expected: W, failing: c_int) -> Option<W> {
    // SAFETY: the caller's promise.
    let found = unsafe { W::load(at, failing) };
    (found != expected).then(|| {
        atomic_ends(at.addr(), size_of::<W>(), false, true);
        found
    })
}

/// Atomics on words of a type. The last arguments are memory orders. Whatever the order, an atomic
/// that may change the word publishes this rank's clock, and an atomic that reads the word learns
/// the clocks that were published there.
macro_rules! atomics {
    ($word:ident: $($name:literal $kind:ident;)*) => {$(atomics!(@ $kind, $word, $name);)*};
    (@ load, $word:ident, $name:literal) => {
        atomics!(@@ false true false, $name, (at: *mut $word, order: c_int) -> $word, {});
    };
    (@ store, $word:ident, $name:literal) => {
        atomics!(@@ true false false, $name, (at: *mut $word, value: $word, order: c_int) -> (), {});
    };
    (@ update, $word:ident, $name:literal) => {
        atomics!(@@ true true false, $name, (at: *mut $word, value: $word, order: c_int) -> $word, {});
    };
    (@ compare, $word:ident, $name:literal) => {
        atomics!(@@ true true true, $name,
            (at: *mut $word, expected: *mut $word, value: $word, order: c_int, failing: c_int) -> c_int, {
                // SAFETY: the program's call, with a readable and writable variable.
                if let Some(found) = unsafe { fails(at, *expected, failing) } {
                    // SAFETY: as above.
                    unsafe { *expected = found };
                    return 0;
                }
            });
    };
    (@ compare_value, $word:ident, $name:literal) => {
        atomics!(@@ true true true, $name,
            (at: *mut $word, expected: $word, value: $word, order: c_int, failing: c_int) -> $word, {
                // SAFETY: the program's call.
                if let Some(found) = unsafe { fails(at, expected, failing) } {
                    return found;
                }
            });
    };
    (@@ $writes:literal $reads:literal $compares:literal, $name:literal,
        ($at:ident: *mut $word:ty, $($more:ident: $ty:ty),*) -> $out:ty, $first:block) => {
        named! {
            $name, REAL, none ATOMIC_START ATOMIC_LEN,
            /// # Safety
            /// The program calls it as the function of that name.
            unsafe extern "C" fn watched($at: *mut $word, $($more: $ty),*) -> $out {
                $first
                let found = find(name_of(concat!($name, "\0")), &REAL);
                // SAFETY: ThreadSanitizer's function, which the program has called, has this type.
                let real = unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut $word, $($ty),*) -> $out>(found)
                };
                if $writes {
                    atomic_begins($at.addr(), size_of::<$word>(), $reads, $compares);
                }
                // SAFETY: the program's call.
                let result = unsafe { real($at, $($more),*) };
                atomic_ends($at.addr(), size_of::<$word>(), $writes, $reads);
                result
            }
        }
    };
}

atomics! { u8:
    "__tsan_atomic8_load" load;
    "__tsan_atomic8_store" store;
    "__tsan_atomic8_exchange" update;
    "__tsan_atomic8_fetch_add" update;
    "__tsan_atomic8_fetch_sub" update;
    "__tsan_atomic8_fetch_and" update;
    "__tsan_atomic8_fetch_or" update;
    "__tsan_atomic8_fetch_xor" update;
    "__tsan_atomic8_fetch_nand" update;
    "__tsan_atomic8_compare_exchange_strong" compare;
    "__tsan_atomic8_compare_exchange_weak" compare;
    "__tsan_atomic8_compare_exchange_val" compare_value;
}

atomics! { u16:
    "__tsan_atomic16_load" load;
    "__tsan_atomic16_store" store;
    "__tsan_atomic16_exchange" update;
    "__tsan_atomic16_fetch_add" update;
    "__tsan_atomic16_fetch_sub" update;
    "__tsan_atomic16_fetch_and" update;
    "__tsan_atomic16_fetch_or" update;
    "__tsan_atomic16_fetch_xor" update;
    "__tsan_atomic16_fetch_nand" update;
    "__tsan_atomic16_compare_exchange_strong" compare;
    "__tsan_atomic16_compare_exchange_weak" compare;
    "__tsan_atomic16_compare_exchange_val" compare_value;
}

atomics! { u32:
    "__tsan_atomic32_load" load;
    "__tsan_atomic32_store" store;
    "__tsan_atomic32_exchange" update;
    "__tsan_atomic32_fetch_add" update;
    "__tsan_atomic32_fetch_sub" update;
    "__tsan_atomic32_fetch_and" update;
    "__tsan_atomic32_fetch_or" update;
    "__tsan_atomic32_fetch_xor" update;
    "__tsan_atomic32_fetch_nand" update;
    "__tsan_atomic32_compare_exchange_strong" compare;
    "__tsan_atomic32_compare_exchange_weak" compare;
    "__tsan_atomic32_compare_exchange_val" compare_value;
}

atomics! { u64:
    "__tsan_atomic64_load" load;
    "__tsan_atomic64_store" store;
    "__tsan_atomic64_exchange" update;
    "__tsan_atomic64_fetch_add" update;
    "__tsan_atomic64_fetch_sub" update;
    "__tsan_atomic64_fetch_and" update;
    "__tsan_atomic64_fetch_or" update;
    "__tsan_atomic64_fetch_xor" update;
    "__tsan_atomic64_fetch_nand" update;
    "__tsan_atomic64_compare_exchange_strong" compare;
    "__tsan_atomic64_compare_exchange_weak" compare;
    "__tsan_atomic64_compare_exchange_val" compare_value;
}

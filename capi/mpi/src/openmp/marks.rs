//! The functions of ThreadSanitizer (`sanitizer/tsan_interface.h`), found by name, and those of the
//! OpenMP library.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The functions of the sanitizer.
struct Sanitizer {
    acquire: unsafe extern "C" fn(*mut c_void),
    release: unsafe extern "C" fn(*mut c_void),
}

static FOUND: OnceLock<Option<Sanitizer>> = OnceLock::new();

fn sanitizer() -> Option<&'static Sanitizer> {
    // SAFETY: the types are those of `sanitizer/tsan_interface.h`.
    FOUND
        .get_or_init(|| unsafe {
            Some(Sanitizer {
                acquire: function(libc_next(c"__tsan_acquire"))?,
                release: function(libc_next(c"__tsan_release"))?,
            })
        })
        .as_ref()
}

/// Whether the program has the sanitizer.
pub(super) fn are_there() -> bool {
    sanitizer().is_some()
}

/// # Safety
/// `F` is the type of the function.
unsafe fn function<F: Copy>(found: *mut c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's promise.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

fn libc_next(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte.
    unsafe { dlsym(NEXT, name.as_ptr()) }
}

/// `RTLD_NEXT`: the objects after this one.
const NEXT: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);
/// `RTLD_LAZY | RTLD_NOLOAD`.
const LOADED: i32 = 1 | 4;

// SAFETY: the declarations are those of dlfcn.h.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const std::ffi::c_char) -> *mut c_void;
    fn dlopen(name: *const std::ffi::c_char, flags: i32) -> *mut c_void;
}

/// A function of the OpenMP library.
pub(super) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(super) const fn new(name: &'static CStr) -> Real {
        Real { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The function, in the library that comes after this one, or was loaded before it.
    ///
    /// # Panics
    /// If no library has the function; a program that calls it has loaded one.
    pub(super) fn get<F: Copy>(&self) -> F {
        // Relaxed: all threads find the same.
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            found = libc_next(self.name);
            if found.is_null() {
                // SAFETY: as in `libc_next`.
                found = unsafe { dlsym(dlopen(c"libgomp.so.1".as_ptr(), LOADED), self.name.as_ptr()) };
            }
            self.found.store(found, Ordering::Relaxed);
        }
        // SAFETY: `names` has the types.
        unsafe { function(found) }.unwrap_or_else(|| panic!("no library has {:?}", self.name))
    }
}

/// An object by which the sanitizer orders threads: a thread that acquires the mark is ordered
/// after all threads that released it before. The box gives the mark a unique address.
#[derive(Debug, Default)]
pub(super) struct Mark(Box<u64>);

impl Mark {
    pub(super) fn acquire(&self) {
        acquire(self.address());
    }

    pub(super) fn release(&self) {
        release(self.address());
    }

    fn address(&self) -> *mut c_void {
        std::ptr::from_ref(&*self.0).cast_mut().cast()
    }
}

/// [`Mark::acquire`] for an object of the program.
pub(super) fn acquire(address: *mut c_void) {
    if let Some(it) = sanitizer() {
        // SAFETY: the sanitizer uses the address as a name.
        unsafe { (it.acquire)(address) };
    }
}

/// [`Mark::release`] for an object of the program.
pub(super) fn release(address: *mut c_void) {
    if let Some(it) = sanitizer() {
        // SAFETY: as in `acquire`.
        unsafe { (it.release)(address) };
    }
}

//! The functions of gcc's OpenMP library that order threads, under their names.

use std::ffi::{c_int, c_long, c_uint, c_void};

use super::is_on;
use super::marks::{Real, acquire, release};
use super::regions::{self, Body};
use super::tasks::{self, Copier, Dependences, Given};

/// Defines functions that call the library's of that name, as `real`, around which they tell the
/// sanitizer what `around` says while the checker is on.
macro_rules! around {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)? = |$real:ident| $around:expr;)*) => {$(
        /// # Safety
        /// As the OpenMP library says.
        // SAFETY: the name is that library's, and so is the meaning.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) $(-> $out)? {
            static REAL: Real = Real::new(
                // The name is a literal without a zero byte.
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let $real: unsafe extern "C" fn($($ty),*) $(-> $out)? = REAL.get();
            if !is_on() {
                // SAFETY: the program's call.
                return unsafe { $real($($arg),*) };
            }
            // SAFETY: the program's call, or one of the same meaning.
            #[allow(unused_unsafe, reason = "some have no other unsafe part")]
            unsafe { $around }
        }
    )*};
}

/// The word of the critical regions that have no name.
static CRITICAL: u64 = 0;
/// That of atomic constructs without an instruction.
static ATOMIC: u64 = 0;

fn word(of: &'static u64) -> *mut c_void {
    std::ptr::from_ref(of).cast_mut().cast()
}

/// Whether a loop of tasks has no group (`nogroup`).
fn has_group(flags: c_uint) -> bool {
    flags & 1 << 11 == 0
}

around! {
    GOMP_parallel(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint) =
        |real| regions::within(body, data, |body, data| real(body, data, threads, flags));
    GOMP_parallel_reductions(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint) -> c_uint =
        |real| regions::within(body, data, |body, data| real(body, data, threads, flags));
    GOMP_parallel_sections(body: Body, data: *mut c_void, threads: c_uint, count: c_uint, flags: c_uint) =
        |real| regions::within(body, data, |body, data| real(body, data, threads, count, flags));
    GOMP_barrier() = |real| regions::barrier(|| real());
    GOMP_barrier_cancel() -> bool = |real| regions::barrier(|| real());
    GOMP_loop_end() = |real| regions::barrier(|| real());
    GOMP_loop_end_cancel() -> bool = |real| regions::barrier(|| real());
    GOMP_sections_start(count: c_uint) -> c_uint = |real| regions::section(|| real(count));
    GOMP_sections_next() -> c_uint = |real| regions::section(|| real());
    GOMP_sections_end() = |real| regions::barrier(|| real());
    GOMP_sections_end_cancel() -> bool = |real| regions::barrier(|| real());
    GOMP_single_copy_start() -> *mut c_void = |real| {
        let copy = real();
        if !copy.is_null() {
            regions::copied(false);
        }
        copy
    };
    GOMP_single_copy_end(data: *mut c_void) = |real| {
        regions::copied(true);
        real(data);
    };
    GOMP_ordered_start() = |real| {
        real();
        regions::ordered(true);
    };
    GOMP_ordered_end() = |real| {
        regions::ordered(false);
        real();
    };
    GOMP_critical_start() = |real| {
        real();
        acquire(word(&CRITICAL));
    };
    GOMP_critical_end() = |real| {
        release(word(&CRITICAL));
        real();
    };
    GOMP_critical_name_start(name: *mut *mut c_void) = |real| {
        real(name);
        acquire(name.cast());
    };
    GOMP_critical_name_end(name: *mut *mut c_void) = |real| {
        release(name.cast());
        real(name);
    };
    GOMP_atomic_start() = |real| {
        real();
        acquire(word(&ATOMIC));
    };
    GOMP_atomic_end() = |real| {
        release(word(&ATOMIC));
        real();
    };
    GOMP_taskwait() = |real| tasks::wait(None, || real());
    GOMP_taskwait_depend(on: *mut *mut c_void) = |real| tasks::wait(Some(&Dependences::of(on)), || real(on));
    GOMP_taskgroup_start() = |real| {
        real();
        tasks::group_begins();
    };
    GOMP_taskgroup_end() = |real| tasks::group_ends(|| real());
    omp_set_lock(lock: *mut c_void) = |real| {
        real(lock);
        acquire(lock);
    };
    omp_unset_lock(lock: *mut c_void) = |real| {
        release(lock);
        real(lock);
    };
    omp_test_lock(lock: *mut c_void) -> c_int = |real| {
        let taken = real(lock);
        if taken != 0 {
            acquire(lock);
        }
        taken
    };
    omp_set_nest_lock(lock: *mut c_void) = |real| {
        real(lock);
        acquire(lock);
    };
    omp_unset_nest_lock(lock: *mut c_void) = |real| {
        release(lock);
        real(lock);
    };
    omp_test_nest_lock(lock: *mut c_void) -> c_int = |real| {
        let taken = real(lock);
        if taken != 0 {
            acquire(lock);
        }
        taken
    };
    GOMP_task(body: Body, data: *mut c_void, copier: Option<Copier>, size: c_long, align: c_long,
        is_deferred: bool, flags: c_uint, depend: *mut *mut c_void, priority: c_int, detach: *mut c_void) =
        |real| tasks::task(Given { body, data, copier, size, align, is_deferred, flags, depend }, |it| {
            let Given { body, data, copier, size, align, is_deferred, flags, depend } = it;
            real(body, data, copier, size, align, is_deferred, flags, depend, priority, detach);
        });
    GOMP_taskloop(body: Body, data: *mut c_void, copier: Option<Copier>, size: c_long, align: c_long,
        flags: c_uint, tasks: c_long, priority: c_int, start: c_long, end: c_long, step: c_long) =
        |real| tasks::in_loop(body, has_group(flags), |body| {
            real(body, data, copier, size, align, flags, tasks, priority, start, end, step);
        });
}

/// Regions that are loops: with a size of their chunks, and without.
macro_rules! loops {
    ($($chunked:ident)*; $($plain:ident)*) => {
        around! {
            $($chunked(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long,
                step: c_long, chunk: c_long, flags: c_uint) =
                |real| regions::within(body, data, |body, data| {
                    real(body, data, threads, start, end, step, chunk, flags);
                });)*
            $($plain(body: Body, data: *mut c_void, threads: c_uint, start: c_long, end: c_long,
                step: c_long, flags: c_uint) =
                |real| regions::within(body, data, |body, data| {
                    real(body, data, threads, start, end, step, flags);
                });)*
        }
    };
}

loops! {
    GOMP_parallel_loop_static GOMP_parallel_loop_dynamic GOMP_parallel_loop_guided
    GOMP_parallel_loop_nonmonotonic_dynamic GOMP_parallel_loop_nonmonotonic_guided;
    GOMP_parallel_loop_runtime GOMP_parallel_loop_nonmonotonic_runtime
    GOMP_parallel_loop_maybe_nonmonotonic_runtime
}

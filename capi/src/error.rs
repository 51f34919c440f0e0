//! Errors in the form of C programs: a class as the result of the call, and the text for the thread
//! that made the call. No panic leaves this file.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use transom::Class;

/// No error.
pub const TRANSOM_SUCCESS: c_int = 0;
/// The window is NULL.
pub const TRANSOM_ERR_WIN: c_int = 1;
/// The base address given to transom_window_create is invalid.
pub const TRANSOM_ERR_BASE: c_int = 2;
/// The size is too large, or the memory is not available.
pub const TRANSOM_ERR_SIZE: c_int = 3;
/// An invalid displacement or displacement unit.
pub const TRANSOM_ERR_DISP: c_int = 4;
/// A rank that does not exist.
pub const TRANSOM_ERR_RANK: c_int = 5;
/// A datatype that is NULL or does not fit the operation.
pub const TRANSOM_ERR_TYPE: c_int = 6;
/// An invalid count.
pub const TRANSOM_ERR_COUNT: c_int = 7;
/// An unknown operation, or one that is not defined on the datatype.
pub const TRANSOM_ERR_OP: c_int = 8;
/// An unknown kind of lock, or a window whose hints exclude locks.
pub const TRANSOM_ERR_LOCKTYPE: c_int = 9;
/// An assertion that MPI does not define, or not for this call; or a fence with NOPRECEDE after
/// operations.
pub const TRANSOM_ERR_ASSERT: c_int = 10;
/// Another invalid argument, such as a NULL pointer.
pub const TRANSOM_ERR_ARG: c_int = 11;
/// Conflicting accesses. Never returned: the conflict checker (TRANSOM_CHECK) prints its reports.
pub const TRANSOM_ERR_RMA_CONFLICT: c_int = 12;
/// Memory that cannot be attached to a dynamic window, or a region to detach that is not attached.
pub const TRANSOM_ERR_RMA_ATTACH: c_int = 13;
/// Memory that cannot be shared, or that this process cannot load and store.
pub const TRANSOM_ERR_RMA_SHARED: c_int = 14;
/// The call requires a window of another flavor.
pub const TRANSOM_ERR_RMA_FLAVOR: c_int = 15;
/// An access outside of the target's part, or outside of the target's attached regions.
pub const TRANSOM_ERR_RMA_RANGE: c_int = 16;
/// A call in the wrong epoch.
pub const TRANSOM_ERR_RMA_SYNC: c_int = 17;
/// A hint or a TRANSOM_ variable with an illegal value.
pub const TRANSOM_ERR_INFO_VALUE: c_int = 18;
/// A failure of the job, of a transport, or of a peer.
pub const TRANSOM_ERR_OTHER: c_int = 19;
/// A defect of the library, which caught an internal panic. The call may have had a partial effect.
pub const TRANSOM_ERR_INTERN: c_int = 20;
/// A counter of notified operations that the target does not have.
pub const TRANSOM_ERR_RMA_NOTIFICATION: c_int = 21;

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    /// A number of this file.
    pub(crate) class: c_int,
    text: String,
    /// The rank that was lost.
    lost: Option<usize>,
}

impl Failure {
    #[cold]
    pub(crate) fn new(class: c_int, text: impl Into<String>) -> Failure {
        Failure { class, text: text.into(), lost: None }
    }
}

impl From<transom::Error> for Failure {
    #[cold]
    fn from(error: transom::Error) -> Failure {
        let lost = error.lost_rank();
        Failure { class: number(error.class()), text: format!("{error:#}"), lost }
    }
}

fn number(class: Class) -> c_int {
    match class {
        Class::Win => TRANSOM_ERR_WIN,
        Class::Base => TRANSOM_ERR_BASE,
        Class::Size => TRANSOM_ERR_SIZE,
        Class::Disp => TRANSOM_ERR_DISP,
        Class::Rank => TRANSOM_ERR_RANK,
        Class::Type => TRANSOM_ERR_TYPE,
        Class::Count => TRANSOM_ERR_COUNT,
        Class::Op => TRANSOM_ERR_OP,
        Class::LockType => TRANSOM_ERR_LOCKTYPE,
        Class::Assert => TRANSOM_ERR_ASSERT,
        Class::Arg => TRANSOM_ERR_ARG,
        Class::RmaConflict => TRANSOM_ERR_RMA_CONFLICT,
        Class::RmaAttach => TRANSOM_ERR_RMA_ATTACH,
        Class::RmaShared => TRANSOM_ERR_RMA_SHARED,
        Class::RmaFlavor => TRANSOM_ERR_RMA_FLAVOR,
        Class::RmaRange => TRANSOM_ERR_RMA_RANGE,
        Class::RmaSync => TRANSOM_ERR_RMA_SYNC,
        Class::RmaNotification => TRANSOM_ERR_RMA_NOTIFICATION,
        Class::InfoValue => TRANSOM_ERR_INFO_VALUE,
        _ => TRANSOM_ERR_OTHER,
    }
}

/// The classes in the order of their numbers, from 0.
const STRINGS: [&CStr; 22] = [
    c"TRANSOM_SUCCESS: no error",
    c"TRANSOM_ERR_WIN: invalid window",
    c"TRANSOM_ERR_BASE: invalid base",
    c"TRANSOM_ERR_SIZE: invalid size",
    c"TRANSOM_ERR_DISP: invalid displacement",
    c"TRANSOM_ERR_RANK: invalid rank",
    c"TRANSOM_ERR_TYPE: invalid datatype",
    c"TRANSOM_ERR_COUNT: invalid count",
    c"TRANSOM_ERR_OP: invalid operation",
    c"TRANSOM_ERR_LOCKTYPE: invalid lock type",
    c"TRANSOM_ERR_ASSERT: invalid assertion",
    c"TRANSOM_ERR_ARG: invalid argument",
    c"TRANSOM_ERR_RMA_CONFLICT: conflicting accesses to a window",
    c"TRANSOM_ERR_RMA_ATTACH: memory cannot be attached or detached",
    c"TRANSOM_ERR_RMA_SHARED: memory cannot be shared",
    c"TRANSOM_ERR_RMA_FLAVOR: wrong flavor of window",
    c"TRANSOM_ERR_RMA_RANGE: outside the target's memory",
    c"TRANSOM_ERR_RMA_SYNC: wrong synchronization",
    c"TRANSOM_ERR_INFO_VALUE: invalid value of a hint or variable",
    c"TRANSOM_ERR_OTHER: the job, a transport, or a peer failed",
    c"TRANSOM_ERR_INTERN: internal error",
    c"TRANSOM_ERR_RMA_NOTIFICATION: no such counter at the target",
];

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    /// The rank that the last error says is lost.
    static LOST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs the body of a call and returns its class; stores the text if the body fails or panics.
#[inline]
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => TRANSOM_SUCCESS,
        Ok(Err(failure)) => recorded(&failure),
        Err(panic) => recorded(&Failure::new(TRANSOM_ERR_INTERN, format!("internal error: {}", words(panic.as_ref())))),
    }
}

/// The text of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let fixed = panic.downcast_ref::<&str>().copied();
    fixed.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Keeps the text for [`transom_last_error`], and the rank for [`lost_rank`].
#[cold]
fn recorded(failure: &Failure) -> c_int {
    let text = CString::new(failure.text.replace('\0', "\u{fffd}")).unwrap_or_default();
    // A thread that ends has lost its storage, and no caller can read the text.
    let _ = LAST.try_with(|last| last.replace(text));
    let _ = LOST.try_with(|lost| lost.set(failure.lost));
    failure.class
}

/// The rank that was lost according to this thread's last error.
pub(crate) fn lost_rank() -> Option<usize> {
    LOST.try_with(Cell::get).ok().flatten()
}

/// The text of an error class, such as "TRANSOM_ERR_RANK: invalid rank". Every number has a text,
/// which the caller must not free.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn transom_error_string(error: c_int) -> *const c_char {
    let known = usize::try_from(error).ok().and_then(|class| STRINGS.get(class).copied());
    known.unwrap_or(c"an unknown error class").as_ptr()
}

/// The text, with its numbers, of this thread's last error; empty if no call has failed. The text
/// is valid until another call of this thread fails.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn transom_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The version of the library, as "0.3.0".
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn transom_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        LAST.with(|last| last.borrow().to_string_lossy().into_owned())
    }

    /// Shows E1.
    #[test]
    fn a_panic_becomes_the_class_intern() {
        assert_eq!(guarded(|| panic!("so it {}", "is")), TRANSOM_ERR_INTERN);
        assert_eq!(last(), "internal error: so it is");
        assert_eq!(guarded(|| Err(Failure::new(TRANSOM_ERR_ARG, "a\0b"))), TRANSOM_ERR_ARG);
        assert_eq!(last(), "a\u{fffd}b");
        assert_eq!(guarded(|| Ok(())), TRANSOM_SUCCESS);
        assert_eq!(last(), "a\u{fffd}b", "what succeeds leaves the text");
    }

    #[test]
    fn strings_are_in_the_order_of_the_classes() {
        let named = [
            (TRANSOM_SUCCESS, "TRANSOM_SUCCESS:"),
            (TRANSOM_ERR_RANK, "TRANSOM_ERR_RANK:"),
            (TRANSOM_ERR_ARG, "TRANSOM_ERR_ARG:"),
            (TRANSOM_ERR_RMA_RANGE, "TRANSOM_ERR_RMA_RANGE:"),
            (TRANSOM_ERR_RMA_SYNC, "TRANSOM_ERR_RMA_SYNC:"),
            (TRANSOM_ERR_INTERN, "TRANSOM_ERR_INTERN:"),
            (TRANSOM_ERR_RMA_NOTIFICATION, "TRANSOM_ERR_RMA_NOTIFICATION:"),
        ];
        for (class, begin) in named {
            let index = usize::try_from(class).expect("a class");
            assert!(STRINGS[index].to_str().expect("text").starts_with(begin), "{class}");
        }
        assert_eq!(STRINGS.len(), usize::try_from(TRANSOM_ERR_RMA_NOTIFICATION).expect("a class") + 1);
    }

    /// Programs are compiled with the numbers of the classes.
    #[test]
    fn the_numbers_of_classes_stay() {
        assert!(Class::ALL.into_iter().map(number).eq(1..=19));
        assert_eq!(number(Class::RmaNotification), 21);
    }
}

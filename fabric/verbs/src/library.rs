//! libibverbs, opened at run time: a program starts without the library, and reports it missing on
//! use.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use libloading::Library as Dynamic;
use transom_fabric::{Cause, FabricError};

use crate::sys;

/// The library's name for the dynamic loader.
pub const SONAME: &str = "libibverbs.so.1";
/// The transport's name in errors.
pub(crate) const TRANSPORT: &str = "verbs";

/// The library's name in errors.
pub(crate) const LIBRARY: &str = "libibverbs";

/// The variables by which a user has the library protect huge pages across `fork`.
const HUGE_PAGES: [&str; 2] = ["RDMAV_HUGEPAGES_SAFE", "IBV_HUGEPAGES_SAFE"];

/// The opened library, which is never unloaded.
pub(crate) struct Library {
    pub(crate) call: sys::Functions,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("libibverbs")
    }
}

impl Library {
    /// Opens the library.
    ///
    /// # Errors
    /// `Unavailable`, with instructions to install it.
    pub(crate) fn open(soname: &str) -> Result<Arc<Library>, FabricError> {
        let missing = |error: libloading::Error| {
            FabricError::unavailable(
                TRANSPORT,
                Cause::Setup(format!(
                    "{}; on Debian: apt-get install libibverbs1 ibverbs-providers",
                    loader_message(&error)
                )),
            )
        };
        // SAFETY: libibverbs' initializers only read its environment; no other thread depends on
        // their order.
        let dynamic = unsafe { Dynamic::new(soname) }.map_err(missing)?;
        macro_rules! functions {
            ($($name:ident),* $(,)?) => {
                sys::Functions { $($name: *dynamic.get(concat!("ibv_", stringify!($name), "\0").as_bytes()).map_err(missing)?),* }
            };
        }
        // SAFETY: the types are those of infiniband/verbs.h; the default symbol version,
        // IBVERBS_1.1, keeps them.
        let call = unsafe {
            functions!(
                fork_init,
                get_device_list,
                free_device_list,
                get_device_name,
                open_device,
                close_device,
                query_device,
                query_port,
                alloc_pd,
                dealloc_pd,
                reg_mr,
                dereg_mr,
                create_comp_channel,
                destroy_comp_channel,
                create_cq,
                destroy_cq,
                get_cq_event,
                ack_cq_events,
                create_srq,
                destroy_srq,
                create_qp,
                modify_qp,
                destroy_qp,
                create_ah,
                destroy_ah,
                get_async_event,
                ack_async_event,
                wc_status_str,
                event_type_str,
            )
        };
        if needs_fork_init(&rustix::system::uname().release().to_string_lossy()) {
            // The call fails if the program itself has registered memory before. Children of `fork`
            // then behave as they did without this crate.
            with_huge_pages(|| {
                // SAFETY: no memory is registered by this crate yet (man ibv_fork_init).
                let _ = unsafe { (call.fork_init)() };
            });
        }
        // The library is never unloaded, because its providers are not, and other users of it may
        // have open objects.
        std::mem::forget(dynamic);
        Ok(Arc::new(Library { call }))
    }

    /// The library's text for the status of a completion.
    pub(crate) fn status_text(&self, status: u32) -> String {
        // SAFETY: the library returns a static string for every number.
        unsafe { words((self.call.wc_status_str)(status)) }
    }

    /// An asynchronous event as the cause of a failure: the event's type and the library's text.
    pub(crate) fn event_cause(&self, event: u32) -> Cause {
        // SAFETY: the library returns a static string for every number.
        let text = unsafe { words((self.call.event_type_str)(event)) };
        Cause::Library { library: LIBRARY, code: event.into(), text }
    }
}

/// Calls `fork_init` so that huge pages can be registered afterwards (man ibv_fork_init, NOTES).
/// The library reads the variable in that call only. It does not stay set, because other libraries
/// refuse it (`efa` together with `FI_EFA_FORK_SAFE`).
fn with_huge_pages(fork_init: impl FnOnce()) {
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    let sets = !HUGE_PAGES.iter().any(is_set);
    if sets {
        // SAFETY: std excludes its own readers of the environment. C code of other threads would
        // have to read it during the job's start, when C programs call setenv for their libraries
        // too.
        unsafe { std::env::set_var(HUGE_PAGES[0], "1") };
    }
    fork_init();
    if sets {
        // SAFETY: as above.
        unsafe { std::env::remove_var(HUGE_PAGES[0]) };
    }
}

/// Whether the library must protect registered pages across `fork` on a kernel of this release.
/// From Linux 5.12 on the kernel itself does so: it copies such pages for the child.
fn needs_fork_init(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < (5, 12),
        _ => false,
    }
}

/// # Safety
/// Null, or a C string.
unsafe fn words(text: *const std::ffi::c_char) -> String {
    // SAFETY: the caller's promise.
    if text.is_null() { "?".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
}

/// The loader's message, which is the source of the error and not part of its text.
fn loader_message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_support_is_requested_on_old_kernels_only() {
        let releases = ["4.18.0-553.el8.x86_64", "5.11.22", "5.12.0-rc1", "6.1.0-13-amd64", "6"];
        assert_eq!(releases.map(needs_fork_init), [true, true, false, false, false]);
    }

    /// Regression: memory in huge pages could not be registered on old kernels.
    #[test]
    fn fork_support_includes_huge_pages() {
        let value = || HUGE_PAGES.map(|name| std::env::var(name).ok());
        let (mut during, one) = (Vec::new(), Some("1".to_owned()));
        with_huge_pages(|| during.push(value()));
        assert_eq!((during, value()), (vec![[one, None]], [None, None]), "the variable does not stay");
    }

    #[test]
    fn a_missing_library_is_an_error_with_instructions() {
        let error = Library::open("libibverbs.so.none").expect_err("no such file");
        let error = format!("{error:#}");
        assert!(error.contains("verbs is not available") && error.contains("apt-get install"), "{error}");
    }
}

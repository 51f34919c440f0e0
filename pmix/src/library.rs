//! libpmix, opened at run time: a program starts without the library, and reports it missing on
//! use.

use std::ffi::CStr;
use std::fmt;

use libloading::Library as Dynamic;

use crate::error::Error;
use crate::sys;

/// The library's name for the dynamic loader.
pub const SONAME: &str = "libpmix.so.2";

/// The opened library, which stays loaded.
pub(crate) struct Library {
    pub(crate) call: sys::Functions,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("libpmix")
    }
}

impl Library {
    /// Opens the library.
    ///
    /// # Errors
    /// `Unavailable`, with instructions to install it.
    pub(crate) fn open(soname: &str) -> Result<Library, Error> {
        // The loader's message is the error's source and not in its text.
        let missing = |error: libloading::Error| {
            let cause = std::error::Error::source(&error).map(|source| format!("{error}: {source}"));
            Error::Unavailable { reason: cause.unwrap_or_else(|| error.to_string()) }
        };
        // SAFETY: libpmix' initializers only read its environment; no other thread depends on their
        // order.
        let dynamic = unsafe { Dynamic::new(soname) }.map_err(missing)?;
        macro_rules! functions {
            ($($field:ident: $name:literal),* $(,)?) => {
                sys::Functions { $($field: *dynamic.get(concat!("PMIx_", $name, "\0").as_bytes()).map_err(missing)?),* }
            };
        }
        // SAFETY: the types are those of pmix.h; all versions with the name libpmix.so.2 keep them.
        let call = unsafe {
            functions!(
                init: "Init",
                finalize: "Finalize",
                abort: "Abort",
                put: "Put",
                commit: "Commit",
                fence: "Fence",
                get: "Get",
                get_version: "Get_version",
                error_string: "Error_string",
            )
        };
        // The library stays loaded, because its thread goes on running.
        std::mem::forget(dynamic);
        Ok(Library { call })
    }

    /// The library's version string.
    pub(crate) fn version(&self) -> String {
        // SAFETY: the function may be called at any time and returns a static string.
        unsafe { CStr::from_ptr((self.call.get_version)()) }.to_string_lossy().into_owned()
    }

    /// Turns a function's status into a result.
    pub(crate) fn check(&self, during: &'static str, status: i32) -> Result<(), Error> {
        if status == sys::PMIX_SUCCESS {
            return Ok(());
        }
        // SAFETY: the library returns a static string for every number.
        let text = unsafe { CStr::from_ptr((self.call.error_string)(status)) };
        Err(Error::Failed { during, status, text: text.to_string_lossy().into_owned() })
    }
}

/// The version string of the installed libpmix. No launcher is contacted.
///
/// # Errors
/// `Unavailable`, with instructions to install it.
pub fn version() -> Result<String, Error> {
    Library::open(SONAME).map(|library| library.version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_with_instructions() {
        let error = Library::open("libpmix.so.none").expect_err("no such file").to_string();
        assert!(error.contains("libpmix.so.none") && error.contains("apt-get install libpmix2"), "{error}");
    }
}

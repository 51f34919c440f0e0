//! libpmix, opened at run time: a program starts where the library is missing, and says so when it needs it.

use std::ffi::CStr;
use std::fmt;

use libloading::Library as Dynamic;

use crate::{Error, sys};

/// The name that the loader looks for.
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
    /// `Unavailable`, with how to get it.
    pub(crate) fn open(soname: &str) -> Result<Library, Error> {
        // What the loader said is behind the error and not in its text.
        let missing = |error: libloading::Error| {
            let cause = std::error::Error::source(&error).map(|source| format!("{error}: {source}"));
            Error::Unavailable { reason: cause.unwrap_or_else(|| error.to_string()) }
        };
        // SAFETY: libpmix' initializers only read its environment; no other thread depends on their order.
        let dynamic = unsafe { Dynamic::new(soname) }.map_err(missing)?;
        macro_rules! functions {
            ($($field:ident: $name:literal),* $(,)?) => {
                sys::Functions { $($field: *dynamic.get(concat!("PMIx_", $name, "\0").as_bytes()).map_err(missing)?),* }
            };
        }
        // SAFETY: the types are those of pmix.h; libpmix.so.2 is the name of those versions that keep them.
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
        // It stays loaded: its thread runs on.
        std::mem::forget(dynamic);
        Ok(Library { call })
    }

    /// The library's name of itself.
    pub(crate) fn version(&self) -> String {
        // SAFETY: it may be asked at any time, and answers a string that stays.
        unsafe { CStr::from_ptr((self.call.get_version)()) }.to_string_lossy().into_owned()
    }

    /// What a function answered, as a result.
    pub(crate) fn check(&self, during: &'static str, status: i32) -> Result<(), Error> {
        if status == sys::PMIX_SUCCESS {
            return Ok(());
        }
        // SAFETY: any number is answered with a string that stays.
        let text = unsafe { CStr::from_ptr((self.call.error_string)(status)) };
        Err(Error::Failed { during, status, text: text.to_string_lossy().into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_told_with_how_to_get_it() {
        let error = Library::open("libpmix.so.none").expect_err("no such file").to_string();
        assert!(error.contains("libpmix.so.none") && error.contains("apt-get install libpmix2"), "{error}");
    }
}

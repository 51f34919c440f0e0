//! Keys of attributes that the library keeps with objects of the host.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI64, Ordering};

/// The key of an attribute, while the library sets it.
pub(crate) struct Keyval(AtomicI64);

/// No key: out of the range of `c_int`.
const NONE: i64 = i64::MIN;

impl Keyval {
    pub(crate) const fn none() -> Keyval {
        Keyval(AtomicI64::new(NONE))
    }

    /// Sets the key, within `MPI_Init`.
    pub(crate) fn set(&self, keyval: c_int) {
        // Relaxed, here and below: no other thread calls MPI within MPI_Init and MPI_Finalize.
        self.0.store(i64::from(keyval), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<c_int> {
        c_int::try_from(self.0.load(Ordering::Relaxed)).ok()
    }

    /// The key, which is set on no object from now on. Attributes keep it until they are deleted
    /// (MPI-4.1 §7.7).
    pub(crate) fn take(&self) -> Option<c_int> {
        c_int::try_from(self.0.swap(NONE, Ordering::Relaxed)).ok()
    }
}

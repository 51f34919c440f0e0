//! Promises of programs that let synchronization calls do less work (MPI-4.1 §12.5.5).

use std::ops::BitOr;

use crate::error::{ArgumentError, Class, Error, Result};

/// A program's promises to a synchronization call (MPI-4.1 §12.5.5), combined by `|`. Fence takes
/// NOSTORE, NOPUT, NOPRECEDE and NOSUCCEED; post takes NOCHECK, NOSTORE and NOPUT; start, lock and
/// lock_all take NOCHECK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Assert(u8);

impl Assert {
    /// No promise.
    pub const NONE: Assert = Assert(0);
    /// `MPI_MODE_NOCHECK`: of a lock, no other process holds or requests a conflicting lock while
    /// this process holds it; of post and start, the post precedes the start. A post may give
    /// NOCHECK only if all matching starts give NOCHECK, and vice versa (MPI-4.1 §12.5.5).
    pub const NOCHECK: Assert = Assert(1);
    /// `MPI_MODE_NOSTORE`: this process did not store into its part since the last synchronization.
    pub const NOSTORE: Assert = Assert(2);
    /// `MPI_MODE_NOPUT`: no process puts or accumulates into this process's part until the next
    /// synchronization.
    pub const NOPUT: Assert = Assert(4);
    /// `MPI_MODE_NOPRECEDE`: no operation of this process precedes the fence. All ranks give it, or
    /// none.
    pub const NOPRECEDE: Assert = Assert(8);
    /// `MPI_MODE_NOSUCCEED`: no operation of this process follows the fence. All ranks give it, or
    /// none.
    pub const NOSUCCEED: Assert = Assert(16);

    /// Whether `self` includes all promises of `other`.
    pub const fn has(self, other: Assert) -> bool {
        self.0 & other.0 == other.0
    }

    pub(in crate::window) fn only(self, call: &'static str, allowed: Assert) -> Result<()> {
        if allowed.has(self) {
            return Ok(());
        }
        Err(Error::argument(Class::Assert, call, ArgumentError::ForeignAssertions { bits: self.0 }))
    }
}

impl BitOr for Assert {
    type Output = Assert;
    fn bitor(self, other: Assert) -> Assert {
        Assert(self.0 | other.0)
    }
}

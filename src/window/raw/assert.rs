//! What programs promise of synchronization calls, so that these need not do it (MPI §11.5.5).

use std::ops::BitOr;

use crate::error::{Class, Error, Result};

/// What a program promises of a synchronization call (MPI §11.5.5), to be combined by `|`. Each call takes its own:
/// fence NOSTORE, NOPUT, NOPRECEDE and NOSUCCEED; post NOCHECK, NOSTORE and NOPUT; start, lock and lock_all NOCHECK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Assert(u8);

impl Assert {
    /// Nothing.
    pub const NONE: Assert = Assert(0);
    /// `MPI_MODE_NOCHECK`: nobody else holds a conflicting lock; or the matching post has come already.
    pub const NOCHECK: Assert = Assert(1);
    /// `MPI_MODE_NOSTORE`: this process did not store into its part since the last synchronization.
    pub const NOSTORE: Assert = Assert(2);
    /// `MPI_MODE_NOPUT`: nobody will put into this process's part until the next synchronization.
    pub const NOPUT: Assert = Assert(4);
    /// `MPI_MODE_NOPRECEDE`: no operation of this process precedes the fence; all ranks say so, or none.
    pub const NOPRECEDE: Assert = Assert(8);
    /// `MPI_MODE_NOSUCCEED`: no operation of this process follows the fence; all ranks say so, or none.
    pub const NOSUCCEED: Assert = Assert(16);

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Assert) -> bool {
        self.0 & other.0 == other.0
    }

    pub(in crate::window) fn only(self, call: &'static str, allowed: Assert) -> Result<()> {
        if allowed.has(self) {
            return Ok(());
        }
        let why = format!("{self:?} has assertions that do not belong to this call (MPI §11.5.5)");
        Err(Error::argument(Class::Assert, call, why))
    }
}

impl BitOr for Assert {
    type Output = Assert;
    fn bitor(self, other: Assert) -> Assert {
        Assert(self.0 | other.0)
    }
}

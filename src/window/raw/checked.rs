//! Calls by which another library (an MPI's interposition) reports the program's own loads, stores
//! and atomics on window memory to the conflict checker.

use std::sync::Weak;

use super::super::checked::Touch;
use super::super::core::Core;
use super::RawWindow;
use crate::check::{PartUse, PartUses};

impl PartUses for Core {
    fn end(&self, member: usize, numbers: &[u64]) {
        self.parts.return_part(member, numbers);
    }
}

impl RawWindow {
    /// Records a load or store of `len` bytes from byte `at` of a rank's part. `address`: the
    /// address to which the access returns; `None` if the program has called a function that makes
    /// the access.
    #[doc(hidden)]
    pub fn checker_touches(&self, rank: usize, (at, len): (usize, usize), written: bool, address: Option<usize>) {
        self.core.parts.touches(Touch { member: rank, at, len, written }, address);
    }

    /// Records that a buffer of an operation has `len` bytes from byte `at` of a rank's part, until
    /// the buffer returns.
    #[doc(hidden)]
    pub fn checker_lends(&self, rank: usize, (at, len): (usize, usize), written: bool) -> Option<PartUse> {
        let number = self.core.parts.lends_part(Touch { member: rank, at, len, written })?;
        let window: Weak<dyn PartUses> = self.core.this.clone();
        Some(PartUse::new(window, rank, number))
    }

    /// Records that the program is about to change a word of a rank's part by an atomic.
    #[doc(hidden)]
    pub fn checker_atomic_begins(&self, rank: usize, at: usize, len: usize) {
        self.core.parts.atomic_begins(rank, at, len);
    }

    /// Records that the program has read a word of a rank's part by an atomic.
    #[doc(hidden)]
    pub fn checker_atomic_ends(&self, rank: usize, at: usize, len: usize) {
        self.core.parts.atomic_ends(rank, at, len);
    }

    /// This rank's number among the ranks of the window.
    #[doc(hidden)]
    pub fn own_rank(&self) -> usize {
        self.core.parts.team.me
    }
}

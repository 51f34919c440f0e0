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
        self.core.parts.touches(Touch { member: rank, at, len, written, is_atomic: false }, address);
    }

    /// Records that a buffer of an operation has `len` bytes from byte `at` of a rank's part, until
    /// the buffer returns.
    #[doc(hidden)]
    pub fn checker_lends(&self, rank: usize, (at, len): (usize, usize), written: bool) -> Option<PartUse> {
        let number = self.core.parts.lends_part(Touch { member: rank, at, len, written, is_atomic: false })?;
        let window: Weak<dyn PartUses> = self.core.this.clone();
        Some(PartUse::new(window, rank, number))
    }

    /// Records that the program is about to change a word of a rank's part by an atomic. `reads`:
    /// it also reads the word. `compares`: it changes the word only if it reads a certain value.
    #[doc(hidden)]
    pub fn checker_atomic_begins(&self, rank: usize, (at, len): (usize, usize), reads: bool, compares: bool) {
        self.core.parts.atomic_begins(Touch { member: rank, at, len, written: true, is_atomic: true }, reads, compares);
    }

    /// Records that an atomic on a word of a rank's part is over. `written`: it may have changed
    /// the word. `reads`: it has read the word.
    #[doc(hidden)]
    pub fn checker_atomic_ends(&self, rank: usize, (at, len): (usize, usize), written: bool, reads: bool) {
        self.core.parts.atomic_ends(Touch { member: rank, at, len, written, is_atomic: true }, reads);
    }

    /// This rank's number among the ranks of the window.
    #[doc(hidden)]
    pub fn own_rank(&self) -> usize {
        self.core.parts.team.me
    }
}

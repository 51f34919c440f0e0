//! The keys by which ranks access regions of dynamic windows through the net: a rank asks for the
//! key of a region, and the owner withdraws the key when it detaches the region.

use std::fmt;
use std::sync::Arc;

use transom_fabric::Peer;

use super::exposed::{Exposed, Space};
use crate::error::Refusal;

/// The keys that this rank has.
pub(crate) trait KeyHolder: fmt::Debug + Send + Sync {
    /// Forgets the key of a region of the rank `owner`, by the region's number.
    fn forget(&self, owner: Peer, number: u64);
}

impl Exposed {
    /// Lets other ranks withdraw the keys of `holder`.
    pub(crate) fn hold_keys(&self, holder: Arc<dyn KeyHolder>) {
        // Set once, at the creation of the window.
        let _ = self.keys.set(holder);
    }

    /// Gives `from` the key of the region that contains the bytes. The answer is empty if there is
    /// none.
    pub(super) fn give_key(&self, from: Peer, address: u64, len: u64) -> Result<Vec<u8>, Refusal> {
        let Space::Attached(attached) = &self.space else { return Err(Refusal::NoRegions) };
        let given = usize::try_from(len).ok().and_then(|len| attached.give(from, address, len));
        let words = given.into_iter().flat_map(|(region, number)| region.to_words().into_iter().chain([number]));
        Ok(words.flat_map(u64::to_ne_bytes).collect())
    }

    /// Forgets a key of `owner`.
    pub(super) fn withdraw_key(&self, owner: Peer, number: u64) -> Result<Vec<u8>, Refusal> {
        self.keys.get().ok_or(Refusal::NoRegions)?.forget(owner, number);
        Ok(Vec::new())
    }
}

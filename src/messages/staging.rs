//! Staging areas: memory of this rank into which one peer puts the operands of long operations, one
//! *staged piece* after the other. A short request then has this rank's CPU combine or copy the
//! piece. A peer gets its area at its first request; the number of areas is bounded.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Mutex, OnceLock};

use transom_fabric::{Memory, Peer, RegionKey};

use super::locked;

/// Bytes of a staged piece. Shorter pieces overlap more, but each costs a put, a request and a
/// reply. A longer one would leave most second-level caches before it is combined.
pub(crate) const PIECE: usize = 1 << 19;
/// Staged pieces of an area, so that puts, combining and answers overlap.
pub(crate) const PIECES: usize = 4;
/// Maximum number of areas of a rank, together 32 MiB. The kernel allocates only the pages that are
/// used.
const AREAS: usize = 16;

/// A staged piece of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The offset of its first byte at the target; on a dynamic window the address.
    pub(crate) at: u64,
    /// The offset of its first byte in the staging area.
    pub(crate) from: u64,
    /// The number of its bytes.
    pub(crate) len: u64,
    /// The number of the operation's bytes before the piece.
    pub(crate) before: u64,
    /// The number of the operation's bytes after the piece.
    pub(crate) after: u64,
}

impl Piece {
    pub(super) fn to_words(self) -> [u64; 5] {
        [self.at, self.from, self.len, self.before, self.after]
    }

    pub(super) fn from_words([at, from, len, before, after]: [u64; 5]) -> Piece {
        Piece { at, from, len, before, after }
    }

    /// The first byte of the operation at the target, and the number of its bytes.
    pub(super) fn operation(&self) -> Option<(u64, u64)> {
        let len = self.before.checked_add(self.len)?.checked_add(self.after)?;
        Some((self.at.checked_sub(self.before)?, len))
    }
}

/// Memory that peers reach by its key as long as the registration `_keeper` lives.
pub(crate) struct Area {
    /// Dropped first, so that no peer writes to memory that is freed.
    pub(crate) _keeper: Box<dyn Any + Send + Sync>,
    pub(crate) memory: Memory,
    pub(crate) key: RegionKey,
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// Makes an area of this length; `None` where it can't be registered.
pub(crate) type Grant = Box<dyn Fn(usize) -> Option<Area> + Send + Sync>;

/// The areas of this rank.
#[derive(Default)]
pub(super) struct Areas {
    /// Not set where peers do not use areas.
    grant: OnceLock<Grant>,
    granted: Mutex<HashMap<Peer, Area>>,
}

impl Areas {
    pub(super) fn grant_by(&self, grant: Grant) {
        // Set once, at start.
        let _ = self.grant.set(grant);
    }

    /// The words of the key of a peer's area; empty if the peer gets none.
    pub(super) fn key(&self, peer: Peer) -> Vec<u8> {
        let mut granted = locked(&self.granted);
        let full = granted.len() >= AREAS;
        let area = match granted.entry(peer) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if full => None,
            Entry::Vacant(new) => {
                let made = self.grant.get().and_then(|grant| grant(PIECE * PIECES));
                made.map(|area| new.insert(area))
            }
        };
        area.map(|area| area.key.0.into_iter().flat_map(u64::to_ne_bytes).collect()).unwrap_or_default()
    }

    /// A peer's area.
    pub(super) fn of(&self, peer: Peer) -> Option<Memory> {
        locked(&self.granted).get(&peer).map(|area| area.memory.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_one_area_and_areas_are_bounded() {
        let areas = Areas::default();
        assert!(areas.key(Peer(1)).is_empty(), "nobody grants");
        let made = std::sync::atomic::AtomicU64::new(0);
        areas.grant_by(Box::new(move |len| {
            let number = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let key = RegionKey([number, 2, 3, 4]);
            (number < 40).then(|| Area { _keeper: Box::new(()), memory: Memory::private(len), key })
        }));
        let peers = || (0..20).map(Peer);
        let keys: Vec<_> = peers().map(|peer| areas.key(peer)).collect();
        assert_eq!(keys[3], [3u64, 2, 3, 4].into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<_>>());
        assert!(peers().map(|peer| areas.key(peer)).eq(keys.iter().cloned()), "the same as before");
        let lens: Vec<_> = peers().map(|peer| areas.of(peer).map_or(0, |area| area.len())).collect();
        let expected: Vec<_> = (0..20).map(|at| if at < AREAS { PIECE * PIECES } else { 0 }).collect();
        assert_eq!(lens, expected);
        assert!(keys.iter().zip(lens).all(|(key, len)| key.is_empty() == (len == 0)));
    }
}

//! The regions that are attached to a dynamic window at one rank (MPI §11.2.4), by their addresses. Owns which there are
//! and that they do not overlap; knows nothing of who asks.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use transom_fabric::Memory;

/// Regions by the address of their first byte.
#[derive(Debug, Default)]
pub(crate) struct Attached(RwLock<BTreeMap<u64, Memory>>);

/// Part of a region, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl Attached {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Memory>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a region.
    ///
    /// # Errors
    /// It overlaps one that is there, which is told.
    pub(crate) fn attach(&self, memory: Memory) -> Result<(), Extent> {
        let address = memory.as_ptr().addr() as u64;
        let end = address + memory.len() as u64;
        let mut regions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = regions.range(..end.max(address + 1)).next_back();
        if let Some((&other, region)) = before
            && (other + region.len() as u64 > address || other == address)
        {
            return Err(Extent { address: other, len: region.len() as u64 });
        }
        regions.insert(address, memory);
        Ok(())
    }

    /// Takes the region away that begins at `address`; whether there was one.
    pub(crate) fn detach(&self, address: u64) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&address).is_some()
    }

    /// The region that the bytes lie in, whole, and its address.
    pub(crate) fn find(&self, address: u64, len: usize) -> Option<(Memory, u64)> {
        let regions = self.read();
        let (&base, region) = regions.range(..=address).next_back()?;
        let inside = address - base;
        let fits = inside <= region.len() as u64 && len as u64 <= region.len() as u64 - inside;
        fits.then(|| (region.clone(), base))
    }

    /// The regions from the `first` on, in the order of their addresses, at most `most`.
    pub(crate) fn list(&self, first: usize, most: usize) -> Vec<Extent> {
        let extent = |(&address, region): (&u64, &Memory)| Extent { address, len: region.len() as u64 };
        self.read().iter().skip(first).take(most).map(extent).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    /// Takes all away.
    pub(crate) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Looks an access up in a list of regions as [`Attached::list`] gives it.
pub(crate) fn covers(regions: &[Extent], address: u64, len: usize) -> bool {
    let next = regions.partition_point(|region| region.address <= address);
    next.checked_sub(1).is_some_and(|index| {
        let inside = address - regions[index].address;
        inside <= regions[index].len && len as u64 <= regions[index].len - inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_are_found_by_what_lies_in_them() {
        let whole = Memory::private(100);
        let at = whole.as_ptr().addr() as u64;
        let part = |from: usize, len: usize| whole.slice(from, len).expect("inside");
        let attached = Attached::default();
        attached.attach(part(20, 10)).expect("the first");
        attached.attach(part(40, 10)).expect("beside");
        attached.attach(part(30, 10)).expect("between, touching both");
        for (from, len) in [(20, 10), (25, 1), (15, 6), (10, 80), (49, 1)] {
            let found = attached.attach(part(from, len)).expect_err("overlaps");
            assert!(found.len == 10 && found.address >= at + 20, "{found:?}");
        }
        assert_eq!(attached.find(at + 25, 5).map(|(_, base)| base), Some(at + 20));
        assert!(attached.find(at + 25, 6).is_none(), "an access lies in one region");
        assert!(attached.find(at + 19, 1).is_none() && attached.find(at + 50, 1).is_none());
        let list = attached.list(1, 9);
        assert_eq!(list, [Extent { address: at + 30, len: 10 }, Extent { address: at + 40, len: 10 }]);
        assert!(covers(&list, at + 30, 10) && covers(&list, at + 49, 1));
        assert!(!covers(&list, at + 29, 1) && !covers(&list, at + 45, 6) && !covers(&[], at, 0));
        assert!(attached.detach(at + 30) && !attached.detach(at + 31) && attached.len() == 2);
        attached.clear();
        assert_eq!(attached.len(), 0);
    }
}

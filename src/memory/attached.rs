//! The regions that are attached to a dynamic window at one rank (MPI-4.1 §12.2.4), ordered by
//! address, without overlap.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use transom_fabric::{Memory, Peer, RegionKey};

/// Regions by the address of their first byte.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    regions: RwLock<BTreeMap<u64, Region>>,
    /// The addresses of regions without bytes, which nothing can access.
    empty: Mutex<Vec<u64>>,
    /// Not set where no net reaches the regions.
    register: OnceLock<Register>,
    /// The number of regions whose keys were given to other ranks.
    given: AtomicU64,
}

#[derive(Debug)]
struct Region {
    memory: Memory,
    opened: Opened,
    given: Option<Given>,
}

/// Keeps a registration.
pub(crate) type Keeper = Box<dyn Any + Send + Sync>;

/// The key of a registration, and the value that keeps it; `None` if the net can't register the
/// memory.
type Registered = Option<(RegionKey, Keeper)>;

/// Registers memory with the net.
pub(crate) struct Register(Box<dyn Fn(&Memory) -> Registered + Send + Sync>);

impl Register {
    pub(crate) fn by(register: impl Fn(&Memory) -> Registered + Send + Sync + 'static) -> Register {
        Register(Box::new(register))
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Register").finish_non_exhaustive()
    }
}

/// The key by which other ranks access a region through the net.
#[derive(Debug)]
pub(crate) struct Given {
    /// The region's number, by which the key is withdrawn: from 1, and never used again.
    pub(crate) number: u64,
    /// `None` if the net can't register the region.
    key: Option<RegionKey>,
    /// The ranks that have the key.
    pub(crate) holders: Vec<Peer>,
    keeps: Option<Keeper>,
}

impl Given {
    /// The registration, without its key.
    pub(crate) fn into_keeper(self) -> Option<Keeper> {
        self.keeps
    }
}

/// The key by which ranks of the node map a region, where they can.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) key: Option<RegionKey>,
    /// Keeps the region mappable until it is detached.
    pub(crate) _keeps: Option<Keeper>,
}

/// A region's address range, and the key by which ranks of the node map it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) key: Option<RegionKey>,
}

impl Extent {
    /// Words of the encoded form; the words of an absent key are 0.
    pub(crate) const WORDS: usize = 6;

    pub(crate) fn to_words(self) -> [u64; Extent::WORDS] {
        let [a, b, c, d] = self.key.unwrap_or_default().0;
        [self.address, self.len, a, b, c, d]
    }

    pub(crate) fn from_words([address, len, key @ ..]: [u64; Extent::WORDS]) -> Extent {
        let key = RegionKey(key);
        Extent { address, len, key: (key != RegionKey::default()).then_some(key) }
    }

    /// The address behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.len)
    }

    /// The offset of the bytes in the region, if the region contains all of them.
    pub(crate) fn inside(&self, address: u64, len: usize) -> Option<usize> {
        let inside = address.checked_sub(self.address)?;
        let fits = inside <= self.len && len as u64 <= self.len - inside;
        usize::try_from(inside).ok().filter(|_| fits)
    }
}

impl Attached {
    /// The regions of windows that are not dynamic, which have none.
    pub(crate) fn nothing() -> Arc<Attached> {
        static NOTHING: LazyLock<Arc<Attached>> = LazyLock::new(Arc::default);
        Arc::clone(&NOTHING)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Region>> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Region>> {
        self.regions.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives keys of regions to other ranks, with registrations by `register`.
    pub(crate) fn give_by(&self, register: Register) {
        // Set once, at the creation of the window.
        let _ = self.register.set(register);
    }

    /// Adds a region.
    ///
    /// # Errors
    /// The region overlaps an attached region, which is returned.
    pub(crate) fn attach(&self, memory: Memory, open: impl FnOnce(&Memory) -> Opened) -> Result<(), Extent> {
        let address = memory.as_ptr().addr() as u64;
        let end = address + memory.len() as u64;
        let mut regions = self.write();
        let before = regions.range(..end.max(address + 1)).next_back();
        if let Some((&other, region)) = before
            && (other + region.memory.len() as u64 > address || other == address)
        {
            return Err(region.extent(other));
        }
        let opened = open(&memory);
        regions.insert(address, Region { memory, opened, given: None });
        Ok(())
    }

    /// Notes a region without bytes, so that it can be detached.
    pub(crate) fn attach_empty(&self, address: u64) {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).push(address);
    }

    /// Removes a region without bytes. Returns whether there was one at `address`.
    pub(crate) fn detach_empty(&self, address: u64) -> bool {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        let place = empty.iter().position(|&other| other == address);
        place.map(|place| empty.swap_remove(place)).is_some()
    }

    /// Removes the region that begins at `address`, if there is one. Returns the value that kept it
    /// open, and its key if other ranks have it.
    pub(crate) fn detach(&self, address: u64) -> Option<(Opened, Option<Given>)> {
        let region = self.write().remove(&address)?;
        Some((region.opened, region.given))
    }

    /// Gives the rank `holder` the key of the region that contains the bytes. Returns the region
    /// with its key and its number ([`Given`]). `None` if no single region contains the bytes, or
    /// if there is no net.
    pub(crate) fn give(&self, holder: Peer, address: u64, len: usize) -> Option<(Extent, u64)> {
        let register = self.register.get()?;
        let mut regions = self.write();
        let (&base, region) = regions.range_mut(..=address).next_back()?;
        let extent = region.extent(base);
        extent.inside(address, len)?;
        let given = region.given.get_or_insert_with(|| {
            let (key, keeps) = (register.0)(&region.memory).unzip();
            // Relaxed: the lock orders the regions.
            let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
            Given { number, key, holders: Vec::new(), keeps }
        });
        if !given.holders.contains(&holder) {
            given.holders.push(holder);
        }
        Some((Extent { key: given.key, ..extent }, given.number))
    }

    /// The memory that contains the bytes, and its address: a region, or several adjacent regions
    /// as one.
    pub(crate) fn find(&self, address: u64, len: usize) -> Option<(Memory, u64)> {
        let regions = self.read();
        let (&base, region) = regions.range(..=address).next_back()?;
        if region.extent(base).inside(address, len).is_some() {
            return Some((region.memory.clone(), base));
        }
        let end = address.checked_add(len as u64)?;
        let extents = regions.range(base..end).map(|(&at, region)| region.extent(at));
        if !side_by_side(extents, end) {
            return None;
        }
        let parts = regions.range(base..end).map(|(_, region)| region.memory.clone()).collect();
        Memory::joined(parts).map(|memory| (memory, base))
    }

    /// The regions that end behind `from`, in the order of their addresses, at most `most`; and
    /// whether there are more of them.
    pub(crate) fn list(&self, from: u64, most: usize) -> (Vec<Extent>, bool) {
        let regions = self.read();
        let before = regions.range(..=from).next_back();
        let around = before.filter(|&(&address, region)| region.extent(address).inside(from, 1).is_some());
        let mut there = regions.range(around.map_or(from, |(&address, _)| address)..);
        let list = there.by_ref().take(most).map(|(&address, region)| region.extent(address)).collect();
        (list, there.next().is_some())
    }

    /// Removes all regions.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.write());
        drop(all);
    }
}

impl Region {
    fn extent(&self, address: u64) -> Extent {
        Extent { address, len: self.memory.len() as u64, key: self.opened.key }
    }
}

/// The region of a list, as [`Attached::list`] gives it, that contains an access, and the offset of
/// the access in it.
pub(crate) fn covering(regions: &[Extent], address: u64, len: usize) -> Option<(&Extent, usize)> {
    let next = regions.partition_point(|region| region.address <= address);
    let region = regions.get(next.checked_sub(1)?)?;
    region.inside(address, len).map(|inside| (region, inside))
}

/// Whether the bytes of an access lie in adjacent regions of a list.
pub(crate) fn spanning(regions: &[Extent], address: u64, len: usize) -> bool {
    let first = regions.partition_point(|region| region.address <= address);
    let (Some(first), Some(end)) = (first.checked_sub(1), address.checked_add(len as u64)) else { return false };
    side_by_side(regions[first..].iter().copied(), end)
}

/// Whether regions follow each other without a gap from the first of them to `end`.
fn side_by_side(regions: impl Iterator<Item = Extent>, end: u64) -> bool {
    let mut reached = None;
    for region in regions {
        match reached {
            Some(reached) if region.address != reached => return false,
            _ => reached = Some(region.address + region.len),
        }
        if reached >= Some(end) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_are_found_by_their_addresses() {
        let whole = Memory::private(100);
        let at = whole.as_ptr().addr() as u64;
        let part = |from: usize, len: usize| whole.slice(from, len).expect("inside");
        let attached = Attached::default();
        let attach = |memory| attached.attach(memory, |_| Opened::default());
        attach(part(20, 10)).expect("the first");
        attach(part(40, 10)).expect("beside");
        attach(part(30, 10)).expect("between, touching both");
        for (from, len) in [(20, 10), (25, 1), (15, 6), (10, 80), (49, 1)] {
            let found = attach(part(from, len)).expect_err("overlaps");
            assert!(found.len == 10 && found.address >= at + 20, "{found:?}");
        }
        assert_eq!(attached.find(at + 25, 5).map(|(_, base)| base), Some(at + 20));
        let joined = |from, len| attached.find(at + from, len).map(|(memory, base)| (memory.len(), base - at));
        assert_eq!([joined(25, 6), joined(29, 20), joined(20, 30)], [Some((20, 20)), Some((30, 20)), Some((30, 20))]);
        assert!(
            attached.find(at + 45, 6).is_none() && attached.find(at + 19, 12).is_none(),
            "past the last, before the first"
        );
        assert!(attached.find(at + 25, usize::MAX).is_none(), "past the last address");
        assert!(attached.find(at + 19, 1).is_none() && attached.find(at + 50, 1).is_none());
        let (list, more) = attached.list(at + 30, 9);
        let extent = |from| Extent { address: at + from, len: 10, key: None };
        assert_eq!((&list[..], more), (&[extent(30), extent(40)][..], false));
        assert_eq!(attached.list(0, 1), (vec![extent(20)], true));
        assert_eq!(attached.list(at + 39, 1), (vec![extent(30)], true), "the region around the address");
        assert_eq!(attached.list(at + 50, 1), (vec![], false));
        let covered = |address, len| covering(&list, address, len).map(|(region, inside)| (*region, inside));
        assert_eq!((covered(at + 30, 10), covered(at + 49, 1)), (Some((extent(30), 0)), Some((extent(40), 9))));
        assert_eq!((covered(at + 29, 1), covered(at + 45, 6), covering(&[], at, 0)), (None, None, None));
        let across = |from, len| spanning(&list, at + from, len);
        assert!(across(35, 10) && across(30, 20) && !across(29, 10) && !across(35, 16) && !spanning(&[], at, 1));
        assert!(attached.detach(at + 30).is_some() && attached.detach(at + 31).is_none());
        assert!(joined(25, 6).is_none() && joined(25, 20).is_none(), "a region in between is gone");
        // If regions change between the two reads of a list, the list has all other regions.
        assert_eq!(attached.list(at + 30, 9).0, [extent(40)]);
        attached.clear();
        assert_eq!(attached.list(0, 9), (vec![], false));
    }

    /// The resources of a region are released exactly when the region is detached.
    #[test]
    fn detaching_a_region_releases_its_resources() {
        let kept = Arc::new(());
        let memory = Memory::private(8);
        let address = memory.as_ptr().addr() as u64;
        let key = Some(RegionKey([1, 2, 3, 4]));
        let attached = Attached::default();
        let keeps: Option<Box<dyn Any + Send + Sync>> = Some(Box::new(Arc::clone(&kept)));
        attached.attach(memory.clone(), |_| Opened { key, _keeps: keeps }).expect("the first");
        let extent = attached.list(0, 1).0[0];
        assert_eq!(Extent::from_words(extent.to_words()), Extent { address, len: 8, key });
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(attached.detach(address));
        assert_eq!(Arc::strong_count(&kept), 1);
        attached.attach(memory, |_| Opened::default()).expect("free again");
        assert_eq!(Extent::from_words(attached.list(0, 1).0[0].to_words()), Extent { address, len: 8, key: None });
    }

    /// The key of a region is the same for all ranks, and ends with the region.
    #[test]
    fn keys_are_given_for_bytes_of_one_region() {
        let whole = Memory::private(30);
        let at = whole.as_ptr().addr() as u64;
        let attached = Attached::default();
        let attach = |from| attached.attach(whole.slice(from, 10).expect("inside"), |_| Opened::default());
        attach(0).and(attach(10)).expect("side by side");
        assert!(attached.give(Peer(1), at, 5).is_none(), "there is no net");
        let kept = Arc::new(());
        let registered = Arc::clone(&kept);
        attached.give_by(Register::by(move |memory| {
            let key = RegionKey([memory.as_ptr().addr() as u64, 2, 3, 4]);
            Some((key, Box::new(Arc::clone(&registered))))
        }));
        let given = |to, from, len| attached.give(Peer(to), at + from, len);
        assert_eq!((given(1, 5, 6), given(1, 20, 1)), (None, None), "two regions; none");
        let second = Extent { address: at + 10, len: 10, key: Some(RegionKey([at + 10, 2, 3, 4])) };
        assert_eq!(
            (given(1, 12, 8), given(2, 10, 1), given(1, 19, 1)),
            (Some((second, 1)), Some((second, 1)), Some((second, 1)))
        );
        assert_eq!(Arc::strong_count(&kept), 3, "registered once");
        let (_, ended) = attached.detach(at + 10).expect("attached");
        assert_eq!(ended.as_ref().map(|given| (given.number, &given.holders[..])), Some((1, &[Peer(1), Peer(2)][..])));
        drop(ended);
        assert_eq!(Arc::strong_count(&kept), 2, "the end of the registration");
        attach(10).expect("again");
        assert_eq!(given(1, 12, 8).map(|(_, number)| number), Some(2), "another region");
        assert!(attached.detach(at).expect("attached").1.is_none(), "its key was not given");
    }
}

//! Dynamic windows (MPI-4.1 §12.2.4): memory is attached at its owner, and accessed by address. An
//! origin of the same node keeps a list of the regions that a target has attached, and maps those
//! that it can map. If an access needs a region that the list lacks, the origin asks the target for
//! it. The origin loads one word of the target to check that no region of the list was detached.
//! Between nodes the target checks each access of a message, and an access that takes several
//! messages begins with a request that checks all of it. An access outside of attached regions is
//! therefore an error, and no part of it is performed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Amo, AmoKind, Keyed, Memory, Tally, Width};

use super::core::Core;
use super::kernel_copies::CopiedUnderLock;
use super::parts::{Parts, index};
use super::target::{Target, link_heap};
use crate::datatype::Strip;
use crate::error::{ArgumentError, Class, Error, ErrorKind, Result};
use crate::flavor::Flavor;
use crate::job::peer;
use crate::memory::attached::{Extent, Opened, covering, spanning};
use crate::memory::layout::Layout;
use crate::messages::{MAX_STRIPS, OVERHEAD, REPLY_OVERHEAD, ReplyDestination, Request, STRIP};
use crate::sync::words::{self, Words};
use crate::transport;

/// Maximum number of requests for the beginning of a target's list of regions. Further regions are
/// requested when they are accessed, so a target with many regions costs only the accessed ones.
const MAX_LIST_REQUESTS: usize = 4;

/// A target's attached regions, and the accesses to them that are not posted yet.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    known: Mutex<Known>,
    /// The number of accesses by message whose messages are not all posted, so that the target's
    /// tally may lack them. Grows under the lock of `known`.
    posting: AtomicU64,
}

/// A target's attached regions, as far as an origin has read their list.
#[derive(Debug, Default)]
struct Known {
    /// The number of detached regions of the target when the list was read anew; `None` before.
    version: Option<u64>,
    regions: Vec<Extent>,
    /// The regions that were accessed, by address; `None` where a region can't be mapped.
    mapped: BTreeMap<u64, Option<Memory>>,
    /// Whether this CPU stores to mapped regions. It does not if other accesses are messages,
    /// because its stores would not be ordered with messages in flight.
    direct: bool,
}

impl Regions {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The mapped region of an access, and its address.
    fn memory(&self, address: u64, len: usize) -> Option<(&Memory, u64)> {
        let (region, _) = covering(&self.regions, address, len)?;
        Some((self.mapped.get(&region.address)?.as_ref()?, region.address))
    }
}

/// An access by message, until all its messages are posted. Other threads wait for the end of it
/// before accesses become direct.
pub(super) struct UnpostedAccess<'p>(Option<&'p AtomicU64>);

impl<'p> UnpostedAccess<'p> {
    /// An access by message to a target whose accesses may become direct.
    fn begin(regions: &'p Regions) -> UnpostedAccess<'p> {
        // Relaxed: the lock of the list orders it for `learn`.
        regions.posting.fetch_add(1, Ordering::Relaxed);
        UnpostedAccess(Some(&regions.posting))
    }
}

impl Drop for UnpostedAccess<'_> {
    fn drop(&mut self) {
        if let Some(posting) = self.0 {
            // Release: pairs with the Acquire in `learn`, which then reads the tally.
            posting.fetch_sub(1, Ordering::Release);
        }
    }
}

/// How an access to a dynamic window's target is performed, by its addresses.
pub(super) enum Resolved<'p> {
    /// By load and store: all regions of the access are this rank's own, or mapped.
    Mapped,
    /// By system calls or messages.
    Unmapped(UnpostedAccess<'p>),
    /// By messages, each of which is waited for: the access spans adjacent regions, which are
    /// contiguous only in the owner's address space. The wait orders the messages with this CPU's
    /// stores to the regions.
    Across,
}

/// Bytes of an attached region that this CPU loads and stores: the memory, the offset in it, and
/// the address at which the region begins, from which the stripes count.
pub(super) struct Within {
    pub(super) memory: Memory,
    pub(super) at: usize,
    pub(super) base: usize,
}

impl Core {
    /// Attaches memory of this process (`MPI_WIN_ATTACH`).
    pub(crate) fn attach(&self, memory: Memory) -> Result<()> {
        self.need_dynamic("attach")?;
        let (address, len) = (memory.as_ptr().addr(), memory.len());
        // Before other ranks can find the region, and only if it is attached.
        let open = |memory: &Memory| {
            self.parts.exposes(memory);
            self.parts.opened(memory)
        };
        self.parts.own.attached.attach(memory, open).map_err(|other| {
            let (other, other_length) = (other.address, other.len);
            let reason = ArgumentError::AttachedTwice { address, length: len, other, other_length };
            Error::argument(Class::RmaAttach, "attach", reason)
        })?;
        Ok(())
    }

    /// Attaches a region of no bytes, which no operation can access.
    pub(crate) fn attach_empty(&self, address: usize) -> Result<()> {
        self.need_dynamic("attach")?;
        self.parts.own.attached.attach_empty(address as u64);
        Ok(())
    }

    /// Detaches the region that begins at `address` (`MPI_WIN_DETACH`).
    pub(crate) fn detach(&self, address: usize) -> Result<()> {
        self.need_dynamic("detach")?;
        let Some((opened, given)) = self.parts.own.attached.detach(address as u64) else {
            if self.parts.own.attached.detach_empty(address as u64) {
                return Ok(());
            }
            return Err(Error::argument(Class::RmaAttach, "detach", ArgumentError::NoRegion { address }));
        };
        self.parts.conceals(address as u64);
        self.parts.region_detached();
        drop(opened);
        given.map_or(Ok(()), |given| self.parts.withdraw_key(given))
    }

    fn need_dynamic(&self, call: &'static str) -> Result<()> {
        match self.parts.flavor {
            Flavor::Dynamic if self.is_freed() => {
                Err(ErrorKind::Epoch { call, target: None, reason: "the window was freed (MPI-4.1 §12.2.5)" }.into())
            }
            Flavor::Dynamic => Ok(()),
            other => Err(Error::argument(Class::RmaFlavor, call, ArgumentError::NotDynamic(other))),
        }
    }
}

impl Parts {
    /// Lets ranks of the node map a region, if they can.
    fn opened(&self, memory: &Memory) -> Opened {
        let region = self.job.wire.register_shm(memory).ok().flatten();
        let key = region.as_ref().map(transport::shm_key).filter(transport::is_mapped);
        Opened { key, _keeps: key.map(|_| Box::new(region) as Box<_>) }
    }

    fn region_detached(&self) {
        // Only this rank's CPU changes the word; CPUs of the node read it. SeqCst by `amo`: after
        // the change of the list, before all that follows.
        Words::at(&self.own.words, 0).amo(words::VERSION, Amo::new(AmoKind::Sum, Width::W64, 1));
    }

    /// Finds how an access is performed. Fails if bytes of the access are outside of the regions
    /// that are attached at the target. Does not check this if the target itself checks the whole
    /// access before it performs any of it.
    pub(super) fn resolve(
        &self,
        call: &'static str,
        target: &Target,
        at: i64,
        layout: &Layout<'_>,
    ) -> Result<Resolved<'_>> {
        let outside = |address, length| {
            let reason = ArgumentError::NotAttached { rank: target.rank(), address, length };
            Error::argument(Class::RmaRange, call, reason)
        };
        if target.rank() == self.team.me {
            for (address, len) in addresses(at, layout) {
                self.own.attached.find(address, len).ok_or_else(|| outside(address, len))?;
            }
            return Ok(Resolved::Mapped);
        }
        let Some(words) = target.words(self) else {
            return self.ask_covered(target, at, layout).map(|()| Resolved::Unmapped(UnpostedAccess(None)));
        };
        let regions = self.regions(target)?;
        let mut known = regions.lock();
        // SeqCst: pairs with the amo in `region_detached`. The user's own synchronization orders
        // the two.
        let version = words.word64(words::VERSION).load(Ordering::SeqCst);
        if known.version != Some(version) {
            self.learn(target, words, &regions.posting, &mut known)?;
        }
        let (mut all, mut across) = (true, false);
        for (address, len) in addresses(at, layout) {
            let is_mapped = match self.reach(target, &mut known, address, len) {
                None => {
                    self.learn_more(target, &mut known, address, len)?;
                    self.reach(target, &mut known, address, len).ok_or_else(|| outside(address, len))?
                }
                Some(reached) => reached,
            };
            match is_mapped {
                Some(is_mapped) => all &= is_mapped,
                None => across = true,
            }
        }
        let by_kernel = CopiedUnderLock::of(self, target).is_some();
        known.direct &= all || by_kernel;
        Ok(match (known.direct, across) {
            (true, false) if all => Resolved::Mapped,
            // Cross-memory attach works by addresses, so adjacent regions need no messages.
            (true, true) if !by_kernel => Resolved::Across,
            // The kernel copies at once, so that no later access can overtake the copy.
            _ if by_kernel => Resolved::Unmapped(UnpostedAccess(None)),
            _ => Resolved::Unmapped(UnpostedAccess::begin(regions)),
        })
    }

    /// Whether the region of an access is mapped. Maps the region at the first access to it.
    /// `Some(None)`: the access lies in several adjacent regions. `None`: the regions of the list
    /// do not cover the access.
    #[allow(clippy::option_option)]
    fn reach(&self, target: &Target, known: &mut Known, address: u64, len: usize) -> Option<Option<bool>> {
        let Known { regions, mapped, .. } = known;
        match covering(regions, address, len) {
            Some((region, _)) => {
                Some(Some(mapped.entry(region.address).or_insert_with(|| self.map(target, region)).is_some()))
            }
            None => spanning(regions, address, len).then_some(None),
        }
    }

    fn regions(&self, target: &Target) -> Result<&Regions> {
        let number = target.peer();
        let (_, regions) =
            self.targets.regions.get_or_try_insert(number, || Ok::<_, Error>((number, Regions::default())))?;
        Ok(regions)
    }

    /// Maps a region of a target of this node.
    fn map(&self, target: &Target, region: &Extent) -> Option<Memory> {
        let rank = peer(self.team.rank(target.rank()));
        let Some(key) = region.key else { return self.job.wire.user_memory(rank, region.address, region.len) };
        link_heap(&self.job, &key).ok()?;
        self.job.wire.import_shm(rank, &key).ok()?.mapped()
    }

    /// The bytes of an access that [`Parts::resolve`] has found mapped. Another thread may have
    /// read the beginning of the list anew since, so that the list lacks the region.
    pub(super) fn within(&self, call: &'static str, target: &Target, address: u64, len: usize) -> Result<Within> {
        let found = if target.rank() == self.team.me {
            self.own.attached.find(address, len)
        } else {
            let mut known = self.regions(target)?.lock();
            if known.memory(address, len).is_none() {
                self.learn_more(target, &mut known, address, len)?;
                self.reach(target, &mut known, address, len);
            }
            known.memory(address, len).map(|(memory, base)| (memory.clone(), base))
        };
        let within = found.map(|(memory, base)| Within { memory, at: index(address - base), base: index(base) });
        within.ok_or_else(|| {
            let reason = ArgumentError::Detached { rank: target.rank(), address, length: len };
            Error::argument(Class::RmaRange, call, reason)
        })
    }

    /// Between nodes the target checks each message separately. Before an access that may take
    /// several messages, a request has the target check the whole access, so that the target
    /// performs all messages of the access or none.
    fn ask_covered(&self, target: &Target, at: i64, layout: &Layout<'_>) -> Result<()> {
        let most = self.message_max(target);
        // `Layout::Bytes` occurs at both sides or at neither. Other pieces become two strips at
        // most, however the origin's blocks cut the pieces; `packing::RequestBuilder` keeps room
        // for both.
        let needed = match layout {
            Layout::Bytes(_) => 1,
            _ => 2 * layout.pieces().take(MAX_STRIPS).count(),
        };
        if needed <= MAX_STRIPS && OVERHEAD + STRIP * needed + layout.len() <= most {
            return Ok(());
        }
        // The access is contiguous at both sides, so it goes through the staging area. The target
        // checks the whole access with each piece. Where only accumulates go this way, each access
        // is checked before.
        if layout.is_contiguous() && self.area(target, layout.len(), false)?.is_some() {
            return Ok(());
        }
        let tally = Tally::within(&target.tally);
        let (room, mut strips, mut sent) = (MAX_STRIPS.min((most - OVERHEAD) / STRIP), Vec::new(), Ok(()));
        let ask = |strips: &mut Vec<Strip>| {
            self.bound_replies(target)?;
            let request = Request::Check { strips: std::mem::take(strips).into() };
            self.ask(target, request, ReplyDestination::Nowhere, &tally)
        };
        layout.for_strips(|strip| {
            strips.push(Strip { offset: at.wrapping_add(strip.offset), ..strip });
            if strips.len() == room && sent.is_ok() {
                sent = ask(&mut strips);
            }
            // After a failure the remaining strips are dropped.
            strips.truncate(room - 1);
        });
        if !strips.is_empty() && sent.is_ok() {
            sent = ask(&mut strips);
        }
        // The requests in flight end before the call.
        let checked = self.job.progress.complete(&tally);
        sent.and(checked)
    }

    /// Reads the beginning of the target's list of regions anew. If regions are detached meanwhile,
    /// the list may be out of date, and the next access reads it again.
    fn learn(&self, target: &Target, words: Words<'_>, posting: &AtomicU64, known: &mut Known) -> Result<()> {
        let attaches = CopiedUnderLock::of(self, target).is_some();
        if !attaches {
            // Operations sent as messages must complete before this CPU may store directly, also
            // those that other threads are posting. Their failures are left to the program's flush.
            // Acquire: pairs with the Release in the drop of `UnpostedAccess`. The lock keeps
            // further threads from posting meanwhile.
            let is_quiet = || posting.load(Ordering::Acquire) == 0 && target.tally.idle();
            self.job.progress.until(is_quiet)?;
        }
        // The number is read before the list, so that it changes if a region is detached after the
        // list was read. SeqCst: as in `resolve`.
        let version = words.word64(words::VERSION).load(Ordering::SeqCst);
        let regions = self.ask_regions(target, 0, u64::MAX, MAX_LIST_REQUESTS)?;
        // Regions that are still attached with the same memory stay mapped.
        let same = |extent: &Extent| covering(&known.regions, extent.address, 0).is_some_and(|(old, _)| old == extent);
        let kept: BTreeSet<u64> = regions.iter().filter(|extent| same(extent)).map(|extent| extent.address).collect();
        known.version = Some(version);
        known.direct = attaches || regions.iter().all(|extent| extent.key.is_some());
        known.regions = regions;
        known.mapped.retain(|address, _| kept.contains(address));
        Ok(())
    }

    /// Reads the regions of an access into the list. They stay attached during the call.
    #[cold]
    fn learn_more(&self, target: &Target, known: &mut Known, address: u64, len: usize) -> Result<()> {
        let attaches = CopiedUnderLock::of(self, target).is_some();
        let end = address.saturating_add(len as u64);
        for extent in self.ask_regions(target, address, end, usize::MAX)? {
            // Earlier stores to mapped regions are complete.
            known.direct &= attaches || extent.key.is_some();
            match known.regions.binary_search_by_key(&extent.address, |known| known.address) {
                Ok(at) if known.regions[at] == extent => {}
                Ok(at) => {
                    known.regions[at] = extent;
                    known.mapped.remove(&extent.address);
                }
                Err(at) => known.regions.insert(at, extent),
            }
        }
        Ok(())
    }

    /// Asks for the target's regions after address `from`, up to `end`, by at most `requests`
    /// requests. Each request names an address, so that changes between two requests hide no other
    /// region.
    fn ask_regions(&self, target: &Target, from: u64, end: u64, requests: usize) -> Result<Vec<Extent>> {
        let most = (self.message_max(target) - REPLY_OVERHEAD - 8) / (8 * Extent::WORDS);
        let mut regions: Vec<Extent> = Vec::new();
        let mut next = Some(from);
        for _ in 0..requests {
            let Some(from) = next else { break };
            let mut reply = vec![0u64; 1 + Extent::WORDS * most];
            let tally = Tally::within(&target.tally);
            let request = Request::Regions { from, most: most as u64 };
            crate::buffers::scoped(
                || self.job.finish(&tally),
                |scope| {
                    let into = ReplyDestination::One(scope.sink(bytemuck::cast_slice_mut(&mut reply)));
                    self.ask(target, request, into, &tally)
                },
            )?;
            self.job.progress.complete(&tally)?;
            let count = usize::try_from(reply[0]).unwrap_or(usize::MAX);
            let here = most.min(count);
            let (extents, _) = reply[1..].as_chunks::<{ Extent::WORDS }>();
            regions.extend(extents.iter().take(here).map(|&words| Extent::from_words(words)));
            next = regions.last().filter(|last| count > here && last.end() < end).map(Extent::end);
        }
        Ok(regions)
    }

    /// Detaches all regions, when the window is freed.
    pub(super) fn detach_all(&self) {
        self.own.attached.clear();
    }
}

/// The pieces of an access, with their addresses.
fn addresses<'l>(at: i64, layout: &'l Layout<'_>) -> impl Iterator<Item = (u64, usize)> + 'l {
    layout.pieces().map(move |(piece, len)| (at.wrapping_add(piece).cast_unsigned(), len))
}

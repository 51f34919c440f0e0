//! Dynamic windows (MPI §11.2.4): memory is attached at its owner, and accessed by address. An origin of the same node keeps a
//! list of what it knows to be attached, maps of that what it can, and looks at one word of the target, by a load, to know that nothing
//! changed; between nodes the target checks each message itself, and is asked before an access that takes several. So an access to what is not
//! attached, or no longer, is an error, and none of it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Amo, AmoKind, Keyed, Memory, Tally, Width};

use super::core::{Core, index};
use super::create::adopted;
use super::target::{Flavor, Target};
use super::words::{self, Words};
use crate::datatype::Strip;
use crate::error::{Class, Error, ErrorKind, Result};
use crate::job::peer;
use crate::messages::{Landing, MAX_STRIPS, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use crate::rma::attached::{Extent, Opened, covering};
use crate::rma::layout::Layout;
use crate::wire::{self, Lane, Remote};

/// What an origin knows to be attached at a target.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The target's version of this list; `None`: never asked.
    version: Option<u64>,
    regions: Vec<Extent>,
    /// Those of them that were touched, by their addresses; `None` where they can't be mapped.
    mapped: BTreeMap<u64, Option<Memory>>,
    /// Whether this CPU stores to what is mapped: not where other accesses go as messages, whose order with its own stores would be lost.
    direct: bool,
}

/// How this CPU reaches an access to a dynamic window's target.
pub(super) enum Reach {
    /// All of it: its regions are this rank's own, or mapped.
    Mapped,
    /// By calls of the system, or messages.
    Far,
}

/// Bytes of an attached region that this CPU loads and stores: where in which memory, and where that begins for the stripes.
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
        self.attached.attach(memory, |memory| self.opened(memory)).map_err(|other| {
            let why = format!(
                "{len} bytes at address {address:#x} overlap the attached region of {} bytes at {:#x}",
                other.len, other.address
            );
            Error::argument(Class::RmaAttach, "attach", why)
        })?;
        self.regions_changed();
        Ok(())
    }

    /// Lets ranks of the node map a region, where they can.
    fn opened(&self, memory: &Memory) -> Opened {
        let adopted = adopted(&self.job, memory);
        let region = self.job.wire.register_shm(memory).ok().flatten();
        let key = region.as_ref().map(wire::shm_key).filter(wire::is_mapped);
        Opened { key, _keeps: key.map(|_| Box::new((region, adopted)) as Box<_>) }
    }

    /// Detaches the region that begins at `address` (`MPI_WIN_DETACH`).
    pub(crate) fn detach(&self, address: usize) -> Result<()> {
        self.need_dynamic("detach")?;
        let Some(opened) = self.attached.detach(address as u64) else {
            let why = format!("no attached region begins at address {address:#x}");
            return Err(Error::argument(Class::RmaAttach, "detach", why));
        };
        self.regions_changed();
        drop(opened);
        Ok(())
    }

    fn need_dynamic(&self, call: &'static str) -> Result<()> {
        match self.flavor {
            Flavor::Dynamic if self.is_freed() => {
                Err(ErrorKind::Epoch { call, reason: "the window was freed (MPI §11.2.5)" }.into())
            }
            Flavor::Dynamic => Ok(()),
            other => {
                Err(Error::argument(Class::RmaFlavor, call, format!("the window is of flavor {other:?}, not dynamic")))
            }
        }
    }

    fn regions_changed(&self) {
        // By this rank's CPU alone, and read by CPUs of the node. SeqCst by `amo`: after the list, before what follows.
        Words::at(&self.words, 0).amo(words::VERSION, Amo::new(AmoKind::Sum, Width::W64, 1));
    }

    /// How an access is reached. Fails where a piece of it is not within a region that is attached at the target, as far as the target does
    /// not find that by itself before anything is done.
    pub(super) fn reach(&self, call: &'static str, target: &Target, at: i64, layout: &Layout<'_>) -> Result<Reach> {
        let outside = |address, len| {
            let why = format!(
                "{len} bytes at address {address:#x} are not within one region that rank {} has attached",
                target.rank()
            );
            Error::argument(Class::RmaRange, call, why)
        };
        if target.rank() == self.team.me {
            for (address, len) in addresses(at, layout) {
                self.attached.find(address, len).ok_or_else(|| outside(address, len))?;
            }
            return Ok(Reach::Mapped);
        }
        let Some(words) = target.words(self) else { return self.ask_covered(target, at, layout).map(|()| Reach::Far) };
        let mut known = self.known_regions(target)?;
        // SeqCst: pairs with the amo in `regions_changed`; the user's own synchronization ordered the two.
        let version = words.word64(words::VERSION).load(Ordering::SeqCst);
        if known.version != Some(version) {
            self.learn(target, words, &mut known)?;
        }
        let Known { regions, mapped, direct, .. } = &mut *known;
        let mut all = true;
        for (address, len) in addresses(at, layout) {
            let (region, _) = covering(&regions[..], address, len).ok_or_else(|| outside(address, len))?;
            all &= mapped.entry(region.address).or_insert_with(|| self.map(target, region)).is_some();
        }
        *direct &= all || self.near(target).is_some();
        Ok(if all && *direct { Reach::Mapped } else { Reach::Far })
    }

    fn known_regions(&self, target: &Target) -> Result<MutexGuard<'_, Known>> {
        let number = target.peer();
        let (_, known) = self.known.get_or_try_insert(number, || Ok::<_, Error>((number, Mutex::default())))?;
        Ok(known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A region of a target of this node, mapped.
    fn map(&self, target: &Target, region: &Extent) -> Option<Memory> {
        let rank = peer(self.team.rank(target.rank()));
        match self.job.wire.import(Lane::Shm, rank, &region.key?) {
            Ok(Remote::Memory(memory)) => Some(memory),
            Ok(Remote::Far(_)) | Err(_) => None,
        }
    }

    /// Bytes of an access that [`Core::reach`] has found mapped.
    pub(super) fn within(&self, call: &'static str, target: &Target, address: u64, len: usize) -> Result<Within> {
        let found = if target.rank() == self.team.me {
            self.attached.find(address, len)
        } else {
            let known = self.known_regions(target)?;
            covering(&known.regions, address, len)
                .and_then(|(region, _)| Some((known.mapped.get(&region.address)?.clone()?, region.address)))
        };
        let within = found.map(|(memory, base)| Within { memory, at: index(address - base), base: index(base) });
        within.ok_or_else(|| {
            let why = format!("{len} bytes at address {address:#x} were detached at rank {} meanwhile", target.rank());
            Error::argument(Class::RmaRange, call, why)
        })
    }

    /// Between nodes the target checks each message by itself. Of an access that may take several it is asked first, so that none is
    /// executed where another one is refused.
    fn ask_covered(&self, target: &Target, at: i64, layout: &Layout<'_>) -> Result<()> {
        let most = self.message_max(target);
        // However the origin's blocks cut them, a piece after the first becomes two strips at most.
        let needed = (2 * layout.pieces().take(MAX_STRIPS).count()).saturating_sub(1);
        if needed <= MAX_STRIPS && OVERHEAD + STRIP * needed + layout.len() <= most {
            return Ok(());
        }
        let mut strips = Vec::new();
        layout.for_strips(|strip| strips.push(Strip { offset: at.wrapping_add(strip.offset), ..strip }));
        let tally = Tally::within(&target.tally);
        for strips in strips.chunks(MAX_STRIPS.min((most - OVERHEAD) / STRIP)) {
            self.ask(target, 0, Request::Check { strips: strips.to_vec() }, Landing::Nowhere, &tally)?;
        }
        self.job.progress.complete(&tally)
    }

    /// Asks the target for its regions, again where they changed meanwhile.
    fn learn(&self, target: &Target, words: Words<'_>, known: &mut Known) -> Result<()> {
        let attaches = self.near(target).is_some();
        if !attaches {
            // What went as messages comes before what may be stored now.
            self.job.progress.complete(&target.tally)?;
        }
        loop {
            // SeqCst: as in `reach`.
            let version = words.word64(words::VERSION).load(Ordering::SeqCst);
            let regions = self.ask_regions(target)?;
            if words.word64(words::VERSION).load(Ordering::SeqCst) == version {
                // What is still there, and the same memory as before, stays mapped.
                let same =
                    |extent: &Extent| covering(&known.regions, extent.address, 0).is_some_and(|(old, _)| old == extent);
                let kept: BTreeSet<u64> =
                    regions.iter().filter(|extent| same(extent)).map(|extent| extent.address).collect();
                known.version = Some(version);
                known.direct = attaches || regions.iter().all(|extent| extent.key.is_some());
                known.regions = regions;
                known.mapped.retain(|address, _| kept.contains(address));
                return Ok(());
            }
        }
    }

    fn ask_regions(&self, target: &Target) -> Result<Vec<Extent>> {
        let most = (self.message_max(target) - REPLY_OVERHEAD - 8) / (8 * Extent::WORDS);
        let mut regions: Vec<Extent> = Vec::new();
        loop {
            let mut reply = vec![0u64; 1 + Extent::WORDS * most];
            let tally = Tally::within(&target.tally);
            let request = Request::Regions { first: regions.len() as u64, most: most as u64 };
            crate::buffers::scoped(
                || self.job.finish(&tally),
                |scope| {
                    let into = Landing::One(scope.sink(bytemuck::cast_slice_mut(&mut reply)));
                    self.ask(target, 0, request, into, &tally)
                },
            )?;
            self.job.progress.complete(&tally)?;
            let total = usize::try_from(reply[0]).unwrap_or(usize::MAX);
            let here = most.min(total.saturating_sub(regions.len()));
            let (extents, _) = reply[1..].as_chunks::<{ Extent::WORDS }>();
            regions.extend(extents.iter().take(here).map(|&words| Extent::from_words(words)));
            if here == 0 || regions.len() >= total {
                return Ok(regions);
            }
        }
    }

    /// Takes everything away, when the window is freed.
    pub(super) fn detach_all(&self) {
        self.attached.clear();
    }
}

/// The pieces of an access, by their addresses.
fn addresses<'l>(at: i64, layout: &'l Layout<'_>) -> impl Iterator<Item = (u64, usize)> + 'l {
    layout.pieces().map(move |(piece, len)| (at.wrapping_add(piece).cast_unsigned(), len))
}

//! Dynamic windows (MPI §11.2.4): memory is attached at its owner, and accessed by address. An origin of the same node keeps a
//! list of what it knows to be attached, and looks at one word of the target, by a load, to know that nothing changed; between
//! nodes the target checks each message itself, and is asked before an access that takes several. So an access to what is not
//! attached, or no longer, is an error, and none of it is done.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use transom_fabric::{Amo, AmoKind, Keyed, Memory, Tally, Width};

use super::core::Core;
use super::target::{Flavor, Target};
use super::words::{self, Words};
use crate::datatype::Strip;
use crate::error::{Class, Error, ErrorKind, Result};
use crate::messages::{Landing, MAX_STRIPS, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use crate::rma::attached::{Extent, covers};
use crate::rma::layout::Layout;

/// What an origin knows to be attached at a target.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The target's version of this list; `None`: never asked.
    version: Option<u64>,
    regions: Vec<Extent>,
}

impl Core {
    /// Attaches memory of this process (`MPI_WIN_ATTACH`).
    pub(crate) fn attach(&self, memory: Memory) -> Result<()> {
        self.need_dynamic("attach")?;
        let (address, len) = (memory.as_ptr().addr(), memory.len());
        self.attached.attach(memory).map_err(|other| {
            let why = format!(
                "{len} bytes at address {address:#x} overlap the attached region of {} bytes at {:#x}",
                other.len, other.address
            );
            Error::argument(Class::RmaAttach, "attach", why)
        })?;
        self.regions_changed();
        Ok(())
    }

    /// Detaches the region that begins at `address` (`MPI_WIN_DETACH`).
    pub(crate) fn detach(&self, address: usize) -> Result<()> {
        self.need_dynamic("detach")?;
        if !self.attached.detach(address as u64) {
            let why = format!("no attached region begins at address {address:#x}");
            return Err(Error::argument(Class::RmaAttach, "detach", why));
        }
        self.regions_changed();
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

    /// Fails where a piece of the access is not within a region that is attached at the target, as far as the target does not find that
    /// by itself before anything is done.
    pub(super) fn covered(&self, call: &'static str, target: &Target, at: i64, layout: &Layout<'_>) -> Result<()> {
        let Some(words) = target.words(self) else { return self.ask_covered(target, at, layout) };
        let number = target.peer();
        let (_, known) = self.known.get_or_try_insert(number, || Ok::<_, Error>((number, Mutex::default())))?;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        // SeqCst: pairs with the amo in `regions_changed`; the user's own synchronization ordered the two.
        let version = words.word64(words::VERSION).load(Ordering::SeqCst);
        if known.version != Some(version) {
            self.learn(target, words, &mut known)?;
        }
        for (piece, len) in layout.pieces() {
            let address = at.wrapping_add(piece).cast_unsigned();
            if !covers(&known.regions, address, len) {
                let why = format!(
                    "{len} bytes at address {address:#x} are not within one region that rank {} has attached",
                    target.rank()
                );
                return Err(Error::argument(Class::RmaRange, call, why));
            }
        }
        Ok(())
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
    fn learn(&self, target: &Target, words: Words<'_>, known: &mut MutexGuard<'_, Known>) -> Result<()> {
        loop {
            // SeqCst: as in `covered`.
            let version = words.word64(words::VERSION).load(Ordering::SeqCst);
            let regions = self.ask_regions(target)?;
            if words.word64(words::VERSION).load(Ordering::SeqCst) == version {
                known.version = Some(version);
                known.regions = regions;
                return Ok(());
            }
        }
    }

    fn ask_regions(&self, target: &Target) -> Result<Vec<Extent>> {
        let most = (self.message_max(target) - REPLY_OVERHEAD - 8) / 16;
        let mut regions: Vec<Extent> = Vec::new();
        loop {
            let mut reply = vec![0u64; 1 + 2 * most];
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
            regions
                .extend(reply[1..].as_chunks::<2>().0.iter().take(here).map(|&[address, len]| Extent { address, len }));
            if here == 0 || regions.len() >= total {
                return Ok(regions);
            }
        }
    }

    /// The memory of an access by address at this rank itself: which, where in it, and where it begins for the stripes.
    pub(super) fn own_region(&self, call: &'static str, address: u64, len: usize) -> Result<(Memory, usize, usize)> {
        let found = self.attached.find(address, len).and_then(|(memory, base)| {
            let inside = usize::try_from(address - base).ok()?;
            Some((memory, inside, usize::try_from(base).ok()?))
        });
        found.ok_or_else(|| {
            let why = format!(
                "{len} bytes at address {address:#x} are not within one region that rank {} has attached",
                self.team.me
            );
            Error::argument(Class::RmaRange, call, why)
        })
    }

    /// Takes everything away, when the window is freed.
    pub(super) fn detach_all(&self) {
        self.attached.clear();
    }
}

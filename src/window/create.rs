//! How a window comes and goes: each rank publishes its part, a barrier makes all parts known, and a barrier before the
//! end makes sure that nobody accesses what goes (MPI §11.2.1, §11.2.5). One barrier each: O(log p) signals per rank; a
//! contiguous shared window takes two more, since its segment needs all sizes first, and one more is for windows of large parts, since
//! the ranks of a machine may ask for more together than it has, and for those of which ranks of a node map some parts and not others.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use transom_fabric::{Memory, PeerMap, RegionKey, Tally};

use super::agreement::{BY_NIC, FAILED, FOREIGN, NONCONTIG, PER_ELEMENT, PROMISED, SEPARATE, agreed, tell};
use super::core::{Core, Regions};
use super::model::Separate;
use super::room;
use super::segment::{Announced, Draft};
use super::target::Flavor;
use crate::directory::Part;
use crate::epoch::Call;
use crate::error::{Class, Error, Result};
use crate::hints::{Hints, Info, Model};
use crate::job::{Job, JobCore};
use crate::messages::{Exposed, Space};
use crate::plan::Actor;
use crate::rma::attached::Attached;
use crate::wire::{self, Adopted, Lane, NetRegion};

/// What a window is to be.
pub(super) struct Wanted<'i> {
    pub(super) flavor: Flavor,
    pub(super) unit: u32,
    pub(super) info: &'i Info,
}

impl Core {
    /// Creates this rank's side of a window over all ranks of `job`. A rank that can't create its part says so in the barrier, and
    /// then no rank has the window: nobody waits later for a rank that is not in it.
    pub(super) fn create(
        job: &Job,
        wanted: &Wanted<'_>,
        memory: impl FnOnce(&JobCore, &Hints) -> Result<Memory>,
    ) -> Result<Arc<Core>> {
        let id = job.team().next_window();
        let made = Core::draft(job, wanted, memory).and_then(|draft| Core::open(job, id, wanted, draft));
        Core::together(job, id, made)
    }

    /// Passes the barrier of creation with what this rank made.
    fn together(job: &Job, id: u64, made: Result<Core>) -> Result<Arc<Core>> {
        let told = tell(job, made.as_ref().map_or(FAILED, Core::choices))?;
        let mut core = made?;
        agreed(id, &told).inspect_err(|_| core.withdraw())?;
        core.mapped = core.flavor != Flavor::Dynamic && !FOREIGN.any(told.bits);
        if told.bits & PROMISED != 0 || FOREIGN.differs(told.bits) {
            let ready = core.prepare(told.bits);
            let told = tell(job, if ready.is_ok() { 0 } else { FAILED })?;
            ready.and_then(|()| agreed(id, &told)).inspect_err(|_| core.withdraw())?;
        }
        Ok(Arc::new(core))
    }

    /// What a rank can do only when it knows what all chose.
    fn prepare(&self, told: u32) -> Result<()> {
        if told & PROMISED != 0 {
            self.fits()?;
        }
        // Who waits for nobody's messages takes replies from who does, which others' replies would wait behind.
        if FOREIGN.any(told) { serve(&self.job, true) } else { Ok(()) }
    }

    /// How many times the window takes its parts' bytes from the machine at their first touch.
    fn promises(&self) -> u64 {
        let own = matches!(self.flavor, Flavor::Allocate | Flavor::Shared) && self.segment.is_none();
        u64::from(own) + u64::from(self.separate.is_some())
    }

    /// Whether the machine has the memory for all parts that are here.
    fn fits(&self) -> Result<()> {
        let here = |&member: &usize| self.job.lane(self.team.rank(member)) != Some(Lane::Net);
        let mut bytes = 0u64;
        for member in (0..self.team.size).filter(here) {
            let (part, _) = self.job.lookup(self.team.rank(member), self.id)?;
            if !self.job.wire.populates(usize::try_from(part.size).unwrap_or(usize::MAX)) {
                bytes = bytes.saturating_add(part.size.saturating_mul(self.promises()));
            }
        }
        match room::available() {
            Some(available) if bytes > available => {
                let why = format!(
                    "window {:x}: its parts on the machine of rank {} need {bytes} bytes of memory, of which {available} are \
                     available",
                    self.id, self.job.rank
                );
                Err(Error::argument(Class::Size, "creating a window", why))
            }
            _ => Ok(()),
        }
    }

    /// What this rank chose of what all ranks of a window must choose alike.
    fn choices(&self) -> u32 {
        let noncontig = match self.flavor {
            Flavor::Shared => NONCONTIG.bit(self.segment.is_none()),
            _ => 0,
        };
        let model = SEPARATE.bit(self.separate.is_some());
        let foreign = if self.job.has_neighbours() { FOREIGN.bit(self.is_foreign()) } else { 0 };
        let promised = if self.promises() > 0 && !self.job.wire.populates(self.memory.len()) { PROMISED } else { 0 };
        promised
            | foreign
            | noncontig
            | model
            | PER_ELEMENT.bit(self.per_element)
            | BY_NIC.bit(self.actor == Actor::Nic)
    }

    /// Whether this rank's part is the user's own memory, which ranks of the node can't map.
    fn is_foreign(&self) -> bool {
        self.regions.shm.as_ref().is_some_and(is_foreign)
    }

    fn draft(job: &Job, wanted: &Wanted<'_>, memory: impl FnOnce(&JobCore, &Hints) -> Result<Memory>) -> Result<Draft> {
        if wanted.unit == 0 {
            let why = "the displacement unit is 0; it is at least 1 byte";
            return Err(Error::argument(Class::Disp, "creating a window", why));
        }
        let hints = Hints::at_creation(wanted.info, wanted.flavor)?;
        let memory = memory(job.core(), &hints)?;
        Ok(Draft { hints, memory, shared: None })
    }

    /// Creates a window whose parts lie one after the other in one segment (MPI §11.2.3), unless the hint allows them
    /// to lie apart.
    pub(super) fn create_shared(job: &Job, wanted: &Wanted<'_>, size: usize) -> Result<Arc<Core>> {
        let hints = Core::draft(job, wanted, |_, _| Ok(Memory::private(0))).and_then(|draft| {
            let far = (0..job.size()).find(|&member| job.core().lane(job.team().rank(member)) == Some(Lane::Net));
            let apart = |member| {
                let why = format!(
                    "ranks {} and {member} do not share memory: a shared window is over ranks of one node",
                    job.rank()
                );
                Err(Error::argument(Class::RmaShared, "allocate_shared", why))
            };
            far.map_or(Ok(draft.hints), apart)
        });
        if hints.as_ref().is_ok_and(|hints| hints.noncontig) {
            return Core::create(job, wanted, |job, hints| allocated(job, "allocate_shared", size, hints));
        }
        let id = job.team().next_window();
        let sized = hints.and_then(|hints| Announced::publish(job, id, size, wanted.unit, hints));
        let told = tell(job, if sized.is_ok() { NONCONTIG.bit(false) } else { FAILED })?;
        let sized = sized?;
        agreed(id, &told).inspect_err(|_| job.core().retract(sized.place))?;
        let place = sized.place;
        let segment = sized.segment();
        let told = tell(job, if segment.is_ok() { 0 } else { FAILED })?;
        let retract = |_: &Error| job.core().retract(place);
        let (sized, region) = segment.inspect_err(retract)?;
        agreed(id, &told).inspect_err(retract)?;
        let draft = sized.draft(region).inspect_err(retract);
        Core::together(job, id, draft.and_then(|draft| Core::open(job, id, wanted, draft)))
    }

    fn open(job: &Job, id: u64, wanted: &Wanted<'_>, draft: Draft) -> Result<Core> {
        let Draft { hints, memory, shared } = draft;
        let (job, team) = (job.core(), job.team());
        let (memory, separate) = copies(job, memory, hints.model)?;
        let dynamic = wanted.flavor == Flavor::Dynamic;
        let offset = shared.as_ref().map_or(0, |share| share.offset);
        let (segment, region, published) = match shared {
            Some(share) => (Some(share.segment), share.region, Some((share.place, share.words))),
            None => (None, None, None),
        };
        let regions = regions(job, wanted.flavor, &memory, segment.is_some().then_some(region))?;
        let actor = job.actor_for(hints.atomics)?;
        let part = Part {
            size: if dynamic { u64::MAX } else { memory.len() as u64 },
            unit: wanted.unit,
            skew: memory.as_ptr().addr().to_le_bytes()[0] % 8,
            shm: regions.shm.as_ref().map(wire::shm_key).unwrap_or_default(),
            net: regions.net.as_ref().map_or(RegionKey::default(), NetRegion::key),
            offset,
        };
        let (place, words) = match published {
            Some(there) => {
                job.republish(there.0, id, &part);
                there
            }
            None => job.publish(id, &part)?,
        };
        let attached = Arc::new(Attached::default());
        let space = if dynamic { Space::Attached(Arc::clone(&attached)) } else { Space::Part(memory.clone()) };
        let exposed = Arc::new(Exposed::new(space, words.clone(), hints.per_element()));
        job.messages.expose(id, Arc::clone(&exposed));
        serve(job, regions.shm.as_ref().is_some_and(is_foreign))?;
        Ok(Core {
            job: Arc::clone(job),
            team: Arc::clone(team),
            id,
            flavor: wanted.flavor,
            memory,
            separate,
            part,
            words,
            exposed,
            attached,
            segment,
            ordered: AtomicBool::new(hints.ordered()),
            no_locks: AtomicBool::new(hints.no_locks),
            per_element: hints.per_element(),
            mapped: false,
            hints: Mutex::new(hints),
            actor,
            tally: Tally::new(),
            place,
            regions,
            targets: PeerMap::new(),
            own: OnceLock::new(),
            busy: AtomicU64::new(0),
            known: PeerMap::new(),
            epoch: AtomicU8::new(0),
            fences: AtomicU32::new(0),
            locks: AtomicU32::new(0),
            exclusives: AtomicU32::new(0),
            holds_all: AtomicBool::new(false),
            started: Mutex::default(),
            origins: AtomicU32::new(0),
        })
    }

    /// Ends peers' access, after a barrier in which each rank says that it accesses no more.
    pub(crate) fn free(&self) -> Result<()> {
        let freed = self.check("free", Call::Free)?;
        // Until the barrier is past the window is as it was: an error leaves it, and its memory, to the peers.
        let flushed = self.flush_all();
        self.publish();
        self.barrier()?;
        self.refresh();
        self.withdraw();
        self.enter(freed);
        flushed
    }

    /// Takes this rank's part away, once no peer uses it.
    fn withdraw(&self) {
        self.job.retract(self.place);
        self.job.messages.forget(self.id);
        self.detach_all();
        drop(self.regions.adopted.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.enter((crate::epoch::Access::Freed, crate::epoch::Exposure::Closed));
    }

    /// Whether `free` came to its end.
    pub(crate) fn is_freed(&self) -> bool {
        self.state().0 == crate::epoch::Access::Freed
    }

    /// For a window that is dropped without `free`: says so, and keeps its memory, since peers may still access it.
    pub(crate) fn abandon(core: &Arc<Core>) {
        if core.is_freed() {
            return;
        }
        core.settle();
        core.job.lost();
        std::mem::forget(Arc::clone(core));
        if !std::thread::panicking() {
            // A drop can't return it
            eprintln!("transom: rank {}: {core:?} was dropped without free; its memory is kept", core.job.rank);
        }
    }
}

/// The public copy and, in the separate model, the private one.
fn copies(job: &JobCore, memory: Memory, model: Model) -> Result<(Memory, Option<Separate>)> {
    match model {
        Model::Unified => Ok((memory, None)),
        Model::Separate => {
            let public = job.wire.allocate(memory.len())?;
            let separate = Separate::new(memory, &public);
            Ok((public, Some(separate)))
        }
    }
}

/// What lets peers access a part; one in a segment has its way to ranks of the node from there.
fn regions(
    job: &JobCore,
    flavor: Flavor,
    memory: &Memory,
    of_segment: Option<Option<wire::ShmRegion>>,
) -> Result<Regions> {
    let wire = &job.wire;
    if flavor == Flavor::Dynamic {
        return Ok(Regions { shm: wire.register_addresses(), ..Regions::default() });
    }
    let adopted = if flavor == Flavor::Create { adopted(job, memory) } else { None };
    let shm = of_segment.map_or_else(|| wire.register_shm(memory), Ok)?;
    Ok(Regions { shm, net: wire.register_net(memory)?, adopted: Mutex::new(adopted) })
}

/// Makes memory of the user one that ranks of the node can map, where there are any and it can be done.
pub(super) fn adopted(job: &JobCore, memory: &Memory) -> Option<Adopted> {
    let neighbours = job.neighbours() as u64;
    if memory.is_empty() || !job.may_adopt() || neighbours == 0 {
        return None;
    }
    let bytes = memory.len() as u64;
    let available = if memory.len() < room::LARGE { None } else { room::available() };
    let adopted = match available {
        // The others of the node may copy as much at the same time.
        Some(available) if bytes.saturating_mul(neighbours + 1) > available => {
            Err(format!("{available} bytes of memory are available, which all ranks here may want for copies"))
        }
        _ => job.wire.adopt(memory)?,
    };
    adopted.inspect_err(|why| job.tell(&format!("{bytes} bytes of the user are not mapped by others: {why}"))).ok()
}

/// Whether ranks of the node reach a region by addresses of this process, and where they can't, by messages.
fn is_foreign(region: &wire::ShmRegion) -> bool {
    !wire::is_mapped(&wire::shm_key(region))
}

/// Serves what requests others may send to the window's rank while it computes.
fn serve(job: &JobCore, foreign: bool) -> Result<()> {
    if foreign && job.has_neighbours() {
        job.serve(Lane::Shm)?;
    }
    if job.wire.has(Lane::Net) { job.serve(Lane::Net) } else { Ok(()) }
}

/// Memory of the library, aligned as the hints want, with the error that a user expects.
pub(super) fn allocated(job: &JobCore, call: &'static str, bytes: usize, hints: &Hints) -> Result<Memory> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::argument(Class::Size, call, format!("{bytes} bytes at rank {}: {error}", job.rank))
    };
    if bytes >= room::LARGE
        && let Some(available) = room::available().filter(|&available| bytes as u64 > available)
    {
        return Err(failed(&format!("{available} bytes of memory are available")));
    }
    // Blocks begin on pages.
    if hints.alignment <= 4096 || bytes == 0 {
        return job.wire.allocate(bytes).map_err(|error| failed(&error));
    }
    let room = bytes.checked_add(hints.alignment).ok_or_else(|| failed(&"the size overflows"))?;
    let block = job.wire.allocate(room).map_err(|error| failed(&error))?;
    let skip = block.as_ptr().addr().next_multiple_of(hints.alignment) - block.as_ptr().addr();
    block.slice(skip, bytes).ok_or_else(|| failed(&"no room for the alignment"))
}

//! Creation and end of a window (MPI-4.1 §12.2.1, §12.2.5). At creation each rank publishes its
//! part and a barrier makes all parts known. At the end a barrier precedes the removal, so that no
//! rank accesses a removed part. Each barrier costs O(log p) signals at each rank. A contiguous
//! shared window takes two more barriers, since its segment needs all sizes first. Two kinds of
//! windows take one more barrier: windows with large parts, because the ranks of a machine together
//! may request more memory than it has; and windows of which ranks of a node map some parts and not
//! others.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use transom_fabric::{Memory, RegionKey, diagnostics};

use super::active_hints::ActiveHints;
use super::agreement::{
    BY_NIC, FAILED, NONCONTIG, PAGES_AT_FIRST_TOUCH, PER_ELEMENT, SEPARATE, UNMAPPED, check_agreement, error_at_failed,
    exchange, failed,
};
use super::available_memory::{self, Available, Unchecked, allocated};
use super::core::Core;
use super::delayed_lock::LockDelay;
use super::epoch_state::EpochState;
use super::keys;
use super::model::Separate;
use super::own::{Own, Regions};
use super::parts::Parts;
use super::segment::{Announced, Draft};
use super::targets::Targets;
use crate::directory::Part;
use crate::epoch::{Access, Call};
use crate::error::{ArgumentError, Class, Error, Result};
use crate::flavor::Flavor;
use crate::hints::{Hints, Info, Model};
use crate::job::{Job, JobCore, Team};
use crate::memory::attached::Attached;
use crate::messages::{Atomicity, Exposed, Space};
use crate::routes::Actor;
use crate::sync::lock::Patience;
use crate::transport::{self, Lane, NetRegion};

/// The properties of a window to be created.
pub(super) struct WindowSpec<'i> {
    pub(super) flavor: Flavor,
    pub(super) unit: u32,
    pub(super) info: &'i Info,
}

impl Core {
    /// Creates this rank's side of a window over all ranks of `job`. A rank that can't create its
    /// part reports this in the barrier. Then no rank has the window, so that no rank waits later
    /// for a rank without it.
    pub(super) fn create(
        job: &Job,
        spec: &WindowSpec<'_>,
        memory: impl FnOnce(&JobCore, &Hints) -> Result<Memory>,
    ) -> Result<Arc<Core>> {
        let _collective = job.team().collective("creating a window")?;
        Core::create_within(job, spec, memory)
    }

    /// [`Core::create`] for a caller that has entered the collective call.
    fn create_within(
        job: &Job,
        spec: &WindowSpec<'_>,
        memory: impl FnOnce(&JobCore, &Hints) -> Result<Memory>,
    ) -> Result<Arc<Core>> {
        let id = job.team().next_window();
        let made =
            Core::draft(job, spec, memory).and_then(|draft| Parts::open(job.core(), job.team(), id, spec, draft));
        Core::join(job, id, made)
    }

    /// Passes the barriers of creation with this rank's result. Returns the window if all ranks
    /// have it.
    fn join(job: &Job, id: u64, made: Result<Parts>) -> Result<Arc<Core>> {
        let made = made.and_then(Parts::checked);
        let met = exchange(job, id, made.as_ref().map_or_else(failed, Parts::choices));
        let (parts, outcome) = match (made, met) {
            (Ok(parts), Ok(outcome)) => (parts, outcome),
            (Err(error), Ok(outcome)) => return Err(error_at_failed(id, &outcome, error)),
            (Ok(parts), Err(unmet)) => {
                parts.withdraw_unmet();
                return Err(unmet);
            }
            (Err(_), Err(unmet)) => return Err(unmet),
        };
        check_agreement(id, &outcome).inspect_err(|_| parts.withdraw())?;
        let mapped = parts.flavor != Flavor::Dynamic && !UNMAPPED.any(outcome.bits);
        if outcome.bits & PAGES_AT_FIRST_TOUCH != 0 || UNMAPPED.differs(outcome.bits) {
            let ready = parts.prepare(outcome.bits);
            let met = exchange(job, id, if ready.is_ok() { 0 } else { FAILED });
            let agreed = met.and_then(|outcome| ready.and_then(|()| check_agreement(id, &outcome)));
            agreed.inspect_err(|_| parts.withdraw_unmet())?;
        }
        let epochs = EpochState::new(parts.team.size, job.core().is_serial());
        Ok(Arc::new_cyclic(|this| Core { parts, epochs, mapped, this: Weak::clone(this) }))
    }

    fn draft(
        job: &Job,
        spec: &WindowSpec<'_>,
        memory: impl FnOnce(&JobCore, &Hints) -> Result<Memory>,
    ) -> Result<Draft> {
        if spec.unit == 0 {
            return Err(Error::argument(Class::Disp, "creating a window", ArgumentError::NoUnit));
        }
        let mut hints = Hints::at_creation(spec.info, spec.flavor)?;
        let memory = memory(job.core(), &hints)?;
        hints.huge_pages = hints.huge_pages.map(|_| available_memory::has_huge_pages(job.core()));
        Ok(Draft { hints, memory, shared: None })
    }

    /// Creates a window whose parts are contiguous in one segment (MPI-4.1 §12.2.3), unless the
    /// hint allows separate parts. `size`: the size of this rank's part. An error in `size` is
    /// reported after the other ranks have learned of it.
    pub(super) fn create_shared(job: &Job, spec: &WindowSpec<'_>, size: Result<usize>) -> Result<Arc<Core>> {
        let _collective = job.team().collective("creating a window")?;
        let hints = Core::draft(job, spec, |_, _| Ok(Memory::private(0))).and_then(|draft| {
            let remote = (0..job.size()).find(|&member| job.core().lane(job.team().rank(member)) == Some(Lane::Net));
            let apart = |other| {
                let reason = ArgumentError::Apart { rank: job.rank(), other };
                Err(Error::argument(Class::RmaShared, "allocate_shared", reason))
            };
            remote.map_or(Ok(draft.hints), apart)
        });
        if hints.as_ref().is_ok_and(|hints| hints.noncontig) {
            return Core::create_within(job, spec, |job, hints| allocated(job, "allocate_shared", size?, hints));
        }
        let id = job.team().next_window();
        let sized = hints.and_then(|hints| Announced::publish(job, id, size?, spec.unit, hints));
        let met = exchange(job, id, sized.as_ref().map_or_else(failed, |_| NONCONTIG.bit(false)));
        let sized = match sized {
            Ok(sized) => sized,
            Err(error) => return Err(met.map_or_else(|unmet| unmet, |outcome| error_at_failed(id, &outcome, error))),
        };
        let place = sized.place;
        let retract = |_: &Error| job.core().block.retract(place);
        met.and_then(|outcome| check_agreement(id, &outcome)).inspect_err(retract)?;
        let segment = sized.segment();
        let met = exchange(job, id, if segment.is_ok() { 0 } else { FAILED });
        let (sized, region) = segment.inspect_err(retract)?;
        met.and_then(|outcome| check_agreement(id, &outcome)).inspect_err(retract)?;
        let made = sized.draft(region).and_then(|draft| Parts::open(job.core(), job.team(), id, spec, draft));
        // Until the barrier in `join` other ranks may read the published size.
        let published = made.is_err();
        Core::join(job, id, made).inspect_err(|_| {
            if published {
                job.core().block.retract(place);
            }
        })
    }

    /// Ends the peers' access after a barrier, which each rank enters after its last access.
    pub(crate) fn free(&self) -> Result<()> {
        self.epochs.check("free", Call::Free)?;
        // Until the barrier has passed the window is unchanged: an error leaves the window and its
        // memory to the peers.
        let flushed = self.parts.flush_all();
        self.parts.own.publish();
        self.barrier()?;
        if self.parts.is_checked() {
            // All ranks have read the clocks before the first rank removes its shadow.
            self.barrier_after(1, 0)?;
        }
        self.parts.own.refresh();
        // Notices of all ranks have arrived, and end requests that wait for them.
        let settled = self.parts.job.progress.settle();
        self.parts.end_thresholds();
        self.parts.withdraw();
        self.epochs.freed();
        flushed.and(settled)
    }

    /// Whether `free` has succeeded.
    pub(crate) fn is_freed(&self) -> bool {
        self.epochs.state().0 == Access::Freed
    }

    /// For a window that is dropped without `free`: reports it, and keeps the memory, since peers
    /// may still access it.
    pub(crate) fn abandon(core: &Arc<Core>) {
        if core.is_freed() {
            return;
        }
        core.abandon_delayed();
        core.parts.settle();
        core.parts.job.record_leaked_window();
        std::mem::forget(Arc::clone(core));
        if !std::thread::panicking() {
            // `drop` can't return an error.
            let what = format!("rank {}: {core:?} was dropped without free; its memory is kept", core.parts.job.rank);
            diagnostics::warn("transom::window", &what);
        }
    }
}

impl Parts {
    /// This rank's part, published, with no target contacted. A failure publishes nothing, and
    /// leaves a part that was published before.
    pub(super) fn open(
        job: &Arc<JobCore>,
        team: &Arc<Team>,
        id: u64,
        spec: &WindowSpec<'_>,
        draft: Draft,
    ) -> Result<Parts> {
        let Draft { hints, memory, shared } = draft;
        let (memory, separate) = copies(job, memory, hints.model)?;
        let dynamic = spec.flavor == Flavor::Dynamic;
        let offset = shared.as_ref().map_or(0, |share| share.offset);
        let (segment, region, published) = match shared {
            Some(share) => (Some(share.segment), share.region, Some((share.place, share.words))),
            None => (None, None, None),
        };
        let actor = job.actor_for(team, hints.atomics)?;
        // The loopback of a device that performs the atomics accesses parts of its own node too.
        let over_net = actor != Actor::Cpu || !job.is_one_node(team);
        let net_use = NetUse::of(over_net, &memory, segment.as_ref());
        let regions = regions(job, spec.flavor, &memory, segment.is_some().then_some(region), net_use)?;
        serve_if_needed(job, regions.shm.as_ref().is_some_and(is_unmapped))?;
        let mut part = Part {
            // Addresses beyond `i64` are no memory of a process, and do not fit into messages.
            size: if dynamic { i64::MAX.cast_unsigned() } else { memory.len() as u64 },
            unit: spec.unit,
            skew: memory.as_ptr().addr().to_le_bytes()[0] % 8,
            is_named: false,
            shm: regions.shm.as_ref().map(transport::shm_key).unwrap_or_default(),
            net: regions.net.as_ref().map_or(RegionKey::default(), NetRegion::key),
            offset,
        };
        let (place, words) = match published {
            Some(there) => {
                job.block.republish(there.0, id, &part);
                there
            }
            None => job.block.publish(id, &part)?,
        };
        let attached = if dynamic { Arc::new(Attached::default()) } else { Attached::nothing() };
        let space = if dynamic { Space::Attached(Arc::clone(&attached)) } else { Space::Part(memory.clone()) };
        let atomicity = Atomicity {
            block: job.block.memory().clone(),
            words_at: job.block.words_at(place),
            visitor: job.block.visitor,
            per_element: hints.per_element(),
        };
        let exposed = Arc::new(Exposed::new(space, words.clone(), atomicity));
        let keys = (dynamic && job.wire.net().is_some()).then(|| keys::exchange(job, &attached, &exposed));
        job.messages.expose(id, Arc::clone(&exposed));
        name(job, team, (id, place), &exposed, &mut part);
        Ok(Parts {
            job: Arc::clone(job),
            team: Arc::clone(team),
            id,
            flavor: spec.flavor,
            actor,
            control: job.actor(team),
            all_locked: AtomicBool::new(false),
            own: Own { memory, separate, part, place, words, exposed, attached, segment, regions: Mutex::new(regions) },
            targets: Targets::new(team, keys),
            hints: ActiveHints::new(hints),
            delay: LockDelay::default(),
            patience: Patience::default(),
            counters: OnceLock::new(),
            fast_ranks: team.size,
            checked: None,
        })
    }

    /// The steps of creation that need the choices of all ranks.
    fn prepare(&self, bits: u32) -> Result<()> {
        if bits & PAGES_AT_FIRST_TOUCH != 0 {
            self.check_memory()?;
        }
        // A rank that serves no requests still gets replies from ranks that serve its own requests.
        // If it does not read them, they fill its ring, and the senders can't reply to other ranks.
        if UNMAPPED.any(bits) { serve_if_needed(&self.job, true) } else { Ok(()) }
    }

    /// Whether the kernel allocates the part's pages at the first touch. In the separate memory
    /// model the creation has already touched the pages.
    fn is_unallocated(&self) -> bool {
        let allocates = matches!(self.flavor, Flavor::Allocate | Flavor::Shared) && self.own.segment.is_none();
        allocates && self.own.separate.is_none()
    }

    /// Whether the pages of a part of `len` bytes are allocated at its creation.
    fn is_populated(&self, len: usize) -> bool {
        self.job.wire.populates(len, self.hints.in_huge_pages)
    }

    /// Fails if the machine lacks memory for the parts of all its ranks, or a control group for the
    /// parts of the ranks that it limits. Only the first member on the machine, and the first one
    /// below the limit of a group, contacts the others and checks; they learn of its failure in the
    /// barrier that follows.
    fn check_memory(&self) -> Result<()> {
        static OF_MACHINE: Unchecked = Unchecked::new();
        static OF_GROUP: Unchecked = Unchecked::new();
        let here = |&member: &usize| self.job.shares_machine(self.team.rank(member));
        let limited = |&member: &usize| self.job.shares_memory_limit(self.team.rank(member));
        let is_first = !(0..self.team.me).any(|member| here(&member));
        let is_first_limited = !(0..self.team.me).any(|member| limited(&member));
        if !self.is_unallocated() || !is_first_limited {
            return Ok(());
        }
        let (mut on_machine, mut in_group) = (0u64, 0u64);
        for member in (0..self.team.size).filter(|member| if is_first { here(member) } else { limited(member) }) {
            let (part, _) = self.job.lookup(self.team.rank(member), self.id)?;
            if !self.is_populated(usize::try_from(part.size).unwrap_or(usize::MAX)) {
                on_machine = on_machine.saturating_add(part.size);
                in_group = in_group.saturating_add(if limited(&member) { part.size } else { 0 });
            }
        }
        let on_machine = if is_first { OF_MACHINE.add(on_machine) } else { None };
        let in_group = OF_GROUP.add(in_group);
        if on_machine.or(in_group).is_none() {
            return Ok(());
        }
        let available = Available::now();
        for (needed, available) in [(on_machine, available.machine), (in_group, available.group)] {
            if let (Some(needed), Some(available)) = (needed, available)
                && needed > available
            {
                let (window, rank) = (self.id, self.job.rank);
                let reason = ArgumentError::PartsTooLarge { window, rank, needed, available };
                return Err(Error::argument(Class::Size, "creating a window", reason));
            }
        }
        Ok(())
    }

    /// This rank's choices among those on which all ranks must agree.
    fn choices(&self) -> u32 {
        let noncontig = match self.flavor {
            Flavor::Shared => NONCONTIG.bit(self.own.segment.is_none()),
            _ => 0,
        };
        let model = SEPARATE.bit(self.own.separate.is_some());
        let foreign = if self.job.has_neighbours() { UNMAPPED.bit(self.is_unmapped()) } else { 0 };
        let promised =
            if self.is_unallocated() && !self.is_populated(self.own.memory.len()) { PAGES_AT_FIRST_TOUCH } else { 0 };
        promised
            | foreign
            | noncontig
            | model
            | PER_ELEMENT.bit(self.hints.per_element)
            | BY_NIC.bit(self.actor != Actor::Cpu)
    }

    /// Whether this rank's part is user memory that ranks of the node can't map.
    fn is_unmapped(&self) -> bool {
        self.own.regions().shm.as_ref().is_some_and(is_unmapped)
    }

    /// Removes this rank's part after a barrier of the creation has failed. Other ranks may have
    /// the window, and may send notices of it.
    #[cold]
    fn withdraw_unmet(&self) {
        self.job.messages.expect_late_notices(self.id);
        self.withdraw();
    }

    /// Removes this rank's part. No peer uses it any more.
    pub(super) fn withdraw(&self) {
        if let Some(counters) = self.counters.get() {
            counters.withdraw();
        }
        if let Some(checked) = &self.checked {
            checked.withdraw();
        }
        self.gives_memory_back();
        // Before the slot is free for another window: late notices may still name it.
        self.job.messages.forget(self.id);
        self.job.block.retract(self.own.place);
        // The program may now unmap its memory, while the handle of the freed window still exists.
        drop(std::mem::take(&mut *self.own.regions()));
        self.detach_all();
    }
}

/// Lets immediates of other nodes name the window `id` by its slot, if immediates can stand for
/// its signals and notices.
fn name(job: &JobCore, team: &Team, (id, place): (u64, usize), exposed: &Arc<Exposed>, part: &mut Part) {
    let carries = job.signals_by_immediates() && !job.is_one_node(team);
    if carries && job.messages.name(place, id, Arc::clone(exposed)) {
        part.is_named = true;
        // No other rank reads the part before the barrier of the creation.
        job.block.republish(place, id, part);
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

/// A part of up to this size is registered even if the net accesses no part of the window. Long
/// transfers in other windows whose origin buffers lie in the part then need no registration of
/// their own. A device does not pin the pages of a longer part, nor those of a shared window that
/// is one rank's part: they lie where the program first touches them.
const LENT_BYTES: usize = 16 << 20;

/// Who accesses a part through the net.
#[derive(Clone, Copy, Debug)]
enum NetUse {
    /// Other ranks, and the owner.
    Ranks,
    /// The owner alone, as an origin buffer of transfers in other windows.
    Owner,
    Nobody,
}

impl NetUse {
    /// `over_net`: whether ranks access parts of the window through the net. `segment`: the parts
    /// of all ranks together.
    fn of(over_net: bool, part: &Memory, segment: Option<&Memory>) -> NetUse {
        let lends = part.len() <= LENT_BYTES && segment.is_none_or(|all| part.len() < all.len());
        match over_net {
            true => NetUse::Ranks,
            false if lends => NetUse::Owner,
            false => NetUse::Nobody,
        }
    }
}

/// Registers a part for access by peers. For a part in a segment, access within the node is
/// registered with the segment.
fn regions(
    job: &JobCore,
    flavor: Flavor,
    memory: &Memory,
    of_segment: Option<Option<transport::ShmRegion>>,
    net_use: NetUse,
) -> Result<Regions> {
    let wire = &job.wire;
    if flavor == Flavor::Dynamic {
        return Ok(Regions { shm: wire.register_addresses(), ..Regions::default() });
    }
    let shm = of_segment.map_or_else(|| wire.register_shm(memory), Ok)?;
    let net = match net_use {
        NetUse::Ranks => wire.register_net(memory)?,
        NetUse::Owner => wire.lend_net(memory),
        NetUse::Nobody => None,
    };
    Ok(Regions { shm, net })
}

/// Whether ranks of the node reach a region by addresses of this process, or by messages where they
/// can't use addresses.
fn is_unmapped(region: &transport::ShmRegion) -> bool {
    !transport::is_mapped(&transport::shm_key(region))
}

/// Serves requests that other ranks may send to this rank while it computes, where there may be
/// any. `has_unmapped_part`: ranks of the node can't map a part of the window.
fn serve_if_needed(job: &JobCore, has_unmapped_part: bool) -> Result<()> {
    if has_unmapped_part && job.has_neighbours() {
        job.serve(Lane::Shm)?;
    }
    if job.wire.has(Lane::Net) { job.serve(Lane::Net) } else { Ok(()) }
}

#[cfg(test)]
mod tests;

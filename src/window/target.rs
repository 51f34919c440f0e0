//! A target of a window after first contact: the size of its part, the route to it, and this
//! process's state for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use transom_fabric::{Keyed, Memory, Peer, RegionKey, Tally, TallyRef};

use super::parts::Parts;
use crate::directory::{self, Part};
use crate::error::{JobError, Result};
use crate::flavor::Flavor;
use crate::job::{Cause, JobCore, Link, peer};
use crate::messages::named;
use crate::routes::Actor;
use crate::sync::words::Words;
use crate::transport::{self, Lane, Net, NetMemory, NodeMemory, ProcessMemory};

/// A target takes 96 bytes with its tally, and the table of targets may be a third larger than its
/// entries. The limit is 128 bytes for each target (tests/sim_costs.rs).
const _: () = assert!(size_of::<Target>() == 72);

/// Bit of a target's state: new operations on the target wait until the bit is clear (`drain`).
const HELD_BACK: u8 = 1 << 7;

/// The lock or epoch that this process has open at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hold {
    /// Nothing.
    None = 0,
    /// A shared lock.
    Shared = 1,
    /// An exclusive lock, announced in the master word.
    Exclusive = 2,
    /// A lock whose end changes no word: by `MPI_MODE_NOCHECK`, or released already.
    Unchecked = 3,
    /// In the group of `start`; its post has not arrived yet.
    Started = 4,
    /// In the group of `start`, and has posted, or need not.
    Open = 5,
    /// `Open`, where the post came in a control word. `complete` clears the word.
    Posted = 6,
    /// An exclusive lock by the target's bias.
    Biased = 7,
    /// A delayed lock, which is not taken yet (`delayed_lock`).
    Delayed = 8,
    /// `Shared` where the lock could have been delayed; no operation so far.
    UnusedShared = 9,
    /// `Biased` where the lock could have been delayed; no operation so far.
    UnusedBiased = 10,
    /// A delayed lock that could not be taken. No operation is possible until the epoch's end,
    /// which is an error too.
    Failed = 11,
}

impl Hold {
    /// Whether the target is in the group of `start`.
    pub(super) fn is_of_start(self) -> bool {
        matches!(self, Hold::Started | Hold::Open | Hold::Posted)
    }

    /// The state of a number, without [`HELD_BACK`].
    #[inline]
    fn of(number: u8) -> Hold {
        match number {
            1 => Hold::Shared,
            2 => Hold::Exclusive,
            3 => Hold::Unchecked,
            4 => Hold::Started,
            5 => Hold::Open,
            6 => Hold::Posted,
            7 => Hold::Biased,
            8 => Hold::Delayed,
            9 => Hold::UnusedShared,
            10 => Hold::UnusedBiased,
            11 => Hold::Failed,
            _ => Hold::None,
        }
    }

    /// Whether this is a lock that its end releases by the target's word.
    #[inline]
    pub(super) fn is_lock(self) -> bool {
        matches!(self, Hold::Shared | Hold::Exclusive | Hold::Biased)
    }

    /// The state of a lock before its first operation, if the lock could have been delayed.
    pub(super) fn unused(self) -> Hold {
        match self {
            Hold::Shared => Hold::UnusedShared,
            Hold::Biased => Hold::UnusedBiased,
            other => other,
        }
    }

    /// The state of a lock after its first operation.
    pub(super) fn used(self) -> Hold {
        match self {
            Hold::UnusedShared => Hold::Shared,
            Hold::UnusedBiased => Hold::Biased,
            other => other,
        }
    }
}

/// How an origin changes a target's control words. All origins of a window use one actor.
#[derive(Debug)]
pub(crate) enum Control<'t> {
    /// By this CPU.
    Memory(Words<'t>),
    /// By the net: the target's job block, and the offset of the control words in it.
    Post(&'t NetMemory, u64),
    /// By the target's CPU, on request by a message.
    Messages,
}

/// How the data of a target is reached, decided at first contact.
#[derive(Debug)]
pub(crate) enum Reach {
    /// This CPU loads and stores the data. With the link to the target's rank, whose job block this
    /// CPU maps too; `None` for the own part.
    Mapped(Memory, Option<Arc<Link>>),
    Unmapped(Unmapped),
}

/// Data that this CPU does not load and store.
#[derive(Debug)]
pub(crate) enum Unmapped {
    /// By posts to the net.
    Posted(NetMemory),
    /// By the kernel, which copies synchronously (`kernel_copies`), so an operation is complete on
    /// return.
    Copied(Box<ProcessMemory>),
    /// By messages that the target's CPU executes.
    Messages,
    /// A dynamic window's target. Each access is resolved by its address (`dynamic`): to mapped
    /// regions, to cross-memory attach where the kernel allows it, else to messages.
    Dynamic(Option<Box<ProcessMemory>>),
}

impl Reach {
    /// The memory, if this CPU maps it.
    pub(super) fn memory(&self) -> Option<&Memory> {
        match self {
            Reach::Mapped(memory, _) => Some(memory),
            Reach::Unmapped(_) => None,
        }
    }

    /// The memory as the kernel copies it, if all or some of the accesses are such copies.
    pub(super) fn memory_of_kernel_copies(&self) -> Option<&ProcessMemory> {
        match self {
            Reach::Unmapped(Unmapped::Copied(memory) | Unmapped::Dynamic(Some(memory))) => Some(memory),
            _ => None,
        }
    }

    /// Whether accesses are by address, within attached regions.
    pub(super) fn is_dynamic(&self) -> bool {
        matches!(self, Reach::Unmapped(Unmapped::Dynamic(_)))
    }
}

/// In [`Target::skew`]: immediates can name the window at this target.
const NAMED: u8 = 1 << 7;
const _: () = assert!(directory::SLOTS <= named::SLOTS && directory::SLOTS <= u16::MAX as usize);

/// A rank's part of the window, as this rank reaches it. A window has one for each target that it
/// has accessed, so the struct holds no derivable data: data common to all windows is in the job's
/// link, data that few windows need is in the window.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its number in the window's group.
    number: u32,
    pub(crate) unit: u32,
    pub(crate) size: u64,
    /// The window's slot in the target's directory.
    place: u16,
    /// The part's address modulo 8, and [`NAMED`], which is a multiple of every alignment.
    pub(crate) skew: u8,
    hold: AtomicU8,
    /// The number of the last request that keeps its order.
    pub(super) order: AtomicU32,
    pub(crate) reach: Reach,
    pub(crate) tally: TallyRef,
}

impl Keyed for Target {
    #[inline]
    fn peer(&self) -> Peer {
        Peer(self.number)
    }
}

impl Target {
    /// First contact: reads the part that a rank has published, and opens the route to it.
    pub(crate) fn contact(parts: &Parts, rank: usize) -> Result<Target> {
        let job_rank = parts.team.rank(rank);
        let own = rank == parts.team.me;
        let (part, place) =
            if own { (parts.own.part, parts.own.place) } else { parts.job.lookup(job_rank, parts.id)? };
        let reach = match own {
            // The target resolves addresses of a dynamic window.
            true if parts.flavor == Flavor::Dynamic => Reach::Unmapped(Unmapped::Dynamic(None)),
            true => Reach::Mapped(parts.own.memory.clone(), None),
            false => elsewhere(parts, job_rank, &part)?,
        };
        parts.import_loopback(rank, &part, &reach)?;
        let by_immediates = part.is_named && parts.job.signals_by_immediates();
        let is_named = by_immediates && parts.job.lane(job_rank) == Some(Lane::Net);
        Ok(Target {
            number: peer(rank).0,
            unit: part.unit,
            size: part.size,
            // The conversion does not fail: a directory has fewer slots.
            place: u16::try_from(place).unwrap_or(u16::MAX),
            skew: part.skew | if is_named { NAMED } else { 0 },
            hold: AtomicU8::new(Hold::None as u8),
            order: AtomicU32::new(0),
            reach,
            tally: Tally::within(&parts.targets.tally),
        })
    }

    /// The window's slot in the target's directory.
    #[inline]
    fn slot(&self) -> usize {
        usize::from(self.place)
    }

    /// The number by which immediates name the window at a target of another node, if they can.
    pub(super) fn named(&self) -> Option<u32> {
        (self.skew & NAMED != 0).then_some(u32::from(self.place))
    }

    /// Its number in the window's group.
    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.number as usize
    }

    #[inline]
    pub(crate) fn hold(&self) -> Hold {
        // Acquire: pairs with the Release in `set_hold`.
        Hold::of(self.hold.load(Ordering::Acquire) & !HELD_BACK)
    }

    /// Whether the next operation must check the state of the target's lock: the lock is delayed or
    /// failed, the epoch has had no operation yet, or operations are held back.
    #[inline]
    pub(super) fn awaits_use(&self) -> bool {
        // Relaxed: as for the window's epoch.
        self.hold.load(Ordering::Relaxed) >= Hold::Delayed as u8
    }

    /// Whether operations on the target may wait for its lock.
    pub(super) fn is_delayed(&self) -> bool {
        self.hold() == Hold::Delayed
    }

    // Relaxed in the next three: the bit only makes a wait shorter.

    /// Makes operations that begin from now on wait for [`Target::let_go`], or for a change of the
    /// state.
    pub(super) fn hold_back(&self) {
        // A wait for many targets calls this again and again, and mostly finds the bit set.
        if !self.is_held_back() {
            self.hold.fetch_or(HELD_BACK, Ordering::Relaxed);
        }
    }

    /// Lets operations begin.
    pub(super) fn let_go(&self) {
        self.hold.fetch_and(!HELD_BACK, Ordering::Relaxed);
    }

    /// Whether operations that begin wait.
    #[inline]
    pub(super) fn is_held_back(&self) -> bool {
        self.hold.load(Ordering::Relaxed) & HELD_BACK != 0
    }

    /// Sets the state. No operation is held back afterwards.
    pub(crate) fn set_hold(&self, hold: Hold) {
        // Release: one of several threads sees that the target has posted. The others then read
        // what the target has stored before its post.
        self.hold.store(hold as u8, Ordering::Release);
    }

    /// Sets the state if nothing is held. Returns false, without a change, if something is held.
    pub(super) fn claim(&self, hold: Hold) -> bool {
        self.shift(Hold::None, hold)
    }

    /// [`Target::claim`] that also fails if operations are held back.
    #[inline]
    pub(super) fn claim_free(&self, hold: Hold) -> bool {
        // Release: as in `set_hold`. Relaxed: a failure reads nothing else.
        self.hold.compare_exchange(Hold::None as u8, hold as u8, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Changes the state `from` to `to`; false where the state is another one.
    pub(super) fn shift(&self, from: Hold, to: Hold) -> bool {
        // Release: as in `set_hold`. Relaxed: of threads that change a state at the same time
        // exactly one succeeds.
        let change = |now: u8| (now & !HELD_BACK == from as u8).then_some(now & HELD_BACK | to as u8);
        self.hold.fetch_update(Ordering::Release, Ordering::Relaxed, change).is_ok()
    }

    /// Releases the state `found`. Returns false if another thread has released it before.
    pub(super) fn unclaim(&self, found: Hold) -> bool {
        self.shift(found, Hold::None)
    }

    /// Whether an epoch to the target is open whose end can be a part of a message with operations:
    /// one of start, or one between fences if the first signal of this rank's fences goes to the
    /// target.
    #[inline]
    pub(super) fn ends_by_message(&self, parts: &Parts) -> bool {
        match self.hold() {
            Hold::Open | Hold::Posted => true,
            Hold::None => !parts.all_locked.load(Ordering::Relaxed) && self.rank() == parts.first(),
            _ => false,
        }
    }

    /// Whether a message to the target arrives after all operations in flight to the target.
    pub(super) fn orders_messages(&self, parts: &Parts) -> bool {
        self.tally.only_puts() && self.follows_puts(parts)
    }

    /// Whether the release of the target's lock arrives after all operations in flight to the
    /// target.
    pub(super) fn orders_release(&self, parts: &Parts) -> bool {
        match (&self.reach, parts.control) {
            (_, Actor::Cpu) => self.orders_messages(parts),
            (Reach::Unmapped(Unmapped::Posted(memory)), Actor::Nic | Actor::Both) => {
                self.tally.only_puts() && memory.limits().amos_ordered
            }
            _ => false,
        }
    }

    /// Whether the net delivers a message to the target after the puts that were posted before it.
    pub(super) fn follows_puts(&self, parts: &Parts) -> bool {
        match &self.reach {
            Reach::Unmapped(Unmapped::Posted(memory)) => memory.limits().ordered,
            Reach::Unmapped(Unmapped::Dynamic(None)) => {
                parts.job.lane(parts.team.rank(self.rank())) == Some(Lane::Net)
                    && parts.job.wire.net().is_some_and(Net::is_ordered)
            }
            Reach::Mapped(..) | Reach::Unmapped(_) => false,
        }
    }

    /// The target's control words, if the target is on this node.
    #[inline]
    pub(crate) fn words<'t>(&'t self, parts: &'t Parts) -> Option<Words<'t>> {
        if self.rank() == parts.team.me {
            return Some(parts.job.block.words(parts.own.place));
        }
        match &self.reach {
            Reach::Mapped(_, Some(link)) => self.words_of(parts, link),
            _ => self.words_of(parts, parts.job.link(parts.team.rank(self.rank())).ok()?),
        }
    }

    /// The target's control words, through the link to its rank.
    #[inline(always)]
    pub(super) fn words_of<'t>(&self, parts: &Parts, link: &'t Link) -> Option<Words<'t>> {
        Some(Words::at(link.block()?, parts.job.block.words_at(self.slot())))
    }

    /// How this rank changes the target's control words.
    pub(super) fn control<'t>(&'t self, parts: &'t Parts) -> Result<Control<'t>> {
        let here = if parts.control == Actor::Nic { None } else { self.words(parts) };
        Ok(match (here, parts.control) {
            (Some(words), _) => Control::Memory(words),
            (None, Actor::Cpu) => Control::Messages,
            (None, Actor::Nic | Actor::Both) => {
                let block = parts.job.block_by_net(parts.team.rank(self.rank()))?;
                Control::Post(block, parts.job.block.words_at(self.slot()) as u64)
            }
        })
    }
}

/// The part of another rank.
fn elsewhere(parts: &Parts, job_rank: usize, part: &Part) -> Result<Reach> {
    let link = parts.job.link(job_rank)?;
    // An empty part has an address in a shared segment too.
    if part.size == 0 && parts.own.segment.is_none() {
        return Ok(Reach::Mapped(Memory::private(0), Some(Arc::clone(link))));
    }
    let dynamic = parts.flavor == Flavor::Dynamic;
    Ok(match &**link {
        Link::Net(_) if dynamic => Reach::Unmapped(Unmapped::Dynamic(None)),
        Link::Net(_) => Reach::Unmapped(Unmapped::Posted(parts.job.wire.import_net(peer(job_rank), &part.net)?)),
        Link::Shm(_) => match of_node(parts, job_rank, part)? {
            Some(NodeMemory::Mapped(memory)) => Reach::Mapped(memory, Some(Arc::clone(link))),
            Some(NodeMemory::Copied(memory)) if dynamic => Reach::Unmapped(Unmapped::Dynamic(Some(memory))),
            Some(NodeMemory::Copied(memory)) => Reach::Unmapped(Unmapped::Copied(memory)),
            None if dynamic => Reach::Unmapped(Unmapped::Dynamic(None)),
            None => Reach::Unmapped(Unmapped::Messages),
        },
    })
}

/// Connects to the rank in whose heap a region lies, before the region is imported.
pub(super) fn link_heap(job: &JobCore, key: &RegionKey) -> Result<()> {
    match transport::heap_owner(key).filter(|&owner| owner != job.rank) {
        Some(owner) => job.link(owner).map(drop),
        None => Ok(()),
    }
}

/// Data of a rank of this node. `None` where it is reached by messages, because it is not mapped
/// and cross-memory attach is excluded or refused.
fn of_node(parts: &Parts, job_rank: usize, part: &Part) -> Result<Option<NodeMemory>> {
    if let Some(segment) = &parts.own.segment {
        let at = usize::try_from(part.offset).unwrap_or(usize::MAX);
        let len = usize::try_from(part.size).unwrap_or(usize::MAX);
        let inside = segment.slice(at, len);
        let memory = inside.ok_or(JobError::PartOutside { rank: job_rank })?;
        return Ok(Some(NodeMemory::Mapped(memory)));
    }
    let (wire, rank) = (&parts.job.wire, peer(job_rank));
    let foreign = !transport::is_mapped(&part.shm);
    if foreign && !parts.job.may_attach() {
        return Ok(wire.user_region(rank, &part.shm).map(NodeMemory::Mapped));
    }
    link_heap(&parts.job, &part.shm)?;
    match wire.import_shm(rank, &part.shm) {
        Ok(memory) => {
            if let (NodeMemory::Copied(_), Some(reason)) = (&memory, wire.unmapped()) {
                let what = format!("user memory is reached by cross-memory attach: {reason}");
                parts.job.warn_once(Cause::ByKernel, &what);
            }
            Ok(Some(memory))
        }
        Err(reason) if foreign => {
            let what = format!("user memory of rank {job_rank} is reached by messages: {reason:#}");
            parts.job.warn_once(Cause::ByMessages, &what);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

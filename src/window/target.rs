//! A target of a window after first contact: how large its part is, how it is reached, and what this process holds of it.
//! Decided once, read on every operation.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use transom_fabric::{Memory, Tally};

use super::core::Core;
use super::dynamic::Known;
use super::words;
use crate::directory::Part;
use crate::error::{ErrorKind, Result};
use crate::job::peer;
use crate::plan::Actor;
use crate::wire::{Lane, Remote};

/// How a window came to its memory (MPI §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flavor {
    /// Over memory that the caller had (`MPI_WIN_FLAVOR_CREATE`).
    Create,
    /// With memory of the library (`MPI_WIN_FLAVOR_ALLOCATE`).
    Allocate,
    /// Without memory at first; it is attached later (`MPI_WIN_FLAVOR_DYNAMIC`).
    Dynamic,
    /// With memory that all ranks load and store (`MPI_WIN_FLAVOR_SHARED`).
    Shared,
}

/// What this process holds of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Hold {
    /// Nothing.
    None = 0,
    /// A shared lock.
    Shared = 1,
    /// An exclusive lock.
    Exclusive = 2,
    /// A lock by `MPI_MODE_NOCHECK`, which took no word.
    Unchecked = 3,
    /// It is in the group of `start`; its post was not seen yet.
    Started = 4,
    /// It is in the group of `start` and has posted.
    Open = 5,
}

/// How a target's control words are changed: by the same actor at every rank.
#[derive(Debug)]
pub(crate) enum Control {
    /// By this CPU.
    Memory(Memory),
    /// By the net, from this offset of the target's job block on.
    Post(u64),
    /// By the target's CPU, on a message.
    Messages,
}

/// A rank's part of the window, as this rank reaches it.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its number in the window's group, and its rank in the job.
    pub(crate) rank: usize,
    pub(crate) job_rank: usize,
    pub(crate) size: u64,
    pub(crate) unit: u32,
    pub(crate) skew: u8,
    pub(crate) data: Remote,
    /// The part and its control words, where this CPU reaches both: what accumulates work on.
    pub(crate) mapped: Option<(Memory, Memory)>,
    /// The part through the net, where the net performs its integers' atomics.
    pub(crate) nic: Option<Remote>,
    pub(crate) control: Control,
    hold: AtomicU8,
    /// The number of the last request that keeps its order.
    pub(super) order: AtomicU64,
    /// Places with atomics of the net in flight, one bit for many.
    pub(super) busy: AtomicU64,
    /// What is attached at a target of a dynamic window, as this process knows it.
    pub(super) known: Mutex<Known>,
    pub(crate) tally: Arc<Tally>,
}

impl Target {
    /// A rank's part: what it published, and the way there.
    pub(crate) fn contact(core: &Core, rank: usize) -> Result<Target> {
        let job_rank = core.team.rank(rank);
        let own = rank == core.team.me;
        let (part, place) = if own { (core.part, core.place) } else { core.job.lookup(job_rank, core.id)? };
        let lane = if own { None } else { Some(core.job.link(job_rank)?.lane) };
        let data = match lane {
            // Addresses of a dynamic window are resolved by whom they belong to.
            None if core.flavor == Flavor::Dynamic => Remote::Messages,
            None => Remote::Memory(core.memory.clone()),
            // A part of no bytes has its place in a shared segment all the same.
            _ if part.size == 0 && core.segment.is_none() => Remote::Memory(Memory::private(0)),
            Some(Lane::Net) if core.flavor == Flavor::Dynamic => Remote::Messages,
            Some(Lane::Net) => core.job.wire.import(Lane::Net, peer(job_rank), &part.net)?,
            Some(Lane::Shm) => near(core, job_rank, &part)?,
        };
        let control = control(core, job_rank, place, lane)?;
        let mapped = match (&data, &control, lane) {
            (Remote::Memory(memory), _, None) => Some((memory.clone(), core.words.clone())),
            (Remote::Memory(memory), Control::Memory(words), _) => Some((memory.clone(), words.clone())),
            _ => None,
        };
        let nic = match core.actor {
            Actor::Nic if part.size > 0 && core.flavor != Flavor::Dynamic => {
                Some(core.job.wire.import(Lane::Net, peer(job_rank), &part.net)?)
            }
            _ => None,
        };
        Ok(Target {
            rank,
            job_rank,
            size: part.size,
            unit: part.unit,
            skew: part.skew,
            data,
            mapped,
            nic,
            control,
            hold: AtomicU8::new(Hold::None as u8),
            order: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            known: Mutex::default(),
            tally: Tally::within(&core.tally),
        })
    }

    #[inline]
    pub(crate) fn hold(&self) -> Hold {
        // Relaxed: as for the window's epoch.
        match self.hold.load(Ordering::Relaxed) {
            1 => Hold::Shared,
            2 => Hold::Exclusive,
            3 => Hold::Unchecked,
            4 => Hold::Started,
            5 => Hold::Open,
            _ => Hold::None,
        }
    }

    pub(crate) fn set_hold(&self, hold: Hold) {
        self.hold.store(hold as u8, Ordering::Relaxed);
    }

    /// The words that this process can store to.
    pub(crate) fn words(&self) -> Option<&Memory> {
        match &self.control {
            Control::Memory(words) => Some(words),
            _ => None,
        }
    }
}

fn control(core: &Core, job_rank: usize, place: usize, lane: Option<Lane>) -> Result<Control> {
    if core.job.actor == Actor::Nic && core.job.wire.has(Lane::Net) {
        return Ok(Control::Post(core.job.words_at(place) as u64));
    }
    Ok(match lane {
        None => Control::Memory(core.words.clone()),
        Some(Lane::Net) => Control::Messages,
        Some(Lane::Shm) => {
            let block = core.job.block_of(job_rank)?.memory();
            let (at, len) = (core.job.words_at(place), words::bytes(core.job.size));
            match block.and_then(|block| block.slice(at, len)) {
                Some(words) => Control::Memory(words),
                None => Control::Messages,
            }
        }
    })
}

/// Data of a rank of this node: mapped, by cross-memory attach, or by messages where that is excluded or refused.
fn near(core: &Core, job_rank: usize, part: &Part) -> Result<Remote> {
    if let Some(segment) = &core.segment {
        let at = usize::try_from(part.offset).unwrap_or(usize::MAX);
        let len = usize::try_from(part.size).unwrap_or(usize::MAX);
        let inside = segment.slice(at, len);
        let missing = || ErrorKind::Job(format!("rank {job_rank}'s part of the shared segment is outside of it"));
        return Ok(Remote::Memory(inside.ok_or_else(missing)?));
    }
    let foreign = matches!(core.flavor, Flavor::Create | Flavor::Dynamic) && core.separate.is_none();
    if foreign && !core.job.may_attach() {
        return Ok(Remote::Messages);
    }
    match core.job.wire.import(Lane::Shm, peer(job_rank), &part.shm) {
        Ok(remote) => Ok(remote),
        Err(reason) if foreign => {
            core.job.warn_once(&format!("user memory of rank {job_rank} is reached by messages: {reason}"));
            Ok(Remote::Messages)
        }
        Err(error) => Err(error.into()),
    }
}

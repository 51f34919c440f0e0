//! A target of a window after first contact: how large its part is and how it is reached. Decided once, read on every
//! operation.

use std::sync::Arc;

use transom_fabric::{Memory, Tally};

use super::core::Core;
use crate::directory::Part;
use crate::error::Result;
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
}

/// How atomics on a target's part are performed: by the window's actor.
#[derive(Debug)]
pub(crate) enum AmoBy {
    /// By this CPU.
    Memory(Memory),
    /// By the net.
    Post(Remote),
    /// By the target's CPU, on a message.
    Messages,
}

/// A rank's part of the window, as this rank reaches it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) rank: usize,
    pub(crate) size: u64,
    pub(crate) unit: u32,
    pub(crate) skew: u8,
    pub(crate) data: Remote,
    pub(crate) amo: AmoBy,
    /// The words that fences signal, where stores reach them.
    pub(crate) words: Option<Memory>,
    pub(crate) tally: Arc<Tally>,
}

impl Target {
    /// This rank's own part.
    pub(crate) fn own(core: &Core) -> Result<Target> {
        let data = Remote::Memory(core.memory.clone());
        let amo = match core.job.actor {
            Actor::Cpu => AmoBy::Memory(core.memory.clone()),
            Actor::Nic => by_net(core, core.job.rank, &core.part)?,
        };
        Ok(Target::new(core, core.job.rank, &core.part, data, amo, Some(core.words.clone())))
    }

    /// Another rank's part: what it published, and the way there.
    pub(crate) fn contact(core: &Core, rank: usize) -> Result<Target> {
        let part = core.job.lookup(rank, core.id)?;
        let lane = core.job.link(rank)?.lane;
        let data = match lane {
            _ if part.size == 0 => Remote::Memory(Memory::private(0)),
            Lane::Net => core.job.wire.import(lane, peer(rank), &part.net)?,
            Lane::Shm => near(core, rank, &part)?,
        };
        let words = match lane {
            Lane::Net => None,
            Lane::Shm => core.job.wire.import(lane, peer(rank), &part.words)?.memory().cloned(),
        };
        let amo = match (core.job.actor, &data) {
            (Actor::Nic, _) => by_net(core, rank, &part)?,
            (Actor::Cpu, Remote::Memory(memory)) => AmoBy::Memory(memory.clone()),
            (Actor::Cpu, _) => AmoBy::Messages,
        };
        Ok(Target::new(core, rank, &part, data, amo, words))
    }

    fn new(core: &Core, rank: usize, part: &Part, data: Remote, amo: AmoBy, words: Option<Memory>) -> Target {
        let tally = Tally::within(&core.tally);
        Target { rank, size: part.size, unit: part.unit, skew: part.skew, data, amo, words, tally }
    }
}

/// Data of a rank of this node: mapped, by cross-memory attach, or by messages where that is excluded or refused.
fn near(core: &Core, rank: usize, part: &Part) -> Result<Remote> {
    let foreign = core.flavor == Flavor::Create;
    if foreign && !core.job.may_attach() {
        return Ok(Remote::Messages);
    }
    match core.job.wire.import(Lane::Shm, peer(rank), &part.shm) {
        Ok(remote) => Ok(remote),
        Err(reason) if foreign => {
            core.job.warn_once(&format!("user memory of rank {rank} is reached by messages: {reason}"));
            Ok(Remote::Messages)
        }
        Err(error) => Err(error.into()),
    }
}

fn by_net(core: &Core, rank: usize, part: &Part) -> Result<AmoBy> {
    if part.size == 0 {
        return Ok(AmoBy::Messages);
    }
    core.job.wire.import(Lane::Net, peer(rank), &part.net).map(AmoBy::Post).map_err(Into::into)
}

//! The ranks of the job as this one knows them: the nodes, the ranks' cards, and the link to each
//! rank after first contact.

use std::sync::Arc;

use transom_fabric::{Memory, Peer, PeerMap};

use super::cards::Card;
use super::peer;
use crate::error::{Error, JobError, Result};
use crate::transport::{Lane, NetMemory, Wire};

/// A rank after first contact: the lane to it, and its job block.
#[derive(Debug)]
pub(crate) enum Link {
    /// Of this node: this CPU loads and stores the block.
    Shm(Memory),
    Net(NetMemory),
}

impl Link {
    /// The rank's job block, where load and store reach it.
    #[inline]
    pub(crate) fn block(&self) -> Option<&Memory> {
        match self {
            Link::Shm(block) => Some(block),
            Link::Net(_) => None,
        }
    }
}

/// The ranks of the job.
pub(crate) struct Peers {
    me: usize,
    /// The node of each rank, identified by the rank of its leader.
    pub(super) nodes: Vec<usize>,
    cards: Vec<Card>,
    links: PeerMap<(Peer, Arc<Link>)>,
    /// Job blocks of ranks of this node, as the net reaches them.
    looped: PeerMap<(Peer, NetMemory)>,
}

impl Peers {
    pub(super) fn new(me: usize, nodes: Vec<usize>, cards: Vec<Card>) -> Peers {
        Peers { me, nodes, cards, links: PeerMap::new(), looped: PeerMap::new() }
    }

    /// The lane to a rank; `None` for the rank itself.
    pub(super) fn lane(&self, rank: usize) -> Option<Lane> {
        if rank == self.me {
            None
        } else if self.nodes[rank] == self.nodes[self.me] {
            Some(Lane::Shm)
        } else {
            Some(Lane::Net)
        }
    }

    /// The way to another rank, opened at first contact.
    pub(super) fn link(&self, wire: &Wire, rank: usize) -> Result<&Arc<Link>> {
        let peer = peer(rank);
        let found = self.links.get_or_try_insert(peer, || {
            let card = &self.cards[rank];
            let link = match wire.reach(peer)? {
                Lane::Shm => Link::Shm(wire.import_shm(peer, &card.shm_block)?.mapped().ok_or_else(|| unmapped(rank))?),
                Lane::Net => Link::Net(wire.import_net(peer, &card.net_block)?),
            };
            Ok::<_, Error>((peer, Arc::new(link)))
        });
        found.map(|(_, link)| link)
    }

    /// The job block of another rank of this node through the net, which is connected to the rank
    /// at the first call.
    pub(super) fn looped(&self, wire: &Wire, rank: usize) -> Result<&NetMemory> {
        let peer = peer(rank);
        let found = self.looped.get_or_try_insert(peer, || {
            let card = &self.cards[rank];
            wire.connect_net(peer, &card.net_address)?;
            Ok::<_, Error>((peer, wire.import_net(peer, &card.net_block)?))
        });
        found.map(|(_, block)| block)
    }
}

#[cold]
fn unmapped(rank: usize) -> Error {
    JobError::BlockUnmapped { rank }.into()
}

//! The other ranks of the job: their nodes, the parts of their cards that first contact needs, and
//! the link to each rank after first contact.

use std::sync::Arc;

use transom_fabric::{Memory, Peer, PeerMap, RegionKey};

use super::cards::Card;
use super::staging::Area;
use super::{JobCore, peer};
use crate::error::{Error, JobError, Result};
use crate::transport::{Lane, NetMemory, Wire};

/// A rank after first contact: the transport to it, and its job block.
#[derive(Debug)]
pub(crate) enum Link {
    /// A rank of this node: this CPU loads and stores the block.
    Shm(Memory),
    Net(NetMemory),
}

impl Link {
    /// The rank's job block, if this CPU maps it.
    #[inline]
    pub(crate) fn block(&self) -> Option<&Memory> {
        match self {
            Link::Shm(block) => Some(block),
            Link::Net(_) => None,
        }
    }
}

/// The data that first contact with a rank needs in addition to the rank's address. The other
/// fields of a card are dropped when the job has started.
#[derive(Debug)]
enum Contact {
    /// A rank of another node: its job block through the net.
    Remote(RegionKey),
    /// A rank of this node.
    Local(Box<LocalContact>),
}

#[derive(Debug)]
struct LocalContact {
    shm_block: RegionKey,
    net_address: Vec<u8>,
    net_block: RegionKey,
}

/// The limits of memory that a rank shares with this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limits {
    None,
    /// The machine's memory. The ranks may not share memory with each other.
    Machine,
    /// Also the limit of one control group.
    Group,
}

/// The ranks of the job.
pub(crate) struct Peers {
    me: usize,
    /// The node of each rank, identified by the rank of its leader.
    pub(super) nodes: Vec<usize>,
    /// The limits of memory that each rank shares with this rank.
    limits: Vec<Limits>,
    contacts: Vec<Contact>,
    links: PeerMap<(Peer, Arc<Link>)>,
    /// Job blocks of ranks of this node, as the net reaches them.
    loopback: PeerMap<(Peer, NetMemory)>,
    /// The staging areas that ranks have given to this one.
    pub(super) areas: PeerMap<Area>,
}

impl Peers {
    pub(super) fn new(me: usize, nodes: Vec<usize>, cards: Vec<Card>) -> Peers {
        let limits = |card: &Card| match card.machine == cards[me].machine {
            true if card.memory_group == cards[me].memory_group => Limits::Group,
            true => Limits::Machine,
            false => Limits::None,
        };
        let limits = cards.iter().map(limits).collect();
        let contact = |(rank, card): (usize, Card)| match nodes[rank] == nodes[me] {
            true => Contact::Local(Box::new(LocalContact {
                shm_block: card.shm_block,
                net_address: card.net_address,
                net_block: card.net_block,
            })),
            false => Contact::Remote(card.net_block),
        };
        let contacts = cards.into_iter().enumerate().map(contact).collect();
        let (links, loopback, areas) = (PeerMap::new(), PeerMap::new(), PeerMap::new());
        Peers { me, nodes, limits, contacts, links, loopback, areas }
    }

    /// The transport to a rank, shared memory or the net; `None` for this rank itself.
    pub(super) fn lane(&self, rank: usize) -> Option<Lane> {
        if rank == self.me {
            None
        } else if self.nodes[rank] == self.nodes[self.me] {
            Some(Lane::Shm)
        } else {
            Some(Lane::Net)
        }
    }

    /// The link to another rank, opened at first contact.
    pub(super) fn link(&self, wire: &Wire, rank: usize) -> Result<&Arc<Link>> {
        let peer = peer(rank);
        let found = self.links.get_or_try_insert(peer, || {
            let lane = wire.reach(peer)?;
            let link = match (lane, &self.contacts[rank]) {
                (Lane::Shm, Contact::Local(local)) => {
                    Link::Shm(wire.import_shm(peer, &local.shm_block)?.mapped().ok_or_else(|| unmapped(rank))?)
                }
                (Lane::Net, Contact::Local(local)) => Link::Net(wire.import_net(peer, &local.net_block)?),
                (_, Contact::Remote(block)) => Link::Net(wire.import_net(peer, block)?),
            };
            Ok::<_, Error>((peer, Arc::new(link)))
        });
        found.map(|(_, link)| link)
    }

    /// The job block of another rank of this node through the net, which is connected to the rank
    /// at the first call.
    pub(super) fn loopback(&self, wire: &Wire, rank: usize) -> Result<&NetMemory> {
        let peer = peer(rank);
        let found = self.loopback.get_or_try_insert(peer, || {
            // Only ranks of this node are reached by loopback.
            let Contact::Local(local) = &self.contacts[rank] else { return Err(unmapped(rank)) };
            wire.connect_net(peer, &local.net_address)?;
            Ok::<_, Error>((peer, wire.import_net(peer, &local.net_block)?))
        });
        found.map(|(_, block)| block)
    }
}

#[cfg(test)]
impl JobCore {
    /// The number of ranks that this rank has contacted.
    pub(crate) fn contacted(&self) -> usize {
        self.peers.links.values().count()
    }
}

#[cold]
fn unmapped(rank: usize) -> Error {
    JobError::BlockUnmapped { rank }.into()
}

impl JobCore {
    /// Whether a rank allocates memory of this rank's machine, whether or not the two share memory.
    pub(crate) fn shares_machine(&self, rank: usize) -> bool {
        self.peers.limits[rank] != Limits::None
    }

    /// Whether the control groups of this rank and of a rank of its machine have one limit of
    /// memory, or both have none.
    pub(crate) fn shares_memory_limit(&self, rank: usize) -> bool {
        self.peers.limits[rank] == Limits::Group
    }
}

//! The targets of a window: those that this rank has contacted, and the operations in flight to
//! them.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use transom_fabric::{BusyLocations, Peer, PeerMap, Tally, TallyRef};

use super::dynamic::Regions;
use super::keys::Keys;
use super::target::Target;
use crate::error::Result;
use crate::job::{Team, peer};
use crate::transport::NetMemory;

/// The targets of a window.
#[derive(Debug)]
pub(crate) struct Targets {
    contacted: PeerMap<Target>,
    /// Operations in flight to all targets.
    pub(crate) tally: TallyRef,
    /// Parts of this rank and of ranks of its node as the net's loopback reaches them, where the
    /// device performs the atomics on their integers.
    pub(super) loopback: PeerMap<(Peer, NetMemory)>,
    /// Locations of targets with atomics in flight, where the net does not keep the order of
    /// atomics on one location. Boxed, because most windows need none.
    busy: OnceLock<Box<PeerMap<(Peer, BusyLocations)>>>,
    /// The attached regions of targets of this node that are known here, in a dynamic window.
    pub(super) regions: PeerMap<(Peer, Regions)>,
    /// The keys of regions that the net accesses, in a dynamic window that a net reaches.
    pub(super) keys: Option<Arc<Keys>>,
    /// The ranks of the window.
    team: Arc<Team>,
}

impl Targets {
    /// No target of the window of `team` is contacted.
    pub(super) fn new(team: &Arc<Team>, keys: Option<Arc<Keys>>) -> Targets {
        Targets {
            contacted: PeerMap::new(),
            tally: Tally::new(),
            loopback: PeerMap::new(),
            busy: OnceLock::new(),
            regions: PeerMap::new(),
            keys,
            team: Arc::clone(team),
        }
    }

    /// A rank of the window, if first contact has been made. The rank exists.
    #[inline]
    pub(super) fn get(&self, rank: usize) -> Option<&Target> {
        self.contacted.get(peer(rank))
    }

    /// A rank of the window, with `contact` if that was not made. The rank exists.
    pub(super) fn get_or_contact(&self, rank: usize, contact: impl FnOnce() -> Result<Target>) -> Result<&Target> {
        self.contacted.get_or_try_insert(peer(rank), contact)
    }

    /// The locations of the target that may have atomics in flight.
    pub(super) fn busy(&self, target: &Target) -> &BusyLocations {
        let peer = peer(target.rank());
        let made: std::result::Result<_, Infallible> =
            self.busy.get_or_init(Box::default).get_or_try_insert(peer, || Ok((peer, BusyLocations::default())));
        let Ok((_, busy)) = made;
        busy
    }

    /// The rank of a target in the job.
    pub(super) fn job_rank(&self, target: &Target) -> usize {
        self.team.rank(target.rank())
    }

    /// The targets with first contact.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.contacted.values()
    }

    /// Discards the targets' records of failures that were reported for all targets, so that they
    /// are not reported again.
    #[cold]
    pub(super) fn discard_reported(&self) {
        for target in self.iter() {
            target.tally.forget_reported();
        }
    }
}

//! A peer's memory, by whichever way it is reached, and the posts to it. A window keeps one value
//! for each target, so a value is no larger than its way needs.

use transom_fabric::sim::SimDomain;
use transom_fabric::{Amo, Domain, FabricError, Memory, Peer, Port, Post, RegionKey, TallyRef};
use transom_ofi::OfiDomain;
use transom_shm::ShmDomain;
use transom_verbs::VerbsDomain;

use super::{Net, Wire};
use crate::buffers::{self, Parts, Sink, Source};

type RemoteOf<D> = <<D as Domain>::Port as Port>::Remote;

impl Remote {
    /// Touches the pages that begin in some of a heap's memory, so that the kernel allocates them
    /// on the NUMA node of this process.
    ///
    /// # Errors
    /// The machine has no memory for the pages.
    pub(crate) fn touch(memory: &Memory) -> Result<(), FabricError> {
        transom_shm::touch(memory)
    }
}

/// User memory of a process of the node, accessed by cross-memory attach.
pub(crate) type Near = RemoteOf<ShmDomain>;

/// A peer's memory.
#[derive(Debug)]
pub(crate) enum Remote {
    /// Own or mapped memory, accessed by load and store.
    Memory(Memory),
    Far(Far),
}

/// A peer's memory that this process can't load and store.
#[derive(Debug)]
pub(crate) enum Far {
    /// User memory of a process of the node, by cross-memory attach. Boxed because it is large and
    /// rare.
    Shm(Box<Near>),
    /// Through libibverbs.
    Verbs(RemoteOf<VerbsDomain>),
    /// Through libfabric.
    Ofi(RemoteOf<OfiDomain>),
    /// Through the simulated net.
    Sim(RemoteOf<SimDomain>),
    /// By messages only.
    Messages,
}

impl Far {
    /// The memory, if it is accessed by cross-memory attach.
    pub(crate) fn near(&self) -> Option<&Near> {
        match self {
            Far::Shm(near) => Some(near),
            _ => None,
        }
    }
}

impl Remote {
    /// The memory, if load and store reach it.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&Memory> {
        match self {
            Remote::Memory(memory) => Some(memory),
            Remote::Far(_) => None,
        }
    }

    /// The region to post to, if load and store do not reach it.
    #[inline]
    pub(crate) fn far(&self) -> Option<&Far> {
        match self {
            Remote::Memory(_) => None,
            Remote::Far(far) => Some(far),
        }
    }

    pub(super) fn shm(domain: &ShmDomain, peer: Peer, key: &RegionKey) -> Result<Remote, FabricError> {
        let remote = domain.port().import(peer, key)?;
        Ok(match domain.port().direct(&remote) {
            Some(memory) => Remote::Memory(memory.clone()),
            None => Remote::Far(Far::Shm(Box::new(remote))),
        })
    }
}

impl Net {
    pub(super) fn import(&self, peer: Peer, key: &RegionKey) -> Result<Far, FabricError> {
        Ok(match self {
            Net::Verbs(domain) => Far::Verbs(domain.port().import(peer, key)?),
            Net::Ofi(domain) => Far::Ofi(domain.port().import(peer, key)?),
            Net::Sim(domain) => Far::Sim(domain.port().import(peer, key)?),
        })
    }
}

/// Applies one body to the port that reaches the region, whichever backend it is; `None` without a
/// port to post to.
macro_rules! each_port {
    ($wire:expr, $far:expr, $port:ident, $at:ident => $what:expr) => {
        match ($far, &$wire.net, &$wire.shm) {
            (Far::Verbs($at), Some(Net::Verbs(domain)), _) => {
                let $port = domain.port();
                Some($what)
            }
            (Far::Ofi($at), Some(Net::Ofi(domain)), _) => {
                let $port = domain.port();
                Some($what)
            }
            (Far::Sim($at), Some(Net::Sim(domain)), _) => {
                let $port = domain.port();
                Some($what)
            }
            (Far::Shm($at), _, Some(domain)) => {
                let ($port, $at) = (domain.port(), &**$at);
                Some($what)
            }
            _ => None,
        }
    };
}

/// Posts to a region of a peer; `None` for a region without a port to post to.
impl Wire {
    /// The length of the longest transfer in one post.
    pub(crate) fn transfer_max(&self, far: &Far) -> Option<usize> {
        each_port!(self, far, port, _at => port.limits().transfer_max)
    }

    /// The length of the longest put that one post copies; 0 without a port to post to.
    pub(crate) fn inline_max(&self, far: &Far) -> usize {
        each_port!(self, far, port, _at => port.limits().inline_max).unwrap_or(0)
    }

    /// Posts a put.
    #[inline]
    pub(crate) fn put(&self, to: &Far, offset: u64, from: Source, tally: &TallyRef) -> Option<Post> {
        each_port!(self, to, port, at => buffers::post_put(port, at, offset, from, tally))
    }

    /// Posts a put as an RDMA request if nothing prevents it, and returns whether it did. It is
    /// tried before all other posts, since the search for the way is a large part of its cost.
    #[inline(always)]
    pub(crate) fn put_carried(&self, to: &Far, offset: u64, from: Source, tally: &TallyRef) -> bool {
        match (to, &self.net) {
            (Far::Verbs(at), Some(Net::Verbs(domain))) => {
                let carried = (1..=domain.port().carried_max()).contains(&from.len());
                carried && domain.port().put_carried(at, offset, from.bytes(), tally)
            }
            _ => false,
        }
    }

    /// Posts a put of bytes that are copied at the call.
    pub(crate) fn put_inline(&self, to: &Far, offset: u64, bytes: &[u8], tally: &TallyRef) -> Option<Post> {
        each_port!(self, to, port, at => port.put_inline(at, offset, bytes, tally))
    }

    /// The length of the longest transfer whose bytes are copied through buffers of the port.
    pub(crate) fn copied_max(&self, far: &Far) -> usize {
        each_port!(self, far, port, _at => port.limits().copied_max).unwrap_or(0)
    }

    /// The length of the longest put that is packed, or get that is scattered; 0 without a port to
    /// post to.
    pub(crate) fn packed_max(&self, far: &Far) -> usize {
        each_port!(self, far, port, _at => port.limits().packed_max).unwrap_or(0)
    }

    /// Posts a put of `len` bytes that `fill` writes.
    pub(crate) fn put_packed(
        &self,
        to: &Far,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &TallyRef,
    ) -> Option<Post> {
        each_port!(self, to, port, at => port.put_packed(at, offset, len, fill, tally))
    }

    /// Posts a get.
    #[inline]
    pub(crate) fn get(&self, from: &Far, offset: u64, into: &Sink, tally: &TallyRef) -> Option<Post> {
        each_port!(self, from, port, at => buffers::post_get(port, at, offset, into, tally))
    }

    /// The greatest number of parts in a list.
    pub(crate) fn list_max(&self, far: &Far) -> usize {
        each_port!(self, far, port, _at => port.limits().list_max).unwrap_or(1)
    }

    /// Posts a put from several places.
    pub(crate) fn put_list(&self, to: &Far, offset: u64, from: &Parts<Source>, tally: &TallyRef) -> Option<Post> {
        each_port!(self, to, port, at => buffers::post_put_list(port, at, offset, from, tally))
    }

    /// Posts a get into several places.
    pub(crate) fn get_list(&self, from: &Far, offset: u64, into: &Parts<Sink>, tally: &TallyRef) -> Option<Post> {
        each_port!(self, from, port, at => buffers::post_get_list(port, at, offset, into, tally))
    }

    /// Posts a get into several places through the port's buffers.
    pub(crate) fn get_scattered(&self, from: &Far, offset: u64, into: &Parts<Sink>, tally: &TallyRef) -> Option<Post> {
        each_port!(self, from, port, at => buffers::post_get_scattered(port, at, offset, into, tally))
    }

    /// Posts an atomic.
    #[inline]
    pub(crate) fn amo(&self, on: &Far, offset: u64, amo: Amo, into: &Sink, tally: &TallyRef) -> Option<Post> {
        each_port!(self, on, port, at => buffers::post_amo(port, at, offset, amo, into, tally))
    }
}

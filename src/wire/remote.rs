//! A peer's memory, by whatever way it is reached.

use std::fmt;
use std::sync::Arc;

use transom_fabric::sim::SimDomain;
use transom_fabric::{Amo, Domain, FabricError, Memory, Peer, Port, Post, RegionKey, Tally};
use transom_ofi::OfiDomain;
use transom_shm::ShmDomain;

use crate::buffers::{self, Sink, Source};

/// A region of one backend, with what is needed to post to it.
pub(crate) struct At<D: Domain> {
    domain: Arc<D>,
    remote: <D::Port as Port>::Remote,
}

/// A peer's memory.
#[derive(Debug)]
pub(crate) enum Remote {
    /// Own memory, or mapped here: load and store.
    Memory(Memory),
    /// User memory of a process of the node: cross-memory attach.
    Shm(At<ShmDomain>),
    /// Through libfabric.
    Ofi(At<OfiDomain>),
    /// Through the simulated net.
    Sim(At<SimDomain>),
    /// Nothing but messages reaches it.
    Messages,
}

impl<D: Domain> fmt::Debug for At<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.remote.fmt(f)
    }
}

/// Does the same with whichever port the region is reached by; `None` where there is no port to post to.
macro_rules! each_port {
    ($remote:expr, $port:ident, $at:ident => $what:expr) => {
        match $remote {
            Remote::Shm(region) => {
                let ($port, $at) = (region.domain.port(), &region.remote);
                Some($what)
            }
            Remote::Ofi(region) => {
                let ($port, $at) = (region.domain.port(), &region.remote);
                Some($what)
            }
            Remote::Sim(region) => {
                let ($port, $at) = (region.domain.port(), &region.remote);
                Some($what)
            }
            Remote::Memory(_) | Remote::Messages => None,
        }
    };
}

impl Remote {
    pub(super) fn shm(domain: &Arc<ShmDomain>, peer: Peer, key: &RegionKey) -> Result<Remote, FabricError> {
        let remote = domain.port().import(peer, key)?;
        Ok(match domain.port().direct(&remote) {
            Some(memory) => Remote::Memory(memory.clone()),
            None => Remote::Shm(At { domain: Arc::clone(domain), remote }),
        })
    }

    pub(super) fn ofi(domain: &Arc<OfiDomain>, peer: Peer, key: &RegionKey) -> Result<Remote, FabricError> {
        Ok(Remote::Ofi(At { domain: Arc::clone(domain), remote: domain.port().import(peer, key)? }))
    }

    pub(super) fn sim(domain: &Arc<SimDomain>, peer: Peer, key: &RegionKey) -> Result<Remote, FabricError> {
        Ok(Remote::Sim(At { domain: Arc::clone(domain), remote: domain.port().import(peer, key)? }))
    }

    /// The memory, where load and store reach it.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&Memory> {
        match self {
            Remote::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    /// The longest transfer that one post takes; `None` where nothing can be posted.
    pub(crate) fn transfer_max(&self) -> Option<usize> {
        each_port!(self, port, _at => port.limits().transfer_max)
    }

    /// The longest put that one post copies; 0 where nothing can be posted.
    pub(crate) fn inline_max(&self) -> usize {
        each_port!(self, port, _at => port.limits().inline_max).unwrap_or(0)
    }

    /// Posts a put; `None` where nothing can be posted.
    #[inline]
    pub(crate) fn put(&self, offset: u64, from: Source, tally: &Arc<Tally>) -> Option<Post> {
        each_port!(self, port, at => buffers::post_put(port, at, offset, from, tally))
    }

    /// Posts a put of bytes that are copied; `None` where nothing can be posted.
    pub(crate) fn put_inline(&self, offset: u64, bytes: &[u8], tally: &Arc<Tally>) -> Option<Post> {
        each_port!(self, port, at => port.put_inline(at, offset, bytes, tally))
    }

    /// The longest put that is packed; 0 where nothing can be posted.
    pub(crate) fn packed_max(&self) -> usize {
        each_port!(self, port, _at => port.limits().packed_max).unwrap_or(0)
    }

    /// Posts a put of `len` bytes that `fill` writes; `None` where nothing can be posted.
    pub(crate) fn put_packed(
        &self,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
        tally: &Arc<Tally>,
    ) -> Option<Post> {
        each_port!(self, port, at => port.put_packed(at, offset, len, fill, tally))
    }

    /// Posts a get; `None` where nothing can be posted.
    #[inline]
    pub(crate) fn get(&self, offset: u64, into: &Sink, tally: &Arc<Tally>) -> Option<Post> {
        each_port!(self, port, at => buffers::post_get(port, at, offset, into, tally))
    }

    /// Posts an atomic; `None` where nothing can be posted.
    #[inline]
    pub(crate) fn amo(&self, offset: u64, amo: Amo, into: &Sink, tally: &Arc<Tally>) -> Option<Post> {
        each_port!(self, port, at => buffers::post_amo(port, at, offset, amo, into, tally))
    }
}

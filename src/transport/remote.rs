//! A peer's memory with the route to it: mapped, by cross-memory attach, or by posts to a port. A
//! region and the port that reaches it are one value, so that every post has a port.

use std::sync::Arc;

use transom_fabric::sim::SimDomain;
use transom_fabric::{Amo, Domain, FabricError, Immediate, Limits, Memory, Peer, Port, Post, RegionKey, TallyRef};
use transom_ofi::OfiDomain;
use transom_shm::ShmDomain;
use transom_verbs::VerbsDomain;

use super::Net;
use crate::buffers::{self, Scattered, Sink, Source};

type RemoteOf<D> = <<D as Domain>::Port as Port>::Remote;

/// User memory of a process of the node, accessed by cross-memory attach.
pub(crate) type ProcessMemory = RemoteOf<ShmDomain>;

/// Memory of a process of the node.
#[derive(Debug)]
pub(crate) enum NodeMemory {
    /// Accessed by load and store.
    Mapped(Memory),
    /// Boxed because it is large and rare.
    Copied(Box<ProcessMemory>),
}

impl NodeMemory {
    /// The memory, if load and store reach it.
    pub(crate) fn mapped(self) -> Option<Memory> {
        match self {
            NodeMemory::Mapped(memory) => Some(memory),
            NodeMemory::Copied(_) => None,
        }
    }

    /// `dedicated`: in a mapping of its own, so that advice to the kernel concerns no other region.
    pub(super) fn import(
        domain: &ShmDomain,
        peer: Peer,
        key: &RegionKey,
        dedicated: bool,
    ) -> Result<NodeMemory, FabricError> {
        let port = domain.port();
        let remote = if dedicated { port.import_dedicated(peer, key) } else { port.import(peer, key) }?;
        Ok(match domain.port().direct(&remote) {
            Some(memory) => NodeMemory::Mapped(memory.clone()),
            None => NodeMemory::Copied(Box::new(remote)),
        })
    }
}

/// Touches the pages that begin in some of a heap's memory, so that the kernel allocates them on
/// the NUMA node of this process.
///
/// # Errors
/// The machine has no memory for the pages.
pub(crate) fn touch(memory: &Memory) -> Result<(), FabricError> {
    transom_shm::touch(memory)
}

/// Advises the kernel to use huge pages for some of a heap's memory: of this rank's, or imported
/// apart.
///
/// # Errors
/// The kernel has no huge pages.
pub(crate) fn advise_huge(memory: &Memory) -> Result<(), FabricError> {
    transom_shm::advise_huge(memory)
}

/// A peer's region that the net reaches, with the domain whose port posts to it. A window keeps one
/// for each target: the variants are not separate structs, so that the tag shares a word with the
/// smaller fields.
#[derive(Debug)]
pub(crate) enum NetMemory {
    Verbs {
        domain: Arc<VerbsDomain>,
        remote: RemoteOf<VerbsDomain>,
    },
    /// `gathers`: [`Limits::gathers`] of the port. Devices never have it.
    Ofi {
        gathers: bool,
        domain: Arc<OfiDomain>,
        remote: RemoteOf<OfiDomain>,
    },
    Sim {
        gathers: bool,
        domain: Arc<SimDomain>,
        remote: RemoteOf<SimDomain>,
    },
}

impl Net {
    pub(super) fn import(&self, peer: Peer, key: &RegionKey) -> Result<NetMemory, FabricError> {
        Ok(match self {
            Net::Verbs(domain) => {
                NetMemory::Verbs { remote: domain.port().import(peer, key)?, domain: Arc::clone(domain) }
            }
            Net::Ofi(domain) => NetMemory::Ofi {
                gathers: domain.port().limits().gathers,
                remote: domain.port().import(peer, key)?,
                domain: Arc::clone(domain),
            },
            Net::Sim(domain) => NetMemory::Sim {
                gathers: domain.port().limits().gathers,
                remote: domain.port().import(peer, key)?,
                domain: Arc::clone(domain),
            },
        })
    }
}

/// Applies one body to the region and its port, whichever backend they belong to.
macro_rules! each_port {
    ($memory:expr, $port:ident, $at:ident => $what:expr) => {
        match $memory {
            NetMemory::Verbs { domain, remote: $at } => {
                let $port = domain.port();
                $what
            }
            NetMemory::Ofi { domain, remote: $at, .. } => {
                let $port = domain.port();
                $what
            }
            NetMemory::Sim { domain, remote: $at, .. } => {
                let $port = domain.port();
                $what
            }
        }
    };
}

impl NetMemory {
    /// The limits of posts to the region.
    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        each_port!(self, port, _at => port.limits())
    }

    /// Whether several small operations cost less as one message.
    #[inline(always)]
    pub(crate) fn gathers(&self) -> bool {
        match self {
            NetMemory::Verbs { .. } => false,
            NetMemory::Ofi { gathers, .. } | NetMemory::Sim { gathers, .. } => *gathers,
        }
    }

    /// Posts a put.
    #[inline]
    pub(crate) fn put(&self, offset: u64, from: Source, tally: &TallyRef) -> Post {
        each_port!(self, port, at => buffers::post_put(port, at, offset, from, tally))
    }

    /// Posts a put whose bytes travel inside the RDMA request, if possible, and returns whether it
    /// was posted. This post is tried before all others, since the search for the way is a large
    /// part of its cost.
    #[inline(always)]
    pub(crate) fn put_carried(&self, offset: u64, from: Source, tally: &TallyRef) -> bool {
        match self {
            NetMemory::Verbs { domain, remote } => {
                let carried = (1..=domain.port().max_inline_data()).contains(&from.len());
                carried && domain.port().try_put_inline(remote, offset, from.bytes(), tally)
            }
            NetMemory::Ofi { .. } | NetMemory::Sim { .. } => false,
        }
    }

    /// Posts a put of bytes that are copied at the call.
    pub(crate) fn put_inline(&self, offset: u64, bytes: &[u8], tally: &TallyRef) -> Post {
        each_port!(self, port, at => port.put_inline(at, offset, bytes, tally))
    }

    /// Posts a put of `len` bytes that `fill` writes.
    pub(crate) fn put_packed(&self, offset: u64, len: usize, fill: impl FnOnce(&mut [u8]), tally: &TallyRef) -> Post {
        each_port!(self, port, at => port.put_packed(at, offset, len, fill, tally))
    }

    /// Posts a put of bytes that are copied at the call, which carries a number to the target.
    pub(crate) fn put_immediate(&self, offset: u64, bytes: &[u8], immediate: Immediate, tally: &TallyRef) -> Post {
        each_port!(self, port, at => port.put_immediate(at, offset, bytes, immediate, tally))
    }

    /// Posts a get.
    #[inline]
    pub(crate) fn get(&self, offset: u64, into: &Sink, tally: &TallyRef) -> Post {
        mixed(each_port!(self, port, at => buffers::post_get(port, at, offset, into, tally)), tally)
    }

    /// Posts a put from several buffers.
    pub(crate) fn put_list(&self, offset: u64, from: &Scattered<Source>, tally: &TallyRef) -> Post {
        each_port!(self, port, at => buffers::post_put_list(port, at, offset, from, tally))
    }

    /// Posts a get into several buffers.
    pub(crate) fn get_list(&self, offset: u64, into: &Scattered<Sink>, tally: &TallyRef) -> Post {
        mixed(each_port!(self, port, at => buffers::post_get_list(port, at, offset, into, tally)), tally)
    }

    /// Posts a get into several buffers through the port's buffers.
    pub(crate) fn get_scattered(&self, offset: u64, into: &Scattered<Sink>, tally: &TallyRef) -> Post {
        mixed(each_port!(self, port, at => buffers::post_get_scattered(port, at, offset, into, tally)), tally)
    }

    /// Posts an atomic.
    #[inline]
    pub(crate) fn amo(&self, offset: u64, amo: Amo, into: &Sink, tally: &TallyRef) -> Post {
        mixed(each_port!(self, port, at => buffers::post_amo(port, at, offset, amo, into, tally)), tally)
    }

    /// Posts the requests to the device that the port holds back for the peer.
    pub(crate) fn release(&self) {
        each_port!(self, port, at => port.release(at));
    }
}

/// Notes in the tally that an operation other than a put is in flight.
#[inline]
fn mixed(post: Post, tally: &TallyRef) -> Post {
    if matches!(post, Post::Pending) {
        tally.mix();
    }
    post
}

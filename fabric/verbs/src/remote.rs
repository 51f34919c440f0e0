//! A peer's region with the connection to the peer, and the atomics that devices perform on
//! regions.

use std::sync::Arc;

use transom_fabric::{AmoKind, Coherence, Width};

use crate::device::Device;
use crate::link::Link;
use crate::sys;

/// Tag of this backend's keys.
pub(crate) const TAG: u64 = u64::from_le_bytes(*b"vrb rgn1");

/// A peer's region with the connection to the peer. The device checks accesses against the region's
/// end.
#[derive(Debug)]
pub struct VerbsRemote {
    pub(crate) link: Arc<Link>,
    pub(crate) base: u64,
    pub(crate) key: u32,
}

impl VerbsRemote {
    /// The location at `offset` of the region, as requests name it.
    pub(crate) fn at(&self, offset: u64) -> sys::Rdma {
        sys::Rdma { remote_addr: self.base + offset, rkey: self.key }
    }
}

/// The coherence of an atomic. Devices have fetch-and-add, which also serves as a read, and
/// compare-and-swap, on aligned words of 8 bytes.
pub(crate) fn coherence(device: &Device, kind: AmoKind, width: Width) -> Option<Coherence> {
    if width != Width::W64 || kind == AmoKind::Replace {
        return None;
    }
    match device.attributes.atomic_cap {
        sys::IBV_ATOMIC_HCA => Some(Coherence::DeviceOnly),
        sys::IBV_ATOMIC_GLOB => Some(Coherence::WithCpu),
        _ => None,
    }
}

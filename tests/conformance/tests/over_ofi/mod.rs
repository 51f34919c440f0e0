//! libfabric as a backend of the contract's tests.

use std::sync::Arc;

use transom_conformance::{Fixture, Orders, connect_all, peers};
use transom_fabric::{Memory, Peer};
use transom_ofi::{OfiDomain, OfiOptions};

/// A provider, and whether its queues have a descriptor.
pub(crate) struct Ofi(pub(crate) &'static str, pub(crate) bool);

impl Ofi {
    fn options(&self, rank: Peer) -> OfiOptions {
        OfiOptions { rank, provider: Some(self.0.to_owned()), descriptor: self.1, ..OfiOptions::default() }
    }
}

impl Fixture for Ofi {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        format!("ofi, provider {}", self.0)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        let domains: Vec<_> =
            peers(ranks).map(|peer| OfiDomain::open(&self.options(peer)).expect("the provider is here")).collect();
        connect_all(&domains);
        domains
    }

    /// A peer has one stream over sockets, in which messages follow puts.
    fn orders(&self) -> Orders {
        Orders { messages: !self.0.starts_with("verbs"), ..Orders::default() }
    }

    fn memory(&self, _domain: &OfiDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

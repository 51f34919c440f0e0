//! libfabric as a backend of the contract's tests.

use std::sync::Arc;

use transom_conformance::Fixture;
use transom_fabric::{Domain, Memory, Peer, Port};
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
        let peers = || (0..u32::try_from(ranks).expect("few ranks")).map(Peer);
        let domains: Vec<_> =
            peers().map(|peer| OfiDomain::open(&self.options(peer)).expect("the provider is here")).collect();
        for domain in &domains {
            for (peer, other) in peers().zip(&domains) {
                let address = other.port().address();
                domain.port().connect(peer, &address).expect("loopback");
            }
        }
        domains
    }

    fn memory(&self, _domain: &OfiDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

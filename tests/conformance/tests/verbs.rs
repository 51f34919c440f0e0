//! The contract's tests over libibverbs: all ranks on one port, and, where there are two devices, ranks taking turns between
//! them, so that packets cross a wire. They need an RDMA device, as the virtual machine of `ci/rdma-vm` has: run them there
//! with `--ignored`.
//!
//! Shows T4.
//! Route: verbs.

use std::sync::Arc;

use transom_conformance::{Fixture, conformance};
use transom_fabric::{Domain, Memory, Peer, Port};
use transom_verbs::{VerbsDomain, VerbsOptions, ports};

/// Ranks take turns between these ports.
struct Verbs(Vec<String>);

/// One port, then all ports.
fn fixtures() -> Vec<Verbs> {
    let usable = ports().into_iter().filter(|info| info.gid.is_ok());
    let all: Vec<_> = usable.map(|info| format!("{}:{}", info.device, info.port)).collect();
    assert!(!all.is_empty(), "no RDMA device: {:?}", ports());
    let mut fixtures = vec![Verbs(all[..1].to_vec())];
    if all.len() > 1 {
        fixtures.push(Verbs(all));
    }
    fixtures
}

impl Fixture for Verbs {
    type Domain = VerbsDomain;

    fn name(&self) -> String {
        format!("verbs on {}", self.0.join(" and "))
    }

    fn open(&self, ranks: usize) -> Vec<Arc<VerbsDomain>> {
        let peers = || (0..u32::try_from(ranks).expect("few ranks")).map(Peer);
        let domains: Vec<_> = peers()
            .map(|rank| {
                let devices = Some(self.0[rank.index() % self.0.len()].clone());
                let options = VerbsOptions { rank, devices, ..VerbsOptions::default() };
                VerbsDomain::open(&options).expect("a device")
            })
            .collect();
        for domain in &domains {
            for (peer, other) in peers().zip(&domains) {
                let address = other.port().address();
                domain.port().connect(peer, &address).expect("its address");
            }
        }
        domains
    }

    fn memory(&self, _domain: &VerbsDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

conformance!(ignored: "needs an RDMA device, as in ci/rdma-vm"; super::fixtures());

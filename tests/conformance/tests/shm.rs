//! The contract's tests over shared memory: every rank has its own heap, as a separate process
//! would.
//!
//! Shows T1.

use std::sync::Arc;

use transom_conformance::{Fixture, conformance};
use transom_fabric::{Domain, Memory, Peer, Port};
use transom_shm::{Heap, HeapOptions, ShmDomain};

struct Shm;

impl Fixture for Shm {
    type Domain = ShmDomain;

    fn name(&self) -> String {
        "shm".to_owned()
    }

    fn open(&self, ranks: usize) -> Vec<Arc<ShmDomain>> {
        let peers = || (0..u32::try_from(ranks).expect("few ranks")).map(Peer);
        let domains: Vec<_> = peers()
            .map(|peer| {
                let heap = Heap::create(HeapOptions::default()).expect("memfd");
                ShmDomain::new(heap, peer).expect("a fresh heap")
            })
            .collect();
        for domain in &domains {
            for (peer, other) in peers().zip(&domains) {
                let address = other.port().address();
                domain.port().connect(peer, &address).expect("mapped");
            }
        }
        domains
    }

    fn memory(&self, domain: &ShmDomain, len: usize) -> Memory {
        domain.heap().allocate(len).expect("memory of the heap")
    }
}

conformance!([super::Shm]);

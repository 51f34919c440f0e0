//! The contract's tests over shared memory: every rank has its own heap, as a separate process
//! would.
//!
//! Shows T1.

use std::sync::Arc;

use transom_conformance::{Fixture, Orders, conformance, connect_all, peers};
use transom_fabric::{AmoKind, Coherence, Domain as _, Memory, Region as _, Width};
use transom_shm::{Heap, HeapOptions, ShmDomain};

struct Shm;

impl Fixture for Shm {
    type Domain = ShmDomain;

    fn name(&self) -> String {
        "shm".to_owned()
    }

    fn open(&self, ranks: usize) -> Vec<Arc<ShmDomain>> {
        let domains: Vec<_> = peers(ranks)
            .map(|peer| {
                let heap = Heap::create(HeapOptions::default()).expect("memfd");
                ShmDomain::new(heap, peer).expect("a fresh heap")
            })
            .collect();
        connect_all(&domains);
        domains
    }

    fn orders(&self) -> Orders {
        Orders::default()
    }

    fn memory(&self, domain: &ShmDomain, len: usize) -> Memory {
        domain.heap().allocate(len).expect("memory of the heap")
    }
}

conformance!([super::Shm]);

/// The tests of atomics leave out those that a port lacks, which are none here.
#[test]
fn every_atomic_is_there() {
    let domain = Shm.open(1).remove(0);
    let region = domain.register(&Shm.memory(&domain, 64)).expect("room");
    for kind in AmoKind::ALL {
        let offers = [Width::W32, Width::W64].map(|width| region.amo(kind, width));
        assert_eq!(offers, [Some(Coherence::WithCpu); 2], "{kind:?}");
    }
}

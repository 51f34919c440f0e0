//! The contract's tests over shared memory: every rank has its own heap, as a separate process
//! would.
//!
//! Shows T1.

use std::sync::Arc;

use transom_conformance::{Fixture, Orders, conformance, connect_all, peers};
use transom_fabric::Memory;
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

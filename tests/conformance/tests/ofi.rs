//! The contract's tests over libfabric, on loopback: `tcp;ofi_rxm` and `net` of libfabric 1.17.
//! Those of the native `tcp` of later versions run on request: `ci/test "libfabric 2"`.
//!
//! Shows T3.
//! Route: tcp.

use std::sync::Arc;

use over_ofi::Ofi;
use transom_conformance::{Fixture, Orders, conformance, connect_all, peers};
use transom_fabric::{AmoKind, Domain as _, Memory, Port as _, Region as _, Width};
use transom_ofi::{Carrying, OfiDomain, OfiOptions};

mod over_ofi;

mod rxm {
    use super::*;
    conformance!([super::Ofi("tcp;ofi_rxm", true)]);
}

mod net {
    use super::*;
    conformance!([super::Ofi("net", true)]);
}

mod without_descriptor {
    use super::*;
    conformance!([super::Ofi("tcp;ofi_rxm", false)]);
}

/// libfabric 1.18 and later have this provider.
mod tcp {
    use super::*;
    conformance!(ignored: "the native tcp of libfabric 1.18 or later"; [super::Ofi("tcp", true)]);

    #[test]
    #[ignore = "the native tcp of libfabric 1.18 or later"]
    fn a_wait_after_traffic_lasts() {
        transom_conformance::messages::a_wait_after_traffic_lasts(&Ofi("tcp", true));
    }
}

#[test]
fn a_wait_after_traffic_lasts() {
    for provider in ["tcp;ofi_rxm", "net"] {
        transom_conformance::messages::a_wait_after_traffic_lasts(&Ofi(provider, true));
    }
}

/// Regression: the port asked for atomics and order together, which `ofi_rxm` refuses, and then
/// took the atomics without the order. Every message behind a put waited for the put.
#[test]
fn order_is_promised_beside_atomics() {
    let domain = Ofi("tcp;ofi_rxm", true).open(1).remove(0);
    let region = domain.register(&Memory::private(64)).expect("room");
    assert!(region.amo(AmoKind::Sum, Width::W64).is_some(), "atomics");
    assert!(domain.port().limits().ordered, "order");
}

/// A provider over sockets whose puts carry notices, which the library never chooses: the code that
/// serves `cxi` runs on a real libfabric.
struct WithNotices(&'static str);

impl Fixture for WithNotices {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        format!("ofi, provider {}, whose puts carry notices", self.0)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        let open = |rank| {
            let provider = Some(self.0.to_owned());
            let options =
                OfiOptions { rank, ranks, provider, carrying: Carrying::Known(true), ..OfiOptions::default() };
            OfiDomain::open(&options).expect("the provider is here")
        };
        let domains: Vec<_> = peers(ranks).map(open).collect();
        connect_all(&domains);
        domains
    }

    fn orders(&self) -> Orders {
        Orders { immediates: true, ..Ofi(self.0, true).orders() }
    }

    fn memory(&self, _domain: &OfiDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

mod carrying {
    use super::*;
    conformance!(["net", "tcp;ofi_rxm"].map(super::WithNotices));

    mod tcp {
        use super::*;
        conformance!(ignored: "the native tcp of libfabric 1.18 or later"; [super::WithNotices("tcp")]);
    }
}

//! The contract's tests over libfabric, on loopback: one run for each installed provider.
//! `tcp;ofi_rxm` must be installed.
//!
//! Shows T3.
//! Route: tcp.

use over_ofi::Ofi;
use transom_conformance::conformance;

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

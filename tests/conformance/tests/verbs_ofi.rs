//! The contract's tests over libfabric's `verbs;ofi_rxm`, which wants origin buffers registered. They need an RDMA device, as the
//! virtual machine of `ci/rdma-vm` has: run them there with `--ignored`.
//!
//! Shows T3, T4.
//! Route: verbs.

use transom_conformance::conformance;

mod over_ofi;

conformance!(ignored: "needs an RDMA device, as in ci/rdma-vm"; [super::over_ofi::Ofi("verbs;ofi_rxm", true)]);
